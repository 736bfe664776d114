# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which sources count as gone: those that do not answer, for longer than the grace time. One ConfigMap a destination remembers."""

from __future__ import annotations

import time
import typing as t

from ..._kubernetes.client import segment
from ..._kubernetes.clusters import Clusters
from ..._plan.object_plan import Key, Read, Write, plan_objects
from ..._values.text import is_digits, mapping, text_of

#: Reasons why a list failed that speak of the source's health; a refused credential does not.
OUTAGES = ("unreachable", "timed_out", "server_busy")


def unreachable_clusters(clusters: Clusters) -> set[str]:
    """Clusters that did not answer. One that answers and refuses our credential is not among them."""
    return {row["cluster"] for row in clusters.failures if row.get("cause", row["reason"]) in OUTAGES}


class Memory(t.NamedTuple):
    """Where a capability remembers outages: its ConfigMap is ``<what>-outages-<fabric>`` in the namespace."""

    what: str
    fabric: str
    namespace: str
    manager: str


def counting(
    clusters: Clusters,
    memory: Memory,
    failed: set[str],
    listed: t.Collection[str],
    here: t.Sequence[str],
    grace: float,
    forget: bool = False,
) -> dict[str, tuple[set[str], list[Write]]]:
    """{destination: (sources with an outage that counts there, writes of its record)}; nothing is read without a grace time.

    ``forget``: no outage counts and the record goes. A destination with an unreadable record is missing.
    """
    if not grace:
        return {name: (set() if forget else failed - {name}, []) for name in here}
    label = f"{memory.what}-outages-{memory.fabric}"
    path = f"/api/v1/namespaces/{segment(memory.namespace)}/configmaps"
    found = clusters.read(
        "list configmaps", lambda name, client: client.list(path, field_selector="metadata.name=" + label), here
    )
    now = int(time.time())
    made = {}
    for name, listing in found.items():
        actual = listing.items[0] if listing.items else None
        counts, since = judge(read_record(actual), failed - {name}, set(listed), now, grace)
        if forget:
            counts, since = set(), {}
        key = Key("v1", "ConfigMap", memory.namespace, label)
        read = Read({key: actual} if actual is not None else {}, frozenset(), frozenset(), {})
        desired = {key: outage_record(label, memory.namespace, since)} if since or actual is not None else {}
        unused, writes = plan_objects(
            name, desired, read, memory.manager, state="present" if since else "absent", named=True
        )
        made[name] = (counts, writes)
    return made


def outage_record(name: str, namespace: str, since: t.Mapping[str, int]) -> dict[str, t.Any]:
    """The ConfigMap: cluster -> seconds since 1970 at which it was first found unreachable."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {cluster: str(since[cluster]) for cluster in sorted(since)},
    }


def read_record(obj: t.Any) -> dict[str, int]:
    """The inverse; what is no time is left out."""
    data = {name: text_of(text) for name, text in mapping(obj, "data").items()}
    return {name: int(text) for name, text in data.items() if is_digits(text) and len(text) < 12}


def judge(
    known: t.Mapping[str, int], failed: t.Collection[str], listed: t.Collection[str], now: int, grace: float
) -> tuple[set[str], dict[str, int]]:
    """(sources with an outage that counts now, what to remember).

    A time in the future, from a controller with a clock that is ahead, starts anew.
    """
    since = {name: begun for name, begun in known.items() if name not in listed}
    for name in failed:
        since[name] = min(since.get(name, now), now)
    return {name for name in failed if now - since[name] >= grace}, since
