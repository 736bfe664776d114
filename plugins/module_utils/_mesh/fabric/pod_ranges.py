# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pod ranges of each node of a cluster, from the objects in which its CNI keeps them (pod_ranges 1, 2 and 6). Pure.

All of it is a claim of the cluster: a range that the inventory does not grant, or that two nodes have, is refused by name and the
rest goes on. ``spec.podCIDRs`` (source ``node``) are checked with the other claims of the node, see claims.
"""

from __future__ import annotations

import bisect
import typing as t

from ..._plan.plan import Refusal
from ..._plan.pod_range_sources import OBJECTS
from ..._values.addresses import Network, parse_network
from ..._values.prefix_sets import BITS, PrefixSet, VersionSpan, address_text, overlapping_pairs, span
from ..._values.refused import ValueRefused
from .claims import MAX_ALLOWED_IPS, label_of, outside_grant
from .node_listing import Listing, read_listing
from .pod_range_readers import (
    AUTO,
    CALICO,
    CILIUM,
    INVENTORY,
    NODE,
    OVN,
    PODS,
    READERS,
    Nodes,
    Objects,
    RangeClaim,
    usable_pool,
)

#: Values of the variable ``pod_ranges``; the first is the default.
SOURCES = (AUTO, NODE, CALICO, CILIUM, OVN, PODS)
#: Ranges that a node may have where its Pods show them; other sources have MAX_ALLOWED_IPS.
LIMIT = 4096
#: The capability of cluster_access with the rights to read a source.
CAPABILITY = {CALICO: "mesh", CILIUM: "mesh", PODS: "mesh_pods"}
#: So many examples are named.
SHOWN = 3


class NodeRanges(t.NamedTuple):
    """Ranges of one node: ``networks`` of its own, and ``borrowed`` addresses, which lie inside the range of another node."""

    networks: tuple[Network, ...] = ()
    borrowed: tuple[Network, ...] = ()


class Ranges(t.NamedTuple):
    """What a cluster's pod ranges are.

    ``source``: one of SOURCES but auto. ``nodes``: {node: NodeRanges, or ValueRefused where all that it has is refused}; empty for the
    source ``node``, which has its ranges with the Nodes. ``refused``: single ranges. ``notes``: sentences for the user. ``failure``: why the
    source is incomplete; then nothing may change. ``unsure``: ``auto`` could not see everything, so that peers keep the ranges that they have.
    """

    source: str
    nodes: dict[str, NodeRanges | ValueRefused]
    refused: list[Refusal]
    notes: list[str]
    failure: str | None = None
    unsure: bool = False

    def shown(self) -> dict[str, t.Any]:
        """What the plan of the fabric has of it."""
        return {"source": self.source, "notes": self.notes}


def read_clusters(
    clusters: t.Mapping[str, t.Mapping[str, t.Any]], listings: t.Mapping[str, t.Any]
) -> tuple[dict[str, Listing], dict[str, Ranges]]:
    """Nodes and pod ranges of each cluster. clusters: variables in normal form; listings: {cluster: {nodes, ranges: Objects} or {error}}.

    A cluster with incomplete ranges counts as not read (threat T14).
    """
    read: dict[str, Listing] = {}
    found: dict[str, Ranges] = {}
    for cluster in sorted(clusters):
        given, variables = listings.get(cluster), clusters[cluster]
        listing = read_listing(cluster, given)
        objects = given.get("ranges") if isinstance(given, dict) else None
        ranges = _ranges_of(cluster, variables, listing, objects or Objects())
        if ranges.failure and not listing.failure:
            failure = {"cluster": cluster, "reason": "source_incomplete", "message": ranges.failure}
            listing = Listing({}, listing.refused, failure)
        read[cluster], found[cluster] = listing, ranges
    return read, found


def _ranges_of(cluster: str, variables: t.Mapping[str, t.Any], listing: Listing, objects: Objects) -> Ranges:
    asked, declared = variables["pod_ranges"], variables.get("node_pod_cidrs") or {}
    if declared:
        asked, objects = INVENTORY, objects._replace(declared=declared)
    if not listing.nodes:
        return Ranges(NODE if asked == AUTO else asked, {}, [], [])
    granted = [parse_network(text) for text in variables["pod_cidrs"]]
    versions = {network.version for network in granted}
    if variables["allowed_ips_source"] == "pod_cidr" and granted:
        versions = {granted[0].version}
    return read_ranges(
        cluster, asked, listing.nodes, objects, PrefixSet.of(granted), variables["pod_ranges_limit"], versions
    )


def source_lines(shown: t.Mapping[str, t.Any]) -> list[str]:
    """A sentence for each cluster: from where the ranges of its nodes are. shown: of the plan of the fabric."""
    rows = [(name, str(row.get("source"))) for name, row in sorted(shown.items()) if isinstance(row, dict)]
    said = {**OBJECTS, AUTO: "what its API has, in the first run that asks it; preflight names that"}
    return [f"pod ranges of {name}: {said[source]} (pod_ranges: {source})" for name, source in rows if source in said]


def wants_pods(asked: str, nodes: Nodes, objects: Objects) -> bool:
    """Whether the Pods have to be read: they are asked for, or nothing else has ranges of nodes."""
    if asked != AUTO:
        return asked == PODS
    return (
        bool(nodes)
        and not any(_has_pod_cidr(node) for node in nodes.values())
        and not any(_gives(source, nodes, objects) for source in (CILIUM, CALICO, OVN))
    )


def read_ranges(
    cluster: str,
    asked: str,
    nodes: Nodes,
    objects: Objects,
    granted: PrefixSet,
    limit: int = LIMIT,
    versions: t.Collection[int] = (4, 6),
) -> Ranges:
    """Pod ranges of a cluster. asked: its variable ``pod_ranges``; granted: its ``pod_cidrs``; limit: ranges that a node may have by its Pods.

    versions: of IP that the inventory grants it. A second family that the inventory leaves out is no fault, unless the nodes have no other.
    """
    source = _chosen(asked, nodes, objects)
    notes = _notes(cluster, asked, source, objects)
    if source == NODE:
        return Ranges(NODE, {}, [], notes, unsure=bool(notes))
    failure = _failure(cluster, asked, source, objects)
    if failure:
        return Ranges(source, {}, [], notes, failure)
    read = READERS[source](nodes, objects)
    if nodes and not read.claims and not read.refused:
        text = "pod_ranges of clusters/{0} is {1}, and {2} give no node a range; correct pod_ranges, or see why the network plugin gave none"
        return Ranges(source, {}, [], notes, text.format(cluster, source, OBJECTS[source]))
    claims = [claim for claim in read.claims if claim.network.version in versions] or read.claims
    unsure = bool(notes)
    most = limit if source == PODS else MAX_ALLOWED_IPS
    found, refused = _checked(cluster, nodes, claims, granted, most, list(read.refused), source == PODS)
    without = sorted(name for name, ranges in found.items() if ranges == NodeRanges())
    if without:
        shown = ", ".join(without[:SHOWN]) + (f" and {len(without) - SHOWN} more" if len(without) > SHOWN else "")
        notes.append(
            f"cluster {cluster}: {OBJECTS[source]} give no range to {shown}, so nothing is carried for pods there until they do"
        )
    return Ranges(source, found, refused, notes, unsure=unsure)


def _chosen(asked: str, nodes: Nodes, objects: Objects) -> str:
    """The source: the one asked for, else the first that gives a node of the cluster a range."""
    if asked != AUTO:
        return asked
    found = next(
        (source for source in (CILIUM, CALICO, OVN) if _complete(source, objects) and _gives(source, nodes, objects)),
        None,
    )
    if found is None and objects.pods is not None and not any(_has_pod_cidr(node) for node in nodes.values()):
        found = PODS if _complete(PODS, objects) and _gives(PODS, nodes, objects) else None
    return found or NODE


def _complete(source: str, objects: Objects) -> bool:
    """Whether all objects of a source were listed."""
    parts = {CALICO: (objects.affinities, objects.blocks), CILIUM: (objects.cilium_nodes,), PODS: (objects.pods,)}
    return source not in objects.forbidden and all(part is not None for part in parts.get(source, ()))


def _gives(source: str, nodes: Nodes, objects: Objects) -> bool:
    return bool(READERS[source](nodes, objects).claims)


def _has_pod_cidr(node: t.Mapping[str, t.Any]) -> bool:
    return bool(node.get("podCIDRs") or node.get("podCIDR"))


def _notes(cluster: str, asked: str, source: str, objects: Objects) -> list[str]:
    """What could not be read while ``auto`` chose, and what follows."""
    if asked != AUTO:
        return []
    pools = [pool for pool in map(usable_pool, objects.pools) if pool is not None] if source == NODE else []
    unused = (
        "cluster {0}: the IPPool {1} of Calico gives addresses of {2}, and no node has a block of it yet, so new peers get the ranges of {3} and others keep "
        "the ranges that they have; set pod_ranges for clusters/{0}: calico where Calico's own IPAM gives pods their addresses, node where host-local does"
    )
    idle = [unused.format(cluster, pools[0][0], pools[0][1], OBJECTS[source])] if pools else []
    text = (
        "cluster {0}: the access may not list {1}, so new peers get the ranges of {2} and others keep the ranges that they have; run the role "
        "cluster_access with cluster_access_capability: {3}, or set pod_ranges: {4} for clusters/{0} if that is right"
    )
    return idle + [
        text.format(cluster, what, OBJECTS[source], CAPABILITY[refused], source)
        for refused, what in sorted(objects.forbidden.items())
    ]


def _failure(cluster: str, asked: str, source: str, objects: Objects) -> str | None:
    """Why the chosen source is incomplete."""
    if source in objects.forbidden:
        text = "the access may not list {0}, which pod_ranges: {1} of clusters/{2} needs; run the role cluster_access with cluster_access_capability: {3}"
        return text.format(objects.forbidden[source], source, cluster, CAPABILITY[source])
    if not _complete(source, objects):
        return f"pod_ranges of clusters/{cluster} is {asked}, and its API server has no {OBJECTS[source]}; correct pod_ranges"
    return None


# -- the sources


# -- the checks


def _checked(
    cluster: str,
    nodes: Nodes,
    claims: t.Sequence[RangeClaim],
    granted: PrefixSet,
    most: int,
    bad: list[tuple[str, str, str]],
    joined: bool = False,
) -> tuple[dict[str, NodeRanges | ValueRefused], list[Refusal]]:
    """The ranges that hold, and a refusal for each other (pod_ranges 2.1, 2.2). joined: claims are addresses, to be made prefixes of."""
    inside = []
    outside: dict[str, list[RangeClaim]] = {}
    for claim in claims:
        if granted.covers(claim.network):
            inside.append(claim)
        else:
            outside.setdefault(claim.node, []).append(claim)
    for node, rows in outside.items():
        shown = ", ".join(f"{row.network} ({row.what})" for row in rows[:SHOWN]) + (
            f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
        )
        bad.append((node, "outside_grant", outside_grant(shown + ":", cluster, granted.cidrs())))
    lost = _contested(inside)
    for place, rival in sorted(lost.items()):
        claim = inside[place]
        bad.append(
            (
                claim.node,
                "claimed_twice",
                f"{claim.network} ({claim.what}) overlaps {rival.network} of {rival.node} ({rival.what})",
            )
        )
    own: dict[str, list[Network]] = {}
    borrowed: dict[str, list[Network]] = {}
    for place, claim in enumerate(inside):
        if place not in lost:
            (borrowed if claim.single else own).setdefault(claim.node, []).append(claim.network)
    if joined:
        owners = {span(claim.network): "" if place in lost else claim.node for place, claim in enumerate(inside)}
        own = _prefixes(owners, granted)
    reasons: dict[str, tuple[str, str]] = {}
    for node, reason, message in bad:
        reasons.setdefault(node, (reason, message))
    found: dict[str, NodeRanges | ValueRefused] = {}
    for name in sorted(nodes):
        mine = PrefixSet.of(own.get(name, ()))
        singles = PrefixSet.of(borrowed.get(name, ())) - mine
        networks, lent = mine.cidrs(), singles.cidrs()
        if len(networks) + len(lent) > most:
            left = len(networks) + len(lent) - most
            bad.append((name, "bad_pod_cidr", f"it has {left:,} ranges more than {most:,}, which are left out"))
            networks, lent = networks[:most], lent[: max(0, most - len(networks))]
        if not networks and not lent and name in reasons:
            reason, message = reasons[name]
            found[name] = ValueRefused(reason, message)
        else:
            found[name] = NodeRanges(tuple(map(parse_network, networks)), tuple(map(parse_network, lent)))
    kept = {name for name, ranges in found.items() if isinstance(ranges, NodeRanges)}
    refused = [
        Refusal(label_of(cluster, node), reason, f"{label_of(cluster, node)}: {message}")
        for node, reason, message in bad
        if node in kept
    ]
    return found, refused


def _contested(claims: t.Sequence[RangeClaim]) -> dict[int, RangeClaim]:
    """Places of the claims that lose, with the rival of each: of two ranges of two nodes the wider one, of two equal ones both.

    A wide range must not push out those inside it. A borrowed address inside a block is no contest.
    """
    places: dict[VersionSpan, list[int]] = {}
    for place, claim in enumerate(claims):
        places.setdefault(span(claim.network), []).append(place)
    lost: dict[int, RangeClaim] = {}
    single: list[tuple[Network, int]] = []
    for rows in places.values():
        kinds = [[place for place in rows if claims[place].single == flag] for flag in (False, True)]
        for kind in kinds:
            rivals = {claims[place].node: place for place in kind}
            if len(rivals) > 1:
                first, second = sorted(rivals)[:2]
                others = {place: second if claims[place].node == first else first for place in kind}
                lost.update((place, claims[rivals[other]]) for place, other in others.items())
        if kinds[0]:
            single.append((claims[kinds[0][0]].network, kinds[0][0]))
    for (dummy, wide), (unused, narrow) in overlapping_pairs(
        single, lambda one, other: claims[one].node == claims[other].node
    ):
        for place in places[span(claims[wide].network)]:
            if not claims[place].single and claims[place].node != claims[narrow].node:
                lost.setdefault(place, claims[narrow])
    return lost


def _prefixes(owners: t.Mapping[VersionSpan, str], granted: PrefixSet) -> dict[str, list[Network]]:
    """The fewest prefixes, each as long as it can be, that hold all addresses of a node and none of another. owners: {address: node}."""
    addresses = sorted(owners)
    same = [0] * len(addresses)  # the last of those that follow and have the same owner
    for place in range(len(addresses) - 1, -1, -1):
        follows = place + 1 < len(addresses) and owners[addresses[place]] == owners[addresses[place + 1]]
        same[place] = same[place + 1] if follows else place
    found: dict[str, list[Network]] = {}
    todo = []
    for version, first, last in (span(parse_network(text)) for text in granted.cidrs()):
        low = bisect.bisect_left(addresses, (version, first, 0))
        todo.append((low, bisect.bisect_right(addresses, (version, last, last)) - 1))
    while todo:
        low, high = todo.pop()
        if low > high:
            continue
        version, value, dummy = addresses[low]
        bits = (value ^ addresses[high][1]).bit_length()
        if same[low] >= high:
            if owners[addresses[low]]:
                text = f"{address_text(version, value >> bits << bits)}/{BITS[version] - bits}"
                found.setdefault(owners[addresses[low]], []).append(parse_network(text))
            continue
        half = bisect.bisect_left(addresses, (version, value >> bits << bits | 1 << (bits - 1), 0))
        todo += [(low, half - 1), (half, high)]
    return found
