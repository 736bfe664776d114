# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which news of an API server are news for the fabric, and many of them as one event. Pure; the caller has the clock.

A watch reports every heartbeat. What counts is what a plan reads of an object. Objects are remembered
as digests of that, so that a fresh list after an outage gives the real differences and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import typing as t

from .._values.text import mapping
from .objects import MANAGED_BY, MANAGED_BY_US, MANAGER_PREFIX

Data = t.Mapping[str, t.Any]
#: Annotations that change without meaning anything: heartbeats, elections, copies of the object.
NOISE = frozenset(
    (
        "control-plane.alpha.kubernetes.io/leader",
        "deprecated.daemonset.template.generation",
        "endpoints.kubernetes.io/last-change-trigger-time",
        "kilo.squat.ai/discovered-endpoints",
        "kilo.squat.ai/last-seen",
        "kubectl.kubernetes.io/last-applied-configuration",
        "node.alpha.kubernetes.io/ttl",
        "volumes.kubernetes.io/controller-managed-attach-detach",
    )
)
#: Kinds that exist to be written all the time.
HEARTBEATS = frozenset(("Lease", "Event"))
_META = ("apiVersion", "kind", "metadata", "status")
#: Parts of the status that plans read.
_STATUS = {"Node": ("addresses",), "Pod": ("podIP", "podIPs", "hostIP", "phase"), "Service": ("loadBalancer",)}
#: Parts of the spec that plans read, where most of it is no matter of the network; None: all of it.
_SPEC = {
    "Node": ("podCIDR", "podCIDRs", "providerID"),
    "Pod": ("nodeName", "hostNetwork"),
    "BlockAffinity": ("cidr", "node", "state", "deleted"),
    "IPAMBlock": ("cidr", "affinity", "deleted"),
    "CiliumNode": (),
}
#: Names in one event; ``count`` is how many there were.
NAMES = 100


class Change(t.NamedTuple):
    """One object that is new, other or gone: ``type`` is added, changed or removed."""

    kind: str
    namespace: str
    name: str
    type: str


def is_own(obj: Data) -> bool:
    """Whether this collection, or a program that it replaced, made the whole object: an answer, not a question."""
    labels = mapping(obj, "metadata", "labels")
    if labels.get(MANAGED_BY) == MANAGED_BY_US:
        return True
    owners = (labels.get("managed-by"), labels.get("endpointslice.kubernetes.io/managed-by"))
    return any(
        isinstance(owner, str)
        and owner.startswith(("semaphore-", "multicluster.network", "multicluster-mcs.multicluster.network"))
        for owner in owners
    )


def published(metadata: t.Any) -> frozenset[str]:
    """Annotations that this collection applied: an answer too. What somebody else writes into one of them is his from then on."""
    rows = mapping(metadata).get("managedFields")
    found: set[str] = set()
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and str(row.get("manager")).startswith(MANAGER_PREFIX):
            fields = mapping(row, "fieldsV1", "f:metadata", "f:annotations")
            found.update(name[2:] for name in fields if name.startswith("f:"))
    return frozenset(found)


def digest(kind: str, obj: Data) -> str:
    """A digest of what plans read of an object: labels, annotations without noise, and what is not housekeeping."""
    metadata = mapping(obj, "metadata")
    status, spec = mapping(obj, "status"), mapping(obj, "spec")
    desired = _SPEC.get(kind)
    annotations = mapping(metadata, "annotations")
    unreachable = NOISE | published(metadata)
    shown: dict[str, t.Any] = {name: value for name, value in obj.items() if name not in _META}
    if desired is not None:
        shown["spec"] = {name: spec.get(name) for name in desired}
    if kind == "IPAMBlock":
        shown["borrowed"] = _borrowed(spec)
    elif kind == "CiliumNode":
        shown["ipam"] = [mapping(spec, "ipam").get("podCIDRs"), mapping(spec, "ipam", "pools").get("allocated")]
    shown["metadata"] = [
        mapping(metadata, "labels"),
        {name: value for name, value in annotations.items() if name not in unreachable},
        bool(metadata.get("deletionTimestamp")),
        metadata.get("uid"),
    ]
    shown["status"] = {name: status.get(name) for name in _STATUS.get(kind, ())}
    if kind == "Pod":
        ready = [
            row.get("status")
            for row in status.get("conditions") or ()
            if isinstance(row, dict) and row.get("type") == "Ready"
        ]
        shown["status"]["ready"] = ready
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def _borrowed(spec: Data) -> list[t.Any]:
    """Allocations of a block of Calico to other nodes than its own: all that counts of allocations, of which each pod is one (pod_ranges 1)."""
    given, attributes = spec.get("allocations"), spec.get("attributes")
    if not isinstance(given, list) or not isinstance(attributes, list):
        return []
    nodes = [str(mapping(row, "secondary").get("node")) for row in attributes]
    own = str(spec.get("affinity")).partition(":")[2]
    # a boolean is an int to Python, and no place in a list
    rows = [(place, n) for place, n in enumerate(given) if isinstance(n, int) and not isinstance(n, bool)]
    return [[place, nodes[n]] for place, n in rows if 0 <= n < len(nodes) and nodes[n] != own]


class ChangeTracker:
    """What one kind of one cluster was like when it was last heard of."""

    def __init__(self, kind: str, ignore_own: bool = True) -> None:
        self._kind, self._ignore_own = kind, ignore_own
        self._known: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        return len(self._known)

    def replace(self, objects: t.Iterable[Data]) -> list[Change]:
        """A complete list takes the place of what was known; the differences, in stable order."""
        fresh = {}
        for obj in objects:
            key = self._key(obj)
            if key is not None:
                fresh[key] = digest(self._kind, obj)
        changes = [self._change(key, "removed") for key in self._known if key not in fresh]
        for key, shown in fresh.items():
            if self._known.get(key) != shown:
                changes.append(self._change(key, "changed" if key in self._known else "added"))
        self._known = fresh
        return sorted(changes)

    def observe(self, event: str, obj: Data) -> Change | None:
        """One row of a watch (ADDED, MODIFIED, DELETED); None when it is no news."""
        key = self._key(obj)
        if event == "DELETED":
            key = self._place(obj)
            return self._change(key, "removed") if key is not None and self._known.pop(key, None) is not None else None
        if key is None:
            # an object that became owned, or lost what made it count
            place = self._place(obj)
            return (
                self._change(place, "removed")
                if place is not None and self._known.pop(place, None) is not None
                else None
            )
        shown = digest(self._kind, obj)
        before = self._known.get(key)
        self._known[key] = shown
        return None if before == shown else self._change(key, "added" if before is None else "changed")

    def _key(self, obj: Data) -> tuple[str, str] | None:
        if self._kind in HEARTBEATS or (self._ignore_own and is_own(obj)):
            return None
        return self._place(obj)

    def _place(self, obj: Data) -> tuple[str, str] | None:
        metadata = mapping(obj, "metadata")
        if not isinstance(metadata.get("name"), str):
            return None
        return str(metadata.get("namespace") or ""), metadata["name"]

    def _change(self, key: tuple[str, str], what: str) -> Change:
        return Change(self._kind, key[0], key[1], what)


class Debounce:
    """Collects changes until none came for a while, but not for ever: ``add`` them; ``due`` returns when to ``take`` them.

    ``window`` seconds of quiet end a collection, ``longest`` seconds after its first change it ends in any case.
    """

    def __init__(self, window: float = 1.0, longest: float = 5.0) -> None:
        if not 0 <= window <= longest:
            raise ValueError("window must not be longer than longest")
        self._window, self._longest = window, longest
        self._first: float | None = None
        self._last = 0.0
        self._found: dict[tuple[str, str], dict[str, str]] = {}

    def add(self, cluster: str, change: Change, now: float) -> None:
        """One change of one cluster. The last one of an object counts."""
        name = f"{change.namespace}/{change.name}" if change.namespace else change.name
        self._found.setdefault((cluster, change.kind), {})[name] = change.type
        self._first = now if self._first is None else self._first
        self._last = now

    def due(self, now: float) -> float | None:
        """Seconds until the collection ends, 0 when it is over; None while there is nothing."""
        if self._first is None:
            return None
        return max(0.0, min(self._last + self._window, self._first + self._longest) - now)

    def take(self) -> list[dict[str, t.Any]]:
        """One event for each cluster and kind: {cluster, kind, names, count, types}; begins anew."""
        events = []
        for cluster, kind in sorted(self._found):
            names = self._found[cluster, kind]
            events.append(
                {
                    "cluster": cluster,
                    "kind": kind,
                    "names": sorted(names)[:NAMES],
                    "count": len(names),
                    "types": sorted(set(names.values())),
                }
            )
        self._found, self._first = {}, None
        return events
