# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other allowed IPs for peers that a node has already, checked against its confirmed state (pod_ranges 3). Pure.

Keys, endpoints, routes and all else of the state stay as they are. What the state does not have is refused, since only a whole run knows of it.
"""

from __future__ import annotations

import typing as t

from .._values.addresses import network_text_and_key, parse_network
from .._values.keys import parse_key
from .._values.prefix_sets import PrefixSet
from .._values.refused import ValueRefused, quoted
from .constants import is_our_alias
from .node_spec import NodeDevice, NodeState
from .peer_plan import PeerPlan, plan_peers
from .peer_spec import Dump, Peer, Preshared

#: The reason of all refusals here: the change is not one of ranges alone on this node.
REASON = "no_peer"


class RangeOrder(t.NamedTuple):
    """For one ``device``: all allowed IPs of some peers, by public key; ``borrowed``: those of all its peers that lie inside those of another."""

    device: str
    peers: dict[str, tuple[str, ...]]
    borrowed: tuple[str, ...] = ()


def parse_orders(raw: t.Mapping[str, t.Any]) -> list[RangeOrder]:
    """Orders from ``{device: {peers: {public key: [cidr]}, borrowed: [cidr]}}``. Raises ValueRefused."""
    return [
        RangeOrder(
            name,
            {parse_key(key): _sorted(cidrs) for key, cidrs in (row.get("peers") or {}).items()},
            _sorted(row.get("borrowed") or ()),
        )
        for name, row in sorted(raw.items())
    ]


def _sorted(texts: t.Iterable[t.Any]) -> tuple[str, ...]:
    networks = dict(network_text_and_key(text, "bad_allowed_ip") for text in texts)
    return tuple(networks[order] for order in sorted(networks))


def ordered_state(state: NodeState, orders: t.Sequence[RangeOrder]) -> NodeState:
    """The confirmed state with the ranges of the orders. Raises ValueRefused, and then none of the orders holds."""
    found = {device.name: device for device in state.devices}
    for order in orders:
        before = found.get(order.device)
        if before is None:
            raise _refused(f"this node has no device {quoted(order.device)} of the fabric")
        found[order.device] = _ordered(before, order)
    return state._replace(devices=tuple(found[device.name] for device in state.devices))


def _ordered(device: NodeDevice, order: RangeOrder) -> NodeDevice:
    unknown = sorted(set(order.peers) - {str(peer.public_key) for peer in device.peers})
    if unknown:
        raise _refused(f"device {device.name} has no peer {unknown[0]}")
    routes, borrowed = PrefixSet.of_texts(device.routes), PrefixSet.of_texts(order.borrowed)
    peers = [
        peer._replace(allowed_ips=order.peers.get(str(peer.public_key), peer.allowed_ips)) for peer in device.peers
    ]
    others = [peer for peer in peers if peer.public_key not in order.peers]
    owners = {text: peer for peer in others for text in peer.allowed_ips}
    taken = PrefixSet.of_texts(owners) - borrowed
    for peer in peers:
        if peer.public_key not in order.peers:
            continue
        for text in peer.allowed_ips:
            if not routes.covers(parse_network(text)):
                raise _refused(f"{text} of peer {peer.public_key} is outside of the routes of device {device.name}")
            if owners.setdefault(text, peer) is not peer:
                raise _refused(f"{text} of peer {peer.public_key} is peer {owners[text].public_key}'s, which keeps it")
        mine = PrefixSet.of_texts(peer.allowed_ips) - borrowed
        if mine & taken:
            shared = (mine & taken).cidrs()[0]
            raise _refused(f"{shared} of peer {peer.public_key} is inside the ranges of another peer, which keeps it")
        taken = taken | mine
    return device.with_peers(peers)._replace(borrowed=order.borrowed)


def plan_ranges(order: RangeOrder, live: Dump) -> PeerPlan:
    """What the device has to be sent: allowed IPs of the peers of the order. Raises ValueRefused for a peer that it does not have.

    What a node set otherwise since its last run (an endpoint that roamed, say) is no matter of this.
    """
    desired = []
    for key, cidrs in sorted(order.peers.items()):
        there = live.peers.get(key)
        if there is None:
            raise _refused(f"device {order.device} has no peer {key}, although the confirmed state of this node has it")
        preshared = Preshared(fingerprint=there.preshared_key) if there.preshared_key else None
        desired.append(Peer(key, None, cidrs, there.keepalive, preshared))
    return plan_peers(order.device, desired, live.peers, 0, purge=False)


def check_link(device: str, link: t.Mapping[str, t.Any] | None, alias: str) -> None:
    """Raises ValueRefused where the link of a device is not there, or another program's. alias: the mark of the fabric."""
    if link is None:
        raise _refused(f"device {device} is not there, although the confirmed state of this node has it")
    if link["implementation"] is None or not is_our_alias(link["alias"], alias):
        raise _refused(f"the link {device} is no WireGuard device with the mark of the fabric and is left alone")


def check_host(state: NodeState | None, node: str) -> NodeState:
    """The confirmed state. Raises ValueRefused where there is none, or it is another host's. node: the host's name in the inventory; may be empty."""
    if state is None or state.absent:
        raise _refused("this node has no confirmed state of the fabric")
    if node and state.host not in (None, node):
        raise _refused(f"this machine is host {quoted(state.host)} of the inventory, and {quoted(node)} was asked")
    return state


def _refused(what: str) -> ValueRefused:
    return ValueRefused(REASON, f"{what}, so its peers' ranges alone cannot be changed; run the playbook mesh")
