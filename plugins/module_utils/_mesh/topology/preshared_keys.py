# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which generation of preshared keys each node of a Semaphore mesh has, and which peers of its devices have such a key. Pure.

A generation changes with the public key that it goes with, which only a rotation of all keys does; so ``site`` and a reconciler leave what they find,
whatever the inventory asks for. The keys themselves are in no plan: with_keys makes them where a node's part leaves the controller.
"""

from __future__ import annotations

import typing as t

from ..._plan.mesh_plan import MeshPlan, NodePlan
from ..._plan.plan import Pending, to_wire
from ..._values.generations import NEXT
from ..._values.refused import ValueRefused
from ..fabric.claims import label_of
from ..semaphore.annotations import key_of
from ..semaphore.preshared import (
    OFF,
    End,
    file_of,
    generation_key,
    pair_generation,
    pair_key,
    read_generation,
)
from ..semaphore.rotation import Record

Data = dict[str, t.Any]
#: {(host, remote cluster): generation}
Generations = dict[tuple[str, str], int]
_STRANGER = (
    "it is no host of this inventory, so it has no preshared key, and the nodes of {0} take no peer without one; add it to the inventory, or turn preshared "
    "keys off by preshared: false and rotate_keys"
)


def generations(
    mesh: MeshPlan,
    held: t.Mapping[tuple[str, str], Data],
    unread: t.Container[str],
    records: t.Mapping[tuple[str, str], Record],
    desired: int,
    refused: list[Data],
) -> Generations:
    """The generation of each device of each host in a cluster that was read. held: {(cluster, node): annotations}; refused: gets what is no generation.

    A node without a published key begins with the desired one. While keys are rotated, a key that has replaced the retired one goes with that of the record.
    """
    found: Generations = {}
    for host, node in mesh.nodes.items():
        own = held.get((node.cluster, node.node_name)) or {}
        for remote in mesh.clusters[node.cluster].remotes if node.cluster not in unread else ():
            key, record = node.annotations.get(key_of(remote, "pubKey")), records.get((host, remote))
            if record is not None and record.retired and isinstance(key, str) and key != record.retired:
                found[host, remote] = record.preshared
            elif key_of(remote, "pubKey") not in own:
                found[host, remote] = desired
            else:
                try:
                    found[host, remote] = read_generation(remote, own)
                except ValueRefused as error:
                    label = label_of(node.cluster, node.node_name)
                    refused.append({"object": label, "reason": error.reason, "message": f"{label}: {error.message}"})
                    found[host, remote] = desired
    return found


def with_generations(node: NodePlan, present: t.Mapping[str, int], held: Data) -> NodePlan:
    """A host with its generations by remote cluster, and with what its Node is to hold of them."""
    annotations, published, stale = dict(node.annotations), dict(node.published), list(node.stale)
    for remote, number in present.items():
        name = generation_key(remote)
        if number and node.publishable:
            annotations[name] = str(number)
            published.update({name: held[name]} if isinstance(held.get(name), str) else {})
        elif not number and name in held:
            stale.append(name)
    return node._replace(
        annotations=annotations,
        published=published,
        stale=sorted(set(stale)),
        preshared={remote: number for remote, number in present.items() if number},
    )


def without_strangers(mesh: MeshPlan) -> MeshPlan:
    """The plan without peers that nobody can give a preshared key, where the nodes of a cluster have such keys; each is refused by name."""
    known = {(node.cluster, node.node_name) for node in mesh.nodes.values()}
    used = {(node.cluster, remote) for node in mesh.nodes.values() for remote in node.preshared}
    clusters, refused = dict(mesh.clusters), list(mesh.refused)
    for local, part in mesh.clusters.items():
        remotes = dict(part.remotes)
        for remote, settings in part.remotes.items():
            rows = [*settings.peers, *settings.contested] if (local, remote) in used else []
            strangers = sorted({str(row["node"]) for row in rows if (remote, row["node"]) not in known})
            if not strangers:
                continue
            for name in strangers:
                label = label_of(remote, name)
                refused.append(
                    {"object": label, "reason": "not_preshared", "message": f"{label}: {_STRANGER.format(local)}"}
                )
            peers = [row for row in settings.peers if row["node"] not in strangers]
            contested = [row for row in settings.contested if row["node"] not in strangers]
            remotes[remote] = settings._replace(peers=peers, contested=contested)
        clusters[local] = part._replace(remotes=remotes)
    return mesh._replace(clusters=clusters, refused=refused)


def marked(mesh: MeshPlan, host: str, devices: t.Iterable[Data]) -> list[Data]:
    """The devices of a host. Their peers have ``preshared_key`` {generation} where they have such a key, and they ``preshared`` {node, public_key} of the host.

    Without its own public key a host can be given no peer of that kind: the peer waits. Where its cluster could not be read, all peers stay as they are.
    """
    node = mesh.nodes[host]
    if node.cluster in {str(row["cluster"]) for row in mesh.failures}:
        return [dict(device, peers_known=False) for device in devices]
    others = {(other.cluster, other.node_name): other for other in mesh.nodes.values()}
    label, found = label_of(node.cluster, node.node_name), []
    for device in devices:
        remote, bypass = device["remote"].partition("/")[0], device["remote"].endswith(NEXT)
        own = _generation(node, remote, bypass)
        key = node.annotations.get(key_of(remote, "pubKey"))
        if bypass:  # which has the key from before
            key = (node.rotation.get(remote) or {}).get("retired") or key
        changed: Data = {"preshared": {"node": label, "public_key": key}} if isinstance(key, str) else {}
        for rows in ("peers", "contested"):
            if not device.get(rows):
                continue
            changed[rows] = []
            for row in device[rows]:
                other = others.get((remote, row["node"]))
                number = pair_generation(own, _generation(other, node.cluster, bypass)) if other is not None else OFF
                if number and not isinstance(key, str):
                    row = dict(
                        row, public_key=to_wire(Pending(f"preshared key of {label} with {remote}/{row['node']}"))
                    )
                elif number:
                    row = dict(row, preshared_key={"generation": number})
                changed[rows].append(row)
        found.append(dict(device, **changed))
    return found


def _generation(node: NodePlan, remote: str, bypass: bool) -> int:
    """Of one device of a node."""
    if bypass:
        return int((node.rotation.get(remote) or {}).get("former") or OFF)
    return int(node.preshared.get(remote) or OFF)


def with_keys(devices: t.Iterable[Data], fabric: str, secret: bytes) -> tuple[list[Data], dict[str, str]]:
    """Devices of ``marked`` with the file of each preshared key, and {file: key}, which is for one node and nobody else. secret: of read_secret."""
    found, keys = [], dict[str, str]()
    for device in devices:
        rest = {name: value for name, value in device.items() if name != "preshared"}
        own = device.get("preshared")
        for rows in ("peers", "contested"):
            if own is not None and device.get(rows):
                rest[rows] = [_with_key(row, rest, End(**own), fabric, secret, keys) for row in device[rows]]
        found.append(rest)
    return found, keys


def _with_key(row: Data, device: Data, own: End, fabric: str, secret: bytes, keys: dict[str, str]) -> Data:
    number = (row.get("preshared_key") or {}).get("generation")
    if not number:
        return row
    if not isinstance(row["public_key"], str):  # it is still to come, and the peer waits for it
        return dict(row, preshared_key=None)
    remote = device["remote"].partition("/")[0]
    key = pair_key(secret, fabric, number, own, End(label_of(remote, row["node"]), row["public_key"]))
    path = file_of(device["private_key_file"], key)
    keys[path] = key
    return dict(row, preshared_key={"file": path})
