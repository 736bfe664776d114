# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes of the lab have of the world: each shipped topology has it on some node, and it is what the lab's documentation lists."""

from __future__ import annotations

import copy
import json
import pathlib
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests" / "lab"))
from mcnlab import topology, world  # pylint: disable=wrong-import-position
from mcnlab.errors import LabError  # pylint: disable=wrong-import-position

NAMES = ("two", "three", "dual")


def shipped(name):
    return json.loads((REPO / "tests" / "lab" / "topologies" / (name + ".json")).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_every_default_topology_is_like_the_world(name):
    made = topology.parse(shipped(name))
    likes = {kind for node in made.nodes for kind in node.like}
    six = any(":" in cidr for cluster in made.clusters for cidr in cluster.pod_cidrs)
    assert likes == set(world.KINDS) - ({world.NO_IPV6} if six else set()), "IPv6 is off where no range is of it"
    assert six or any(node.more_addresses for node in made.nodes)
    assert any(not node.like and not node.more_addresses for cluster in made.clusters for node in cluster.nodes), (
        "and a node like none, to compare with"
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_are_a_cnis_and_leave_out_the_other_clusters_ranges_alone(name):
    made = topology.parse(shipped(name))
    cluster, node = made.cluster("aws"), made.node("aws-node-2")
    text = world.tables(made, cluster, node)
    families = ["ip", "ip6"] if name == "dual" else ["ip"]
    assert [line.split()[2] for line in text.splitlines() if line.startswith("delete table")] == families
    others = ", ".join(
        cidr for other in made.clusters if other.name != "aws" for cidr in other.pod_cidrs if ":" not in cidr
    )
    assert f"ip saddr {{ 10.2.4.0/24 }} ip daddr != {{ 10.2.0.0/16, {others} }} masquerade" in text
    assert "policy drop;\n  ip saddr { 10.2.0.0/16 } accept\n  ip daddr { 10.2.0.0/16 } accept\n" in text
    assert world.tables(made, cluster, made.node("aws-node-1")) == ""


def test_a_kind_that_nothing_is_like_is_refused():
    wrong = copy.deepcopy(shipped("two"))
    wrong["clusters"]["aws"]["nodes"]["aws-node-1"]["like"] = ["cilium"]
    with pytest.raises(LabError, match="node aws-node-1 is like cilium; it may be like masquerade, forward-drop"):
        topology.parse(wrong)
