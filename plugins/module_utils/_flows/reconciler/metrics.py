# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the reconciler counts, as Prometheus reads it."""

from __future__ import annotations

import threading
import typing as t

PREFIX = "multicluster_reconciler_"
#: Seconds between an event and the object that was written for it.
BUCKETS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0)
_HELP = {
    "events_total": ("counter", "Changes of objects that a plan reads."),
    "writes_total": ("counter", "Objects written or removed."),
    "plans_total": ("counter", "Plans, of a part or of everything."),
    "plan_seconds_total": ("counter", "Seconds spent on plans and writes."),
    "errors_total": ("counter", "Turns that failed and come again."),
    "playbooks_total": ("counter", "Playbooks that were run, by result."),
    "node_calls_total": ("counter", "Calls of nodes with what to announce, or pod ranges of peers, by result."),
    "ansible_starts_total": ("counter", "Node calls that had to start Ansible, since it was not in memory."),
    "requests_total": ("counter", "Requests to API servers, by verb and code."),
    "reaction_seconds": ("histogram", "Seconds from an event to the objects written for it."),
    "queue_length": ("gauge", "Keys that wait."),
    "lost_pairs_held": (
        "gauge",
        "Pairs of a cluster and what it reaches in another that a plan would lose, and that stay until it is confirmed.",
    ),
    "oldest_event_seconds": ("gauge", "How long the oldest event waits."),
    "whole_plan_age_seconds": ("gauge", "Seconds since the last plan of everything."),
    "watch_current": ("gauge", "1 where a list is whole and followed."),
    "objects": ("gauge", "Objects that are remembered."),
    "watch_silent_seconds": ("gauge", "Seconds since a watch reported anything; bookmarks come about once a minute."),
    "leader": ("gauge", "1 where this reconciler has the cluster's Lease."),
    "waits_for_play": ("gauge", "1 while a play that writes the same has the lock of the fabric."),
    "settings_age_seconds": ("gauge", "Seconds since the settings were read from the inventory."),
    "settings_current": ("gauge", "0 where the inventory could not be read and the settings before it are used."),
}
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters and one histogram; gauges come with the text. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[str, Labels], float] = {}
        self._reactions: dict[str, list[float]] = {}

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        key = name, tuple(sorted(labels.items()))
        with self._lock:
            self._values[key] = self._values.get(key, 0) + amount

    def turn(self, capability: str, seconds: float, reaction: float | None, writes: int, everything: bool) -> None:
        """One turn of a capability that ended; ``reaction``: seconds from the oldest event that it was for, None where it was for none."""
        self.count("plans_total", capability=capability, of="everything" if everything else "part")
        self.count("plan_seconds_total", seconds, capability=capability)
        self.count("writes_total", writes, capability=capability)
        if writes and reaction is not None:
            with self._lock:
                row = self._reactions.setdefault(capability, [0.0] * (len(BUCKETS) + 2))
                for index, bound in enumerate(BUCKETS):
                    row[index] += reaction <= bound
                row[-2] += 1
                row[-1] += reaction

    def text(self, gauges: t.Iterable[tuple[str, t.Mapping[str, str], float]] = ()) -> str:
        """Prometheus' text format."""
        with self._lock:
            rows = dict(self._values)
            reactions = {name: list(row) for name, row in self._reactions.items()}
        for name, labels, value in gauges:
            rows[name, tuple(sorted(labels.items()))] = value
        lines: list[str] = []
        for name, (kind, about) in _HELP.items():
            body = (
                _histogram(name, reactions)
                if kind == "histogram"
                else [
                    f"{PREFIX}{name}{_labels(labels)} {_number(value)}"
                    for (one, labels), value in sorted(rows.items())
                    if one == name
                ]
            )
            if body:
                lines += [f"# HELP {PREFIX}{name} {about}", f"# TYPE {PREFIX}{name} {kind}", *body]
        return "\n".join(lines) + "\n"


def _histogram(name: str, reactions: t.Mapping[str, t.Sequence[float]]) -> list[str]:
    lines = []
    for capability, row in sorted(reactions.items()):
        label = ("capability", capability)
        for bound, value in zip([*map(_number, BUCKETS), "+Inf"], [*row[:-2], row[-2]]):
            lines.append(f"{PREFIX}{name}_bucket{_labels((label, ('le', bound)))} {_number(value)}")
        lines.append(f"{PREFIX}{name}_count{_labels((label,))} {_number(row[-2])}")
        lines.append(f"{PREFIX}{name}_sum{_labels((label,))} {_number(row[-1])}")
    return lines


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    escaped = [(name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for name, value in labels]
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"


def _number(value: float) -> str:
    return (
        repr(round(value, 6)).rstrip("0").rstrip(".")
        if isinstance(value, float) and value != int(value)
        else str(int(value))
    )
