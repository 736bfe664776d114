# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each cluster exports to the others: its labelled Services with the endpoints that hold. Pure, once for each source."""

from __future__ import annotations

import typing as t

from .._plan.objects import labels_of
from .._plan.plan import Refusal
from .._values.exported_ranges import ExportedRanges
from .._values.refused import ValueRefused, quoted
from .._values.selectors import Requirement, matches, unmet
from .._values.text import in_short
from .claims import Guard, check_groups, check_service
from .endpoints import ADDRESSES, Group, from_endpoints, from_slice
from .global_services import GLOBAL, MIRRORED_SLICE, ExportingCluster, exporting_cluster, service_of
from .mirror_services import MIRRORED, Object, is_external_name
from .service_annotations import chosen_clusters, chosen_name, narrowed
from .slices import MANAGED_BY, SERVICE_NAME

ENDPOINTS, SLICES = "endpoints", "slices"
#: The manager that Kubernetes notes on the slices that it makes of somebody's Endpoints, with their labels.
MADE_OF_ENDPOINTS = "endpointslicemirroring-controller.k8s.io"
#: So many names are in one sentence.
NAMED = 3
#: (namespace, name)
Id = tuple[str, str]
Selector = t.Sequence[Requirement]


class Options(t.NamedTuple):
    """What the user chose. ``global_selector`` and ``routing`` None: off. ``prefixes`` and ``zones``: by cluster.

    ``honoured``: the annotations by which owners of Services may choose (service_annotations.PORTS, CLUSTERS, NAME). ``exported``: by
    cluster, at which addresses the others see its pods.
    """

    namespace: str
    mirror_selector: Selector | None
    global_selector: Selector | None
    routing: Selector | None
    prefixes: t.Mapping[str, str]
    zones: t.Mapping[str, t.Sequence[str]]
    fields: str = "safe"
    session_affinity: bool = True
    topology_mode: bool = False
    sweep_services: bool = True
    sweep_slices: bool = True
    on_unreachable: str = "keep"
    adopt: bool = False
    max_deletes: int | None = None
    confirm_empty: t.Sequence[str] = ()
    honoured: t.Sequence[str] = ()
    copy_labels: t.Sequence[str] = ()
    copy_annotations: t.Sequence[str] = ()
    exported: t.Mapping[str, ExportedRanges] = {}

    def mirrors(self, labels: t.Mapping[str, str]) -> bool:
        """Whether a Service with these labels is mirrored."""
        return self.mirror_selector is not None and matches(self.mirror_selector, labels)

    def shares(self, labels: t.Mapping[str, str]) -> bool:
        """Whether a Service with these labels is part of a global one."""
        return self.global_selector is not None and matches(self.global_selector, labels)


class Listed(t.NamedTuple):
    """What one cluster's complete lists held. ``form``: in which its mirrors are written; ``version``: of its slices."""

    services: t.Sequence[Object]
    endpoints: t.Sequence[Object]
    slices: t.Sequence[Object]
    form: str
    version: str | None


class ServiceExport(t.NamedTuple):
    """One Service to mirror. ``groups`` None: it has no Endpoints object, or no slice, at all.

    ``name``: what it is called in the others; ``clusters``: who gets it, None for all.
    """

    service: Object
    groups: list[Group] | None
    name: str
    clusters: frozenset[str] | None = None


class ExportedSlice(t.NamedTuple):
    """An EndpointSlice of a global Service; ``group`` is what of it may be copied."""

    service: Id
    slice: Object
    group: Group


class Exports(t.NamedTuple):
    """What one cluster exports, and what was refused of it. ``shared``: its part of global Services.

    ``skipped``: Services of a type that has no endpoints, with the name for their mirrors: none is made, one that there is stays.
    """

    mirrors: dict[Id, ServiceExport]
    shared: dict[Id, ExportingCluster]
    slices: list[ExportedSlice]
    skipped: dict[Id, str]
    refused: list[Refusal]


def id_of(obj: Object) -> Id | None:
    """(namespace, name), or None for an object that has neither as text."""
    meta = obj["metadata"]
    namespace, name = meta.get("namespace"), meta.get("name")
    return (namespace, name) if isinstance(namespace, str) and isinstance(name, str) else None


def label_of(cluster: str, key: Id | None) -> str:
    """``cluster/namespace/name`` for results; hostile text is shown escaped and cut."""
    parts = key or ("?", "?")
    text = "/".join((cluster,) + parts)
    if len(text) <= 253 and text.isascii() and text.isprintable() and text.count("/") == cluster.count("/") + 2:
        return text
    shown = [
        part if len(part) <= 253 and part.isascii() and part.isprintable() and "/" not in part else quoted(part)
        for part in parts
    ]
    return "/".join([cluster] + shown)


def api_servers(listed: Listed) -> list[str]:
    """The addresses that a cluster calls its API server: the endpoints of default/kubernetes."""
    found: list[str] = []
    for obj in listed.endpoints:
        if id_of(obj) == ("default", "kubernetes"):
            found += [text for group in from_endpoints(obj) for one in group.endpoints for text in one.addresses]
    for obj in listed.slices:
        meta = obj["metadata"]
        if meta.get("namespace") == "default" and labels_of(obj).get(SERVICE_NAME) == "kubernetes":
            try:
                found += [text for one in from_slice(obj).endpoints for text in one.addresses]
            except ValueRefused:
                continue
    return found


def read_exports(cluster: str, listed: Listed, options: Options, guard: Guard) -> Exports:
    """Everything that a cluster exports and that holds; the rest is refused by name."""
    exports = Exports({}, {}, [], {}, [])
    endpoints = _endpoints_by_service(cluster, listed, options, guard, exports)
    for obj in listed.services:
        key = id_of(obj)
        try:
            _read_service(exports, cluster, obj, key, endpoints, options, guard)
        except ValueRefused as error:
            exports.refused.append(Refusal(label_of(cluster, key), error.reason, error.message))
    exports.refused.extend(_unlabelled(cluster, listed, options, exports))
    return exports


def _unlabelled(cluster: str, listed: Listed, options: Options, exports: Exports) -> list[Refusal]:
    """Endpoints of Services that are exported, which lack the label themselves, so that they are left out (semaphore 4.1).

    Kubernetes puts a Service's labels on those that it makes. What a user or an operator such as Patroni's makes has its own, and so have the
    slices that Kubernetes makes of such Endpoints.
    """
    found: dict[tuple[Id, str], list[tuple[str, int]]] = {}

    def note(key: Id, what: str, missing: str, count: int) -> None:
        if missing and count:
            found.setdefault((key, missing), []).append((what, count))

    for obj in listed.endpoints if listed.form == ENDPOINTS else ():
        key = id_of(obj)
        if key is not None and key in exports.mirrors:
            count = sum(len(group.endpoints) for group in from_endpoints(obj, ADDRESSES))
            note(key, "Endpoints " + quoted(key[1]), unmet(options.mirror_selector or (), labels_of(obj)), count)
    for obj in listed.slices:
        labels, place, ends = labels_of(obj), id_of(obj), obj.get("endpoints")
        if place is None or SERVICE_NAME not in labels or MIRRORED in labels or MIRRORED_SLICE in labels:
            continue
        key = (place[0], labels[SERVICE_NAME])
        selectors = []
        if key in exports.mirrors and listed.form == SLICES:
            selectors.append(options.mirror_selector)
        if key in exports.shared:
            selectors.append(options.global_selector)
        made = labels.get(MANAGED_BY) == MADE_OF_ENDPOINTS
        what = f"slice {quoted(place[1])}{(f', which is made of Endpoints {quoted(key[1])},' if made else '')}"
        for selector in selectors:
            note(key, what, unmet(selector or (), labels), len(ends) if isinstance(ends, list) else 0)
    return [
        Refusal(label_of(cluster, key), "label_missing", _missing(parts, missing))
        for (key, missing), parts in sorted(found.items())
    ]


def _missing(parts: t.Sequence[tuple[str, int]], missing: str) -> str:
    count = sum(number for dummy, number in parts)
    names = [what for what, dummy in sorted(parts)]
    return "{0} {1} not the label {2}, so {3} {4} left out; a Service's own label does not count for endpoints that Kubernetes does not make".format(
        in_short(names, NAMED),
        "has" if len(names) == 1 else "have",
        quoted(missing),
        "1 endpoint" if count == 1 else f"{count} endpoints",
        "is" if count == 1 else "are",
    )


def _read_service(
    exports: Exports,
    cluster: str,
    obj: Object,
    key: Id | None,
    endpoints: t.Mapping[Id, list[Group]],
    options: Options,
    guard: Guard,
) -> None:
    """Add what one Service exports, if it does. Raises ValueRefused."""
    labels = labels_of(obj)
    mirrored, shared = options.mirrors(labels), options.shares(labels)
    # mirrors of mirrors would go round for ever
    if not (mirrored or shared) or MIRRORED in labels or GLOBAL in labels:
        return
    if key is None:
        raise ValueRefused("name_invalid", "it has no namespace or name")
    name = chosen_name(obj, options.honoured)
    name = key[1] if name is None else name
    if is_external_name(obj):
        if mirrored:
            exports.skipped[key] = name
        raise ValueRefused(
            "unsupported_type", "a Service of type ExternalName has no endpoints; a mirror that there is stays as it is"
        )
    check_service(obj)
    if shared:
        opted_in = options.routing is not None and matches(options.routing, labels)
        exports.shared[key] = exporting_cluster(cluster, obj, opted_in)
    if mirrored:
        service, groups = narrowed(obj, endpoints.get(key), options.honoured)
        if groups is not None:
            groups, refused = check_groups(groups, cluster, label_of(cluster, key), guard)
            exports.refused.extend(refused)
        exports.mirrors[key] = ServiceExport(service, groups, name, chosen_clusters(obj, options.honoured))


def _endpoints_by_service(
    cluster: str, listed: Listed, options: Options, guard: Guard, exports: Exports
) -> dict[Id, list[Group]]:
    """Endpoints of Services to mirror, unchecked; slices of global Services go checked into ``exports``."""
    found: dict[Id, list[Group]] = {}
    for obj in listed.endpoints if listed.form == ENDPOINTS else ():
        labels, key = labels_of(obj), id_of(obj)
        if key is not None and options.mirrors(labels) and MIRRORED not in labels:
            found[key] = from_endpoints(obj, options.fields)
    for obj in listed.slices:
        labels = labels_of(obj)
        mirrored, shared = listed.form == SLICES and options.mirrors(labels), options.shares(labels)
        if not (mirrored or shared) or MIRRORED in labels or MIRRORED_SLICE in labels:
            continue
        key = id_of(obj)
        label = "slice " + label_of(cluster, key)
        try:
            if key is None:
                raise ValueRefused("name_invalid", "it has no namespace or name")
            service = (key[0], service_of(obj))
            group = from_slice(obj, options.fields)
        except ValueRefused as error:
            exports.refused.append(Refusal(label, error.reason, error.message))
            continue
        if mirrored:
            found.setdefault(service, []).append(group)
        if shared:
            kept, refused = check_groups([group], cluster, label, guard)
            exports.refused.extend(refused)
            exports.slices.extend(ExportedSlice(service, obj, one) for one in kept)
    return found
