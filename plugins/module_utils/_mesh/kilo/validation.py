# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Kilo itself takes of a Peer (kilo 23), and what of a node may therefore be written.

Kilo judges a Peer as a whole. One that it refuses is not there for it; an update from or to such a Peer, and the deletion
of one, go unseen until the agent restarts. A DNS name that does not resolve stops every agent that has to look it up.
"""

from __future__ import annotations

import typing as t

from ..._values.addresses import special_kind
from ..._values.keys import parse_key, raw_bytes
from ..._values.refused import ValueRefused, quoted
from ..._values.text import mapping
from .endpoints import ANY, endpoint_doubt, is_subdomain, parse_endpoint, resolve_endpoint, with_kilo_endpoint
from .values import KEY, Entry, Node, canonical_cidr, cidr_or_none, ip_or_none

MALFORMED, UNRESOLVED = "key_malformed", "endpoint_unresolved"
#: Reasons of check_node: what exists is right, and only what would be written now is not.
WRITE_REASONS = frozenset((MALFORMED, UNRESOLVED, "bad_endpoint", "endpoint_special"))


def refused_by_kilo(spec: t.Mapping[str, t.Any]) -> str | None:
    """Why Kilo does not take a Peer with this spec, or None. The first problem ends it, as it does there."""
    allowed = spec.get("allowedIPs")
    if not isinstance(allowed, (list, tuple)):
        return "allowedIPs is no list"
    for route in allowed:
        if cidr_or_none(route) is None:
            return f"the allowed IP {quoted(route)} is no network"
    return _endpoint_refused(spec.get("endpoint")) or _numbers_refused(
        spec.get("persistentKeepalive"), spec.get("publicKey")
    )


def _endpoint_refused(endpoint: t.Any) -> str | None:
    if endpoint is None:
        return None
    host = mapping(endpoint, "dnsOrIP")
    if not (host.get("ip") or host.get("dns")):
        return "the endpoint has neither an address nor a DNS name"
    if host.get("dns") and not is_subdomain(host["dns"]):
        return f"the endpoint's name {quoted(host['dns'])} is no lower-case DNS name"
    if host.get("ip") and ip_or_none(host["ip"]) is None:
        return f"the endpoint's address {quoted(host['ip'])} is none"
    port = endpoint.get("port")
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535:
        return f"the endpoint's port {quoted(port)} is not between 1 and 65535"
    return None


def _numbers_refused(keepalive: t.Any, key: t.Any) -> str | None:
    if keepalive is not None and (
        isinstance(keepalive, bool) or not isinstance(keepalive, int) or not 0 <= keepalive <= 65535
    ):
        return f"the keepalive {quoted(keepalive)} is not between 0 and 65535"
    return None if len(raw_bytes(key)) == 32 else "the public key is not 32 bytes in base64"


def check_node(
    node: Node, entry: Entry, keys: bool, endpoints: bool, resolved: t.Mapping[str, t.Sequence[str]]
) -> None:
    """Raise ValueRefused for a valid node with a Peer that Kilo would refuse, or that would stop its agents.

    ``keys``, ``endpoints``: which of both to check. ``resolved`` {DNS name: addresses} of those that were looked up.
    """
    label = f'node "{node.name}"'
    if keys:
        try:
            parse_key(node.annotation(KEY))
        except ValueRefused as error:
            raise ValueRefused(MALFORMED, f"{label}: {error.message}; Kilo takes no Peer with it") from None
    if not endpoints:
        return
    try:
        endpoint = parse_endpoint(resolve_endpoint(node, entry.get("wireguardPort")).text)
    except ValueRefused:
        return  # a roaming node
    doubt = endpoint_doubt(endpoint)
    if doubt is not None:
        raise ValueRefused(doubt[0], f"{label}: {doubt[1]}")
    name = endpoint["dnsOrIP"].get("dns")
    if name is None or name not in resolved:
        return
    if not resolved[name]:
        message = (
            "{0}: the DNS name {1} of its endpoint does not resolve here, and a name that does not resolve stops every Kilo agent "
            "that looks it up. Write an address, or set clustermesh_strict_endpoints to false where only the nodes can resolve it"
        )
        raise ValueRefused(UNRESOLVED, message.format(label, quoted(name)))
    for address in map(ip_or_none, resolved[name]):
        if address is None or special_kind(address) is not None:
            raise ValueRefused("endpoint_special", f"{label}: the DNS name {quoted(name)} is {address}")


def plain_ranges(entry: Entry) -> Entry:
    """The entry with its ranges as they are printed: the kernel takes no route to a network with bits behind its prefix."""
    found = dict(entry)
    for field in ("podCIDRs", "additionalCIDRs", "allowedNetworks"):
        if isinstance(entry.get(field), (list, tuple)):
            found[field] = [canonical_cidr(text) for text in entry[field]]
    for field in ("wireguardCIDR", "serviceCIDR"):
        if entry.get(field):
            found[field] = canonical_cidr(entry[field])
    return found


def plain_pods(node: Node) -> Node:
    """The node with its pod ranges as they are printed."""
    return node._replace(pod_cidrs=tuple(canonical_cidr(text) for text in node.pod_cidrs))


def names_of(
    nodes: t.Mapping[str, t.Sequence[Node]], peers: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]]
) -> list[str]:
    """DNS names of endpoints that nodes announce or live Peers have, those that are names, one cluster after the other in
    turn, so that the many of one do not use up the time of all."""
    columns: list[list[str]] = []
    for cluster in sorted(set(nodes) | set(peers)):
        found: dict[str, None] = {}
        for obj in peers.get(cluster, ()):
            name = endpoint_name(obj.get("spec"))
            if name is not None:
                found.setdefault(name)
        for node in nodes.get(cluster, ()):
            try:
                host = parse_endpoint(resolve_endpoint(with_kilo_endpoint(node, ANY)).text)["dnsOrIP"].get("dns")
            except ValueRefused:
                continue
            if host is not None and endpoint_doubt({"dnsOrIP": {"dns": host}}) is None:
                found.setdefault(host)
        columns.append(list(found))
    longest = max(map(len, columns), default=0)
    return list(dict.fromkeys(column[row] for row in range(longest) for column in columns if row < len(column)))


def endpoint_name(spec: t.Any) -> str | None:
    """The DNS name of a live Peer's endpoint; None for an address, no endpoint, and what is no name."""
    name = mapping(spec, "endpoint", "dnsOrIP").get("dns")
    return name if is_subdomain(name) else None
