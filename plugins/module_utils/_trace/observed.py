# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes saw of our packets: events of tracing as one passage for each node and direction, and what tunnels counted meanwhile. Pure.

A node only makes claims: texts of its rules are shown and never interpreted, but for the two words that rewriting has.
"""

from __future__ import annotations

import typing as t

from .._values.addresses import address_number
from .._values.refused import ValueRefused
from .._values.text import lower
from .causes import BACK, FORWARD, IN, OUT, printable
from .facts import Device, Node

PREROUTING, INPUT, FORWARDING, OUTPUT, POSTROUTING = "prerouting", "input", "forward", "output", "postrouting"
HOOKS = ("ingress", PREROUTING, INPUT, FORWARDING, OUTPUT, POSTROUTING)
#: Events of one node that are looked at; the recorder keeps fewer.
MOST = 100_000
_REWRITES, _REDIRECTS = ("masquerade", "snat"), ("dnat", "redirect", "tproxy")
_CALLS = ("jump", "goto")
#: A packet that is larger than this is one of those that find black holes.
LARGE = 1000


#: Chains of the mesh's table that drop what is not translated.
NOT_TRANSLATED = ("hidden_in", "hidden_out", "not_translated")


class Event(t.NamedTuple):
    """One event. ``number`` of an address: of what the packet had then; None where the event does not say."""

    seen: int
    family: str
    table: str
    chain: str
    hook: str
    handle: int | None
    rule: str
    kind: str
    verdict: str
    iif: str
    oif: str
    src: int | None
    dst: int | None
    length: int
    direction: str
    #: Of an ICMP error about the packet, which has ends of its own.
    error: bool = False

    @property
    def place(self) -> str:
        """The rule, as somebody finds it."""
        text = f"table {printable(self.family)} {printable(self.table)}, chain {printable(self.chain)}"
        if self.kind == "policy":
            return "the policy of " + text
        if self.rule:
            return f"{text}: {printable(self.rule)}"
        return text if self.handle is None else f"{text}, rule with handle {self.handle}"


class Passage(t.NamedTuple):
    """What one node saw of a flow in one direction, in the order of time."""

    host: str
    direction: str
    hooks: frozenset[str]
    iif: str
    outs: tuple[str, ...]
    sources: frozenset[int]
    targets: frozenset[int]
    drop: Event | None
    rewrite: Event | None
    events: int
    #: The first one dropped of those that find black holes.
    large_drop: Event | None = None
    #: The rule that gave it another target.
    redirect: Event | None = None
    #: By which devices those left that find black holes.
    large_outs: frozenset[str] = frozenset()

    @property
    def stage(self) -> int | None:
        """How far it came there: None for not at all."""
        if not self.hooks:
            return None
        return OUT if POSTROUTING in self.hooks else IN


def _name(value: t.Any) -> str:
    return value[:200] if isinstance(value, str) else ""


def _int(value: t.Any, default: t.Any = None) -> t.Any:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _address(value: t.Any) -> int | None:
    try:
        return address_number(value)[1] if value else None
    except ValueRefused:
        return None


def parse_events(rows: t.Any, flow: str, node: Node | None) -> list[Event]:
    """The events of a flow in the order of time; what is no event is left out."""
    found = []
    for row in rows[:MOST] if isinstance(rows, list) else ():
        if not isinstance(row, dict) or str(row.get("flow")) != flow:
            continue
        family, table, chain = (_name(row.get(name)) for name in ("family", "table", "chain"))
        hook = _name(row.get("hook")) or (node.hooks.get((family, table, chain), "") if node else "")
        hook = hook or (chain if chain in HOOKS else "")
        found.append(
            Event(
                _int(row.get("seen"), 0),
                family,
                table,
                chain,
                hook,
                _int(row.get("handle")),
                _name(row.get("rule")),
                _name(row.get("type")),
                _name(row.get("verdict")),
                _name(row.get("iif")),
                _name(row.get("oif")),
                _address(row.get("src")),
                _address(row.get("dst")),
                _int(row.get("length"), 0),
                BACK if row.get("direction") == "back" else FORWARD,
                bool(row.get("error")),
            )
        )
    return sorted(found, key=lambda event: event.seen)


def passage(host: str, direction: str, events: t.Iterable[Event]) -> Passage:
    """The passage of one direction through one node."""
    mine = [event for event in events if event.direction == direction]
    iif = next((event.iif for event in mine if event.iif), "")
    outs = [event.oif for event in mine if event.oif and event.hook == POSTROUTING]
    plain = [event for event in mine if not event.error]
    drops = [event for event in mine if event.verdict == "drop"]
    rules = [event for event in mine if event.kind == "rule"]
    rewrites = [
        event
        for event in rules
        if event.hook in (POSTROUTING, "")
        and _has_statement(event, _REWRITES)
        and not (_keeps(event.rule) or is_of_mesh(event))
    ]
    redirects = [
        event for event in rules if event.hook in (PREROUTING, OUTPUT, "") and _has_statement(event, _REDIRECTS)
    ]
    return Passage(
        host,
        direction,
        frozenset(event.hook for event in mine if event.hook),
        iif,
        tuple(dict.fromkeys(outs)),
        frozenset(event.src for event in plain if event.src is not None),
        frozenset(event.dst for event in plain if event.dst is not None),
        drops[0] if drops else None,
        rewrites[0] if rewrites else None,
        len(mine),
        next((event for event in drops if event.length >= LARGE), None),
        redirects[-1] if redirects else None,
        frozenset(event.oif for event in mine if event.oif and event.hook == POSTROUTING and event.length >= LARGE),
    )


def is_of_mesh(event: Event) -> bool:
    """Whether a rule is of the mesh's own table that translates addresses of pods: to which ones, their flow has (translation 3)."""
    return event.table.startswith("multicluster-network-") and event.table.endswith("-nat")


def _keeps(rule: str) -> bool:
    """Whether a rule of NAT maps each range to itself, as the mesh's own table does where it keeps addresses of pods (translation 3)."""
    dummy, found, pairs = rule.partition(" map { ")
    if not found or " prefix to " not in dummy or not pairs.rstrip().endswith("}"):
        return False
    ends = [pair.strip().split(" : ") for pair in pairs.rstrip()[:-1].split(",")]
    return all(len(pair) == 2 and pair[0] == pair[1] for pair in ends)


def _has_statement(event: Event, desired: t.Sequence[str]) -> bool:
    """Whether a rule has one of those statements: by its own keyword, not by that of a comment, a chain or a set."""
    words: list[str] = []
    for number, part in enumerate(event.rule.split('"')):
        if number % 2 == 0:
            words += part.split()
        elif words[-2:] == ["xt", "target"]:  # one of iptables, in nft's words
            words.append(lower(part))
        else:
            words.append("")
    return any(token in desired and before not in _CALLS for before, token in zip(["", *words], words))


class Counted(t.NamedTuple):
    """What a tunnel's end counted of its peer during the trace; None where nobody knows. ``age`` of the handshake at the end."""

    rx: int | None
    tx: int | None
    age: float | None


def counted(before: Device | None, after: Device | None, key: str) -> Counted:
    """The difference for the peer with a key."""
    first, last = (device.peer(key) if device is not None else None for device in (before, after))
    if first is None or last is None:
        return Counted(None, None, last.age if last else first.age if first else None)
    return Counted(max(0, last.rx - first.rx), max(0, last.tx - first.tx), last.age)


class Sent(t.NamedTuple):
    """What came of one packet that was sent. ``outcome``: answered, refused, unreachable, icmp_error, no_answer or failed."""

    size: int
    outcome: str
    detail: str


def parse_sent(rows: t.Any, flow: str) -> list[Sent]:
    """What came of a flow's packets, small ones first."""
    found = [
        Sent(_int(row.get("size"), 0), _name(row.get("outcome")), _name(row.get("detail")))
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and str(row.get("flow")) == flow
    ]
    return sorted(found, key=lambda sent: sent.size)
