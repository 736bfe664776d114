# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the mesh's plan has of devices and endpoints, and which marks, rules and routes are the mesh's own on a node. Pure."""

from __future__ import annotations

import typing as t

from .._dataplane.constants import TABLE_NAMES
from .._mesh.kubespan.generations import Layout
from .._plan.pod_range_sources import OBJECTS
from .facts import Node, Route, Rule
from .routing import Packet, rules_of


class Mesh(t.NamedTuple):
    """What the plan has. ``devices``: {cluster: {remote cluster: device}}; ``whole``: the one device of a KubeSpan mesh, "" for none. ``endpoints``:
    {host: where it should be found}. ``shared``: {public key: who have it}, of keys that several have. ``ranges``: {cluster: source of the pod ranges of
    its nodes, which are the allowed IPs of their peers}."""

    devices: t.Mapping[str, t.Mapping[str, str]] = {}
    whole: str = ""
    endpoints: t.Mapping[str, tuple[tuple[int, int, int], ...]] = {}
    shared: t.Mapping[str, tuple[str, ...]] = {}
    ranges: t.Mapping[str, str] = {}

    def device(self, here: Node, there: Node) -> str | None:
        """The device by which one node reaches another, None where the mesh has none between them."""
        if self.whole:
            return self.whole
        return (self.devices.get(here.cluster) or {}).get(there.cluster)


def origin(mesh: Mesh, there: Node) -> str:
    """From where a peer has what it has: the Node's annotations, and the source of its pod ranges where that is known."""
    source = mesh.ranges.get(there.cluster, "")
    ranges = f", ranges: {OBJECTS[source]} (pod_ranges: {source})" if source in OBJECTS else ""
    return f"Node annotations of {there.host}{ranges}"


def in_set(node: Node, version: int, number: int) -> bool:
    """Whether our table's set has an address."""
    return any(first <= number <= last for first, last in (node.sets or {}).get(version, ()))


def mark_of(node: Node, mesh: Mesh, version: int, dst: int) -> int:
    """The mark that our table gives a packet for an address."""
    if not in_set(node, version, dst):
        return 0
    rule = our_rule(node, mesh, version)
    return Layout().mark_to_wireguard if rule is None or not rule.fwmark else rule.fwmark


def our_rule(node: Node, mesh: Mesh, version: int) -> Rule | None:
    """The rule of a KubeSpan mesh: by a mark, to the table that has its device."""
    for rule in rules_of(node, version):
        if rule.fwmark is None or rule.table in TABLE_NAMES or rule.table is None:
            continue
        if rule.table == Layout().route_table or any(
            route.dev == mesh.whole for route in node.routes.get((version, rule.table), ())
        ):
            return rule
    return None


def own_route(here: Node, mesh: Mesh, version: int, desired: str, packet: Packet) -> tuple[Route | None, Rule | None]:
    """The route by the mesh's device that holds the target, with the rule that leads to it."""
    owned = our_rule(here, mesh, version) if mesh.whole else None
    if mesh.whole and owned is None:
        return None, None
    for rule in rules_of(here, version):
        if mesh.whole and rule is not owned:
            continue
        if rule.table is None or (not mesh.whole and rule.fwmark is not None):
            continue
        for route in here.routes.get((version, rule.table), ()):
            if route.first <= packet.dst <= route.last and route.dev == desired and route.kind == "unicast":
                return route, rule
    return None, None
