# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a fabric on a terminal: what it is, a row for each cluster, why, and what to do. Pure."""

from __future__ import annotations

import typing as t

from . import trend
from .page import human_age
from .report import ROWS, table
from .verdict import BROKEN, HEADLINES, NOT_ASKED, PROVEN, UNPROVEN, behind, counted, one_for_all, scope_line

Data = t.Mapping[str, t.Any]

#: So many reasons are shown; the JSON has all of them.
REASONS = 20
_FAILURE_HEADS = ("NEXT FAILURE", "PAIRS", "SERVICES", "WITHOUT ENDPOINT")
_HEADS = ("CLUSTER", "NODES", "POD RANGES", "TUNNELS", "SERVICES", "ADDRESSES", "OLDEST KEY", "VERDICT")


#: Columns that a narrow terminal goes without, the first of them first.
_SPARED = ("POD RANGES", "OLDEST KEY", "ADDRESSES", "SERVICES")


def lines(document: Data, files: t.Mapping[str, str], columns: int = 0) -> list[str]:
    """document: of model.build; files: {option: path} of what was written. First what the fabric is, last what to do.

    columns: how wide the terminal is, so that the table of clusters fits; 0: the whole table.
    """
    given = document["verdict"]
    reasons = [*one_for_all(given["broken"]), *one_for_all(given["unproven"], given["broken"])]
    count = given["counts"]["broken"] or given["counts"]["unproven"]
    headline = behind(HEADLINES[given["value"]], document["scope"])
    if given["value"] != PROVEN:
        headline += ": " + counted(count, "problem" if given["value"] == BROKEN else "reason")
    rows = [_row(cluster, document) for cluster in document["clusters"]]
    rows.sort(key=lambda row: (_ORDER.get(row[-1], 1), row[0]))
    texts = [f"fabric {document['fabric']}: {headline}"]
    texts += [scope_line(document["scope"])] if document["scope"]["limit"] else []
    texts += _fitting([_HEADS, *rows[:ROWS]], columns).splitlines() if rows else []
    texts += [f"{len(rows) - ROWS:,} more clusters"] if len(rows) > ROWS else []
    texts += _next_failure(document.get("next_failure") or {})
    texts += _rotations(document) + _preshared(document)
    earlier = trend.blocks(document["history"])
    texts += [f"tunnels up at the latest {len(earlier)} changes: {earlier}"] if earlier else []
    texts += ["  " + reason for reason in reasons[:REASONS]]
    texts += [f"  ... and {len(reasons) - REASONS:,} more"] if len(reasons) > REASONS else []
    where = files.get("page") or files.get("document")
    texts += [f"the rest: {where}"] if where else []
    return texts if given["value"] == PROVEN else [*texts, "next: fix what is named, and run status again"]


def _fitting(rows: t.Sequence[t.Sequence[str]], columns: int) -> str:
    """A table without those of the spared columns for which a terminal has no room."""
    text = table(rows)
    for name in _SPARED:
        if not columns or max(map(len, text.splitlines())) <= columns:
            break
        place = list(rows[0]).index(name)
        rows = [(*row[:place], *row[place + 1 :]) for row in rows]
        text = table(rows)
    return text


def _next_failure(given: Data) -> list[str]:
    """What the next single failure would cost: the node and the cluster that take most."""
    if not given.get("pairs"):
        return []
    rows = [
        (
            f"{kind} {given[kind]['name']}",
            f"{given[kind]['pairs']:,} of {given['pairs']:,}",
            str(given[kind]["service_count"]) if given[kind]["service_count"] else "-",
            ", ".join(given[kind]["services"][:2]) + (", ..." if given[kind]["service_count"] > 2 else ""),
        )
        for kind in ("node", "cluster")
    ]
    return table([_FAILURE_HEADS, *rows]).splitlines()


def _rotations(document: Data) -> list[str]:
    """One line where keys are being rotated: how many nodes are how far."""
    phases: dict[str, list[str]] = {}
    for node in document["nodes"]:
        for phase in sorted(set((node.get("rotation") or {}).values())):
            phases.setdefault(phase, []).append(node["host"])
    if not phases:
        return []
    shown = ", ".join(f"{counted(len(hosts), 'node')} {phase}" for phase, hosts in sorted(phases.items()))
    return [f"keys are being rotated ({shown}); rotate_keys ends it"]


def _preshared(document: Data) -> list[str]:
    """One line where nodes have preshared keys: how many nodes have which generation."""
    hosts: dict[int, int] = {}
    for node in document["nodes"]:
        for number in set((node.get("preshared") or {}).values()):
            hosts[number] = hosts.get(number, 0) + 1
    shown = ", ".join(f"generation {number} on {counted(count, 'node')}" for number, count in sorted(hosts.items()))
    return [f"preshared keys: {shown} of {len(document['nodes'])}"] if hosts else []


_ORDER = {BROKEN: 0, UNPROVEN: 1, NOT_ASKED: 2, PROVEN: 3}


def _row(cluster: Data, document: Data) -> tuple[str, ...]:
    """One cluster. Numbers are of what answered; ``-`` is what the fabric has none of, or what is not known."""
    name = cluster["name"]
    nodes = [node for node in document["nodes"] if node["cluster"] == name]
    ages = [node["key_age"] for node in nodes if node.get("key_age") is not None]
    services = sum(1 for row in document["services"] if row["cluster"] == name)
    addresses = sum(1 for row in document["addresses"] if row["cluster"] == name)
    known = cluster["reachable"]
    return (
        name,
        f"{cluster['answered']} of {cluster['hosts']}" if cluster["hosts"] else "-",
        cluster.get("pod_ranges") or "-",
        f"{cluster['up']} of {cluster['peers']}" if cluster["hosts"] else "-",
        str(services) if known else "-",
        str(addresses) if known else "-",
        human_age(max(ages)) if ages else "-",
        _verdict(name, cluster, nodes, document["verdict"]),
    )


def _verdict(name: str, cluster: Data, nodes: t.Sequence[Data], verdict: Data) -> str:
    """As bad as its worst node, its API server, and what reasons say of the cluster by its name."""
    asked = [node["verdict"] for node in nodes if node["asked"]]
    if BROKEN in asked or not cluster["reachable"] or _named(name, verdict["broken"]):
        return BROKEN
    if UNPROVEN in asked or _named(name, verdict["unproven"]):
        return UNPROVEN
    return NOT_ASKED if nodes and not asked else PROVEN


def _named(name: str, reasons: t.Iterable[str]) -> bool:
    """Whether a reason is about a cluster: ``cluster NAME:`` or an object of it, ``refused NAME/...``."""
    marks = (f"cluster {name}:", f"refused {name}/")
    return any(mark in ": " + reason for reason in reasons for mark in marks)
