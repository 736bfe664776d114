# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all clusters together export, also while some of them cannot be read (mcs 2, 4). Pure."""

from __future__ import annotations

import typing as t

from ..._plan.objects import labels_of
from ..._plan.plan import Refusal
from ..._values.text import dicts_of, mapping
from .exports import Export, Exported, Listed, Options, granted_namespaces, namespaces_of
from .manifests import standing_shape
from .merge import Merged, Shape, merge
from .names import FIRST_EXPORT, IMPORT, SERVICE_LABEL, SLICE, SOURCE_LABEL, Id
from .plan import Here, source_of


class Part(t.NamedTuple):
    """What one cluster has to have. ``merged``: every Service that is exported, as it is there while not all could be read. ``kept``: those
    of which only clusters have a part that could not be read, with the ids of these; they stay."""

    merged: t.Mapping[Id, Merged]
    kept: t.Mapping[Id, frozenset[str]]

    def clusters(self, here: Here) -> dict[Id, tuple[str, ...]]:
        """The ids of which each import in the cluster is made."""
        found = {place: one.clusters for place, one in self.merged.items()}
        found.update(
            {place: tuple(sorted(ids)) for place, ids in self.kept.items() if here.import_key(place) in here.mine}
        )
        return found


class Clusterset(t.NamedTuple):
    """``merged``: every Service that is exported, by what could be read. ``exports`` and ``firsts``: what it was made of. ``unlisted``: ids of
    all clusters that could not be read."""

    merged: dict[Id, Merged]
    exports: t.Mapping[Id, t.Sequence[Export]]
    firsts: t.Mapping[Id, str]
    unlisted: frozenset[str]

    def part(self, here: Here) -> Part:
        """What a cluster has to have. What was known of clusters that cannot be read is taken from itself, and for itself alone: another one
        could claim anything."""
        if not self.unlisted:
            return Part(self.merged, {})
        held, merged = _held(here, self.unlisted), dict(self.merged)
        for place, one in self.merged.items():
            if one.held or place in held:
                merged[place] = merge(
                    place, self.exports[place], self.firsts.get(place, ""), _standing(here, place), held.get(place, ())
                )
        return Part(merged, {place: frozenset(ids) for place, ids in held.items() if place not in merged})


def vanished(listed: t.Mapping[str, Listed], options: Options) -> dict[str, Refusal]:
    """Clusters that export nothing since none of their namespaces is there, while we hold endpoints of theirs: more often lost than empty."""
    found: dict[str, Refusal] = {}
    if options.max_deletes is not None:
        return found
    suspicious = {
        options.ids[name]: name
        for name, one in listed.items()
        if not one.exports and not granted_namespaces(name, one, options)
    }
    if not suspicious:
        return found
    for local in sorted(listed):
        namespaces = namespaces_of(listed[local])
        for obj in listed[local].slices:
            labels = labels_of(obj)
            source = suspicious.get(labels.get(SOURCE_LABEL, ""))
            live = namespaces.get(obj["metadata"].get("namespace", "")) is False
            if source is not None and source not in found and live and SERVICE_LABEL in labels and obj.get("endpoints"):
                text = "it exports nothing, and no namespace is left in it that it may export from; what is known of it stays. {0}"
                found[source] = Refusal(source, "source_incomplete", text.format("Set max_deletes if that is right."))
    return found


def join(exported: t.Mapping[str, Exported], heres: t.Mapping[str, Here], options: Options) -> Clusterset:
    """The merge of everything. exported: of the clusters that could be read; heres: what the clusters have of owned objects."""
    unlisted = frozenset(cluster_id for name, cluster_id in options.ids.items() if name not in exported)
    exports: dict[Id, list[Export]] = {}
    for name in sorted(exported):
        for place, claim in exported[name].claims.items():
            if claim.export is not None:
                exports.setdefault(place, []).append(claim.export)
    noted = _noted(heres) if options.keep_first else {}
    firsts = {place: _first(noted.get(place, {}), found) for place, found in exports.items()}
    held: dict[Id, set[str]] = {}
    for here in heres.values() if unlisted else ():
        for place, ids in _held(here, unlisted).items():
            held.setdefault(place, set()).update(ids)
    merged = {place: merge(place, found, firsts[place], None, held.get(place, ())) for place, found in exports.items()}
    return Clusterset(merged, exports, firsts, unlisted)


def _held(here: Here, unlisted: t.Collection[str]) -> dict[Id, set[str]]:
    """The clusters that could not be read and have a part in a cluster's imports, by what these are on record for."""
    held: dict[Id, set[str]] = {}
    for unit, keys in here.units.items():
        place = here.places.get(unit)
        if place is None:
            continue
        for key in keys:
            sources: set[str] = set()
            if key.kind == SLICE:
                sources = {source_of(key)}
            elif key.kind == IMPORT:
                rows = dicts_of(mapping(here.objects[key], "status").get("clusters"))
                sources = {str(row.get("cluster")) for row in rows}
            if sources & set(unlisted):
                held.setdefault(place, set()).update(sources & set(unlisted))
    return held


def _standing(here: Here, place: Id) -> Shape | None:
    """What exists of an import in a cluster."""
    key = here.import_key(place)
    return standing_shape(here.objects[key]) if key in here.mine else None


def _noted(heres: t.Mapping[str, Here]) -> dict[Id, dict[str, int]]:
    """How many clusters' imports remember which id as the one that decided first."""
    found: dict[Id, dict[str, int]] = {}
    for here in heres.values():
        for key in here.mine:
            noted = (
                (here.objects[key]["metadata"].get("annotations") or {}).get(FIRST_EXPORT)
                if key.kind == IMPORT
                else None
            )
            if isinstance(noted, str):
                counts = found.setdefault((key.namespace, key.name), {})
                counts[noted] = counts.get(noted, 0) + 1
    return found


def _first(noted: t.Mapping[str, int], exports: t.Sequence[Export]) -> str:
    """What most clusters remember, of equally many the oldest; one alone could name whom it likes."""
    known = sorted((-noted[export.id], export.rank, export.id) for export in exports if export.id in noted)
    return known[0][2] if known else ""
