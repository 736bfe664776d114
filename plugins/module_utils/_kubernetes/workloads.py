# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs all the time in a cluster, and from which images."""

from __future__ import annotations

import typing as t

from .client import Client
from .errors import KubeError

#: Those by which the programs that we look for run.
KINDS = (("apps/v1", "Deployment"), ("apps/v1", "DaemonSet"), ("apps/v1", "StatefulSet"))
#: Where static pods of a control plane are.
STATIC_PODS = "/api/v1/namespaces/kube-system/pods"
Row = tuple[str, str]


def workloads(client: Client) -> list[Row]:
    """(kind namespace/name, image) of all of them, one list a kind. Kinds that we may not list are left out. Raises KubeErrors."""
    found: list[Row] = []
    for version, kind in KINDS:
        try:
            found += _rows(client, version, kind)
        except KubeError as error:
            if error.status != 403:
                raise
    return found


def at_work(client: Client) -> list[Row]:
    """The same of what is to run on some node now, with the static pods of the control plane. Raises KubeErrors, also for what we may not list."""
    found = [row for version, kind in KINDS for row in _rows(client, version, kind, _is_desired)]
    for item in client.list(STATIC_PODS).items:
        ended = (item.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if (item["metadata"].get("annotations") or {}).get("kubernetes.io/config.mirror") and not ended:
            found += _images("Pod", item, item.get("spec") or {})
    return found


def _rows(
    client: Client, version: str, kind: str, counts: t.Callable[[t.Mapping[str, t.Any]], bool] = lambda item: True
) -> list[Row]:
    resource = client.resource(version, kind)
    items = client.list(resource.path()).items if resource is not None else ()
    return [
        row
        for item in items
        if counts(item)
        for row in _images(kind, item, ((item.get("spec") or {}).get("template") or {}).get("spec") or {})
    ]


def _images(kind: str, item: t.Mapping[str, t.Any], spec: t.Mapping[str, t.Any]) -> list[Row]:
    label = f"{kind} {item['metadata'].get('namespace')}/{item['metadata'].get('name')}"
    return [(label, str(one.get("image"))) for one in spec.get("containers") or () if isinstance(one, dict)]


def _is_desired(item: t.Mapping[str, t.Any]) -> bool:
    """Not scaled to nothing, and not a DaemonSet of which its controller has found no node."""
    status = item.get("status") or {}
    nowhere = bool(status.get("observedGeneration")) and status.get("desiredNumberScheduled") == 0
    return (item.get("spec") or {}).get("replicas") != 0 and not nowhere
