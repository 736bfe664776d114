# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Global Services: one Service for all clusters that export the same namespace and name (semaphore 4.6). Pure."""

from __future__ import annotations

import typing as t

from .mirror_services import Manifest, Object, copied_ports, is_headless, service_manifest
from .names import global_name

GLOBAL, CLUSTERS = "global-svc", "global-svc-clusters"
HINTS, TOPOLOGY_MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"


class Member(t.NamedTuple):
    """What one cluster exports: ports, headlessness, and whether its Service asks for local-first routing."""

    cluster: str
    ports: t.List[Manifest]
    headless: bool
    opted_in: bool


class Aggregate(t.NamedTuple):
    """``clusters`` sorted; ``held_back`` those whose Service is headless where the others' is not, or the reverse;
    ``ports_differ`` those whose ports are not the deciding cluster's."""

    namespace: str
    name: str
    clusters: t.List[str]
    ports: t.List[Manifest]
    headless: bool
    opted_in: bool
    held_back: t.List[str]
    ports_differ: t.List[str]


def global_labels() -> t.Dict[str, str]:
    """The label by which a global Service is known."""
    return {GLOBAL: "true"}


def member_of(cluster: str, service: Object, opted_in: bool) -> Member:
    """What a cluster's Service exports."""
    return Member(cluster, copied_ports(service), is_headless(service), opted_in)


def aggregate(namespace: str, name: str, members: t.Sequence[Member]) -> t.Optional[Aggregate]:
    """One Service of all members, the first of which decides; None without any."""
    if not members:
        return None
    first = members[0]
    fitting = [member for member in members if member.headless == first.headless]
    return Aggregate(
        namespace,
        name,
        sorted(member.cluster for member in fitting),
        first.ports,
        first.headless,
        first.opted_in,
        sorted(member.cluster for member in members if member.headless != first.headless),
        sorted(member.cluster for member in fitting if _comparable(member.ports) != _comparable(first.ports)),
    )


def _comparable(ports: t.Sequence[t.Mapping[str, t.Any]]) -> t.List[str]:
    return sorted(repr(sorted(dict({"protocol": "TCP", "name": ""}, **port).items(), key=str)) for port in ports)


def precedence(members: t.Iterable[Member], local: str) -> t.List[Member]:
    """Who decides, as seen from one cluster: itself if it exports the Service, else the first by name."""
    return sorted(members, key=lambda member: (member.cluster != local, member.cluster))


def annotations_of(found: Aggregate, topology_mode: bool = False) -> t.Dict[str, str]:
    """The annotations of the local Service, all of them."""
    made = {CLUSTERS: ",".join(found.clusters)}
    if found.opted_in:
        made[HINTS] = "auto"
        if topology_mode:
            made[TOPOLOGY_MODE] = "Auto"
    return made


def global_service(found: Aggregate, namespace: str, topology_mode: bool = False) -> Manifest:
    """The local Service of a global one. Raises ValueRefused name_too_long, name_invalid."""
    spec: Manifest = {"ports": found.ports}
    if found.headless:
        spec["clusterIP"] = "None"
    name = global_name(found.namespace, found.name).checked()
    return service_manifest(name, namespace, global_labels(), spec, annotations_of(found, topology_mode))


def clusters_of(service: Object) -> t.List[str]:
    """The clusters that a local Service's annotation names."""
    annotations = service["metadata"].get("annotations")
    text = annotations.get(CLUSTERS) if isinstance(annotations, dict) else None
    return [name for name in text.split(",") if name] if isinstance(text, str) else []
