# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubeconfigs that lead to another cluster than the inventory's, found by the Nodes that they read. Pure.

A cluster can only discredit itself: each rule reads its own listing, so a member that lists the Nodes of another cluster is refused itself.
"""

from __future__ import annotations

import typing as t

from ..._values.text import mapping

#: So many names of Nodes are in a message.
_SHOWN = 3
_NAMES = (
    "the API server that kubeconfig, context or api_url of cluster {0} leads to lists Nodes of cluster {1} ({2}) and none of cluster {0}'s own hosts: "
    "correct them; nothing is read from it, and its peers stay as they are"
)
_KEYS = (
    "the API server that kubeconfig, context or api_url of cluster {0} leads to has Node {1}, which this fabric gave a key for cluster {0}, and only Nodes "
    "of other clusters have that: correct them; nothing is read from it, and its peers stay as they are. If clusters exchanged their names, run "
    "teardown with the former names first"
)


def mistaken_clusters(
    listings: t.Mapping[str, t.Any],
    hosts: t.Mapping[str, t.Collection[str]],
    keyed_for: t.Mapping[str, t.Mapping[str, str]],
) -> dict[str, dict[str, str]]:
    """{cluster: {reason: wrong_cluster, message}} of the clusters with an access that leads to another cluster.

    listings: {cluster: {nodes: [Node]} or {error}}; hosts: {cluster: names of its Nodes in the inventory}; keyed_for: {cluster: of keyed_clusters}, since
    this fabric writes a cluster's keys on Nodes of the other clusters alone.
    """
    found: dict[str, dict[str, str]] = {}
    for cluster, listing in sorted(listings.items()):
        message = _by_names(cluster, _nodes(listing), hosts)
        if not message and cluster in keyed_for.get(cluster, {}):
            message = _KEYS.format(cluster, keyed_for[cluster][cluster])
        if message:
            found[cluster] = {"reason": "wrong_cluster", "message": message}
    return found


def same_clusters(listings: t.Mapping[str, t.Any]) -> list[list[str]]:
    """[[cluster, cluster that lists the same Nodes]], by the Nodes' UIDs, sorted.

    No more than a warning: a member that knows the UIDs of another cluster's Nodes could list them, and must not stop that cluster.
    """
    first: dict[str, str] = {}
    pairs = set()
    for cluster, listing in sorted(listings.items()):
        for node in _nodes(listing).values():
            uid = mapping(node, "metadata").get("uid")
            if isinstance(uid, str) and uid:
                other = first.setdefault(uid, cluster)
                if other != cluster:
                    pairs.add((other, cluster))
    return [list(pair) for pair in sorted(pairs)]


def _nodes(listing: t.Any) -> dict[str, t.Any]:
    nodes = listing.get("nodes") if isinstance(listing, dict) else None
    named = ((mapping(node, "metadata").get("name"), node) for node in nodes) if isinstance(nodes, list) else ()
    return {name: node for name, node in named if isinstance(name, str)}


def _by_names(cluster: str, nodes: t.Mapping[str, t.Any], hosts: t.Mapping[str, t.Collection[str]]) -> str:
    """Most of its Nodes are those of one other cluster, and none is its own."""
    own = hosts.get(cluster) or ()
    if not own or any(name in own for name in nodes):
        return ""
    for other in sorted(hosts):
        known = sorted(name for name in nodes if name in hosts[other])
        if other != cluster and len(known) * 2 > len(nodes):
            return _NAMES.format(cluster, other, ", ".join(known[:_SHOWN]))
    return ""
