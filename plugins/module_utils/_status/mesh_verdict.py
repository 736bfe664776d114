# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mesh's part of the verdict: what every node found, held against the plan of the whole. Pure."""

from __future__ import annotations

import collections
import typing as t

from .._plan.mesh_plan import MeshPlan
from .probe_lines import (
    _unanswered,
    discovery_lines,
    drift_lines,
    handshake_lines,
    host_lines,
    is_unreachable,
    named_few,
    no_peer_lines,
    no_ping_lines,
    path_lines,
    ping_lines,
    size_lines,
    stray_lines,
    substitute_lines,
    tracking_lines,
    unit_lines,
    unread_lines,
)
from .verdict import Verdict, counted, of_cluster, refusal_text

Facts = t.Mapping[str, t.Any]
Found = t.Mapping[str, t.Mapping[str, t.Any]]


def judge(
    topology: MeshPlan,
    found: Found,
    declared: t.Collection[str] = (),
    alone: bool = False,
    outside: t.Collection[str] = (),
) -> Verdict:
    """The verdict of a mesh. ``alone``: there is one cluster and other work than joining it, so peers and pings are not missed.

    ``found``: host -> {"drift": result of node_dataplane in check mode, "probe": result of node_probe}; a host that should
    have been looked at and has no results maps to {}, or to {"why": text}. ``declared``: the hosts of the inventory that are nodes. ``outside``:
    those that nobody asked for, who neither prove nor break anything.
    """
    broken: list[str] = []
    unproven: list[str] = []
    for failure in topology.failures:
        broken.append(of_cluster(failure["cluster"], failure["message"], failure["reason"]))
    for cluster, places in sorted((topology.pod_places or {}).items()):
        broken += [of_cluster(cluster, row["message"], row["reason"]) for row in places if row["level"] == "error"]
    causes = causes_of_budgets(topology, found)
    broken = [refusal_text("mesh", refusal) for refusal in causes] + broken
    unproven += [refusal_text("mesh", refusal) for refusal in topology.refused if refusal not in causes]
    left_out = sorted(set(declared) - set(found) - set(outside))
    if left_out:
        message = "{0} not looked at ({1}): no play of this run had them, or the plan of the mesh does not know them"
        unproven.append(message.format(counted(len(left_out), "node"), named_few(left_out)))
    unreachable = unreachable_nodes(topology, found)
    lost = lost_to_unreachable(topology, found, unreachable)
    for host in sorted(found):
        one = of_host(topology, host, found, alone, outside, unreachable)
        more = f"; {counted(lost[host], 'node')} had no handshake with it lately" if lost.get(host) else ""
        broken += [text + more for text in one.broken]
        unproven += one.unproven
    if not found and not left_out:
        unproven.append("no host of this run is a node of the mesh, so nothing was looked at")
    return Verdict(tuple(broken), tuple(unproven))


def of_host(
    topology: MeshPlan,
    host: str,
    found: Found,
    alone: bool = False,
    outside: t.Collection[str] = (),
    unreachable: t.Collection[str] = (),
) -> Verdict:
    """One host's part of it. unreachable: of unreachable_nodes."""
    row = found.get(host) or {}
    if is_unreachable(row):
        return Verdict(broken=(f"{host}: could not be verified ({row.get('why') or 'unreachable or failed'})",))
    probe = row.get("probe") or {}
    broken = drift_lines(row.get("drift") or {}) + path_lines(probe)
    broken += handshake_lines(topology, host, probe, unreachable)
    broken += (
        stray_lines(topology, host, probe)
        + ping_lines(probe, found, topology)
        + host_lines(topology, host, row, found)
        + size_lines(topology, probe, found)
        + unit_lines(probe)
        + tracking_lines(probe)
        + discovery_lines(probe, wrong=True)
    )
    unproven = (
        []
        if alone
        else no_peer_lines(topology, host, probe)
        + no_ping_lines(topology, host, probe, found, outside)
        + substitute_lines(topology, host, probe)
        + discovery_lines(probe, wrong=False)
    )
    return Verdict(*(tuple(f"{host}: {text}" for text in texts) for texts in (broken, unproven + unread_lines(row))))


def causes_of_budgets(topology: MeshPlan, found: Found) -> list[Facts]:
    """The refusals that left a source so empty that nodes keep its peers: what is to be fixed, so it is reported first."""
    rows = [refusal for host in sorted(found) for refusal in (found[host].get("drift") or {}).get("refused") or ()]
    short = {str(row.get("object")) for row in rows if row.get("reason") == "delete_budget"}
    if not short:
        return []
    if topology.kubespan is not None:
        seats = {(row["cluster"], row["node"]) for row in topology.kubespan.affiliates}
    else:
        parts = [part for cluster in topology.clusters.values() for part in cluster.remotes.items()]
        seats = {(remote, peer.get("node")) for remote, part in parts for peer in part.peers}
    causes = []
    for refusal in topology.refused:
        cluster, dummy, node = str(refusal.get("object")).partition("/")
        if node and (topology.spans_nodes or cluster in short) and (cluster, node) not in seats:
            causes.append(refusal)
    return causes


def unreachable_nodes(topology: MeshPlan, found: Found) -> t.Mapping[str, str]:
    """cluster/node -> host, of the nodes that gave no answer. What others have not heard of such a node is its own trouble, not theirs."""
    places = topology.nodes
    return {
        f"{places[host].cluster}/{places[host].node_name or host}": host
        for host, row in found.items()
        if host in places and is_unreachable(row)
    }


def lost_to_unreachable(topology: MeshPlan, found: Found, unreachable: t.Mapping[str, str]) -> collections.Counter[str]:
    """Unreachable host -> how many nodes had no handshake with it lately. unreachable: of unreachable_nodes."""
    return collections.Counter(
        unreachable[name]
        for host, row in (found.items() if unreachable else ())
        if not is_unreachable(row)
        for name, missing, text in _unanswered(topology, host, row.get("probe") or {})
        if name in unreachable and not missing
    )
