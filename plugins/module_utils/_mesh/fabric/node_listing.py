# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node objects of one cluster as an API server gave them, reduced to what a mesh needs. All of it is a claim."""

from __future__ import annotations

import typing as t

from ..._plan.plan import Refusal
from ..._values.refused import ValueRefused, quoted
from ..._values.text import mapping, parse_subdomain
from .claims import label_of

#: More nodes than any cluster has (Kubernetes supports 5,000); beyond it the answer is an attack (threat T21).
MAX_NODES = 20000


class Listing(t.NamedTuple):
    """Nodes by name, what was left out, and why the listing as a whole failed (None: it is complete)."""

    nodes: dict[str, dict[str, t.Any]]
    refused: list[Refusal]
    failure: dict[str, str] | None


def read_listing(cluster: str, listing: t.Any) -> Listing:
    """One cluster's part of the listings: ``{"nodes": [Node]}`` or ``{"error": {reason, message}}``.

    A node becomes {name, podCIDR, podCIDRs, annotations, labels, addresses, managers: of its fields}. Anything that is no Node is refused by name.
    """
    problem = _failure(listing)
    if problem is not None:
        return Listing({}, [], dict(problem, cluster=cluster))
    nodes: dict[str, dict[str, t.Any]] = {}
    refused = []
    for item in listing["nodes"]:
        metadata = mapping(item, "metadata")
        try:
            name = parse_subdomain(metadata.get("name"))
        except ValueRefused as error:
            refused.append(Refusal(label_of(cluster, metadata.get("name")), error.reason, error.message))
            continue
        spec = mapping(item, "spec")
        addresses = mapping(item, "status").get("addresses")
        nodes[name] = {
            "name": name,
            "podCIDR": spec.get("podCIDR"),
            "podCIDRs": spec.get("podCIDRs"),
            "annotations": mapping(metadata, "annotations"),
            "labels": mapping(metadata, "labels"),
            "addresses": addresses if isinstance(addresses, list) else [],
            "managers": _managers(metadata.get("managedFields")),
        }
    return Listing(nodes, refused, None)


def _managers(rows: t.Any) -> frozenset[str]:
    return frozenset(str(mapping(row).get("manager")) for row in (rows if isinstance(rows, list) else ()))


def _failure(listing: t.Any) -> dict[str, str] | None:
    if not isinstance(listing, dict):
        return {"reason": "source_incomplete", "message": "the cluster was not listed"}
    if listing.get("error") is not None:
        error = listing["error"] if isinstance(listing["error"], dict) else {"message": listing["error"]}
        return {
            "reason": str(error.get("reason") or "source_incomplete"),
            "message": str(error.get("message") or "the cluster could not be listed"),
        }
    nodes = listing.get("nodes")
    if not isinstance(nodes, list):
        return {"reason": "source_incomplete", "message": f"the listing holds no list but {quoted(nodes)}"}
    if len(nodes) > MAX_NODES:
        message = f"the cluster answers with {len(nodes)} nodes, more than {MAX_NODES}"
        return {"reason": "source_incomplete", "message": message}
    return None


def nodes_without_host(
    listings: t.Mapping[str, t.Any], hosts: t.Mapping[str, t.Collection[str]]
) -> dict[str, list[str]]:
    """{cluster: names of its nodes without a host in the inventory}, of clusters that have some of their nodes in it.

    hosts: {cluster: node names of the inventory}. A cluster without any is one that is only read.
    """
    found = {}
    for cluster, names in sorted(hosts.items()):
        missing = (
            [name for name in sorted(read_listing(cluster, listings.get(cluster)).nodes) if name not in names]
            if names
            else []
        )
        if missing:
            found[cluster] = missing
    return found
