# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of nftables that keeps addresses of pods towards other clusters, whatever else masquerades (translation 3). Pure.

The first rule of NAT that decides a connection wins, of whatever table it is. A map of each pod range to itself, one priority before those that
masquerade, leaves the packets as they are, so that no setting of a network plugin has to change. It is there whether or not something
masquerades today: a plugin that begins to do so later needs no run.
"""

from __future__ import annotations

import typing as t

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
    rules = [f"{where} meta mark & {PROXY_MARK:#010x} == {PROXY_MARK:#010x} return"]
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
    }
