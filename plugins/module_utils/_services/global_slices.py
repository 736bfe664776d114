# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slices of global services: a copy of each source slice, with hints for those who asked for them (semaphore 4.7). Pure."""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused
from .endpoints import Group, endpoint_manifest
from .mirror_config import MOST_ZONES
from .mirror_services import Manifest, Object, labels_of
from .names import global_name, global_slice_name
from .slices import MANAGED_BY, SERVICE_NAME

MIRRORED_SLICE, CLUSTER_LABEL = "mirrored-endpoint-slice", "mirror-endpointslice-sync-name"
#: As the original writes it.
MANAGED_BY_SEMAPHORE = "semaphore-service-mirror"
REMOTE_ZONE = "remote"


def slice_labels(cluster: str, namespace: str, service: str) -> t.Dict[str, str]:
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
        raise ValueRefused("missing_service_name_label", "the slice has no label {0}".format(SERVICE_NAME))
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

    Hints make nodes keep to their zone whatever the annotation of the Service says, so without opting in there are none.
    """
    if len(zones) > MOST_ZONES:
        raise ValueRefused("too_many_zones", "an endpoint takes hints for {0} zones at most".format(MOST_ZONES))
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
