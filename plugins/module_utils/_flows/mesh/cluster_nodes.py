# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of several clusters for an inventory: one complete LIST a cluster, reduced to what hosts are made of."""

from __future__ import annotations

import typing as t

from ..._kubernetes.clusters import Clusters
from ..._mesh.fabric.node_listing import Listing, read_listing
from ..._mesh.topology.node_hosts import Found, Names, node_hosts

NODES = "/api/v1/nodes"
Data = dict[str, t.Any]


def gather(
    clusters: t.Sequence[t.Mapping[str, t.Any]], selector: str | None, timeout: float
) -> tuple[Data, list[Data]]:
    """{cluster: [{name, labels, addresses}]} of every cluster that answered completely, and rows of those that failed.

    clusters: accesses as in the option ``clusters`` of modules. Nothing in the answer is secret: it may be cached.
    """
    asked = Clusters(clusters, timeout)
    listings = asked.read("list " + NODES, lambda name, client: client.list(NODES, label_selector=selector))
    return {name: [_reduced(node) for node in listing.items] for name, listing in listings.items()}, asked.failures


def _reduced(node: t.Mapping[str, t.Any]) -> Data:
    metadata, status = node.get("metadata") or {}, node.get("status") or {}
    return {
        "metadata": {"name": metadata.get("name"), "labels": metadata.get("labels")},
        "status": {"addresses": status.get("addresses")},
    }


def hosts(
    read: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]],
    node_cidrs: t.Mapping[str, t.Sequence[str]],
    address_type: str,
    names: Names,
    node_names: str,
) -> Found:
    """The hosts of what was read or cached. Raises ValueRefused for options that make no sense."""
    listings: dict[str, Listing] = {name: read_listing(name, {"nodes": list(nodes)}) for name, nodes in read.items()}
    return node_hosts(listings, node_cidrs, address_type, names, node_names)
