# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What remote nodes claim against what the inventory grants (decision 29, threats T1 to T4).

One pure stage between parsing and building, for every mesh. It has no off switch and never raises for hostile
input: a node whose claim does not hold is refused with a reason, the others go on.
"""

from __future__ import annotations

import bisect
import typing as t

from ..._plan.pending import Pending
from ..._plan.plan import Refusal
from ..._values.addresses import Address, Network, contains, parse_endpoint, parse_network, special_kind
from ..._values.keys import is_weak, parse_key
from ..._values.prefix_sets import PrefixSet, RangeOwners, span
from ..._values.refused import ValueRefused, quoted

Claim = t.Dict[str, t.Any]
Grants = t.Mapping[str, t.Mapping[str, t.Iterable[str]]]
#: {cluster: {public key: [cidr]}}: the peers that work now.
Holders = t.Mapping[str, t.Mapping[str, t.Iterable[str]]]

OVERLAY_RANGES = ("pod_cidrs", "service_cidrs", "wireguard_cidrs")
MAX_ALLOWED_IPS = 256


class _Parsed(t.NamedTuple):
    claim: Claim
    networks: t.List[Network]
    rank: t.Tuple[bool, bool, str, str]

    @property
    def label(self) -> str:
        return label_of(self.claim["cluster"], self.claim["node"])


def check_claims(
    claims: t.Iterable[t.Any],
    grants: Grants,
    holders: t.Optional[Holders] = None,
    own_keys: t.Iterable[str] = (),
    ranges: t.Sequence[str] = ("pod_cidrs",),
) -> t.Tuple[t.List[Claim], t.List[Refusal]]:
    """The claims that hold, in their order, and a refusal for every other.

    claims: ``{cluster, node, public_key: text|Pending, endpoint: text|None, allowed_ips: [cidr]}``, further keys
    are carried along. grants: ``{cluster: {pod_cidrs, service_cidrs, node_cidrs, wireguard_cidrs}}`` of **all**
    clusters of the fabric. holders: peers that work now; on a tie the live one keeps key and range, else a claim with
    ``declared: True`` (the inventory names the node), else the first by cluster and node name. own_keys: public keys
    of the side that will load these peers. ranges: which of its cluster's grants a node may route to itself.

    Words: outside_grant, claimed_twice, own_key, weak_key, endpoint_in_overlay, endpoint_special, and
    bad_public_key, bad_pod_cidr, bad_endpoint, name_invalid for text that is no value at all.
    """
    guard = _Guard(grants, frozenset(own_keys), ranges)
    live = _live(holders or {})
    refusals: t.List[Refusal] = []
    parsed: t.List[_Parsed] = []
    for claim in claims:
        try:
            cluster, node = _names(claim)
            networks = guard.check(claim, cluster)
        except ValueRefused as error:
            refusals.append(_refusal(claim, error))
            continue
        parsed.append(_Parsed(claim, networks, _rank(claim, networks, live)))
    kept = _settle(parsed, refusals)
    return [row.claim for row in parsed if id(row) in kept], refusals


def open_claims(
    claims: t.Iterable[t.Any], grants: Grants, own_keys: t.Iterable[str] = (), ranges: t.Sequence[str] = ("pod_cidrs",)
) -> t.Tuple[t.List[Claim], t.List[Claim], t.List[Refusal]]:
    """As check_claims for those who do not know who holds what: (claims that hold, claims that contest, refusals).

    Claims may carry ``things``, further (kind, text) that only one node can have. Those that share a key, a thing or an address
    with another are all good by themselves; which of them keeps it each node decides (contests.settle). ``greedy`` marks one
    whose range contains those of several others.
    """
    guard = _Guard(grants, frozenset(own_keys), ranges)
    refusals: t.List[Refusal] = []
    parsed: t.List[_Parsed] = []
    for claim in claims:
        try:
            cluster, node = _names(claim)
            networks = guard.check(claim, cluster)
        except ValueRefused as error:
            refusals.append(_refusal(claim, error))
            continue
        parsed.append(_Parsed(claim, networks, (True, not claim.get("declared"), cluster, node)))
    contesting, greedy = _contesting(parsed), _greedy(parsed)
    kept = [row.claim for row in parsed if id(row) not in contesting]
    contested = [dict(row.claim, greedy=id(row) in greedy) for row in parsed if id(row) in contesting]
    return kept, contested, refusals


def label_of(cluster: object, node: object) -> str:
    """``cluster/node`` for results; text that is no name is shown escaped and cut."""
    return "/".join(str(part) if _is_name(part) else quoted(part) for part in (cluster, node))


def _is_name(part: object) -> bool:
    return isinstance(part, str) and 0 < len(part) <= 253 and part.isascii() and part.isprintable() and "/" not in part


def _names(claim: t.Any) -> t.Tuple[str, str]:
    if not isinstance(claim, dict) or not _is_name(claim.get("cluster")) or not _is_name(claim.get("node")):
        raise ValueRefused("name_invalid", "a claim names no cluster or node that could exist")
    return claim["cluster"], claim["node"]


def _refusal(claim: t.Any, error: ValueRefused) -> Refusal:
    source = claim if isinstance(claim, dict) else {}
    label = label_of(source.get("cluster"), source.get("node"))
    return Refusal(label, error.reason, "{0}: {1}".format(label, error.message))


class OverlayGuard:
    """Addresses that no endpoint may have: everything inside any cluster's overlay, and special ones (decision 4)."""

    def __init__(self, grants: Grants) -> None:
        texts = (text for ranges in grants.values() for key in OVERLAY_RANGES for text in ranges.get(key) or ())
        self._overlay = PrefixSet.of_texts(texts)

    def check(self, address: Address, shown: object) -> None:
        """Raise endpoint_special or endpoint_in_overlay. Use it again on what a DNS name resolves to (T5)."""
        kind = special_kind(address)
        if kind is not None:
            message = "endpoint {0} is a {1} address, which no node has".format(quoted(shown), kind.replace("_", "-"))
            raise ValueRefused("endpoint_special", message)
        if address in self._overlay:
            raise ValueRefused(
                "endpoint_in_overlay",
                "endpoint {0} lies in a pod_cidrs, service_cidrs or wireguard_cidrs range of the fabric, so the "
                "tunnel would run through itself; an endpoint is a node address".format(quoted(shown)),
            )


class _Guard:
    """The checks that concern one claim alone."""

    def __init__(self, grants: Grants, own_keys: t.FrozenSet[str], ranges: t.Sequence[str]) -> None:
        self._own_keys, self._ranges = own_keys, ranges
        self._endpoints = OverlayGuard(grants)
        self._granted: t.Dict[str, t.List[Network]] = {
            cluster: [parse_network(text) for key in ranges for text in granted.get(key) or ()]
            for cluster, granted in grants.items()
        }
        self._sets = {cluster: PrefixSet.of(networks) for cluster, networks in self._granted.items()}

    def check(self, claim: Claim, cluster: str) -> t.List[Network]:
        self._key(claim.get("public_key"))
        networks = self._networks(claim.get("allowed_ips"), cluster)
        if claim.get("endpoint") is not None:
            endpoint = parse_endpoint(claim["endpoint"])
            if endpoint.address is not None:
                self._endpoints.check(endpoint.address, claim["endpoint"])
        return networks

    def _key(self, key: object) -> None:
        if isinstance(key, Pending):
            return
        text = parse_key(key)
        if is_weak(text):
            raise ValueRefused("weak_key", "key {0} agrees with everybody on the same secret".format(quoted(text)))
        if text in self._own_keys:
            raise ValueRefused("own_key", "key {0} is one of this side's own".format(quoted(text)))

    def _networks(self, texts: object, cluster: str) -> t.List[Network]:
        if not isinstance(texts, (list, tuple)) or not texts:
            raise ValueRefused("bad_pod_cidr", "it claims no range")
        if len(texts) > MAX_ALLOWED_IPS:
            raise ValueRefused("bad_pod_cidr", "it claims {0} ranges".format(len(texts)))
        networks: t.List[Network] = []
        for text in texts:
            network = parse_network(text, "bad_pod_cidr")
            granted = self._sets.get(cluster)
            if granted is None or not granted.covers(network):
                raise ValueRefused("outside_grant", self._outside(text, cluster))
            if not any(contains(other, network) for other in networks):
                networks = [other for other in networks if not contains(network, other)] + [network]
        return networks

    def _outside(self, text: object, cluster: str) -> str:
        if cluster not in self._granted:
            return "{0} is claimed by a cluster that the inventory does not have".format(quoted(text))
        granted = self._granted[cluster]
        shown = ", ".join(str(network) for network in granted[:8]) or "nothing"
        return "{0} is outside what the inventory grants cluster {1} ({2}); {3} of clusters/{1} would grant it".format(
            quoted(text), cluster, shown + (", ..." if len(granted) > 8 else ""), " or ".join(self._ranges)
        )


def _live(holders: Holders) -> t.Dict[t.Tuple[str, str], t.Set[t.Tuple[int, int, int]]]:
    live = {}
    for cluster, by_key in holders.items():
        for key, texts in by_key.items():
            live[(cluster, key)] = {span(network) for network in _readable(texts)}
    return live


def _readable(texts: t.Iterable[object]) -> t.Iterator[Network]:
    for text in texts:
        try:
            yield parse_network(text)
        except ValueRefused:
            continue


def _is_live(claim: Claim, networks: t.List[Network], live: t.Mapping[t.Any, t.Set[t.Tuple[int, int, int]]]) -> bool:
    """A claim is live when its key works now for one of its ranges: a stolen key alone makes nobody the holder."""
    spans = live.get((claim["cluster"], claim["public_key"]))
    return spans is not None and any(span(network) in spans for network in networks)


def _rank(
    claim: Claim, networks: t.List[Network], live: t.Mapping[t.Any, t.Set[t.Tuple[int, int, int]]]
) -> t.Tuple[bool, bool, str, str]:
    """Who keeps what two claim: the live holder, then a node that the inventory declares, then the first by name.

    By name alone anybody who can register a Node called ``a`` would displace the inventory's own.
    """
    return (not _is_live(claim, networks, live), not claim.get("declared"), *_names(claim))


def _settle(parsed: t.List[_Parsed], refusals: t.List[Refusal]) -> t.Set[int]:
    """Ids of the rows that keep their key and ranges; one pass in order of rank, ranges by bisection."""
    keys: t.Dict[str, _Parsed] = {}
    taken: RangeOwners[_Parsed] = RangeOwners()
    kept: t.Set[int] = set()
    greedy = _greedy(parsed)
    for row in sorted(parsed, key=lambda item: item.rank):
        key = row.claim["public_key"]
        rival = keys.get(key) if isinstance(key, str) else None
        message = ""
        if rival is not None:
            message = "key {0} is also claimed by {1}, which keeps it".format(quoted(key), rival.label)
        elif id(row) in greedy:
            message = "{0} covers the ranges of several other nodes".format(quoted(greedy[id(row)]))
        else:
            for network in row.networks:
                rival = taken.owner(network)
                if rival is not None:
                    message = "{0} overlaps a range of {1}, which keeps it".format(quoted(str(network)), rival.label)
                    break
        if message:
            refusals.append(Refusal(row.label, "claimed_twice", "{0}: {1}".format(row.label, message)))
            continue
        if isinstance(key, str):
            keys[key] = row
        for network in row.networks:
            taken.claim(network, row)
        kept.add(id(row))
    return kept


def _contesting(parsed: t.Sequence[_Parsed]) -> t.Set[int]:
    """Ids of the rows that share a key, a thing or an address with another one."""
    found: t.Set[int] = set()
    first: t.Dict[t.Any, int] = {}
    for row in parsed:
        key = row.claim["public_key"]
        things = [("key", key)] if isinstance(key, str) else []
        for thing in [*things, *row.claim.get("things", ())]:
            other = first.setdefault(thing, id(row))
            if other != id(row):
                found.update((other, id(row)))
    spans = sorted(((span(network), number) for number, row in enumerate(parsed) for network in row.networks), key=lambda item: item[0])
    reach: t.Tuple[int, int] = (0, -1)  # family and end of what was seen, and whose that is
    owner = -1
    for (version, low, high), number in spans:
        if version == reach[0] and low <= reach[1]:
            if number != owner:
                found.update((id(parsed[owner]), id(parsed[number])))
        if (version, high) > reach:
            reach, owner = (version, high), number
    return found


def _greedy(parsed: t.List[_Parsed]) -> t.Dict[int, str]:
    """Rows with a range that strictly contains ranges of two or more others, and are not live.

    By name alone such a row could push a whole cluster out of the mesh (T6), so it loses to all of them.
    """
    rows = [(span(network), network, row) for row in parsed for network in row.networks]
    rows.sort(key=lambda item: _nesting(item[0]))
    order = [_nesting(item[0]) for item in rows]
    found: t.Dict[int, str] = {}
    for (version, first, last), network, row in rows:
        if not row.rank[0]:
            continue
        inner = bisect.bisect_right(order, (version, first, -last))
        end = bisect.bisect_right(order, (version, last, 0))
        if end - inner >= 2 and _owners(rows, inner, end, row) >= 2:
            found[id(row)] = str(network)
    return found


def _nesting(item: t.Tuple[int, int, int]) -> t.Tuple[int, int, int]:
    return item[0], item[1], -item[2]


def _owners(rows: t.Sequence[t.Any], start: int, end: int, row: _Parsed) -> int:
    """How many other rows own the ranges from start to end; two are enough to know."""
    seen: t.Set[int] = set()
    for index in range(start, min(end, start + MAX_ALLOWED_IPS + 2)):
        if rows[index][2] is not row:
            seen.add(id(rows[index][2]))
            if len(seen) == 2:
                break
    return len(seen)
