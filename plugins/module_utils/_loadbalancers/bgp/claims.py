# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims about BGP: what a provider says must lie inside what the inventory grants (decision 29, T16).

A provider that could choose autonomous systems and routers freely could hand our traffic to anyone.
"""

from __future__ import annotations

import typing as t

from ..._plan.plan import Refusal
from ..._values.addresses import Network, parse_address, special_kind
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import ValueRefused, quoted
from .values import NodeBgp


class BgpGrants(t.NamedTuple):
    """What the inventory grants; an empty field grants every usual value. Peers may be link-local (169.254.255.1)."""

    local_asns: t.FrozenSet[int] = frozenset()
    peer_asns: t.FrozenSet[int] = frozenset()
    peers: t.Tuple[Network, ...] = ()
    sources: t.Tuple[Network, ...] = ()


def check_bgp_claims(nodes: t.Iterable[NodeBgp], grants: BgpGrants) -> t.Tuple[t.List[NodeBgp], t.List[Refusal]]:
    """Nodes whose facts are granted, and refusals by name; the rest goes on."""
    kept: t.List[NodeBgp] = []
    refused: t.List[Refusal] = []
    sources: t.Dict[str, str] = {}
    for node in sorted(nodes):
        try:
            _check(node, grants)
            holder = sources.setdefault(node.source_ip, node.name)
            if holder != node.name:
                raise ValueRefused("claimed_twice", "the source address {0} is also that of {1}".format(node.source_ip, holder))
            kept.append(node)
        except ValueRefused as error:
            refused.append(Refusal("node {0}".format(node.name), error.reason, error.message))
    return kept, refused


def _check(node: NodeBgp, grants: BgpGrants) -> None:
    for asn, granted, which in ((node.local_asn, grants.local_asns, "local"), (node.peer_asn, grants.peer_asns, "peer")):
        # 23456 stands for what does not fit, the last of each range is reserved (RFC 7607, 6793, 7300)
        if asn in (0, 23456, 65535, 2**32 - 1) or not 0 < asn < 2**32:
            raise ValueRefused("outside_grant", "the {0} autonomous system {1} is nobody's".format(which, asn))
        if granted and asn not in granted:
            raise ValueRefused("outside_grant", "the {0} autonomous system {1} is not granted by {0}_asns of the grants".format(which, asn))
    if not node.peers or len(node.peers) > 16:
        raise ValueRefused("no_ipv4_neighbor", "{0} routers are named".format(len(node.peers)))
    _check_address(node.source_ip, grants.sources, (), "sources")
    for peer in node.peers:
        _check_address(peer, grants.peers, ("link_local",), "peers")
    if node.source_ip in node.peers or len(set(node.peers)) < len(node.peers):
        raise ValueRefused("claimed_twice", "an address stands twice among the routers and the source")
    if not node.password.isprintable() or not node.password.isascii() or len(node.password) > 80:
        raise ValueRefused("bad_format", "the password is not up to 80 printable characters")


def _check_address(text: str, granted: t.Tuple[Network, ...], may_be: t.Container[str], option: str) -> None:
    address = parse_address(text)
    kind = special_kind(address)
    if kind is not None and kind not in may_be:
        raise ValueRefused("special_address", "{0} is {1}".format(quoted(text), kind))
    if granted and address not in PrefixSet.of(granted):
        raise ValueRefused("outside_grant", "{0} is in no range of {1} of the grants".format(quoted(text), option))


def prefix_limit(granted: t.Optional[int], provider: t.Optional[int]) -> t.Optional[int]:
    """How many prefixes may be announced: the provider can lower what the inventory says, never raise it."""
    limits = [limit for limit in (granted, provider) if limit is not None and limit >= 0]
    return min(limits) if limits else None
