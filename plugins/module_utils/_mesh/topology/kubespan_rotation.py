# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bypass device of a KubeSpan mesh in which keys are being rotated. Pure.

The steps and records are those of a Semaphore mesh, see semaphore.rotation; one device leads to all nodes, so each node has one record. Packets keep
their mark and their table: routes to the addresses of one node, longer than the default route of that table, lead into the bypass device. Addresses
of the mesh itself, which need no mark otherwise, are marked meanwhile so that the same routes have them.
"""

from __future__ import annotations

import collections
import typing as t

from ..._dataplane.peer_spec import Peer
from ..._plan.mesh_plan import KubespanPlan, MeshPlan
from ..._values.generations import NEXT, WHOLE_MESH, bypass_of_mesh
from ..._values.keys import is_weak
from ..kubespan.annotations import PUBLIC_KEY
from ..kubespan.generations import KEEPALIVE, Layout
from ..kubespan.peers import Mesh
from ..semaphore.rotation import ASIDE, BACK, PREPARED, Record, Records, sends_aside
from . import next_keys

Data = dict[str, t.Any]
#: Where nodes keep the files of a fabric.
STATE_FOLDER = "/var/lib/multicluster-network"

#: All members of a discovery service.
MEMBERS = "discovery/*"


def listen_port(mesh: MeshPlan, host: str) -> int:
    """The UDP port of a node's device, by what it announces first."""
    for row in _span(mesh).affiliates:
        if (row["cluster"], row["node"]) == _seat(mesh, host):
            for endpoint in row.get("endpoints") or ():
                return int(str(endpoint).rpartition(":")[2])
    return Layout().port


def rows(mesh: MeshPlan, records: Records) -> list[Data]:
    """The peers of the bypass devices: nodes of the inventory, as far as they have a record, at the port of that.

    All that a record adds is a port and the key that the device had. Ranges and address are those of the claim, which was checked. A key that two nodes
    claim is neither's, nor is a node address: each node decides who has that one, and reaches it by the device.
    """
    hosts = {(node.cluster, node.node_name): host for host, node in mesh.nodes.items()}
    found = []
    disputed = set(_span(mesh).disputed)
    affiliates = [
        dict(row, addresses=[text for text in row.get("addresses") or () if text not in disputed])
        for row in _span(mesh).affiliates
    ]
    for peer in Mesh(affiliates).specs(None).peers.values():
        host = hosts.get((str(peer.cluster), str(peer.node)))
        record = records.get((host, WHOLE_MESH)) if host is not None else None
        if record is None or (record.retired is not None and is_weak(record.retired)):
            continue
        announced = next(iter(peer.endpoints), None)
        bypass = Peer(
            record.retired or peer.public_key,
            f"{announced.rpartition(':')[0]}:{record.port}" if announced else None,
            tuple(peer.allowed_ips),
            KEEPALIVE if record.phase in (PREPARED, ASIDE) else 0,
            node=f"{peer.cluster}/{peer.node}",
        )
        found.append(dict(bypass.to_json(), address=peer.address, phase=record.phase))
    count = collections.Counter(str(row["public_key"]) for row in found)
    return [row for row in found if count[str(row["public_key"])] == 1]


def devices(mesh: MeshPlan, host: str) -> list[Data]:
    """The bypass device of one host as node_dataplane takes it; none while its key is not being rotated."""
    node = mesh.nodes[host]
    row = node.rotation.get(WHOLE_MESH)
    if row is None:
        return []
    name = bypass_of_mesh(mesh.fabric)
    left_out = ("phase", "address")
    peers = _peers(mesh, host)
    rotated = {seat for seat, other in managed(mesh).items() if other != host and mesh.nodes[other].rotation}
    return [
        {
            "name": name,
            "remote": WHOLE_MESH + NEXT,
            "listen_port": row["port"],
            "private_key_file": f"{STATE_FOLDER}/{mesh.fabric}/{name}.key",
            "copied_from": f"{STATE_FOLDER}/{mesh.fabric}/kubespan.key",
            "copied_key": row.get("retired") or node.published.get(PUBLIC_KEY),
            **({"kept_only": True} if row["phase"] == BACK else {}),
            "either_way": True,
            "routes": [],
            "peers": [{field: value for field, value in peer.items() if field not in left_out} for peer in peers],
            **({} if rotated.issubset(peer["node"] for peer in peers) else {"keep_peers": True}),
        }
    ]


def part(mesh: MeshPlan, host: str) -> Data:
    """What a host's KubeSpan part has of the rotation: ``rotation`` {device, routes, addresses}, ``next_key_for`` where the device is to get a new key, and
    ``retired_key`` where it gets it."""
    node = mesh.nodes[host]
    row = node.rotation.get(WHOLE_MESH)
    if row is None:
        return {"rotation_unread": True} if node.rotation_unread else {}
    own, peers = Record(row["phase"], row["port"], row.get("retired")), _peers(mesh, host)
    aside = [peer for peer in peers if _aside(own, peer)]
    found: Data = {
        "rotation": {
            "device": bypass_of_mesh(mesh.fabric),
            "routes": sorted({cidr for peer in aside for cidr in peer["allowed_ips"]}),
            "addresses": sorted({peer["address"] + "/128" for peer in peers}),
        }
    }
    if own.retired and own.phase in (PREPARED, ASIDE):
        found["next_key_for"] = own.retired
    if row.get("renewed"):
        found["retired_key"] = own.retired
    return found


def renewed(mesh: MeshPlan, records: Records) -> set[tuple[str, str]]:
    """The devices, as {(host, WHOLE_MESH)}, that get their next keys: those by which nothing is sent, neither by the node nor to it.

    Nodes that contest a claim, or a node address, are reached by the device, and a next key that another node claims is left, as in a Semaphore mesh.
    """
    span = _span(mesh)
    announced = [dict(row, node=f"{row['cluster']}/{row['node']}") for row in (*span.affiliates, *span.contested)]
    hosts = {"/".join(_seat(mesh, host)) for host, node in mesh.nodes.items() if node.publishable}
    users = hosts.intersection(row["node"] for row in announced)
    own = {"/".join(_seat(mesh, host)): record for (host, _remote), record in records.items()}
    disputing = set(disputes(mesh))
    busy = users.difference(row["node"] for row in span.rotation) | next_keys.rivals(announced, own) | disputing
    found = set()
    for host, remote in records:
        name, peers = "/".join(_seat(mesh, host)), _peers(mesh, host)
        aside = {peer["node"] for peer in peers if _aside(own[name], peer)} - disputing
        if own[name].retired and name not in busy and users.issubset({*aside, name}):
            found.add((host, remote))
    return found


def with_next_keys(mesh: MeshPlan, records: Records) -> MeshPlan:
    """The plan of the step that renews keys, in which nodes have the keys that they get in it, so that no further pass has to bring them."""
    span = _span(mesh)
    coming = {
        record.retired: record.key
        for (host, remote), record in records.items()
        if record.retired and record.key and mesh.nodes[host].rotation.get(remote, {}).get("renewed")
    }
    return mesh._replace(kubespan=span._replace(affiliates=next_keys.replaced(span.affiliates, coming)))


def disputes(mesh: MeshPlan) -> list[str]:
    """``cluster/node`` of the members that announce a node address that another one announces too."""
    disputed = set(_span(mesh).disputed)
    rows = [row for row in _span(mesh).affiliates if disputed.intersection(row.get("addresses") or ())]
    return [f"{row['cluster']}/{row['node']}" for row in rows]


def managed(mesh: MeshPlan) -> dict[str, str]:
    """``cluster/node`` to host, for the members that are hosts of the inventory with a Node that can have a record."""
    hosts = {(node.cluster, node.node_name): host for host, node in mesh.nodes.items() if node.publishable}
    seats = [(row["cluster"], row["node"]) for row in _span(mesh).affiliates if row.get("public_key")]
    return {f"{seat[0]}/{seat[1]}": hosts[seat] for seat in seats if seat in hosts}


def unmanaged(mesh: MeshPlan) -> list[str]:
    """``cluster/node`` of the members that are not; those of a discovery service are known to nodes alone."""
    known = managed(mesh)
    names = [f"{row['cluster']}/{row['node']}" for row in _span(mesh).affiliates if row.get("public_key")]
    found = sorted(name for name in names if name not in known)
    return [*found, MEMBERS] if _span(mesh).members else found


def keys(mesh: MeshPlan, host: str) -> list[str]:
    """Public keys of the managed peers of a host's device."""
    known, own = managed(mesh), _seat(mesh, host)
    return [
        str(row["public_key"])
        for row in _span(mesh).affiliates
        if (row["cluster"], row["node"]) != own and f"{row['cluster']}/{row['node']}" in known and row.get("public_key")
    ]


def _peers(mesh: MeshPlan, host: str) -> list[Data]:
    own = "/".join(_seat(mesh, host))
    return [dict(row) for row in _span(mesh).rotation if row["node"] != own]


def _aside(own: Record, peer: Data) -> bool:
    """Whether a node sends to a peer by its bypass device."""
    key = peer["public_key"]
    return isinstance(key, str) and sends_aside(own, Record(peer["phase"], 0))


def _seat(mesh: MeshPlan, host: str) -> tuple[str, str]:
    node = mesh.nodes[host]
    return node.cluster, node.node_name


def _span(mesh: MeshPlan) -> KubespanPlan:
    return mesh.kubespan or KubespanPlan()
