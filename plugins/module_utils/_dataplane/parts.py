# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's wanted dataplane: how the parts of a desired state depend on each other. Pure."""

from __future__ import annotations

import typing as t

from .._plan.budget import check_budget
from .._plan.pending import is_pending
from .._plan.plan import Plan, Refusal
from .._values.prefix_sets import PrefixSet
from .constants import OWNER

#: What is kept with a peer beside what the device is told.
NOTES = ("node", "by_rank")


def alias_of(fabric: str) -> str:
    """The ownership mark of a fabric's links (decision 32)."""
    return "{0}/{1}".format(OWNER, fabric)


def device_request(device: t.Mapping[str, t.Any], fabric: str, adopt: bool) -> t.Dict[str, t.Any]:
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
        "generate_key": True,
        "private_key_file": device["private_key_file"],
        "addresses": device.get("addresses"),
        "flush_ipv4": True,
        "up": device.get("up") is not False,
        "peers": [{key: value for key, value in peer.items() if key not in NOTES} for peer in device["peers"]] if known else None,
        "overlay": list(device.get("overlay") or ()),
        "purge_peers": known and device.get("purge", True),
    }


def with_own_port(device: t.Mapping[str, t.Any], previous: t.Optional[t.Mapping[str, t.Any]]) -> t.Dict[str, t.Any]:
    """A device whose port the plan could not know keeps that of the confirmed state: ``listen_port_known: false``."""
    kept = {key: value for key, value in device.items() if key != "listen_port_known"}
    if not device.get("listen_port_known", True):
        before = {row["name"]: row for row in (previous or {}).get("devices", ())}
        kept["listen_port"] = before.get(device["name"], {}).get("listen_port") or device["listen_port"]
    return kept


def without_deferred(device: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    """A device with only those peers that can be configured now; deferred ones are no change of this call.

    While any is deferred no peer is removed: the one that works now may belong to the node whose key is still to come.
    """
    ready = [peer for peer in device["peers"] if not is_pending(peer)]
    if len(ready) == len(device["peers"]):
        return dict(device)
    return dict(device, peers=ready, purge=False)


def lost_peers(todo: Plan, wanted: t.Sequence[t.Mapping[str, t.Any]]) -> t.List[str]:
    """Ids of peers that a plan removes and whose ranges nobody else takes over: a rotated key is no loss."""
    kept = PrefixSet.of_texts(cidr for peer in wanted for cidr in peer["allowed_ips"])
    lost = []
    for change in todo.of("delete", "peer"):
        ranges = PrefixSet.of_texts((change.before or {}).get("allowed_ips", ()))
        if not ranges or ranges - kept:
            lost.append(change.id)
    return lost


def peer_budget(
    device: t.Mapping[str, t.Any],
    todo: Plan,
    present: t.Mapping[str, t.Any],
    max_deletes: t.Optional[int],
    confirm_empty: t.Sequence[str],
) -> t.Optional[Refusal]:
    """None, or why this device's peers must not be purged in this run (decision 38). ``present``: its peers now."""
    if not device.get("peers_known", True):
        return None
    source = str(device.get("remote") or device["name"])
    lost = len(lost_peers(todo, device["peers"]))
    return check_budget(
        source, "peers", len(present), lost, len(device["peers"]), max_deletes, source in confirm_empty, device.get("turned_away") or "", claimed=True
    )


def last_endpoints(previous: t.Optional[t.Mapping[str, t.Any]]) -> t.Dict[str, t.Dict[str, str]]:
    """device -> public key -> endpoint as we configured it last: a peer that roamed since is no drift (asks 14, 16)."""
    return {
        device["name"]: {peer["public_key"]: peer["endpoint"] for peer in device["peers"] if peer.get("endpoint")}
        for device in (previous or {}).get("devices", ())
    }


def state_to_keep(
    desired: t.Mapping[str, t.Any], previous: t.Optional[t.Mapping[str, t.Any]]
) -> t.Dict[str, t.Any]:
    """What the boot unit shall restore: the wanted state without deferred values.

    Where this run may not remove peers, those confirmed before are carried over, so that a reboot removes none either.
    """
    before = {d["name"]: d for d in (previous or {}).get("devices", ())}
    devices = []
    for device in desired["devices"]:
        kept = {key: device[key] for key in sorted(device) if key not in ("peers", "peers_known", "purge", "contested", "turned_away")}
        peers = [peer for peer in device["peers"] if not is_pending(peer)] if device.get("peers_known", True) else []
        if not device.get("peers_known", True) or not device.get("purge", True):
            taken = {peer["public_key"] for peer in peers} | {cidr for peer in peers for cidr in peer["allowed_ips"]}
            peers += [
                peer
                for peer in before.get(device["name"], {}).get("peers", ())
                if taken.isdisjoint([peer["public_key"], *peer["allowed_ips"]])
            ]
        kept["peers"] = sorted(peers, key=lambda peer: peer["public_key"])
        devices.append(kept)
    keys = {device["private_key_file"] for device in devices}
    if not desired.get("remove_keys"):
        keys.update(key_files(previous))
    return {
        "fabric": desired["fabric"], "format": 1, "devices": sorted(devices, key=lambda d: d["name"]), "key_files": sorted(keys),
    }


def node_of(state: t.Optional[t.Mapping[str, t.Any]]) -> t.Optional[str]:
    """The inventory's name of the host that a state was made for; None when it does not say."""
    found = [(state or {}).get("node"), *(device.get("node") for device in (state or {}).get("devices", ()) if isinstance(device, dict))]
    names = [name for name in found if isinstance(name, str) and name != "this node"]
    return names[0] if names else None


def key_files(state: t.Optional[t.Mapping[str, t.Any]]) -> t.Set[str]:
    """Every key file that the fabric made on this node, those of remotes that left included."""
    known = {device["private_key_file"] for device in (state or {}).get("devices", ())}
    return known | set((state or {}).get("key_files", ()))
