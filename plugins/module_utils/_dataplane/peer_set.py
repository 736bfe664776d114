# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wanted peers against a device's dump: which peers to send, in an order that never leaves an allowed IP homeless.

WireGuard's cryptokey routing gives each network to one peer at most; adding it to a second one moves it, in the
kernel and in wireguard-go. So the steps are: add what is new to its new owner (swaps are done by that alone), then
set the exact list where something is left over, then remove peers. Splits and merges of prefixes pass through a state
in which both the old and the new prefixes exist, and the longer one decides.
"""

from __future__ import annotations

import typing as t

from .._plan.pending import Pending
from .._plan.plan import Plan
from .._values.addresses import network_text_and_key, overlaps, parse_network

#: WireGuard gives a session up 180 s after its handshake (REJECT_AFTER_TIME): an older one proves nothing.
HANDSHAKE_FRESH = 180

Dump = t.Mapping[str, t.Mapping[str, t.Any]]
Step = t.Dict[str, t.Any]


class PeerSet(t.NamedTuple):
    """plan: what changes, for people; steps: what to send, in order; after: peers by key as they will be.

    A step is ``{"op": "set", "public_key", "update_only": bool, "replace_allowed_ips": bool}`` plus those of
    ``endpoint`` (literal), ``persistent_keepalive``, ``preshared_key`` ({"file": path} or None: forget it) and
    ``allowed_ips`` (those to add, or all of them) that are to be sent; or ``{"op": "remove", "public_key"}``.
    """

    plan: Plan
    steps: t.List[Step]
    after: t.Dict[t.Union[str, Pending], t.Dict[str, t.Any]]


def view(peer: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    """What of a live peer is configuration, as diffs and results show it."""
    return {
        "endpoint": peer["endpoint"],
        "allowed_ips": sorted_cidrs(peer["allowed_ips"]),
        "persistent_keepalive": peer["persistent_keepalive"],
        "preshared_key": peer["preshared_key"],
    }


def sorted_cidrs(texts: t.Iterable[str]) -> t.List[str]:
    """Networks as text in the order of network_key."""
    texts = list(texts)
    if len(texts) < 2:  # nearly all peers of a large mesh, and parsing is what costs
        return texts
    return [text for _key, text in sorted(network_text_and_key(text) for text in texts)]


def endpoint_drifted(
    choices: t.Sequence[str], live: t.Mapping[str, t.Any], now: float, last: t.Optional[str] = None
) -> bool:
    """Whether the wanted endpoint must be sent to a live peer.

    choices: the literal endpoints that the wanted one stands for; none: the peer finds us. last: the endpoint that was
    configured last, when the caller knows it: another one is wanted now, so it is sent. Apart from that a peer that
    talks to us from somewhere else has roamed, and its new address is the better one as long as its last handshake is
    fresh; a stale one goes back to what is wanted, which also repairs an endpoint set by hand.
    """
    if not choices or live["endpoint"] in choices:
        return False
    if live["endpoint"] is None:
        return True
    if last is not None and last not in choices:
        return True
    return not live["last_handshake"] or now - live["last_handshake"] > HANDSHAKE_FRESH


def plan_peers(
    device: str,
    wanted: t.Sequence[t.Mapping[str, t.Any]],
    live: Dump,
    now: float,
    last_endpoints: t.Optional[t.Mapping[str, str]] = None,
    purge: bool = True,
    kept: t.AbstractSet[str] = frozenset(),
) -> PeerSet:
    """Compare. wanted: what parse_peers gave; live: the dump's peers; now: epoch seconds, like the dump's handshakes.

    kept: keys whose live peer is left exactly as it is (except that a wanted peer may take a network from it).
    """
    last = last_endpoints or {}
    routing = {cidr: key for key, peer in live.items() for cidr in peer["allowed_ips"]}
    ready = sorted((p for p in wanted if not isinstance(p["public_key"], Pending)), key=lambda p: p["public_key"])
    to_come = sorted((p for p in wanted if isinstance(p["public_key"], Pending)), key=lambda p: str(p["public_key"]))
    adding: t.List[Step] = []
    for peer in ready:
        settings = _settings(peer, live.get(peer["public_key"]), now, last.get(peer["public_key"]))
        new = [cidr for cidr in peer["allowed_ips"] if routing.get(cidr) != peer["public_key"]]
        if new or settings or peer["public_key"] not in live:
            adding.append(_set(peer, live, allowed_ips=new, replace=False, settings=settings))
        routing.update((cidr, peer["public_key"]) for cidr in new)
    exact = {peer["public_key"]: peer["allowed_ips"] for peer in ready}
    held: t.Dict[str, t.Set[str]] = {}
    for cidr, key in routing.items():
        held.setdefault(key, set()).add(cidr)
    left = {peer["public_key"]: _leftover(held, peer) for peer in ready}
    replacing = [
        _set(peer, live, allowed_ips=peer["allowed_ips"], replace=True, settings={})
        for peer in ready
        if left[peer["public_key"]] and not _awaited(left[peer["public_key"]], to_come)
    ]
    unwanted = [key for key in sorted(live) if key not in exact and key not in kept and purge]
    removing = [{"op": "remove", "public_key": key} for key in unwanted if not _awaited(live[key]["allowed_ips"], to_come)]

    staying = [key for key in live if key not in exact and (key in kept or not purge)]
    after: t.Dict[t.Any, t.Dict[str, t.Any]] = {
        key: dict(view(live[key]), allowed_ips=sorted_cidrs(held.get(key, ()))) for key in staying
    }
    after.update({p["public_key"]: _after(p, live.get(p["public_key"]), now, last) for p in ready})
    after.update({p["public_key"]: _after(p, None, now, last) for p in to_come})
    return PeerSet(_show(device, live, after), adding + replacing + removing, after)


def _settings(
    peer: t.Mapping[str, t.Any], live: t.Optional[t.Mapping[str, t.Any]], now: float, last: t.Optional[str]
) -> Step:
    """Everything but the allowed IPs that must be sent for a peer."""
    send: Step = {}
    psk = peer["preshared_key"]
    if live is None:
        if peer["endpoints"]:
            send["endpoint"] = peer["endpoints"][0]
        if peer["persistent_keepalive"]:
            send["persistent_keepalive"] = peer["persistent_keepalive"]
        if psk:
            send["preshared_key"] = psk
        return send
    if endpoint_drifted(peer["endpoints"], live, now, last):
        send["endpoint"] = peer["endpoints"][0]
    if peer["persistent_keepalive"] != live["persistent_keepalive"]:
        send["persistent_keepalive"] = peer["persistent_keepalive"]
    if (psk["fingerprint"] if psk else None) != live["preshared_key"]:
        send["preshared_key"] = psk
    return send


def _set(peer: t.Mapping[str, t.Any], live: Dump, allowed_ips: t.List[str], replace: bool, settings: Step) -> Step:
    # An update must not resurrect a peer that somebody removed since the dump, hence update_only.
    step: Step = {"op": "set", "public_key": peer["public_key"], "update_only": replace or peer["public_key"] in live}
    step["replace_allowed_ips"] = replace
    if allowed_ips or replace:
        step["allowed_ips"] = allowed_ips
    step.update(settings)
    return step


def _leftover(held: t.Mapping[str, t.Set[str]], peer: t.Mapping[str, t.Any]) -> t.Set[str]:
    return held.get(peer["public_key"], set()).difference(peer["allowed_ips"])


def _awaited(cidrs: t.Iterable[str], to_come: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
    """True while a peer whose key is not known yet wants one of these ranges: the old peer carries it until then."""
    mine = [parse_network(cidr) for cidr in cidrs] if to_come else []
    return any(overlaps(parse_network(cidr), net) for other in to_come for cidr in other["allowed_ips"] for net in mine)


def _after(
    peer: t.Mapping[str, t.Any],
    live: t.Optional[t.Mapping[str, t.Any]],
    now: float,
    last: t.Mapping[str, str],
) -> t.Dict[str, t.Any]:
    endpoint = peer["endpoints"][0] if peer["endpoints"] else None
    if live is not None and not endpoint_drifted(peer["endpoints"], live, now, last.get(peer["public_key"])):
        endpoint = live["endpoint"]
    psk = peer["preshared_key"]
    return {
        "endpoint": endpoint,
        "allowed_ips": list(peer["allowed_ips"]),
        "persistent_keepalive": peer["persistent_keepalive"],
        "preshared_key": psk["fingerprint"] if psk else None,
    }


def _show(device: str, live: Dump, after: t.Mapping[t.Any, t.Mapping[str, t.Any]]) -> Plan:
    plan = Plan()
    for key in sorted(after, key=str):
        ident = "{0} {1}".format(device, key)
        if key not in live:
            plan.create("peer", ident, after[key])
            continue
        before = view(live[key])
        if before == after[key]:
            plan.unchanged += 1
        else:
            plan.update("peer", ident, before, after[key])
    for key in sorted(set(live) - set(after)):
        plan.delete("peer", "{0} {1}".format(device, key), view(live[key]))
    return plan
