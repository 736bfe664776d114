# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster mesh looks like now, for people: drift, stale and unowned Peers, handshakes, annotations to migrate."""

from __future__ import annotations

import typing as t

from .endpoints import collect_discovered
from .plan import MeshPlan
from .sources import Gathered, Settings, Target, peer_spec
from .status import cluster_counts, conditions
from .values import CLUSTERMESH_ENDPOINT, DISCOVERED_ENDPOINTS, FORCE_ENDPOINT, MESH_LABEL, Node


def report(
    meshes: t.Sequence[t.Mapping[str, t.Any]], gathered: Gathered, settings: Settings, plan: MeshPlan
) -> dict[str, t.Any]:
    """{meshes, stale, unowned, handshakes, force_endpoints}, all plain data in the order of names."""
    stale: dict[str, list[str]] = {}
    unowned: dict[str, list[str]] = {}
    handshakes: dict[str, t.Any] = {}
    sources = {
        (mesh.get("name"), entry.get("name"))
        for mesh in meshes
        for entry in mesh.get("clusters") or ()
        if isinstance(entry, dict)
    }
    pending = _pending(gathered, plan)
    for name in sorted(gathered.peers):
        target = Target(name, gathered.peers[name], settings.manager)
        stale[name], unowned[name] = [], []
        for group in target.existing.groups():
            if group[0] and (group not in sources or (group[0], name) not in sources):
                stale[name].extend(target.existing.own(*group))
        stale[name].sort()
        unowned[name].extend(ident for ident in sorted(target.objects) if not target.owned(ident))
        found = _handshakes(target, gathered.nodes.get(name, ()))
        if found is not None:
            handshakes[name] = found
    return {
        "meshes": {
            ident: {
                "conditions": conditions(outcome._replace(pending=pending.get(ident.rpartition("/")[2], 0))),
                "clusters": cluster_counts(outcome),
            }
            for ident, outcome in sorted(plan.outcomes.items())
        },
        "stale": stale,
        "unowned": unowned,
        "handshakes": handshakes,
        "force_endpoints": force_endpoints(gathered),
    }


def _pending(gathered: Gathered, plan: MeshPlan) -> dict[str, int]:
    """Mesh name to the number of Peers that a run would write."""
    found: dict[str, int] = {}
    for target, writes in plan.writes.items():
        names = {write.name for write in writes}
        meshes = {
            write.name: write.manifest["metadata"]["labels"].get(MESH_LABEL) for write in writes if write.manifest
        }
        for obj in gathered.peers.get(target, ()):
            labels, ident = obj["metadata"].get("labels"), str(obj["metadata"].get("name"))
            if ident in names and ident not in meshes and isinstance(labels, dict):
                meshes[ident] = labels.get(MESH_LABEL)
        for mesh in meshes.values():
            found[str(mesh)] = found.get(str(mesh), 0) + 1
    return found


def _handshakes(target: Target, nodes: t.Sequence[Node]) -> dict[str, t.Any] | None:
    """Which Peers some node of the target has heard of; None where Kilo does not publish it."""
    if not any(node.annotation(DISCOVERED_ENDPOINTS) for node in nodes):
        return None
    seen = collect_discovered(nodes)
    unreachable = [name for name, obj in sorted(target.objects.items()) if peer_spec(obj).get("publicKey") not in seen]
    return {"heard_of": len(target.objects) - len(unreachable), "unreachable": unreachable}


def force_endpoints(gathered: Gathered) -> dict[str, dict[str, str]]:
    """{cluster: {node: value}} of force-endpoint annotations on nodes without the same clustermesh-endpoint."""
    found: dict[str, dict[str, str]] = {}
    for cluster in sorted(gathered.nodes):
        for node in gathered.nodes[cluster]:
            value = node.annotation(FORCE_ENDPOINT)
            if value and node.annotation(CLUSTERMESH_ENDPOINT) in ("", value):
                found.setdefault(cluster, {})[node.name] = value
    return found
