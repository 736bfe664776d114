# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's kernel does with a packet: rules of policy routing, tables, routes, and how people write them. Pure."""

from __future__ import annotations

import typing as t

from .._dataplane.constants import TABLE_NAMES
from .causes import argument, place_text, printable
from .facts import Node, Route, Rule

LOCAL, LEAVES, BLOCKED, NOWHERE, UNKNOWN = "local", "leaves", "blocked", "nowhere", "unknown"


class Packet(t.NamedTuple):
    """What routing sees of a packet."""

    version: int
    src: int
    dst: int
    protocol: str = "icmp"
    port: int | None = None
    #: Its source as other clusters see it, and its target as the target's own node has it, where addresses are translated (translation 3).
    sent: int | None = None
    own: int | None = None

    @property
    def inside(self) -> Packet:
        """As it is in the tunnel: the first translation is behind it."""
        return self if self.sent is None else self._replace(src=self.sent, sent=None)

    @property
    def arrived(self) -> Packet:
        """As it is on the node of its target: both are behind it."""
        found = self.inside
        return found if self.own is None else found._replace(dst=self.own, own=None)

    def back(self) -> Packet:
        """Its answer, which is for a port that nobody listens on."""
        came = self.arrived
        translated = self.sent is not None or self.own is not None
        sent, own = (self.dst, self.src) if translated else (None, None)
        return self._replace(src=came.dst, dst=came.src, port=None, sent=sent, own=own)


class Decision(t.NamedTuple):
    """Where a node's kernel sends a packet, and by what."""

    kind: str
    dev: str | None = None
    via: str | None = None
    route: Route | None = None
    rule: Rule | None = None


_KERNEL_RULES = tuple((priority, table) for priority, table in ((0, 255), (32766, 254), (32767, 253)))


def rules_of(node: Node, version: int) -> t.Sequence[Rule]:
    """A node's rules; those that every kernel has where none were read."""
    every = (0, (1 << (32 if version == 4 else 128)) - 1)
    return node.rules.get(version) or [
        Rule(version, priority, "to_table", table, None, 0, every, every, None, None, False, None, True)
        for priority, table in _KERNEL_RULES
    ]


def selects(rule: Rule, src: int | None, dst: int, iif: str | None, mark: int) -> bool:
    """Whether a rule takes a packet, by those of its selectors that are understood."""
    found = rule.src[0] <= (src or 0) <= rule.src[1] and rule.dst[0] <= dst <= rule.dst[1] and rule.oif is None
    found = found and (rule.iif is None or rule.iif == (iif or "lo"))
    found = found and (rule.fwmark is None or mark & rule.fwmask == rule.fwmark & rule.fwmask)
    return found != rule.invert


def find_route(node: Node, version: int, table: int, dst: int) -> Route | None:
    """The route of a table for an address: they are in order."""
    return next((route for route in node.routes.get((version, table), ()) if route.first <= dst <= route.last), None)


def decide(node: Node, version: int, dst: int, src: int | None, iif: str | None, mark: int) -> Decision:
    """What the node's kernel decides, from its rules and routes; its own answer counts where it was asked the very question."""
    found = _decide(node, version, dst, src, iif, mark)
    said = node.answers.get(
        (place_text(version, dst), place_text(version, src) if src is not None else None, iif, mark)
    )
    if said is None or found.kind == BLOCKED:
        return found
    if said.get("error"):
        return found if found.kind == NOWHERE or not node.forwarding.get(version, True) else Decision(NOWHERE)
    kind = LOCAL if said.get("type") == "local" else LEAVES if said.get("type") == "unicast" else BLOCKED
    dev = said.get("dev") if isinstance(said.get("dev"), str) else None
    if (kind, dev) == (found.kind, found.dev) or kind == found.kind == LOCAL:
        return found
    table = said.get("table") if isinstance(said.get("table"), int) else None
    route = find_route(node, version, table, dst) if table is not None else None
    rule = next((rule for rule in rules_of(node, version) if rule.table == table), None) if table is not None else None
    return Decision(kind, dev, said.get("via") if isinstance(said.get("via"), str) else None, route, rule)


def _decide(node: Node, version: int, dst: int, src: int | None, iif: str | None, mark: int) -> Decision:
    for rule in rules_of(node, version):
        if not selects(rule, src, dst, iif, mark):
            continue
        if rule.action != "to_table" or rule.table is None:
            if rule.action == "nop":
                continue
            return Decision(BLOCKED, rule=rule) if rule.understood else Decision(UNKNOWN, rule=rule)
        route = find_route(node, version, rule.table, dst)
        if route is None or route.kind == "throw" or (rule.suppress is not None and route.length <= rule.suppress):
            continue
        if not rule.understood:
            return Decision(UNKNOWN, rule=rule)
        if route.kind in ("local", "broadcast", "anycast"):
            return Decision(LOCAL, route.dev, None, route, rule)
        if route.kind != "unicast":
            return Decision(BLOCKED, None, None, route, rule)
        if route.via == "several" or route.dev is None:
            return Decision(UNKNOWN, None, route.via, route, rule)
        return Decision(LEAVES, route.dev, route.via, route, rule)
    return Decision(NOWHERE)


def table_text(table: int | None) -> str:
    """A table by the name that people know."""
    return "-" if table is None else TABLE_NAMES.get(table, str(table))


def route_text(route: Route | None) -> str:
    """A route as people write it."""
    if route is None:
        return "no route"
    words = [] if route.kind == "unicast" else [route.kind]
    words.append(f"{place_text(route.version, route.first)}/{route.length}")
    words += ["via", printable(route.via)] if route.via else []
    words += ["dev", printable(route.dev)] if route.dev else []
    return f"route {' '.join(words)} table {table_text(route.table)}"


def rule_text(rule: Rule) -> str:
    """A rule as people write it."""
    words = [f"rule {rule.priority}:"]
    words += ["not"] if rule.invert else []
    every = (0, (1 << (32 if rule.version == 4 else 128)) - 1)
    words += (
        ["from {0}-{1}".format(*(place_text(rule.version, part) for part in rule.src))] if rule.src != every else []
    )
    words += ["to {0}-{1}".format(*(place_text(rule.version, part) for part in rule.dst))] if rule.dst != every else []
    words += ["iif " + printable(rule.iif)] if rule.iif else []
    words += [f"fwmark {rule.fwmark:#x}/{rule.fwmask:#x}"] if rule.fwmark is not None else []
    return " ".join([*words, f"lookup {table_text(rule.table)}" if rule.table is not None else printable(rule.action)])


def by_text(decision: Decision) -> str:
    """What decided."""
    if decision.rule is not None and decision.route is None:
        return rule_text(decision.rule)
    text = route_text(decision.route)
    if decision.rule is not None and decision.rule.table not in TABLE_NAMES:
        return f"{text} by {rule_text(decision.rule)}"
    return text


def get_command(packet: Packet, iif: str | None, mark: int) -> str:
    """How to ask the kernel by hand."""
    words = ["ip route get", place_text(packet.version, packet.dst), "from", place_text(packet.version, packet.src)]
    words += ["iif", argument(iif)] if iif else []
    return " ".join(words + (["mark", hex(mark)] if mark else []))
