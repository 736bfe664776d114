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

from ..._plan.objects import text_values
from ..._values.addresses import Address, Network, parse_address
from ..._values.refused import ValueRefused, quoted
from ..._values.text import mapping

GROUP, VERSION = "kilo.squat.ai", "v1alpha1"
API_VERSION = GROUP + "/" + VERSION
PEERS = f"/apis/{API_VERSION}/peers"
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

#: One cluster of a ClusterMesh, in the form of that object.
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


def ip_or_none(text: object) -> Address | None:
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
        raise ValueRefused(reason, f"invalid CIDR {quoted(text)}")
    return found


def cidr_or_none(text: object) -> Cidr | None:
    """As parse_cidr, None for anything that is no CIDR."""
    return _cidr(text) if isinstance(text, str) and len(text) <= 80 else None


@functools.lru_cache(maxsize=65536)
def _cidr(text: str) -> Cidr | None:
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


def cidr_contains(outer: Network, inner: Network | Address) -> bool:
    """True when all of inner is in outer; never across families."""
    if outer.version != inner.version:
        return False
    if isinstance(inner, (ipaddress.IPv4Network, ipaddress.IPv6Network)):
        return inner.subnet_of(outer)  # type: ignore[arg-type]
    return inner in outer


def host_route(address: Address) -> str:
    """The canonical text with /32 or /128."""
    return f"{address}/{address.max_prefixlen}"


# -- nodes --------------------------------------------------------------------------------------------------------


class NodeAddress(t.NamedTuple):
    """One of a node's addresses: its type in Kubernetes, its text, and the address."""

    kind: str
    text: str
    address: Address


class Node(t.NamedTuple):
    """What the mesh knows of one node. ``annotations`` and ``labels``: those with text as value.

    ``pod_cidrs``: spec.podCIDRs as they are there; the singular podCIDR is not read. ``reached_at``: the endpoint that Kilo
    itself announces, for when nothing else is there.
    """

    name: str
    annotations: t.Mapping[str, str] = {}
    labels: t.Mapping[str, str] = {}
    pod_cidrs: tuple[t.Any, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    reached_at: str = ""

    def annotation(self, key: str) -> str:
        """An annotation, never trimmed; absent and empty are both empty."""
        return self.annotations.get(key, "")

    @property
    def internal_ips(self) -> list[Address]:
        """The addresses of the type InternalIP, in list order."""
        return [one.address for one in self.addresses if one.kind == "InternalIP"]


def parse_node(node: t.Any) -> Node:
    """A Node object, or {name, annotations, labels, podCIDRs, addresses}. What is of a wrong type is as if it were not there."""
    if not isinstance(node, dict):
        raise ValueRefused("name_invalid", f"{quoted(node)} is no node")
    metadata, spec, status = (
        (node, node, node) if "name" in node else (mapping(node, part) for part in ("metadata", "spec", "status"))
    )
    pods, found = spec.get("podCIDRs"), status.get("addresses")
    addresses = []
    for item in found if isinstance(found, (list, tuple)) else ():
        address = ip_or_none(item.get("address")) if isinstance(item, dict) else None
        if address is not None:
            addresses.append(NodeAddress(str(item.get("type")), item["address"], address))
    return Node(
        str(metadata.get("name")),
        text_values(metadata.get("annotations")),
        text_values(metadata.get("labels")),
        tuple(pods) if isinstance(pods, (list, tuple)) else (),
        tuple(addresses),
    )


def as_kilo_sends(node: Node) -> Node:
    """The node with the internal address that Kilo sends from in place of the Node's own ones of that family.

    Kilo announces it in ``internal-ip``; where it has not, the node stays as it is.
    """
    cidr = cidr_or_none(node.annotation(INTERNAL_IP))
    if cidr is None:
        return node
    kept = [one for one in node.addresses if one.kind != "InternalIP" or one.address.version != cidr.host.version]
    return node._replace(addresses=(NodeAddress("InternalIP", str(cidr.host), cidr.host), *kept))
