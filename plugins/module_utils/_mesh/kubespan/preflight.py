# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else uses our marks, priorities, tables, port and names on a host (kubespan 19, 23), found before the first write."""

from __future__ import annotations

import typing as t

from ..._values.refused import quoted
from .generations import GENERATIONS, Generation, Layout
from .routing import is_our_route, is_ours, selects, wanted_rule

Facts = t.Mapping[str, t.Any]


class Conflict(t.NamedTuple):
    """``level`` error or warning; ``word`` a reason word; ``message`` names the thing."""

    level: str
    reason: str
    message: str


def conflicts(facts: Facts, layout: Layout = Layout(), gen: Generation = GENERATIONS["current"]) -> t.List[Conflict]:
    """What stands in the way, errors first. Every fact may be missing, which is no finding.

    facts: ``rules`` {4: [...], 6: [...]} as wanted_rule has them; ``routes`` of our table; ``links`` [{name, kind}];
    ``wireguard`` [{name, fwmark, listen_port}]; ``udp_ports`` [port] that sockets of others have; ``tables`` [{family,
    name, owned}] of nftables; ``marks`` [{who, mark, mask}] of other software; ``rp_filter`` {name: value}.
    """
    found: t.List[Conflict] = []
    _rules(facts, layout, gen, found)
    _table_and_names(facts, layout, found)
    _ports_and_marks(facts, layout, found)
    strict = _strict_filter(facts.get("rp_filter") or {}, layout.device)
    if strict:
        message = "rp_filter is strict on {0} ({1}); decrypted packets would be dropped: use 0 or 2".format(layout.device, strict)
        found.append(Conflict("error", "rp_filter_strict", message))
    return sorted(found)


def _rules(facts: Facts, layout: Layout, gen: Generation, found: t.List[Conflict]) -> None:
    for version, rules in sorted((facts.get("rules") or {}).items()):
        wanted = wanted_rule(version, layout, gen)
        for rule in rules:
            if is_ours(rule, wanted, gen) or rule["priority"] == 0:
                continue
            where = "IPv{0} rule {1} to table {2}".format(version, rule["priority"], rule.get("table"))
            if rule["priority"] in (layout.rule_priority, layout.rule_priority + 1) and gen.fixed_priority:
                found.append(Conflict("error", "priority_taken", "{0} has a priority that is ours".format(where)))
            elif rule.get("table") == layout.route_table:
                found.append(Conflict("warning", "table_shared", "{0} sends others' packets into our table".format(where)))
            elif rule["priority"] < layout.rule_priority and not any(rule.get(name) for name in ("fwmark", "src", "dst", "iif", "oif")):
                found.append(Conflict("warning", "rule_before", "{0} takes every packet before ours can".format(where)))


def _table_and_names(facts: Facts, layout: Layout, found: t.List[Conflict]) -> None:
    for route in facts.get("routes") or ():
        if route["table"] == layout.route_table and not is_our_route(route, layout):
            where = "table {0} has a route to {1} that is not ours".format(layout.route_table, quoted(str(route["dst"])))
            if route["dst"] in ("0.0.0.0/0", "::/0"):
                found.append(Conflict("error", "table_taken", where))
            else:
                found.append(Conflict("warning", "table_shared", where + "; it stays"))
    for link in facts.get("links") or ():
        if link["name"] == layout.device and link.get("kind") != "wireguard":
            message = "device {0} is a {1}, no WireGuard device".format(layout.device, link.get("kind") or "physical link")
            found.append(Conflict("error", "not_ours", message))
    for table in facts.get("tables") or ():
        if table["family"] == "inet" and table["name"] == layout.table_name and not table.get("owned"):
            found.append(Conflict("error", "adoptable", "nftables table inet {0} is somebody else's".format(layout.table_name)))


def _ports_and_marks(facts: Facts, layout: Layout, found: t.List[Conflict]) -> None:
    others = [device for device in facts.get("wireguard") or () if device["name"] != layout.device]
    for device in others:
        if device.get("listen_port") == layout.port:
            found.append(Conflict("error", "port_taken", "UDP port {0} is that of device {1}".format(layout.port, device["name"])))
        mark = device.get("fwmark") or 0
        if mark & layout.mark_mask and mark & layout.mark_mask != layout.mark_from_wireguard:
            # our rule would take its outer packets, or our chain would mark them
            message = "device {0} marks its packets with 0x{1:x}, which has our bits".format(device["name"], mark)
            found.append(Conflict("error", "mark_taken", message))
    if layout.port in (facts.get("udp_ports") or ()) and not any(d.get("listen_port") == layout.port for d in others):
        found.append(Conflict("error", "port_taken", "UDP port {0} is in use".format(layout.port)))
    rule = wanted_rule(4, layout)
    for user in facts.get("marks") or ():
        if user["mask"] & layout.mark_mask == 0:
            continue
        steers = selects(rule, user["mark"]) or user["mark"] & layout.mark_mask == layout.mark_from_wireguard
        message = "{0} uses mark bits 0x{1:x}, of which ours are 0x{2:x}".format(user["who"], user["mask"], layout.mark_mask)
        found.append(Conflict("error" if steers else "warning", "mark_taken", message))


def _strict_filter(values: t.Mapping[str, int], device: str) -> str:
    """The effective value is the larger one of ``all`` and the device's."""
    names = [name for name in ("all", device) if values.get(name) is not None]
    return " and ".join(names) if names and max(values[name] for name in names) == 1 else ""
