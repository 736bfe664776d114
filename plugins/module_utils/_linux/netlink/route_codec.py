# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Route messages by struct, a hundred per send: a library's encoder makes three thousand a second, the kernel takes 150,000."""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
import typing as t

from ..errors import LinuxError, os_reason
from .messages import NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR, NetlinkRefused, NetlinkSocket, attribute, attributes, from_kernel, messages

RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
NLM_F_REPLACE, NLM_F_CREATE = 0x100, 0x400
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_PREFSRC, RTA_METRICS, RTA_TABLE = 1, 4, 5, 6, 7, 8, 15
RTA_MULTIPATH, RTA_VIA = 9, 18
RTAX_LOCK, RTAX_MTU = 1, 2
#: Tables beyond a byte travel in their attribute alone.
RT_TABLE_COMPAT = 252
TYPES = {
    "unicast": 1, "local": 2, "broadcast": 3, "anycast": 4, "multicast": 5, "blackhole": 6, "unreachable": 7, "prohibit": 8,
    "throw": 9, "nat": 10,
}
SCOPES = {"global": 0, "site": 200, "link": 253, "host": 254, "nowhere": 255}

_HEADER = struct.Struct("=IHHII")
_ROUTE = struct.Struct("=BBBBBBBBI")
_U32 = struct.Struct("=I")
#: Answers to one send must fit the default receive buffer together.
_BATCH = 100
_RECEIVE_BYTES = 1 << 16
_TIMEOUT = 20.0
_NETLINK_ROUTE, _SOL_NETLINK, _NETLINK_CAP_ACK, _NETLINK_GET_STRICT_CHK = 0, 270, 10, 12
_TYPE_NAMES = {number: name for name, number in TYPES.items()}
_SCOPE_NAMES = {number: name for name, number in SCOPES.items()}
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


def encode_route(route: t.Mapping[str, t.Any], table: int, protocol: int, oif: t.Optional[int]) -> bytes:
    """The body of a route message. route: as read_routes gives it; oif: index of its device. Raises ValueError.

    via, src, mtu and mtu_locked may be missing.
    """
    text, length = route["dst"].split("/")
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    parts = [
        _ROUTE.pack(
            family, int(length), 0, 0, table if table < 256 else RT_TABLE_COMPAT, protocol, SCOPES[route["scope"]], TYPES[route["type"]], 0
        ),
        attribute(RTA_TABLE, _U32.pack(table)),
    ]
    if int(length):
        parts.append(attribute(RTA_DST, _address(family, text)))
    if route.get("via") and route["via"] != "several":
        parts.append(attribute(RTA_GATEWAY, _address(family, route["via"])))
    if route.get("src"):
        parts.append(attribute(RTA_PREFSRC, _address(family, route["src"])))
    if route["metric"]:
        parts.append(attribute(RTA_PRIORITY, _U32.pack(route["metric"])))
    if route.get("mtu"):
        locked = attribute(RTAX_LOCK, _U32.pack(1 << RTAX_MTU)) if route.get("mtu_locked") else b""
        parts.append(attribute(RTA_METRICS, locked + attribute(RTAX_MTU, _U32.pack(route["mtu"]))))
    if oif is not None:
        parts.append(attribute(RTA_OIF, _U32.pack(oif)))
    return b"".join(parts)


def _address(family: int, text: str) -> bytes:
    try:
        return socket.inet_pton(family, text)
    except OSError:
        raise ValueError("{0} is not an address of the route's family".format(text)) from None


class RouteSocket(NetlinkSocket):
    """Reads routes; the kernel sends those of the table that is asked for, and no others."""

    def __init__(self) -> None:
        super().__init__(_NETLINK_ROUTE, "routes")
        try:
            self._socket.setsockopt(_SOL_NETLINK, _NETLINK_GET_STRICT_CHK, 1)
        except OSError:
            pass  # a kernel before 4.20 sends all tables

    def table(self, version: int, table: int) -> t.List[bytes]:
        """All routes of one family in a table; a table that does not exist has none. Raises NetlinkRefused."""
        header = _ROUTE.pack(_FAMILIES[version], 0, 0, 0, 0, 0, 0, 0, 0)
        try:
            return self.dump_messages(RTM_GETROUTE, header + attribute(RTA_TABLE, _U32.pack(table)))
        except NetlinkRefused as error:
            if error.errno in (errno.ENOENT, errno.ESRCH):
                return []
            raise


def _text(family: int, value: bytes) -> str:
    """As what is wanted is written: the C library writes mapped addresses otherwise."""
    return socket.inet_ntop(family, value) if family == socket.AF_INET else str(ipaddress.ip_address(value))


@from_kernel("a route")
def decode_route(body: bytes, names: t.Mapping[int, str]) -> t.Optional[t.Dict[str, t.Any]]:
    """A route of a dump as read_routes gives it, or None for one with a type of service. names: of devices by index."""
    family, length, _src, tos, table, protocol, scope, kind, _flags = _ROUTE.unpack_from(body)
    if tos:
        return None
    version = 6 if family == socket.AF_INET6 else 4
    word = _TYPE_NAMES.get(kind, str(kind))
    route: t.Dict[str, t.Any] = {
        "version": version,
        "table": table,
        "dst": "{0}/{1}".format("0.0.0.0" if version == 4 else "::", length),
        "type": word,
        "dev": None,
        "via": None,
        "src": None,
        "metric": 0,
        "scope": "global" if version == 6 else _SCOPE_NAMES.get(scope, str(scope)),
        "protocol": protocol,
        "mtu": None,
        "mtu_locked": False,
    }
    for number, value in attributes(body[_ROUTE.size :]):
        if number == RTA_TABLE:
            route["table"] = _U32.unpack(value)[0]
        elif number == RTA_DST:
            route["dst"] = "{0}/{1}".format(_text(family, value), length)
        elif number == RTA_OIF and (word == "unicast" or version == 4):
            # IPv6 shows "lo" for an unreachable route
            index = _U32.unpack(value)[0]
            route["dev"] = names.get(index, "index {0}".format(index))
        elif number == RTA_GATEWAY:
            route["via"] = _text(family, value)
        elif number == RTA_VIA:
            other = struct.unpack_from("=H", value)[0]
            route["via"] = _text(other, value[2:]) if other in _FAMILIES.values() else "another family"
        elif number == RTA_MULTIPATH:
            route["via"] = "several"
        elif number == RTA_PREFSRC:
            route["src"] = _text(family, value)
        elif number == RTA_PRIORITY:
            route["metric"] = _U32.unpack(value)[0]
        elif number == RTA_METRICS:
            metrics = dict(attributes(value))
            if RTAX_MTU in metrics:
                route["mtu"] = _U32.unpack(metrics[RTAX_MTU])[0]
                locks = _U32.unpack(metrics.get(RTAX_LOCK, bytes(4)))[0]
                route["mtu_locked"] = bool(locks & 1 << RTAX_MTU)
    if route["via"] == "several":
        route["dev"] = None
    return route


def send_routes(replace: bool, bodies: t.Sequence[bytes]) -> t.Dict[int, int]:
    """Create or replace (else delete) each; returns {position in bodies: error number} of those the kernel refused."""
    kind = RTM_NEWROUTE if replace else RTM_DELROUTE
    flags = NLM_F_REQUEST | NLM_F_ACK | (NLM_F_CREATE | NLM_F_REPLACE if replace else 0)
    refused: t.Dict[int, int] = {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_ROUTE) as channel:
            channel.bind((0, 0))
            channel.settimeout(_TIMEOUT)
            channel.setsockopt(_SOL_NETLINK, _NETLINK_CAP_ACK, 1)
            for start in range(0, len(bodies), _BATCH):
                part = bodies[start : start + _BATCH]
                channel.send(b"".join(
                    _HEADER.pack(16 + len(body), kind, flags, start + offset + 1, 0) + body for offset, body in enumerate(part)
                ))
                _collect(channel, start, len(part), refused)
    except OSError as error:
        raise LinuxError("write", "routes", os_reason(error)) from None
    return refused


def _collect(channel: socket.socket, start: int, count: int, refused: t.Dict[int, int]) -> None:
    """Wait for the answers to the messages start + 1 to start + count."""
    missing = count
    while missing:
        data, sender = channel.recvfrom(_RECEIVE_BYTES)
        if sender[0] != 0:
            continue  # only the kernel (port 0) is believed
        for kind, _flags, sequence, body in messages(data):
            if kind != NLMSG_ERROR or not start < sequence <= start + count:
                continue
            missing -= 1
            number = -struct.unpack_from("=i", body)[0]
            if number == errno.EPERM:
                raise OSError(number, "")
            if number:
                refused[sequence - 1] = number
