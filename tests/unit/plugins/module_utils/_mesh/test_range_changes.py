# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two plans of a mesh that differ in pod ranges alone are orders for peers; all else needs a whole run."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.pod_range_readers import Objects
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.range_changes import (
    RangeChanges,
    join_orders,
    range_changes,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.semaphore import plan_semaphore_mesh
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan

KEYS = {
    ("aws", 1): "20+DPsIsMA79+kkXNG1Raoe0hi0bnRf+xUJWhBtB6h8=",
    ("gcp", 1): "ZIaHH+/lKD6Qd4cGGQnQcBWBKkasTnRUJ7m30oCgcAA=",
    ("gcp", 2): "0aWsmgFfrC73s0FnNjVRKhUR9B/jfREbJn8DnuxdT1g=",
}
FIRST, SECOND = KEYS["gcp", 1], KEYS["gcp", 2]
SEAT = {"aws": ("gcp", "10.66.23"), "gcp": ("aws", "10.22.22")}


def node(cluster, number):
    remote, network = SEAT[cluster]
    key, address = KEYS[cluster, number], f"{network}.{number}"
    notes = {"pubKey": key, "endpoint": f"{address}:51821"}
    return {
        "metadata": {
            "name": f"{cluster}-{number}",
            "annotations": {f"{remote}.wireguard.semaphore.uw.io/{name}": text for name, text in notes.items()},
        },
        "spec": {"podCIDR": "10.2.1.0/24", "podCIDRs": ["10.2.1.0/24"]} if cluster == "aws" else {},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
    }


def affinity(number, cidr, **more):
    spec = {"node": f"gcp-{number}", "cidr": cidr, "state": "confirmed", "deleted": "false"}
    return {"metadata": {"name": f"gcp-{number}-{cidr.replace('/', '-')}"}, "spec": dict(spec, **more)}


def block(number, cidr, *borrowers):
    """A block of Calico; borrowers: the numbers of nodes that have its first addresses."""
    rows = [{"handle_id": "x", "secondary": {"node": f"gcp-{borrower}"}} for borrower in borrowers]
    spec = {"cidr": cidr, "affinity": f"host:gcp-{number}", "allocations": list(range(len(rows))), "attributes": rows}
    return {"metadata": {"name": cidr}, "spec": spec}


ONE = [affinity(1, "10.4.1.0/26"), affinity(2, "10.4.2.0/26")]


def plan(affinities, blocks=(), nodes=("aws", 1), **variables):
    gcp = dict({"pod_cidrs": ["10.4.0.0/16"], "wireguard_port": 51821, "pod_ranges": "calico"}, **variables)
    definition = {
        "name": "seed",
        "clusters": {"aws": {"pod_cidrs": ["10.2.0.0/16"], "wireguard_port": 51821}, "gcp": gcp},
        "nodes": {f"{name}-{number}": {"multicluster_cluster": name} for name, number in KEYS},
    }
    found, findings = load_fabric(definition)
    assert findings == []
    listings = {
        "aws": {"nodes": [node("aws", 1)]},
        "gcp": {
            "nodes": [node("gcp", 1), node("gcp", 2)],
            "ranges": Objects(affinities=list(affinities), blocks=list(blocks)),
        },
    }
    return plan_semaphore_mesh(found, listings).to_json()


def only(peers, borrowed=()):
    return RangeChanges({"aws": {"wireguard.gcp": {"peers": peers, "borrowed": list(borrowed)}}})


def test_the_same_is_nothing():
    assert range_changes(MeshPlan.from_json(plan(ONE)), MeshPlan.from_json(plan(ONE))) == RangeChanges({})


def test_a_new_block_is_one_peer_of_the_other_clusters():
    after = plan([*ONE, affinity(1, "10.4.9.0/26")])
    assert range_changes(MeshPlan.from_json(plan(ONE)), MeshPlan.from_json(after)) == only(
        {FIRST: ["10.4.1.0/26", "10.4.9.0/26"]}
    )
    assert range_changes(MeshPlan.from_json(after), MeshPlan.from_json(plan(ONE))) == only({FIRST: ["10.4.1.0/26"]}), (
        "and one that goes is, too"
    )


def test_a_block_that_moves_is_one_order_with_both_peers():
    before = plan([*ONE, affinity(1, "10.4.9.0/26")])
    after = plan([*ONE, affinity(2, "10.4.9.0/26")])
    peers = {FIRST: ["10.4.1.0/26"], SECOND: ["10.4.2.0/26", "10.4.9.0/26"]}
    assert range_changes(MeshPlan.from_json(before), MeshPlan.from_json(after)) == only(peers)


def test_a_borrowed_address_is_named():
    after = plan(ONE, [block(1, "10.4.1.0/26", 2), block(2, "10.4.2.0/26")])
    assert range_changes(MeshPlan.from_json(plan(ONE)), MeshPlan.from_json(after)) == only(
        {SECOND: ["10.4.2.0/26", "10.4.1.0/32"]}, ["10.4.1.0/32"]
    )


def test_what_the_inventory_does_not_grant_is_no_order():
    after = plan([*ONE, affinity(1, "10.9.9.0/26")])
    assert range_changes(MeshPlan.from_json(plan(ONE)), MeshPlan.from_json(after)) == RangeChanges({})
    assert [row["reason"] for row in after["refused"]] == ["outside_grant"]


def test_overlapping_ranges_are_refused_by_name_and_no_order():
    after = plan([*ONE, affinity(1, "10.4.2.0/25")])
    assert range_changes(MeshPlan.from_json(plan(ONE)), MeshPlan.from_json(after)) == RangeChanges({})
    assert [row["reason"] for row in after["refused"]] == ["claimed_twice"]


def test_a_first_range_is_an_order_and_a_run_of_its_node():
    orders, more = range_changes(MeshPlan.from_json(plan(ONE[:1])), MeshPlan.from_json(plan(ONE)))
    assert orders == only({SECOND: ["10.4.2.0/26"]}).orders
    assert more == "whether host gcp-2 has a pod range"


def peer_of(topology):
    return topology["clusters"]["aws"]["remotes"]["gcp"]["peers"][0]


@pytest.mark.parametrize(
    "change, more",
    [
        (lambda plan: peer_of(plan).update(public_key=KEYS["aws", 1]), "peers of cluster gcp at nodes of aws"),
        (lambda plan: peer_of(plan).update(endpoint="10.22.22.9:51821"), "peers of cluster gcp at nodes of aws"),
        (
            lambda plan: plan["clusters"]["aws"]["remotes"]["gcp"]["peers"].pop(),
            "peers of cluster gcp at nodes of aws",
        ),
        (
            lambda plan: plan["clusters"]["aws"]["remotes"]["gcp"].update(complete=False),
            "peers of cluster gcp at nodes of aws",
        ),
        (
            lambda plan: plan["clusters"]["aws"]["remotes"]["gcp"].update(routes=[]),
            "peers of cluster gcp at nodes of aws",
        ),
        (lambda plan: plan["clusters"]["aws"].update(keep_pod_addresses=None), "settings of cluster aws"),
        (lambda plan: plan["nodes"].pop("gcp-2"), "the nodes of the fabric"),
        (lambda plan: plan["nodes"]["gcp-2"].update(published={}), "what host gcp-2 publishes"),
    ],
)
def test_whatever_else_differs_needs_a_whole_run(change, more):
    before, after = plan(ONE), copy.deepcopy(plan([*ONE, affinity(1, "10.4.9.0/26")]))
    change(after)
    assert range_changes(MeshPlan.from_json(before), MeshPlan.from_json(after)) == RangeChanges({}, more)


def test_ranges_that_are_not_known_are_no_order():
    before, after = plan(ONE), plan([*ONE, affinity(1, "10.4.9.0/26")])
    for topology in (before, after):
        topology["clusters"]["aws"]["remotes"]["gcp"]["ranges_known"] = False
    assert range_changes(MeshPlan.from_json(before), MeshPlan.from_json(after)).more


def test_orders_that_wait_are_joined_and_the_last_ranges_of_a_peer_count():
    first = {"wireguard.gcp": {"peers": {FIRST: ["10.4.1.0/26"], SECOND: ["10.4.2.0/26"]}, "borrowed": []}}
    later = {"wireguard.gcp": {"peers": {FIRST: []}, "borrowed": ["10.4.2.1/32"]}}
    other = {"wireguard.third": {"peers": {"x": []}, "borrowed": []}}
    joined = {"peers": {FIRST: [], SECOND: ["10.4.2.0/26"]}, "borrowed": ["10.4.2.1/32"]}
    assert join_orders(first, {**later, **other}) == {"wireguard.gcp": joined, **other}
    assert first["wireguard.gcp"]["peers"][FIRST] == ["10.4.1.0/26"]
