# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Peer states and endpoint rotation: one pass as a function of what was, what WireGuard says, and the clock (kubespan 8, 9)."""

from __future__ import annotations

import math
import typing as t

from ..._dataplane.peer_spec import LivePeer
from .endpoints import parse_addr_port
from .generations import ENDPOINT_TIMEOUT, PEER_DOWN_INTERVAL
from .peers import Peer

UNKNOWN, UP, DOWN = "unknown", "up", "down"
Age = t.Optional[float]


class Status(t.NamedTuple):
    """What is known of a peer. Times are wall clock seconds as WireGuard's are; None: never."""

    state: str = UNKNOWN
    endpoint: t.Optional[str] = None
    last_handshake: t.Optional[float] = None
    rx_bytes: int = 0
    tx_bytes: int = 0
    last_used: t.Optional[str] = None
    changed_at: t.Optional[float] = None
    label: str = ""


class Decision(t.NamedTuple):
    """One peer in one pass. ``write``: the endpoint to give to WireGuard, None: leave it alone."""

    state_before: str
    should_change: bool
    picked: t.Optional[str]
    write: t.Optional[str]
    status: Status


class RotationResult(t.NamedTuple):
    """One pass. ``writes`` {public key: endpoint} holds only what differs from the device; ``gone`` are dropped keys."""

    statuses: t.Dict[str, Status]
    writes: t.Dict[str, str]
    decisions: t.Dict[str, Decision]
    gone: t.List[str]


def peer_state(handshake_age: Age, change_age: Age, has_last_used: bool) -> str:
    """The state of a peer from the ages in seconds of its last handshake and of our last endpoint change."""
    handshake = math.inf if handshake_age is None else handshake_age
    change = math.inf if change_age is None else change_age
    fresh = handshake < change
    if change < ENDPOINT_TIMEOUT:
        state = UP if fresh else UNKNOWN
    elif change <= PEER_DOWN_INTERVAL:
        state = UP if fresh else DOWN
    else:
        state = UP if handshake < PEER_DOWN_INTERVAL else DOWN
    return UNKNOWN if state == DOWN and not has_last_used else state


def pick(announced: t.Sequence[str], last_used: t.Optional[str], current: t.Optional[str]) -> t.Optional[str]:
    """The next endpoint to try, or None: nothing else is known."""
    if not announced:
        return None
    if last_used is None or last_used not in announced:
        return announced[0]
    if len(announced) == 1 and current == last_used:
        return None
    return announced[(announced.index(last_used) + 1) % len(announced)]


def same_endpoint(text: t.Optional[str]) -> t.Optional[str]:
    """An endpoint in one spelling, for comparing by value."""
    return None if text is None else str(parse_addr_port(text))


def decide(
    status: Status,
    announced: t.Iterable[str],
    endpoint: t.Optional[str],
    last_handshake: t.Optional[float],
    now: float,
    original: bool = False,
) -> Decision:
    """One peer. endpoint and last_handshake are the device's; the status's own of them are the last pass's.

    ``original``: as the original does it, which forgets a working endpoint after a restart and can stall on an endpoint
    that is announced twice. Ours adopts the endpoint of a peer whose handshake is fresh, and takes duplicates once.
    """
    endpoint, last_used = same_endpoint(endpoint), same_endpoint(status.last_used)
    choices = [str(parse_addr_port(text)) for text in announced]
    choices = choices if original else list(dict.fromkeys(choices))
    changed_at = status.changed_at
    if changed_at is not None and changed_at > now:
        changed_at = now  # the clock was set back: nothing is known about the time that passed
    handshake_age = None if not last_handshake else max(0.0, now - last_handshake)
    state = peer_state(handshake_age, None if changed_at is None else now - changed_at, last_used is not None)
    if not original and last_used is None and endpoint is not None and state == UP:
        last_used = endpoint
    should_change = state == DOWN or last_used is None
    picked = pick(choices, last_used, endpoint) if should_change else None
    before, write = state, None
    if picked is not None:
        write = endpoint = last_used = picked
        changed_at, state = now, UNKNOWN
    elif last_used is not None and endpoint in (None, last_used):
        write = last_used
    after = status._replace(state=state, endpoint=endpoint, last_handshake=last_handshake or None, last_used=last_used, changed_at=changed_at)
    return Decision(before, should_change, picked, write, after)


def run_pass(
    peers: t.Mapping[str, Peer],
    statuses: t.Mapping[str, Status],
    device: t.Mapping[str, LivePeer],
    now: float,
    original: bool = False,
) -> RotationResult:
    """All peers. device: its peers as they are, by public key; empty without a device.

    Targets are to be computed from the statuses that this returns: a peer whose endpoint was just changed is not up.
    """
    after: t.Dict[str, Status] = {}
    writes: t.Dict[str, str] = {}
    decisions: t.Dict[str, Decision] = {}
    for key, peer in peers.items():
        live = device.get(key, LivePeer())
        known = statuses.get(key, Status())._replace(label=peer.label, rx_bytes=live.rx_bytes, tx_bytes=live.tx_bytes)
        decision = decide(known, peer.endpoints, live.endpoint, live.last_handshake, now, original)
        decisions[key], after[key] = decision, decision.status
        if decision.write is not None and decision.write != same_endpoint(live.endpoint):
            writes[key] = decision.write
    return RotationResult(after, writes, decisions, sorted(set(statuses) - set(peers)))
