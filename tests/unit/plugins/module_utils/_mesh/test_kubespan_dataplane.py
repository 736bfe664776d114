# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The worked example's table, rules and routes; steps without gaps; conflicts with others."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane import nft_plan
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan import generations, nft, routing
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.generations import (
    generation,
    make_layout,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.identity import mesh_subnet
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.preflight import conflicts
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.states import targets
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import parse_network
from ansible_collections.multicluster.network.plugins.module_utils._values.prefix_sets import PrefixSet
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, settings, strategies as st

MESH = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
BETA = ["10.244.2.0/24", "192.0.2.12/32", "fd7a:6197:edb7:2302:5054:ff:feaa:2/128"]
GAMMA = ["10.20.0.13/32", "10.244.3.0/24", "2001:db8:9::13/128", "fd7a:6197:edb7:2302:42:acff:fe14:d/128"]
CURRENT, SEED = generation("current"), generation("v1.3")

EXCEPTION = "meta mark & 0x00000060 == 0x00000020 accept"
CLAMPS = [
    'oifname "lo" accept',
    "ip daddr @kubespan_targets_ipv4 tcp flags syn / syn,rst tcp option maxseg size > 1368 tcp option maxseg size set 1368",
    "ip6 daddr @kubespan_targets_ipv6 tcp flags syn / syn,rst tcp option maxseg size > 1348 tcp option maxseg size set 1348",
]
MARKING = [
    "ip daddr @kubespan_targets_ipv4 meta mark set meta mark & 0xffffffdf | 0x00000040 accept",
    "ip6 daddr @kubespan_targets_ipv6 meta mark set meta mark & 0xffffffdf | 0x00000040 accept",
]


def rule_texts(table: t.Mapping[str, t.Any]) -> dict[str, list[str]]:
    return {chain["name"]: [nft_plan.rule_text(row) for row in chain["rules"]] for chain in table["chains"]}


def test_the_table_of_the_example() -> None:
    elements = targets([(BETA, "up"), (GAMMA, "unknown")], subnet=mesh_subnet(MESH))
    assert (elements.ranges(4), elements.ranges(6)) == (
        ["10.20.0.13", "10.244.2.0/23", "192.0.2.12"],
        ["2001:db8:9::13"],
    )
    table = nft.table()
    assert rule_texts(table) == {
        "kubespan_prerouting": [EXCEPTION] + MARKING,
        "kubespan_outgoing": [EXCEPTION] + CLAMPS + MARKING,
    }
    assert [(chain["type"], chain["hook"], chain["priority"], chain["policy"]) for chain in table["chains"]] == [
        ("filter", "prerouting", 0, "accept"),
        ("route", "output", 0, "accept"),
    ]
    assert [(item["name"], item["type"], item["flags"]) for item in table["sets"]] == [
        ("kubespan_targets_ipv4", "ipv4_addr", ["interval"]),
        ("kubespan_targets_ipv6", "ipv6_addr", ["interval"]),
    ]


def test_the_old_generation() -> None:
    elements = targets([(BETA, "up"), (GAMMA, "unknown")], gen=SEED)
    assert elements.ranges(6) == [
        "2001:db8:9::13",
        "fd7a:6197:edb7:2302:42:acff:fe14:d",
        "fd7a:6197:edb7:2302:5054:ff:feaa:2",
    ]
    assert rule_texts(nft.table(gen=SEED)) == {
        "kubespan_prerouting": [EXCEPTION] + MARKING,
        "kubespan_outgoing": [EXCEPTION] + MARKING,
    }


def test_bypass_and_force() -> None:
    peers = [(["10.0.0.1/32"], "up"), (["10.0.0.2/32"], "unknown"), (["10.0.0.3/32"], "down")]
    assert targets(peers, force_routing=False).ranges(4) == ["10.0.0.1"]
    assert targets(peers).ranges(4) == ["10.0.0.1-10.0.0.3"]


def test_a_site_that_only_looks_like_the_mesh_is_protected() -> None:
    site = (["fd12:3456:789a:2::10/128"], "up")
    assert targets([site], subnet=mesh_subnet(MESH)).ranges(6) == ["fd12:3456:789a:2::10"]
    assert targets([site]).ranges(6) == []
    wide = (["fd7a:6197:edb7:2302::/63"], "up")
    assert targets([wide], subnet=mesh_subnet(MESH)).cidrs() == ["fd7a:6197:edb7:2303::/64"]
    for gen in (CURRENT, SEED):
        for subnet in (None, mesh_subnet(MESH)):
            sets = [(PrefixSet.of(map(parse_network, texts)), state) for texts, state in ((BETA, "up"), (GAMMA, "up"))]
            assert targets(sets, True, gen, subnet) == targets([(BETA, "up"), (GAMMA, "up")], True, gen, subnet)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 31), st.integers(0, 31), st.integers(0, 0xFFFFFFFF))
def test_any_two_bits_mark_without_touching_others(first: int, second: int, mark: int) -> None:
    if first == second:
        return
    layout = make_layout(mark_from_wireguard=1 << first, mark_to_wireguard=1 << second)
    statement = nft.table(layout)["chains"][0]["rules"][1][1]
    marked = mark & statement["mask"] ^ statement["xor"]
    assert marked & ~layout.mark_mask == mark & ~layout.mark_mask
    rule = routing.desired_rule(4, layout)
    assert routing.selects(rule, marked) and not routing.selects(rule, mark & ~(1 << second))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"mark_to_wireguard": 0x20}, "bad_mark"),
        ({"mark_to_wireguard": 0x60}, "bad_mark"),
        ({"mark_to_wireguard": 0}, "bad_mark"),
        ({"mark_to_wireguard": 1 << 32}, "bad_mark"),
        ({"mark_to_wireguard": True}, "bad_mark"),
        ({"route_table": 254}, "bad_table"),
        ({"route_table": -1}, "bad_table"),
        ({"rule_priority": 32766}, "bad_priority"),
        ({"rule_priority": 0}, "bad_priority"),
        ({"port": 65536}, "port_out_of_range"),
        ({"device": "a/b"}, "device_name_has_slash"),
        ({"set_v4": "a; drop"}, "bad_name"),
        ({"set_v4": "same", "set_v6": "same"}, "bad_name"),
        ({"table_name": ""}, "bad_name"),
    ],
)
def test_bad_layouts(values: dict[str, t.Any], reason: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        make_layout(**values)
    assert caught.value.reason == reason


def test_unknown_generation() -> None:
    with pytest.raises(ValueRefused):
        generation("v9")


def test_mtu() -> None:
    assert [generations.clamp_to(1420, version, CURRENT) for version in (4, 6)] == [1368, 1348]
    assert generations.clamp_to(1420, 4, SEED) is None
    for bad in (1279, 0, 65536, True, "1420", None):
        with pytest.raises(ValueRefused):
            generations.check_mtu(bad)


def rule(**changes: t.Any) -> dict[str, t.Any]:
    return dict(routing.desired_rule(4), **changes)


def test_rules() -> None:
    text = "32500:\tfrom all fwmark 0x40/0x60 lookup 180"
    assert routing.rule_text(rule()) == text + " proto static"
    assert routing.rule_text(routing.desired_rule(4, gen=SEED)) == text
    assert routing.plan_rule([rule()], 4) == []
    assert routing.plan_rule([], 4) == [{"op": "add", "rule": rule()}]
    unowned = rule(protocol=2)
    assert routing.plan_rule([unowned], 4) == [{"op": "add", "rule": rule()}]
    wrong = rule(fwmask=0xFF)
    assert routing.plan_rule([wrong], 4) == [{"op": "delete", "rule": wrong}, {"op": "add", "rule": rule()}]
    assert routing.plan_rule([wrong, rule()], 4) == [{"op": "delete", "rule": wrong}]
    assert [step["op"] for step in routing.plan_rule([rule(src="10.0.0.0/8")], 4)] == ["delete", "add"]
    assert [step["op"] for step in routing.plan_rule([rule(), rule()], 4)] == ["delete"]


def test_a_rule_is_never_missing_while_it_is_replaced() -> None:
    steps = routing.without_gap(routing.plan_rule([rule(table=181)], 4))
    assert [(step["op"], step["rule"]["priority"], step["rule"]["table"]) for step in steps] == [
        ("add", 32501, 180),
        ("delete", 32500, 181),
        ("add", 32500, 180),
        ("delete", 32501, 180),
    ]
    assert routing.without_gap([]) == [] and len(routing.without_gap(routing.plan_rule([], 4))) == 1


def test_rules_of_the_old_generation() -> None:
    other = rule(table=99, fwmark=1)
    assert routing.plan_rule([other], 4, gen=SEED) == [{"op": "add", "rule": rule(priority=32499, protocol=None)}]
    # found again by mark and table, so that an unclean restart adds no second one
    assert routing.plan_rule([rule(priority=32499, protocol=None)], 4, gen=SEED) == []


def test_teardown_takes_only_what_is_whole() -> None:
    desired = routing.desired_rule(4)
    assert routing.owned_to_remove(rule(), desired)
    assert not routing.owned_to_remove(rule(table=181), desired) and not routing.owned_to_remove(
        rule(protocol=2), desired
    )


def test_routes() -> None:
    closed = routing.desired_routes()
    names = ("version", "dst", "type", "dev", "metric", "mtu", "protocol", "table")
    assert [tuple(route[name] for name in names) for route in closed] == [
        (4, "0.0.0.0/0", "unicast", "kubespan", 1, 1420, 4, 180),
        (4, "0.0.0.0/0", "unreachable", None, 4278198272, None, 4, 180),
        (6, "::/0", "unicast", "kubespan", 1, 1420, 4, 180),
        (6, "::/0", "unreachable", None, 4278198272, None, 4, 180),
    ]
    assert routing.plan_routes(closed) == []
    first = routing.plan_routes([])
    assert [step["op"] for step in first] == ["replace"] * 4
    assert [step["route"]["type"] for step in first] == ["unreachable"] * 2 + ["unicast"] * 2
    assert routing.plan_routes(routing.desired_routes(fail_closed=False), fail_closed=False) == []
    assert [(s["op"], s["route"]["type"]) for s in routing.plan_routes(closed, fail_closed=False)] == [
        ("delete", "unreachable")
    ] * 2
    changed = routing.plan_routes(closed, mtu=1400)
    assert [(step["op"], step["route"]["mtu"]) for step in changed] == [("replace", 1400)] * 2


def test_routes_of_others_stay() -> None:
    theirs = dict(routing.desired_routes()[0], dst="10.9.0.0/16", dev="eth0")
    assert not routing.is_our_route(theirs) and routing.plan_routes([theirs] + routing.desired_routes()) == []
    assert routing.is_our_route(dict(theirs, dev="kubespan"))
    linked = dict(routing.desired_routes()[0], scope=253)
    assert len(routing.plan_routes([linked] + routing.desired_routes()[1:])) == 1


CLEAN: dict[str, t.Any] = {
    "rules": {4: [rule(), {"priority": 0, "table": 255}, {"priority": 100, "table": 2004, "fwmark": 0x200}], 6: []},
    "routes": routing.desired_routes(),
    "links": [{"name": "kubespan", "kind": "wireguard"}],
    "wireguard": [
        {"name": "kubespan", "fwmark": 0x20, "listen_port": 51820},
        {"name": "wg0", "fwmark": 0, "listen_port": 51821},
    ],
    "udp_ports": [53],
    "tables": [{"family": "inet", "name": "talos_kubespan", "owned": True}],
    "marks": [{"who": "kube-proxy", "mark": 0x4000, "mask": 0xC000}],
    "rp_filter": {"all": 0, "kubespan": 2},
}


def test_a_clean_host_has_no_conflicts() -> None:
    assert conflicts(CLEAN) == [] and conflicts({}) == []


@pytest.mark.parametrize(
    ("name", "value", "reason", "level"),
    [
        ("rules", {4: [rule(protocol=2)]}, "priority_taken", "error"),
        ("rules", {6: [rule(priority=32501, version=6)]}, "priority_taken", "error"),
        ("rules", {4: [{"priority": 10, "table": 99}]}, "rule_before", "warning"),
        ("rules", {4: [{"priority": 40, "table": 180, "src": "10.0.0.0/8"}]}, "table_shared", "warning"),
        ("routes", [dict(routing.desired_routes()[0], dev="eth0")], "table_taken", "error"),
        ("routes", [dict(routing.desired_routes()[0], dev="eth0", dst="10.0.0.0/8")], "table_shared", "warning"),
        ("links", [{"name": "kubespan", "kind": "dummy"}], "not_ours", "error"),
        ("tables", [{"family": "inet", "name": "talos_kubespan"}], "adoptable", "error"),
        ("wireguard", [{"name": "wg0", "listen_port": 51820}], "port_taken", "error"),
        ("udp_ports", [51820], "port_taken", "error"),
        ("wireguard", [{"name": "wg0", "fwmark": 0xCA6C, "listen_port": 1}], "mark_taken", "error"),
        ("marks", [{"who": "cilium", "mark": 0x40, "mask": 0xFF}], "mark_taken", "error"),
        ("marks", [{"who": "cilium", "mark": 0x20, "mask": 0xFF}], "mark_taken", "error"),
        ("marks", [{"who": "other", "mark": 0x01, "mask": 0x61}], "mark_taken", "warning"),
        ("rp_filter", {"all": 1, "kubespan": 0}, "rp_filter_strict", "error"),
    ],
)
def test_conflicts(name: str, value: t.Any, reason: str, level: str) -> None:
    found = conflicts(dict(CLEAN, **{name: value}))
    assert [(item.level, item.reason) for item in found] == [(level, reason)]
    assert found[0].message.isprintable()


def test_other_bits_free_a_host() -> None:
    taken = dict(CLEAN, marks=[{"who": "cilium", "mark": 0x40, "mask": 0xFF}], rules={}, routes=[])
    assert conflicts(taken, make_layout(mark_from_wireguard=1 << 20, mark_to_wireguard=1 << 21)) == []
