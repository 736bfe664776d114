# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan of a node changes on the paths of packets: devices, peers and routes, short enough to be returned by each of a thousand nodes. Pure."""

from __future__ import annotations

import typing as t

from .._plan.plan import CREATE, DELETE, Change, to_wire

Data = dict[str, t.Any]

#: What of a device and of a peer decides about packets.
_LINK, _PEER = ("mtu", "listen_port", "public_key"), ("endpoint", "allowed_ips")


def path_changes(changes: t.Iterable[Change]) -> Data:
    """{links: {device: {action, before, after}}, peers: [{action, device, key, before, after}], routes: [{action, device, dst}]}; empty where none.

    ``secrets``, where there are any: devices with a peer that stays and gets another preshared key.

    before, after: {mtu, listen_port, public_key} of a device and {endpoint, allowed_ips} of a peer, None where it is absent. Peers and routes of a
    device that is created or deleted as a whole are left out: its own row has them all.
    """
    given = [change for change in changes if change.kind in ("link", "peer", "route")]
    links = {change.id: _row(change, _LINK) for change in given if change.kind == "link"}
    whole = {name for name, row in links.items() if row["action"] in (CREATE, DELETE)}
    peers, routes, secrets = [], [], set()
    for change in given:
        if change.kind == "peer":
            device, _space, key = change.id.partition(" ")
            row = dict(_row(change, _PEER), device=device, key=key)
            if device not in whole and row["before"] != row["after"]:
                peers.append(row)
            if device not in whole and _has_new_secret(change):
                secrets.add(device)
        elif change.kind == "route":
            view: Data = change.after or change.before or {}
            if view.get("dev") and view["dev"] not in whole and change.action != "update":
                routes.append({"action": change.action, "device": view["dev"], "dst": view.get("dst")})
    links = {name: row for name, row in links.items() if row["before"] != row["after"]}
    found: Data = to_wire({"links": links, "peers": peers, "routes": routes})
    found.update({"secrets": sorted(secrets)} if secrets else {})
    return found if links or peers or routes or secrets else {}


def _has_new_secret(change: Change) -> bool:
    before, after = change.before, change.after
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return False
    return before.get("preshared_key") != after.get("preshared_key")


def _row(change: Change, names: t.Sequence[str]) -> Data:
    def side(view: t.Any) -> Data | None:
        return {name: view.get(name) for name in names} if isinstance(view, dict) else None

    return {"action": change.action, "before": side(change.before), "after": side(change.after)}
