# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirror Services: what of a remote Service becomes the local one, and what happens to one that exists (semaphore 4.3)."""

from __future__ import annotations

import typing as t

from .._plan.objects import labels_of
from .._values.text import mapping
from .names import mirror_name

Object = t.Mapping[str, t.Any]
Manifest = dict[str, t.Any]

MIRRORED, PREFIX_LABEL = "mirrored-svc", "mirror-svc-prefix-sync"
#: All that is copied of a port: a nodePort belongs to the source cluster.
_PORT_FIELDS = ("name", "protocol", "appProtocol", "port", "targetPort")


def mirror_labels(prefix: str) -> dict[str, str]:
    """The labels by which a mirror is known."""
    return {MIRRORED: "true", PREFIX_LABEL: prefix}


def is_mirror(labels: t.Mapping[str, str], prefix: str | None = None) -> bool:
    """True when the labels are those of a mirror (of this prefix)."""
    return labels.get(MIRRORED) == "true" and (labels.get(PREFIX_LABEL) == prefix if prefix else PREFIX_LABEL in labels)


def is_headless(service: Object) -> bool:
    """True for a Service without an address of its own."""
    return mapping(service, "spec").get("clusterIP") == "None"


def is_external_name(service: Object) -> bool:
    """True for a Service that is a name in DNS and has no endpoints."""
    return mapping(service, "spec").get("type") == "ExternalName" or bool(mapping(service, "spec").get("externalName"))


def has_selector(service: Object | None) -> bool:
    """True for a Service for which Kubernetes itself looks for endpoints."""
    return service is not None and bool(mapping(service, "spec").get("selector"))


def copied_ports(service: Object) -> list[Manifest]:
    """The ports of a Service without what belongs to its own cluster."""
    ports = mapping(service, "spec").get("ports") or []
    return [{field: port[field] for field in _PORT_FIELDS if port.get(field) is not None} for port in ports]


def mirror_service(prefix: str, namespace: str, remote: Object, session_affinity: bool = True) -> Manifest:
    """The local Service of a remote one. Raises ValueRefused name_too_long, name_invalid.

    Nothing is copied but ports, headlessness and (unless switched off) session affinity: other fields steer traffic or
    controllers of the cluster that they land in.
    """
    spec, meta = mapping(remote, "spec"), remote["metadata"]
    desired: Manifest = {"ports": copied_ports(remote)}
    if is_headless(remote):
        desired["clusterIP"] = "None"
    if session_affinity and spec.get("sessionAffinity") == "ClientIP":
        desired["sessionAffinity"] = "ClientIP"
        config = spec.get("sessionAffinityConfig")
        if isinstance(config, dict):
            desired["sessionAffinityConfig"] = config
    name = mirror_name(prefix, meta["namespace"], meta["name"]).checked()
    return service_manifest(name, namespace, mirror_labels(prefix), desired)


def service_manifest(
    name: str, namespace: str, labels: dict[str, str], spec: Manifest, annotations: dict[str, str] | None = None
) -> Manifest:
    """A Service with these contents."""
    meta: Manifest = {"name": name, "namespace": namespace, "labels": labels}
    if annotations:
        meta["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def must_recreate(desired: Object, actual: Object) -> bool:
    """True when a Service has to be made anew: it cannot become headless, or stop being so, in place."""
    return is_headless(desired) != is_headless(actual)


def may_adopt(actual: Object, labels: t.Mapping[str, str]) -> bool:
    """True for a Service that semaphore-service-mirror may have made (adoption is still asked for).

    It has its labels; or it has a mirror's name, no selector and no labels at all, as after somebody took them off. With
    a selector or labels of its own it is somebody's Service, which no option takes over.
    """
    found = labels_of(actual)
    if all(found.get(key) == value for key, value in labels.items()):
        return True
    return not found and not has_selector(actual)
