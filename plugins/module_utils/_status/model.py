# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a fabric as one document: from what nodes and clusters said to what page, JSON and metrics show. Pure.

What comes from a cluster or a node is an untrusted claim: it is cut to a length here and escaped where it is drawn. The document also has how the
fabric was at earlier runs: since when something differs, and one row for as long as nothing changed. Nobody keeps a diary of a kernel: of a route
that is gone, only the two runs between which it went are known. ``since`` is a time that the API server recorded; ``first_seen`` and ``last_good``
are runs of this collection.
"""

from __future__ import annotations

import operator
import typing as t

from .._plan.mesh_plan import MeshPlan
from . import ends, evidence, mesh_verdict, pods_outside
from .earlier_runs import compare_runs, remember
from .ends import UNKNOWN, UP
from .node_rows import node_row, outside_row, peer_names, reported_peers, tunnel_rows
from .texts import cut, moment
from .verdict import NOT_ASKED, OUTSIDE, Verdict, capabilities_unasked, combine, nodes_outside, of_cluster, refusal_text

Data = dict[str, t.Any]
Facts = t.Mapping[str, t.Any]

#: Of the document, as extensions/monitoring/fabric-status.schema.json has it. A field may be added; one that goes, or means something else, is another format.
FORMAT = 1
#: So many reasons of the verdict are kept; the counts are complete.
REASONS = 500


def build(facts: Facts) -> Data:
    """The document.

    facts: ``fabric``, ``now`` (epoch of the controller), ``mesh`` (of mesh_plan), ``nodes`` {host: node of node_info, or None}, ``probes`` {host:
    of node_probe}, ``trace`` (of collected.trace), ``node_plans`` {host: of node_dataplane in check mode}, ``unreachable`` {host: what its connection
    said}, ``plans`` and ``capabilities`` (see evidence.judge),
    ``clusters`` {cluster: of read_cluster, or None}, ``drift`` [entry], ``refused`` [{where, object, reason,
    message}], ``failures`` [{cluster, operation, reason, message}], ``tenants`` (of apinet_info, or None), ``previous`` (an older document, or None),
    ``limit``, ``outside`` and ``unasked`` (see verdict.scope_of), ``next_failure`` (of next_failure).
    """
    mesh, now, outside = MeshPlan.from_json(facts["mesh"]), float(facts["now"]), nodes_outside(facts)
    names = peer_names(mesh, facts["nodes"])
    found = gathered(facts, now)
    parts = evidence.judge(
        {
            "mesh": facts["mesh"],
            "found": found,
            "declared": list(facts["nodes"]),
            "capabilities": facts.get("capabilities") or (),
            "plans": facts.get("plans") or {},
            "limit": facts.get("limit"),
            "outside": facts.get("outside"),
            "unasked": facts.get("unasked"),
        }
    )
    pings = {host: (row.get("probe") or {}).get("pings") or () for host, row in found.items()}
    tunnels = [
        row for host in sorted(facts["nodes"]) for row in tunnel_rows(host, mesh, facts["nodes"][host], names, now)
    ]
    outside_peers = {name: outside_row(name, mesh, facts, tunnels) for name in facts["clusters"]}
    lacking = [
        text for name in sorted(outside_peers) for text in (pods_outside.sentence(name, outside_peers[name]),) if text
    ]
    verdict = evidence.shown(_with_reading(parts, facts, lacking), dict(facts, declared=list(facts["nodes"])))
    tunnels += ends.unreported(mesh, facts["nodes"], tunnels)
    tunnels = ends.with_latency(
        sorted(tunnels, key=operator.itemgetter("host", "device", "peer_cluster", "peer", "public_key")), mesh, pings
    )
    alone = bool(facts.get("capabilities"))
    unreachable = mesh_verdict.unreachable_nodes(mesh, found)
    nodes = [
        node_row(
            host,
            mesh,
            facts["nodes"][host],
            tunnels_of,
            mesh_verdict.of_host(mesh, host, found, alone, outside, unreachable),
            found[host].get("why"),
            unreachable,
        )
        if host not in outside
        else dict(node_row(host, mesh, None, tunnels_of, Verdict(), OUTSIDE), asked=False, verdict=NOT_ASKED)
        for host, tunnels_of in _by_host(facts["nodes"], tunnels)
    ]
    clusters = [
        dict(_cluster(name, mesh, facts, nodes), pods_outside=outside_peers.get(name))
        for name in sorted(set(mesh.clusters) | set(facts["clusters"]))
    ]
    refused = [{key: cut(row.get(key)) for key in ("where", "object", "reason", "message")} for row in facts["refused"]]
    document: Data = {
        "format": FORMAT,
        "fabric": str(facts["fabric"]),
        "mode": mesh.mode,
        "generated": moment(now),
        "generated_epoch": int(now),
        "clusters": clusters,
        "nodes": nodes,
        "links": ends.links(tunnels, ends.faults(mesh, found)),
        "tunnels": tunnels,
        "services": _all(facts, "services"),
        "imports": _imports(facts.get("plans") or {}),
        "sets": _all(facts, "sets"),
        "addresses": _addresses(facts, nodes, facts.get("plans") or {}),
        "pools": _pools(facts.get("plans") or {}),
        "kilo_peers": _all(facts, "kilo_peers"),
        "tenants": _tenants(facts.get("tenants")),
        "traces": _traces(facts.get("trace") or {}),
        "next_failure": dict(facts.get("next_failure") or {}),
        "refused": sorted(refused, key=operator.itemgetter("where", "object", "reason", "message")),
        "failures": [
            {key: cut(row.get(key)) for key in ("cluster", "operation", "reason", "message")}
            for row in facts["failures"]
        ],
    }
    not_seen = outside | (set(facts["clusters"]) if capabilities_unasked(facts) else set())
    drift, since = compare_runs(list(facts["drift"]), facts.get("previous"), moment(now), not_seen)
    document.update(drift=drift, since_last_run=since)
    document["summary"] = summary(document)
    document["scope"] = verdict["scope"]
    document["verdict"] = {
        "value": verdict["value"],
        "parts": verdict["parts"],
        "counts": {"broken": len(verdict["broken"]), "unproven": len(verdict["unproven"])},
        "broken": [cut(text, 500) for text in verdict["broken"][:REASONS]],
        "unproven": [cut(text, 500) for text in verdict["unproven"][:REASONS]],
    }
    document["history"] = remember(facts.get("previous"), document)
    return document


def _traces(trace: t.Mapping[str, t.Any]) -> Data:
    """What became of the packets that were followed, of pairs that failed."""
    return {name: list(trace.get(name) or ()) for name in ("flows", "findings", "hops")}


def gathered(facts: Facts, now: float) -> dict[str, Data]:
    """What the nodes said, as the verdict takes it. Handshakes are those of node_info, where no probe was made."""
    found: dict[str, Data] = {}
    probes, plans, unreachable = (
        facts.get("probes") or {},
        facts.get("node_plans") or {},
        facts.get("unreachable") or {},
    )
    for host, node in facts["nodes"].items():
        if host in nodes_outside(facts):
            continue
        if node is None:
            found[host] = {"why": cut(unreachable.get(host)) or "it did not answer"}
            continue
        without = {
            "pings": None,
            "peers": reported_peers(node, now),
            "paths": None,
            "units": node.get("units"),
            **{name: node.get(name) for name in ("bgp", "layer2", "service_proxy", "tracking", "discovery")},
        }
        probe = dict(probes.get(host) or without)
        probe["errors"] = [*(probe.get("errors") or ()), *(node.get("errors") or ())]
        found[host] = {"drift": plans.get(host) or {}, "probe": dict(probe, pending=node.get("pending"))}
    return found


def _with_reading(parts: dict[str, Verdict], facts: Facts, lacking: t.Sequence[str] = ()) -> dict[str, Verdict]:
    """With what this page itself could not read, pods that peers do not have (``lacking``), and whatever else it shows that no part has said: no
    sign of it may be greener."""
    parts = parts or {"fabric": combine({})}
    whole = combine(parts)
    broken = [of_cluster(row.get("cluster"), row.get("message"), row.get("reason")) for row in facts["failures"]]
    broken += [
        f"cluster {name}: its API server was not read"
        for name, read in facts["clusters"].items()
        if read is None and not broken
    ]
    broken = [text for text in broken if not any(one.endswith(text) for one in whole.broken)] + list(lacking)
    if not whole.broken:
        broken += ["{where}: {kind} {name} is not as desired ({action})".format(**row) for row in facts["drift"]]
    known = set(whole.broken) | set(whole.unproven)
    unproven = []
    for row in facts["refused"]:
        text = refusal_text(str(row.get("where")), row)
        if not known & {text, refusal_text("mesh", row), "{where}: {object}: {message} [{reason}]".format(**row)}:
            unproven.append(text)
    return dict(parts, reading=Verdict(tuple(broken), tuple(unproven))) if broken or unproven else parts


def _by_host(given: t.Mapping[str, t.Any], tunnels: t.Sequence[Data]) -> list[tuple[str, list[Data]]]:
    found: dict[str, list[Data]] = {host: [] for host in sorted(given)}
    for row in tunnels:
        found[row["host"]].append(row)
    return list(found.items())


def _cluster(name: str, mesh: MeshPlan, facts: Facts, nodes: t.Sequence[Data]) -> Data:
    read = facts["clusters"].get(name) or {}
    members = [node for node in nodes if node["cluster"] == name]
    return {
        "name": str(name),
        "reachable": bool(facts["clusters"].get(name)),
        "version": cut(read.get("version"), 40),
        "pod_ranges": cut((mesh.pod_ranges.get(name) or {}).get("source"), 20),
        "exported_pod_cidrs": dict(mesh.cluster(name).exported.pairs),
        "exported_node_cidrs": dict(mesh.cluster(name).exported.nodes),
        "api_nodes": int(read.get("nodes") or 0),
        "hosts": len(members),
        "answered": sum(1 for node in members if node["answered"]),
        "peers": sum(node["peers"] for node in members),
        "up": sum(node["up"] for node in members),
        "rx": sum(node["rx"] for node in members),
        "tx": sum(node["tx"] for node in members),
    }


def _all(facts: Facts, part: str) -> list[Data]:
    return [
        dict(row, cluster=str(name))
        for name in sorted(facts["clusters"])
        for row in (facts["clusters"][name] or {}).get(part) or ()
    ]


def _addresses(facts: Facts, nodes: t.Sequence[Data], plans: Facts) -> list[Data]:
    """Addresses of Services, and the nodes with a speaker that announces each right now, by BGP or by holding it on their segment.

    ``announced``: ``yes``, ``no`` where that is our work or nobody's, ``unknown`` where another program does it.
    """
    rows = []
    balancers = ((plans.get("load_balancers") or {}).get("load_balancers")) or {}
    for name in sorted(facts["clusters"]):
        announcing: dict[str, list[str]] = {}
        since: dict[str, dict[str, str]] = {}
        for node in nodes:
            if node["cluster"] == name:
                for prefix in node["announces"]:
                    announcing.setdefault(prefix.partition("/")[0], []).append(node["host"])
                    if prefix in node["announces_since"]:
                        since.setdefault(prefix.partition("/")[0], {})[node["host"]] = node["announces_since"][prefix]
        for row in (facts["clusters"][name] or {}).get("addresses") or ():
            by, owned = announcing.get(row["address"], []), balancers.get(name) or {}
            unannounced = {str(one.get("address")) for one in owned.get("unannounced") or ()}
            unannounced.update(
                text.partition("/")[0] for text in (owned.get("announce") or () if owned.get("nodes") else ())
            )
            rows.append(
                dict(
                    row,
                    cluster=str(name),
                    announced_by=by,
                    announced_since=since.get(row["address"], {}),
                    announced="yes" if by else "no" if row["address"] in unannounced else "unknown",
                )
            )
    return rows


def _pools(plans: Facts) -> list[Data]:
    """How many addresses each pool of Services has, and how many of them are free, as the plan counted."""
    balancers = ((plans.get("load_balancers") or {}).get("load_balancers")) or {}
    return [
        {
            "cluster": str(name),
            "pool": cut(row.get("pool"), 63),
            **{part: int(row.get(part) or 0) for part in ("family", "total", "used", "free")},
        }
        for name in sorted(balancers)
        for row in (balancers[name] or {}).get("pools") or ()
    ]


def _imports(plans: Facts) -> list[Data]:
    """What each cluster exports and imports by the Multi-Cluster Services API, as its module counted."""
    given = plans.get("mcs") or {}
    sources, imports = given.get("sources") or {}, given.get("imports") or {}
    return [
        {
            "cluster": str(name),
            "listed": bool(sources[name].get("listed")),
            "imports": int(imports.get(name) or 0),
            **{part: int(sources[name].get(part) or 0) for part in ("exports", "valid", "conflicts")},
        }
        for name in sorted(sources)
    ]


def _tenants(given: t.Any) -> Data:
    """What apinet_info found, in short."""
    if not isinstance(given, dict):
        return {"interfaces": [], "orphans": 0, "known": False}
    rows = [
        {
            "name": cut(row.get("name")),
            "source": cut(row.get("source")),
            "network": cut(row.get("network")),
            "node": cut(row.get("node")),
            "state": cut(row.get("state"), 40),
            "ips": [cut(item, 64) for item in row.get("ips") or ()],
            "public_ips": [cut(item, 64) for item in row.get("public_ips") or ()],
        }
        for row in given.get("interfaces") or ()
    ]
    return {"interfaces": rows, "orphans": int((given.get("counts") or {}).get("orphans") or 0), "known": True}


def summary(document: Facts) -> Data:
    """The numbers on top of the page."""
    tunnels, nodes = document["tunnels"], document["nodes"]
    return {
        "clusters": len(document["clusters"]),
        "clusters_reachable": sum(1 for row in document["clusters"] if row["reachable"]),
        "nodes": len(nodes),
        "nodes_not_asked": sum(1 for row in nodes if not row["asked"]),
        "nodes_answered": sum(1 for row in nodes if row["answered"]),
        "tunnels": len(tunnels),
        "tunnels_up": sum(1 for row in tunnels if row["state"] == UP),
        "tunnels_unknown": sum(1 for row in tunnels if row["state"] == UNKNOWN),
        "rx": sum(row["rx"] for row in tunnels),
        "tx": sum(row["tx"] for row in tunnels),
        "services": len(document["services"]),
        "endpoints": sum(row["endpoints"] for row in document["services"]),
        "exports": sum(row["exports"] for row in document["imports"]),
        "imports": sum(row["imports"] for row in document["imports"]),
        "export_conflicts": sum(row["conflicts"] for row in document["imports"]),
        "sets": len(document["sets"]),
        "set_networks": sum(row["networks"] for row in document["sets"]),
        "addresses": len(document["addresses"]),
        "kilo_peers": len(document["kilo_peers"]),
        "tenant_interfaces": len(document["tenants"]["interfaces"]),
        "refused": len(document["refused"]),
        "failures": len(document["failures"]),
        "drift": len(document["drift"]),
    }
