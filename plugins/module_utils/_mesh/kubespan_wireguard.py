# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""The WireGuard device of the mesh: what is wanted, and the messages from here to there (kubespan 10, 18.3)."""

from __future__ import annotations

import base64
import typing as t

from .._values.addresses import parse_network
from .kubespan_generations import KEEPALIVE, Layout
from .kubespan_peers import Peer
from .kubespan_ranges import PrefixSet
from .kubespan_states import same_endpoint

Data = t.Dict[str, t.Any]
NO_KEY = base64.b64encode(bytes(32)).decode("ascii")
DEVICE_FIELDS = ("private_key", "listen_port", "fwmark")


def wanted_device(
    peers: t.Iterable[Peer], preshared_key: t.Optional[str], endpoints: t.Mapping[str, str], layout: Layout = Layout()
) -> Data:
    """The device as it should be. Allowed IPs are complete whatever a peer's state is.

    endpoints: by public key, what rotation wants written; a peer without keeps the endpoint that it has.
    """
    return {
        "listen_port": layout.port,
        "fwmark": layout.mark_from_wireguard,
        "peers": [
            {
                "public_key": peer.public_key,
                "endpoint": endpoints.get(peer.public_key),
                "preshared_key": preshared_key,
                "persistent_keepalive": KEEPALIVE,
                "allowed_ips": list(peer.allowed_ips),
            }
            for peer in peers
        ],
    }


def device_steps(existing: t.Mapping[str, t.Any], wanted: t.Mapping[str, t.Any]) -> t.List[Data]:
    """Messages in the order of sending; [] when the device is as wanted.

    ``{op: "set_device", ...}`` with the fields that differ; ``{op: "set_peer", public_key, endpoint, preshared_key,
    persistent_keepalive, replace_allowed_ips, allowed_ips}`` with the peer's whole list; ``{op: "remove_peer",
    public_key}``. ``preshared_key`` says only whether one is sent, ``clear_preshared_key`` that 32 zero bytes are. Peers
    are never removed to be changed, so sessions survive. Who takes a prefix over comes before who gives it up; apart from
    that peers come in order of their keys.
    """
    steps: t.List[Data] = []
    fields = {name: wanted[name] for name in DEVICE_FIELDS if name in wanted and wanted[name] != existing.get(name)}
    if fields:
        steps.append(dict(fields, op="set_device"))
    have = {peer["public_key"]: peer for peer in existing.get("peers") or ()}
    want = {peer["public_key"]: peer for peer in wanted.get("peers") or ()}
    changed = [key for key in sorted(want, key=str) if key not in have or _differs(have[key], want[key])]
    removed = [key for key in sorted(have, key=str) if key not in want]
    takes, gives = _moves(have, want, changed + removed)
    for key in changed:
        if key in takes and key in gives:
            # both sides of an exchange: take over first, so that no address is homeless in between
            steps.append(_set_peer(have.get(key), dict(want[key], allowed_ips=takes[key]), replace=False))
    steps.extend(_set_peer(have.get(key), want[key]) for key in changed if key in takes and key not in gives)
    rest = removed + [key for key in changed if key not in takes or key in gives]
    for key in sorted(rest, key=str):
        steps.append(_set_peer(have.get(key), want[key]) if key in want else {"op": "remove_peer", "public_key": key})
    return steps


def _set_peer(have: t.Optional[t.Mapping[str, t.Any]], want: t.Mapping[str, t.Any], replace: bool = True) -> Data:
    secret, old = _secret(want), _secret(have or {})
    step = {
        "op": "set_peer",
        "public_key": want["public_key"],
        "endpoint": same_endpoint(want.get("endpoint")),
        "preshared_key": secret is not None,
        "persistent_keepalive": want["persistent_keepalive"],
        "replace_allowed_ips": replace,
        "allowed_ips": _sorted(want["allowed_ips"]),
    }
    if secret is None and old is not None:
        step["clear_preshared_key"] = True
    return step


def _secret(peer: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """A preshared key; 32 zero bytes in a dump mean none."""
    secret = peer.get("preshared_key")
    return None if secret in (None, "", NO_KEY) else secret


def _differs(have: t.Mapping[str, t.Any], want: t.Mapping[str, t.Any]) -> bool:
    endpoint = same_endpoint(want.get("endpoint"))
    if endpoint is not None and endpoint != same_endpoint(have.get("endpoint")):
        return True
    if _secret(have) != _secret(want) or (have.get("persistent_keepalive") or 0) != want["persistent_keepalive"]:
        return True
    first, second = have.get("allowed_ips") or [], want["allowed_ips"]
    return first != second and _parsed(first) != _parsed(second)


def _parsed(texts: t.Iterable[str]) -> t.Set[t.Any]:
    return {parse_network(text) for text in texts}


def _sorted(texts: t.Sequence[str]) -> t.List[str]:
    if len(texts) < 2:
        return list(texts)
    return [text for dummy, text in sorted((_order(text), text) for text in texts)]


def _order(text: str) -> t.Tuple[int, int, int]:
    network = parse_network(text)
    return network.version, int(network.network_address), network.prefixlen


def _moves(
    have: t.Mapping[str, t.Mapping[str, t.Any]], want: t.Mapping[str, t.Mapping[str, t.Any]], keys: t.Iterable[str]
) -> t.Tuple[t.Dict[str, t.List[str]], t.Set[str]]:
    """{key: prefixes it takes over from others}, and the keys that give any up."""
    gained, lost = {}, {}
    for key in keys:
        before = PrefixSet.of(_parsed((have.get(key) or {}).get("allowed_ips") or ()))
        after = PrefixSet.of(_parsed((want.get(key) or {}).get("allowed_ips") or ()))
        gained[key], lost[key] = after - before, before - after
    moving = PrefixSet.union(gained.values()) & PrefixSet.union(lost.values())
    takes: t.Dict[str, t.List[str]] = {}
    gives: t.Set[str] = set()
    if moving:
        for key, more in gained.items():
            if more & moving:
                # whole prefixes of the wanted list, so that the last message finds them as they are to be
                takes[key] = [text for text in want[key]["allowed_ips"] if PrefixSet.of([parse_network(text)]) & more]
            if lost[key] & moving:
                gives.add(key)
    return takes, gives
