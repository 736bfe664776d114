# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Semaphore's vectors of the node mesh, through an inventory of two or more clusters and the planners that a run calls.

What a vector does not say and an inventory must, is filled in: pod ranges of the local cluster; a device alias for every
cluster with a name that would not fit, unless the operation is about device names; the ranges that nodes may claim are those that they
have. ``adopt`` is set, since upstream's devices carry no mark of ownership.
"""

from __future__ import annotations

import base64
import pathlib
import tempfile
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._dataplane import (
    device_plan,
    device_spec,
    key_plan,
    node_spec,
    route_plan,
)
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import EMPTY, LivePeer
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import node_annotations
from ansible_collections.multicluster.network.plugins.module_utils._linux.wireguard.keys import KeyFile
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric import inventory as fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore import (
    annotations as semaphore_annotations,
    device as semaphore_device,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import semaphore as semaphore_topology
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import parse_network
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from ansible_collections.multicluster.network.plugins.module_utils._values.text import (
    check_interface_name,
    parse_cluster_name,
)

from ..outcome import Internal, Ruled, Unhandled

Input = t.Mapping[str, t.Any]
Answer = dict[str, t.Any]

HOST, HERE, HERE_PODS = "host", "here", "198.18.0.0/24"
#: A key file's state and a device's key, where a vector is not about keys.
OWN_KEY = base64.b64encode(bytes(range(32))).decode("ascii")
#: Refusals of the claims stage, which has no off switch, and the decision that makes them.
CLAIMS = {
    "claimed_twice": "39: of two that claim one thing the holder keeps it",
    "outside_grant": "29: what the inventory does not grant is refused",
}


def refusing(function: t.Callable[[Input], Answer]) -> t.Callable[[Input], Answer]:
    """A refused value is an answer: its reason."""

    def answer(data: Input) -> Answer:
        try:
            return function(data)
        except ValueRefused as error:
            return {"error": error.reason, "valid": False}

    return answer


def inventory(local: str, own: Input, remotes: t.Mapping[str, Input], aliases: bool = True) -> fabric.Fabric:
    """The fabric of an inventory with one host in ``local``; its first error is refused, as a run refuses it."""
    clusters: dict[str, t.Any] = {local: dict({"pod_cidrs": HERE_PODS}, **own)}
    for number, (name, variables) in enumerate(remotes.items(), 1):
        clusters[name] = dict({"pod_cidrs": f"198.18.{number}.0/24"}, **variables)
        if aliases and len(name) > 5:
            clusters[name].setdefault("device_alias", f"r{number}")
    if aliases and len(local) > 5:
        clusters[local]["device_alias"] = "r0"
    found, findings = fabric.load_fabric(
        {"name": "mesh", "clusters": clusters, "nodes": {HOST: {"multicluster_cluster": local}}}
    )
    for error in fabric.errors(findings):
        raise ValueRefused(error.reason, error.message)
    return found


def node_object(name: str, node: Input) -> Answer:
    """A flat node of a vector as the API has it."""
    return {
        "metadata": {"name": name, "annotations": node.get("annotations")},
        "spec": {"podCIDR": node.get("podCIDR"), "podCIDRs": node.get("podCIDRs")},
        "status": {"addresses": node.get("addresses")},
    }


def planned(
    request: device_spec.Device, link: Input | None = None, dump: Input | None = None, resolved: Input | None = None
) -> t.Any:
    """The plan of one device, on a host that has this link (None: none)."""
    found = {"state": "key", "public_key": OWN_KEY, "mode": "0600", "message": None}
    actual = {
        "link": link,
        "wireguard": dump or EMPTY,
        "key": found,
        "resolved": resolved or {},
        "preshared": {},
        "now": 0,
    }
    return device_plan.plan_device(request, actual)


# --- device ------------------------------------------------------------------------------------------------------


def device_name(data: Input) -> Answer:
    name = semaphore_device.device_of(data["cluster"])
    shown = {"device": name, "length": len(name.encode("utf-8", "surrogatepass"))}
    try:
        semaphore_device.check_device_name(data["cluster"])
    except ValueRefused as error:
        return dict(shown, valid=False, error=error.reason)
    return dict(shown, valid=True, error=None)


@refusing
def interface_name(data: Input) -> Answer:
    check_interface_name(data["name"])
    return {"valid": True, "error": None}


@refusing
def key_path(data: Input) -> Answer:
    own = {"key_dir": data["key_dir"]} if "key_dir" in data else {}
    found = inventory(HERE, own, {data["cluster"]: {}}, aliases=False)
    return {"path": found.remotes(HERE)[data["cluster"]].private_key_file}


def key_load(data: Input) -> Answer:
    """``file``: its text, or ``absent`` or ``unreadable`` (a folder is there)."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "device.key"
        if data["file"] == "unreadable":
            path.mkdir()
        elif data["file"] != "absent":
            path.touch(mode=0o600)
            path.write_text(data["file"], "utf-8")
        plan = key_plan.plan_key(key_plan.parse_key_desired({"path": str(path)}), KeyFile(str(path)).state())
    if plan.refused:
        return {"action": "error", "writes_file": False}
    made = plan.work is not None
    return {
        "action": "generate" if made else "use",
        "writes_file": made,
        "public_key": None if made else plan.public_key,
    }


def device_request(data: Input) -> tuple[device_spec.Device, Answer]:
    """(the device's request, its route) on a node of another cluster, by the inventory alone."""
    names = {
        "pod_subnet": "pod_cidrs",
        "mtu": "wireguard_mtu",
        "listen_port": "wireguard_port",
        "device_alias": "device_alias",
    }
    remote = {owned: data[theirs] for theirs, owned in names.items() if data.get(theirs) is not None}
    found = inventory(HERE, {}, {data["cluster"]: remote}, aliases=False)
    topology = semaphore_topology.mesh_without_listings(found).to_json()
    [device] = semaphore_topology.node_part(MeshPlan.from_json(topology), HOST)["devices"]
    [route] = topology["clusters"][HERE]["remotes"][data["cluster"]]["routes"]
    return node_spec.parse_node_device(device, found.name, adopt=True).wireguard, route


def shown_device(plan: t.Any, request: device_spec.Device) -> Answer:
    names = ("mtu", "txqueuelen", "listen_port", "addresses", "up")
    return dict(
        {name: plan.device[name] for name in names},
        device=request.name,
        type="wireguard",
        firewall_mark=plan.device["fwmark"],
    )


@refusing
def plan_of_device(data: Input) -> Answer:
    request, route = device_request(data)
    return dict(shown_device(planned(request), request), route=route)


@refusing
def device_existing(data: Input) -> Answer:
    request, dummy = device_request(data["wanted"])
    existing = data["existing"]
    desired = planned(request).device
    kind = existing.get("type", "wireguard")
    link = {name: existing.get(name, desired[name]) for name in ("mtu", "txqueuelen", "up", "addresses")}
    link.update(index=2, kind=kind, implementation="kernel" if kind == "wireguard" else None, alias=None)
    dump = EMPTY._replace(
        public_key=OWN_KEY,
        listen_port=existing.get("listen_port", desired["listen_port"]),
        fwmark=existing.get("firewall_mark", 0),
    )
    plan = planned(request, link, dump)
    if plan.refused:
        return {"action": "conflict", "error": plan.refused[0].reason, "recreated": False}
    work = plan.work
    changed = [name for name in (*work["link"], *work["configure"]) if name != "alias"] + ["up"] * (
        work["up"] is not None
    )
    return dict(
        shown_device(plan, request),
        recreated=bool(work.get("create") or work.get("delete")),
        changed=sorted({"fwmark": "firewall_mark"}.get(name, name) for name in changed),
        addresses_removed=work["remove_addresses"],
        peers_touched=bool(plan.steps),
    )


def teardown(data: Input) -> Answer:
    """What a node's run removes once the inventory no longer has the remote; ``remove_keys`` is the user's option."""
    if data["event"] != "remote_removed_from_config":
        raise Unhandled(f"event {data['event']}")
    remote, stays = data["cluster"], "stays"
    before, after = (inventory(HERE, {}, {name: {} for name in names}) for names in ((remote, stays), (stays,)))
    keys = semaphore_annotations.keys_for(remote).values()
    nodes = {
        HERE: {"nodes": [node_object(HOST, {"annotations": dict.fromkeys(keys, "of the remote")})]},
        stays: {"nodes": []},
    }
    topology = semaphore_topology.plan_semaphore_mesh(after, nodes).to_json()
    devices = semaphore_topology.node_part(MeshPlan.from_json(topology), HOST)["devices"]
    kept = semaphore_topology.node_part(
        MeshPlan.from_json(semaphore_topology.mesh_without_listings(before).to_json()), HOST
    )["devices"]
    confirmed = node_spec.state_to_keep(node_spec.parse_node({"fabric": "mesh", "devices": kept}), None)
    wish = node_spec.parse_node({"fabric": "mesh", "devices": devices, "remove_keys": data.get("remove_keys")})
    state = node_spec.state_to_keep(wish, confirmed)
    [gone] = [device for device in kept if device["name"] not in [other["name"] for other in devices]]
    link = {"index": 2, "kind": "wireguard", "implementation": "kernel", "alias": node_spec.alias_of("mesh")}
    link.update(mtu=1420, txqueuelen=1000, up=True, addresses=[])
    device = planned(device_spec.Device(gone["name"], present=False, alias=str(link["alias"])), link)
    desired = route_plan.parse_routes({"devices": [gone["name"]], "routes": [], "purge": True})
    live = route_plan.parse_routes(
        {
            "devices": [gone["name"]],
            "routes": [{"dst": dst, "dev": gone["name"], "scope": "link"} for dst in gone["routes"]],
        }
    )
    made = route_plan.plan_routes(live, {"routes": [], "links": [gone["name"]]}, False).replacements
    made = [dict(route, protocol=desired.protocol) for route in made]  # as the kernel shows what we wrote
    routes = route_plan.plan_routes(desired, {"routes": made, "links": [gone["name"]]}, False)
    return {
        "device_removed": bool(device.work.get("delete")),
        "route_removed": len(routes.deletions) == len(gone["routes"]),
        "annotations_removed": set(keys) == set(topology["nodes"][HOST]["stale"]),
        "key_removed": gone["private_key_file"] not in state.key_files,
    }


# --- annotations -------------------------------------------------------------------------------------------------


@refusing
def annotations(data: Input) -> Answer:
    remotes = {remote["name"]: remote for remote in data["remotes"]}
    ports = {name: remote["listen_port"] for name, remote in remotes.items() if remote.get("listen_port")}
    found = inventory(data["local"], {"wireguard_ports": ports}, {name: {} for name in remotes})
    nodes = {data["local"]: {"nodes": [node_object(HOST, {"podCIDR": HERE_PODS, "addresses": data["node_addresses"]})]}}
    listings = dict({name: {"nodes": []} for name in remotes}, **nodes)
    said = {semaphore_annotations.key_of(name, "pubKey"): remote["public_key"] for name, remote in remotes.items()}
    topology = semaphore_topology.plan_semaphore_mesh(found, listings, {HOST: said}).to_json()
    for refusal in topology["refused"]:
        return {"error": refusal["reason"]}
    watch = {
        name: semaphore_annotations.keys_for(data["local"]) for name in topology["clusters"][data["local"]]["remotes"]
    }
    return {"patch": topology["nodes"][HOST]["annotations"], "watch": watch}


@refusing
def endpoint(data: Input) -> Answer:
    kind = data.get("endpoint_address_type") or "InternalIP"
    port = semaphore_device.parse_listen_port(data["listen_port"])
    return {"endpoint": semaphore_annotations.endpoint(data["node_addresses"], port, kind)}


class Recorder:
    """An API server that notes the patch it gets."""

    cluster = HERE

    def __init__(self) -> None:
        self.patches: list[t.Any] = []

    def strategic_patch(self, path: str, body: t.Any, manager: str) -> None:
        """The one request that the flow sends here."""
        self.patches.append(body)

    def write(self, action: str, names: t.Sequence[str], function: t.Callable[[str, t.Any], t.Any]) -> t.Any:
        """As ``Clusters.write``."""
        return {name: function(name, self) for name in names}


def patch_body(data: Input) -> Answer:
    """The patch of a node without owned annotations."""
    desired, read = {HERE: {HOST: data["annotations"]}}, {HERE: {HOST: node_object(HOST, {})}}
    whole, patches = node_annotations.plan({}, desired, read, "multicluster.network/mesh", [], False)
    server = Recorder()
    node_annotations.apply(server.write, [].append, whole, patches, "multicluster.network/mesh")
    [body] = server.patches
    return {"body": body, "patch_type": "strategic"}


@refusing
def annotation_key_valid(data: Input) -> Answer:
    parse_cluster_name(data["cluster"])
    return {"valid": True, "error": None}


def peer_annotations_present(data: Input) -> Answer:
    return {"present": semaphore_annotations.announces(data["local"], data["node_annotations"])}


# --- peers -------------------------------------------------------------------------------------------------------


def granted(nodes: t.Iterable[Input]) -> list[str]:
    """What the nodes of a vector have, as far as it can be read: an inventory grants it."""
    found = []
    for node in nodes:
        for text in [node.get("podCIDR"), *(node.get("podCIDRs") or ())]:
            try:
                network = str(parse_network(text))
            except ValueRefused:
                continue
            found += [network] * (network not in found)
    return found


@refusing
def peers(data: Input) -> Answer:
    local, nodes = data["local"], data.get("nodes") or []
    remote = "other" if local != "other" else "there"
    ranges = [data["pod_subnet"]] if data.get("pod_subnet") else granted(nodes)
    found = inventory(local, {}, {remote: {"pod_cidrs": ranges} if ranges else {}})
    listings = {
        local: {"nodes": [node_object(HOST, {})]},
        remote: {"nodes": [node_object(node["name"], node) for node in nodes]},
    }
    topology = semaphore_topology.plan_semaphore_mesh(found, listings).to_json()
    mesh = topology["clusters"][local]["remotes"][remote]
    skipped = [
        dict(row, node=row["object"].partition("/")[2])
        for row in topology["refused"]
        if row["object"].startswith(remote + "/")
    ]
    desired, current = mesh["peers"], set(data.get("current_peers") or ())
    if mesh.get("contested"):
        raise Ruled(CLAIMS["claimed_twice"])
    for row in skipped:
        if row["reason"] in CLAIMS:
            raise Ruled(CLAIMS[row["reason"]])
    [device] = semaphore_topology.node_part(MeshPlan.from_json(topology), HOST)["devices"]
    request = node_spec.parse_node_device(device, found.name, adopt=True).wireguard
    link = dict(
        index=2,
        kind="wireguard",
        implementation="kernel",
        alias=request.alias,
        mtu=1420,
        txqueuelen=1000,
        up=True,
        addresses=[],
    )
    dump = EMPTY._replace(public_key=OWN_KEY, listen_port=request.listen_port, peers=dict.fromkeys(current, LivePeer()))
    known = {name: [text] if isinstance(text, str) else text for name, text in (data.get("dns") or {}).items()}
    plan = planned(request, link, dump, known)
    if "dns" in data:  # else names stay names: to resolve them is the node's business
        desired = [peer for peer in plan.peers if any(peer["public_key"] == row["public_key"] for row in desired)]
    removed = [step.public_key for step in plan.steps if step.remove]
    return {"peers": desired, "removed": removed, "skipped": skipped}


def daemon(data: Input) -> Answer:
    raise Internal("the inside of a daemon: a run reads every node and plans every peer")


GROUPS: dict[str, dict[str, t.Callable[[Input], Answer]]] = {
    "wg_device_name": {
        "device_name": device_name,
        "interface_name": interface_name,
        "key_path": key_path,
        "key_load": key_load,
        "device_plan": plan_of_device,
        "device_existing": device_existing,
        "teardown": teardown,
    },
    "wg_annotations": {
        "annotations": annotations,
        "endpoint": endpoint,
        "patch_body": patch_body,
        "annotation_key_valid": annotation_key_valid,
        "peer_annotations_present": peer_annotations_present,
    },
    "wg_peers": {"peers": peers, "sync_decision": daemon, "outage": daemon, "backoff": daemon},
}
