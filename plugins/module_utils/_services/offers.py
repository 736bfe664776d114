# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each cluster offers to the others: its labelled Services with the endpoints that hold. Pure, once for each source."""

from __future__ import annotations

import typing as t

from .._plan.plan import Refusal
from .._values.refused import ValueRefused, quoted
from .._values.selectors import Requirement, matches
from .choices import clusters_of_choice, exported_name, narrowed
from .claims import Guard, check_groups, check_service
from .endpoints import Group, from_endpoints, from_slice
from .global_services import GLOBAL, Member, member_of
from .global_slices import MIRRORED_SLICE, service_of
from .mirror_services import MIRRORED, Object, labels_of
from .slices import SERVICE_NAME

ENDPOINTS, SLICES = "endpoints", "slices"
Id = t.Tuple[str, str]
Selector = t.Sequence[Requirement]


class Options(t.NamedTuple):
    """What the user chose. ``global_selector`` and ``routing`` None: off. ``prefixes`` and ``zones``: by cluster.

    ``honoured``: which choices of the Services' owners count (choices.PORTS, CLUSTERS, NAME).
    """

    namespace: str
    mirror_selector: t.Optional[Selector]
    global_selector: t.Optional[Selector]
    routing: t.Optional[Selector]
    prefixes: t.Mapping[str, str]
    zones: t.Mapping[str, t.Sequence[str]]
    fields: str = "safe"
    session_affinity: bool = True
    topology_mode: bool = False
    sweep_services: bool = True
    sweep_slices: bool = True
    on_unreachable: str = "keep"
    adopt: bool = False
    max_deletes: t.Optional[int] = None
    confirm_empty: t.Sequence[str] = ()
    honoured: t.Sequence[str] = ()
    copy_labels: t.Sequence[str] = ()
    copy_annotations: t.Sequence[str] = ()


class Listed(t.NamedTuple):
    """What one cluster's complete lists held. ``form``: in which its mirrors are written; ``version``: of its slices."""

    services: t.Sequence[Object]
    endpoints: t.Sequence[Object]
    slices: t.Sequence[Object]
    form: str
    version: t.Optional[str]


class Offer(t.NamedTuple):
    """One Service to mirror. ``groups`` None: it has no Endpoints object, or no slice, at all.

    ``name``: what it is called in the others; ``clusters``: who gets it, None for all.
    """

    service: Object
    groups: t.Optional[t.List[Group]]
    name: str
    clusters: t.Optional[t.FrozenSet[str]] = None


class Offers(t.NamedTuple):
    """What one cluster offers, and what was refused of it."""

    mirrors: t.Dict[Id, Offer]
    members: t.Dict[Id, Member]
    slices: t.List[t.Tuple[Id, Object, Group]]
    refused: t.List[Refusal]


def id_of(obj: Object) -> t.Optional[Id]:
    """(namespace, name), or None for an object that says neither as text."""
    meta = obj["metadata"]
    namespace, name = meta.get("namespace"), meta.get("name")
    return (namespace, name) if isinstance(namespace, str) and isinstance(name, str) else None


def label_of(cluster: str, key: t.Optional[Id]) -> str:
    """``cluster/namespace/name`` for results; hostile text is shown escaped and cut."""
    parts = key or ("?", "?")
    text = "/".join((cluster,) + parts)
    if len(text) <= 253 and text.isascii() and text.isprintable() and text.count("/") == cluster.count("/") + 2:
        return text
    shown = [part if len(part) <= 253 and part.isascii() and part.isprintable() and "/" not in part else quoted(part) for part in parts]
    return "/".join([cluster] + shown)


def api_servers(listed: Listed) -> t.List[str]:
    """The addresses that a cluster calls its API server: the endpoints of default/kubernetes."""
    found: t.List[str] = []
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


def read_offers(cluster: str, listed: Listed, options: Options, guard: Guard) -> Offers:
    """Everything that a cluster offers and that holds; the rest is refused by name."""
    offers = Offers({}, {}, [], [])
    endpoints = _endpoints_by_service(cluster, listed, options, guard, offers)
    for obj in listed.services:
        labels = labels_of(obj)
        mirrored = options.mirror_selector is not None and matches(options.mirror_selector, labels)
        shared = options.global_selector is not None and matches(options.global_selector, labels)
        # mirrors of mirrors would go round for ever
        if not (mirrored or shared) or MIRRORED in labels or GLOBAL in labels:
            continue
        key = id_of(obj)
        label = label_of(cluster, key)
        try:
            if key is None:
                raise ValueRefused("name_invalid", "it has no namespace or name")
            check_service(obj)
            if shared:
                _refuse_names(obj)
                opted_in = options.routing is not None and matches(options.routing, labels)
                offers.members[key] = member_of(cluster, obj, opted_in)
            if mirrored:
                offers.mirrors[key] = _offer(cluster, obj, endpoints.get(key), label, options, guard, offers.refused)
        except ValueRefused as error:
            offers.refused.append(Refusal(label, error.reason, error.message))
    return offers


def _offer(
    cluster: str, service: Object, groups: t.Optional[t.List[Group]], label: str, options: Options, guard: Guard, refused: t.List[Refusal]
) -> Offer:
    """A Service to mirror, as its owner chose. Raises ValueRefused."""
    service, groups = narrowed(service, groups, options.honoured)
    if groups is not None:
        groups, found = check_groups(groups, cluster, label, guard)
        refused.extend(found)
    name = exported_name(service, options.honoured)
    return Offer(service, groups, service["metadata"]["name"] if name is None else name, clusters_of_choice(service, options.honoured))


def _refuse_names(service: Object) -> None:
    spec = service.get("spec")
    if isinstance(spec, dict) and (spec.get("type") == "ExternalName" or spec.get("externalName")):
        raise ValueRefused("unsupported_type", "a Service of type ExternalName has no endpoints to share")


def _endpoints_by_service(
    cluster: str, listed: Listed, options: Options, guard: Guard, offers: Offers
) -> t.Dict[Id, t.List[Group]]:
    """Endpoints of Services to mirror, unchecked; slices of global services go checked into ``offers``."""
    found: t.Dict[Id, t.List[Group]] = {}
    if listed.form == ENDPOINTS and options.mirror_selector is not None:
        for obj in listed.endpoints:
            labels = labels_of(obj)
            if matches(options.mirror_selector, labels) and MIRRORED not in labels:
                key = id_of(obj)
                if key is not None:
                    found[key] = from_endpoints(obj, options.fields)
    for obj in listed.slices:
        labels = labels_of(obj)
        mirrored = listed.form == SLICES and options.mirror_selector is not None and matches(options.mirror_selector, labels)
        shared = options.global_selector is not None and matches(options.global_selector, labels)
        if not (mirrored or shared) or MIRRORED in labels or MIRRORED_SLICE in labels:
            continue
        key = id_of(obj)
        try:
            if key is None:
                raise ValueRefused("name_invalid", "it has no namespace or name")
            service = (key[0], service_of(obj))
            group = from_slice(obj, options.fields)
        except ValueRefused as error:
            offers.refused.append(Refusal("slice " + label_of(cluster, key), error.reason, error.message))
            continue
        if mirrored:
            found.setdefault(service, []).append(group)
        if shared:
            kept, refused = check_groups([group], cluster, "slice " + label_of(cluster, key), guard)
            offers.refused.extend(refused)
            if kept:
                offers.slices.append((service, obj, kept[0]))
    return found
