# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mesh of clusters that have the same pod ranges: what peers take, and what nodes may claim (translation 3, threat T49)."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kept_addresses import kept_table
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.semaphore import (
    node_part,
    plan_semaphore_mesh,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._values.prefix_sets import PrefixSet
from hypothesis import given, strategies as st
from test_semaphore_topology import AWS_KEY, FOURTH_KEY, GCP_KEY, fabric, node, peers_of, published, reasons

RANGE = "10.244.0.0/16"
MAPPINGS: dict[str, dict[str, t.Any]] = {"aws": {RANGE: "10.201.0.0/16"}, "gcp": {RANGE: "10.202.0.0/16"}}


def same(**changes: t.Any) -> t.Any:
    """aws and gcp with equal pod and Service ranges, changed."""
    given: dict[str, dict[str, t.Any]] = {
        name: {"pod_cidrs": [RANGE], "service_cidrs": ["10.96.0.0/12"], "exported_pod_cidrs": mapping}
        for name, mapping in MAPPINGS.items()
    }
    for name, values in changes.items():
        given[name].update(values)
    return fabric(**given)


def listings(*more: t.Any, gcp: str = "10.244.1.0/24", endpoint: str = "10.22.22.27:51821") -> dict[str, t.Any]:
    return {
        "aws": {
            "nodes": [node("aws-1", "10.244.1.0/24", "10.66.23.31", published("gcp", AWS_KEY, "10.66.23.31:51821"))]
        },
        "gcp": {"nodes": [node("gcp-1", gcp, "10.22.22.27", published("aws", GCP_KEY, endpoint)), *more]},
    }


def upstream(cidr: str, endpoint: str = "10.22.22.99:51821", name: str = "upstream") -> dict[str, t.Any]:
    """A node without a host in the inventory, announced by another program."""
    return node(name, cidr, "10.22.22.99", published("aws", FOURTH_KEY, endpoint))


def managed(cidr: str, name: str = "other") -> dict[str, t.Any]:
    """The same, announced by a run of this collection from another inventory."""
    made = upstream(cidr, name=name)
    fields = {"f:metadata": {"f:annotations": {"f:" + key: {} for key in made["metadata"]["annotations"]}}}
    made["metadata"]["managedFields"] = [
        {"manager": "multicluster.network/seed", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}
    ]
    return made


def test_equal_ranges_are_no_contest_and_peers_take_what_is_exported() -> None:
    topology = plan_semaphore_mesh(same(), listings()).to_json()
    assert (topology["refused"], topology["failures"]) == ([], [])
    assert [peer["allowed_ips"] for peer in peers_of(topology)] == [["10.202.1.0/24"]]
    assert [peer["allowed_ips"] for peer in peers_of(topology, "gcp", "aws")] == [["10.201.1.0/24"]]
    assert topology["nodes"]["aws-1"]["pod_cidrs"] == ["10.244.1.0/24"], "a node looks for its own pods"
    device = node_part(MeshPlan.from_json(topology), "aws-1")["devices"][0]
    assert device["routes"] == ["10.202.0.0/16"] and {RANGE, "10.201.0.0/16", "10.202.0.0/16"} <= set(device["overlay"])


def test_a_former_range_is_taken_too() -> None:
    former = {RANGE: "10.203.0.0/16"}
    topology = plan_semaphore_mesh(
        same(gcp={"exported_pod_cidrs": {**MAPPINGS["gcp"], "former": [former]}}), listings()
    ).to_json()
    assert [peer["allowed_ips"] for peer in peers_of(topology)] == [["10.202.1.0/24", "10.203.1.0/24"]]
    assert node_part(MeshPlan.from_json(topology), "aws-1")["devices"][0]["routes"] == [
        "10.202.0.0/16",
        "10.203.0.0/16",
    ]


@pytest.mark.parametrize("claim", ["10.202.5.0/24", "10.201.5.0/24", "10.9.0.0/24"])
def test_a_node_claims_what_its_pods_really_have(claim: str) -> None:
    """Neither its own exported range nor that of another cluster: the claim is judged before the translation."""
    topology = plan_semaphore_mesh(same(), listings(managed(claim))).to_json()
    assert reasons(topology) == [("gcp/other", "outside_grant")] and [peer["node"] for peer in peers_of(topology)] == [
        "gcp-1"
    ]


def test_two_nodes_of_one_cluster_still_contest_a_range() -> None:
    topology = plan_semaphore_mesh(same(), listings(managed("10.244.1.0/25"))).to_json()
    rows = topology["clusters"]["aws"]["remotes"]["gcp"]["contested"]
    assert {row["node"] for row in rows} == {"gcp-1", "other"} and not peers_of(topology)


def test_a_node_that_does_not_translate_is_refused_by_name() -> None:
    topology = plan_semaphore_mesh(same(), listings(upstream("10.244.9.0/24"))).to_json()
    assert reasons(topology) == [("gcp/upstream", "ranges_unannounced")]
    assert "exported_pod_cidrs" in topology["refused"][0]["message"]
    one_sided = same(
        aws={"pod_cidrs": ["10.10.0.0/16"], "exported_pod_cidrs": {"10.10.0.0/16": "10.201.0.0/16"}},
        gcp={"exported_pod_cidrs": None},
    )
    given = listings(upstream("10.244.9.0/24"))
    given["aws"]["nodes"][0]["spec"] = {"podCIDR": "10.10.1.0/24", "podCIDRs": ["10.10.1.0/24"]}
    topology = plan_semaphore_mesh(one_sided, given).to_json()
    assert (
        reasons(topology) == [("gcp/upstream", "ranges_unannounced")]
        and "spec.podCIDR" in topology["refused"][0]["message"]
    )


@pytest.mark.parametrize("endpoint", ["10.244.7.7:51821", "10.201.7.7:51821", "10.202.7.7:51821"])
def test_no_endpoint_is_in_a_range_of_pods_real_or_exported(endpoint: str) -> None:
    topology = plan_semaphore_mesh(same(), listings(managed("10.244.9.0/24"))).to_json()
    assert reasons(topology) == []
    hostile = managed("10.244.9.0/24")
    hostile["metadata"]["annotations"].update(published("aws", FOURTH_KEY, endpoint))
    topology = plan_semaphore_mesh(same(), listings(hostile)).to_json()
    assert reasons(topology) == [("gcp/other", "endpoint_in_overlay")]


#: Ranges that a cluster may have, and parts of them that are mapped.
PARTS = st.sets(st.integers(0, 7), max_size=5).map(
    lambda places: {f"10.244.{place * 32}.0/19": f"10.201.{place * 32}.0/19" for place in places}
)


@given(PARTS, st.integers(0, 255))
def test_the_table_and_the_peers_say_the_same(mapping: dict[str, str], third: int) -> None:
    """Whatever is mapped: what peers take of a node is what its table gives its pods, and all of it."""
    rest = {"pod_cidrs": ["10.4.0.0/16"], "exported_pod_cidrs": None, "service_cidrs": []}
    made = same(aws={"exported_pod_cidrs": mapping or None}, gcp=rest)
    own = f"10.244.{third}.0/24"
    given = listings(gcp="10.4.1.0/24")
    given["aws"]["nodes"][0]["spec"] = {"podCIDR": own, "podCIDRs": [own]}
    topology = plan_semaphore_mesh(made, given).to_json()
    taken = PrefixSet.of_texts(peers_of(topology, "gcp", "aws")[0]["allowed_ips"])
    expected = own.replace("10.244", "10.201") if f"10.244.{third // 32 * 32}.0/19" in mapping else own
    assert taken.cidrs() == [expected]
    table = kept_table(MeshPlan.from_json(topology), "aws-1")
    assert table is not None
    rules = next(chain for chain in table["chains"] if chain["name"] == "postrouting")["rules"]
    outgoing = next(rule for rule in rules if " map { " in rule)
    pairs = dict(pair.strip().split(" : ") for pair in outgoing.partition("map { ")[2].rstrip(" }").split(","))
    assert PrefixSet.of_texts(pairs).cidrs() == [RANGE], "no pod is without a decision"
    assert {source: target for source, target in pairs.items() if source != target} == mapping
    assert ("prerouting" in {chain["name"] for chain in table["chains"]}) == bool(mapping)


NODES = {"10.22.22.0/24": "10.203.22.0/24"}


def hosts(*more: t.Any, **changes: t.Any) -> dict[str, t.Any]:
    """The topology where other clusters reach the nodes of gcp."""
    return plan_semaphore_mesh(
        same(gcp={"node_cidrs": ["10.22.22.0/24"], "exported_node_cidrs": NODES, **changes}), listings(*more)
    ).to_json()


def test_nodes_are_reached_at_exported_addresses() -> None:
    topology = hosts()
    assert topology["refused"] == []
    assert peers_of(topology)[0]["allowed_ips"] == ["10.202.1.0/24", "10.203.22.27/32"]
    assert node_part(MeshPlan.from_json(topology), "aws-1")["devices"][0]["routes"] == [
        "10.202.0.0/16",
        "10.203.22.0/24",
    ]
    assert topology["nodes"]["gcp-1"]["exported_addresses"] == {"10.22.22.27": "10.203.22.27"}
    assert "exported_addresses" not in topology["nodes"]["aws-1"]
    alone = hosts(exported_pod_cidrs=None, pod_cidrs=["10.4.0.0/16"])
    assert alone["refused"] and alone["refused"][0]["reason"] == "outside_grant", "10.244.1.0/24 is in no grant then"


def test_nodes_are_accepted_at_former_addresses_while_they_are_listed() -> None:
    """What is written into clusters, and from where a node comes, is the present one; with former ones alone it comes from its pod range."""
    former = {"former": [{"10.22.22.0/24": "10.204.22.0/24"}]}
    topology = hosts(exported_node_cidrs={**NODES, **former})
    assert topology["refused"] == []
    assert peers_of(topology)[0]["allowed_ips"] == ["10.202.1.0/24", "10.203.22.27/32", "10.204.22.27/32"]
    routes = node_part(MeshPlan.from_json(topology), "aws-1")["devices"][0]["routes"]
    assert routes == ["10.202.0.0/16", "10.203.22.0/24", "10.204.22.0/24"]
    assert topology["nodes"]["gcp-1"]["exported_addresses"] == {"10.22.22.27": "10.203.22.27"}
    assert topology["nodes"]["gcp-1"]["former_addresses"] == {"10.22.22.27": ["10.204.22.27"]}
    rules = rules_of(topology)
    assert "10.203.22.27/32 : 10.22.22.27/32, 10.204.22.27/32 : 10.22.22.27/32" in rules["prerouting"][0]
    assert rules["not_translated"][0].endswith("{ 10.202.0.0/16, 10.203.22.0/24, 10.204.22.0/24 } drop")
    assert rules["postrouting"][-1].endswith("snat ip to 10.203.22.27")
    alone = hosts(exported_node_cidrs=former)
    assert "exported_addresses" not in alone["nodes"]["gcp-1"]
    assert peers_of(alone)[0]["allowed_ips"] == ["10.202.1.0/24", "10.204.22.27/32"]
    assert "10.204.22.27" not in rules_of(alone)["postrouting"][-1], "it comes from an address of its pod range"
    assert "10.22.22.0/24" in rules_of(alone)["hidden_in"][0]


def test_an_address_that_two_nodes_claim_is_neithers() -> None:
    """A kubelet may write any address into its Node: what it claims of another node's takes the tunnels of neither away."""
    topology = hosts(managed("10.244.9.0/24", name="twin"))
    twin = managed("10.244.9.0/24", name="twin")
    twin["status"]["addresses"][0]["address"] = "10.22.22.27"
    topology = hosts(twin)
    assert reasons(topology) == [("gcp/gcp-1", "address_twice"), ("gcp/twin", "address_twice")]
    assert sorted(peer["allowed_ips"] for peer in peers_of(topology)) == [["10.202.1.0/24"], ["10.202.9.0/24"]]


def test_a_node_outside_of_the_mapping_is_no_fault() -> None:
    topology = hosts(exported_node_cidrs={"10.22.22.128/25": "10.203.22.128/25"})
    assert topology["refused"] == [] and peers_of(topology)[0]["allowed_ips"] == ["10.202.1.0/24"]


def test_no_node_is_at_an_address_that_load_balancing_hands_out() -> None:
    topology = hosts(floating_cidrs=["10.22.22.27/32"])
    assert ("gcp/gcp-1", "special_address") in reasons(topology)
    assert all("10.203.22.27/32" not in peer["allowed_ips"] for peer in peers_of(topology))


def test_a_node_that_another_program_runs_is_not_reached_there() -> None:
    """It translates nothing, and stays a peer for its pods where these are not translated."""
    given = listings(upstream("10.4.9.0/24"), gcp="10.4.1.0/24")
    made = same(
        gcp={
            "node_cidrs": ["10.22.22.0/24"],
            "exported_node_cidrs": NODES,
            "exported_pod_cidrs": None,
            "pod_cidrs": ["10.4.0.0/16"],
        },
        aws={"pod_cidrs": ["10.10.0.0/16"], "exported_pod_cidrs": None},
    )
    given["aws"]["nodes"][0]["spec"] = {"podCIDR": "10.10.1.0/24", "podCIDRs": ["10.10.1.0/24"]}
    topology = plan_semaphore_mesh(made, given).to_json()
    assert topology["refused"] == []
    found = {peer["node"]: peer["allowed_ips"] for peer in peers_of(topology)}
    assert found == {"gcp-1": ["10.4.1.0/24", "10.203.22.27/32"], "upstream": ["10.4.9.0/24"]}


def rules_of(topology: t.Any) -> dict[str, list[str]]:
    """{chain: rules} of the table of gcp-1."""
    table = kept_table(MeshPlan.from_json(topology), "gcp-1")
    assert table is not None
    return {chain["name"]: chain["rules"] for chain in table["chains"]}


def test_the_table_of_a_node_has_its_own_address_alone() -> None:
    rules = rules_of(hosts())
    came = 'iifname { "wg-rotate.aws", "wireguard.aws" }'
    assert rules["prerouting"] == [
        f"{came} dnat ip prefix to ip daddr map {{ 10.202.0.0/16 : 10.244.0.0/16, 10.203.22.27/32 : 10.22.22.27/32 }}"
    ]
    assert rules["hidden_in"] == [f"{came} ip daddr {{ 10.22.22.0/24, 10.244.0.0/16 }} drop"]
    assert rules["not_translated"] == [f"{came} ip daddr {{ 10.202.0.0/16, 10.203.22.0/24 }} drop"]
    assert rules["postrouting"][-1].endswith("fib saddr type local snat ip to 10.203.22.27")
    table = kept_table(MeshPlan.from_json(hosts()), "gcp-1")
    assert table is not None and table["exported"]["nodes"] == NODES
