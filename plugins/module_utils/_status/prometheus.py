# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document as Prometheus text. What the upstream programs export keeps its name; the rest begins with multicluster_. Pure."""

from __future__ import annotations

import collections
import typing as t

from .ends import MISSING, UNKNOWN
from .verdict import BROKEN, PROVEN, UNPROVEN

VERDICTS = (PROVEN, UNPROVEN, BROKEN)
#: Above so many tunnels, those of each node are exported together: a server of metrics would choke on millions of series.
TUNNELS = 20000

Facts = t.Mapping[str, t.Any]
Rows = t.Iterable[tuple[t.Mapping[str, t.Any], t.Any]]


def text(document: Facts) -> str:
    """For the textfile collector of node_exporter, or any server of files."""
    lines: list[str] = []
    for name, kind, about, rows in _families(document):
        lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
        lines += [
            f"{name}{_labels(labels)} {value if isinstance(value, int) else float(value)}" for labels, value in rows
        ]
    return "\n".join(lines) + "\n"


def _families(document: Facts) -> t.Iterator[tuple[str, str, str, Rows]]:
    # of an end that nobody reported there is nothing to count
    tunnels, nodes = [row for row in document["tunnels"] if row["state"] not in (MISSING, UNKNOWN)], document["nodes"]
    left_out = len(tunnels) if len(tunnels) > TUNNELS else 0
    tunnels = [] if left_out else tunnels
    keys = [(row, {"node": row["host"], "device": row["device"], "public_key": row["public_key"]}) for row in tunnels]
    devices = [
        ({"node": n["host"], "device": d["name"], "public_key": d["public_key"]}, 1)
        for n in nodes
        for d in n["devices"]
        if d["public_key"]
    ]
    yield "semaphore_wg_device_info", "gauge", "A device, with its public key.", devices
    yield (
        "semaphore_wg_peer_info",
        "gauge",
        "A peer, with its endpoint.",
        [(dict(key, endpoint=row["endpoint"]), 1) for row, key in keys],
    )
    allowed = [(dict(key, allowed_ips=item), 1) for row, key in keys for item in row["allowed_ips"]]
    yield "semaphore_wg_peer_allowed_ips_info", "gauge", "An allowed IP of a peer.", allowed
    yield (
        "semaphore_wg_peer_receive_bytes_total",
        "counter",
        "Bytes received from the peer.",
        [(key, row["rx"]) for row, key in keys],
    )
    yield (
        "semaphore_wg_peer_transmit_bytes_total",
        "counter",
        "Bytes sent to the peer.",
        [(key, row["tx"]) for row, key in keys],
    )
    yield (
        "semaphore_wg_peer_last_handshake_seconds",
        "gauge",
        "Unix time of the last handshake, 0 for never.",
        [(key, row["handshake"]) for row, key in keys],
    )
    yield (
        "multicluster_tunnels_left_out",
        "gauge",
        "Tunnels that are not reported one by one.",
        [({"fabric": document["fabric"]}, left_out)],
    )
    yield (
        "multicluster_status_timestamp_seconds",
        "gauge",
        "When this was read.",
        [({"fabric": document["fabric"]}, document["generated_epoch"])],
    )
    yield (
        "multicluster_verdict",
        "gauge",
        "1 for the verdict that holds: proven, not proven or broken.",
        [
            ({"fabric": document["fabric"], "verdict": value}, int(document["verdict"]["value"] == value))
            for value in VERDICTS
        ],
    )
    yield (
        "multicluster_cluster_up",
        "gauge",
        "Whether the API server of a cluster answered.",
        [({"cluster": row["name"]}, int(row["reachable"])) for row in document["clusters"]],
    )
    yield from _next_failure(document)
    yield (
        "multicluster_pods_outside_peers",
        "gauge",
        "Pods of a cluster with an address that peers on nodes of other clusters do not have.",
        [
            ({"cluster": row["name"]}, row["pods_outside"]["count"])
            for row in document["clusters"]
            if row.get("pods_outside")
        ],
    )
    yield (
        "multicluster_nodes_not_asked",
        "gauge",
        "Nodes outside of the run's --limit, which nothing is reported about.",
        [({"fabric": document["fabric"]}, sum(1 for n in nodes if not n["asked"]))],
    )
    nodes = [n for n in nodes if n["asked"]]
    for name, about, field in (
        ("multicluster_node_up", "Whether a node answered.", "answered"),
        ("multicluster_node_peers", "Peers of a node.", "peers"),
        ("multicluster_node_peers_up", "Peers of a node that shook hands lately.", "up"),
        ("multicluster_node_peers_unknown", "Peers of a node without a report.", "unknown"),
    ):
        yield name, "gauge", about, [({"cluster": n["cluster"], "node": n["host"]}, int(n[field])) for n in nodes]
    yield (
        "multicluster_node_key_age_seconds",
        "gauge",
        "Age of the oldest WireGuard key of a node.",
        [({"cluster": n["cluster"], "node": n["host"]}, n["key_age"]) for n in nodes if n.get("key_age") is not None],
    )
    yield (
        "multicluster_node_preshared_generation",
        "gauge",
        "Generation of the preshared keys of a node towards a cluster.",
        [
            ({"cluster": n["cluster"], "node": n["host"], "remote": remote}, number)
            for n in nodes
            for remote, number in sorted((n.get("preshared") or {}).items())
        ],
    )
    for name, field in (("receive", "rx"), ("transmit", "tx")):
        rows = [({"cluster": n["cluster"], "node": n["host"]}, n[field]) for n in nodes]
        yield f"multicluster_node_{name}_bytes_total", "counter", "Bytes of all peers of a node.", rows
    yield (
        "multicluster_service_endpoints",
        "gauge",
        "Endpoints of a Service that came from another cluster.",
        [(_service(row), row["endpoints"]) for row in document["services"]],
    )
    yield (
        "multicluster_service_endpoints_ready",
        "gauge",
        "Those of them that take traffic.",
        [(_service(row), row["ready"]) for row in document["services"]],
    )
    for name, about, field in (
        ("multicluster_exports", "ServiceExports of a cluster.", "exports"),
        ("multicluster_exports_valid", "Those of them that count.", "valid"),
        ("multicluster_exports_in_conflict", "Those that differ from the export that decides.", "conflicts"),
        ("multicluster_imports", "Owned ServiceImports in a cluster.", "imports"),
    ):
        yield name, "gauge", about, [({"cluster": row["cluster"]}, row[field]) for row in document["imports"]]
    yield (
        "multicluster_set_networks",
        "gauge",
        "Networks in a set.",
        [({"cluster": row["cluster"], "name": row["name"]}, row["networks"]) for row in document["sets"]],
    )
    yield (
        "multicluster_address_announcers",
        "gauge",
        "Nodes that announce the address of a Service.",
        [
            (
                {"cluster": row["cluster"], "service": row["service"], "address": row["address"]},
                len(row["announced_by"]),
            )
            for row in document["addresses"]
        ],
    )
    for name, about, field in (
        ("multicluster_pool_addresses", "Addresses that a pool hands out to Services.", "total"),
        ("multicluster_pool_addresses_used", "Addresses of a pool that are taken.", "used"),
        ("multicluster_pool_addresses_free", "Addresses of a pool that are left.", "free"),
    ):
        yield (
            name,
            "gauge",
            about,
            [
                ({"cluster": row["cluster"], "pool": row["pool"], "family": f"ipv{row['family']}"}, row[field])
                for row in document["pools"]
            ],
        )
    yield (
        "multicluster_drift",
        "gauge",
        "Things that differ from the inventory.",
        _counted(document["drift"], ("where", "kind")),
    )
    yield "multicluster_refused", "gauge", "Objects that were refused.", _counted(document["refused"], ("reason",))
    yield (
        "multicluster_failures",
        "gauge",
        "What could not be read.",
        _counted(document["failures"], ("cluster", "reason")),
    )


def _next_failure(document: Facts) -> t.Iterator[tuple[str, str, str, Rows]]:
    """The node and the cluster of which the failure would cost most."""
    failure = document.get("next_failure") or {}
    found = [
        ({"fabric": document["fabric"], "kind": kind, "name": failure[kind]["name"]}, failure[kind])
        for kind in ("node", "cluster")
        if kind in failure
    ]
    for name, about, field in (
        (
            "multicluster_next_failure_pairs",
            "Pairs of nodes that the failure of this node or cluster, which costs most, would take.",
            "pairs",
        ),
        (
            "multicluster_next_failure_services",
            "Services from other clusters that would keep no endpoint then.",
            "service_count",
        ),
    ):
        rows = [(labels, row[field]) for labels, row in found]
        yield name, "gauge", about, rows


def _service(row: Facts) -> dict[str, t.Any]:
    return {name: row[name] for name in ("cluster", "namespace", "name", "source")}


def _counted(rows: t.Iterable[Facts], names: t.Sequence[str]) -> Rows:
    found = collections.Counter(tuple(str(row[name]) for name in names) for row in rows)
    return [(dict(zip(names, key)), found[key]) for key in sorted(found)]


def _labels(labels: t.Mapping[str, t.Any]) -> str:
    pairs = [f'{name}="{escaped(str(value))}"' for name, value in labels.items()]
    return "{" + ",".join(pairs) + "}" if pairs else ""


def escaped(value: str) -> str:
    """The value of a label, whatever a stranger wrote."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", " ")
