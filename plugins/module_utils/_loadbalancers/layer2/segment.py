# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of one network segment that are backups for addresses: who holds which, and in what order the others follow.

Every node finds the same order for itself, from the names of all: a node that goes moves only what it held. Every value is parsed before it becomes a
part of a configuration.
"""

from __future__ import annotations

import re
import typing as t

from ..._values.addresses import Network, parse_address, parse_network, special_kind
from ..._values.refused import ValueRefused, quoted
from .groups import MOST, weight

_INTERFACE = re.compile(r"[A-Za-z0-9_.@-]{1,15}\Z", re.ASCII)
#: Priorities go from 254 down; a step makes those before be heard before those after give up waiting.
FIRST, STEP, MOST_MEMBERS = 254, 20, 250
#: Between two signs of life of the holder. Silence for three of them, and at most one more, lets the next one take over.
LEAST_MS, MOST_MS = 100, 500


class Member(t.NamedTuple):
    """A node of the segment and its addresses there, IPv4 first."""

    name: str
    addresses: tuple[str, ...]

    def of(self, version: int) -> str:
        return next((text for text in self.addresses if parse_address(text).version == version), "")


class Group(t.NamedTuple):
    """Addresses that one node holds together, and the ports of the node that all have to say that it can deliver them."""

    number: int
    addresses: tuple[str, ...]
    health_ports: tuple[int, ...] = ()


class Segment(t.NamedTuple):
    """What one node needs to know. ``version``: the family over which nodes hear each other, 4 or 6."""

    node: str
    members: tuple[Member, ...]
    groups: tuple[Group, ...]
    advert_ms: int
    version: int

    @property
    def me(self) -> Member:
        return next(member for member in self.members if member.name == self.node)

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(address for group in self.groups for address in group.addresses)

    def only(self, addresses: t.Container[str]) -> Segment:
        """With these addresses alone; groups without any go."""
        kept = (
            group._replace(addresses=tuple(one for one in group.addresses if one in addresses)) for group in self.groups
        )
        return self._replace(groups=tuple(group for group in kept if group.addresses))

    def priority(self, number: int) -> int:
        """This node's in a group."""
        step = max(1, min(STEP, MOST_MEMBERS // len(self.members)))
        return FIRST - step * order(number, [member.name for member in self.members]).index(self.node)


def order(number: int, names: t.Iterable[str]) -> list[str]:
    """Who holds a group's addresses, then who follows."""
    return sorted(names, key=lambda name: (weight(number, name), name), reverse=True)


def parse_segment(given: t.Mapping[str, t.Any]) -> Segment:
    """From a module's options: ``node``, ``nodes``, ``routes``, ``advert_interval``. Raises ValueRefused."""
    members, version = parse_members(given.get("nodes") or ())
    if str(given["node"]) not in [member.name for member in members]:
        raise ValueRefused("unknown_node", f"{quoted(str(given['node']))} is not among the nodes of its segment")
    interval = given.get("advert_interval")
    milliseconds = int(round(float(MOST_MS / 1000.0 if interval is None else interval) * 1000))
    if not LEAST_MS <= milliseconds <= MOST_MS:
        raise ValueRefused(
            "bad_format", f"advert_interval is a time from {LEAST_MS / 1000.0:g} to {MOST_MS / 1000.0:g} seconds"
        )
    return Segment(str(given["node"]), members, parse_groups(given.get("routes") or ()), milliseconds, version)


def _member(row: t.Mapping[str, t.Any]) -> Member:
    addresses = [parse_address(text) for text in row.get("addresses") or ()]
    for address in addresses:
        kind = special_kind(address)
        if kind:
            raise ValueRefused(
                "special_address", f"{address} of {quoted(str(row['name']))} is no address of a node: {kind}"
            )
    if len({address.version for address in addresses}) != len(addresses) or not addresses:
        raise ValueRefused(
            "bad_address", f"{quoted(str(row['name']))} needs one address of each family at most, and one at least"
        )
    return Member(
        str(row["name"]), tuple(str(address) for address in sorted(addresses, key=lambda address: address.version))
    )


def parse_members(rows: t.Iterable[t.Mapping[str, t.Any]]) -> tuple[tuple[Member, ...], int]:
    """The nodes of a segment by name, and the family over which they hear each other. Raises ValueRefused."""
    members = tuple(sorted(_member(row) for row in rows))
    _check_members(members)
    version = next((number for number in (4, 6) if all(member.of(number) for member in members)), 0)
    if not version:
        without = ", ".join(member.name for member in members if not member.of(4))
        raise ValueRefused(
            "bad_address",
            f"nodes hear each other over one family: {without} have no IPv4 address in layer2_speaker_address, and not all "
            "have one of IPv6",
        )
    return members, version


def _check_members(members: t.Sequence[Member]) -> None:
    if len(members) > MOST_MEMBERS:
        raise ValueRefused("quota", f"{len(members)} nodes are in one segment, and {MOST_MEMBERS} can be")
    seen: set[str] = set()
    for member in members:
        for text in (member.name, *member.addresses):
            if text in seen:
                raise ValueRefused("claimed_twice", f"{quoted(text)} occurs twice among the nodes of the segment")
            seen.add(text)


def parse_groups(rows: t.Iterable[t.Mapping[str, t.Any]]) -> tuple[Group, ...]:
    """Of routes with ``network``, ``group`` and ``health_ports``. Raises ValueRefused."""
    ports: dict[int, tuple[int, ...]] = {}
    found: dict[int, set[str]] = {}
    owner: dict[str, int] = {}
    for row in rows:
        number, network = row.get("group") or 0, parse_network(row["network"])
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= MOST:
            raise ValueRefused("quota", f"{network} has no group: a segment has {MOST}")
        own = tuple(sorted({int(port) for port in row.get("health_ports") or ()}))
        if any(not 0 < port < 65536 for port in own):
            raise ValueRefused("bad_format", "health_ports are numbers from 1 to 65535")
        if ports.setdefault(number, own) != own:
            raise ValueRefused("conflict", f"{network} depends on other ports than the rest of the group {number}")
        if network.prefixlen != network.max_prefixlen:
            raise ValueRefused("bad_cidr", f"{network} is more than one address")
        kind = special_kind(network.network_address)
        if kind:
            raise ValueRefused("special_address", f"{network.network_address} is announced by nobody: {kind}")
        address = str(network.network_address)
        if owner.setdefault(address, number) != number:
            raise ValueRefused("claimed_twice", f"{address} is in the groups {owner[address]} and {number}")
        found.setdefault(number, set()).add(address)
    return tuple(Group(number, tuple(sorted(found[number])), ports[number]) for number in sorted(found))


def check_interface(name: str) -> str:
    """A name that is one token of a configuration. Raises ValueRefused."""
    if not _INTERFACE.match(name):
        raise ValueRefused("bad_format", f"{quoted(name)} is not the name of an interface")
    return name


def on_link(addresses: t.Iterable[str], networks: t.Sequence[Network]) -> tuple[set[str], set[str]]:
    """The addresses that lie in one of the networks, and the others: no neighbour ever asks for those."""
    every = set(addresses)
    parsed = {text: parse_address(text) for text in every}
    inside = {
        text
        for text in every
        if any(parsed[text].version == network.version and parsed[text] in network for network in networks)
    }
    return inside, every - inside
