# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""At which addresses nodes of one cluster see pods of the others, by the plan of the mesh (translation 4). Pure."""

from __future__ import annotations

import typing as t

from .._values.addresses import address_number
from .._values.exported_ranges import ExportedRanges
from .._values.prefix_sets import address_text
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


class Seen:
    """The same for addresses as (version, number): by the plan of the mesh; without one every cluster sees addresses as they are."""

    def __init__(self, mesh: MeshPlan | None = None) -> None:
        self._mappings = {name: part.exported for name, part in (mesh.clusters.items() if mesh is not None else ())}

    def address(self, cluster: str, address: tuple[int, int]) -> tuple[int, int]:
        """What other clusters see of an address of a cluster's pod."""
        mapping = self._mappings.get(cluster)
        return address_number(mapping.address(address_text(*address))) if mapping else address

    def own(self, cluster: str, address: tuple[int, int]) -> tuple[int, int]:
        """The reverse."""
        mapping = self._mappings.get(cluster)
        return address_number(mapping.own_address(address_text(*address))) if mapping else address
