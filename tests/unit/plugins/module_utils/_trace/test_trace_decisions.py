# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each decision of a walk, of tunnels and of a diagnosis by itself: the case in which only it makes the difference."""

from __future__ import annotations

import ipaddress
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._trace import node_results
from ansible_collections.multicluster.network.plugins.module_utils._trace.causes import BACK
from ansible_collections.multicluster.network.plugins.module_utils._trace.expected import Walker
from ansible_collections.multicluster.network.plugins.module_utils._trace.facts import parse_node
from ansible_collections.multicluster.network.plugins.module_utils._trace.routing import Packet, decide
from trace_judged import ONE, TWO, cause, number, two_fixture, walk  # noqa: F401 pylint: disable=unused-import
from trace_worlds import World, key_of, route, rule

Answers = t.Sequence[t.Mapping[str, t.Any]]


@pytest.fixture(name="span")
def span_fixture() -> World:
    return World({"aws": 1, "gcp": 1}, kubespan=True)


def decided(
    rules: Answers, routes: Answers, answers: t.Any = None, mark: int = 0, iif: str | None = "veth1", **settings: t.Any
) -> tuple[str, t.Any]:
    node = parse_node("h", "aws", {"rules": rules, "routes": routes, "settings": settings}, answers)
    found = decide(node, 4, number("10.9.0.7"), number("10.8.0.7"), iif, mark)
    return found.kind, found.dev


MAIN = [rule(32766, 254)]
OUT = [route("0.0.0.0/0", "eth0")]


@pytest.mark.parametrize(
    ("rules", "routes", "expected"),
    [
        (MAIN, OUT, ("leaves", "eth0")),
        (MAIN, [], ("nowhere", None)),
        ([], OUT, ("leaves", "eth0")),
        (
            MAIN,
            [*OUT, route("10.9.0.0/16", "one"), route("10.9.0.0/24", "two"), route("10.8.0.0/24", "three")],
            ("leaves", "two"),
        ),
        (MAIN, [route("10.9.0.0/16", "one", metric=20), route("10.9.0.0/16", "two", metric=10)], ("leaves", "two")),
        (MAIN, [*OUT, route("10.9.0.0/16", None, kind="blackhole")], ("blocked", None)),
        (MAIN, [*OUT, route("10.9.0.7/32", "eth0", kind="local")], ("local", "eth0")),
        (MAIN, [route("0.0.0.0/0", "eth0", via="several")], ("unknown", None)),
        # throw goes on with the next rule
        ([rule(10, 77), *MAIN], [*OUT, route("10.9.0.0/16", None, 77, kind="throw")], ("leaves", "eth0")),
        # a length that is suppressed, and one that is just not
        (
            [dict(rule(10, 77), suppress_prefixlength=16), *MAIN],
            [*OUT, route("10.9.0.0/16", "x", 77)],
            ("leaves", "eth0"),
        ),
        ([dict(rule(10, 77), suppress_prefixlength=15), *MAIN], [*OUT, route("10.9.0.0/16", "x", 77)], ("leaves", "x")),
        (
            [dict(rule(10, 77, src="10.8.0.0/16"), invert=True), *MAIN],
            [*OUT, route("0.0.0.0/0", "x", 77)],
            ("leaves", "eth0"),
        ),
        (
            [dict(rule(10, 77, src="10.7.0.0/16"), invert=True), *MAIN],
            [*OUT, route("0.0.0.0/0", "x", 77)],
            ("leaves", "x"),
        ),
        ([rule(10, None, action="nop"), *MAIN], OUT, ("leaves", "eth0")),
        ([rule(10, None, action="unreachable"), *MAIN], OUT, ("blocked", None)),
        ([dict(rule(10, 77), fwmark=0x40, fwmask=0x60), *MAIN], [*OUT, route("0.0.0.0/0", "x", 77)], ("leaves", "x")),
        (
            [dict(rule(10, 77), fwmark=0x20, fwmask=0x60), *MAIN],
            [*OUT, route("0.0.0.0/0", "x", 77)],
            ("leaves", "eth0"),
        ),
        ([dict(rule(10, 77), iif="veth1"), *MAIN], [*OUT, route("0.0.0.0/0", "x", 77)], ("leaves", "x")),
        ([dict(rule(10, 77), iif="lo"), *MAIN], [*OUT, route("0.0.0.0/0", "x", 77)], ("leaves", "eth0")),
        ([dict(rule(10, 77), oif="veth1"), *MAIN], [*OUT, route("0.0.0.0/0", "x", 77)], ("leaves", "eth0")),
        # what asks for more than is known decides only where its table has a route
        ([dict(rule(10, 77), tos=4), *MAIN], [*OUT, route("0.0.0.0/0", "x", 77)], ("unknown", None)),
        ([dict(rule(10, 77), sport=[1, 2]), *MAIN], [*OUT, route("10.7.0.0/16", "x", 77)], ("leaves", "eth0")),
        ([dict(rule(10, None, action="prohibit"), uidrange=[1, 2]), *MAIN], OUT, ("unknown", None)),
    ],
)
def test_rules_and_routes_decide_as_the_kernel_does(rules: Answers, routes: Answers, expected: t.Any) -> None:
    assert decided(rules, routes, mark=0x41 if any(row["fwmark"] for row in rules) else 0) == expected


@pytest.mark.parametrize(
    ("said", "routes", "more", "expected"),
    [
        ({"type": "unicast", "dev": "eth0"}, OUT, {}, ("leaves", "eth0")),
        ({"type": "unicast", "dev": "other", "table": 254}, OUT, {}, ("leaves", "other")),
        ({"type": "local", "dev": "lo"}, [route("10.9.0.7/32", "eth0", kind="local")], {}, ("local", "eth0")),
        ({"type": "unreachable"}, OUT, {}, ("blocked", None)),
        ({"error": "Network is unreachable"}, OUT, {}, ("nowhere", None)),
        # what refuses it is known better from the rows
        ({"error": "No route to host"}, [route("10.9.0.0/16", None, kind="unreachable")], {}, ("blocked", None)),
        ({"type": "unicast", "dev": "eth0"}, [route("10.9.0.0/16", None, kind="unreachable")], {}, ("blocked", None)),
        # a kernel that forwards nothing answers that there is no way
        ({"error": "No route to host"}, OUT, {"forwarding": {"4": False}}, ("leaves", "eth0")),
        ({"error": "Network is unreachable"}, [], {}, ("nowhere", None)),
    ],
)
def test_the_kernels_own_answer_counts(said: t.Any, routes: Answers, more: t.Any, expected: t.Any) -> None:
    answer = {"question": {"dst": "10.9.0.7", "src": "10.8.0.7", "iif": "veth1", "mark": 0}, **said}
    assert decided(MAIN, routes, [answer], **more) == expected
    # but only for the very question
    for change in ({"iif": "eth9"}, {"mark": 5}, {"src": "10.8.0.8"}):
        other = dict(answer, question=dict(answer["question"], **change))
        assert decided(MAIN, routes, [other], **more) == decided(MAIN, routes, None, **more)


def test_another_tunnel_is_as_good_only_if_it_leads_there(two: World) -> None:
    two.nodes[ONE]["links"].append(
        {"name": "wg9", "kind": "wireguard", "up": True, "mtu": 1420, "owned": False, "addresses": []}
    )
    peer = dict(two.peer_of(ONE, TWO), public_key=two.own_key(TWO, ONE))
    two.nodes[ONE]["devices"].append(dict(two.device_of(ONE, TWO), name="wg9", peers=[peer]))
    two.nodes[ONE]["routes"].append(route(two.pods[TWO] + "/32", "wg9"))
    assert cause(walk(two)) == ""
    peer["public_key"] = key_of("somebody")
    assert cause(walk(two)) == "route_shadowed"


def test_the_reverse_path_filter_is_the_stricter_of_two_and_of_ipv4(two: World) -> None:
    name = two.device(TWO, ONE)
    two.nodes[TWO]["routes"].append(route(two.pods[ONE] + "/32", "eth0", 254, "192.168.255.1"))
    for level, device, expected in (
        (0, 0, ""),
        (1, 0, "reverse_path_filter"),
        (0, 1, "reverse_path_filter"),
        (2, 1, "reverse_path_filter"),
    ):
        two.nodes[TWO]["settings"]["rp_filter"] = {"all": level, name: device}
        assert cause(walk(two)) == expected, (level, device)
    two.nodes[TWO]["settings"]["rp_filter"] = {"all": 1}
    two.nodes[TWO]["routes"].pop()
    assert cause(walk(two)) == ""
    # a device with an address is loose where it should be
    two.nodes[TWO]["routes"].append(route(two.pods[ONE] + "/32", "eth0", 254, "192.168.255.1"))
    two.nodes[TWO]["settings"]["rp_filter"] = {"all": 2}
    assert cause(walk(two)) == "reverse_path_filter"
    next(row for row in two.nodes[TWO]["links"] if row["name"] == name)["addresses"] = ["10.99.0.1/24"]
    assert cause(walk(two)) == ""


def test_the_filter_looks_with_the_mark_where_it_is_configured_to(span: World) -> None:
    span.nodes[TWO]["settings"]["rp_filter"] = {"all": 1}
    assert cause(walk(span)) == "reverse_path_filter"
    span.nodes[TWO]["settings"]["src_valid_mark"] = True
    assert cause(walk(span)) == ""


def test_six_has_no_filter_and_its_own_switch() -> None:
    facts = {
        "links": [
            {"name": "eth0", "kind": "veth", "up": True, "addresses": ["fd00::1/64"]},
            {"name": "veth1", "kind": "veth", "up": True},
        ],
        "routes": [
            {"dst": "fd00:1::7/128", "dev": "veth1", "table": 254},
            {"dst": "fd00:1::8/128", "dev": "veth2", "table": 254},
        ],
        "settings": {"forwarding": {"4": False, "6": True}, "rp_filter": {"all": 1}},
    }

    def go() -> str:
        nodes = {"a": parse_node("a", "aws", facts)}
        return cause(
            Walker(nodes, node_results.parse_mesh({})).walk(
                Packet(6, number("fd00:1::7"), number("fd00:1::8")), "a", "a", True
            )
        )

    assert go() == ""
    facts["settings"]["forwarding"]["6"] = False  # type: ignore[index]
    assert go() == "forwarding_off"


def test_who_sends_for_himself_need_not_forward(two: World) -> None:
    two.nodes[ONE]["settings"]["forwarding"]["4"] = False
    assert cause(walk(two, from_pod=False)) == "" and cause(walk(two)) == "forwarding_off"
    two.nodes[ONE]["settings"]["forwarding"]["4"] = True
    two.nodes[ONE]["settings"]["not_forwarding"] = ["veth1"]
    assert cause(walk(two)) == "forwarding_off"


def test_an_answer_that_leaves_elsewhere_has_a_cause_of_its_own(two: World) -> None:
    two.nodes[ONE]["routes"].append(route(two.pods[TWO] + "/32", "eth0", 254, "192.168.255.1"))
    assert (cause(walk(two)), cause(walk(two, direction=BACK))) == ("route_shadowed", "answer_another_way")


def test_a_device_that_was_not_read_is_not_missing(two: World) -> None:
    for kind in ("links", "devices"):
        two.nodes[ONE][kind] = [row for row in two.nodes[ONE][kind] if row["name"] != two.device(ONE, TWO)]
    two.nodes[ONE]["routes"] = [row for row in two.nodes[ONE]["routes"] if row["dev"] != two.device(ONE, TWO)]
    assert cause(walk(two)) == "device_missing"
    two.nodes[ONE]["errors"] = [{"section": "links", "message": "no"}]
    assert cause(walk(two)) == "route_missing"


def test_a_watcher_that_nobody_knows_of_is_no_cause(span: World) -> None:
    span.nodes[ONE]["sets"][0]["spans"] = []
    span.nodes[ONE]["units"] = []
    assert cause(walk(span)) == "not_explained"
    span.peer_of(ONE, TWO)["handshake_age"] = 9999
    assert cause(walk(span)) == "no_handshake"
    span.nodes[ONE]["units"] = [{"name": "multicluster-network-watch-t.service", "active": "failed"}]
    assert cause(walk(span)) == "watcher_stopped"


def test_the_mark_is_that_of_the_rule(span: World) -> None:
    for row in span.nodes[ONE]["rules"]:
        if row["fwmark"]:
            row.update(fwmark=0x4000, fwmask=0x6000)
    found = walk(span)
    assert cause(found) == "" and "mark 0x4000" in found.steps[0].text and "mark 0x4000" in found.steps[0].command
    # another's rule by a mark to a table that people know is not the mesh's, though there is a route by its device
    span.nodes[ONE]["rules"].insert(0, dict(rule(5, 254), fwmark=0x9, fwmask=0xF))
    span.nodes[ONE]["routes"].append(route("10.77.0.0/16", "kubespan"))
    assert "mark 0x4000" in walk(span).steps[0].text


def test_a_route_that_refuses_is_not_the_meshs_own(two: World) -> None:
    for row in two.nodes[ONE]["routes"]:
        if row["dev"] == two.device(ONE, TWO):
            row["type"] = "unreachable"
    assert cause(walk(two)) == "route_missing"


def test_a_target_that_is_the_node_itself(two: World) -> None:
    target = two.uplink[TWO]
    two.nodes[ONE]["routes"].append(route(target + "/32", two.device(ONE, TWO)))
    assert cause(walk(two, target=target)) == ""
    # by its table alone, and by its devices alone
    two.nodes[TWO]["links"] = [dict(row, addresses=[]) for row in two.nodes[TWO]["links"]]
    assert cause(walk(two, target=target)) == ""
    two.nodes[TWO]["routes"] = [row for row in two.nodes[TWO]["routes"] if row["type"] != "local"]
    two.nodes[TWO]["links"][1]["addresses"] = [target + "/16"]
    assert cause(walk(two, target=target)) == ""


def test_what_is_for_the_node_itself_is_not_forwarded(two: World) -> None:
    target = two.uplink[TWO]
    two.nodes[ONE]["routes"].append(route(target + "/32", two.device(ONE, TWO)))
    two.nodes[TWO]["settings"]["forwarding"]["4"] = False
    assert cause(walk(two, target=target)) == ""
    two.nodes[TWO]["routes"] = [
        row for row in two.nodes[TWO]["routes"] if row["type"] != "local"
    ]  # its table was not read
    assert cause(walk(two, target=target)) == ""
    # a whole range that is local, of which no device has an address
    two.nodes[ONE]["routes"].append(route("10.77.0.0/24", two.device(ONE, TWO)))
    two.peer_of(ONE, TWO)["allowed_ips"].append("10.77.0.0/24")
    two.nodes[TWO]["routes"].append(route("10.77.0.0/24", "lo", 255, kind="local"))
    assert cause(walk(two, target="10.77.0.9")) == ""


def test_a_device_that_is_down_is_reported_before_its_routes_are_missed(two: World) -> None:
    name = two.device(ONE, TWO)
    next(row for row in two.nodes[ONE]["links"] if row["name"] == name)["up"] = False
    two.nodes[ONE]["routes"] = [row for row in two.nodes[ONE]["routes"] if row["dev"] != name]
    assert cause(walk(two)) == "device_down"


@pytest.mark.parametrize(("running", "expected"), [(False, "kube_proxy_off"), (True, ""), (None, "")])
def test_a_services_address_needs_somebody_who_turns_it(two: World, running: bool | None, expected: str) -> None:
    two.nodes[ONE]["kube_proxy"] = {"running": running, "how": ""}
    walker = Walker(
        {host: parse_node(host, host[:3], facts) for host, facts in two.nodes.items()},
        node_results.parse_mesh(two.mesh()),
    )
    packet = Packet(4, number(two.pods[ONE]), number(two.pods[TWO]))
    found = walker.proxied(packet, ONE, number("10.3.0.9"))
    assert (found.cause if found else "") == expected
    assert walker.proxied(packet, ONE, packet.dst) is None and walker.proxied(packet, ONE, None) is None


@pytest.mark.parametrize(
    ("dev", "via", "length", "expected"),
    [
        ("veth2", None, 32, ""),
        ("eth0", None, 0, "route_missing"),
        ("eth0", "192.168.255.1", 24, "route_missing"),
        ("wireguard.aws", None, 32, "route_missing"),
    ],
)
def test_a_pod_of_an_unknown_device_is_behind_one_of_the_nodes_own(
    two: World, dev: str, via: str | None, length: int, expected: str
) -> None:
    two.nodes[TWO]["pods"] = []
    net = str(ipaddress.ip_network(f"{two.pods[TWO]}/{length}", strict=False))
    two.nodes[TWO]["routes"] = [
        row for row in two.nodes[TWO]["routes"] if row["dev"] not in ("veth1",) and row["dst"] != "0.0.0.0/0"
    ]
    two.nodes[TWO]["routes"].append(route(net, dev, via=via))
    assert cause(walk(two)) == expected


def test_a_bridge_of_the_nodes_own_address_leads_inward(two: World) -> None:
    two.nodes[TWO]["pods"] = []
    two.nodes[TWO]["routes"] = [row for row in two.nodes[TWO]["routes"] if row["dev"] != "veth1"]
    two.nodes[TWO]["routes"].append(route(two.pods[TWO] + "/32", "br0", via=two.uplink[TWO]))
    assert cause(walk(two)) == ""


def test_what_takes_a_pods_packets_away_on_its_own_node(two: World) -> None:
    two.nodes[TWO]["routes"].append(route(two.pods[TWO] + "/32", "eth0", metric=-1))
    two.nodes[TWO]["routes"][-1]["metric"] = 0
    next(row for row in two.nodes[TWO]["routes"] if row["dev"] == "veth1")["metric"] = 5
    assert cause(walk(two)) == "route_shadowed"
    two.nodes[TWO]["routes"].pop()
    two.nodes[TWO]["rules"].append(rule(100, 77))
    two.nodes[TWO]["routes"].append(route("0.0.0.0/0", "eth0", 77, "192.168.255.1"))
    assert cause(walk(two)) == "rule_shadowed"
    two.nodes[TWO]["rules"][-1].update(tos=4)
    assert cause(walk(two)) == "unknown"


def test_rules_that_ask_for_more_are_not_guessed_at(two: World) -> None:
    two.nodes[ONE]["rules"].append(dict(rule(100, 77), ipproto=6))
    two.nodes[ONE]["routes"].append(route("0.0.0.0/0", "eth0", 77, "192.168.255.1"))
    found = walk(two)
    assert cause(found) == "unknown" and "asks for more than is known" in found.unknown


def test_nodes_of_one_cluster_need_no_tunnel_and_those_of_two_do() -> None:
    world = World({"aws": 2, "gcp": 1})
    assert cause(walk(world, "aws-0", "aws-1")) == ""
    mesh = world.mesh()
    world.nodes["aws-0"]["devices"] = []
    found = walk(world, "aws-0", "gcp-0", mesh=mesh)
    assert cause(found) == "unknown" and "no tunnel" in found.unknown
    assert cause(walk(world, "aws-0", "aws-1", mesh=mesh)) == ""


def test_a_node_that_did_not_answer_is_named_with_why(two: World) -> None:
    nodes = {ONE: parse_node(ONE, "aws", two.nodes[ONE])}
    found = Walker(nodes, node_results.parse_mesh(two.mesh()), {TWO: "unreachable\x1b[2J"}).walk(
        Packet(4, 1, 2), ONE, TWO, True
    )
    assert (cause(found), found.unknown) == ("unknown", "gcp-0 did not say what it has: unreachable?[2J")
