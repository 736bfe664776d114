# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who holds which address of a segment, in which group, and what keepalived is notified of it."""

from __future__ import annotations

import collections

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.layer2 import keepalived_config
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.layer2.groups import (
    MOST,
    SPREAD,
    number_groups,
    parse_reserved,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.layer2.segment import (
    check_interface,
    on_link,
    order,
    parse_groups,
    parse_segment,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import parse_network
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

NAMES = st.lists(
    st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=8),
    min_size=2,
    max_size=12,
    unique=True,
)
ADDRESSES = st.integers(1, 60000).map(lambda number: f"203.{number // 256}.{number % 256}.7")
DESIRED = st.dictionaries(ADDRESSES, st.one_of(st.just(()), st.tuples(st.integers(30000, 30300))), max_size=60)


def segment(node="b", names=("a", "b", "c"), **more):
    nodes = [{"name": name, "addresses": [f"10.0.0.{number}"]} for number, name in enumerate(names, 1)]
    return parse_segment(dict({"node": node, "nodes": nodes, "routes": []}, **more))


def reason(function, *arguments):
    with pytest.raises(ValueRefused) as caught:
        function(*arguments)
    return caught.value.reason


@given(NAMES, st.integers(1, MOST))
def test_a_node_that_goes_moves_only_what_it_held(names, number):
    before = order(number, names)
    assert sorted(before) == sorted(names) and before == order(number, reversed(names))
    for gone in names:
        assert order(number, [name for name in names if name != gone]) == [name for name in before if name != gone]


def test_groups_are_spread_over_nodes():
    held = collections.Counter(order(number, ["n1", "n2", "n3", "n4"])[0] for number in range(1, SPREAD + 1))
    assert len(held) == 4 and min(held.values()) >= SPREAD / 4 / 2


@given(DESIRED)
def test_every_address_has_a_group_of_its_kind(desired):
    numbers, refused = number_groups(desired, {})
    assert set(numbers) | set(refused) == set(desired)
    by_number = collections.defaultdict(set)
    for address, number in numbers.items():
        assert (1 <= number <= SPREAD) == (not desired[address]) and number <= MOST
        by_number[number].add(desired[address])
    assert all(len(ports) == 1 for ports in by_number.values())
    # whoever depends on the same ports is in one group
    assert len({numbers[address] for address in numbers if desired[address]}) == len(
        {desired[address] for address in numbers if desired[address]}
    )


@given(DESIRED, DESIRED)
def test_numbers_stay_whoever_comes_and_goes(desired, more):
    numbers, unused = number_groups(desired, {})
    later = {**more, **desired}
    found, refused = number_groups(later, numbers)
    kept = {
        address
        for address in desired
        if not desired[address] or not any(later[other] == desired[address] for other in more if other not in desired)
    }
    assert {address: found.get(address) for address in kept if address in numbers} == {
        address: numbers[address] for address in kept if address in numbers
    }
    assert not set(refused) & kept & set(numbers)
    # and once more it is the same
    assert number_groups(later, {**numbers, **found})[0] == found


def test_beyond_the_last_group_addresses_are_refused_by_name():
    desired = {f"203.0.{number // 200}.{number % 200 + 1}": (30000 + number,) for number in range(200)}
    numbers, refused = number_groups(desired, {}, frozenset({100, 255}))
    assert (
        len(numbers) == MOST - SPREAD - 2
        and not {100, 255} & set(numbers.values())
        and len(refused) == 200 - len(numbers)
    )
    assert {error.reason for error in refused.values()} == {"quota"} and "layer2_reserved_vrids" in next(
        iter(refused.values())
    ).message
    # one that goes makes room, and nobody moves
    gone = next(iter(numbers))
    rest = {address: ports for address, ports in desired.items() if address != gone}
    again, refused_again = number_groups(rest, numbers, frozenset({100, 255}))
    assert len(refused_again) == len(refused) - 1 and all(
        again[address] == numbers[address] for address in numbers if address != gone
    )


def test_a_number_that_is_reserved_moves_only_its_own():
    desired = {f"203.0.113.{number}": () for number in range(1, 200)}
    before = number_groups(desired, {})[0]
    after = number_groups(desired, {}, frozenset({9}))[0]
    assert (
        {address for address in desired if before[address] != after[address]}
        == {address for address in desired if before[address] == 9}
        != set()
    )


@pytest.mark.parametrize(
    "recorded", [{"203.0.113.1": 3}, {"203.0.113.1": 999}, {"203.0.113.1": 80, "203.0.113.2": 80}, {"203.0.113.9": 80}]
)
def test_a_record_that_cannot_be_so_is_not_believed(recorded):
    numbers = number_groups({"203.0.113.1": (30001,), "203.0.113.2": (30002,), "203.0.113.3": ()}, recorded)[0]
    assert (
        numbers["203.0.113.1"] != numbers["203.0.113.2"]
        and min(numbers["203.0.113.1"], numbers["203.0.113.2"]) > SPREAD
    )


@pytest.mark.parametrize("numbers", [[0], [256], [True], ["7"], list(range(1, SPREAD + 1))])
def test_reserved_numbers(numbers):
    assert reason(parse_reserved, numbers) == "bad_format"
    assert parse_reserved([1, 255]) == {1, 255}


@pytest.mark.parametrize(
    "nodes, expected",
    [
        ([{"name": "a", "addresses": ["10.0.0.1"]}], "unknown_node"),
        ([{"name": "b", "addresses": []}], "bad_address"),
        ([{"name": "b", "addresses": ["10.0.0.1", "10.0.0.2"]}], "bad_address"),
        ([{"name": "b", "addresses": ["10.0.0.1/24"]}], "bad_address"),
        ([{"name": "b", "addresses": ["10.0.0.1\n}"]}], "bad_address"),
        ([{"name": "b", "addresses": ["224.0.0.18"]}], "special_address"),
        ([{"name": "b", "addresses": ["10.0.0.1"]}, {"name": "b", "addresses": ["10.0.0.2"]}], "claimed_twice"),
        ([{"name": "b", "addresses": ["10.0.0.1"]}, {"name": "c", "addresses": ["10.0.0.1"]}], "claimed_twice"),
        ([{"name": "b", "addresses": ["10.0.0.1"]}, {"name": "c", "addresses": ["2001:db8:1::1"]}], "bad_address"),
        (
            [
                {"name": f"n{number}", "addresses": [f"10.0.{number // 250}.{number % 250 + 1}"]}
                for number in range(251)
            ],
            "quota",
        ),
    ],
)
def test_nodes_that_cannot_be(nodes, expected):
    assert reason(parse_segment, {"node": "b", "nodes": nodes}) == expected


@pytest.mark.parametrize(
    "rows, expected",
    [
        ([{"network": "203.0.113.0/28", "group": 1}], "bad_cidr"),
        ([{"network": "203.0.113.1", "group": 1}], "bad_cidr"),
        ([{"network": "203.0.113.1/32"}], "quota"),
        ([{"network": "203.0.113.1/32", "group": 256}], "quota"),
        ([{"network": "203.0.113.1/32", "group": "1 }"}], "quota"),
        ([{"network": "127.0.0.1/32", "group": 1}], "special_address"),
        ([{"network": "169.254.169.254/32", "group": 1}], "special_address"),
        ([{"network": "203.0.113.1/32", "group": 1, "health_ports": [0]}], "bad_format"),
        (
            [{"network": "203.0.113.1/32", "group": 1, "health_ports": [1]}, {"network": "203.0.113.2/32", "group": 1}],
            "conflict",
        ),
        ([{"network": "203.0.113.1/32", "group": 1}, {"network": "203.0.113.1/32", "group": 2}], "claimed_twice"),
    ],
)
def test_routes_that_cannot_be(rows, expected):
    assert reason(parse_groups, rows) == expected


@pytest.mark.parametrize("name", ["", "eth0 }", "eth0\n", "a" * 16, "../x", "é"])
def test_interfaces_have_no_spaces(name):
    assert reason(check_interface, name) == "bad_format"


@pytest.mark.parametrize("seconds", [0, 0.05, 0.6, 1])
def test_signs_of_life_are_frequent(seconds):
    with pytest.raises(ValueRefused):
        segment(advert_interval=seconds)
    assert segment().advert_ms == 500 and segment(advert_interval=0.1).advert_ms == 100


def test_priorities_go_by_rank():
    names = [f"n{number}" for number in range(200)]
    few, many = [{name: segment(name, some).priority(7) for name in some} for some in (names[:3], names)]
    assert sorted(few.values()) == [214, 234, 254] and min(many.values()) > 0 and len(set(many.values())) == 200
    assert max(few, key=few.get) == order(7, names[:3])[0]


def test_what_is_on_the_segment():
    networks = [parse_network("10.0.0.0/24"), parse_network("2001:db8::/64")]
    assert on_link(["10.0.0.9", "10.0.1.9", "2001:db8::9", "2001:db9::9"], networks) == (
        {"10.0.0.9", "2001:db8::9"},
        {"10.0.1.9", "2001:db9::9"},
    )


def test_the_configuration():
    one = segment(routes=[{"network": "2001:db8:5::7/128", "group": 3}, {"network": "203.0.113.7/32", "group": 3}])
    text = keepalived_config.render(one, "eth0", "/run/x")
    assert text.count("vrrp_instance") == 1 and "virtual_router_id 3" in text and '    file "/run/x/3"' in text
    assert "unicast_src_ip 10.0.0.2" in text and "10.0.0.1 min_ttl 255" in text and "10.0.0.2 min_ttl" not in text
    body = text.partition("virtual_ipaddress_excluded {")[2]
    assert "203.0.113.7/32 dev eth0 noprefixroute" in body and "2001:db8:5::7/128 dev eth0 noprefixroute" in body
    # what nodes tell each other does not depend on the addresses, so one that has heard of a change and one that has not go on hearing each other
    other = keepalived_config.render(segment(routes=[{"network": "203.0.113.8/32", "group": 3}]), "eth0", "/run/x")
    assert other.partition("virtual_ipaddress_excluded")[0] == text.partition("virtual_ipaddress_excluded")[0]
    assert (
        keepalived_config.own_numbers(text) == {3}
        and keepalived_config.own_numbers("virtual_router_id x\nvirtual_router_id\n") == set()
    )
