# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric as a drawing: clusters as discs, nodes as dots, tunnels between clusters as lines. Pure; every text is escaped."""

from __future__ import annotations

import html
import math
import typing as t

from .verdict import BROKEN, UNPROVEN

Data = t.Mapping[str, t.Any]
Point = tuple[float, float]

#: Up to so many nodes of a cluster have their names alongside their dots.
NAMED = 6
_GOLDEN = math.pi * (3 - math.sqrt(5))
GOOD, FAIR, BAD = "good", "fair", "bad"


def escape(value: t.Any) -> str:
    """Text for any place in the page: between tags and inside quotes."""
    return html.escape(str(value), quote=True)


def grade(up: int, total: int) -> str:
    """How much of something works."""
    return GOOD if up == total else FAIR if up else BAD


def node_grade(node: Data) -> str:
    """As good as its worst part: unreachable or broken is bad, what is not proven or was not asked is fair.

    A peer that is down since its node is unreachable is that node's part, not this one's.
    """
    if not node["asked"]:
        return FAIR
    if not node["answered"] or node["verdict"] == BROKEN:
        return BAD
    return (
        FAIR
        if node["verdict"] == UNPROVEN or node["errors"] or node["up"] + node["unreachable_peers"] < node["peers"]
        else GOOD
    )


def link_grade(link: Data) -> str:
    """As good as its worst end, with what is wrong besides handshakes."""
    if link["never"] or link["missing"] or link["down"] or link["faults"]:
        return BAD
    return GOOD if link["up"] == link["tunnels"] else FAIR


def draw(document: Data, tall: bool = False) -> str:
    """One SVG. tall: for narrow screens, clusters below each other. ``label`` of the document, ``title`` of a node and ``text`` of a link, where there are
    any, replace what is drawn of tunnels."""
    clusters = document["clusters"]
    if not clusters:
        return ""
    width, height, radius, places = _layout(len(clusters), tall)
    where = dict(zip((row["name"] for row in clusters), places))
    links = [link for link in document["links"] if link["a"] != link["b"] and link["a"] in where and link["b"] in where]
    parts = [_line(link, where) for link in links]
    inside = {link["a"]: link for link in document["links"] if link["a"] == link["b"]}
    members: dict[str, list[Data]] = {row["name"]: [] for row in clusters}
    for node in document["nodes"]:
        members.setdefault(node["cluster"], []).append(node)
    for row in clusters:
        parts.append(
            _cluster(row, members[row["name"]], where[row["name"]], radius, inside.get(row["name"]), len(clusters))
        )
    parts += [_tag(link, where, radius, tall) for link in links]
    label = document.get("label") or "{0} clusters, {1} nodes, {2} of {3} tunnels up".format(
        len(clusters), len(document["nodes"]), document["summary"]["tunnels_up"], document["summary"]["tunnels"]
    )
    return '<svg class="{0}" viewBox="0 0 {1:.0f} {2:.0f}" role="img" aria-label="{3}">{4}</svg>'.format(
        "tall" if tall else "wide", width, height, escape(label), "".join(parts)
    )


def _layout(count: int, tall: bool) -> tuple[float, float, float, list[Point]]:
    """(width, height, radius of a disc, centres)."""
    if count == 1:
        return (360.0, 300.0, 105.0, [(180.0, 140.0)]) if tall else (960.0, 300.0, 105.0, [(480.0, 140.0)])
    if count == 2:
        return (
            (360.0, 620.0, 105.0, [(180.0, 115.0), (180.0, 455.0)])
            if tall
            else (960.0, 320.0, 115.0, [(210.0, 145.0), (750.0, 145.0)])
        )
    radius = max(24.0, min(105.0, (300.0 if tall else 560.0) / (count + 1)))
    down = (radius + (26 if tall else 30)) / math.sin(math.pi / count)
    across = down if tall else max(down, 480.0 - radius - 30)
    turn = math.pi / 2 if count % 2 else math.pi / 2 + math.pi / count
    angles = [2 * math.pi * index / count - turn for index in range(count)]
    lowest, highest = min(math.sin(angle) for angle in angles) * down, max(math.sin(angle) for angle in angles) * down
    width, height = max(2 * (across + radius) + 36, 330.0 if tall else 960.0), highest - lowest + 2 * radius + 80
    centres = [
        (width / 2 + across * math.cos(angle), 15 + radius - lowest + down * math.sin(angle)) for angle in angles
    ]
    return width, height, radius, centres


def _words(link: Data) -> str:
    if "text" in link:
        return str(link["text"])
    unknown = f", {link['unknown']:,} unknown" if link["unknown"] else ""
    return f"{link['up']:,} of {link['tunnels']:,} up{unknown}"


def _curve(link: Data, where: t.Mapping[str, Point]) -> tuple[Point, Point, Point]:
    """Two ends and the point between that a curve leans to: straight between two clusters."""
    (ax, ay), (bx, by) = where[link["a"]], where[link["b"]]
    length = math.hypot(bx - ax, by - ay) or 1.0
    away = min(40.0, length * 0.08) if len(where) > 2 else 0.0
    return (ax, ay), ((ax + bx) / 2 - (by - ay) / length * away, (ay + by) / 2 + (bx - ax) / length * away), (bx, by)


def shares(link: Data) -> list[tuple[str, float]]:
    """How much of a link is good, fair and bad: [(grade, per cent)], without those that have nothing. What is small is seen too: 3 at least.

    A ping that was lost while handshakes are fresh takes its share of what would be good.
    """
    bad = link["never"] + link["missing"] + link["down"]
    fair = link["stale"] + link["unknown"]
    lost = min(link["faults"], link["up"])
    found = [(GOOD, link["up"] - lost), (FAIR, fair), (BAD, bad + lost)]
    whole = sum(count for unused, count in found)
    if not whole:
        return [(FAIR, 100.0)]
    least = {name: max(3.0, 100.0 * count / whole) for name, count in found if count}
    most = max(least, key=lambda name: least[name])
    least[most] -= sum(least.values()) - 100.0
    return list(least.items())


def _line(link: Data, where: t.Mapping[str, Point]) -> str:
    """A curve from one cluster to the other: its green part is the share of ends that are up, and so on."""
    (ax, ay), (mx, my), (bx, by) = _curve(link, where)
    thick = 2.0 + 1.2 * math.log10(max(1, link["tunnels"]))
    title = f"{link['a']} and {link['b']}: {'; '.join([_words(link), *link['causes']])}"
    shape = f"M{ax:.1f} {ay:.1f}Q{mx:.1f} {my:.1f} {bx:.1f} {by:.1f}"
    parts, start = [], 0.0
    for name, share in shares(link):
        dashes = (
            ' stroke-dasharray="6 7"' if name == BAD else ""
        )  # what is bad as a whole is seen without its colour too
        if share < 100:
            dashes = f' pathLength="100" stroke-dasharray="0 {start:.1f} {share:.1f} 100"'
        parts.append(f'<path class="{name}" d="{shape}" stroke-width="{thick:.1f}"{dashes}/>')
        start += share
    return f'<a href="#links"><g class="link"><title>{escape(title)}</title>{"".join(parts)}</g></a>'


def _tag(link: Data, where: t.Mapping[str, Point], radius: float, tall: bool) -> str:
    """The numbers on a line, where there is room for them; the table below has them all."""
    (ax, ay), (mx, my), (bx, by) = _curve(link, where)
    text = _words(link)
    box, gap = 7.2 * len(text) + 18, math.hypot(bx - ax, by - ay) - 2 * radius
    if gap < (60 if len(where) == 2 else box + 20):
        return ""
    # between more than three, those that are no neighbours cross in the middle
    order = sorted(where)
    apart = abs(order.index(link["a"]) - order.index(link["b"]))
    part = 0.5 if len(where) < 4 or apart in (1, len(where) - 1) else 0.36
    x = (1 - part) ** 2 * ax + 2 * part * (1 - part) * mx + part**2 * bx
    y = (1 - part) ** 2 * ay + 2 * part * (1 - part) * my + part**2 * by
    if tall and len(where) == 2:
        y += 22  # below the name of the upper cluster
    return (
        f'<g class="tag"><rect x="{x - box / 2:.1f}" y="{y - 12:.1f}" width="{box:.1f}" height="24" rx="12"/>'
        f'<text x="{x:.1f}" y="{y + 4.5:.1f}">{escape(text)}</text></g>'
    )


def _cluster(
    row: Data, members: t.Sequence[Data], centre: Point, radius: float, inside: Data | None, count: int
) -> str:
    x, y = centre
    state = BAD if not row["reachable"] else ""
    ring = " ring-" + link_grade(inside) if inside else ""
    name = row["name"] if len(row["name"]) <= 18 else row["name"][:17] + "…"
    parts = [f'<circle class="disc {state}{ring}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>']
    if len(members) <= NAMED and count <= 3:
        parts += [_named(node, x, y, radius, index, len(members)) for index, node in enumerate(members)]
    else:
        parts += _dots(members, x, y, radius)
    below = f"{row['hosts']:,} nodes" if row["reachable"] else "API unreachable"
    if inside:
        below += f", {inside['text'] if 'text' in inside else _inside(inside)} inside"
    size = "" if count < 7 else " small"
    parts.append(f'<text class="name{size}" x="{x:.1f}" y="{y + radius + 22:.1f}">{escape(name)}</text>')
    parts.append(f'<text class="under{size}" x="{x:.1f}" y="{y + radius + 39:.1f}">{escape(below)}</text>')
    return f"<g><title>{escape('cluster ' + row['name'])}</title>{''.join(parts)}</g>"


def _inside(link: Data) -> str:
    return f"{link['up']:,} of {link['tunnels']:,}"


def _named(node: Data, x: float, y: float, radius: float, index: int, count: int) -> str:
    step = min(34.0, radius * 1.5 / max(1, count))
    top = y - step * (count - 1) / 2 + index * step
    text = node["host"] if len(node["host"]) <= 16 else node["host"][:15] + "…"
    return (
        f"<g><title>{escape(_title(node))}</title>"
        f'<circle class="dot {node_grade(node)}" cx="{x - radius * 0.62:.1f}" cy="{top:.1f}" r="7"/>'
        f'<text class="label" x="{x - radius * 0.62 + 15:.1f}" y="{top + 4.5:.1f}">{escape(text)}</text></g>'
    )


def _dots(members: t.Sequence[Data], x: float, y: float, radius: float) -> list[str]:
    """Evenly over the disc, as seeds on a sunflower, the troubled ones in the middle."""
    order = {BAD: 0, FAIR: 1, GOOD: 2}
    ranked = sorted((order[node_grade(node)], node["host"], node) for node in members) if members else []
    size = max(1.2, min(7.0, 0.62 * radius / math.sqrt(max(1, len(ranked)))))
    drawn = []
    for index, (dummy, dummy_host, node) in enumerate(ranked):
        far = (radius - size - 6) * math.sqrt((index + 0.5) / len(ranked))
        drawn.append(
            f'<circle class="dot {node_grade(node)}" cx="{x + far * math.cos(index * _GOLDEN):.1f}" cy="{y + far * math.sin(index * _GOLDEN):.1f}" '
            f'r="{size:.1f}"><title>{escape(_title(node))}</title></circle>'
        )
    return drawn


def _title(node: Data) -> str:
    if "title" in node:
        return str(node["title"])
    if not node["asked"]:
        return f"{node['host']}: {node['verdict']} ({node['why']})"
    if not node["answered"]:
        return f"{node['host']}: did not answer: {node['why']}"
    if node["why"]:
        return f"{node['host']}: {node['up']} of {node['peers']} peers up; {node['why']}"
    return f"{node['host']}: {node['up']} of {node['peers']} peers up"
