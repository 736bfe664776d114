# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one cluster should have of what the others offer: bundles of manifests, each whole or not at all. Pure."""

from __future__ import annotations

import typing as t

from .._plan.object_plan import Key
from .._plan.plan import Refusal
from .._values.refused import ValueRefused
from .choices import copied_metadata
from .endpoints import endpoints_manifest
from .global_services import aggregate, global_service, precedence
from .global_slices import CLUSTER_LABEL, global_slice
from .mirror_config import DEFAULT_ZONES
from .mirror_services import PREFIX_LABEL, Manifest, Object, labels_of, mirror_labels, mirror_service
from .names import collisions, keeper, mirror_name
from .offers import ENDPOINTS, Id, Listed, Offer, Offers, Options, label_of
from .slices import SERVICE_NAME, mirror_slices

Objects = t.Mapping[Key, Object]
#: (cluster, whether the name is a chosen one, Service): in this order a Service called so comes before one that wants to be.
Claimant = t.Tuple[str, bool, Id]


class Bundle(t.NamedTuple):
    """Objects that stand or fall together, under one name. ``source``: the cluster that they come from, "" for several."""

    source: str
    name: str
    label: str
    manifests: t.Dict[Key, Manifest]


def key_of(manifest: Object) -> Key:
    """The key of a manifest."""
    meta = manifest["metadata"]
    return Key(manifest["apiVersion"], manifest["kind"], meta["namespace"], meta["name"])


def bundle_of(source: str, name: str, label: str, manifests: t.Iterable[Manifest]) -> Bundle:
    """A bundle; ports of Services get their protocol, which is part of their identity on the server."""
    keyed = {}
    for manifest in manifests:
        if manifest["kind"] == "Service" and not all("protocol" in port for port in manifest["spec"]["ports"]):
            ports = [dict({"protocol": "TCP"}, **port) for port in manifest["spec"]["ports"]]
            manifest = dict(manifest, spec=dict(manifest["spec"], ports=ports))
        keyed[key_of(manifest)] = manifest
    return Bundle(source, name, label, keyed)


def mirror_bundles(
    local: str, here: Listed, objects: Objects, offers: t.Mapping[str, Offers], options: Options
) -> t.Tuple[t.List[Bundle], t.List[Refusal]]:
    """Mirrors of everything that the other clusters offer, sorted, and what cannot be mirrored."""
    refused: t.List[Refusal] = []
    named: t.List[t.Tuple[str, Claimant]] = []
    for source in sorted(offers):
        for key, offer in sorted(offers[source].mirrors.items()) if source != local else ():
            if offer.clusters is None or local in offer.clusters:
                named.append((mirror_name(options.prefixes[source], key[0], offer.name).name, (source, offer.name != key[1], key)))
    losers = _losers(named, objects, options, refused)
    current = _slices_by_service(objects) if here.form != ENDPOINTS else {}
    bundles = []
    for name, claimant in named:
        if claimant in losers:
            continue
        source, dummy, key = claimant
        prefix, offer = options.prefixes[source], offers[source].mirrors[key]
        try:
            manifests = [_mirror(prefix, offer, options)]
        except ValueRefused as error:
            refused.append(Refusal(label_of(source, key), error.reason, error.message))
            continue
        if offer.groups is not None and here.form == ENDPOINTS:
            manifests.append(endpoints_manifest(name, options.namespace, mirror_labels(prefix), offer.groups))
        elif offer.groups is not None and here.version:
            own = current.get(name, ())
            manifests += mirror_slices(name, options.namespace, prefix, offer.groups, here.version, own)
        bundles.append(bundle_of(source, name, label_of(source, key), manifests))
    return bundles, refused


def _mirror(prefix: str, offer: Offer, options: Options) -> Manifest:
    """The mirror Service of an offer. Raises ValueRefused."""
    remote = offer.service
    if remote["metadata"]["name"] != offer.name:
        remote = dict(remote, metadata=dict(remote["metadata"], name=offer.name))
    made = mirror_service(prefix, options.namespace, remote, options.session_affinity)
    labels, annotations = copied_metadata(offer.service, options.copy_labels, options.copy_annotations)
    if labels:
        made["metadata"]["labels"] = dict(labels, **made["metadata"]["labels"])
    if annotations:
        made["metadata"]["annotations"] = annotations
    return made


def _losers(
    named: t.Sequence[t.Tuple[str, Claimant]], objects: Objects, options: Options, refused: t.List[Refusal]
) -> t.Set[Claimant]:
    """Sources whose name another one keeps: the one whose prefix the live mirror carries, else the first in order."""
    losers = set()
    for name, sources in collisions(named).items():
        live = labels_of(objects.get(Key("v1", "Service", options.namespace, name))).get(PREFIX_LABEL)

        def is_live(source: Claimant, live: t.Optional[str] = live) -> bool:
            return options.prefixes[source[0]] == live

        kept = keeper(sources, is_live)
        for source in sources:
            if source != kept:
                losers.add(source)
                message = "its mirror would be {0}, which {1} keeps".format(name, label_of(kept[0], kept[2]))
                refused.append(Refusal(label_of(source[0], source[2]), "claimed_twice", message))
    return losers


def _slices_by_service(objects: Objects) -> t.Dict[str, t.List[Object]]:
    found: t.Dict[str, t.List[Object]] = {}
    for key, obj in objects.items():
        if key.kind == "EndpointSlice":
            found.setdefault(labels_of(obj).get(SERVICE_NAME, ""), []).append(obj)
    return found


def global_bundles(
    local: str, here: Listed, objects: Objects, offers: t.Mapping[str, Offers], options: Options
) -> t.Tuple[t.List[Bundle], t.List[Refusal]]:
    """Global Services and the copies of their slices, as seen from one cluster."""
    refused: t.List[Refusal] = []
    members: t.Dict[Id, t.List[t.Any]] = {}
    for source in sorted(offers):
        for key, member in offers[source].members.items():
            members.setdefault(key, []).append(member)
    if members and not here.version:
        return [], [Refusal(local, "kind_not_served", "the API server has no EndpointSlice, which global services need")]
    bundles, fitting = [], {}
    for key in sorted(members):
        found = aggregate(key[0], key[1], precedence(members[key], local))
        if found is None:
            continue
        decider = precedence(members[key], local)[0].cluster
        for cluster in found.held_back:
            message = "it is headless where {0}'s is not, or the reverse; its endpoints are held back".format(decider)
            refused.append(Refusal(label_of(cluster, key), "headless_mismatch", message))
        for cluster in found.ports_differ:
            refused.append(Refusal(label_of(cluster, key), "ports_conflict", "its ports differ; those of {0} count".format(decider)))
        try:
            manifest = global_service(found, options.namespace, options.topology_mode)
        except ValueRefused as error:
            refused.append(Refusal(label_of(decider, key), error.reason, error.message))
            continue
        fitting[key] = found
        bundles.append(bundle_of("", manifest["metadata"]["name"], "/".join(key), [manifest]))
    bundles += _slice_bundles(local, here, objects, offers, options, fitting, refused)
    return bundles, refused


def _slice_bundles(
    local: str,
    here: Listed,
    objects: Objects,
    offers: t.Mapping[str, Offers],
    options: Options,
    fitting: t.Mapping[Id, t.Any],
    refused: t.List[Refusal],
) -> t.List[Bundle]:
    zones = options.zones.get(local) or DEFAULT_ZONES
    made: t.Dict[t.Tuple[str, str, str], Manifest] = {}
    for source in sorted(offers):
        for service, obj, group in offers[source].slices:
            found = fitting.get(service)
            if found is None or source not in found.clusters:
                continue
            where = (source, service[0], obj["metadata"]["name"])
            try:
                made[where] = global_slice(
                    obj, group, source, source == local, zones, found.opted_in, options.namespace, str(here.version)
                )
            except ValueRefused as error:
                refused.append(Refusal("slice " + label_of(source, where[1:]), error.reason, error.message))
    shared = collisions((manifest["metadata"]["name"], where) for where, manifest in made.items())
    for name, sources in shared.items():
        live = labels_of(objects.get(Key(str(here.version), "EndpointSlice", options.namespace, name)))
        kept = keeper(sources, _as_live(made, live))
        for where in sources:
            if where != kept:
                message = "its copy would be {0}, which slice {1} keeps".format(name, label_of(kept[0], kept[1:]))
                refused.append(Refusal("slice " + label_of(where[0], where[1:]), "claimed_twice", message))
                del made[where]
    return [
        bundle_of(where[0], made[where]["metadata"]["name"], "slice " + label_of(where[0], where[1:]), [made[where]])
        for where in sorted(made)
    ]


def _as_live(
    made: t.Mapping[t.Tuple[str, str, str], t.Mapping[str, t.Any]], live: t.Mapping[str, str]
) -> t.Callable[[t.Tuple[str, str, str]], bool]:
    """Whether the object that lives under a name is the copy of a source, by the labels that say so."""

    def is_live(where: t.Tuple[str, str, str]) -> bool:
        labels = made[where]["metadata"]["labels"]
        return all(labels[key] == live.get(key) for key in (CLUSTER_LABEL, SERVICE_NAME))

    return is_live
