# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of nodes and of their tunnels in the document of a fabric. Pure."""

from __future__ import annotations

import typing as t

from .._dataplane.peer_spec import handshake_age, is_fresh
from .._plan.mesh_plan import MeshPlan, NodePlan
from .._values.text import dicts_of, mapping
from . import evidence, pods_outside
from .ends import DOWN, MISSING, NEVER, STALE, UNKNOWN, UP
from .texts import cut, moment
from .verdict import Verdict

Data = dict[str, t.Any]
Facts = t.Mapping[str, t.Any]


def reported_peers(node: Facts, now: float) -> list[Data]:
    """The peers of a node's owned devices for evidence.judge, from the facts of node_info. ``now``: epoch of the controller, for a node without a clock."""
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


def tunnel_rows(
    host: str, mesh: MeshPlan, node: t.Any, names: t.Mapping[str, tuple[str, str]], now: float
) -> list[Data]:
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


def node_row(
    host: str,
    mesh: MeshPlan,
    node: t.Any,
    tunnels: t.Sequence[Data],
    verdict: Verdict,
    why: t.Any,
    unreachable: t.Collection[str] = (),
) -> Data:
    """One row of ``nodes``. ``node``: facts of node_info, None where it did not answer; ``tunnels``: its tunnel_rows; ``why``: comes before what the verdict
    gives as its reason; ``unreachable``: peers, as CLUSTER/NODE, which did not answer."""
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


def outside_row(name: str, mesh: MeshPlan, facts: Facts, tunnels: t.Sequence[Data]) -> Data | None:
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


def _since(bgp: t.Any) -> dict[str, str]:
    """Network -> since when a node announces it by its own report, in UTC by its own clock; nothing for what is no time."""
    rows = bgp.get("since") if isinstance(bgp, t.Mapping) else None
    found = {}
    for network, when in rows.items() if isinstance(rows, t.Mapping) else ():
        if isinstance(when, int) and not isinstance(when, bool) and 0 <= when < 2**33:
            found[cut(network, 64)] = moment(when)
    return found
