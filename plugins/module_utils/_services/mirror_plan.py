# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired bundles against what a cluster has: writes in an order that opens no hole, sweeps, refusals. Pure."""

from __future__ import annotations

import typing as t

from .._plan.object_plan import Key, Write
from .._plan.objects import labels_of
from .._plan.plan import Plan
from .bundles import Bundle, Objects, global_bundles, mirror_bundles
from .endpoints import aligned, not_ready
from .exports import Exports, Listed, Options
from .global_services import CLUSTER_LABEL, clusters_of
from .mirror_services import PREFIX_LABEL, Manifest, Object, has_selector, is_mirror, may_adopt, must_recreate
from .mirror_writes import Settled, owned, plan_release, plan_writes
from .names import mirror_name
from .slices import SERVICE_NAME
from .sweeps import MARKS, MIRROR, Scope, mark_of, marked, stale

_NO_REASONS: frozenset[str] = frozenset()


def objects_of(listed: Listed, namespace: str) -> dict[Key, Object]:
    """What a cluster has in its mirror namespace."""
    found = {}
    kinds = (
        ("v1", "Service", listed.services),
        ("v1", "Endpoints", listed.endpoints),
        (str(listed.version), "EndpointSlice", listed.slices),
    )
    for api_version, kind, items in kinds:
        for obj in items:
            meta = obj["metadata"]
            if meta.get("namespace") == namespace and isinstance(meta.get("name"), str):
                found[Key(api_version, kind, namespace, meta["name"])] = obj
    return found


def plan_cluster(
    local: str,
    here: Listed,
    exports: t.Mapping[str, Exports],
    unreachable: t.Collection[str],
    options: Options,
    manager: str,
    sources: t.Collection[str] | None = None,
    state: str = "present",
) -> tuple[Plan, list[Write]]:
    """The writes of one cluster.

    exports: of every source that was listed completely. unreachable: sources with an outage that counts (after its grace time).
    sources: clusters with the mirrors that this run is about (default: all of options.prefixes); others are left alone. Global
    services are always those of all clusters, and one goes only when every cluster was listed.
    state: ``absent`` removes what came from ``sources``, and global Services when these are all clusters.
    """
    plan = Plan()
    objects = objects_of(here, options.namespace)
    speaking = set(options.prefixes) if sources is None else set(sources)
    taking_part = set(options.prefixes) if state == "present" else speaking
    desired: list[Bundle] = []
    if state == "present":
        given = {name: exports[name] for name in exports if name in speaking}
        desired, refused = mirror_bundles(local, here, objects, given, options)
        plan.refused.extend(refused)
        shared = {name: exports[name] for name in exports if name in taking_part}
        more, refused = global_bundles(local, here, objects, shared, options)
        plan.refused.extend(refused)
        missing = taking_part - set(exports)
        desired += [bundle for bundle in more if not _unknown(bundle, objects, missing)]
    mine = _mine(objects, manager)
    settled = _settle(plan, desired, objects, mine, options.adopt)
    if state == "present":
        settled.keep.update(_skipped(objects, given, options))
    if state == "present" and options.on_unreachable != "keep":
        settled.manifests.update(_stopped(objects, speaking & set(unreachable), options, mine))
    unwanted, refused = stale(
        Scope(local, exports, speaking, taking_part, options, mine, manager, state), objects, settled
    )
    plan.refused.extend(refused)
    part, writes = plan_writes(local, settled, objects, sorted({*unwanted, *_selected(objects, settled)}), manager)
    return plan.extend(part), writes


def release_cluster(
    local: str, here: Listed, options: Options, manager: str, sources: t.Collection[str]
) -> tuple[Plan, list[Write]]:
    """The patches that hand back what came from ``sources``: objects in a form that semaphore-service-mirror goes on with.

    A mirror with slices is not: upstream writes Endpoints, and would never take the slices away.
    """
    objects = objects_of(here, options.namespace)
    scope = Scope(local, {}, sources, sources, options, _mine(objects, manager), manager, "released")
    swept = [one for one in marked(scope, objects) if one.sweeping and one.key in scope.mine]
    sliced = {
        one.labels.get(SERVICE_NAME, "") for one in swept if one.key.kind == "EndpointSlice" and one.mark[0] == MIRROR
    }
    given_back = [
        one.key for one in swept if one.mark[0] != MIRROR or one.labels.get(SERVICE_NAME, one.key.name) not in sliced
    ]
    plan, writes = plan_release(local, objects, given_back, manager)
    for name in sorted(sliced):
        plan.refuse(
            f"Service {local}/{options.namespace}/{name}",
            "unsupported_type",
            "its endpoints are slices, which the upstream program does not write; run with mirror_as: endpoints first",
        )
    return plan, writes


def _mine(objects: Objects, manager: str) -> set[Key]:
    """What is owned of what is there; asked once, since the answer takes a walk through the object's owners."""
    return {key for key, obj in objects.items() if owned(obj, manager)}


def _selected(objects: Objects, settled: Settled) -> t.Iterator[Key]:
    """Endpoints that Kubernetes made for a selector which somebody put on a mirror: local ones, which stay there when the selector goes."""
    names = {
        key.name
        for key, manifest in settled.manifests.items()
        if key.kind == "Service"
        and key not in settled.recreate
        and has_selector(objects.get(key))
        and not has_selector(manifest)
    }
    for key, obj in objects.items() if names else ():
        of = (
            key.name
            if key.kind == "Endpoints"
            else labels_of(obj).get(SERVICE_NAME)
            if key.kind == "EndpointSlice"
            else None
        )
        # a label can be forged: what Kubernetes made for a Service begins with the Service's name
        if (
            of in names
            and (key.name + "-").startswith(f"{of}-")
            and key not in settled.manifests
            and mark_of(labels_of(obj)) is None
        ):
            yield key


def _skipped(objects: Objects, exports: t.Mapping[str, Exports], options: Options) -> t.Iterator[Key]:
    """What there is of mirrors of Services that cannot be mirrored any more: it stays as it is until somebody decides."""
    names = {
        (options.prefixes[source], mirror_name(options.prefixes[source], key[0], name).name)
        for source, one in exports.items()
        for key, name in one.skipped.items()
    }
    for key, obj in objects.items() if names else ():
        labels = labels_of(obj)
        if (labels.get(PREFIX_LABEL), labels.get(SERVICE_NAME, key.name)) in names:
            yield key


def _unknown(bundle: Bundle, objects: Objects, missing: t.Collection[str]) -> bool:
    """True for a global Service that a cluster shares which could not be listed: it stays as it is."""
    for key in bundle.manifests:
        actual = objects.get(key)
        if key.kind == "Service" and actual is not None and set(clusters_of(actual)) & set(missing):
            return True
    return False


def _settle(plan: Plan, bundles: t.Sequence[Bundle], objects: Objects, mine: t.Collection[Key], adopt: bool) -> Settled:
    """Who owns every object that a bundle needs, and what of the bundles may be written.

    Endpoints never go under an unowned Service: they would send its clients elsewhere.
    """
    settled = Settled({}, set(), set(), set())
    for bundle in bundles:
        found = {key: objects[key] for key in bundle.manifests if key in objects}
        unowned = sorted([key for key in found if key not in mine])
        reasons = {_reason(key, found[key], bundle.manifests[key]) for key in unowned} if unowned else _NO_REASONS
        if unowned and not (adopt and reasons == {"adoptable"}):
            settled.keep.update(bundle.manifests)
            name = f"{unowned[0].kind} {unowned[0].short}"
            if reasons == {"adoptable"}:
                plan.refuse(
                    bundle.label, "adoptable", f"{name} belongs to the upstream program; set adopt to take it over"
                )
            else:
                plan.refuse(bundle.label, "not_ours", f"{name} exists and has another owner; it is left alone")
            continue
        if unowned:
            settled.adopted.update(unowned)
        for key, manifest in bundle.manifests.items():
            actual = objects.get(key)
            if actual is not None and key.kind == "Service" and must_recreate(manifest, actual):
                # Kubernetes takes Endpoints away with their Service, some time later
                settled.recreate.update(other for other in found if other.kind in ("Service", "Endpoints"))
            elif (
                actual is not None
                and key.kind == "EndpointSlice"
                and actual.get("addressType") != manifest["addressType"]
            ):
                settled.recreate.add(key)
            settled.manifests[key] = aligned(manifest, actual) if key.kind == "Endpoints" else manifest
    return settled._replace(adopted=settled.adopted - settled.recreate)


def _reason(key: Key, actual: Object, manifest: Manifest) -> str:
    labels = {name: value for name, value in manifest["metadata"]["labels"].items() if name in MARKS}
    if key.kind == "Service":
        return "adoptable" if may_adopt(actual, labels) else "not_ours"
    found = labels_of(actual)
    # Endpoints belong to the Service of their name, which decides; a slice has its own owner
    return (
        "adoptable"
        if key.kind == "Endpoints" or all(found.get(name) == labels[name] for name in labels)
        else "not_ours"
    )


def _stopped(
    objects: Objects, unreachable: t.Collection[str], options: Options, mine: t.Collection[Key]
) -> dict[Key, Manifest]:
    """Our endpoints of clusters that are not reachable, without addresses or not ready."""
    prefixes = {options.prefixes[name] for name in unreachable if name in options.prefixes}
    made = {}
    for key, obj in objects.items():
        labels = labels_of(obj)
        gone = labels.get(PREFIX_LABEL) in prefixes if is_mirror(labels) else labels.get(CLUSTER_LABEL) in unreachable
        if key.kind != "Service" and gone and key in mine:
            manifest = dict(
                not_ready(obj, options.on_unreachable == "empty"), apiVersion=key.api_version, kind=key.kind
            )
            made[key] = aligned(manifest, obj) if key.kind == "Endpoints" else manifest
    return made
