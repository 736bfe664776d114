# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that nodes of other clusters have no peer for, since their ranges came after the last run (pod_ranges 3). Pure; pods are claims."""

from __future__ import annotations

import typing as t

from .._values.addresses import parse_address, parse_network
from .._values.exported_ranges import ExportedRanges
from .._values.prefix_sets import PrefixSet
from .._values.refused import ValueRefused
from .._values.text import list_of, mapping

Data = dict[str, t.Any]
Objects = t.Iterable[t.Mapping[str, t.Any]]

#: So many are named.
SHOWN = 3
#: The form of times in documents; those of API servers are compared as they are written.
_TIME = len("2026-01-01T00:00:00Z")


def pods(given: Objects) -> list[Data]:
    """{name, addresses, since} of those with addresses of their own; since: when the kubelet accepted it, as the API server has it."""
    found = []
    for pod in given:
        spec, status, metadata = (mapping(pod, part) for part in ("spec", "status", "metadata"))
        if spec.get("hostNetwork") is True or status.get("phase") in ("Succeeded", "Failed"):
            continue
        texts = [mapping(row).get("ip") for row in list_of(status.get("podIPs"))] or [status.get("podIP")]
        since = status.get("startTime")
        found.append(
            {
                "name": f"{metadata.get('namespace')}/{metadata.get('name')}",
                "addresses": [text for text in texts if isinstance(text, str)],
                "since": since if isinstance(since, str) and len(since) == _TIME else None,
            }
        )
    return found


def find(
    cluster: str,
    given: t.Sequence[t.Mapping[str, t.Any]],
    tunnels: Objects,
    seen: ExportedRanges,
    planned: t.Iterable[str],
) -> Data | None:
    """{count, of, since, examples} of a cluster's pods; None where no node of another cluster reported its peers there.

    tunnels: of model.build, of nodes that answered; seen: at which addresses others see the pods; planned: ranges of its nodes. A pod
    counts where any node of another cluster lacks one of its addresses. since: the oldest of them.
    """
    carried = _carried(cluster, tunnels)
    if carried is None:
        return None
    granted = {network.version for text in planned for network in _network(text)}
    outside = [pod for pod in given if any(_lacks(carried, text, seen, granted) for text in pod["addresses"])]
    times = sorted(pod["since"] for pod in outside if pod["since"])
    return {
        "count": len(outside),
        "of": len(given),
        "since": times[0] if times else None,
        "examples": [pod["name"] for pod in outside[:SHOWN]],
    }


def _carried(cluster: str, tunnels: Objects) -> PrefixSet | None:
    """What every node of the other clusters has as allowed IPs of peers in a cluster."""
    ranges: dict[str, list[str]] = {}
    for row in tunnels:
        if row["peer_cluster"] == cluster and row["cluster"] != cluster:
            ranges.setdefault(row["host"], []).extend(row["allowed_ips"])
    whole: PrefixSet | None = None
    for texts in {tuple(sorted(texts)) for texts in ranges.values()}:
        one = PrefixSet.of(network for text in texts for network in _network(text))
        whole = one if whole is None else whole & one
    return whole


def _network(text: str) -> t.Iterator[t.Any]:
    try:
        yield parse_network(text)
    except ValueRefused:
        return


def _lacks(carried: PrefixSet, text: str, seen: ExportedRanges, granted: t.Collection[int]) -> bool:
    """A second family that the inventory leaves out is no fault."""
    try:
        address = parse_address(text)
        return address.version in granted and parse_address(seen.address(text)) not in carried
    except ValueRefused:
        return False


def sentence(cluster: str, found: t.Mapping[str, t.Any] | None) -> str:
    """Nothing where there is none."""
    if not found or not found["count"]:
        return ""
    first = "" if found.get("whole", True) else "the first "
    more = ", ..." if found["count"] > len(found["examples"]) else ""
    since = f", the oldest since {found['since']}" if found["since"] else ""
    return (
        f"cluster {cluster}: {found['count']:,} of {first}{found['of']:,} pods ({', '.join(found['examples'])}{more}) have addresses that peers on "
        f"nodes of other clusters do not have{since}; run mesh, or let the reconciler follow them [pods_outside_peers]"
    )
