# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Routes of one table: read by one dump a family, written one by one, creations before deletions."""

from __future__ import annotations

import errno
import os
import socket
import typing as t

from .errors import LinuxError
from .ip_command import ip_json
from .links import link_index
from .rtnetlink import rtnetlink

Route = t.Dict[str, t.Any]

_TYPES = {"1": "unicast", "2": "local", "3": "broadcast", "4": "anycast", "5": "multicast", "6": "blackhole"}
_TYPES.update({"7": "unreachable", "8": "prohibit", "9": "throw", "10": "nat"})
_SCOPES = {"0": "global", "200": "site", "253": "link", "254": "host", "255": "nowhere"}
_SCOPE_NUMBERS = {name: int(number) for number, name in _SCOPES.items()}
_PROTOCOLS = {"redirect": 1, "kernel": 2, "boot": 3, "static": 4, "ra": 9}
_NO_TABLE = ("FIB table does not exist",)


def read_routes(table: int) -> t.List[Route]:
    """All routes of a table, both families: ``{dst, type, dev, via, src, metric, scope, protocol}``.

    Routes with a type of service are left out: they are other routes than those without. dev is None for routes that
    have none, and for those with several next hops.
    """
    routes = []
    for option, version in (("-4", 4), ("-6", 6)):
        for entry in ip_json([option, "route", "show", "table", str(table)], nothing=_NO_TABLE):
            if "tos" not in entry:
                routes.append(_route(entry, version))
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
    """Create or replace, then delete. Returns the number of messages.

    A route that the kernel refuses does not stop the others; the LinuxError at the end names the first and the count.
    """
    failed: t.List[LinuxError] = []
    for action, routes in (("replace", replacements), ("del", deletions)):
        for start in range(0, len(routes), 1000):
            failed.extend(_write(action, table, protocol, routes[start : start + 1000]))
    if failed:
        first = failed[0]
        more = "" if len(failed) == 1 else " (and {0} more)".format(len(failed) - 1)
        raise LinuxError(first.operation, first.object, first.message + more, first.package)
    return len(replacements) + len(deletions)


def _write(action: str, table: int, protocol: int, routes: t.Sequence[Route]) -> t.List[LinuxError]:
    failed = []
    indexes: t.Dict[str, int] = {}
    with rtnetlink("write", "routes") as netlink:
        for route in routes:
            arguments = _arguments(route, table, protocol)
            operation = "set" if action == "replace" else "delete"
            try:
                if route["dev"]:
                    if route["dev"] not in indexes:
                        indexes[route["dev"]] = link_index(route["dev"])
                    arguments["oif"] = indexes[route["dev"]]
                netlink.route(action, **arguments)
            except LinuxError as error:
                failed.append(LinuxError(operation, "route " + route["dst"], error.message))
            except Exception as error:  # pylint: disable=broad-except
                code = getattr(error, "code", None)
                if code is None:
                    raise
                if action == "del" and code in (errno.ESRCH, errno.ENOENT):
                    continue  # gone with its device, or by another hand
                failed.append(LinuxError(operation, "route " + route["dst"], _reason(code)))
    return failed


def _arguments(route: Route, table: int, protocol: int) -> t.Dict[str, t.Any]:
    arguments: t.Dict[str, t.Any] = {
        "dst": route["dst"],
        "family": socket.AF_INET6 if ":" in route["dst"] else socket.AF_INET,
        "table": table,
        "proto": protocol,
        "scope": _SCOPE_NUMBERS[route["scope"]],
        "type": route["type"],
    }
    for ours, theirs in (("via", "gateway"), ("src", "prefsrc"), ("metric", "priority")):
        if route[ours] and route[ours] != "several":
            arguments[theirs] = route[ours]
    return arguments


def _reason(code: int) -> str:
    if code == errno.ENETDOWN:
        return "the device is down"
    return os.strerror(code)
