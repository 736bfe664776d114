# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the runs of the tenant mapping report: one change an object, why each object waits, and what failed."""

from __future__ import annotations

import collections
import typing as t

from ..._kubernetes.clusters import Clusters
from ..._plan.objects import stripped
from ..._plan.plan import CREATE, DELETE, SHOWN_CHANGES, UPDATE, Change, Plan
from ..._tenants.converge import Done, Outcome, Result

Rows = t.List[t.Dict[str, t.Any]]


def plan_of(result: Result, names: t.Mapping[str, str]) -> Plan:
    """Writes as changes: those of one object together, in the order of its first. ``names``: side -> cluster."""
    plan = Plan()
    first: t.Dict[t.Any, Done] = {}
    last: t.Dict[t.Any, Done] = {}
    for entry in result.done:
        place = (entry.step.side, _key(entry))
        first.setdefault(place, entry)
        last[place] = entry
    for place, entry in first.items():
        side, key = place
        before, after = entry.before, last[place].after
        if before is None and after is None:
            continue  # made and taken away again
        action = CREATE if before is None else DELETE if after is None else UPDATE
        shown = [None if obj is None else _shown(obj) for obj in (before, after)]
        plan.changes.append(Change(action, key.kind, "{0}/{1}".format(names[side], key.short), *shown))
    plan.unchanged = counts(result.outcomes).get("unchanged", 0)
    plan.refused = sorted(set(result.refused))
    return plan


def _key(entry: Done) -> t.Any:
    """The key of a write; a generated name is known only afterwards."""
    if not entry.step.key.name and entry.after is not None:
        return entry.step.key._replace(name=str(entry.after["metadata"].get("name")))
    return entry.step.key


def _shown(obj: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    shown = stripped(obj)
    if obj.get("status"):
        shown["status"] = obj["status"]
    if obj["metadata"].get("deletionTimestamp"):
        shown["metadata"]["deletionTimestamp"] = obj["metadata"]["deletionTimestamp"]
    return shown


def counts(outcomes: t.Sequence[Outcome]) -> t.Dict[str, int]:
    """Action -> how many objects."""
    return dict(sorted(collections.Counter(outcome.action for outcome in outcomes).items()))


def object_rows(outcomes: t.Sequence[Outcome]) -> Rows:
    """One row an object: kind, namespace, name, action and reasons."""
    rows = [
        {
            "kind": outcome.key.kind,
            "namespace": outcome.key.namespace,
            "name": outcome.key.name,
            "action": outcome.action,
            "reasons": [condition._asdict() for condition in outcome.reasons],
        }
        for outcome in outcomes
    ]
    return sorted(rows, key=lambda row: (row["kind"], row["namespace"], row["name"]))


def pending_rows(outcomes: t.Sequence[Outcome]) -> Rows:
    """The objects that wait for something, each with its reasons; as many as a result carries."""
    waiting = [outcome for outcome in outcomes if outcome.reasons]
    rows = object_rows(waiting)[:SHOWN_CHANGES]
    for row in rows:
        del row["action"]
    return rows


def add_failures(clusters: Clusters, outcomes: t.Sequence[Outcome], name: str, operation: str = "map") -> None:
    """Objects that failed, as failures of a cluster. A list that could not be read is reported already, once."""
    reported = bool(clusters.failures)
    for outcome in outcomes:
        for reason, message in outcome.failures:
            if not (reported and reason == "source_incomplete"):
                label = "{0} {1} {2}".format(operation, outcome.key.kind, outcome.key.short)
                clusters.failures.append({"cluster": name, "operation": label, "reason": reason, "message": message, "status": None})
