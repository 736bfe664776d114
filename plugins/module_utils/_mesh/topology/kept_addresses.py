# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of nftables that keeps addresses of pods towards other clusters, whatever else masquerades (translation 3). Pure.

The first rule of NAT that decides a connection wins, of whatever table it is. A map of each pod range to itself, one priority before those that
masquerade, leaves the packets as they are, so that no setting of a network plugin has to change. It is there whether or not something
masquerades today: a plugin that begins to do so later needs no run.

What kube-proxy marked comes from an address of this node (pod_ranges 7): a pod of another node that asks a NodePort here would otherwise enter the tunnel
with an address that belongs to its own node's tunnel, or with the node's address, and no peer takes either from here. A map of this
node's ranges alone does not cure it, since kube-proxy's masquerade then takes the node's address.
"""

from __future__ import annotations

import typing as t

from ..._dataplane.constants import NODE_SOURCE
from ..._values.addresses import parse_network

#: What kube-proxy marks for its own masquerade, such as connections to a NodePort: their answer has to come back to this node.
PROXY_MARK = 0x4000


def kept_table(topology: t.Mapping[str, t.Any], host: str) -> dict[str, t.Any] | None:
    """The table of one host, as node_dataplane takes it; None where keep_pod_addresses of its cluster is false, or no other cluster is there."""
    part = topology["clusters"][topology["nodes"][host]["cluster"]]
    keep = part.get("keep_pod_addresses") or {"ranges": ()}
    ranges = [parse_network(text) for text in keep["ranges"]]
    devices = sorted(settings["device"] for settings in part["remotes"].values())
    if not ranges or not devices:
        return None
    where = "oifname {{ {0} }}".format(", ".join(f'"{device}"' for device in devices))
    marked = f"meta mark & {PROXY_MARK:#010x} == {PROXY_MARK:#010x}"
    # the ranges of its pods are not known then, and the node keeps the address that it has
    unread = any(row["cluster"] == topology["nodes"][host]["cluster"] for row in topology.get("failures") or ())
    own = [parse_network(text) for text in topology["nodes"][host].get("pod_cidrs") or ()]
    sources = {version: [str(network) for network in own if network.version == version] for version in (4, 6)}
    rules = [
        f"{where} meta nfproto ipv{version} {marked} snat {family} to {NODE_SOURCE[version]} fully-random"
        for family, version in (("ip", 4), ("ip6", 6))
        if sources[version] or unread and any(network.version == version for network in ranges)
    ]
    rules.append(f"{where} {marked} return")
    for family, version in (("ip", 4), ("ip6", 6)):
        pairs = ", ".join(f"{network} : {network}" for network in ranges if network.version == version)
        if pairs:
            rules.append(f"{where} snat {family} prefix to {family} saddr map {{ {pairs} }}")
    chain = {"name": "postrouting", "type": "nat", "hook": "postrouting", "priority": "srcnat - 1", "rules": rules}
    return {
        "name": f"multicluster-network-{topology['fabric']}-nat",
        "family": "inet",
        "chains": [chain],
        "before_routes": True,
        "optional": not keep["required"],
        "sources": [text for version in (4, 6) for text in sources[version]],
    }
