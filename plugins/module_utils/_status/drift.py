# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift: the changes of plans that were made without being carried out, and who has each thing now. Pure.

Nobody keeps a diary of a kernel: of a route that is gone, only the two runs between which it went are known. ``since`` is a
time that the API server recorded; ``first_seen`` and ``last_good`` are runs of ours.
"""

from __future__ import annotations

import typing as t

Data = t.Dict[str, t.Any]
#: Words for what must happen, seen from what is there.
_WORDS = {"create": "missing", "update": "differs", "delete": "not wanted"}
NOBODY = "nobody"


def entry(where: str, change: t.Mapping[str, t.Any], owner: t.Optional[str], since: t.Optional[str], note: str = "") -> Data:
    """One difference: {where, kind, name, action, difference, owner, since, note}."""
    fields = [str(name) for name in change.get("fields") or ()]
    word = _WORDS.get(str(change.get("action")), str(change.get("action")))
    return {
        "where": str(where),
        "kind": str(change.get("kind")),
        "name": str(change.get("id"))[:300],
        "action": str(change.get("action")),
        "difference": word + (": " + ", ".join(fields) if fields and word == "differs" else ""),
        "owner": owner or NOBODY,
        "since": since,
        "note": note,
    }


def key_of(row: t.Mapping[str, t.Any]) -> t.Tuple[str, str, str]:
    """What makes two runs speak of the same thing."""
    return str(row.get("where")), str(row.get("kind")), str(row.get("name"))


def compare_runs(drift: t.List[Data], previous: t.Any, now: str, unasked: t.Collection[str] = ()) -> t.Tuple[t.List[Data], Data]:
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
    gone = [{"where": key[0], "kind": key[1], "name": key[2]} for key in sorted(before) if key not in current and key[0] not in unasked]
    return rows, {"previous": at or None, "new": new, "gone": gone}
