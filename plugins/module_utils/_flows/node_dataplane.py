# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""A node's whole dataplane in one call: keys, devices with their peers, routes, and what survives a reboot.

gather -> plan -> apply -> verify over the same functions that the single modules use (ruling 30). ``desired``:

    fabric: text; devices: [{name, remote, node, mtu, txqueuelen, listen_port, private_key_file, implementation,
    routes: [cidr], peers: [{public_key, endpoint, allowed_ips, persistent_keepalive, preshared_key}], peers_known}];
    persist, adopt, remove_keys: bool; max_deletes: int or None; confirm_empty: [remote names]

Public keys may be Pending: such a peer is shown and left for the next call.
"""

from __future__ import annotations

import time
import typing as t

from .._linux import links
from .._mesh import dataplane
from .._plan.pending import Pending, from_wire, is_pending
from .._plan.plan import Plan
from . import ip_routes, persistence, wireguard_device, wireguard_key


def run(desired: t.Mapping[str, t.Any], check: bool = False) -> t.Dict[str, t.Any]:
    """Converge one node; the result has the keys of every module plus ``public_keys`` and ``devices``."""
    started = time.monotonic()
    desired = from_wire(dict(desired))
    work = _Work(desired)
    todo = work.plan()
    if not check and todo.changed:
        work.apply()
        work.verify()
    result = todo.result()
    result["refused"] = sorted(result["refused"] + work.late_refusals, key=lambda r: (r["object"], r["reason"]))
    result["warnings"] = todo.warnings
    result["diff"] = todo.diff()
    result["public_keys"] = work.public_keys()
    result["stats"] = dict(work.stats, seconds=round(time.monotonic() - started, 3))
    return result


def restore(state: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    """Apply a confirmed state at boot: the same way, but nothing is recorded and nothing is purged by budget."""
    return run(dict(state, persist=False, adopt=False, remove_keys=False, max_deletes=-1, confirm_empty=[]))


class _Work:
    """The parts of one run, each with what is wanted, what is there and what is to do."""

    def __init__(self, desired: t.Mapping[str, t.Any]) -> None:
        self.desired = desired
        self.fabric = desired["fabric"]
        self.adopt = bool(desired.get("adopt"))
        self.devices = list(desired.get("devices") or ())
        self.previous = persistence.load_state(self.fabric)
        self.stats: t.Dict[str, int] = {}
        self.late_refusals: t.List[t.Dict[str, t.Any]] = []
        self.keys: t.List[t.Tuple[t.Dict[str, t.Any], t.Any, Plan]] = []
        self.parts: t.List[t.Tuple[t.Dict[str, t.Any], t.Any, Plan]] = []
        self.gone: t.List[t.Tuple[t.Dict[str, t.Any], t.Any, Plan]] = []
        self.routes: t.Tuple[t.Dict[str, t.Any], t.Any, Plan]
        self.files: t.Tuple[t.Dict[str, t.Any], t.Any, Plan]

    # --- plan ---------------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Read everything once and decide; the order of the plan is the order of the writes."""
        todo = Plan()
        for device in self.devices:
            self.keys.append(self._key(device, "present"))
        for device in self.devices:
            self.parts.append(self._device(device, todo))
        refused_links = {request["name"] for request, unused, part in self.parts if _link_refused(part)}
        wanted_names = {device["name"] for device in self.devices}
        for name in sorted(set(links.owned(dataplane.alias_of(self.fabric))) - wanted_names):
            request = {"name": name, "state": "absent", "alias": dataplane.alias_of(self.fabric)}
            actual = wireguard_device.gather(request)
            self.gone.append((request, actual, wireguard_device.plan(request, actual)))
        self.routes = self._routes(refused_links, [request["name"] for request, unused, part in self.gone])
        if self.desired.get("remove_keys"):
            self.keys.extend(self._key(device, "absent") for device in self._keys_to_remove())
        self.files = self._files()
        for part in [p[2] for p in self.keys if p[0]["state"] == "present"] + [p[2] for p in self.parts] + [self.routes[2]]:
            todo.extend(part)
        for part in [p[2] for p in self.gone] + [p[2] for p in self.keys if p[0]["state"] == "absent"] + [self.files[2]]:
            todo.extend(part)
        return todo

    def _key(self, device: t.Mapping[str, t.Any], state: str) -> t.Tuple[t.Dict[str, t.Any], t.Any, Plan]:
        request = {"path": device["private_key_file"], "state": state}
        actual = wireguard_key.gather(request)
        return request, actual, wireguard_key.plan(request, actual)

    def _device(self, device: t.Mapping[str, t.Any], todo: Plan) -> t.Tuple[t.Dict[str, t.Any], t.Any, Plan]:
        request = dataplane.device_request(device, self.fabric, self.adopt, purge=True)
        actual = wireguard_device.gather(request)
        part = wireguard_device.plan(request, actual)
        present = len(((actual or {}).get("wireguard") or {}).get("peers") or ())
        if request["purge_peers"]:
            refusal = dataplane.peer_budget(
                device, present, part, self.desired.get("max_deletes"), self.desired.get("confirm_empty") or ()
            )
            if refusal is not None:
                todo.refused.append(refusal)
                request = dataplane.device_request(device, self.fabric, self.adopt, purge=False)
                part = wireguard_device.plan(request, actual)
        return request, actual, part

    def _routes(self, refused: t.Set[str], gone: t.Sequence[str]) -> t.Tuple[t.Dict[str, t.Any], t.Any, Plan]:
        names = [device["name"] for device in self.devices if device["name"] not in refused]
        request = {
            "devices": sorted(set(names) | set(gone)),
            "routes": [
                {"dst": cidr, "dev": device["name"], "scope": "link"}
                for device in self.devices
                if device["name"] in names
                for cidr in device["routes"]
            ],
            "adopt": self.adopt,
            "purge": True,
        }
        actual = ip_routes.gather(request)
        return request, actual, ip_routes.plan(request, actual)

    def _keys_to_remove(self) -> t.List[t.Dict[str, t.Any]]:
        wanted = {device["private_key_file"] for device in self.devices}
        known = {device["private_key_file"] for device in (self.previous or {}).get("devices", ())}
        known.update(self.desired.get("key_files") or ())
        return [{"private_key_file": path} for path in sorted(known - wanted)]

    def _files(self) -> t.Tuple[t.Dict[str, t.Any], t.Any, Plan]:
        if not self.desired.get("persist", True):
            return {}, {}, Plan()
        state = dataplane.state_to_keep(self.desired, self.previous) if self.devices else None
        wanted = persistence.wanted_files(self.fabric, state)
        actual = persistence.gather(self.fabric, wanted)
        return wanted, actual, persistence.plan(wanted, actual)

    # --- apply --------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Keys, devices with peers, routes; then what goes, routes before their device; the boot state last."""
        for request, actual, part in self.keys:
            if request["state"] == "present":
                self._count(wireguard_key.apply(request, actual, part))
        for request, actual, part in self.parts:
            self._count(wireguard_device.apply(request, actual, part))
        self._count(ip_routes.apply(*self.routes))
        for request, actual, part in self.gone:
            self._count(wireguard_device.apply(request, actual, part))
        for request, actual, part in self.keys:
            if request["state"] == "absent":
                self._count(wireguard_key.apply(request, actual, part))
        if self.files[2].changed:
            persistence.apply(self.fabric, self.files[0], self.files[2])

    def _count(self, stats: t.Optional[t.Mapping[str, t.Any]]) -> None:
        for key, value in (stats or {}).items():
            if key == "refused":
                self.late_refusals.extend(value)
            elif isinstance(value, int):
                self.stats[key] = self.stats.get(key, 0) + value

    # --- verify -------------------------------------------------------------------------------------------------

    def verify(self) -> None:
        """Read back: what still differs from the plan's goal is an error with the object's name."""
        late = {refusal["object"] for refusal in self.late_refusals}
        left: t.List[str] = []
        for request, unused, unused_part in self.parts + self.gone:
            again = wireguard_device.plan(request, wireguard_device.gather(request))
            left.extend("{0} {1}".format(c.action, c.id) for c in again.changes if not is_pending(c.after) and c.id not in late)
        again = ip_routes.plan(self.routes[0], ip_routes.gather(self.routes[0]))
        left.extend("{0} {1}".format(c.action, c.id) for c in again.changes)
        if left:
            raise DataplaneError("after applying, the kernel still differs: " + "; ".join(left[:20]))

    def public_keys(self) -> t.Dict[str, t.Any]:
        """Remote cluster to this node's public key towards it; deferred where the key is not made yet."""
        found: t.Dict[str, t.Any] = {}
        for device in self.devices:
            key = wireguard_key.gather({"path": device["private_key_file"], "state": "present"}).get("public_key")
            if key is None:
                what = "public key of {0} towards {1}".format(device.get("node", "this node"), device.get("remote", device["name"]))
                found[device.get("remote", device["name"])] = {"__pending__": Pending(what).what}
            else:
                found[device.get("remote", device["name"])] = key
        return found


class DataplaneError(Exception):
    """The node is not in the state that was just applied."""


def _link_refused(part: Plan) -> bool:
    return any(refusal.reason in ("not_ours", "adoptable") for refusal in part.refused)
