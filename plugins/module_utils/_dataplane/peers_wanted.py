# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The peers that a caller wants, checked one by one: a bad peer is refused by name and the others go on.

This is the last check before the kernel. What a peer may claim (grants) was settled earlier, by check_claims
(decision 29); here only what no device should ever be given is refused.
"""

from __future__ import annotations

import typing as t

from .._plan.pending import Pending
from .._plan.plan import Refusal
from .._values.addresses import is_plain_endpoint, network_text_and_key, parse_address, parse_endpoint, special_kind
from .._values.keys import is_weak, parse_key
from .._values.numbers import parse_decimal
from .._values.refused import ValueRefused, quoted

Peer = t.Dict[str, t.Any]


def parse_peers(
    device: str,
    peers: t.Iterable[t.Mapping[str, t.Any]],
    live: t.Mapping[str, t.Mapping[str, t.Any]],
    own_key: t.Union[str, Pending, None],
    resolved: t.Mapping[str, t.Sequence[str]],
    fingerprints: t.Mapping[str, t.Optional[str]],
) -> t.Tuple[t.List[Peer], t.List[Refusal], t.Set[str]]:
    """Normalise wanted peers. Returns (peers, refusals, keys whose live peer is left exactly as it is).

    peers: ``{public_key: text|Pending, endpoint: text|None, allowed_ips: [cidr], persistent_keepalive: int,
    preshared_key: None|{"file": path}}``; live: the dump's peers by public key; resolved: DNS name -> its addresses, none
    when it does not resolve; fingerprints: path of a preshared key -> its
    fingerprint, None when it cannot be read.

    In the answer an endpoint is literal and comes with all its alternatives (``endpoints``), and
    ``preshared_key`` has its ``fingerprint``. The live peer of a refused one is left alone, so that a typing error or
    a resolver that is down does not cut a working tunnel; except for keys that must never be peers.
    """
    holders = {cidr: key for key, peer in live.items() for cidr in peer["allowed_ips"]}
    parsed: t.List[Peer] = []
    refusals: t.List[Refusal] = []
    kept: t.Set[str] = set()
    seen: t.Set[t.Any] = set()
    for raw in peers:
        key = raw.get("public_key")
        name = "{0} {1}".format(device, key if isinstance(key, (str, Pending)) else quoted(key))
        try:
            key = _parse_public_key(key, own_key, seen)
        except ValueRefused as error:
            shown = name if len(name) <= 120 else name[:117] + "..."
            refusals.append(Refusal(shown if shown.isprintable() else ascii(shown), error.reason, error.message))
            continue
        seen.add(key)
        try:
            parsed.append(_parse_peer(raw, key, resolved, fingerprints))
        except ValueRefused as error:
            refusals.append(Refusal(name, error.reason, error.message))
            kept.add(key)
    allowed, losers, twice = _settle_claims(device, parsed, holders)
    return allowed, refusals + twice, {key for key in kept.union(losers) if isinstance(key, str)}


def _parse_public_key(key: t.Any, own_key: t.Any, seen: t.Set[t.Any]) -> t.Any:
    if not isinstance(key, Pending):
        parse_key(key)
        if is_weak(key):
            raise ValueRefused("weak_key", "this key agrees with every other on the same secret")
        if key == own_key:
            raise ValueRefused("own_key", "this is the device's own key")
    if key in seen:
        raise ValueRefused("claimed_twice", "another peer of this device has the same public key")
    return key


def _parse_peer(
    raw: t.Mapping[str, t.Any],
    key: t.Union[str, Pending],
    resolved: t.Mapping[str, t.Sequence[str]],
    fingerprints: t.Mapping[str, t.Optional[str]],
) -> Peer:
    networks = dict(network_text_and_key(text, "bad_allowed_ip") for text in raw.get("allowed_ips") or ())
    keepalive = parse_decimal(raw.get("persistent_keepalive") or 0, "bad_keepalive")
    if keepalive > 65535:
        raise ValueRefused("bad_keepalive", "{0} seconds are more than 65535".format(keepalive))
    return {
        "public_key": key,
        "endpoints": literal_endpoints(raw.get("endpoint"), resolved),
        "allowed_ips": [networks[order] for order in sorted(networks)],
        "persistent_keepalive": keepalive,
        "preshared_key": _parse_preshared_key(raw.get("preshared_key"), fingerprints),
    }


def literal_endpoints(text: t.Any, resolved: t.Mapping[str, t.Sequence[str]]) -> t.List[str]:
    """The literal endpoints that a wanted one stands for, the preferred first. None and ``""``: no endpoint, []."""
    if text is None or text == "":
        return []
    if is_plain_endpoint(text):
        return [text]
    endpoint = parse_endpoint(text)
    if endpoint.address is None:
        choices = usable(resolved.get(endpoint.host, ()), endpoint.port)
        if not choices:
            raise ValueRefused("bad_endpoint", "{0} does not resolve to a usable address".format(quoted(endpoint.host)))
        return choices
    kind = special_kind(endpoint.address)
    if kind:
        raise ValueRefused("endpoint_special", "{0} is no address of another host ({1})".format(endpoint.host, kind))
    return [str(endpoint)]


def names_to_resolve(peers: t.Iterable[t.Mapping[str, t.Any]]) -> t.List[str]:
    """DNS names in wanted endpoints, sorted. Malformed ones are left out: parse_peers refuses them."""
    names = set()
    for peer in peers:
        text = peer.get("endpoint")
        try:
            if text and not is_plain_endpoint(text) and parse_endpoint(text).address is None:
                names.add(parse_endpoint(text).host)
        except ValueRefused:
            continue
    return sorted(names)


def preshared_files(peers: t.Iterable[t.Mapping[str, t.Any]]) -> t.List[str]:
    """Paths of wanted preshared keys, sorted."""
    wanted = (peer.get("preshared_key") for peer in peers)
    return sorted({w["file"] for w in wanted if isinstance(w, dict) and isinstance(w.get("file"), str)})


def usable(addresses: t.Iterable[str], port: int) -> t.List[str]:
    """Resolved addresses as literal endpoints: special ones left out, IPv4 first, in a stable order."""
    good = {parse_address(text) for text in addresses}
    ordered = sorted((a for a in good if special_kind(a) is None), key=lambda a: (a.version, int(a)))
    return ["[{0}]:{1}".format(a, port) if a.version == 6 else "{0}:{1}".format(a, port) for a in ordered]


def _parse_preshared_key(
    raw: t.Any, fingerprints: t.Mapping[str, t.Optional[str]]
) -> t.Optional[t.Dict[str, t.Optional[str]]]:
    if not raw:
        return None
    path = raw.get("file") if isinstance(raw, dict) else None
    if not isinstance(path, str) or not path.startswith("/"):
        raise ValueRefused("bad_preshared_key", "preshared_key takes {file: absolute path}")
    if fingerprints.get(path) is None:
        raise ValueRefused("bad_preshared_key", "{0} does not hold a key that can be read".format(quoted(path)))
    return {"file": path, "fingerprint": fingerprints[path]}


def _settle_claims(
    device: str, peers: t.List[Peer], holders: t.Mapping[str, str]
) -> t.Tuple[t.List[Peer], t.List[t.Any], t.List[Refusal]]:
    """Of two peers with the same allowed IP the live holder stays, else the first by key (decision 39)."""
    claims: t.Dict[str, t.List[Peer]] = {}
    for peer in peers:
        for cidr in peer["allowed_ips"]:
            claims.setdefault(cidr, []).append(peer)
    losers: t.Dict[int, str] = {}
    for cidr in sorted(cidr for cidr, claimants in claims.items() if len(claimants) > 1):
        claimants = [peer for peer in claims[cidr] if id(peer) not in losers]
        claimants.sort(key=lambda peer: (holders.get(cidr) != peer["public_key"], str(peer["public_key"])))
        losers.update((id(peer), cidr) for peer in claimants[1:])
    refusals = [
        Refusal(
            "{0} {1}".format(device, peer["public_key"]),
            "claimed_twice",
            "{0} is also wanted by another peer of this device".format(losers[id(peer)]),
        )
        for peer in peers
        if id(peer) in losers
    ]
    losing = [peer["public_key"] for peer in peers if id(peer) in losers]
    return [peer for peer in peers if id(peer) not in losers], losing, refusals
