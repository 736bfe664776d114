# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What remote nodes claim against what the inventory grants (decision 29, threats T1 to T4).

One pure stage between parsing and building, for every mesh. It has no off switch and never raises for hostile
input: a node with a claim that does not hold is refused with a reason, the others go on.
"""

from __future__ import annotations

import bisect
import typing as t

from ..._dataplane.contests import Thing
from ..._dataplane.peer_spec import Key, Peer
from ..._plan.plan import Pending, Refusal
from ..._values.addresses import Address, Network, contains, parse_endpoint, parse_network, special_kind
from ..._values.keys import is_weak, parse_key
from ..._values.prefix_sets import PrefixSet, RangeOwners, VersionSpan, span
from ..._values.refused import ValueRefused, quoted

Grants = t.Mapping[str, t.Mapping[str, t.Iterable[str]]]
#: {cluster: {public key: [cidr]}}: the peers that work now.
Holders = t.Mapping[str, t.Mapping[str, t.Iterable[str]]]
_Live = t.Mapping[tuple[str, t.Any], t.Collection[VersionSpan]]

OVERLAY_RANGES = ("pod_cidrs", "service_cidrs", "wireguard_cidrs")
MAX_ALLOWED_IPS = 256


class Claim(t.NamedTuple):
    """The ``peer`` that a node asks to be, and what is checked of it as values.

    ``networks``: its ranges, none inside another; ``borrowed``: addresses that it has inside the range of another node of its cluster,
    which is no contest (pod_ranges 2.2). ``address``: its endpoint's, None without one and where that is a name.
    ``declared``: the inventory names the node, as ``host``; ``reported``: that host said so in this run; ``things``: what else only
    one node can have; ``greedy``: of open_claims; ``row``: its place in a list of its reader's.
    """

    cluster: str
    node: str
    peer: Peer
    networks: tuple[Network, ...]
    address: Address | None = None
    declared: bool = False
    reported: bool = False
    host: str | None = None
    things: tuple[Thing, ...] = ()
    greedy: bool = False
    row: int = 0
    borrowed: tuple[Network, ...] = ()

    @property
    def label(self) -> str:
        """``cluster/node``."""
        return label_of(self.cluster, self.node)


def read_claim(
    cluster: t.Any,
    node: t.Any,
    public_key: t.Any,
    endpoint: t.Any,
    networks: t.Sequence[Network],
    cidrs: t.Sequence[str] | None = None,
    keepalive: int = 0,
    borrowed: t.Sequence[Network] | None = None,
) -> Claim:
    """A claim from what its cluster's API returns: the one place where that text becomes values.

    public_key: text, or Pending for one that this run makes. endpoint: text; None and ``""``: the node is passive. cidrs: the texts of
    networks where they are there already. borrowed: addresses inside the range of another node; with it, networks are canonical, of a
    size that pod_ranges allows, and may be none at all. Raises ValueRefused: name_invalid, bad_pod_cidr, bad_public_key, bad_endpoint.
    """
    if not _is_name(cluster) or not _is_name(node):
        raise ValueRefused("name_invalid", "a claim names no cluster or node that could exist")
    if borrowed is None and not 0 < len(networks) <= MAX_ALLOWED_IPS:
        raise ValueRefused("bad_pod_cidr", f"it claims {len(networks) or 'no'} ranges")
    key: Key = public_key if isinstance(public_key, Pending) else parse_key(public_key)
    where = None if endpoint is None or endpoint == "" else parse_endpoint(endpoint)
    allowed_ips = tuple(map(str, networks) if cidrs is None else cidrs)
    allowed_ips += tuple(map(str, borrowed or ()))
    peer = Peer(key, None if where is None else str(where), allowed_ips, keepalive, node=node)
    own = _widest(networks) if borrowed is None else tuple(networks)
    return Claim(cluster, node, peer, own, None if where is None else where.address, borrowed=tuple(borrowed or ()))


def _widest(networks: t.Sequence[Network]) -> tuple[Network, ...]:
    """Networks without those inside another."""
    kept: list[Network] = []
    for network in networks:
        if not any(contains(other, network) for other in kept):
            kept = [other for other in kept if not contains(network, other)] + [network]
    return tuple(kept)


def check_claims(
    claims: t.Iterable[Claim],
    grants: Grants,
    holders: Holders | None = None,
    own_keys: t.Iterable[str] = (),
    ranges: t.Sequence[str] = ("pod_cidrs",),
) -> tuple[list[Claim], list[Refusal]]:
    """The claims that hold, in their order, and a refusal for every other.

    grants: ``{cluster: {pod_cidrs, service_cidrs, node_cidrs, wireguard_cidrs}}`` of **all** clusters of the fabric. holders: peers
    that work now; on a tie the live one keeps key and range, else a declared one, else the first by cluster and node name. own_keys:
    public keys of the side that will load these peers. ranges: which of its cluster's grants a node may route to itself.

    Words: outside_grant, claimed_twice, own_key, weak_key, endpoint_in_overlay, endpoint_special.
    """
    good, refusals = _granted(claims, grants, own_keys, ranges)
    live = _live(holders or {})
    kept = _settle(good, {place for place, claim in enumerate(good) if _is_live(claim, live)}, refusals)
    return [good[place] for place in sorted(kept)], refusals


def open_claims(
    claims: t.Iterable[Claim], grants: Grants, own_keys: t.Iterable[str] = (), ranges: t.Sequence[str] = ("pod_cidrs",)
) -> tuple[list[Claim], list[Claim], list[Refusal]]:
    """As check_claims for those who do not know who holds what: (claims that hold, claims that contest, refusals).

    Those that share a key, a thing or an address with another are all good by themselves; which of them keeps it each node decides
    (contests.settle). ``greedy`` marks one with a range that contains those of several others.
    """
    good, refusals = _granted(claims, grants, own_keys, ranges)
    contesting, greedy = _contesting(good), _greedy(good)
    kept = [claim for place, claim in enumerate(good) if place not in contesting]
    return kept, [good[place]._replace(greedy=place in greedy) for place in sorted(contesting)], refusals


def _granted(
    claims: t.Iterable[Claim], grants: Grants, own_keys: t.Iterable[str], ranges: t.Sequence[str]
) -> tuple[list[Claim], list[Refusal]]:
    """The claims that are good by themselves, and why the others are not."""
    guard = _Guard(grants, frozenset(own_keys), ranges)
    good: list[Claim] = []
    refusals: list[Refusal] = []
    for claim in claims:
        try:
            guard.check(claim)
        except ValueRefused as error:
            refusals.append(Refusal(claim.label, error.reason, f"{claim.label}: {error.message}"))
        else:
            good.append(claim)
    return good, refusals


def label_of(cluster: object, node: object) -> str:
    """``cluster/node`` for results; text that is no name is shown escaped and cut."""
    return "/".join(str(part) if _is_name(part) else quoted(part) for part in (cluster, node))


def _is_name(part: object) -> bool:
    return isinstance(part, str) and 0 < len(part) <= 253 and part.isascii() and part.isprintable() and "/" not in part


class OverlayGuard:
    """Addresses that no endpoint may have: everything inside any cluster's overlay, and special ones (decision 4)."""

    def __init__(self, grants: Grants) -> None:
        texts = (text for ranges in grants.values() for key in OVERLAY_RANGES for text in ranges.get(key) or ())
        self._overlay = PrefixSet.of_texts(texts)

    def check(self, address: Address, shown: object) -> None:
        """Raise endpoint_special or endpoint_in_overlay. Use it again on what a DNS name resolves to (T5)."""
        kind = special_kind(address)
        if kind is not None:
            message = f"endpoint {quoted(shown)} is a {kind.replace('_', '-')} address, which no node has"
            raise ValueRefused("endpoint_special", message)
        if address in self._overlay:
            raise ValueRefused(
                "endpoint_in_overlay",
                f"endpoint {quoted(shown)} is in a pod_cidrs, service_cidrs or wireguard_cidrs range of the fabric, so the "
                "tunnel would run through itself; an endpoint is a node address",
            )


class _Guard:
    """The checks that concern one claim alone."""

    def __init__(self, grants: Grants, own_keys: frozenset[str], ranges: t.Sequence[str]) -> None:
        self._own_keys, self._ranges = own_keys, ranges
        self._endpoints = OverlayGuard(grants)
        self._granted: dict[str, list[Network]] = {
            cluster: [parse_network(text) for key in ranges for text in granted.get(key) or ()]
            for cluster, granted in grants.items()
        }
        self._sets = {cluster: PrefixSet.of(networks) for cluster, networks in self._granted.items()}

    def check(self, claim: Claim) -> None:
        key = claim.peer.public_key
        if isinstance(key, str):
            if is_weak(key):
                raise ValueRefused("weak_key", f"key {quoted(key)} agrees with everybody on the same secret")
            if key in self._own_keys:
                raise ValueRefused("own_key", f"key {quoted(key)} is one of this side's own")
        granted = self._sets.get(claim.cluster)
        for network in (*claim.networks, *claim.borrowed):
            if granted is None or not granted.covers(network):
                raise ValueRefused("outside_grant", self._outside(str(network), claim.cluster))
        if claim.address is not None:
            self._endpoints.check(claim.address, claim.peer.endpoint)

    def _outside(self, text: str, cluster: str) -> str:
        if cluster not in self._granted:
            return f"{quoted(text)} is claimed by a cluster that the inventory does not have"
        return outside_grant(quoted(text), cluster, list(map(str, self._granted[cluster])), self._ranges)


def outside_grant(shown: str, cluster: str, granted: t.Sequence[str], ranges: t.Sequence[str] = ("pod_cidrs",)) -> str:
    """The message of the refusal ``outside_grant``: what is claimed, what the inventory grants, and the variable that would grant it."""
    texts = ", ".join(granted[:8]) + (", ..." if len(granted) > 8 else "")
    return (
        f"{shown} is outside what the inventory grants cluster {cluster} ({texts or 'nothing'}); "
        f"{' or '.join(ranges)} of clusters/{cluster} would grant it"
    )


def _live(holders: Holders) -> _Live:
    return {
        (cluster, key): {span(network) for network in _readable(texts)}
        for cluster, by_key in holders.items()
        for key, texts in by_key.items()
    }


def _readable(texts: t.Iterable[object]) -> t.Iterator[Network]:
    for text in texts:
        try:
            yield parse_network(text)
        except ValueRefused:
            continue


def _is_live(claim: Claim, live: _Live) -> bool:
    """A claim is live when its key works now for one of its ranges: a stolen key alone makes nobody the holder."""
    spans = live.get((claim.cluster, claim.peer.public_key), ())
    return any(span(network) in spans for network in claim.networks)


def _settle(claims: t.Sequence[Claim], live: t.Container[int], refusals: list[Refusal]) -> set[int]:
    """Places of the claims that keep their key and ranges; one pass in order of rank, ranges by bisection.

    Who keeps what two claim: the live holder, then a node that the inventory declares, then the first by name. By name alone anybody
    who can register a Node called ``a`` would displace the inventory's own.
    """

    def rank(place: int) -> tuple[bool, bool, str, str]:
        return place not in live, not claims[place].declared, claims[place].cluster, claims[place].node

    keys: dict[str, Claim] = {}
    taken: RangeOwners[Claim] = RangeOwners()
    kept: set[int] = set()
    greedy = _greedy(claims, live)
    for place in sorted(range(len(claims)), key=rank):
        claim = claims[place]
        key = claim.peer.public_key
        rival = keys.get(key) if isinstance(key, str) else None
        message = ""
        if rival is not None:
            message = f"key {quoted(key)} is also claimed by {rival.label}, which keeps it"
        elif place in greedy:
            message = f"{quoted(greedy[place])} covers the ranges of several other nodes"
        else:
            for network in claim.networks:
                rival = taken.owner(network)
                if rival is not None:
                    message = f"{quoted(str(network))} overlaps a range of {rival.label}, which keeps it"
                    break
        if message:
            refusals.append(Refusal(claim.label, "claimed_twice", f"{claim.label}: {message}"))
            continue
        if isinstance(key, str):
            keys[key] = claim
        for network in claim.networks:
            taken.claim(network, claim)
        kept.add(place)
    return kept


def _contesting(claims: t.Sequence[Claim]) -> set[int]:
    """Places of the claims that share a key, a thing or an address with another one."""
    found: set[int] = set()
    first: dict[Thing, int] = {}
    for place, claim in enumerate(claims):
        key = claim.peer.public_key
        for thing in [("key", key), *claim.things] if isinstance(key, str) else claim.things:
            other = first.setdefault(thing, place)
            if other != place:
                found.update((other, place))
    reach: tuple[int, int] = (0, -1)  # family and end of what was seen, and its owner
    owner = -1
    for (version, low, high), place in sorted(
        (span(network), place) for place, claim in enumerate(claims) for network in claim.networks
    ):
        if version == reach[0] and low <= reach[1] and place != owner:
            found.update((owner, place))
        if (version, high) > reach:
            reach, owner = (version, high), place
    return found


def _greedy(claims: t.Sequence[Claim], live: t.Container[int] = ()) -> dict[int, str]:
    """Places of claims with a range that strictly contains ranges of two or more others, and are not live.

    By name alone such a claim could push a whole cluster out of the mesh (T6), so it loses to all of them.
    """
    rows = [
        (_nesting(span(network)), network, place) for place, claim in enumerate(claims) for network in claim.networks
    ]
    rows.sort(key=lambda row: row[0])
    order = [row[0] for row in rows]
    found: dict[int, str] = {}
    for nesting, network, place in rows:
        if place in live:
            continue
        inner = bisect.bisect_right(order, nesting)
        end = bisect.bisect_right(order, (nesting[0], -nesting[2], 0))
        # two are enough to know, and one claim has so many ranges at most
        if (
            end - inner >= 2
            and len({row[2] for row in rows[inner : min(end, inner + MAX_ALLOWED_IPS + 2)]} - {place}) >= 2
        ):
            found[place] = str(network)
    return found


def _nesting(item: VersionSpan) -> VersionSpan:
    """A sorting key by which a range comes before those inside it."""
    return item[0], item[1], -item[2]
