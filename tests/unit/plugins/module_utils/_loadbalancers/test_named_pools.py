# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Named pools: for whom, which one first, how many; the same question has the same answer, and no address goes out twice."""

from __future__ import annotations

import ipaddress
import json
import pathlib
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import named_pools
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.named_pools import (
    Grants,
    Held,
    Wish,
    parse_named_pools,
    usage,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, settings, strategies as st

HOSTILE = json.loads(
    (pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "load_balancers.json").read_text("utf-8")
)
ROWS: list[dict[str, t.Any]] = [
    {"name": "public", "addresses": ["203.0.113.0/29", "2001:db8:5::/125"], "reserved": ["203.0.113.1"], "priority": 2},
    {"name": "partners", "addresses": ["198.51.100.0-198.51.100.3"], "auto_assign": False, "namespaces": ["shop"]},
    {
        "name": "shop",
        "addresses": ["198.51.100.8/30"],
        "namespaces": ["shop"],
        "avoid_buggy_ips": True,
        "priority": 1,
        "max_per_namespace": 2,
    },
    {
        "name": "labelled",
        "addresses": ["192.0.2.254-192.0.2.255"],
        "namespace_selector": "env=prod",
        "service_selector": "tier in (web)",
        "tenants": [{"name": "acme", "namespaces": ["one", "two"], "max_addresses": 1}],
    },
]
LABELS = {"one": {"env": "prod"}, "two": {"env": "prod"}, "dev": {"env": "dev"}}


def grants(rows: t.Any = None, nameless: t.Sequence[str] = ()) -> Grants:
    return Grants(parse_named_pools(nameless, ROWS if rows is None else rows), LABELS, True)


def allocate(pools: Grants, wish: Wish, held: t.Mapping[str, str]) -> str:
    return named_pools.allocate(pools, wish, Held(held))


def reason(*args: t.Any) -> str:
    with pytest.raises(ValueRefused) as raised:
        allocate(*args)
    return raised.value.reason


def test_the_pool_for_this_very_namespace_comes_first_and_then_the_one_for_all() -> None:
    held: dict[str, str] = {}
    for desired in (
        "198.51.100.8",
        "198.51.100.9",
        "203.0.113.0",
        "203.0.113.2",
    ):  # two of its own (max_per_namespace); .1 is reserved
        assert allocate(grants(), Wish("shop", "s"), held) == desired
        held[desired] = "shop/x" + desired
    assert allocate(grants(), Wish("other", "s"), {}) == "203.0.113.0"
    assert allocate(grants(), Wish("other", "s", version=6), {}) == "2001:db8:5::"
    # one that is not given by itself is for those who name it
    assert allocate(grants(), Wish("shop", "s", pool="partners"), {}) == "198.51.100.0"
    assert allocate(grants(), Wish("shop", "s", address="198.51.100.3"), {}) == "198.51.100.3"


def test_selectors_and_tenants() -> None:
    web = {"tier": "web"}
    assert allocate(grants(), Wish("one", "s", web), {}) == "192.0.2.254"
    assert (
        allocate(grants(), Wish("one", "s", {}), {}) == allocate(grants(), Wish("dev", "s", web), {}) == "203.0.113.0"
    )
    # the tenant has its one address, whichever of its namespaces asks
    assert allocate(grants(), Wish("two", "s", web), {"192.0.2.254": "one/s"}) == "203.0.113.0"
    with pytest.raises(ValueRefused, match="tenant acme has 1 of 1") as raised:
        allocate(grants(), Wish("two", "s", web, pool="labelled"), {"192.0.2.254": "one/s"})
    assert raised.value.reason == "quota"


def test_the_order_of_pools_is_that_of_metallb() -> None:
    """Those with a selector before those for all; of these 1 before 2 and 0 last; else as the inventory has them."""
    rows = [
        {"name": name, "addresses": [f"192.0.2.{number}"], "priority": priority, "namespaces": namespaces}
        for number, (name, priority, namespaces) in enumerate(
            [("d", 0, []), ("c", 5, []), ("b", 0, ["n"]), ("a", 3, ["n"]), ("e", 5, [])]
        )
    ]
    assert [pool.name for pool in grants(rows).of("n", {})] == ["a", "b", "c", "e", "d"]
    assert [pool.name for pool in grants(rows).of("m", {})] == ["c", "e", "d"]


@pytest.mark.parametrize("row", HOSTILE["asked_addresses"], ids=lambda row: row["why"])
def test_what_a_service_asks_for_must_be_granted(row: dict[str, t.Any]) -> None:
    with pytest.raises(ValueRefused) as raised:
        allocate(
            grants(),
            Wish(
                row["namespace"],
                "evil",
                row.get("labels", {}),
                row.get("version", 4),
                row.get("address", ""),
                row.get("pool", ""),
            ),
            row.get("held", {}),
        )
    assert raised.value.reason == row["word"] and row["says"] in raised.value.message


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"name": "Bad Name", "addresses": ["192.0.2.0/24"]}, "bad_setting"),
        ({"name": "a", "addresses": []}, "bad_setting"),
        ({"name": "a", "addresses": ["192.0.2.300"]}, "bad_cidr"),
        ({"name": "a", "addresses": ["192.0.2.0"], "service_selector": "a b"}, "selector_syntax"),
        ({"name": "public", "addresses": ["192.0.2.0"]}, "claimed_twice"),
        ({"name": "a", "addresses": ["203.0.113.4"]}, "claimed_twice"),
        ({"name": "a", "addresses": ["192.0.2.0"], "max_per_namespace": -1}, "bad_setting"),
        ({"name": "default", "addresses": ["192.0.2.0"]}, "claimed_twice"),
        ({"name": "a", "addresses": ["192.0.2.0/28"], "reserved": ["192.0.3.1"]}, "bad_setting"),
        ({"name": "a", "addresses": ["192.0.2.0/28"], "reserved": ["2001:db8::1"]}, "bad_setting"),
        ({"name": "a", "addresses": ["0.0.0.0/0"]}, "special_address"),
        ({"name": "a", "addresses": ["100.0.0.0-198.51.100.0"]}, "special_address"),
        ({"name": "a", "addresses": ["127.0.0.8/30"]}, "special_address"),
        ({"name": "a", "addresses": ["::/0"]}, "special_address"),
        ({"name": "a", "addresses": ["169.254.169.254"]}, "special_address"),
        ({"name": "a", "addresses": ["fe80::/64"]}, "special_address"),
    ],
)
def test_rows_that_make_no_sense(row: dict[str, t.Any], expected: str) -> None:
    with pytest.raises(ValueRefused) as raised:
        parse_named_pools(["192.0.2.128/25"], [ROWS[0], row])
    assert raised.value.reason == expected


def test_two_pools_that_meet_are_both_named() -> None:
    with pytest.raises(ValueRefused, match="the pools late and public both hold 203.0.113.4") as raised:
        parse_named_pools((), [ROWS[0], {"name": "late", "addresses": ["203.0.113.4-203.0.113.20"]}])
    assert raised.value.reason == "claimed_twice"


def test_an_empty_limit_is_a_limit() -> None:
    rows = [dict(ROWS[0], max_per_namespace=0)]
    assert reason(grants(rows), Wish("a", "b"), {}) == "quota"
    assert reason(grants(rows), Wish("a", "b", address="203.0.113.2"), {}) == "quota"


def test_a_reserved_range_is_stepped_over_however_large_it_is() -> None:
    rows = [{"name": "six", "addresses": ["2001:db8::/32"], "reserved": ["2001:db8::/33", "2001:db8:8000::1"]}]
    assert allocate(grants(rows), Wish("a", "b", version=6), {"2001:db8:8000::": ""}) == "2001:db8:8000::2"
    (row,) = usage(parse_named_pools((), rows), ["2001:db8:8000::", "2001:db8::5"])
    assert (row.total, row.used, row.free) == (2**95 - 1, 2, 2**95 - 2)  # one of the two is of what was reserved since


NAMESPACES = st.sampled_from(["shop", "one", "two", "dev", "other"])
WISHES = st.lists(
    st.builds(
        Wish,
        NAMESPACES,
        st.sampled_from("abcdef"),
        st.sampled_from([{}, {"tier": "web"}]),
        st.sampled_from([4, 6]),
        st.sampled_from(["", "", "", "203.0.113.4", "203.0.113.1", "198.51.100.2", "192.0.2.255", "10.0.0.1"]),
        st.sampled_from(["", "", "partners", "public", "nope"]),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(WISHES, st.booleans())
def test_no_address_twice_none_outside_and_the_same_again(wishes: list[Wish], again: bool) -> None:
    pools = grants()
    held: dict[str, str] = {}
    for number, wish in enumerate(wishes):
        before = dict(held)
        try:
            found = allocate(pools, wish, held)
        except ValueRefused:
            with pytest.raises(ValueRefused):
                allocate(pools, wish, dict(reversed(list(before.items()))))
            continue
        assert found not in before and allocate(pools, wish, dict(reversed(list(before.items())))) == found
        address = ipaddress.ip_address(found)
        pool = next(one for one in pools.pools if one.name == pools.name_of(found))
        assert pool.hands_out(address) and pool in pools.of(wish.namespace, wish.labels)
        assert (
            wish.address in ("", found)
            and (wish.address or wish.pool in ("", pool.name))
            and (wish.address or wish.pool or pool.auto_assign)
        )
        assert wish.address or address.version == wish.version
        held[found] = f"{wish.namespace}/{wish.name}{number}"
    shop = [key for address, key in held.items() if pools.name_of(address) == "shop" and key.startswith("shop/")]
    acme = [
        key
        for address, key in held.items()
        if pools.name_of(address) == "labelled" and key.split("/")[0] in ("one", "two")
    ]
    assert len(shop) <= 2 and len(acme) <= 1
    for row in usage(pools.pools, held):
        assert row.used + row.free == row.total and row.free >= 0


ROWS_HELD = st.dictionaries(
    st.sampled_from([f"203.0.113.{last}" for last in range(8)] + ["2001:db8:5::1", "10.0.0.1"]),
    st.sampled_from(["", "shop/a", "shop/b", "one/c"]),
)


@given(st.lists(ROWS_HELD, min_size=1, max_size=4))
def test_what_is_counted_once_is_as_if_it_were_counted_anew(states: list[dict[str, str]]) -> None:
    pools, held = parse_named_pools((), ROWS), Held({})
    for rows in states:
        for pool in pools:
            held.users(pool, 4)
        held.become(rows)
        fresh = Held(rows)
        assert held.taken == fresh.taken and all(
            address in held and held[address] == key for address, key in rows.items()
        )
        for pool in pools:
            for version in (4, 6):
                assert +held.users(pool, version) == +fresh.users(pool, version)


@given(
    st.integers(0, 600),
    st.integers(0, 600),
    st.lists(st.tuples(st.integers(0, 620), st.integers(0, 60)), max_size=3),
    st.booleans(),
)
def test_counts_are_those_of_counting_one_by_one(
    first: int, more: int, holes: list[tuple[int, int]], avoid: bool
) -> None:
    base = int(ipaddress.ip_address("192.0.0.0"))

    def text(number: int) -> str:
        return str(ipaddress.ip_address(base + number))

    spans, end = [], -1
    for start, length in sorted(holes):
        if start > end and start <= first + more and start + length >= first:  # what meets no address of it is refused
            end = start + length
            spans.append(f"{text(start)}-{text(end)}")
    row = {
        "name": "a",
        "addresses": [f"{text(first)}-{text(first + more)}"],
        "reserved": spans,
        "avoid_buggy_ips": avoid,
    }
    (pool,) = parse_named_pools((), [row])
    every = [ipaddress.ip_address(base + number) for number in range(first, first + more + 1)]
    open_ones = [address for address in every if pool.hands_out(address)]
    assert pool.count(4) == len(open_ones)
    assert pool.lowest(4, set()) == (open_ones[0] if open_ones else None)
    assert all(not (avoid and str(address).endswith((".0", ".255"))) for address in open_ones)
