# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes: read by one dump a family, written a hundred a send, creations before deletions; and where the kernel sends a packet.

A route is ``{version, table, dst, type, dev, via, src, metric, scope, protocol, mtu, mtu_locked}``. dev is None for routes
that have none, and for those with several next hops. mtu: the route's own; None where it has none.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import typing as t

from ..errors import LinuxError
from .links import link_index
from .messages import (
    ADDRESS_FAMILIES,
    NLM_F_ACK,
    NLM_F_CREATE,
    NLM_F_REPLACE,
    SCOPE_NAMES,
    SCOPES,
    NetlinkRefused,
    RouteSocket,
    attribute,
    attributes,
    from_kernel,
    unpack_address,
)

Route = dict[str, t.Any]

RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_F_LOOKUP_TABLE = 0x1000
RTA_DST, RTA_SRC, RTA_IIF, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_PREFSRC, RTA_METRICS = 1, 2, 3, 4, 5, 6, 7, 8
RTA_MULTIPATH, RTA_TABLE, RTA_MARK, RTA_VIA = 9, 15, 16, 18
RTAX_LOCK, RTAX_MTU = 1, 2
#: Tables beyond a byte travel in their attribute alone.
RT_TABLE_COMPAT = 252
TYPES = {
    "unicast": 1,
    "local": 2,
    "broadcast": 3,
    "anycast": 4,
    "multicast": 5,
    "blackhole": 6,
    "unreachable": 7,
    "prohibit": 8,
    "throw": 9,
    "nat": 10,
}
_TYPE_NAMES = {number: name for name, number in TYPES.items()}
#: family, lengths of both prefixes, type of service, table, protocol, scope, type, flags
_ROUTE = struct.Struct("=BBBBBBBBI")
_U32 = struct.Struct("=I")


def read_routes(table: int) -> list[Route]:
    """All routes of a table, both families; a table that does not exist has none. Raises LinuxError.

    Routes with a type of service are left out: they are other routes than those without.
    """
    return [route for route in _read(table, f"routes of table {table}") if route["table"] == table]


def read_all_routes() -> list[Route]:
    """The same of all tables. Raises LinuxError."""
    return _read(0, "all routes")


def _read(table: int, what: str) -> list[Route]:
    names = dict(socket.if_nameindex())
    bodies: list[bytes] = []
    with RouteSocket("routes", strict=True) as netlink:
        for family in ADDRESS_FAMILIES.values():
            try:
                bodies += netlink.dump_messages(
                    RTM_GETROUTE, _ROUTE.pack(family, 0, 0, 0, 0, 0, 0, 0, 0) + attribute(RTA_TABLE, _U32.pack(table))
                )
            except NetlinkRefused as error:
                if error.errno not in (errno.ENOENT, errno.ESRCH):
                    raise LinuxError("read", what, str(error)) from None
    return [route for route in (decode_route(body, names) for body in bodies) if route is not None]


def write_routes(table: int, protocol: int, replacements: t.Sequence[Route], deletions: t.Sequence[Route]) -> int:
    """Create or replace, in this order, then delete. Returns the number of messages.

    A route is ``{dst, type, dev, via, src, metric, scope, mtu, mtu_locked}``; via, src and the MTU may be missing. One
    that the kernel refuses does not stop the others; the LinuxError at the end names the first and the count.
    """
    failed = _write(True, table, protocol, replacements) + _write(False, table, protocol, deletions)
    if failed:
        first = failed[0]
        more = "" if len(failed) == 1 else f" (and {len(failed) - 1} more)"
        raise LinuxError(first.operation, first.object, first.message + more, first.package)
    return len(replacements) + len(deletions)


def _write(replace: bool, table: int, protocol: int, routes: t.Sequence[Route]) -> list[LinuxError]:
    operation = "set" if replace else "delete"
    failed: list[LinuxError] = []
    indexes: dict[str, int] = {}
    sent: list[Route] = []
    bodies: list[bytes] = []
    for route in routes:
        dev = route["dev"]
        try:
            if dev and dev not in indexes:
                indexes[dev] = link_index(dev)
            bodies.append(encode_route(route, table, protocol, indexes[dev] if dev else None))
            sent.append(route)
        except LinuxError as error:
            failed.append(LinuxError(operation, "route " + route["dst"], error.message))
        except ValueError as error:
            failed.append(LinuxError(operation, "route " + route["dst"], str(error)))
    for route, code in zip(sent, _send(replace, bodies)):
        if code == errno.EPERM:
            raise LinuxError("write", "routes", str(NetlinkRefused(code)))
        if code and (
            replace or code not in (errno.ESRCH, errno.ENOENT)
        ):  # else it is gone with its device, or by another hand
            failed.append(
                LinuxError(
                    operation,
                    "route " + route["dst"],
                    "the device is down" if code == errno.ENETDOWN else os.strerror(code),
                )
            )
    return failed


def _send(replace: bool, bodies: t.Sequence[bytes]) -> list[int]:
    """Create or replace (else delete) each; the kernel's error number for each, 0 for done."""
    if not bodies:
        return []
    kind, flags = (RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE) if replace else (RTM_DELROUTE, 0)
    with RouteSocket("routes") as netlink:
        return t.cast(list[int], netlink.ask_each(kind, bodies, NLM_F_ACK | flags))


def look_up(questions: t.Sequence[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Where the kernel sends packets, by its own decision, with all rules, tables and marks.

    One answer for each question ``{dst, src, iif, mark}``, of which all but dst may be missing. With ``iif`` it is a packet
    that comes in by that device and is passed on, else one of the host itself. The answer is ``{"error": None, "type", "dev",
    "via", "src", "table"}``, or ``{"error": the kernel's words}`` where it has no way. Raises LinuxError.
    """
    if not questions:
        return []
    names = dict(socket.if_nameindex())
    indexes = {name: index for index, name in names.items()}
    with RouteSocket("ways of packets") as netlink:
        found = netlink.ask_each(RTM_GETROUTE, [_question(question, indexes) for question in questions])
    return [_answer(one, names) for one in found]


def _question(question: t.Mapping[str, t.Any], indexes: t.Mapping[str, int]) -> bytes:
    family, whole = (socket.AF_INET6, 128) if ":" in question["dst"] else (socket.AF_INET, 32)
    parts = [attribute(RTA_DST, socket.inet_pton(family, question["dst"]))]
    if question.get("src"):
        parts.append(attribute(RTA_SRC, socket.inet_pton(family, question["src"])))
    if question.get("iif"):
        parts.append(attribute(RTA_IIF, _U32.pack(indexes.get(question["iif"], 0))))
    if question.get("mark"):
        parts.append(attribute(RTA_MARK, _U32.pack(question["mark"])))
    flags = RTM_F_LOOKUP_TABLE if whole == 32 else 0
    return _ROUTE.pack(family, whole, whole if question.get("src") else 0, 0, 0, 0, 0, 0, flags) + b"".join(parts)


def _answer(found: int | bytes, names: t.Mapping[int, str]) -> dict[str, t.Any]:
    if isinstance(found, int):
        return {"error": os.strerror(found)}
    route = decode_route(found, names) or {}
    return {"error": None, **{name: route.get(name) for name in ("type", "dev", "via", "src", "table")}}


def encode_route(route: t.Mapping[str, t.Any], table: int, protocol: int, oif: int | None) -> bytes:
    """The body of a route message. route: as read_routes gives it; oif: index of its device. Raises ValueError.

    via, src, mtu and mtu_locked may be missing.
    """
    text, length = route["dst"].split("/")
    family = ADDRESS_FAMILIES[6 if ":" in text else 4]
    parts = [
        _ROUTE.pack(
            family,
            int(length),
            0,
            0,
            table if table < 256 else RT_TABLE_COMPAT,
            protocol,
            SCOPES[route["scope"]],
            TYPES[route["type"]],
            0,
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
        raise ValueError(f"{text} is not an address of the route's family") from None


@from_kernel("a route")
def decode_route(body: bytes, names: t.Mapping[int, str]) -> dict[str, t.Any] | None:
    """A route of an answer as read_routes gives it, or None for one with a type of service. names: of devices by index."""
    family, length, _src, tos, table, protocol, scope, kind, _flags = _ROUTE.unpack_from(body)
    if tos:
        return None
    version = 6 if family == socket.AF_INET6 else 4
    type_name = _TYPE_NAMES.get(kind, str(kind))
    route: dict[str, t.Any] = {
        "version": version,
        "table": table,
        "dst": f"{'0.0.0.0' if version == 4 else '::'}/{length}",
        "type": type_name,
        "dev": None,
        "via": None,
        "src": None,
        "metric": 0,
        "scope": "global" if version == 6 else SCOPE_NAMES.get(scope, str(scope)),
        "protocol": protocol,
        "mtu": None,
        "mtu_locked": False,
    }
    for number, value in attributes(body[_ROUTE.size :]):
        if number == RTA_TABLE:
            route["table"] = _U32.unpack(value)[0]
        elif number == RTA_DST:
            route["dst"] = f"{unpack_address(family, value)}/{length}"
        elif number == RTA_OIF and (type_name == "unicast" or version == 4):
            # IPv6 shows "lo" for an unreachable route
            index = _U32.unpack(value)[0]
            route["dev"] = names.get(index, f"index {index}")
        elif number == RTA_GATEWAY:
            route["via"] = unpack_address(family, value)
        elif number == RTA_VIA:
            other = struct.unpack_from("=H", value)[0]
            route["via"] = unpack_address(other, value[2:]) if other in ADDRESS_FAMILIES.values() else "another family"
        elif number == RTA_MULTIPATH:
            route["via"] = "several"
        elif number == RTA_PREFSRC:
            route["src"] = unpack_address(family, value)
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
