# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the bypass device of a KubeSpan mesh takes over from the device: the addresses that the node has by it, and where its peers are.

A node may announce several endpoints, and the device knows the one that works. Without the addresses, what the node masquerades into the mesh would
have another source, which may be none of those that its peers accept from it.
"""

from __future__ import annotations

import typing as t

from ...._dataplane.node_spec import NodeDevice, NodeSpec
from ...._dataplane.peer_spec import LivePeer, Peer
from ...._linux.host.links import read_link
from ...._linux.wireguard.device import read_device
from ...._values.generations import is_bypass
from .dataplane import layout_of


def as_the_device(spec: NodeSpec) -> NodeSpec:
    """The wish with what its bypass device takes over. Raises LinuxError."""
    given = spec.kubespan or {}
    name = layout_of(given.get("state") or given).device
    link = read_link(name)
    if link is None or not link["implementation"]:
        return spec
    live = read_device(name, link["implementation"]).peers
    own = tuple(sorted(f"{address}/{128 if ':' in address else 32}" for address in map(_address, link["addresses"])))
    return spec._replace(devices=tuple(_placed(device, live, own) for device in spec.devices))


def _address(text: str) -> str:
    return text.partition("/")[0]


def _placed(device: NodeDevice, live: t.Mapping[str, LivePeer], own: tuple[str, ...]) -> NodeDevice:
    if not is_bypass(device.name):
        return device
    hosts = {
        cidr: row.endpoint.rpartition(":")[0]
        for row in live.values()
        if row.endpoint and row.last_handshake
        for cidr in row.allowed_ips
    }
    device = device._replace(wireguard=device.wireguard._replace(addresses=own))
    return device.with_peers([_at(peer, hosts) for peer in device.peers])


def _at(peer: Peer, hosts: t.Mapping[str, str]) -> Peer:
    host = next((hosts[cidr] for cidr in peer.allowed_ips if cidr in hosts), None)
    if host is None or not peer.endpoint:
        return peer
    endpoint = f"{host}:{peer.endpoint.rpartition(':')[2]}"
    return peer._replace(endpoint=endpoint, endpoints=(endpoint,))
