# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairs of nodes before and after hypotheses, by classes of nodes for which the same is decided in both states. Pure."""

from __future__ import annotations

import typing as t

from ..._plan.mesh_plan import MeshPlan
from . import losses
from .changes import BROKEN, GAINED, KINDS, LOST, MOVED
from .classes import UNREAD, Pairs
from .risks import KEY_CHANGED

Data = dict[str, t.Any]
#: (public key, endpoint, allowed IPs) of a peer.
_Peer = tuple[str, str, tuple[str, ...]]


class Consequences:
    """What hypotheses change. before, after: the same hosts by two plans; new_keys: hosts with a key that no other node knows."""

    def __init__(
        self,
        before: MeshPlan,
        after: MeshPlan,
        away: t.Collection[str] = (),
        new_keys: t.Collection[str] = (),
    ) -> None:
        self.before, self.after = Pairs(before), Pairs(after, away)
        self.new_keys = frozenset(new_keys)
        self._moved = _moved(before, after)

    def cause(self, source: str, target: str) -> str:
        """Why a pair has no path with the hypotheses; empty where it has one."""
        cause = self.after.verdict(source, target)
        if not cause and self._apart(source, target) and self.new_keys & {source, target}:
            return KEY_CHANGED
        return cause

    def _apart(self, source: str, target: str) -> bool:
        """Whether the mesh carries the pair, and not the network of its cluster."""
        seats = self.after.seats
        return self.after.whole or seats[source].cluster != seats[target].cluster

    def classes(self) -> list[Data]:
        """[{class, kind, cause, from, to, pairs, example: {from, to}, message}], the worst first; pairs of nodes are counted once."""
        groups = list(self._groups().items())
        found: dict[tuple[str, str], Data] = {}
        for index, (key, sources) in enumerate(groups):
            for other, targets in groups[index:]:
                number = len(sources) * len(targets) if other != key else len(sources) * (len(sources) - 1) // 2
                one, two = sources[0], targets[-1]
                if not number or not self._apart(one, two):
                    continue
                kind, cause = self._judge(one, two)
                if kind:
                    self._add(found, kind, cause, (one, two), number)
        return sorted(found.values(), key=lambda row: (KINDS.index(row["kind"]), -row["pairs"], row["class"]))

    def fabric(self) -> Data:
        """What each node and each pair of clusters would lose, of losses.losses."""

        def state(one: str, two: str) -> tuple[str, str]:
            if not self._apart(one, two) or self.before.verdict(one, two):
                return "", ""
            cause = self.cause(one, two)
            return ("", "") if cause == UNREAD else (losses.LOST if cause else losses.KEPT, cause)

        return losses.losses(self.after.seats, list(self._groups().values()), state)

    def _groups(self) -> dict[t.Any, list[str]]:
        groups: dict[t.Any, list[str]] = {}
        clusters = self.after.clusters
        for host, seat in self.after.seats.items():
            decided = tuple(
                (
                    self.before.found.get((cluster, host), ""),
                    self.after.found.get((cluster, host), ""),
                    (cluster, host) in self._moved,
                )
                for cluster in clusters
            )
            key = (seat.cluster, host in self.after.away, host in self.new_keys, decided)
            groups.setdefault(key, []).append(host)
        return groups

    def _judge(self, one: str, two: str) -> tuple[str, str]:
        before, after = self.before.verdict(one, two), self.cause(one, two)
        if UNREAD in (before, after):
            return "", ""
        if not before and after:
            return LOST, after
        if before and not after:
            return GAINED, "gained"
        if before:
            return BROKEN, after
        seats = self.after.seats
        if (seats[one].cluster, two) in self._moved or (seats[two].cluster, one) in self._moved:
            return MOVED, "peer_changed"
        return "", ""

    def _add(
        self, found: dict[tuple[str, str], Data], kind: str, cause: str, ends: tuple[str, str], number: int
    ) -> None:
        here, there = (self.after.seats[host] for host in ends)
        name = f"{cause}/{here.cluster}/{there.cluster}"
        row = found.get((kind, name))
        if row is not None:
            row["pairs"] += number
            return
        found[kind, name] = {
            "class": name,
            "kind": kind,
            "cause": cause,
            "from": here.cluster,
            "to": there.cluster,
            "pairs": number,
            "example": {"from": ends[0], "to": ends[1]},
            "first_hop": "",
            "message": "",
        }

    def carries(self, cluster: str, target: str) -> tuple[bool, bool]:
        """Whether a node of a cluster reaches a host before, and with the hypotheses; what is not known counts as yes."""
        members = [host for host, seat in self.after.seats.items() if seat.cluster == cluster]
        if target not in self.after.seats:
            return True, True
        before = any(self.before.verdict(host, target) in ("", UNREAD) for host in members)
        return before, any(self.cause(host, target) in ("", UNREAD) for host in members)


def _moved(before: MeshPlan, after: MeshPlan) -> set[tuple[str, str]]:
    """(cluster that looks, host) of peers with another key, endpoint or other ranges."""
    hosts = {(node.cluster, node.node_name): host for host, node in before.nodes.items()}
    found: set[tuple[str, str]] = set()
    for cluster in before.clusters:
        one, two = _peers(before, cluster), _peers(after, cluster)
        found.update((cluster, hosts[seat]) for seat in one if seat in hosts and seat in two and one[seat] != two[seat])
    return found


def _peers(mesh: MeshPlan, cluster: str) -> dict[tuple[str, str], _Peer]:
    return {
        (remote, str(row.get("node"))): (
            str(row.get("public_key")),
            str(row.get("endpoint")),
            tuple(map(str, row.get("allowed_ips") or ())),
        )
        for remote, part in mesh.cluster(cluster).remotes.items()
        for row in part.peers
    }
