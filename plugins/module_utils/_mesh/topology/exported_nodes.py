# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""At which addresses other clusters reach the nodes of one, through the tunnels (translation 7). Pure.

A node's own address cannot be an allowed IP: packets of WireGuard to that address would enter the tunnel. Its exported one can.
"""

from __future__ import annotations

import typing as t

from ..._plan.plan import Refusal
from ..._values.addresses import parse_address
from ..._values.exported_ranges import ExportedRanges
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import ValueRefused
from ..fabric.claims import label_of
from ..fabric.node_listing import Listing

#: {(cluster, node): {own address: where others reach it, the present exported address first, where there is one, then former ones}}.
NodeAddresses = dict[tuple[str, str], dict[str, list[str]]]
_TYPE = "InternalIP"


def exported_nodes(
    exported: t.Mapping[str, ExportedRanges], read: t.Mapping[str, Listing], balanced: PrefixSet
) -> tuple[NodeAddresses, list[Refusal]]:
    """The nodes of clusters with exported_node_cidrs, by what their Node objects claim.

    An address outside of the mapping is not reached from other clusters, which is no fault. One that two nodes of a cluster claim is
    neither's (``address_twice``), and one that load balancing hands out (``balanced``) is no node's (``special_address``).
    """
    found: NodeAddresses = {}
    refused: list[Refusal] = []
    for cluster, ranges in sorted(exported.items()):
        if not ranges.of_nodes:
            continue
        holders: dict[str, list[str]] = {}
        for name, node in sorted(read[cluster].nodes.items()):
            for own in _addresses(node):
                if ranges.node_addresses(own):
                    holders.setdefault(own, []).append(name)
        for own, names in holders.items():
            if len(names) > 1:
                refused += [_twice(cluster, name, own, names) for name in names]
            elif parse_address(own) in balanced:
                message = f"{own} is an address that load balancing hands out, no node's; other clusters do not reach {names[0]} there"
                refused.append(Refusal(label_of(cluster, names[0]), "special_address", message))
            else:
                found.setdefault((cluster, names[0]), {})[own] = ranges.node_addresses(own)
    return found, refused


def parted(
    addresses: t.Mapping[str, t.Sequence[str]], ranges: ExportedRanges
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Of one node: {own: its present exported address}, and {own: those of before}, each of the own addresses that have any."""
    present = {own: ranges.node_address(own) for own in addresses}
    former = {own: [one for one in seen if one != present[own]] for own, seen in addresses.items()}
    return (
        {own: seen for own, seen in present.items() if seen is not None},
        {own: seen for own, seen in former.items() if seen},
    )


def _twice(cluster: str, name: str, own: str, names: t.Sequence[str]) -> Refusal:
    message = (
        f"{own} is an address of {' and '.join(names[:3])}; other clusters reach neither there (exported_node_cidrs)"
    )
    return Refusal(label_of(cluster, name), "address_twice", message)


def _addresses(node: t.Mapping[str, t.Any]) -> list[str]:
    """The addresses of a Node at which its cluster reaches it, in canonical form; entries that are no addresses are passed over."""
    found = []
    for entry in node["addresses"]:
        if isinstance(entry, dict) and entry.get("type") == _TYPE:
            try:
                found.append(str(parse_address(entry.get("address"))))
            except ValueRefused:
                continue
    return list(dict.fromkeys(found))
