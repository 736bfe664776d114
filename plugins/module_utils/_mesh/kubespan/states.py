# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Peer states and endpoint rotation: one pass as a function of what was, what WireGuard reports, and the clock (kubespan 8, 9).

And what follows from the states: the sets of destinations that must go through the tunnel (kubespan 11.6, 14, 17.4, 18.1), what the
watcher keeps across restarts (16), and what people and Prometheus are shown (22.15).
"""

from __future__ import annotations

import ipaddress
import json
import math
import typing as t

from ..._dataplane.peer_spec import LivePeer
from ..._values.addresses import parse_network
from ..._values.keys import parse_key
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import ValueRefused
from .endpoints import parse_addr_port
from .generations import ENDPOINT_TIMEOUT, GENERATIONS, PEER_DOWN_INTERVAL, Generation
from .identity import looks_like_ula
from .peers import Peer

UNKNOWN, UP, DOWN = "unknown", "up", "down"
Age = t.Optional[float]
#: Of the file that the watcher keeps.
VERSION = 1
_METRIC = "multicluster_kubespan_peer"


class Status(t.NamedTuple):
    """What is known of a peer. Times are wall clock seconds as WireGuard's are; None: never."""

    state: str = UNKNOWN
    endpoint: str | None = None
    last_handshake: float | None = None
    rx_bytes: int = 0
    tx_bytes: int = 0
    last_used: str | None = None
    changed_at: float | None = None
    label: str = ""


class Decision(t.NamedTuple):
    """One peer in one pass. ``write``: the endpoint to give to WireGuard, None: leave it alone."""

    state_before: str
    should_change: bool
    picked: str | None
    write: str | None
    status: Status


class RotationResult(t.NamedTuple):
    """One pass. ``writes`` {public key: endpoint} holds only what differs from the device; ``gone`` are dropped keys."""

    statuses: dict[str, Status]
    writes: dict[str, str]
    decisions: dict[str, Decision]
    gone: list[str]


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


def pick(announced: t.Sequence[str], last_used: str | None, current: str | None) -> str | None:
    """The next endpoint to try, or None: nothing else is known."""
    if not announced:
        return None
    if last_used is None or last_used not in announced:
        return announced[0]
    if len(announced) == 1 and current == last_used:
        return None
    return announced[(announced.index(last_used) + 1) % len(announced)]


def same_endpoint(text: str | None) -> str | None:
    """An endpoint in one spelling, for comparing by value."""
    return None if text is None else str(parse_addr_port(text))


def decide(
    status: Status,
    announced: t.Iterable[str],
    endpoint: str | None,
    last_handshake: float | None,
    now: float,
    original: bool = False,
) -> Decision:
    """One peer. endpoint and last_handshake are the device's; the status's own of them are the last pass's.

    ``original``: as Talos does it, which forgets a working endpoint after a restart and can stall on an endpoint
    that is announced twice. The default adopts the endpoint of a peer with a fresh handshake, and takes duplicates once.
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
    after = status._replace(
        state=state,
        endpoint=endpoint,
        last_handshake=last_handshake or None,
        last_used=last_used,
        changed_at=changed_at,
    )
    return Decision(before, should_change, picked, write, after)


def run_pass(
    peers: t.Mapping[str, Peer],
    statuses: t.Mapping[str, Status],
    device: t.Mapping[str, LivePeer],
    now: float,
    original: bool = False,
) -> RotationResult:
    """All peers. device: its peers as they are, by public key; empty without a device.

    Targets are to be computed from the statuses that this returns: a peer with an endpoint that was just changed is not up.
    """
    after: dict[str, Status] = {}
    writes: dict[str, str] = {}
    decisions: dict[str, Decision] = {}
    for key, peer in peers.items():
        live = device.get(key, LivePeer())
        known = statuses.get(key, Status())._replace(label=peer.label, rx_bytes=live.rx_bytes, tx_bytes=live.tx_bytes)
        decision = decide(known, peer.endpoints, live.endpoint, live.last_handshake, now, original)
        decisions[key], after[key] = decision, decision.status
        if decision.write is not None and decision.write != same_endpoint(live.endpoint):
            writes[key] = decision.write
    return RotationResult(after, writes, decisions, sorted(set(statuses) - set(peers)))


def targets(
    peers: t.Iterable[tuple[PrefixSet | t.Iterable[str], str]],
    force_routing: bool = True,
    gen: Generation = GENERATIONS["current"],
    subnet: ipaddress.IPv6Network | None = None,
) -> PrefixSet:
    """The union over all contributing peers, given as (allowed IPs, state); adjacent prefixes become one range.

    allowed IPs: texts, or their set. subnet: the mesh's own /64, of which addresses are no
    targets in the current generation. Without it Talos' test applies to each prefix, which leaves a site's
    addresses out that only look alike: their traffic would then not be protected.
    """
    chosen = [allowed for allowed, state in peers if force_routing or state == UP]
    if not gen.ulas_in_sets and subnet is None:
        texts = (
            text for allowed in chosen for text in (allowed.cidrs() if isinstance(allowed, PrefixSet) else allowed)
        )
        networks = (parse_network(text) for text in texts)
        return PrefixSet.of(network for network in networks if not looks_like_ula(network.network_address))
    sets = [allowed for allowed in chosen if isinstance(allowed, PrefixSet)]
    union = PrefixSet.union(
        [
            *sets,
            PrefixSet.of_texts(text for allowed in chosen if not isinstance(allowed, PrefixSet) for text in allowed),
        ]
    )
    return union if gen.ulas_in_sets or subnet is None else union - PrefixSet.of([subnet])


def render_state(statuses: t.Mapping[str, Status]) -> str:
    """The file's text; peers for which we never set an endpoint have no entry."""
    peers = {
        key: {"last_used": status.last_used, "changed_at": status.changed_at}
        for key, status in statuses.items()
        if status.last_used is not None
    }
    return json.dumps({"version": VERSION, "peers": peers}, indent=1, sort_keys=True) + "\n"


def parse_state(text: str | None) -> dict[str, Status]:
    """Statuses to start from. Whatever cannot be read counts as lost, which does no harm: working endpoints are adopted."""
    try:
        content = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(content, dict) or content.get("version") != VERSION or not isinstance(content.get("peers"), dict):
        return {}
    statuses = {}
    for key, entry in content["peers"].items():
        try:
            last_used = str(parse_addr_port(entry["last_used"]))
            statuses[parse_key(key)] = Status(last_used=last_used, changed_at=_time(entry.get("changed_at")))
        except (ValueRefused, AttributeError, KeyError, TypeError):
            continue
    return statuses


def _time(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


def status_rows(statuses: t.Mapping[str, Status], now: float) -> list[dict[str, t.Any]]:
    """One plain map a peer, sorted by label and key; ages in whole seconds, None: never."""
    return [
        {
            "public_key": key,
            "label": status.label,
            "endpoint": status.endpoint,
            "state": status.state,
            "rx_bytes": status.rx_bytes,
            "tx_bytes": status.tx_bytes,
            "handshake_age": _age(status.last_handshake, now),
            "last_used_endpoint": status.last_used,
            "endpoint_change_age": _age(status.changed_at, now),
        }
        for key, status in sorted(statuses.items(), key=_label)
    ]


def _label(item: tuple[str, Status]) -> tuple[str, str]:
    return item[1].label, item[0]


def _age(moment: float | None, now: float) -> int | None:
    return None if not moment else max(0, int(now - moment))


def _plain(text: str) -> str:
    """A label came from another node: nothing of it may move a terminal's cursor."""
    return "".join(char if char.isprintable() else "?" for char in text[:63])


def metrics(statuses: t.Mapping[str, Status]) -> str:
    """Text for node-exporter's textfile collector."""
    families = [
        ("last_handshake_seconds", "gauge", "Time of the last handshake, 0 for never.", "last_handshake"),
        ("receive_bytes_total", "counter", "Bytes received from the peer.", "rx_bytes"),
        ("transmit_bytes_total", "counter", "Bytes sent to the peer.", "tx_bytes"),
    ]
    lines = [f"# HELP {_METRIC}_state 1 for the state that the peer is in.", f"# TYPE {_METRIC}_state gauge"]
    ordered = sorted(statuses.items(), key=_label)
    for key, status in ordered:
        for state in (UP, DOWN, UNKNOWN):
            lines.append(f'{_METRIC}_state{{{_labels(key, status)},state="{state}"}} {int(status.state == state)}')
    for name, kind, text, field in families:
        lines.append(f"# HELP {_METRIC}_{name} {text}")
        lines.append(f"# TYPE {_METRIC}_{name} {kind}")
        lines.extend(
            f"{_METRIC}_{name}{{{_labels(key, status)}}} {getattr(status, field) or 0}" for key, status in ordered
        )
    return "\n".join(lines) + "\n"


def _labels(key: str, status: Status) -> str:
    return f'peer="{_escaped(_plain(status.label))}",public_key="{_escaped(_plain(key))}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
