# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Endpoints at which nodes see their peers, added to what those announce themselves (kubespan 7.4, decision 16).

One node's word about another: it is added behind the other's own endpoints, so that it is tried last, and WireGuard's keys
decide who answers there.
"""

from __future__ import annotations

import typing as t

from ..._values.addresses import special_kind
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import ValueRefused
from ..kubespan.endpoints import parse_addr_port
from ..kubespan.generations import MAX_ENDPOINTS

#: How many one node may say of one other, and how many a node gets in all: addresses behind a NAT that changes are no use.
PER_REPORTER, PER_NODE = 1, 8


def gathered(
    topology: t.Mapping[str, t.Any], reports: t.Mapping[str, t.Any]
) -> t.Dict[t.Tuple[str, str], t.List[str]]:
    """(cluster, node) to endpoints. reports: {host: [{affiliate_id, endpoint}], or None where it does not harvest}.

    What is no endpoint, lies in overlay space or names no node of the mesh is dropped: nobody relies on it.
    """
    mesh = topology["kubespan"]
    rows_of: t.Dict[str, t.List[t.Tuple[str, str]]] = {}
    for row in [*mesh["affiliates"], *mesh.get("contested", ())]:
        rows_of.setdefault(row["node_id"], []).append((row["cluster"], row["node"]))
    # an id that several claim says nothing
    seats = {node_id: found[0] for node_id, found in rows_of.items() if len(found) == 1}
    overlay = PrefixSet.of_texts([*topology["overlay"], topology["kubespan"]["subnet"]])
    found: t.Dict[t.Tuple[str, str], t.Dict[str, None]] = {}
    for host in sorted(reports):
        rows = reports[host]
        said: t.Dict[t.Tuple[str, str], int] = {}
        for row in rows[:MAX_ENDPOINTS * len(seats)] if isinstance(rows, list) else ():
            seat = seats.get(str(row["affiliate_id"])) if isinstance(row, dict) and isinstance(row.get("affiliate_id"), str) else None
            text = None if seat is None else _usable(row.get("endpoint"), overlay)
            if seat is None or text is None or said.get(seat, 0) >= PER_REPORTER:
                continue
            said[seat] = said.get(seat, 0) + 1
            found.setdefault(seat, {})[text] = None
    return {seat: sorted(texts) for seat, texts in found.items()}


def _usable(text: t.Any, overlay: PrefixSet) -> t.Optional[str]:
    try:
        endpoint = parse_addr_port(text)
    except ValueRefused:
        return None
    return str(endpoint) if special_kind(endpoint.address) is None and endpoint.address not in overlay else None


def with_harvested(own: str, published: str, seen: t.Iterable[str], keep: bool) -> str:
    """A node's annotation of endpoints: its own, then those seen by others.

    keep: not every node took part in this run, so what was published before and is not its own may still be seen by others.
    """
    texts = own.split(",") if own else []
    more = set(seen) | (set(published.split(",")) - {""} if keep else set())
    return ",".join([*texts, *sorted(more - set(texts))[:PER_NODE]][:MAX_ENDPOINTS])
