# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of one cluster: its derived Services, imports and slices against what it has, within the budget of deletions (mcs 1, 4). Pure."""

from __future__ import annotations

import re
import typing as t

from ..._plan.budget import check_budget
from ..._plan.deletable import may_delete, why_it_stays
from ..._plan.object_plan import Key, Read, Write, plan_objects
from ..._plan.objects import is_owned, labels_of
from ..._plan.plan import DELETE, Pending, Plan, Refusal, is_pending
from ..._plan.sole_owner import others, surplus
from ..exports import id_of, label_of
from ..mirror_services import Manifest, Object
from .exports import Listed, Options, namespaces_of
from .manifests import Made, derived_service, gone_slice, import_slices, service_import
from .merge import Merged
from .names import DERIVED_PREFIX, IMPORT, SERVICE, SERVICE_LABEL, SLICE, UNREACHABLE_SINCE, Id, derived_name

_ORDER = (SERVICE, IMPORT, SLICE)
#: What goes first: who asks for the name must not be sent to an address that is gone.
_LAST = (IMPORT, SLICE, SERVICE)
_API_SERVER = ("default", "kubernetes")
_NOTHING: frozenset[t.Any] = frozenset()
_DERIVED = len(derived_name("", ""))
_SLICE = re.compile(r"-(?P<source>[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)-[46]-[0-9]+\Z")
_PENDING_OWNER = Pending("uid of the ServiceImport")
_STAMP = re.compile(r"[0-9]{1,12}\Z")


class Here:
    """What one cluster has that may be owned, by what it belongs to. ``units``: the keys of owned objects by (namespace, derived name)."""

    def __init__(self, name: str, listed: Listed, manager: str) -> None:
        self.name, self.listed, self.manager = name, listed, manager
        self.namespaces = namespaces_of(listed)
        self.objects: dict[Key, Object] = {}
        self.mine: set[Key] = set()
        #: what our field manager is on record for, and nothing else proves that it is owned: it is left as it is
        self.doubtful: set[Key] = set()
        self._proven: set[Id] = set()
        #: units named after an import that is there, whoever made it
        self._imported: set[Id] = set()
        #: by (namespace, derived name)
        self.units: dict[Id, list[Key]] = {}
        self.slices: dict[Id, list[Key]] = {}
        self.places: dict[Id, Id] = {}
        #: whether its Services have families at all: servers without them drop the field, and it would be written for ever
        self.has_families = True
        slices = str(listed.discovery)
        for kind, version, items in (
            (IMPORT, listed.version, listed.imports),
            (SERVICE, "v1", listed.services),
            (SLICE, slices, listed.slices),
        ):
            for obj in items:
                place = id_of(obj)
                if place == _API_SERVER and kind == SERVICE:
                    self.has_families = "ipFamilies" in (obj.get("spec") or {})
                if place is None or (kind != IMPORT and not place[1].startswith(DERIVED_PREFIX)):
                    continue
                self._put(Key(version, kind, *place), obj, manager)
        for unit in self.units:
            self.doubtful.update(key for key in self.units[unit] if not self._is_proven(unit, key, manager))
        self.mine -= self.doubtful
        if self.doubtful:
            left = {unit: [key for key in keys if key not in self.doubtful] for unit, keys in self.units.items()}
            self.units = {unit: keys for unit, keys in left.items() if keys}

    def _is_proven(self, unit: Id, key: Key, manager: str) -> bool:
        """An import has the name of a user's Service. What only we name after it proves that we made it."""
        named = unit in self._proven if key.kind == IMPORT else self._is_named(unit, self.objects[key])
        return may_delete(self.objects[key], manager, True, named)

    def _is_named(self, unit: Id, obj: Object) -> bool:
        """Whether the name of a derived Service, or of a slice, is made of an import's, or of the Service in its label.

        A label can be forged, and taken off; names cannot.
        """
        name = labels_of(obj).get(SERVICE_LABEL)
        return unit in self._imported or (name is not None and derived_name(unit[0], name) == unit[1])

    def _put(self, key: Key, obj: Object, manager: str) -> None:
        self.objects[key] = obj
        unit = (key.namespace, derived_name(key.namespace, key.name) if key.kind == IMPORT else key.name[:_DERIVED])
        if key.kind == IMPORT:
            self._imported.add(unit)
        if key.kind == SLICE:
            self.slices.setdefault(unit, []).append(key)
        if not is_owned(obj, manager):
            return
        self.mine.add(key)
        self.units.setdefault(unit, []).append(key)
        if key.kind != IMPORT and self._is_named(unit, obj):
            self._proven.add(unit)
        name = key.name if key.kind == IMPORT else labels_of(obj).get(SERVICE_LABEL)
        if name is not None and derived_name(key.namespace, name) == unit[1]:
            self.places[unit] = (key.namespace, name)

    def import_of(self, place: Id) -> Object | None:
        """The import of that name, whoever made it."""
        return self.objects.get(self.import_key(place))

    def import_key(self, place: Id) -> Key:
        """The key of the import of that name."""
        return Key(self.listed.version, IMPORT, *place)


def source_of(key: Key) -> str:
    """The id of the cluster of an owned slice's endpoints, by its name, which nobody can change."""
    found = _SLICE.match(key.name, _DERIVED)
    return found.group("source") if found else ""


def unit_of(place: Id) -> Id:
    """What the objects of one import have in common: namespace and derived name."""
    return place[0], derived_name(*place)


class Planned(t.NamedTuple):
    """``writes`` in order; ``failed``: places where something unowned exists; ``waiting``: where something owned is being deleted.

    ``imports``: how many the cluster has then.
    """

    plan: Plan
    writes: list[Write]
    failed: set[Id]
    waiting: set[Id]
    imports: int = 0


def plan_cluster(
    here: Here,
    merged: t.Mapping[Id, Merged],
    kept: t.Mapping[Id, t.Collection[str]],
    options: Options,
    manager: str,
    version: tuple[int, int] | None = None,
    unreachable: t.Collection[str] = (),
    now: int = 0,
    slices: Made | None = None,
) -> Planned:
    """The writes of one cluster.

    kept: places that only clusters have a part in that could not be read, with their ids. unreachable: ids of those that did not answer.
    now: seconds since 1970. slices: those of the same merge for other clusters.
    """
    planned = Planned(Plan(), [], set(), set())
    desired: dict[Key, Manifest] = {}
    keep: set[Key] = set()
    units: set[Id] = set()
    if merged and here.listed.discovery is None:
        planned.plan.refuse(
            here.name, "kind_not_served", "the API server has no EndpointSlice, so its imports have no endpoints"
        )
    for place in sorted(merged):
        if here.namespaces.get(place[0]) is not False:
            continue  # there is no such namespace, or not for long
        units.add(unit_of(place))
        made = _manifests(here, merged[place], options, version, slices)
        actual = here.import_of(place)
        unowned = sorted(key for key in made if key in here.objects and key not in here.mine)
        if unowned:
            planned.failed.add(place)
            text = f"{unowned[0].kind} {unowned[0].short} exists and has another owner; it is left alone, and the Service is not imported"
            planned.plan.refuse("ServiceImport " + label_of(here.name, place), "not_ours", text)
            keep.update(here.units.get(unit_of(place), ()))
        elif actual is not None and actual["metadata"].get("deletionTimestamp"):
            planned.waiting.add(place)
            keep.update(here.units.get(unit_of(place), ()))
        else:
            desired.update(made)
            keep.update(key for key in here.slices.get(unit_of(place), ()) if source_of(key) in merged[place].held)
    for place, ids in kept.items():
        units.add(unit_of(place))
        keep.update(key for key in here.units.get(unit_of(place), ()) if key.kind != SLICE or source_of(key) in ids)
    _name_doubtful(here, planned.plan)
    desired.update(_stale(here, keep & here.mine, unreachable, options, now))
    part, writes = _changes(here, desired, manager)
    planned.plan.extend(part)
    doomed, refused = _doomed(here, units, desired, keep, options)
    planned.plan.refused.extend(refused)
    writes += _deletes(here, doomed, manager)
    planned.plan.changes.extend(write.change for write in writes)
    planned.writes.extend(writes)
    return planned._replace(imports=sum(1 for key in desired if key.kind == IMPORT))


def remove_all(here: Here, manager: str) -> Planned:
    """The writes that take away everything owned in one cluster."""
    doomed = [key for keys in here.units.values() for key in keys if here.namespaces.get(key.namespace) is False]
    writes = _deletes(here, doomed, manager)
    plan = Plan()
    _name_doubtful(here, plan)
    plan.changes.extend(write.change for write in writes)
    return Planned(plan, writes, set(), set())


def _name_doubtful(here: Here, plan: Plan) -> None:
    for key in sorted(here.doubtful):
        plan.refuse(f"{key.kind} {here.name}/{key.short}", "not_ours", why_it_stays(here.objects[key], here.manager))


def _manifests(
    here: Here, one: Merged, options: Options, version: tuple[int, int] | None, slices: Made | None
) -> dict[Key, Manifest]:
    namespace, made = one.place[0], {}
    families = options.families.get(here.name) or ()
    service: Object | None = None
    if not one.shape.headless:
        key = Key("v1", SERVICE, namespace, derived_name(*one.place))
        service = here.objects.get(key)
        made[key] = derived_service(one, families if here.has_families else None, service, version)
    found = here.import_of(one.place)
    made[here.import_key(one.place)] = service_import(one, families, service, here.listed.version, options.keep_first)
    owner = found["metadata"].get("uid") if found is not None else _PENDING_OWNER
    current = here.slices.get(unit_of(one.place), ())
    for export in one.members if here.listed.discovery is not None else ():
        own = [here.objects[key] for key in current if source_of(key) == export.id]
        for manifest in import_slices(
            one,
            export,
            owner,
            str(here.listed.discovery),
            here.listed.version,
            own,
            options.most,
            None if one.held else slices,
            None if export.cluster == here.name else options.exported.get(export.cluster),
        ):
            made[Key(manifest["apiVersion"], SLICE, namespace, manifest["metadata"]["name"])] = manifest
    return made


def _stale(
    here: Here, kept: t.Iterable[Key], unreachable: t.Collection[str], options: Options, now: int
) -> t.Iterator[tuple[Key, Manifest]]:
    """Our slices of sources that do not answer: since when is noted on them, and they lose their endpoints when it was long enough ago."""
    if not options.stale_after or not unreachable:
        return
    for key in sorted(kept):
        if key.kind == SLICE and source_of(key) in unreachable and here.namespaces.get(key.namespace) is False:
            obj = here.objects[key]
            noted = (obj["metadata"].get("annotations") or {}).get(UNREACHABLE_SINCE)
            since = int(noted) if isinstance(noted, str) and _STAMP.match(noted) and int(noted) <= now else now
            yield key, dict(gone_slice(obj, str(since), now - since >= options.stale_after), apiVersion=key.api_version)


def filled(write: Write, known: t.Mapping[Id, t.Any] | None) -> Write | None:
    """The write with what the cluster gave meanwhile; None while that is not known.

    known: by (namespace, derived name), for imports the addresses and families of derived Services, for slices the uids of imports.
    """
    if not is_pending(write.manifest):
        return write
    manifest = t.cast(Manifest, write.manifest)
    meta, spec = manifest["metadata"], manifest.get("spec") or {}
    derived = (
        derived_name(write.key.namespace, write.key.name) if write.key.kind == IMPORT else write.key.name[:_DERIVED]
    )
    found = (known or {}).get((write.key.namespace, derived))
    if found is None:
        return None
    if write.key.kind == IMPORT:
        ips, families = found
        beta = "ipFamilies" in spec
        more = {"ips": ips, "ipFamilies": families} if beta else {"ips": ips[:1]}
        return write._replace(manifest=dict(manifest, spec=dict(spec, **more)))
    owners = [dict(owner, uid=found) for owner in meta["ownerReferences"]]
    return write._replace(manifest=dict(manifest, metadata=dict(meta, ownerReferences=owners)))


# -- what differs -----------------------------------------------------------------------------------------------------


def _changes(here: Here, desired: t.Mapping[Key, Manifest], manager: str) -> tuple[Plan, list[Write]]:
    todo = {
        key: manifest
        for key, manifest in desired.items()
        if key not in here.objects or not _same(manifest, here.objects[key], manager)
    }
    # the owner of an object was settled before; what we own is repaired, whoever edited it
    there = {key: here.objects[key] for key in todo if key in here.objects}
    part, writes = plan_objects(here.name, todo, Read(there, _NOTHING, _NOTHING, {}), manager, adopt=True, alone=True)
    part.changes.clear()
    part.unchanged += len(desired) - len(todo)
    # a name that was free when it was looked at is not taken by force
    writes = [write._replace(force=False) if write.uid is None else write for write in writes]
    return part, sorted(writes, key=lambda write: (_ORDER.index(write.key.kind), write.key))


def _same(manifest: Manifest, actual: Object, manager: str) -> bool:
    """True when an owned object plainly is as desired; False decides nothing, the slower comparison does."""
    meta, found = manifest["metadata"], actual["metadata"]
    for field in ("labels", "annotations", "ownerReferences"):
        if (found.get(field) or None) != (meta.get(field) or None):
            return False
    if found.get("deletionTimestamp") or others(actual, manager):
        return False
    if manifest["kind"] == SLICE:
        return all((actual.get(field) or []) == manifest[field] for field in ("addressType", "endpoints", "ports"))
    if manifest["kind"] == IMPORT:
        return bool(actual.get("spec") == manifest["spec"])
    return not surplus(manifest, actual, manager) and _has_all(actual.get("spec") or {}, manifest["spec"])


def _has_all(spec: Object, desired: Manifest) -> bool:
    """Whether a Service has all that is desired; the port of endpoints is filled in by the server."""
    for field, value in desired.items():
        found = spec.get(field)
        if field == "ports":
            found = [{name: port.get(name) for name in port if name != "targetPort"} for port in found or ()]
        if found != value:
            return False
    return True


# -- what goes --------------------------------------------------------------------------------------------------------


def _doomed(
    here: Here, units: t.Collection[Id], desired: t.Mapping[Key, Manifest], keep: t.Collection[Key], options: Options
) -> tuple[list[Key], list[Refusal]]:
    """What is owned and not desired, within the budget: of imports as wholes, and of the sources of those that stay."""
    live = {unit: keys for unit, keys in here.units.items() if here.namespaces.get(unit[0]) is False}
    gone = [unit for unit in live if unit not in units]
    refused, doomed = [], [key for unit in gone for key in live[unit]]
    refusal = _over(here.name, here.name, IMPORT, len(live), len(gone), options)
    if refusal is not None:
        refused.append(refusal)
        doomed = []
    mine: dict[str, int] = {}
    lost: dict[str, list[Key]] = {}
    losses: dict[str, int] = {}
    for unit, keys in live.items():
        if unit not in units:
            continue
        by_source: dict[str, list[Key]] = {}
        for key in keys:
            if key.kind == SLICE:
                by_source.setdefault(source_of(key), []).append(key)
            elif key not in desired and key not in keep:
                doomed.append(key)  # the address of what has none any more
        for source, slices in by_source.items():
            mine[source] = mine.get(source, 0) + 1
            unwanted = [key for key in slices if key not in desired and key not in keep]
            if len(unwanted) == len(slices):
                losses[source] = losses.get(source, 0) + 1
                lost.setdefault(source, []).extend(unwanted)
            else:
                doomed += unwanted  # the same endpoints, in fewer slices
    for source in sorted(lost):
        refusal = _over(here.name, source, SLICE, mine[source], losses[source], options)
        if refusal is None:
            doomed += lost[source]
        else:
            refused.append(refusal)
    return sorted(doomed), refused


def _over(local: str, source: str, kind: str, owned: int, deletes: int, options: Options) -> Refusal | None:
    # the last export of a cluster may go like any other: its list was complete, so what counts is how many go at once
    refusal = check_budget(source, kind, owned, deletes, 1, options.max_deletes, claimed=True)
    return refusal._replace(object=local if source == local else f"{local}: {source}") if refusal else None


def _deletes(here: Here, keys: t.Iterable[Key], manager: str) -> list[Write]:
    there = {key: here.objects[key] for key in keys}
    dummy, writes = plan_objects(
        here.name, {key: {} for key in there}, Read(there, _NOTHING, _NOTHING, {}), manager, state="absent", adopt=True
    )
    writes = [write for write in writes if write.change.action == DELETE]
    return sorted(writes, key=lambda write: (_LAST.index(write.key.kind), write.key))
