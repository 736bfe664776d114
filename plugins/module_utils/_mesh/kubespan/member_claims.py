# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of the discovery service as claims, and the peers that they become on one node (kubespan 6, decisions 4 and 29, threats T1 to T6, T52).

Whoever has the mesh secret may announce anything. A member's key, address and prefixes are taken or refused together; a node address or
an endpoint that may not be is left out and named. What the inventory and annotations have is never taken from its holder, and of members
the one that was seen first holds.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ..._plan.plan import Refusal
from ..._values.addresses import overlaps, parse_address, parse_network, special_kind
from ..._values.keys import is_weak, parse_key
from ..._values.prefix_sets import PrefixSet, RangeOwners
from ..._values.refused import ValueRefused, quoted
from .endpoints import host_network, parse_addr_port, received_endpoints
from .members import Member
from .peers import Peer, networks_of

MAX_RANGES = 256
#: Endpoints that a peer of the inventory gets from the service behind its own.
MORE_ENDPOINTS = 8
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\Z", re.ASCII)


class Grants(t.NamedTuple):
    """What the inventory allows members: ``cluster`` that they count as, its pod and node ranges, and ``overlay``, in which no endpoint is.

    ``balanced``: addresses that load balancing hands out.
    """

    cluster: str
    pod_cidrs: t.Sequence[str]
    node_cidrs: t.Sequence[str]
    overlay: t.Sequence[str]
    balanced: t.Sequence[str] = ()


class Own(t.NamedTuple):
    """This node: its key, addresses and prefixes are no member's."""

    node_id: str
    public_key: str
    address: str
    networks: t.Sequence[str]


class Result(t.NamedTuple):
    """``peers``: those of the state, some with more endpoints, and those that members are; ``refused``."""

    peers: list[Peer]
    refused: list[Refusal]


class _Seats:
    """Who has what: keys, node ids, ranges."""

    def __init__(self, own: Own, peers: t.Sequence[Peer]) -> None:
        self.things: dict[tuple[str, str], str] = {
            ("key", own.public_key): "this node",
            ("address", own.address): "this node",
        }
        self.ranges: RangeOwners[str] = RangeOwners()
        self.ranges.add(PrefixSet.of_texts(own.networks), "this node")
        for peer in peers:
            label = peer.label or peer.node_id
            self.things.setdefault(("key", peer.public_key), label)
            self.things.setdefault(("node id", peer.node_id), label)
            self.things.setdefault(("address", peer.address), label)
            self.ranges.add(PrefixSet.of_texts(peer.allowed_ips), label)


def peers_with(
    peers: t.Sequence[Peer],
    members: t.Mapping[str, Member],
    grants: Grants,
    own: Own,
    subnet: ipaddress.IPv6Network,
    filters: t.Sequence[str] | None = None,
) -> Result:
    """The node's peers. peers: of the inventory and annotations. filters: ``peerEndpoints`` of the node."""
    refused: list[Refusal] = []
    known = {peer.node_id: peer for peer in peers}
    seats = _Seats(own, peers)
    overlay = PrefixSet.of_texts([*grants.overlay, str(subnet)])
    moving, nodes, pods = map(PrefixSet.of_texts, (grants.balanced, grants.node_cidrs, grants.pod_cidrs))
    more: dict[str, list[str]] = {}
    found: list[Peer] = []
    for node_id in sorted(members, key=lambda name: (members[name].since, name)):
        if node_id == own.node_id:
            continue
        affiliate, label = members[node_id].affiliate, f"discovery/{node_id}"
        if not affiliate.get("public_key"):
            continue  # KubeSpan is off there
        left_out: list[ValueRefused] = []
        try:
            same = known.get(node_id)
            if same is not None and same.public_key == affiliate["public_key"]:
                more[node_id] = _endpoints(affiliate, overlay, moving, left_out)
            else:
                label = _label(affiliate, node_id)
                row = _checked(affiliate, subnet, pods, grants)
                row["addresses"] = _addresses(affiliate, nodes, moving, subnet, grants, seats, left_out)
                row["endpoints"] = received_endpoints(_endpoints(affiliate, overlay, moving, left_out), filters)
                found.append(_peer(row, node_id, grants, seats))
        except ValueRefused as error:
            left_out = [error]
        refused.extend(Refusal(label, error.reason, f"{label}: {error.message}") for error in left_out)
    grown = [
        peer._replace(endpoints=_with_more(peer.endpoints, received_endpoints(more[peer.node_id], filters)))
        if more.get(peer.node_id)
        else peer
        for peer in peers
    ]
    return Result([*grown, *found], refused)


def _with_more(endpoints: t.Sequence[str], more: t.Sequence[str]) -> list[str]:
    new = [text for text in more if text not in endpoints]
    return [*endpoints, *new[:MORE_ENDPOINTS]]


def _label(affiliate: t.Mapping[str, t.Any], node_id: str) -> str:
    for name in ("nodename", "hostname"):
        text = affiliate.get(name)
        if text and not _NAME.match(text):
            raise ValueRefused("name_invalid", f"its {name} is {quoted(text)}, which no node is called")
    return f"discovery/{affiliate.get('nodename') or node_id}"


def _checked(
    affiliate: t.Mapping[str, t.Any], subnet: ipaddress.IPv6Network, pods: PrefixSet, grants: Grants
) -> dict[str, t.Any]:
    """Raises ValueRefused for a key, an address or a prefix that may not be."""
    key = parse_key(affiliate["public_key"])
    if is_weak(key):
        raise ValueRefused("weak_key", f"key {quoted(key)} agrees with everybody on the same secret")
    address = parse_address(affiliate.get("kubespan_address"))
    if address.version != 6 or address not in subnet:
        raise ValueRefused(
            "outside_grant", f"KubeSpan address {quoted(str(address))} is outside of the mesh's {subnet}"
        )
    prefixes = affiliate.get("additional_addresses") or []
    excluded = affiliate.get("exclude_advertised_networks") or []
    if len(prefixes) > MAX_RANGES or len(excluded) > MAX_RANGES:
        raise ValueRefused("bad_pod_cidr", f"it announces or excludes more than {MAX_RANGES} networks")
    for text in prefixes:
        network = parse_network(text, "bad_pod_cidr")
        if not pods.covers(network) or overlaps(network, subnet):
            message = f"prefix {quoted(text)} is outside what the inventory grants; pod_cidrs of clusters/{grants.cluster} would grant it"
            raise ValueRefused("outside_grant", message)
    return dict(affiliate)


def _addresses(
    affiliate: t.Mapping[str, t.Any],
    nodes: PrefixSet,
    moving: PrefixSet,
    subnet: ipaddress.IPv6Network,
    grants: Grants,
    seats: _Seats,
    left_out: list[ValueRefused],
) -> list[str]:
    kept = []
    texts = affiliate.get("addresses") or []
    if len(texts) > MAX_RANGES:
        left_out.append(ValueRefused("bad_address", f"it announces more than {MAX_RANGES} addresses"))
        return []
    for text in dict.fromkeys(texts):
        address = parse_address(text)
        kind = special_kind(address)
        if text == affiliate.get("kubespan_address"):
            continue  # its own in the mesh again
        holder = seats.ranges.owner(host_network(address))
        if kind is not None:
            problem = ValueRefused("special_address", f"{quoted(text)} is a {kind.replace('_', '-')} address")
        elif address in moving:
            problem = ValueRefused(
                "special_address", f"{quoted(text)} is an address that load balancing hands out, no node's"
            )
        elif address not in nodes or address in subnet:
            message = f"address {quoted(text)} is outside what the inventory grants; node_cidrs of clusters/{grants.cluster} would grant it"
            problem = ValueRefused("outside_grant", message)
        elif holder is not None:
            problem = ValueRefused("claimed_twice", f"address {quoted(text)} is one of {holder}, which keeps it")
        else:
            kept.append(text)
            continue
        left_out.append(problem)
    return kept


def _endpoints(
    affiliate: t.Mapping[str, t.Any], overlay: PrefixSet, moving: PrefixSet, left_out: list[ValueRefused]
) -> list[str]:
    kept = []
    for text in affiliate.get("endpoints") or ():
        endpoint = parse_addr_port(text)
        kind = special_kind(endpoint.address)
        if kind is not None:
            message = f"endpoint {quoted(text)} is a {kind.replace('_', '-')} address, which no node has"
            left_out.append(ValueRefused("endpoint_special", message))
        elif endpoint.address in overlay or endpoint.address in moving:
            message = f"endpoint {quoted(text)} is inside a range of pods, Services or the mesh, so the tunnel would run through itself"
            left_out.append(ValueRefused("endpoint_in_overlay", message))
        else:
            kept.append(str(endpoint))
    return kept


def _peer(row: t.Mapping[str, t.Any], node_id: str, grants: Grants, seats: _Seats) -> Peer:
    """Raises claimed_twice; what it gets is its own from then on."""
    address, networks = networks_of(row)
    for kind, value in (("key", row["public_key"]), ("node id", node_id), ("address", address)):
        holder = seats.things.get((kind, value))
        if holder is not None:
            reason = "own_key" if (kind, holder) == ("key", "this node") else "claimed_twice"
            raise ValueRefused(reason, f"{kind} {quoted(value)} is that of {holder}, which keeps it")
    holders = sorted(seats.ranges.owners(networks))
    if holders:
        raise ValueRefused("claimed_twice", f"it announces a prefix of {', '.join(holders)}, which keeps it")
    label = row.get("nodename") or node_id
    for kind, value in (("key", row["public_key"]), ("node id", node_id), ("address", address)):
        seats.things[kind, value] = label
    seats.ranges.add(networks, label)
    return Peer(
        row["public_key"],
        node_id,
        address,
        networks.cidrs(),
        row["endpoints"],
        label,
        grants.cluster,
        row.get("nodename") or None,
    )
