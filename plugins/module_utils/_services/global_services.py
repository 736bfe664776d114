# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Global Services: one Service for all clusters that export the same namespace and name, and copies of their slices (semaphore 4.6, 4.7). Pure."""

from __future__ import annotations

import typing as t

from .._plan.objects import labels_of
from .._values.refused import ValueRefused
from .._values.text import mapping, text_of
from .endpoints import Group, endpoint_manifest
from .mirror_services import Manifest, Object, copied_ports, is_headless, service_manifest
from .names import global_name, global_slice_name
from .slices import MANAGED_BY, SERVICE_NAME

GLOBAL, CLUSTERS = "global-svc", "global-svc-clusters"
HINTS, TOPOLOGY_MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
MIRRORED_SLICE, CLUSTER_LABEL = "mirrored-endpoint-slice", "mirror-endpointslice-sync-name"
#: As semaphore-service-mirror writes it.
MANAGED_BY_SEMAPHORE = "semaphore-service-mirror"
DEFAULT_ZONES, REMOTE_ZONE = ("local",), "remote"
#: Kubernetes allows so many zone hints per endpoint.
MOST_ZONES = 8


class ExportingCluster(t.NamedTuple):
    """What one cluster exports under a name: ports, headlessness, and whether its Service asks for local-first routing."""

    cluster: str
    ports: list[Manifest]
    headless: bool
    opted_in: bool


class Aggregate(t.NamedTuple):
    """``clusters`` sorted; ``held_back`` those with a Service that is headless where the others' is not, or the reverse;
    ``ports_differ`` those with other ports than the deciding cluster's."""

    namespace: str
    name: str
    clusters: list[str]
    ports: list[Manifest]
    headless: bool
    opted_in: bool
    held_back: list[str]
    ports_differ: list[str]


def exporting_cluster(cluster: str, service: Object, opted_in: bool) -> ExportingCluster:
    """What a cluster's Service exports."""
    return ExportingCluster(cluster, copied_ports(service), is_headless(service), opted_in)


def aggregate(namespace: str, name: str, exporting: t.Sequence[ExportingCluster]) -> Aggregate:
    """One Service of all clusters that export it, the first of which decides."""
    first = exporting[0]
    fitting = [one for one in exporting if one.headless == first.headless]
    return Aggregate(
        namespace,
        name,
        sorted(one.cluster for one in fitting),
        first.ports,
        first.headless,
        first.opted_in,
        sorted(one.cluster for one in exporting if one.headless != first.headless),
        sorted(one.cluster for one in fitting if _comparable(one.ports) != _comparable(first.ports)),
    )


def _comparable(ports: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    return sorted(repr(sorted(dict({"protocol": "TCP", "name": ""}, **port).items(), key=str)) for port in ports)


def precedence(exporting: t.Iterable[ExportingCluster], local: str) -> list[ExportingCluster]:
    """Who decides, as seen from one cluster: itself if it exports the Service, else the first by name."""
    return sorted(exporting, key=lambda one: (one.cluster != local, one.cluster))


def annotations_of(found: Aggregate, topology_mode: bool = False) -> dict[str, str]:
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
    return service_manifest(name, namespace, {GLOBAL: "true"}, spec, annotations_of(found, topology_mode))


def clusters_of(service: Object) -> list[str]:
    """The clusters that a local Service's annotation names."""
    text = text_of(mapping(service["metadata"], "annotations").get(CLUSTERS))
    return [name for name in text.split(",") if name]


# -- slices -----------------------------------------------------------------------------------------------------------


def check_zones(zones: t.Sequence[str]) -> None:
    """Raises ValueRefused too_many_zones: an endpoint can carry no more hints."""
    if len(zones) > MOST_ZONES:
        raise ValueRefused("too_many_zones", f"{len(zones)} zones; an endpoint takes hints for {MOST_ZONES} at most")


def slice_labels(cluster: str, namespace: str, service: str) -> dict[str, str]:
    """The labels of a copy."""
    return {
        MIRRORED_SLICE: "true",
        CLUSTER_LABEL: cluster,
        SERVICE_NAME: global_name(namespace, service).name,
        MANAGED_BY: MANAGED_BY_SEMAPHORE,
    }


def service_of(remote: Object) -> str:
    """The Service that a slice belongs to. Raises ValueRefused missing_service_name_label."""
    name = labels_of(remote).get(SERVICE_NAME)
    if not name:
        raise ValueRefused("missing_service_name_label", f"the slice has no label {SERVICE_NAME}")
    return name


def global_slice(
    remote: Object,
    group: Group,
    cluster: str,
    is_local: bool,
    zones: t.Sequence[str],
    opted_in: bool,
    namespace: str,
    version: str = "discovery.k8s.io/v1",
) -> Manifest:
    """The copy of one slice; ``group`` is what of it may be copied. Raises ValueRefused.

    Hints make nodes keep to their zone whatever the annotation of the Service is, so without opting in there are none.
    """
    check_zones(zones)
    meta = remote["metadata"]
    name = global_slice_name(meta["name"]).checked()
    labels = slice_labels(cluster, meta["namespace"], service_of(remote))
    hints = list(zones) if is_local else [REMOTE_ZONE]
    endpoints = []
    for endpoint in group.endpoints:
        if opted_in and not is_local:
            endpoint = endpoint._replace(zone=REMOTE_ZONE)
        made = endpoint_manifest(endpoint, version)
        if opted_in and not version.endswith("/v1beta1"):
            made["hints"] = {"forZones": [{"name": zone} for zone in hints]}
        endpoints.append(made)
    return {
        "apiVersion": version,
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "addressType": remote["addressType"],
        "endpoints": endpoints,
        "ports": [dict(port) for port in group.ports],
    }
