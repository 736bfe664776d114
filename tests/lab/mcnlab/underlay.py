# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The underlay: one namespace with one bridge that carries every cluster's node network and routes between them.

It knows the node ranges only. A packet between pods of different clusters that reaches it unencrypted is visible on the
bridge (so a capture finds the leak) and then has no route.
"""

from __future__ import annotations

import hashlib

from . import namespaces
from .topology import Node, Topology

BRIDGE = "br0"


def port_of(node: Node) -> str:
    """The node's port on the bridge: its name, or a short unique one where the name exceeds an interface name."""
    if len(node.name) <= 15:
        return node.name
    return "n" + hashlib.sha256(node.name.encode()).hexdigest()[:12]


def ensure(namespace: str, topology: Topology) -> None:
    """Create the namespace, the bridge, and one gateway address per node range."""
    fresh = not namespaces.exists(namespace)
    namespaces.create(namespace)
    if fresh or BRIDGE not in namespaces.links(namespace):
        namespaces.sysctl(
            namespace,
            {
                "ipv4/ip_forward": 1,
                "ipv6/conf/all/forwarding": 1,
                "ipv6/conf/default/accept_dad": 0,
                "ipv4/conf/all/rp_filter": 0,
                "ipv4/conf/default/rp_filter": 0,
                # All node networks share the bridge: no node may learn a way round the gateway.
                "ipv4/conf/all/send_redirects": 0,
                "ipv4/conf/default/send_redirects": 0,
            },
        )
        namespaces.batch(
            namespace,
            [
                f"link add {BRIDGE} address {namespaces.hardware(namespace)} type bridge mcast_snooping 0",
                f"link set {BRIDGE} up",
            ],
        )
    commands = []
    for cluster in topology.clusters:
        for node in cluster.nodes:
            for address in node.addresses:
                length, gateway = cluster.uplink_of(address)
                nodad = " nodad" if ":" in gateway else ""
                commands.append(f"address replace {gateway}/{length} dev {BRIDGE}{nodad}")
    namespaces.batch(namespace, sorted(set(commands)))
