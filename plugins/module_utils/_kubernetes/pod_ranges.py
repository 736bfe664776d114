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
#: Of so many pods a cluster tells where its pods are; the objects of its CNI tell it of all.
MOST_PODS = 500
#: Finished pods hold no address, waiting ones have none yet.
RUNNING = "status.phase=Running"


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
        "unread": unread,
    }
