# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A trace as one page of HTML in the style of the status page: what was found, a picture of the way, every hop. Pure.

Names, addresses, rules and commands come from clusters, nodes and packets: all of it is text here, and escaped.
"""

from __future__ import annotations

import typing as t

from .._status.drawing import BAD, FAIR, GOOD, escape
from .._status.parts import Cell, moment, pill, table, text_cell, whole
from .._status.ways import GRADES, STYLE, pictures
from .reach import losses

Data = t.Mapping[str, t.Any]
#: Rows of the table of hops; the JSON has all.
ROWS = 1000
_VERDICTS = {"arrives": GOOD, "does not arrive": BAD}
_WAYS = {"forward": "there", "back": "back"}


def render(document: Data) -> str:
    """The page.

    document: {fabric, generated: ISO 8601, trace: of trace_plan, verdict, findings: [{cause, where, flow, direction, message, fix, command, confidence}],
    hops: [{flow, direction, where, what, expected, observed, verdict, command, source}]}.
    """
    trace = document.get("trace") or {}
    reach = trace.get("reach") or {}
    if reach.get("fabric"):
        return losses.page(
            "What if", str(document["fabric"]), str(document["generated"]), dict(reach, classes=reach["changes"])
        )
    flows = {str(flow["id"]): flow for flow in trace.get("flows") or ()}
    title = "Trace from {0} to {1}".format(*ends(list(flows.values()))) if flows else "Trace"
    under = f"fabric {escape(document['fabric'])}, as of {moment(str(document['generated']))}"
    verdict = str(document["verdict"])
    body = _findings(document["findings"], flows) + pictures(document, flows) + _hops(document["hops"], flows)
    footer = "Expected is what API servers and kernels say, observed is where our packets were seen. The JSON alongside this page has every row."
    return whole(title, title, under, (_VERDICTS.get(verdict, FAIR), verdict), body, footer, STYLE)


def ends(flows: t.Sequence[Data]) -> tuple[str, str]:
    """Names of both ends for a heading; many are counted."""
    found = []
    for side in ("source", "target"):
        names = list(dict.fromkeys(str(flow[side]["name"]) for flow in flows))
        found.append(names[0] if len(names) == 1 else f"{len(names):,} places")
    return found[0], found[1]


def _of(flows: t.Mapping[str, Data], row: Data) -> str:
    """Which way a row is about; nothing where there is one only."""
    flow = flows.get(str(row.get("flow")))
    return f"{flow['source']['name']} to {flow['target']['name']}" if flow and len(flows) > 1 else ""


def _findings(findings: t.Sequence[Data], flows: t.Mapping[str, Data]) -> str:
    rows: list[list[Cell]] = []
    for row in findings:
        css = FAIR if row["cause"] == "not_explained" else BAD
        rows.append(
            [
                pill(css, row["cause"]),
                text_cell(row.get("where"), "name"),
                text_cell(row["message"], "long"),
                text_cell(row.get("fix"), "long"),
                text_cell(row.get("command"), "mono"),
                text_cell(row.get("confidence")),
                text_cell(_of(flows, row), "long"),
            ]
        )
    return table("Why", "why", "Cause|Where|What was found|Fix|See it by hand|Confidence|Way", rows[:ROWS], len(rows))


def _hops(hops: t.Sequence[Data], flows: t.Mapping[str, Data]) -> str:
    rows: list[list[Cell]] = []
    for row in hops[:ROWS]:
        rows.append(
            [
                text_cell(row["where"], "name"),
                text_cell(_WAYS.get(row["direction"], row["direction"])),
                text_cell(row["what"], "long"),
                text_cell(row["expected"], "long"),
                text_cell(row["observed"], "long"),
                pill(GRADES.get(row["verdict"], FAIR), row["verdict"]),
                text_cell(row.get("command"), "mono"),
                text_cell(row.get("source"), "long"),
                text_cell(_of(flows, row), "long"),
            ]
        )
    columns = "Where|Way|Hop|Expected|Observed|Verdict|See it by hand|Comes from|Between"
    return table("Hops", "hops", columns, rows, len(hops))
