# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the first bytes of a packet say: addresses, ports, flags. Whatever is cut off or makes no sense is None, and never an error."""

from __future__ import annotations

import ipaddress
import struct
import typing as t

TCP, UDP = 6, 17
#: ICMP by the version of IP.
ICMP = {4: 1, 6: 58}
ECHO = {4: 8, 6: 128}
ECHO_REPLY = {4: 0, 6: 129}
PROTOCOL_NAMES = {TCP: "tcp", UDP: "udp", 1: "icmp", 58: "icmp"}
_FLAGS = ((0x02, "syn"), (0x10, "ack"), (0x04, "rst"), (0x01, "fin"), (0x08, "psh"))
_DONT_FRAGMENT, _OFFSET = 0x4000, 0x1FFF
#: (version, type, code) -> name; without a code the whole type.
_ERRORS: t.Mapping[tuple[int, int, int | None], str] = {
    (4, 3, 0): "net_unreachable",
    (4, 3, 1): "host_unreachable",
    (4, 3, 2): "protocol_unreachable",
    (4, 3, 3): "port_unreachable",
    (4, 3, 4): "too_big",
    (4, 3, 9): "prohibited",
    (4, 3, 10): "prohibited",
    (4, 3, 13): "prohibited",
    (4, 3, None): "unreachable",
    (4, 5, None): "redirect",
    (4, 11, None): "time_exceeded",
    (4, 12, None): "bad_header",
    (6, 1, 0): "net_unreachable",
    (6, 1, 1): "prohibited",
    (6, 1, 3): "host_unreachable",
    (6, 1, 4): "port_unreachable",
    (6, 1, 5): "prohibited",
    (6, 1, 6): "prohibited",
    (6, 1, None): "unreachable",
    (6, 2, None): "too_big",
    (6, 3, None): "time_exceeded",
    (6, 4, None): "bad_header",
}


class Headers(t.NamedTuple):
    """``protocol`` is the number; ``number`` the identifier of an ICMP echo; ``error`` the name of an ICMP error, with ``mtu`` where it has one."""

    version: int
    src: str
    dst: str
    protocol: int
    length: int
    ttl: int
    unfragmentable: bool
    sport: int | None = None
    dport: int | None = None
    number: int | None = None
    flags: tuple[str, ...] = ()
    icmp: tuple[int, int] | None = None
    error: str | None = None
    mtu: int | None = None


def read_headers(network: bytes, transport: bytes) -> Headers | None:
    """network: from the IP header on; transport: from the header behind it on, as far as there is one. None for what is no IP."""
    version = network[0] >> 4 if network else 0
    if version == 4 and len(network) >= 20:
        _tos, length, _id, fragment, ttl, protocol = struct.unpack_from(">BHHHBB", network, 1)
        src, dst = (str(ipaddress.IPv4Address(network[start : start + 4])) for start in (12, 16))
        later, unfragmentable = bool(fragment & _OFFSET), bool(fragment & _DONT_FRAGMENT)
    elif version == 6 and len(network) >= 40:
        length, protocol, ttl = struct.unpack_from(">HBB", network, 4)
        src, dst = (str(ipaddress.IPv6Address(network[start : start + 16])) for start in (8, 24))
        length, later, unfragmentable = length + 40, False, True
    else:
        return None
    found = Headers(version, src, dst, protocol, length, ttl, unfragmentable)
    if later:  # what follows is the middle of something
        return found
    return _transport(found, transport)


def _transport(found: Headers, data: bytes) -> Headers:
    if found.protocol in (TCP, UDP) and len(data) >= 4:
        sport, dport = struct.unpack_from(">HH", data)
        flags = tuple(name for bit, name in _FLAGS if found.protocol == TCP and len(data) > 13 and data[13] & bit)
        return found._replace(sport=sport, dport=dport, flags=flags)
    if found.protocol == ICMP[found.version] and len(data) >= 8:
        kind, code, _sum, number, low = struct.unpack_from(">BBHHH", data)
        found = found._replace(icmp=(kind, code))
        if kind in (ECHO[found.version], ECHO_REPLY[found.version]):
            return found._replace(number=number)
        name = error_name(found.version, kind, code)
        mtu = (low if found.version == 4 else number << 16 | low) if name == "too_big" else None
        return found._replace(error=name, mtu=mtu)
    return found


def error_name(version: int, kind: int, code: int) -> str | None:
    """The name of an ICMP error; None for a message that is no error."""
    return _ERRORS.get((version, kind, code)) or _ERRORS.get((version, kind, None))
