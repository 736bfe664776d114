# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""At which addresses nodes of one cluster see pods of the others, by the plan of the mesh (translation 4). Pure."""

from __future__ import annotations

import typing as t

from .._values.exported_ranges import ExportedRanges

Topology = t.Mapping[str, t.Any]


def exported_of(topology: Topology, cluster: str | None) -> ExportedRanges:
    """How others see the pods of a cluster; as they are where the plan has no mapping."""
    part = (topology.get("clusters") or {}).get(cluster) or {}
    return ExportedRanges(**part.get("exported_pod_cidrs") or {})


def seen_from(topology: Topology, host: str) -> t.Callable[[str, str], str]:
    """``(other host, address of its pod) -> address`` at which a host sees it."""
    own = ((topology.get("nodes") or {}).get(host) or {}).get("cluster")
    known: dict[str, ExportedRanges] = {}

    def seen(other: str, address: str) -> str:
        cluster = ((topology.get("nodes") or {}).get(other) or {}).get("cluster")
        if cluster is None or cluster == own:
            return address
        if cluster not in known:
            known[cluster] = exported_of(topology, cluster)
        return known[cluster].address(address)

    return seen
