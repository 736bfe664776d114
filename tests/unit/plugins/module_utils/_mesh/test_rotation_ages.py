# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which keys change by their age: those of one cluster, while all nodes answer and no other rotation goes on."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.rotation import FINISHED
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import rotation_checks as checks
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import (
    ClusterPlan,
    MeshPlan,
    NodePlan,
)
from ansible_collections.multicluster.network.plugins.module_utils._status import page, screen
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

DAY = 86400
PLACES = {"aws-1": "aws", "aws-2": "aws", "gcp-1": "gcp", "gcp-2": "gcp"}


def mesh(**rotation: t.Any) -> MeshPlan:
    nodes = {
        host: NodePlan(cluster, host, publishable=True, rotation=rotation.get(host.replace("-", "_"), {}))
        for host, cluster in PLACES.items()
    }
    return MeshPlan(fabric="demo", nodes=nodes, clusters={"aws": ClusterPlan(), "gcp": ClusterPlan()})


def due(ages: dict[str, int | None], plan: MeshPlan | None = None, hosts: t.Sequence[str] = tuple(PLACES)) -> list[str]:
    return checks.due_hosts(plan or mesh(), hosts, ages, 90 * DAY)


@pytest.mark.parametrize(
    "text, seconds", [("90d", 90 * DAY), ("12h", 12 * 3600), ("30min", 1800), ("600s", 600), ("1d", DAY)]
)
def test_ages_have_a_unit(text: str, seconds: int) -> None:
    assert checks.parse_age(text) == seconds


@pytest.mark.parametrize("text", ["90", "d", "0d", "-1d", "90 d", "90D", "90d\n", "1w", "٩d"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(ValueRefused, match="rotate_older_than"):
        checks.parse_age(text)


def test_old_keys_of_one_cluster_change_and_the_oldest_comes_first() -> None:
    ages: dict[str, int | None] = {"aws-1": 91 * DAY, "aws-2": 1, "gcp-1": 95 * DAY, "gcp-2": 92 * DAY}
    assert due(ages) == ["gcp-1", "gcp-2"]
    assert due({**ages, "gcp-1": 1, "gcp-2": 1}) == ["aws-1"]
    assert due(dict.fromkeys(PLACES, 90 * DAY)) == []
    assert due({**ages, "gcp-1": None, "gcp-2": None}) == ["aws-1"]
    assert due(ages, hosts=["aws-1", "aws-2"]) == ["aws-1"]


def test_no_key_changes_while_a_node_does_not_answer() -> None:
    with pytest.raises(ValueRefused, match="gcp-2") as caught:
        due({"aws-1": 91 * DAY, "aws-2": 1, "gcp-1": 1})
    assert caught.value.reason == "unreachable"


def test_a_rotation_that_goes_on_is_ended_before_another_key_changes() -> None:
    going = mesh(aws_1={"gcp": {"phase": "aside", "port": 52821}})
    assert due(dict.fromkeys(PLACES, 91 * DAY), going) == []
    assert "goes on with" in checks.lines(going, [], FINISHED, False)[0]
    assert checks.lines(mesh(), [], FINISHED, False)[-1].startswith("no key is older")


def test_status_shows_age_and_generation() -> None:
    rows = [{"host": host, "preshared": {"gcp": 2}} for host in ("a", "b")] + [{"host": "c"}]
    assert screen._preshared({"nodes": rows}) == ["preshared keys: generation 2 on 2 nodes of 3"]
    assert screen._preshared({"nodes": rows[2:]}) == []
    assert page._generations(rows[0]) == "generation 2" and page._generations(rows[2]) == ""
