# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranges of addresses as MetalLB writes them: networks and ``first-last`` (ccm 15)."""

from __future__ import annotations

import ipaddress
import typing as t

from .._values.addresses import Address, Network, parse_address, parse_network
from .._values.refused import ValueRefused, quoted


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
