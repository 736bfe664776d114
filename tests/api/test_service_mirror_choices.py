# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the owners of Services choose by annotations, where the inventory honours it, and labels that are copied on request."""

from __future__ import annotations

import pytest
from mirror_clusters import FLUENTD, LABEL, PODS, endpoints, fluentd, other, reasons, service, two  # pylint: disable=unused-import

__all__ = ["fluentd", "other", "two"]
LABELS = {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
ALL = ["ports", "clusters", "exported_name"]


def annotated(name, **choices):
    made = service("sys-log", name)
    made["metadata"]["annotations"] = {
        "mirror.semaphore.uw.io/" + key.replace("_", "-"): value for key, value in choices.items()
    }
    return made


def run(two, **more):
    result = two.run(mirror_as="endpoints", honour_annotations=ALL, **more)
    assert result["failures"] == []
    return result


def test_nobody_is_asked_without_the_option(fluentd):
    fluentd.put("aws", annotated("fluentd", ports="http", clusters="nowhere", exported_name="logs"))
    fluentd.run(mirror_as="endpoints")
    assert len(fluentd.get("gcp", "Service", FLUENTD)["spec"]["ports"]) == 2


def test_ports(fluentd):
    two = fluentd
    for text, port in (("http", 8888), (" 8889 ,", 8889)):
        two.put("aws", annotated("fluentd", ports=text))
        assert run(two)["refused"] == []
        assert [one["port"] for one in two.get("gcp", "Service", FLUENTD)["spec"]["ports"]] == [port]
        assert [one["port"] for one in two.get("gcp", "Endpoints", FLUENTD)["subsets"][0]["ports"]] == [port]
        assert not run(two)["changed"]
    two.put("aws", annotated("fluentd", ports="http,ftp"))
    assert ("aws/sys-log/fluentd", "ports_invalid") in reasons(run(two))


def test_clusters(fluentd):
    two = fluentd
    two.put("aws", annotated("fluentd", clusters="gcp"))
    assert run(two)["plan"]["create"] >= 2
    two.put("aws", annotated("fluentd", clusters="azure, merit"))
    assert run(two, confirm_empty=["aws"])["plan"]["delete"] == 2 and two.names("gcp", "Service") == []


def test_exported_name(fluentd):
    two, long = fluentd, "s" * 60
    two.put("aws", annotated(long, exported_name="logs"), endpoints("sys-log", long, PODS[0]))
    assert run(two)["refused"] == []
    assert two.names("gcp", "Service") == [FLUENTD, "aws-sys-log-73736d-logs"] == two.names("gcp", "Endpoints")
    # a Service that is called so comes first, whoever wants to be
    two.put("aws", annotated("another", exported_name="fluentd"), annotated("bad", exported_name="no name"))
    assert sorted(reasons(run(two))) == [("aws/sys-log/another", "claimed_twice"), ("aws/sys-log/bad", "name_invalid")]
    assert len(two.get("gcp", "Endpoints", FLUENTD)["subsets"][0]["addresses"]) == 3


def test_labels_and_annotations_are_copied_by_name_only(fluentd):
    two = fluentd
    made = service("sys-log", "fluentd", labels=dict(LABEL, team="blue", tier="x"))
    made["metadata"]["annotations"] = {"owner": "ops", "other": "no"}
    two.put("aws", made)
    more = {"copy_labels": ["team", "none"], "copy_annotations": ["owner"]}
    run(two, **more)
    meta = two.get("gcp", "Service", FLUENTD)["metadata"]
    assert meta["labels"] == dict(LABELS, team="blue") and meta["annotations"] == {"owner": "ops"}
    assert two.get("gcp", "Endpoints", FLUENTD)["metadata"]["labels"] == LABELS
    assert not run(two, **more)["changed"]
    assert run(two)["plan"]["update"] == 1
    meta = two.get("gcp", "Service", FLUENTD)["metadata"]
    assert meta["labels"] == LABELS and not meta.get("annotations")
    for option in ("copy_labels", "copy_annotations"):
        with pytest.raises(ValueError, match="name_invalid"):
            run(two, **{option: ["mirrored-svc"]})
