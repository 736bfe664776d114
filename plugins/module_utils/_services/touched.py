# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one change touches: lists cut down to the mirrors and global Services that share a name with it. Pure.

Every object of a mirror, and every object that a mirror is made from, belongs to a *target*: the name of a Service in the mirror
namespace; the copy of a slice of a global service has a name of its own, which slices of other services may claim too (a target that begins
with a slash). Objects of different targets never meet in a plan, but for three things, for which a plan of everything is asked instead:
deletions, which have a budget that counts everything; outages; and the addresses of the API servers.
"""

from __future__ import annotations

import typing as t

from .._plan.object_plan import Write
from .._plan.objects import labels_of
from .._plan.plan import Plan
from .._values.refused import ValueRefused
from .exports import Id, Listed, Options
from .global_services import service_of
from .mirror_services import Object
from .names import global_name, global_slice_name, mirror_name
from .service_annotations import chosen_name
from .slices import SERVICE_NAME

SERVICES, ENDPOINTS, SLICES = "services", "endpoints", "endpointslices"
#: Refusals for which everything was counted.
_COUNTED = frozenset(("delete_budget", "source_incomplete", "pairs_lost"))
#: Its endpoints are the addresses of the API server.
_API_SERVER = ("default", "kubernetes")


class Index:
    """The objects of one cluster by target. ``put`` keeps it in step; the first build is a ``put`` of every object."""

    def __init__(self, cluster: str, options: Options) -> None:
        self._prefix, self._options = options.prefixes.get(cluster), options
        #: what is known of each kind, by place
        self._objects: dict[str, dict[Id, Object]] = {SERVICES: {}, ENDPOINTS: {}, SLICES: {}}
        #: places of each kind by the Service that they belong to
        self._of_service: dict[str, dict[Id, set[Id]]] = {ENDPOINTS: {}, SLICES: {}}
        #: Services by target
        self._by_target: dict[str, set[Id]] = {}
        #: slices by the name of their copies
        self._copies: dict[str, set[Id]] = {}

    def put(self, kind: str, place: Id, after: Object | None) -> set[str]:
        """One object is new, other or (None) gone; returns the targets that it touches, before and after."""
        before = self._objects[kind].get(place)
        touched = self._targets(kind, place, before)
        self._forget(kind, place, before)
        if after is not None:
            self._objects[kind][place] = after
            self._remember(kind, place, after)
        return touched | self._targets(kind, place, after)

    def related(self, target: str) -> set[str]:
        """Targets with which one shares an object: all names of its Services, and those of the copies of their slices."""
        if target.startswith("/"):
            services = {_service(SLICES, place, self._objects[SLICES][place]) for place in self._copies.get(target, ())}
        else:
            services = set(self._by_target.get(target, ()))
            here = (self._options.namespace, target)
            if here in self._objects[SERVICES] or any(here in parts for parts in self._of_service.values()):
                services.add(here)
        found = {
            name for service in services for name in self._targets_of(service, self._objects[SERVICES].get(service))
        }
        if self._options.global_selector is not None:
            found |= {_copy(place) for place in self._parts(SLICES, services)}
        return found

    def cut(self, listed: Listed, targets: t.Collection[str]) -> Listed:
        """The lists of a cluster, cut down to what belongs to the targets."""
        services = {place for target in targets for place in self._by_target.get(target, ())} | {_API_SERVER}
        mirrors = {(self._options.namespace, target) for target in targets}
        found = services | mirrors
        return listed._replace(
            services=self._some(SERVICES, found),
            endpoints=self._some(ENDPOINTS, self._parts(ENDPOINTS, found)) if listed.endpoints else (),
            slices=self._some(SLICES, self._parts(SLICES, found) | self._copied(targets)) if listed.slices else (),
        )

    def _copied(self, targets: t.Iterable[str]) -> set[Id]:
        """Slices in the mirror namespace by their names, whatever owner their labels have."""
        return {(self._options.namespace, target[1:]) for target in targets if target.startswith("/")}

    def _some(self, kind: str, places: t.Iterable[Id]) -> list[Object]:
        objects = self._objects[kind]
        return [objects[place] for place in sorted(places) if place in objects]

    def _parts(self, kind: str, services: t.Collection[Id]) -> set[Id]:
        return {place for service in services for place in self._of_service[kind].get(service, ())}

    def _remember(self, kind: str, place: Id, obj: Object) -> None:
        if kind == SERVICES:
            for target in self._targets_of(place, obj):
                self._by_target.setdefault(target, set()).add(place)
        else:
            self._of_service[kind].setdefault(_service(kind, place, obj), set()).add(place)
        if kind == SLICES:
            self._copies.setdefault(_copy(place), set()).add(place)

    def _forget(self, kind: str, place: Id, obj: Object | None) -> None:
        if obj is None:
            return
        del self._objects[kind][place]
        if kind == SERVICES:
            for target in self._targets_of(place, obj):
                _drop(self._by_target, target, place)
        else:
            _drop(self._of_service[kind], _service(kind, place, obj), place)
        if kind == SLICES:
            _drop(self._copies, _copy(place), place)

    def _targets(self, kind: str, place: Id, obj: Object | None) -> set[str]:
        """The targets of an object, by the Services that are known at this moment."""
        if obj is None:
            return set()
        service = place if kind == SERVICES else _service(kind, place, obj)
        found = self._targets_of(service, obj if kind == SERVICES else self._objects[SERVICES].get(service))
        if place[0] == self._options.namespace:
            found.add(service[1])
        if kind == SLICES and self._options.global_selector is not None:
            found.add("/" + place[1] if place[0] == self._options.namespace else _copy(place))
        return found

    def _targets_of(self, place: Id, service: Object | None) -> set[str]:
        """Names that a Service may have elsewhere, whether it is shared at this moment or not."""
        found = set() if self._options.global_selector is None else {global_name(*place).name}
        if self._prefix is not None:
            name = chosen_name(service, self._options.honoured) if service is not None else None
            found.add(mirror_name(self._prefix, place[0], place[1]).name)
            if name is not None:
                found.add(mirror_name(self._prefix, place[0], name).name)
        return found


def _service(kind: str, place: Id, obj: Object) -> Id:
    """The Service of Endpoints or of a slice."""
    if kind == ENDPOINTS:
        return place
    labels = labels_of(obj)
    name = labels.get(SERVICE_NAME)
    if name is None:
        try:
            name = service_of(obj)
        except ValueRefused:
            name = ""
    return place[0], name


def _copy(place: Id) -> str:
    """The target of the copy of a slice."""
    return "/" + global_slice_name(place[1]).name


def _drop(index: dict[t.Any, set[Id]], key: t.Any, place: Id) -> None:
    index[key].discard(place)
    if not index[key]:
        del index[key]


def closed(indices: t.Iterable[Index], targets: t.Iterable[str]) -> set[str]:
    """The targets and all that share an object with them, in any cluster."""
    indices, found, todo = list(indices), set(targets), list(targets)
    while todo:
        target = todo.pop()
        for index in indices:
            more = index.related(target) - found
            found |= more
            todo += more
    return found


def everything(kind: str, place: Id) -> bool:
    """Whether a change of this object touches all of them: the endpoints of the API server are refused everywhere."""
    return place == _API_SERVER or (
        kind == SLICES and place[0] == _API_SERVER[0] and place[1].startswith(_API_SERVER[1])
    )


def decided(plan: Plan, writes: t.Iterable[Write]) -> bool:
    """Whether a plan of some targets has what a plan of everything would have of them: not where something goes, which a budget counts."""
    return all(write.manifest is not None for write in writes) and not counted(
        refusal._asdict() for refusal in plan.refused
    )


def counted(refused: t.Iterable[t.Mapping[str, t.Any]]) -> bool:
    """Whether a plan of everything held something back that later plans of everything may let go."""
    return any(row["reason"] in _COUNTED for row in refused)
