# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Wanted bundles against what a cluster has: writes in an order that opens no hole, sweeps, refusals. Pure."""

from __future__ import annotations

import typing as t

from .._plan.budget import check_budget
from .._plan.object_plan import Key, Read, Write, plan_objects
from .._plan.objects import is_ours, owned_tree
from .._plan.plan import DELETE, UPDATE, Change, Plan
from .bundles import Bundle, Objects, global_bundles, mirror_bundles
from .endpoints import aligned, not_ready
from .global_services import GLOBAL, clusters_of
from .global_slices import CLUSTER_LABEL, MIRRORED_SLICE
from .mirror_services import MIRRORED, PREFIX_LABEL, Manifest, Object, is_mirror, labels_of, may_adopt, must_recreate
from .offers import Listed, Offers, Options
from .slices import SERVICE_NAME

#: What others need comes first, when things are made and the other way round when they go.
_ORDER = ("Service", "EndpointSlice", "Endpoints")
_OUR_LABELS = (MIRRORED, GLOBAL, MIRRORED_SLICE)


def objects_of(listed: Listed, namespace: str) -> t.Dict[Key, Object]:
    """What a cluster has in its mirror namespace."""
    found = {}
    kinds = (("v1", "Service", listed.services), ("v1", "Endpoints", listed.endpoints), (str(listed.version), "EndpointSlice", listed.slices))
    for api_version, kind, items in kinds:
        for obj in items:
            meta = obj["metadata"]
            if meta.get("namespace") == namespace and isinstance(meta.get("name"), str):
                found[Key(api_version, kind, namespace, meta["name"])] = obj
    return found


def owned(obj: Object, manager: str) -> bool:
    """True when our field manager applied the object: something outside its metadata, or the label that marks it.

    Endpoints without any address have nothing but their labels.
    """
    if is_ours(obj, manager):
        return True
    labels = owned_tree(obj, manager, "Apply").get("f:metadata", {}).get("f:labels", {})
    return any("f:" + label in labels for label in _OUR_LABELS)


def plan_cluster(
    local: str,
    here: Listed,
    offers: t.Mapping[str, Offers],
    unreachable: t.Collection[str],
    options: Options,
    manager: str,
    sources: t.Optional[t.Collection[str]] = None,
    state: str = "present",
) -> t.Tuple[Plan, t.List[Write]]:
    """The writes of one cluster.

    offers: of every source that was listed completely. unreachable: sources whose outage counts (after its grace time).
    sources: clusters whose mirrors this run speaks about (default: all of options.prefixes); others are left alone. Global
    services are always those of all clusters, and one goes only when every cluster was listed.
    state: ``absent`` removes what came from ``sources``, and global Services when these are all clusters.
    """
    plan = Plan()
    objects = objects_of(here, options.namespace)
    speaking = set(options.prefixes) if sources is None else set(sources)
    taking_part = set(options.prefixes) if state == "present" else speaking
    wanted: t.List[Bundle] = []
    if state == "present":
        given = {name: offers[name] for name in offers if name in speaking}
        wanted, refused = mirror_bundles(local, here, objects, given, options)
        plan.refused.extend(refused)
        shared = {name: offers[name] for name in offers if name in taking_part}
        more, refused = global_bundles(local, here, objects, shared, options)
        plan.refused.extend(refused)
        missing = taking_part - set(offers)
        wanted += [bundle for bundle in more if not _unknown(bundle, objects, missing)]
    manifests, keep, ghosts, adopted = _checked(plan, wanted, objects, manager, options.adopt)
    if state == "present" and options.on_unreachable != "keep":
        manifests.update(_stopped(objects, speaking & set(unreachable), options, manager))
    stale = _stale(plan, local, objects, manifests, keep, offers, speaking, taking_part, options, manager, state)
    return _writes(plan, local, manifests, objects, ghosts, adopted, stale, manager)


def _unknown(bundle: Bundle, objects: Objects, missing: t.Collection[str]) -> bool:
    """True for a global Service that a cluster shares which could not be listed: it stays as it is."""
    for key in bundle.manifests:
        actual = objects.get(key)
        if key.kind == "Service" and actual is not None and set(clusters_of(actual)) & set(missing):
            return True
    return False


def _checked(
    plan: Plan, bundles: t.Sequence[Bundle], objects: Objects, manager: str, adopt: bool
) -> t.Tuple[t.Dict[Key, Manifest], t.Set[Key], t.Set[Key], t.Set[Key]]:
    """(manifests that may be written, keys to leave alone, keys to be deleted before they are made anew, adopted keys).

    Endpoints never go under a Service that is not ours: they would send its clients elsewhere.
    """
    manifests: t.Dict[Key, Manifest] = {}
    keep: t.Set[Key] = set()
    ghosts: t.Set[Key] = set()
    adopted: t.Set[Key] = set()
    for bundle in bundles:
        found = {key: objects[key] for key in bundle.manifests if key in objects}
        foreign = [key for key in sorted(found) if not owned(found[key], manager)]
        words = {_word(key, found[key], bundle.manifests[key]) for key in foreign}
        if foreign and not (adopt and words == {"adoptable"}):
            keep.update(bundle.manifests)
            name = "{0} {1}".format(foreign[0].kind, foreign[0].short)
            if words == {"adoptable"}:
                plan.refuse(bundle.label, "adoptable", "{0} is the original program's; set adopt to take it over".format(name))
            else:
                plan.refuse(bundle.label, "not_ours", "{0} exists and is not ours; it is left alone".format(name))
            continue
        adopted.update(foreign)
        for key, manifest in bundle.manifests.items():
            actual = objects.get(key)
            if actual is not None and key.kind == "Service" and must_recreate(manifest, actual):
                # Kubernetes takes Endpoints away with their Service, some time later
                ghosts.update(other for other in found if other.kind in ("Service", "Endpoints"))
            elif actual is not None and key.kind == "EndpointSlice" and actual.get("addressType") != manifest["addressType"]:
                ghosts.add(key)
            manifests[key] = aligned(manifest, actual) if key.kind == "Endpoints" else manifest
    return manifests, keep, ghosts, adopted - ghosts


def _word(key: Key, actual: Object, manifest: Manifest) -> str:
    labels = manifest["metadata"]["labels"]
    if key.kind == "Service":
        return "adoptable" if may_adopt(actual, labels) else "not_ours"
    found = labels_of(actual)
    # Endpoints belong to the Service of their name, which decides; a slice says itself whose it is
    return "adoptable" if key.kind == "Endpoints" or all(found.get(name) == labels[name] for name in labels) else "not_ours"


def _stopped(objects: Objects, unreachable: t.Collection[str], options: Options, manager: str) -> t.Dict[Key, Manifest]:
    """Our endpoints of clusters that are not reachable, without addresses or not ready."""
    prefixes = {options.prefixes[name] for name in unreachable if name in options.prefixes}
    made = {}
    for key, obj in objects.items():
        labels = labels_of(obj)
        gone = labels.get(PREFIX_LABEL) in prefixes if is_mirror(labels) else labels.get(CLUSTER_LABEL) in unreachable
        if key.kind != "Service" and gone and owned(obj, manager):
            manifest = dict(not_ready(obj, options.on_unreachable == "empty"), apiVersion=key.api_version, kind=key.kind)
            made[key] = aligned(manifest, obj) if key.kind == "Endpoints" else manifest
    return made


def _stale(
    plan: Plan,
    local: str,
    objects: Objects,
    wanted: t.Mapping[Key, Manifest],
    keep: t.Set[Key],
    offers: t.Mapping[str, Offers],
    speaking: t.Collection[str],
    taking_part: t.Collection[str],
    options: Options,
    manager: str,
    state: str,
) -> t.List[Key]:
    """What is ours and nobody wants, within the budget of each source and kind (ruling 38)."""
    by_prefix = {prefix: name for name, prefix in options.prefixes.items()}
    whole = state == "absent" and set(speaking) >= set(options.prefixes)
    everybody = set(taking_part) <= set(offers)
    stale: t.Dict[t.Tuple[str, str], t.List[Key]] = {}
    mine: t.Dict[t.Tuple[str, str], int] = {}
    replaced: t.List[Key] = []
    names = {(key.kind, labels_of(manifest).get(SERVICE_NAME, key.name)) for key, manifest in wanted.items()}
    for key in sorted(objects):
        obj = objects[key]
        labels = labels_of(obj)
        if is_mirror(labels):
            source = _source(obj, by_prefix)
            known = source == local or source in offers or source not in options.prefixes
            spoken = source in speaking or source not in options.prefixes
            sweep = options.sweep_services
        elif labels.get(MIRRORED_SLICE) == "true" and CLUSTER_LABEL in labels:
            source = labels[CLUSTER_LABEL]
            known = source in offers or source not in options.prefixes
            spoken = source in taking_part or source not in options.prefixes
            sweep = options.sweep_slices
        elif labels.get(GLOBAL) == "true" and key.kind == "Service":
            source, known, spoken, sweep = "global services", everybody, state == "present" or whole, options.sweep_services
        else:
            continue
        if not (owned(obj, manager) or options.adopt):
            continue
        mine[source, key.kind] = mine.get((source, key.kind), 0) + 1
        if key in wanted or key in keep or not spoken or not sweep:
            continue
        if not known and state == "present":
            continue
        service = labels.get(SERVICE_NAME, key.name)
        other = {"Endpoints": "EndpointSlice", "EndpointSlice": "Endpoints"}.get(key.kind, "")
        if (other, service) in names or (key.kind == "EndpointSlice" and is_mirror(labels) and (key.kind, service) in names):
            replaced.append(key)  # the same endpoints, in their new form or in fewer slices
        else:
            stale.setdefault((source, key.kind), []).append(key)
    doomed = list(replaced)
    for (source, kind), keys in sorted(stale.items()):
        if state == "present":
            remaining = sum(1 for key in wanted if key.kind == kind and _source(wanted[key], by_prefix) == source)
            refusal = check_budget(
                source, kind, mine[source, kind], len(keys), remaining, options.max_deletes, source in options.confirm_empty
            )
            if refusal:
                plan.refused.append(refusal._replace(object="{0}: {1}".format(local, source)))
                continue
        doomed += keys
    return doomed


def _source(obj: Object, by_prefix: t.Mapping[str, str]) -> str:
    """Whose an object of ours is: a cluster's name, or what the budget calls global services."""
    labels = labels_of(obj)
    if is_mirror(labels):
        return by_prefix.get(labels[PREFIX_LABEL], labels[PREFIX_LABEL])
    return labels.get(CLUSTER_LABEL) or "global services"


def _writes(
    plan: Plan,
    local: str,
    manifests: t.Mapping[Key, Manifest],
    objects: Objects,
    ghosts: t.Set[Key],
    adopted: t.Set[Key],
    stale: t.Sequence[Key],
    manager: str,
) -> t.Tuple[Plan, t.List[Write]]:
    """Old forms that cannot be changed go first, then what is wanted is made and changed, then the rest goes."""
    there = {key: obj for key, obj in objects.items() if key not in ghosts}
    settled = {key for key, manifest in manifests.items() if key in there and key not in adopted and _same(manifest, there[key])}
    manifests = {key: manifest for key, manifest in manifests.items() if key not in settled}
    plan.unchanged += len(settled)
    # whose an object is was settled above; what we own is repaired, whoever edited it
    part, writes = plan_objects(local, manifests, Read(there, frozenset(), frozenset(), {}), manager, adopt=True)
    plan.refused.extend(part.refused)
    plan.unchanged += part.unchanged
    for key in sorted(adopted - {write.key for write in writes}):
        # as wanted already, but for whose it is
        meta = there[key]["metadata"]
        change = Change(UPDATE, key.kind, "{0}/{1}".format(local, key.short), {"owner": None}, {"owner": manager})
        writes.append(Write(change, key, dict(manifests[key]), meta.get("uid"), meta.get("resourceVersion"), True))
        plan.unchanged -= 1
    # a name that was free when it was looked at is not taken by force
    writes = [write._replace(force=False) if write.uid is None else write for write in writes]
    writes.sort(key=_making)
    before = _deletes(local, objects, sorted(ghosts), manager)
    after = _deletes(local, objects, stale, manager)
    writes = before + writes + after
    plan.changes.extend(write.change for write in writes)
    return plan, writes


def _same(manifest: Manifest, actual: Object) -> bool:
    """True when an object of ours plainly is as wanted. False says nothing: the slower comparison then knows.

    Most objects of most runs end here. Nothing that we ever applied can be left over in these fields.
    """
    meta, found = manifest["metadata"], actual["metadata"]
    if found.get("labels") != meta["labels"] or found.get("deletionTimestamp"):
        return False
    if manifest["kind"] != "Service":
        return all(actual.get(name) == value for name, value in manifest.items() if name not in ("apiVersion", "kind", "metadata"))
    spec, wanted = actual.get("spec") or {}, manifest["spec"]
    if (found.get("annotations") or {}) != (meta.get("annotations") or {}):
        return False
    if "sessionAffinity" not in wanted and spec.get("sessionAffinity", "None") != "None":
        return False
    return all(spec.get(name) == value for name, value in wanted.items())


def _deletes(local: str, objects: Objects, keys: t.Iterable[Key], manager: str) -> t.List[Write]:
    there = {key: objects[key] for key in keys}
    dummy, writes = plan_objects(
        local, {key: {} for key in there}, Read(there, frozenset(), frozenset(), {}), manager, state="absent", adopt=True
    )
    writes = [write for write in writes if write.change.action == DELETE]
    writes.sort(key=_unmaking)
    return writes


def _making(write: Write) -> t.Tuple[int, Key]:
    return _ORDER.index(write.key.kind), write.key


def _unmaking(write: Write) -> t.Tuple[int, Key]:
    return -_ORDER.index(write.key.kind), write.key


def recreated(writes: t.Iterable[Write]) -> t.Set[str]:
    """Names of Services that are deleted and made anew: Kubernetes may take their Endpoints away in between."""
    gone = {write.key.name for write in writes if write.manifest is None and write.key.kind == "Service"}
    return gone & {write.key.name for write in writes if write.manifest is not None and write.key.kind == "Service"}
