# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of a ClusterMesh object: conditions, counts, finalizer (kilo 13.1, 14; decisions 10 and 42)."""

from __future__ import annotations

import typing as t

from .values import FINALIZER

READY, OVERLAP, SKIPPED, REACHABLE = "Ready", "NetworksOverlap", "NodesSkipped", "Reachable"
#: The API server takes 32 KiB for a condition's message.
MAX_MESSAGE = 32 * 1024

DONE, BOOTSTRAP, SYNCED = "done", "bootstrap", "synced"
#: Seconds until the next run makes sense, by how this one ended (kilo 15).
_DELAYS = {DONE: 0, BOOTSTRAP: 30, SYNCED: 300}


def next_delay(state: str, error: bool = False) -> int:
    """Seconds after which to run again, 0 for no timer; errors are left to whoever repeats runs."""
    return 0 if error else _DELAYS.get(state, 0)


class Steps(t.NamedTuple):
    """What one pass does with an object: ``state`` as for the next delay (None: go on), and what it writes first."""

    state: str | None
    writes: list[str]
    cleanup: bool = False


def object_steps(
    exists: bool, finalizers: t.Container[str] = (), deleting: bool = False, overlap: bool = False
) -> Steps:
    """The first steps of one pass over one object.

    A pass that adds the finalizer ends there. A run makes the next pass at once, there is no event to wait for.
    """
    if not exists:
        return Steps(DONE, [])
    if deleting:
        owned = FINALIZER in finalizers
        return Steps(DONE, ["finalizer"] if owned else [], owned)
    if FINALIZER not in finalizers:
        return Steps(DONE, ["finalizer"])
    return Steps(DONE, ["status"]) if overlap else Steps(None, [])


class Outcome(t.NamedTuple):
    """What a mesh's run found: everything its status has.

    ``problem``: the first message of the validation, or None. ``clusters``: [(name, Peers, skipped nodes)] of the sources
    that were read. ``skipped``: [(cluster/node, reason)]. ``unreachable``: {cluster: reason}. ``isolated``: {cluster: reason} of
    those without any Peer. ``pending``: how many Peers differ from what was planned.
    """

    problem: str | None
    clusters: list[tuple[str, int, int]]
    skipped: list[tuple[str, str]]
    unreachable: t.Mapping[str, str]
    isolated: t.Mapping[str, str] = {}
    pending: int = 0


def conditions(outcome: Outcome) -> list[dict[str, str]]:
    """The conditions without times, in the operator's form; NodesSkipped and Reachable are additions of the collection."""
    if outcome.problem is not None:
        return [
            _condition(OVERLAP, "True", "CIDROverlap", outcome.problem),
            _condition(READY, "False", "NetworksOverlap", "CIDR overlap detected across meshes"),
        ]
    found = [_condition(OVERLAP, "False", "NoOverlap", "all CIDRs are disjoint")]
    if outcome.unreachable:
        names = ", ".join(f"{name} ({outcome.unreachable[name]})" for name in sorted(outcome.unreachable))
        found.append(_condition(READY, "False", "Degraded", "not reconciled: " + names))
        found.append(_condition(REACHABLE, "False", "ClustersUnreachable", names))
    else:
        if outcome.isolated:
            names = ", ".join(f"{name} ({outcome.isolated[name]})" for name in sorted(outcome.isolated))
            found.append(_condition(READY, "False", "Degraded", "no node gets a Peer: " + names))
        elif outcome.pending:
            found.append(_condition(READY, "False", "OutOfSync", f"Peers that differ: {outcome.pending}"))
        else:
            found.append(_condition(READY, "True", "Reconciled", "all clusters reconciled successfully"))
        found.append(_condition(REACHABLE, "True", "AllReachable", "all clusters answered"))
    if outcome.skipped:
        lines = [f"{name}: {reason}" for name, reason in sorted(outcome.skipped)]
        found.append(_condition(SKIPPED, "True", "NodesSkipped", "\n".join(lines)))
    else:
        found.append(_condition(SKIPPED, "False", "NoneSkipped", "every node has a Peer"))
    return found


def _condition(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
    raw = message.encode("utf-8", "replace")
    if len(raw) > MAX_MESSAGE:
        message = raw[: MAX_MESSAGE - 4].decode("utf-8", "ignore") + "\n..."
    return {"type": kind, "status": status, "reason": reason, "message": message}


def desired_status(current: t.Any, outcome: Outcome, generation: t.Any, now: str) -> dict[str, t.Any]:
    """The whole status; equal to ``current`` when nothing is to be written.

    A transition time changes with its condition's status alone. Conditions of others stay. With a problem the counts of
    the last good run stay. ``now`` is RFC 3339 text.
    """
    current = current if isinstance(current, dict) else {}
    given = current.get("conditions")
    before = {
        item["type"]: item
        for item in (given if isinstance(given, list) else ())
        if isinstance(item, dict) and "type" in item
    }
    desired = {item["type"]: item for item in conditions(outcome)}
    merged: list[dict[str, t.Any]] = []
    for kind in list(before) + [kind for kind in desired if kind not in before]:
        if kind not in desired:
            merged.append(before[kind])
            continue
        old = before.get(kind, {})
        since = old.get("lastTransitionTime") if old.get("status") == desired[kind]["status"] else None
        merged.append(dict(desired[kind], observedGeneration=generation, lastTransitionTime=since or now))
    status = dict(current, conditions=merged)
    if outcome.problem is None:
        status["clusters"] = cluster_counts(outcome)
    return status


def cluster_counts(outcome: Outcome) -> list[dict[str, t.Any]]:
    return [
        {"name": name, "registeredPeers": peers, "skippedNodes": skipped} for name, peers, skipped in outcome.clusters
    ]


def with_finalizer(finalizers: t.Any, present: bool) -> list[str]:
    """The finalizers with or without our own; those of others keep their order."""
    others = [item for item in (finalizers if isinstance(finalizers, list) else ()) if item != FINALIZER]
    return others + [FINALIZER] if present else others
