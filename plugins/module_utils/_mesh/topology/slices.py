# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What jobs over parts of the hosts agree on: the nodes of the fabric, and a digest of its plan by variable and object.

Each of them plans for itself. One with a plan that differs from what was agreed would undo the others' work, so it stops and reports where it differs.
"""

from __future__ import annotations

import hashlib
import json
import typing as t

from ..._plan.mesh_plan import MeshPlan
from ..._values.text import in_short
from ..fabric.variables import CLUSTER_VARIABLES

Data = dict[str, t.Any]
#: How one machine reaches a cluster is no other's business.
_ACCESS = ("kubeconfig", "context", "allow")
#: Of a digest: long enough that nobody's mistake is missed, short enough for thousands of objects.
_LENGTH = 16
#: So many differences are named.
SHOWN = 5


def _digest(value: t.Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode("utf-8")).hexdigest()[:_LENGTH]


def agreement(mesh: MeshPlan, definition: t.Mapping[str, t.Any]) -> Data:
    """``{nodes: {host: variables}, digest: {what: digest}}``. definition: the inventory it was made of."""
    return {
        "nodes": {str(host): dict(given) for host, given in definition["nodes"].items()},
        "digest": digests(mesh, definition),
    }


def without_access(definition: t.Mapping[str, t.Any]) -> Data:
    """The definition as ``agreement`` takes it, with nothing of how clusters are reached: it is kept in a file for the time of a run."""
    names = [name for name in CLUSTER_VARIABLES if name not in _ACCESS]
    clusters = {
        cluster: {name: given[name] for name in names if name in given}
        for cluster, given in definition["clusters"].items()
    }
    return dict(definition, clusters=clusters)


def digests(mesh: MeshPlan, definition: t.Mapping[str, t.Any]) -> dict[str, str]:
    """``{what: digest}`` of everything that a plan is made of, each by the name under which a user can find it."""
    found: dict[str, str] = {
        "mode": _digest([mesh.mode if mesh.spans_nodes else None, mesh.fabric, mesh.annotation_patterns, mesh.overlay]),
    }
    for cluster, given in definition["clusters"].items():
        for name in CLUSTER_VARIABLES:
            if name not in _ACCESS and given.get(name) is not None:
                found[f"variable {name} of cluster {cluster}"] = _digest(given[name])
    seats: dict[str, list[t.Any]] = {}
    for host, node in mesh.nodes.items():
        seats.setdefault(f"node {node.cluster}/{node.node_name}", []).append([host, node.to_json()])
    for local, part in mesh.clusters.items():
        for remote, settings in part.remotes.items():
            rest = _without(settings.to_json(), "peers", "contested")
            found[f"devices of cluster {local} towards {remote}"] = _digest(rest)
            for kind, peers in (("peers", settings.peers), ("contested", settings.contested)):
                for row in peers:
                    seats.setdefault(f"node {remote}/{row['node']}", []).append([local, kind, row])
    if mesh.kubespan is not None:
        span = mesh.kubespan
        for kind, affiliates in (("affiliates", span.affiliates), ("contested", span.contested)):
            for row in affiliates:
                seats.setdefault(f"node {row['cluster']}/{row['node']}", []).append([kind, row])
        found["mesh of all nodes"] = _digest(_without(span.to_json(), "affiliates", "contested"))
    for cluster, pools in (mesh.ip_pools or {}).items():
        found[f"IPPools of cluster {cluster}"] = _digest(pools)
    found.update((what, _digest(rows)) for what, rows in seats.items())
    return found


def _without(row: Data, *names: str) -> Data:
    return {name: value for name, value in row.items() if name not in names}


def differences(agreed: t.Mapping[str, str], own: t.Mapping[str, str]) -> list[str]:
    """What differs, variables first: they are the cause of the rest."""
    found = [what for what in {**agreed, **own} if agreed.get(what) != own.get(what)]
    return sorted(found, key=lambda what: (not what.startswith("variable "), what))


def strangers(agreed: t.Mapping[str, t.Any], nodes: t.Mapping[str, t.Any]) -> list[str]:
    """Hosts of this job of which the agreement has something else, or nothing."""
    return sorted(str(host) for host, given in nodes.items() if agreed.get(str(host)) != dict(given))


def shown(found: t.Sequence[str]) -> str:
    """Differences as words."""
    return in_short(found, SHOWN)


def news(before: MeshPlan, after: MeshPlan) -> list[str]:
    """The clusters with nodes that get another part by the second of two plans."""
    if after.spans_nodes and before.kubespan != after.kubespan:
        return sorted(after.clusters)
    own = {
        node.cluster
        for host, node in after.nodes.items()
        if host not in before.nodes or before.nodes[host].pod_cidrs != node.pod_cidrs
    }
    return sorted(own.union(name for name, part in after.clusters.items() if before.clusters.get(name) != part))


def reported(
    mesh: MeshPlan,
    results: t.Mapping[str, t.Mapping[str, t.Any]],
    desired: t.Mapping[str, t.Mapping[str, t.Any]],
    contested: t.Collection[str],
) -> dict[str, Data]:
    """{host: {public_keys, kubespan}} of hosts with a report that others need: it is not published as it is, or decides what is contested.

    results: host -> its result of node_dataplane. desired: {cluster: {node: annotations}} that are not published yet.
    """
    found: dict[str, Data] = {}
    for host, result in results.items():
        if host not in mesh.nodes:
            continue
        node = mesh.nodes[host]
        seat = f"{node.cluster}/{node.node_name}"
        span = result.get("kubespan")
        harvests = (
            isinstance(span, dict) and span.get("harvested") is not None
        )  # what a node has seen of others decides what theirs are
        if node.node_name in desired.get(node.cluster, {}) or seat in contested or harvests:
            found[host] = {"public_keys": result.get("public_keys") or {}}
            if isinstance(span, dict):
                found[host]["kubespan"] = {name: span[name] for name in ("annotations", "harvested") if name in span}
    return found
