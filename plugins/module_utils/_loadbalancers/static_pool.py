# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pool of addresses of one's own, handed out without any provider (ccm 15, provider static)."""

from __future__ import annotations

import typing as t

from .._values.addresses import parse_address
from .._values.refused import ValueRefused
from .reservations import Reservation
from .spans import Span, address_at, parse_span


class Pool(t.NamedTuple):
    """Sorted spans that do not overlap."""

    spans: t.Tuple[Span, ...]

    def __contains__(self, address: object) -> bool:
        parsed = parse_address(address)
        return any(item.version == parsed.version and item.first <= int(parsed) <= item.last for item in self.spans)


def parse_pool(texts: t.Iterable[object]) -> Pool:
    """Networks and ranges. Raises ValueRefused ``bad_cidr``, or ``claimed_twice`` where two overlap."""
    spans = sorted(parse_span(text) for text in texts)
    for first, second in zip(spans, spans[1:]):
        if first.overlaps(second):
            raise ValueRefused("claimed_twice", "the pool has {0} twice".format(address_at(second.version, second.first)))
    return Pool(tuple(spans))


def refuse_foreign(address: object, others: t.Mapping[str, Pool]) -> None:
    """Raise ValueRefused ``outside_grant`` for an address that another cluster's pool has. ``others``: their pools by name."""
    for name, pool in sorted(others.items()):
        if address in pool:
            raise ValueRefused("outside_grant", "{0} is of the pool of cluster {1}, which alone gives it to Services".format(address, name))


def reserve(pool: Pool, held: t.Sequence[Reservation], tags: t.Sequence[str], version: int = 4) -> t.Tuple[Reservation, bool]:
    """(reservation, whether it is new): the lowest free address. The same tags get the same address.

    Raises ValueRefused ``quota`` when none is free.
    """
    wanted = set(tags)
    for item in held:
        if wanted and set(item.tags) == wanted:
            return item, False
    taken = sorted({int(parse_address(item.address)) for item in held if parse_address(item.address).version == version})
    for span in pool.spans:
        if span.version != version:
            continue
        number = span.first
        for used in taken:  # sorted, so this walks past the taken ones at the front
            if used == number:
                number += 1
        if number <= span.last:
            address = address_at(version, number)
            return Reservation(address, address, parse_address(address).max_prefixlen, tuple(tags)), True
    raise ValueRefused("quota", "no IPv{0} address of the pool is free; make the pool larger or release one".format(version))
