# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the failure of one node, or of one cluster, would cost: pairs of nodes with a path, and Services that keep no endpoint. Pure."""

from __future__ import annotations

import typing as t

from ..._plan.mesh_plan import MeshPlan
from ..._values.addresses import address_number
from ..._values.refused import ValueRefused
from .classes import Pairs, owners

Data = dict[str, t.Any]
#: (namespace, name, addresses that take traffic), as the Service's cluster has them.
Backends = t.Iterable[tuple[str, str, t.Sequence[str]]]
#: Services that a row names.
NAMED = 20


def next_failure(mesh: MeshPlan, services: t.Mapping[str, Backends], unreachable: t.Collection[str] = ()) -> Data:
    """{pairs, node, cluster}: all pairs, and what costs most; empty where there is no mesh.

    node, cluster: {name, cluster, pairs, services: [cluster/namespace/name], service_count}. The one that takes most Services, then most pairs.
    services: by cluster, those that come from other clusters. unreachable: hosts that do not answer, which take nothing any more.
    """
    pairs = Pairs(mesh, unreachable)
    if not pairs.seats:
        return {}
    of_hosts, of_clusters, total = _pairs(pairs)
    by_host, by_cluster = _services(pairs, services)
    return {
        "pairs": total,
        "node": _worst(of_hosts, by_host, {host: seat.cluster for host, seat in pairs.seats.items()}),
        "cluster": _worst(of_clusters, by_cluster, {name: name for name in pairs.clusters}),
    }


def _pairs(pairs: Pairs) -> tuple[dict[str, int], dict[str, int], int]:
    """(host -> pairs with a path that it is in, cluster -> the same, all of them); only pairs that the mesh carries, each counted once."""
    groups = list(pairs.classes().values())
    of_hosts: dict[str, int] = {}
    of_clusters = dict.fromkeys(pairs.clusters, 0)
    total = 0
    for index, sources in enumerate(groups):
        one = sources[0]
        here = pairs.seats[one].cluster
        count = 0
        for place, targets in enumerate(groups):
            there = pairs.seats[targets[-1]].cluster
            number = len(targets) - (1 if place == index else 0)
            if not number or (here == there and not pairs.whole) or pairs.verdict(one, targets[-1]):
                continue
            count += number
            if place >= index:
                both = len(sources) * number // (2 if place == index else 1)
                total += both
                for name in dict.fromkeys((here, there)):
                    of_clusters[name] += both
        of_hosts.update((host, count) for host in sources)
    return of_hosts, of_clusters, total


def _services(pairs: Pairs, services: t.Mapping[str, Backends]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """(host -> Services that keep no endpoint without it, cluster -> the same). An endpoint of which nobody knows where it is stays."""
    rows = [(cluster, *row) for cluster, given in sorted(services.items()) for row in given]
    points = {text: point for row in rows for text in row[3] for point in _point(text)}
    found = owners(((one, host) for host, seat in pairs.seats.items() for one in seat.pods), list(set(points.values())))
    by_host: dict[str, list[str]] = {}
    by_cluster: dict[str, list[str]] = {}
    for cluster, namespace, name, texts in rows:
        hosts = {found.get(points[text], "") if text in points else "" for text in texts} - pairs.away
        if not hosts or "" in hosts:
            continue
        label = f"{cluster}/{namespace}/{name}"
        clusters = {pairs.seats[host].cluster for host in hosts}
        if len(hosts) == 1:
            by_host.setdefault(next(iter(hosts)), []).append(label)
        if len(clusters) == 1 and cluster not in clusters:
            by_cluster.setdefault(next(iter(clusters)), []).append(label)
    return by_host, by_cluster


def _point(text: str) -> list[tuple[int, int]]:
    try:
        return [address_number(text)]
    except ValueRefused:
        return []


def _worst(pairs: t.Mapping[str, int], services: t.Mapping[str, list[str]], clusters: t.Mapping[str, str]) -> Data:
    name = min(pairs, key=lambda one: (-len(services.get(one, ())), -pairs[one], one))
    lost = services.get(name, [])
    return {
        "name": name,
        "cluster": clusters[name],
        "pairs": pairs[name],
        "services": sorted(lost)[:NAMED],
        "service_count": len(lost),
    }
