# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of addresses as sorted ranges: union, difference, overlap, minimal prefixes (kubespan 6, 11.6).

A set is canonical: ranges are disjoint, ascending and never adjacent, so two sets are equal exactly when their ranges
are. Every operation is one sweep over sorted lists; prefix objects are made only where text is wanted.
"""

from __future__ import annotations

import bisect
import functools
import typing as t

from .addresses import Network, network_span
from .ranges import span

Span = t.Tuple[int, int]
Spans = t.Tuple[Span, ...]
BITS = {4: 32, 6: 128}


def merged(spans: t.Iterable[Span]) -> Spans:
    """Any ranges in canonical form."""
    ordered = sorted(spans)
    if len(ordered) < 2:
        return tuple(ordered)
    result: t.List[Span] = []
    for first, last in ordered:
        if result and first <= result[-1][1] + 1:
            if last > result[-1][1]:
                result[-1] = (result[-1][0], last)
        else:
            result.append((first, last))
    return tuple(result)


def difference(spans: Spans, others: Spans) -> Spans:
    """What of canonical ranges is in none of the others."""
    result: t.List[Span] = []
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
        return "{0}.{1}.{2}.{3}".format(value >> 24, value >> 16 & 255, value >> 8 & 255, value & 255)
    return _text_v6(value)


@functools.lru_cache(maxsize=65536)
def _text_v6(value: int) -> str:
    # every node's own address in the mesh is printed several times, and ipaddress takes five times as long
    if value >> 32 == 0xFFFF:
        return "::ffff:" + address_text(4, value & 0xFFFFFFFF)
    digits = "{0:032x}".format(value)
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
        return "{0}/{1}".format(address_text(version, first), BITS[version] - size.bit_length() + 1)
    return "{0}-{1}".format(address_text(version, first), address_text(version, last))


class PrefixSet:
    """An immutable set of addresses of both families."""

    __slots__ = ("v4", "v6")

    def __init__(self, v4: Spans = (), v6: Spans = ()) -> None:
        self.v4, self.v6 = v4, v6

    @classmethod
    def of(cls, networks: t.Iterable[Network]) -> "PrefixSet":
        """The union of networks."""
        sides: t.Dict[int, t.List[Span]] = {4: [], 6: []}
        for version, first, last in map(span, networks):
            sides[version].append((first, last))
        return cls(merged(sides[4]), merged(sides[6]))

    @classmethod
    def of_texts(cls, texts: t.Iterable[str]) -> "PrefixSet":
        """The union of networks in CIDR form, several times as fast as parsing them first. Raises ValueRefused: bad_cidr."""
        sides: t.Dict[int, t.List[Span]] = {4: [], 6: []}
        for version, first, last in map(network_span, texts):
            sides[version].append((first, last))
        return cls(merged(sides[4]), merged(sides[6]))

    @classmethod
    def union(cls, sets: t.Iterable["PrefixSet"]) -> "PrefixSet":
        """The union of many sets, in one sort."""
        sets = list(sets)
        return cls(merged(s for one in sets for s in one.v4), merged(s for one in sets for s in one.v6))

    def spans(self, version: int) -> Spans:
        """The ranges of one family."""
        return self.v4 if version == 4 else self.v6

    def __or__(self, other: "PrefixSet") -> "PrefixSet":
        return PrefixSet.union((self, other))

    def __sub__(self, other: "PrefixSet") -> "PrefixSet":
        return PrefixSet(difference(self.v4, other.v4), difference(self.v6, other.v6))

    def __and__(self, other: "PrefixSet") -> "PrefixSet":
        return PrefixSet(intersection(self.v4, other.v4), intersection(self.v6, other.v6))

    def __bool__(self) -> bool:
        return bool(self.v4 or self.v6)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrefixSet) and (self.v4, self.v6) == (other.v4, other.v6)

    def __hash__(self) -> int:
        return hash((self.v4, self.v6))

    def __repr__(self) -> str:
        return "PrefixSet({0})".format(", ".join(self.ranges(4) + self.ranges(6)))

    def cidrs(self, version: t.Optional[int] = None) -> t.List[str]:
        """The minimal prefixes: IPv4 first, ascending, always with a length."""
        return [
            "{0}/{1}".format(address_text(family, first), length)
            for family in (4, 6)
            if version in (None, family)
            for first, length in prefixes(self.spans(family), family)
        ]

    def ranges(self, version: int) -> t.List[str]:
        """The ranges of one family as nft prints them."""
        return [range_text(version, item) for item in self.spans(version)]

    def is_any(self, version: int) -> bool:
        """True when every address of the family is in the set."""
        return self.spans(version) == ((0, (1 << BITS[version]) - 1),)


class Owned:
    """Disjoint sets with owners; finds who already holds a part of a set without comparing every pair."""

    def __init__(self) -> None:
        self._starts: t.Dict[int, t.List[int]] = {4: [], 6: []}
        self._rows: t.Dict[int, t.List[t.Tuple[int, int]]] = {4: [], 6: []}

    def owners(self, wanted: PrefixSet) -> t.List[int]:
        """The owners of any address of the set, ascending."""
        found: t.Set[int] = set()
        for version in (4, 6):
            starts, rows = self._starts[version], self._rows[version]
            for first, last in wanted.spans(version):
                index = bisect.bisect_right(starts, last) - 1
                while index >= 0 and rows[index][0] >= first:
                    found.add(rows[index][1])
                    index -= 1
        return sorted(found)

    def add(self, item: PrefixSet, owner: int) -> None:
        """Give a set that overlaps nobody's to an owner."""
        for version in (4, 6):
            for first, last in item.spans(version):
                index = bisect.bisect_left(self._starts[version], first)
                self._starts[version].insert(index, first)
                self._rows[version].insert(index, (last, owner))

    def remove(self, owner: int) -> None:
        """Take everything from an owner."""
        for version in (4, 6):
            rows = zip(self._starts[version], self._rows[version])
            kept = [(first, row) for first, row in rows if row[1] != owner]
            self._starts[version] = [first for first, dummy in kept]
            self._rows[version] = [row for dummy, row in kept]
