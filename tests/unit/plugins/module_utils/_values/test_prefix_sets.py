# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets of addresses against sets of single addresses, against netaddr, and in the kernel's form of intervals."""

from __future__ import annotations

import ipaddress
import time
import typing as t

import netaddr
from ansible_collections.multicluster.network.plugins.module_utils._dataplane import nft_plan
from ansible_collections.multicluster.network.plugins.module_utils._values import prefix_sets as ranges
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import (
    contains,
    overlaps,
    parse_network,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.prefix_sets import (
    PrefixSet,
    RangeOwners,
    overlapping_pairs,
)
from hypothesis import given, settings, strategies as st

SPANS = st.lists(st.tuples(st.integers(0, 90), st.integers(0, 12)), max_size=8).map(
    lambda rows: [(first, first + size) for first, size in rows]
)
# few enough addresses to count them one by one, at both ends of the space
NETWORKS = st.builds(
    lambda base, offset, length: ipaddress.ip_network((int(ipaddress.ip_address(base)) + offset, length), strict=False),
    st.sampled_from(["0.0.0.0", "10.0.0.0", "255.255.255.0"]),
    st.integers(0, 255),
    st.integers(24, 32),
) | st.builds(
    lambda offset, length: ipaddress.IPv6Network(((0xFD << 120) + offset, length), strict=False),
    st.integers(0, 255),
    st.integers(120, 128),
)
# any network at all, IPv4-mapped ones among them
ANYWHERE = st.one_of(
    st.ip_addresses(v=4).flatmap(
        lambda address: st.integers(0, 32).map(lambda length: ipaddress.ip_network((address, length), strict=False))
    ),
    st.ip_addresses(v=6).flatmap(
        lambda address: st.integers(0, 128).map(lambda length: ipaddress.ip_network((address, length), strict=False))
    ),
    st.integers(0, 255).map(lambda low: ipaddress.ip_network(f"::ffff:10.0.0.{low}/120", strict=False)),
)
# few and wide ones, of which many overlap
WIDE = st.one_of(
    st.builds(
        lambda top, length: ipaddress.ip_network((top << 26, length), strict=False),
        st.integers(0, 63),
        st.integers(0, 8),
    ),
    st.builds(
        lambda top, length: ipaddress.ip_network((top << 122, length), strict=False),
        st.integers(0, 63),
        st.integers(0, 8),
    ),
)


def points(spans: t.Iterable[tuple[int, int]]) -> set[int]:
    return {point for first, last in spans for point in range(first, last + 1)}


def members(item: PrefixSet) -> set[tuple[int, int]]:
    return {(version, point) for version in (4, 6) for point in points(item.spans(version))}


def networks_of(nets: t.Iterable[t.Any]) -> set[tuple[int, int]]:
    return {(net.version, int(address)) for net in nets for address in net}


def canonical(spans: t.Sequence[tuple[int, int]]) -> bool:
    return all(first <= last for first, last in spans) and all(
        one[1] + 1 < two[0] for one, two in zip(spans, spans[1:])
    )


@given(st.lists(st.sampled_from([0, 0, 0, 1, 0xFF, 0xFFFF]), min_size=8, max_size=8), st.ip_addresses(v=6))
def test_addresses_are_printed_as_everybody_prints_them(groups: list[int], address: t.Any) -> None:
    for number in (int("".join(f"{group:04x}" for group in groups), 16), int(address)):
        if number >> 32 != 0xFFFF:
            assert ranges.address_text(6, number) == str(ipaddress.IPv6Address(number))
        else:
            assert ranges.address_text(6, number) == "::ffff:" + str(ipaddress.IPv4Address(number & 0xFFFFFFFF))


@given(st.lists(NETWORKS, max_size=8))
def test_of_texts_is_the_union_of_their_networks(nets: t.Any) -> None:
    assert PrefixSet.of_texts(map(str, nets)) == PrefixSet.of_texts(net.exploded for net in nets) == PrefixSet.of(nets)


@settings(deadline=None, max_examples=60)
@given(SPANS, SPANS)
def test_algebra(first: t.Any, second: t.Any) -> None:
    one, two = ranges.merged(first), ranges.merged(second)
    assert points(one) == points(first) and canonical(one)
    less, both = ranges.difference(one, two), ranges.intersection(one, two)
    assert points(less) == points(one) - points(two) and canonical(less)
    assert points(both) == points(one) & points(two) and canonical(both)


@settings(deadline=None, max_examples=60)
@given(st.lists(NETWORKS, max_size=6), st.lists(NETWORKS, max_size=6))
def test_sets_of_both_families(first: t.Any, second: t.Any) -> None:
    one, two = PrefixSet.of(first), PrefixSet.of(second)
    assert members(one) == networks_of(first)
    assert members(one | two) == members(one) | members(two)
    assert members(one - two) == members(one) - members(two)
    assert members(one & two) == members(one) & members(two)
    assert (one == two) == (members(one) == members(two))
    assert PrefixSet.of(reversed(first)) == one


@settings(deadline=None, max_examples=60)
@given(st.lists(NETWORKS, max_size=8))
def test_prefixes_are_minimal(nets: t.Any) -> None:
    item = PrefixSet.of(nets)
    expected = []
    for version in (4, 6):
        family = [net for net in nets if net.version == version]
        expected.extend(sorted(ipaddress.collapse_addresses(family)))
    assert item.cidrs() == [str(net) for net in expected]
    assert PrefixSet.of(map(parse_network, item.cidrs())) == item


@settings(deadline=None, max_examples=60)
@given(SPANS, SPANS)
def test_a_delta_leads_to_what_is_desired(first: t.Any, second: t.Any) -> None:
    have, want = ranges.merged(first), ranges.merged(second)
    delta = nft_plan.set_delta(have, want)
    assert tuple(sorted((set(have) - set(delta.delete)) | set(delta.add))) == want
    assert bool(delta) == (have != want)


def test_a_delta_names_whole_elements() -> None:
    # another owner's set without merging: both halves go, the whole comes
    delta = nft_plan.set_delta([(0, 9), (10, 19), (40, 49)], ((0, 19), (40, 49)))
    assert delta == ([(0, 9), (10, 19)], [(0, 19)])


def test_ranges_as_nft_prints_them() -> None:
    item = PrefixSet.of(
        map(parse_network, ["10.50.5.0/24", "10.50.6.0/24", "10.60.6.0/24", "10.60.7.0/24", "192.0.2.1/32", "::/0"])
    )
    assert item.ranges(4) == ["10.50.5.0-10.50.6.255", "10.60.6.0/23", "192.0.2.1"]
    assert item.ranges(6) == ["::/0"]
    assert ranges.address_text(6, 0xFFFF0A000001) == "::ffff:10.0.0.1"


@settings(deadline=None, max_examples=60)
@given(st.lists(SPANS, min_size=1, max_size=5), SPANS)
def test_owners(sets: t.Any, desired: t.Any) -> None:
    owned: RangeOwners[int] = RangeOwners()
    held, left = [], PrefixSet()
    for number, spans in enumerate(sets):
        item = PrefixSet(ranges.merged(spans)) - left
        left = left | item
        owned.add(item, number)
        held.append(item)
    query = PrefixSet(ranges.merged(desired))
    assert owned.owners(query) == {number for number, item in enumerate(held) if item & query}
    owned.remove(0)
    assert owned.owners(query) == {number for number, item in enumerate(held) if number and item & query}


@given(st.lists(WIDE, max_size=20), WIDE)
def test_who_comes_first_keeps_a_range(items: list[t.Any], probe: t.Any) -> None:
    taken: list[t.Any] = []
    owned: RangeOwners[str] = RangeOwners()
    for item in items:
        rivals = [str(other) for other in taken if overlaps(item, other)]
        owner = owned.claim(item, str(item))
        assert owner in rivals if rivals else owner is None
        taken += [] if rivals else [item]
    owner = owned.owner(probe)
    assert (owner is None) == (not any(overlaps(probe, other) for other in taken))
    assert owner is None or overlaps(probe, parse_network(owner))


@given(st.lists(WIDE, max_size=20))
def test_pairs(items: list[t.Any]) -> None:
    labelled = list(zip(items, range(len(items))))
    found = {frozenset((a[1], b[1])) for a, b in overlapping_pairs(labelled)}
    assert found == {frozenset((i, j)) for i in range(len(items)) for j in range(i) if overlaps(items[i], items[j])}
    assert all(contains(outer[0], inner[0]) for outer, inner in overlapping_pairs(labelled))
    assert overlapping_pairs(labelled, lambda a, b: True) == []


@settings(deadline=None)
@given(st.lists(ANYWHERE | WIDE, max_size=10), st.lists(ANYWHERE | WIDE, max_size=10), ANYWHERE | WIDE)
def test_netaddr_gives_the_same_answers(first: list[t.Any], second: list[t.Any], probe: t.Any) -> None:
    """An independent oracle over the whole space of both families."""

    def theirs(item: netaddr.IPSet) -> set[tuple[int, int, int]]:
        return {(cidr.version, cidr.first, cidr.prefixlen) for cidr in item.iter_cidrs()}

    def mine(item: PrefixSet) -> set[tuple[int, int, int]]:
        return {
            (net.version, int(net.network_address), net.prefixlen) for net in map(ipaddress.ip_network, item.cidrs())
        }

    one, two = PrefixSet.of(first), PrefixSet.of(second)
    their_one, their_two = netaddr.IPSet(map(str, first)), netaddr.IPSet(map(str, second))
    assert mine(one) == theirs(their_one)
    assert mine(one | two) == theirs(their_one | their_two)
    assert mine(one - two) == theirs(their_one - their_two)
    assert mine(one & two) == theirs(their_one & their_two)
    assert one.covers(probe) == (netaddr.IPNetwork(str(probe)) in their_one)
    address = probe.network_address
    assert (address in one) == (netaddr.IPAddress(str(address)) in their_one)
    assert address.version == 6 or one.has_v4(int(address)) == (address in one)


def test_a_hundred_thousand_ranges_are_fast() -> None:
    # one sweep; comparing pairs would take hours
    many = PrefixSet(tuple((number * 4, number * 4 + 1) for number in range(100_000)))
    some = PrefixSet(tuple((number * 40, number * 40 + 4) for number in range(10_000)))
    started = time.process_time()
    rest = many - some
    assert (rest | (many & some)) == many
    assert time.process_time() - started < 3
