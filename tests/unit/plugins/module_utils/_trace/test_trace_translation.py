# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ends and flows where two clusters have the same pod ranges: who is meant by an address depends on who asks (translation 5)."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._plan.seen_addresses import Seen
from ansible_collections.multicluster.network.plugins.module_utils._trace import ends, pairs
from ansible_collections.multicluster.network.plugins.module_utils._trace.names import Names
from ansible_collections.multicluster.network.plugins.module_utils._trace.node_results import parse_flow
from ansible_collections.multicluster.network.plugins.module_utils._trace.objects import parse_cluster
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach import answers, what_if
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach.classes import Pairs
from ansible_collections.multicluster.network.plugins.module_utils._trace.resolve import Resolver, flow_at
from ansible_collections.multicluster.network.plugins.module_utils._trace.routing import Packet
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import address_number

POD = "10.244.2.3"
MESH = {
    "clusters": {
        name: {"exported_pod_cidrs": {"pairs": {"10.244.0.0/16": f"10.20{number}.0.0/16"}, "former": []}}
        for number, name in enumerate(("aws", "gcp"), 1)
    },
    "nodes": {name + "-1": {"cluster": name, "node_name": name + "-1"} for name in ("aws", "gcp")},
}


def number(text: str) -> int:
    return address_number(text)[1]


def cluster(name: str) -> t.Any:
    node = {
        "metadata": {"name": name + "-1"},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
    }
    pod = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"nodeName": name + "-1"},
        "status": {
            "podIP": POD,
            "podIPs": [{"ip": POD}],
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return parse_cluster(name, {"nodes": [node], "pods": [pod], "unread": []}, {(name, name + "-1"): name + "-1"})


def flows(source: str, target: str) -> list[dict[str, t.Any]]:
    clusters, seen = {name: cluster(name) for name in ("aws", "gcp")}, Seen(MeshPlan.from_json(MESH))
    resolver = Resolver(clusters, Names(clusters, seen=seen), {}, True, seen)
    found = resolver.flows([ends.parse_question(source, target, None, None, None)], 61000)
    assert not resolver.found, resolver.found
    return found


@pytest.mark.parametrize("target", ["gcp/shop/web", "gcp/shop/pod/web", "10.202.2.3"])
def test_a_pod_of_another_cluster_is_dialled_at_its_exported_address(target: str) -> None:
    there, back = flows("aws/shop/web", target)
    assert (there["source"]["address"], there["source"]["seen"]) == (POD, "10.201.2.3")
    assert there["target"]["address"] == "10.202.2.3" and there["target"]["host"] == "gcp-1"
    assert [(row["address"], row["own"], row["cluster"]) for row in there["target"]["backends"]] == [
        ("10.202.2.3", POD, "gcp")
    ]
    assert (back["source"]["address"], back["source"]["seen"]) == (POD, "10.202.2.3")
    assert back["target"]["address"] == "10.201.2.3" and back["target"]["backends"][0]["own"] == POD


def test_the_same_address_from_within_is_the_clusters_own_pod() -> None:
    there = flows("aws/shop/web", POD)[0]
    assert (
        there["target"]["host"] == "aws-1"
        and "seen" not in there["source"]
        and "own" not in there["target"]["backends"][0]
    )


def test_every_node_gets_the_flow_as_it_sees_it() -> None:
    there = flows("aws/shop/web", "gcp/shop/web")[0]
    assert flow_at(there, "aws") is there
    far = flow_at(there, "gcp")
    assert far["source"]["address"] == "10.201.2.3"
    assert [row["address"] for row in far["target"]["backends"]] == [POD, "10.202.2.3"]
    plain = {"source": {"address": POD, "cluster": "aws"}, "target": {"backends": [{"address": "10.4.0.1"}]}}
    assert flow_at(plain, "gcp") is plain


def test_a_packet_is_translated_once_on_each_node_and_its_answer_too() -> None:
    flow = parse_flow(flows("aws/shop/web", "gcp/shop/web")[0])
    assert flow is not None
    out, inside, came = flow.packet, flow.packet.inside, flow.packet.arrived
    assert [(one.src, one.dst) for one in (out, inside, came)] == [
        (number(POD), number("10.202.2.3")),
        (number("10.201.2.3"), number("10.202.2.3")),
        (number("10.201.2.3"), number(POD)),
    ]
    back = flow.packet.back()
    assert [(one.src, one.dst) for one in (back, back.inside, back.arrived)] == [
        (number(POD), number("10.201.2.3")),
        (number("10.202.2.3"), number("10.201.2.3")),
        (number("10.202.2.3"), number(POD)),
    ]
    assert flow.targets == {number("10.202.2.3"), number(POD)}


def test_a_packet_without_translations_is_one_and_the_same() -> None:
    packet = Packet(4, 1, 2, "tcp", 80)
    assert packet.inside is packet is packet.arrived and packet.back() == Packet(4, 2, 1, "tcp")


def test_a_pair_of_a_verification_is_the_one_that_was_pinged() -> None:
    hosts = {name + "-1": {"cluster": name, "node": name + "-1"} for name in ("aws", "gcp")}
    failed = [{"host": "aws-1", "address": POD, "target_host": "gcp-1", "target": "10.202.2.3"}]
    there, back = pairs.flows(failed, hosts, 61000, Seen(MeshPlan.from_json(MESH)))
    assert (there["source"]["address"], there["target"]["address"]) == (POD, "10.202.2.3")
    assert there["target"]["backends"][0]["own"] == POD and there["source"]["seen"] == "10.201.2.3"
    assert (back["source"]["address"], back["target"]["address"]) == (POD, "10.201.2.3")
    assert parse_flow(there) is not None and parse_flow(back) is not None


def planned(**changes: t.Any) -> dict[str, t.Any]:
    """A mesh by its plan: one node in each cluster, equal pod ranges."""
    mesh: dict[str, t.Any] = {"nodes": {}, "clusters": {}}
    for name, other, seen in (("aws", "gcp", "10.202"), ("gcp", "aws", "10.201")):
        mesh["nodes"][name + "-1"] = {"cluster": name, "node_name": name + "-1", "pod_cidrs": ["10.244.2.0/24"]}
        peer = {"node": other + "-1", "allowed_ips": [changes.get(other, seen + ".2.0/24")]}
        mesh["clusters"][name] = {
            **MESH["clusters"][name],
            "remotes": {other: {"routes": [{"dst": seen + ".0.0/16"}], "peers": [peer], "complete": True}},
        }
    return mesh


def test_the_plans_pairs_are_judged_by_what_other_clusters_see() -> None:
    assert Pairs(MeshPlan.from_json(planned())).summary()["reachable"] == 2
    cut = Pairs(MeshPlan.from_json(planned(gcp="10.202.9.0/24"))).summary()["cut"]
    assert {row["cause"] for row in cut} == {"allowed_ips_lack_target", "allowed_ips_lack_source"}


def test_a_service_is_left_alone_by_its_own_pods_alone() -> None:
    """A pod of another cluster with the same address is another pod."""
    service = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"ports": [{"port": 80}], "clusterIP": "10.96.0.9"},
    }
    ends_of = {
        "metadata": {"name": "web", "namespace": "shop"},
        "subsets": [{"addresses": [{"ip": POD}], "ports": [{"port": 80}]}],
    }
    clusters = {}
    for name in ("aws", "gcp"):
        read = {
            "nodes": [{"metadata": {"name": name + "-1"}, "status": {}}],
            "services": [service],
            "endpoints": [ends_of],
            "unread": [],
        }
        read["pods"] = [
            {
                "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"nodeName": name + "-1"},
                "status": {"podIP": POD, "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            }
        ]
        clusters[name] = parse_cluster(name, read, {(name, name + "-1"): name + "-1"})
    rows = what_if.parse("away=gcp-1")
    reach = answers.answered({"flows": [], "findings": []}, clusters, rows, {"mesh": MESH})["reach"]
    assert [row["cluster"] for row in reach["alone"]] == ["gcp"]
