# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who keeps what several nodes claim: a key, a node id, an address, a range.

What a cluster's API server returns about its nodes is a claim, also about the owner of a key, so the fabric's plan cannot decide
it. Each node decides for itself: it knows from its last confirmed state with whom it works. Only where it knows nothing counts
what hosts reported in this run, then what the inventory declares, then the name.
"""

from __future__ import annotations

import bisect
import typing as t

from .._values.addresses import Network
from .._values.prefix_sets import RangeOwners, VersionSpan, span
from .._values.refused import quoted

#: ("key", text), ("node id", text), ("address", text)
Thing = tuple[str, str]


class Claimant(t.NamedTuple):
    """One node's claim. ``rank``: the smaller wins where nobody is known to hold a thing; its first item is False for a claim that
    the node's host made in this run. ``marks``: the networks by which a record without a name is known to be of this node; None:
    those that it claims."""

    cluster: str
    node: str
    things: t.Sequence[Thing]
    networks: t.Sequence[Network]
    rank: tuple[t.Any, ...]
    marks: t.Sequence[Network] | None = None

    @property
    def label(self) -> str:
        """``cluster/node``."""
        return f"{self.cluster}/{self.node}"


class Record(t.NamedTuple):
    """Who held what in the last confirmed state. Without ``node``, or without ``cluster``, its ranges show who owns it."""

    cluster: str | None
    node: str | None
    things: t.Sequence[Thing]
    networks: t.Sequence[Network]

    @property
    def label(self) -> str:
        """``cluster/node`` as far as they are known."""
        return "/".join(part for part in (self.cluster, self.node) if part) or "a node that this one works with"


class Lost(t.NamedTuple):
    """Why a claim lost: what ``kind`` of thing, ``shown`` as text, and the label of who keeps it."""

    kind: str
    shown: str
    holder: str


class Settled(t.NamedTuple):
    """Indices of claimants: ``kept``; those of them that won by rank alone, which makes nobody a holder; and why the others lost."""

    kept: set[int]
    by_rank: set[int]
    lost: dict[int, Lost]


def rank_of(
    reported: object, greedy: object, declared: object, cluster: str, node: str
) -> tuple[bool, bool, bool, str, str]:
    """The rank of a claim: what its host reported in this run comes first, what covers others last."""
    return not reported, bool(greedy), not declared, cluster, node


def settle(claimants: t.Sequence[Claimant], records: t.Iterable[Record], unread: t.Container[str] = ()) -> Settled:
    """Decide between claimants. ``unread``: clusters that could not be read: their nodes hold what they held.

    A record counts while its node still claims the thing, or while its cluster cannot be asked. So a node that gave a key up
    does not keep others from it, and one that cannot be asked loses nothing.
    """
    held = _Held(records, claimants, unread)
    lost = {index: why for index, why in enumerate(map(held.trespass, claimants)) if why is not None}
    kept: set[int] = set()
    by_rank: set[int] = set()
    things: dict[Thing, int] = {}
    spans: RangeOwners[int] = RangeOwners()
    for index in sorted(
        (index for index in range(len(claimants)) if index not in lost), key=lambda index: claimants[index].rank
    ):
        claimant = claimants[index]
        rival, what = _rival(claimant, things, spans)
        if rival is not None:
            lost[index] = Lost(what[0], what[1], claimants[rival].label)
            if claimants[rival].rank[0] == claimant.rank[0]:
                by_rank.add(rival)
            continue
        kept.add(index)
        things.update(dict.fromkeys(claimant.things, index))
        for network in claimant.networks:
            spans.claim(network, index)  # a node may nest its own
    return Settled(kept, by_rank, lost)


def _rival(claimant: Claimant, things: t.Mapping[Thing, int], spans: RangeOwners[int]) -> tuple[int | None, Thing]:
    for thing in claimant.things:
        if thing in things:
            return things[thing], thing
    for network in claimant.networks:
        owner = spans.owner(network)
        if owner is not None:
            return owner, ("range", str(network))
    return None, ("", "")


class _Held:
    """What is held by whom, as far as it still counts."""

    def __init__(self, records: t.Iterable[Record], claimants: t.Sequence[Claimant], unread: t.Container[str]) -> None:
        self._claimants, self._unread = claimants, unread
        self._any_unread = bool(unread)
        self._things: dict[Thing, Record] = {}
        rows: list[tuple[VersionSpan, int, Record]] = []
        for number, record in enumerate(records):
            for thing in record.things:
                self._things.setdefault(thing, record)
            rows.extend((span(network), number, record) for network in record.networks)
        rows.sort(key=lambda row: (row[0], row[1]))
        self._rows = rows
        self._starts = [row[0] for row in rows]
        self._by_thing: dict[Thing, list[Claimant]] = {}
        for claimant in claimants:
            for thing in claimant.things:
                self._by_thing.setdefault(thing, []).append(claimant)

    def trespass(self, claimant: Claimant) -> Lost | None:
        """What of a claim another node owns; None when nothing is."""
        for thing in claimant.things:
            record = self._things.get(thing)
            if record is None or _is_of(record, claimant):
                continue
            if self._away(record) or any(_is_of(record, other) for other in self._by_thing[thing]):
                return Lost(thing[0], thing[1], self._name(record, self._by_thing[thing]))
        for network in claimant.networks:
            for where, record in self._overlapping(span(network)):
                if _is_of(record, claimant):
                    continue
                # what its node gave up is nobody's, also where it keeps the rest of that range
                shared = where[0], max(where[1], span(network)[1]), min(where[2], span(network)[2])
                if self._away(record) or any(
                    _is_of(record, other) and _covers_some(other, shared) for other in self._claimants
                ):
                    return Lost("range", str(network), self._name(record, self._claimants))
        return None

    def _away(self, record: Record) -> bool:
        return record.cluster in self._unread if record.cluster is not None else self._any_unread

    def _name(self, record: Record, others: t.Iterable[Claimant]) -> str:
        return (
            record.label
            if record.node
            else next((other.label for other in others if _is_of(record, other)), record.label)
        )

    def _overlapping(self, desired: VersionSpan) -> t.Iterator[tuple[VersionSpan, Record]]:
        version, first, last = desired
        index = bisect.bisect_right(self._starts, (version, last, 1 << 129))
        # what a node confirmed overlaps nothing else of it, so only neighbours have to be looked at
        for where, _number, record in reversed(self._rows[:index]):
            if where[0] != version or where[2] < first:
                break
            yield where, record


def _covers_some(claimant: Claimant, where: VersionSpan) -> bool:
    return any(
        version == where[0] and low <= where[2] and high >= where[1]
        for version, low, high in map(span, claimant.networks)
    )


def _is_of(record: Record, claimant: Claimant) -> bool:
    """Whether a record is one of the claimant's own."""
    if record.cluster is not None and record.cluster != claimant.cluster:
        return False
    if record.node is not None:
        return record.node == claimant.node
    known = claimant if claimant.marks is None else claimant._replace(networks=claimant.marks)
    return any(_covers_some(known, span(network)) for network in record.networks)


def sentence(label: str, lost: Lost) -> str:
    """The refusal of a claim in words."""
    return f"{label}: {lost.kind} {quoted(lost.shown)} is held by {lost.holder}, which keeps it"
