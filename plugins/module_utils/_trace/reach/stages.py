# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairs of nodes that have a path before a run and after it, and none on the way: which step begins that, and which one ends it. Pure.

A run calls every node once, publishes what is new, and calls those again that have to know it. Within a call a node changes all that it has at once;
nodes are called in no order that could be relied on.
"""

from __future__ import annotations

import math
import typing as t

from ..._mesh.semaphore.annotations import key_of
from .changes import Changes, Data

#: Others reject a node with a new key until they know it; packets to another port are lost until others know that; each node leaves the former mode of
#: the mesh for the new one when it is called; handshakes between nodes with different preshared keys fail.
KEY_NEW, PORT_NEW, MODE_NEW, SECRET_NEW = "key_new", "port_new", "mode_new", "secret_new"
FIRST_CALL, SECOND_CALL = "the first call", "the second call"
_MESSAGES = {
    KEY_NEW: "the key of {0} is new, and others know it when it is published; rotate_keys changes keys without that",
    PORT_NEW: "{0} listens at another port",
    MODE_NEW: "{0} leaves the former mode of the mesh",
    SECRET_NEW: "the preshared key of {0} is new, and a session that ends before others have it is not renewed",
}
MOST_LINES = 5
#: A run that writes confirms each change by a call of its own, so it takes at most so many times what comparing the same nodes takes.
WRITING = 2.0
#: Seconds after which WireGuard repeats a handshake that got no answer, with its jitter.
HANDSHAKE = 6.0
#: Seconds for which a session goes on at least without the handshake that was due: it ends after 180, the first one is due after 120, and a keepalive of 25
#: makes the end that has nothing to send begin it.
SESSION = 35


class Measured(t.NamedTuple):
    """Seconds of a comparison: until all nodes had their first call and the rest was published, and until those that have to had their second one."""

    first: float
    second: float

    @classmethod
    def of_calls(cls, seconds: float, asked: int, hosts: int, forks: int) -> Measured:
        """From one call of some hosts, before the first write. seconds: until they were read; forks: of how many at once."""
        waves = math.ceil(hosts / max(forks, 1)) / max(math.ceil(asked / max(forks, 1)), 1)
        return cls(2 * seconds * waves, 3 * seconds * waves)

    def until(self, call: str) -> int:
        """How long the same part of a run that writes takes at most, in whole seconds."""
        return math.ceil(WRITING * (self.first if call == FIRST_CALL else self.second) + HANDSHAKE)


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
    if any(changes.is_new(host, changes.pairs.seats[peer].cluster) for host, peer in both):
        return Gap(MODE_NEW, one, other, (one, other), SECOND_CALL, (one, other))
    keys = [ends for ends in both if _has_new_key(changes, *ends)]
    ports = [ends for ends in both if _has_new_port(changes, *ends)]
    if keys:
        begin = tuple(host for host, _peer in keys) if not ports else (one, other)
        return Gap(KEY_NEW, *keys[0], begin, SECOND_CALL, tuple(peer for _host, peer in keys))
    if ports:
        return Gap(PORT_NEW, *ports[0], (one, other), FIRST_CALL, (one, other))
    # Bypass devices carry packets while the preshared keys of pairs change; the one of a whole KubeSpan mesh changes on all devices at once.
    if changes.mesh.rotation_step and not changes.pairs.whole:
        return None
    secrets = [ends for ends in both if changes.has_new_secret(ends[0], changes.pairs.seats[ends[1]].cluster)]
    return Gap(SECRET_NEW, *secrets[0], (one, other), FIRST_CALL, (one, other)) if secrets else None


def gaps(changes: Changes, measured: Measured | None = None) -> list[Data]:
    """[{cause, from, to, pairs, example: {from, to}, begins, ends, seconds, message}], the most pairs first; a pair is in one of them.

    from: the cluster of the node that changes. begins, ends: after which step the pair may have no path, and after which it has one again.
    seconds: for how long at most; None where nothing was measured.
    """
    found: dict[tuple[str, str, str], Data] = {}
    seats = changes.pairs.seats
    for one, other, number in changes.kept_pairs():
        gap = gap_of(changes, one, other)
        if gap is None or (gap.cause == SECRET_NEW and measured is not None and measured.until(gap.until) <= SESSION):
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
                "seconds": measured.until(gap.until) if measured is not None else None,
                "message": _MESSAGES[gap.cause].format(gap.host),
            },
        )
        row["pairs"] += number
    return sorted(found.values(), key=lambda row: (-row["pairs"], row["cause"], row["from"], row["to"]))


def lines(rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """At most MOST_LINES; none where no pair is without a path on the way."""
    shown = [
        "without a path {0} {1} [{cause}/{from}/{to}], as {one} to {other} from {begins} to {ends}: {message}".format(
            "for a while" if row["seconds"] is None else f"for at most {row['seconds']} s",
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
