# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do packets for a peer's ranges leave by its device? Which addresses to ask the kernel for, and what its answers mean. Pure.

An unowned route or rule may take a part of a range elsewhere. So the kernel is asked for one address of every
range, and for one inside each narrower route and rule of others within it; what counts is its answer alone.
"""

from __future__ import annotations

import ipaddress
import typing as t

from .._values.addresses import network_span
from .._values.generations import same_tunnel
from .._values.refused import ValueRefused
from .constants import TABLE_NAMES

Data = dict[str, t.Any]
Rows = t.Iterable[t.Mapping[str, t.Any]]
#: (version, first, last, prefix length)
Span = tuple[int, int, int, int]

#: More than this of one host help nobody; ``more`` counts the rest.
SHOWN = 20


def questions(tunnels: Rows, routes: Rows, rules: Rows, pods: Rows) -> list[Data]:
    """What to ask: [{dst, src, iif, mark, range, device, unowned: text or None, invented: whether no pod has src}].

    tunnels: [{device, mark, ranges: [cidr]}]; routes and rules: all that the host has; pods: [{address, iif}], pods of the
    host and the devices that their packets come in by.
    """
    places = _Places(tunnels)
    desired: dict[tuple[str, str, str], Data] = {}
    for span, row in places.rows():
        _ask(desired, row, _first(span), None)
    for route in routes:
        place = _span(route["dst"])
        if place is None:
            continue
        for row in places.around(place):
            if route["dev"] != row["device"] or route["type"] != "unicast":
                _ask(desired, row, _first(place), route_text(route))
    sources = [dict(pod) for pod in pods]
    for rule in rules:
        place = _span(rule.get("dst"))
        if place is not None:
            for row in places.around(place):
                _ask(desired, row, _first(place), rule_text(rule))
        source = _span(rule.get("src"))
        if source is None or rule.get("dst") is not None:
            continue
        # a rule for some of the pods: the one that we have may not be among them
        inside = _text(source[0], source[1] + (1 if source[2] - source[1] > 1 else 0))
        for pod in pods:
            if (":" in inside) == (":" in pod["address"]):
                sources.append({"address": inside, "iif": pod["iif"], "unowned": rule_text(rule), "invented": True})
    found = []
    for row in desired.values():
        found.append(dict(row, src=None, iif=None, invented=False))
        for origin in sources:
            if (":" in origin["address"]) == (":" in row["dst"]):
                more = {"unowned": row["unowned"] or origin.get("unowned"), "invented": bool(origin.get("invented"))}
                found.append(dict(row, src=origin["address"], iif=origin["iif"], **more))
    return found


def elsewhere(
    asked: t.Sequence[t.Mapping[str, t.Any]], answers: t.Sequence[t.Mapping[str, t.Any]], routes: Rows, rules: Rows
) -> list[Data]:
    """What does not leave by its device, once for each range and cause: [{range, device, address, source, text}]."""
    found: dict[tuple[str, str, str], Data] = {}
    routes, rules = list(routes), list(rules)
    for question, answer in zip(asked, answers):
        if answer["error"] is None and answer["type"] == "unicast" and same_tunnel(answer["dev"], question["device"]):
            continue
        if question["invented"] and answer["error"] is not None:
            continue  # no pod has that address, so the kernel may well not take it from there
        if answer["error"] is not None:
            text = f"the kernel has no way: {answer['error']}"
        elif answer["type"] != "unicast":
            text = f"the kernel takes it as {answer['type']}"
        else:
            text = "the kernel sends it by {0}{1}".format(
                answer["dev"], " via {0}".format(answer["via"]) if answer["via"] else ""
            )
        cause = _cause(question, answer, routes, rules) or question["unowned"]
        if cause:
            text += f"; it is taken by {cause}"
        elif question["iif"] and answer["error"] is not None:
            text += "; is forwarding on (net.ipv4.ip_forward, net.ipv6.conf.all.forwarding)?"
        key = (question["range"], question["device"], cause or text)
        found.setdefault(
            key,
            {
                "range": question["range"],
                "device": question["device"],
                "address": question["dst"],
                "source": question["src"],
                "text": text,
            },
        )
    return [found[key] for key in sorted(found)]


def stray_hosts(routes: Rows, own: t.Iterable[str], cluster: t.Iterable[str], tunnels: t.Collection[str]) -> list[str]:
    """Addresses of the cluster's pods that this host leads to a device of its own, though they are not in its own ranges."""
    mine, whole = [_span(text) for text in own], [_span(text) for text in cluster]
    found = []
    for route in routes:
        span = _span(route["dst"])
        if (
            span is None
            or span[1] != span[2]
            or route["type"] != "unicast"
            or route["via"]
            or not route["dev"]
            or route["dev"] in tunnels
        ):
            continue
        if _inside(span, whole) and not _inside(span, mine):
            found.append(_text(span[0], span[1]))
    return found[:SHOWN]


def _inside(span: Span, ranges: t.Iterable[Span | None]) -> bool:
    return any(
        outer is not None and outer[0] == span[0] and outer[1] <= span[1] and span[2] <= outer[2] for outer in ranges
    )


def route_text(route: t.Mapping[str, t.Any]) -> str:
    words = ["route"] + ([] if route["type"] == "unicast" else [str(route["type"])]) + [str(route["dst"])]
    words += ["via", str(route["via"])] if route.get("via") else []
    words += ["dev", str(route["dev"])] if route.get("dev") else []
    words += ["table", TABLE_NAMES.get(route["table"], str(route["table"]))]
    words += ["protocol", str(route["protocol"])] if route.get("protocol") else []
    return " ".join(words)


def rule_text(rule: t.Mapping[str, t.Any]) -> str:
    words = ["rule", f"{rule['priority']}:", "from", str(rule.get("src") or "all")]
    words += ["to", str(rule["dst"])] if rule.get("dst") else []
    words += ["iif", str(rule["iif"])] if rule.get("iif") else []
    words += ["fwmark", hex(rule["fwmark"])] if rule.get("fwmark") is not None else []
    words += (
        ["table", TABLE_NAMES.get(rule["table"], str(rule["table"]))]
        if rule.get("table")
        else [str(rule.get("action"))]
    )
    return " ".join(words)


def _ask(desired: dict[tuple[str, str, str], Data], row: t.Mapping[str, t.Any], dst: str, unowned: str | None) -> None:
    key = (row["range"], row["device"], dst)
    if unowned is None or not (desired.get(key) or {}).get("unowned"):
        desired[key] = {
            "dst": dst,
            "mark": row["mark"],
            "range": row["range"],
            "device": row["device"],
            "unowned": unowned,
        }


def _cause(question: t.Mapping[str, t.Any], answer: t.Mapping[str, t.Any], routes: Rows, rules: Rows) -> str | None:
    """The route that took it, by the longest prefix in the table of the answer; else the rule that leads to the table."""
    version, number, unused, unused_too = _span(question["dst"] + ("/128" if ":" in question["dst"] else "/32")) or (
        0,
        0,
        0,
        0,
    )
    best: tuple[int, str] | None = None
    for route in routes:
        span = _span(route["dst"])
        if span is None or span[0] != version or not span[1] <= number <= span[2]:
            continue
        if answer["error"] is None and answer["type"] != "unicast":
            if route["type"] != answer["type"]:
                continue
        elif answer["error"] is None and answer.get("table") and route["table"] != answer["table"]:
            continue
        if route["type"] == "unicast" and (answer["error"] is not None or route["dev"] == question["device"]):
            continue
        if best is None or span[3] > best[0]:
            best = (span[3], route_text(route))
    taken = best[1] if best else None
    table = answer.get("table")
    if table and table not in TABLE_NAMES:
        leading = [rule_text(rule) for rule in rules if rule["version"] == version and rule.get("table") == table]
        if leading:
            rule = question["unowned"] if question["unowned"] in leading else leading[0]
            taken = f"{taken} by {rule}" if taken else rule
    return taken


class _Places:
    """The ranges of all tunnels, found by what is inside them."""

    def __init__(self, tunnels: Rows) -> None:
        self._rows: dict[Span, list[Data]] = {}
        for tunnel in tunnels:
            for text in tunnel["ranges"]:
                span = _span(text)
                if span is not None:
                    self._rows.setdefault(span, []).append(
                        {"range": text, "device": tunnel["device"], "mark": tunnel.get("mark") or 0}
                    )
        self._lengths = {version: sorted({span[3] for span in self._rows if span[0] == version}) for version in (4, 6)}

    def rows(self) -> t.Iterator[tuple[Span, Data]]:
        return ((span, row) for span in sorted(self._rows) for row in self._rows[span])

    def around(self, span: Span) -> t.Iterator[Data]:
        """The ranges that hold a network, or are it."""
        version, first, unused, length = span
        bits = 128 if version == 6 else 32
        for outer in self._lengths[version]:
            if outer > length:
                return
            rest = (1 << (bits - outer)) - 1
            key = (version, first & ~rest, first | rest, outer)
            yield from self._rows.get(key, ())


def _span(text: t.Any) -> Span | None:
    if not text:
        return None
    try:
        version, first, last = network_span(text)
    except ValueRefused:
        return None
    return version, first, last, int(str(text).rpartition("/")[2])


def _first(span: Span) -> str:
    """An address that a pod may have: not the first of a network, where there are others."""
    return _text(span[0], span[1] + (1 if span[2] - span[1] > 1 else 0))


def _text(version: int, number: int) -> str:
    return str(ipaddress.IPv6Address(number) if version == 6 else ipaddress.IPv4Address(number))
