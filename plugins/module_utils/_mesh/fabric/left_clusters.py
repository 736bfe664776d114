# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters that were in the fabric and are not in its inventory any more, by what this fabric wrote on the Nodes of the others."""

from __future__ import annotations

import typing as t

from ..._plan.objects import inside, owned_tree
from ..._values.refused import ValueRefused
from ..._values.text import mapping, parse_cluster_name
from ..semaphore.annotations import cluster_of_key

_SENTENCE = (
    "cluster {0} was in this fabric, as Nodes of {1} say, and is not in its inventory. This run takes from the others what leads to it; what is in {0} stays "
    "there: names, mirrors, imports, sets, addresses, devices of its nodes. To take that away, write the cluster into the inventory again and run the "
    "playbook leave with -e cluster={0}; gone for ever, nothing is left to do [cluster_left]"
)


def keyed_clusters(listing: t.Any, manager: str) -> dict[str, str]:
    """{cluster that Nodes of a listing have keys for: the first such Node}, by annotations that our own field manager applied. Pure.

    listing: {nodes: [Node objects]}, or anything else that a member cluster may have answered.
    """
    nodes = listing.get("nodes") if isinstance(listing, dict) else None
    found: dict[str, str] = {}
    for node in nodes if isinstance(nodes, list) else ():
        name = mapping(node, "metadata").get("name")
        if not isinstance(name, str):
            continue
        for key in inside(owned_tree(node, manager), "f:metadata", "f:annotations"):
            cluster = cluster_of_key(str(key)[2:])
            if cluster is not None:
                found.setdefault(cluster, name)
    return found


def left_clusters(keyed_for: t.Mapping[str, t.Collection[str]], clusters: t.Container[str]) -> dict[str, list[str]]:
    """{cluster that left: clusters that still hold annotations for it}, sorted. Pure.

    keyed_for: {cluster: clusters that its Nodes have keys for}, of keyed_clusters; clusters: those of the inventory. Only names that a
    cluster may have count: whoever may write Nodes could write anything else.
    """
    found: dict[str, set[str]] = {}
    for holder, keyed in keyed_for.items():
        for name in keyed:
            if name in clusters:
                continue
            try:
                found.setdefault(parse_cluster_name(name), set()).add(holder)
            except ValueRefused:
                continue
    return {name: sorted(found[name]) for name in sorted(found)}


def sentences(left: t.Mapping[str, t.Sequence[str]], most: int) -> list[str]:
    """One warning a cluster; ``most`` of them, since a member cluster could make up any number."""
    return [_SENTENCE.format(name, ", ".join(holders)) for name, holders in list(left.items())[:most]]
