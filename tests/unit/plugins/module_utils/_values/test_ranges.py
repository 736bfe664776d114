# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Range arithmetic against the slow and obvious way."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import (
    contains,
    overlaps,
    parse_network,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.ranges import (
    DisjointSpans,
    RangeSet,
    overlapping_pairs,
)
from hypothesis import given, strategies as st


@st.composite
def networks(draw: t.Any) -> t.Any:
    if draw(st.booleans()):
        return ipaddress.ip_network((draw(st.integers(0, 63)) << 26, draw(st.integers(0, 8))), strict=False)
    return ipaddress.ip_network((draw(st.integers(0, 63)) << 122, draw(st.integers(0, 8))), strict=False)


@given(st.lists(networks(), max_size=20))
def test_pairs(items: t.List[t.Any]) -> None:
    labelled = list(zip(items, range(len(items))))
    found = {frozenset((a[1], b[1])) for a, b in overlapping_pairs(labelled)}
    slow = {frozenset((i, j)) for i in range(len(items)) for j in range(i) if overlaps(items[i], items[j])}
    assert found == slow
    assert all(contains(outer[0], inner[0]) for outer, inner in overlapping_pairs(labelled))
    assert overlapping_pairs(labelled, lambda a, b: True) == []


@given(st.lists(networks(), max_size=10), networks())
def test_sets(items: t.List[t.Any], probe: t.Any) -> None:
    merged = list(ipaddress.collapse_addresses(n for n in items if n.version == probe.version))
    assert RangeSet(items).covers(probe) == any(contains(item, probe) for item in merged)
    assert (probe.network_address in RangeSet(items)) == any(
        item.version == probe.version and probe.network_address in item for item in items
    )


@given(st.lists(networks(), max_size=20), networks())
def test_disjoint(items: t.List[t.Any], probe: t.Any) -> None:
    taken: t.List[t.Any] = []
    spans = DisjointSpans()
    for item in items:
        owner = spans.owner(item)
        assert (owner is not None) == any(overlaps(item, other) for other in taken)
        if owner is None:
            spans.add(item, str(item))
            taken.append(item)
    owner = spans.owner(probe)
    assert (owner is None) == (not any(overlaps(probe, other) for other in taken))
    assert owner is None or overlaps(probe, parse_network(owner))


def test_adjacent_ranges_merge() -> None:
    assert RangeSet([parse_network("10.0.0.0/25"), parse_network("10.0.0.128/25")]).covers(parse_network("10.0.0.0/24"))
