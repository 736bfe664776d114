# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node decides about claims that contest each other, from its own confirmed state and live peers.

The controller cannot: all that it reads of a cluster is what that cluster's API server returns.
"""

from __future__ import annotations

import typing as t

from ..._dataplane.contests import Claimant, Record, rank_of, sentence, settle
from ..._dataplane.device_spec import Device
from ..._dataplane.node_spec import Contested, NodeDevice, NodeState
from ..._dataplane.peer_spec import Dump, LivePeer
from ..._mesh.kubespan.endpoints import host_network
from ..._mesh.kubespan.peers import Peer as MeshPeer, peers_of
from ..._plan.plan import Refusal
from ..._values.addresses import Network, parse_address, parse_network
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import readable
from . import wireguard_device

Data = dict[str, t.Any]


def settle_peers(
    devices: t.Sequence[NodeDevice], previous: NodeState | None, live: t.Callable[[str], t.Mapping[str, LivePeer]]
) -> tuple[list[NodeDevice], list[Refusal]]:
    """The devices, each with those of its contested peers that are theirs, and the refusals of the others.

    previous: the confirmed state. live: device name -> its peers in the kernel, asked only where there is no such state.
    """
    unread = {device.remote for device in devices if not device.peers_known}
    rows: list[tuple[int, Contested]] = []
    peers = [list(device.peers) for device in devices]
    for place, device in enumerate(devices):
        rows.extend((place, claim) for claim in device.contested)
        if unread and device.remote not in unread:
            # what nobody contests now may be held by a node of a cluster that cannot be asked
            rows.extend((place, Contested(peer)) for peer in device.peers if not peer.deferred)
            peers[place] = [peer for peer in device.peers if peer.deferred]
    if not rows:
        return list(devices), []
    claimants = [_claimant(devices[place], claim) for place, claim in rows]
    result = settle(claimants, _records(devices, previous, live), unread)
    refused = []
    for index, (place, claim) in enumerate(rows):
        if index in result.kept:
            peers[place].append(claim.peer._replace(by_rank=index in result.by_rank))
            continue
        label, lost = claimants[index].label, result.lost[index]
        message = sentence(label, lost)
        if lost.kind == "key" and claim.host:
            message += copied(claim.host, [str(claim.key_file)])
        refused.append(Refusal(label, "claimed_twice", message))
    return [device.with_peers(kept)._replace(contested=()) for device, kept in zip(devices, peers)], refused


def settle_affiliates(
    given: t.Mapping[str, t.Any],
    own: t.Mapping[str, t.Any],
    previous: t.Mapping[str, t.Any] | None,
    device: str,
    paths: t.Sequence[str],
) -> tuple[list[Data], list[Refusal]]:
    """The affiliates that this node takes as they hold for it, and the refusals of the others.

    given: affiliates, contested, disputed, unread of the mesh's plan. own: this node's affiliate. previous: its confirmed KubeSpan
    state; without one the peers of the ``device`` count. paths: of a node's key and identity, for what to delete on a copied host.
    """
    unread, disputed = set(given.get("unread") or ()), list(given.get("disputed") or ())
    kept: list[Data] = [] if unread else list(given.get("affiliates") or ())
    rows: list[Data] = [*(given.get("affiliates") or () if unread else ()), *(given.get("contested") or ())]
    known = peers_of(previous)
    if previous is None:
        known = [MeshPeer(key, allowed_ips=peer.allowed_ips) for key, peer in live_peers(device).items()]
    peers = [peer for peer in known if not peer.by_rank]
    names = ("public_key", "node_id", "kubespan_address", "cluster", "node")
    key, node_id, address, cluster, node = map(own.get, names)
    myself = _mesh_record(MeshPeer(t.cast(str, key), node_id or "", address or "", cluster=cluster, node=node))
    claimants = [_affiliate_claimant(row, disputed) for row in rows]
    result = settle(claimants, [*map(_mesh_record, peers), myself], unread)
    refused: list[Refusal] = []
    for index, row in enumerate(rows):
        if index in result.kept:
            kept.append(dict(row, by_rank=True) if index in result.by_rank else row)
            continue
        label, lost = claimants[index].label, result.lost[index]
        message = sentence(label, lost)
        if row.get("host") and lost.holder != myself.label and lost.kind in ("key", "node id"):
            message += copied(str(row["host"]), paths)
        refused.append(Refusal(label, "claimed_twice", message))
    if disputed:
        here = myself._replace(networks=[_host(text) for text in own.get("addresses") or ()])
        _settle_addresses(kept, disputed, [*map(_address_record, peers), here], unread, refused)
    return [
        {key: value for key, value in row.items() if key not in ("reported", "greedy", "host")} for row in kept
    ], refused


def _settle_addresses(
    kept: list[Data],
    disputed: t.Collection[str],
    known: t.Sequence[Record],
    unread: t.Container[str],
    refused: list[Refusal],
) -> None:
    """Leave each address that several announce with one of them; the others stay without it.

    ``addresses_by_rank`` of a row are those that it has by its rank alone, so they make it no holder.
    """
    for text in disputed:
        places = [place for place, row in enumerate(kept) if text in (row.get("addresses") or ())]
        claimants = [
            _affiliate_claimant(kept[place], disputed)._replace(things=(), networks=[_host(text)]) for place in places
        ]
        result = settle(claimants, known, unread)
        for index in result.by_rank:
            row = kept[places[index]]
            kept[places[index]] = dict(row, addresses_by_rank=[*row.get("addresses_by_rank", ()), text])
        for index, lost in result.lost.items():
            row = kept[places[index]]
            kept[places[index]] = dict(row, addresses=[address for address in row["addresses"] if address != text])
            label = claimants[index].label
            refused.append(Refusal(label, "claimed_twice", sentence(label, lost._replace(kind="address", shown=text))))


def _affiliate_claimant(row: t.Mapping[str, t.Any], disputed: t.Collection[str]) -> Claimant:
    things = [("key", row["public_key"]), ("node id", row["node_id"]), ("address", row["kubespan_address"])]
    prefixes = readable(parse_network, row.get("additional_addresses") or ())
    # an address that others announce too identifies nobody
    marks = prefixes + [_host(text) for text in row.get("addresses") or () if text not in disputed]
    cluster, node = str(row.get("cluster") or ""), str(row.get("node") or "")
    rank = rank_of(row.get("reported"), row.get("greedy"), row.get("declared"), cluster, node)
    return Claimant(cluster, node, things, prefixes, rank, marks)


def _mesh_record(peer: MeshPeer) -> Record:
    texts = [str(text) for text in peer.allowed_ips]
    named: list[tuple[str, t.Any]] = [("key", peer.public_key), ("node id", peer.node_id), ("address", peer.address)]
    # of single IPv6 addresses one is the node's own in the mesh, by which it is not distinguished from one who claims it
    named += [("address", text[: -len("/128")]) for text in texts if text.endswith("/128")]
    networks = readable(parse_network, (text for text in texts if not text.endswith("/128")))
    return Record(
        peer.cluster, peer.node, [(kind, value) for kind, value in named if value and isinstance(value, str)], networks
    )


def _address_record(peer: MeshPeer) -> Record:
    """What a peer holds of addresses, single ones too; not those that it only has by its rank."""
    held = PrefixSet.of(readable(parse_network, peer.allowed_ips)) - PrefixSet.of(map(_host, peer.addresses_by_rank))
    return Record(peer.cluster, peer.node, (), readable(parse_network, held.cidrs()))


def _host(text: str) -> Network:
    return host_network(parse_address(text))


def live_peers(device: str) -> t.Mapping[str, LivePeer]:
    """The peers of a device as the kernel has them; none where there is no such device."""
    return t.cast(Dump, wireguard_device.gather(Device(device, present=False))["wireguard"]).peers


def copied(host: str, paths: t.Sequence[str]) -> str:
    """What to do where the claim is no lie, but a host that was made as a copy of another."""
    return "; if {0} was made as a copy of that host, delete {1} on {0} and run again".format(host, " and ".join(paths))


def _claimant(device: NodeDevice, claim: Contested) -> Claimant:
    peer = claim.peer
    networks = [parse_network(text) for text in peer.allowed_ips if text not in device.borrowed]
    rank = rank_of(claim.reported, claim.greedy, claim.declared, device.remote, peer.node or "")
    return Claimant(device.remote, peer.node or "", [("key", str(peer.public_key))], networks, rank)


def _records(
    devices: t.Sequence[NodeDevice], previous: NodeState | None, live: t.Callable[[str], t.Mapping[str, LivePeer]]
) -> t.Iterator[Record]:
    for device in devices:
        known = previous.device(device.name) if previous else None
        if known is None:
            for key, there in live(device.name).items():
                own = [text for text in there.allowed_ips if text not in device.borrowed]
                yield Record(device.remote, None, [("key", key)], readable(parse_network, own))
        else:
            for peer in known.peers:
                if not peer.by_rank:
                    own = [text for text in peer.allowed_ips if text not in known.borrowed]
                    yield Record(
                        device.remote, peer.node, [("key", str(peer.public_key))], readable(parse_network, own)
                    )
