# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Routes of one table: read by one dump a family, written in batches, creations before deletions."""

from __future__ import annotations

import errno
import os
import typing as t

from .errors import LinuxError
from .ip_command import ip_json
from .links import link_index
from .route_codec import SCOPES, TYPES, encode_route, send_routes

Route = t.Dict[str, t.Any]

_TYPES = {str(number): name for name, number in TYPES.items()}
_SCOPES = {str(number): name for name, number in SCOPES.items()}
_PROTOCOLS = {"redirect": 1, "kernel": 2, "boot": 3, "static": 4, "ra": 9}
_NO_TABLE = ("FIB table does not exist",)


def read_routes(table: int) -> t.List[Route]:
    """All routes of a table, both families: ``{version, table, dst, type, dev, via, src, metric, scope, protocol, mtu}``.

    Routes with a type of service are left out: they are other routes than those without. dev is None for routes that
    have none, and for those with several next hops. mtu: the route's own; None where it has none.
    """
    routes = []
    for option, version in (("-4", 4), ("-6", 6)):
        for entry in ip_json([option, "route", "show", "table", str(table)], nothing=_NO_TABLE):
            if "tos" not in entry:
                routes.append(dict(_route(entry, version), version=version, table=table))
    return routes


def _route(entry: t.Mapping[str, t.Any], version: int) -> Route:
    kind = _word(entry.get("type", "1"), _TYPES)
    dev = entry.get("dev") if kind == "unicast" or version == 4 else None  # IPv6 shows "lo" for an unreachable route
    gateway = entry.get("gateway") or (entry.get("via") or {}).get("host")
    protocol = str(entry.get("protocol", "3"))
    return {
        "dst": _network(str(entry["dst"]), version),
        "type": kind,
        "dev": dev,
        "via": gateway if "nexthops" not in entry else "several",
        "src": entry.get("prefsrc"),
        "metric": entry.get("metric", 0),
        "scope": "global" if version == 6 else _word(entry.get("scope", "0"), _SCOPES),
        "protocol": int(protocol) if protocol.isdigit() else _PROTOCOLS.get(protocol, 0),
        "mtu": next((metrics["mtu"] for metrics in entry.get("metrics", ()) if "mtu" in metrics), None),
    }


def _word(value: t.Any, words: t.Mapping[str, str]) -> str:
    return words.get(str(value), str(value))


def _network(text: str, version: int) -> str:
    if text == "default":
        return "0.0.0.0/0" if version == 4 else "::/0"
    return text if "/" in text else text + ("/32" if version == 4 else "/128")


def write_routes(
    table: int, protocol: int, replacements: t.Sequence[Route], deletions: t.Sequence[Route]
) -> int:
    """Create or replace, in this order, then delete. Returns the number of messages.

    A route is ``{dst, type, dev, via, src, metric, scope, mtu}``; via, src and mtu may be missing. One
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
