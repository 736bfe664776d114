# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranges of addresses (ccm 15): a cluster's pool, given out without any provider; the pools of others; what is for something else than Services.

Who may write a Service, or a provider, could else have a node's or a router's address announced, and its traffic with it (T17, CVE-2020-8554).
"""

from __future__ import annotations

import dataclasses
import ipaddress
import itertools
import typing as t

from .._values.addresses import Address, parse_address, parse_network
from .._values.prefix_sets import PrefixSet
from .._values.refused import ValueRefused, quoted


class Span(t.Protocol):
    """A netaddr.IPRange: from first to last, both in it. Its items are addresses, as its library has them."""

    version: int
    first: int
    last: int

    def __getitem__(self, place: int) -> t.Any: ...

    def __lt__(self, other: t.Any) -> bool: ...


class LibraryMissing(ValueError):
    """netaddr is not installed for the interpreter that runs this."""


def netaddr() -> t.Any:
    """The library, which computes with the ranges of pools. Nodes have none of it."""
    try:
        import netaddr as library
    except ImportError as error:
        text = "the Python library netaddr is missing where this task runs ({0}); install it there, or point ansible_python_interpreter at a Python that has it"
        raise LibraryMissing(text.format(error)) from None
    return library


def parse_bounds(text: object, reason: str = "bad_cidr") -> tuple[Address, Address]:
    """First and last of ``10.0.0.0/24``, ``10.0.0.1-10.0.0.9`` or one address. Raises ValueRefused."""
    if not isinstance(text, str):
        raise ValueRefused(reason, f"{quoted(text)} is no range of addresses")
    first, dash, last = text.partition("-")
    if "/" in text and not dash:
        network = parse_network(text, reason)
        return network[0], network[-1]
    low = parse_address(first.strip() if dash else text, reason)
    high = parse_address(last.strip(), reason) if dash else low
    if low.version != high.version or int(low) > int(high):
        raise ValueRefused(reason, f"{quoted(text)} does not go upwards within one family")
    return low, high


def parse_span(text: object, reason: str = "bad_cidr") -> Span:
    """The addresses between the bounds. Raises ValueRefused."""
    low, high = parse_bounds(text, reason)
    library = netaddr()
    return t.cast(
        Span, library.IPRange(library.IPAddress(int(low), low.version), library.IPAddress(int(high), high.version))
    )


@dataclasses.dataclass(frozen=True)
class Pool:
    """Sorted spans that do not overlap."""

    spans: tuple[Span, ...]

    def __contains__(self, address: object) -> bool:
        parsed = (
            address if isinstance(address, (ipaddress.IPv4Address, ipaddress.IPv6Address)) else parse_address(address)
        )
        return any(item.version == parsed.version and item.first <= int(parsed) <= item.last for item in self.spans)


def parse_pool(texts: t.Iterable[object]) -> Pool:
    """Networks and ranges. Raises ValueRefused ``bad_cidr``, or ``claimed_twice`` where two overlap."""
    spans = tuple(sorted(parse_span(text) for text in texts))
    for first, second in zip(spans, spans[1:]):
        if first.version == second.version and second.first <= first.last:
            raise ValueRefused("claimed_twice", f"the pool has {second[0]} twice")
    return Pool(spans)


def shared(pools: t.Mapping[str, Pool]) -> list[tuple[str, str, str]]:
    """Pairs of pools with an address of both, the lowest that they share."""
    sets = {name: netaddr().IPSet(pool.spans) for name, pool in pools.items()}
    if (
        sum(one.size for one in sets.values())
        == netaddr().IPSet(span for pool in pools.values() for span in pool.spans).size
    ):
        return []
    pairs = [(one, other, sets[one] & sets[other]) for one, other in itertools.combinations(sorted(sets), 2)]
    return [(one, other, str(next(iter(both)))) for one, other, both in pairs if both.size]


def refuse_unowned(address: object, others: t.Mapping[str, Pool]) -> None:
    """Raise ValueRefused ``outside_grant`` for an address that another cluster's pool has. ``others``: their pools by name."""
    for name, pool in sorted(others.items()):
        if address in pool:
            raise ValueRefused(
                "outside_grant", f"{address} is of the pool of cluster {name}, which alone gives it to Services"
            )


class Reserved:
    """``labelled``: what it is, in words -> networks, ranges and addresses. Raises ValueRefused ``bad_cidr``.

    An address of ``own``, the pool of the cluster itself, is only refused when the inventory names that very address as a host's: a pool
    may lie in the range of the nodes.
    """

    def __init__(self, own: Pool = Pool(()), labelled: t.Mapping[str, t.Iterable[object]] | None = None) -> None:
        self._own = own
        self.labelled = {
            label: tuple(parse_span(text) for text in texts) for label, texts in sorted((labelled or {}).items())
        }
        self._all = _union(self.labelled)

    def plus(self, more: t.Mapping[str, t.Iterable[object]]) -> Reserved:
        both = Reserved(self._own, more)
        both.labelled = {**self.labelled, **both.labelled}
        both._all = _union(both.labelled)
        return both

    def hosts(self) -> list[str]:
        """The addresses in it that are single: no pool hands them out."""
        return sorted({str(span[0]) for spans in self.labelled.values() for span in spans if span.first == span.last})

    def refuse(self, address: object, besides: t.Container[str] = ()) -> None:
        """Raise ValueRefused ``outside_grant`` for an address that is something else's. ``besides``: labels that do not count."""
        parsed = parse_address(address)
        if parsed not in self._all:
            return
        pooled = str(parsed) in self._own
        for label, spans in self.labelled.items():
            for span in spans if label not in besides else ():
                held = span.version == parsed.version and span.first <= int(parsed) <= span.last
                if held and (not pooled or span.first == span.last):
                    text = "{0} belongs to the {1} of the inventory; only what a pool of load_balancers_settings has is for Services"
                    raise ValueRefused("outside_grant", text.format(parsed, label))


def _union(labelled: t.Mapping[str, t.Iterable[Span]]) -> PrefixSet:
    """All of it as a set that is quick to ask, for there is a question for each Service."""
    return PrefixSet.of_spans((span.version, span.first, span.last) for spans in labelled.values() for span in spans)
