# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Through WireGuard from one node to another: who knows whom by which key, with which addresses, at which endpoint. Pure."""

from __future__ import annotations

import typing as t

from .._values.generations import is_bypass, other_end, same_tunnel
from . import causes
from .causes import LIKELY, OUT, TUNNEL, Fault, Step, argument, place_text, printable
from .facts import Device, Node, Peer
from .mesh import Mesh, origin
from .routing import Packet

#: A session that is older than this is none (WireGuard's REJECT_AFTER_TIME), in seconds.
SESSION = 180


def _generation(here: Node, device: Device) -> str:
    """By which of both devices of a tunnel packets go, where its keys are being rotated; "" otherwise."""
    if is_bypass(device.name):
        return "; keys are being rotated, packets go by the bypass device"
    if any(is_bypass(name) and same_tunnel(name, device.name) for name in here.devices):
        return "; keys are being rotated, packets go by the device itself"
    return ""


class Tunnels:
    """The tunnels between nodes, by what both ends have."""

    def __init__(self, nodes: t.Mapping[str, Node], mesh: Mesh) -> None:
        self.mesh = mesh
        self._holders: dict[str, list[str]] = {}
        for host in sorted(nodes):
            for key in {device.public_key for device in nodes[host].devices.values()}:
                self._holders.setdefault(key, []).append(host)  # once, with however many devices

    def leads(self, device: Device, there: Node, packet: Packet) -> bool:
        """Whether a device gives a packet to a node: its peer for the target has a key of that node."""
        peer = device.peer_for(packet.version, packet.dst)
        return peer is not None and there.host in self._holders.get(peer.public_key, ())

    def guess(self, here: Node, there: Node, packet: Packet) -> str | None:
        """The tunnel between two nodes by their keys, where no plan has it."""
        if self.mesh.devices or self.mesh.whole:
            return None
        keys = {device.public_key for device in there.devices.values()}
        for device in here.devices.values():
            if any(peer.public_key in keys for peer in device.peers):
                return device.name
        return next(
            (name for name, device in here.devices.items() if device.peer_for(packet.version, packet.dst) is not None),
            None,
        )

    def device_of(self, there: Node, here: Node, device: Device) -> Device | None:
        """The other end's device of a tunnel."""
        name = self.mesh.device(there, here)
        if name is not None:
            return there.devices.get(other_end(name, device.name))
        found = [one for one in there.devices.values() if one.peer(device.public_key) is not None]
        found = (
            found
            or [one for one in there.devices.values() if device.peer(one.public_key) is not None]
            or list(there.devices.values())
        )
        return found[0] if found else None

    def is_of(self, peer: Peer, there: Node) -> bool:
        """Whether a peer's key is one of a node's own."""
        return any(device.public_key == peer.public_key for device in there.devices.values())

    def _shared(self, key: str) -> tuple[str, ...]:
        """Who have a key, where it is more than one."""
        holders = sorted({*self._holders.get(key, ()), *self.mesh.shared.get(key, ())})
        return tuple(holders) if len(self._holders.get(key, ())) > 1 or len(self.mesh.shared.get(key, ())) > 1 else ()

    def go_through(self, here: Node, device: Device, there: Node, packet: Packet) -> tuple[Step | None, Fault | None]:
        """Through WireGuard: both ends must know each other, and each the other's inner addresses."""
        version, show = packet.version, "wg show " + argument(device.name)
        if not device.up:
            text = f"the device {device.name} of {here.host} is down"
            return None, Fault(causes.DEVICE_DOWN, here.host, OUT, text, here.host, show, device=argument(device.name))
        inner = self.device_of(there, here, device)
        if inner is None:
            name = self.mesh.device(there, here)
            if name is None and not there.devices:
                name = "of WireGuard"
            if name is None:
                return None, None
            text = f"{there.host} has no device {name}, by which it reaches cluster {here.cluster}"
            return None, Fault(
                causes.DEVICE_MISSING, here.host, TUNNEL, text, there.host, f"ip -d link show {argument(name)}"
            )
        if not inner.up:
            text = f"the device {inner.name} of {there.host} is down"
            name = argument(inner.name)
            return None, Fault(
                causes.DEVICE_DOWN, here.host, TUNNEL, text, there.host, f"ip -d link show {name}", device=name
            )
        peer = device.peer_for(version, packet.dst)
        for key, who in ((inner.public_key, there), (device.public_key, here)):
            shared = self._shared(key)
            if shared:
                return None, self._one_key(here, shared, key, who, show)
        if peer is None or peer.public_key != inner.public_key:
            return None, self.wrong_peer(here, device, there, packet, peer)
        other = inner.peer(device.public_key)
        hand = f"wg show {argument(inner.name)} allowed-ips"
        if other is None:
            return None, self._unknown_caller(here, device, there, inner, packet)
        if inner.peer_for(version, packet.src) is not other:
            taken = inner.peer_for(version, packet.src)
            text = (
                f"{there.host} takes {place_text(version, packet.src)} from no peer"
                if taken is None
                else (
                    f"{there.host} takes {place_text(version, packet.src)} from the peer {printable(taken.public_key)} alone"
                )
            )
            return None, Fault(causes.ALLOWED_IPS_LACK_SOURCE, here.host, TUNNEL, text, there.host, hand)
        if peer.preshared is not None and other.preshared is not None and peer.preshared != other.preshared:
            one, two = (here.host, there.host) if peer.preshared else (there.host, here.host)
            text = f"{one} has a preshared key for {two}, which has none for it: they get no session"
            return None, Fault(causes.NO_HANDSHAKE, here.host, TUNNEL, text, here.host, show)
        fault = self._endpoint(here, device, there, inner, peer, other)
        if fault is not None:
            return None, fault
        place = place_text(*peer.endpoint) if peer.endpoint else "no endpoint of its own"
        age = "no handshake yet" if peer.age is None else f"handshake {peer.age:.0f} s ago"
        text = f"peer {printable(peer.public_key)} at {place}, {age}{_generation(here, device)}"
        return Step(here.host, TUNNEL, "tunnel", text, show, origin(self.mesh, there), device.name), None

    def _one_key(self, here: Node, shared: t.Sequence[str], key: str, who: Node, hand: str) -> Fault:
        """Several nodes have one key."""
        text = (
            f"{' and '.join(map(printable, shared))} have one key, {printable(key)}: WireGuard knows only one of them"
        )
        return Fault(causes.KEYS_SHARED, here.host, TUNNEL, text, who.host, hand)

    def wrong_peer(self, here: Node, device: Device, there: Node, packet: Packet, peer: Peer | None) -> Fault:
        """Why no packet for the target goes to the node that has it."""
        target, hand = place_text(packet.version, packet.dst), f"wg show {argument(device.name)} allowed-ips"
        inner = self.device_of(there, here, device)
        shared = self._shared(inner.public_key) if inner is not None else ()
        if inner is not None and shared:
            return self._one_key(here, shared, inner.public_key, there, hand)
        right = device.peer(inner.public_key) if inner is not None else None
        if right is not None:
            to = "to no peer" if peer is None else "to the peer " + printable(peer.public_key)
            text = f"{here.host} sends {target} {to}: the allowed IPs of the peer {printable(right.public_key)} lack it"
            return Fault(causes.ALLOWED_IPS_LACK_TARGET, here.host, OUT, text, here.host, hand)
        stranger = (
            peer if peer is not None and not self._holders.get(peer.public_key) else self._at_endpoint(device, there)
        )
        if stranger is not None:
            text = "{0} has the key {1} for {2}; its own is {3}".format(
                here.host,
                printable(stranger.public_key),
                there.host,
                printable(inner.public_key) if inner else "another",
            )
            return Fault(causes.WRONG_KEY, here.host, OUT, text, here.host, hand)
        text = f"{here.host} has no peer for {there.host}"
        return Fault(causes.PEER_MISSING, here.host, OUT, text, here.host, hand)

    def _at_endpoint(self, device: Device, there: Node) -> Peer | None:
        """A peer with a key that nobody has, where the node should be found."""
        places = set(there.own) | {place[:2] for place in self.mesh.endpoints.get(there.host, ())}
        for peer in device.peers:
            if peer.endpoint is not None and peer.endpoint[:2] in places and not self._holders.get(peer.public_key):
                return peer
        return None

    def _unknown_caller(self, here: Node, device: Device, there: Node, inner: Device, packet: Packet) -> Fault:
        """Why the other end does not know who calls."""
        hand = f"wg show {argument(inner.name)} allowed-ips"
        taken = inner.peer_for(packet.version, packet.src)
        stranger = (
            taken if taken is not None and not self._holders.get(taken.public_key) else self._at_endpoint(inner, here)
        )
        if stranger is not None:
            text = f"{there.host} has the key {printable(stranger.public_key)} for {here.host}; its own is {printable(device.public_key)}"
            return Fault(causes.WRONG_KEY, here.host, TUNNEL, text, there.host, hand)
        return Fault(
            causes.PEER_MISSING, here.host, TUNNEL, f"{there.host} has no peer for {here.host}", there.host, hand
        )

    def _endpoint(
        self, here: Node, device: Device, there: Node, inner: Device, peer: Peer, other: Peer
    ) -> Fault | None:
        """Whether the peer is called where it listens. Behind a NAT nobody but the peer itself can know."""
        if peer.endpoint is None or not there.own:
            return None
        version, number, port = peer.endpoint
        planned = self.mesh.endpoints.get(there.host, ())
        mine = (version, number) in there.own
        if mine and (port == inner.listen_port or not inner.listen_port):
            return None
        behind = bool(planned) and not any(place[:2] in there.own for place in planned)
        fresh = peer.age is not None and peer.age <= SESSION and other.age is not None and other.age <= SESSION
        if (behind or not planned) and not mine and (peer.endpoint in planned or fresh):
            return None
        hand = f"wg show {argument(device.name)} endpoints"
        if mine and peer.endpoint in planned:
            text = f"{here.host} calls {there.host} at {place_text(*peer.endpoint)}, as it should, and {there.host} listens on port {inner.listen_port}"
            return Fault(
                causes.STALE_ENDPOINT,
                here.host,
                TUNNEL,
                text,
                there.host,
                f"wg show {argument(inner.name)} listen-port",
                confidence=LIKELY,
            )
        where = ", ".join(place_text(*place) for place in planned[:3]) or f"port {inner.listen_port}"
        text = f"{here.host} calls {there.host} at {place_text(*peer.endpoint)}; it should be found at {where}"
        # a port that nobody listens on was chosen by a translation in between
        translated = not mine and port != inner.listen_port and port not in {place[2] for place in planned}
        cause = causes.ENDPOINT_MOVED if behind or translated else causes.STALE_ENDPOINT
        return Fault(cause, here.host, TUNNEL, text, here.host, hand, confidence=LIKELY)
