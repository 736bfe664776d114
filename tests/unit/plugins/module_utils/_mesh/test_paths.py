# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which addresses the kernel is asked for: one of each range, and one inside everything narrower that is unowned."""

from __future__ import annotations

import ipaddress

from ansible_collections.multicluster.network.plugins.module_utils._dataplane import paths
from hypothesis import given, strategies as st

DEVICES = ("wireguard.gcp", "wireguard.azr", "eth0")


def route(dst, dev="eth0", **more):
    return dict(
        {
            "version": 6 if ":" in dst else 4,
            "table": 254,
            "dst": dst,
            "type": "unicast",
            "dev": dev,
            "via": None,
            "protocol": 4,
        },
        **more,
    )


def rule(**more):
    return dict(
        {
            "version": 4,
            "priority": 50,
            "action": "to_table",
            "table": 100,
            "src": None,
            "dst": None,
            "iif": None,
            "fwmark": None,
        },
        **more,
    )


networks = st.builds(
    lambda address, length: str(ipaddress.ip_network((address, length), strict=False)),
    st.integers(0x0A000000, 0x0A00FFFF).map(lambda number: str(ipaddress.IPv4Address(number))),
    st.integers(16, 32),
)
one_tunnel = st.builds(
    lambda device, ranges: {"device": device, "ranges": ranges, "mark": 0},
    st.sampled_from(DEVICES[:2]),
    st.lists(networks, max_size=4),
)
tunnels = st.lists(one_tunnel, max_size=3)


@given(tunnels, st.lists(st.tuples(networks, st.sampled_from(DEVICES)), max_size=6))
def test_every_range_and_everything_of_others_inside_it_is_asked_for(given_tunnels, given_routes):
    routes = [route(dst, dev) for dst, dev in given_routes]
    asked = {(q["range"], q["device"], q["dst"]) for q in paths.questions(given_tunnels, routes, [], [])}
    desired = set()
    for tunnel in given_tunnels:
        for text in tunnel["ranges"]:
            outer = ipaddress.ip_network(text)
            unowned = [ipaddress.ip_network(dst) for dst, dev in given_routes if dev != tunnel["device"]]
            inside = [outer] + [network for network in unowned if network.subnet_of(outer)]
            for network in inside:
                first = network.network_address + (1 if network.num_addresses > 2 else 0)
                desired.add((text, tunnel["device"], str(first)))
    assert asked == desired


def answer(**more):
    return dict(
        {"error": None, "type": "unicast", "dev": "wireguard.gcp", "via": None, "src": None, "table": 254}, **more
    )


def ask(routes=(), rules=(), pods=()):
    return paths.questions([{"device": "wireguard.gcp", "ranges": ["10.4.7.0/24"], "mark": 0}], routes, rules, pods)


@given(
    st.lists(
        st.tuples(st.sampled_from(DEVICES), st.sampled_from([None, "Network is unreachable"])), min_size=3, max_size=3
    )
)
def test_a_range_is_right_exactly_when_every_answer_is_its_device(given_answers):
    asked = ask([route("10.4.7.128/25"), route("10.4.7.64/26")])
    answers = [answer(dev=dev) if error is None else {"error": error} for dev, error in given_answers]
    found = paths.elsewhere(asked, answers, [], [])
    assert bool(found) == any(error or dev != "wireguard.gcp" for dev, error in given_answers)
    assert {row["range"] for row in found} <= {"10.4.7.0/24"}


def test_pods_are_asked_for_by_the_way_they_come_in_and_with_their_family():
    pods = [{"address": "10.2.3.10", "iif": "veth1"}, {"address": "fd02::a", "iif": "veth1"}]
    asked = ask(pods=pods)
    assert [(q["dst"], q["src"], q["iif"]) for q in asked] == [
        ("10.4.7.1", None, None),
        ("10.4.7.1", "10.2.3.10", "veth1"),
    ]
    # a rule for other pods of this node: an address that no pod has represents them, and it may well be refused
    asked = ask(rules=[rule(src="10.2.3.128/25")], pods=pods)
    assert [(q["src"], q["invented"]) for q in asked] == [(None, False), ("10.2.3.10", False), ("10.2.3.129", True)]
    refused = [answer(), answer(), {"error": "Invalid cross-device link"}]
    assert paths.elsewhere(asked, refused, [], []) == []
    assert len(paths.elsewhere(asked, [answer(), {"error": "Invalid cross-device link"}, answer()], [], [])) == 1


def test_what_takes_it_is_named_by_the_table_of_the_answer():
    routes = [
        route("10.4.7.128/25"),
        route("0.0.0.0/0", table=100),
        route("10.4.0.0/16", "wireguard.gcp", protocol=109),
    ]
    asked = ask(routes, [rule(dst="10.4.7.128/25")])
    found = paths.elsewhere(
        asked, [answer(), answer(dev="eth0", table=100)], routes, [rule(dst="10.4.7.128/25"), rule(priority=60)]
    )
    assert [row["text"] for row in found] == [
        "the kernel sends it by eth0; it is taken by route 0.0.0.0/0 dev eth0 table 100 protocol 4 by rule 50: from all to 10.4.7.128/25 table 100"
    ]
    found = paths.elsewhere(asked, [answer(), answer(dev="eth0", table=254)], routes, [])
    assert (
        found[0]["text"]
        == "the kernel sends it by eth0; it is taken by route 10.4.7.128/25 dev eth0 table main protocol 4"
    )


def test_hosts_of_the_cluster_outside_the_own_range_are_strays():
    routes = [
        route("10.2.99.5/32", "cali1"),
        route("10.2.3.10/32", "cali2"),
        route("10.2.98.0/26", "cali3"),
        route("10.2.97.7/32", "eth0", via="10.66.23.32"),
        route("10.9.9.9/32", "cali4"),
        route("10.2.96.1/32", "kubespan"),
        route("10.2.95.1/32", "lo", type="local"),
    ]
    assert paths.stray_hosts(routes, ["10.2.3.0/24"], ["10.2.0.0/16"], ["kubespan"]) == ["10.2.99.5"]
    assert paths.stray_hosts(routes, ["10.2.3.0/24"], [], []) == []
