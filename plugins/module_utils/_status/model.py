# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a fabric as one document: from what nodes and clusters said to what page, JSON and metrics show. Pure.

What comes from a cluster or a node is an untrusted claim: it is cut to a length here and escaped where it is drawn. The document also has how the
fabric was at earlier runs: since when something differs, and one row for as long as nothing changed. Nobody keeps a diary of a kernel: of a route
that is gone, only the two runs between which it went are known. ``since`` is a time that the API server recorded; ``first_seen`` and ``last_good``
are runs of this collection.
"""

from __future__ import annotations

import datetime
import operator
import typing as t

from .._dataplane.peer_spec import handshake_age, is_fresh
from .._plan.mesh_plan import MeshPlan, NodePlan
from .._values.text import dicts_of, mapping
from . import ends, evidence, mesh_verdict, pods_outside
from .ends import DOWN, MISSING, NEVER, STALE, UNKNOWN, UP
from .verdict import NOT_ASKED, OUTSIDE, Verdict, capabilities_unasked, combine, nodes_outside, of_cluster, refusal_text

Data = dict[str, t.Any]
Facts = t.Mapping[str, t.Any]

#: Of the document, as extensions/monitoring/fabric-status.schema.json has it. A field may be added; one that goes, or means something else, is another format.
FORMAT = 1
#: No text that a stranger wrote is kept longer than this.
TEXT = 300
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
    tunnels = [row for host in sorted(facts["nodes"]) for row in _tunnels(host, mesh, facts["nodes"][host], names, now)]
    outside_peers = {name: _pods_outside(name, mesh, facts, tunnels) for name in facts["clusters"]}
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
        _node(
            host,
            mesh,
            facts["nodes"][host],
            tunnels_of,
            mesh_verdict.of_host(mesh, host, found, alone, outside, unreachable),
            found[host].get("why"),
            unreachable,
        )
        if host not in outside
        else dict(_node(host, mesh, None, tunnels_of, Verdict(), OUTSIDE), asked=False, verdict=NOT_ASKED)
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
            "peers": _reported_peers(node, now),
            "paths": None,
            "units": node.get("units"),
            **{name: node.get(name) for name in ("bgp", "layer2", "service_proxy", "tracking", "discovery")},
        }
        probe = dict(probes.get(host) or without)
        probe["errors"] = [*(probe.get("errors") or ()), *(node.get("errors") or ())]
        found[host] = {"drift": plans.get(host) or {}, "probe": dict(probe, pending=node.get("pending"))}
    return found


def _reported_peers(node: Facts, now: float) -> list[Data]:
    clock = float(node.get("now") or now)
    return [
        {
            "device": device["name"],
            "public_key": peer["public_key"],
            "endpoint": peer.get("endpoint"),
            "allowed_ips": peer.get("allowed_ips") or (),
            "handshake_age": handshake_age(peer.get("handshake"), clock),
            "listen_port": device.get("listen_port"),
        }
        for device in node.get("devices") or ()
        if device.get("owned")
        for peer in device.get("peers") or ()
    ]


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


def cut(value: t.Any, length: int = TEXT) -> str:
    """Text of a stranger: no control characters, no more than so many characters."""
    text = "" if value is None else str(value)
    if len(text) <= length and text.isprintable():
        return text
    text = "".join(char if char.isprintable() else " " for char in text[: length + 1])
    return text if len(text) <= length else text[: length - 1] + "…"


def moment(epoch: float) -> str:
    return datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _by_host(given: t.Mapping[str, t.Any], tunnels: t.Sequence[Data]) -> list[tuple[str, list[Data]]]:
    found: dict[str, list[Data]] = {host: [] for host in sorted(given)}
    for row in tunnels:
        found[row["host"]].append(row)
    return list(found.items())


def peer_names(mesh: MeshPlan, nodes: t.Mapping[str, t.Any]) -> dict[str, tuple[str, str]]:
    """Public key -> (cluster, node). What the kernel of a node reports of its own keys comes before what its cluster reports."""
    found: dict[str, tuple[str, str]] = {}
    for cluster in mesh.clusters.values():
        for remote, part in cluster.remotes.items():
            for peer in part.peers:
                if isinstance(peer.get("public_key"), str):
                    found[peer["public_key"]] = (remote, str(peer.get("node") or "?"))
    for row in mesh.kubespan.affiliates if mesh.kubespan else ():
        if isinstance(row.get("public_key"), str):
            found[row["public_key"]] = (str(row.get("cluster")), str(row.get("node")))
    for host, node in nodes.items():
        about = mesh.node(host)
        for device in (node or {}).get("devices") or ():
            if device.get("public_key") and device.get("owned"):
                found[device["public_key"]] = (about.cluster or "?", about.node_name or host)
    for node in nodes.values():
        for key, label in (((node or {}).get("discovery") or {}).get("labels") or {}).items():
            found.setdefault(str(key), ("discovery", str(label)))
    return found


def _tunnels(host: str, mesh: MeshPlan, node: t.Any, names: t.Mapping[str, tuple[str, str]], now: float) -> list[Data]:
    """Every peer of every owned WireGuard device on a host. Ages are by the node's own clock (T30)."""
    rows = []
    about = mesh.node(host)
    clock = float((node or {}).get("now") or now)
    for device in (node or {}).get("devices") or ():
        if not device.get("owned"):
            continue
        for peer in device.get("peers") or ():
            cluster, name = names.get(peer["public_key"], ("", ""))
            handshake = int(peer.get("handshake") or 0)
            age = handshake_age(handshake, clock)
            rows.append(
                {
                    "host": host,
                    "cluster": about.cluster or "?",
                    "device": cut(device.get("name"), 32),
                    "peer": cut(name),
                    "peer_cluster": cut(cluster),
                    "public_key": cut(peer["public_key"], 64),
                    "endpoint": cut(peer.get("endpoint"), 80),
                    "allowed_ips": [cut(item, 64) for item in peer.get("allowed_ips") or ()],
                    "handshake": handshake,
                    "age": age,
                    "rx": int(peer.get("rx") or 0),
                    "tx": int(peer.get("tx") or 0),
                    "state": DOWN
                    if device.get("up") is False
                    else NEVER
                    if not handshake
                    else UP
                    if is_fresh(handshake, clock)
                    else STALE,
                }
            )
    return rows


def _node(
    host: str,
    mesh: MeshPlan,
    node: t.Any,
    tunnels: t.Sequence[Data],
    verdict: Verdict,
    why: t.Any,
    unreachable: t.Collection[str] = (),
) -> Data:
    about = mesh.node(host)
    read = node or {}
    system = read.get("host") or {}
    devices = [device for device in read.get("devices") or () if device.get("owned")]
    return {
        "host": host,
        "cluster": about.cluster or "?",
        "node": cut(about.node_name or host),
        "asked": True,
        "answered": node is not None,
        "verdict": verdict.value,
        "findings": len(verdict.broken) + len(verdict.unproven),
        "why": cut(why or next(iter(verdict.broken + verdict.unproven), "").partition(": ")[2]),
        "errors": [
            {"section": cut(row.get("section"), 40), "message": cut(row.get("message"))}
            for row in read.get("errors") or ()
        ],
        "kernel": cut(system.get("kernel"), 80),
        "operating_system": cut(system.get("operating_system"), 80),
        "devices": [
            {
                "name": cut(d.get("name"), 32),
                "public_key": d.get("public_key"),
                "listen_port": d.get("listen_port"),
                "mtu": d.get("mtu"),
                "up": bool(d.get("up")),
                "addresses": list(d.get("addresses") or ()),
            }
            for d in devices
        ],
        "routes": len(
            [route for route in read.get("routes") or () if route.get("dev") in {d.get("name") for d in devices}]
        ),
        "rules": len(read.get("rules") or ()),
        "tables": len([table for table in read.get("tables") or () if table.get("owned")]),
        "units": [
            {key: cut(unit.get(key), 80) for key in ("name", "active", "sub", "result")}
            for unit in read.get("units") or ()
        ],
        "pending": cut(read.get("pending"), 40),
        "announces": sorted(
            cut(item, 64) for item in evidence.announced(read.get("bgp")) + evidence.held(read.get("layer2"))
        ),
        "announces_since": _since(read.get("bgp")),
        "sessions": [
            {key: cut(row.get(key), 80) for key in ("neighbor", "state")}
            for row in (read.get("bgp") or {}).get("sessions") or ()
        ],
        "peers": len(tunnels),
        "up": sum(1 for row in tunnels if row["state"] == UP),
        "unknown": sum(1 for row in tunnels if row["state"] in (UNKNOWN, MISSING)),
        "unreachable_peers": sum(
            1
            for row in tunnels
            if row["state"] in (STALE, NEVER) and f"{row['peer_cluster']}/{row['peer']}" in unreachable
        ),
        "oldest": max((row["age"] for row in tunnels if row["age"] is not None), default=None),
        "key_age": key_age(read),
        **_rotation(about),
        "rx": sum(row["rx"] for row in tunnels),
        "tx": sum(row["tx"] for row in tunnels),
    }


def _rotation(about: NodePlan) -> Data:
    """How far the rotation of the node's keys is, by remote cluster: ``{"rotation": {remote: phase}}``; nothing where no key is being rotated.

    And the generation of its preshared keys, ``{"preshared": {remote: number}}``; nothing where it has none.
    """
    rows = {str(remote): str(row.get("phase")) for remote, row in about.rotation.items()}
    found: Data = {"rotation": rows} if rows else {}
    return dict(found, preshared=dict(about.preshared)) if about.preshared else found


def key_age(read: Facts) -> int | None:
    """Seconds since the oldest key of the node was written, by its own clock; None where that is not known."""
    now, times = read.get("now"), [row.get("since") for row in read.get("keys") or () if isinstance(row, t.Mapping)]
    ages = [
        int(now - since)
        for since in times
        if isinstance(since, int) and isinstance(now, (int, float)) and not isinstance(since, bool)
    ]
    return max(0, *ages) if ages else None


def _pods_outside(name: str, mesh: MeshPlan, facts: Facts, tunnels: t.Sequence[Data]) -> Data | None:
    """Of a cluster's pods, those that peers on nodes of others do not have; None where its pods were not read, or no such peers are known."""
    pods = (facts["clusters"].get(name) or {}).get("pods")
    if pods is None:
        return None
    planned = [text for node in mesh.nodes.values() if node.cluster == name for text in node.pod_cidrs]
    found = pods_outside.find(name, pods, tunnels, mesh.cluster(name).exported, planned)
    if found is None:
        return None
    found["whole"] = (facts["clusters"][name] or {}).get("all_pods") is True
    now = moment(float(facts["now"]))
    before = next((row for row in _former_clusters(facts.get("previous")) if row.get("name") == name), {}).get(
        "pods_outside"
    )
    first = before.get("first_seen") if isinstance(before, dict) and before.get("count") else None
    first_seen = (first if isinstance(first, str) else now) if found["count"] else None
    return dict(
        found, first_seen=first_seen and cut(first_seen, 40), examples=[cut(text, 320) for text in found["examples"]]
    )


def _former_clusters(previous: t.Any) -> list[Data]:
    """Of an older document, which may be anything."""
    return dicts_of(mapping(previous).get("clusters"))


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


def _since(bgp: t.Any) -> dict[str, str]:
    """Network -> since when a node announces it by its own report, in UTC by its own clock; nothing for what is no time."""
    rows = bgp.get("since") if isinstance(bgp, t.Mapping) else None
    found = {}
    for network, when in rows.items() if isinstance(rows, t.Mapping) else ():
        if isinstance(when, int) and not isinstance(when, bool) and 0 <= when < 2**33:
            found[cut(network, 64)] = datetime.datetime.fromtimestamp(when, datetime.timezone.utc).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            )
    return found


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


ROWS = 200
#: What makes a run differ from the one before.
_NUMBERS = ("nodes", "nodes_answered", "tunnels", "tunnels_up", "drift", "refused", "failures")
_TEXTS = ("first", "last", "verdict", "cause")


def key_of(row: t.Mapping[str, t.Any]) -> tuple[str, str, str]:
    """What makes two runs speak of the same thing."""
    return str(row.get("where")), str(row.get("kind")), str(row.get("name"))


def compare_runs(
    drift: list[Data], previous: t.Any, now: str, unasked: t.Collection[str] = ()
) -> tuple[list[Data], Data]:
    """(drift with ``first_seen`` and ``last_good``, what is new and what is gone since the previous document).

    ``unasked``: places where this run did not look, so nothing is gone there.
    """
    known = isinstance(previous, dict) and isinstance(previous.get("drift"), list)
    before = {key_of(row): row for row in previous["drift"] if isinstance(row, dict)} if known else {}
    at = str(previous.get("generated") or "") if known else ""
    rows, new = [], []
    for row in sorted(drift, key=key_of):
        old = before.get(key_of(row))
        first = str(old.get("first_seen") or at) if old else now
        good = str(old.get("last_good") or "") if old else at
        rows.append(dict(row, first_seen=first, last_good=good or None))
        if known and old is None:
            new.append({name: row[name] for name in ("where", "kind", "name")})
    current = {key_of(row) for row in drift}
    gone = [
        {"where": key[0], "kind": key[1], "name": key[2]}
        for key in sorted(before)
        if key not in current and key[0] not in unasked
    ]
    return rows, {"previous": at or None, "new": new, "gone": gone}


def remember(previous: t.Any, document: t.Mapping[str, t.Any]) -> list[Data]:
    """The rows of the previous document with this run: [{first, last, runs, verdict, cause, numbers...}], newest last."""
    given = previous.get("history") if isinstance(previous, dict) else None
    rows = [{name: row[name] for name in (*_NUMBERS, "runs", *_TEXTS)} for row in dicts_of(given) if _is_row(row)][
        -ROWS:
    ]
    verdict = document["verdict"]
    row: Data = {name: document["summary"][name] for name in _NUMBERS}
    row.update(verdict=verdict["value"], cause=next(iter(verdict["broken"] + verdict["unproven"]), ""))
    if rows and all(rows[-1].get(name) == row[name] for name in (*_NUMBERS, "verdict")):
        rows[-1].update(last=document["generated"], runs=rows[-1]["runs"] + 1, cause=row["cause"])
    else:
        rows.append(dict(row, first=document["generated"], last=document["generated"], runs=1))
    return rows[-ROWS:]


def _is_row(row: t.Any) -> bool:
    """The file is where others may write: what is not of our form is left out."""
    return all(isinstance(row.get(name), int) and row[name] >= 0 for name in (*_NUMBERS, "runs")) and all(
        isinstance(row.get(name), str) and len(row[name]) <= 500 for name in _TEXTS
    )
