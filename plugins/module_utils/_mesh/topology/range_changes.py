# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What two plans of a Semaphore mesh differ in, where that is the pod ranges of peers and nothing else (pod_ranges 3). Pure.

Both plans are made by plan_semaphore_mesh, so every claim was checked; here they are only compared.
"""

from __future__ import annotations

import typing as t

from ..._dataplane.peer_spec import split_ranges
from ..._plan.mesh_plan import MeshPlan, NodePlan, RemotePlan
from ..._plan.plan import Pending

Data = dict[str, t.Any]
#: {cluster: {device of its nodes: {peers: {public key: [cidr], all that it has now}, borrowed: [cidr]}}}
Orders = dict[str, dict[str, Data]]


class RangeChanges(t.NamedTuple):
    """``orders``: the peers with other allowed IPs; ``more``: what else differs, for which nodes need a whole run; empty where nothing does."""

    orders: Orders
    more: str = ""


def range_changes(before: MeshPlan, after: MeshPlan) -> RangeChanges:
    """Compare two plans of one fabric. Where anything but ranges of peers differs there are no orders, since a whole run has to decide.

    A node that gets its first range, or loses its last one, is both: its peers can have it now, and the node itself needs a run.
    """
    more = _nodes_differ(before.nodes, after.nodes)
    if more:
        return RangeChanges({}, more)
    if set(before.clusters) != set(after.clusters):
        return RangeChanges({}, "the clusters of the fabric")
    orders: Orders = {}
    for local, part in after.clusters.items():
        former = before.clusters[local]
        if set(former.remotes) != set(part.remotes) or former._replace(remotes={}) != part._replace(remotes={}):
            return RangeChanges({}, f"settings of cluster {local}")
        for remote, settings in part.remotes.items():
            changed = _peers(former.remotes[remote], settings)
            if changed is None:
                return RangeChanges({}, f"peers of cluster {remote} at nodes of {local}")
            if changed:
                order = {"peers": changed, "borrowed": list(settings.borrowed)}
                orders.setdefault(local, {})[settings.device] = order
    return RangeChanges(orders, _first_ranges(before.nodes, after.nodes))


def _nodes_differ(before: t.Mapping[str, NodePlan], after: t.Mapping[str, NodePlan]) -> str:
    if set(before) != set(after):
        return "the nodes of the fabric"
    for host, node in after.items():
        if before[host]._replace(pod_cidrs=()) != node._replace(pod_cidrs=()):
            return f"what host {host} publishes"
    return ""


def _first_ranges(before: t.Mapping[str, NodePlan], after: t.Mapping[str, NodePlan]) -> str:
    """The source address of packets that a NodePort forwards is one of the node's own ranges, so the node itself has to change (pod_ranges 7)."""
    for host, node in after.items():
        if bool(before[host].pod_cidrs) != bool(node.pod_cidrs):
            return f"whether host {host} has a pod range"
    return ""


def _peers(before: RemotePlan, after: RemotePlan) -> dict[str, list[str]] | None:
    """Peers with other allowed IPs, by public key; None where more than these differ."""
    if before._replace(peers=(), borrowed=()) != after._replace(peers=(), borrowed=()):
        return None
    former = {_key(peer): peer for peer in before.peers}
    if len(former) != len(before.peers) or {_key(peer) for peer in after.peers} != set(former):
        return None
    found: dict[str, list[str]] = {}
    for peer in after.peers:
        (was, rest_before), (ranges, rest) = split_ranges(former[_key(peer)]), split_ranges(peer)
        if rest_before != rest:
            return None
        if was != ranges:
            if not after.ranges_known or isinstance(peer["public_key"], Pending):
                return None  # nodes keep the ranges that they know, or do not know the peer
            found[peer["public_key"]] = ranges
    return found


def _key(peer: t.Mapping[str, t.Any]) -> tuple[str, str]:
    return str(peer.get("node")), str(peer["public_key"])


def join_orders(before: t.Mapping[str, Data], after: t.Mapping[str, Data]) -> dict[str, Data]:
    """The orders of one cluster that nodes have not got yet, and later ones: of each peer the last ranges."""
    joined = dict(before)
    for device, order in after.items():
        former = joined.get(device) or {"peers": {}}
        joined[device] = {"peers": {**former["peers"], **order["peers"]}, "borrowed": order["borrowed"]}
    return joined
