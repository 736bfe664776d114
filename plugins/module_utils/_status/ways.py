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
    port = ":{0}".format(target["port"]) if target.get("port") else ""
    text = "{0} ({1}) to {2} ({3}{4})".format(source["name"], source["address"], target["name"], target["address"], port)
    return "{0}, {1}, IPv{2}".format(text, flow["protocol"], flow["version"])


def pictures(document: Data, flows: t.Mapping[str, Data]) -> str:
    """A drawing for each way, those that part first."""
    found = {(str(row.get("flow")), row.get("where")) for row in document["findings"]}
    troubled = {flow for flow, dummy in found}
    parts = []
    for name in sorted(flows, key=lambda name: name not in troubled)[:DRAWN]:
        hops = [row for row in document["hops"] if str(row.get("flow")) == name][:HOPS]
        if hops:
            picture = draw(hops, {where for flow, where in found if flow == name})
            parts.append('<div class="map way"><h3>{0}</h3>{1}</div>\n'.format(escape(way(flows[name])), picture))
    return "".join(parts)


def draw(hops: t.Sequence[Data], marked: t.AbstractSet[t.Any] = frozenset()) -> str:
    """One way as an SVG: a lane for each place, time goes down. marked: places of findings, whose first hop that differs has a ring."""
    places = list(dict.fromkeys(str(row["where"]) for row in hops))
    gap = _WIDTH / len(places)
    lane = {place: gap * (number + 0.12) + 8 for number, place in enumerate(places)}
    height = _TOP + _STEP * len(hops) + _FOOT
    room = max(6, int((gap * 0.86 - 24) / 7.2))
    parts = []
    for place, x in lane.items():
        parts.append('<path class="lane" d="M{0:.1f} {1}V{2}"/><text class="label" x="{3:.1f}" y="24">{4}</text>'.format(
            x, _TOP - 16, height - 8, x - 8, escape(_short(place, room + 3))
        ))  # fmt: skip
    before: t.Optional[t.Tuple[float, float]] = None
    ringed = False
    for number, row in enumerate(hops):
        x, y, css = lane[str(row["where"])], _TOP + _STEP * (number + 0.5), GRADES.get(row["verdict"], FAIR)
        if before:
            parts.append('<path class="leg {0}" d="M{1:.1f} {2:.1f}L{3:.1f} {4:.1f}"/>'.format(css, before[0], before[1], x, y))
        before = (x, y)
        title = "{0}: {1}; expected {2}; observed {3}".format(row["where"], row["what"], row["expected"], row["observed"])
        arrow = "\u2190 " if row["direction"] == "back" else "\u2192 "
        dot = '<circle class="dot {0}" cx="{1:.1f}" cy="{2:.1f}" r="6"/>'.format(css, x, y)
        text = '<text class="label" x="{0:.1f}" y="{1:.1f}">{2}</text>'.format(x + 13, y + 4.5, escape(arrow + _short(str(row["what"]), room)))
        parts.append("<g><title>{0}</title>{1}{2}</g>".format(escape(title), dot, text))
        if not ringed and css == BAD and (not marked or row["where"] in marked):
            ringed = True
            parts.append('<circle class="here" cx="{0:.1f}" cy="{1:.1f}" r="10"/>'.format(x, y))
    label = "{0} hops over {1}".format(len(hops), ", ".join(places))
    return '<svg viewBox="0 0 {0} {1}" role="img" aria-label="{2}">{3}</svg>'.format(_WIDTH, height, escape(label), "".join(parts))


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "\u2026"
