# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rule of each family and the private routing table as data, and how to get there without a gap (kubespan 12, 13, 17)."""

from __future__ import annotations

import typing as t

from ..._dataplane.constants import KERNEL_PRIORITIES
from ..._values.generations import is_bypass
from .generations import (
    DEFAULT_MTU,
    FALLBACK_METRIC,
    GENERATIONS,
    PROTOCOL_STATIC,
    ROUTE_METRIC,
    Generation,
    Layout,
)

Data = dict[str, t.Any]
DEFAULTS = {4: "0.0.0.0/0", 6: "::/0"}
#: What makes up a rule besides its owner's marks. Anything else in a dump (source, interface, inversion) is a difference.
_SELECTORS = ("fwmark", "fwmask", "table")
_FURTHER = [
    "src",
    "dst",
    "iif",
    "oif",
    "tos",
    "invert",
    "suppress_prefixlength",
    "suppress_ifgroup",
    "ipproto",
    "sport",
    "dport",
    "uidrange",
    "goto",
    "l3mdev",
    "other",
]


def desired_rule(version: int, layout: Layout = Layout(), gen: Generation = GENERATIONS["current"]) -> Data:
    """The one rule of a family: ``{version, priority, fwmark, fwmask, table, protocol}``; protocol None: not set."""
    return {
        "version": version,
        "priority": layout.rule_priority,
        "fwmark": layout.mark_to_wireguard,
        "fwmask": layout.mark_mask,
        "table": layout.route_table,
        "protocol": gen.rule_protocol,
    }


def selects(rule: t.Mapping[str, t.Any], mark: int) -> bool:
    """Whether a packet with this firewall mark is looked up in the rule's table."""
    return bool(mark & rule["fwmask"] == rule["fwmark"])


def free_priority(occupied: t.Container[int], start: int = 32500) -> int:
    """The first priority from start downwards that no rule of the family has (the old generation)."""
    priority = start
    while priority in occupied and priority > 1:
        priority -= 1
    return priority


def plan_rule(
    existing: t.Iterable[t.Mapping[str, t.Any]],
    version: int,
    layout: Layout = Layout(),
    gen: Generation = GENERATIONS["current"],
) -> list[Data]:
    """What to do to the rules of one family: ``{op: "delete" or "add", rule}``, [] when all is well.

    existing: the family's rules, as desired_rule has them. An owned rule has our priority and protocol; in the old generation,
    which knows neither, our table and mark. Of two that are owned and right one goes.
    """
    desired = desired_rule(version, layout, gen)
    existing = list(existing)
    steps: list[Data] = []
    found = False
    for rule in existing:
        if not is_owned(rule, desired, gen):
            continue
        right = not found and _is_right(rule, desired)
        found = found or right
        if not right:
            steps.append({"op": "delete", "rule": dict(rule)})
    if not found:
        if not gen.fixed_priority:
            desired["priority"] = free_priority({rule["priority"] for rule in existing}, layout.rule_priority)
        steps.append({"op": "add", "rule": desired})
    return steps


def is_owned(
    rule: t.Mapping[str, t.Any], desired: t.Mapping[str, t.Any], gen: Generation = GENERATIONS["current"]
) -> bool:
    """Whether a rule of the same family is owned and may be changed."""
    if rule["priority"] in KERNEL_PRIORITIES:
        return False
    if gen.fixed_priority:
        return bool(rule["priority"] == desired["priority"] and rule.get("protocol") == desired["protocol"])
    return all(rule.get(name) == desired[name] for name in _SELECTORS)


def owned_to_remove(
    rule: t.Mapping[str, t.Any], desired: t.Mapping[str, t.Any], gen: Generation = GENERATIONS["current"]
) -> bool:
    """Whether a teardown removes a rule: it must be owned and match our mark in our table (kubespan 17.5)."""
    return is_owned(rule, desired, gen) and all(rule.get(name) == desired[name] for name in _SELECTORS)


def _is_right(rule: t.Mapping[str, t.Any], desired: t.Mapping[str, t.Any]) -> bool:
    if rule.get("action", "to_table") not in ("to_table", "lookup"):
        return False
    return all(rule.get(name) == desired[name] for name in _SELECTORS) and not any(
        _is_set(rule.get(name)) for name in _FURTHER
    )


def _is_set(value: t.Any) -> bool:
    """Whether a selector is set: zero is (suppress_prefixlength 0 selects), the kernel's number for "unset" is not."""
    return value is not None and value is not False and value not in ("", [], 0xFFFFFFFF)


def without_gap(steps: t.Sequence[Data]) -> list[Data]:
    """The same steps, with a temporary rule one priority later while a rule is replaced: between delete and add the table would
    not be asked, and marked packets would leave in clear text."""
    added = [step["rule"] for step in steps if step["op"] == "add"]
    if len(steps) < 2 or not added:
        return list(steps)
    temporary = dict(added[0], priority=added[0]["priority"] + 1)
    return [{"op": "add", "rule": temporary}, *steps, {"op": "delete", "rule": temporary}]


def rule_text(rule: t.Mapping[str, t.Any]) -> str:
    """A rule as ip prints it."""
    protocol = " proto static" if rule.get("protocol") == PROTOCOL_STATIC else ""
    text = "{priority}:\tfrom all fwmark 0x{fwmark:x}/0x{fwmask:x} lookup {table}".format(**rule)
    return text + protocol


def desired_routes(layout: Layout = Layout(), mtu: int = DEFAULT_MTU, fail_closed: bool = True) -> list[Data]:
    """The default routes of the private table (kubespan 13), with the unreachable ones that keep it closed (17.3).

    ``{version, dst, table, type, dev, metric, mtu, protocol, scope}``. Scope is global for IPv4 too.
    """
    routes = []
    for version in (4, 6):
        common: dict[str, t.Any] = {
            "version": version,
            "dst": DEFAULTS[version],
            "table": layout.route_table,
            "protocol": PROTOCOL_STATIC,
            "scope": "global",
        }
        routes.append(dict(common, type="unicast", dev=layout.device, metric=ROUTE_METRIC, mtu=mtu))
        if fail_closed:
            routes.append(dict(common, type="unreachable", dev=None, metric=FALLBACK_METRIC, mtu=None))
    return routes


def is_our_route(route: t.Mapping[str, t.Any], layout: Layout = Layout()) -> bool:
    """Whether a route of the private table is owned. Others' routes there stay: operators keep exceptions in it."""
    if route["table"] != layout.route_table or route["protocol"] != PROTOCOL_STATIC:
        return False
    if route["type"] == "unreachable":
        return bool(route["dst"] == DEFAULTS[route["version"]] and route["metric"] == FALLBACK_METRIC)
    return bool(route["dev"] == layout.device or is_bypass(route["dev"] or ""))


def bypass_routes(device: str, cidrs: t.Iterable[str], layout: Layout = Layout(), mtu: int = DEFAULT_MTU) -> list[Data]:
    """Routes of the private table into a bypass device, for the nodes to which it sends: longer than the default routes, so they win."""
    return [
        {
            "version": 6 if ":" in cidr else 4,
            "dst": cidr,
            "table": layout.route_table,
            "protocol": PROTOCOL_STATIC,
            "scope": "global",
            "type": "unicast",
            "dev": device,
            "metric": ROUTE_METRIC,
            "mtu": mtu,
        }
        for cidr in cidrs
    ]


def plan_routes(
    existing: t.Iterable[t.Mapping[str, t.Any]],
    layout: Layout = Layout(),
    mtu: int = DEFAULT_MTU,
    fail_closed: bool = True,
    bypass: t.Iterable[Data] = (),
) -> list[Data]:
    """``{op: "replace" or "delete", route}``: replacing never leaves a gap; what is added comes before what goes. bypass: of bypass_routes."""
    desired = {_identity(route): route for route in [*desired_routes(layout, mtu, fail_closed), *bypass]}
    owned = {_identity(route): route for route in existing if is_our_route(route, layout)}
    steps: list[Data] = [
        {"op": "replace", "route": route} for key, route in desired.items() if not _same_route(owned.get(key), route)
    ]
    # the fallback first: it closes the table before anything else in it moves
    steps.sort(key=lambda step: bool(step["route"]["type"] != "unreachable"))
    return steps + [{"op": "delete", "route": dict(route)} for key, route in owned.items() if key not in desired]


def _identity(route: t.Mapping[str, t.Any]) -> tuple[t.Any, ...]:
    return route["version"], route["dst"], route["metric"], route["type"]


def _same_route(route: t.Mapping[str, t.Any] | None, desired: t.Mapping[str, t.Any]) -> bool:
    if route is None:
        return False
    # the kernel gives an unreachable IPv6 route the device lo
    names = ("mtu", "scope") if desired["type"] == "unreachable" else ("dev", "mtu", "scope")
    return all(route.get(name) == desired[name] for name in names) and not route.get("via")
