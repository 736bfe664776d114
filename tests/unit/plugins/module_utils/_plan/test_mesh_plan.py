# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The JSON form of plans, against recorded ones: what hosts, results and files get is the same, byte for byte with sorted keys.

They were recorded when a plan was a dict. Who changes what plans contain records them anew, and looks at what differs.
"""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.pod_range_readers import Objects
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import slices
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kept_addresses import kept_table
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kubespan import (
    node_kubespan,
    plan_kubespan_mesh,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.semaphore import (
    node_part,
    plan_semaphore_mesh,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import to_wire

TESTS = next(folder for folder in pathlib.Path(__file__).parents if folder.name == "tests")
RECORDED = json.loads((TESTS / "fixtures" / "mesh_plans.json").read_text("utf-8"))


def canonical(value):
    return json.dumps(to_wire(value), sort_keys=True)


def planned(given):
    fabric = load_fabric(given["definition"])[0]
    listings = {
        name: dict(row, ranges=Objects(**row["ranges"])) if "ranges" in row else row
        for name, row in given["listings"].items()
    }
    if given["mode"] == "semaphore":
        return plan_semaphore_mesh(fabric, listings, given["reported"])
    return plan_kubespan_mesh(fabric, listings, given["mesh_id"], given["reported"], given["registries"])


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_a_plan_has_the_recorded_json_form(number):
    row = RECORDED[number]
    assert canonical(planned(row["input"]).to_json()) == canonical(row["plan"])


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_json_is_read_and_written_without_loss(number):
    row = RECORDED[number]
    plan = MeshPlan.from_json(row["plan"])
    assert canonical(plan.to_json()) == canonical(row["plan"])
    more = {
        "ip_pools": {"aws": []},
        "without_host": {},
        "pod_places": {},
        "left_clusters": {},
        "same_clusters": [["a", "b"]],
    }
    whole = dict(row["plan"], **more)
    assert canonical(MeshPlan.from_json(whole).to_json()) == canonical(whole)


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_what_a_node_gets_is_the_recorded_json(number):
    row = RECORDED[number]
    for plan in (MeshPlan.from_json(row["plan"]), planned(row["input"])):
        for host, parts in row["hosts"].items():
            assert canonical(node_part(plan, host)) == canonical(parts["devices"])
            assert canonical(node_kubespan(plan, host)) == canonical(parts["kubespan"])
            assert canonical(kept_table(plan, host)) == canonical(parts["table"])


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_what_jobs_agree_on_is_the_recorded_digest(number):
    row = RECORDED[number]
    assert slices.digests(MeshPlan.from_json(row["plan"]), row["input"]["definition"]) == row["digests"]


def test_a_node_is_parsed_when_it_is_read():
    plan = MeshPlan.from_json({"nodes": {"one": {"cluster": "aws"}, "two": "no object"}})
    assert list(plan.nodes) == ["one"]
    assert plan.nodes["one"] is plan.nodes["one"]
    assert (plan.node("one").cluster, plan.node("two").cluster) == ("aws", "")
    assert plan.nodes == {"one": plan.node("one")}


def test_a_plan_of_nothing():
    plan = MeshPlan.from_json({})
    assert (plan.mode, plan.spans_nodes, dict(plan.nodes), plan.cluster("aws").exported.pairs) == (
        "semaphore",
        False,
        {},
        {},
    )
