# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each decision of a walk, of tunnels and of a diagnosis by itself: the case in which only it makes the difference."""

from __future__ import annotations

import ipaddress
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._trace import classes, observed, policies, report
from ansible_collections.multicluster.network.plugins.module_utils._trace.causes import BACK, FORWARD
from ansible_collections.multicluster.network.plugins.module_utils._trace.expected import Walk, Walker
from ansible_collections.multicluster.network.plugins.module_utils._trace.facts import parse_node
from ansible_collections.multicluster.network.plugins.module_utils._trace.routing import Packet, decide
from trace_worlds import World, key_of, route, rule

ONE, TWO = "aws-0", "gcp-0"
Answers = t.Sequence[t.Mapping[str, t.Any]]


def number(text: str) -> int:
    return int(ipaddress.ip_address(text))


def walk(
    world: World,
    src: str = ONE,
    dst: str = TWO,
    direction: str = FORWARD,
    from_pod: bool = True,
    mesh: t.Any = None,
    answers: t.Any = None,
    target: str = "",
    version: int = 4,
) -> Walk:
    nodes = {
        host: parse_node(host, world.seats[host][0], facts, (answers or {}).get(host))
        for host, facts in world.nodes.items()
    }
    packet = Packet(
        version, number(world.pods[src] if from_pod else world.uplink[src]), number(target or world.pods[dst])
    )
    return Walker(nodes, report.parse_mesh(world.mesh() if mesh is None else mesh)).walk(
        packet, src, dst, from_pod, direction
    )


def cause(found: Walk) -> str:
    return found.fault.cause if found.fault is not None else "" if found.arrived else "unknown"


@pytest.fixture
def two() -> World:
    return World({"aws": 1, "gcp": 1})


@pytest.fixture
def span() -> World:
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
        # a kernel that forwards nothing says that there is no way
        ({"error": "No route to host"}, OUT, {"forwarding": {"4": False}}, ("leaves", "eth0")),
        ({"error": "Network is unreachable"}, [], {}, ("nowhere", None)),
    ],
)
def test_the_kernels_own_word_counts(said: t.Any, routes: Answers, more: t.Any, expected: t.Any) -> None:
    answer = {"question": {"dst": "10.9.0.7", "src": "10.8.0.7", "iif": "veth1", "mark": 0}, **said}
    assert decided(MAIN, routes, [answer], **more) == expected
    # but only for the very question
    for change in ({"iif": "eth9"}, {"mark": 5}, {"src": "10.8.0.8"}):
        other = dict(answer, question=dict(answer["question"], **change))
        assert decided(MAIN, routes, [other], **more) == decided(MAIN, routes, None, **more)


# -- a node ------------------------------------------------------------------------------------------------------------


def test_another_tunnel_is_as_good_only_if_it_leads_there(two: World) -> None:
    two.nodes[ONE]["links"].append(
        {"name": "wg9", "kind": "wireguard", "up": True, "mtu": 1420, "ours": False, "addresses": []}
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


def test_the_filter_looks_with_the_mark_where_it_is_told_to(span: World) -> None:
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
            Walker(nodes, report.parse_mesh({})).walk(
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


def test_an_answer_that_leaves_elsewhere_has_a_word_of_its_own(two: World) -> None:
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
        {host: parse_node(host, host[:3], facts) for host, facts in two.nodes.items()}, report.parse_mesh(two.mesh())
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
def test_a_pod_whose_device_is_not_known_is_behind_one_of_the_nodes_own(
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
    found = Walker(nodes, report.parse_mesh(two.mesh()), {TWO: "unreachable\x1b[2J"}).walk(
        Packet(4, 1, 2), ONE, TWO, True
    )
    assert (cause(found), found.unknown) == ("unknown", "gcp-0 did not say what it has: unreachable?[2J")


# -- tunnels -----------------------------------------------------------------------------------------------------------


def test_the_device_is_that_of_the_plan(two: World) -> None:
    """The other end's device has another name there than any that fits by its key."""
    two.nodes[TWO]["devices"].insert(0, dict(two.device_of(TWO, ONE), name="zz", public_key=key_of("zz")))
    assert cause(walk(two)) == ""
    two.nodes[TWO]["devices"] = two.nodes[TWO]["devices"][:1]
    assert cause(walk(two)) == "device_missing"


def test_the_other_end_is_down(two: World) -> None:
    two.device_of(TWO, ONE)["up"] = False
    found = walk(two)
    assert (cause(found), found.fault and found.fault.at) == ("device_down", TWO)


def test_a_source_that_belongs_to_another_peer_there() -> None:
    world = World({"aws": 2, "gcp": 1})
    world.peer_of("gcp-0", "aws-1")["allowed_ips"].append(world.pods["aws-0"] + "/32")
    found = walk(world, "aws-0", "gcp-0")
    assert cause(found) == "allowed_ips_lack_source" and found.fault is not None and "alone" in found.fault.text


def test_a_target_that_belongs_to_another_peer_here() -> None:
    world = World({"aws": 1, "gcp": 2})
    world.peer_of("aws-0", "gcp-1")["allowed_ips"].append(world.pods["gcp-0"] + "/32")
    assert cause(walk(world, "aws-0", "gcp-0")) == "allowed_ips_lack_target"
    # and the right one is not there at all: another node's key is nobody's wrong one
    world.device_of("aws-0", "gcp-0")["peers"].remove(world.peer_of("aws-0", "gcp-0"))
    assert cause(walk(world, "aws-0", "gcp-0")) == "peer_missing"


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [(True, False, "no_handshake"), (False, True, "no_handshake"), (True, True, ""), (None, True, "")],
)
def test_one_preshared_key_is_too_few(two: World, here: t.Any, there: t.Any, expected: str) -> None:
    two.peer_of(ONE, TWO)["preshared"], two.peer_of(TWO, ONE)["preshared"] = here, there
    assert cause(walk(two)) == expected


def test_a_key_of_two_nodes_is_distinguished_from_either_end() -> None:
    for who in ("aws-0", "gcp-0"):
        world = World({"aws": 2, "gcp": 2})
        other = who[:-1] + "1"
        for device in world.nodes[other]["devices"]:
            device["public_key"] = next(one for one in world.nodes[who]["devices"] if one["name"] == device["name"])[
                "public_key"
            ]
        assert cause(walk(world, "aws-0", "gcp-0")) == "keys_shared", who


@pytest.mark.parametrize(
    ("endpoint", "planned", "fresh", "expected"),
    [
        ("{own}:{port}", None, False, ""),
        ("{own}:9", None, True, "stale_endpoint"),
        ("192.168.77.77:{port}", None, False, "stale_endpoint"),
        ("192.168.77.77:40001", None, False, "endpoint_moved"),
        # behind a NAT: where it should be found is none of its own addresses
        ("203.0.113.9:51820", ["203.0.113.9:51820"], False, ""),
        ("203.0.113.9:40001", ["203.0.113.9:51820"], False, "endpoint_moved"),
        ("203.0.113.9:40001", ["203.0.113.9:51820"], True, ""),
        ("203.0.113.7:51820", ["203.0.113.9:51820"], False, "endpoint_moved"),
        # nobody says where it should be
        ("203.0.113.9:40001", [], True, ""),
        ("203.0.113.9:40001", [], False, "endpoint_moved"),
    ],
)
def test_where_a_peer_is_called(two: World, endpoint: str, planned: t.Any, fresh: bool, expected: str) -> None:
    two.peer_of(ONE, TWO)["endpoint"] = endpoint.format(own=two.uplink[TWO], port=two.port(TWO, ONE))
    for one, other in ((ONE, TWO), (TWO, ONE)):
        two.peer_of(one, other)["handshake_age"] = 20 if fresh else 500
    mesh = two.mesh()
    if planned is not None:
        mesh["endpoints"] = {TWO: planned}
    assert cause(walk(two, mesh=mesh)) == expected


def test_a_wrong_key_is_one_that_nobody_has_where_the_node_should_be(two: World) -> None:
    peer = two.peer_of(ONE, TWO)
    peer.update(public_key=key_of("nobody"), allowed_ips=["10.99.0.0/24"])
    assert cause(walk(two)) == "wrong_key"  # it takes no packet, and stands where the node is
    peer["endpoint"] = "192.168.77.77:1"
    assert cause(walk(two)) == "peer_missing"
    other = World({"aws": 1, "gcp": 2})
    neighbour = other.peer_of("aws-0", "gcp-1")
    other.device_of("aws-0", "gcp-0")["peers"].remove(other.peer_of("aws-0", "gcp-0"))
    neighbour["endpoint"] = f"{other.uplink['gcp-0']}:1"  # of a node that is known: no key of nobody
    assert cause(walk(other, "aws-0", "gcp-0")) == "peer_missing"


# -- what was seen -----------------------------------------------------------------------------------------------------


def judged(
    world: World,
    change: t.Callable[[dict[str, t.Any], dict[str, t.Any]], None],
    protocol: str = "icmp",
    reverse: bool = True,
) -> t.Any:
    plan, results = world.trace(ONE, TWO, protocol, reverse)
    change(plan, results)
    built = report.build(plan, results, {})
    found = built["findings"]
    return built["verdict"], found[0]["cause"] if found else "", found[0]["confidence"] if found else ""


def outcomes(results: t.Any, *rows: tuple[int, str]) -> None:
    results[ONE]["sent"]["sent"] = [{"flow": "0", "size": size, "outcome": outcome} for size, outcome in rows]


def unseen(results: t.Any, *hosts: str, keep: t.Callable[[t.Any], bool] = lambda event: False) -> None:
    for host in hosts:
        results[host]["collected"]["events"] = [event for event in results[host]["collected"]["events"] if keep(event)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (((0, "answered"), (1400, "silent")), "mtu_black_hole"),
        (((0, "answered"), (1400, "icmp_error")), ""),
        (((0, "answered"), (900, "silent")), ""),
    ],
)
def test_only_a_large_packet_without_a_word_is_a_black_hole(two: World, rows: t.Any, expected: str) -> None:
    assert judged(two, lambda plan, results: outcomes(results, *rows))[1] == expected


def test_a_large_packet_that_was_handed_over_found_no_black_hole(two: World) -> None:
    def lost(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "answered"), (1400, "silent"))

    def silent(plan: t.Any, results: t.Any) -> None:
        lost(plan, results)
        for event in results[TWO]["collected"]["events"]:
            event["length"] = 1400

    assert judged(two, lost, "tcp")[1] == judged(two, silent)[1] == "mtu_black_hole"
    assert judged(two, silent, "tcp")[0] == "arrives"


def test_datagrams_promise_no_answer(two: World) -> None:
    two.mute.add(TWO)

    def datagrams(plan: t.Any, results: t.Any) -> None:
        plan["flows"][0].update(protocol="udp")
        plan["flows"][0]["target"]["backends"][0]["port"] = 53

    assert (
        judged(two, datagrams)[:2] == ("arrives", "") and judged(two, lambda plan, results: None)[1] == "target_silent"
    )

    def lost(plan: t.Any, results: t.Any) -> None:
        datagrams(plan, results)
        unseen(results, TWO)

    assert judged(two, lost)[0] != "arrives"
    listening = [{"address": two.pods[TWO], "proto": "tcp", "port": 53}]

    def unheard(plan: t.Any, results: t.Any) -> None:
        datagrams(plan, results)
        results[TWO]["armed"]["facts"] = dict(results[TWO]["armed"]["facts"], listeners=listening)

    assert judged(two, unheard)[1:] == ("port_closed", "likely"), "kernels send only so many refusals in a second"
    listening[0]["proto"] = "udp"
    assert judged(two, unheard)[0] == "arrives"


def test_a_port_is_closed_by_the_target_or_by_somebody_before_it(two: World) -> None:
    def refused(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "refused"))

    assert judged(two, refused, "tcp") == ("does not arrive", "port_closed", "proven")

    def early(plan: t.Any, results: t.Any) -> None:
        refused(plan, results)
        unseen(results, TWO)

    assert judged(two, early, "tcp")[1] == "not_explained"

    def blind(plan: t.Any, results: t.Any) -> None:
        early(plan, results)
        results[TWO]["armed"]["armed"] = False

    assert judged(two, blind, "tcp")[1:] == ("port_closed", "likely")
    listening = [{"address": two.pods[TWO], "proto": "udp", "port": 8080}]

    def deaf(plan: t.Any, results: t.Any) -> None:
        blind(plan, results)
        results[TWO]["armed"]["facts"] = dict(results[TWO]["armed"]["facts"], listeners=listening)

    assert judged(two, deaf, "tcp")[1:] == ("port_closed", "proven")
    listening[0]["proto"] = "tcp"
    assert judged(two, deaf, "tcp")[1:] == ("port_closed", "likely")


def test_an_answer_that_came_in_and_did_not_go_on_is_not_delivered(two: World) -> None:
    """A pod's packet in the hook of the node's own programs came to nobody."""

    def stays(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "silent"))
        for event in results[TWO]["collected"]["events"]:
            event.update(hook="input" if event["chain"] == "forward" else event["chain"], oif="")
        unseen(results, TWO, keep=lambda event: event["direction"] == "forward" and event["hook"] != "postrouting")

    assert judged(two, stays)[:2] == ("not explained", "not_explained")

    def node(plan: t.Any, results: t.Any) -> None:
        plan["flows"][0]["target"]["kind"] = "node"
        stays(plan, results)

    assert judged(two, node)[1] == "target_silent"


def test_what_goes_back_into_a_tunnel_was_not_handed_over(two: World) -> None:
    def loops(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "silent"))
        unseen(results, TWO, keep=lambda event: event["direction"] == "forward")
        for event in results[TWO]["collected"]["events"]:
            if event["oif"]:
                event["oif"] = two.device(TWO, ONE)

    assert judged(two, loops)[1] != "target_silent"


def test_a_target_that_nobody_watched_is_not_called_silent(two: World) -> None:
    two.mute.add(TWO)

    def blind(plan: t.Any, results: t.Any) -> None:
        results[TWO]["armed"]["armed"] = False

    assert judged(two, blind)[1] == "not_explained"


def test_who_saw_nothing_leave_says_so(two: World) -> None:
    def nothing(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "silent"))
        unseen(results, ONE, TWO)

    plan, results = two.trace(ONE, TWO)
    nothing(plan, results)
    found = report.build(plan, results, {})["findings"][0]
    assert found["cause"] == "not_explained" and "saw nothing of it leave its source" in found["message"]


def test_a_fault_before_the_place_where_it_was_seen_is_none(two: World) -> None:
    """The facts were read before the packet went: what they say counts only where the packet did not come further."""

    def mended(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "silent"))
        unseen(results, TWO, keep=lambda event: event["direction"] == "forward")
        facts = results[ONE]["armed"]["facts"]
        results[ONE]["armed"]["facts"] = dict(
            facts, routes=[row for row in facts["routes"] if row["dev"] != two.device(ONE, TWO)]
        )

    assert judged(two, mended)[1] == "target_silent"


def test_a_fault_that_lets_it_in_does_not_let_it_out(two: World) -> None:
    """No route: the packet comes in and does not leave. It left: then that is not why."""

    def left(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "silent"))
        unseen(results, TWO)
        facts = results[ONE]["armed"]["facts"]
        results[ONE]["armed"]["facts"] = dict(facts, settings=dict(facts["settings"], forwarding={"4": False}))

    assert judged(two, left)[1] not in ("forwarding_off",)

    def stayed(plan: t.Any, results: t.Any) -> None:
        left(plan, results)
        unseen(results, ONE, keep=lambda event: event["direction"] == "forward" and event["chain"] == "prerouting")

    assert judged(two, stayed)[1:] == ("forwarding_off", "proven")


def test_a_diversion_was_seen_where_it_left(two: World) -> None:
    two.nodes[ONE]["routes"].append(route(two.pods[TWO] + "/32", "eth0", 254, "192.168.255.1"))
    assert judged(two, lambda plan, results: None)[1:] == ("route_shadowed", "proven")


def test_without_records_nothing_is_proven(two: World) -> None:
    two.nodes[ONE]["settings"]["forwarding"]["4"] = False

    def blind(plan: t.Any, results: t.Any) -> None:
        for row in results.values():
            row["armed"] = dict(row["armed"], armed=False)

    assert judged(two, blind)[1:] == ("forwarding_off", "likely")


def test_a_source_of_the_node_before_the_tunnel_is_not_rewritten(two: World) -> None:
    """On its way out by an ordinary device the first node may see other sources of other hooks."""

    def elsewhere(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "silent"))
        unseen(results, TWO)
        for event in results[ONE]["collected"]["events"]:
            event["oif"] = "eth0" if event["oif"] else ""
            if event["chain"] == "postrouting":
                event["src"] = "192.0.2.1"

    assert judged(two, elsewhere)[1] != "masqueraded"


def test_answers_have_other_sources_and_are_not_rewritten(two: World) -> None:
    def back(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "silent"))
        for event in results[TWO]["collected"]["events"]:
            if event["direction"] == "back":
                event["src"] = "10.5.0.9"  # as a Service's address, where conntrack turns it back

    assert judged(two, back)[1] != "masqueraded"


def counts(
    results: t.Any,
    world: World,
    here: tuple[int, int],
    there: tuple[int, int],
    ages: tuple[t.Any, t.Any] = (None, None),
) -> None:
    """What both ends counted meanwhile, as (rx, tx), and the ages of their handshakes."""
    for host, other, (rx, tx), age in ((ONE, TWO, here, ages[0]), (TWO, ONE, there, ages[1])):
        peer = dict(world.peer_of(host, other))
        world.peer_of(host, other)["handshake_age"] = age
        after = dict(peer, rx=peer["rx"] + rx, tx=peer["tx"] + tx, handshake_age=age)
        results[host]["collected"]["devices"] = [dict(world.device_of(host, other), peers=[after])]


@pytest.mark.parametrize(
    ("here", "there", "ages", "calls", "expected"),
    [
        ((0, 148), (0, 148), (None, None), True, ("udp_blocked", "proven")),
        ((92, 148), (0, 148), (None, None), True, ("udp_blocked_one_way", "likely")),
        ((92, 148), (0, 148), (20, 20), True, ("udp_blocked_one_way", "proven")),
        ((0, 148), (0, 0), (None, None), False, ("no_handshake", "likely")),
        ((0, 148), (148, 92), (None, None), True, ("no_handshake", "likely")),
        ((92, 148), (148, 92), (None, None), True, ("no_handshake", "likely")),
        ((0, 0), (0, 148), (None, None), True, ("not_explained", "not explained")),
        ((92, 148), (148, 92), (20, 20), True, ("not_explained", "not explained")),
        # the other end has a session and this one has none: what it sends with that is not counted here
        ((0, 148), (0, 148), (None, 20), True, ("no_handshake", "likely")),
        ((0, 148), (0, 148), (20, 20), True, ("udp_blocked", "proven")),
        # nobody knows whether the other end sent anything
        ((0, 148), (0, 148), (20, 20), False, ("not_explained", "not explained")),
    ],
)
def test_what_tunnels_count_tells_who_heard_whom(
    two: World, here: t.Any, there: t.Any, ages: t.Any, calls: bool, expected: t.Any
) -> None:
    def lost(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "silent"))
        unseen(
            results, TWO, keep=lambda event: calls and event["flow"] == "0r" and event["oif"] == two.device(TWO, ONE)
        )
        unseen(results, ONE, keep=lambda event: event["flow"] == "0" and event["direction"] == "forward")
        counts(results, two, here, there, ages)

    assert judged(two, lost)[1:] == expected


def test_who_refuses_on_the_targets_node_is_not_the_pod(two: World) -> None:
    def refused(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "refused"))
        unseen(results, TWO, keep=lambda event: event["direction"] == "forward" and event["chain"] == "prerouting")
        for event in list(results[TWO]["collected"]["events"]):
            results[TWO]["collected"]["events"].append(dict(event, chain="input"))

    assert judged(two, refused, "tcp")[1] == "not_explained"

    def node(plan: t.Any, results: t.Any) -> None:
        plan["flows"][0]["target"]["kind"] = "node"
        refused(plan, results)

    assert judged(two, node, "tcp")[1:] == ("port_closed", "proven")


def test_what_diverts_comes_before_what_rewrites_on_the_other_way(two: World) -> None:
    two.nodes[ONE]["routes"].append(route(two.pods[TWO] + "/32", "eth0", 254, "192.168.255.1"))

    def around(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "silent"))
        (event, *dummy) = results[ONE]["collected"]["events"]
        results[TWO]["collected"]["events"] = [dict(event, chain="prerouting", iif="eth0", oif="", src=two.uplink[ONE])]

    assert judged(two, around)[1] == "route_shadowed"


def test_counters_say_nothing_where_the_facts_and_the_packet_disagree(two: World) -> None:
    def left(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "silent"))
        unseen(results, TWO)
        unseen(results, ONE, keep=lambda event: event["flow"] == "0" and event["direction"] == "forward")
        counts(results, two, (0, 148), (148, 92))
        facts = results[ONE]["armed"]["facts"]
        results[ONE]["armed"]["facts"] = dict(facts, settings=dict(facts["settings"], forwarding={"4": False}))

    assert judged(two, left)[1] == "not_explained"


FULL = {"count": 65536, "most": 65536, "dropped": 5}


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        (FULL, dict(FULL, dropped=8), ("conntrack_full", "proven")),
        (dict(FULL, count=9), dict(FULL, dropped=8), ("conntrack_full", "proven")),
        (FULL, FULL, ("conntrack_full", "likely")),
        (None, dict(FULL, dropped=None), ("conntrack_full", "likely")),
        (dict(FULL, count=9), dict(FULL, count=9, dropped=8), ("not_explained", "not explained")),
        (None, None, ("not_explained", "not explained")),
    ],
)
@pytest.mark.parametrize("host", [ONE, TWO])
def test_a_packet_that_came_in_where_no_further_connection_is_tracked(
    two: World, before: t.Any, after: t.Any, cause: tuple[str, str], host: str
) -> None:
    def full(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "failed"))
        unseen(results, TWO, keep=lambda event: host == TWO and event["flow"] == "0" and event["chain"] == "prerouting")
        unseen(
            results,
            ONE,
            keep=lambda event: (
                event["flow"] == "0"
                and event["direction"] == "forward"
                and (host == TWO or event["chain"] == "prerouting")
            ),
        )
        facts = results[host]["armed"]["facts"]
        results[host]["armed"]["facts"] = dict(facts, counters={"tracking": before})
        results[host]["collected"]["counters"] = {"tracking": after}

    assert judged(two, full)[1:] == cause


def test_who_did_not_record_is_not_said_to_have_seen_nothing(two: World) -> None:
    def blind(plan: t.Any, results: t.Any) -> None:
        outcomes(results, (0, "silent"))
        results[TWO]["armed"]["armed"] = False
        unseen(results, ONE, keep=lambda event: event["flow"] == "0" and event["direction"] == "forward")
        counts(results, two, (0, 148), (148, 92))

    plan, results = two.trace(ONE, TWO)
    blind(plan, results)
    found = report.build(plan, results, {})["findings"]
    assert [row["cause"] for row in found] == ["not_explained"] and "did not see it" not in found[0]["message"]


@pytest.mark.parametrize(
    ("early", "of", "shown"),
    [({"question": 0}, 1, True), ({"question": 1}, 1, False), ({}, None, False), ({"question": 0}, None, True)],
)
def test_a_finding_without_a_packet_explains_its_own_question_and_no_other(
    two: World, early: t.Any, of: int | None, shown: bool
) -> None:
    plan, results = two.trace(ONE, TWO)
    outcomes(results, (0, "silent"))
    results[TWO]["armed"]["armed"] = False
    unseen(results, ONE, keep=lambda event: event["flow"] == "0" and event["direction"] == "forward")
    counts(results, two, (0, 148), (148, 92))
    plan["flows"][0].update({} if of is None else {"question": of})
    plan["findings"] = [{"cause": "mirror_stale", "message": "m", **early}]
    causes = [row["cause"] for row in report.build(plan, results, {})["findings"]]
    assert causes == ["mirror_stale", "not_explained"][: 1 + shown]


def test_an_error_of_the_sources_own_node_came_through_no_tunnel(two: World) -> None:
    two.mute.add(TWO)
    plan, results = two.trace(ONE, TWO)
    plan["flows"][0]["protocol"] = "udp"
    first = results[ONE]["collected"]["events"][0]
    results[ONE]["collected"]["events"].append(dict(first, direction="back", chain="output", iif=""))
    hops = [
        row for row in report.build(plan, results, {})["hops"] if row["direction"] == "back" and row["where"] == TWO
    ]
    assert {row["what"] for row in hops} >= {"route", "tunnel"} and {row["verdict"] for row in hops} == {"not seen"}


@pytest.mark.parametrize(
    ("verdict", "dropped"),
    [("drop", True), ("continue", False), ("jump x", False), ("return", False), ("", False), ("accept", False)],
)
def test_only_a_drop_ends_a_packet(verdict: str, dropped: bool) -> None:
    (event,) = observed.parse_events([{"flow": "0", "table": "t", "chain": "forward", "verdict": verdict}], "0", None)
    assert (observed.passage("h", "forward", [event]).drop is not None) == dropped


def policy(**spec: t.Any) -> dict[str, t.Any]:
    return {
        "metadata": {"namespace": "shop", "name": "p"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [], **spec},
    }


def block(cidr: str, *but: str) -> list[t.Any]:
    return [{"from": [{"ipBlock": {"cidr": cidr, "except": list(but)}}]}]


@pytest.mark.parametrize(
    ("spec", "lacks"),
    [
        ({}, True),
        ({"policyTypes": ["Egress"]}, False),
        ({"policyTypes": None}, True),
        ({"ingress": [{}]}, False),
        ({"ingress": block("10.8.0.0/16")}, False),
        ({"ingress": block("10.9.0.0/16")}, True),
        ({"ingress": block("10.8.0.0/16", "10.8.0.0/24")}, True),
        ({"ingress": block("10.8.0.0/16", "10.8.1.0/24")}, False),
        ({"ingress": [*block("10.9.0.0/16"), *block("10.8.0.7/32")]}, False),
        ({"ingress": [{"from": [{"podSelector": {}}]}]}, True),
        ({"podSelector": {"matchLabels": {"app": "other"}}}, False),
        ({"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}}, True),
        ({"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}}, False),
        ({"podSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}, False),
        ({"podSelector": None}, False),
    ],
)
def test_a_policy_says_whom_it_lets_in(spec: t.Any, lacks: bool) -> None:
    source = (4, number("10.8.0.7"))
    assert (policies.lacks_source([policy(**spec)], "shop", {"app": "web"}, source) is not None) == lacks
    assert policies.lacks_source([policy(**spec)], "bank", {"app": "web"}, source) is None
    # one that lets it in is enough
    assert policies.lacks_source([policy(**spec), policy(ingress=[{}])], "shop", {"app": "web"}, source) is None


# -- plans -------------------------------------------------------------------------------------------------------------


def kubespan(*left_out: str, **more: t.Any) -> dict[str, t.Any]:
    """A plan of a KubeSpan mesh of two clusters with two nodes each."""
    nodes, records = {}, []
    for index, cluster in enumerate(("aws", "gcp")):
        for count in range(2):
            host, pods = f"{cluster}-{count}", f"10.{10 + index}.{count}.0/24"
            nodes[host] = {"cluster": cluster, "node_name": f"n{count}", "pod_cidrs": [pods]}
            name, address = f"n{count}", f"10.66.{index}.{count}"
            records.append(
                {
                    "cluster": cluster,
                    "node": name,
                    "nodename": name,
                    "node_id": "id-" + host,
                    "public_key": key_of(host),
                    "addresses": [address],
                    "kubespan_address": f"fd00::{index}{count}",
                    "additional_addresses": [pods],
                    "endpoints": [address + ":51820"],
                }
            )
    rows = [row for row in records if row["node_id"][3:] not in left_out]
    return {
        "mode": "kubespan",
        "nodes": nodes,
        "clusters": {"aws": {}, "gcp": {}},
        "kubespan": dict({"affiliates": rows}, **more),
    }


def test_a_kubespan_mesh_joins_nodes_of_one_cluster_too() -> None:
    pairs = classes.Pairs(MeshPlan.from_json(kubespan()))
    assert {pairs.verdict(one, other) for one in pairs.seats for other in pairs.seats if one != other} == {""}
    gone = classes.Pairs(MeshPlan.from_json(kubespan("aws-1")))
    assert (gone.verdict("aws-0", "aws-1"), gone.verdict("aws-1", "gcp-0"), gone.verdict("aws-0", "gcp-1")) == (
        "peer_missing",
        "peer_missing",
        "",
    )
    assert classes.Pairs(MeshPlan.from_json(kubespan("aws-1", unread=["aws"]))).verdict("gcp-0", "aws-1") == "not read"
    # a plan does not have those whom the nodes find through a discovery service
    found = classes.Pairs(MeshPlan.from_json(kubespan("aws-1", members={"aws": {}})))
    assert found.verdict("aws-0", "aws-1") == found.verdict("aws-1", "gcp-0") == ""
    contested = kubespan(contested=[{"cluster": "aws", "node": "n1"}])
    assert classes.Pairs(MeshPlan.from_json(contested)).verdict("gcp-0", "aws-1") == "keys_shared"
    short = kubespan()
    short["nodes"]["gcp-1"]["pod_cidrs"] = ["10.99.0.0/24"]
    assert (
        classes.Pairs(MeshPlan.from_json(short)).verdict("aws-0", "gcp-1"),
        classes.Pairs(MeshPlan.from_json(short)).verdict("gcp-1", "aws-0"),
    ) == (
        "allowed_ips_lack_target",
        "allowed_ips_lack_source",
    )


def test_the_first_of_a_mesh_is_known_by_the_others() -> None:
    """Nobody has itself as a peer: who is first in the order is looked up at the second."""
    pairs = classes.Pairs(MeshPlan.from_json(kubespan()))
    assert all(pairs.verdict(other, "aws-0") == "" for other in pairs.seats if other != "aws-0")


def test_who_is_away_is_away_from_both_ends_and_in_a_class_of_its_own() -> None:
    pairs = classes.Pairs(MeshPlan.from_json(kubespan()), ["aws-0"])
    assert (pairs.verdict("aws-0", "gcp-0"), pairs.verdict("gcp-0", "aws-0")) == ("away", "away")
    found = pairs.summary()
    assert (found["pairs"], found["reachable"], len(found["classes"])) == (12, 6, 3)
