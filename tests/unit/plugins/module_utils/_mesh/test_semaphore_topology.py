# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole mesh in one pass: the seed's result, deferred keys, failures and hostile listings."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.filter.node_tables import node_tables
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.nft_spec import parse_table
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.node_spec import (
    NodeSpec,
    NodeState,
    parse_node_device,
    peer_budget,
    state_to_keep,
    with_own_ranges,
)
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import LivePeer
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.tables import request
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import Fabric, load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.node_listing import MAX_NODES
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.pod_range_readers import Objects
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.semaphore import (
    node_part,
    plan_semaphore_mesh,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Pending, from_wire, to_wire
from hypothesis import given, strategies as st

AWS_KEY = "20+DPsIsMA79+kkXNG1Raoe0hi0bnRf+xUJWhBtB6h8="
GCP_KEY = "ZIaHH+/lKD6Qd4cGGQnQcBWBKkasTnRUJ7m30oCgcAA="
FOURTH_KEY = "1111DPsIsMA79+kkXNG1Raoe0hi0bnRf+xUJWhBtB6g="
THIRD_KEY = "0aWsmgFfrC73s0FnNjVRKhUR9B/jfREbJn8DnuxdT1g="


def fabric(**variables: t.Any) -> Fabric:
    definition: dict[str, t.Any] = {
        "name": "seed",
        "clusters": {
            "aws": {"pod_cidrs": ["10.2.0.0/16"], "service_cidrs": ["10.3.0.0/16"], "wireguard_port": 51821},
            "gcp": {"pod_cidrs": ["10.4.0.0/16"], "service_cidrs": ["10.5.0.0/16"], "wireguard_port": 51821},
        },
        "nodes": {"aws-1": {"multicluster_cluster": "aws"}, "gcp-1": {"multicluster_cluster": "gcp"}},
    }
    for cluster, values in variables.items():
        definition["clusters"].setdefault(cluster, {}).update(values)
    found, findings = load_fabric(definition)
    assert findings == []
    return found


def published(cluster: str, key: t.Any, endpoint: t.Any) -> dict[str, t.Any]:
    prefix = cluster + ".wireguard.semaphore.uw.io/"
    return {prefix + "pubKey": key, prefix + "endpoint": endpoint}


def node(name: str, cidr: str, address: str, annotations: t.Any = None) -> dict[str, t.Any]:
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
    }


def listings(aws: t.Any = None, gcp: t.Any = None) -> dict[str, t.Any]:
    return {
        "aws": {"nodes": [node("aws-1", "10.2.3.0/24", "10.66.23.31", aws)]},
        "gcp": {"nodes": [node("gcp-1", "10.4.7.0/24", "10.22.22.27", gcp)]},
    }


SETTLED = listings(published("gcp", AWS_KEY, "10.66.23.31:51821"), published("aws", GCP_KEY, "10.22.22.27:51821"))


def peers_of(topology: dict[str, t.Any], local: str = "aws", remote: str = "gcp") -> list[dict[str, t.Any]]:
    return list(topology["clusters"][local]["remotes"][remote]["peers"])


def reasons(topology: dict[str, t.Any]) -> list[tuple[str, str]]:
    return [(row["object"], row["reason"]) for row in topology["refused"]]


def test_the_seed() -> None:
    topology = plan_semaphore_mesh(fabric(), SETTLED).to_json()
    assert (topology["refused"], topology["failures"]) == ([], [])
    part = node_part(MeshPlan.from_json(topology), "aws-1")
    assert part["devices"] == [
        {
            "name": "wireguard.gcp",
            "remote": "gcp",
            "mtu": 1420,
            "txqueuelen": 1000,
            "listen_port": 51821,
            "listen_port_known": True,
            "private_key_file": "/var/lib/semaphore-wireguard/wireguard.gcp.key",
            "routes": ["10.4.0.0/16"],
            "overlay": ["10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16", "10.5.0.0/16"],
            "peers": [
                {
                    "node": "gcp-1",
                    "public_key": GCP_KEY,
                    "endpoint": "10.22.22.27:51821",
                    "allowed_ips": ["10.4.7.0/24"],
                    "persistent_keepalive": 25,
                    "preshared_key": None,
                }
            ],
            "peers_known": True,
        }
    ]
    assert part["annotations"] == part["published"] == published("gcp", AWS_KEY, "10.66.23.31:51821")
    assert part["publishable"] and part["stale"] == []


def test_a_fresh_fabric_is_planned_in_one_pass() -> None:
    topology = plan_semaphore_mesh(fabric(), listings()).to_json()
    peer = peers_of(topology)[0]
    assert peer["public_key"] == Pending("public key of gcp-1 towards aws")
    assert (peer["endpoint"], peer["allowed_ips"]) == ("10.22.22.27:51821", ["10.4.7.0/24"])
    desired = topology["nodes"]["gcp-1"]["annotations"]
    assert desired["aws.wireguard.semaphore.uw.io/pubKey"] == peer["public_key"]
    assert from_wire(json.loads(json.dumps(to_wire(topology)))) == topology


def test_what_we_are_about_to_write_counts_as_written() -> None:
    moved = copy.deepcopy(SETTLED)
    moved["gcp"]["nodes"][0]["status"]["addresses"][0]["address"] = "10.22.22.99"
    topology = plan_semaphore_mesh(fabric(), moved).to_json()
    assert peers_of(topology)[0]["endpoint"] == "10.22.22.99:51821"
    assert topology["nodes"]["gcp-1"]["published"]["aws.wireguard.semaphore.uw.io/endpoint"] == "10.22.22.27:51821"


def test_nodes_of_the_original_are_peers() -> None:
    given_listings = copy.deepcopy(SETTLED)
    given_listings["gcp"]["nodes"].append(node("gcp-2", "10.4.8.0/24", "10.22.22.28", published("aws", THIRD_KEY, "")))
    given_listings["gcp"]["nodes"].append(node("unkeyed", "10.4.9.0/24", "10.22.22.29"))
    topology = plan_semaphore_mesh(fabric(), given_listings).to_json()
    assert [(peer["node"], peer["endpoint"]) for peer in peers_of(topology)] == [
        ("gcp-1", "10.22.22.27:51821"),
        ("gcp-2", None),
    ]
    assert topology["refused"] == [] and set(topology["nodes"]) == {"aws-1", "gcp-1"}


@pytest.mark.parametrize("failure", [None, {"error": {"reason": "unauthorized", "message": "401"}}, {"nodes": None}, 7])
def test_an_unread_remote_freezes_its_peers_and_nothing_else(failure: t.Any) -> None:
    topology = plan_semaphore_mesh(fabric(), {"aws": SETTLED["aws"], "gcp": failure}).to_json()
    remote = topology["clusters"]["aws"]["remotes"]["gcp"]
    assert (remote["peers"], remote["complete"]) == ([], False) and remote["reason"]
    assert [row["cluster"] for row in topology["failures"]] == ["gcp"]
    # gcp's own nodes still learn about aws; only publishing has to wait.
    part = node_part(MeshPlan.from_json(topology), "gcp-1")
    assert part["devices"][0]["peers"][0]["public_key"] == AWS_KEY and part["devices"][0]["peers_known"]
    assert not part["publishable"] and part["annotations"] == {}
    assert node_part(MeshPlan.from_json(topology), "aws-1")["devices"][0]["peers_known"] is False


def test_an_empty_cluster_is_complete() -> None:
    topology = plan_semaphore_mesh(fabric(), {"aws": SETTLED["aws"], "gcp": {"nodes": []}}).to_json()
    assert topology["clusters"]["aws"]["remotes"]["gcp"]["complete"] is True
    assert reasons(topology) == [("gcp/gcp-1", "node_missing")]


def test_hostile_annotations_of_our_own_hosts_are_reported_and_overwritten() -> None:
    topology = plan_semaphore_mesh(fabric(), listings(gcp=published("aws", "x", "10.2.0.9:1"))).to_json()
    assert reasons(topology) == [("gcp/gcp-1", "bad_public_key"), ("gcp/gcp-1", "endpoint_in_overlay")]
    assert peers_of(topology)[0]["endpoint"] == "10.22.22.27:51821"
    assert isinstance(peers_of(topology)[0]["public_key"], Pending)


@pytest.mark.parametrize(
    "evil, reason",
    [
        (node("x", "0.0.0.0/0", "10.22.22.9", published("aws", THIRD_KEY, "1.2.3.4:5")), "outside_grant"),
        (node("x", "10.4.9.0/24", "10.22.22.9", published("aws", AWS_KEY, "1.2.3.4:5")), "own_key"),
        (node("x", "10.4.9.0/24", "10.22.22.9", published("aws", "A" * 43 + "=", "1.2.3.4:5")), "weak_key"),
        (node("x", "10.4.9.0/24", "10.22.22.9", published("aws", THIRD_KEY, "10.3.0.1:5")), "endpoint_in_overlay"),
        (node("x", "10.4.9.0/24", "10.22.22.9", published("aws", THIRD_KEY, "127.0.0.1:5")), "endpoint_special"),
        (node("x", "10.4.9.0/24", "10.22.22.9", published("aws", THIRD_KEY, "foo")), "bad_endpoint"),
        (node("x", "10.4.9.0/24", "10.22.22.9", published("aws", 7, "1.2.3.4:5")), "bad_public_key"),
        (node("x", "junk", "10.22.22.9", published("aws", THIRD_KEY, "1.2.3.4:5")), "bad_pod_cidr"),
        (node("X Y", "10.4.9.0/24", "10.22.22.9", published("aws", THIRD_KEY, "1.2.3.4:5")), "name_invalid"),
        (None, "name_invalid"),
        ({"metadata": []}, "name_invalid"),
    ],
)
def test_one_bad_node_never_stops_the_others(evil: t.Any, reason: str) -> None:
    hostile = copy.deepcopy(SETTLED)
    hostile["gcp"]["nodes"].insert(0, evil)
    topology = plan_semaphore_mesh(fabric(), hostile).to_json()
    assert [row["reason"] for row in topology["refused"]] == [reason]
    assert topology["clusters"] == plan_semaphore_mesh(fabric(), SETTLED).to_json()["clusters"]


def test_a_node_without_address_or_range_is_refused_by_name() -> None:
    broken = listings()
    broken["aws"]["nodes"][0]["status"] = {}
    broken["gcp"]["nodes"][0]["spec"] = {}
    topology = plan_semaphore_mesh(fabric(), broken).to_json()
    assert reasons(topology) == [("aws/aws-1", "no_internal_ip"), ("gcp/gcp-1", "bad_pod_cidr")]
    assert not topology["nodes"]["aws-1"]["publishable"] and peers_of(topology) == []


@pytest.mark.parametrize(
    "evil",
    [
        node("aaa", "10.4.7.0/24", "10.22.22.9", published("aws", THIRD_KEY, "1.2.3.4:5")),
        node("aaa", "10.4.9.0/24", "10.22.22.9", published("aws", GCP_KEY, "1.2.3.4:5")),
    ],
)
def test_two_that_claim_one_thing_are_left_to_the_nodes(evil: t.Any) -> None:
    hostile = copy.deepcopy(SETTLED)
    hostile["gcp"]["nodes"].insert(0, evil)
    topology = plan_semaphore_mesh(fabric(), hostile).to_json()
    assert topology["refused"] == [] and peers_of(topology) == []
    device = node_part(MeshPlan.from_json(topology), "aws-1")["devices"][0]
    assert [(peer["node"], peer["declared"], peer["reported"]) for peer in device["contested"]] == [
        ("aaa", False, False),
        ("gcp-1", True, False),
    ]
    # what the host states of itself in this run is marked, and counts instead of its cluster's statement
    notes = {"gcp-1": published("aws", AWS_KEY[:20] + GCP_KEY[20:], "x")}
    said = plan_semaphore_mesh(fabric(), hostile, notes).to_json()["nodes"]["gcp-1"]["annotations"]
    assert said["aws.wireguard.semaphore.uw.io/pubKey"] == notes["gcp-1"]["aws.wireguard.semaphore.uw.io/pubKey"]
    again = node_part(
        MeshPlan.from_json(plan_semaphore_mesh(fabric(), hostile, {"gcp-1": published("aws", GCP_KEY, "x")}).to_json()),
        "aws-1",
    )["devices"][0]
    assert [peer["reported"] for peer in again["contested"]] == [False, True]


def test_too_many_nodes_are_no_listing() -> None:
    topology = plan_semaphore_mesh(
        fabric(), {"aws": SETTLED["aws"], "gcp": {"nodes": [{}] * (MAX_NODES + 1)}}
    ).to_json()
    assert topology["failures"][0]["reason"] == "source_incomplete" and topology["refused"] == []


def test_annotations_for_clusters_that_left_are_shown() -> None:
    old = dict(published("gcp", AWS_KEY, "10.66.23.31:51821"), **published("old", "k", "e"), other="x")
    topology = plan_semaphore_mesh(fabric(), listings(aws=old)).to_json()
    assert topology["nodes"]["aws-1"]["stale"] == sorted(published("old", "k", "e"))


def test_choices_per_cluster() -> None:
    chosen = fabric(gcp={"allowed_ips_source": "pod_cidr", "endpoint_address_type": "ExternalIP"})
    given_listings = listings()
    given_listings["gcp"]["nodes"][0]["spec"]["podCIDRs"] = ["10.4.7.0/24", "10.4.99.0/24"]
    given_listings["gcp"]["nodes"][0]["status"]["addresses"].append({"type": "ExternalIP", "address": "203.0.113.7"})
    peer = peers_of(plan_semaphore_mesh(chosen, given_listings).to_json())[0]
    assert (peer["allowed_ips"], peer["endpoint"]) == (["10.4.7.0/24"], "203.0.113.7:51821")


JUNK = st.recursive(
    st.none() | st.integers() | st.text(max_size=8) | st.sampled_from([GCP_KEY, "10.4.1.0/24", "10.22.22.1:1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NODES = st.fixed_dictionaries(
    {
        "metadata": JUNK
        | st.fixed_dictionaries(
            {
                "name": st.sampled_from(["gcp-1", "b", "c"]) | JUNK,
                "annotations": JUNK
                | st.dictionaries(
                    st.sampled_from(sorted(published("aws", 1, 1)) + sorted(published("gcp", 1, 1))), JUNK
                ),
            }
        ),
        "spec": JUNK | st.dictionaries(st.sampled_from(["podCIDR", "podCIDRs"]), JUNK),
        "status": JUNK | st.dictionaries(st.just("addresses"), JUNK),
    }
)


@given(st.lists(NODES | JUNK, max_size=6), st.lists(NODES | JUNK, max_size=6))
def test_any_listing_gives_a_plan(aws: list[t.Any], gcp: list[t.Any]) -> None:
    topology = plan_semaphore_mesh(fabric(), {"aws": {"nodes": aws}, "gcp": {"nodes": gcp}}).to_json()
    json.dumps(to_wire(topology))
    assert topology == plan_semaphore_mesh(fabric(), {"gcp": {"nodes": gcp}, "aws": {"nodes": aws}}).to_json()
    for row in topology["refused"]:
        assert row["message"].isprintable() and row["object"].isprintable()


def nobody_granted() -> dict[str, t.Any]:
    """The inventory has the wrong ``pod_cidrs`` for gcp, so all of its good nodes are outside of their grant."""
    more = copy.deepcopy(SETTLED)
    more["gcp"]["nodes"].append(
        node("gcp-2", "10.4.8.0/24", "10.22.22.28", published("aws", THIRD_KEY, "10.22.22.28:51821"))
    )
    return plan_semaphore_mesh(fabric(gcp={"pod_cidrs": ["10.99.0.0/16"]}), more).to_json()


def budget(
    device: dict[str, t.Any],
    live: t.Mapping[str, LivePeer],
    stays: t.Collection[str],
    most: int | None,
    empty: t.Sequence[str],
) -> t.Any:
    desired = parse_node_device(device, "f")
    after = {key: peer for key, peer in live.items() if key in stays}
    return peer_budget(
        desired.remote,
        live,
        t.cast(t.Any, after),
        desired.peers,
        NodeSpec("f", max_deletes=most, confirm_empty=tuple(empty)),
        desired.turned_away,
    )


def test_a_source_that_is_empty_since_its_nodes_were_refused_is_not_to_be_confirmed() -> None:
    device = node_part(MeshPlan.from_json(nobody_granted()), "aws-1")["devices"][0]
    live = {GCP_KEY: LivePeer(allowed_ips=("10.4.7.0/24",))}
    refusal = budget(device, live, (), None, [])
    assert refusal is not None and (refusal.object, refusal.reason) == ("gcp", "delete_budget")
    assert "confirm_empty" not in refusal.message and "max_deletes" not in refusal.message
    assert "2 nodes were refused, the first is gcp/gcp-1 [outside_grant]" in refusal.message
    assert "the grant of cluster gcp in the inventory (pod_cidrs" in refusal.message
    for most, deletes in ((None, False), (0, False), (1, True)):
        # a source with refused nodes is not empty, whatever was confirmed once; a number of one's own is another thing
        assert (budget(device, live, (), most, ["gcp"]) is None) is deletes
    confirmed = budget(device, live, (), None, ["gcp"])
    assert (
        confirmed is not None
        and "gcp is in confirm_empty and is not empty; nothing was deleted. 2 nodes were refused" in confirmed.message
    )
    assert confirmed.message.index("pod_cidrs") < confirmed.message.index("max_deletes")
    kept = state_to_keep(NodeSpec("f", (parse_node_device(device, "f"),)), None).to_json()
    assert "turned_away" not in kept["devices"][0]
    empty = node_part(
        MeshPlan.from_json(plan_semaphore_mesh(fabric(), dict(SETTLED, gcp={"nodes": []})).to_json()), "aws-1"
    )["devices"][0]
    truly = budget(empty, live, (), None, [])
    assert truly is not None and "Name gcp in confirm_empty" in truly.message


def test_a_part_of_a_source_that_is_gone_asks_for_the_grant_first() -> None:
    """A wrong range may refuse half of a cluster; what a hostile node states is no part of the advice."""
    device = node_part(MeshPlan.from_json(plan_semaphore_mesh(fabric(), SETTLED).to_json()), "aws-1")["devices"][0]
    live = {str(number): LivePeer(allowed_ips=(f"10.4.{20 + number}.0/24",)) for number in range(9)}
    refusal = budget(device, live, {"8"}, None, ["gcp"])
    assert (
        refusal is not None
        and "refuses some of gcp as outside_grant, fix pod_cidrs of cluster gcp in the inventory" in refusal.message
    )
    assert refusal.message.index("pod_cidrs") < refusal.message.index("max_deletes")


def test_a_node_that_is_refused_and_gets_in_is_no_reason_for_a_loss() -> None:
    hostile = copy.deepcopy(SETTLED)
    hostile["gcp"]["nodes"][0]["metadata"]["annotations"]["aws.wireguard.semaphore.uw.io/endpoint"] = "10.4.7.7:51821"
    topology = plan_semaphore_mesh(fabric(), hostile).to_json()
    assert reasons(topology) == [("gcp/gcp-1", "endpoint_in_overlay")] and len(peers_of(topology)) == 1
    assert "turned_away" not in node_part(MeshPlan.from_json(topology), "aws-1")["devices"][0]


def chosen(
    cluster: dict[str, t.Any], addresses: t.Sequence[str], **variables: t.Any
) -> tuple[str | None, list[tuple[str, str]]]:
    """Where aws-1 is announced, and what was refused. variables: of its host."""
    definition = {
        "name": "seed",
        "clusters": {
            "aws": dict({"pod_cidrs": ["10.2.0.0/16"], "wireguard_port": 51821}, **cluster),
            "gcp": {"pod_cidrs": ["10.4.0.0/16"], "wireguard_port": 51821},
        },
        "nodes": {
            "aws-1": dict({"multicluster_cluster": "aws"}, **variables),
            "gcp-1": {"multicluster_cluster": "gcp"},
        },
    }
    made, findings = load_fabric(definition)
    assert findings == []
    found = listings()
    found["aws"]["nodes"][0]["status"]["addresses"] = [{"type": "InternalIP", "address": text} for text in addresses]
    topology = plan_semaphore_mesh(made, found).to_json()
    return topology["nodes"]["aws-1"]["annotations"].get("gcp.wireguard.semaphore.uw.io/endpoint"), reasons(topology)


def test_of_several_addresses_the_one_inside_the_grant_is_announced() -> None:
    inside, outside, six = "10.66.23.31", "172.16.0.9", "2001:db8:66::31"
    assert chosen({}, [outside, inside]) == (outside + ":51821", [])
    assert chosen({"node_cidrs": ["10.66.23.0/24"]}, [outside, inside]) == (inside + ":51821", [])
    assert chosen({"node_cidrs": ["2001:db8:66::/64"]}, [outside, six]) == ("[2001:db8:66::31]:51821", [])


def test_an_endpoint_outside_the_grant_is_a_claim_outside_the_grant() -> None:
    """Also one of another cluster's node ranges; the inventory's own statement about a host is none."""
    cluster = {"node_cidrs": ["10.66.23.0/24"]}
    assert chosen(cluster, ["10.22.22.27"]) == (None, [("aws/aws-1", "outside_grant")])
    assert chosen(cluster, ["10.22.22.27"], wireguard_endpoint="198.51.100.7") == ("198.51.100.7:51821", [])
    assert chosen(cluster, ["10.66.23.31"], wireguard_endpoint="2001:db8::7") == ("[2001:db8::7]:51821", [])
    assert chosen(cluster, [], wireguard_endpoint="node-1.example.org") == ("node-1.example.org:51821", [])


def test_an_address_that_load_balancing_hands_out_is_announced_for_no_node() -> None:
    cluster = {"floating_cidrs": ["10.66.23.200/29"]}
    assert chosen(cluster, ["10.66.23.201", "10.66.23.31"]) == ("10.66.23.31:51821", [])
    assert chosen(cluster, ["10.66.23.201"]) == (None, [("aws/aws-1", "special_address")])


@pytest.mark.parametrize(
    "endpoint, reason",
    [
        ("10.22.22.99:51821", "outside_grant"),
        ("10.66.23.201:51821", "special_address"),
        ("127.0.0.1:51821", "endpoint_special"),
        ("10.4.0.7:51821", "endpoint_in_overlay"),
    ],
)
def test_a_node_of_the_original_may_not_say_more(endpoint: str, reason: str) -> None:
    found = copy.deepcopy(SETTLED)
    found["aws"]["nodes"].append(node("aws-9", "10.2.9.0/24", "10.66.23.39", published("gcp", THIRD_KEY, endpoint)))
    ranges = {"node_cidrs": ["10.66.23.0/24"], "floating_cidrs": ["10.66.23.200/29"]}
    topology = plan_semaphore_mesh(fabric(aws=ranges), found).to_json()
    assert [peer["node"] for peer in peers_of(topology, "gcp", "aws")] == ["aws-1"] and reasons(topology) == [
        ("aws/aws-9", reason)
    ]
    inside = copy.deepcopy(SETTLED)
    inside["aws"]["nodes"].append(
        node("aws-9", "10.2.9.0/24", "10.66.23.39", published("gcp", THIRD_KEY, "10.66.23.39:51821"))
    )
    assert [
        peer["node"] for peer in peers_of(plan_semaphore_mesh(fabric(aws=ranges), inside).to_json(), "gcp", "aws")
    ] == [
        "aws-1",
        "aws-9",
    ]


@pytest.mark.parametrize("text", ["127.0.0.1", "0.0.0.0", "198.51.100.7:51820", "fe80::1", "a b", "224.0.0.1"])
def test_an_endpoint_that_cannot_be_one(text: str) -> None:
    definition = {
        "clusters": {"aws": {"pod_cidrs": ["10.2.0.0/16"]}, "gcp": {"pod_cidrs": ["10.4.0.0/16"]}},
        "nodes": {"aws-1": {"multicluster_cluster": "aws", "wireguard_endpoint": text}},
    }
    findings = load_fabric(definition)[1]
    assert [(one.where, one.variable, one.reason) for one in findings] == [
        ("nodes/aws-1", "wireguard_endpoint", "bad_endpoint")
    ]


# --- ranges that a network plugin keeps (pod_ranges) -------------------------------------------------------------------


def affinity(name: str, cidr: str) -> dict[str, t.Any]:
    spec = {"cidr": cidr, "node": name, "state": "confirmed", "deleted": "false", "type": "host"}
    return {"metadata": {"name": f"{name}-{cidr}"}, "spec": spec}


def borrowing(*nodes: str) -> dict[str, t.Any]:
    """The block 10.4.9.0/26 of gcp-1, with one address for each of the nodes."""
    attributes = [
        {"handle_id": f"k8s-pod-network.{name}", "secondary": {"node": name, "pod": "p", "namespace": "n"}}
        for name in nodes
    ]
    spec = {
        "cidr": "10.4.9.0/26",
        "affinity": "host:gcp-1",
        "allocations": list(range(len(nodes))),
        "attributes": attributes,
    }
    return {"metadata": {"name": "b"}, "spec": spec}


def two_nodes(**ranges: t.Any) -> dict[str, t.Any]:
    found = copy.deepcopy(SETTLED)
    found["gcp"]["nodes"].append(
        node("gcp-2", "10.4.8.0/24", "10.22.22.28", published("aws", THIRD_KEY, "10.22.22.28:51821"))
    )
    found["gcp"]["ranges"] = Objects(**ranges)
    return found


def test_allowed_ips_follow_the_blocks_and_routes_stay() -> None:
    rows = [affinity("gcp-1", "10.4.9.0/26"), affinity("gcp-1", "10.4.7.128/26"), affinity("gcp-2", "10.4.9.64/26")]
    given = two_nodes(affinities=rows, blocks=[borrowing("gcp-1", "gcp-2")])
    topology = plan_semaphore_mesh(fabric(), given).to_json()
    assert (topology["refused"], topology["failures"]) == ([], [])
    assert [(peer["node"], peer["allowed_ips"]) for peer in peers_of(topology)] == [
        ("gcp-1", ["10.4.7.128/26", "10.4.9.0/26"]),
        ("gcp-2", ["10.4.9.64/26", "10.4.9.1/32"]),
    ]
    part = node_part(MeshPlan.from_json(topology), "aws-1")["devices"][0]
    assert part["routes"] == ["10.4.0.0/16"] and part["borrowed"] == ["10.4.9.1/32"] and "contested" not in part
    assert topology["nodes"]["gcp-1"]["pod_cidrs"] == ["10.4.7.128/26", "10.4.9.0/26"]
    assert topology["pod_ranges"] == {"aws": {"source": "node", "notes": []}, "gcp": {"source": "calico", "notes": []}}
    before = plan_semaphore_mesh(fabric(gcp={"pod_ranges": "node"}), given).to_json()
    assert before == dict(plan_semaphore_mesh(fabric(), {**given, "gcp": {"nodes": given["gcp"]["nodes"]}}).to_json())


def test_a_neighbour_that_runs_upstream_is_refused_where_it_knows_other_ranges() -> None:
    given = two_nodes(affinities=[affinity("gcp-1", "10.4.9.0/26"), affinity("gcp-2", "10.4.8.0/24")], blocks=[])
    given["aws"]["nodes"].append(
        node("upstream", "10.2.9.0/24", "10.66.23.99", published("gcp", FOURTH_KEY, "10.66.23.99:51821"))
    )
    topology = plan_semaphore_mesh(fabric(), given).to_json()
    assert [peer["node"] for peer in peers_of(topology, "gcp", "aws")] == ["aws-1"]
    assert reasons(topology) == [("aws/upstream", "ranges_unannounced")]
    message = topology["refused"][0]["message"]
    assert "gcp-1 has 10.4.9.0/26 and spec.podCIDR 10.4.7.0/24" in message and "1 of its nodes" in message
    assert [peer["node"] for peer in peers_of(topology)] == ["gcp-1", "gcp-2"], "nodes of the inventory are no concern"
    same = two_nodes(affinities=[affinity("gcp-1", "10.4.7.0/25"), affinity("gcp-2", "10.4.8.0/24")], blocks=[])
    same["aws"]["nodes"].append(given["aws"]["nodes"][-1])
    assert plan_semaphore_mesh(fabric(), same).to_json()["refused"] == [], "it knows more than pods have"
    left = copy.deepcopy(given)
    left["aws"]["nodes"][-1]["metadata"]["managedFields"] = [{"manager": "multicluster.network/seed"}]
    assert plan_semaphore_mesh(fabric(), left).to_json()["refused"] == [], (
        "a host that left the inventory has our annotations"
    )


def own_ranges(**change: t.Any) -> tuple[Fabric, list[str]]:
    clusters = {"aws": {"pod_cidrs": ["10.2.0.0/16"]}, "gcp": {"pod_cidrs": ["10.4.0.0/16"], **change.pop("gcp", {})}}
    nodes = {
        "aws-1": {"multicluster_cluster": "aws"},
        "gcp-1": {"multicluster_cluster": "gcp", "node_pod_cidrs": "10.4.9.0/24", **change},
        "gcp-2": {"multicluster_cluster": "gcp", "node_pod_cidrs": ["10.4.10.0/24", "10.4.12.0/24"]},
    }
    found, findings = load_fabric({"name": "seed", "clusters": clusters, "nodes": nodes})
    return found, [f"{row.where} {row.variable} {row.reason}" for row in findings]


def test_ranges_of_hosts_in_the_inventory_are_allowed_ips() -> None:
    found, findings = own_ranges()
    assert findings == []
    topology = plan_semaphore_mesh(
        found, two_nodes(affinities=[affinity("gcp-1", "10.4.77.0/26")], blocks=[])
    ).to_json()
    assert [peer["allowed_ips"] for peer in peers_of(topology)] == [["10.4.9.0/24"], ["10.4.10.0/24", "10.4.12.0/24"]]
    assert topology["pod_ranges"]["gcp"]["source"] == "inventory" and topology["refused"] == []


@pytest.mark.parametrize(
    "change,reason",
    [
        ({"node_pod_cidrs": "10.5.0.0/24"}, "outside_grant"),
        ({"node_pod_cidrs": "x"}, "bad_cidr"),
        ({"node_pod_cidrs": ["10.4.9.0/24", "10.4.12.128/25"]}, "range_overlap"),
    ],
)
def test_ranges_of_hosts_that_cannot_be_are_findings(change: t.Any, reason: str) -> None:
    (finding,) = own_ranges(**change)[1]
    assert finding.startswith("nodes/gcp-") and finding.endswith(f" node_pod_cidrs {reason}")


def test_ranges_of_hosts_and_another_source_are_a_finding() -> None:
    assert own_ranges(gcp={"pod_ranges": "calico"})[1] == [
        "nodes/gcp-1 node_pod_cidrs bad_choice",
        "nodes/gcp-2 node_pod_cidrs bad_choice",
    ]


def test_a_node_without_a_range_is_a_peer_that_gets_no_packets() -> None:
    topology = plan_semaphore_mesh(
        fabric(), two_nodes(affinities=[affinity("gcp-1", "10.4.9.0/26")], blocks=[])
    ).to_json()
    assert [(peer["node"], peer["allowed_ips"]) for peer in peers_of(topology)] == [
        ("gcp-1", ["10.4.9.0/26"]),
        ("gcp-2", []),
    ]
    assert topology["refused"] == [] and "no range to gcp-2" in topology["pod_ranges"]["gcp"]["notes"][0]


def test_a_node_with_no_accepted_range_is_refused_and_no_peer_without_ranges() -> None:
    rows = [affinity("gcp-1", "192.168.9.0/26"), affinity("gcp-2", "192.168.9.64/26")]
    topology = plan_semaphore_mesh(fabric(), two_nodes(affinities=rows, blocks=[])).to_json()
    assert peers_of(topology) == [] and reasons(topology) == [
        ("gcp/gcp-1", "outside_grant"),
        ("gcp/gcp-2", "outside_grant"),
    ]
    assert "Correct the grant of cluster gcp" in topology["clusters"]["aws"]["remotes"]["gcp"]["turned_away"]


def test_one_range_is_refused_and_the_rest_of_the_node_goes_on() -> None:
    rows = [affinity("gcp-1", "10.4.9.0/26"), affinity("gcp-1", "192.168.9.0/26"), affinity("gcp-2", "10.4.9.64/26")]
    topology = plan_semaphore_mesh(fabric(), two_nodes(affinities=rows, blocks=[])).to_json()
    assert [peer["allowed_ips"] for peer in peers_of(topology)] == [["10.4.9.0/26"], ["10.4.9.64/26"]]
    assert (
        reasons(topology) == [("gcp/gcp-1", "outside_grant")]
        and "turned_away" not in topology["clusters"]["aws"]["remotes"]["gcp"]
    )


def test_a_source_that_is_incomplete_leaves_the_peers_as_they_are() -> None:
    topology = plan_semaphore_mesh(
        fabric(gcp={"pod_ranges": "calico"}), two_nodes(forbidden={"calico": "blockaffinities"})
    ).to_json()
    remote = topology["clusters"]["aws"]["remotes"]["gcp"]
    assert remote["complete"] is False and "cluster_access_capability: mesh" in remote["reason"]
    assert [(row["cluster"], row["reason"]) for row in topology["failures"]] == [("gcp", "source_incomplete")]
    auto = plan_semaphore_mesh(fabric(), two_nodes(forbidden={"calico": "blockaffinities"})).to_json()
    assert [peer["allowed_ips"] for peer in peers_of(auto)] == [["10.4.7.0/24"], ["10.4.8.0/24"]]
    assert auto["failures"] == [] and auto["clusters"]["aws"]["remotes"]["gcp"]["ranges_known"] is False
    assert "ranges_known" not in auto["clusters"]["gcp"]["remotes"]["aws"]


def test_nodes_that_contest_a_key_contest_no_borrowed_address() -> None:
    rows = [affinity("gcp-1", "10.4.9.0/26"), affinity("gcp-2", "10.4.9.64/26")]
    given = two_nodes(affinities=rows, blocks=[borrowing("gcp-1", "gcp-2")])
    given["gcp"]["nodes"][1]["metadata"]["annotations"] = published("aws", GCP_KEY, "10.22.22.28:51821")
    remote = plan_semaphore_mesh(fabric(), given).to_json()["clusters"]["aws"]["remotes"]["gcp"]
    assert [row["allowed_ips"] for row in remote["contested"]] == [
        ["10.4.9.0/26"],
        ["10.4.9.64/26"],
    ] and "borrowed" not in remote


def test_a_list_that_may_not_be_read_any_more_takes_no_range_from_a_peer() -> None:
    rows = [affinity("gcp-1", "10.4.9.0/26"), affinity("gcp-2", "10.4.9.64/26")]
    read = plan_semaphore_mesh(fabric(), two_nodes(affinities=rows, blocks=[borrowing("gcp-1", "gcp-2")])).to_json()
    before = NodeState(
        "seed", tuple(parse_node_device(row, "seed") for row in node_part(MeshPlan.from_json(read), "aws-1")["devices"])
    )
    lost = two_nodes(forbidden={"calico": "ipamblocks"})
    lost["gcp"]["nodes"].append(
        node("gcp-3", "10.4.6.0/24", "10.22.22.29", published("aws", FOURTH_KEY, "10.22.22.29:51821"))
    )
    (raw,) = node_part(MeshPlan.from_json(plan_semaphore_mesh(fabric(), lost).to_json()), "aws-1")["devices"]
    device = with_own_ranges(parse_node_device(raw, "seed"), before)
    assert {peer.node: peer.allowed_ips for peer in device.peers} == {
        "gcp-1": ("10.4.9.0/26",),
        "gcp-2": ("10.4.9.1/32", "10.4.9.64/26"),
        "gcp-3": ("10.4.6.0/24",),
    }
    assert device.borrowed == ("10.4.9.1/32",)
    known = with_own_ranges(parse_node_device(dict(raw, ranges_known=True), "seed"), before)
    assert [peer.allowed_ips for peer in known.peers] == [("10.4.7.0/24",), ("10.4.8.0/24",), ("10.4.6.0/24",)]
    narrowed = with_own_ranges(parse_node_device(dict(raw, routes=["10.4.0.0/21"]), "seed"), before)
    assert narrowed.peers[0].allowed_ips == ("10.4.7.0/24",), "a range that the inventory took back is not kept"


@pytest.mark.parametrize("value,required", [(None, False), ("auto", False), (True, True)])
def test_addresses_of_pods_are_kept_unless_the_variable_is_false(value: t.Any, required: bool) -> None:
    topology = plan_semaphore_mesh(
        fabric(aws={"keep_pod_addresses": value}, gcp={"keep_pod_addresses": False}), SETTLED
    ).to_json()
    (table,) = node_tables(json.loads(json.dumps(to_wire(topology))), "aws-1")
    assert table["name"] == "multicluster-network-seed-nat" and table["chains"][0]["rules"] == [
        'oifname { "wg-rotate.gcp", "wireguard.gcp" } meta nfproto ipv4 meta mark & 0x00004000 == 0x00004000 snat ip to $node_source4 fully-random',
        'oifname { "wg-rotate.gcp", "wireguard.gcp" } meta mark & 0x00004000 == 0x00004000 return',
        'oifname { "wg-rotate.gcp", "wireguard.gcp" } snat ip prefix to ip saddr map { 10.2.0.0/16 : 10.2.0.0/16 }',
        'oifname { "wg-rotate.gcp", "wireguard.gcp" } meta nfproto ipv4 fib saddr type local snat ip to $node_source4',
    ]
    assert (table["before_routes"], table["optional"], table["sources"]) == (True, not required, ["10.2.3.0/24"])
    assert parse_table(request(table, "seed"))["refused"] == []
    assert node_tables(topology, "gcp-1") == []
    with pytest.raises(AnsibleFilterError, match="does not know host x"):
        node_tables(topology, "x")
    dummy, findings = load_fabric(
        {"name": "x", "clusters": {"aws": {"pod_cidrs": ["10.2.0.0/16"], "keep_pod_addresses": "no"}}, "nodes": {}}
    )
    assert [row.reason for row in findings if row.variable == "keep_pod_addresses"] == ["bad_type"]
