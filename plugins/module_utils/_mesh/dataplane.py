# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""One node's wanted dataplane: how the parts of a desired state depend on each other. Pure."""

from __future__ import annotations

import ipaddress
import typing as t

from .._plan.budget import check_budget
from .._plan.pending import is_pending
from .._plan.plan import Plan, Refusal

ALIAS_PREFIX = "multicluster.network/"


def alias_of(fabric: str) -> str:
    """The ownership mark of a fabric's links (ruling 32)."""
    return ALIAS_PREFIX + fabric


def device_request(device: t.Mapping[str, t.Any], fabric: str, adopt: bool, purge: bool) -> t.Dict[str, t.Any]:
    """The device flow's input for one device of a node (semaphore 3.2).

    A device whose source could not be read keeps the peers it has: ``peers_known: false``.
    """
    known = bool(device.get("peers_known", True))
    return {
        "name": device["name"],
        "state": "present",
        "alias": alias_of(fabric),
        "adopt": adopt,
        "implementation": device.get("implementation", "auto"),
        "mtu": device["mtu"],
        "txqueuelen": device["txqueuelen"],
        "listen_port": device["listen_port"],
        "fwmark": 0,
        "private_key_file": device["private_key_file"],
        "addresses": None,
        "flush_ipv4": True,
        "up": True,
        "peers": list(device["peers"]) if known else [],
        "purge_peers": known and purge,
    }


def lost_peers(todo: Plan, wanted: t.Sequence[t.Mapping[str, t.Any]]) -> t.List[str]:
    """Ids of peers that a plan removes and whose ranges nobody else takes over: a rotated key is no loss."""
    kept = [ipaddress.ip_network(cidr) for peer in wanted for cidr in peer["allowed_ips"]]
    lost = []
    for change in todo.of("delete", "peer"):
        ranges = [ipaddress.ip_network(cidr) for cidr in (change.before or {}).get("allowed_ips", ())]
        if not all(any(r.version == k.version and r.subnet_of(k) for k in kept) for r in ranges) or not ranges:
            lost.append(change.id)
    return lost


def peer_budget(
    device: t.Mapping[str, t.Any],
    present: int,
    todo: Plan,
    max_deletes: t.Optional[int],
    confirm_empty: t.Sequence[str],
) -> t.Optional[Refusal]:
    """None, or why this device's peers must not be purged in this run (ruling 38)."""
    source = str(device.get("remote") or device["name"])
    lost = len(lost_peers(todo, device["peers"]))
    return check_budget(
        source, "peers", present, lost, len(device["peers"]), max_deletes, confirm_empty=source in confirm_empty
    )


def state_to_keep(
    desired: t.Mapping[str, t.Any], previous: t.Optional[t.Mapping[str, t.Any]]
) -> t.Dict[str, t.Any]:
    """What the boot unit shall restore: the wanted state without deferred values.

    Peers of a source that could not be read are carried over from the state confirmed before.
    """
    before = {d["name"]: d for d in (previous or {}).get("devices", ())}
    devices = []
    for device in desired["devices"]:
        kept = {key: device[key] for key in sorted(device) if key not in ("peers", "peers_known")}
        if device.get("peers_known", True):
            peers = [peer for peer in device["peers"] if not is_pending(peer)]
        else:
            peers = list(before.get(device["name"], {}).get("peers", ()))
        kept["peers"] = sorted(peers, key=lambda peer: peer["public_key"])
        devices.append(kept)
    return {"fabric": desired["fabric"], "format": 1, "devices": sorted(devices, key=lambda d: d["name"])}
