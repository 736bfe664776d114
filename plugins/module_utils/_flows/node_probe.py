# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""What a node can prove about its mesh: which pods it has, whom they reach, when each peer last shook hands."""

from __future__ import annotations

import time
import typing as t

from .._linux import pods, wireguard


def run(request: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    """``request``: {pod_cidrs, max_pods, targets: [{node, address}], devices: [name], tries, wait_seconds}.

    Returns {pods, pings: [{source, target, node, ok, milliseconds}], peers: [{device, public_key, endpoint,
    handshake_age seconds or None, allowed_ips}]}. Reads and pings only.
    """
    found = pods.find_pods(request["pod_cidrs"], request["max_pods"])
    jobs = [
        {"netns": pod["netns"], "source": source, "target": target["address"], "node": target["node"]}
        for pod in found
        for source in pod["addresses"]
        for target in request.get("targets") or ()
        if (":" in source) == (":" in target["address"])
    ]
    pings = pods.ping_all(jobs, request["tries"], request["wait_seconds"])
    for entry in pings:
        entry.pop("netns")
    return {
        "changed": False,
        "pods": [{"addresses": pod["addresses"], "in_namespace": pod["netns"] is not None} for pod in found],
        "pings": pings,
        "peers": [peer for name in request.get("devices") or () for peer in _peers(name)],
        "refused": [],
    }


def _peers(name: str) -> t.List[t.Dict[str, t.Any]]:
    device = wireguard.open_device(name)
    try:
        dump = device.dump()
    finally:
        device.close()
    now = time.time()
    shown = []
    for key in sorted(dump["peers"]):
        peer = dump["peers"][key]
        last = peer["last_handshake"]
        shown.append({
            "device": name,
            "public_key": key,
            "endpoint": peer["endpoint"],
            "allowed_ips": list(peer["allowed_ips"]),
            "handshake_age": max(0, int(now - last)) if last else None,
            "rx_bytes": peer["rx_bytes"],
            "tx_bytes": peer["tx_bytes"],
        })
    return shown
