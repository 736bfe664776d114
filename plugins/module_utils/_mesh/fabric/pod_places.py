# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the pods of a cluster really are, compared with the inventory's ``pod_cidrs`` and with the ranges of the Nodes (pod_ranges 1 and 6). Pure.

The mesh carries the ranges that the source ``pod_ranges`` of a cluster gives its nodes, inside ``pod_cidrs``. Where pods have other addresses, by
the CNI's objects, the Nodes' annotations and the pods themselves, this is found here, with the variable to set.
"""

from __future__ import annotations

import typing as t

from ..._plan.pod_range_sources import OBJECTS
from ..._values.addresses import Network, parse_network, readable_address
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import ValueRefused, quoted
from ..._values.text import is_alnum, parse_object
from .pod_range_readers import CALICO, CILIUM, NODE, OVN, OVN_NOTE, PODS, usable_pool
from .pod_ranges import CAPABILITY

Object = t.Mapping[str, t.Any]
Row = dict[str, str]

#: Reasons: outside of the cluster's pod_cidrs; inside, and not in the Node's own ranges; a pool of which nothing is used yet; not read.
OUTSIDE, ASTRAY, POOL, UNREAD = (
    "pods_outside_pod_cidrs",
    "pods_outside_node_range",
    "pool_outside_pod_cidrs",
    "pod_ranges_unread",
)
#: A firewall of Calico on hosts, which drops what no policy allows.
CLOSED = "host_endpoint"
#: A masquerade that no table of nftables precedes.
BPF = "bpf_masquerade"
_NATIVE = ("ipv4-native-routing-cidr", "ipv6-native-routing-cidr")
#: The profile that lets everything pass which no policy denies.
_ALLOWS = "projectcalico-default-allow"
ERROR, WARNING = "error", "warning"
#: So many examples are named.
_SHOWN = 3
#: Addresses and ranges that a CNI writes at a Node, of its pods' address management.
_NOTES = {
    "projectcalico.org/IPv4VXLANTunnelAddr": "Calico's tunnel",
    "projectcalico.org/IPv6VXLANTunnelAddr": "Calico's tunnel",
    "projectcalico.org/IPv4IPIPTunnelAddr": "Calico's tunnel",
    "projectcalico.org/IPv4WireguardInterfaceAddr": "Calico's tunnel",
    "network.cilium.io/ipv4-pod-cidr": "Cilium",
    "network.cilium.io/ipv6-pod-cidr": "Cilium",
    "io.cilium.network.ipv4-pod-cidr": "Cilium",
    "io.cilium.network.ipv6-pod-cidr": "Cilium",
}
_BLOCKS, _CILIUM, _OVN_RANGES = "blocks of Calico's IPAM", "ranges of CiliumNodes", "ranges of OVN-Kubernetes"
_SOURCE_OF = {_BLOCKS: CALICO, _CILIUM: CILIUM, _OVN_RANGES: OVN}


class Found(t.NamedTuple):
    """What a cluster's API showed.

    ``whole``: whether these are all pods; ``agents``: settings of Cilium and Felix; ``unread``: what could not be read, and why."""

    pods: t.Sequence[Object] = ()
    whole: bool = True
    pools: t.Sequence[Object] = ()
    affinities: t.Sequence[Object] = ()
    cilium_nodes: t.Sequence[Object] = ()
    host_endpoints: t.Sequence[Object] = ()
    agents: t.Sequence[Object] = ()
    unread: t.Sequence[str] = ()


class _Place(t.NamedTuple):
    """One address or range in use, on a node. ``what``: who uses it, as an error names it; ``example``: of many, the one that is named."""

    what: str
    node: str
    network: Network
    example: str
    pod: bool = False


def find(
    cluster: str,
    found: Found,
    nodes: t.Iterable[Object],
    pod_cidrs: t.Sequence[str],
    source: str = NODE,
    given: t.Mapping[str, t.Iterable[Network]] | None = None,
    others: t.Sequence[str] = (),
) -> list[Row]:
    """``[{level, reason, message}]``, errors first. ``nodes``: the cluster's Node objects; ``pod_cidrs``: as the inventory has them.

    ``source``: from where the mesh takes ranges of nodes; ``given``: what that is, where it is not ``node``; ``others``: pod_cidrs of the other clusters.
    """
    own = {str(node["metadata"].get("name")): node for node in nodes}
    granted = PrefixSet.of_texts(pod_cidrs)
    if source == NODE:
        ranges = {name: PrefixSet.of(_networks(_pod_cidrs(node))) for name, node in own.items()}
    else:
        ranges = {name: PrefixSet.of((given or {}).get(name, ())) for name in own}
    pools = [pool for pool in map(usable_pool, found.pools) if pool is not None]
    noted = _noted(own) if source == NODE else ()  # a tunnel's address may be of any block
    places = [*_blocks(found.affinities), *_cilium(found.cilium_nodes), *noted, *_pods(found)]
    places = [place for place in places if place.node in own]  # affinities outlive their node (pod_ranges 6.5)
    # a second family that the inventory leaves out is no fault, unless the pods have no other
    places = [place for place in places if granted.spans(place.network.version)] or places
    outside = [place for place in places if not granted.covers(place.network)]
    astray = [
        place
        for place in places
        if granted.covers(place.network)
        and not ranges[place.node].covers(place.network)
        and (place.pod or source == NODE)  # a block may have moved since it was read; a pod proves it
    ]
    said = ", ".join(pod_cidrs) or "(none)"
    rows: list[Row] = []
    if outside:
        text = "{0}: outside of pod_cidrs {1}, so the mesh carries nothing for them; {2}"
        more = _fix(cluster, pools, outside) + _set_source(cluster, source, outside, ranges)
        rows.append(_row(ERROR, OUTSIDE, text.format(_shown(outside), said, more)))
    if astray:
        text = "{0}: not in the ranges that {1} give their Nodes ({2} has {3}), which is all that the mesh carries{4}"
        first = astray[0].node
        has = ", ".join(ranges[first].cidrs()[:_SHOWN]) or "none"
        more = _set_source(cluster, source, astray, ranges)
        rows.append(_row(ERROR, ASTRAY, text.format(_shown(astray), OBJECTS[source], _plain(first), has, more)))
    used = PrefixSet.of(place.network for place in outside)
    for pool, network in pools:
        if not granted.covers(network) and not used & PrefixSet.of([network]):
            text = "the IPPool {0} gives addresses of {1}, outside of pod_cidrs, and no pod has one yet; write pod_cidrs: [{2}] for {3}, or disable the pool"
            rows.append(_row(WARNING, POOL, text.format(pool, network, ", ".join([*pod_cidrs, str(network)]), cluster)))
    closed = [
        end
        for end in found.host_endpoints
        if str(_spec(end).get("node")) in own and _ALLOWS not in _list(_spec(end).get("profiles"))
    ]
    if closed:
        shown = ", ".join(
            f"{quoted(end['metadata'].get('name'))} on {_plain(str(_spec(end)['node']))}" for end in closed[:_SHOWN]
        )
        text = (
            "HostEndpoints of Calico ({0}{1}) drop what no policy allows, the mesh's UDP ports with it: allow them by a GlobalNetworkPolicy, or by "
            "failsafeInboundHostPorts and failsafeOutboundHostPorts of the FelixConfiguration"
        )
        rows.append(_row(WARNING, CLOSED, text.format(shown, ", ..." if len(closed) > _SHOWN else "")))
    rows += [_row(WARNING, BPF, text) for text in _by_bpf(found.agents, PrefixSet.of_texts(others))]
    if found.unread:
        text = "where the pods are was not read completely: {0}; the role cluster_access gives the rights with cluster_access_capability: pod_ranges"
        rows.append(_row(WARNING, UNREAD, text.format("; ".join(found.unread))))
    return rows


def _by_bpf(agents: t.Iterable[Object], others: PrefixSet) -> t.Iterator[str]:
    """Who masquerades by eBPF, where no table of nftables decides before it."""
    for agent in agents:
        data, spec = _dict(agent.get("data")), _spec(agent)
        native = PrefixSet.of(_networks(str(data.get(name) or "") for name in _NATIVE if data.get(name)))
        left = others - native
        if data.get("enable-bpf-masquerade") == "true" and left and _masquerades(data):
            text = (
                "Cilium masquerades by eBPF (ConfigMap cilium-config), before the mesh's table of nftables: set bpf.masquerade: false, so that it does so by "
                "iptables, or ipv4NativeRoutingCIDR and ipv6NativeRoutingCIDR to ranges that hold the pods of all clusters ({0} left out)"
            )
            yield text.format(", ".join(left.cidrs()[:_SHOWN]))
        if spec.get("bpfEnabled") is True:
            text = (
                "Calico runs its eBPF dataplane (bpfEnabled of FelixConfiguration {0}), which masquerades before the mesh's table of nftables: "
                "calico_ippools: auto or always writes the ranges of the other clusters as disabled IPPools"
            )
            yield text.format(quoted(_dict(agent.get("metadata")).get("name")))


def _masquerades(data: t.Mapping[str, t.Any]) -> bool:
    """Both families are on unless they are switched off; enable-masquerade is what older releases have."""
    return any(data.get(name, "true") == "true" for name in ("enable-ipv4-masquerade", "enable-ipv6-masquerade"))


def _row(level: str, reason: str, message: str) -> Row:
    return {"level": level, "reason": reason, "message": message}


def _fix(cluster: str, pools: t.Sequence[tuple[str, Network]], outside: t.Sequence[_Place]) -> str:
    """What to write as the cluster's ranges."""
    used = PrefixSet.of(place.network for place in outside)
    really = PrefixSet.of(network for dummy, network in pools if used & PrefixSet.of([network]))
    more = (really | used).cidrs()
    shown = ", ".join(more[:_SHOWN]) + (", ..." if len(more) > _SHOWN else "")
    return f"the cluster really uses {shown}: write that as pod_cidrs of {cluster}"


def _set_source(cluster: str, source: str, places: t.Sequence[_Place], ranges: t.Mapping[str, PrefixSet]) -> str:
    """From where the mesh should take the ranges of nodes, if not from where it does."""
    astray = [place for place in places if not ranges[place.node].covers(place.network)]
    if not astray:
        return ""
    better = next((option for place in astray for option in (_SOURCE_OF.get(place.what),) if option), PODS)
    if better == source:
        return "; run site again, since they may have come since its last look" if source == PODS else ""
    text = "; set pod_ranges: {0} for {1}, with the rights that cluster_access_capability: {2} gives, so that the mesh follows them"
    return text.format(better, cluster, CAPABILITY.get(better, "mesh"))


def _shown(places: t.Sequence[_Place]) -> str:
    """Who is there, a part for each kind, with its first examples."""
    kinds: dict[str, list[_Place]] = {}
    for place in places:
        kinds.setdefault(place.what, []).append(place)
    texts = []
    for what, group in kinds.items():
        examples = ", ".join(f"{place.example} on {_plain(place.node)}" for place in group[:_SHOWN])
        texts.append(f"{len(group):,} {what} ({examples}{', ...' if len(group) > _SHOWN else ''})")
    return " and ".join(texts)


def _plain(name: str) -> str:
    """The name of a Node, with quotes and escapes where a server wrote something else."""
    return name if is_alnum(name.replace("-", "").replace(".", "")) and len(name) <= 253 else quoted(name)


def _pod_cidrs(node: Object) -> list[t.Any]:
    spec = node.get("spec") or {}
    given = spec.get("podCIDRs")
    return given if isinstance(given, list) and given else [spec.get("podCIDR")]


def _networks(texts: t.Iterable[t.Any]) -> list[Network]:
    """Those that can be read: what a cluster writes is no reason to fail here."""
    networks = []
    for text in texts:
        try:
            networks.append(parse_network(text))
        except ValueRefused:
            continue
    return networks


def _spec(obj: Object) -> t.Mapping[str, t.Any]:
    return _dict(obj.get("spec"))


def _dict(value: t.Any) -> t.Mapping[str, t.Any]:
    return value if isinstance(value, dict) else {}


def _list(value: t.Any) -> t.Sequence[t.Any]:
    return value if isinstance(value, list) else ()


def _is_true(value: t.Any) -> bool:
    """``deleted`` is a text in one API group and a boolean in the other (pod_ranges 6.2)."""
    return value is True or value == "true"


def _blocks(affinities: t.Iterable[Object]) -> t.Iterator[_Place]:
    for affinity in affinities:
        spec = _spec(affinity)
        if (
            spec.get("state") == "confirmed"
            and not _is_true(spec.get("deleted"))
            and spec.get("type") in (None, "", "host")
        ):
            for network in _networks([spec.get("cidr")]):
                yield _Place(_BLOCKS, str(spec.get("node")), network, str(network))


def _cilium(nodes: t.Iterable[Object]) -> t.Iterator[_Place]:
    for node in nodes:
        ipam = _dict(_spec(node).get("ipam"))
        given = [*_list(ipam.get("podCIDRs"))]
        for pool in _list(_dict(ipam.get("pools")).get("allocated")):
            given += _list(_dict(pool).get("cidrs"))
        for network in _networks(given):
            yield _Place(_CILIUM, str(node["metadata"].get("name")), network, str(network))


def _noted(nodes: t.Mapping[str, Object]) -> t.Iterator[_Place]:
    for name, node in nodes.items():
        notes = node["metadata"].get("annotations") or {}
        for key, owner in _NOTES.items():
            for network in _networks_or_hosts([notes.get(key)]):
                yield _Place(f"addresses that {owner} has by annotation of the Node", name, network, str(network))
        try:
            default = parse_object(str(notes[OVN_NOTE])).get("default") if OVN_NOTE in notes else None
        except ValueRefused:
            continue
        for network in _networks(default if isinstance(default, list) else [default]):
            yield _Place(_OVN_RANGES, name, network, str(network))


def _networks_or_hosts(texts: t.Iterable[t.Any]) -> t.Iterator[Network]:
    for text in texts:
        address = readable_address(text) if isinstance(text, str) else None
        yield from _networks([text if address is None else f"{address}/{address.max_prefixlen}"])


def _pods(found: Found) -> t.Iterator[_Place]:
    what = "pods" if found.whole else f"of the first {len(found.pods):,} pods"
    for pod in found.pods:
        spec, status = _spec(pod), pod.get("status") or {}
        if spec.get("hostNetwork") is True or status.get("phase") in ("Succeeded", "Failed"):
            continue
        given = status.get("podIPs")
        texts = (
            [entry.get("ip") for entry in given if isinstance(entry, dict)]
            if isinstance(given, list) and given
            else [status.get("podIP")]
        )
        for network in _networks_or_hosts(texts):
            meta = pod["metadata"]
            name = quoted(f"{meta.get('namespace')}/{meta.get('name')}")
            yield _Place(what, str(spec.get("nodeName")), network, f"{name} {network.network_address}", True)
