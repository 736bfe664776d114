# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's BGP speaker: its peers and what it announces, whatever program does it.

Every value is parsed before it becomes a part of a line of a configuration, so that none can start another line (T16, T20).
"""

from __future__ import annotations

import re
import typing as t

from ..._values.addresses import Network, parse_address, parse_network, special_kind
from ..._values.refused import ValueRefused, quoted
from .values import BgpGrants, NodeBgp, check_bgp_claims

_PASSWORD = re.compile(r"[!-~]{1,80}\Z")
_NUMBER = re.compile(r"[0-9]{1,10}\Z")
#: More than any of our routers accepts; a typing error, not a plan.
MOST_PREFIXES = 4096


#: What is announced of a pool: each address, the pool's network while any address in it is, or both.
ADDRESSES, AGGREGATE, BOTH = "addresses", "aggregate", "both"


class Neighbour(t.NamedTuple):
    """A router. ``source``: the node's address towards it. ``ttl_hops``: packets from farther away are not believed, 0 for no such rule;
    ``bfd``: whether its silence is noticed at once. ``both_families``: whether networks of the other family go over this session, too (RFC 8950);
    ``next_hop``: the node's address of that family, empty where the next hop is that of the session.
    """

    address: str
    asn: int
    password: str = ""
    multihop: int = 0
    ttl_hops: int = 0
    bfd: bool = False
    source: str = ""
    both_families: bool = False
    next_hop: str = ""

    @property
    def version(self) -> int:
        """The family of the session, which is that of the networks that always go over it."""
        return 6 if ":" in self.address else 4

    @property
    def versions(self) -> tuple[int, ...]:
        """The families of networks that go over the session."""
        return (4, 6) if self.both_families else (self.version,)


class Attributes(t.NamedTuple):
    """What is announced to routers alongside a network. Local preference counts inside one autonomous system only."""

    communities: tuple[str, ...] = ()
    large_communities: tuple[str, ...] = ()
    local_preference: int | None = None
    med: int | None = None


class PoolRule(t.NamedTuple):
    """What holds for the networks inside one: their attributes, and whether it is announced itself, alongside them or in their place."""

    network: Network
    attributes: Attributes = Attributes()
    announce: str = ADDRESSES


class Speaker(t.NamedTuple):
    """A node's part. ``prefixes`` are sorted, each with its attributes where it has any; ``hold_s`` after which a router forgets an unreachable node."""

    asn: int
    source: str
    neighbours: tuple[Neighbour, ...]
    prefixes: tuple[str, ...] = ()
    keepalive_s: int = 3
    hold_s: int = 9
    router_id: str = ""
    graceful_restart: bool = False
    attributes: Attributes = Attributes()
    pools: tuple[PoolRule, ...] = ()

    def announcing(self, prefixes: t.Iterable[str], conditional: t.Container[str] = ()) -> Speaker:
        """The same speaker with these networks and what its pools make of them.

        ``conditional``: networks that depend on the node's health ports. They stay alongside the network of their pool, which other nodes announce too.
        """
        networks = [parse_network(text) for text in prefixes]
        found = set()
        for network in networks:
            rule = self._rule(network)
            if rule is None or rule.announce != AGGREGATE or str(network) in conditional:
                found.add(str(network))
            if rule is not None and rule.announce != ADDRESSES:
                found.add(str(rule.network))
        return self._replace(prefixes=parse_prefixes(found))

    def uncarried(self, prefixes: t.Iterable[str]) -> list[str]:
        """Those of the networks that go over no session, since no router is of their family."""
        carried = {version for one in self.neighbours for version in one.versions}
        return [prefix for prefix in prefixes if (6 if ":" in prefix else 4) not in carried]

    def attributes_of(self, prefix: str) -> Attributes:
        """By the smallest pool that contains it, else the speaker's own."""
        rule = self._rule(parse_network(prefix))
        return rule.attributes if rule is not None else self.attributes

    def _rule(self, network: Network) -> PoolRule | None:
        inside = [
            rule
            for rule in self.pools
            if rule.network.version == network.version
            and rule.network.prefixlen <= network.prefixlen
            and network[0] in rule.network
        ]
        return max(inside, key=lambda rule: rule.network.prefixlen, default=None)


def parse_speaker(given: t.Mapping[str, t.Any], grants: BgpGrants = BgpGrants()) -> Speaker:
    """From a module's options. Raises ValueRefused with the words of the claims stage."""
    source = str(parse_address(given["source_ip"]))
    neighbours = [_neighbour(row, source) for row in given["neighbors"]]
    for one in neighbours:
        facts = NodeBgp(
            "this node", one.source, given["asn"], one.asn, tuple(other.address for other in neighbours), one.password
        )
        unused, refused = check_bgp_claims([facts], grants)
        if refused:
            raise ValueRefused(refused[0].reason, refused[0].message)
        if one.password and not _PASSWORD.match(one.password):
            raise ValueRefused(
                "bad_format", f"the password of {one.address} is not up to 80 printable characters without blanks"
            )
        if parse_address(one.address).version != parse_address(one.source).version:
            raise ValueRefused("bad_address", f"{one.source} and {one.address} are of different families")
    if not neighbours:
        raise ValueRefused("no_ipv4_neighbor", "no router is named")
    keepalive, hold = given.get("keepalive_time") or 3, given.get("hold_time") or 9
    if not 1 <= keepalive <= hold // 3 or hold > 65535:
        raise ValueRefused("bad_format", "hold_time is at least three times keepalive_time, and both are seconds")
    router = given.get("router_id") or next(
        (text for text in (source, *[one.source for one in neighbours]) if ":" not in text), ""
    )
    if not router:
        message = "no session is of IPv4, so nothing gives the node a router id: write router_id, an IPv4 address of no one else's"
        raise ValueRefused("bad_address", message)
    if parse_address(router).version != 4:
        raise ValueRefused("bad_address", f"router_id has to be an IPv4 address, not {quoted(router)}")
    return Speaker(
        given["asn"],
        source,
        tuple(sorted(neighbours)),
        parse_prefixes(given.get("prefixes") or ()),
        keepalive,
        hold,
        router,
        bool(given.get("graceful_restart")),
        parse_attributes(given),
        _pools(given.get("pools") or (), given),
    )


def _pools(rows: t.Iterable[t.Mapping[str, t.Any]], above: t.Mapping[str, t.Any]) -> tuple[PoolRule, ...]:
    """What a pool does not say is said above. Raises ValueRefused."""
    found: dict[str, PoolRule] = {}
    for row in rows:
        network = parse_prefixes([row["network"]])[0]
        if network in found:
            raise ValueRefused("claimed_twice", f"{network} occurs twice among the pools")
        said = {name: row[name] if row.get(name) is not None else above.get(name) for name in Attributes._fields}
        announce = row.get("announce") or ADDRESSES
        if announce not in (ADDRESSES, AGGREGATE, BOTH):
            raise ValueRefused("bad_format", f"{quoted(str(announce))} is none of addresses, aggregate and both")
        found[network] = PoolRule(parse_network(network), parse_attributes(said), announce)
    return tuple(found[network] for network in sorted(found))


def _neighbour(row: t.Mapping[str, t.Any], source: str) -> Neighbour:
    multihop, hops = row.get("multihop") or 0, row.get("ttl_security") or 0
    if not 0 <= multihop <= 255:
        raise ValueRefused("bad_format", "multihop is a number of hops up to 255")
    if not 0 <= hops <= 254 or (hops and multihop):
        raise ValueRefused("bad_format", "ttl_security is a number of hops up to 254, and takes the place of multihop")
    address, both = parse_address(row["address"]), bool(row.get("both_families"))
    return Neighbour(
        str(address),
        row["asn"],
        row.get("password") or "",
        multihop,
        hops,
        bool(row.get("bfd")),
        str(parse_address(row.get("source_ip") or source)),
        both,
        _next_hop(row, str(address), both),
    )


def _next_hop(row: t.Mapping[str, t.Any], address: str, both: bool) -> str:
    """IPv4 networks go with the IPv6 address of the session; IPv6 ones need one. Raises ValueRefused ``bad_address``."""
    given = row.get("next_hop")
    if not both or ":" in address:
        if given:
            raise ValueRefused("bad_address", f"next_hop of {address} is for a router of IPv4 with both_families: true")
        return ""
    if not given or parse_address(given).version != 6 or special_kind(parse_address(given)) is not None:
        message = "both_families of {0}: write next_hop, an IPv6 address of the node, to which the router sends packets of IPv6"
        raise ValueRefused("bad_address", message.format(address))
    return str(parse_address(given))


def parse_attributes(given: t.Mapping[str, t.Any]) -> Attributes:
    """Of networks, from a module's options. Raises ValueRefused ``bad_format``."""
    small = tuple(sorted({_community(text, 2, 65535) for text in given.get("communities") or ()}))
    large = tuple(sorted({_community(text, 3, 2**32 - 1) for text in given.get("large_communities") or ()}))
    numbers = []
    for name in ("local_preference", "med"):
        number = given.get(name)
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**32):
            raise ValueRefused("bad_format", f"{name} is a number from 0 to 4294967295")
        numbers.append(number)
    return Attributes(small, large, numbers[0], numbers[1])


def _community(text: object, parts: int, most: int) -> str:
    """Numbers joined by colons. Raises ValueRefused ``bad_format``."""
    words = str(text).split(":")
    if len(words) != parts or not all(_NUMBER.match(part) and int(part) <= most for part in words):
        raise ValueRefused("bad_format", f"{quoted(str(text))} is not {parts} numbers up to {most} joined by colons")
    return ":".join(str(int(part)) for part in words)


def parse_prefixes(texts: t.Iterable[object]) -> tuple[str, ...]:
    """Networks to announce, each once, sorted. Raises ValueRefused."""
    found = set()
    for text in texts:
        network = parse_network(text if "/" in str(text) else f"{text}/{128 if ':' in str(text) else 32}")
        kind = special_kind(network[0])
        if kind is not None or network.prefixlen == 0:
            raise ValueRefused("special_address", f"{quoted(str(network))} must not be announced")
        found.add(network)
    if len(found) > MOST_PREFIXES:
        raise ValueRefused("prefix_limit", f"{len(found)} prefixes; a node announces at most {MOST_PREFIXES}")
    return tuple(str(network) for network in sorted(found, key=lambda one: (one.version, int(one[0]), one.prefixlen)))
