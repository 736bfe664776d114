# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a fabric would lose with hypotheses, as the part ``reach`` of a trace: pairs of nodes, Services, addresses. Nothing is sent. Pure."""

from __future__ import annotations

import typing as t

from ..._plan.mesh_plan import MeshPlan
from ..._plan.seen_addresses import Seen
from ..names import Settings
from ..objects import Cluster
from . import what_if
from .changes import KINDS, MOST_LINES, line
from .classes import AWAY, UNREAD
from .consequences import Consequences
from .last_ends import LastEnds, Selectors, Speaker, names_of
from .what_if import Hypothesis

Data = dict[str, t.Any]
#: Services and addresses that a result names.
SHOWN = 200


def answered(
    trace: Data, objects: t.Mapping[str, Cluster], rows: t.Sequence[Hypothesis], request: t.Mapping[str, t.Any]
) -> Data:
    """The trace by the mesh's plan alone, with the hypotheses. request: of trace_plan. Raises ValueRefused."""
    before = MeshPlan.from_json(request.get("mesh") or {})
    after = MeshPlan.from_json(request["assumed"]) if request.get("assumed") else before
    plain = [row for row in rows if row.kind != what_if.PLAN]
    if plain:
        what_if.check(rows, before, names_of(objects))
    found = Consequences(before, after, what_if.away(rows), what_if.new_keys(rows))
    pairs_of = found.after
    alone: list[Data] = []
    addresses: list[Data] = []
    if plain:
        ends = LastEnds(
            objects,
            rows,
            found,
            Seen(after),
            Settings.of(request),
            Selectors.parse(str(request.get("mirror_selector") or ""), str(request.get("global_selector") or "")),
        )
        speakers = {
            str(host): Speaker(str(row.get("segment") or ""), bool(row.get("bgp")))
            for host, row in (request.get("speakers") or {}).items()
        }
        reserved = {str(name): frozenset(ids) for name, ids in (request.get("reserved") or {}).items()}
        alone, addresses = ends.services(), ends.addresses(speakers, reserved)
    summary = pairs_of.summary()
    cut = [dict(row, confidence="proven", where=", ".join(row["from"][:1]), command="") for row in summary["cut"]]
    asked = [
        (flow, row["host"]) for flow in trace["flows"] if not flow.get("about") for row in flow["target"]["backends"]
    ]
    ends_of = [
        {
            "source": flow["source"]["name"],
            "target": flow["target"]["name"],
            "host": host,
            "cause": found.cause(flow["source"]["host"], host),
        }
        for flow, host in asked
        if flow["source"]["host"] in pairs_of.seats and host in pairs_of.seats
    ]
    classes = found.classes() if plain else []
    reach = dict(
        summary,
        alone=alone[:SHOWN],
        alone_count=len(alone),
        addresses=addresses[:SHOWN],
        addresses_count=len(addresses),
        asked=[row for row in ends_of if row["cause"]],
        hypotheses=[row.text() for row in rows],
        changes=classes,
        fabric=found.fabric() if plain else {},
        **{
            kind.replace(" ", "_"): sum(row["pairs"] for row in classes if row["kind"] == kind)
            for kind in KINDS
            if kind != "risked"
        },
    )
    return dict(trace, flows=[], nodes=[], reach=reach, findings=[*trace["findings"], *cut])


def lines(reach: t.Mapping[str, t.Any]) -> list[str]:
    """What a person reads of ``reach``: the hypotheses, what changes for pairs, Services and addresses, each cut to MOST_LINES."""
    found = [f"what if: {'; '.join(reach['hypotheses'])}"]
    changes = [row for row in reach["changes"] if row["cause"] not in (AWAY, UNREAD)]
    away = sum(row["pairs"] for row in reach["changes"] if row["cause"] == AWAY)
    if away:
        found.append(f"lost {away:,} pairs of nodes with what is away")
    found += _cut([line(row) for row in changes], len(changes))
    found += _cut(
        [
            f"Service {cluster}/{namespace}/{name} keeps no endpoint"
            for cluster, namespace, name in map(_key, reach["alone"])
        ],
        reach["alone_count"],
    )
    found += _cut(
        ["address {address} of {cluster}/{namespace}/{name} {message}".format(**row) for row in reach["addresses"]],
        reach["addresses_count"],
    )
    if len(found) == 1 and reach["hypotheses"] != [Hypothesis(what_if.PLAN, "").text()]:
        found.append("nothing is lost and nothing moves")
    return found


def _key(row: t.Mapping[str, t.Any]) -> tuple[str, str, str]:
    return str(row["cluster"]), str(row["namespace"]), str(row["name"])


def _cut(texts: t.Sequence[str], count: int) -> list[str]:
    if count <= MOST_LINES:
        return list(texts)
    return [*texts[: MOST_LINES - 1], f"{count - MOST_LINES + 1:,} more are in the result"]
