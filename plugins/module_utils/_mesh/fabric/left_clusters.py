# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters that were in the fabric and are not in its inventory any more, by what this fabric wrote on the Nodes of the others."""

from __future__ import annotations

import typing as t

from ..._plan.objects import inside, owned_tree
from ..._values.refused import ValueRefused
from ..._values.text import parse_cluster_name
from ..semaphore.annotations import cluster_of_key

_SENTENCE = (
    "cluster {0} was in this fabric, as Nodes of {1} say, and is not in its inventory. This run takes from the others what leads to it; what is in {0} stays "
    "there: names, mirrors, imports, sets, addresses, devices of its nodes. To take that away, write the cluster into the inventory again and run the "
    "playbook leave with -e cluster={0}; gone for ever, nothing is left to do [cluster_left]"
)


def left_clusters(listings: t.Mapping[str, t.Any], clusters: t.Container[str], manager: str) -> t.Dict[str, t.List[str]]:
    """{cluster that left: clusters that still hold annotations for it}, sorted. Pure.

    listings: {cluster: {nodes: [Node objects]}}; clusters: those of the inventory. Only what our own field manager wrote counts, and only under
    names that a cluster may have: whoever may write Nodes could write anything else.
    """
    found: t.Dict[str, t.Set[str]] = {}
    for holder, listing in listings.items():
        for node in listing.get("nodes") or ():
            for key in inside(owned_tree(node, manager), "f:metadata", "f:annotations"):
                name = cluster_of_key(str(key)[2:])
                if name is None or name in clusters:
                    continue
                try:
                    found.setdefault(parse_cluster_name(name), set()).add(holder)
                except ValueRefused:
                    continue
    return {name: sorted(found[name]) for name in sorted(found)}


def sentences(left: t.Mapping[str, t.Sequence[str]], most: int) -> t.List[str]:
    """One warning a cluster; ``most`` of them, since a member cluster could make up any number."""
    return [_SENTENCE.format(name, ", ".join(holders)) for name, holders in list(left.items())[:most]]
