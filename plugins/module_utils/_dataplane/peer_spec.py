# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A WireGuard peer: the one value from what a caller wants to what the kernel is given, and its one JSON form.

A bad peer is refused by name and the others go on. This is the last check before the kernel: what a peer may claim (grants) was
settled earlier, by check_claims; here only what no device should ever be given is refused.
"""

from __future__ import annotations

import typing as t

from .._plan.plan import Pending, Refusal
from .._values.addresses import is_plain_endpoint, network_text_and_key, parse_address, parse_endpoint, special_kind
from .._values.keys import is_weak, parse_key
from .._values.refused import ValueRefused, quoted
from .._values.text import parse_decimal

#: WireGuard gives a session up 180 s after its handshake (REJECT_AFTER_TIME): an older one proves nothing.
HANDSHAKE_FRESH = 180

Data = dict[str, t.Any]
Key = t.Union[str, Pending]


def is_fresh(last: float | None, now: float) -> bool:
    """Whether a session of a handshake may still live, both in epoch seconds of one clock; not where the clock was set back since."""
    if not last:
        return False
    return abs(now - last) <= HANDSHAKE_FRESH


def handshake_age(last: float | None, now: float) -> int | None:
    """Seconds since a handshake, both in epoch seconds of one clock. None where there was none (0 or None), or its age is unknown.

    A handshake that is further ahead of the clock than a session lives is from before the clock was set back.
    """
    if not last or last - now > HANDSHAKE_FRESH:
        return None
    return max(0, int(now - last))


class Preshared(t.NamedTuple):
    """Where a preshared key is: in a ``file`` of this host, or ``raw`` in a rollback journal; with neither the peer forgets its key."""

    file: str | None = None
    raw: str | None = None
    fingerprint: str | None = None


class Peer(t.NamedTuple):
    """A desired peer. ``endpoint`` is ``address:port`` or ``name:port``; None: the peer finds us.

    ``allowed_ips`` are masked and sorted. ``endpoints``: the literal ones of ``endpoint``, the preferred first; of a name
    none until it is resolved. ``node`` and ``by_rank`` say who holds what, see contests.
    """

    public_key: Key
    endpoint: str | None = None
    allowed_ips: tuple[str, ...] = ()
    keepalive: int = 0
    preshared: Preshared | None = None
    endpoints: tuple[str, ...] = ()
    node: str | None = None
    by_rank: bool = False

    @property
    def deferred(self) -> bool:
        """Whether its key is still to come."""
        return isinstance(self.public_key, Pending)

    def to_json(self) -> Data:
        """The form that module arguments and the state file have, which parse_peers reads."""
        shown: Data = {
            "public_key": self.public_key,
            "endpoint": self.endpoint,
            "allowed_ips": list(self.allowed_ips),
            "persistent_keepalive": self.keepalive,
            "preshared_key": {"file": self.preshared.file} if self.preshared else None,
        }
        if self.node is not None:
            shown["node"] = self.node
        return dict(shown, by_rank=True) if self.by_rank else shown


class LivePeer(t.NamedTuple):
    """A peer as a device has it. ``preshared_key`` is a fingerprint, ``last_handshake`` epoch seconds with their fraction (0: never)."""

    endpoint: str | None = None
    allowed_ips: tuple[str, ...] = ()
    keepalive: int = 0
    preshared_key: str | None = None
    last_handshake: float = 0
    rx_bytes: int = 0
    tx_bytes: int = 0

    def shown(self) -> Data:
        """What of it is configuration, as diffs and results show it."""
        return {
            "endpoint": self.endpoint,
            "allowed_ips": sorted_cidrs(self.allowed_ips),
            "persistent_keepalive": self.keepalive,
            "preshared_key": self.preshared_key,
        }

    def to_json(self) -> Data:
        """The form of a rollback journal."""
        return dict(
            self.shown(),
            allowed_ips=list(self.allowed_ips),
            last_handshake=self.last_handshake,
            rx_bytes=self.rx_bytes,
            tx_bytes=self.tx_bytes,
        )

    @classmethod
    def of_json(cls, found: t.Mapping[str, t.Any]) -> LivePeer:
        """The inverse of to_json."""
        counted = (found.get("last_handshake") or 0, found.get("rx_bytes") or 0, found.get("tx_bytes") or 0)
        return cls(
            found["endpoint"],
            tuple(found["allowed_ips"]),
            found["persistent_keepalive"] or 0,
            found["preshared_key"],
            *counted,
        )


class Dump(t.NamedTuple):
    """A device as its implementation has it; ``peers`` by public key."""

    listen_port: int
    fwmark: int
    public_key: str | None
    peers: t.Mapping[str, LivePeer]

    def to_json(self) -> Data:
        """The form of a rollback journal."""
        return dict(self._asdict(), peers={key: peer.to_json() for key, peer in self.peers.items()})

    @classmethod
    def of_json(cls, found: t.Mapping[str, t.Any]) -> Dump:
        """The inverse of to_json."""
        peers = {key: LivePeer.of_json(peer) for key, peer in found["peers"].items()}
        return cls(found["listen_port"], found["fwmark"], found["public_key"], peers)


#: What an absent device dumps as.
EMPTY = Dump(0, 0, None, {})


class PeerStep(t.NamedTuple):
    """One peer's part of a message to a device; None and () are not sent. ``allowed_ips``: those to add, or all with ``replace_allowed_ips``."""

    public_key: str
    remove: bool = False
    update_only: bool = False
    replace_allowed_ips: bool = False
    allowed_ips: tuple[str, ...] = ()
    endpoint: str | None = None
    keepalive: int | None = None
    preshared: Preshared | None = None


class Peers(t.NamedTuple):
    """The peers of one device that can be used, why others cannot, and the keys of live peers that are left exactly as they are.

    A refused peer keeps what it has, so that a typing error or a resolver that is down does not cut a working tunnel; except where its
    key must never be a peer's.
    """

    peers: tuple[Peer, ...] = ()
    refused: tuple[Refusal, ...] = ()
    kept: frozenset[str] = frozenset()


def split_ranges(peer: t.Mapping[str, t.Any]) -> tuple[list[str], Data]:
    """The allowed IPs of a peer in the form of Peer.to_json, and all else of it."""
    rest = dict(peer)
    return list(rest.pop("allowed_ips")), rest


def sorted_cidrs(texts: t.Iterable[str]) -> list[str]:
    """Networks as text in the order of network_key."""
    texts = list(texts)
    if len(texts) < 2:  # nearly all peers of a large mesh, and parsing is what costs
        return texts
    return [text for _key, text in sorted(network_text_and_key(text) for text in texts)]


def peer_name(device: str, key: t.Any) -> str:
    """How messages call a peer."""
    name = f"{device} {key if isinstance(key, (str, Pending)) else quoted(key)}"
    name = name if len(name) <= 120 else name[:117] + "..."
    return name if name.isprintable() else ascii(name)


def parse_peers(device: str, rows: t.Iterable[t.Mapping[str, t.Any]]) -> Peers:
    """Peers from their JSON form::

    {public_key: text|Pending, endpoint: text|None, allowed_ips: [cidr], persistent_keepalive: int, preshared_key: None|{"file": path}}
    """
    parsed: list[Peer] = []
    refused: list[Refusal] = []
    kept: set[str] = set()
    seen: set[Key] = set()
    for row in rows:
        key = row.get("public_key")
        try:
            key = _parse_public_key(key, seen)
        except ValueRefused as error:
            refused.append(Refusal(peer_name(device, key), error.reason, error.message))
            continue
        seen.add(key)
        try:
            parsed.append(_parse_peer(row, key))
        except ValueRefused as error:
            refused.append(Refusal(peer_name(device, key), error.reason, error.message))
            kept.update([key] if isinstance(key, str) else ())
    return Peers(tuple(parsed), tuple(refused), frozenset(kept))


def _parse_public_key(key: t.Any, seen: t.Container[t.Any]) -> Key:
    if not isinstance(key, Pending):
        parse_key(key)
        if is_weak(key):
            raise ValueRefused("weak_key", "this key agrees with every other on the same secret")
    if key in seen:
        raise ValueRefused("claimed_twice", "another peer of this device has the same public key")
    return t.cast(Key, key)


def _parse_peer(row: t.Mapping[str, t.Any], key: Key) -> Peer:
    """One peer; its key is read already. Raises ValueRefused."""
    networks = dict(network_text_and_key(text, "bad_allowed_ip") for text in row.get("allowed_ips") or ())
    keepalive = parse_decimal(row.get("persistent_keepalive") or 0, "bad_keepalive")
    if keepalive > 65535:
        raise ValueRefused("bad_keepalive", f"{keepalive} seconds are more than 65535")
    endpoint, literal = _parse_endpoint(row.get("endpoint"))
    node = row.get("node")
    return Peer(
        key,
        endpoint,
        tuple(networks[order] for order in sorted(networks)),
        keepalive,
        _parse_preshared_key(row.get("preshared_key")),
        (endpoint,) if endpoint is not None and literal else (),
        node if isinstance(node, str) else None,
        bool(row.get("by_rank")),
    )


def _parse_endpoint(text: t.Any) -> tuple[str | None, bool]:
    """(the endpoint in its one spelling, whether it is an address and no name). None and ``""``: no endpoint."""
    if text is None or text == "":
        return None, False
    if is_plain_endpoint(text):
        return t.cast(str, text), True
    endpoint = parse_endpoint(text)
    if endpoint.address is None:
        return str(endpoint), False
    kind = special_kind(endpoint.address)
    if kind:
        raise ValueRefused("endpoint_special", f"{endpoint.host} is no address of another host ({kind})")
    return str(endpoint), True


def _parse_preshared_key(raw: t.Any) -> Preshared | None:
    if not raw:
        return None
    path = raw.get("file") if isinstance(raw, dict) else None
    if not isinstance(path, str) or not path.startswith("/"):
        raise ValueRefused("bad_preshared_key", "preshared_key takes {file: absolute path}")
    return Preshared(path)


def names_to_resolve(peers: t.Iterable[Peer]) -> list[str]:
    """DNS names in desired endpoints, sorted."""
    return sorted({parse_endpoint(peer.endpoint).host for peer in peers if peer.endpoint and not peer.endpoints})


def preshared_files(peers: t.Iterable[Peer]) -> list[str]:
    """Paths of desired preshared keys with a fingerprint that is still to be read, sorted."""
    given = [peer.preshared for peer in peers if peer.preshared and peer.preshared.fingerprint is None]
    return sorted({preshared.file for preshared in given if preshared.file})


def with_fingerprints(peers: t.Iterable[Peer], known: t.Mapping[str, str]) -> tuple[Peer, ...]:
    """Peers with the fingerprints of preshared keys that came with the call. known: path of a preshared key -> its fingerprint."""
    found = []
    for peer in peers:
        path = peer.preshared.file if peer.preshared else None
        mark = known.get(path) if path else None
        found.append(peer._replace(preshared=Preshared(path, fingerprint=mark)) if mark else peer)
    return tuple(found)


def settle_peers(
    device: str,
    desired: Peers,
    live: t.Mapping[str, LivePeer],
    own_key: Key | None,
    resolved: t.Mapping[str, t.Sequence[str]],
    fingerprints: t.Mapping[str, str | None],
) -> Peers:
    """What of the desired peers this host can be given now: names are resolved, preshared keys known, and no range has two peers.

    resolved: DNS name -> its addresses, none when it does not resolve; fingerprints: path of a preshared key -> its fingerprint, None
    when it cannot be read.
    """
    ready: list[Peer] = []
    refused = list(desired.refused)
    kept: set[t.Any] = set(desired.kept)
    for peer in desired.peers:
        if peer.public_key == own_key:
            refused.append(Refusal(peer_name(device, peer.public_key), "own_key", "this is the device's own key"))
            continue
        try:
            ready.append(_complete(peer, resolved, fingerprints))
        except ValueRefused as error:
            refused.append(Refusal(peer_name(device, peer.public_key), error.reason, error.message))
            kept.add(peer.public_key)
    losers = _losers(ready, {cidr: key for key, peer in live.items() for cidr in peer.allowed_ips})
    for peer in ready:
        if peer.public_key in losers:
            message = f"{losers[peer.public_key]} is also desired by another peer of this device"
            refused.append(Refusal(peer_name(device, peer.public_key), "claimed_twice", message))
    kept.update(losers)
    usable_peers = tuple(peer for peer in ready if peer.public_key not in losers)
    return Peers(usable_peers, tuple(refused), frozenset(key for key in kept if isinstance(key, str)))


def _complete(peer: Peer, resolved: t.Mapping[str, t.Sequence[str]], fingerprints: t.Mapping[str, str | None]) -> Peer:
    """A peer with its literal endpoints and the fingerprint of its preshared key. Raises ValueRefused."""
    if peer.endpoint and not peer.endpoints:
        endpoint = parse_endpoint(peer.endpoint)
        choices = usable(resolved.get(endpoint.host, ()), endpoint.port)
        if not choices:
            raise ValueRefused("bad_endpoint", f"{quoted(endpoint.host)} does not resolve to a usable address")
        peer = peer._replace(endpoints=tuple(choices))
    if peer.preshared and peer.preshared.file and peer.preshared.fingerprint is None:
        found = fingerprints.get(peer.preshared.file)
        if found is None:
            raise ValueRefused(
                "bad_preshared_key", f"{quoted(peer.preshared.file)} does not hold a key that can be read"
            )
        peer = peer._replace(preshared=peer.preshared._replace(fingerprint=found))
    return peer


def usable(addresses: t.Iterable[str], port: int) -> list[str]:
    """Resolved addresses as literal endpoints: special ones left out, IPv4 first, in a stable order."""
    good = {parse_address(text) for text in addresses}
    ordered = sorted((a for a in good if special_kind(a) is None), key=lambda a: (a.version, int(a)))
    return [f"[{a}]:{port}" if a.version == 6 else f"{a}:{port}" for a in ordered]


def _losers(peers: t.Sequence[Peer], holders: t.Mapping[str, str]) -> dict[Key, str]:
    """Of two peers with the same allowed IP the live holder stays, else the first by key: key of each other one -> the allowed IP."""
    claims: dict[str, list[Peer]] = {}
    for peer in peers:
        for cidr in peer.allowed_ips:
            claims.setdefault(cidr, []).append(peer)
    losers: dict[Key, str] = {}
    for cidr in sorted(cidr for cidr, claimants in claims.items() if len(claimants) > 1):
        claimants = [peer for peer in claims[cidr] if peer.public_key not in losers]
        claimants.sort(key=lambda peer: (holders.get(cidr) != peer.public_key, str(peer.public_key)))
        losers.update((peer.public_key, cidr) for peer in claimants[1:])
    return losers
