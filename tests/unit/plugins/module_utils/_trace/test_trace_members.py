# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Traces to members of a discovery service: the host that sends is all that reports, and each case is proven, not proven or broken.

The worlds have the member as a whole node; only its packets are used, and nothing of what it has is shown to the report.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._trace import report
from ansible_collections.multicluster.network.plugins.module_utils._trace.ends import parse_end
from ansible_collections.multicluster.network.plugins.module_utils._trace.known_ends import Ends
from ansible_collections.multicluster.network.plugins.module_utils._trace.objects import parse_cluster
from ansible_collections.multicluster.network.plugins.module_utils._trace.resolve import Resolver
from trace_judged import number
from trace_worlds import World, key_of

HOST, MEMBER = "talos-0", "talos-1"
LABEL = "discovery/talos-worker-1"


def known(world: World, **more: t.Any) -> dict[str, t.Any]:
    """``members`` of the host's facts."""
    peer = next((row for row in world.device_of(HOST, MEMBER)["peers"] if row["public_key"] == key_of(MEMBER)), None)
    row = {
        "name": "talos-worker-1",
        "public_key": key_of(MEMBER),
        "networks": [world.uplink[MEMBER], world.pods[MEMBER] + "/24"],
        "allowed_ips": peer and peer["allowed_ips"],
    }
    service = {"state": "connected", "reason": "", "message": ""}
    return {"device": "kubespan", "members": [row], "service": service, "refused": [], **more}


def follow(world: World, protocol: str = "icmp", sent: bool = True, **more: t.Any) -> dict[str, t.Any]:
    """The report, from what the host alone reported."""
    plan, results = world.trace(HOST, MEMBER, protocol, reverse=False)
    for flow in plan["flows"]:
        flow["target"].update(kind="address", name=flow["target"]["address"], host="")
        flow["target"]["backends"][0]["host"] = ""
    plan["mesh"]["endpoints"] = {}
    mine = results[HOST]
    mine["armed"]["facts"]["members"] = known(world, **more)
    if not sent:
        mine.update(sent={}, collected={}, armed=dict(mine["armed"], armed=False, reason="check mode"))
    return report.build(dict(plan, nodes=[HOST], hosts={HOST: plan["hosts"][HOST]}), {HOST: mine}, {})


def fixes(found: t.Mapping[str, t.Any]) -> str:
    return "\n".join(line for line in found["table"] if line.startswith("  fix: "))


def said(found: t.Mapping[str, t.Any]) -> str:
    return next(row["observed"] for row in found["hops"] if row["what"] == "member")


def causes_of(found: t.Mapping[str, t.Any]) -> list[str]:
    return [row["cause"] for row in found["findings"]]


@pytest.fixture(name="world")
def world_fixture() -> World:
    return World({"talos": 3}, kubespan=True)


def test_an_answer_through_the_tunnel_is_proven(world):
    found = follow(world)
    assert (found["verdict"], causes_of(found)) == ("arrives", [])
    assert said(found) == (
        "proven: answered through its tunnel (handshake 20 s ago, 200 bytes sent and 200 received meanwhile)"
    )
    assert [row["what"] for row in found["hops"]] == ["route", "member", "target"]
    assert {row["verdict"] for row in found["hops"]} == {"ok"} and {row["where"] for row in found["hops"]} == {HOST}
    assert found["agreement"] == {"asked": 1, "arrive": 1, "agree": 1}


def test_a_member_that_answers_nothing_is_not_proven_and_never_called_healthy(world):
    world.mute.add(MEMBER)
    found = follow(world)
    assert (found["verdict"], causes_of(found)) == ("not explained", ["not_explained"])
    assert said(found).startswith(f"not proven: {HOST} sent it into the tunnel of {LABEL} (handshake 20 s ago")
    assert "talosctl" in fixes(found)


def test_without_a_handshake_it_is_broken_with_the_endpoint_that_is_called(world):
    world.lost.add((HOST, MEMBER))
    world.peer_of(HOST, MEMBER)["handshake_age"] = 400
    found = follow(world)
    assert (found["verdict"], causes_of(found)) == ("does not arrive", ["no_handshake"])
    assert said(found).startswith(f"broken: {LABEL} is called at {world.uplink[MEMBER]}:51820 and does not shake hands")
    assert found["findings"][0]["confidence"] == "proven" and "UDP" in fixes(found)
    world.peer_of(HOST, MEMBER).update(handshake_age=None, endpoint=None)
    found = follow(world)
    assert causes_of(found) == ["no_handshake"] and "announces no endpoint" in found["findings"][0]["message"]


def test_what_the_host_refused_of_a_member_is_why_it_is_no_peer(world):
    device = world.device_of(HOST, MEMBER)
    device["peers"] = [row for row in device["peers"] if row["public_key"] != key_of(MEMBER)]
    world.nodes[HOST]["sets"][0]["spans"] = []
    refused = [{"object": LABEL, "reason": "outside_grant", "message": "prefix 10.9.0.0/16 is outside"}]
    found = follow(world, refused=refused)
    assert (found["verdict"], causes_of(found)) == ("does not arrive", ["peer_missing"])
    assert "prefix 10.9.0.0/16 is outside [outside_grant]" in said(found) and said(found).startswith("broken: ")
    assert "node_cidrs" in fixes(found)
    away = follow(world, service={"state": "away", "reason": "service_away", "message": "the service is not reached"})
    assert "the service is not reached" in said(away)


def test_what_the_host_itself_stops_has_the_name_that_it_has_for_any_node(world):
    world.nodes[HOST]["sets"][0]["spans"] = []
    world.nodes[HOST]["units"][0]["active"] = "inactive"
    assert causes_of(follow(world)) == ["watcher_stopped"]
    for change, cause in (("drops", "forward_dropped"), ("rewriting", "masqueraded")):
        other = World({"talos": 3}, kubespan=True)
        if change == "drops":
            other.drops[HOST] = "forward"
        else:
            other.rewriting.add(HOST)
            other.mute.add(MEMBER)
        found = follow(other)
        assert (found["verdict"], causes_of(found)) == ("does not arrive", [cause]), found["table"]


def test_an_answer_past_the_tunnel_proves_nothing(world):
    """Somebody of the ordinary network has the address too."""
    world.nodes[HOST]["sets"][0]["spans"] = []
    found = follow(world)
    assert found["verdict"] != "arrives"
    plan, results = world.trace(HOST, MEMBER, reverse=False)
    for flow in plan["flows"]:
        flow["target"]["backends"][0]["host"] = ""
    mine = results[HOST]
    mine["armed"]["facts"]["members"] = known(world)
    mine["sent"] = {"sent": [{"flow": "0", "size": 0, "outcome": "answered", "detail": ""}]}
    found = report.build(dict(plan, hosts={HOST: plan["hosts"][HOST]}), {HOST: mine}, {})
    assert found["verdict"] == "not explained" and "not through the tunnel" in said(found)


def test_a_port_on_which_nobody_listens_is_broken_and_the_path_proven(world):
    world.closed.add(MEMBER)
    found = follow(world, "tcp")
    assert (found["verdict"], causes_of(found)) == ("does not arrive", ["port_closed"])
    assert "refuses the connection, through its tunnel (handshake" in said(found)


def test_large_packets_that_are_lost_are_a_black_hole(world):
    world.small_only.add((HOST, MEMBER))
    assert causes_of(follow(world)) == ["mtu_black_hole"]


def test_without_a_packet_nothing_is_proven(world):
    found = follow(world, sent=False)
    assert found["verdict"] == "not explained" and said(found).startswith(
        "not proven: no packet was sent; handshake 20 s"
    )
    world.peer_of(HOST, MEMBER)["handshake_age"] = None
    found = follow(world, sent=False)
    assert (found["verdict"], found["findings"][0]["confidence"]) == ("does not arrive", "likely")


def test_addresses_of_nobody_stay_what_they_were(world):
    found = follow(world, members=[])
    assert "is no node and no pod of a host of the inventory" in (found["findings"] or [{"message": ""}])[0][
        "message"
    ] or (found["verdict"] == "arrives")
    assert not [row for row in found["hops"] if row["what"] == "member"]


def test_names_of_members_are_shown_as_text_and_lists_of_no_use_are_none(world):
    row = dict(known(world)["members"][0], name="x\x1b[31m{{ 1 }}\n" + "y" * 500)
    found = follow(world, members=[row, {"public_key": 3}, "z", {"name": []}], refused=["a", {"object": 7}], service=[])
    label = next(one["expected"] for one in found["hops"] if one["what"] == "member")
    assert label.isprintable() and len(label) < 300 and found["verdict"] == "arrives"


def resolver(ends: t.Any, hosts: t.Any = None) -> Resolver:
    hosts = {"edge": {"cluster": "talos", "node": "edge"}} if hosts is None else hosts
    return Resolver({"talos": parse_cluster("talos", {}, {})}, known=Ends(ends, hosts))


ENDS = {
    "edge": {
        "own": ["192.0.2.40", "fd7a:6197:edb7:2302::40"],
        "sources": {"192.0.2.11": "192.0.2.40", "fd7a:6197:edb7:2302::11": "fd7a:6197:edb7:2302::40"},
        "members": [
            {
                "name": "talos-worker-1",
                "public_key": "k",
                "networks": ["fd7a:6197:edb7:2302::11", "172.31.9.2", "192.0.2.11", "10.244.1.0/24"],
                "allowed_ips": ["fd7a:6197:edb7:2302::11/128", "192.0.2.10/31"],
            }
        ],
    }
}


def test_a_host_that_is_no_node_and_a_member_of_no_inventory_are_ends():
    from ansible_collections.multicluster.network.plugins.module_utils._trace.ends import parse_question

    found = resolver(ENDS)
    flows = found.flows([parse_question("talos/edge", "talos/talos-worker-1")], 61000)
    assert not found.found and [(row["source"]["address"], row["target"]["address"]) for row in flows] == [
        ("192.0.2.40", "192.0.2.11"),
        ("fd7a:6197:edb7:2302::40", "fd7a:6197:edb7:2302::11"),
    ]
    assert {row["source"]["host"] for row in flows} == {"edge"} and {row["target"]["host"] for row in flows} == {""}
    assert {row["target"]["name"] for row in flows} == {"discovery/talos-worker-1"}
    # the other way round: an address of such a host is that host's
    assert found.owner((4, number("192.0.2.40")), "talos") == ("talos", "edge")
    flows = resolver(ENDS).flows([parse_question("talos/edge", "192.0.2.11:50000")], 61000)
    assert [(row["source"]["address"], row["protocol"], row["target"]["port"]) for row in flows] == [
        ("192.0.2.40", "tcp", 50000)
    ]


def test_ends_that_nobody_knows_are_named():
    found = resolver(ENDS)
    assert found.node("trace_to", parse_end("talos/nowhere", "trace_to"), "edge") is None
    assert "edge knows no member of a discovery service that has this name" in found.found[0].message
    for given in (None, {}, {"edge": None}, {"edge": {"own": 3, "members": [7], "sources": []}}):
        assert resolver(given).node("trace_from", parse_end("talos/talos-worker-1", "trace_from"), "edge") is None
