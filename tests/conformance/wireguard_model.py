# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A WireGuard device as data, to which messages are sent: two lists of messages are the same when they make the same device.

Vectors expect a complete message for each peer that differs; the collection's carry what differs, since replacing a live peer's ranges leaves
them without an owner for a moment. What both must have in common is all that the device does afterwards.
"""

from __future__ import annotations

import copy
import typing as t

from .compare import equal, show

Data = dict[str, t.Any]
Vector = t.Mapping[str, t.Any]
NO_KEY = "A" * 43 + "="


def differs(vector: Vector, operations: t.Sequence[Data]) -> str | None:
    """How our messages differ from a vector's ``operations``, None for not at all."""
    expected = vector["operations"]
    if bool(expected) != bool(operations):
        return f"operations: expected {show(expected)}, got {show(operations)}"
    start = _device(vector.get("existing"))
    goal = [start, *_sent(vector, start, expected)][-1]
    states = _sent(vector, start, operations)
    stays = set(_owners(start)) & set(_owners(goal))
    for state, operation in zip(states, operations):
        lost = sorted(stays - set(_owners(state)))
        if lost:
            return f"nobody has {show(lost)} after {show(operation)}"
    touched = {row.get("public_key") for row in operations if row["op"] == "remove_peer"} & set(goal["peers"])
    if touched:
        return f"removed although they stay: {show(sorted(touched))}"
    return equal(goal, states[-1] if states else start, (), "device")


def _device(given: t.Mapping[str, t.Any] | None) -> Data:
    given = given or {}
    peers = {
        peer["public_key"]: {
            "endpoint": peer.get("endpoint"),
            "preshared_key": None if peer.get("preshared_key") == NO_KEY else peer.get("preshared_key"),
            "persistent_keepalive": peer.get("persistent_keepalive") or 0,
            "allowed_ips": sorted(peer.get("allowed_ips") or ()),
        }
        for peer in given.get("peers") or ()
    }
    return {"settings": {name: _number(value) for name, value in given.items() if name != "peers"}, "peers": peers}


def _number(value: t.Any) -> t.Any:
    return int(value, 16) if isinstance(value, str) and value.startswith("0x") else value


def _owners(device: Data) -> dict[str, str]:
    return {text: key for key, peer in device["peers"].items() for text in peer["allowed_ips"]}


def _sent(vector: Vector, start: Data, operations: t.Sequence[Data]) -> list[Data]:
    """The device after each message."""
    secrets = {peer["public_key"]: peer.get("preshared_key") for peer in (vector["desired"] or {}).get("peers") or ()}
    states, device = [], start
    for row in operations:
        device = copy.deepcopy(device)
        states.append(device)
        if row["op"] == "set_device":
            device["settings"].update({name: _number(value) for name, value in row.items() if name != "op"})
        elif row["op"] == "remove_peer":
            device["peers"].pop(row["public_key"], None)
        else:
            _set_peer(device["peers"], row, secrets)
    return states


def _set_peer(peers: Data, row: Data, secrets: t.Mapping[str, t.Any]) -> None:
    peer = peers.setdefault(
        row["public_key"], {"endpoint": None, "preshared_key": None, "persistent_keepalive": 0, "allowed_ips": []}
    )
    for name in ("endpoint", "persistent_keepalive"):
        if row.get(name) is not None:
            peer[name] = row[name]
    if row.get("preshared_key"):
        peer["preshared_key"] = secrets[row["public_key"]]
    elif row.get("clear_preshared_key"):
        peer["preshared_key"] = None
    if row["replace_allowed_ips"]:
        peer["allowed_ips"] = []
    added = row.get("allowed_ips") or []
    for other in peers.values():
        other["allowed_ips"] = [text for text in other["allowed_ips"] if text not in added]
    peer["allowed_ips"] = sorted([*peer["allowed_ips"], *added])
