# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Causes, out of facts and of what a simulator of packets saw: each break has its own cause, or none, and never another's."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._trace import report
from ansible_collections.multicluster.network.plugins.module_utils._values.packed import pack
from hypothesis import given, settings, strategies as st
from trace_worlds import World, key_of, route, rule

#: name -> (what it does to a world with packets from one host to another, the causes that are right, who has to be named)
Break = t.Callable[[World, str, str], None]
BREAKS: dict[str, tuple[Break, set[str], t.Callable[[str, str], set[str]]]] = {}


def breaks(where: str, *causes: str) -> t.Callable[[Break], Break]:
    def note(function: Break) -> Break:
        BREAKS[function.__name__] = (
            function,
            set(causes),
            lambda src, dst: {"source": {src}, "target": {dst}, "both": {src, dst}}[where],
        )
        return function

    return note


@breaks("source", "peer_missing")
def peer_missing_here(world, src, dst):
    world.device_of(src, dst)["peers"].remove(world.peer_of(src, dst))


@breaks("target", "peer_missing")
def peer_missing_there(world, src, dst):
    world.device_of(dst, src)["peers"].remove(world.peer_of(dst, src))


@breaks("source", "wrong_key")
def wrong_key_here(world, src, dst):
    world.peer_of(src, dst)["public_key"] = key_of("nobody")


@breaks("target", "wrong_key")
def wrong_key_there(world, src, dst):
    world.peer_of(dst, src)["public_key"] = key_of("nobody")


@breaks("source", "stale_endpoint")
def stale_endpoint(world, src, dst):
    world.peer_of(src, dst)["endpoint"] = f"192.168.77.77:{world.port(dst, src)}"


@breaks("source", "stale_endpoint")
def stale_port(world, src, dst):
    peer = world.peer_of(src, dst)
    peer["endpoint"] = peer["endpoint"].rpartition(":")[0] + ":9"


@breaks("both", "udp_blocked_one_way")
def udp_blocked_there(world, src, dst):
    world.peer_of(dst, src)["handshake_age"] = world.peer_of(src, dst)["handshake_age"] = None
    world.lost.add((src, dst))


@breaks("both", "udp_blocked_one_way", "no_handshake")
def udp_blocked_back(world, src, dst):
    world.peer_of(dst, src)["handshake_age"] = world.peer_of(src, dst)["handshake_age"] = None
    world.lost.add((dst, src))


@breaks("both", "udp_blocked")
def udp_blocked(world, src, dst):
    world.peer_of(dst, src)["handshake_age"] = world.peer_of(src, dst)["handshake_age"] = None
    world.lost.update([(src, dst), (dst, src)])


@breaks("both", "udp_blocked_one_way")
def udp_blocked_with_a_session(world, src, dst):
    world.lost.add((src, dst))


@breaks("both", "udp_blocked_one_way")
def answer_blocked_with_a_session(world, src, dst):
    world.lost.add((dst, src))


@breaks("both", "no_handshake")
def preshared_keys_differ(world, src, dst):
    world.peer_of(dst, src)["handshake_age"] = world.peer_of(src, dst)["handshake_age"] = None
    world.other_psk.add(frozenset((src, dst)))


@breaks("both", "no_handshake")
def preshared_keys_differ_and_one_has_a_session(world, src, dst):
    world.peer_of(src, dst)["handshake_age"] = None
    world.other_psk.add(frozenset((src, dst)))


@breaks("source", "not_explained")
def stuck_before_the_tunnel(world, src, dst):
    world.stuck.add(src)


@breaks("source", "not_explained")
def stuck_behind_the_tunnel(world, src, dst):
    world.deaf.add(dst)


@breaks("source", "endpoint_moved")
def endpoint_moved(world, src, dst):
    world.peer_of(src, dst)["endpoint"] = "192.168.77.77:40001"


@breaks("source", "mtu_black_hole")
def mtu_black_hole(world, src, dst):
    world.small_only.add((src, dst))


@breaks("target", "allowed_ips_lack_source")
def allowed_ips_lack_source(world, src, dst):
    world.peer_of(dst, src)["allowed_ips"] = ["10.99.0.0/24"]


@breaks("source", "allowed_ips_lack_target")
def allowed_ips_lack_target(world, src, dst):
    world.peer_of(src, dst)["allowed_ips"] = ["10.99.0.0/24"]


@breaks("source", "route_missing")
def route_missing(world, src, dst):
    name = world.device(src, dst)
    world.nodes[src]["routes"] = [row for row in world.nodes[src]["routes"] if row["dev"] != name]


@breaks("target", "route_missing")
def route_missing_back(world, src, dst):
    name = world.device(dst, src)
    world.nodes[dst]["routes"] = [row for row in world.nodes[dst]["routes"] if row["dev"] != name]


@breaks("target", "route_missing")
def pod_route_missing(world, src, dst):
    world.nodes[dst]["routes"] = [row for row in world.nodes[dst]["routes"] if row["dev"] != "veth1"]


@breaks("source", "route_shadowed")
def route_shadowed(world, src, dst):
    world.nodes[src]["routes"].append(
        route(world.pods[dst] + "/32", "eth0", 180 if world.kubespan else 254, "192.168.255.1")
    )


@breaks("source", "route_shadowed")
def route_blackholed(world, src, dst):
    world.nodes[src]["routes"].append(
        route(world.pods[dst] + "/32", None, 180 if world.kubespan else 254, kind="blackhole")
    )


@breaks("source", "rule_shadowed")
def rule_shadowed(world, src, dst):
    world.nodes[src]["rules"].append(rule(100, 77, dst=world.pods[dst] + "/32"))
    world.nodes[src]["routes"].append(route("0.0.0.0/0", "eth0", 77, "192.168.255.1"))


@breaks("source", "rule_shadowed")
def rule_prohibits(world, src, dst):
    world.nodes[src]["rules"].append(rule(100, None, dst=world.pods[dst] + "/32", action="prohibit"))


@breaks("target", "reverse_path_filter")
def reverse_path_filter(world, src, dst):
    # strict, and the way back is another one: what only that filter minds
    name = world.device(dst, src)
    world.nodes[dst]["settings"]["rp_filter"][name] = 1
    world.nodes[dst]["routes"].append(route(world.pods[src] + "/32", "eth0", 254, "192.168.255.1"))


@breaks("target", "reverse_path_filter")
def loose_filter_of_a_device_without_an_address(world, src, dst):
    if not world.kubespan:
        world.nodes[dst]["settings"]["rp_filter"]["all"] = 2
    world.nodes[dst]["settings"]["rp_filter"][world.device(dst, src)] = 2
    world.nodes[dst]["routes"].append(route(world.pods[src] + "/32", "eth0", 254, "192.168.255.1"))


@breaks("target", "route_missing", "reverse_path_filter")
def route_missing_under_a_loose_filter(world, src, dst):
    route_missing_back(world, src, dst)
    world.nodes[dst]["settings"]["rp_filter"][world.device(dst, src)] = 2


@breaks("source", "forwarding_off")
def forwarding_off_here(world, src, dst):
    world.nodes[src]["settings"]["forwarding"]["4"] = False


@breaks("target", "forwarding_off")
def forwarding_off_there(world, src, dst):
    world.nodes[dst]["settings"]["forwarding"]["4"] = False


@breaks("source", "forward_dropped")
def dropped_here(world, src, dst):
    world.drops[src] = "forward"


@breaks("target", "forward_dropped")
def dropped_there(world, src, dst):
    world.drops[dst] = "forward"


@breaks("target", "forward_dropped")
def dropped_back(world, src, dst):
    world.drops[dst] = "back"


@breaks("source", "masqueraded")
def masqueraded(world, src, dst):
    world.rewriting.add(src)
    world.peer_of(dst, src)["allowed_ips"].remove(world.uplink[src] + "/32")


@breaks("target", "answer_another_way")
def answer_another_way(world, src, dst):
    world.nodes[dst]["routes"].append(
        route(world.pods[src] + "/32", "eth0", 180 if world.kubespan else 254, "192.168.255.1")
    )


@breaks("target", "answer_another_way")
def answer_by_its_source(world, src, dst):
    world.nodes[dst]["rules"].append(rule(100, 77, src=world.pods[dst] + "/32"))
    world.nodes[dst]["routes"].append(route("0.0.0.0/0", "eth0", 77, "192.168.255.1"))


@breaks("target", "target_silent")
def target_silent(world, src, dst):
    world.mute.add(dst)


@breaks("source", "device_down")
def device_down_here(world, src, dst):
    _down(world, src, world.device(src, dst))


@breaks("target", "device_down")
def device_down_there(world, src, dst):
    _down(world, dst, world.device(dst, src))


def _down(world, host, name):
    for rows in (world.nodes[host]["links"], world.nodes[host]["devices"]):
        next(row for row in rows if row["name"] == name)["up"] = False
    world.nodes[host]["routes"] = [row for row in world.nodes[host]["routes"] if row["dev"] != name]


@breaks("source", "device_missing")
def device_missing_here(world, src, dst):
    _gone(world, src, world.device(src, dst))


@breaks("target", "device_missing")
def device_missing_there(world, src, dst):
    _gone(world, dst, world.device(dst, src))


def _gone(world, host, name):
    for kind in ("links", "devices"):
        world.nodes[host][kind] = [row for row in world.nodes[host][kind] if row["name"] != name]
    world.nodes[host]["routes"] = [row for row in world.nodes[host]["routes"] if row["dev"] != name]


@breaks("both", "keys_shared")
def keys_shared(world, src, dst):
    """Another node of the target's cluster has the target's key: who knows it knows it once, with both nodes' addresses taken by the last."""
    other = next(
        (host for host in world.seats if host not in (src, dst) and world.seats[host][0] == world.seats[dst][0]), None
    )
    if other is None:
        other = next(host for host in world.seats if host not in (src, dst))
    key = world.own_key(dst, src)
    device = next(
        (one for one in world.nodes[other]["devices"] if one["name"] == world.device(dst, src)),
        world.nodes[other]["devices"][0],
    )
    device["public_key"] = key
    world.peer_of(src, dst)["allowed_ips"] = ["10.99.0.0/24"]


@breaks("source", "watcher_stopped")
def watcher_stopped(world, src, dst):
    if world.kubespan:
        world.nodes[src]["units"][0]["active"] = "inactive"
        world.nodes[src]["sets"][0]["spans"] = []
    else:
        world.mute.add("nobody")


@breaks("source", "no_handshake")
def counts_as_down(world, src, dst):
    if world.kubespan:
        world.peer_of(src, dst)["handshake_age"] = None
        world.nodes[src]["sets"][0]["spans"] = []


#: Breaks that some worlds do not mind: sets are of one kind of mesh alone.
NEEDS = {"watcher_stopped", "counts_as_down"}


@st.composite
def worlds(draw: t.Any) -> World:
    clusters = {
        name: draw(st.integers(1, 3)) for name in draw(st.sampled_from([("aws", "gcp"), ("aws", "gcp", "merit")]))
    }
    clusters["gcp"] = max(2, clusters["gcp"])
    return World(clusters, draw(st.booleans()))


def ends_of(world: World, draw: t.Any) -> tuple[str, str]:
    src = draw(st.sampled_from(sorted(world.seats)))
    others = [
        host
        for host in sorted(world.seats)
        if host != src and (world.kubespan or world.seats[host][0] != world.seats[src][0])
    ]
    return src, draw(st.sampled_from(others))


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_consistent_facts_lead_from_every_pod_to_every_pod(data: t.Any) -> None:
    world = data.draw(worlds())
    for src in world.seats:
        for dst in world.seats:
            if src == dst:
                continue
            built = report.build(*world.trace(src, dst), {})
            assert (built["verdict"], built["findings"]) == ("arrives", []), (src, dst, built["table"])
            assert built["agreement"] == {"asked": 1, "arrive": 1, "agree": 1}
            # and by the facts alone, before anything is sent
            plan, results = world.trace(src, dst)
            facts = {host: {"armed": dict(row["armed"], armed=False)} for host, row in results.items()}
            assert report.build(plan, facts, {})["findings"] == []


@pytest.mark.parametrize("name", sorted(BREAKS))
@settings(max_examples=12, deadline=None)
@given(st.data())
def test_a_break_has_its_own_cause(name: str, data: t.Any) -> None:
    world = data.draw(worlds())
    src, dst = ends_of(world, data.draw)
    function, causes, where = BREAKS[name]
    function(world, src, dst)
    plan, results = world.trace(src, dst)
    outcomes = {row["outcome"] for row in results[src]["sent"]["sent"] if row["flow"] == "0"}
    built = report.build(plan, results, {})
    if outcomes == {"answered"}:  # this world does not mind: then neither may the trace
        assert (built["verdict"], built["findings"]) == ("arrives", [])
        assert name in NEEDS, "this break broke nothing"
        return
    assert len(built["findings"]) == 1 and built["verdict"] != "arrives"
    found = built["findings"][0]
    assert found["cause"] in causes, (found, built["table"])
    assert found["where"] in where(src, dst), found


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_of_two_breaks_the_first_on_the_way_is_named_or_none(data: t.Any) -> None:
    """Never a third one, and never one that does no harm."""
    world = data.draw(worlds())
    src, dst = ends_of(world, data.draw)
    chosen = data.draw(st.lists(st.sampled_from(sorted(BREAKS)), min_size=2, max_size=2, unique=True))
    right: set[str] = {"not_explained"}
    for name in chosen:
        right |= BREAKS[name][1]
        try:
            BREAKS[name][0](world, src, dst)
        except (StopIteration, ValueError):  # what it would break is gone already
            continue
    if any(cause.startswith("udp_blocked") for cause in right):
        # who was kept from sending is no evidence for the other direction; and one way and the other are both
        right |= {"no_handshake", "udp_blocked"}
    if "preshared_keys_differ" in chosen and "stuck_before_the_tunnel" in chosen:
        right.add(
            "udp_blocked_one_way"
        )  # nothing that one side reports is counted by the other, as if it were lost: likely, and no more
    if {"stale_endpoint", "stale_port"} <= set(chosen):
        right.add("endpoint_moved")  # another address and another port is what a translation looks like
    plan, results = world.trace(src, dst)
    if {row["outcome"] for row in results[src]["sent"]["sent"] if row["flow"] == "0"} == {"answered"}:
        return
    built = report.build(plan, results, {})
    assert {row["cause"] for row in built["findings"]} <= right, (chosen, built["table"])
    if "preshared_keys_differ" in chosen:
        assert ("udp_blocked_one_way", "proven") not in {
            (row["cause"], row["confidence"]) for row in built["findings"]
        }, chosen


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_without_a_recorder_the_facts_alone_name_the_cause_or_nothing(data: t.Any) -> None:
    world = data.draw(worlds())
    src, dst = ends_of(world, data.draw)
    name = data.draw(st.sampled_from(sorted(BREAKS)))
    BREAKS[name][0](world, src, dst)
    plan, results = world.trace(src, dst)
    for row in results.values():
        row["armed"] = dict(row["armed"], armed=False, reason="the kernel is too old")
        row["collected"] = {}
    if {row["outcome"] for row in results[src]["sent"]["sent"] if row["flow"] == "0"} == {"answered"}:
        return
    built = report.build(plan, results, {})
    assert {row["cause"] for row in built["findings"]} <= {*BREAKS[name][1], "not_explained"}, (name, built["table"])
    assert all(row["confidence"] != "proven" for row in built["findings"] if row["cause"] != "mtu_black_hole")


def test_a_closed_port_is_distinguished_from_an_unresponsive_one() -> None:
    world = World({"aws": 1, "gcp": 1})
    world.closed.add("gcp-0")
    plan, results = world.trace("aws-0", "gcp-0", "tcp")
    built = report.build(plan, results, {})
    assert [(row["cause"], row["where"], row["confidence"]) for row in built["findings"]] == [
        ("port_closed", "gcp-0", "proven")
    ]


def test_hostile_facts_and_events_are_left_out() -> None:
    world = World({"aws": 1, "gcp": 1})
    plan, results = world.trace("aws-0", "gcp-0")
    evil = "<script>\x1b[2J$(reboot)\n"
    facts = results["gcp-0"]["armed"]["facts"]
    facts["links"].append({"name": evil, "addresses": [evil, None]})
    facts["routes"] += [{"dst": evil}, {"dst": None}, 7, {"dst": "10.0.0.0/8", "table": "x", "dev": evil, "type": evil}]
    facts["rules"] += [{"src": evil}, None, {"version": "x", "priority": -1}]
    facts["devices"] += [{"name": evil, "peers": [{"allowed_ips": [evil], "endpoint": evil}, 3]}]
    facts["sets"] += [{"spans": [[evil, 1], 4]}]
    facts["settings"]["rp_filter"][evil] = evil
    results["gcp-0"]["collected"]["events"] += [
        7,
        {"flow": "0", "seen": evil, "hook": evil, "verdict": "drop", "rule": evil, "chain": evil, "table": evil},
    ]
    results["aws-0"]["sent"]["sent"] = [{"flow": "0", "size": evil, "outcome": evil, "detail": evil}]
    built = report.build(plan, results, {"aws-0": evil})
    text = "\n".join(built["table"])
    assert "\x1b" not in text and "reboot)\n" not in text
    assert [row["cause"] for row in built["findings"]] == ["forward_dropped"]


def test_a_target_outside_of_the_fabric_has_only_its_answer() -> None:
    world = World({"aws": 1, "gcp": 1})
    for outcome, verdict in (("answered", "arrives"), ("no_answer", "not explained")):
        plan, results = world.trace("aws-0", "gcp-0", reverse=False)
        plan["flows"][0]["target"].update(
            address="198.51.100.7", backends=[{"address": "198.51.100.7", "port": None, "cluster": "", "host": ""}]
        )
        results["aws-0"]["sent"]["sent"] = [{"flow": "0", "size": 0, "outcome": outcome}]
        built = report.build(plan, results, {})
        assert (built["verdict"], [row["cause"] for row in built["findings"]]) == (
            verdict,
            ["not_explained"] if verdict != "arrives" else [],
        )


NO_ANSWER = {"flow": "0", "size": 0, "outcome": "no_answer"}


def test_a_service_needs_who_turns_its_address() -> None:
    world = World({"aws": 1, "gcp": 1})
    for running, expected in ((False, ["kube_proxy_off"]), (None, ["not_explained"])):
        plan, results = world.trace("aws-0", "gcp-0", "tcp", reverse=False)
        world.nodes["aws-0"]["kube_proxy"] = {"running": running, "how": ""}
        plan["flows"][0]["target"].update(kind="service", cluster="aws", address="10.3.0.9")
        for host, row in results.items():
            events = [event for event in row["collected"]["events"] if event["direction"] == "forward"]
            events = [dict(event, dst="10.3.0.9", oif="eth0" if event["oif"] else "") for event in events]
            row["collected"] = {"events": events if host == "aws-0" else [], "devices": []}
        results["aws-0"]["sent"]["sent"] = [dict(NO_ANSWER)]
        assert [row["cause"] for row in report.build(plan, results, {})["findings"]] == expected


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [(True, False, ["kube_proxy_off"]), (False, True, ["not_explained"]), (True, None, ["not_explained"])],
)
def test_a_load_balancer_of_another_cluster_is_forwarded_there(here, there, expected) -> None:
    """Its packets go out by the underlay, to a node of that cluster; what the source runs is no matter."""
    world = World({"aws": 1, "gcp": 2})
    world.nodes["aws-0"]["kube_proxy"] = {"running": here, "how": ""}
    for host in ("gcp-0", "gcp-1"):
        world.nodes[host]["kube_proxy"] = {"running": there, "how": ""}
    plan, results = world.trace("aws-0", "gcp-0", "tcp", reverse=False)
    plan["flows"][0]["target"].update(kind="service", cluster="gcp", address="203.0.113.9")
    for host, row in results.items():
        events = [event for event in row["collected"]["events"] if event["direction"] == "forward"]
        events = [dict(event, dst="203.0.113.9", oif="eth0" if event["oif"] else "") for event in events]
        row["collected"] = {"events": events if host == "aws-0" else [], "devices": []}
    results["aws-0"]["sent"]["sent"] = [dict(NO_ANSWER)]
    found = report.build(plan, results, {})["findings"]
    assert [row["cause"] for row in found] == expected
    if there is False:
        assert found[0]["where"] == "gcp-0" and "no kube-proxy runs on gcp-0" in found[0]["message"]


def test_a_policy_that_lacks_the_source_is_what_an_unresponsive_target_may_be() -> None:
    world = World({"aws": 1, "gcp": 1})
    world.mute.add("gcp-0")
    plan, results = world.trace("aws-0", "gcp-0")
    plan["policies"] = {"0": "NetworkPolicy default/known selects it and names 10.10.0.7 in no rule"}
    found = report.build(plan, results, {})["findings"]
    assert [(row["cause"], row["confidence"]) for row in found] == [("policy_lacks_source", "likely")]
    world.mute.clear()
    world.drops["gcp-0"] = "forward"
    plan, results = world.trace("aws-0", "gcp-0")
    plan["policies"] = {"0": "a policy"}
    assert [row["cause"] for row in report.build(plan, results, {})["findings"]] == ["forward_dropped"]


def test_a_trace_by_the_plan_alone_shows_how_many_could_talk() -> None:
    reach = {
        "pairs": 6,
        "nodes": 3,
        "reachable": 4,
        "unread": 0,
        "away": [],
        "asked": [],
        "alone": [],
        "alone_count": 0,
        "addresses": [],
        "addresses_count": 0,
        "changes": [],
        "hypotheses": ["the plan as it is"],
        "cut": [{"pairs": 2}],
    }
    built = report.build({"id": "x", "flows": [], "findings": [], "reach": reach}, {}, {})
    assert built["verdict"] == "does not arrive" and any(
        "6 ordered pairs of 3 nodes, 4 could talk" in line for line in built["table"]
    )
    assert (
        report.build({"id": "x", "flows": [], "findings": [], "reach": dict(reach, cut=[])}, {}, {})["verdict"]
        == "arrives"
    )


def test_what_a_node_recorded_as_one_text_is_read_as_its_rows_and_a_torn_text_is_no_record() -> None:
    world = World({"aws": 1, "gcp": 1})
    plan, results = world.trace(*sorted(world.nodes))
    plain = report.build(plan, results, {})
    for host in results:
        results[host]["collected"].update(packed=pack(results[host]["collected"]["events"]), events=[])
    assert report.build(plan, results, {}) == plain
    for host in results:
        results[host]["collected"]["packed"] = results[host]["collected"]["packed"][:-8] + "!"
    assert "recorded nothing" in report.build(plan, results, {})["errors"][0]


@pytest.mark.parametrize("missing", ["aws-0", "gcp-0"])
def test_a_node_that_said_nothing_has_a_row_that_states_it(missing: str) -> None:
    world = World({"aws": 1, "gcp": 1})
    plan, results = world.trace("aws-0", "gcp-0")
    del results[missing]
    hops = report.build(plan, results, {missing: "no route to host"})["hops"]
    assert {(row["where"], row["direction"], row["verdict"]) for row in hops} >= {
        (missing, "forward", "unknown"),
        (missing, "back", "unknown"),
    }
    nodes = [row for row in hops if row["what"] == "node"]
    assert len(nodes) == 4 and all(
        missing + " did not say what it has: no route to host" in row["expected"] for row in nodes
    )
    assert {row["observed"] for row in nodes if row["where"] == missing} == {"not recorded"}
    (other,) = {"aws-0", "gcp-0"} - {missing}
    assert any(row["where"] == other and row["observed"].startswith("in by") for row in nodes)


@pytest.mark.parametrize("source, text", [
    ("calico", ", ranges: BlockAffinities and IPAMBlocks of Calico (pod_ranges: calico)"),
    ("pods", ", ranges: Pods (pod_ranges: pods)"),
    ("", ""),
    ("of nobody", ""),
])  # fmt: skip
def test_a_tunnel_names_the_source_of_the_ranges_behind_it(source: str, text: str) -> None:
    world = World({"aws": 1, "gcp": 1})
    plan, results = world.trace("aws-0", "gcp-0")
    plan["mesh"]["ranges"] = {"gcp": source, "aws": "node"}
    rows = [row for row in report.build(plan, results, {})["hops"] if row["what"] == "tunnel"]
    assert [(row["direction"], row["source"]) for row in rows] == [
        ("forward", "Node annotations of gcp-0" + text),
        ("back", "Node annotations of aws-0, ranges: spec.podCIDRs of Nodes (pod_ranges: node)"),
    ]
