# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""At which addresses nodes of one cluster see pods of the others, by the plan of the mesh (translation 4). Pure."""

from __future__ import annotations

import typing as t

from .._values.exported_ranges import ExportedRanges
from .mesh_plan import MeshPlan


def seen_from(plan: MeshPlan, host: str) -> t.Callable[[str, str], str]:
    """``(other host, address of its pod) -> address`` at which a host sees it."""
    own = plan.node(host).cluster
    known: dict[str, ExportedRanges] = {}

    def seen(other: str, address: str) -> str:
        cluster = plan.node(other).cluster
        if cluster in ("", own):
            return address
        if cluster not in known:
            known[cluster] = plan.cluster(cluster).exported
        return known[cluster].address(address)

    return seen
