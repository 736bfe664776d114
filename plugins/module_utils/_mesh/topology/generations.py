# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bypass devices of a fabric in which keys are being rotated, added to the plan of its mesh. Pure.

What each node does follows from the records of both ends alone, so that every run that plans the mesh finds the
same: ``site``, ``verify`` and a reconciler leave a rotation as they find it, and only ``rotate_keys`` gives a step.
"""

from __future__ import annotations

import collections
import typing as t

from ..._plan.mesh_plan import MeshPlan, NodePlan
from ..._plan.plan import Pending
from ..._values.addresses import contains, parse_network
from ..._values.generations import NEXT, WHOLE_MESH, bypass_device, bypass_key_file, bypass_of_mesh
from ..._values.keys import is_weak, parse_key
from ..._values.refused import ValueRefused
from ..._values.text import mapping
from ..fabric.claims import label_of
from ..kubespan.annotations import PUBLIC_KEY
from ..semaphore.annotations import key_of
from ..semaphore.preshared import OFF
from ..semaphore.rotation import (
    ASIDE,
    BACK,
    PREPARE,
    PREPARED,
    RENEW,
    Record,
    keys_of,
    next_record,
    read_record,
    sends_aside,
)
from . import kubespan_rotation, next_keys, preshared_keys, semaphore

Data = dict[str, t.Any]
#: {(host, remote cluster): record}
Records = dict[tuple[str, str], Record]
#: The UDP port of a bypass device is that of its device and this many; the next free one where a device has it.
PORTS_APART = 1000
_LAST_PORT = 65535


class Order(t.NamedTuple):
    """What a run of ``rotate_keys`` asks for: a step, and the hosts that get new keys."""

    step: str = ""
    hosts: tuple[str, ...] = ()

    @classmethod
    def of_json(cls, found: t.Mapping[str, t.Any] | None) -> Order:
        """The option ``rotation`` of mesh_plan."""
        given = found or {}
        return cls(str(given.get("step") or ""), tuple(map(str, given.get("hosts") or ())))


def with_rotation(
    mesh: MeshPlan,
    listings: t.Mapping[str, t.Any],
    reported: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
    order: Order = Order(),
    preshared: int = OFF,
) -> MeshPlan:
    """The plan with ``rotation`` and ``preshared`` of its nodes and clusters; listings and reported are those with which it was made.

    Annotations of nodes have their records, ``refused`` those that are none. preshared: the generation of preshared keys that is asked for, which a node
    without a key begins with and a rotation of all keys brings to the others.
    """
    unread = {str(row["cluster"]) for row in mesh.failures}
    held = _annotations(listings, unread)
    refused: list[Data] = []
    found = _read(mesh, held, reported or {}, refused)
    if mesh.kubespan is not None:
        return _with_rotation_of_all(mesh, held, unread, _moved(mesh, found, order, {}, OFF), order, refused)
    present = preshared_keys.generations(mesh, held, unread, found, preshared, refused)
    records = _moved(mesh, found, order, present, preshared)
    own: dict[str, dict[str, int]] = {}  # once for all: each node would look through those of all nodes
    for (host, remote), number in present.items():
        own.setdefault(host, {})[remote] = number
    nodes = {
        host: preshared_keys.with_generations(
            _with_record(mesh, host, node, records, held.get((node.cluster, node.node_name)) or {}, unread),
            own.get(host) or {},
            held.get((node.cluster, node.node_name)) or {},
        )
        for host, node in mesh.nodes.items()
    }
    hosts = {(node.cluster, node.node_name): host for host, node in nodes.items()}
    clusters = {}
    for local, part in mesh.clusters.items():
        rows = {remote: _peers(mesh, local, remote, hosts, records) for remote in part.remotes}
        clusters[local] = part._replace(rotation={remote: peers for remote, peers in rows.items() if peers})
    planned = mesh._replace(
        nodes=nodes,
        clusters=clusters,
        refused=[*mesh.refused, *refused],
        rotation_step=order.step,
        preshared=preshared,
        preshared_used=bool(
            preshared or any(present.values()) or any(row.preshared or row.former for row in records.values())
        ),
    )
    if order.step == RENEW:
        planned = next_keys.marked(planned, _renewed(planned, records))
    if planned.preshared_used:  # which go with the keys that both ends publish, so they come with the next pass
        return preshared_keys.without_strangers(planned)
    return _with_next_keys(planned, records, hosts) if order.step == RENEW else planned


def _with_rotation_of_all(
    mesh: MeshPlan,
    held: t.Mapping[tuple[str, str], Data],
    unread: t.Collection[str],
    records: Records,
    order: Order,
    refused: list[Data],
) -> MeshPlan:
    """A KubeSpan mesh. Its nodes may all be peers of those of a cluster that was not read: then each keeps the bypass device that it has."""
    nodes = {
        host: _with_record(mesh, host, node, records, held.get((node.cluster, node.node_name)) or {}, unread)
        for host, node in mesh.nodes.items()
    }
    span = mesh.kubespan and mesh.kubespan._replace(rotation=[] if unread else kubespan_rotation.rows(mesh, records))
    planned = mesh._replace(nodes=nodes, kubespan=span, refused=[*mesh.refused, *refused], rotation_step=order.step)
    if order.step != RENEW:
        return planned
    planned = next_keys.marked(planned, kubespan_rotation.renewed(planned, records))
    return kubespan_rotation.with_next_keys(planned, records)


def remote_ports(mesh: MeshPlan, host: str) -> dict[str, int]:
    """What the devices of a host lead to, remote clusters or WHOLE_MESH, with their UDP ports."""
    if mesh.spans_nodes:
        return {WHOLE_MESH: kubespan_rotation.listen_port(mesh, host)}
    remotes = mesh.clusters[mesh.nodes[host].cluster].remotes
    return {remote: settings.listen_port for remote, settings in remotes.items()}


def public_key_of(remote: str) -> str:
    """The annotation with the public key of a device."""
    return PUBLIC_KEY if remote == WHOLE_MESH else key_of(remote, "pubKey")


def records_of(mesh: MeshPlan) -> Records:
    """The records as a plan has them, without the keys of bypass devices."""
    return {(host, remote): _record(row) for host, node in mesh.nodes.items() for remote, row in node.rotation.items()}


def node_devices(mesh: MeshPlan, host: str) -> list[Data]:
    """The devices of one host as node_dataplane takes them, with their bypass devices; semaphore.node_part has the others alone.

    Peers with a preshared key have only its generation, see preshared_keys.marked: whoever has the secret derives the key.
    """
    if mesh.spans_nodes:
        return kubespan_rotation.devices(mesh, host)
    devices = _devices(mesh, host)
    return preshared_keys.marked(mesh, host, devices) if mesh.preshared_used else devices


def _devices(mesh: MeshPlan, host: str) -> list[Data]:
    devices: list[Data] = semaphore.node_part(mesh, host)["devices"]
    node = mesh.nodes[host]
    if not node.rotation:
        return devices
    peers = mesh.clusters[node.cluster].rotation
    managed = {(other.cluster, other.node_name): other for other in mesh.nodes.values() if other.publishable}
    found: list[Data] = []
    for device in devices:
        row = node.rotation.get(device["remote"])
        if row is None:
            found.append(device)
            continue
        own = _record(row)
        published = node.published.get(public_key_of(device["remote"]))
        # no device has a peer with its own key: refused at the node, a record that claims it would be in the way of every step
        rows = [
            dict(row) for row in peers.get(device["remote"]) or () if row["public_key"] != (own.retired or published)
        ]
        main, bypass = _both(device, own, rows, published)
        if row.get("renewed"):
            main["retired_key"] = own.retired
        rotated = {
            seat[1] for seat, other in managed.items() if seat[0] == device["remote"] and node.cluster in other.rotation
        }
        if not rotated.issubset(row["node"] for row in rows):
            bypass["keep_peers"] = True
        found += [main, bypass]
    return found


def _record(row: t.Mapping[str, t.Any]) -> Record:
    """As NodePlan.rotation has it, without the next key."""
    generations = (row.get("preshared") or OFF, row.get("former") or OFF)
    return Record(row["phase"], row["port"], row.get("retired"), None, *generations)


def unread_devices(mesh: MeshPlan, host: str) -> list[str]:
    """Bypass devices of a host of which the plan knows nothing, since a cluster could not be read: the node leaves them as they are."""
    return list(mesh.nodes[host].rotation_unread)


def _aside(own: Record, rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[t.Mapping[str, t.Any]]:
    """The peers to which a node sends by its bypass device."""
    known = [row for row in rows if isinstance(row["public_key"], str)]
    return [row for row in known if sends_aside(own, Record(row["phase"], 0))]


def _renewed(mesh: MeshPlan, records: Records) -> set[tuple[str, str]]:
    """The devices, as {(host, remote)}, that get their next keys: those by which nothing is sent, neither by the node nor to it.

    Both ends are looked at, since a claim of a third node may take a node out of the rotation at one of them. Nodes that contest a claim are reached by the
    device, too. A next key that another node claims is left: its own node would be refused with it wherever the other one was first.
    """
    managed = {(node.cluster, node.node_name) for node in mesh.nodes.values() if node.publishable}
    pairs: dict[tuple[str, str], dict[str, str]] = {}  # nodes with their hosts by both clusters
    for host, remote in records:
        if remote in mesh.nodes[host].rotation:
            pairs.setdefault((mesh.nodes[host].cluster, remote), {})[mesh.nodes[host].node_name] = host
    found = set()
    for (local, remote), hosts in pairs.items():
        users = {row["node"] for row in _rows(mesh, local, remote) if (remote, row["node"]) in managed}
        peers, bypassed = _rows(mesh, remote, local), mesh.clusters[remote].rotation.get(local) or ()
        busy = {row["node"] for row in peers}.difference(row["node"] for row in bypassed)
        own = {name: records[host, remote] for name, host in hosts.items()}
        busy |= next_keys.rivals(peers, own)
        rows = mesh.clusters[local].rotation.get(remote) or ()
        found |= {
            (host, remote)
            for name, host in hosts.items()
            if own[name].retired and name not in busy and _unused(own[name], rows, users)
        }
    return found


def _rows(mesh: MeshPlan, cluster: str, towards: str) -> list[t.Mapping[str, t.Any]]:
    """All peers that the devices of a cluster towards another may have."""
    settings = mesh.clusters[cluster].remotes.get(towards)
    return [] if settings is None else [*settings.peers, *settings.contested]


def _unused(own: Record, rows: t.Sequence[t.Mapping[str, t.Any]], users: set[t.Any]) -> bool:
    """Whether a node sends to none of the nodes that use a device by it. rows: peers of its bypass device."""
    return users.issubset({row["node"] for row in _aside(own, rows)})


def _with_next_keys(mesh: MeshPlan, records: Records, hosts: t.Mapping[tuple[str, str], str]) -> MeshPlan:
    """The plan of the step that renews keys, in which peers have the keys that they get in it, so that no further pass has to bring them.

    They are claims as well: one that is weak, or that two peers would have, is left until its node publishes it as its own.
    """
    clusters = {}
    for local, part in mesh.clusters.items():
        remotes = dict(part.remotes)
        for remote, settings in part.remotes.items():
            coming: dict[t.Any, str] = {}
            for row in settings.peers:
                host = hosts.get((remote, str(row.get("node"))))
                record = records.get((host, local)) if host is not None else None
                if record is None or host is None or not record.key or row["public_key"] != record.retired:
                    continue
                if mesh.nodes[host].rotation.get(local, {}).get("renewed"):
                    coming[record.retired] = record.key
            remotes[remote] = settings._replace(peers=next_keys.replaced(settings.peers, coming))
        clusters[local] = part._replace(remotes=remotes)
    return mesh._replace(clusters=clusters)


def _both(device: Data, own: Record, rows: t.Sequence[Data], published: str | None) -> tuple[Data, Data]:
    """A device and its bypass device, with the routes into each. published: the key of the device by its Node."""
    routes = sorted({cidr for row in _aside(own, rows) for cidr in row["allowed_ips"]})
    # a range of a peer that stays, inside one that may go aside, keeps its own route from the first step to the last
    covers = [parse_network(cidr) for row in rows for cidr in row["allowed_ips"]]
    staying = [
        cidr
        for peer in device["peers"]
        if peer.get("node") not in {row["node"] for row in rows}
        for cidr in peer["allowed_ips"]
        if any(contains(cover, parse_network(cidr)) for cover in covers)
    ]
    main = dict(
        device,
        either_way=True,
        routes=[cidr for cidr in dict.fromkeys([*device["routes"], *staying]) if cidr not in routes],
    )
    if own.retired and own.phase in (PREPARED, ASIDE):
        main["next_key_for"] = own.retired
    bypass = {name: device[name] for name in ("mtu", "txqueuelen", "overlay")}
    bypass["either_way"] = True
    bypass.update(
        name=bypass_device(device["name"]),
        remote=device["remote"] + NEXT,
        listen_port=own.port,
        private_key_file=bypass_key_file(device["private_key_file"]),
        copied_from=device["private_key_file"],
        copied_key=own.retired or published,
        **({"kept_only": True} if own.phase == BACK else {}),
        routes=routes,
        peers=[{name: value for name, value in row.items() if name != "phase"} for row in rows],
    )
    inside = {cidr for row in rows for cidr in row["allowed_ips"]}
    borrowed = [cidr for cidr in device.get("borrowed") or () if cidr in inside]
    return main, dict(bypass, borrowed=borrowed) if borrowed else bypass


def _annotations(listings: t.Mapping[str, t.Any], unread: t.Container[str]) -> dict[tuple[str, str], Data]:
    """{(cluster, node): annotations} of all clusters that were read."""
    found: dict[tuple[str, str], Data] = {}
    for cluster, listing in listings.items():
        if cluster in unread or not isinstance(listing, dict):
            continue
        for item in listing.get("nodes") or ():
            metadata = mapping(item, "metadata")
            found[cluster, str(metadata.get("name"))] = mapping(metadata, "annotations")
    return found


def _read(
    mesh: MeshPlan,
    held: t.Mapping[tuple[str, str], Data],
    reported: t.Mapping[str, t.Mapping[str, t.Any]],
    refused: list[Data],
) -> Records:
    """The records of hosts of the inventory, with the keys that hosts reported in this run in place of published ones."""
    found: Records = {}
    for host, node in mesh.nodes.items():
        own = held.get((node.cluster, node.node_name)) or {}
        for remote in _remotes(mesh, host):
            try:
                record = read_record(remote, own)
                made = (reported.get(host) or {}).get(keys_of(remote)["key"])
                if record is not None:
                    key = parse_key(made) if made is not None else record.key
                    found[host, remote] = record._replace(key=key)
            except ValueRefused as error:
                label = label_of(node.cluster, node.node_name)
                refused.append({"object": label, "reason": error.reason, "message": f"{label}: {error.message}"})
    return found


def _remotes(mesh: MeshPlan, host: str) -> t.Collection[str]:
    return [WHOLE_MESH] if mesh.spans_nodes else mesh.clusters[mesh.nodes[host].cluster].remotes


def _moved(
    mesh: MeshPlan, found: Records, order: Order, present: t.Mapping[tuple[str, str], int], preshared: int
) -> Records:
    """The records after the step that is asked for. present: generations of preshared keys as they are.

    Another generation comes with new keys of all nodes, so that no pair has one key of each. While no node has gone further than the first step, a run for
    other nodes than the one before gives these new keys as well.
    """
    nodes = mesh.nodes
    whole = set(order.hosts).issuperset(host for host, node in nodes.items() if node.publishable)
    changing = {nodes[host].cluster for host in order.hosts if host in nodes}
    managed = {node.cluster for node in nodes.values() if node.publishable}
    is_open = all(record.phase == PREPARED for record in found.values())
    records: Records = {}
    for host, node in nodes.items():
        ports = _ports(remote_ports(mesh, host)) if order.step == PREPARE else {}
        for remote in _remotes(mesh, host):
            new = None
            takes_part = host in order.hosts or (bool(changing) if mesh.spans_nodes else remote in changing)
            if order.step == PREPARE and takes_part and node.publishable and (mesh.spans_nodes or remote in managed):
                retired = node.published.get(public_key_of(remote)) if host in order.hosts else None
                former = present.get((host, remote), OFF)
                new = Record(PREPARED, ports[remote], retired, None, preshared if whole else former, former)
            before = found.get((host, remote))
            if is_open and new is not None and before is not None:
                generation = new.preshared if whole else before.preshared
                before = before._replace(retired=before.retired or new.retired, preshared=generation)
            record = next_record(before, order.step, new)
            if record is not None:
                records[host, remote] = record
    return records


def _ports(remotes: t.Mapping[str, int]) -> dict[str, int]:
    """{remote: UDP port of the bypass device}. remotes: of remote_ports."""
    taken = set(remotes.values())
    ports: dict[str, int] = {}
    for remote, listen_port in sorted(remotes.items()):
        port = listen_port + PORTS_APART
        while port in taken or port > _LAST_PORT:
            port = port + 1 if port < _LAST_PORT else PORTS_APART + 1
        ports[remote] = port
        taken.add(port)
    return ports


def _with_record(
    mesh: MeshPlan, host: str, node: NodePlan, records: Records, held: Data, unread: t.Collection[str]
) -> NodePlan:
    """A host with its records, and with what its Node is to hold of them."""
    remotes = _remotes(mesh, host)
    if mesh.spans_nodes:
        missing = [bypass_of_mesh(mesh.fabric)] if unread else []
    else:
        missing = [
            bypass_device(settings.device)
            for remote, settings in sorted(mesh.clusters[node.cluster].remotes.items())
            if node.cluster in unread or remote in unread
        ]
    rows: Data = {}
    annotations, published, stale = dict(node.annotations), dict(node.published), list(node.stale)
    for remote in remotes:
        names, record = keys_of(remote), records.get((host, remote))
        if record is None:
            stale += [key for key in names.values() if key in held]
            continue
        if not missing if mesh.spans_nodes else remote not in unread:
            rows[remote] = {"phase": record.phase, "port": record.port, "retired": record.retired}
            generations = {"preshared": record.preshared, "former": record.former}
            rows[remote].update((name, number) for name, number in generations.items() if number)
        annotations[names["state"]] = record.state
        if record.retired:
            annotations[names["key"]] = record.key or Pending(f"next public key of {node.node_name} towards {remote}")
        elif names["key"] in held:
            stale.append(names["key"])
        published.update((key, held[key]) for key in names.values() if isinstance(held.get(key), str))
    return node._replace(
        annotations=annotations, published=published, stale=sorted(set(stale)), rotation=rows, rotation_unread=missing
    )


def _peers(
    mesh: MeshPlan, local: str, remote: str, hosts: t.Mapping[tuple[str, str], str], records: Records
) -> list[Data]:
    """The peers of the bypass devices of one cluster towards another: peers of the devices, as far as their nodes have a record, at the port of that.

    All that a record adds is a port and the key that the device had. Ranges and address are those of the claim, which was checked. A key that two nodes
    claim is neither's, and a bypass device that has it already keeps it (``keep_peers``), so that no claim of a node takes packets from another one.
    """
    rows = []
    for peer in mesh.clusters[local].remotes[remote].peers:
        host = hosts.get((remote, str(peer.get("node"))))
        record = records.get((host, local)) if host is not None else None
        if record is None or (record.retired is not None and is_weak(record.retired)):
            continue
        endpoint = peer.get("endpoint")
        where = f"{endpoint.rpartition(':')[0]}:{record.port}" if isinstance(endpoint, str) and endpoint else endpoint
        key = record.retired or peer["public_key"]
        idle = record.phase not in (PREPARED, ASIDE)
        row = dict(peer, public_key=key, endpoint=where, phase=record.phase)
        rows.append(dict(row, persistent_keepalive=0) if idle else row)
    count = collections.Counter(str(row["public_key"]) for row in rows)
    return [row for row in rows if count[str(row["public_key"])] == 1]
