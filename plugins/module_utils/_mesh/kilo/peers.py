# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Peers: their names, labels and content (kilo 10), and those of one source in one target: what to create, update and delete (kilo 13.2)."""

from __future__ import annotations

import hashlib
import string
import typing as t

from ..._values.addresses import Address
from ..._values.refused import ValueRefused
from .endpoints import PeerEndpoint, Resolved, parse_endpoint, resolve_endpoint
from .nodes import ROAM, is_typed, without_internal_ip
from .values import (
    API_VERSION,
    KEY,
    MESH_LABEL,
    SOURCE_LABEL,
    WIREGUARD_IP,
    Cidr,
    Entry,
    Node,
    cidr_contains,
    cidr_or_none,
    host_route,
    ip_or_none,
    parse_cidr,
)

MAX_NAME, CUT_NAME, HASH_DIGITS = 253, 236, 16
ALWAYS, DECLARED, NEVER = "always", "declared", "never"

_NAME_CHARACTERS = frozenset(string.ascii_lowercase + string.digits + ".-")


class PeerOptions(t.NamedTuple):
    """What a mesh may decide beyond its entries.

    ``internal_ip_routes`` always, declared or never; ``own_endpoint_routes``: announce an internal address that is also
    the Peer's endpoint; ``roaming_keepalive``: seconds for a Peer without endpoint when the mesh has no keepalive;
    ``all_pod_cidrs``: also the second and later pod ranges of a node; ``resolved`` {DNS name: addresses} of endpoints.
    """

    policy: str = "require"
    internal_ip_routes: str = ALWAYS
    own_endpoint_routes: bool = False
    roaming_keepalive: int = 25
    all_pod_cidrs: bool = False
    resolved: t.Mapping[str, t.Sequence[str]] = {}


class Peer(t.NamedTuple):
    """A Peer: its name, the labels that say of which mesh and source it is, and its spec as Kilo has it."""

    name: str
    labels: t.Mapping[str, str]
    spec: t.Mapping[str, t.Any]

    def manifest(self) -> dict[str, t.Any]:
        metadata = {"name": self.name, "labels": dict(self.labels)}
        return {"apiVersion": API_VERSION, "kind": "Peer", "metadata": metadata, "spec": self.spec}


#: The options with which a Peer is what upstream builds.
ORIGINAL = PeerOptions(own_endpoint_routes=True, roaming_keepalive=0)


def peer_name(mesh: str, cluster: str, node: str) -> str:
    """The Peer's object name. Long names are cut and end in a hash of the unchanged text."""
    raw = "--".join((mesh, cluster, node))
    # Lowered as upstream does, beyond ASCII too, or its objects could not be found; one character at a time, since lowering a
    # text may change their number. Only ASCII comes out.
    lowered = (char.lower()[:1] for char in raw)
    name = "".join(char if char in _NAME_CHARACTERS else "-" for char in lowered).strip("-.")
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]
    return f"{name[:CUT_NAME].rstrip('-.')}-{digest}"


def is_peer_name(name: str, mesh: str, cluster: str) -> bool:
    """Whether peer_name gives the name to some node of the cluster."""
    start = peer_name(mesh, cluster, "-x")[
        :-1
    ]  # a node with a name that begins with a dash: nothing is stripped off the joint
    whole = peer_name(mesh, cluster, "")
    if len(whole) + 3 > CUT_NAME:
        return name.startswith(whole[:CUT_NAME].rstrip("-."))
    return name.startswith(start[:-1])


def peer_labels(mesh: str, cluster: str) -> dict[str, str]:
    """The two labels by which a Peer's mesh and source are known."""
    return {MESH_LABEL: mesh, SOURCE_LABEL: cluster}


def mesh_keepalive(values: t.Iterable[t.Any]) -> int:
    """The keepalive of every Peer of a mesh: both ends of a pair behind NAT need it, so the largest counts."""
    return max([0] + [int(value or 0) for value in values])


def all_cidrs(entry: Entry) -> list[t.Any]:
    """Every declared range of an entry in the order of messages; only an empty serviceCIDR is left out."""
    if not is_typed(entry):
        return list(entry.get("allowedNetworks") or ())
    found = list(entry.get("podCIDRs") or ())
    found.append(entry.get("wireguardCIDR") or "")
    return found + cluster_wide(entry)


def cluster_wide(entry: Entry) -> list[t.Any]:
    """The ranges of a typed entry that belong to no node."""
    service = entry.get("serviceCIDR")
    return ([service] if service else []) + list(entry.get("additionalCIDRs") or ())


def anchor_cidrs(entry: Entry, valid: t.Sequence[Node]) -> list[str]:
    """Ranges that one node announces for its whole cluster.

    Flat entries have no roles, so an entry that holds no valid node's pod range, internal or WireGuard address is one.
    """
    if is_typed(entry) or not entry.get("allowedNetworks"):
        return cluster_wide(entry)
    rest: list[tuple[t.Any, t.Any]] = [(text, cidr_or_none(text)) for text in entry.get("allowedNetworks") or ()]
    covered: set[int] = set()
    for node in valid:
        own: list[t.Any] = list(node.internal_ips)
        wireguard = cidr_or_none(node.annotation(WIREGUARD_IP))
        pods = cidr_or_none(next(iter(node.pod_cidrs), None))
        if wireguard is not None:
            own.append(wireguard.host)
        if pods is not None:
            own.append(pods.network)
        for index, (dummy, cidr) in enumerate(rest):
            if index not in covered and cidr is not None and any(cidr_contains(cidr.network, item) for item in own):
                covered.add(index)
        if len(covered) == len(rest):
            break
    return [text for index, (text, dummy) in enumerate(rest) if index not in covered]


def choose_anchor(valid: t.Sequence[Node], live: str | None = None, ready: t.Container[str] = ()) -> str | None:
    """The node that carries the cluster-wide ranges: the one that does now, else the first with an endpoint and Ready.

    ``live`` is the node with the Peer that has them already; ``ready`` holds the names of Ready nodes.
    """
    names = [node.name for node in valid]
    if live in names:
        return live
    if not valid:
        return None
    ranked = sorted(range(len(valid)), key=lambda i: (not _has_endpoint(valid[i]), names[i] not in ready, i))
    return names[ranked[0]]


def _has_endpoint(node: Node) -> bool:
    try:
        resolve_endpoint(node)
    except ValueRefused:
        return False
    return True


def build_peer(
    mesh: str,
    entry: Entry,
    node: Node,
    extras: t.Sequence[str] = (),
    keepalive: int = 0,
    options: PeerOptions = ORIGINAL,
    left_out: t.Container[str] = (),
) -> Peer:
    """The Peer of one node. Raises ValueRefused with the reason of kilo 8.1.

    ``left_out`` holds routes that the claims stage refused this node.
    """
    name = node.name
    key, text = node.annotation(KEY), node.annotation(WIREGUARD_IP)
    if not key:
        raise ValueRefused("NodeNoPublicKey", f'node "{name}" has no annotation {KEY}')
    if not text:
        raise ValueRefused("NodeNoWireguardIP", f'node "{name}" has no annotation {WIREGUARD_IP}')
    wireguard = parse_cidr(text, "WGIPInvalid")
    pods = node.pod_cidrs
    if not pods:
        raise ValueRefused("NodeNoPodCIDR", f'node "{name}" has no PodCIDRs assigned')
    endpoint = peer_endpoint(node, entry, options.policy)[0]
    spec = {"publicKey": key, "allowedIPs": peer_routes(node, entry, wireguard, extras, options, left_out)}
    cluster = str(entry.get("name", ""))
    return Peer(
        peer_name(mesh, cluster, name),
        peer_labels(mesh, cluster),
        with_endpoint(spec, endpoint, keepalive, entry, options),
    )


def peer_routes(
    node: Node,
    entry: Entry,
    wireguard: Cidr,
    extras: t.Sequence[str],
    options: PeerOptions,
    left_out: t.Container[str] = (),
) -> list[str]:
    """Every range of a node's Peer, whatever its endpoint is. The node has a pod range; ``wireguard`` is its address."""
    pods = node.pod_cidrs
    routes = [pods[0]] + [text for text in pods[1:] if options.all_pod_cidrs and cidr_or_none(text) is not None]
    routes.append(wireguard.host_route)
    routes.extend(internal_routes(node, entry, options))
    routes.extend(extras)
    return [route for route in dict.fromkeys(routes) if route not in left_out]


def with_endpoint(
    spec: t.Mapping[str, t.Any], endpoint: PeerEndpoint | None, keepalive: int, entry: Entry, options: PeerOptions
) -> dict[str, t.Any]:
    """A Peer's spec with this endpoint and what follows from it; fields without value are left out.

    A range that holds the endpoint is left out: the tunnel's own packets would be sent into the tunnel. Give all ranges
    of the node, so that those come back which only a former endpoint kept out.
    """
    found = {name: value for name, value in spec.items() if name not in ("endpoint", "persistentKeepalive")}
    if not options.own_endpoint_routes:
        found["allowedIPs"] = without(spec["allowedIPs"], endpoint_addresses(endpoint, options.resolved))
    seconds = max(keepalive, int(entry.get("persistentKeepalive") or 0))
    if endpoint is not None:
        found["endpoint"] = endpoint
    elif not seconds:
        seconds = options.roaming_keepalive  # without one, Kilo resets what it learnt about a roaming peer (gap G11)
    if seconds:
        found["persistentKeepalive"] = seconds
    return found


def peer_endpoint(node: Node, entry: Entry, policy: str) -> tuple[PeerEndpoint | None, Resolved | None]:
    """The endpoint of a node's Peer and where it comes from; (None, None) for a roaming node under policy ``roam``."""
    try:
        resolved = resolve_endpoint(node, entry.get("wireguardPort"))
    except ValueRefused as error:
        if error.reason == "NodeNoEndpoint" and policy == ROAM:
            return None, None
        raise
    return parse_endpoint(resolved.text), resolved


def without(routes: t.Sequence[str], held: t.Collection[Address]) -> list[str]:
    """The ranges that hold none of the addresses."""
    if not held:
        return list(routes)
    found = []
    for route in routes:
        cidr = cidr_or_none(route)
        if cidr is None or not any(cidr_contains(cidr.network, address) for address in held):
            found.append(route)
    return found


def endpoint_addresses(endpoint: PeerEndpoint | None, resolved: t.Mapping[str, t.Sequence[str]]) -> list[Address]:
    """Where packets to an endpoint go: its address, or those that its DNS name had when it was looked up."""
    host = (endpoint or {}).get("dnsOrIP", {})
    texts = [host["ip"]] if host.get("ip") else resolved.get(host.get("dns", ""), ())
    return [address for address in map(ip_or_none, texts) if address is not None]


def internal_routes(node: Node, entry: Entry, options: PeerOptions) -> list[str]:
    """Host routes of the node's internal addresses: what its host-network pods and daemons send from."""
    if options.internal_ip_routes == NEVER:
        return []
    if not options.own_endpoint_routes and without_internal_ip(node):
        return []
    declared = [cidr.network for cidr in map(cidr_or_none, all_cidrs(entry)) if cidr is not None]
    return [
        host_route(address)
        for address in node.internal_ips
        if options.internal_ip_routes == ALWAYS or any(cidr_contains(network, address) for network in declared)
    ]


def desired_peers(
    mesh: str,
    entry: Entry,
    valid: t.Sequence[Node],
    keepalive: int = 0,
    options: PeerOptions = ORIGINAL,
    anchor: str | None = None,
    left_out: t.Mapping[str, t.Container[str]] | None = None,
    extras: t.Sequence[str] | None = None,
) -> list[Peer]:
    """The Peers of one source in the order of its nodes. ``anchor`` names the node with the cluster-wide ranges.

    ``extras`` are these ranges, where they are not simply those of anchor_cidrs.
    """
    if anchor is None and valid:
        anchor = valid[0].name
    extras = anchor_cidrs(entry, valid) if extras is None else extras
    peers = []
    for node in valid:
        name = node.name
        extra = extras if name == anchor else ()
        peers.append(build_peer(mesh, entry, node, extra, keepalive, options, (left_out or {}).get(name, ())))
    return peers


# -- what a target has, and what it lacks -----------------------------------------------------------------------------


class PeerDiff(t.NamedTuple):
    """``create`` Peers; ``update`` {name: spec}; ``delete`` names; ``held`` {name desired: name that has its key}."""

    create: list[Peer]
    update: dict[str, dict[str, t.Any]]
    delete: list[str]
    held: dict[str, str]


def same_spec(first: t.Mapping[str, t.Any], second: t.Mapping[str, t.Any]) -> bool:
    """True when two specs make the same peer: the order of allowed IPs is free, an empty field is an absent one."""
    if first == second:
        return True
    return _plain(first) == _plain(second)


def _plain(spec: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    plain = {name: value for name, value in spec.items() if value not in (None, "", 0, {}, [])}
    if isinstance(plain.get("endpoint"), dict):
        plain["endpoint"] = _without_empty(plain["endpoint"])
    if isinstance(plain.get("allowedIPs"), (list, tuple)):
        plain["allowedIPs"] = sorted(map(str, plain["allowedIPs"]))
    return plain


def _without_empty(value: t.Any) -> t.Any:
    if not isinstance(value, dict):
        return value
    return {name: _without_empty(item) for name, item in value.items() if item not in (None, "", {})}


def changed_fields(first: t.Mapping[str, t.Any], second: t.Mapping[str, t.Any]) -> list[str]:
    """Names of the fields in which two specs differ."""
    one, other = _plain(first), _plain(second)
    return sorted(name for name in set(one) | set(other) if one.get(name) != other.get(name))


class Existing:
    """The Peers of one target, found by mesh and source and by key. Read it once, ask it for every source."""

    def __init__(self, peers: t.Iterable[Peer]) -> None:
        self._own: dict[tuple[t.Any, t.Any], dict[str, Peer]] = {}
        self._keys: dict[t.Any, list[Peer]] = {}
        own, keys = self._own, self._keys
        for peer in sorted(peers, key=lambda peer: peer.name):
            group = peer.labels.get(MESH_LABEL), peer.labels.get(SOURCE_LABEL)
            own.setdefault(group, {})[peer.name] = peer
            keys.setdefault(peer.spec.get("publicKey"), []).append(peer)

    def own(self, mesh: str, source: str) -> t.Mapping[str, Peer]:
        """The Peers that carry both labels, by name."""
        return self._own.get((mesh, source), {})

    def groups(self) -> list[tuple[t.Any, t.Any]]:
        return sorted(self._own, key=repr)

    def holder(self, key: t.Any, going: t.Container[str] = ()) -> Peer | None:
        """The Peer that has a key, the first by name; those in ``going`` do not count."""
        return next((peer for peer in self._keys.get(key, ()) if peer.name not in going), None)


def diff_peers(
    mesh: str,
    source: str,
    existing: Existing,
    desired: t.Sequence[Peer],
    leaving: t.AbstractSet[str] = frozenset(),
) -> PeerDiff:
    """What makes a target hold the desired Peers of (mesh, source). Sorted by name.

    WireGuard has one entry for a key, so a Peer that is to be made while another name holds its key is not made but noted
    in ``held``. Peers of our own that are about to go (and those ``leaving`` anyway) hold nothing. Peers of other meshes
    and sources are never deleted or changed.
    """
    own = existing.own(mesh, source)
    diff = PeerDiff([], {}, [], {})
    by_name = {peer.name: peer for peer in desired}
    diff.delete.extend(sorted(name for name in own if name not in by_name))
    going = leaving | set(diff.delete)
    for name in sorted(by_name):
        peer = by_name[name]
        if name in own:
            if not same_spec(own[name].spec, peer.spec):
                diff.update[name] = dict(peer.spec)
            continue
        holder = existing.holder(peer.spec.get("publicKey"), going)
        if holder is None or holder.name == name:
            diff.create.append(peer)
        else:
            diff.held[name] = holder.name
    return diff
