# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the objects of each source claim as pod ranges of nodes, unchecked (pod_ranges 1, 6). Pure."""

from __future__ import annotations

import typing as t

from ..._values.addresses import Network, parse_address, parse_network
from ..._values.prefix_sets import BITS, VersionSpan, address_text, span
from ..._values.refused import ValueRefused, quoted
from ..._values.text import mapping, parse_object

#: The sources of pod ranges, as the variable ``pod_ranges`` names them.
AUTO, NODE, CALICO, CILIUM, OVN, PODS = "auto", "node", "calico", "cilium", "ovn", "pods"
#: Not a value of the variable: the source where hosts of a cluster have node_pod_cidrs.
INVENTORY = "inventory"
OVN_NOTE = "k8s.ovn.org/node-subnets"
#: Calico's own addresses on nodes, by the type that their allocation carries (pod_ranges 6.1).
_TUNNELS = frozenset(("vxlanTunnelAddress", "ipipTunnelAddress", "wireguardTunnelAddress"))
Object = t.Mapping[str, t.Any]
#: Nodes by name, as read_listing gives them.
Nodes = t.Mapping[str, t.Mapping[str, t.Any]]


class Objects(t.NamedTuple):
    """What a cluster's API has of each source; None: it does not serve the kind, or it was not asked. ``forbidden``: {source: what may not be read}.

    ``pools``: Calico's IPPools, where no node has a block; ``declared``: {node: ranges} of the inventory.
    """

    affinities: t.Sequence[Object] | None = None
    blocks: t.Sequence[Object] | None = None
    cilium_nodes: t.Sequence[Object] | None = None
    pods: t.Sequence[Object] | None = None
    pools: t.Sequence[Object] = ()
    declared: t.Mapping[str, t.Sequence[str]] = {}
    forbidden: t.Mapping[str, str] = {}


class RangeClaim(t.NamedTuple):
    """A range of a node, and the object that has it. ``single``: an address borrowed from another node's block."""

    node: str
    network: Network
    what: str
    single: bool = False


class RangeClaims(t.NamedTuple):
    """What a source has: claims, and (node, reason, message) of each text that is no range."""

    claims: list[RangeClaim]
    refused: list[tuple[str, str, str]]


def usable_pool(pool: Object) -> tuple[str, Network] | None:
    """(name, range) of an IPPool of Calico from which pods may get addresses; None for others."""
    spec = mapping(pool, "spec")
    uses = spec.get("allowedUses")
    if spec.get("disabled") is True or (isinstance(uses, list) and uses and "Workload" not in uses):
        return None
    try:
        return name_of(pool), parse_network(spec.get("cidr"))
    except ValueRefused:
        return None


def _of_calico(nodes: Nodes, objects: Objects) -> RangeClaims:
    """Blocks that are confirmed for a node, and addresses that a node has in the block of another (pod_ranges 1, 6.1 to 6.5)."""
    found = RangeClaims([], [])
    confirmed: dict[VersionSpan, dict[str, RangeClaim]] = {}
    for affinity in objects.affinities or ():
        spec = mapping(affinity, "spec")
        node = _known(nodes, spec.get("node"))
        if (
            spec.get("state") != "confirmed"
            or _is_true(spec.get("deleted"))
            or spec.get("type") not in (None, "", "host")
            or node is None
        ):
            continue
        what = f"BlockAffinity {name_of(affinity)}"
        network = _aligned(found, node, spec.get("cidr"), what)
        if network is not None:
            confirmed.setdefault(span(network), {})[node] = RangeClaim(node, network, what)
    blocks: dict[VersionSpan, tuple[Network, Object]] = {}
    for block in objects.blocks or ():
        spec = mapping(block, "spec")
        try:
            network = parse_network(spec.get("cidr"))
        except ValueRefused:
            continue  # a block that is none gives no pod an address
        if not _is_true(spec.get("deleted")):
            blocks[span(network)] = (network, block)
    for where, claims in confirmed.items():
        owner = _owner(
            set(claims), mapping(blocks[where][1], "spec").get("affinity") if where in blocks else None, nodes
        )
        if owner is None and where not in blocks:
            found.claims.extend(claims.values())  # two affinities and no block: both are refused
        elif owner is not None:
            some = next(iter(claims.values()))
            found.claims.append(claims.get(owner) or some._replace(node=owner))
    owners = {span(claim.network): claim.node for claim in found.claims}
    for where, (network, block) in blocks.items():
        for number, node, what in _allocations(block, network):
            if node in nodes and node != owners.get(where):
                address = _host(network.version, int(network.network_address) + number)
                found.claims.append(RangeClaim(node, address, f"{what} in IPAMBlock {name_of(block)}", True))
    return found


def _owner(claimants: set[str], affinity: t.Any, nodes: Nodes) -> str | None:
    """The owner of a block. claimants: nodes with a confirmed affinity; affinity: of the block itself, which decides where there is one.

    The block is listed after the affinities, so it may know already of a move that they do not.
    """
    if affinity in (None, ""):
        return next(iter(claimants)) if len(claimants) == 1 else None
    name = affinity[len("host:") :] if isinstance(affinity, str) and affinity.startswith("host:") else None
    return name if name in nodes else None


def _allocations(block: Object, network: Network) -> t.Iterator[tuple[int, str, str]]:
    """(place in the block, node, handle) of addresses that a node gave to a pod; not of its own tunnels."""
    spec = mapping(block, "spec")
    given, attributes = spec.get("allocations"), spec.get("attributes")
    if not isinstance(given, list) or not isinstance(attributes, list):
        return
    size = 1 << (network.max_prefixlen - network.prefixlen)
    for number, index in enumerate(given[:size]):
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(attributes):
            continue
        more = mapping(attributes[index], "secondary")
        node = more.get("node")
        handle = attributes[index].get("handle_id") if isinstance(attributes[index], dict) else None
        if not isinstance(node, str) or str(more.get("type")) in _TUNNELS or "-tunnel-addr-" in str(handle):
            continue
        yield number, node, f"{more.get('namespace')}/{more.get('pod')}"


def _of_cilium(nodes: Nodes, objects: Objects) -> RangeClaims:
    found = RangeClaims([], [])
    for item in objects.cilium_nodes or ():
        node = _known(nodes, mapping(item, "metadata").get("name"))
        if node is None:
            continue
        ipam = mapping(item, "spec", "ipam")
        given = [(text, "ipam.podCIDRs") for text in _list(ipam.get("podCIDRs"))]
        for pool in _list(mapping(ipam, "pools").get("allocated")):
            given += [
                (text, f"the pool {quoted(mapping(pool).get('pool'))}") for text in _list(mapping(pool).get("cidrs"))
            ]
        for text, where in given:
            network = _aligned(found, node, text, f"{where} of its CiliumNode")
            if network is not None:
                found.claims.append(RangeClaim(node, network, f"{where} of its CiliumNode"))
    return found


def _of_ovn(nodes: Nodes, dummy: Objects) -> RangeClaims:
    found = RangeClaims([], [])
    for name, node in nodes.items():
        text = mapping(node, "annotations").get(OVN_NOTE)
        if text is None:
            continue
        try:
            given = parse_object(text).get("default")
        except ValueRefused:
            found.refused.append(
                (name, "bad_pod_cidr", f"the annotation {OVN_NOTE} is {quoted(text)}, which is no JSON object")
            )
            continue
        for one in given if isinstance(given, list) else [given]:
            network = _aligned(found, name, one, f"the annotation {OVN_NOTE}")
            if network is not None:
                found.claims.append(RangeClaim(name, network, f"the annotation {OVN_NOTE}"))
    return found


def _of_pods(nodes: Nodes, objects: Objects) -> RangeClaims:
    """The address of each pod that has one for itself."""
    found = RangeClaims([], [])
    for pod in objects.pods or ():
        spec, status, metadata = mapping(pod, "spec"), mapping(pod, "status"), mapping(pod, "metadata")
        node = _known(nodes, spec.get("nodeName"))
        if node is None or spec.get("hostNetwork") is True or status.get("phase") in ("Succeeded", "Failed"):
            continue
        rows = status.get("podIPs")
        texts = [mapping(row).get("ip") for row in rows] if isinstance(rows, list) and rows else [status.get("podIP")]
        what = f"pod {quoted('{}/{}'.format(metadata.get('namespace'), metadata.get('name')))}"
        for text in texts:
            if text in (None, ""):
                continue  # it waits for one
            try:
                address = parse_address(text)
            except ValueRefused as error:
                found.refused.append((node, "bad_pod_cidr", f"{what}: {error.message}"))
                continue
            found.claims.append(RangeClaim(node, _host(address.version, int(address)), what))
    return found


def _of_inventory(nodes: Nodes, objects: Objects) -> RangeClaims:
    found = RangeClaims([], [])
    for name, texts in objects.declared.items():
        for text in texts if name in nodes else ():
            network = _aligned(found, name, text, "node_pod_cidrs")
            if network is not None:
                found.claims.append(RangeClaim(name, network, "node_pod_cidrs"))
    return found


READERS: dict[str, t.Callable[[Nodes, Objects], RangeClaims]] = {
    CALICO: _of_calico,
    CILIUM: _of_cilium,
    OVN: _of_ovn,
    PODS: _of_pods,
    INVENTORY: _of_inventory,
}


def _aligned(found: RangeClaims, node: str, text: t.Any, what: str) -> Network | None:
    """The network of a text; None, and a refusal, where it is none or has bits of a host."""
    try:
        network = parse_network(text, "bad_pod_cidr")
        if (
            str(text).partition("/")[0] != str(network.network_address)
            and parse_address(str(text).partition("/")[0]) != network.network_address
        ):
            raise ValueRefused("bad_pod_cidr", f"{quoted(text)} has bits set behind its prefix")
    except ValueRefused as error:
        found.refused.append((node, "bad_pod_cidr", f"{what}: {error.message}"))
        return None
    return network


def _known(nodes: Nodes, name: t.Any) -> str | None:
    """The name of a node that the cluster has; objects outlive their node (pod_ranges 6.5)."""
    return name if isinstance(name, str) and name in nodes else None


def _is_true(value: t.Any) -> bool:
    """``deleted`` is a text in one API group and a boolean in the other (pod_ranges 6.2)."""
    return value is True or value == "true"


def _list(value: t.Any) -> t.Sequence[t.Any]:
    return value if isinstance(value, list) else ()


def name_of(obj: Object) -> str:
    return quoted(mapping(obj, "metadata").get("name"))


def _host(version: int, number: int) -> Network:
    return parse_network(f"{address_text(version, number)}/{BITS[version]}")
