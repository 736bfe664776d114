# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""At which addresses clusters see pods of each other, for ends and flows of a trace (translation 5). Pure."""

from __future__ import annotations

import typing as t

from .._plan.mesh_plan import MeshPlan
from .._values.addresses import address_number
from .causes import place_text
from .objects import Address

Data = dict[str, t.Any]


class Seen:
    """By the plan of the mesh; without one every cluster sees addresses as they are."""

    def __init__(self, mesh: MeshPlan | None = None) -> None:
        self._mappings = {name: part.exported for name, part in (mesh.clusters.items() if mesh is not None else ())}

    def address(self, cluster: str, address: Address) -> Address:
        """What other clusters see of an address of a cluster's pod."""
        mapping = self._mappings.get(cluster)
        return address_number(mapping.address(place_text(*address))) if mapping else address

    def own(self, cluster: str, address: Address) -> Address:
        """The reverse."""
        mapping = self._mappings.get(cluster)
        return address_number(mapping.own_address(place_text(*address))) if mapping else address


def flow_at(flow: Data, cluster: str) -> Data:
    """A flow as nodes of a cluster see it: another cluster than the source's has the translated source, and both forms of its own pods."""
    source, target = flow["source"], flow["target"]
    rows = target.get("backends") or ()
    if cluster == source.get("cluster") or not ("seen" in source or any("own" in row for row in rows)):
        return flow
    own = [dict(row, address=row["own"]) for row in rows if "own" in row]
    return dict(
        flow,
        source=dict(source, address=source.get("seen", source["address"])),
        target=dict(target, backends=[*own, *rows]),
    )
