# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Kilo and its cluster mesh write: names, and addresses as their programs read them (kilo 3, 6).

An IPv4 address in its IPv6-mapped form counts as the IPv4 address everywhere; a prefix length is plain digits, leading
zeros included. Everything else is as strict as the rest of this collection.
"""

from __future__ import annotations

import functools
import ipaddress
import re
import typing as t

from .._values.addresses import Address, Network, parse_address
from .._values.refused import ValueRefused, quoted

GROUP, VERSION = "kilo.squat.ai", "v1alpha1"
API_VERSION = GROUP + "/" + VERSION
PEERS = "/apis/{0}/peers".format(API_VERSION)
FINALIZER = "kilo-clustermesh.io/cleanup"
MESH_LABEL, SOURCE_LABEL = "kilo-clustermesh.io/mesh", "kilo-clustermesh.io/source-cluster"

WIREGUARD_IP, KEY = GROUP + "/wireguard-ip", GROUP + "/key"
CLUSTERMESH_ENDPOINT, FORCE_ENDPOINT = GROUP + "/clustermesh-endpoint", GROUP + "/force-endpoint"
DISCOVERED_ENDPOINTS, FORCE_INTERNAL_IP = GROUP + "/discovered-endpoints", GROUP + "/force-internal-ip"
GRANULARITY, LOCATION = GROUP + "/granularity", GROUP + "/location"
INTERNAL_IP, ENDPOINT = GROUP + "/internal-ip", GROUP + "/endpoint"
PERSISTENT_KEEPALIVE = GROUP + "/persistent-keepalive"

DEFAULT_PORT = 51820

_PREFIX = re.compile(r"[0-9]{1,32}\Z", re.ASCII)

Node = t.Mapping[str, t.Any]
Entry = t.Mapping[str, t.Any]


class Cidr(t.NamedTuple):
    """A CIDR text as read: the address with its host bits, and the masked network."""

    host: Address
    network: Network

    @property
    def host_route(self) -> str:
        """The address alone, as a route."""
        return host_route(self.host)


def parse_ip(text: object, reason: str = "invalid-ip") -> Address:
    """One address without prefix, zone or blanks; IPv4-mapped becomes IPv4."""
    return unmapped(parse_address(text, reason))


def ip_or_none(text: object) -> t.Optional[Address]:
    """As parse_ip, None for anything that is no address."""
    try:
        return parse_ip(text)
    except ValueRefused:
        return None


def unmapped(address: Address) -> Address:
    """The IPv4 address inside an IPv4-mapped one, any other unchanged."""
    inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if inner is None else inner


def parse_cidr(text: object, reason: str = "invalid-cidr") -> Cidr:
    """``address/digits``; host bits are kept in ``host`` and masked in ``network``."""
    found = _cidr(text) if isinstance(text, str) and len(text) <= 80 else None
    if found is None:
        raise ValueRefused(reason, "invalid CIDR {0}".format(quoted(text)))
    return found


def cidr_or_none(text: object) -> t.Optional[Cidr]:
    """As parse_cidr, None for anything that is no CIDR."""
    return _cidr(text) if isinstance(text, str) and len(text) <= 80 else None


@functools.lru_cache(maxsize=65536)
def _cidr(text: str) -> t.Optional[Cidr]:
    head, slash, tail = text.partition("/")
    if not slash or not _PREFIX.match(tail):
        return None
    try:
        address = parse_address(head)
    except ValueRefused:
        return None
    length = int(tail)
    if length > address.max_prefixlen:
        return None
    host = unmapped(address)
    if host is not address and length >= 96:
        return Cidr(host, ipaddress.ip_network((host, length - 96), strict=False))
    return Cidr(host, ipaddress.ip_network((address, length), strict=False))


def canonical_cidr(text: t.Any) -> t.Any:
    """A CIDR as it is printed, without the bits behind its prefix; anything else as it is."""
    cidr = cidr_or_none(text)
    return text if cidr is None else str(cidr.network)


def cidr_contains(outer: Network, inner: t.Union[Network, Address]) -> bool:
    """True when all of inner lies in outer; never across families."""
    if outer.version != inner.version:
        return False
    if isinstance(inner, (ipaddress.IPv4Network, ipaddress.IPv6Network)):
        return inner.subnet_of(outer)  # type: ignore[arg-type]
    return inner in outer


def cidr_overlaps(first: Network, second: Network) -> bool:
    """True when two networks share an address; never across families."""
    return cidr_contains(first, second.network_address) or cidr_contains(second, first.network_address)


def host_route(address: Address) -> str:
    """The canonical text with /32 or /128."""
    return "{0}/{1}".format(address, address.max_prefixlen)


def annotation(node: Node, key: str) -> str:
    """A node's annotation; absent, empty and what is no text are all empty. Never trimmed."""
    annotations = node.get("annotations")
    value = annotations.get(key) if isinstance(annotations, dict) else None
    return value if isinstance(value, str) else ""


def pod_cidrs(node: Node) -> t.Sequence[t.Any]:
    """spec.podCIDRs of a node; the singular podCIDR is not read."""
    found = node.get("podCIDRs")
    return found if isinstance(found, (list, tuple)) else ()


def addresses(node: Node, kind: str) -> t.Iterator[t.Tuple[str, Address]]:
    """(text, address) of the node's addresses of one type in list order; what is no address is skipped."""
    found = node.get("addresses")
    for item in found if isinstance(found, (list, tuple)) else ():
        if isinstance(item, dict) and item.get("type") == kind:
            address = ip_or_none(item.get("address"))
            if address is not None:
                yield item["address"], address


def as_kilo_sends(node: Node) -> Node:
    """The node with the internal address that Kilo sends from in place of the Node's own ones of that family.

    Kilo announces it in ``internal-ip``; where it has not, the node stays as it is.
    """
    cidr = cidr_or_none(annotation(node, INTERNAL_IP))
    if cidr is None:
        return node
    found = node.get("addresses")
    kept = [{"type": "InternalIP", "address": str(cidr.host)}]
    for item in found if isinstance(found, (list, tuple)) else ():
        if isinstance(item, dict):
            address = ip_or_none(item.get("address"))
            if item.get("type") != "InternalIP" or address is None or address.version != cidr.host.version:
                kept.append(item)
    return dict(node, addresses=kept)
