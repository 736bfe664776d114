# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Imports that a plan leaves without any endpoint, although a cluster goes on to export a Service with endpoints. Pure.

Who deletes a ServiceExport, or a Service, asks for it.
"""

from __future__ import annotations

import typing as t

from ..._plan.object_plan import Key, Write
from ..._plan.objects import labels_of
from ..exports import id_of, label_of
from ..global_services import MIRRORED_SLICE
from ..losses import Loss
from ..lost_mirrors import addresses_in
from ..mirror_services import Object
from ..slices import SERVICE_NAME
from .exports import REFUSED as EXPORT_REFUSED, Exported, Listed
from .names import IMPORT, SLICE, SOURCE_LABEL, Id, derived_name
from .plan import Here

#: A cluster's export, or all of its endpoints, are refused.
REFUSED = "export_refused"


def lost_imports(
    here: Here, exported: t.Mapping[str, Exported], listed: t.Mapping[str, Listed], writes: t.Iterable[Write]
) -> list[Loss]:
    """What the writes of one cluster take apart. exported, listed: of the clusters that could be read; others are no proof."""
    after: dict[Key, Object | None] = {write.key: write.manifest for write in writes}
    touched: dict[Id, set[Key]] = {}
    for key in after:
        touched.setdefault(_unit(key), set()).add(key)
    losses = []
    for unit in sorted(unit for unit in touched if unit in here.places):
        place, keys = here.places[unit], touched[unit].union(here.units.get(unit, ()))
        slices = {key for key in keys if key.kind == SLICE}
        now = sum(addresses_in(here.objects.get(key)) for key in slices)
        then = sum(addresses_in(after[key] if key in after else here.objects.get(key)) for key in slices)
        gone = any(key.kind == IMPORT and key in after and after[key] is None for key in keys)
        found = _held_back(place, exported, listed) if now and (gone or not then) else None
        if found is not None:
            source, why = found
            name = "/".join((source, *place))
            message = f"what ServiceExport {name} has is refused: {why}"
            label = f"ServiceImport {label_of(here.name, place)}"
            losses.append(
                Loss(REFUSED, here.name, source, (here.name, name), here.name, label, frozenset(keys), message)
            )
    return losses


def _unit(key: Key) -> Id:
    return key.namespace, derived_name(key.namespace, key.name) if key.kind == IMPORT else key.name[
        : len(derived_name("", ""))
    ]


def _held_back(place: Id, exported: t.Mapping[str, Exported], listed: t.Mapping[str, Listed]) -> tuple[str, str] | None:
    """(cluster, why) of the first cluster that exports a Service with endpoints, none of which counts."""
    for source in sorted(exported):
        claim = exported[source].claims.get(place)
        if claim is None:
            continue
        refused = claim.export is None and claim.reason == EXPORT_REFUSED
        if (refused or claim.none_left) and _answers(listed[source], place):
            return source, claim.left_out or claim.message
    return None


def _answers(listed: Listed, place: Id) -> bool:
    """Whether a Service has an endpoint in its own cluster."""
    if any(id_of(obj) == place and addresses_in(obj) for obj in listed.endpoints):
        return True
    for obj in listed.slices:
        labels = labels_of(obj)
        named = (obj["metadata"].get("namespace"), labels.get(SERVICE_NAME)) == place
        if named and SOURCE_LABEL not in labels and MIRRORED_SLICE not in labels and addresses_in(obj):
            return True
    return False
