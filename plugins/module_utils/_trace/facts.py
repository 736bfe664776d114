# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one node said of itself, as frozen values: links, routes, rules, WireGuard, sets, settings. Pure.

A node only makes claims. What of them cannot be read is left out and counted in ``left_out``, so that a decision that would have needed it is not taken
for proven.
"""

from __future__ import annotations

import contextlib
import typing as t

from .._values.addresses import address_number, network_span
from .._values.prefix_sets import address_text
from .._values.refused import ValueRefused
from .._values.text import mapping

Data = t.Mapping[str, t.Any]
#: Rows of one kind that a node may say; a large mesh has a few thousand routes.
MOST = 200_000
_BITS = {4: 32, 6: 128}
_ANY = {4: (0, (1 << 32) - 1), 6: (0, (1 << 128) - 1)}


class Route(t.NamedTuple):
    """A route; ``kind`` is unicast, local, unreachable, ...; ``via`` "several" where it has several next hops."""

    version: int
    first: int
    last: int
    length: int
    table: int
    kind: str
    dev: str | None
    via: str | None
    metric: int
    protocol: int | None
    mtu: int | None


class Rule(t.NamedTuple):
    """A rule of policy routing. ``understood``: whether it asks for nothing but what is here."""

    version: int
    priority: int
    action: str
    table: int | None
    fwmark: int | None
    fwmask: int
    src: tuple[int, int]
    dst: tuple[int, int]
    iif: str | None
    oif: str | None
    invert: bool
    suppress: int | None
    understood: bool


class Peer(t.NamedTuple):
    """A peer of a WireGuard device. ``endpoint``: (version, address, port); ``age`` of the handshake in seconds, None for none."""

    public_key: str
    endpoint: tuple[int, int, int] | None
    allowed: tuple[tuple[int, int, int, int], ...]
    age: float | None
    rx: int
    tx: int
    preshared: bool | None = None


class Device(t.NamedTuple):
    """A WireGuard device."""

    name: str
    public_key: str
    listen_port: int
    fwmark: int
    up: bool
    peers: tuple[Peer, ...]

    def peer(self, key: str) -> Peer | None:
        """The peer with a public key."""
        return next((peer for peer in self.peers if peer.public_key == key), None)

    def peer_for(self, version: int, number: int) -> Peer | None:
        """The peer that packets to an address go to, and from which alone packets from it are taken: by the longest of its ranges."""
        best: tuple[int, Peer] | None = None
        for peer in self.peers:
            for family, first, last, length in peer.allowed:
                if family == version and first <= number <= last and (best is None or length > best[0]):
                    best = (length, peer)
        return best[1] if best else None


class Tracking(t.NamedTuple):
    """The table of tracked connections. ``dropped``: packets that could not be tracked, None where the kernel does not say."""

    used: int
    most: int
    dropped: int | None


class Link(t.NamedTuple):
    """A device."""

    name: str
    kind: str
    up: bool
    mtu: int
    owned: bool
    #: Whether it has an IPv4 address.
    numbered: bool = False


class Node(t.NamedTuple):
    """One node. ``own``: its addresses (version, number). ``sets``: ranges of our table's sets by version, None where it has no such table.

    ``watcher``: whether the watcher runs, None where that is not known. ``rp_filter``: by device, with ``all``. ``pods``: address -> its device or "".
    ``listeners``: of addresses of which it is known who listens, (protocol, port). ``hooks``: (family, table, chain) -> hook.
    """

    host: str
    cluster: str
    links: t.Mapping[str, Link]
    routes: t.Mapping[tuple[int, int], tuple[Route, ...]]
    rules: t.Mapping[int, tuple[Rule, ...]]
    devices: t.Mapping[str, Device]
    own: frozenset[tuple[int, int]]
    sets: t.Mapping[int, tuple[tuple[int, int], ...]] | None
    watcher: bool | None
    forwarding: t.Mapping[int, bool]
    still: frozenset[tuple[int, str]]
    rp_filter: t.Mapping[str, int]
    valid_mark: bool
    pods: t.Mapping[tuple[int, int], str]
    kube_proxy: bool | None
    listeners: t.Mapping[tuple[int, int], frozenset[tuple[str, int]]]
    hooks: t.Mapping[tuple[str, str, str], str]
    left_out: tuple[str, ...]
    answers: t.Mapping[tuple[t.Any, ...], t.Mapping[str, t.Any]] = {}
    #: By version of IP: the address at which other clusters see the host itself.
    host_sources: t.Mapping[int, str] = {}

    def forwards(self, version: int, iif: str) -> bool:
        """Whether it passes on what comes in by a device: IPv4 asks the device, IPv6 the whole host; unknown counts as yes."""
        return self.forwarding.get(version) is not False and (version, iif) not in self.still


def _rows(value: t.Any) -> list[Data]:
    return [row for row in value[:MOST] if isinstance(row, dict)] if isinstance(value, list) else []


def _list(value: t.Any) -> list[t.Any]:
    return value[:MOST] if isinstance(value, list) else []


def _short_text(value: t.Any) -> str | None:
    return value[:128] if isinstance(value, str) and value else None


def _number(value: t.Any, default: int = 0) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def span_of(text: t.Any) -> tuple[int, int, int, int]:
    """(version, first, last, length) of a network. Raises ValueRefused."""
    version, first, last = network_span(text)
    return version, first, last, _BITS[version] - (last - first + 1).bit_length() + 1


def key_of(text: t.Any) -> tuple[int, int]:
    """(version, number) of an address. Raises ValueRefused."""
    return address_number(text)


def parse_endpoint_key(text: t.Any) -> tuple[int, int, int] | None:
    """(version, address, port) of an endpoint; None for none and for what is none."""
    if not isinstance(text, str) or ":" not in text:
        return None
    host, dummy, port = text.rpartition(":")
    try:
        version, number = address_number(host.strip("[]"))
    except ValueRefused:
        return None
    return (version, number, int(port)) if port.isascii() and port.isdigit() and len(port) <= 5 else None


def _route(row: Data) -> Route:
    version, first, last, length = span_of(row.get("dst"))
    return Route(
        version,
        first,
        last,
        length,
        _number(row.get("table"), 254),
        str(row.get("type") or "unicast"),
        _short_text(row.get("dev")),
        _short_text(row.get("via")),
        _number(row.get("metric")),
        row.get("protocol") if isinstance(row.get("protocol"), int) else None,
        row.get("mtu") if isinstance(row.get("mtu"), int) else None,
    )


#: Selectors that need more of a packet than is known here.
_UNKNOWN = ("tos", "ipproto", "sport", "dport", "uidrange", "l3mdev", "suppress_ifgroup", "goto", "other")


def _rule(row: Data) -> Rule:
    version = 6 if row.get("version") == 6 else 4
    spans = []
    for name in ("src", "dst"):
        found = span_of(row[name]) if row.get(name) else None
        spans.append(_ANY[version] if found is None else (found[1], found[2]))
    action = str(row.get("action") or "to_table")
    mark = row.get("fwmark")
    suppress = row.get("suppress_prefixlength")
    return Rule(
        version,
        _number(row.get("priority")),
        action,
        row.get("table") if isinstance(row.get("table"), int) else None,
        mark if isinstance(mark, int) else None,
        _number(row.get("fwmask"), 0xFFFFFFFF) if row.get("fwmask") is not None else 0xFFFFFFFF,
        spans[0],
        spans[1],
        _short_text(row.get("iif")),
        _short_text(row.get("oif")),
        row.get("invert") is True,
        suppress if isinstance(suppress, int) else None,
        not any(row.get(name) not in (None, False, 0, [], "") for name in _UNKNOWN) and action != "goto",
    )


def _peer(row: Data) -> Peer:
    allowed = tuple(span_of(text) for text in _list(row.get("allowed_ips")))
    age = row.get("handshake_age")
    return Peer(
        str(row.get("public_key")),
        parse_endpoint_key(row.get("endpoint")),
        allowed,
        float(age) if isinstance(age, (int, float)) and abs(age) < 1e15 else None,
        _number(row.get("rx")),
        _number(row.get("tx")),
        row["preshared"] if isinstance(row.get("preshared"), bool) else None,
    )


def parse_devices(rows: t.Any, links: t.Mapping[str, Link], left_out: list[str]) -> dict[str, Device]:
    """WireGuard devices by name."""
    found = {}
    for row in _rows(rows):
        name = _short_text(row.get("name"))
        if name is None:
            continue
        peers = []
        for given in _rows(row.get("peers")):
            try:
                peers.append(_peer(given))
            except (ValueRefused, TypeError):
                left_out.append("peers")
        up = row["up"] is True if isinstance(row.get("up"), bool) else (name in links and links[name].up)
        found[name] = Device(
            name,
            str(row.get("public_key") or ""),
            _number(row.get("listen_port")),
            _number(row.get("fwmark")),
            up,
            tuple(peers),
        )
    return found


def parse_node(host: str, cluster: str, facts: t.Any, answers: t.Any = None) -> Node:
    """A node's facts. What cannot be read is in ``left_out``, by the name of its part."""
    facts = facts if isinstance(facts, dict) else {}
    left_out = [str(row.get("section")) for row in _rows(facts.get("errors"))]
    links = {}
    own: set[tuple[int, int]] = set()
    for row in _rows(facts.get("links")):
        name = _short_text(row.get("name"))
        if name is None:
            continue
        mine = set()
        for text in _list(row.get("addresses")):
            try:
                mine.add(key_of(str(text).partition("/")[0]))
            except ValueRefused:
                left_out.append("links")
        own |= mine
        numbered = any(version == 4 for version, dummy in mine)
        links[name] = Link(
            name,
            str(row.get("kind") or ""),
            row.get("up") is True,
            _number(row.get("mtu")),
            row.get("owned") is True,
            numbered,
        )
    routes: dict[tuple[int, int], list[Route]] = {}
    for row in _rows(facts.get("routes")):
        try:
            route = _route(row)
        except ValueRefused:
            left_out.append("routes")
            continue
        routes.setdefault((route.version, route.table), []).append(route)
        if route.kind == "local" and route.first == route.last:
            own.add((route.version, route.first))
    rules: dict[int, list[Rule]] = {4: [], 6: []}
    for row in _rows(facts.get("rules")):
        try:
            rule = _rule(row)
        except ValueRefused:
            left_out.append("rules")
            continue
        rules[rule.version].append(rule)
    settings = mapping(facts, "settings")
    forwarding = mapping(settings, "forwarding")
    return Node(
        host,
        cluster,
        links,
        {key: tuple(sorted(rows, key=lambda route: (-route.length, route.metric))) for key, rows in routes.items()},
        {version: tuple(sorted(rows, key=lambda rule: rule.priority)) for version, rows in rules.items()},
        parse_devices(facts.get("devices"), links, left_out),
        frozenset(own),
        _sets(facts.get("sets"), left_out),
        _watcher(facts.get("units")),
        {
            version: bool(forwarding[name])
            for version in (4, 6)
            for name in (version, str(version))
            if name in forwarding
        },
        _still(settings.get("not_forwarding")),
        {str(name): _number(value) for name, value in mapping(settings, "rp_filter").items()},
        bool(settings.get("src_valid_mark")),
        _pods(facts.get("pods"), left_out),
        _running(facts.get("kube_proxy")),
        _listeners(facts.get("listeners"), left_out),
        _hooks(facts.get("tables")),
        tuple(sorted(set(left_out))),
        _answers(answers),
        _host_sources(facts.get("host_sources")),
    )


def _host_sources(given: t.Any) -> dict[int, str]:
    found = {}
    for text in given if isinstance(given, list) else ():
        with contextlib.suppress(ValueRefused):
            version, number = key_of(str(text))
            found[version] = address_text(version, number)
    return found


def _sets(rows: t.Any, left_out: list[str]) -> dict[int, tuple[tuple[int, int], ...]] | None:
    found: dict[int, tuple[tuple[int, int], ...]] | None = None
    for row in _rows(rows):
        spans = []
        for item in _list(row.get("spans")):
            if isinstance(item, (list, tuple)) and len(item) == 2 and all(isinstance(part, int) for part in item):
                spans.append((item[0], item[1]))
            else:
                left_out.append("sets")
        found = found or {}
        version = 6 if row.get("version") == 6 else 4
        found[version] = tuple(sorted((*found.get(version, ()), *spans)))
    return found


def parse_tracking(counters: t.Any) -> Tracking | None:
    """Out of a node's counters; None where it tracks nothing, or said nothing."""
    found = mapping(counters, "tracking")
    if not found:
        return None
    dropped = found.get("dropped")
    return Tracking(
        _number(found.get("count")), _number(found.get("most")), None if dropped is None else _number(dropped)
    )


def _still(rows: t.Any) -> frozenset[tuple[int, str]]:
    """Devices that pass nothing on: names of IPv4's."""
    found = set()
    for row in rows if isinstance(rows, list) else ():
        name = row.get("name") if isinstance(row, dict) else row
        if isinstance(name, str) and (not isinstance(row, dict) or row.get("version", 4) == 4):
            found.add((4, name))
    return frozenset(found)


def _watcher(units: t.Any) -> bool | None:
    """Units are {name, active} rows; the watcher's name ends so."""
    if isinstance(units, dict):
        units = [
            dict(row, name=name) if isinstance(row, dict) else {"name": name, "active": row}
            for name, row in units.items()
        ]
    states = [row.get("active") for row in _rows(units) if "watch" in str(row.get("name"))]
    return None if not states else all(state in ("active", "activating", "reloading", True) for state in states)


def _running(value: t.Any) -> bool | None:
    running = value.get("running") if isinstance(value, dict) else None
    return running if isinstance(running, bool) else None


def _pods(rows: t.Any, left_out: list[str]) -> dict[tuple[int, int], str]:
    found = {}
    for row in _rows(rows):
        for text in _list(row.get("addresses")):
            try:
                found[key_of(str(text).partition("/")[0])] = _short_text(row.get("device")) or ""
            except ValueRefused:
                left_out.append("pods")
    return found


def _listeners(rows: t.Any, left_out: list[str]) -> dict[tuple[int, int], frozenset[tuple[str, int]]]:
    """{address: what listens there}. A row without a port means that the address was looked at."""
    found: dict[tuple[int, int], set[tuple[str, int]]] = {}
    for row in _rows(rows):
        try:
            place = found.setdefault(key_of(row.get("pod") or row.get("address")), set())
        except ValueRefused:
            left_out.append("listeners")
            continue
        if isinstance(row.get("port"), int):
            place.add((str(row.get("proto") or row.get("protocol") or "tcp"), row["port"]))
    return {key: frozenset(value) for key, value in found.items()}


def _hooks(rows: t.Any) -> dict[tuple[str, str, str], str]:
    found = {}
    for row in _rows(rows):
        for chain in _rows(row.get("chains")):
            if chain.get("hook"):
                found[str(row.get("family")), str(row.get("name")), str(chain.get("name"))] = str(chain["hook"])
    return found


def _answers(rows: t.Any) -> dict[tuple[t.Any, ...], Data]:
    found = {}
    for row in _rows(rows):
        question = row.get("question")
        asked: Data = question if isinstance(question, dict) else row
        said = row.get("answer")
        key = (
            _short_text(asked.get("dst")),
            _short_text(asked.get("src")),
            _short_text(asked.get("iif")),
            _number(asked.get("mark")),
        )
        found[key] = said if isinstance(said, dict) else row
    return found
