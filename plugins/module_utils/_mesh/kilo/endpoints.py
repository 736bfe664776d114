# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a node is reached: host:port text, the order of its sources, what other nodes learnt (kilo 7, 11, 12)."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ..._values.addresses import Address, special_kind
from ..._values.refused import ValueRefused, quoted
from ..._values.text import is_digits, lower, parse_json, parse_subdomain
from .values import CLUSTERMESH_ENDPOINT, DEFAULT_PORT, DISCOVERED_ENDPOINTS, ENDPOINT, FORCE_ENDPOINT, Node, ip_or_none

INVALID, NONE = "NodeEndpointInvalid", "NodeNoEndpoint"
SOURCES = ((CLUSTERMESH_ENDPOINT, "clustermesh-endpoint"), (FORCE_ENDPOINT, "force-endpoint"))
EXTERNAL_IP, KILO = "external-ip", "kilo-endpoint"
#: Where Kilo's own endpoint of a node is taken from, when nothing else is there.
NO_KILO, PUBLIC, ANY = "never", "public", "any"
#: Bytes and entries of one node's discovered-endpoints that are looked at (threat T21).
MAX_DISCOVERED_TEXT, MAX_DISCOVERED = 1 << 20, 20000

_PRIVATE = tuple(
    map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"))
)

_DIGITS = re.compile(r"[0-9]+\Z", re.ASCII)

PeerEndpoint = dict[str, t.Any]


class Resolved(t.NamedTuple):
    """``text`` as the source has it, and which source that was."""

    text: str
    source: str


def split_host_port(text: object) -> tuple[str, int]:
    """(host without brackets, port) of ``host:port``. The host is not examined. Raises NodeEndpointInvalid."""
    if not isinstance(text, str):
        raise _invalid(text, "it is no text")
    colon = text.rfind(":")
    if colon < 0:
        raise _invalid(text, "it has no port")
    if text.startswith("["):
        end = text.find("]")
        if end < 0:
            raise _invalid(text, "a bracket is not closed")
        if end + 1 != colon:
            raise _invalid(text, "something is between the brackets and the port")
        if "[" in text[1:] or "]" in text[end + 1 :]:
            raise _invalid(text, "it has too many brackets")
        host = text[1:end]
    else:
        host = text[:colon]
        if ":" in host:
            raise _invalid(text, "it has too many colons")
        if "[" in text or "]" in text:
            raise _invalid(text, "it has a bracket inside")
    if not host:
        raise _invalid(text, "it has no host")
    return host, _port(text, text[colon + 1 :])


def _port(text: str, digits: str) -> int:
    if not _DIGITS.match(digits):
        raise _invalid(text, "its port is no number")
    significant = digits.lstrip("0")
    if not significant or len(significant) > 5 or int(significant) > 65535:
        raise _invalid(text, "its port is not between 1 and 65535")
    return int(significant)


def _invalid(text: object, why: str) -> ValueRefused:
    return ValueRefused(INVALID, f"{quoted(text)} is not host:port: {why}")


def parse_endpoint(text: object) -> PeerEndpoint:
    """A Peer's endpoint, ``{dnsOrIP: {ip or dns}, port}``; an address keeps its spelling. Raises NodeEndpointInvalid."""
    dummy, port = split_host_port(text)
    host = t.cast(str, text).rpartition(":")[0].strip("[]")
    kind = "dns" if ip_or_none(host) is None else "ip"
    return {"dnsOrIP": {kind: host}, "port": port}


def resolve_endpoint(node: Node, port: object = 0) -> Resolved:
    """The node's endpoint from the first source that is not empty. Raises NodeEndpointInvalid or NodeNoEndpoint.

    A malformed annotation is final: no lower source is looked at. ``port`` (0: 51820) only joins an ExternalIP. Last comes
    what ``with_kilo_endpoint`` found.
    """
    for key, source in SOURCES:
        text = node.annotation(key)
        if text:
            split_host_port(text)
            return Resolved(text, source)
    number = port or DEFAULT_PORT
    found = [one for one in node.addresses if one.kind == "ExternalIP"]
    chosen = next((one.text for one in found if one.address.version == 4), found[0].text if found else None)
    if chosen is None and node.reached_at:
        return Resolved(node.reached_at, KILO)
    if chosen is None:
        raise ValueRefused(
            NONE, f'node "{node.name}" has neither {CLUSTERMESH_ENDPOINT} nor {FORCE_ENDPOINT} nor an ExternalIP'
        )
    return Resolved(join_host_port(chosen, number), EXTERNAL_IP)


def with_kilo_endpoint(node: Node, which: str) -> Node:
    """The node with the endpoint that Kilo itself announces for it, so that it is found when nothing else is.

    ``which``: never; public: unless it is a private address, which other clusters may not reach; any.
    """
    text = node.annotation(ENDPOINT)
    if which == NO_KILO or not text:
        return node._replace(reached_at="")
    try:
        address = endpoint_address(parse_endpoint(text))
    except ValueRefused:
        return node._replace(reached_at="")
    private = address is not None and any(
        address in network for network in _PRIVATE if network.version == address.version
    )
    return node._replace(reached_at="" if private and which != ANY else text)


def join_host_port(host: str, port: object) -> str:
    """host:port, with brackets where the host's text has a colon."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def endpoint_address(endpoint: t.Mapping[str, t.Any] | None) -> Address | None:
    """The address of a Peer's endpoint, None for a DNS name or without endpoint."""
    return ip_or_none((endpoint or {}).get("dnsOrIP", {}).get("ip"))


def endpoint_doubt(endpoint: t.Mapping[str, t.Any]) -> tuple[str, str] | None:
    """(reason, message) for an endpoint that the rules accept and Kilo ignores or cannot use, None for a good one."""
    host = endpoint["dnsOrIP"]
    address = endpoint_address(endpoint)
    if address is not None:
        kind = special_kind(address)
        if kind is None or kind == "v4_embedded":
            return None
        return "endpoint_special", f"endpoint {address} is a {kind} address, which no node has"
    if is_subdomain(host.get("dns")) and not is_digits(host["dns"].rpartition(".")[2]):
        return None
    return (
        "bad_endpoint",
        f"{quoted(host.get('dns'))} is neither an address nor a lower-case DNS name, and Kilo ignores it",
    )


def is_subdomain(text: t.Any) -> bool:
    """True for a lower-case DNS name of at most 253 characters."""
    try:
        parse_subdomain(text, "bad_endpoint")
    except ValueRefused:
        return False
    return True


# --- what nodes learnt from handshakes ------------------------------------------------------------------------------


def collect_discovered(nodes: t.Iterable[Node]) -> dict[str, str]:
    """{public key: address:port} that the nodes of one cluster have seen; the first node that knows a key wins.

    An entry that cannot be an endpoint is left out alone: loopback, link-local, unspecified, multicast and reserved
    addresses, ports that do not exist, wrong types (gap G10; upstream drops the whole node for one bad entry).
    """
    found: dict[str, str] = {}
    for node in nodes:
        text = node.annotation(DISCOVERED_ENDPOINTS)
        if not text or len(text) > MAX_DISCOVERED_TEXT:
            continue
        try:
            entries = parse_json(text)
        except ValueRefused:
            continue
        if not isinstance(entries, dict) or len(entries) > MAX_DISCOVERED:
            continue
        for key, entry in entries.items():
            if key not in found and isinstance(entry, dict):
                endpoint = _observed(entry)
                if endpoint is not None:
                    found[key] = endpoint
    return found


def _observed(entry: t.Mapping[str, t.Any]) -> str | None:
    # names in any case, the last one counts, null is as if it were not there
    fields = {lower(name): value for name, value in entry.items() if value is not None}
    port, address = fields.get("port"), ip_or_none(fields.get("ip"))
    if address is None or isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535:
        return None
    if not isinstance(fields.get("zone", ""), str):
        return None
    if special_kind(address) is not None:
        return None
    return join_host_port(fields["ip"], port)


def enrich_endpoint(configured: PeerEndpoint | None, observed: str | None) -> PeerEndpoint | None:
    """The observed address in place of a configured endpoint that differs. What cannot be an endpoint changes nothing."""
    if not observed:
        return configured
    try:
        endpoint = parse_endpoint(observed)
    except ValueRefused:
        return configured
    address = endpoint_address(endpoint)
    if address is None:
        return configured
    if configured and endpoint_address(configured) == address and configured.get("port") == endpoint["port"]:
        return configured
    return endpoint
