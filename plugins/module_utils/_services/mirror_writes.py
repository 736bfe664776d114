# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a cluster should have in its mirror namespace to the writes that get it there, in an order that opens no hole. Pure."""

from __future__ import annotations

import typing as t

from .._plan.object_plan import Key, Read, Write, plan_objects
from .._plan.objects import inside, is_owned, owned_tree
from .._plan.plan import DELETE, UPDATE, Change, Plan
from .._plan.sole_owner import others, release_patch, surplus
from .global_services import GLOBAL, MIRRORED_SLICE
from .mirror_services import MIRRORED, Manifest, Object

#: What others need comes first, when things are made and the other way round when they go.
_ORDER = ("Service", "EndpointSlice", "Endpoints")
_OUR_LABELS = (MIRRORED, GLOBAL, MIRRORED_SLICE)
_NOTHING: frozenset[t.Any] = frozenset()
#: What of a manifest identifies the object.
_APART = frozenset(("apiVersion", "kind", "metadata"))


class Settled(t.NamedTuple):
    """What may be written, once it is clear who owns every object.

    ``manifests``: what should be there. ``keep``: keys that are left alone. ``recreate``: keys that are deleted before they
    are made anew. ``adopted``: keys of semaphore-service-mirror's objects that are taken over.
    """

    manifests: dict[Key, Manifest]
    keep: set[Key]
    recreate: set[Key]
    adopted: set[Key]


def owned(obj: Object, manager: str) -> bool:
    """True when our field manager applied the object: something outside its metadata, or the label that marks it.

    Endpoints without any address have nothing but their labels.
    """
    if is_owned(obj, manager):
        return True
    labels = inside(owned_tree(obj, manager, "Apply"), "f:metadata", "f:labels")
    return any("f:" + label in labels for label in _OUR_LABELS)


def plan_writes(
    local: str, settled: Settled, objects: t.Mapping[Key, Object], stale: t.Iterable[Key], manager: str
) -> tuple[Plan, list[Write]]:
    """Old forms that cannot be changed go first, then what is desired is made and changed, then the rest goes."""
    plan = Plan()
    recreate, adopted = settled.recreate, settled.adopted
    there = {key: obj for key, obj in objects.items() if key not in recreate} if recreate else objects
    todo = {
        key: manifest
        for key, manifest in settled.manifests.items()
        if key not in there or key in adopted or not _same(manifest, there[key], manager)
    }
    plan.unchanged += len(settled.manifests) - len(todo)
    # the owner of an object was settled before; what we own is repaired, whoever edited it
    part, writes = plan_objects(local, todo, _read(there), manager, adopt=True, alone=True)
    plan.refused.extend(part.refused)
    plan.unchanged += part.unchanged
    # a name that was free when it was looked at is not taken by force
    writes = [write._replace(force=False) if write.uid is None else write for write in writes]
    writes.sort(key=lambda write: (_ORDER.index(write.key.kind), write.key))
    writes = _deletes(local, objects, recreate, manager) + writes + _deletes(local, objects, stale, manager)
    plan.changes.extend(write.change for write in writes)
    return plan, writes


def plan_release(
    local: str, objects: t.Mapping[Key, Object], keys: t.Iterable[Key], manager: str
) -> tuple[Plan, list[Write]]:
    """Objects given back as they are: nothing of them changes but that nobody is on record as their owner (decision 1).

    A write's manifest is the merge patch that does it.
    """
    plan, writes = Plan(), []
    for key in sorted(keys):
        meta = objects[key]["metadata"]
        change = Change(UPDATE, key.kind, f"{local}/{key.short}", {"owner": manager}, {"owner": None})
        writes.append(
            Write(change, key, release_patch(objects[key]), meta.get("uid"), meta.get("resourceVersion"), False)
        )
    plan.changes.extend(write.change for write in writes)
    return plan, writes


def _read(objects: t.Mapping[Key, Object]) -> Read:
    return Read(objects, _NOTHING, _NOTHING, {})


def _same(manifest: Manifest, actual: Object, manager: str) -> bool:
    """True when an owned object plainly is as desired. False decides nothing: the slower comparison does.

    Most objects of most runs end here. Nothing that we ever applied can be left over in these fields, and what others write
    they are on record for.
    """
    meta, found = manifest["metadata"], actual["metadata"]
    if found.get("labels") != meta["labels"] or found.get("deletionTimestamp") or others(actual, manager):
        return False
    if manifest["kind"] != "Service":
        return not any(actual.get(name) != value for name, value in manifest.items() if name not in _APART)
    spec, desired = actual.get("spec") or {}, manifest["spec"]
    if (found.get("annotations") or {}) != (meta.get("annotations") or {}):
        return False
    if surplus(manifest, actual, manager):
        return False
    return all(spec.get(name) == value for name, value in desired.items())


def _deletes(local: str, objects: t.Mapping[Key, Object], keys: t.Iterable[Key], manager: str) -> list[Write]:
    there = {key: objects[key] for key in keys}
    dummy, writes = plan_objects(local, {key: {} for key in there}, _read(there), manager, state="absent", adopt=True)
    writes = [write for write in writes if write.change.action == DELETE]
    writes.sort(key=lambda write: (-_ORDER.index(write.key.kind), write.key))
    return writes


def recreated(writes: t.Iterable[Write]) -> set[str]:
    """Names of Services that are deleted and made anew: Kubernetes may take their Endpoints away in between."""
    gone = {write.key.name for write in writes if write.manifest is None and write.key.kind == "Service"}
    return gone & {write.key.name for write in writes if write.manifest is not None and write.key.kind == "Service"}
