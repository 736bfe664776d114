# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What any capability refuses, ``preflight`` finds before it: the words that end ``site`` are errors of ``preflight``, over two real API servers."""

from __future__ import annotations

import re

import pytest
import yaml
from mcs_clusters import other, pair  # pylint: disable=unused-import
from set_kinds import withdraw
from test_limit import play, whole  # pylint: disable=unused-import
from test_mcs_playbooks import DEPLOYMENTS, MAPS, fabric  # pylint: disable=unused-import

__all__ = ["fabric", "other", "pair", "whole"]
REASON = re.compile(r"\[([a-z_]+)\]")


def settings(folder, cluster=None, **changed):
    """Write variables of the run, or of a cluster's host."""
    path = folder / "hosts.yml"
    tree = yaml.safe_load(path.read_text())
    (tree["all"]["vars"] if cluster is None else tree["all"]["children"]["clusters"]["hosts"][cluster]).update(changed)
    path.write_text(yaml.safe_dump(tree))


@pytest.fixture
def quiet(whole):
    """The whole fabric, with addresses that something else announces: ``site`` ends well."""
    for number, name in enumerate(("aws", "gcp")):
        pool = {"load_balancer": "empty://", "pool": [f"203.0.113.{8 * number}/30"], "announced_by": "other"}
        settings(whole, name, load_balancers_settings=pool)
    return whole


def findings(folder):
    """(exit code, {(level, where, reason)}, everything that was printed) of preflight."""
    file = folder / "findings.json"
    file.unlink(missing_ok=True)
    code, shown = play(folder, "preflight", "-e", f"preflight_file={file}")
    rows = yaml.safe_load(file.read_text()) if file.exists() else []
    return code, {(row["level"], row["where"], row["reason"]) for row in rows}, shown


def written(pair, mark):
    """What was written since the mark; a question for one's own rights is none."""
    return [
        row for rows in pair.writes(mark).values() for row in rows if not row[1].endswith("/selfsubjectrulesreviews")
    ]


def broken(pair, folder):
    """Each condition that ends a capability; returns the words that preflight must have for them."""
    settings(folder, service_mirror_create_namespace=False, service_mirror_namespace="nobody-made-it")
    withdraw(pair.servers["gcp"].client(), "calico")
    pair.clients["gcp"].delete(MAPS + "/coredns")
    settings(folder, "gcp", load_balancers_settings={"load_balancer": "metallb:///metallb-system/config"})
    return {"mirror_namespace_missing", "not_found", "kind_not_served", "quota"}


def test_a_fabric_in_order_has_no_error_and_site_does_its_work(pair, quiet):
    mark = pair.mark()
    code, found, shown = findings(quiet)
    assert code == 0 and not [row for row in found if row[0] == "error"], shown[-4000:]
    assert written(pair, mark) == []
    code, shown = play(quiet, "site")
    assert code == 0, shown[-4000:]
    play(quiet, "teardown")


@pytest.mark.takes_long
def test_what_site_refuses_and_what_ends_it_is_in_preflight(pair, quiet):
    words = broken(pair, quiet)
    mark = pair.mark()
    code, found, shown = findings(quiet)
    assert written(pair, mark) == []
    assert code == 2 and words == {reason for dummy, dummy_too, reason in found} & words, (sorted(found), shown[-4000:])
    whole = {"mirror_namespace_missing", "not_found", "kind_not_served"}  # a capability can do nothing in a cluster
    assert {reason for level, dummy, reason in found if level == "error"} == whole
    assert "no obstacle was found" not in shown and shown.count("there is no Corefile") == 1, shown[-4000:]
    code, shown = play(quiet, "site")
    said = set(REASON.findall(shown))
    assert code == 2 and words <= said, (words - said, shown[-6000:])
    settings(quiet, service_mirror_namespace="default")
    settings(
        quiet,
        "gcp",
        load_balancers_settings={"load_balancer": "empty://", "pool": ["203.0.113.8/30"], "announced_by": "other"},
    )
    code, shown = play(quiet, "site")
    assert findings(quiet)[0] == code == 2, shown[-4000:]
    row = next(line for line in shown.splitlines() if line.strip().startswith('"gcp '))
    # names and sets of gcp were refused whole there, which is no success
    assert row.split("refused 1")[0].count("ok") == 2 and "ok, refused 1" not in row, row
    play(quiet, "teardown")


@pytest.mark.takes_long
def test_a_corefile_that_somebody_writes_back_is_named(pair, quiet):
    """G15: which add-on owns the Corefile, is reported before the first run and not in the middle of it."""
    config = pair.clients["aws"].get(MAPS + "/coredns")
    labels = {"metadata": {"labels": {"addonmanager.kubernetes.io/mode": "Reconcile"}}}
    pair.clients["aws"].merge_patch(MAPS + "/coredns", labels, "addon-manager")
    code, found, shown = findings(quiet)
    assert code == 0 and ("warning", "coredns_rewrite", "plan_warning") in found, shown[-4000:]
    assert "that of the add-on manager" in " ".join(shown.split()) and config["data"]
    # status makes the same plans, and shows their warnings nowhere else
    files = (("page", "html"), ("document", "json"), ("metrics", "prom"))
    places = [part for name, end in files for part in ("-e", f"status_{name}={quiet}/status.{end}")]
    assert "that of the add-on manager" in " ".join(play(quiet, "status", *places)[1].split())


@pytest.mark.parametrize(
    "version",
    [
        pytest.param("coredns/coredns", marks=pytest.mark.takes_long),
        "registry.example/dns@sha256:" + 64 * "0",
    ],
)
def test_a_coredns_of_an_unknown_version_is_found(pair, quiet, version):
    deployment = pair.clients["gcp"].get(DEPLOYMENTS + "/coredns")
    containers = [dict(one, image=version) for one in deployment["spec"]["template"]["spec"]["containers"]]
    change = {"spec": {"template": {"spec": {"containers": containers}}}}
    pair.clients["gcp"].merge_patch(DEPLOYMENTS + "/coredns", change, "kubectl")
    code, found, shown = findings(quiet)
    assert "coredns_version_unknown" in {reason for dummy, dummy_too, reason in found}, (code, shown[-4000:])
    assert code == 0 and "coredns_version_unknown" in play(quiet, "site", "--check")[1]  # all names but the zone's
