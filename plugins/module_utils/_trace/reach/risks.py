# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a plan contradicts what the Nodes of clusters publish, and which nodes have to be read before it is written. Pure.

What the clusters publish was read for the plan anyway, so a fabric in which nothing contradicts costs no call to a node.
"""

from __future__ import annotations

import typing as t

from ..._mesh.semaphore.annotations import key_of
from ..._mesh.semaphore.device import DEFAULT_MTU
from ..._plan.mesh_plan import MeshPlan
from .classes import UNREAD, Pairs

Data = dict[str, t.Any]

ENDPOINT_CHANGED, PORT_CHANGED, CLUSTER_LEFT, TWO_CLUSTERS = (
    "endpoint_changed",
    "port_changed",
    "cluster_left",
    "two_clusters",
)
KEY_CHANGED, SECRET_CHANGED, MTU_RAISED = "key_changed", "secret_changed", "mtu_raised"
_MESSAGES = {
    ENDPOINT_CHANGED: "wireguard_endpoint of {0} is another address than the one that is in use",
    PORT_CHANGED: "{0} is to be reached at another port than the one that is in use",
    KEY_CHANGED: "it gets another key, and {0} is outside --limit and keeps the former one",
    SECRET_CHANGED: "it gets another preshared key, and {0} is outside --limit and keeps the former one; sessions end some minutes later",
    MTU_RAISED: "packets to {0} may be larger than those that are known to pass",
}


class Risks:
    """What of a plan may lose pairs, by what is published."""

    def __init__(self, endpoints: dict[tuple[str, str], str], rows: list[Data], inside: frozenset[str] | None) -> None:
        self._endpoints, self._rows, self._inside = endpoints, rows, inside

    @classmethod
    def of(
        cls,
        mesh: MeshPlan,
        declared: t.Mapping[str, t.Any] | None = None,
        inside: frozenset[str] | None = None,
    ) -> Risks:
        """mesh: of mesh_plan. declared: {host: wireguard_endpoint}. inside: hosts that ``--limit`` leaves, None without one."""
        return cls(_endpoints(mesh, declared or {}), [*_left(mesh), *_two_clusters(mesh)], inside)

    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._endpoints or self._rows)

    def rows(self) -> list[Data]:
        """Classes of pairs of which the plan has only one end."""
        return [dict(row) for row in self._rows]

    def of_pair(self, cluster: str, target: str, new: str) -> str:
        """Why nodes of a cluster may lose a host; empty where nothing is known. new: KEY_CHANGED or SECRET_CHANGED where the node gets another one."""
        if new and self._inside is not None and target not in self._inside:
            return new
        return self._endpoints.get((cluster, target), "")

    def message(self, cause: str, host: str) -> str:
        """A cause as a sentence; empty for other causes."""
        return _MESSAGES.get(cause, "").format(host)


def asked_hosts(mesh: MeshPlan, inside: frozenset[str] | None = None) -> list[str]:
    """Hosts that have to be read before the first write, since what is published cannot tell whether they lose a path."""
    pairs = Pairs(mesh)
    by_cluster: dict[str, list[str]] = {}
    for host, seat in sorted(pairs.seats.items()):
        if inside is None or host in inside:
            by_cluster.setdefault(seat.cluster, []).append(host)
    found: set[str] = set()
    for (cluster, target), cause in pairs.found.items():
        if cause != UNREAD and _published(mesh, target, None if pairs.whole else cluster):
            found.update(by_cluster.get(cluster, ()))
    for cluster, hosts in by_cluster.items():
        if any(remote.mtu > DEFAULT_MTU for remote in mesh.cluster(cluster).remotes.values()):
            found.add(hosts[0])  # all nodes of a cluster have one MTU for each remote cluster
        if inside is not None and not inside.issuperset(pairs.seats):
            found.update(hosts)  # a key that is new for them is unknown outside
    return sorted(found)


def _published(mesh: MeshPlan, host: str, cluster: str | None) -> bool:
    """Whether a host was in the mesh before, for one cluster or at all."""
    published = mesh.nodes[host].published
    return bool(published) if cluster is None else bool(published.get(key_of(cluster, "pubKey")))


def _endpoints(mesh: MeshPlan, declared: t.Mapping[str, t.Any]) -> dict[tuple[str, str], str]:
    """{(cluster that looks, host): cause} where a host is to be reached elsewhere than it is published, and no Node reports that."""
    found = {}
    for host, node in mesh.nodes.items():
        for cluster in mesh.clusters:
            key = key_of(cluster, "endpoint")
            before, after = node.published.get(key), node.annotations.get(key)
            if not (isinstance(before, str) and isinstance(after, str)) or before == after:
                continue
            if not _published(mesh, host, cluster):
                continue
            if before.rpartition(":")[0] == after.rpartition(":")[0]:
                found[cluster, host] = PORT_CHANGED
            elif declared.get(host):
                found[cluster, host] = ENDPOINT_CHANGED
    return found


def _left(mesh: MeshPlan) -> t.Iterator[Data]:
    """A class for each cluster that keeps keys for one that the inventory does not have any more."""
    for gone, holders in sorted((mesh.left_clusters or {}).items()):
        for cluster in holders:
            hosts = sorted(host for host, node in mesh.nodes.items() if node.cluster == cluster)
            if hosts:
                text = f"cluster {gone} is not in the inventory any more; the playbook leave takes a cluster out of the fabric"
                yield _class("lost", CLUSTER_LEFT, (cluster, gone), len(hosts), (hosts[0], gone), text)


def _two_clusters(mesh: MeshPlan) -> t.Iterator[Data]:
    """A class for each host with a Node in another cluster than its variable has."""
    for host, node in sorted(mesh.nodes.items()):
        if node.refused != "node_missing":
            continue
        for cluster, names in sorted((mesh.without_host or {}).items()):
            others = [name for name, other in sorted(mesh.nodes.items()) if other.cluster != cluster and name != host]
            if cluster == node.cluster or node.node_name not in names or not others:
                continue
            text = f"{host} is a node of cluster {cluster}, and its multicluster_cluster is {node.cluster}; is it in two groups?"
            yield _class("risked", TWO_CLUSTERS, (cluster, node.cluster), len(others), (host, others[0]), text)


def _class(kind: str, cause: str, clusters: tuple[str, str], pairs: int, example: tuple[str, str], text: str) -> Data:
    return {
        "class": "/".join((cause, *clusters)),
        "kind": kind,
        "cause": cause,
        "from": clusters[0],
        "to": clusters[1],
        "pairs": pairs,
        "example": {"from": example[0], "to": example[1]},
        "first_hop": "",
        "message": text,
    }
