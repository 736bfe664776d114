# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan changes for pairs of nodes: which have a path as nodes were read, which would have one, by classes. Pure.

The state before is the plan with every change undone that nodes report in check mode. A node that reports none is as the plan; one that was not
read is no proof of anything and is named.
"""

from __future__ import annotations

import json
import typing as t

from ..._mesh.semaphore.annotations import key_of
from ..._plan.mesh_plan import MeshPlan
from .. import causes
from . import losses
from .classes import UNREAD, Pairs, Range, Seat, ranges
from .path_rows import PathRows, covered
from .risks import KEY_CHANGED, MTU_RAISED, SECRET_CHANGED, Risks

Data = dict[str, t.Any]
#: Kinds of classes, the worst first. A run that would lose or risk pairs may be stopped.
LOST, RISKED, BROKEN, MOVED, GAINED = "lost", "risked", "still broken", "moved", "gained"
KINDS = (LOST, RISKED, BROKEN, MOVED, GAINED)
STOPPING = (LOST, RISKED)
#: Lines of the screen.
MOST_LINES = 10
#: A way that stays by a device of the other mode of the mesh.
MODE_CHANGED = "mode_changed"
#: Each node decides, or nobody knows: only what a node reports counts.
_OPEN = frozenset((UNREAD, causes.KEYS_SHARED))


class _Way(t.NamedTuple):
    """One direction: whether there was one, whether there would be, why not, and what is different."""

    before: bool
    after: bool
    cause: str
    moved: str
    risk: str


class Changes:
    """The comparison of one plan with what nodes report.

    mesh: of mesh_plan. paths: {host: its ``paths``, {} where nothing would change, with ``kept``: clusters of which it keeps the peers that the plan
    does not have}, of hosts that were read. unread: hosts that should have been
    read and were not. risks: what the clusters hold and the inventory contradict.
    """

    def __init__(
        self,
        mesh: MeshPlan,
        paths: t.Mapping[str, t.Mapping[str, t.Any]],
        unread: t.Collection[str] = (),
        risks: Risks | None = None,
    ) -> None:
        self.mesh, self.pairs = mesh, Pairs(mesh)
        self.unread = sorted(unread)
        self.risks = risks or Risks.of(mesh)
        self._why = _refusals(mesh)
        self._known_routes: dict[tuple[str, str], tuple[Range, ...]] = {}
        self._peers: dict[tuple[str, str], dict[str, tuple[str, tuple[Range, ...]]]] = {}
        self._rows: dict[str, PathRows] = {}
        self._kinds: dict[str, int] = {}
        known: dict[str, int] = {}
        for host, seat in sorted(self.pairs.seats.items()):
            rows = PathRows(paths.get(host) or {})
            same = json.dumps([seat.cluster, rows.canonical()], sort_keys=True)
            self._kinds[host] = known.setdefault(same, len(known))
            self._rows[host] = rows
        self._raised = {
            (self.pairs.seats[host].cluster, device)
            for host, rows in self._rows.items()
            for device in rows.raised_mtus()
        }

    def classes(self) -> list[Data]:
        """[{class, kind, cause, from, to, pairs, example: {from, to}, first_hop, message}], the worst first; pairs of nodes are counted once."""
        found: dict[tuple[str, str], Data] = {}
        if not self._compared():
            return self.risks.rows()
        groups, ways = self._groups()
        for index, (key, sources) in enumerate(groups):
            for other, targets in groups[index:]:
                number = len(sources) * len(targets) if other != key else len(sources) * (len(sources) - 1) // 2
                if not number:
                    continue
                one, two = sources[0], targets[0] if other != key else targets[-1]
                kind, cause, back = _judge(ways(one, two), ways(two, one))
                if kind:
                    self._add(found, kind, cause, (two, one) if back else (one, two), number)
        rows = [*found.values(), *self.risks.rows()]
        return sorted(rows, key=lambda row: (KINDS.index(row["kind"]), -row["pairs"], row["class"]))

    def kept_pairs(self) -> t.Iterator[tuple[str, str, int]]:
        """(host, host, number of pairs like these) of pairs that have a path before and after, within the run; none where nothing differs."""
        if not self._compared():
            return
        groups, ways = self._groups()
        for index, (key, sources) in enumerate(groups):
            for other, targets in groups[index:]:
                number = len(sources) * len(targets) if other != key else len(sources) * (len(sources) - 1) // 2
                if not number:
                    continue
                one, two = sources[0], targets[0] if other != key else targets[-1]
                if self.pairs.seats[one].cluster == self.pairs.seats[two].cluster and not self.pairs.whole:
                    continue
                there, back = ways(one, two), ways(two, one)
                if KEY_CHANGED in (there.risk, back.risk):
                    continue  # those outside --limit are not called again
                if there.before and back.before and there.after and back.after:
                    yield one, two, number

    def link_sides(self, host: str, remote: str) -> tuple[Data, Data]:
        """{mtu, listen_port, public_key} of the device to a cluster, before and after; empty where it stays as it is, comes or goes."""
        row = self._rows[host].links.get(self.device(self.pairs.seats[host].cluster, remote)) or {}
        before, after = row.get("before"), row.get("after")
        return (before, after) if before and after else ({}, {})

    def fabric(self) -> Data:
        """What each node and each pair of clusters would lose, of losses.losses."""
        groups, ways = self._groups()
        seats = self.pairs.seats

        def state(one: str, two: str) -> tuple[str, str]:
            there, back = ways(one, two), ways(two, one)
            apart = self.pairs.whole or seats[one].cluster != seats[two].cluster
            if not apart or not (there.before and back.before):
                return "", ""
            kind, cause, _back = _judge(there, back)
            return kind if kind in STOPPING else losses.KEPT, cause

        return losses.losses(seats, [hosts for _key, hosts in groups], state)

    def _compared(self) -> bool:
        """Whether anything differs: else all that is broken was broken, and every run would say it."""
        return self.risks.any() or any(rows.any() for rows in self._rows.values())

    def _groups(self) -> tuple[list[tuple[t.Any, list[str]]], t.Callable[[str, str], _Way]]:
        """Hosts for which the same is decided, in both directions."""
        first: dict[int, str] = {}
        for host, kind in self._kinds.items():
            first.setdefault(kind, host)
        known: dict[tuple[int, str], _Way] = {}

        def way(source: str, target: str) -> _Way:
            key = (self._kinds[source], target)
            if key not in known:
                known[key] = self._way(source, target)
            return known[key]

        groups: dict[t.Any, list[str]] = {}
        for host, kind in self._kinds.items():
            others = tuple(way(source, host) for source in first.values())
            groups.setdefault((self.pairs.seats[host].cluster, kind, others), []).append(host)
        return list(groups.items()), way

    def _way(self, source: str, target: str) -> _Way:
        here, there = self.pairs.seats[source], self.pairs.seats[target]
        if here.cluster == there.cluster and not self.pairs.whole:
            return _Way(True, True, "", "", "")
        cause = self.pairs.found.get((here.cluster, target), "")
        device, rows = self.device(here.cluster, there.cluster), self._rows[source]
        if cause == causes.PEER_MISSING and self._is_made(target, here.cluster):
            cause = ""  # its key is known when it is made, and published then
        change = rows.of(device)
        if not change.any and not rows.kept:
            stays = not cause or cause in _OPEN
            moved = SECRET_CHANGED if stays and device in rows.new_secrets else ""
            return _Way(stays, stays, cause, moved, self._risk(here.cluster, target, device, rows))
        planned = self._routes(here.cluster, there.cluster)
        kept = ("kubespan" if self.pairs.whole else there.cluster) in rows.kept
        gone = any(change.removes(pod) for pod in there.pods)
        after = not cause or (cause in _OPEN and not gone)
        if kept:
            after = self.pairs.whole or all(covered(pod, planned) for pod in there.pods)
        if not change.any:
            before = after
        elif change.created:
            before = self._by_other_mode(rows, there.cluster)
        else:
            before = all(
                (kept or change.held(pod, self._planned(here.cluster, there), open_=cause in _OPEN))
                and (self.pairs.whole or change.routed(pod, planned))
                for pod in there.pods
            )
        risk = self._risk(here.cluster, target, device, rows)
        moved = MODE_CHANGED if change.created else change.moved(there.pods)
        if not moved and device in rows.new_secrets:
            moved = SECRET_CHANGED
        return _Way(before, after, cause, moved if before and after else "", risk)

    def _by_other_mode(self, rows: PathRows, remote: str) -> bool:
        """Whether a device of the other mode of the mesh, which goes, leads to a cluster."""
        return rows.goes("wireguard." + remote if self.pairs.whole else "kubespan")

    def _is_made(self, host: str, remote: str) -> bool:
        """Whether a host is in the mesh of a cluster from this run on, and has published nothing for it before."""
        if self.pairs.whole or not self.is_new(host, remote):
            return self.is_new(host, remote)
        seat, known = self.pairs.seats[host], self.mesh.nodes[host].published.get(key_of(remote, "pubKey"))
        # of a first mesh the plan has the keys that are to come
        return (
            not known and (seat.cluster, seat.node) not in self._why and self._by_other_mode(self._rows[host], remote)
        )

    def has_new_secret(self, host: str, remote: str) -> bool:
        """Whether peers of the device to a cluster get another preshared key."""
        return self.device(self.pairs.seats[host].cluster, remote) in self._rows[host].new_secrets

    def is_new(self, host: str, remote: str) -> bool:
        """Whether the device to a cluster comes with this run."""
        return self._rows[host].of(self.device(self.pairs.seats[host].cluster, remote)).created

    def _risk(self, local: str, target: str, device: str, rows: PathRows) -> str:
        new = KEY_CHANGED if device in rows.new_keys() else SECRET_CHANGED if device in rows.new_secrets else ""
        risk = self.risks.of_pair(local, target, new)
        return MTU_RAISED if not risk and (local, device) in self._raised else risk

    def _routes(self, local: str, remote: str) -> tuple[Range, ...]:
        """The plan's routes to a cluster."""
        known = self._known_routes.get((local, remote))
        if known is None:
            settings = None if self.pairs.whole else self.mesh.cluster(local).remotes.get(remote)
            known = ranges([row.get("dst") for row in settings.routes] if settings else ())
            self._known_routes[local, remote] = known
        return known

    def _planned(self, local: str, there: Seat) -> tuple[str, tuple[Range, ...]]:
        """(key, ranges) of the plan's peer for a node."""
        known = self._peers.get((local, there.cluster))
        if known is None:
            settings = self.mesh.cluster(local).remotes.get(there.cluster)
            known = {
                str(row.get("node")): (str(row.get("public_key")), ranges(row.get("allowed_ips")))
                for row in (settings.peers if settings else ())
            }
            self._peers[local, there.cluster] = known
        if self.pairs.whole:
            return "", () if (local, there.host) in self.pairs.found else there.pods
        return known.get(there.node, ("", ()))

    def device(self, local: str, remote: str) -> str:
        """The device by which a cluster's nodes send to another."""
        if self.pairs.whole:
            return "kubespan"
        settings = self.mesh.cluster(local).remotes.get(remote)
        return settings.device if settings else ""

    def _add(
        self, found: dict[tuple[str, str], Data], kind: str, cause: str, ends: tuple[str, str], number: int
    ) -> None:
        here, there = (self.pairs.seats[host] for host in ends)
        reason, message = self._why.get((there.cluster, there.node), ("", "")) if kind in (LOST, BROKEN) else ("", "")
        name = "/".join((reason or cause, here.cluster, there.cluster))
        row = found.get((kind, name))
        if row is not None:
            row["pairs"] += number
            return
        found[kind, name] = {
            "class": name,
            "kind": kind,
            "cause": reason or cause,
            "from": here.cluster,
            "to": there.cluster,
            "pairs": number,
            "example": {"from": ends[0], "to": ends[1]},
            "first_hop": self.device(here.cluster, there.cluster),
            "message": message or self.risks.message(cause, ends[1]),
        }


def _judge(there: _Way, back: _Way) -> tuple[str, str, bool]:
    """(kind, cause, whether the way back is the reason) of a pair; no kind where nothing changes."""
    before, after = there.before and back.before, there.after and back.after
    first = there.after and (not back.after or (not there.risk and bool(back.risk)))
    if before and not after:
        return LOST, back.cause if first else there.cause, first
    if not before and not after:
        cause = back.cause if first else there.cause
        return ("", "", False) if cause in _OPEN else (BROKEN, cause, first)
    if not before:
        return GAINED, "gained", not back.before and there.before
    if there.risk or back.risk:
        return RISKED, there.risk or back.risk, not there.risk
    if there.moved or back.moved:
        return MOVED, there.moved or back.moved, not there.moved
    return "", "", False


def _refusals(mesh: MeshPlan) -> dict[tuple[str, str], tuple[str, str]]:
    """{(cluster, node): (reason, message)} of claims that the plan refuses."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for row in mesh.refused:
        cluster, _slash, node = str(row.get("object")).partition("/")
        found.setdefault((cluster, node), (str(row.get("reason")), str(row.get("message"))))
    return found


def judged(
    rows: t.Sequence[Data],
    unread: t.Sequence[str],
    most: int,
    confirmed: t.Collection[str],
    room: int = MOST_LINES,
) -> Data:
    """What a result has: {lost, risked, still_broken, moved, gained, classes, unproven, stops: [class], lines, message}.

    most: pairs that a run may lose or risk without confirmation, negative for any number; confirmed: names of classes; room: lines of the screen.
    """
    counts = {kind.replace(" ", "_"): sum(row["pairs"] for row in rows if row["kind"] == kind) for kind in KINDS}
    over = [row for row in rows if row["kind"] in STOPPING and row["class"] not in confirmed]
    stops = [row["class"] for row in over] if 0 <= most < sum(row["pairs"] for row in over) else []
    found: Data = dict(counts, classes=list(rows), unproven=list(unread), stops=stops, message="")
    if stops:
        text = (
            "this run would lose {0:,} pairs of nodes and may lose {1:,} (mesh_max_lost_pairs: {2}), so it stops before its first write: {3}. "
            "Correct the inventory, or confirm with mesh_confirm_lost: [{4}] [pairs_lost]"
        )
        losing, risking = (sum(row["pairs"] for row in over if row["kind"] == kind) for kind in STOPPING)
        shown = "; ".join(map(line, over[:MOST_LINES]))
        found["message"] = text.format(
            losing, risking, most, shown, ", ".join(f'"{name}"' for name in stops[:MOST_LINES])
        )
    found["lines"] = lines(rows, unread, bool(stops), room)
    return found


def line(row: t.Mapping[str, t.Any]) -> str:
    """A class in one line."""
    why = f": {row['message']}" if row["message"] else ""
    hop = f" by {row['first_hop']}" if row["first_hop"] else ""
    pairs = "1 pair" if row["pairs"] == 1 else f"{row['pairs']:,} pairs"
    return f"{row['kind']} {pairs} [{row['class']}], {row['example']['from']} to {row['example']['to']}{hop}{why}"


def lines(rows: t.Sequence[Data], unread: t.Sequence[str], stops: bool, most: int = MOST_LINES) -> list[str]:
    """At most so many, the worst class first; none where nothing changes."""
    more = []
    if unread:
        names = ", ".join(unread[:5]) + (f" and {len(unread) - 5} more" if len(unread) > 5 else "")
        more.append(f"not proven: {names} could not be compared")
    if stops:
        more.append("a run stops before its first write, see mesh_max_lost_pairs and mesh_confirm_lost")
    room = most - len(more)
    shown = list(map(line, rows[:room]))
    if len(rows) > room:
        shown[-1] = f"{len(rows) - room + 1} more classes are in the plan file and in the result"
    return [*shown, *more]
