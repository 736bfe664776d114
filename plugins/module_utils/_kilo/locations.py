# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kilo's granularity "location": only leaders have a WireGuard address and carry their location (kilo 17, gap G9)."""

from __future__ import annotations

import typing as t

from .._values.prefix_sets import RangeOwners
from .nodes import ranges_of
from .peers import without_internal_ip
from .values import GRANULARITY, GROUP, LOCATION, WIREGUARD_IP, Entry, Node, as_kilo_sends, cidr_contains, cidr_or_none

LEADER = GROUP + "/leader"
#: Where a node has no annotation, Kilo takes its location from this label.
REGION_LABEL = "topology.kubernetes.io/region"


def by_location(nodes: t.Iterable[Node]) -> bool:
    """True for a cluster whose Kilo says that it connects locations and not nodes."""
    return any(node.annotation(GRANULARITY) == "location" for node in nodes)


def announced(node: Node, all_pod_cidrs: bool) -> Node:
    """The node with what its Peer announces: one or all of its pod ranges, and the internal address that Kilo sends from."""
    node = as_kilo_sends(node)
    rest = [text for text in node.pod_cidrs[1:] if cidr_or_none(text) is not None] if all_pod_cidrs else []
    return node._replace(pod_cidrs=(*node.pod_cidrs[:1], *rest))


class Grouped(t.NamedTuple):
    """``nodes`` as they get Peers; ``led_by`` {node: leader whose Peer carries it}; ``twice`` {node: why nobody carries it}."""

    nodes: t.List[Node]
    led_by: t.Dict[str, str]
    twice: t.Dict[str, str]


def grouped(nodes: t.Sequence[Node], entry: Entry, live: t.Mapping[str, t.Mapping[str, t.Any]]) -> Grouped:
    """Give each leader the pod ranges and internal addresses of its location.

    nodes: after ``announced``. live: spec of the live Peer by node name; among several nodes that could lead, the one that
    carries the location now goes on, so that a node cannot make itself the leader of others. A node whose range is not
    the cluster's to announce, and nodes of a location without a leader, stay as they are and are skipped by name. One that
    has another's range is left out, lest its leader is refused with all others of the location.
    """
    ranges = ranges_of(entry)
    locations: t.Dict[str, t.List[Node]] = {}
    for node in nodes:
        if node.internal_ips:  # without one, a node is a location of its own
            locations.setdefault(_location(node), []).append(node)
    led: t.Dict[str, t.List[Node]] = {}
    led_by: t.Dict[str, str] = {}
    twice = _claimed_twice(nodes, live)
    for location in locations.values():
        leaders = [node for node in location if node.annotation(WIREGUARD_IP)]
        others = [node for node in location if not node.annotation(WIREGUARD_IP) and _may_be_announced(node, ranges.pods)]
        others = [node for node in others if node.name not in twice]
        if leaders and others:
            texts = {str(text) for node in others for text in node.pod_cidrs}
            leaders.sort(key=lambda node: (-_carried(node, texts, live), node.annotation(LEADER) == "", node.name))
            led[leaders[0].name] = others
            led_by.update((node.name, leaders[0].name) for node in others)
    staying = [node for node in nodes if node.name not in led_by and node.name not in twice]
    return Grouped([_leader(node, led.get(node.name, ())) for node in staying], led_by, twice)


def _claimed_twice(nodes: t.Iterable[Node], live: t.Mapping[str, t.Mapping[str, t.Any]]) -> t.Dict[str, str]:
    """Nodes without a WireGuard address whose range another node has: those with one, and what is carried now, come first."""
    carried = {str(route) for spec in live.values() for route in spec.get("allowedIPs") or ()}
    rows = []
    for node in nodes:
        for text in node.pod_cidrs:
            cidr = cidr_or_none(text)
            if cidr is not None:
                leads = bool(node.annotation(WIREGUARD_IP))
                rows.append((not leads, str(text) not in carried, node.name, str(text), cidr.network))
    spans: RangeOwners[str] = RangeOwners()
    found: t.Dict[str, str] = {}
    for follows, dummy, name, text, network in sorted(rows, key=lambda row: row[:4]):
        owner = spans.claim(network, name)
        if owner not in (None, name) and follows:
            found[name] = "node {0} has the range {1} of node {2}, which keeps it".format(name, text, owner)
    return found


def _location(node: Node) -> str:
    return node.annotation(LOCATION) or node.labels.get(REGION_LABEL, "")


def _may_be_announced(node: Node, ranges: t.Sequence[t.Any]) -> bool:
    cidrs = [cidr_or_none(text) for text in node.pod_cidrs]
    return bool(cidrs) and all(
        cidr is not None and any(cidr_contains(network, cidr.network) for network in ranges) for cidr in cidrs
    )


def _carried(node: Node, texts: t.Set[str], live: t.Mapping[str, t.Mapping[str, t.Any]]) -> int:
    return len(texts.intersection(map(str, (live.get(node.name) or {}).get("allowedIPs") or ())))


def _leader(node: Node, members: t.Sequence[Node]) -> Node:
    if not members:
        return node
    ranges, hosts = list(node.pod_cidrs), list(node.addresses)
    for member in members:
        ranges.extend(text for text in member.pod_cidrs if text not in ranges)
        if not without_internal_ip(member):
            hosts.extend(one for one in member.addresses if one.kind == "InternalIP")
    return node._replace(pod_cidrs=tuple(ranges), addresses=tuple(hosts))
