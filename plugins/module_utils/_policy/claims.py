# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What clusters say of their pods' addresses against what the inventory grants them (decision 29, threat T13).

One stage that every run goes through, between reading pods and building sets. It has no off switch.
"""

from __future__ import annotations

import typing as t

from .._plan.plan import Refusal
from .._values.addresses import parse_network, plain_address, special_kind
from .._values.prefix_sets import PrefixSet
from .network_sets import Members, Origin


def check_members(
    cluster: str, members: Members, grants: t.Mapping[str, t.Iterable[str]]
) -> t.Tuple[Members, t.List[Refusal]]:
    """The members with those networks that the cluster may claim, and a refusal for each other one.

    grants: {pod_cidrs, node_cidrs} of this cluster. A pod's address lies in its pod ranges, a host-network pod's in its
    node ranges; each is one host and never a special address. Words: special_address, outside_grant.
    """
    pods, nodes = (PrefixSet.of_texts(grants.get(name) or ()) for name in ("pod_cidrs", "node_cidrs"))
    kept: Members = {}
    refused: t.List[Refusal] = []
    for member in sorted(members):
        good: t.Dict[str, Origin] = {}
        for net, origin in members[member].items():
            # nearly all, quickly
            number = plain_address(net[:-3]) if net.endswith("/32") else None
            if number is not None and member.cluster == cluster and (nodes if origin.host else pods).has_v4(number):
                good[net] = origin
                continue
            network = parse_network(net)
            address = network.network_address
            label = "{0}/{1}/{2}".format(cluster, member.namespace, origin.pod)
            kind = special_kind(address)
            if member.cluster != cluster:
                refused.append(Refusal(label, "outside_grant", "{0} speaks for cluster {1}".format(cluster, member.cluster)))
            elif network.prefixlen != network.max_prefixlen or kind is not None:
                refused.append(Refusal(label, "special_address", "{0} is no address of one pod ({1})".format(net, kind or "network")))
            elif address not in (nodes if origin.host else pods):
                what = "node_cidrs" if origin.host else "pod_cidrs"
                refused.append(Refusal(label, "outside_grant", "{0} is in none of the {1} of {2}".format(address, what, cluster)))
            else:
                good[net] = origin
        if good:
            kept[member] = good
    return kept, refused
