# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits for what only time brings to a node's tunnels: a handshake with each peer, and the last packet of a device that goes. Reads only."""

from __future__ import annotations

import time
import typing as t

from ..._dataplane.peer_spec import Dump, is_fresh
from ..._linux.netlink.links import link_names
from ..._linux.wireguard.device import read_device

Data = dict[str, t.Any]
#: Between two readings of handshakes, in seconds: the first time, and at the most.
_PAUSE, _LONGEST_PAUSE = 0.5, 2.0
#: Of a node with many peers a reading is work: it takes no more than one part in so many of the time, up to a pause that nobody would notice in a rotation.
_SHARE, _LIMIT = 500, 10.0


def run(request: t.Mapping[str, t.Any]) -> Data:
    """``request``: {tunnels: [{device, peers: [public key]}], quiet: bool, quiet_seconds, timeout}.

    Returns {changed: False, refused: [], missing: [{device, public_key, endpoint, listen_port}], busy: [device], seconds}: with ``quiet`` the devices
    that received something within the last ``quiet_seconds``, those that are absent left out, else the peers without a handshake that counts. Both are
    empty when all came before ``timeout`` seconds were over. Raises LinuxError.
    """
    started = time.monotonic()
    tunnels, end = request["tunnels"], started + request["timeout"]
    found: Data = {"changed": False, "refused": [], "missing": [], "busy": []}
    if request["quiet"]:
        present = link_names()
        devices = [row["device"] for row in tunnels if row["device"] in present]
        found["busy"] = _until_quiet(devices, request["quiet_seconds"], end)
    else:
        found["missing"] = _until_met(tunnels, end)
    return dict(found, seconds=round(time.monotonic() - started, 3))


def _until_met(tunnels: t.Sequence[t.Mapping[str, t.Any]], end: float) -> list[Data]:
    pause, waiting = _PAUSE, tunnels
    while True:
        began = time.process_time()
        rows = [(tunnel, without_handshake(tunnel, read_device(tunnel["device"]), time.time())) for tunnel in waiting]
        left = [row for dummy, missing in rows for row in missing]
        remaining = end - time.monotonic()
        if remaining <= 0 or (not left and len(waiting) == len(tunnels)):
            return left
        if not left:
            waiting = tunnels  # once more, since the first of them may have lost theirs meanwhile
            continue
        waiting = [tunnel for tunnel, missing in rows if missing]
        work = _SHARE * (time.process_time() - began)
        time.sleep(min(remaining, max(pause, min(work, _LIMIT))))
        pause = min(2 * pause, _LONGEST_PAUSE)


def without_handshake(tunnel: t.Mapping[str, t.Any], dump: Dump, now: float) -> list[Data]:
    """The peers of a tunnel that the device has not, or with which it has no session. now: epoch seconds."""
    rows = []
    for key in tunnel["peers"]:
        peer = dump.peers.get(key)
        if peer is None or not is_fresh(peer.last_handshake, now):
            endpoint = peer.endpoint if peer else None
            rows.append(
                {"device": tunnel["device"], "public_key": key, "endpoint": endpoint, "listen_port": dump.listen_port}
            )
    return rows


def _until_quiet(devices: t.Sequence[str], quiet: float, end: float) -> list[str]:
    """Waits until no device has received a byte for so many seconds. Returns those that have when time is over."""
    before = {name: _received(read_device(name)) for name in devices}
    since = dict.fromkeys(devices, time.monotonic())
    while True:
        busy = [name for name in devices if time.monotonic() - since[name] < quiet]
        if not busy or time.monotonic() >= end:
            return busy
        time.sleep(min(_PAUSE, quiet))
        for name in devices:
            now = _received(read_device(name))
            if now != before[name]:
                before[name], since[name] = now, time.monotonic()


def _received(dump: Dump) -> int:
    return sum(peer.rx_bytes for peer in dump.peers.values())
