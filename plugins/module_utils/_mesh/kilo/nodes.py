# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes of a source cluster get Peers, and why the others do not (kilo 8).

With Kilo's granularity "location" only leaders have a WireGuard address, and carry their location (kilo 17, gap G9).
"""

from __future__ import annotations

import typing as t

from ..._values.addresses import Network
from ..._values.prefix_sets import RangeOwners
from ..._values.refused import ValueRefused, quoted
from .endpoints import INVALID, resolve_endpoint
from .values import (
    FORCE_INTERNAL_IP,
    GRANULARITY,
    GROUP,
    KEY,
    LOCATION,
    WIREGUARD_IP,
    Cidr,
    Entry,
    Node,
    as_kilo_sends,
    cidr_contains,
    cidr_or_none,
    host_route,
    parse_cidr,
)

DUPLICATE = "WGIPDuplicate"
#: Reasons that pass by themselves; every other, also an unknown one, stays until somebody acts.
TRANSIENT = frozenset(("NodeNoPodCIDR", "NodeNoWireguardIP", "NodeNoPublicKey", "NodeNoEndpoint"))
REQUIRE, ROAM = "require", "roam"
#: Values of force-internal-ip by which Kilo's users say that a node's internal address is not for the mesh.
_NO_INTERNAL_IP = ("", "-")
LEADER = GROUP + "/leader"
#: Where a node has no annotation, Kilo takes its location from this label.
REGION_LABEL = "topology.kubernetes.io/region"


def is_transient(reason: object) -> bool:
    """True for a reason that a node usually gets over by itself."""
    return reason in TRANSIENT


def without_internal_ip(node: Node) -> bool:
    """True for a node with an internal address that is not for the mesh."""
    return node.annotations.get(FORCE_INTERNAL_IP, "none") in _NO_INTERNAL_IP


def is_typed(entry: Entry) -> bool:
    """True for the schema with podCIDRs and wireguardCIDR, false for allowedNetworks; an empty list is not given."""
    return not entry.get("allowedNetworks") and ("podCIDRs" in entry or "wireguardCIDR" in entry)


def networks_of(texts: t.Any) -> list[Network]:
    """The networks among the texts; what is no CIDR is skipped (the mesh's own validation reports it)."""
    found = [cidr_or_none(text) for text in texts] if isinstance(texts, (list, tuple)) else []
    return [cidr.network for cidr in found if cidr is not None]


class Ranges(t.NamedTuple):
    """The declared ranges of an entry, read once for all its nodes."""

    pods: list[Network]
    wireguard: list[Network]
    shown: str


def ranges_of(entry: Entry) -> Ranges:
    """Where pod CIDRs and WireGuard addresses of an entry's nodes may lie."""
    if is_typed(entry):
        pods, wireguard = networks_of(entry.get("podCIDRs")), networks_of([entry.get("wireguardCIDR")])
        return Ranges(pods, wireguard, quoted(entry.get("wireguardCIDR") or ""))
    networks = networks_of(entry.get("allowedNetworks"))
    return Ranges(networks, networks, quoted(list(entry.get("allowedNetworks") or ())))


def wireguard_address(node: Node, ranges: Ranges) -> Cidr:
    """The node's WireGuard address. Raises NodeNoWireguardIP, WGIPInvalid or WGIPOutOfRange, in this order."""
    text = node.annotation(WIREGUARD_IP)
    if not text:
        raise ValueRefused("NodeNoWireguardIP", f'node "{node.name}" has no annotation {WIREGUARD_IP}')
    cidr = cidr_or_none(text)
    if cidr is None:
        message = f'node "{node.name}" has an invalid {WIREGUARD_IP}: {quoted(text)}'
        raise ValueRefused("WGIPInvalid", message)
    if not any(cidr_contains(network, cidr.host) for network in ranges.wireguard):
        message = f'node "{node.name}" has the WireGuard IP {quoted(text)} outside {ranges.shown}'
        raise ValueRefused("WGIPOutOfRange", message)
    return cidr


def validate_node(node: Node, entry: Entry, policy: str = REQUIRE, ranges: Ranges | None = None) -> None:
    """Raise ValueRefused with the first reason why a node gets no Peer; duplicates are found before (find_duplicates)."""
    ranges = ranges or ranges_of(entry)
    name, cidrs = node.name, node.pod_cidrs
    if not cidrs:
        raise ValueRefused("NodeNoPodCIDR", f'node "{name}" has no PodCIDRs assigned')
    try:
        pods = parse_cidr(cidrs[0])
    except ValueRefused as error:
        message = f'node "{name}" has invalid PodCIDR "{quoted(cidrs[0])[1:-1]}": {error.message}'
        raise ValueRefused("NodeNoPodCIDR", message) from None
    if not any(cidr_contains(network, pods.network) for network in ranges.pods):
        shown = ", ".join(str(network) for network in ranges.pods[:8])
        message = f'node "{name}" has the PodCIDR {quoted(cidrs[0])} outside the declared {shown or "nothing"}'
        raise ValueRefused("NodePodCIDROutOfRange", message)
    wireguard_address(node, ranges)
    if not node.annotation(KEY):
        raise ValueRefused("NodeNoPublicKey", f'node "{name}" has no annotation {KEY}')
    try:
        resolve_endpoint(node, entry.get("wireguardPort"))
    except ValueRefused as error:
        if error.reason == INVALID:
            message = f'node "{name}" has an invalid endpoint annotation: {error.message}'
            raise ValueRefused(INVALID, message) from None
        if policy != ROAM:
            raise


def find_duplicates(nodes: t.Iterable[Node], holders: t.Mapping[str, str] | None = None) -> dict[str, str]:
    """{node: WGIPDuplicate} for every node but one that claims a WireGuard address, whatever else is wrong with it.

    The first in the list keeps it. ``holders`` ({address: node}, from owned live Peers) come before: such a node
    keeps its address while it claims it, and while its annotation is missing because its agent restarts (decision 11).
    """
    nodes = list(nodes)
    owners: dict[str, object] = {}
    claims = {node.name: _claimed(node) for node in nodes}
    for address, name in (holders or {}).items():
        if name in claims and claims[name] in ("", address):
            owners[address] = name
    found: dict[str, str] = {}
    for node in nodes:
        label, claim = node.name, _claimed(node)
        if claim and owners.setdefault(claim, label) != label:
            found[label] = DUPLICATE
    return found


def _claimed(node: Node) -> str:
    """What a node claims: the address in canonical text, or the annotation itself when it is no CIDR.

    So a bare address, which is invalid, is still in the way of its proper form.
    """
    text = node.annotation(WIREGUARD_IP)
    cidr = cidr_or_none(text)
    return text if cidr is None else str(cidr.host)


class Filtered(t.NamedTuple):
    """``valid`` nodes in list order; ``skipped`` {node: reason}; ``messages`` {node: text}."""

    valid: list[Node]
    skipped: dict[str, str]
    messages: dict[str, str]

    @property
    def transient(self) -> int:
        """How many nodes are skipped for a reason that passes."""
        return sum(1 for reason in self.skipped.values() if is_transient(reason))

    @property
    def bootstrapping(self) -> bool:
        """True when nothing can be said yet about the source: no valid node, and no node or one that will heal."""
        return not self.valid and (not self.skipped or self.transient > 0)


def filter_nodes(
    nodes: t.Iterable[Node],
    entry: Entry,
    policy: str = REQUIRE,
    holders: t.Mapping[str, str] | None = None,
) -> Filtered:
    """Sort a source's nodes into valid and skipped ones. Give the nodes in the order of their names."""
    nodes = list(nodes)
    duplicates = find_duplicates(nodes, holders)
    ranges = ranges_of(entry)
    result = Filtered([], {}, {})
    for node in nodes:
        name = node.name
        if name in duplicates:
            result.skipped[name] = DUPLICATE
            result.messages[name] = f"node {name} has duplicate WireGuard IP"
            continue
        try:
            validate_node(node, entry, policy, ranges)
        except ValueRefused as error:
            result.skipped[name], result.messages[name] = error.reason, error.message
        else:
            result.valid.append(node)
    return result


def while_leaders_move(
    filtered: Filtered, nodes: t.Iterable[Node], live: t.Mapping[str, t.Mapping[str, t.Any]], kept: list[str]
) -> Filtered:
    """Without the nodes with a live Peer that carries the ranges of another node that has their WireGuard address now.

    When the leader of a location changes, Kilo gives its address to the next one, and for some seconds both announce it (threat T41). The new one
    gets no Peer then, so that of the old one must not be narrowed to its own ranges: it stays as it is. ``kept`` grows by these nodes.
    """
    waiting: dict[str, str] = {}
    valid = {node.name: node for node in filtered.valid}
    for node in nodes:
        route = wireguard_route(node)
        if filtered.skipped.get(node.name) != DUPLICATE or route is None or not node.pod_cidrs:
            continue
        for name, spec in live.items():
            carried = {str(text) for text in spec.get("allowedIPs") or ()}
            if (
                name in valid
                and name != node.name
                and wireguard_route(valid[name]) == route
                and {route, *map(str, node.pod_cidrs)} <= carried
            ):
                waiting[name] = node.name
    if not waiting:
        return filtered
    kept.extend(name for name in waiting if name not in kept)
    result = Filtered(
        [node for node in filtered.valid if node.name not in waiting], dict(filtered.skipped), dict(filtered.messages)
    )
    text = "node {0} has the WireGuard IP that node {1}, which its Peer carries, has too; what exists stays until one of them leads"
    for name, other in waiting.items():
        result.skipped[name], result.messages[name] = DUPLICATE, text.format(name, other)
    return result


def while_renumbered(filtered: Filtered, live: t.Mapping[str, t.Mapping[str, t.Any]], kept: list[str]) -> Filtered:
    """The nodes that can be written although the Peers of others stay as they are.

    When a node joins, Kilo renumbers all WireGuard addresses, and for a while the annotations of several nodes are
    duplicates of each other, or of what the Peer of a kept node still has. A node waits when a kept Peer has its new address
    too, and if the node has a live Peer, that one stays: then its address is taken as well. ``kept`` grows by these nodes.
    """
    by_route: dict[str, list[str]] = {}
    for node in filtered.valid:
        by_route.setdefault(wireguard_route(node) or "", []).append(node.name)
    waiting: dict[str, str] = {}
    todo = list(kept)
    while todo:
        holder = todo.pop()
        for route in (live.get(holder) or {}).get("allowedIPs") or ():
            for name in by_route.get(str(route), ()):
                if name != holder and name not in waiting:
                    waiting[name] = holder
                    if name in live:
                        kept.append(name)
                        todo.append(name)
    if not waiting:
        return filtered
    result = Filtered(
        [node for node in filtered.valid if node.name not in waiting], dict(filtered.skipped), dict(filtered.messages)
    )
    text = "node {0} has the WireGuard IP that the Peer of node {1} still has; what exists stays until both agree"
    for name, holder in waiting.items():
        result.skipped[name], result.messages[name] = DUPLICATE, text.format(name, holder)
    return result


def wireguard_route(node: Node) -> str | None:
    """Host route of a node's WireGuard address, None when it has no valid one."""
    cidr = cidr_or_none(node.annotation(WIREGUARD_IP))
    return None if cidr is None else host_route(cidr.host)


def by_location(nodes: t.Iterable[Node]) -> bool:
    """True for a cluster with a Kilo that reports that it connects locations and not nodes."""
    return any(node.annotation(GRANULARITY) == "location" for node in nodes)


def announced(node: Node, all_pod_cidrs: bool) -> Node:
    """The node with what its Peer announces: one or all of its pod ranges, and the internal address that Kilo sends from."""
    node = as_kilo_sends(node)
    rest = [text for text in node.pod_cidrs[1:] if cidr_or_none(text) is not None] if all_pod_cidrs else []
    return node._replace(pod_cidrs=(*node.pod_cidrs[:1], *rest))


class Grouped(t.NamedTuple):
    """``nodes`` as they get Peers; ``led_by`` {node: leader with the Peer that carries it}; ``twice`` {node: why nobody carries it}."""

    nodes: list[Node]
    led_by: dict[str, str]
    twice: dict[str, str]


def grouped(nodes: t.Sequence[Node], entry: Entry, live: t.Mapping[str, t.Mapping[str, t.Any]]) -> Grouped:
    """Give each leader the pod ranges and internal addresses of its location.

    nodes: after ``announced``. live: spec of the live Peer by node name; among several nodes that could lead, the one that
    carries the location now goes on, so that a node cannot make itself the leader of others. A node with a range that is not
    the cluster's to announce, and nodes of a location without a leader, stay as they are and are skipped by name. One that
    has another's range is left out, lest its leader is refused with all others of the location.
    """
    ranges = ranges_of(entry)
    locations: dict[str, list[Node]] = {}
    for node in nodes:
        if node.internal_ips:  # without one, a node is a location of its own
            locations.setdefault(node.annotation(LOCATION) or node.labels.get(REGION_LABEL, ""), []).append(node)
    led: dict[str, list[Node]] = {}
    led_by: dict[str, str] = {}
    twice = _claimed_twice(nodes, live)
    for location in locations.values():
        leaders = [node for node in location if node.annotation(WIREGUARD_IP)]
        others = [
            node for node in location if not node.annotation(WIREGUARD_IP) and _may_be_announced(node, ranges.pods)
        ]
        others = [node for node in others if node.name not in twice]
        if leaders and others:
            texts = {str(text) for node in others for text in node.pod_cidrs}
            leaders.sort(key=lambda node: (-_carried(node, texts, live), node.annotation(LEADER) == "", node.name))
            led[leaders[0].name] = others
            led_by.update((node.name, leaders[0].name) for node in others)
    staying = [node for node in nodes if node.name not in led_by and node.name not in twice]
    return Grouped([_leader(node, led.get(node.name, ())) for node in staying], led_by, twice)


def _claimed_twice(nodes: t.Iterable[Node], live: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, str]:
    """Nodes without a WireGuard address and with a range that another node has: those with one, and what is carried now, come first."""
    carried = {str(route) for spec in live.values() for route in spec.get("allowedIPs") or ()}
    rows = []
    for node in nodes:
        for text in node.pod_cidrs:
            cidr = cidr_or_none(text)
            if cidr is not None:
                leads = bool(node.annotation(WIREGUARD_IP))
                rows.append((not leads, str(text) not in carried, node.name, str(text), cidr.network))
    spans: RangeOwners[str] = RangeOwners()
    found: dict[str, str] = {}
    for follows, dummy, name, text, network in sorted(rows, key=lambda row: row[:4]):
        owner = spans.claim(network, name)
        if owner not in (None, name) and follows:
            found[name] = f"node {name} has the range {text} of node {owner}, which keeps it"
    return found


def _may_be_announced(node: Node, ranges: t.Sequence[t.Any]) -> bool:
    cidrs = [cidr_or_none(text) for text in node.pod_cidrs]
    return bool(cidrs) and all(
        cidr is not None and any(cidr_contains(network, cidr.network) for network in ranges) for cidr in cidrs
    )


def _carried(node: Node, texts: set[str], live: t.Mapping[str, t.Mapping[str, t.Any]]) -> int:
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
