# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired peers against a device's dump: which peers to send, in an order that never leaves an allowed IP homeless.

WireGuard's cryptokey routing gives each network to one peer at most; adding it to a second one moves it, in the
kernel and in wireguard-go. So the steps are: add what is new to its new owner (swaps are done by that alone), then
set the exact list where something is left over, then remove peers. Splits and merges of prefixes pass through a state
in which both the old and the new prefixes exist, and the longer one decides.
"""

from __future__ import annotations

import typing as t

from .._plan.plan import Plan
from .._values.addresses import overlaps, parse_network
from .peer_spec import HANDSHAKE_FRESH, Key, LivePeer, Peer, PeerStep, Preshared, sorted_cidrs

Live = t.Mapping[str, LivePeer]


class PeerPlan(t.NamedTuple):
    """plan: what changes, for people; steps: what to send, in order; after: peers by key as they will be."""

    plan: Plan
    steps: list[PeerStep]
    after: dict[Key, LivePeer]


def endpoint_drifted(choices: t.Sequence[str], live: LivePeer, now: float, last: str | None = None) -> bool:
    """Whether the desired endpoint must be sent to a live peer.

    choices: the literal endpoints of the desired one; none: the peer finds us. last: the endpoint that was
    configured last, when the caller knows it: another one is desired now, so it is sent. Apart from that a peer that
    talks to us from somewhere else has roamed, and its new address is the better one as long as its last handshake is
    fresh; a stale one goes back to what is desired, which also repairs an endpoint set by hand.
    """
    if not choices or live.endpoint in choices:
        return False
    if live.endpoint is None:
        return True
    if last is not None and last not in choices:
        return True
    return not live.last_handshake or now - live.last_handshake > HANDSHAKE_FRESH


def plan_peers(
    device: str,
    desired: t.Sequence[Peer],
    live: Live,
    now: float,
    last_endpoints: t.Mapping[str, str] | None = None,
    purge: bool = True,
    kept: t.AbstractSet[str] = frozenset(),
) -> PeerPlan:
    """Compare. desired: what settle_peers gave; live: the dump's peers; now: epoch seconds, like the dump's handshakes.

    kept: keys of live peers that are left exactly as they are (except that a desired peer may take a network from it).
    """
    last = last_endpoints or {}
    routing: dict[str, Key] = {cidr: key for key, peer in live.items() for cidr in peer.allowed_ips}
    ready = sorted((peer for peer in desired if not peer.deferred), key=_key)
    to_come = sorted((peer for peer in desired if peer.deferred), key=_key)
    adding: list[PeerStep] = []
    after: dict[Key, LivePeer] = {}
    for peer in ready:
        key, there = t.cast(str, peer.public_key), live.get(t.cast(str, peer.public_key))
        new = tuple([cidr for cidr in peer.allowed_ips if routing.get(cidr) != key])
        step = _settings(peer, there, now, last.get(key))
        if new or step is not None or there is None:
            # an update must not resurrect a peer that somebody removed since the dump
            adding.append((step or PeerStep(key))._replace(update_only=there is not None, allowed_ips=new))
        routing.update((cidr, key) for cidr in new)
        after[key] = _after(peer, there, step)
    exact = {peer.public_key for peer in ready}
    held: dict[Key, set[str]] = {}
    for cidr, owner in routing.items():
        held.setdefault(owner, set()).add(cidr)
    replacing = []
    for peer in ready:
        left = held.get(peer.public_key, set()).difference(peer.allowed_ips)
        if left and not _awaited(left, to_come):
            replacing.append(
                PeerStep(
                    t.cast(str, peer.public_key),
                    update_only=True,
                    replace_allowed_ips=True,
                    allowed_ips=peer.allowed_ips,
                )
            )
    unwanted = [key for key in sorted(live) if key not in exact and key not in kept and purge]
    removing = [PeerStep(key, remove=True) for key in unwanted if not _awaited(live[key].allowed_ips, to_come)]
    for key in live:
        if key not in exact and (key in kept or not purge):
            after[key] = live[key]._replace(allowed_ips=tuple(held.get(key, ())))
    after.update((peer.public_key, _after(peer, None, None)) for peer in to_come)
    return PeerPlan(_show(device, live, after), adding + replacing + removing, after)


def _key(peer: Peer) -> str:
    return str(peer.public_key)


def _settings(peer: Peer, live: LivePeer | None, now: float, last: str | None) -> PeerStep | None:
    """Everything but the allowed IPs that must be sent for a peer; None: nothing."""
    endpoint = keepalive = preshared = None
    if endpoint_drifted(peer.endpoints, live or LivePeer(), now, last):
        endpoint = peer.endpoints[0]
    if peer.keepalive != (live.keepalive if live else 0):
        keepalive = peer.keepalive
    if _fingerprint(peer) != (live.preshared_key if live else None):
        preshared = peer.preshared or Preshared()
    if endpoint is None and keepalive is None and preshared is None:
        return None
    return PeerStep(t.cast(str, peer.public_key), endpoint=endpoint, keepalive=keepalive, preshared=preshared)


def _fingerprint(peer: Peer) -> str | None:
    return peer.preshared.fingerprint if peer.preshared else None


def _awaited(cidrs: t.Iterable[str], to_come: t.Sequence[Peer]) -> bool:
    """True while a peer without a known key wants one of these ranges: the old peer carries it until then."""
    mine = [parse_network(cidr) for cidr in cidrs] if to_come else []
    return any(overlaps(parse_network(cidr), net) for other in to_come for cidr in other.allowed_ips for net in mine)


def _after(peer: Peer, live: LivePeer | None, step: PeerStep | None) -> LivePeer:
    """The peer as it will be: a live one keeps its endpoint unless the step sends another."""
    endpoint: str | None = peer.endpoints[0] if peer.endpoints else None
    if live is not None:
        endpoint = step.endpoint if step is not None and step.endpoint else live.endpoint
    return LivePeer(endpoint, peer.allowed_ips, peer.keepalive, _fingerprint(peer))


def _configured(peer: LivePeer) -> tuple[t.Any, ...]:
    return (peer.endpoint, sorted_cidrs(peer.allowed_ips), peer.keepalive, peer.preshared_key)


def _show(device: str, live: Live, after: t.Mapping[Key, LivePeer]) -> Plan:
    plan = Plan()
    for key in sorted(after, key=str):
        before = live.get(t.cast(str, key))
        if before is None:
            plan.create("peer", f"{device} {key}", after[key].shown())
        elif _configured(before) == _configured(after[key]):
            plan.unchanged += 1
        else:
            plan.update("peer", f"{device} {key}", before.shown(), after[key].shown())
    for gone in sorted(set(live) - set(after)):
        plan.delete("peer", f"{device} {gone}", live[gone].shown())
    return plan
