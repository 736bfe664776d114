# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranges of addresses (ccm 15): a cluster's pool, handed out without any provider; the pools of others; what is for something else than Services.

Who may write a Service, or a provider, could else have a node's or a router's address announced, and its traffic with it (T17, CVE-2020-8554).
"""

from __future__ import annotations

import ipaddress
import typing as t

from .._values.addresses import Address, Network, parse_address, parse_network
from .._values.prefix_sets import PrefixSet
from .._values.refused import ValueRefused, quoted
from .reservations import Reservation


class Span(t.NamedTuple):
    """From first to last, both in it."""

    version: int
    first: int
    last: int

    def covers(self, network: Network) -> bool:
        """Whether every address of the network is in it."""
        return network.version == self.version and self.first <= int(network[0]) and int(network[-1]) <= self.last

    def overlaps(self, other: "Span") -> bool:
        """Whether both share an address."""
        return self.version == other.version and self.first <= other.last and other.first <= self.last


def parse_span(text: object, reason: str = "bad_cidr") -> Span:
    """``10.0.0.0/24``, ``10.0.0.1-10.0.0.9`` or one address. Raises ValueRefused."""
    if not isinstance(text, str):
        raise ValueRefused(reason, "{0} is no range of addresses".format(quoted(text)))
    first, dash, last = text.partition("-")
    if not dash:
        network = parse_network(text if "/" in text else host(parse_address(text, reason)), reason)
        return Span(network.version, int(network[0]), int(network[-1]))
    low, high = parse_address(first.strip(), reason), parse_address(last.strip(), reason)
    if low.version != high.version or int(low) > int(high):
        raise ValueRefused(reason, "{0} does not go upwards within one family".format(quoted(text)))
    return Span(low.version, int(low), int(high))


def readable_spans(texts: t.Iterable[object]) -> t.List[Span]:
    """What can be read of such texts, without the rest."""
    found = []
    for text in texts:
        try:
            found.append(parse_span(text))
        except ValueRefused:
            continue
    return found


def host(address: Address) -> str:
    """The network of one address."""
    return "{0}/{1}".format(address, address.max_prefixlen)


def address_at(version: int, number: int) -> str:
    """A number as text."""
    return str(ipaddress.IPv4Address(number) if version == 4 else ipaddress.IPv6Address(number))


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


class Reserved:
    """``labelled``: what it is, in words -> networks, ranges and addresses. Raises ValueRefused ``bad_cidr``.

    An address of ``own``, the pool of the cluster itself, is only refused when the inventory names that very address as a host's: a pool
    may lie in the range of the nodes.
    """

    def __init__(self, own: Pool = Pool(()), labelled: t.Optional[t.Mapping[str, t.Iterable[object]]] = None) -> None:
        self._own = own
        self.labelled = {label: tuple(parse_span(text) for text in texts) for label, texts in sorted((labelled or {}).items())}
        self._all = PrefixSet.of_spans(span for spans in self.labelled.values() for span in spans)

    def plus(self, more: t.Mapping[str, t.Iterable[object]]) -> "Reserved":
        """With these too."""
        both = Reserved(self._own, more)
        both.labelled = {**self.labelled, **both.labelled}
        both._all = PrefixSet.of_spans(span for spans in both.labelled.values() for span in spans)
        return both

    def hosts(self) -> t.List[str]:
        """The addresses in it that stand alone: no pool hands them out."""
        return sorted({address_at(span.version, span.first) for spans in self.labelled.values() for span in spans if span.first == span.last})

    def refuse(self, address: object, besides: t.Container[str] = ()) -> None:
        """Raise ValueRefused ``outside_grant`` for an address that is something else's. ``besides``: labels that do not count."""
        parsed = parse_address(address)
        if parsed not in self._all:
            return
        single = Span(parsed.version, int(parsed), int(parsed))
        pooled = str(parsed) in self._own
        for label, spans in self.labelled.items():
            for span in spans if label not in besides else ():
                if span == single or (not pooled and span.overlaps(single)):
                    text = "{0} belongs to the {1} of the inventory; only what a pool of load_balancers_settings has is for Services"
                    raise ValueRefused("outside_grant", text.format(parsed, label))
