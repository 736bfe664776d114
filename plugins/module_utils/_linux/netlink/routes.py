# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes of one table: read by one dump a family, written in batches, creations before deletions."""

from __future__ import annotations

import errno
import os
import socket
import typing as t

from ..errors import LinuxError
from .messages import NetlinkRefused
from .names import link_index
from .route_codec import RouteSocket, decode_route, encode_route, send_routes

Route = t.Dict[str, t.Any]


def read_routes(table: int) -> t.List[Route]:
    """All routes of a table, both families.

    ``{version, table, dst, type, dev, via, src, metric, scope, protocol, mtu, mtu_locked}``. Routes with a type of service
    are left out: they are other routes than those without. dev is None for routes that have none, and for those with
    several next hops. mtu: the route's own; None where it has none. Raises LinuxError.
    """
    names = dict(socket.if_nameindex())
    netlink = RouteSocket()
    try:
        found = [decode_route(body, names) for version in (4, 6) for body in netlink.table(version, table)]
    except NetlinkRefused as error:
        raise LinuxError("read", "routes of table {0}".format(table), str(error)) from None
    finally:
        netlink.close()
    return [route for route in found if route is not None and route["table"] == table]


def read_all_routes() -> t.List[Route]:
    """All routes of all tables, both families, as read_routes gives them. Raises LinuxError."""
    names = dict(socket.if_nameindex())
    netlink = RouteSocket()
    try:
        found = [decode_route(body, names) for version in (4, 6) for body in netlink.table(version, 0)]
    except NetlinkRefused as error:
        raise LinuxError("read", "all routes", str(error)) from None
    finally:
        netlink.close()
    return [route for route in found if route is not None]


def write_routes(
    table: int, protocol: int, replacements: t.Sequence[Route], deletions: t.Sequence[Route]
) -> int:
    """Create or replace, in this order, then delete. Returns the number of messages.

    A route is ``{dst, type, dev, via, src, metric, scope, mtu, mtu_locked}``; via, src and the MTU may be missing. One
    that the kernel refuses does not stop the others; the LinuxError at the end names the first and the count.
    """
    failed = _write(True, table, protocol, replacements) + _write(False, table, protocol, deletions)
    if failed:
        first = failed[0]
        more = "" if len(failed) == 1 else " (and {0} more)".format(len(failed) - 1)
        raise LinuxError(first.operation, first.object, first.message + more, first.package)
    return len(replacements) + len(deletions)


def _write(replace: bool, table: int, protocol: int, routes: t.Sequence[Route]) -> t.List[LinuxError]:
    operation = "set" if replace else "delete"
    failed: t.List[LinuxError] = []
    indexes: t.Dict[str, int] = {}
    sent: t.List[Route] = []
    bodies: t.List[bytes] = []
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
    for position, code in sorted(send_routes(replace, bodies).items() if bodies else ()):
        if not replace and code in (errno.ESRCH, errno.ENOENT):
            continue  # gone with its device, or by another hand
        failed.append(LinuxError(operation, "route " + sent[position]["dst"], _reason(code)))
    return failed


def _reason(code: int) -> str:
    if code == errno.ENETDOWN:
        return "the device is down"
    return os.strerror(code)
