# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Kilo's nodes claim against what the mesh grants their cluster (decisions 4, 12, 29, 39; threats T1 to T6).

The rules of upstream treat keys as opaque and announce any internal address. This stage runs between them and the
building of Peers, always: a node that claims another's key or ranges is refused, an internal address that is not the
node's to announce is left out, and the rest goes on.
"""

from __future__ import annotations

import ipaddress
import typing as t

from ..._plan.plan import Pending, Refusal
from ..._values.addresses import Address, Network, special_kind
from ..._values.keys import encode_key, is_weak, parse_key, raw_bytes
from ..._values.prefix_sets import PrefixSet, RangeOwners
from ..._values.refused import ValueRefused, quoted
from ..fabric.claims import Claim, check_claims, label_of, read_claim
from .endpoints import endpoint_doubt, parse_endpoint, resolve_endpoint
from .nodes import is_typed, networks_of
from .peers import ALWAYS, DECLARED, NEVER, all_cidrs, endpoint_addresses
from .values import KEY, WIREGUARD_IP, Entry, Node, cidr_contains, cidr_or_none, host_route, parse_cidr


class Source(t.NamedTuple):
    """One cluster with everything that it declares in any mesh, its valid nodes, and its live Peers by node name.

    ``kept``: nodes that are no valid ones for a passing reason and keep their live Peer.
    """

    cluster: str
    entries: list[Entry]
    nodes: list[Node]
    live: dict[str, t.Mapping[str, t.Any]]
    kept: list[str]


class Checked(t.NamedTuple):
    """``refused`` {(cluster, node): Refusal}; ``left_out`` {cluster: {node: routes}}; further refusals; warnings.

    ``declared`` has the cluster of each range of the inventory, ``internal`` {route: node} the announced internal addresses.
    """

    refused: dict[tuple[str, str], Refusal]
    left_out: dict[str, dict[str, set[str]]]
    routes: list[Refusal]
    warnings: list[str]
    overlay: PrefixSet
    declared: RangeOwners[str]
    internal: dict[str, str]

    def routed(self, cluster: str, node: str, address: Address) -> str | None:
        """Why packets to this endpoint of a node would be sent into a tunnel, or None.

        Kilo has one device for all Peers, so an endpoint inside any range of any of them is out of reach. Ranges of the
        node itself, and those that its cluster announces as a whole, are not meant: they make way for the endpoint.
        """
        if address in self.overlay:
            return "it is in a pod, service or WireGuard range of the mesh, so the tunnel would run through itself"
        owner = self.declared.owner(ipaddress.ip_network(address))
        if owner not in (None, cluster):
            return f"it is in a range of cluster {owner}"
        holder = self.internal.get(host_route(address))
        if holder not in (None, label_of(cluster, node)):
            return f"it is an internal address of {holder}, which is announced"
        return None


def check_kilo(
    sources: t.Sequence[Source],
    node_cidrs: t.Mapping[str, t.Sequence[str]] | None = None,
    internal_ip_routes: str = ALWAYS,
    resolved: t.Mapping[str, t.Sequence[str]] | None = None,
) -> Checked:
    """Check the claims of all sources together. ``node_cidrs`` are the inventory's grants for node addresses.

    A node's pod ranges are all that its Peer would announce. ``resolved`` has the addresses of DNS names of endpoints.
    """
    overlay = PrefixSet.of(network for source in sources for network in _overlay_of(source))
    checked = Checked({}, {}, [], [], overlay, _declared_by(sources), {})
    endpoints: dict[str, list[Address]] = {}
    claims: list[Claim] = []
    malformed: dict[str, str] = {}
    for source in sorted(sources, key=lambda source: source.cluster):
        for node in source.nodes:
            name = node.name
            label = label_of(source.cluster, name)
            try:
                key = _key(node.annotation(KEY), label, malformed, checked.warnings)
                endpoints[label] = _endpoint(node, source, label, checked, resolved or {})
                networks = [parse_cidr(text).network for text in node.pod_cidrs if cidr_or_none(text)]
                own = ipaddress.ip_network(parse_cidr(node.annotation(WIREGUARD_IP)).host)
                claims.append(read_claim(source.cluster, name, key, None, [*networks, own]))
            except ValueRefused as error:
                checked.refused[source.cluster, name] = Refusal(label, error.reason, f"{label}: {error.message}")
        claims.extend(_kept_claims(source, checked.refused))
    grants = {source.cluster: {"declared": [str(network) for network in _declared(source)]} for source in sources}
    holders = _holders(sources, claims)
    kept, refusals = check_claims(claims, grants, holders, ranges=("declared",))
    by_label = {claim.label: (claim.cluster, claim.node) for claim in claims}
    for refusal in refusals:
        checked.refused[by_label[refusal.object]] = refusal
    held: dict[str, dict[str, bool]] = {}
    live = {source.cluster: source.live for source in sources}
    for label, found in endpoints.items():
        if label in by_label and by_label[label] not in checked.refused:
            cluster, name = by_label[label]
            former = endpoint_addresses((live[cluster].get(name) or {}).get("endpoint"), resolved or {})
            for address in found:
                held.setdefault(host_route(address), {})[label] = address in former
    _internal_routes(sources, kept, node_cidrs or {}, checked, internal_ip_routes, held, by_label)
    return checked


def _declared_by(sources: t.Sequence[Source]) -> RangeOwners[str]:
    clusters: RangeOwners[str] = RangeOwners()
    for source in sources:
        for network in _declared(source):
            clusters.claim(network, source.cluster)
    return clusters


def _declared(source: Source) -> list[Network]:
    return [network for entry in source.entries for network in networks_of(all_cidrs(entry))]


def _overlay_of(source: Source) -> t.Iterator[Network]:
    """The ranges in which no node has an address. A flat entry has no roles: one that holds a node's address but no
    node's pod range or WireGuard address is a range of hosts."""
    hosts = [address for node in source.nodes for address in node.internal_ips]
    inside: list[Network | Address] = []
    for node in source.nodes:
        inside.extend(cidr.network for cidr in map(cidr_or_none, node.pod_cidrs[:1]) if cidr is not None)
        inside.append(parse_cidr(node.annotation(WIREGUARD_IP)).host)
    for entry in source.entries:
        if is_typed(entry):
            texts = list(entry.get("podCIDRs") or ()) + [entry.get("wireguardCIDR"), entry.get("serviceCIDR")]
            yield from networks_of(texts)
            continue
        for network in networks_of(entry.get("allowedNetworks")):
            of_hosts = any(cidr_contains(network, address) for address in hosts)
            if not of_hosts or any(cidr_contains(network, item) for item in inside):
                yield network


def _key(text: str, label: str, malformed: dict[str, str], warnings: list[str]) -> t.Any:
    """The key in canonical spelling for comparing, or a substitute for text that is no key."""
    try:
        return parse_key(text)
    except ValueRefused as error:
        warnings.append(f"{label}: {error.message}; Kilo cannot use it [key_malformed]")
    raw = raw_bytes(text, strict=False)
    if len(raw) == 32:
        # another spelling of a key is that key
        canonical = encode_key(raw)
        if is_weak(canonical):
            raise ValueRefused("weak_key", f"key {quoted(text)} agrees with everybody on the same secret")
        return canonical
    owner = malformed.setdefault(text, label)
    if owner != label:
        raise ValueRefused("claimed_twice", f"key {quoted(text)} is also claimed by {owner}, which keeps it")
    return Pending("key of " + label)


def _endpoint(
    node: Node, source: Source, label: str, checked: Checked, names: t.Mapping[str, t.Sequence[str]]
) -> list[Address]:
    """The addresses of the node's endpoint, which is in no range of the mesh."""
    try:
        resolved = resolve_endpoint(node, source.entries[0].get("wireguardPort"))
    except ValueRefused:
        return []  # a roaming node
    endpoint = parse_endpoint(resolved.text)
    found = endpoint_addresses(endpoint, names)
    for address in found:
        problem = checked.routed(source.cluster, node.name, address)
        if problem is not None:
            raise ValueRefused("endpoint_in_overlay", f"endpoint {quoted(resolved.text)}: {problem}")
    doubt = endpoint_doubt(endpoint)
    if doubt is not None:
        checked.warnings.append(f"{label}: {doubt[1]} [{doubt[0]}]")
    return found


def _kept_claims(source: Source, refused: dict[tuple[str, str], Refusal]) -> t.Iterator[Claim]:
    """A Peer that stays while its node is away still has its key and its ranges."""
    declared = PrefixSet.of(_declared(source))
    for name in source.kept:
        spec = source.live[name]
        cidrs = [cidr_or_none(text) for text in spec.get("allowedIPs") or ()]
        networks = [cidr.network for cidr in cidrs if cidr is not None and declared.covers(cidr.network)]
        try:
            key: t.Any = parse_key(spec.get("publicKey"))
        except ValueRefused:
            key = Pending("key of " + name)
        try:
            if networks:
                yield read_claim(source.cluster, name, key, None, networks)
        except ValueRefused as error:
            label = label_of(source.cluster, name)
            refused[source.cluster, name] = Refusal(label, error.reason, f"{label}: {error.message}")


def _holders(sources: t.Sequence[Source], claims: t.Sequence[Claim]) -> dict[str, dict[str, t.Sequence[str]]]:
    """The claims that live Peers have as a whole: a node that widens its range is no holder of what it takes."""
    live = {source.cluster: source.live for source in sources}
    found: dict[str, dict[str, t.Sequence[str]]] = {}
    for claim in claims:
        key, spec = claim.peer.public_key, live[claim.cluster].get(claim.node)
        if spec is None or spec.get("publicKey") != key or isinstance(key, Pending):
            continue
        cidrs = [cidr_or_none(text) for text in spec.get("allowedIPs") or ()]
        networks = {str(cidr.network) for cidr in cidrs if cidr is not None}
        if networks.issuperset(claim.peer.allowed_ips):
            found.setdefault(claim.cluster, {})[key] = claim.peer.allowed_ips
    return found


def _internal_routes(
    sources: t.Sequence[Source],
    kept: t.Sequence[Claim],
    node_cidrs: t.Mapping[str, t.Sequence[str]],
    checked: Checked,
    announce: str,
    endpoints: t.Mapping[str, t.Mapping[str, bool]],
    by_label: t.Mapping[str, tuple[str, str]],
) -> None:
    """Leave out internal addresses that a node may not announce; the node itself stays.

    ``endpoints`` {route: {node that is reached there: whether its live Peer has that endpoint already}}.
    """
    routed: RangeOwners[str] = RangeOwners()
    for claim in kept:
        for network in claim.networks:
            routed.claim(network, claim.label)
    grants = {name: PrefixSet.of(networks_of(list(texts))) for name, texts in node_cidrs.items() if texts}
    rows = []
    for source in sources if announce != NEVER else ():
        granted = PrefixSet.of(_declared(source))
        for node in source.nodes:
            name = node.name
            if (source.cluster, name) in checked.refused:
                continue
            live = frozenset((source.live.get(name) or {}).get("allowedIPs") or ())
            for address in node.internal_ips:
                route = host_route(address)
                if announce == DECLARED and address not in granted:
                    continue
                rows.append((route not in live, source.cluster, name, route, address))
    rows.sort(key=lambda row: row[:4])
    taken = checked.internal
    for new, cluster, name, route, address in rows:
        label = label_of(cluster, name)
        network = ipaddress.ip_network(route)
        problem = _route_problem(label, cluster, address, network, checked.declared, routed, grants, taken)
        at = endpoints.get(route, {})
        if problem is None and label in at:
            taken[route] = label  # its Peer leaves it out as long as that is its endpoint
            if len(at) > 1:
                checked.left_out.setdefault(cluster, {}).setdefault(name, set()).add(route)
            continue
        if problem is None and at and not new and not any(at.values()):
            # it is announced already, and nobody was reached there: the endpoint is what is new
            for claimant in at:
                message = f"{claimant}: its endpoint {address} is an internal address of {label}, which is announced"
                checked.refused[by_label[claimant]] = Refusal(claimant, "endpoint_in_overlay", message)
        elif problem is None and at:
            problem = "claimed_twice", f"{', '.join(sorted(at)[:3])} is reached at this address"
        if problem is None:
            taken[route] = label
        else:
            checked.left_out.setdefault(cluster, {}).setdefault(name, set()).add(route)
            message = f"{label}: its internal address {address} is not announced: {problem[1]}"
            checked.routes.append(Refusal(label, problem[0], message))


def _route_problem(
    label: str,
    cluster: str,
    address: Address,
    network: Network,
    clusters: RangeOwners[str],
    routed: RangeOwners[str],
    grants: t.Mapping[str, PrefixSet],
    taken: t.Mapping[str, str],
) -> tuple[str, str] | None:
    kind = special_kind(address)
    if kind is not None:
        return "special_address", f"it is a {kind.replace('_', '-')} address"
    owner = clusters.owner(network)
    if owner is not None and owner != cluster:
        return "outside_grant", f"it is in a range of cluster {owner}"
    if owner is None and cluster in grants and address not in grants[cluster]:
        return "outside_grant", f"it is outside the node_cidrs of cluster {cluster}"
    holder = routed.owner(network)
    if holder is not None and holder != label:
        return "claimed_twice", f"it is in a range of {holder}"
    other = taken.get(str(network))
    if other is not None and other != label:
        return "claimed_twice", f"{other} has it too and keeps it"
    return None
