# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Status of imports and exports: written last, when it is known what was done (mcs 2, 3). Pure."""

from __future__ import annotations

import typing as t

from ..._plan.list_kinds import same_list
from ..._plan.object_plan import Key, Write
from ..._plan.objects import record_of
from ..._plan.plan import UPDATE, Change
from ..._values.text import mapping
from ..mirror_services import Manifest, Object
from .conditions import TYPES, Reach, conditions, differs, known_conditions
from .exports import Exported
from .merge import Merged
from .names import EXPORT, IMPORT, Id
from .plan import Here

#: Whether slices of an import exist as objects, for clients such as implementations of the Gateway API.
SLICE_OBJECTS, PRESENT, ABSENT = "endpointSliceObjects", "Present", "Absent"


def status_manager(manager: str) -> str:
    """Who writes status. Servers before 1.22 keep no record of subresources apart: one name for both would give up what it had applied."""
    return manager + "/status"


def shows_slice_objects(here: Here) -> bool:
    """Whether an import of the cluster has ``status.endpointSliceObjects``, so that its API server stores that field."""
    return any(SLICE_OBJECTS in mapping(obj, "status") for key, obj in here.objects.items() if key.kind == IMPORT)


def stores_slice_objects(definition: Object, version: str) -> bool:
    """Whether a CustomResourceDefinition of imports has the field in that version, ``group/name``. False for what has another form."""
    try:
        rows = {row["name"]: row for row in definition["spec"]["versions"]}
        status = rows[version.rpartition("/")[2]]["schema"]["openAPIV3Schema"]["properties"]["status"]
        return SLICE_OBJECTS in status["properties"]
    except (KeyError, TypeError):
        return False


def import_statuses(
    here: Here, clusters: t.Mapping[Id, t.Sequence[str]], skip: t.Collection[Id], with_slice_objects: bool = False
) -> list[Write]:
    """Which clusters each import is made of, by their ids. An import that is still to be made is written as it will be.

    with_slice_objects: whether the API server stores ``endpointSliceObjects`` (KEP-1645 of 2026); an older definition refuses the field.
    """
    found = []
    slices = {SLICE_OBJECTS: ABSENT if here.listed.discovery is None else PRESENT} if with_slice_objects else {}
    for place in sorted(clusters):
        key, desired = here.import_key(place), [{"cluster": name} for name in clusters[place]]
        obj = here.objects.get(key)
        if place in skip or here.namespaces.get(place[0]) is not False or (obj is not None and key not in here.mine):
            continue
        status = mapping(obj, "status")
        before = {field: status[field] for field in ("clusters", SLICE_OBJECTS) if status.get(field)}
        same = same_list(IMPORT, ("status", "clusters"), before.get("clusters"), desired)
        if not same or (slices and slices[SLICE_OBJECTS] != before.get(SLICE_OBJECTS)):
            found.append(_write(here.name, key, obj, before or None, {"clusters": desired, **slices}))
    return found


def export_statuses(
    here: Here, exported: Exported, merged: t.Mapping[Id, Merged], reach: t.Mapping[Id, Reach], now: str
) -> list[Write]:
    """The conditions of every export of a cluster that are other than they should be. now: as Kubernetes writes it."""
    found = []
    for place, claim in exported.claims.items():
        desired = conditions(claim, merged.get(place), reach.get(place, Reach()), now)
        if differs(claim.object, desired):
            key = Key(here.listed.version, EXPORT, *place)
            before = known_conditions(claim.object)
            shown = {"conditions": [dict(before[kind]) for kind in sorted(before)]} if before else None
            found.append(_write(here.name, key, claim.object, shown, {"conditions": desired}))
    return found


def without_conditions(here: Here, manager: str) -> list[Write]:
    """The writes that take our conditions away again from every export that has some; the manifests are merge patches."""
    found = []
    for obj in here.listed.exports:
        mine = any(entry.get("manager") == status_manager(manager) for entry in record_of(obj))
        place = (str(obj["metadata"].get("namespace")), str(obj["metadata"].get("name")))
        if mine and here.namespaces.get(place[0]) is False and not obj["metadata"].get("deletionTimestamp"):
            key, known = Key(here.listed.version, EXPORT, *place), known_conditions(obj)
            rest = [dict(condition) for kind, condition in known.items() if kind not in TYPES]
            apart = set(obj.get("status") or ()) - {"conditions"}
            left = {"conditions": rest or None} if rest or apart else None
            found.append(_write(here.name, key, obj, {"conditions": list(known.values())}, left, False))
    return found


def _write(
    cluster: str, key: Key, obj: Object | None, before: t.Any, status: Manifest | None, applied: bool = True
) -> Write:
    meta = (obj or {"metadata": {}})["metadata"]
    change = Change(UPDATE, key.kind, f"{cluster}/{key.short}", {"status": before}, {"status": status})
    manifest = {
        "apiVersion": key.api_version,
        "kind": key.kind,
        "metadata": {"name": key.name, "namespace": key.namespace},
        "status": status,
    }
    return Write(change, key, manifest, meta.get("uid"), meta.get("resourceVersion"), applied)
