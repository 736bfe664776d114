# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the nodes' plans have seen of the discovery services of a KubeSpan mesh, before a first run and without writing (kubespan 5.3). Pure."""

from __future__ import annotations

import typing as t

Data = dict[str, t.Any]
Plans = t.Mapping[str, t.Mapping[str, t.Any]]


def findings(plans: Plans) -> list[Data]:
    """[{where, object, reason, message}] of each node that does not reach its service. plans: {host: of node_dataplane in check mode}.

    A secret that opens nothing is among what the node itself refuses.
    """
    return [
        {
            "where": host,
            "object": "discovery service",
            "reason": found["reason"],
            "message": found["message"].partition(f" [{found['reason']}]")[0],
        }
        for host, found in _services(plans)
        if not found["reached"]
    ]


def lines(plans: Plans) -> list[str]:
    """A sentence for each service: how many nodes reach it, and how many members of the mesh they found there."""
    groups: dict[str, list[Data]] = {}
    for _host, found in _services(plans):
        groups.setdefault(str(found["url"]), []).append(found)
    return [
        f"discovery service {url}: reached by {sum(one['reached'] for one in rows)} of {len(rows)} nodes, "
        f"{max(one['members'] for one in rows)} other members of the mesh"
        for url, rows in sorted(groups.items())
    ]


def _services(plans: Plans) -> list[tuple[str, Data]]:
    return [(host, dict(plan["discovery"])) for host, plan in sorted(plans.items()) if plan.get("discovery")]
