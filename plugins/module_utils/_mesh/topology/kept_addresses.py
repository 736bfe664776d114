# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of nftables that decides at which addresses other clusters see the pods of a node (translation 3). Pure.

Where the inventory maps pod ranges to exported ones, the table translates them by prefix, and everywhere else it keeps addresses as they are,
whatever else masquerades. What a host itself sends to other clusters comes from an address of the node that they accept (translation 7).

The first rule of NAT that decides a connection wins, of whatever table it is. A map of each pod range to itself, one priority before those that
masquerade, leaves the packets as they are, so that no setting of a network plugin has to change. It is there whether or not something
masquerades today: a plugin that begins to do so later needs no run.

What kube-proxy marked comes from an address of this node (pod_ranges 7): a pod of another node that asks a NodePort here would otherwise enter the tunnel
with an address that belongs to its own node's tunnel, or with the node's address, and no peer takes either from here. A map of this
node's ranges alone does not cure it, since kube-proxy's masquerade then takes the node's address.
"""

from __future__ import annotations

import typing as t

from ..._dataplane.constants import HOST_PACKETS, NODE_SOURCE
from ..._plan.mesh_plan import MeshPlan
from ..._values.addresses import host_cidr, network_key, parse_address, parse_network
from ..._values.exported_ranges import ExportedRanges
from ..._values.generations import bypass_device
from ..._values.prefix_sets import PrefixSet

#: What kube-proxy marks for its own masquerade, such as connections to a NodePort: their answer has to come back to this node.
PROXY_MARK = 0x4000
_FAMILIES = {4: "ip", 6: "ip6"}


def kept_table(plan: MeshPlan, host: str) -> dict[str, t.Any] | None:
    """The table of one host, as node_dataplane takes it; None where keep_pod_addresses of its cluster is false and nothing is translated,
    or no other cluster is there."""
    node = plan.nodes[host]
    part = plan.clusters[node.cluster]
    exported = part.exported
    keep = part.keep_pod_addresses or {"ranges": (), "required": False}
    kept = [parse_network(text) for text in keep["ranges"]]
    devices = sorted(
        name
        for settings in part.remotes.values()
        for name in (settings.device, bypass_device(settings.device))  # the same while keys are rotated
    )
    if not (kept or exported) or not devices:
        return None
    same = PrefixSet.of(kept) - exported.translated
    pairs = {**exported.pairs, **{text: text for text in same.cidrs()}}
    names = "{{ {0} }}".format(", ".join(f'"{device}"' for device in devices))
    # the ranges of its pods are not known then, and the node keeps the address that it has
    unread = any(row["cluster"] == node.cluster for row in plan.failures)
    own = [parse_network(text) for text in node.pod_cidrs]
    sources = {version: [str(network) for network in own if network.version == version] for version in (4, 6)}
    versions = {parse_network(text).version for text in pairs}
    # where other clusters reach the node at an exported address, it comes from there too: policies know a node by one address
    nodes = node.exported_addresses
    single = {host_cidr(seen): host_cidr(own_text) for own_text, seen in nodes.items()}
    for own_text, former in node.former_addresses.items():
        single.update((host_cidr(seen), host_cidr(own_text)) for seen in former)
    own_seen: dict[int, str] = {parse_address(seen).version: seen for seen in reversed(list(nodes.values()))}
    marked = {
        version: own_seen.get(version, NODE_SOURCE[version])
        for version in _FAMILIES
        if version in own_seen or sources[version] or (unread and version in versions)
    }
    table: dict[str, t.Any] = {
        "name": f"multicluster-network-{plan.fabric}-nat",
        "family": "inet",
        "chains": [_outgoing(f"oifname {names}", pairs, marked), *_translating(names, exported, single)],
        "before_routes": True,
        "optional": not (keep["required"] or exported),
        "sources": [text for version in _FAMILIES for text in sources[version]],
    }
    if exported:
        table["exported"] = exported.to_json()
        routes = (route["dst"] for settings in part.remotes.values() for route in settings.routes)
        table["towards"] = sorted(set(routes))
    return table


def _outgoing(where: str, pairs: t.Mapping[str, str], marked: t.Mapping[int, str]) -> dict[str, t.Any]:
    """What leaves for other clusters: at the exported address, and by an address of the node where kube-proxy marked it or the host sends it."""
    mark = f"meta mark & {PROXY_MARK:#010x} == {PROXY_MARK:#010x}"
    rules = [
        f"{where} meta nfproto ipv{version} {mark} snat {_FAMILIES[version]} to {source} fully-random"
        for version, source in marked.items()
    ]
    rules.append(f"{where} {mark} return")
    rules += [f"{where} snat {family} prefix to {family} saddr map {found}" for family, found in _maps(pairs)]
    # only what this host sends: it does not become a router into other clusters for whoever reaches it
    rules += [
        f"{where} meta nfproto ipv{version} {HOST_PACKETS} snat {_FAMILIES[version]} to {source}"
        for version, source in marked.items()
    ]
    return _chain("postrouting", "nat", "postrouting", "srcnat - 1", rules)


def _translating(names: str, exported: ExportedRanges, single: t.Mapping[str, str]) -> t.Iterator[dict[str, t.Any]]:
    """What comes from other clusters, and what nothing translates: it is dropped at the device in both directions.

    ``single``: {exported: own} addresses of this node alone, those of before too. Those of others are not passed on, since they would leave in the clear.

    Packets without a connection, or of one that is not translated, pass all rules of NAT.
    """
    if not exported:
        return
    came = f"iifname {names}"
    accepted = {**exported.accepted, **single}
    hidden = exported.hidden | PrefixSet.of_texts(exported.exported_nodes.values())
    rules = [f"{came} dnat {family} prefix to {family} daddr map {found}" for family, found in _maps(accepted)]
    yield _chain("prerouting", "nat", "prerouting", "dstnat - 1", rules)
    rows = [f"{came} {family} daddr {found} drop" for family, found in _sets(hidden)]
    if rows:
        yield _chain("hidden_in", "filter", "prerouting", "mangle", rows)
    rows = [f"oifname {names} {family} saddr {found} drop" for family, found in _sets(hidden)]
    if rows:
        yield _chain("hidden_out", "filter", "postrouting", "srcnat + 50", rows)
    rows = [
        f"{came} {family} daddr {found} drop"
        for family, found in _sets(PrefixSet.of_texts([*exported.accepted, *exported.exported_nodes]))
    ]
    if rows:
        yield _chain("not_translated", "filter", "forward", "filter - 1", rows)


def _chain(name: str, kind: str, hook: str, priority: str, rules: list[str]) -> dict[str, t.Any]:
    return {"name": name, "type": kind, "hook": hook, "priority": priority, "rules": rules}


def _maps(pairs: t.Mapping[str, str]) -> t.Iterator[tuple[str, str]]:
    """(family, map) of each family that has a pair."""
    rows = [(parse_network(key), value) for key, value in pairs.items()]
    for version, family in _FAMILIES.items():
        found = ", ".join(
            f"{key} : {value}"
            for key, value in sorted(rows, key=lambda row: network_key(row[0]))
            if key.version == version
        )
        if found:
            yield family, f"{{ {found} }}"


def _sets(ranges: PrefixSet) -> t.Iterator[tuple[str, str]]:
    for version, family in _FAMILIES.items():
        if ranges.spans(version):
            yield family, "{{ {0} }}".format(", ".join(ranges.cidrs(version)))
