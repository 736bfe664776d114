# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The vectors of Kilo's cluster mesh. Fields are renamed, nothing is decided here.

Options set: own_endpoint_routes true and roaming_keepalive 0 (a Peer as upstream builds it), anchor_choice first.
"""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo import (
    endpoints as kilo_endpoints,
    meshes as kilo_meshes,
    nodes as kilo_nodes,
    peers as kilo_peers,
    plan as kilo_plan,
    sources as kilo_sources,
    status as kilo_status,
    values as kilo_values,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import DELETE
from ansible_collections.multicluster.network.plugins.module_utils._values import addresses
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

from ..outcome import Internal, Ruled

Input = t.Mapping[str, t.Any]
Answer = t.Any
MANAGER, TARGET = "multicluster.network/mesh", "target-of-the-sweep"


def refusing(function: t.Callable[[Input], Answer]) -> t.Callable[[Input], Answer]:
    """A refused value is an answer: its reason."""

    def answer(data: Input) -> Answer:
        try:
            return function(data)
        except ValueRefused as error:
            return {"error": error.reason}

    return answer


def internal(data: Input) -> Answer:
    raise Internal("the inside of a daemon that a converge run does not have")


def peer_options(data: Input) -> kilo_peers.PeerOptions:
    names = {"endpoint_policy": "policy", "internal_ip_routes": "internal_ip_routes"}
    return kilo_peers.ORIGINAL._replace(**{names[name]: data[name] for name in names if name in data})


def listed(data: Input, name: str) -> t.Sequence[t.Any]:
    """A list of the vector; null is an empty one."""
    return data.get(name) or ()


def nodes(data: Input, name: str) -> list[kilo_values.Node]:
    return [kilo_values.parse_node(node) for node in listed(data, name)]


def node(data: Input) -> kilo_values.Node:
    return kilo_values.parse_node(dict({"name": None}, **data["node"]))


def shown(peer: kilo_peers.Peer) -> Answer:
    """The vectors write a keepalive that the object omits as 0."""
    return dict(peer._asdict(), spec=dict({"persistentKeepalive": 0}, **peer.spec))


def resolve_endpoint(data: Input) -> Answer:
    found = kilo_endpoints.resolve_endpoint(node(data), data.get("port"))
    return {"endpoint": found.text, "source": found.source}


def endpoint_parse(data: Input) -> Answer:
    return kilo_endpoints.parse_endpoint(data["endpoint"])


def cidr_parse(data: Input) -> Answer:
    cidr = kilo_values.parse_cidr(data["input"])
    return {"host_ip": str(cidr.host), "network": str(cidr.network), "host_route": cidr.host_route}


def cidr_relations(data: Input) -> Answer:
    first, second = (kilo_values.parse_cidr(data[name]).network for name in ("a", "b"))
    return {
        "overlaps": addresses.overlaps(first, second),
        "a_contains_b": kilo_values.cidr_contains(first, second),
    }


def wireguard_ip(data: Input) -> Answer:
    given = kilo_values.parse_node({"name": "node", "annotations": {kilo_values.WIREGUARD_IP: data.get("annotation")}})
    return {"allowed_ip": kilo_nodes.wireguard_address(given, kilo_nodes.ranges_of(data["entry"])).host_route}


def peer_name(data: Input) -> Answer:
    return kilo_peers.peer_name(data["mesh"], data["cluster"], data["node"])


def peer_labels(data: Input) -> Answer:
    return kilo_peers.peer_labels(data["mesh"], data["cluster"])


def peer_build(data: Input) -> Answer:
    extras = listed(data, "extra_allowed_ips")
    keepalive = data.get("mesh_keepalive") or 0
    return shown(kilo_peers.build_peer(data["mesh"], data["entry"], node(data), extras, keepalive, peer_options(data)))


def mesh_keepalive(data: Input) -> Answer:
    return kilo_peers.mesh_keepalive(listed(data, "values"))


def node_validation(data: Input) -> Answer:
    try:
        kilo_nodes.validate_node(node(data), data["entry"], data.get("endpoint_policy", kilo_nodes.REQUIRE))
    except ValueRefused as error:
        return {"skip": error.reason, "message": error.message}
    return {"valid": True}


def reason_transient(data: Input) -> Answer:
    return kilo_nodes.is_transient(data["reason"])


def duplicates(data: Input) -> Answer:
    return kilo_nodes.find_duplicates(nodes(data, "nodes"))


def filter_nodes(data: Input) -> Answer:
    found = kilo_nodes.filter_nodes(
        nodes(data, "nodes"), data["entry"], data.get("endpoint_policy", kilo_nodes.REQUIRE)
    )
    return {
        "valid": [one.name for one in found.valid],
        "skipped": found.skipped,
        "skipped_nodes": len(found.skipped),
        "transient_skipped": found.transient,
        "bootstrapping": found.bootstrapping,
    }


def all_cidrs(data: Input) -> Answer:
    return kilo_peers.all_cidrs(data["entry"])


def anchor_cidrs(data: Input) -> Answer:
    return kilo_peers.anchor_cidrs(data["entry"], nodes(data, "nodes"))


def desired_peers(data: Input) -> Answer:
    options = peer_options(dict({"endpoint_policy": kilo_nodes.ROAM}, **data))
    keepalive = data.get("mesh_keepalive") or 0
    peers = kilo_peers.desired_peers(data["mesh"], data["entry"], nodes(data, "valid_nodes"), keepalive, options)
    return {"registered_peers": len(peers), "allowed_ips": {peer.name: peer.spec["allowedIPs"] for peer in peers}}


def mesh_validation(data: Input) -> Answer:
    findings = kilo_meshes.validate_meshes(listed(data, "meshes"))
    if not findings:
        return {"valid": True}
    return {"valid": False, "kind": findings[0].reason, "message": findings[0].message}


def discovered_endpoints(data: Input) -> Answer:
    return kilo_endpoints.collect_discovered(nodes(data, "nodes"))


def enrich_endpoint(data: Input) -> Answer:
    return kilo_endpoints.enrich_endpoint(data.get("configured"), data.get("discovered"))


def reconcile_peers(data: Input) -> Answer:
    existing, desired = (
        [kilo_peers.Peer(one["name"], one.get("labels") or {}, one["spec"]) for one in listed(data, name)]
        for name in ("existing", "desired")
    )
    diff = kilo_peers.diff_peers(data["mesh"], data["source_cluster"], kilo_peers.Existing(existing), desired)
    specs = {peer.name: peer.spec for peer in (*desired, *existing)}
    for name, holder in diff.held.items():
        if not set(specs[name]["allowedIPs"]) <= set(specs[holder]["allowedIPs"]):
            raise Ruled("39: a key that another Peer holds stays with it, and its ranges are that Peer's maker's")
    update = {
        name: {field: spec.get(field) for field in ("publicKey", "allowedIPs")} for name, spec in diff.update.items()
    }
    return {"create": [peer.name for peer in diff.create], "update": update, "delete": diff.delete}


def swept(meshes: t.Sequence[Input], existing: t.Sequence[Input], **settings: t.Any) -> list[str]:
    """What a run deletes in one target with sources that cannot be read, when all Peers there were made by it."""
    owner = {"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:publicKey": {}}}}
    peers = [
        {"metadata": {"name": peer["name"], "labels": peer["labels"], "managedFields": [owner]}, "spec": peer["spec"]}
        for peer in existing
    ]
    chosen = kilo_sources.Settings(MANAGER, max_deletes=-1, **settings)
    plan = kilo_plan.plan_clustermesh(meshes, kilo_sources.Gathered({}, {TARGET: peers}, {}), chosen)
    return sorted(write.name for write in plan.writes[TARGET] if write.action == DELETE)


def stale_source_sweep(data: Input) -> Answer:
    names = [TARGET, "without-peers", *listed(data, "valid_sources")]
    ranges = {"podCIDRs": "10.{0}.0.0/16", "wireguardCIDR": "100.64.{0}.0/24"}
    entries = [
        {
            "name": name,
            "podCIDRs": [ranges["podCIDRs"].format(number)],
            "wireguardCIDR": ranges["wireguardCIDR"].format(number),
        }
        for number, name in enumerate(names)
    ]
    return swept([{"name": data["mesh"], "clusters": entries}], listed(data, "existing"))


def orphan_mesh_sweep(data: Input) -> Answer:
    # of a living mesh only the name is given: a definition without clusters is refused, and its Peers are left alone
    return swept(
        [{"name": name, "clusters": []} for name in listed(data, "living")], listed(data, "existing"), purge_meshes=True
    )


def requeue(data: Input) -> Answer:
    delay = kilo_status.next_delay(data["state"], bool(data.get("error")))
    return {"requeue_after_seconds": delay, "error": bool(data.get("error"))}


def reconcile_flow(data: Input) -> Answer:
    scenario = dict(data["scenario"])
    steps = kilo_status.object_steps(
        exists=bool(scenario.get("mesh_exists")),
        finalizers=scenario.get("finalizers") or (),
        deleting=bool(scenario.get("deleting")),
        overlap=bool(scenario.get("overlap")),
    )
    return {"state": steps.state, "writes": steps.writes}


def registry_merge(data: Input) -> Answer:
    return kilo_meshes.registry(listed(data, "meshes"))


HANDLERS: dict[str, t.Any] = {
    "resolve_endpoint": refusing(resolve_endpoint),
    "endpoint_parse": refusing(endpoint_parse),
    "cidr_parse": refusing(cidr_parse),
    "cidr_relations": refusing(cidr_relations),
    "wireguard_ip": refusing(wireguard_ip),
    "peer_name": peer_name,
    "peer_labels": peer_labels,
    "peer_build": refusing(peer_build),
    "mesh_keepalive": mesh_keepalive,
    "node_validation": node_validation,
    "reason_transient": reason_transient,
    "duplicates": duplicates,
    "filter_nodes": filter_nodes,
    "all_cidrs": all_cidrs,
    "anchor_cidrs": anchor_cidrs,
    "desired_peers": refusing(desired_peers),
    "mesh_validation": mesh_validation,
    "discovered_endpoints": discovered_endpoints,
    "enrich_endpoint": enrich_endpoint,
    "reconcile_peers": reconcile_peers,
    "stale_source_sweep": stale_source_sweep,
    "orphan_mesh_sweep": orphan_mesh_sweep,
    "requeue": requeue,
    "config_fingerprint": internal,
    "reconcile_flow": reconcile_flow,
    "node_event_fanout": internal,
    "registry_merge": registry_merge,
}
