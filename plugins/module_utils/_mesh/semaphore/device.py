# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Semaphore's WireGuard device of one remote: name, MTU, port and routes (semaphore 3.2).

The UDP ports of a cluster's nodes, one for each remote, are those of the inventory, else what works now, else the next free one: a port
that nodes have announced is kept while nobody writes another one, so a cluster that joins or leaves moves no other's port.
"""

from __future__ import annotations

import collections
import typing as t

from ..._values.addresses import parse_endpoint, parse_network
from ..._values.generations import PREFIX
from ..._values.refused import ValueRefused, quoted
from ..._values.text import check_interface_name, parse_cluster_name, parse_decimal, parse_port
from .annotations import DEFAULT_PORT, key_of

DEFAULT_MTU, TXQUEUELEN, KEEPALIVE = 1420, 1000, 25
SMALLEST_MTU, LARGEST_MTU = 576, 9216
#: Ports that nodes get when none is given: this many from DEFAULT_PORT on. An announced port elsewhere is no reason to use it.
AUTOMATIC = range(DEFAULT_PORT, DEFAULT_PORT + 1000)

Clusters = t.Mapping[str, t.Mapping[str, t.Any]]


def device_of(cluster: str, alias: str | None = None) -> str:
    """The device name towards a remote cluster; an alias replaces a name that is too long for Linux."""
    return PREFIX + (alias or cluster)


def check_device_name(cluster: object, alias: object = None) -> str:
    """The device name, or ValueRefused with the first failing check in the order of semaphore 11.2."""
    name = cluster if alias is None else alias
    if not isinstance(name, str):
        raise ValueRefused("cluster_name_not_dns_label", f"{quoted(name)} is not a cluster name")
    try:
        check_interface_name(PREFIX + name)
    except ValueRefused as error:
        if error.reason != "device_name_too_long":
            raise
        raise ValueRefused(
            error.reason,
            f"device name {quoted(PREFIX + name)} is longer than 15 bytes; give the cluster a device_alias of at most {15 - len(PREFIX)} "
            "characters",
        ) from None
    parse_cluster_name(name)
    return PREFIX + name


def parse_mtu(value: object) -> int:
    """A device MTU in bytes; 0 and None mean the default."""
    mtu = 0 if value is None else parse_decimal(value, "mtu_out_of_range")
    if mtu == 0:
        return DEFAULT_MTU
    if not SMALLEST_MTU <= mtu <= LARGEST_MTU:
        raise ValueRefused("mtu_out_of_range", f"MTU {mtu} is not between 576 and 9216")
    return mtu


def parse_listen_port(value: object) -> int:
    """A UDP port to listen on; 0 and None mean the default."""
    if value is None or value in (0, "0") and not isinstance(value, bool):
        return DEFAULT_PORT
    return parse_port(value)


def routes_of(device: str, pod_subnets: t.Iterable[object]) -> list[dict[str, str]]:
    """One link-scoped route in the main table per remote pod subnet, host bits masked off."""
    return [
        {"dst": str(parse_network(subnet, "pod_subnet_invalid")), "dev": device, "scope": "link", "table": "main"}
        for subnet in pod_subnets
    ]


def written_port(clusters: Clusters, local: str, remote: str) -> int:
    """What the inventory has for the device of ``local``'s nodes towards ``remote``; 0 for nothing."""
    return clusters[local]["wireguard_ports"].get(remote) or clusters[remote]["wireguard_port"] or 0


def listen_ports(clusters: Clusters, local: str, announced: t.Mapping[str, int] | None = None) -> dict[str, int]:
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


def announced_ports(nodes: t.Iterable[t.Mapping[str, t.Any]], remotes: t.Iterable[str]) -> dict[str, int]:
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
