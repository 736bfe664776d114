# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From affiliates to peers: which packets may come through which peer (kubespan 6), and their one JSON form."""

from __future__ import annotations

import typing as t

from ..._values.addresses import address_number, network_span
from ..._values.prefix_sets import PrefixSet, RangeOwners, address_text
from ..._values.refused import ValueRefused
from .generations import KEEPALIVE

Affiliate = t.Mapping[str, t.Any]
Data = dict[str, t.Any]
#: What a state has of every peer, also where it is empty.
_ALWAYS = ("public_key", "node_id", "address", "allowed_ips", "endpoints", "label")


class Peer(t.NamedTuple):
    """One peer.

    ``cluster`` and ``node``: its owner. ``by_rank``, and ``addresses_by_rank`` of single addresses: it was given them for its rank
    alone, which makes it no holder (see contests).
    """

    public_key: str
    node_id: str = ""
    address: str = ""
    allowed_ips: t.Sequence[str] = ()
    endpoints: t.Sequence[str] = ()
    label: str = ""
    cluster: str | None = None
    node: str | None = None
    by_rank: bool = False
    addresses_by_rank: t.Sequence[str] = ()

    def to_json(self) -> Data:
        """The form of a node's KubeSpan state."""
        shown = {name: list(value) if isinstance(value, tuple) else value for name, value in self._asdict().items()}
        return {name: value for name, value in shown.items() if value or name in _ALWAYS}

    def for_device(self, endpoint: str | None, preshared_key: Data | None) -> Data:
        """What the device is notified of it, as parse_peers reads it."""
        reported = {"public_key": self.public_key, "allowed_ips": self.allowed_ips, "endpoint": endpoint}
        return dict(reported, persistent_keepalive=KEEPALIVE, preshared_key=preshared_key)


def peers_of(state: t.Mapping[str, t.Any] | None) -> list[Peer]:
    """The peers of a node's KubeSpan state, none without one."""
    return [
        Peer(**{name: row[name] for name in Peer._fields if row.get(name)}) for row in (state or {}).get("peers") or ()
    ]


class PeerSpecs(t.NamedTuple):
    """``peers`` by public key in order of node id; ``overlaps`` (this key, the other's, which keeps the addresses);

    ``ignored`` (node id, why); ``empty``: keys of peers that have no address left.
    """

    peers: dict[str, Peer]
    overlaps: list[tuple[str, str]]
    ignored: list[tuple[str, ValueRefused]]
    empty: list[str]


class _Row(t.NamedTuple):
    affiliate: Affiliate
    address: str
    networks: PrefixSet


class Mesh:
    """All affiliates of a mesh, read once; ``specs`` gives each node its peers.

    Nodes differ only where a node itself holds addresses that others claim, so the common answer is computed once.
    """

    def __init__(self, affiliates: t.Iterable[Affiliate]) -> None:
        self._rows: list[_Row] = []
        self._ignored: list[tuple[str, ValueRefused]] = []
        for affiliate in sorted(affiliates, key=lambda row: str(row["node_id"])):
            if not affiliate.get("public_key"):
                continue
            try:
                self._rows.append(_Row(affiliate, *networks_of(affiliate)))
            except ValueRefused as error:
                self._ignored.append((affiliate["node_id"], error))
        self._common = _assign(self._rows)
        keys = [row.affiliate["public_key"] for row in self._rows]
        self._entangled = {key for pair in self._common[1] for key in pair}
        if len(set(keys)) != len(keys):
            self._entangled.update(key for key in keys if keys.count(key) > 1)

    def specs(self, local_node_id: str | None) -> PeerSpecs:
        """The peers of one node (None: of a host outside of the mesh)."""
        own = {row.affiliate["public_key"] for row in self._rows if row.affiliate["node_id"] == local_node_id}
        if own & self._entangled:
            peers, overlaps = _assign([row for row in self._rows if row.affiliate["node_id"] != local_node_id])
        else:
            peers = {key: peer for key, peer in self._common[0].items() if peer.node_id != local_node_id}
            overlaps = list(self._common[1])
        ignored = [item for item in self._ignored if item[0] != local_node_id]
        return PeerSpecs(peers, overlaps, ignored, [key for key, peer in peers.items() if not peer.allowed_ips])


def networks_of(affiliate: Affiliate) -> tuple[str, PrefixSet]:
    family, address = address_number(affiliate.get("kubespan_address"))
    own = (family, address, address)
    claimed = [network_span(text) for text in affiliate.get("additional_addresses") or ()]
    for text in affiliate.get("addresses") or ():
        version, value = address_number(text)
        claimed.append((version, value, value))
    excluded = affiliate.get("exclude_advertised_networks")
    if not excluded:
        return address_text(family, address), PrefixSet.of_spans([*claimed, own])
    kept = PrefixSet.of_spans(claimed) - PrefixSet.of_texts(excluded)
    return address_text(family, address), kept | PrefixSet.of_spans([own])  # its own address survives any exclusion


def _peer(row: _Row, networks: PrefixSet) -> Peer:
    said = row.affiliate
    label = said.get("nodename") or said["node_id"]
    owner = said.get("cluster"), said.get("node"), bool(said.get("by_rank")), said.get("addresses_by_rank") or ()
    return Peer(
        said["public_key"],
        said["node_id"],
        row.address,
        networks.cidrs(),
        list(said.get("endpoints") or ()),
        label,
        *owner,
    )


def _assign(rows: t.Sequence[_Row]) -> tuple[dict[str, Peer], list[tuple[str, str]]]:
    """First come, first served. What earlier peers hold is disjoint, so the order among them does not matter."""
    owned: RangeOwners[int] = RangeOwners()
    peers: dict[str, Peer] = {}
    sets: dict[str, PrefixSet] = {}
    numbers: dict[str, int] = {}
    overlaps: list[tuple[str, str]] = []
    for number, row in enumerate(rows):
        key, networks = row.affiliate["public_key"], row.networks
        for other in sorted(owned.owners(networks)):
            rival = rows[other].affiliate["public_key"]
            overlaps.append((key, rival))
            networks = networks - sets[rival]
        if key in numbers:
            owned.remove(numbers[key])
        owned.add(networks, number)
        numbers[key] = number
        peers[key], sets[key] = _peer(row, networks), networks
    return peers, overlaps
