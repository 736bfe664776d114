# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host had, taken before a change and put back when nobody confirms it. Plain JSON with secrets: root-only files."""

from __future__ import annotations

import base64
import contextlib
import typing as t

from ..._dataplane.peer_plan import plan_peers
from ..._dataplane.peer_spec import Dump, Peer, PeerStep, Preshared
from ..._values.generations import HOST_ADDRESS
from .. import files
from ..errors import LinuxError
from ..netlink.links import link_names
from ..netlink.routes import read_routes, write_routes
from ..stats import now
from ..wireguard.device import open_device
from .links import change_addresses, create_wireguard_link, delete_link, read_link, set_link

Data = dict[str, t.Any]
#: What of a route identifies it in its table; the rest is what it is like.
_IDENTITY = ("dst", "metric", "type")


def take_device(name: str, link: t.Mapping[str, t.Any] | None, dump: Dump) -> Data | None:
    """One link with its WireGuard device, as read_link and dump gave them. None: it was not there."""
    if link is None:
        return None
    taken: Data = {"link": dict(link), "wireguard": dump.to_json(), "secrets": {"private_key": None, "preshared": {}}}
    if link["implementation"]:
        with contextlib.closing(open_device(name, link["implementation"])) as device:
            taken["secrets"] = device.secrets()
    return taken


def restore_device(name: str, was: t.Mapping[str, t.Any] | None) -> None:
    """Make a link and its device what they were. A link that the change made is removed again. Raises LinuxError."""
    link = read_link(name)
    if was is None:
        if link is not None and link["kind"] in ("wireguard", "tun"):
            delete_link(name)
        return
    old = was["link"]
    if not old["implementation"]:
        return  # it was no WireGuard device and was not touched
    if link is not None and link["implementation"] is None:
        delete_link(name)
        link = None
    if link is None:
        create_wireguard_link(name, old["implementation"])
        link = read_link(name) or {}
    differing = {key: old[key] for key in ("mtu", "txqueuelen") if link.get(key) != old[key]}
    if (link.get("alias") or "") != (old["alias"] or ""):
        differing["alias"] = old["alias"] or ""
    if differing:
        set_link(name, **differing)
    _restore_wireguard(name, old["implementation"], was)
    have, want = set(link.get("addresses", ())) - {HOST_ADDRESS}, set(old["addresses"])
    change_addresses(name, sorted(want - have), sorted(have - want), sorted(have & want))
    if link.get("up") != old["up"]:
        set_link(name, up=old["up"])


def _restore_wireguard(name: str, implementation: str, was: t.Mapping[str, t.Any]) -> None:
    old, secrets = Dump.of_json(was["wireguard"]), was["secrets"]
    with contextlib.closing(open_device(name, implementation)) as device:
        live = device.dump()
        settings: Data = {
            key: getattr(old, key) for key in ("listen_port", "fwmark") if getattr(live, key) != getattr(old, key)
        }
        if secrets["private_key"] and live.public_key != old.public_key:
            settings["private_key"] = base64.b64decode(secrets["private_key"])
        device.configure(**settings)
        desired, first = [], []
        for key, peer in sorted(old.peers.items()):
            raw = secrets["preshared"].get(key)
            secret = Preshared(raw=raw, fingerprint=peer.preshared_key) if raw else None
            endpoints = (peer.endpoint,) if peer.endpoint else ()
            desired.append(Peer(key, peer.endpoint, peer.allowed_ips, peer.keepalive, secret, endpoints))
            there = live.peers.get(key)
            if there and there.endpoint and not peer.endpoint and there.last_handshake == peer.last_handshake:
                # an endpoint can only be forgotten together with its peer; one that the peer itself taught us stays
                first.append(PeerStep(key, remove=True))
        forgotten = {step.public_key for step in first}
        peers = {key: peer for key, peer in live.peers.items() if key not in forgotten}
        # no endpoint counts as the one configured last, so every one that differs is sent
        steps = plan_peers(name, desired, peers, now(), dict.fromkeys(old.peers, "")).steps
        device.apply([*first, *steps])


def take_routes(
    routes: t.Iterable[t.Mapping[str, t.Any]], devices: t.Container[str], protocol: int, others: t.Container[t.Any]
) -> list[Data]:
    """Of a table's routes the owned ones (over these devices, of this protocol), and those that owned ones will replace.

    others: (dst, metric) of routes that will be replaced.
    """
    return [
        dict(route)
        for route in routes
        if (route["protocol"] == protocol and route["dev"] in devices) or (route["dst"], route["metric"]) in others
    ]


def clear_routes(table: int, devices: t.Container[str], protocol: int, was: t.Sequence[t.Mapping[str, t.Any]]) -> None:
    """First half of putting routes back: remove owned routes that were not there, which frees paths that they took."""
    before = {_key(route) for route in was}
    live = read_routes(table)
    extra = [r for r in live if r["protocol"] == protocol and r["dev"] in devices and _key(r) not in before]
    write_routes(table, protocol, [], extra)


def restore_routes(table: int, was: t.Sequence[t.Mapping[str, t.Any]]) -> None:
    """Second half, when the devices exist: bring back what is missing or differs."""
    live = {_key(route): route for route in read_routes(table)}
    there = link_names()
    missing = [route for route in was if live.get(_key(route)) != route and (not route["dev"] or route["dev"] in there)]
    for protocol in sorted({route["protocol"] for route in missing}):
        write_routes(table, protocol, [dict(route) for route in missing if route["protocol"] == protocol], [])


def _key(route: t.Mapping[str, t.Any]) -> tuple[t.Any, ...]:
    return tuple(route[name] for name in _IDENTITY)


def take_files(paths: t.Iterable[str]) -> Data:
    """Path to content of small files and links; None where there is nothing."""
    taken: Data = {}
    for path in paths:
        state = files.read_state(path)
        if state is None:
            taken[path] = None
        elif state.kind == "other":
            raise LinuxError("keep a copy of", path, "it is neither a file nor a link")
        else:
            taken[path] = {
                "kind": state.kind,
                "mode": state.mode,
                "content": base64.b64encode(state.content).decode("ascii"),
            }
    return taken


def restore_files(taken: t.Mapping[str, t.Any]) -> bool:
    """Put files back; True when any differed."""
    changed = False
    for path, entry in sorted(taken.items()):
        desired = (
            None if entry is None else files.FileState(entry["kind"], entry["mode"], base64.b64decode(entry["content"]))
        )
        if files.read_state(path) == desired:
            continue
        changed = True
        if desired is None:
            files.remove(path)
        else:
            files.write_state(path, desired)
    return changed
