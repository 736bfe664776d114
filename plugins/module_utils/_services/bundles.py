# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one cluster should have of what the others export: bundles of manifests, each whole or not at all. Pure."""

from __future__ import annotations

import typing as t

from .._plan.object_plan import Key
from .._plan.objects import labels_of
from .._plan.plan import Refusal
from .._values.refused import ValueRefused
from .endpoints import as_seen, endpoints_manifest
from .exports import ENDPOINTS, Exports, Id, Listed, Options, ServiceExport, label_of
from .global_services import (
    CLUSTER_LABEL,
    DEFAULT_ZONES,
    Aggregate,
    ExportingCluster,
    aggregate,
    global_service,
    global_slice,
    precedence,
)
from .mirror_services import PREFIX_LABEL, Manifest, Object, mirror_labels, mirror_service
from .names import collisions, mirror_name, name_holder
from .service_annotations import copied_metadata
from .slices import SERVICE_NAME, mirror_slices

Objects = t.Mapping[Key, Object]


class Bundle(t.NamedTuple):
    """Objects that are written or left out together. ``label`` names their source in refusals."""

    label: str
    manifests: dict[Key, Manifest]


class Claimant(t.NamedTuple):
    """A Service that claims a mirror's name. In their order, one of that very name comes before one that has it by its owner's choice."""

    cluster: str
    renamed: bool
    service: Id

    @property
    def label(self) -> str:
        """For messages."""
        return label_of(self.cluster, self.service)


class SliceId(t.NamedTuple):
    """An exported slice: where it is."""

    cluster: str
    namespace: str
    name: str

    @property
    def label(self) -> str:
        """For messages."""
        return "slice " + label_of(self.cluster, (self.namespace, self.name))


def bundle_of(label: str, manifests: t.Iterable[Manifest]) -> Bundle:
    """A bundle; ports of Services get their protocol, which is part of their identity on the server."""
    keyed = {}
    for manifest in manifests:
        if manifest["kind"] == "Service" and not all("protocol" in port for port in manifest["spec"]["ports"]):
            ports = [dict({"protocol": "TCP"}, **port) for port in manifest["spec"]["ports"]]
            manifest = dict(manifest, spec=dict(manifest["spec"], ports=ports))
        meta = manifest["metadata"]
        keyed[Key(manifest["apiVersion"], manifest["kind"], meta["namespace"], meta["name"])] = manifest
    return Bundle(label, keyed)


# -- mirrors ------------------------------------------------------------------------------------------------------


def mirror_bundles(
    local: str, here: Listed, objects: Objects, exports: t.Mapping[str, Exports], options: Options
) -> tuple[list[Bundle], list[Refusal]]:
    """Mirrors of everything that the other clusters export, sorted, and what cannot be mirrored."""
    refused: list[Refusal] = []
    named: list[tuple[str, Claimant]] = []
    for source in sorted(exports):
        for key, export in sorted(exports[source].mirrors.items()) if source != local else ():
            if export.clusters is None or local in export.clusters:
                named.append(
                    (
                        mirror_name(options.prefixes[source], key[0], export.name).name,
                        Claimant(source, export.name != key[1], key),
                    )
                )
    losers = _losers(named, objects, options, refused)
    current = _slices_by_service(objects) if here.form != ENDPOINTS else {}
    bundles = []
    for name, claimant in named:
        if claimant in losers:
            continue
        export = exports[claimant.cluster].mirrors[claimant.service]
        if export.groups is not None:
            seen = as_seen(export.groups, options.exported.get(claimant.cluster))
            export = export._replace(groups=seen)
        try:
            bundles.append(
                bundle_of(
                    claimant.label,
                    _mirror(name, options.prefixes[claimant.cluster], export, here, current.get(name, ()), options),
                )
            )
        except ValueRefused as error:
            refused.append(Refusal(claimant.label, error.reason, error.message))
    return bundles, refused


def _mirror(
    name: str, prefix: str, export: ServiceExport, here: Listed, slices: t.Sequence[Object], options: Options
) -> list[Manifest]:
    """The mirror of one Service with its endpoints; ``slices`` are those that it has. Raises ValueRefused."""
    remote = export.service
    if remote["metadata"]["name"] != export.name:
        remote = dict(remote, metadata=dict(remote["metadata"], name=export.name))
    service = mirror_service(prefix, options.namespace, remote, options.session_affinity)
    labels, annotations = copied_metadata(remote, options.copy_labels, options.copy_annotations)
    if labels:
        service["metadata"]["labels"] = dict(labels, **service["metadata"]["labels"])
    if annotations:
        service["metadata"]["annotations"] = annotations
    if export.groups is not None and here.form == ENDPOINTS:
        return [service, endpoints_manifest(name, options.namespace, mirror_labels(prefix), export.groups)]
    if export.groups is not None and here.version:
        return [service, *mirror_slices(name, options.namespace, prefix, export.groups, here.version, slices)]
    return [service]


def _losers(
    named: t.Sequence[tuple[str, Claimant]], objects: Objects, options: Options, refused: list[Refusal]
) -> set[Claimant]:
    """Sources that lose their name to another one: the one with the prefix that the live mirror carries, else the first in order."""
    losers = set()
    for name, claimants in collisions(named).items():
        live = labels_of(objects.get(Key("v1", "Service", options.namespace, name))).get(PREFIX_LABEL)
        kept = name_holder(
            claimants, [claimant for claimant in claimants if options.prefixes[claimant.cluster] == live]
        )
        for claimant in claimants:
            if claimant != kept:
                losers.add(claimant)
                refused.append(
                    Refusal(claimant.label, "claimed_twice", f"its mirror would be {name}, which {kept.label} keeps")
                )
    return losers


def _slices_by_service(objects: Objects) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for key, obj in objects.items():
        if key.kind == "EndpointSlice":
            found.setdefault(labels_of(obj).get(SERVICE_NAME, ""), []).append(obj)
    return found


# -- global Services ----------------------------------------------------------------------------------------------


def global_bundles(
    local: str, here: Listed, objects: Objects, exports: t.Mapping[str, Exports], options: Options
) -> tuple[list[Bundle], list[Refusal]]:
    """Global Services and the copies of their slices, as seen from one cluster."""
    refused: list[Refusal] = []
    exporting: dict[Id, list[ExportingCluster]] = {}
    for source in sorted(exports):
        for key, one in exports[source].shared.items():
            exporting.setdefault(key, []).append(one)
    if exporting and not here.version:
        return [], [
            Refusal(local, "kind_not_served", "the API server has no EndpointSlice, which global services need")
        ]
    bundles, made = [], {}
    for key in sorted(exporting):
        ranked = precedence(exporting[key], local)
        found, decider = aggregate(key[0], key[1], ranked), ranked[0].cluster
        for cluster in found.held_back:
            message = f"it is headless where {decider}'s is not, or the reverse; its endpoints are held back"
            refused.append(Refusal(label_of(cluster, key), "headless_mismatch", message))
        for cluster in found.ports_differ:
            refused.append(
                Refusal(label_of(cluster, key), "ports_conflict", f"its ports differ; those of {decider} count")
            )
        try:
            bundles.append(bundle_of("/".join(key), [global_service(found, options.namespace, options.topology_mode)]))
        except ValueRefused as error:
            refused.append(Refusal(label_of(decider, key), error.reason, error.message))
            continue
        made[key] = found
    return bundles + _slice_bundles(local, str(here.version), objects, exports, options, made, refused), refused


def _slice_bundles(
    local: str,
    version: str,
    objects: Objects,
    exports: t.Mapping[str, Exports],
    options: Options,
    services: t.Mapping[Id, Aggregate],
    refused: list[Refusal],
) -> list[Bundle]:
    """The copies of slices of global Services; of two that would have one name, one is made."""
    made: dict[SliceId, Manifest] = {}
    for source in sorted(exports):
        for one in exports[source].slices:
            found = services.get(one.service)
            if found is None or source not in found.clusters:
                continue
            where = SliceId(source, one.service[0], one.slice["metadata"]["name"])
            try:
                zones = options.zones.get(local) or DEFAULT_ZONES
                group = one.group if source == local else as_seen([one.group], options.exported.get(source))[0]
                made[where] = global_slice(
                    one.slice, group, source, source == local, zones, found.opted_in, options.namespace, version
                )
            except ValueRefused as error:
                refused.append(Refusal(where.label, error.reason, error.message))
    for name, sources in collisions((manifest["metadata"]["name"], where) for where, manifest in made.items()).items():
        live = labels_of(objects.get(Key(version, "EndpointSlice", options.namespace, name)))
        kept = name_holder(
            sources, [where for where in sources if _copy_of(made[where]) == _copy_of({"metadata": {"labels": live}})]
        )
        for where in sources:
            if where != kept:
                refused.append(
                    Refusal(where.label, "claimed_twice", f"its copy would be {name}, which {kept.label} keeps")
                )
                del made[where]
    return [bundle_of(where.label, [made[where]]) for where in sorted(made)]


def _copy_of(obj: Object) -> list[str | None]:
    """What identifies the owner of a copy."""
    return [labels_of(obj).get(key) for key in (CLUSTER_LABEL, SERVICE_NAME)]
