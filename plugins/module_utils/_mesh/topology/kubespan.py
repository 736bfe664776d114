# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One KubeSpan mesh over the fabric: from Node listings and what hosts report to the affiliates that hold (kubespan 5, 6).

Every node gets the same affiliates and takes its own peers from them, so that the fabric's part of the work is done once
and results stay small.
"""

from __future__ import annotations

import typing as t

from ..._plan.budget import why_refused
from ..._plan.plan import Refusal
from ..._values.refused import ValueRefused
from ..fabric.claims import OVERLAY_RANGES, label_of
from ..fabric.inventory import Fabric
from ..fabric.node_listing import read_listing
from ..kubespan.annotations import ENDPOINTS, KEYS, decode
from ..kubespan.identity import mesh_subnet
from ..semaphore.peers import pod_cidrs_of
from .kubespan_claims import Checked, check_affiliates
from .kubespan_harvest import gathered, with_harvested
from .kubespan_merge import cluster_source, merge, raw_key

Data = t.Dict[str, t.Any]
MODE = "kubespan"


def plan_kubespan_mesh(
    fabric: Fabric, listings: t.Mapping[str, t.Any], mesh_id: str, reported: t.Optional[t.Mapping[str, t.Mapping[str, t.Any]]] = None
) -> Data:
    """Everything the mesh should be, as plain data with Pending values.

    listings: as semaphore_topology.plan_kubespan_mesh has them. reported: {host: {annotation: value}}, what hosts said of themselves in this
    run; it counts instead of what their Nodes carry. Returns the keys of plan_semaphore_mesh with no devices, and::

        mode: "kubespan"
        kubespan: {subnet, affiliates: [those that hold], complete: bool, networks: {cluster: [pod and service networks]}}
        and where there are any: contested: [affiliates of which each node decides which it takes], disputed: [node addresses that
        several of all affiliates have], unread: [clusters that could not be read], turned_away: text, which nodes were refused
    """
    subnet = mesh_subnet(mesh_id)
    read = {cluster: read_listing(cluster, listings.get(cluster)) for cluster in sorted(fabric.clusters)}
    refused: t.List[Refusal] = [refusal for listing in read.values() for refusal in listing.refused]
    hosts = {(node["cluster"], node["node_name"]): host for host, node in fabric.nodes.items()}
    raw: t.List[Data] = []
    for cluster, listing in read.items():
        objects = {} if listing.failure else _by_name(listings[cluster]["nodes"])
        for name in sorted({*listing.nodes, *(node for place, node in hosts if place == cluster)}):
            host = hosts.get((cluster, name))
            said = (reported or {}).get(host) if host is not None else None
            record = decode(_with_annotations(objects.get(name) or {"metadata": {"name": name}}, said))
            if record is None:
                continue
            raw_record = {raw_key(cluster_source(cluster), record["node_id"]): record}
            affiliate = dict(merge(raw_record)[0], cluster=cluster, node=name, declared=host is not None)
            raw.append(dict(affiliate, host=host, reported=bool(said)) if host is not None else affiliate)
    grants = fabric.grants()
    checked = check_affiliates(raw, grants, subnet)
    refused.extend(checked.refused)
    unread = [cluster for cluster, listing in read.items() if listing.failure]
    more = {"contested": checked.contested, "disputed": checked.disputed, "unread": unread, "turned_away": _turned_away(checked, read)}
    nodes = {host: _node(fabric, host, read, refused) for host in sorted(fabric.nodes)}
    return {
        "mode": MODE,
        "fabric": fabric.name,
        "annotation_patterns": list(KEYS),
        "overlay": sorted({cidr for ranges in grants.values() for key in OVERLAY_RANGES for cidr in ranges.get(key) or ()}),
        "clusters": {cluster: {"remotes": {}} for cluster in sorted(fabric.clusters)},
        "nodes": nodes,
        "kubespan": {
            "subnet": str(subnet),
            "affiliates": [_plain(row, checked.disputed) for row in checked.affiliates],
            "complete": not unread,
            **{name: rows for name, rows in more.items() if rows},
            "networks": {name: [*ranges["pod_cidrs"], *ranges["service_cidrs"]] for name, ranges in grants.items()},
        },
        "refused": [refusal._asdict() for refusal in sorted(set(refused))],
        "failures": [listing.failure for listing in read.values() if listing.failure],
    }


def _turned_away(checked: Checked, clusters: t.Iterable[str]) -> str:
    """Of the clusters most of whose nodes were refused: which they are, and what to mend."""
    found = []
    for cluster in sorted(clusters):
        inside = {label_of(cluster, row["node"]) for row in [*checked.affiliates, *checked.contested] if row["cluster"] == cluster}
        found.append(why_refused([row for row in checked.refused if row.object.partition("/")[0] == cluster], inside))
    return " ".join(text for text in found if text)


def _plain(row: t.Mapping[str, t.Any], disputed: t.Collection[str]) -> Data:
    """An affiliate for nodes. That its host said so matters only where others claim an address of its."""
    left_out = ("host",) if any(text in disputed for text in row["addresses"]) else ("host", "reported")
    return {key: row[key] for key in row if key not in left_out}


def _with_annotations(node: t.Mapping[str, t.Any], said: t.Optional[t.Mapping[str, t.Any]]) -> t.Mapping[str, t.Any]:
    """The Node with what its host says of itself in place of the mesh's annotations."""
    if not said:
        return node
    metadata = node["metadata"]
    present = metadata.get("annotations") if isinstance(metadata.get("annotations"), dict) else {}
    kept = {key: value for key, value in present.items() if key not in KEYS}
    own = {key: said[key] for key in KEYS if isinstance(said.get(key), str) and said[key]}
    return dict(node, metadata=dict(metadata, annotations=dict(kept, **own)))


def _by_name(nodes: t.Iterable[t.Any]) -> t.Dict[t.Any, t.Mapping[str, t.Any]]:
    """What read_listing kept of a list, whole."""
    found = {}
    for node in nodes:
        metadata = node.get("metadata") if isinstance(node, dict) else None
        if isinstance(metadata, dict) and isinstance(metadata.get("name"), str):
            found[metadata["name"]] = node
    return found


def _node(fabric: Fabric, host: str, read: t.Mapping[str, t.Any], refused: t.List[Refusal]) -> Data:
    """What of one host the cluster knows. ``published``: the mesh's annotations that its Node carries."""
    cluster, name = fabric.nodes[host]["cluster"], fabric.nodes[host]["node_name"]
    row: Data = {"cluster": cluster, "node_name": name, "publishable": False, "annotations": {}, "published": {}, "stale": [], "pod_cidrs": []}
    listing = read[cluster]
    node = listing.nodes.get(name)
    if listing.failure or node is None:
        if not listing.failure:
            message = "cluster {0} has no Node {1} for host {2}; write node_name if it has another name".format(cluster, name, host)
            refused.append(Refusal(label_of(cluster, name), "node_missing", message))
            row["refused"] = "node_missing"
        return row
    row["publishable"] = True
    row["published"] = {key: node["annotations"][key] for key in KEYS if isinstance(node["annotations"].get(key), str)}
    try:
        row["pod_cidrs"] = [str(network) for network in pod_cidrs_of(node, fabric.clusters[cluster]["allowed_ips_source"])]
    except ValueRefused as error:
        refused.append(Refusal(label_of(cluster, name), error.reason, "{0}: {1}".format(label_of(cluster, name), error.message)))
    return row


def node_kubespan(topology: t.Mapping[str, t.Any], host: str) -> t.Optional[Data]:
    """One host's part, for the module on the node; None in another mode."""
    if topology.get("mode") != MODE:
        return None
    node, mesh = topology["nodes"][host], topology["kubespan"]
    return {
        "cluster": node["cluster"],
        "node_name": node["node_name"],
        "affiliates": mesh["affiliates"],
        "complete": mesh["complete"],
        "cluster_networks": mesh["networks"][node["cluster"]],
        "pod_cidrs": node["pod_cidrs"],
        **{name: mesh[name] for name in ("contested", "disputed", "unread", "turned_away") if mesh.get(name)},
    }


def annotations_to_publish(
    topology: t.Mapping[str, t.Any], reported: t.Mapping[str, t.Mapping[str, t.Any]], harvested: t.Optional[t.Mapping[str, t.Any]] = None
) -> t.Dict[str, t.Dict[str, Data]]:
    """cluster -> node -> annotations of hosts whose own word differs from what their Node carries.

    ``reported`` is host -> annotations, of which empty ones are to be removed. ``harvested``: of kubespan_harvest.gathered.
    """
    wanted: t.Dict[str, t.Dict[str, Data]] = {}
    harvested = {host: rows for host, rows in (harvested or {}).items() if rows is not None}
    seen = gathered(topology, harvested) if harvested else {}
    keep = bool(harvested) and not set(topology["nodes"]) <= set(reported)
    for host in sorted(reported):
        node = topology["nodes"].get(host)
        if node is None or not node["publishable"]:
            continue
        values = dict(reported[host])
        if harvested:
            others = seen.get((node["cluster"], node["node_name"]), ())
            values[ENDPOINTS] = with_harvested(values.get(ENDPOINTS, ""), node["published"].get(ENDPOINTS, ""), others, keep)
        values = {key: value for key, value in values.items() if value != ""}
        if values != node["published"]:
            wanted.setdefault(node["cluster"], {})[node["node_name"]] = values
    return wanted
