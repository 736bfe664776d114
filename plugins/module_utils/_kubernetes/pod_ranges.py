# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an API server shows of where the pods of its cluster are: the objects of CNIs, and some pods. Reads only."""

from __future__ import annotations

import typing as t

from .._values.refused import quoted
from .client import Client
from .errors import KubeError

#: Calico has its kinds in one group, in the other, or in both with the same content.
CALICO = ("crd.projectcalico.org/v1", "projectcalico.org/v3")
CILIUM = ("cilium.io/v2",)
PODS = "/api/v1/pods"
CONFIG_MAPS = "/api/v1/configmaps"
#: From so many pods it is found where a cluster's pods are; the objects of its CNI have it for all.
MOST_PODS = 500
#: Finished pods hold no address, waiting ones have none yet.
RUNNING = "status.phase=Running"
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


#: What of a cluster's API is where the ranges of its nodes are: {name of a field: (API versions, kinds in the order in which they are listed)}.
SOURCES: dict[str, tuple[t.Sequence[str], dict[str, str]]] = {
    "cilium": (CILIUM, {"cilium_nodes": "CiliumNode"}),
    # blocks after their affinities: a block knows of a move that an older list does not have
    "calico": (CALICO, {"affinities": "BlockAffinity", "blocks": "IPAMBlock"}),
}


def read_sources(client: Client, sources: t.Iterable[str]) -> dict[str, t.Any]:
    """The fields of fabric.pod_range_readers.Objects, of the sources ``calico`` and ``cilium`` where their kinds are served.

    What may not be listed is in ``forbidden``. Raises a KubeError for everything else: a list that is not complete is none (threat T14).
    """
    found: dict[str, t.Any] = {}
    forbidden: dict[str, str] = {}
    for source in sources:
        versions, kinds = SOURCES[source]
        first = next(iter(kinds.values()))
        version = next((version for version in versions if client.serves(version, first)), None)
        if version is None:
            continue
        for field, kind in kinds.items():
            resource = client.resource(version, kind)
            if resource is None:
                continue
            try:
                found[field] = client.list(resource.path()).items
            except KubeError as error:
                if error.status != 403:
                    raise
                forbidden[source] = f"{resource.plural}.{version.partition('/')[0]}"
                break
            if not found[field]:
                found = {**dict.fromkeys(kinds, []), **found}  # without affinities blocks give no node a range
                pools = _pools(client, version) if source == "calico" else []
                found.update({"pools": pools} if pools else {})
                break
    return dict(found, forbidden=forbidden)


def _pools(client: Client, version: str) -> list[dict[str, t.Any]]:
    """IPPools, which show that Calico's IPAM is in use although no node has a block yet; none where they may not be listed."""
    resource = client.resource(version, "IPPool")
    try:
        return list(client.list(resource.path()).items) if resource is not None else []
    except KubeError as error:
        if error.status != 403:
            raise
        return []


def _agents(client: Client) -> list[dict[str, t.Any]]:
    """What decides whether Cilium or Calico masquerades by eBPF: ConfigMaps cilium-config, and FelixConfigurations."""
    found: list[dict[str, t.Any]] = []
    if any(client.serves(version, "CiliumNode") for version in CILIUM):
        found += client.list(CONFIG_MAPS, field_selector="metadata.name=cilium-config").items
    for version in CALICO:
        resource = client.resource(version, "FelixConfiguration")
        if resource is not None:
            return found + list(client.list(resource.path()).items)
    return found


def read_pods(client: Client) -> dict[str, t.Any]:
    """The same for the source ``pods``."""
    try:
        return {"pods": client.list(PODS, field_selector=UNFINISHED).items}
    except KubeError as error:
        if error.status != 403:
            raise
        return {"forbidden": {"pods": "pods"}}


def read_pod_ranges(client: Client) -> dict[str, t.Any]:
    """The fields of pod_places.Found, of what is served and may be read; the rest is named in ``unread``. Raises a KubeError where the server is gone."""
    unread: list[str] = []

    def attempt(what: str, read: t.Callable[[], t.Any], otherwise: t.Any) -> t.Any:
        try:
            return read()
        except KubeError as error:
            if error.status is None:
                raise
            if error.status != 404:  # a kind that is not served is no fault
                unread.append(f"{what} ({'forbidden' if error.status == 403 else quoted(error.message)})")
            return otherwise

    def objects(versions: t.Sequence[str], kind: str) -> list[dict[str, t.Any]]:
        for version in versions:
            resource = client.resource(version, kind)
            if resource is not None:
                items: list[dict[str, t.Any]] = client.list(resource.path()).items
                return items
        return []

    pods, whole = attempt("pods", lambda: client.sample(PODS, MOST_PODS, RUNNING), ([], True))
    return {
        "pods": pods,
        "whole": whole,
        "pools": attempt("IPPools of Calico", lambda: objects(CALICO, "IPPool"), []),
        "affinities": attempt("BlockAffinities of Calico", lambda: objects(CALICO, "BlockAffinity"), []),
        "cilium_nodes": attempt("CiliumNodes", lambda: objects(CILIUM, "CiliumNode"), []),
        "host_endpoints": attempt("HostEndpoints of Calico", lambda: objects(CALICO, "HostEndpoint"), []),
        "agents": attempt("ConfigMaps cilium-config and FelixConfigurations", lambda: _agents(client), []),
        "unread": unread,
    }
