# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses, networks and endpoints, read strictly.

The text forms accepted here are those that the kernel and the API server print. Scope identifiers, netmasks in
place of prefix lengths, blanks and IPv4 with fewer than four parts are refused, since the programs that read
our output would understand them differently or not at all.
"""

from __future__ import annotations

import functools
import ipaddress
import re
import typing as t

from .refused import ValueRefused, quoted
from .text import is_digits, parse_decimal, parse_port

Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

_HOST_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z", re.IGNORECASE | re.ASCII)
# Resolvers read such a last label as a number, so "127.1" and "0x7f000001" would become addresses after all checks.
_NUMERIC_LABEL = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z", re.IGNORECASE | re.ASCII)
_PART = r"(0|[1-9][0-9]{0,2})"
_PLAIN_NETWORK = re.compile(rf"{_PART}\.{_PART}\.{_PART}\.{_PART}/(0|[1-9][0-9]?)\Z")
_PLAIN_ADDRESS = re.compile(rf"{_PART}\.{_PART}\.{_PART}\.{_PART}\Z")
_PLAIN_ENDPOINT = re.compile(rf"{_PART}\.{_PART}\.{_PART}\.{_PART}:([1-9][0-9]{{0,4}})\Z")
_HEX_AND_COLONS = re.compile(r"[0-9a-f:]{2,39}\Z")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")


def parse_address(text: object, reason: str = "bad_address") -> Address:
    """One IPv4 or IPv6 address without prefix length or scope."""
    if not isinstance(text, str) or "%" in text or "/" in text or len(text) > 45:
        raise ValueRefused(reason, f"{quoted(text)} is not an IP address")
    try:
        return _address(text)
    except ValueError:
        raise ValueRefused(reason, f"{quoted(text)} is not an IP address") from None


@functools.lru_cache(maxsize=65536)
def readable_address(text: object) -> Address | None:
    """The same of what may be none: None for it."""
    try:
        return parse_address(text)
    except ValueRefused:
        return None


def _address(text: str) -> Address:
    # One fabric reads the same few thousand texts once per cluster; texts are at most 45 characters long here.
    # Python before 3.9.5 takes 010.0.0.1 as ten, C libraries take it as eight.
    if "." in text and any(len(p) > 1 and p[0] == "0" for p in text.rpartition(":")[2].split(".")):
        raise ValueError("leading zero")
    return ipaddress.ip_address(text)


def parse_network(text: object, reason: str = "bad_cidr") -> Network:
    """One network in CIDR form. Host bits are masked off."""
    return _network(*_address_and_length(text, reason))


def _address_and_length(text: object, reason: str) -> tuple[Address, int]:
    if not isinstance(text, str) or text.count("/") != 1:
        raise ValueRefused(reason, f"{quoted(text)} is not a network in CIDR form")
    address_text, length_text = text.split("/")
    address = parse_address(address_text, reason)
    length = parse_decimal(length_text, reason)
    if length > address.max_prefixlen:
        raise ValueRefused(reason, f"{quoted(text)} has a prefix longer than {address.max_prefixlen} bits")
    return address, length


def network_span(text: object, reason: str = "bad_cidr") -> tuple[int, int, int]:
    """(version, first, last) of one network in CIDR form, without the object of the network, which costs more than this."""
    key = plain_network_key(text)
    if key is not None:
        return 4, key[1], key[1] | (0xFFFFFFFF >> key[2])
    if isinstance(text, str):
        head, slash, tail = text.partition("/")
        value = plain_address_v6(head)
        if value is not None and is_digits(tail) and str(int(tail)) == tail and int(tail) <= 128:
            rest = (1 << (128 - int(tail))) - 1
            return 6, value & ~rest, value | rest
    address, length = _address_and_length(text, reason)
    rest = (1 << (address.max_prefixlen - length)) - 1
    return address.version, int(address) & ~rest, int(address) | rest


def address_number(text: object, reason: str = "bad_address") -> tuple[int, int]:
    """(version, number) of one address, without its object where that is not needed."""
    value = plain_address(text)
    if value is not None:
        return 4, value
    value = plain_address_v6(text)
    if value is not None:
        return 6, value
    address = parse_address(text, reason)
    return address.version, int(address)


def plain_address_v6(text: object) -> int | None:
    """The number of an IPv6 address in lower case without a dotted part; None decides nothing."""
    if not isinstance(text, str) or not _HEX_AND_COLONS.match(text):
        return None
    halves = text.split("::")
    groups = [half.split(":") if half else [] for half in halves]
    count = sum(map(len, groups))
    if len(halves) == 2 and count <= 7:
        parts = groups[0] + ["0"] * (8 - count) + groups[1]
    elif len(halves) == 1 and count == 8:
        parts = groups[0]
    else:
        return None
    if not all(0 < len(part) <= 4 for part in parts):
        return None
    return int("".join([part.zfill(4) for part in parts]), 16)


@functools.lru_cache(maxsize=65536)
def _network(address: Address, length: int) -> Network:
    return ipaddress.ip_network((address, length), strict=False)


def plain_network_key(text: object) -> tuple[int, int, int] | None:
    """The network_key of an IPv4 network that is spelled as it would be printed, None for everything else.

    It costs a tenth of what building the objects does, and nearly all of the thousands of texts of a mesh are like that.
    """
    found = _PLAIN_NETWORK.match(text) if isinstance(text, str) else None
    if found is None:
        return None
    first, second, third, fourth, length = map(int, found.groups())
    value = first << 24 | second << 16 | third << 8 | fourth
    if max(first, second, third, fourth) > 255 or length > 32 or value & (0xFFFFFFFF >> length):
        return None
    return (4, value, length)


def network_text_and_key(text: object, reason: str = "bad_cidr") -> tuple[tuple[int, int, int], str]:
    """(network_key, canonical text) of one network in CIDR form; host bits are masked off."""
    key = plain_network_key(text)
    if key is not None:
        return key, str(text)
    network = parse_network(text, reason)
    return network_key(network), str(network)


def is_plain_endpoint(text: object) -> bool:
    """True for an IPv4 endpoint that is spelled as it would be printed and has an address of no special_kind.

    False decides nothing: then parse_endpoint and special_kind do.
    """
    found = _PLAIN_ENDPOINT.match(text) if isinstance(text, str) else None
    if found is None:
        return False
    first, second, third, fourth, port = map(int, found.groups())
    return _ordinary(first, second) and max(second, third, fourth) <= 255 and port <= 65535


def plain_address(text: object) -> int | None:
    """The number of an IPv4 address that is spelled as it would be printed and that is no special_kind.

    None decides nothing: then parse_address and special_kind do, which cost ten times as much.
    """
    found = _PLAIN_ADDRESS.match(text) if isinstance(text, str) else None
    if found is None:
        return None
    first, second, third, fourth = map(int, found.groups())
    if not _ordinary(first, second) or max(second, third, fourth) > 255:
        return None
    return first << 24 | second << 16 | third << 8 | fourth


def _ordinary(first: int, second: int) -> bool:
    """True for the first two parts of an IPv4 address that a machine can have."""
    return 1 <= first <= 223 and first != 127 and (first, second) != (169, 254)


class Endpoint(t.NamedTuple):
    """Where a peer is reached: ``host`` is an address or a DNS name, ``port`` 1 to 65535."""

    host: str
    port: int

    @property
    def address(self) -> Address | None:
        """The host as an address, or None when it is a DNS name."""
        try:
            return parse_address(self.host)
        except ValueRefused:
            return None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: object, reason: str = "bad_endpoint") -> Endpoint:
    """host:port, [v6]:port or name:port. An IPv6 address without brackets is refused: nobody could split it."""
    if not isinstance(text, str) or len(text) > 270:
        raise ValueRefused(reason, f"{quoted(text)} is not host:port")
    host, colon, port_text = text.rpartition(":")
    if not colon:
        raise ValueRefused(reason, f"{quoted(text)} has no port")
    port = parse_port(port_text, reason)
    if host.startswith("[") and host.endswith("]"):
        address = parse_address(host[1:-1], reason)
        if address.version != 6:
            raise ValueRefused(reason, f"{quoted(text)} has an IPv4 address in brackets")
        return Endpoint(str(address), port)
    if ":" in host:
        raise ValueRefused(reason, f"{quoted(text)} has an IPv6 address without brackets")
    try:
        return Endpoint(str(parse_address(host, reason)), port)
    except ValueRefused:
        return Endpoint(_host_name(host, reason), port)


def _host_name(host: str, reason: str) -> str:
    labels = host[:-1].split(".") if host.endswith(".") else host.split(".")
    if len(host) > 253 or not all(_HOST_LABEL.match(label) for label in labels) or _NUMERIC_LABEL.match(labels[-1]):
        raise ValueRefused(reason, f"{quoted(host)} is neither an address nor a DNS name")
    return host


def special_kind(address: Address) -> str | None:
    """Why an address can never be a node, pod or endpoint of a mesh, or None.

    Looks through IPv4-mapped and NAT64 forms, since those reach the embedded IPv4 address.
    """
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return "v4_embedded"
    if address.is_unspecified:
        return "unspecified"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link_local"
    if address.is_multicast:
        return "multicast"
    if address == _BROADCAST:
        return "broadcast"
    if isinstance(address, ipaddress.IPv4Address) and (address.is_reserved or int(address) >> 24 == 0):
        return "reserved"
    return None


def host_cidr(address: str) -> str:
    """One address as a network, /32 or /128. Raises ValueRefused ``bad_address``."""
    parsed = parse_address(address)
    return f"{parsed}/{parsed.max_prefixlen}"


def contains(outer: Network, inner: Network) -> bool:
    """True when every address of inner is in outer (never across families)."""
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def overlaps(first: Network, second: Network) -> bool:
    """True when two networks share an address (never across families)."""
    return first.version == second.version and first.overlaps(second)


def network_key(network: Network) -> tuple[int, int, int]:
    """Sorting key: IPv4 before IPv6, then by address, wider first."""
    return (network.version, int(network.network_address), network.prefixlen)
