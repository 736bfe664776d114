# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirrors and global Services that a plan leaves without any endpoint, although a cluster has a Service with endpoints for them. Pure."""

from __future__ import annotations

import typing as t

from .._plan.object_plan import Key, Write
from .._plan.objects import labels_of
from .exports import Exports, Id, Listed, Options, id_of, label_of
from .global_services import CLUSTER_LABEL, GLOBAL, MIRRORED_SLICE
from .losses import Loss
from .mirror_plan import objects_of
from .mirror_services import MIRRORED, Object, is_external_name
from .names import global_name, mirror_name
from .service_annotations import chosen_name
from .slices import SERVICE_NAME
from .sweeps import MIRROR, SHARED, mark_of

#: The Service has not the label that shares it; what holds it back is refused.
UNLABELLED, REFUSED = "service_unlabelled", "service_refused"


def addresses_in(obj: Object | None) -> int:
    """How many addresses Endpoints or an EndpointSlice have; 0 for anything else."""
    if obj is None:
        return 0
    ends = [end.get("addresses") for end in _rows(obj.get("endpoints"))]
    for subset in _rows(obj.get("subsets")):
        ends += [subset.get("addresses"), subset.get("notReadyAddresses")]
    return sum(len(given) for given in ends if isinstance(given, list))


def _rows(given: t.Any) -> list[t.Mapping[str, t.Any]]:
    return [row for row in given if isinstance(row, dict)] if isinstance(given, list) else []


class Sources:
    """What the clusters that could be read have for mirrors and global Services; those that could not are no proof. Read when something is lost."""

    def __init__(self, listed: t.Mapping[str, Listed], exports: t.Mapping[str, Exports], options: Options) -> None:
        self._listed, self._exports, self._options = listed, exports, options
        self._named: dict[tuple[str, str], list[tuple[str, Id, Object]]] | None = None
        self._answering: dict[tuple[str, Id], list[str]] = {}

    def of(self, mark: tuple[str, str], name: str, parts: t.Collection[str]) -> tuple[str, str, Id, str] | None:
        """(cause, cluster, Service, message) of the first Service that could answer and is held back; None where none is.

        parts: the clusters that have endpoints in a global Service now; others never were a part of it.
        """
        if self._named is None:
            self._named = self._read()
        for source, place, obj in self._named.get((mark[0], name), ()):
            if (self._options.prefixes.get(source) != mark[1]) if mark[0] == MIRROR else (source not in parts):
                continue
            if (source, place) not in self._answering:
                continue
            labels = labels_of(obj)
            shares = self._options.mirrors(labels) if mark[0] == MIRROR else self._options.shares(labels)
            if not shares:
                what = f"Service {label_of(source, place)} has endpoints, and not the label that shares it any more"
                return UNLABELLED, source, place, what
            why = self._refusal(source, place)
            if why:
                return REFUSED, source, place, f"what Service {label_of(source, place)} has is refused: {why}"
        return None

    def _read(self) -> dict[tuple[str, str], list[tuple[str, Id, Object]]]:
        named: dict[tuple[str, str], list[tuple[str, Id, Object]]] = {}
        for source in sorted(self._exports):
            one, prefix = self._listed[source], self._options.prefixes.get(source)
            for obj in one.endpoints:
                place = id_of(obj)
                if place is not None and addresses_in(obj):
                    self._answering.setdefault((source, place), [])
            for obj in one.slices:
                labels, place = labels_of(obj), id_of(obj)
                if place is not None and MIRRORED not in labels and MIRRORED_SLICE not in labels and addresses_in(obj):
                    service = (place[0], labels.get(SERVICE_NAME, ""))
                    self._answering.setdefault((source, service), []).append("slice " + label_of(source, place))
            for obj in one.services:
                place, labels = id_of(obj), labels_of(obj)
                if place is None or obj["metadata"].get("deletionTimestamp") or MIRRORED in labels or GLOBAL in labels:
                    continue
                if is_external_name(obj):
                    continue
                named.setdefault((SHARED, global_name(*place).name), []).append((source, place, obj))
                own = chosen_name(obj, self._options.honoured)
                for text in {place[1], place[1] if own is None else own} if prefix else ():
                    name = mirror_name(str(prefix), place[0], text).name
                    named.setdefault((MIRROR, name), []).append((source, place, obj))
        return named

    def _refusal(self, source: str, place: Id) -> str:
        """Why endpoints of a Service, or the Service itself, were left out; empty where they were not."""
        labels = {label_of(source, place), *self._answering[source, place]}
        found = (row for row in self._exports[source].refused if row.object in labels)
        return next((f"{row.message} [{row.reason}]" for row in found), "")


def lost_mirrors(local: str, here: Listed, sources: Sources, options: Options, writes: t.Iterable[Write]) -> list[Loss]:
    """What the writes of one cluster take apart."""
    after: dict[Key, Object | None] = {write.key: write.manifest for write in writes}
    if not after:
        return []
    objects = objects_of(here, options.namespace)
    before, left, keys = _counted(objects, after)
    services = {key.name: obj for key, obj in objects.items() if key.kind == "Service"}
    parts: dict[str, set[str]] = {}
    for key, obj in objects.items():
        labels = labels_of(obj) if key.kind == "EndpointSlice" and addresses_in(obj) else {}
        if CLUSTER_LABEL in labels:
            parts.setdefault(labels.get(SERVICE_NAME, ""), set()).add(labels[CLUSTER_LABEL])
    losses = []
    for name in sorted(name for name, count in before.items() if count and not left.get(name)):
        mark = mark_of(labels_of(services[name])) if name in services else None
        found = (
            sources.of(mark, name, parts.get(name, ())) if mark is not None and mark[0] in (MIRROR, SHARED) else None
        )
        if found is None:
            continue
        cause, source, place, message = found
        example = local, "/".join((source, *place))
        label = f"Service {local}/{options.namespace}/{name}"
        losses.append(Loss(cause, local, source, example, local, label, frozenset(keys[name]), message))
    return losses


def _counted(
    objects: t.Mapping[Key, Object], after: t.Mapping[Key, Object | None]
) -> tuple[dict[str, int], dict[str, int], dict[str, set[Key]]]:
    """By the name of the Service: addresses now, addresses then, and the keys of all of its objects."""
    before: dict[str, int] = {}
    left: dict[str, int] = {}
    keys: dict[str, set[Key]] = {}
    gone = {key.name for key, obj in after.items() if key.kind == "Service" and obj is None}
    for key in {**objects, **after}:
        now, then = objects.get(key), after[key] if key in after else objects.get(key)
        name = key.name
        if key.kind == "EndpointSlice":
            labels = labels_of(now if now is not None else then or {})
            name = labels.get(SERVICE_NAME, "")
        keys.setdefault(name, set()).add(key)
        before[name] = before.get(name, 0) + addresses_in(now)
        left[name] = left.get(name, 0) + (0 if name in gone else addresses_in(then))
    return before, left, keys
