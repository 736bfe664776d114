# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From Node listings and hosts' own reports to one mesh: what is claimed, what holds, what is published."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.pod_range_readers import Objects
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.annotations import encode
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.identity import mesh_address
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kubespan import (
    annotations_to_publish,
    node_kubespan,
    plan_kubespan_mesh,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan

MESH = "our mesh"
KEYS = {
    "a1": "CvQ6mT6y+Q7KxcZDGrj2C51PMVG0dGomuLq+aH7CTR8=",
    "a2": "83/SBv4fNR1O0TsSG4Wzo3dXmLAQbYOc13H8cHlSnxs=",
    "g1": "TG9yVFi34isQO2aGdCKIVQTMbwk1rqUdaYkFqqe0+m8=",
}
ADDRESS = {"a1": "10.66.23.31", "a2": "10.66.23.32", "g1": "10.22.22.27"}
PODS = {"a1": "10.2.3.0/24", "a2": "10.2.4.0/24", "g1": "10.4.7.0/24"}
CLUSTER = {"a1": "aws", "a2": "aws", "g1": "gcp"}


def fabric(**more):
    made, findings = load_fabric(
        {
            "name": "demo",
            "clusters": {
                "aws": {
                    "pod_cidrs": ["10.2.0.0/16"],
                    "service_cidrs": ["10.3.0.0/16"],
                    "node_cidrs": ["10.66.23.0/24"],
                    "wireguard_port": 1,
                    **more,
                },
                "gcp": {
                    "pod_cidrs": ["10.4.0.0/16"],
                    "service_cidrs": ["10.5.0.0/16"],
                    "node_cidrs": ["10.22.22.0/24"],
                    "wireguard_port": 2,
                },
            },
            "nodes": {name: {"multicluster_cluster": cluster, "node_name": name} for name, cluster in CLUSTER.items()},
        }
    )
    assert not findings
    return made


def record(name, **change):
    mac = f"52:54:00:00:00:0{sorted(KEYS).index(name) + 1}"
    return dict(
        {
            "node_id": "id-" + name,
            "nodename": name,
            "public_key": KEYS[name],
            "kubespan_address": str(mesh_address(MESH, mac)),
            "addresses": [ADDRESS[name]],
            "additional_addresses": [PODS[name]],
            "endpoints": [ADDRESS[name] + ":51820"],
        },
        **change,
    )


def node(name, **change):
    notes = {key: value for key, value in encode(record(name, **change)).items() if value}
    return {"metadata": {"name": name, "annotations": dict(notes, other="kept")}, "spec": {"podCIDRs": [PODS[name]]}}


def listings(**changes):
    found = {"aws": {"nodes": []}, "gcp": {"nodes": []}}
    for name, cluster in CLUSTER.items():
        found[cluster]["nodes"].append(node(name, **changes.get(name, {})))
    return found


def holding(topology):
    return {row["node"]: row for row in topology["kubespan"]["affiliates"]}


def contested(topology):
    return sorted("{cluster}/{node}".format(**row) for row in topology["kubespan"].get("contested", ()))


def words(topology):
    return {(refusal["object"], refusal["reason"]) for refusal in topology["refused"]}


def test_an_address_that_load_balancing_hands_out_is_no_nodes():
    """It was written by a run while the node held it, and the node is without power now (threat T48)."""
    held = "10.66.23.210"
    stale = {"addresses": [ADDRESS["a1"], held], "endpoints": [ADDRESS["a1"] + ":51820", held + ":51820"]}
    assert held in holding(plan_kubespan_mesh(fabric(), listings(a1=stale), MESH).to_json())["a1"]["addresses"]
    topology = plan_kubespan_mesh(fabric(floating_cidrs=["10.66.23.208/28"]), listings(a1=stale), MESH).to_json()
    assert holding(topology)["a1"]["addresses"] == [ADDRESS["a1"]] and holding(topology)["a1"]["endpoints"] == [
        ADDRESS["a1"] + ":51820"
    ]
    assert words(topology) == {("aws/a1", "special_address")}
    assert node_kubespan(MeshPlan.from_json(topology), "g1")["balanced"] == ["10.66.23.208/28"]
    assert "balanced" not in node_kubespan(
        MeshPlan.from_json(plan_kubespan_mesh(fabric(), listings(), MESH).to_json()), "a1"
    )


def test_every_node_gets_the_same_affiliates():
    topology = plan_kubespan_mesh(fabric(), listings(), MESH).to_json()
    assert (
        sorted(holding(topology)) == ["a1", "a2", "g1"] and not topology["refused"] and topology["kubespan"]["complete"]
    )
    part = node_kubespan(MeshPlan.from_json(topology), "a1")
    assert part["cluster_networks"] == ["10.2.0.0/16", "10.3.0.0/16"] and part["pod_cidrs"] == [PODS["a1"]]
    assert part["affiliates"] == node_kubespan(MeshPlan.from_json(topology), "g1")["affiliates"]
    assert node_kubespan(MeshPlan.from_json({"mode": "semaphore"}), "a1") is None


@pytest.mark.parametrize(
    "change, object_name, reason",
    [
        ({"additional_addresses": ["0.0.0.0/0"]}, "gcp/g1", "outside_grant"),
        ({"additional_addresses": ["10.2.3.0/24"]}, "gcp/g1", "outside_grant"),
        ({"public_key": "A" * 43 + "="}, "gcp/g1", "weak_key"),
        ({"endpoints": ["10.2.3.4:51820"]}, "gcp/g1", "endpoint_in_overlay"),
        ({"endpoints": ["127.0.0.1:51820"]}, "gcp/g1", "endpoint_special"),
        ({"addresses": ["10.66.23.31"]}, "gcp/g1", "outside_grant"),
        ({"kubespan_address": "fd00::1"}, "gcp/g1", "outside_grant"),
    ],
)
def test_a_node_with_false_claims_is_named_and_the_others_stay(change, object_name, reason):
    topology = plan_kubespan_mesh(fabric(), listings(g1=change), MESH).to_json()
    assert (object_name, reason) in words(topology)
    assert {"a1", "a2"} <= set(holding(topology)) and not contested(topology)
    assert holding(topology)["a2"]["additional_addresses"] == [PODS["a2"]]


def test_a_cluster_that_cannot_be_read_makes_the_mesh_incomplete():
    topology = plan_kubespan_mesh(
        fabric(), {"aws": listings()["aws"], "gcp": {"error": {"reason": "unreachable", "message": "no answer"}}}, MESH
    ).to_json()
    assert not topology["kubespan"]["complete"] and [failure["cluster"] for failure in topology["failures"]] == ["gcp"]
    assert sorted(holding(topology)) == ["a1", "a2"]
    assert annotations_to_publish(MeshPlan.from_json(topology), {"g1": encode(record("g1"))}) == {}


def test_what_hosts_report_counts_before_what_is_published():
    empty = listings()
    for nodes in empty.values():
        for item in nodes["nodes"]:
            item["metadata"]["annotations"] = {}
    assert holding(plan_kubespan_mesh(fabric(), empty, MESH).to_json()) == {}
    topology = plan_kubespan_mesh(fabric(), empty, MESH, {name: encode(record(name)) for name in KEYS}).to_json()
    assert sorted(holding(topology)) == ["a1", "a2", "g1"]
    assert (
        sorted(holding(plan_kubespan_mesh(fabric(), empty, MESH, {"stranger": encode(record("a1"))}).to_json())) == []
    )


def test_only_what_differs_is_published():
    topology = plan_kubespan_mesh(fabric(), listings(a2={"endpoints": ["10.66.23.32:9"]}), MESH).to_json()
    reported = {name: encode(record(name)) for name in KEYS}
    assert list(annotations_to_publish(MeshPlan.from_json(topology), reported)) == ["aws"]
    (found,) = annotations_to_publish(MeshPlan.from_json(topology), reported)["aws"].items()
    assert found[0] == "a2" and "" not in found[1].values()


def test_garbage_from_an_api_server_stops_nobody():
    found = listings()
    found["gcp"]["nodes"] += [None, 7, {"metadata": None}, {"metadata": {"name": ["x"], "annotations": 3}}]
    found["gcp"]["nodes"].append({"metadata": {"name": "y", "annotations": {"cluster.talos.dev/node-id": 5}}})
    assert sorted(holding(plan_kubespan_mesh(fabric(), found, MESH).to_json())) == ["a1", "a2", "g1"]


# --- endpoints that others see -----------------------------------------------------------------------------------

SEEN = "198.51.100.77:51999"
ENDPOINTS = "networking.talos.dev/kubespan-endpoints"


def published(harvested, only=None, **changes):
    topology = plan_kubespan_mesh(fabric(), listings(**changes), MESH).to_json()
    reported = {name: dict(encode(record(name))) for name in only or KEYS}
    return annotations_to_publish(MeshPlan.from_json(topology), reported, harvested)


def test_what_others_see_comes_after_a_nodes_own_endpoints():
    nothing = dict.fromkeys(KEYS)
    assert published(None) == published(nothing) == {}
    row = {"affiliate_id": "id-g1", "endpoint": SEEN}
    found = published(dict(nothing, a1=[row, dict(row, endpoint="203.0.113.1:1")], a2=[row]))
    assert {name: list(nodes) for name, nodes in found.items()} == {"gcp": ["g1"]}
    assert found["gcp"]["g1"][ENDPOINTS] == "10.22.22.27:51820," + SEEN
    # what it announces itself is not said twice, and published it is no change
    assert published(dict(nothing, a1=[dict(row, endpoint="10.22.22.27:51820")])) == {}
    carried = {"g1": {"endpoints": ["10.22.22.27:51820", SEEN]}}
    assert published(dict(nothing, a1=[row]), **carried) == {}
    # nobody sees it any more: gone with a run of all nodes, kept by one of some, gone at once where nobody harvests
    assert published(dict(nothing, a1=[]), **carried)["gcp"]["g1"][ENDPOINTS] == "10.22.22.27:51820"
    assert published({"a1": [], "g1": []}, only=["a1", "g1"], **carried) == {}
    assert published(nothing, **carried)["gcp"]["g1"][ENDPOINTS] == "10.22.22.27:51820"


@pytest.mark.parametrize(
    "rows",
    [
        "x",
        {"a": 1},
        [None, 7, "x", []],
        [{"affiliate_id": ["id-g1"], "endpoint": SEEN}],
        [{"affiliate_id": "nobody", "endpoint": SEEN}],
        [
            {"affiliate_id": "id-g1", "endpoint": text}
            for text in (
                "evil.example:1",
                "10.2.0.9:51820",
                "127.0.0.1:1",
                "0.0.0.0:1",
                "[fe80::1]:1",
                SEEN + ",x",
                None,
                7,
                {"a": 1},
            )
        ],
    ],
)
def test_hostile_words_about_others_are_dropped(rows):
    assert published(dict(dict.fromkeys(KEYS), a1=rows)) == {}


def test_one_node_cannot_fill_anothers_list():
    many = [{"affiliate_id": "id-g1", "endpoint": f"198.51.100.{number}:1"} for number in range(200)]
    found = published(dict(dict.fromkeys(KEYS), a1=many))["gcp"]["g1"][ENDPOINTS].split(",")
    assert found == ["10.22.22.27:51820", "198.51.100.0:1"]


def test_nodes_that_were_refused_are_passed_on_as_what_is_to_be_fixed():
    part = node_kubespan(
        MeshPlan.from_json(
            plan_kubespan_mesh(fabric(), listings(g1={"additional_addresses": ["10.77.0.0/24"]}), MESH).to_json()
        ),
        "a1",
    )
    assert part["turned_away"].startswith(
        "1 node was refused, the first is gcp/g1 [outside_grant]. Correct the grant of cluster gcp"
    )
    # an endpoint alone is left out, the node stays
    assert "turned_away" not in node_kubespan(
        MeshPlan.from_json(
            plan_kubespan_mesh(fabric(), listings(g1={"endpoints": ["127.0.0.1:51820"]}), MESH).to_json()
        ),
        "a1",
    )


def in_block(*nodes):
    """The block 10.2.9.0/26 of a1, with one address for each of the nodes."""
    rows = [{"handle_id": name, "secondary": {"node": name, "pod": "p", "namespace": "n"}} for name in nodes]
    spec = {"cidr": "10.2.9.0/26", "affinity": "host:a1", "allocations": list(range(len(nodes))), "attributes": rows}
    return {"metadata": {"name": "b"}, "spec": spec}


def pod(name, address):
    return {
        "metadata": {"name": f"{name}-{address}", "namespace": "n"},
        "spec": {"nodeName": name},
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]},
    }


def test_nodes_announce_the_blocks_that_their_network_plugin_gave_them():
    """Without single addresses in blocks of others, which the node of the block passes on."""
    found = listings()
    affinities = [
        {"metadata": {"name": cidr}, "spec": {"cidr": cidr, "node": name, "state": "confirmed", "deleted": "false"}}
        for name, cidr in (("a1", "10.2.9.0/26"), ("a1", "10.2.9.64/26"), ("a2", "10.2.9.128/26"))
    ]
    found["aws"]["ranges"] = Objects(affinities=affinities, blocks=[in_block("a1", "a2")])
    topology = plan_kubespan_mesh(fabric(), found, MESH).to_json()
    assert topology["pod_ranges"]["aws"] == {"source": "calico", "notes": []} and topology["refused"] == []
    own = {name: topology["nodes"][name]["pod_cidrs"] for name in KEYS}
    assert own == {"a1": ["10.2.9.0/25"], "a2": ["10.2.9.128/26"], "g1": [PODS["g1"]]}


def test_nodes_announce_addresses_of_pods_where_nothing_else_has_ranges():
    found = listings()
    for item in found["aws"]["nodes"]:
        item["spec"] = {}
    rows = [pod("a1", "10.2.0.4"), pod("a1", "10.2.0.5"), pod("a2", "10.2.0.6")]
    found["aws"]["ranges"] = Objects(pods=rows)
    topology = plan_kubespan_mesh(fabric(), found, MESH).to_json()
    assert topology["pod_ranges"]["aws"]["source"] == "pods" and topology["refused"] == []
    own = {name: topology["nodes"][name]["pod_cidrs"] for name in ("a1", "a2")}
    assert own == {"a1": ["10.2.0.4/31"], "a2": ["10.2.0.6/32"]}
