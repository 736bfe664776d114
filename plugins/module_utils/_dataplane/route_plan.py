# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Owned sets of routes: those with our protocol number, in one table, over named devices (decision 32)."""

from __future__ import annotations

import typing as t

from .._plan.plan import Plan
from .._values.addresses import network_text_and_key, parse_address
from .._values.refused import ValueRefused, quoted
from .._values.text import check_interface_name, parse_decimal
from .constants import LOCAL_TABLE, MAIN_TABLE, ROUTE_PROTOCOL, TABLE_NAMES, TABLES

Data = dict[str, t.Any]

TYPES = ("unicast", "blackhole", "unreachable", "prohibit", "throw")
SCOPES = ("global", "site", "link", "host")
#: The kernel gives an IPv6 route without a metric this one, an IPv4 route 0.
DEFAULT_METRIC = {4: 0, 6: 1024}


class RoutePlan(Plan):
    """A plan and its work: ``replacements`` (routes to create or replace, in order), then ``deletions``.

    routes: the set as it will be.
    """

    def __init__(self) -> None:
        super().__init__()
        self.replacements: list[Data] = []
        self.deletions: list[Data] = []
        self.routes: list[Data] = []


class RouteSpec(t.NamedTuple):
    """An owned set of routes. ``devices`` None: every route of the table with our protocol number is owned; only for a table of one's own.

    ``routes`` are as a caller gave them: one that is not understood is refused alone.
    """

    present: bool
    table: int
    protocol: int
    devices: tuple[str, ...] | None
    routes: tuple[t.Mapping[str, t.Any], ...]
    adopt: bool
    purge: bool


def parse_routes(raw: t.Mapping[str, t.Any]) -> RouteSpec:
    """From what a caller gave: the fields of RouteSpec, and ``state`` (present or absent). Raises ValueRefused."""
    table = raw.get("table")
    number = MAIN_TABLE if table is None else TABLES.get(table) or parse_decimal(table, "bad_table")
    if not 1 <= number <= 0xFFFFFFFF or number == LOCAL_TABLE:
        raise ValueRefused("bad_table", f"{quoted(table)} is not a routing table that can be managed")
    protocol = parse_decimal(ROUTE_PROTOCOL if raw.get("protocol") is None else raw["protocol"], "bad_protocol")
    if not 5 <= protocol <= 255:
        raise ValueRefused("bad_protocol", f"{protocol} is not between 5 and 255; lower numbers are reserved")
    devices = raw.get("devices")
    if devices is None and number in TABLES.values():
        raise ValueRefused(
            "devices_missing", "in a table that is shared, devices must name the links of the owned routes"
        )
    return RouteSpec(
        raw.get("state") != "absent",
        number,
        protocol,
        None if devices is None else tuple(sorted({check_interface_name(name) for name in devices})),
        tuple(raw.get("routes") or ()),
        bool(raw.get("adopt")),
        raw.get("purge") is not False,
    )


def route_id(route: t.Mapping[str, t.Any], table: int) -> str:
    """``10.4.0.0/16 dev wireguard.gcp table main``."""
    parts = [] if route["type"] == "unicast" else [route["type"]]
    parts.append(route["dst"])
    if route["dev"]:
        parts += ["dev", route["dev"]]
    parts += ["table", TABLE_NAMES.get(table) or str(table)]
    if route["metric"] != DEFAULT_METRIC[_version(route)]:
        parts += ["metric", str(route["metric"])]
    return " ".join(parts)


def parse_route(raw: t.Mapping[str, t.Any], devices: t.Sequence[str] | None) -> Data:
    """One expected route: ``{dst, type, dev, via, src, metric, scope, mtu, mtu_locked}``, as a dump would show it."""
    (version, _value, _length), dst = network_text_and_key(raw.get("dst"), "bad_route")
    kind = raw.get("type") or "unicast"
    if kind not in TYPES:
        raise ValueRefused("bad_route", f"{quoted(kind)} is not a type of route")
    dev = raw.get("dev")
    if kind == "unicast":
        if devices is None or dev not in devices:
            check_interface_name(dev)
        if devices is not None and dev not in devices:
            raise ValueRefused("bad_route", f"{quoted(dev)} is not among the devices of this set")
    elif dev or raw.get("via") or devices is not None:
        raise ValueRefused("bad_route", f"a route of type {kind} takes no device and needs a table of its own")
    via, src = (str(parse_address(raw[name], "bad_route")) if raw.get(name) else None for name in ("via", "src"))
    for text in (via, src):
        if text and parse_address(text).version != version:
            raise ValueRefused("bad_route", f"{text} is of another family than {dst}")
    metric = DEFAULT_METRIC[version] if not raw.get("metric") else parse_decimal(raw["metric"], "bad_route")
    if metric > 0xFFFFFFFF:
        raise ValueRefused("bad_route", f"metric {metric} has more than 32 bits")
    scope = raw.get("scope") or ("link" if kind == "unicast" and not via else "global")
    if scope not in SCOPES:
        raise ValueRefused("bad_route", f"{quoted(scope)} is not a scope")
    if version == 6:
        scope = "global"  # the kernel knows no other for IPv6
    route = {"dst": dst, "type": kind, "dev": dev, "via": via, "src": src, "metric": metric, "scope": scope}
    return dict(route, **_mtu(raw, kind, version))


def _mtu(raw: t.Mapping[str, t.Any], kind: str, version: int) -> Data:
    if raw.get("mtu") is None:
        if raw.get("mtu_locked"):
            raise ValueRefused("bad_route", "there is no MTU to lock")
        return {"mtu": None, "mtu_locked": False}
    mtu = parse_decimal(raw["mtu"], "bad_route")
    if kind != "unicast" or not (1280 if version == 6 else 68) <= mtu <= 65535:
        raise ValueRefused("bad_route", f"{mtu} is no MTU for this route")
    return {"mtu": mtu, "mtu_locked": bool(raw.get("mtu_locked"))}


def plan_routes(desired: RouteSpec, actual: t.Mapping[str, t.Any], need_devices: bool) -> RoutePlan:
    """Compare. actual: ``{"routes": all of the table, "links": [name]}``.

    need_devices: refuse a route over a device that does not exist (``device_missing``), instead of trusting that an
    earlier part of the same plan makes it.
    """
    plan = RoutePlan()
    table = desired.table
    expected = _expected(plan, desired, actual["links"] if need_devices else None)
    live: dict[tuple[str, int], list[Data]] = {}
    for route in actual["routes"]:
        live.setdefault((route["dst"], route["metric"]), []).append(route)
    kept: list[Data] = []
    for route in sorted(expected, key=_order):
        ident = route_id(route, table)
        there = live.get((route["dst"], route["metric"]), [])
        same = [other for other in there if _view(other) == route]
        unowned = [other for other in there if not _is_owned(other, desired)]
        if unowned and not desired.adopt:
            reason = "adoptable" if same and len(there) == 1 else "not_ours"
            message = "a route to the same destination exists and has another owner ({0}); it is left alone"
            plan.refuse(ident, reason, message.format(_owner(unowned[0])))
            continue
        kept.append(route)
        if len(there) == 1 and same and not unowned:
            plan.unchanged += 1
        elif there:
            before = dict(_view(there[0]), protocol=there[0]["protocol"])
            plan.update("route", ident, before, dict(route, protocol=desired.protocol))
            plan.replacements.append(route)
        else:
            plan.create("route", ident, dict(route, protocol=desired.protocol))
            plan.replacements.append(route)
    keys = {(route["dst"], route["metric"]) for route in expected}
    others = [
        route for route in actual["routes"] if (route["dst"], route["metric"]) not in keys and _is_owned(route, desired)
    ]
    for route in sorted(others, key=_order):
        if desired.purge or not desired.present:
            plan.delete("route", route_id(route, table), dict(_view(route), protocol=route["protocol"]))
            plan.deletions.append(_view(route))
        else:
            kept.append(_view(route))
    plan.routes = sorted(kept, key=_order) if others else kept
    return plan


def _expected(plan: Plan, desired: RouteSpec, links: t.Iterable[str] | None) -> list[Data]:
    expected: dict[tuple[str, int], Data] = {}
    for raw in desired.routes if desired.present else ():
        name = quoted(raw.get("dst"))
        try:
            route = parse_route(raw, desired.devices)
        except ValueRefused as error:
            plan.refuse(name, error.reason, error.message)
            continue
        key = (route["dst"], route["metric"])
        if links is not None and route["dev"] and route["dev"] not in links:
            plan.refuse(route_id(route, desired.table), "device_missing", "there is no device of that name")
        elif key in expected and expected[key] != route:
            message = "another route of this set has the same destination and metric"
            plan.refuse(route_id(route, desired.table), "claimed_twice", message)
        else:
            expected[key] = route
    return list(expected.values())


def _version(route: t.Mapping[str, t.Any]) -> int:
    return 6 if ":" in route["dst"] else 4


def _order(route: t.Mapping[str, t.Any]) -> tuple[bool, tuple[int, int, int], int]:
    # Gateways come after the routes by which they are reached.
    return (route["via"] is not None, network_text_and_key(route["dst"])[0], route["metric"])


def _view(route: t.Mapping[str, t.Any]) -> Data:
    view = {name: route[name] for name in ("dst", "type", "dev", "via", "src", "metric", "scope")}
    return dict(view, mtu=route.get("mtu"), mtu_locked=bool(route.get("mtu_locked")))


def _is_owned(route: t.Mapping[str, t.Any], desired: RouteSpec) -> bool:
    if route["protocol"] != desired.protocol:
        return False
    return desired.devices is None or route["dev"] in desired.devices


def _owner(route: t.Mapping[str, t.Any]) -> str:
    return f"protocol {route['protocol']}, dev {route['dev'] or 'none'}"
