# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that one run found out about a fabric, as one verdict with its parts. Verify and status ask here and nowhere else. Pure."""

from __future__ import annotations

import typing as t

from .._plan.mesh_plan import MeshPlan
from . import mesh_verdict
from .remedies import without_proxy
from .verdict import (
    PROVEN,
    Verdict,
    capabilities_unasked,
    combine,
    cut_clusters,
    nodes_outside,
    of_capability,
    report_lines,
    scope_of,
    unannounced,
)

Facts = t.Mapping[str, t.Any]

MESH = "mesh"
#: What the mesh writes into clusters, by the names of its plans.
MESH_PLANS = ("annotations", "pools")
LOAD_BALANCERS = "load_balancers"
#: Capabilities that give addresses to Services; what turns such an address into that of a pod is kube-proxy's task on every node.
OF_SERVICES = ("service_mirror", "mcs", LOAD_BALANCERS)


def judge(facts: Facts) -> dict[str, Verdict]:
    """Part -> verdict: of the mesh where there are nodes, and of each capability that is on.

    facts: ``mesh`` (of mesh_plan), ``found`` {host: {drift, probe}} (see mesh_verdict.judge), ``declared`` [host], ``capabilities``
    [name], ``plans`` {capability: a module's result}, ``applied`` {name of a plan with changes that were carried out: ["kind id"], or None}
    (see verdict.of_capability), ``limit``, ``outside`` and ``unasked`` (see verdict.scope_of).
    """
    mesh, found = MeshPlan.from_json(facts.get("mesh") or {}), facts.get("found") or {}
    declared, capabilities = facts.get("declared") or (), list(facts.get("capabilities") or ())
    plans, applied = facts.get("plans") or {}, facts.get("applied") or {}
    outside, unasked = nodes_outside(facts), capabilities_unasked(facts)
    parts: dict[str, Verdict] = {}
    if set(declared or mesh.nodes) - outside:
        if mesh.nodes:
            # a KubeSpan mesh joins the nodes of one cluster, too
            alone = not mesh.spans_nodes and len(mesh.clusters) < 2
            verdict = mesh_verdict.judge(mesh, found, declared, alone=bool(capabilities) and alone, outside=outside)
        else:
            verdict = Verdict(unproven=("the mesh was not planned, so nothing was held against it",))
        written = {name: of_capability(name, plans[name], applied.get(name)) for name in MESH_PLANS if name in plans}
        parts[MESH] = combine({MESH: verdict, **written})
    for name in [*capabilities, *(name for name in plans if name not in capabilities and name not in MESH_PLANS)]:
        if name == MESH or name in unasked:
            continue
        parts[name] = combine(
            {name: of_capability(name, plans.get(name), applied.get(name)), "proxied": unproxied(name, found)}
        )
        if name == LOAD_BALANCERS:
            unreachable = unannounced(name, plans.get(name), announcing(mesh, found), cut_clusters(facts))
            parts[name] = combine({name: parts[name], "announced": unreachable, "held": contested(name, mesh, found)})
    if not parts and facts.get("limit"):
        parts["scope"] = Verdict(
            unproven=(
                f"nothing was looked at: --limit {scope_of(facts)['limit']} leaves no node and no cluster to ask",
            )
        )
    return parts


def unproxied(name: str, found: t.Mapping[str, Facts]) -> Verdict:
    """Nodes on which the addresses that a capability gives to Services lead nowhere, since no process there forwards their packets."""
    texts = {host: without_proxy(found[host].get("probe") or {}) for host in sorted(found) if name in OF_SERVICES}
    return Verdict(unproven=tuple(f"{host}: {text} [kube_proxy_off]" for host, text in texts.items() if text))


def announcing(mesh: MeshPlan, found: t.Mapping[str, Facts]) -> dict[str, set[str]]:
    """Cluster -> networks that speakers of its nodes announce, where a neighbour listens, or withhold, since no pod of the Service is there."""
    networks: dict[str, set[str]] = {}
    for host, row in found.items():
        cluster = mesh.node(host).cluster
        bgp, layer2 = [(row.get("probe") or {}).get(name) for name in ("bgp", "layer2")]
        networks.setdefault(cluster, set()).update(
            announced(bgp) + announced(bgp, "withheld") + held(layer2) + held(layer2, "withheld")
        )
    return networks


def held(layer2: t.Any, key: str = "holds") -> list[str]:
    """What a node holds on its segment, or leaves to others since it cannot deliver it."""
    return [str(network) for network in layer2.get(key) or ()] if isinstance(layer2, t.Mapping) else []


def contested(name: str, mesh: MeshPlan, found: t.Mapping[str, Facts]) -> Verdict:
    """Addresses that several nodes of a cluster hold at once: they do not hear each other."""
    holders: dict[tuple[str, str], list[str]] = {}
    for host in sorted(found):
        cluster = mesh.node(host).cluster
        for network in held((found[host].get("probe") or {}).get("layer2")):
            holders.setdefault((cluster, network.partition("/")[0]), []).append(host)
    text = "{0}: cluster {1}: {2} hold {3} at once: they do not hear each other; let IP protocol 112 pass between them"
    return Verdict(
        broken=tuple(
            text.format(name, cluster, " and ".join(hosts[:3]), address)
            for (cluster, address), hosts in sorted(holders.items())
            if len(hosts) > 1
        )
    )


def announced(bgp: t.Any, key: str = "announces") -> list[str]:
    """What a speaker announces, or withholds for want of a pod: nothing while no neighbour is connected."""
    if not isinstance(bgp, t.Mapping) or not any(
        row.get("state") == "Established" for row in bgp.get("sessions") or ()
    ):
        return []
    return [str(network) for network in bgp.get(key) or ()]


def shown(parts: t.Mapping[str, Verdict], facts: Facts) -> dict[str, t.Any]:
    """{value, broken, unproven, parts: {name: {value, reasons: count}}, scope, lines: for people}: a verdict as data."""
    asked = scope_of(facts)
    whole = combine(parts)
    return {
        "value": whole.value,
        "broken": list(whole.broken),
        "unproven": list(whole.unproven),
        "parts": {
            name: {"value": part.value, "reasons": len(part.broken) + len(part.unproven)}
            for name, part in parts.items()
        },
        "scope": asked,
        "lines": _table(parts) + report_lines(whole, asked),
    }


def _table(parts: t.Mapping[str, Verdict]) -> list[str]:
    """One line for each part, where there are several."""
    if len(parts) < 2:
        return []
    width = max(map(len, parts))
    lines = []
    for name, part in parts.items():
        count = len(part.broken) + len(part.unproven)
        lines.append(f"{name.ljust(width)}  {part.value}{('' if part.value == PROVEN else f' ({count})')}")
    return lines + [""]
