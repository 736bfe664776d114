# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the bypass device of a KubeSpan mesh finds its peers: a node may announce several endpoints, and the device knows the one that works."""

from __future__ import annotations

import typing as t

from ...._dataplane.node_spec import NodeDevice, NodeSpec
from ...._dataplane.peer_spec import LivePeer, Peer
from ...._linux.host.links import read_link
from ...._linux.wireguard.device import read_device
from ...._values.generations import is_bypass
from .dataplane import layout_of


def with_known_endpoints(spec: NodeSpec) -> NodeSpec:
    """The wish with the peers of its bypass device at the addresses where the device of the mesh has them, at their own ports. Raises LinuxError."""
    given = spec.kubespan or {}
    name = layout_of(given.get("state") or given).device
    link = read_link(name)
    if link is None or not link["implementation"]:
        return spec
    live = read_device(name, link["implementation"]).peers
    return spec._replace(devices=tuple(_placed(device, live) for device in spec.devices))


def _placed(device: NodeDevice, live: t.Mapping[str, LivePeer]) -> NodeDevice:
    if not is_bypass(device.name):
        return device
    hosts = {
        cidr: row.endpoint.rpartition(":")[0]
        for row in live.values()
        if row.endpoint and row.last_handshake
        for cidr in row.allowed_ips
    }
    return device.with_peers([_at(peer, hosts) for peer in device.peers])


def _at(peer: Peer, hosts: t.Mapping[str, str]) -> Peer:
    host = next((hosts[cidr] for cidr in peer.allowed_ips if cidr in hosts), None)
    if host is None or not peer.endpoint:
        return peer
    endpoint = f"{host}:{peer.endpoint.rpartition(':')[2]}"
    return peer._replace(endpoint=endpoint, endpoints=(endpoint,))
