# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What deleted clusters left behind, over HTTP against the double."""

from __future__ import annotations

import json

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import ccm_cleanup
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.reservations import (
    Owner,
    service_tags,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from equinix_cloud import PROJECT, TOKEN, double, uid

__all__ = ["double"]
GONE = "5a3e0c4e-6a1f-4a55-9d0c-3b2d2f6b1c11"


@pytest.fixture
def project(double):
    """Two addresses of the cluster that is gone, one of them still assigned, and five that are not its."""
    double.ask("/reset", page=2)
    tags = service_tags(Owner("packet-ccm", GONE), "default", "web")
    device = double.ask("/devices", hostname="left", number=1)["id"]
    for ident, given in (
        ("web", tags),
        ("db", service_tags(Owner("metal-ccm", GONE), "default", "db")),
        ("plain", []),
        ("cp", ["control-plane"]),
        ("other", [tags[0], tags[1], "cluster=another"]),
        ("old", tags[:2]),
        ("half", tags[2:]),
    ):
        double.ask("/reservations", tags=given, id=ident)
    address = next(row["address"] for row in double.held() if row["id"] == "db")
    request(double, "POST", f"/devices/{device}/ips", {"address": address})
    return double


def request(double, method, path, body):
    import urllib.request

    asked = urllib.request.Request(
        double.root + "/metal/v1" + path, json.dumps(body).encode(), {"X-Auth-Token": TOKEN}, method=method
    )
    with urllib.request.urlopen(asked, timeout=20) as answer:
        return json.loads(answer.read())


def run(double, check=False, **more):
    ask = dict(
        {
            "cluster_uid": GONE,
            "base_url": double.root + "/metal/v1",
            "allow_plain_http": True,
            "api_key": TOKEN,
            "project_id": PROJECT,
            "timeout": 20,
        },
        **more,
    )
    result = ccm_cleanup.run(ask, check=check)
    assert TOKEN not in json.dumps(result)
    return result


def left(double):
    return sorted(row["id"] for row in double.held())


def ids(rows):
    return sorted(row["id"] for row in rows)


def test_listed_with_proof_and_released_when_confirmed(project):
    before = len(project.calls())
    result = run(project)
    assert (
        ids(result["release"]) == ["web"]
        and ids(result["blocked"]) == ["db"]
        and result["kept"] == 5 + 1
        and not result["changed"]
    )
    assert "cluster=" + GONE in result["release"][0]["tags"] and "usage=packet-ccm-auto" in result["release"][0]["tags"]
    result = run(project, check=True, confirm=True)
    assert [(one["action"], one["id"]) for one in result["plan"]["changes"]] == [("delete", "web")] and result[
        "changed"
    ]
    assert all(call.startswith("GET ") for call in project.calls()[before:]) and len(left(project)) == 7
    result = run(project, confirm=True)
    assert {(one["object"], one["reason"]) for one in result["refused"]} == {("reservation db", "blocked")}
    assert left(project) == ["cp", "db", "half", "old", "other", "plain"]
    assert not run(project, confirm=True)["changed"]
    assert run(project, confirm=True, force=True)["plan"]["delete"] == 1
    assert left(project) == ["cp", "half", "old", "other", "plain"]


def test_a_cluster_that_lives_is_refused(server, project):
    own = service_tags(Owner("metal-ccm", uid(server.client())), "default", "web")
    project.ask("/reservations", tags=own, id="alive")
    result = run(project, confirm=True, cluster_uid=uid(server.client()), clusters=[server.access()])
    assert [one["reason"] for one in result["refused"]] == ["cluster_alive"] and "alive" in left(project)
    unreachable = dict(server.access(), api_url="https://127.0.0.1:1")
    result = run(project, confirm=True, clusters=[unreachable], timeout=6)
    assert result["failures"] and len(left(project)) == 8
    assert run(project, confirm=True, clusters=[server.access()])["plan"]["delete"] == 1 and "alive" in left(project)


@pytest.mark.parametrize("given", [None, "", "  "])
def test_without_a_uid_nothing_is_asked(project, given):
    before = len(project.calls())
    with pytest.raises(ValueRefused) as raised:
        run(project, confirm=True, cluster_uid=given)
    assert raised.value.reason == "missing_cluster_uid" and len(project.calls()) == before


def test_half_a_list_and_failing_releases(project):
    project.ask("/faults", method="GET", path="/ips$", status=500, times=1)
    result = run(project, confirm=True, force=True)
    assert [one["reason"] for one in result["failures"]] == ["api"] and len(left(project)) == 7
    project.ask("/faults", method="DELETE", path="/ips/web$", status=500, times=1)
    result = run(project, confirm=True, force=True)
    assert {(one["object"], one["reason"]) for one in result["refused"]} == {
        ("reservation web", "api")
    } and "db" not in left(project)
    project.ask("/faults", method="DELETE", path="/ips/web$", status=404, times=1, after=True)
    assert run(project, confirm=True)["plan"]["delete"] == 1 and "web" not in left(project)
    project.ask("/faults", path="", status=401, times=1)
    assert [one["reason"] for one in run(project, confirm=True)["failures"]] == ["auth"]


def test_another_identity_is_not_swept_unless_adopted(project):
    assert run(project, confirm=True, adopt_identities=["metal-ccm"])["release"] == [] and "web" in left(project)
