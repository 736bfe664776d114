# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sources that do not answer, or not with everything: what is kept, what is taken out, and when."""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.module_utils._flows.runs import outages
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import mirror as service_mirror
from mirror_clusters import FLUENTD, PODS, dead, fluentd, other, two  # pylint: disable=unused-import

__all__ = ["fluentd", "other", "two"]


def test_unreachable_sources(fluentd):
    two = fluentd
    two.run(mirror_as="endpoints")
    mark = two.mark()
    result = service_mirror.run(dead(two.request(mirror_as="endpoints", on_unreachable="keep", max_deletes=-1)))
    assert not result["changed"] and result["failures"][0]["cause"] == "unreachable" and two.writes(mark)["gcp"] == []
    assert result["sources"]["aws"] == {"listed": False, "mirrors": 0, "global": 0, "without_endpoints": 0}

    result = service_mirror.run(dead(two.request(mirror_as="endpoints", on_unreachable="not_ready")))
    subset = two.get("gcp", "Endpoints", FLUENTD)["subsets"][0]
    assert "addresses" not in subset and [a["ip"] for a in subset["notReadyAddresses"]] == sorted(PODS)
    mark = two.mark()
    assert not service_mirror.run(dead(two.request(mirror_as="endpoints", on_unreachable="not_ready")))["changed"]
    assert two.writes(mark)["gcp"] == []
    assert two.run(mirror_as="endpoints", on_unreachable="not_ready")["plan"]["update"] == 1
    assert len(two.get("gcp", "Endpoints", FLUENTD)["subsets"][0]["addresses"]) == 3
    service_mirror.run(dead(two.request(mirror_as="endpoints", on_unreachable="empty")))
    assert not two.get("gcp", "Endpoints", FLUENTD).get("subsets")
    assert not service_mirror.run(dead(two.request(mirror_as="endpoints", on_unreachable="empty")))["changed"]
    assert two.run(mirror_as="endpoints")["plan"]["update"] == 1


def test_grace_time(fluentd, monkeypatch):
    two = fluentd
    two.run(mirror_as="endpoints")
    now = [1000000]
    monkeypatch.setattr(outages.time, "time", lambda: now[0])
    more = {"mirror_as": "endpoints", "on_unreachable": "empty", "unreachable_grace": 300}
    assert service_mirror.run(dead(two.request(**more)))["plan"]["create"] == 1
    assert two.get("gcp", "ConfigMap", "service-mirror-outages-t")["data"] == {"aws": "1000000"}
    now[0] += 299
    mark = two.mark()
    assert not service_mirror.run(dead(two.request(**more)))["changed"] and two.writes(mark)["gcp"] == []
    now[0] += 1
    assert service_mirror.run(dead(two.request(**more)))["plan"]["update"] == 1
    assert not two.get("gcp", "Endpoints", FLUENTD).get("subsets")
    result = two.run(**more)
    assert (result["plan"]["update"], result["plan"]["delete"]) == (1, 1)
    assert not two.run(**more)["changed"]


def test_a_refused_list_never_deletes(fluentd):
    two = fluentd
    two.run(mirror_as="endpoints")
    rules = [{"apiGroups": [""], "resources": ["services"], "verbs": ["list"]}]
    two.put(
        "aws",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "half"},
            "rules": rules,
        },
    )
    two.put(
        "aws",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "half"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "half"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "half"}],
        },
    )
    request = two.request(mirror_as="endpoints", max_deletes=-1, on_unreachable="empty", confirm_empty=["aws"])
    request["clusters"][0].update(impersonate_user="half", allow=["impersonation"])
    mark = two.mark()
    result = service_mirror.run(request)
    assert (
        [row["cause"] for row in result["failures"]] == ["forbidden"]
        and not result["changed"]
        and two.writes(mark)["gcp"] == []
    )
