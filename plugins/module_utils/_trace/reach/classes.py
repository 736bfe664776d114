# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who could talk to whom by the mesh's plan: all pairs of nodes, by classes of nodes for which the same is decided. Pure.

A node decides about another by what the plan gives its cluster: a device and routes for each remote cluster, and one peer for each node there. So a
thousand nodes are a thousand decisions for each cluster, and a pair is answered from two of them; nothing is done for each of a million pairs.
"""

from __future__ import annotations

import bisect
import functools
import typing as t

from ..._mesh.kubespan.peers import Mesh as KubeSpanMesh
from ..._plan.mesh_plan import KubespanPlan, MeshPlan, RemotePlan
from ..._values.addresses import parse_network
from ..._values.exported_ranges import ExportedRanges
from ..._values.refused import ValueRefused
from .. import causes
from ..causes import printable
from ..facts import span_of

Data = dict[str, t.Any]
#: (version, first, last, length)
Range = tuple[int, int, int, int]
#: Nodes of a class, and pairs of classes, that a result names.
NAMED = 5
SHOWN = 200
UNREAD = "not read"
AWAY = "away"
#: What a peer's range that lacks the other is called by who receives.
_RECEIVES = {
    causes.ALLOWED_IPS_LACK_TARGET: causes.ALLOWED_IPS_LACK_SOURCE,
    causes.ROUTE_MISSING: causes.ANSWER_ANOTHER_WAY,
}


class Seat(t.NamedTuple):
    """A node of the plan, with the ranges of its pods."""

    host: str
    cluster: str
    node: str
    pods: tuple[Range, ...]


def ranges(texts: t.Any) -> tuple[Range, ...]:
    """Networks in CIDR form; what is none is left out."""
    found = (_range(text) for text in (texts if isinstance(texts, (list, tuple)) else ()) if isinstance(text, str))
    return tuple(one for one in found if one is not None)


@functools.lru_cache(maxsize=100_000)
def _range(text: str) -> Range | None:
    """All other clusters have the same ranges of a node, so each text is read once."""
    try:
        return span_of(text)
    except ValueRefused:
        return None


def owners(given: t.Iterable[tuple[Range, str]], points: t.Sequence[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """The owner of the longest range around each point (version, number): narrower ranges are drawn over wider ones."""
    found: dict[tuple[int, int], str] = {}
    ordered = {version: sorted({number for family, number in points if family == version}) for version in (4, 6)}
    drawn: dict[int, list[str]] = {version: [""] * len(rows) for version, rows in ordered.items()}
    for (version, first, last, dummy), owner in sorted(given, key=lambda row: row[0][3]):
        start, stop = bisect.bisect_left(ordered[version], first), bisect.bisect_right(ordered[version], last)
        drawn[version][start:stop] = [owner] * (stop - start)
    for version, rows in ordered.items():
        found.update(((version, number), owner) for number, owner in zip(rows, drawn[version]) if owner)
    return found


def _as_seen(exported: ExportedRanges, texts: t.Any) -> t.Any:
    """Pod ranges of a node as other clusters see them; what is no range is left to its reader."""
    if not exported or not isinstance(texts, list):
        return texts
    try:
        return list(map(str, exported.networks(map(parse_network, texts))))
    except ValueRefused:
        return texts


def _covered(inner: Range, outer: t.Iterable[Range]) -> bool:
    return any(version == inner[0] and first <= inner[1] and inner[2] <= last for version, first, last, dummy in outer)


class Pairs:
    """``verdict(source, target)`` of every pair of hosts. away: hosts and clusters that are taken for gone."""

    def __init__(self, mesh: MeshPlan, away: t.Collection[str] = ()) -> None:
        self.seats: dict[str, Seat] = {}
        for host, node in sorted(mesh.nodes.items()):
            exported = mesh.cluster(node.cluster).exported
            self.seats[host] = Seat(host, node.cluster, node.node_name, ranges(_as_seen(exported, node.pod_cidrs)))
        self.away = frozenset(host for host, seat in self.seats.items() if host in away or seat.cluster in away)
        self.whole = mesh.spans_nodes
        self.clusters = sorted({seat.cluster for seat in self.seats.values()})
        #: (cluster that looks, host): why not
        self.found: dict[tuple[str, str], str] = {}
        by_cluster: dict[str, list[Seat]] = {}
        for seat in self.seats.values():
            by_cluster.setdefault(seat.cluster, []).append(seat)
        if mesh.kubespan is not None:
            for host, cause in self._kubespan(mesh.kubespan).items():
                self.found.update(((cluster, host), cause) for cluster in self.clusters)
        else:
            for local in self.clusters:
                remotes = mesh.cluster(local).remotes
                for remote, seats in by_cluster.items():
                    if remote != local:
                        self._semaphore(local, remotes.get(remote), seats)

    def _semaphore(self, local: str, settings: RemotePlan | None, seats: t.Sequence[Seat]) -> None:
        """How the nodes of one cluster see those of another."""
        if settings is None:
            self.found.update(((local, seat.host), causes.DEVICE_MISSING) for seat in seats)
            return
        routes = ranges([row.get("dst") for row in settings.routes])
        peers = {str(row.get("node")): row for row in settings.peers}
        contested = {str(row.get("node")) for row in settings.contested}
        allowed = {name: ranges(row.get("allowed_ips")) for name, row in peers.items()}
        holders = owners(
            ((one, name) for name, rows in allowed.items() for one in rows),
            [(pod[0], pod[1]) for seat in seats for pod in seat.pods],
        )
        for seat in seats:
            cause = ""
            if seat.node in contested:
                cause = causes.KEYS_SHARED
            elif seat.node not in peers:
                cause = causes.PEER_MISSING if settings.complete else UNREAD
            elif not all(_covered(pod, routes) for pod in seat.pods):
                cause = causes.ROUTE_MISSING
            elif any(holders.get((pod[0], pod[1])) != seat.node for pod in seat.pods):
                cause = causes.ALLOWED_IPS_LACK_TARGET
            if cause:
                self.found[local, seat.host] = cause

    def _kubespan(self, part: KubespanPlan) -> dict[str, str]:
        """Why nodes are no peers of the others: all nodes get the same affiliates."""
        hosts = {(seat.cluster, seat.node): host for host, seat in self.seats.items()}
        records = list(part.affiliates)
        contested = {(str(row.get("cluster")), str(row.get("node"))) for row in part.contested}
        ids = {str(row.get("node_id")): hosts.get((str(row.get("cluster")), str(row.get("node")))) for row in records}
        held: dict[str, tuple[Range, ...]] = {}
        mesh = KubeSpanMesh(records)
        # everybody but oneself; of a single one others see what a host outside of the mesh sees
        for looking in sorted(ids)[:2] if len(ids) > 1 else (None,):
            held.update((key, ranges(list(peer.allowed_ips))) for key, peer in mesh.specs(looking).peers.items())
        known = {str(row.get("public_key")): str(row.get("node_id")) for row in records}
        allowed = {ids.get(known.get(key, "")): spans for key, spans in held.items()}
        unread = set(part.unread)
        found = {}
        for host, seat in self.seats.items():
            if (seat.cluster, seat.node) in contested:
                found[host] = causes.KEYS_SHARED
            elif host not in allowed and part.members:
                continue  # a discovery service may have it, which the nodes themselves ask
            elif host not in allowed:
                found[host] = UNREAD if seat.cluster in unread else causes.PEER_MISSING
            elif not all(_covered(pod, allowed[host]) for pod in seat.pods):
                found[host] = causes.ALLOWED_IPS_LACK_TARGET
        return found

    def verdict(self, source: str, target: str) -> str:
        """Why packets of a host's pods do not come to another's and back, "" where they do. UNREAD: nobody knows, its cluster did not answer."""
        if source in self.away or target in self.away:
            return AWAY
        here, there = self.seats[source], self.seats[target]
        if source == target or (here.cluster == there.cluster and not self.whole):
            return ""
        cause = self.found.get((here.cluster, target), "")
        if cause:
            return cause
        other = self.found.get((there.cluster, source), "")
        return _RECEIVES.get(other, other)

    def classes(self) -> dict[tuple[t.Any, ...], list[str]]:
        """Hosts by all that is decided of them: (cluster, whether away, what each cluster has of them)."""
        found: dict[tuple[t.Any, ...], list[str]] = {}
        for host, seat in self.seats.items():
            verdicts = tuple(self.found.get((cluster, host), "") for cluster in self.clusters)
            found.setdefault((seat.cluster, host in self.away, verdicts), []).append(host)
        return found

    def summary(self) -> Data:
        """{nodes, pairs, reachable, unread, classes: [{cluster, nodes, hosts}], cut: [{cause, from, to, pairs, message, fix}]}; pairs are ordered."""
        groups = self.classes()
        rows = sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1]), item[1][0]))
        cut: list[Data] = []
        reachable = unread = total = 0
        for key, sources in rows:
            for other, targets in rows:
                number = len(sources) * (len(targets) - (1 if other == key else 0))
                if not number:
                    continue
                total += number
                one, two = sources[0], targets[-1 if other == key else 0]
                cause = self.verdict(one, two)
                reachable += number if not cause else 0
                unread += number if cause == UNREAD else 0
                if cause and cause not in (UNREAD, AWAY):
                    text = (
                        f"{len(sources)} of {key[0]} to {len(targets)} of {other[0]}: {number} ordered pairs of nodes"
                    )
                    cut.append(
                        {
                            "cause": cause,
                            "from": sources[:NAMED],
                            "to": targets[:NAMED],
                            "pairs": number,
                            "message": text,
                            "fix": causes.FIXES[cause].format(host=printable(one)),
                        }
                    )
        return {
            "nodes": len(self.seats),
            "pairs": total,
            "reachable": reachable,
            "unread": unread,
            "away": sorted(self.away),
            "classes": [{"cluster": key[0], "nodes": len(hosts), "hosts": hosts[:NAMED]} for key, hosts in rows][
                :SHOWN
            ],
            "cut": sorted(cut, key=lambda row: -int(row["pairs"]))[:SHOWN],
        }
