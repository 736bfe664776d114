# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which changes of a node cannot cut it off from its controller, so that no connection has to prove afterwards that they did not. Pure.

A rotation of keys (see _mesh/semaphore/rotation) makes, changes and removes devices by which the node sends nothing, and moves routes from one of the two
devices of a tunnel to the other. Neither is in the way of a controller with packets that go elsewhere. Any other change waits for its confirmation as ever.
"""

from __future__ import annotations

import typing as t

from .._plan.plan import CREATE, DELETE, UPDATE, Change
from .._values.addresses import Address, parse_network
from .._values.generations import (
    HOST_ADDRESS,
    bypass_device,
    bypass_key_file,
    is_bypass,
    is_next_key,
    is_preshared_file,
    same_tunnel,
)
from .._values.prefix_sets import PrefixSet

#: Where a setting such as net/ipv4/conf/wireguard.gcp/rp_filter has its device.
_DEVICE_AT = 3


class Tunnels(t.NamedTuple):
    """What a plan concerns.

    ``key_files``: by device; ``routed``: devices by which the node sends before or after, see sending; ``files``: paths that say which devices there are;
    ``connected``: the addresses with which the node has connections, that of its controller among them.
    """

    key_files: t.Mapping[str, str]
    routed: t.AbstractSet[str]
    files: t.Container[str]
    connected: t.Collection[Address]

    def has(self, device: object) -> bool:
        """Whether this is one of the two devices of a tunnel."""
        return isinstance(device, str) and (is_bypass(device) or bypass_device(device) in self.key_files)

    def idle(self, device: str | None) -> bool:
        """Whether it is one by which nothing is sent."""
        return device not in self.routed and self.has(device)

    def device_of(self, key_file: str) -> str | None:
        """The device that a key file belongs to; the file of a bypass device is that of its device with another name."""
        for device, path in self.key_files.items():
            if path == key_file:
                return device
            if bypass_key_file(path) == key_file:
                return bypass_device(device)
        return None


def sending(tables: t.Iterable[t.Mapping[str, t.Sequence[str]]], ranges: t.Mapping[str, t.Iterable[str]]) -> set[str]:
    """The devices by which a packet to a peer may go by one of these tables, {device: [network]}. ranges: those of the peers of each device.

    A device may keep a route to a whole cluster while each of its peers has a longer one into the bypass device.
    """
    found: set[str] = set()
    for table in tables:
        for device in table:
            bypassed = PrefixSet() if is_bypass(device) else PrefixSet.of_texts(table.get(bypass_device(device)) or ())
            if not bypassed or PrefixSet.of_texts(ranges.get(device) or ()) - bypassed:
                found.add(device)
    return found


def all_safe(changes: t.Iterable[Change], tunnels: Tunnels) -> bool:
    """Whether none of the changes can cut the node off."""
    return all(_is_safe(change, tunnels) for change in changes)


def _is_safe(change: Change, tunnels: Tunnels) -> bool:
    if change.kind == "link":
        return tunnels.idle(change.id) or _gets_host_address(change)
    if change.kind == "peer":
        device = change.id.partition(" ")[0]
        return tunnels.idle(device) or (tunnels.has(device) and change.fields == ["persistent_keepalive"])
    if change.kind == "key":
        return is_next_key(change.id) or tunnels.idle(tunnels.device_of(change.id))
    if change.kind == "route":
        return _stays_in_tunnel(change, tunnels)
    if change.kind == "setting":  # what a device of a tunnel takes in
        return tunnels.has(dict(enumerate(change.id.split("/"))).get(_DEVICE_AT))
    if change.kind == "secret":  # a peer that begins or ceases to use it is a change of its own
        return change.action in (CREATE, DELETE) and is_preshared_file(change.id)
    return change.kind == "file" and change.action == UPDATE and change.id in tunnels.files


def _gets_host_address(change: Change) -> bool:
    """An address of scope host, which no packet has as its source, on a device that is there."""
    if change.action != UPDATE or change.fields != ["addresses"]:
        return False
    return set(change.after["addresses"]) == {*change.before["addresses"], HOST_ADDRESS}


def _stays_in_tunnel(change: Change, tunnels: Tunnels) -> bool:
    """A route to where none of the connections goes, from one device of a tunnel to the other; one that covers it may be there for what it lets go."""
    views = [view for view in (change.before, change.after) if view is not None]
    devices = [view.get("dev") for view in views]
    if not all(map(tunnels.has, devices)) or not same_tunnel(devices[0], devices[-1]):
        return False
    dst = parse_network(views[0]["dst"])
    return not any(address in dst for address in tunnels.connected)
