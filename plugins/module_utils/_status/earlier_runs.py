# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the fabric was at earlier runs: since when something differs, and one row for as long as nothing changed. Pure."""

from __future__ import annotations

import typing as t

from .._values.text import dicts_of

Data = dict[str, t.Any]

ROWS = 200


#: What makes a run differ from the one before.
_NUMBERS = ("nodes", "nodes_answered", "tunnels", "tunnels_up", "drift", "refused", "failures")


_TEXTS = ("first", "last", "verdict", "cause")


def key_of(row: t.Mapping[str, t.Any]) -> tuple[str, str, str]:
    """What makes two runs speak of the same thing."""
    return str(row.get("where")), str(row.get("kind")), str(row.get("name"))


def compare_runs(
    drift: list[Data], previous: t.Any, now: str, unasked: t.Collection[str] = ()
) -> tuple[list[Data], Data]:
    """(drift with ``first_seen`` and ``last_good``, what is new and what is gone since the previous document).

    ``unasked``: places where this run did not look, so nothing is gone there.
    """
    known = isinstance(previous, dict) and isinstance(previous.get("drift"), list)
    before = {key_of(row): row for row in previous["drift"] if isinstance(row, dict)} if known else {}
    at = str(previous.get("generated") or "") if known else ""
    rows, new = [], []
    for row in sorted(drift, key=key_of):
        old = before.get(key_of(row))
        first = str(old.get("first_seen") or at) if old else now
        good = str(old.get("last_good") or "") if old else at
        rows.append(dict(row, first_seen=first, last_good=good or None))
        if known and old is None:
            new.append({name: row[name] for name in ("where", "kind", "name")})
    current = {key_of(row) for row in drift}
    gone = [
        {"where": key[0], "kind": key[1], "name": key[2]}
        for key in sorted(before)
        if key not in current and key[0] not in unasked
    ]
    return rows, {"previous": at or None, "new": new, "gone": gone}


def remember(previous: t.Any, document: t.Mapping[str, t.Any]) -> list[Data]:
    """The rows of the previous document with this run: [{first, last, runs, verdict, cause, numbers...}], newest last."""
    given = previous.get("history") if isinstance(previous, dict) else None
    rows = [{name: row[name] for name in (*_NUMBERS, "runs", *_TEXTS)} for row in dicts_of(given) if _is_row(row)][
        -ROWS:
    ]
    verdict = document["verdict"]
    row: Data = {name: document["summary"][name] for name in _NUMBERS}
    row.update(verdict=verdict["value"], cause=next(iter(verdict["broken"] + verdict["unproven"]), ""))
    if rows and all(rows[-1].get(name) == row[name] for name in (*_NUMBERS, "verdict")):
        rows[-1].update(last=document["generated"], runs=rows[-1]["runs"] + 1, cause=row["cause"])
    else:
        rows.append(dict(row, first=document["generated"], last=document["generated"], runs=1))
    return rows[-ROWS:]


def _is_row(row: t.Any) -> bool:
    """The file is where others may write: what is not of our form is left out."""
    return all(isinstance(row.get(name), int) and row[name] >= 0 for name in (*_NUMBERS, "runs")) and all(
        isinstance(row.get(name), str) and len(row[name]) <= 500 for name in _TEXTS
    )
