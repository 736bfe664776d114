# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a fabric was at earlier runs: one row for as long as nothing changed, and no more rows than a reader wants. Pure."""

from __future__ import annotations

import typing as t

Data = t.Dict[str, t.Any]

ROWS = 200
#: What makes a run differ from the one before.
_NUMBERS = ("nodes", "nodes_answered", "tunnels", "tunnels_up", "drift", "refused", "failures")


def remember(previous: t.Any, document: t.Mapping[str, t.Any]) -> t.List[Data]:
    """The rows of the previous document with this run: [{first, last, runs, verdict, cause, numbers...}], newest last."""
    given = previous.get("history") if isinstance(previous, dict) else None
    rows = [dict(row) for row in given if _is_row(row)][-ROWS:] if isinstance(given, list) else []
    verdict = document["verdict"]
    row: Data = {name: document["summary"][name] for name in _NUMBERS}
    row.update(verdict=verdict["value"], cause=next(iter(verdict["broken"] + verdict["unproven"]), ""))
    if rows and all(rows[-1].get(name) == row[name] for name in (*_NUMBERS, "verdict")):
        rows[-1].update(last=document["generated"], runs=rows[-1]["runs"] + 1, cause=row["cause"])
    else:
        rows.append(dict(row, first=document["generated"], last=document["generated"], runs=1))
    return rows[-ROWS:]


def _is_row(row: t.Any) -> bool:
    """The file lies where others may write: what is not of our form is left out."""
    return (
        isinstance(row, dict)
        and all(isinstance(row.get(name), int) for name in (*_NUMBERS, "runs"))
        and all(isinstance(row.get(name), str) and len(row[name]) <= 500 for name in ("first", "last", "verdict", "cause"))
    )
