# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many networks at once: overlaps and membership by sorting instead of comparing every pair."""

from __future__ import annotations

import bisect
import typing as t

from .addresses import Address, Network

Span = t.Tuple[int, int, int]


def span(network: Network) -> Span:
    """(version, first, last) as integers: comparing these is much cheaper than comparing network objects."""
    first = int(network.network_address)
    return network.version, first, first | ((1 << (network.max_prefixlen - network.prefixlen)) - 1)


class RangeSet:
    """A set of addresses, made of networks that may overlap. Both families live in it side by side."""

    def __init__(self, networks: t.Iterable[Network] = ()) -> None:
        self._starts: t.Dict[int, t.List[int]] = {4: [], 6: []}
        self._ends: t.Dict[int, t.List[int]] = {4: [], 6: []}
        for version, first, last in sorted(span(network) for network in networks):
            starts, ends = self._starts[version], self._ends[version]
            if ends and first <= ends[-1] + 1:
                ends[-1] = max(ends[-1], last)
            else:
                starts.append(first)
                ends.append(last)

    def __contains__(self, address: Address) -> bool:
        return self._covers(address.version, int(address), int(address))

    def has_plain(self, number: int) -> bool:
        """Whether an IPv4 address, given as a number, is in the set."""
        return self._covers(4, number, number)

    def covers(self, network: Network) -> bool:
        """True when every address of the network is in the set."""
        return self._covers(*span(network))

    def _covers(self, version: int, first: int, last: int) -> bool:
        index = bisect.bisect_right(self._starts[version], first) - 1
        return index >= 0 and last <= self._ends[version][index]


class DisjointSpans:
    """Networks with owners, no two of which overlap; built one by one."""

    def __init__(self) -> None:
        self._starts: t.Dict[int, t.List[int]] = {4: [], 6: []}
        self._rows: t.Dict[int, t.List[t.Tuple[int, t.Any]]] = {4: [], 6: []}

    def owner(self, network: Network) -> t.Any:
        """The owner of a range that shares an address with the network, or None."""
        version, first, last = span(network)
        rows = self._rows[version]
        index = bisect.bisect_right(self._starts[version], last) - 1
        return rows[index][1] if index >= 0 and rows[index][0] >= first else None

    def add(self, network: Network, owner: t.Any) -> None:
        """Take a network that overlaps none of those taken before."""
        version, first, last = span(network)
        index = bisect.bisect_left(self._starts[version], first)
        self._starts[version].insert(index, first)
        self._rows[version].insert(index, (last, owner))


def overlapping_pairs(
    labelled: t.Iterable[t.Tuple[Network, t.Any]], may_overlap: t.Callable[[t.Any, t.Any], bool] = lambda a, b: False
) -> t.List[t.Tuple[t.Tuple[Network, t.Any], t.Tuple[Network, t.Any]]]:
    """Pairs of (network, label) that share addresses, wider first.

    Networks in CIDR form are nested or disjoint, so a stack of the enclosing ones finds each pair once in
    O(n log n + pairs). ``may_overlap(label, label)`` lets pairs pass.
    """
    pairs: t.List[t.Tuple[t.Tuple[Network, t.Any], t.Tuple[Network, t.Any]]] = []
    stack: t.List[t.Tuple[Span, t.Tuple[Network, t.Any]]] = []
    rows = sorted(((span(item[0]), index, item) for index, item in enumerate(labelled)), key=_wider_first)
    for (version, first, last), _index, item in rows:
        while stack and (stack[-1][0][0] != version or stack[-1][0][2] < first):
            stack.pop()
        pairs.extend((outer, item) for _span, outer in stack if not may_overlap(outer[1], item[1]))
        stack.append(((version, first, last), item))
    return pairs


def _wider_first(row: t.Tuple[Span, int, t.Any]) -> t.Tuple[int, int, int, int]:
    (version, first, last), index, _item = row
    return version, first, -last, index
