# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a run of several capabilities over several clusters ended: one table, one line for each error and each refusal, one verdict. Pure.

One broken part does not stop the rest, so what failed has to be collected somewhere; this is where it is reported.
"""

from __future__ import annotations

import typing as t

from .._values.text import in_short

OK, FAILED, NOT_ASKED, NOT_PROVEN = "ok", "failed", "not asked", "not proven"
#: The table ends after so many clusters, the worst first, and the list after so many errors; what is left out is counted.
SHOWN_CLUSTERS = 20
SHOWN_ERRORS = 20
#: So many of them though nothing is wrong with them.
SHOWN_WELL = 8
#: A reason that a server wrote may be a page long.
LONGEST_LINE = 400

Data = t.Mapping[str, t.Any]
Cells = dict[str, dict[str, str]]
#: Capability -> kind of its one object in each cluster: without that it does nothing there.
ONE_OBJECT = {"coredns_rewrite": "ConfigMap"}
#: So many refusals are said, each with so many of the hosts that refused it.
LINES, SEEN_BY = 40, 3
#: Of clusters and nodes outside of a limit so many are named.
SHOWN_OUTSIDE = 8


class RunReports(t.NamedTuple):
    """What a run left behind.

    ``asked``: capabilities in their order. ``clusters``: all names. ``results``: capability -> results of its modules, those that
    ran. ``broken``: capability -> why it ended before its end. ``nodes``: node -> its cluster. ``lost``: host -> (capability, why),
    the hosts that failed or were not reached. ``verdict``: {ok, problems, broken, unproven} of a verification, empty where none was made.
    ``outside``: capability -> the clusters in which ``--limit`` left nothing to do.
    """

    asked: t.Sequence[str]
    clusters: t.Sequence[str]
    results: t.Mapping[str, t.Sequence[Data]]
    broken: t.Mapping[str, str]
    nodes: t.Mapping[str, str]
    lost: t.Mapping[str, tuple[str, str]]
    verdict: Data
    outside: t.Mapping[str, t.Collection[str]] = {}


def judge(reports: RunReports) -> dict[str, t.Any]:
    """{ok, cells: {cluster: {capability: text}}, errors: [line], at_fault: [cluster], text: [line]}; ``text`` fits a screen."""
    cells: Cells = {name: {} for name in sorted(reports.clusters)}
    errors: list[str] = []
    for capability in reports.asked:
        errors += _capability(reports, capability, cells)
    strays = sorted(
        host
        for host, (capability, unused) in reports.lost.items()
        if host not in reports.nodes or capability not in reports.asked
    )
    errors += [f"{name}: {_line(reports.lost[name][1])}" for name in strays]
    errors += [
        f"{name}: {_line(reports.broken[name]) or FAILED}" for name in sorted(set(reports.broken) - set(reports.asked))
    ]
    table = _table(reports.asked, cells) if cells and reports.asked else []
    lines = list(errors[:SHOWN_ERRORS])
    if len(errors) > SHOWN_ERRORS:
        lines.append(f"{len(errors) - SHOWN_ERRORS} more, see above")
    named = {
        str(row.get("cluster"))
        for name in reports.asked
        for result in reports.results.get(name, ())
        for row in result.get("failures") or ()
    }
    named.update(reports.nodes.get(host, host) for host in reports.lost)
    at_fault = sorted(named.intersection(cells))
    text = table + (["failed:"] + ["  " + line for line in lines] if lines else [])
    return {"ok": not errors, "cells": cells, "errors": errors, "at_fault": at_fault, "text": text}


def _capability(reports: RunReports, capability: str, cells: Cells) -> list[str]:
    """Fill the column of one capability; returns its errors."""
    results = reports.results.get(capability, ())
    broken = reports.broken.get(capability)
    reasons: dict[str, list[str]] = {}
    errors: list[str] = []
    for failure in _unique(row for result in results for row in result.get("failures") or ()):
        reasons.setdefault(str(failure.get("cluster")), []).append(
            _line(str(failure.get("cause") or failure.get("reason") or FAILED))[:40]
        )
        errors.append(_failure_line(capability, failure))
    if broken is None and not errors:
        broken = next((_message(result) for result in results if result.get("failed")), None)
    # what ended the capability is most often the failure of a cluster that is reported already
    if broken is not None and not any(
        str(row.get("message")) in broken for result in results for row in result.get("failures") or ()
    ):
        errors.append(f"{capability}: {_line(broken) or FAILED}")
        for name in cells:
            reasons.setdefault(name, [])
    for node in sorted(
        host for host, (where, unused) in reports.lost.items() if where == capability and host in reports.nodes
    ):
        reasons.setdefault(reports.nodes[node], []).append("node " + node)
        why = _line(reports.lost[node][1])
        why = why[len(node) + 2 :] if why.startswith(node + ": ") else why
        errors.append(f"{capability}, node {node} of cluster {reports.nodes[node]}: {why}")
    unproven = _verdict(reports, reasons, errors, cells) if capability == "verify" and reports.verdict else set()
    refused, whole = _refused(reports, capability, cells)
    idle = bool(results) and all(result.get("objects") == 0 for result in results)
    ran = bool(results) or bool(errors) or (capability == "verify" and bool(reports.verdict))
    outside = reports.outside.get(capability, ())
    for name, row in cells.items():
        row[capability] = _cell(ran, reasons.get(name), refused.get(name, 0), name in unproven, idle or name in whole)
        if row[capability] == OK and name in outside:
            row[capability] = NOT_ASKED
    return errors


def _verdict(reports: RunReports, reasons: dict[str, list[str]], errors: list[str], cells: Cells) -> set[str]:
    """Clusters of which something is not proven. What is broken fails its clusters, and only a cluster of which all is proven is ok, however the run ends."""
    verdict = reports.verdict
    unproven = [str(reason) for reason in verdict.get("unproven") or ()]
    problems = [] if verdict.get("ok") else [str(problem) for problem in verdict.get("problems") or ["not proven"]]
    broken = [str(reason) for reason in verdict["broken"]] if "broken" in verdict else problems
    for name in _concerned(reports, broken, cells):
        reasons.setdefault(name, [])
    if problems:
        errors.append(
            f"verify: {len(problems)} problems, first: {_line(problems[0])}"
            if len(problems) > 1
            else "verify: " + _line(problems[0])
        )
    return _concerned(reports, unproven, cells)


def _concerned(reports: RunReports, lines: t.Iterable[str], cells: Cells) -> set[str]:
    """Clusters that reasons concern. One names a cluster (``service_mirror: cluster NAME: ...``), an object of it (``mesh: refused NAME/...``) or begins
    with its node; one that does none of it concerns all.
    """
    found: set[str] = set()
    for line in lines:
        subjects = []
        for part in (part.strip() for part in line.split(":")[:2]):
            kind, dummy, rest = part.partition(" ")
            subjects.append(rest.split("/")[0] if kind in ("cluster", "refused") else reports.nodes.get(part, part))
        found.update([name for name in subjects if name in cells] or cells)
    return found


def refused_whole(capability: str, row: Data, clusters: t.Container[str]) -> bool:
    """Whether a refusal leaves a capability nothing to do in a cluster: the cluster itself was refused, or its only object there."""
    kind = str(row.get("object", "")).partition(" ")[0]
    return row.get("object") in clusters or kind == ONE_OBJECT.get(capability)


def _refused(reports: RunReports, capability: str, cells: Cells) -> tuple[dict[str, int], set[str]]:
    """Cluster -> how much a capability refused there, and the clusters in which that left it nothing to do.

    An object's name begins with its cluster, or with its node.
    """
    counts: dict[str, int] = {}
    whole: set[str] = set()
    for row in _unique(row for result in reports.results.get(capability, ()) for row in result.get("refused") or ()):
        first = str(row.get("object", "")).split("/", 1)[0]
        words = [first, reports.nodes.get(first, ""), *first.split()]
        name = next((part for part in words if part in cells), None)
        if name is not None:
            counts[name] = counts.get(name, 0) + 1
            if refused_whole(capability, row, cells):
                whole.add(name)
    return counts, whole


def _unique(rows: t.Iterable[Data]) -> list[Data]:
    """Two results may tell of the same thing: the mesh is planned before and after it is published."""
    found: dict[tuple[tuple[str, str], ...], Data] = {}
    for row in rows:
        found.setdefault(tuple(sorted((str(name), str(value)) for name, value in row.items())), row)
    return list(found.values())


def _cell(ran: bool, reasons: t.Sequence[str] | None, refused: int, unproven: bool = False, idle: bool = False) -> str:
    """idle: the capability looks after no object there, so that what was refused is everything."""
    if not ran:
        return NOT_ASKED
    if reasons is not None:
        words = list(dict.fromkeys(reasons))
        more = f" +{len(words) - 1}" if len(words) > 1 else ""
        return f"{FAILED}: {words[0]}{more}" if words else FAILED
    if unproven:
        return NOT_PROVEN
    return f"{'' if idle else OK + ', '}refused {refused}" if refused else OK


def _failure_line(capability: str, failure: Data) -> str:
    operation = failure.get("operation")
    what = f"cannot {operation}: " if operation else ""
    lead, message = f"cluster {failure.get('cluster')}: ", str(failure.get("message"))
    message = message[len(lead) :] if message.startswith(lead) else message
    return _line(f"{capability}, {lead}{what}{message} [{failure.get('reason')}]")


def _message(result: Data) -> str:
    return str(result.get("msg") or result.get("message") or "failed, see above")


def _line(text: str) -> str:
    """One line, of which nothing moves a cursor: servers wrote parts of it."""
    plain = "".join(char if char.isprintable() else " " for char in " ".join(text.split()))
    return plain if len(plain) <= LONGEST_LINE else plain[: LONGEST_LINE - 4] + " ..."


def _table(asked: t.Sequence[str], cells: Cells) -> list[str]:
    """Clusters under each other, what failed first. Capabilities that nobody asked for have no column."""
    columns = [name for name in asked if any(row[name] != NOT_ASKED for row in cells.values())]
    order = sorted(cells, key=lambda name: (_rank(cells[name], columns), name))
    most = max(SHOWN_WELL, min(SHOWN_CLUSTERS, sum(1 for name in order if _rank(cells[name], columns) < 2)))
    shown, rest = order[:most], order[most:]
    rows = [["CLUSTER", *(name.upper() for name in columns)]] + [
        [name, *(cells[name][column] for column in columns)] for name in shown
    ]
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    if rest:
        failed = sum(1 for name in rest if _rank(cells[name], columns) == 0)
        lines.append(
            f"{len(rest)} more clusters, {failed} of them failed"
            if failed
            else f"{len(rest)} more clusters: nothing failed"
        )
    return lines


def _rank(row: t.Mapping[str, str], columns: t.Sequence[str]) -> int:
    texts = [row[name] for name in columns]
    return (
        0
        if any(text.startswith(FAILED) for text in texts)
        else 1
        if any(text not in (OK, NOT_ASKED) for text in texts)
        else 2
    )


def undone_lines(clusters: t.Iterable[str], nodes: t.Iterable[str], capabilities: t.Sequence[str]) -> list[str]:
    """What a limited run left undone (decision 68): the clusters and nodes where nothing was written, and the capabilities that did not run at all."""
    found = []
    parts = [
        f"{kind} {', '.join(names[:SHOWN_OUTSIDE])}" + (f" and {more} more" if more > 0 else "")
        for kind, names in (("clusters", sorted(set(clusters))), ("nodes", sorted(set(nodes))))
        if names
        for more in [len(names) - SHOWN_OUTSIDE]
    ]
    if parts:
        found.append(
            f"outside --limit, so nothing was written there: {'; '.join(parts)}; a run without --limit does the rest"
        )
    if capabilities:
        text = "outside --limit, so not run: {0}, which need a cluster's host in the limit, or localhost; a run without --limit does the rest"
        found.append(text.format(", ".join(capabilities)))
    return found


def refused_lines(
    refused: t.Iterable[t.Mapping[str, t.Any]],
    by_host: t.Mapping[str, t.Iterable[t.Mapping[str, t.Any]]],
    clusters: t.Container[str] = (),
) -> list[str]:
    """Sorted lines. refused: of the fabric's plan; by_host: of each host's result. Rows are {object, reason, message}.

    clusters: names; what was refused alike in several of them, under the name of each (``KIND CLUSTER/REST``), is one line.
    """
    rows: dict[tuple[str, str, str], list[str]] = {_key(row): [] for row in refused}
    for host in sorted(by_host):
        for row in by_host[host]:
            rows.setdefault(_key(row), []).append(host)
    found = []
    also: dict[tuple[str, str, str], list[str]] = {}
    for about, reason, message in sorted(key for key, hosts in rows.items() if not hosts):
        cluster, rest = of_cluster(about, clusters)
        if cluster:
            also.setdefault((rest, reason, message), []).append(cluster)
    for (about, reason, message), hosts in sorted(rows.items()):
        cluster, rest = of_cluster(about, clusters)
        alike = also.get((rest, reason, message), []) if not hosts else []
        if cluster and alike and cluster != alike[0]:
            continue
        # a refusal quotes what somebody else wrote, and a play may keep these lines as variables: nothing in them is a template
        about, message = about.replace("{", "\\x7b"), message.replace("{", "\\x7b")
        text = message if message.startswith(about) else f"{about}: {message}"
        seen = f" (refused by {in_short(hosts, SEEN_BY)})" if hosts else ""
        seen += f" (also in {', '.join(alike[1:])})" if alike[1:] else ""
        found.append(f"refused: {text} [{reason}]{seen}")
    if len(found) > LINES:
        found[LINES - 1 :] = [f"... and {len(found) - LINES + 1} more"]
    return found


def of_cluster(about: str, clusters: t.Container[str]) -> tuple[str, str]:
    """(cluster, the rest) of an object's name, ``KIND CLUSTER/REST``; two empty texts where it names no cluster."""
    kind, blank, path = about.rpartition(" ")
    cluster, dummy, rest = path.partition("/")
    return (cluster, f"{kind}{blank}{rest}".strip()) if cluster in clusters else ("", "")


def _key(row: t.Mapping[str, t.Any]) -> tuple[str, str, str]:
    return str(row.get("object")), str(row.get("reason")), str(row.get("message"))
