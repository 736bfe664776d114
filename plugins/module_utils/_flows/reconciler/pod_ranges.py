# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pod ranges of nodes, followed: a further range of a node is one change of its peers in the other clusters, and no run of a playbook (pod_ranges 3).

The plan of the mesh is made from what the watches have, as a run makes it, and compared with the one before it. Where more than ranges differs a whole run
decides.
"""

from __future__ import annotations

import threading
import typing as t

from ..._kubernetes.client import Client
from ..._kubernetes.clusters import Clusters
from ..._kubernetes.pod_ranges import SOURCES
from ..._kubernetes.watched_collection import Heard
from ..._mesh.topology.range_changes import Orders, RangeChanges, range_changes
from ..._plan.mesh_plan import MeshPlan
from ..mesh import mesh_plan
from .capabilities import EVERYTHING, Capability

Data = dict[str, t.Any]
#: Keys of changes of Nodes, for which a run of the mesh is asked anyway, and of the objects in which network plugins keep ranges.
NODES, RANGES = "nodes", "ranges"
_PODS = "pods"
#: Which source the kinds are of that playbooks are run for, where this does not handle them.
_SOURCE_OF = {kind: source for source, (dummy, kinds) in SOURCES.items() for kind in kinds.values()}


class PodRanges(Capability):
    """Reads all clusters, and writes to none."""

    plurals = frozenset(("nodes", "blockaffinities", "ipamblocks", "ciliumnodes", _PODS))
    #: A block that moves passes through states in which it is nobody's, for some 20 ms.
    window = (0.3, 1.0)
    writes = False

    def __init__(self, request: t.Mapping[str, t.Any]) -> None:
        super().__init__(request)
        self._fabric = mesh_plan.validate(request)[0]
        self._lock = threading.Lock()
        #: of each cluster what was read of it last, and the plan of all that
        self._listings: dict[str, t.Any] = {}
        self._plan: MeshPlan | None = None
        self._failed: frozenset[str] = frozenset()
        #: clusters where Pods are the source of ranges; in others other capabilities may follow Pods
        self._by_pods: frozenset[str] = frozenset()

    def keys(self, cluster: str, heard: Heard) -> t.Collection[str]:
        """What changed of a cluster; everything where a list was in doubt."""
        if not heard.news or heard.plural not in self.plurals:
            return ()
        if heard.plural == _PODS:
            with self._lock:
                if cluster not in self._by_pods:
                    return ()
        if not heard.name:
            return (EVERYTHING,)
        return (f"{NODES if heard.plural == 'nodes' else RANGES}/{cluster}",)

    def handles(self, cluster: str, kind: str) -> bool:
        """Whether changes of a kind are looked after here: it is the source of the cluster's ranges, which was read completely."""
        with self._lock:
            known = self._plan.pod_ranges if self._plan is not None else {}
            return cluster not in self._failed and _SOURCE_OF.get(kind) == known.get(cluster, {}).get("source", "")

    def orders(self, result: Data) -> Orders:
        """For each cluster the peers of its nodes that have other ranges now."""
        return t.cast(Orders, result["orders"])

    def playbooks(self, result: Data) -> t.Collection[str]:
        """That of the mesh, where more than ranges changed and nothing else asks for it."""
        return ("mesh",) if result["runs"] else ()

    def run(self, keys: t.Collection[str], clients: t.Mapping[str, Client], leads: t.Collection[str]) -> Data | None:
        """As Capability.run: of all clusters, whoever leads them."""
        return self._run(dict(self.request), keys, Clusters.of(clients, self.timeout))

    def _run(self, request: Data, keys: t.Collection[str], clusters: Clusters) -> Data:
        if EVERYTHING in keys:
            clusters.read("discover", lambda name, client: _discover(client))
        listings = mesh_plan.read_nodes(self._fabric, clusters)
        failed = frozenset(name for name in self._fabric.clusters if "error" in listings.get(name, {"error": ""}))
        # one that cannot be read now has what it had: nothing is concluded from that
        listings = {**self._listings, **{name: row for name, row in listings.items() if name not in failed}}
        after = mesh_plan.plan_nodes(self._fabric, listings)
        by_pods = frozenset(
            name for name, row in listings.items() if "ranges" in row and row["ranges"].pods is not None
        )
        known = set(self._listings) >= set(listings)
        changes = range_changes(self._plan, after) if self._plan is not None and known else RangeChanges({})
        with self._lock:
            self._listings, self._plan, self._failed, self._by_pods = listings, after, failed, by_pods
        runs = bool(changes.more) and any(key.startswith(RANGES) for key in keys)
        text = "more than ranges of peers changed, {0}, so the playbook mesh is run"
        return {
            "plan": {"changes": []},
            "refused": after.refused,
            "failures": clusters.failures,
            "warnings": [text.format(changes.more)] if runs else [],
            "orders": changes.orders,
            "runs": runs,
        }


def _discover(client: Client) -> None:
    """Ask again for kinds that the server did not have: a network plugin may have brought them since."""
    for versions, kinds in SOURCES.values():
        for version in versions:
            kind = next(iter(kinds.values()))
            if not client.serves(version, kind):
                client.resource(version, kind, refresh=True)
