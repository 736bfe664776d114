# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One KubeSpan mesh over the fabric: from Node listings and what hosts report to the affiliates that hold (kubespan 5, 6).

Every node gets the same affiliates and takes its own peers from them, so that the fabric's part of the work is done once
and results stay small. Endpoints at which nodes see their peers are one node's report about another (7.4, decision 16): they are
added behind the other's own endpoints, so that they are tried last, and WireGuard's keys decide who answers there.
"""

from __future__ import annotations

import typing as t

from ..._plan.budget import why_refused
from ..._plan.mesh_plan import KUBESPAN, ClusterPlan, KubespanPlan, MeshPlan, NodePlan
from ..._plan.plan import Refusal
from ..._values.addresses import Network, special_kind
from ..._values.generations import NEXT, WHOLE_MESH
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import ValueRefused
from ..._values.text import mapping
from ..fabric.claims import OVERLAY_RANGES, label_of
from ..fabric.inventory import Fabric
from ..fabric.pod_range_readers import NODE
from ..fabric.pod_ranges import Ranges, read_clusters
from ..kilo.values import parse_node
from ..kubespan.annotations import ENDPOINTS, KEYS, LISTS, SCALARS, Affiliate, decode
from ..kubespan.endpoints import parse_addr_port
from ..kubespan.generations import MAX_ENDPOINTS
from ..kubespan.identity import mesh_subnet
from ..semaphore.peers import pod_cidrs_of
from ..semaphore.rotation import keys_of
from . import kubespan_rotation
from .kubespan_claims import Checked, check_affiliates

Data = dict[str, t.Any]
ANNOTATIONS, INVENTORY, DISCOVERY = "annotations", "inventory", "discovery"
#: Sources of affiliates without a setting: what Nodes carry, and what hosts say of themselves in the run.
REGISTRIES = (ANNOTATIONS, INVENTORY)
#: How many one node may say of one other, and how many a node gets in all: addresses behind a NAT that changes are no use.
PER_REPORTER, PER_NODE = 1, 8


def plan_kubespan_mesh(
    fabric: Fabric,
    listings: t.Mapping[str, t.Any],
    mesh_id: str,
    reported: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
    registries: t.Collection[str] = REGISTRIES,
) -> MeshPlan:
    """Everything the mesh should be. The nodes' part is its ``kubespan``; clusters have no devices.

    listings: as semaphore_topology.plan_kubespan_mesh has them. reported: {host: {annotation: value}}, what hosts said of themselves in this
    run; it counts instead of what their Nodes carry. registries: the sources of affiliates that are used.
    """
    subnet = mesh_subnet(mesh_id)
    read, sources = read_clusters(fabric.clusters, listings)
    refused: list[Refusal] = [refusal for listing in read.values() for refusal in listing.refused]
    refused += [refusal for found in sources.values() for refusal in found.refused]
    hosts = {(node["cluster"], node["node_name"]): host for host, node in fabric.nodes.items()}
    raw: list[Data] = []
    for cluster, listing in read.items():
        objects = {} if listing.failure else _by_name(listings[cluster]["nodes"])
        for name in sorted({*listing.nodes, *(node for place, node in hosts if place == cluster)}):
            host = hosts.get((cluster, name))
            said = (reported or {}).get(host) if host is not None and INVENTORY in registries else None
            known = objects.get(name) if ANNOTATIONS in registries else None
            record = decode(_with_annotations(known or {"metadata": {"name": name}}, said))
            if record is None:
                continue
            raw_record = {f"k8s:{cluster}/{record['node_id']}": record}
            affiliate = dict(merge(raw_record)[0], cluster=cluster, node=name, declared=host is not None)
            raw.append(dict(affiliate, host=host, reported=bool(said)) if host is not None else affiliate)
    grants = fabric.grants()
    checked = check_affiliates(raw, grants, subnet, balanced=fabric.balanced())
    refused.extend(checked.refused)
    unread = [cluster for cluster, listing in read.items() if listing.failure]
    nodes = {host: _node(fabric, host, read, sources, refused, registries) for host in sorted(fabric.nodes)}
    members = {
        name: {kind: list(granted.get(kind) or ()) for kind in ("pod_cidrs", "node_cidrs")}
        for name, granted in grants.items()
    }
    return MeshPlan(
        mode=KUBESPAN,
        fabric=fabric.name,
        annotation_patterns=[*KEYS, *keys_of(WHOLE_MESH).values()],
        overlay=sorted(
            {cidr for ranges in grants.values() for key in OVERLAY_RANGES for cidr in ranges.get(key) or ()}
        ),
        clusters={cluster: ClusterPlan() for cluster in sorted(fabric.clusters)},
        nodes=nodes,
        kubespan=KubespanPlan(
            subnet=str(subnet),
            affiliates=[_plain(row, checked.disputed) for row in checked.affiliates],
            complete=not unread,
            contested=checked.contested,
            disputed=checked.disputed,
            unread=unread,
            turned_away=_turned_away(checked, read),
            members=members if DISCOVERY in registries else {},
            balanced=fabric.balanced(),
            networks={name: [*ranges["pod_cidrs"], *ranges["service_cidrs"]] for name, ranges in grants.items()},
        ),
        refused=[refusal._asdict() for refusal in sorted(set(refused))],
        failures=[listing.failure for listing in read.values() if listing.failure],
        pod_ranges={cluster: found.shown() for cluster, found in sources.items()},
    )


def _turned_away(checked: Checked, clusters: t.Iterable[str]) -> str:
    """Of the clusters that had most of their nodes refused: which they are, and what to fix."""
    found = []
    for cluster in sorted(clusters):
        inside = {
            label_of(cluster, row["node"])
            for row in [*checked.affiliates, *checked.contested]
            if row["cluster"] == cluster
        }
        found.append(why_refused([row for row in checked.refused if row.object.partition("/")[0] == cluster], inside))
    return " ".join(text for text in found if text)


def _plain(row: t.Mapping[str, t.Any], disputed: t.Collection[str]) -> Data:
    """An affiliate for nodes. That its host said so matters only where others claim an address of its."""
    left_out = ("host",) if any(text in disputed for text in row["addresses"]) else ("host", "reported")
    return {key: row[key] for key in row if key not in left_out}


def _with_annotations(node: t.Mapping[str, t.Any], said: t.Mapping[str, t.Any] | None) -> t.Mapping[str, t.Any]:
    """The Node with what its host reports of itself in place of the mesh's annotations."""
    if not said:
        return node
    metadata = node["metadata"]
    kept = {key: value for key, value in mapping(metadata, "annotations").items() if key not in KEYS}
    own = {key: said[key] for key in KEYS if isinstance(said.get(key), str) and said[key]}
    return dict(node, metadata=dict(metadata, annotations=dict(kept, **own)))


def _by_name(nodes: t.Iterable[t.Any]) -> dict[t.Any, t.Mapping[str, t.Any]]:
    """What read_listing kept of a list, whole."""
    names = ((mapping(node, "metadata").get("name"), node) for node in nodes)
    return {name: node for name, node in names if isinstance(name, str)}


def _node(
    fabric: Fabric,
    host: str,
    read: t.Mapping[str, t.Any],
    sources: t.Mapping[str, Ranges],
    refused: list[Refusal],
    registries: t.Collection[str],
) -> NodePlan:
    """What of one host the cluster knows. ``published``: the mesh's annotations that its Node carries."""
    cluster, name = fabric.nodes[host]["cluster"], fabric.nodes[host]["node_name"]
    listing = read[cluster]
    node = listing.nodes.get(name)
    if listing.failure or node is None:
        # a host that announces itself to a discovery service needs no Node
        if not listing.failure and DISCOVERY not in registries:
            message = f"cluster {cluster} has no Node {name} for host {host}; write node_name if it has another name"
            refused.append(Refusal(label_of(cluster, name), "node_missing", message))
            return NodePlan(cluster, name, refused="node_missing")
        return NodePlan(cluster, name)
    pod_cidrs: list[str] = []
    try:
        pod_cidrs = list(map(str, _ranges(fabric, cluster, node, sources[cluster])))
    except ValueRefused as error:
        refused.append(Refusal(label_of(cluster, name), error.reason, f"{label_of(cluster, name)}: {error.message}"))
    return NodePlan(
        cluster,
        name,
        publishable=ANNOTATIONS in registries,
        published={key: node["annotations"][key] for key in KEYS if isinstance(node["annotations"].get(key), str)},
        pod_cidrs=pod_cidrs,
        own_addresses=[str(one.address) for one in parse_node(node).addresses if one.kind == "InternalIP"],
    )


def _ranges(fabric: Fabric, cluster: str, node: t.Mapping[str, t.Any], source: Ranges) -> t.Sequence[Network]:
    """Pod ranges that a node announces: without borrowed addresses, which the node of their block passes on. Raises ValueRefused."""
    if source.source == NODE:
        return pod_cidrs_of(node, fabric.clusters[cluster]["allowed_ips_source"])
    found = source.nodes[node["name"]]
    if isinstance(found, ValueRefused):
        raise found
    return found.networks


def node_kubespan(plan: MeshPlan, host: str) -> Data | None:
    """One host's part, for the module on the node; None in another mode."""
    if plan.kubespan is None:
        return None
    node, mesh = plan.nodes[host], plan.kubespan
    more = {
        "own_addresses": node.own_addresses,
        "discovery": {"overlay": plan.overlay, "members": mesh.members} if mesh.members else {},
        "contested": mesh.contested,
        "disputed": mesh.disputed,
        "unread": mesh.unread,
        "turned_away": mesh.turned_away,
        "balanced": mesh.balanced,
    }
    return {
        "cluster": node.cluster,
        "node_name": node.node_name,
        "affiliates": mesh.affiliates,
        "complete": mesh.complete,
        "cluster_networks": mesh.networks[node.cluster],
        "pod_cidrs": node.pod_cidrs,
        **{name: value for name, value in more.items() if value},
        **kubespan_rotation.part(plan, host),
    }


def annotations_to_publish(
    plan: MeshPlan,
    reported: t.Mapping[str, t.Mapping[str, t.Any]],
    harvested: t.Mapping[str, t.Any] | None = None,
    public_keys: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
) -> dict[str, dict[str, Data]]:
    """cluster -> node -> annotations of hosts with a report that differs from what their Node carries.

    ``reported`` is host -> annotations, of which empty ones are to be removed. ``harvested``: of gathered. ``public_keys``: host -> remote -> key, of
    bypass devices.
    """
    desired: dict[str, dict[str, Data]] = {}
    harvested = {host: rows for host, rows in (harvested or {}).items() if rows is not None}
    seen = gathered(plan, harvested) if harvested else {}
    keep = bool(harvested) and not set(plan.nodes) <= set(reported)
    for host in sorted(reported):
        node = plan.node(host)
        if not node.publishable:
            continue
        values = dict(reported[host])
        if harvested:
            others = seen.get((node.cluster, node.node_name), ())
            values[ENDPOINTS] = with_harvested(
                values.get(ENDPOINTS, ""), node.published.get(ENDPOINTS, ""), others, keep
            )
        values = {key: value for key, value in values.items() if value != ""}
        values.update(node.annotations)
        made, following = ((public_keys or {}).get(host) or {}).get(WHOLE_MESH + NEXT), keys_of(WHOLE_MESH)["key"]
        if made is not None and node.annotations:
            values[following] = made
        elif not isinstance(values.get(following), str):
            # a host that has another key than its record retires makes no next one, and a value that never comes ends every step
            values.pop(following, None)
        if values != node.published or node.stale:
            desired.setdefault(node.cluster, {})[node.node_name] = values
    return desired


def gathered(plan: MeshPlan, reports: t.Mapping[str, t.Any]) -> dict[tuple[str, str], list[str]]:
    """(cluster, node) to endpoints. reports: {host: [{affiliate_id, endpoint}], or None where it does not harvest}.

    What is no endpoint, is in overlay space or names no node of the mesh is dropped: nobody relies on it.
    """
    mesh = plan.kubespan or KubespanPlan()
    rows_of: dict[str, list[tuple[str, str]]] = {}
    for row in [*mesh.affiliates, *mesh.contested]:
        rows_of.setdefault(row["node_id"], []).append((row["cluster"], row["node"]))
    # an id that several claim identifies none
    seats = {node_id: found[0] for node_id, found in rows_of.items() if len(found) == 1}
    overlay = PrefixSet.of_texts([*plan.overlay, mesh.subnet])
    found: dict[tuple[str, str], dict[str, None]] = {}
    for host in sorted(reports):
        rows = reports[host]
        said: dict[tuple[str, str], int] = {}
        for row in rows[: MAX_ENDPOINTS * len(seats)] if isinstance(rows, list) else ():
            seat = (
                seats.get(str(row["affiliate_id"]))
                if isinstance(row, dict) and isinstance(row.get("affiliate_id"), str)
                else None
            )
            text = None if seat is None else _usable(row.get("endpoint"), overlay)
            if seat is None or text is None or said.get(seat, 0) >= PER_REPORTER:
                continue
            said[seat] = said.get(seat, 0) + 1
            found.setdefault(seat, {})[text] = None
    return {seat: sorted(texts) for seat, texts in found.items()}


def _usable(text: t.Any, overlay: PrefixSet) -> str | None:
    try:
        endpoint = parse_addr_port(text)
    except ValueRefused:
        return None
    return str(endpoint) if special_kind(endpoint.address) is None and endpoint.address not in overlay else None


def with_harvested(own: str, published: str, seen: t.Iterable[str], keep: bool) -> str:
    """A node's annotation of endpoints: its own, then those seen by others.

    keep: not every node took part in this run, so what was published before and is not its own may still be seen by others.
    """
    texts = own.split(",") if own else []
    more = set(seen) | (set(published.split(",")) - {""} if keep else set())
    return ",".join([*texts, *sorted(more - set(texts))[:PER_NODE]][:MAX_ENDPOINTS])


def merge(raw: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[Affiliate]:
    """Affiliates of several sources as one list (kubespan 5.1, decision 36): one a node id, sorted by it.

    Raw records, ``{source/node id: record}``, are merged in ascending order of their keys.

    Lists are united in the order in which items are first seen; of scalars the later that is not empty wins. ``sources``
    lists who knew the node.
    """
    merged: dict[str, Affiliate] = {}
    for key in sorted(raw):
        record = raw[key]
        target = merged.setdefault(record["node_id"], {"node_id": record["node_id"], "sources": []})
        target["sources"].append(key.partition("/")[0])
        for name in LISTS:
            target[name] = list(dict.fromkeys([*target.get(name, ()), *(record.get(name) or ())]))
        for name in SCALARS:
            target[name] = record.get(name) or target.get(name)
        kind = record.get("machine_type")
        if kind and (kind != "unknown" or not target.get("machine_type")):
            target["machine_type"] = kind
        for name in ("cluster", "node", "declared"):
            if record.get(name):
                target.setdefault(name, record[name])
    return [merged[node_id] for node_id in sorted(merged)]
