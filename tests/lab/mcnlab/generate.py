# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Topologies of any size: so many nodes, dealt out to so many clusters, with ranges that do not meet."""

from __future__ import annotations

import typing as t

from .errors import LabError

#: What the ranges below have room for: a /16 of pods for each cluster is 250 nodes with a /24 each.
MOST_CLUSTERS, MOST_NODES = 16, 250


def topology(nodes: int, clusters: int, light: bool = False, others: int = 0) -> dict[str, t.Any]:
    """The JSON shape of ``topology.parse``: clusters c1, c2, ... with the nodes c1-1, c1-2, ..., one pod on each.

    others: how many nodes each cluster but the first has, which has the rest; 0 for equal shares.
    """
    shares = (
        [nodes // clusters + (1 if number < nodes % clusters else 0) for number in range(clusters)]
        if clusters > 0
        else []
    )
    if others and shares:
        shares = [nodes - others * (clusters - 1), *[others] * (clusters - 1)]
    if not 1 <= clusters <= MOST_CLUSTERS or not all(1 <= share <= MOST_NODES for share in shares):
        raise LabError(
            f"{nodes} nodes in {clusters} clusters: there may be 1 to {MOST_CLUSTERS} clusters, and each has 1 to {MOST_NODES} nodes"
        )
    made = {f"c{number + 1}": _cluster(number, share) for number, share in enumerate(shares)}
    return {"clusters": made, **({"nodes": "light"} if light else {})}


def _cluster(number: int, nodes: int) -> dict[str, t.Any]:
    return {
        "pod_cidrs": [f"10.{16 + number}.0.0/16"],
        "service_cidrs": [f"10.{64 + number}.0.0/16"],
        "node_cidrs": [f"172.{16 + number}.0.0/16"],
        "variables": {"wireguard_port": 51821 + number},
        "nodes": {
            f"c{number + 1}-{seat}": {
                "address": f"172.{16 + number}.1.{seat}",
                "pod_cidrs": [f"10.{16 + number}.{seat}.0/24"],
            }
            for seat in range(1, nodes + 1)
        },
    }
