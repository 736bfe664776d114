# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else uses our marks, priorities, tables, port and names on a host (kubespan 19, 23), found before the first write."""

from __future__ import annotations

import typing as t

from ..._values.refused import quoted
from .generations import GENERATIONS, Generation, Layout
from .routing import desired_rule, is_our_route, is_owned, selects

Facts = t.Mapping[str, t.Any]


class Conflict(t.NamedTuple):
    """``level`` error or warning; ``reason`` of the specification; ``message`` names the thing."""

    level: str
    reason: str
    message: str


def conflicts(facts: Facts, layout: Layout = Layout(), gen: Generation = GENERATIONS["current"]) -> list[Conflict]:
    """Conflicts, errors first. Every fact may be missing, which is no finding.

    facts: ``rules`` {4: [...], 6: [...]} as desired_rule has them; ``routes`` of our table; ``links`` [{name, kind}];
    ``wireguard`` [{name, fwmark, listen_port}]; ``udp_ports`` [port] that sockets of others have; ``tables`` [{family,
    name, owned}] of nftables; ``marks`` [{who, mark, mask}] of other software; ``rp_filter`` {name: value}.
    """
    found: list[Conflict] = []
    _rules(facts, layout, gen, found)
    _table_and_names(facts, layout, found)
    _ports_and_marks(facts, layout, found)
    strict = _strict_filter(facts.get("rp_filter") or {}, layout.device)
    if strict:
        message = f"rp_filter is strict on {layout.device} ({strict}); decrypted packets would be dropped: use 0 or 2"
        found.append(Conflict("error", "rp_filter_strict", message))
    return sorted(found)


def _rules(facts: Facts, layout: Layout, gen: Generation, found: list[Conflict]) -> None:
    for version, rules in sorted((facts.get("rules") or {}).items()):
        desired = desired_rule(version, layout, gen)
        for rule in rules:
            if is_owned(rule, desired, gen) or rule["priority"] == 0:
                continue
            where = f"IPv{version} rule {rule['priority']} to table {rule.get('table')}"
            if rule["priority"] in (layout.rule_priority, layout.rule_priority + 1) and gen.fixed_priority:
                found.append(Conflict("error", "priority_taken", f"{where} has a priority that the mesh owns"))
            elif rule.get("table") == layout.route_table:
                found.append(Conflict("warning", "table_shared", f"{where} sends others' packets into our table"))
            elif rule["priority"] < layout.rule_priority and not any(
                rule.get(name) for name in ("fwmark", "src", "dst", "iif", "oif")
            ):
                found.append(
                    Conflict("warning", "rule_before", f"{where} takes every packet before the owned rules can")
                )


def _table_and_names(facts: Facts, layout: Layout, found: list[Conflict]) -> None:
    for route in facts.get("routes") or ():
        if route["table"] == layout.route_table and not is_our_route(route, layout):
            where = f"table {layout.route_table} has a route to {quoted(str(route['dst']))} of another owner"
            if route["dst"] in ("0.0.0.0/0", "::/0"):
                found.append(Conflict("error", "table_taken", where))
            else:
                found.append(Conflict("warning", "table_shared", where + "; it stays"))
    for link in facts.get("links") or ():
        if link["name"] == layout.device and link.get("kind") != "wireguard":
            message = f"device {layout.device} is a {link.get('kind') or 'physical link'}, no WireGuard device"
            found.append(Conflict("error", "not_ours", message))
    for table in facts.get("tables") or ():
        if table["family"] == "inet" and table["name"] == layout.table_name and not table.get("owned"):
            found.append(Conflict("error", "adoptable", f"nftables table inet {layout.table_name} has another owner"))


def _ports_and_marks(facts: Facts, layout: Layout, found: list[Conflict]) -> None:
    others = [device for device in facts.get("wireguard") or () if device["name"] != layout.device]
    for device in others:
        if device.get("listen_port") == layout.port:
            found.append(Conflict("error", "port_taken", f"UDP port {layout.port} is that of device {device['name']}"))
        mark = device.get("fwmark") or 0
        if mark & layout.mark_mask and mark & layout.mark_mask != layout.mark_from_wireguard:
            # our rule would take its outer packets, or our chain would mark them
            message = f"device {device['name']} marks its packets with 0x{mark:x}, which has our bits"
            found.append(Conflict("error", "mark_taken", message))
    if layout.port in (facts.get("udp_ports") or ()) and not any(d.get("listen_port") == layout.port for d in others):
        found.append(Conflict("error", "port_taken", f"UDP port {layout.port} is in use"))
    rule = desired_rule(4, layout)
    for user in facts.get("marks") or ():
        if user["mask"] & layout.mark_mask == 0:
            continue
        steers = selects(rule, user["mark"]) or user["mark"] & layout.mark_mask == layout.mark_from_wireguard
        message = f"{user['who']} uses mark bits 0x{user['mask']:x}, of which the mesh owns 0x{layout.mark_mask:x}"
        found.append(Conflict("error" if steers else "warning", "mark_taken", message))


def _strict_filter(values: t.Mapping[str, int], device: str) -> str:
    """The effective value is the larger one of ``all`` and the device's."""
    names = [name for name in ("all", device) if values.get(name) is not None]
    return " and ".join(names) if names and max(values[name] for name in names) == 1 else ""
