# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of addresses as sorted ranges: union, difference, membership, overlap, owners, minimal prefixes (kubespan 6, 11.6).

Every operation is one sweep or a bisection over sorted lists of integers, so a thousand peers are not compared in pairs;
prefix objects are made only where text is desired. Nodes compute with these too, so there is only the standard library.
"""

from __future__ import annotations

import bisect
import functools
import typing as t

from .addresses import Address, Network, network_span

Span = tuple[int, int]
Spans = tuple[Span, ...]
#: (version, first, last)
VersionSpan = tuple[int, int, int]
Owner = t.TypeVar("Owner")
Label = t.TypeVar("Label")
BITS = {4: 32, 6: 128}


def span(network: Network) -> VersionSpan:
    """A network as integers, which are much cheaper to compare than network objects."""
    first = int(network.network_address)
    return network.version, first, first | ((1 << (network.max_prefixlen - network.prefixlen)) - 1)


def merged(spans: t.Iterable[Span]) -> Spans:
    """Any ranges in canonical form."""
    ordered = sorted(spans)
    if len(ordered) < 2:
        return tuple(ordered)
    result: list[Span] = []
    for first, last in ordered:
        if result and first <= result[-1][1] + 1:
            if last > result[-1][1]:
                result[-1] = (result[-1][0], last)
        else:
            result.append((first, last))
    return tuple(result)


def difference(spans: Spans, others: Spans) -> Spans:
    """What of canonical ranges is in none of the others."""
    result: list[Span] = []
    start = 0
    for first, last in spans:
        while start < len(others) and others[start][1] < first:
            start += 1
        index = start
        while index < len(others) and others[index][0] <= last:
            if others[index][0] > first:
                result.append((first, others[index][0] - 1))
            first = others[index][1] + 1
            index += 1
        if first <= last:
            result.append((first, last))
    return tuple(result)


def intersection(spans: Spans, others: Spans) -> Spans:
    """What is in both."""
    return difference(spans, difference(spans, others))


def prefixes(spans: t.Iterable[Span], version: int) -> t.Iterator[Span]:
    """(address, prefix length) of the fewest prefixes that make up the ranges, ascending."""
    bits = BITS[version]
    for first, last in spans:
        while first <= last:
            size = (first & -first).bit_length() - 1 if first else bits
            size = min(size, (last - first + 1).bit_length() - 1)
            yield first, bits - size
            first += 1 << size


def address_text(version: int, value: int) -> str:
    """An address as programs print it; an IPv4-mapped one keeps its dots."""
    if version == 4:
        return f"{value >> 24}.{value >> 16 & 255}.{value >> 8 & 255}.{value & 255}"
    return _text_v6(value)


@functools.lru_cache(maxsize=65536)
def _text_v6(value: int) -> str:
    # every node's own address in the mesh is printed several times, and ipaddress takes five times as long
    if value >> 32 == 0xFFFF:
        return "::ffff:" + address_text(4, value & 0xFFFFFFFF)
    digits = f"{value:032x}"
    groups = [digits[at : at + 4].lstrip("0") or "0" for at in range(0, 32, 4)]
    start, length, at = 0, 1, 0
    while at < 8:
        end = at
        while end < 8 and groups[end] == "0":
            end += 1
        if end - at > length:
            start, length = at, end - at
        at = max(end, at + 1)
    if length == 1:
        return ":".join(groups)
    return ":".join(groups[:start]) + "::" + ":".join(groups[start + length :])


def range_text(version: int, item: Span) -> str:
    """A range as nft prints it: address, prefix, or first-last."""
    first, last = item
    if first == last:
        return address_text(version, first)
    size = last - first + 1
    if size & (size - 1) == 0 and first & (size - 1) == 0:
        return f"{address_text(version, first)}/{BITS[version] - size.bit_length() + 1}"
    return f"{address_text(version, first)}-{address_text(version, last)}"


class PrefixSet:
    """An immutable set of addresses of both families.

    It is canonical: its ranges are disjoint, ascending and never adjacent, so sets are equal exactly when their ranges are.
    """

    __slots__ = ("v4", "v6")

    def __init__(self, v4: Spans = (), v6: Spans = ()) -> None:
        self.v4, self.v6 = v4, v6

    @classmethod
    def of(cls, networks: t.Iterable[Network]) -> PrefixSet:
        return cls.of_spans(map(span, networks))

    @classmethod
    def of_texts(cls, texts: t.Iterable[str], reason: str = "bad_cidr") -> PrefixSet:
        """The union of networks in CIDR form, several times as fast as parsing them first. Raises ValueRefused."""
        return cls.of_spans(network_span(text, reason) for text in texts)

    @classmethod
    def of_spans(cls, spans: t.Iterable[VersionSpan]) -> PrefixSet:
        """The union of (version, first, last)."""
        sides: dict[int, list[Span]] = {4: [], 6: []}
        for version, first, last in spans:
            sides[version].append((first, last))
        return cls(merged(sides[4]), merged(sides[6]))

    @classmethod
    def union(cls, sets: t.Iterable[PrefixSet]) -> PrefixSet:
        sets = list(sets)
        return cls(merged(s for one in sets for s in one.v4), merged(s for one in sets for s in one.v6))

    def spans(self, version: int) -> Spans:
        return self.v4 if version == 4 else self.v6

    def __or__(self, other: PrefixSet) -> PrefixSet:
        return PrefixSet.union((self, other))

    def __sub__(self, other: PrefixSet) -> PrefixSet:
        return PrefixSet(difference(self.v4, other.v4), difference(self.v6, other.v6))

    def __and__(self, other: PrefixSet) -> PrefixSet:
        return PrefixSet(intersection(self.v4, other.v4), intersection(self.v6, other.v6))

    def __contains__(self, address: Address) -> bool:
        return _holds(self.spans(address.version), int(address), int(address))

    def has_v4(self, number: int) -> bool:
        """Whether an IPv4 address, given as a number, is in the set."""
        return _holds(self.v4, number, number)

    def covers(self, network: Network) -> bool:
        """True when every address of the network is in the set."""
        version, first, last = span(network)
        return _holds(self.spans(version), first, last)

    def __bool__(self) -> bool:
        return bool(self.v4 or self.v6)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrefixSet) and (self.v4, self.v6) == (other.v4, other.v6)

    def __hash__(self) -> int:
        return hash((self.v4, self.v6))

    def __repr__(self) -> str:
        return f"PrefixSet({', '.join(self.ranges(4) + self.ranges(6))})"

    def cidrs(self, version: int | None = None) -> list[str]:
        """The minimal prefixes: IPv4 first, ascending, always with a length."""
        return [
            f"{address_text(family, first)}/{length}"
            for family in (4, 6)
            if version in (None, family)
            for first, length in prefixes(self.spans(family), family)
        ]

    def ranges(self, version: int) -> list[str]:
        """The ranges of one family as nft prints them."""
        return [range_text(version, item) for item in self.spans(version)]


def _holds(spans: Spans, first: int, last: int) -> bool:
    """Whether one of canonical ranges holds all from first to last."""
    index = bisect.bisect_left(spans, (first + 1,)) - 1
    return index >= 0 and last <= spans[index][1]


class RangeOwners(t.Generic[Owner]):
    """Ranges with owners, no two of which overlap, taken one by one."""

    def __init__(self) -> None:
        self._starts: dict[int, list[int]] = {4: [], 6: []}
        self._rows: dict[int, list[tuple[int, Owner]]] = {4: [], 6: []}

    def owner(self, network: Network) -> Owner | None:
        """The owner of a range that shares an address with the network, or None."""
        version, first, last = span(network)
        return next(self._overlapping(version, first, last), None)

    def claim(self, network: Network, owner: Owner) -> Owner | None:
        """None when the network is the owner's from now on; the owner of a range that overlaps it, when it stays that one's."""
        version, first, last = span(network)
        index = bisect.bisect_right(self._starts[version], last)
        if index and self._rows[version][index - 1][0] >= first:
            return self._rows[version][index - 1][1]
        self._starts[version].insert(index, first)
        self._rows[version].insert(index, (last, owner))
        return None

    def owners(self, desired: PrefixSet) -> set[Owner]:
        return {
            owner
            for version in (4, 6)
            for first, last in desired.spans(version)
            for owner in self._overlapping(version, first, last)
        }

    def add(self, item: PrefixSet, owner: Owner) -> None:
        """Give a set of which nobody owns an address to an owner."""
        for version in (4, 6):
            for first, last in item.spans(version):
                index = bisect.bisect_left(self._starts[version], first)
                self._starts[version].insert(index, first)
                self._rows[version].insert(index, (last, owner))

    def remove(self, owner: Owner) -> None:
        for version in (4, 6):
            kept = [(first, row) for first, row in zip(self._starts[version], self._rows[version]) if row[1] != owner]
            self._starts[version] = [first for first, dummy in kept]
            self._rows[version] = [row for dummy, row in kept]

    def _overlapping(self, version: int, first: int, last: int) -> t.Iterator[Owner]:
        rows = self._rows[version]
        index = bisect.bisect_right(self._starts[version], last) - 1
        while index >= 0 and rows[index][0] >= first:
            yield rows[index][1]
            index -= 1


def overlapping_pairs(
    labelled: t.Iterable[tuple[Network, Label]],
    may_overlap: t.Callable[[Label, Label], bool] = lambda one, other: False,
) -> list[tuple[tuple[Network, Label], tuple[Network, Label]]]:
    """Pairs of (network, label) that share addresses, wider first. ``may_overlap(label, label)`` lets pairs pass.

    Networks in CIDR form are nested or disjoint, so a stack of the enclosing ones finds each pair once, in O(n log n + pairs).
    """
    pairs: list[tuple[tuple[Network, Label], tuple[Network, Label]]] = []
    stack: list[tuple[VersionSpan, tuple[Network, Label]]] = []
    rows = [(span(item[0]), item) for item in labelled]
    rows.sort(key=lambda row: (row[0][0], row[0][1], -row[0][2]))
    for (version, first, last), item in rows:
        while stack and (stack[-1][0][0] != version or stack[-1][0][2] < first):
            stack.pop()
        pairs.extend((outer, item) for dummy, outer in stack if not may_overlap(outer[1], item[1]))
        stack.append(((version, first, last), item))
    return pairs
