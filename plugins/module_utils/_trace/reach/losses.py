# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each node and each pair of clusters would lose, and a page with the fabric's drawing in which that is red. Pure; every text is escaped."""

from __future__ import annotations

import typing as t

from ..._status.drawing import BAD, FAIR, GOOD, draw, escape
from ..._status.parts import moment, number_cell, pill, table, text_cell, whole
from ..._status.verdict import BROKEN as IS_BROKEN, PROVEN
from .classes import Seat

Data = dict[str, t.Any]
LOST, RISKED, KEPT = "lost", "risked", "kept"
#: Rows of a table of the page.
ROWS = 200
_GRADES = {"lost": BAD, "risked": FAIR, "still broken": FAIR, "moved": FAIR, "gained": GOOD}


def losses(
    seats: t.Mapping[str, Seat],
    groups: t.Sequence[t.Sequence[str]],
    state: t.Callable[[str, str], tuple[str, str]],
) -> Data:
    """{nodes: {host: [cluster, pairs before, lost, risked]}, links: [{a, b, pairs, lost, risked, causes}]}; pairs without a path before are left out.

    groups: hosts for which the same is decided. state: (LOST, RISKED, KEPT or "" for a pair that is none, the cause) of two hosts.
    """
    nodes = {host: [seat.cluster, 0, 0, 0] for host, seat in seats.items()}
    links: dict[tuple[str, str], Data] = {}
    for index, sources in enumerate(groups):
        for place in range(index, len(groups)):
            targets, same = groups[place], place == index
            number = len(sources) * (len(sources) - 1) // 2 if same else len(sources) * len(targets)
            if not number:
                continue
            what, cause = state(sources[0], targets[-1])
            if not what:
                continue
            for hosts, others in ((sources, targets),) if same else ((sources, targets), (targets, sources)):
                for host in hosts:
                    row: list[t.Any] = nodes[host]
                    each = len(others) - (1 if same else 0)
                    row[1] += each
                    row[2] += each if what == LOST else 0
                    row[3] += each if what == RISKED else 0
            ends = sorted((seats[sources[0]].cluster, seats[targets[-1]].cluster))
            link = links.setdefault(
                (ends[0], ends[1]), {"a": ends[0], "b": ends[1], "pairs": 0, "lost": 0, "risked": 0, "causes": []}
            )
            link["pairs"] += number
            if what in (LOST, RISKED):
                link[what] += number
                link["causes"] = list(dict.fromkeys([*link["causes"], cause]))[:5]
    return {"nodes": nodes, "links": [links[key] for key in sorted(links)]}


def picture(given: t.Mapping[str, t.Any]) -> str:
    """The fabric as of ``losses``, wide and tall: red is what would be lost, amber what loses some, or may."""
    members: dict[str, int] = {}
    for row in given["nodes"].values():
        members[row[0]] = members.get(row[0], 0) + 1
    document = {
        "clusters": [{"name": name, "hosts": members[name], "reachable": True} for name in sorted(members)],
        "nodes": [_node(host, row) for host, row in sorted(given["nodes"].items())],
        "links": [_link(row) for row in given["links"]],
        "label": "{0} clusters, {1} nodes, {2:,} of {3:,} pairs of nodes would be lost".format(
            len(members),
            len(given["nodes"]),
            sum(row["lost"] for row in given["links"]),
            sum(row["pairs"] for row in given["links"]),
        ),
    }
    legend = "".join(
        f'<li><i class="{css}"></i>{text}</li>'
        for css, text in ((GOOD, "keeps its pairs"), (FAIR, "loses some, or may"), (BAD, "would be lost"))
    )
    return f'<div class="map">{draw(document)}{draw(document, tall=True)}<ul class="legend">{legend}</ul></div>\n'


def _node(host: str, row: t.Sequence[t.Any]) -> Data:
    cluster, pairs, lost, risked = row
    text = f"{host}: {lost:,} of {pairs:,} pairs would be lost" if lost else f"{host}: keeps {pairs:,} pairs"
    return {
        "host": host,
        "cluster": cluster,
        "asked": True,
        "answered": True,
        "verdict": IS_BROKEN if lost and lost == pairs else PROVEN,
        "errors": [],
        "peers": pairs,
        "up": pairs - lost - risked,
        "unreachable_peers": 0,
        "title": text + (f", {risked:,} may be" if risked else ""),
    }


def _link(row: t.Mapping[str, t.Any]) -> Data:
    text = f"{row['lost']:,} of {row['pairs']:,} lost" if row["lost"] else f"{row['pairs']:,} pairs"
    return {
        "a": row["a"],
        "b": row["b"],
        "tunnels": row["pairs"],
        "up": row["pairs"] - row["lost"] - row["risked"],
        "stale": row["risked"],
        "unknown": 0,
        "never": 0,
        "missing": row["lost"],
        "down": 0,
        "faults": 0,
        "causes": list(row["causes"]),
        "text": text + (f", {row['risked']:,} risked" if row["risked"] else ""),
    }


def page(title: str, fabric: str, generated: str, given: t.Mapping[str, t.Any]) -> str:
    """The page. given: {fabric: of ``losses``, classes: of Changes or Consequences, hypotheses, alone, addresses}, of which the last three may be missing."""
    lost = sum(row["pairs"] for row in given["classes"] if row["kind"] == "lost")
    risked = sum(row["pairs"] for row in given["classes"] if row["kind"] == "risked")
    alone = given.get("alone") or ()
    grade = BAD if lost or alone else FAIR if risked else GOOD
    text = f"{lost:,} pairs lost" if lost else f"{len(alone):,} Services lost" if alone else "nothing is lost"
    under = f"fabric {escape(fabric)}, as of {moment(generated)}"
    notes = "; ".join(given.get("hypotheses") or ())
    body = (
        (f'<p class="scope">{escape(notes)}</p>\n' if notes else "")
        + picture(given["fabric"])
        + _classes(given["classes"])
        + _services(alone)
        + _addresses(given.get("addresses") or ())
    )
    footer = (
        "Pairs of nodes are those that the mesh carries, each counted once. The result and the JSON have every class."
    )
    return whole(title, title, under, (grade, text), body, footer)


def _classes(classes: t.Sequence[Data]) -> str:
    rows = [
        [
            pill(_GRADES[row["kind"]], row["kind"]),
            text_cell(row["class"], "mono"),
            number_cell(f"class.{place}.pairs", row["pairs"]),
            text_cell("{from} to {to}".format(**row["example"]), "name"),
            text_cell(row["first_hop"]),
            text_cell(row["message"], "long"),
        ]
        for place, row in enumerate(classes)
    ]
    columns = "Kind|Class|#Pairs|Example|First hop|Why"
    return table("Pairs of nodes", "classes", columns, rows[:ROWS], len(rows))


def _services(alone: t.Sequence[Data]) -> str:
    rows = [
        [
            text_cell(row["cluster"], "name"),
            text_cell("{namespace}/{name}".format(**row)),
            number_cell(f"alone.{place}.endpoints", row["endpoints"]),
        ]
        for place, row in enumerate(alone)
    ]
    return table("Services that keep no endpoint", "alone", "Cluster|Service|#Endpoints today", rows[:ROWS], len(rows))


def _addresses(addresses: t.Sequence[Data]) -> str:
    rows = [
        [
            text_cell(row["address"], "mono"),
            text_cell("{cluster}/{namespace}/{name}".format(**row), "name"),
            text_cell(row["message"], "long"),
        ]
        for row in addresses
    ]
    return table("Addresses of load balancers", "addresses", "Address|Service|What happens", rows[:ROWS], len(rows))
