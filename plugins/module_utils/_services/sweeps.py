# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a sweep may delete: objects in the mirror namespace that carry our labels and have no source any more.

A source list that is unknown (None, or a source that is not ``known``) never deletes anything (semaphore 2.3, T14).
"""

from __future__ import annotations

import typing as t

from .._plan.budget import check_budget
from .._plan.deletable import CONTROLLERS, makers, may_delete, why_it_stays
from .._plan.object_plan import Key
from .._plan.objects import labels_of
from .._plan.plan import Refusal
from .exports import Exports, Options
from .global_services import CLUSTER_LABEL, GLOBAL, MIRRORED_SLICE
from .mirror_services import MIRRORED, PREFIX_LABEL, Manifest, Object, is_mirror
from .mirror_writes import Settled
from .names import GLOBAL_PREFIX, SEPARATOR
from .slices import MANAGED_BY as SLICE_MANAGED_BY, SERVICE_NAME

#: The labels by which our objects, and semaphore-service-mirror's, are known.
MARKS = (MIRRORED, PREFIX_LABEL, GLOBAL, MIRRORED_SLICE, CLUSTER_LABEL, SERVICE_NAME, SLICE_MANAGED_BY)
MIRROR, SLICE, SHARED = "mirror", "slice", "shared"
#: What the budget calls the source of global Services.
EVERYBODY = "global services"
_OTHER_FORM = {"Endpoints": "EndpointSlice", "EndpointSlice": "Endpoints"}


def mark_of(labels: t.Mapping[str, str]) -> tuple[str, str] | None:
    """(what it is, its source) of an object that carries the labels of an owned one: a mirror's prefix, a slice's cluster."""
    if is_mirror(labels):
        return MIRROR, labels[PREFIX_LABEL]
    if labels.get(MIRRORED_SLICE) == "true" and CLUSTER_LABEL in labels:
        return SLICE, labels[CLUSTER_LABEL]
    if labels.get(GLOBAL) == "true":
        return SHARED, EVERYBODY
    return None


def named(key: Key, mark: tuple[str, str], labels: t.Mapping[str, str]) -> bool:
    """Whether an object's name is that of a mirror, or of what belongs to a global Service: labels can be forged, names cannot.

    The copy of a slice has the slice's own name and a short prefix, which is no proof.
    """
    if mark[0] == SLICE:
        return False  # see _copied
    prefix = mark[1] if mark[0] == MIRROR else GLOBAL_PREFIX
    if not key.name.startswith(prefix + "-") or f"-{SEPARATOR}-" not in key.name[len(prefix) :]:
        return False
    return key.kind != "EndpointSlice" or key.name.startswith(labels.get(SERVICE_NAME, "") + "-")


class Scope(t.NamedTuple):
    """What a run is about in one cluster.

    ``speaking``: clusters with the mirrors that it is about. ``taking_part``: those with the Services that make up the global ones.
    ``exports``: of those that were listed completely. ``mine``: what is owned, by the field manager. ``state``: present, absent or released.
    """

    local: str
    exports: t.Mapping[str, Exports]
    speaking: t.Collection[str]
    taking_part: t.Collection[str]
    options: Options
    mine: t.Collection[Key]
    manager: str
    state: str

    @property
    def present(self) -> bool:
        """False when things are to be taken away or given back: then it does not matter who could be listed."""
        return self.state == "present"

    def source_of(self, mark: tuple[str, str]) -> str:
        """The cluster's name; what is left over from a cluster that the inventory no longer has keeps its prefix."""
        if mark[0] != MIRROR:
            return mark[1]
        return next((name for name, prefix in self.options.prefixes.items() if prefix == mark[1]), mark[1])

    def may_sweep(self, mark: tuple[str, str], source: str) -> bool:
        """Whether what has no source any more may go: it is what the run is about, and its source was listed."""
        what, options = mark[0], self.options
        if what == SHARED:
            spoken = self.present or set(self.speaking) >= set(options.prefixes)
            known = set(self.taking_part) <= set(self.exports)
        else:
            left = source not in options.prefixes
            spoken = left or source in (self.speaking if what == MIRROR else self.taking_part)
            # a cluster has no mirrors of itself
            known = left or source in self.exports or (what == MIRROR and source == self.local)
        sweep = options.sweep_slices if what == SLICE else options.sweep_services
        return spoken and sweep and (known or not self.present)


class Marked(t.NamedTuple):
    """An object in the mirror namespace that carries the labels of an owned one. ``sweeping``: Scope.may_sweep of its source."""

    key: Key
    labels: t.Mapping[str, str]
    mark: tuple[str, str]
    source: str
    sweeping: bool


def marked(scope: Scope, objects: t.Mapping[Key, Object]) -> t.Iterator[Marked]:
    """Everything that carries our labels, whoever wrote it."""
    sources: dict[tuple[str, str], tuple[str, bool]] = {}
    for key, obj in objects.items():
        labels = labels_of(obj)
        mark = mark_of(labels)
        if mark is None or (mark[0] == SHARED and key.kind != "Service"):
            continue
        if mark not in sources:
            source = scope.source_of(mark)
            sources[mark] = (source, scope.may_sweep(mark, source))
        yield Marked(key, labels, mark, *sources[mark])


def _copied(scope: Scope, key: Key, obj: Object) -> bool:
    """Whether it may be semaphore-service-mirror's copy of a slice: not what we applied, nor what Kubernetes made for a Service of that name."""
    labels = labels_of(obj)
    if key in scope.mine or labels.get(MIRRORED_SLICE) != "true" or not key.name.startswith(GLOBAL_PREFIX + "-"):
        return False
    return f"-{SEPARATOR}-" in labels.get(SERVICE_NAME, "") and CONTROLLERS not in makers(obj, scope.manager)


def stale(scope: Scope, objects: t.Mapping[Key, Object], settled: Settled) -> tuple[list[Key], list[Refusal]]:
    """What is owned and not desired, within the budget of each source and kind (decision 38), and what stops at it."""
    if all(key in settled.manifests or key in settled.keep for key in objects):
        return [], []  # as after nearly every run
    replacing = {
        (key.kind, manifest["metadata"]["labels"].get(SERVICE_NAME, key.name))
        for key, manifest in settled.manifests.items()
    }
    found: dict[tuple[str, str], list[Key]] = {}
    mine: dict[tuple[str, str], int] = {}
    doomed: list[Key] = []
    refused: list[Refusal] = []
    for key, labels, mark, source, sweeping in marked(scope, objects):
        if not (scope.options.adopt or key in scope.mine):
            continue
        mine[source, key.kind] = mine.get((source, key.kind), 0) + 1
        if not sweeping or key in settled.manifests or key in settled.keep:
            continue
        if not may_delete(
            objects[key],
            scope.manager,
            key in scope.mine,
            named(key, mark, labels) or _copied(scope, key, objects[key]),
            scope.options.adopt,
            derived=mark[0] != SLICE,
        ):
            label = f"{key.kind} {scope.local}/{key.short}"
            refused.append(Refusal(label, "not_ours", why_it_stays(objects[key], scope.manager)))
            continue
        service = labels.get(SERVICE_NAME, key.name)
        fewer = key.kind == "EndpointSlice" and mark[0] == MIRROR and (key.kind, service) in replacing
        if fewer or (_OTHER_FORM.get(key.kind, ""), service) in replacing:
            doomed.append(key)  # the same endpoints, in their new form or in fewer slices
        else:
            found.setdefault((source, key.kind), []).append(key)
    for (source, kind), keys in sorted(found.items()):
        refusal = (
            _over_budget(scope, settled.manifests, source, kind, mine[source, kind], len(keys))
            if scope.present
            else None
        )
        if refusal:
            refused.append(refusal)
        else:
            doomed += keys
    return sorted(doomed), refused


def _over_budget(
    scope: Scope, manifests: t.Mapping[Key, Manifest], source: str, kind: str, mine: int, deletes: int
) -> Refusal | None:
    options = scope.options
    marks = [mark_of(labels_of(manifest)) for key, manifest in manifests.items() if key.kind == kind]
    remaining = sum(1 for mark in marks if mark is not None and scope.source_of(mark) == source)
    refusal = check_budget(
        source, kind, mine, deletes, remaining, options.max_deletes, source in options.confirm_empty, claimed=True
    )
    return refusal._replace(object=f"{scope.local}: {source}") if refusal else None
