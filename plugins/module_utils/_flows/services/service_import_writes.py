# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written of the Multi-Cluster Services API, stage by stage, and what became of each import (mcs 7)."""

from __future__ import annotations

import datetime
import typing as t

from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters
from ..._kubernetes.errors import Conflict, Forbidden, NotFound
from ..._kubernetes.objects import write_object
from ..._plan.object_plan import Key, Write
from ..._plan.plan import Plan
from ..._services.mcs.clusterset import Clusterset
from ..._services.mcs.conditions import Reach
from ..._services.mcs.exports import Exported, Options
from ..._services.mcs.manifests import addresses_of
from ..._services.mcs.names import GROUP, IMPORT, SERVICE, SERVICE_LABEL, SLICE, Id, derived_name
from ..._services.mcs.plan import Here, Planned, filled, remove_all, unit_of
from ..._services.mcs.statuses import (
    export_statuses,
    import_statuses,
    shows_slice_objects,
    status_manager,
    stores_slice_objects,
    without_conditions,
)
from ..._values.text import lower
from ..access import cluster_objects
from ..runs.outages import OUTAGES

Writes = dict[str, list[Write]]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"


class Writer:
    """Writes of a run, stage by stage: every stage needs what the API servers answered to those before."""

    def __init__(self, clusters: Clusters, manager: str, leave_conflicts: bool) -> None:
        self._clusters, self._manager, self._leave = clusters, manager, leave_conflicts
        self.done = Plan()
        #: (cluster, key) of what was written, or is as desired; and of what has no place any more
        self.written: set[tuple[str, Key]] = set()
        self._homeless: set[tuple[str, Key]] = set()

    def stage(self, writes: t.Mapping[str, t.Sequence[Write]]) -> None:
        """Do these, in clusters that answered so far."""
        gone = {row["cluster"] for row in self._clusters.failures if row["reason"] in OUTAGES}
        todo = {name: list(rows) for name, rows in writes.items() if rows and name not in gone}
        if not todo:
            return
        plan = Plan()
        plan.changes = [write.change for name in sorted(todo) for write in todo[name]]
        part = cluster_objects.apply(self._clusters, plan, todo, self._manager, self._leave, "write imports", self._one)
        homeless = {
            id(write.change) for name, rows in todo.items() for write in rows if (name, write.key) in self._homeless
        }
        part.changes = [change for change in part.changes if id(change) not in homeless]
        self.done.extend(part)

    def _one(self, client: Client, todo: Write, manager: str) -> bool:
        of_status = todo.manifest is not None and "status" in todo.manifest
        try:
            changed = (
                _write_status(client, todo, status_manager(manager))
                if of_status
                else write_object(client, todo, manager)
            )
        except (Conflict, Forbidden, NotFound) as error:
            # what is made in a namespace that is being deleted is refused, and has no need to be there; so has the status of what is gone
            gone = of_status and not isinstance(error, Forbidden)
            if not gone and (
                isinstance(error, Conflict) or todo.manifest is None or not _namespace_goes(client, todo.key.namespace)
            ):
                raise
            self._homeless.add((client.cluster, todo.key))
            changed = True
        self.written.add((client.cluster, todo.key))
        return changed


def _write_status(client: Client, todo: Write, manager: str) -> bool:
    """The status of an import or export, and nothing else of it."""
    manifest = dict(todo.manifest or {})
    if todo.uid:
        manifest["metadata"] = dict(manifest["metadata"], uid=todo.uid)
    key = todo.key
    path = f"/apis/{key.api_version}/namespaces/{segment(key.namespace)}/{lower(key.kind)}s/{segment(key.name)}/status"
    if todo.force:
        answer = client.apply(path, manifest, manager, force=True)
    else:  # the conditions go, and an apply could not leave nothing behind
        answer = client.merge_patch(path, {"metadata": {"uid": todo.uid}, "status": manifest["status"]}, manager)
    return todo.version is None or answer["metadata"].get("resourceVersion") != todo.version


def _namespace_goes(client: Client, namespace: str) -> bool:
    found = client.find("/api/v1/namespaces/" + segment(namespace))
    return found is None or bool(found["metadata"].get("deletionTimestamp"))


def write(
    clusters: Clusters,
    whole: Plan,
    heres: t.Mapping[str, Here],
    exported: t.Mapping[str, Exported],
    joined: Clusterset,
    plans: t.Mapping[str, Planned],
    options: Options,
    destinations: t.Collection[str],
    manager: str,
    check: bool,
    now: float,
    leave_conflicts: bool,
) -> Plan:
    """Do the writes, unless this is only a check; returns the plan with only those changes that took place."""
    writer = Writer(clusters, manager, leave_conflicts)
    writer.done.extend(whole)
    todo = {name: list(plans[name].writes) for name in sorted(plans) if name in destinations}
    if check:
        writer.done.changes += [write.change for name in todo for write in todo[name]]
    else:
        for kind in (SERVICE, IMPORT, SLICE):
            stage = {
                name: [one for one in rows if one.key.kind == kind and one.manifest is not None]
                for name, rows in todo.items()
            }
            writer.stage(_filled(clusters, heres, stage, kind))
        writer.stage({name: [one for one in rows if one.manifest is None] for name, rows in todo.items()})
    reach = _reach(heres, joined, plans, options, None if check else writer.written, destinations)
    stamp = datetime.datetime.fromtimestamp(now, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    statuses: Writes = {}
    imported = _import_statuses(clusters, {name: heres[name] for name in heres if name in destinations}, joined, reach)
    for name, here in heres.items():
        if name in destinations:
            statuses[name] = imported[name]
            if name in exported:
                statuses[name] += export_statuses(here, exported[name], joined.merged, reach, stamp)
    if check:
        writer.done.changes += [write.change for name in sorted(statuses) for write in statuses[name]]
    else:
        writer.stage(statuses)
    return writer.done


def _import_statuses(
    clusters: Clusters, heres: t.Mapping[str, Here], joined: Clusterset, reach: t.Mapping[Id, Reach]
) -> Writes:
    """The status of imports, with whether their slices exist where the API server stores that.

    Only where one is to be written, and no import shows the field, is the definition read: a run that changes nothing asks nothing.
    """

    def planned(name: str, stores: bool) -> list[Write]:
        undone = {place for place, one in reach.items() if name in one.failed or name in one.pending}
        return import_statuses(heres[name], joined.part(heres[name]).clusters(heres[name]), undone, stores)

    shown = {name: shows_slice_objects(here) for name, here in heres.items()}
    made = {name: planned(name, shown[name]) for name in heres}
    unknown = sorted(name for name, rows in made.items() if rows and not shown[name])
    if unknown:
        found = clusters.read("read a definition", lambda name, client: _stores(client, heres[name]), unknown)
        made.update((name, planned(name, True)) for name, stores in found.items() if stores)
    return made


def _stores(client: Client, here: Here) -> bool:
    """Whether the definition of imports has the field for slices. False where the definition may not be read."""
    try:
        found = client.find(f"{DEFINITIONS}serviceimports.{GROUP}")
    except Forbidden:
        return False
    return found is not None and stores_slice_objects(found, here.listed.version)


def _filled(clusters: Clusters, heres: t.Mapping[str, Here], stage: Writes, kind: str) -> Writes:
    """The writes with what the API servers have given meanwhile: addresses of derived Services, uids of imports."""
    waiting = sorted(
        name for name, rows in stage.items() if kind != SERVICE and any(filled(one, None) is None for one in rows)
    )
    if not waiting:
        return stage

    def look(name: str, client: Client) -> dict[Id, t.Any]:
        if kind == IMPORT:
            return {
                _place(obj): addresses_of(obj)
                for obj in client.list("/api/v1/services", label_selector=SERVICE_LABEL).items
            }
        listing = client.list(f"/apis/{heres[name].listed.version}/serviceimports")
        return {
            (place[0], derived_name(*place)): obj["metadata"].get("uid")
            for obj in listing.items
            for place in (_place(obj),)
        }

    found = clusters.read("look up what was made", look, waiting)
    made: Writes = {}
    for name, rows in stage.items():
        known = found.get(name, {})
        made[name] = [one for row in rows for one in (filled(row, known),) if one is not None]
    return made


def _place(obj: t.Mapping[str, t.Any]) -> Id:
    return str(obj["metadata"].get("namespace")), str(obj["metadata"].get("name"))


def _reach(
    heres: t.Mapping[str, Here],
    joined: Clusterset,
    plans: t.Mapping[str, Planned],
    options: Options,
    written: t.Collection[tuple[str, Key]] | None,
    destinations: t.Collection[str],
) -> dict[Id, Reach]:
    """The state of each import. written None: as if all was done."""
    units = {unit_of(place): place for place in joined.merged}
    failed: dict[Id, set[str]] = {}
    pending: dict[Id, set[str]] = {}
    for name, planned in plans.items():
        for place in planned.failed:
            failed.setdefault(place, set()).add(name)
        for place in planned.waiting:
            pending.setdefault(place, set()).add(name)
        for one in planned.writes:
            if (
                one.manifest is None
                or (written is None and name in destinations)
                or (written is not None and (name, one.key) in written)
            ):
                continue
            derived = (
                derived_name(one.key.namespace, one.key.name)
                if one.key.kind == IMPORT
                else one.key.name[: len(derived_name("", ""))]
            )
            place = units.get((one.key.namespace, derived), ("", ""))
            (failed if name in destinations else pending).setdefault(place, set()).add(name)
    unknown = frozenset(name for name in options.ids if name not in heres)
    return {
        place: Reach(frozenset(failed.get(place, ())), frozenset(pending.get(place, ())), unknown)
        for place in joined.merged
    }


def take_away(
    clusters: Clusters,
    whole: Plan,
    heres: t.Mapping[str, Here],
    destinations: t.Collection[str],
    manager: str,
    check: bool,
) -> Plan:
    """Remove everything that is owned, and our conditions of exports."""
    writer = Writer(clusters, manager, False)
    writer.done.extend(whole)
    todo = {name: remove_all(here, manager).writes for name, here in heres.items() if name in destinations}
    statuses = {name: without_conditions(here, manager) for name, here in heres.items() if name in destinations}
    if check:
        writer.done.changes += [one.change for rows in (todo, statuses) for name in sorted(rows) for one in rows[name]]
    else:
        writer.stage(todo)
        writer.stage(statuses)
    return writer.done
