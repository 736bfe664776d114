# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose the objects are that originals write: counted by kind and by the field managers on record for what is not status."""

from __future__ import annotations

import collections
import typing as t

from .._plan.objects import MANAGER_PREFIX, record_of
from .._values.text import mapping
from .workloads import shown


class Marked(t.NamedTuple):
    """A kind of object that an original writes: ``selector`` as the API takes it, ``annotation`` a part of keys by which its part of a Node is known."""

    program: str
    api_version: str
    kind: str
    selector: str = ""
    annotation: str = ""


#: Most of what is there, at one list each; what a server does not have is left out.
MARKED = (
    Marked("semaphore-wireguard", "v1", "Node", annotation=".wireguard.semaphore.uw.io/"),
    Marked("semaphore-service-mirror", "v1", "Service", "mirrored-svc=true"),
    Marked("semaphore-service-mirror", "v1", "Endpoints", "mirrored-svc=true"),
    Marked("semaphore-service-mirror", "discovery.k8s.io/v1", "EndpointSlice", "mirrored-endpoint-slice=true"),
    Marked("semaphore-policy", "crd.projectcalico.org/v1", "GlobalNetworkSet", "managed-by=semaphore-policy"),
    Marked("kilo-clustermesh", "kilo.squat.ai/v1alpha1", "Peer"),
    Marked("equinix", "metallb.io/v1beta1", "IPAddressPool", "cloud-provider=equinix-metal"),
    Marked("equinix", "metallb.io/v1beta2", "BGPPeer", "cloud-provider=equinix-metal"),
    Marked("apinetlet", "core.apinet.api.onmetal.de/v1alpha1", "Network"),
)


def count(marked: Marked, objects: t.Iterable[t.Any]) -> t.List[t.Dict[str, t.Any]]:
    """Rows of managers: how many objects each is on record for, and whether it is this collection."""
    found: t.Counter[str] = collections.Counter()
    for obj in objects:
        managers = {str(entry.get("manager")) for entry in record_of(obj) if not entry.get("subresource") and _concerns(marked, entry)}
        if not managers and not marked.annotation:
            managers = {"(nobody on record)"}
        found.update(managers)
    return [{"program": marked.program, "kind": marked.kind, "manager": shown(name), "objects": found[name], "ours": name.startswith(MANAGER_PREFIX)}
            for name in sorted(found)]  # fmt: skip


def _concerns(marked: Marked, entry: t.Mapping[str, t.Any]) -> bool:
    if not marked.annotation:
        return True
    return any(marked.annotation in str(key) for key in mapping(entry, "fieldsV1", "f:metadata", "f:annotations"))
