# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways of packets as drawings: a lane for each place, a dot for each hop, what parts is red. Pure.

Names come from clusters, nodes and packets: all of it is text here, and escaped.
"""

from __future__ import annotations

import typing as t

from .drawing import BAD, FAIR, GOOD, escape

Data = t.Mapping[str, t.Any]
#: So many ways are drawn, those with a finding first.
DRAWN = 6
#: A drawing has at most so many hops of one way.
HOPS = 40
GRADES = {"ok": GOOD, "differs": BAD, "unknown": FAIR, "not read": FAIR}
_STEP, _TOP, _WIDTH, _FOOT = 30, 52, 960, 14
STYLE = """
.way h3{font-size:15px;margin:0 0 6px;overflow-wrap:anywhere}
.way svg{max-height:none}
.lane{stroke:var(--line);stroke-width:1.5}
.leg{fill:none;stroke-width:2.5;opacity:.75}.leg.good{stroke:var(--good)}.leg.fair{stroke:var(--fair)}.leg.bad{stroke:var(--bad);stroke-dasharray:6 6}
.here{fill:none;stroke:var(--bad);stroke-width:2.5}
"""


def way(flow: Data) -> str:
    """One way in words."""
    source, target = flow["source"], flow["target"]
    port = f":{target['port']}" if target.get("port") else ""
    text = f"{source['name']} ({source['address']}) to {target['name']} ({target['address']}{port})"
    return f"{text}, {flow['protocol']}, IPv{flow['version']}"


def pictures(document: Data, flows: t.Mapping[str, Data]) -> str:
    """A drawing for each way, those that part first."""
    found = {(str(row.get("flow")), row.get("where")) for row in document["findings"]}
    troubled = {flow for flow, dummy in found}
    parts = []
    for name in sorted(flows, key=lambda name: name not in troubled)[:DRAWN]:
        hops = [row for row in document["hops"] if str(row.get("flow")) == name][:HOPS]
        if hops:
            picture = draw(hops, {where for flow, where in found if flow == name})
            parts.append(f'<div class="map way"><h3>{escape(way(flows[name]))}</h3>{picture}</div>\n')
    return "".join(parts)


def draw(hops: t.Sequence[Data], marked: t.AbstractSet[t.Any] = frozenset()) -> str:
    """One way as an SVG: a lane for each place, time goes down. marked: places of findings, where the first hop that differs has a ring."""
    places = list(dict.fromkeys(str(row["where"]) for row in hops))
    gap = _WIDTH / len(places)
    lane = {place: gap * (number + 0.12) + 8 for number, place in enumerate(places)}
    height = _TOP + _STEP * len(hops) + _FOOT
    room = max(6, int((gap * 0.86 - 24) / 7.2))
    parts = []
    for place, x in lane.items():
        parts.append(
            f'<path class="lane" d="M{x:.1f} {_TOP - 16}V{height - 8}"/><text class="label" x="{x - 8:.1f}" y="24">{escape(_short(place, room + 3))}</text>'
        )
    before: tuple[float, float] | None = None
    ringed = False
    for number, row in enumerate(hops):
        x, y, css = lane[str(row["where"])], _TOP + _STEP * (number + 0.5), GRADES.get(row["verdict"], FAIR)
        if before:
            parts.append(f'<path class="leg {css}" d="M{before[0]:.1f} {before[1]:.1f}L{x:.1f} {y:.1f}"/>')
        before = (x, y)
        title = f"{row['where']}: {row['what']}; expected {row['expected']}; observed {row['observed']}"
        arrow = "\u2190 " if row["direction"] == "back" else "\u2192 "
        dot = f'<circle class="dot {css}" cx="{x:.1f}" cy="{y:.1f}" r="6"/>'
        text = f'<text class="label" x="{x + 13:.1f}" y="{y + 4.5:.1f}">{escape(arrow + _short(str(row["what"]), room))}</text>'
        parts.append(f"<g><title>{escape(title)}</title>{dot}{text}</g>")
        if not ringed and css == BAD and (not marked or row["where"] in marked):
            ringed = True
            parts.append(f'<circle class="here" cx="{x:.1f}" cy="{y:.1f}" r="10"/>')
    label = f"{len(hops)} hops over {', '.join(places)}"
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "\u2026"
