# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The UDP ports of a cluster's nodes, one for each remote: what the inventory says, else what works now, else the next free one.

A port that nodes have announced is kept while nobody writes another one, so a cluster that joins or leaves moves no other's port.
"""

from __future__ import annotations

import collections
import typing as t

from ..._values.addresses import parse_endpoint
from ..._values.refused import ValueRefused
from ..semaphore.annotations import DEFAULT_PORT, key_of

#: Ports that nodes get when nobody says which: this many from DEFAULT_PORT on. An announced port elsewhere is no reason to use it.
AUTOMATIC = range(DEFAULT_PORT, DEFAULT_PORT + 1000)

Clusters = t.Mapping[str, t.Mapping[str, t.Any]]


def written_port(clusters: Clusters, local: str, remote: str) -> int:
    """What the inventory says of the device of ``local``'s nodes towards ``remote``; 0 for nothing."""
    return clusters[local]["wireguard_ports"].get(remote) or clusters[remote]["wireguard_port"] or 0


def listen_ports(clusters: Clusters, local: str, announced: t.Optional[t.Mapping[str, int]] = None) -> t.Dict[str, int]:
    """{remote: port} of one cluster's nodes. announced: {remote: port} as they work now, where known."""
    remotes = sorted(name for name in clusters if name != local)
    ports = {remote: port for remote in remotes for port in [written_port(clusters, local, remote)] if port}
    taken = set(ports.values())
    for remote in remotes:
        port = (announced or {}).get(remote)
        if remote not in ports and port in AUTOMATIC and port not in taken:
            ports[remote] = t.cast(int, port)
            taken.add(ports[remote])
    free = (port for port in AUTOMATIC if port not in taken)
    for remote in remotes:
        if remote not in ports:
            ports[remote] = next(free)
    return ports


def announced_ports(nodes: t.Iterable[t.Mapping[str, t.Any]], remotes: t.Iterable[str]) -> t.Dict[str, int]:
    """{remote: port} that most of a cluster's own nodes announce, the lowest where they are as many. nodes: of node_listing."""
    known = list(nodes)
    found = {}
    for remote in remotes:
        key = key_of(remote, "endpoint")
        seen = collections.Counter(port for port in (_port(node["annotations"].get(key)) for node in known) if port)
        if seen:
            found[remote] = min(seen, key=lambda port: (-seen[port], port))
    return found


def _port(text: object) -> int:
    try:
        return parse_endpoint(text).port
    except ValueRefused:
        return 0
