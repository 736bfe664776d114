# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairs of nodes that have a path before a run and after it, and none on the way: which step begins that, and which one ends it. Pure.

A run calls every node once, publishes what is new, and calls those again that have to know it. Within a call a node changes all that it has at once;
nodes are called in no order that could be relied on.
"""

from __future__ import annotations

import typing as t

from .._mesh.semaphore.annotations import key_of
from .changes import Changes, Data

#: Others reject a node with a new key until they know it; packets to another port are lost until others know that.
KEY_NEW, PORT_NEW = "key_new", "port_new"
FIRST_CALL, SECOND_CALL = "the first call", "the second call"
_MESSAGES = {
    KEY_NEW: "the key of {0} is new, and others know it when it is published; rotate_keys changes keys without that",
    PORT_NEW: "{0} listens at another port",
}
MOST_LINES = 5


class Gap(t.NamedTuple):
    """What a pair goes through: it may have no path from the first of the calls of ``begin`` until all of ``end`` had the call ``until``.

    host, peer: the node that changes, and the other one.
    """

    cause: str
    host: str
    peer: str
    begin: tuple[str, ...]
    until: str
    end: tuple[str, ...]


def gap_of(changes: Changes, one: str, other: str) -> Gap | None:
    """The gap of a pair that has a path before and after; None where it has one all the time."""
    both = ((one, other), (other, one))
    keys = [ends for ends in both if _has_new_key(changes, *ends)]
    ports = [ends for ends in both if _has_new_port(changes, *ends)]
    if keys:
        begin = tuple(host for host, _peer in keys) if not ports else (one, other)
        return Gap(KEY_NEW, *keys[0], begin, SECOND_CALL, tuple(peer for _host, peer in keys))
    return Gap(PORT_NEW, *ports[0], (one, other), FIRST_CALL, (one, other)) if ports else None


def gaps(changes: Changes) -> list[Data]:
    """[{cause, from, to, pairs, example: {from, to}, begins, ends, message}], the most pairs first; a pair is in one of them.

    from: the cluster of the node that changes. begins, ends: after which step the pair may have no path, and after which it has one again.
    """
    found: dict[tuple[str, str, str], Data] = {}
    seats = changes.pairs.seats
    for one, other, number in changes.kept_pairs():
        gap = gap_of(changes, one, other)
        if gap is None:
            continue
        key = gap.cause, seats[gap.host].cluster, seats[gap.peer].cluster
        row = found.setdefault(
            key,
            {
                "cause": gap.cause,
                "from": key[1],
                "to": key[2],
                "pairs": 0,
                "example": {"from": gap.host, "to": gap.peer},
                "begins": f"{FIRST_CALL} of {' or '.join(gap.begin)}",
                "ends": f"{gap.until} of {' and '.join(gap.end)}",
                "message": _MESSAGES[gap.cause].format(gap.host),
            },
        )
        row["pairs"] += number
    return sorted(found.values(), key=lambda row: (-row["pairs"], row["cause"], row["from"], row["to"]))


def lines(rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """At most MOST_LINES; none where no pair is without a path on the way."""
    shown = [
        "without a path for a while {0} [{cause}/{from}/{to}], as {one} to {other} from {begins} to {ends}: {message}".format(
            "1 pair" if row["pairs"] == 1 else f"{row['pairs']:,} pairs",
            one=row["example"]["from"],
            other=row["example"]["to"],
            **row,
        )
        for row in rows[:MOST_LINES]
    ]
    if len(rows) > MOST_LINES:
        shown[-1] = f"{len(rows) - MOST_LINES + 1} more gaps are in the result"
    return shown


def _has_new_key(changes: Changes, host: str, peer: str) -> bool:
    """Whether the key of the device changes to one that the peer learns by what the run publishes."""
    mesh, remote = changes.mesh, changes.pairs.seats[peer].cluster
    before, after = changes.link_sides(host, remote)
    if not before or before.get("public_key") == after.get("public_key"):
        return False
    key = key_of("" if changes.pairs.whole else remote, "pubKey")
    return changes.pairs.whole or mesh.nodes[host].published.get(key) != after.get("public_key")


def _has_new_port(changes: Changes, host: str, peer: str) -> bool:
    before, after = changes.link_sides(host, changes.pairs.seats[peer].cluster)
    return bool(before) and before.get("listen_port") != after.get("listen_port")
