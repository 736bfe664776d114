# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one change touches: lists cut down to the imports that an object belongs to. Pure.

Every object belongs to a *unit*: namespace and the name of the derived Service, which follows from the name of what is exported and begins
the names of all that we make. Objects of different units never meet in a plan, but for what a plan of everything is asked for: deletions,
which have a budget that counts everything, outages, and the addresses of the API servers.
"""

from __future__ import annotations

import typing as t

from ..exports import Id
from ..mirror_services import Object
from ..slices import SERVICE_NAME
from .exports import Listed
from .names import DERIVED_PREFIX, derived_name
from .plan import unit_of

EXPORTS, IMPORTS, SERVICES, ENDPOINTS, SLICES, NAMESPACES = (
    "serviceexports",
    "serviceimports",
    "services",
    "endpoints",
    "endpointslices",
    "namespaces",
)
KINDS = (EXPORTS, IMPORTS, SERVICES, ENDPOINTS, SLICES)
_API_SERVER = unit_of(("default", "kubernetes"))
_DERIVED = len(derived_name("", ""))


class Index:
    """The objects of one cluster by unit. ``put`` keeps it in step; the first build is a ``put`` of every object."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[Id, Object]] = {kind: {} for kind in KINDS}
        self._by_unit: dict[str, dict[Id, set[Id]]] = {kind: {} for kind in KINDS}

    def put(self, kind: str, place: Id, after: Object | None) -> set[Id]:
        """One object is new, other or (None) gone; returns the units that it touches, before and after."""
        before = self._objects[kind].pop(place, None)
        touched = _units(kind, place, before)
        for unit in touched:
            places = self._by_unit[kind][unit]
            places.discard(place)
            if not places:
                del self._by_unit[kind][unit]
        if after is not None:
            self._objects[kind][place] = after
            now = _units(kind, place, after)
            for unit in now:
                self._by_unit[kind].setdefault(unit, set()).add(place)
            touched |= now
        return touched

    def inside(self, namespace: str) -> set[Id]:
        """The units of a namespace that something is exported or imported of."""
        return {unit for kind in (EXPORTS, IMPORTS) for unit in self._by_unit[kind] if unit[0] == namespace}

    def cut(self, listed: Listed, units: t.Iterable[Id]) -> Listed:
        """The lists of a cluster, cut down to what belongs to the units; namespaces stay."""
        chosen = {*units, _API_SERVER}
        return listed._replace(
            exports=self._some(EXPORTS, chosen),
            imports=self._some(IMPORTS, chosen),
            services=self._some(SERVICES, chosen),
            endpoints=self._some(ENDPOINTS, chosen) if listed.endpoints else (),
            slices=self._some(SLICES, chosen) if listed.slices else (),
        )

    def _some(self, kind: str, units: t.Collection[Id]) -> list[Object]:
        found = {place for unit in units for place in self._by_unit[kind].get(unit, ())}
        return [self._objects[kind][place] for place in sorted(found)]


def _units(kind: str, place: Id, obj: Object | None) -> set[Id]:
    """The units that an object may belong to."""
    if obj is None:
        return set()
    names = [place[1]]
    if kind == SLICES:
        owner = (obj["metadata"].get("labels") or {}).get(SERVICE_NAME)
        names += [owner] if isinstance(owner, str) else []
    found = {
        (place[0], name[:_DERIVED])
        for name in names
        if kind not in (EXPORTS, IMPORTS) and name.startswith(DERIVED_PREFIX)
    }
    return found | {unit_of((place[0], name)) for name in (names if kind != SLICES else names[1:])}


def everything(kind: str, place: Id) -> bool:
    """Whether a change of this object touches all of them: the endpoints of the API server are refused everywhere."""
    return place[0] == "default" and kind in (SLICES, ENDPOINTS) and place[1].startswith("kubernetes")
