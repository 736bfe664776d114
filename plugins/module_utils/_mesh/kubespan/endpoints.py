# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which endpoints and prefixes a node announces, and which of received endpoints it tries (kubespan 4, 7).

Filters are ordered lists of networks to take and, with ``!``, to leave (7.2).
"""

from __future__ import annotations

import fnmatch
import ipaddress
import typing as t

from ..._values.addresses import (
    Address,
    Network,
    is_plain_endpoint,
    parse_address,
    parse_endpoint,
    parse_network,
    special_kind,
)
from ..._values.held_addresses import held_for_others
from ..._values.prefix_sets import PrefixSet, address_text
from ..._values.refused import ValueRefused, quoted
from .generations import Generation
from .identity import looks_like_ula

#: More items than any operator writes; every item is compared with every candidate.
MAX_FILTERS = 256
#: In front of a kind of devices among those that are left out, such as ``kind:tun``.
KIND = "kind:"


class Filter(t.NamedTuple):
    """One item of a filter."""

    takes: bool
    network: Network


def parse_filters(texts: object) -> list[Filter] | None:
    """A filter, or None where none is configured. One bad item refuses the whole list (``invalid_filter``)."""
    if texts is None:
        return None
    if not isinstance(texts, (list, tuple)) or len(texts) > MAX_FILTERS:
        raise ValueRefused("invalid_filter", f"endpoint filters are a list of at most {MAX_FILTERS} items")
    return [_parse_item(text) for text in texts]


def _parse_item(text: object) -> Filter:
    if not isinstance(text, str):
        raise ValueRefused("invalid_filter", f"{quoted(text)} is no endpoint filter")
    takes = not text.startswith("!")
    rest = text if takes else text[1:]
    if "/" in rest:
        return Filter(takes, parse_network(rest, "invalid_filter"))
    return Filter(takes, ipaddress.ip_network(parse_address(rest, "invalid_filter")))


def apply_filters(filters: t.Sequence[Filter] | None, candidates: t.Iterable[Address]) -> list[Address]:
    """Candidates in the order of the filter. Unset keeps all, an empty list keeps none; families never match each other."""
    candidates = list(candidates)
    if filters is None:
        return candidates
    result: dict[Address, None] = {}
    for item in filters:
        for address in candidates:
            if address.version != item.network.version or address not in item.network:
                continue
            if item.takes:
                result.setdefault(address)
            else:
                result.pop(address, None)
    return list(result)


class AddrPort(t.NamedTuple):
    """An endpoint by value: an address and a port, never a name."""

    address: Address
    port: int

    def __str__(self) -> str:
        text = address_text(self.address.version, int(self.address))
        return f"{(f'[{text}]' if self.address.version == 6 else text)}:{self.port}"


def parse_addr_port(text: object) -> AddrPort:
    """addr:port or [v6]:port; ``bad_endpoint``. A DNS name is none: nobody but the tunnel's owner may move it."""
    endpoint = parse_endpoint(text)
    address = endpoint.address
    if address is None:
        raise ValueRefused("bad_endpoint", f"{quoted(text)} is no address with a port")
    return AddrPort(address, endpoint.port)


def parse_endpoints(texts: object) -> list[AddrPort]:
    """A list of endpoints; one bad item refuses it."""
    if not isinstance(texts, (list, tuple)):
        raise ValueRefused("bad_endpoint", "endpoints are a list")
    return [parse_addr_port(text) for text in texts]


def node_addresses(
    configured: t.Iterable[t.Mapping[str, t.Any]],
    cluster_networks: t.Iterable[str] = (),
    exclude_interfaces: t.Collection[str] = (),
    exclude: t.Iterable[str] = (),
    balanced: t.Iterable[str] = (),
    own: t.Container[str] = (),
) -> list[str]:
    """The node's *routed* addresses from its configured ones, sorted (kubespan 4).

    configured: as read_host has it, of which ``{address: "10.0.0.1/24", device}`` are needed. cluster_networks: pod and service
    networks of the node's cluster, which have no node's addresses. exclude_interfaces and exclude: devices (names, patterns, ``kind:`` and
    the kernel's name) and networks that the operator leaves out (bridges of container runtimes, other tunnels, floating addresses).
    balanced and own: as held_for_others has them.
    """
    left_out = PrefixSet.of_texts([*cluster_networks, *exclude])
    configured = [item for item in configured if not _is_excluded(item, exclude_interfaces)]
    held = held_for_others(configured, PrefixSet.of_texts(balanced), own)
    found: dict[Address, Network] = {}
    for item in configured:
        text = str(item["address"])
        network = parse_network(text)
        address = parse_address(text.split("/", maxsplit=1)[0])
        if not item.get("up", True) or item.get("scope", "global") not in ("global", "site"):
            continue
        if text in held or special_kind(address) is not None or address in left_out:
            continue
        if address not in found or network.prefixlen > found[address].prefixlen:
            found[address] = network
    return [
        address_text(address.version, int(address))
        for address in sorted(found, key=lambda address: (address.version, int(address)))
    ]


def _is_excluded(item: t.Mapping[str, t.Any], patterns: t.Iterable[str]) -> bool:
    device, kind = str(item.get("device") or ""), item.get("kind") or ""
    return any(
        kind == text[len(KIND) :] if text.startswith(KIND) else fnmatch.fnmatchcase(device, text) for text in patterns
    )


def local_endpoints(
    current: t.Iterable[str],
    own_address: str | None,
    public: t.Iterable[str] = (),
    filters: t.Sequence[str] | None = None,
    extra: t.Iterable[str] = (),
    port: int = 51820,
    drop_siderolink: bool = False,
) -> list[str]:
    """The endpoints a node announces, in order (kubespan 7.1).

    current: its addresses, sorted. public: what others report of it. ``drop_siderolink`` is Talos' rule, by a test
    that also hits a site's own ULAs; ordinary hosts have no SideroLink.
    """
    own = None if own_address is None else parse_address(own_address)
    candidates: dict[Address, None] = {}
    for text in current:
        address = parse_address(text)
        if address != own and not (drop_siderolink and looks_like_ula(address, "siderolink")):
            candidates.setdefault(address)
    for text in public:
        candidates.setdefault(parse_address(text))
    result = dict.fromkeys(AddrPort(address, port) for address in apply_filters(parse_filters(filters), candidates))
    result.update(dict.fromkeys(parse_endpoints(list(extra))))
    return [str(endpoint) for endpoint in result]


def received_endpoints(endpoints: t.Iterable[str], filters: t.Sequence[str] | None) -> list[str]:
    """Those of a peer's endpoints that this node tries, in the order of its own filter (kubespan 7.3)."""
    if filters is None:
        return list(
            dict.fromkeys(str(text) if is_plain_endpoint(text) else str(parse_addr_port(text)) for text in endpoints)
        )
    parsed = list(dict.fromkeys(parse_addr_port(text) for text in endpoints))
    order = {
        address: place
        for place, address in enumerate(apply_filters(parse_filters(filters), [e.address for e in parsed]))
    }
    kept = [endpoint for endpoint in parsed if endpoint.address in order]
    kept.sort(key=lambda endpoint: order[endpoint.address])
    return [str(endpoint) for endpoint in kept]


def additional_addresses(
    advertise: bool,
    gen: Generation,
    node_pod_cidrs: t.Sequence[str] = (),
    interface_addresses: t.Sequence[str] = (),
    cluster_networks: t.Sequence[str] = (),
    more: t.Sequence[str] = (),
) -> list[str]:
    """Prefixes a node announces besides its addresses (kubespan 4.1): pod networks where advertised, and the operator's.

    The old generation takes addresses of local interfaces inside the cluster's networks, with their prefix length.
    """
    found: list[str] = []
    if advertise and gen.pods_from_node:
        found.extend(node_pod_cidrs)
    elif advertise:
        inside = PrefixSet.of_texts(cluster_networks)
        found.extend(text for text in interface_addresses if parse_address(text.split("/", maxsplit=1)[0]) in inside)
    return list(dict.fromkeys(prefix_text(text) for text in [*found, *more]))


def prefix_text(text: object) -> str:
    """A prefix in one spelling, its host bits kept as given."""
    network = parse_network(text)
    address = parse_address(str(text).split("/", maxsplit=1)[0])
    return f"{address_text(address.version, int(address))}/{network.prefixlen}"


def harvest(
    enabled: bool, affiliates: t.Iterable[t.Mapping[str, t.Any]], peers: t.Iterable[t.Mapping[str, t.Any]]
) -> list[dict[str, str]]:
    """Endpoints at which peers that are up were seen: ``{affiliate_id, endpoint}`` (kubespan 7.4).

    affiliates: ``{node_id, public_key}``; peers: ``{public_key, state, endpoint}``.
    """
    if not enabled:
        return []
    ids = {row["public_key"]: row["node_id"] for row in affiliates if row.get("public_key")}
    return [
        {"affiliate_id": ids[peer["public_key"]], "endpoint": peer["endpoint"]}
        for peer in peers
        if peer.get("state") == "up" and peer.get("endpoint") and peer["public_key"] in ids
    ]


def host_network(address: Address) -> Network:
    """An address as a /32 or /128."""
    return ipaddress.ip_network(address)
