# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ends of tunnels that no kernel reported, and the state of the link between two clusters, which is that of its worst part. Pure."""

from __future__ import annotations

import typing as t

from .._plan.mesh_plan import MeshPlan
from .probe_lines import ends_named, is_cut, peer_names

Data = dict[str, t.Any]
Facts = t.Mapping[str, t.Any]

UP, STALE, NEVER, MISSING, UNKNOWN, DOWN = "up", "stale", "never", "missing", "unknown", "down"
STATES = (UP, STALE, NEVER, MISSING, UNKNOWN, DOWN)
#: The first reasons of a line are shown.
CAUSES = 3


def unreported(mesh: MeshPlan, nodes: t.Mapping[str, t.Any], reported: t.Iterable[Facts]) -> list[Data]:
    """Ends that the plan wants and that no kernel reported: ``unknown`` where the node does not respond, ``missing`` where it answered."""
    whole = mesh.spans_nodes  # which has one device, whatever its name
    seen = {(row["host"], "" if whole else row["device"], row["public_key"]) for row in reported}
    rows = []
    for host in sorted(nodes):
        if host not in mesh.nodes:
            continue
        own = mesh.nodes[host].cluster
        ranges = _ranges(mesh, own)
        for (device, key), name in sorted(peer_names(mesh, host).items()):
            if (host, "" if whole else device, key) in seen:
                continue
            cluster, unused, node = name.partition("/")
            rows.append(
                {
                    "host": host,
                    "cluster": own,
                    "device": device[:32],
                    "peer": node[:300],
                    "peer_cluster": cluster[:300],
                    "public_key": key[:64],
                    "endpoint": "",
                    "allowed_ips": ranges.get(key, []),
                    "handshake": 0,
                    "age": None,
                    "rx": 0,
                    "tx": 0,
                    "state": UNKNOWN if nodes[host] is None else MISSING,
                }
            )
    return rows


def _ranges(mesh: MeshPlan, cluster: str) -> dict[str, list[str]]:
    return {
        str(peer["public_key"]): [str(cidr)[:64] for cidr in peer.get("allowed_ips") or ()]
        for part in mesh.cluster(cluster).remotes.values()
        for peer in part.peers
    }


def with_latency(rows: t.Sequence[Data], mesh: MeshPlan, pings: t.Mapping[str, t.Iterable[Facts]]) -> list[Data]:
    """The rows with ``latency``: milliseconds of the slowest answer from pods of the one node to pods of the other, or None."""
    places = {host: (row.cluster, row.node_name or host) for host, row in mesh.nodes.items()}
    slowest: dict[tuple[str, str, str], float] = {}
    for host, found in pings.items():
        for ping in found:
            if ping.get("ok") and ping.get("milliseconds") is not None and ping["node"] in places:
                key = (host, *places[ping["node"]])
                slowest[key] = max(slowest.get(key, 0.0), float(ping["milliseconds"]))
    return [dict(row, latency=slowest.get((row["host"], row["peer_cluster"], row["peer"]))) for row in rows]


def faults(mesh: MeshPlan, found: t.Mapping[str, Facts]) -> dict[tuple[str, str], list[str]]:
    """Pair of clusters -> what is wrong between them besides handshakes: drift of a device's parts, ranges led elsewhere, lost pings."""
    rows: dict[tuple[str, str], list[str]] = {}
    nodes, named = mesh.nodes, ends_named(mesh, found)
    for host in sorted(found):
        if host not in nodes:
            continue
        own, probe = nodes[host].cluster, found[host].get("probe") or {}
        devices = {part.device: name for name, part in mesh.cluster(own).remotes.items()}
        for change in ((found[host].get("drift") or {}).get("plan") or {}).get("changes") or ():
            for remote in _touched(devices, str(change.get("id")), mesh, own):
                rows.setdefault(pair(own, remote), []).append(
                    f"{host}: {change.get('kind')} {change.get('id')} ({change.get('action')})"
                )
        for row in (probe.get("paths") or {}).get("elsewhere") or ():
            for remote in _touched(devices, str(row["device"]), mesh, own):
                rows.setdefault(pair(own, remote), []).append(f"{host}: {row['range']}: {row['text']}")
        for ping in probe.get("pings") or ():
            if is_cut(ping) and ping["node"] in nodes:
                target = f"{named(ping['target'])} of {ping['node']}"
                text = f"{host}: packets of more than {ping['size']:,} bytes do not reach {target}"
                rows.setdefault(pair(own, nodes[ping["node"]].cluster), []).append(text)
            if not ping["ok"] and ping["node"] in nodes:
                source, target = [named(ping[end]) for end in ("source", "target")]
                text = f"{host}: {source} does not reach {target} of {ping['node']}"
                rows.setdefault(pair(own, nodes[ping["node"]].cluster), []).append(text)
    return rows


def _touched(devices: t.Mapping[str, str], text: str, mesh: MeshPlan, own: str) -> list[str]:
    """The clusters behind a device that a text names; a mesh of nodes has one device for all of them."""
    if mesh.spans_nodes:
        return list(mesh.clusters)
    words = set(text.replace("/", " ").split())
    return [devices[name] for name in sorted(words & set(devices))]


def pair(one: str, other: str) -> tuple[str, str]:
    """Two clusters in their order."""
    return (one, other) if one <= other else (other, one)


def links(tunnels: t.Iterable[Facts], wrong: t.Mapping[tuple[str, str], t.Sequence[str]]) -> list[Data]:
    """Tunnels between each pair of clusters, both directions together; a peer that nobody knows counts under no cluster."""
    found: dict[tuple[str, str], Data] = {}
    for row in tunnels:
        key = pair(row["cluster"], row["peer_cluster"] or "?")
        link = found.get(key)
        if link is None:
            texts = [str(text)[:300] for text in wrong.get(key) or ()]
            link = found[key] = {
                "a": key[0],
                "b": key[1],
                "tunnels": 0,
                **dict.fromkeys(STATES, 0),
                "rx": 0,
                "tx": 0,
                "oldest": None,
                "latency": None,
                "faults": len(texts),
                "causes": texts[:CAUSES],
            }
        link["tunnels"] += 1
        link[row["state"]] += 1
        link["rx"] += row["rx"]
        link["tx"] += row["tx"]
        for name, value in (("oldest", row["age"]), ("latency", row.get("latency"))):
            if value is not None:
                link[name] = max(link[name] or 0, value)
    return [found[key] for key in sorted(found)]
