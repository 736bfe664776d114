# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of the inventory from the Node objects of clusters. A node's name and addresses are claims (threats T1, T5).

Ansible connects to these hosts with the operator's credentials, so an address counts only inside the node ranges that the
inventory grants the cluster, and no node takes a name that is somebody else's.
"""

from __future__ import annotations

import re
import typing as t

from ..._kilo.values import parse_node
from ..._plan.plan import Refusal
from ..._values.addresses import Address, special_kind
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import ValueRefused, quoted
from ..fabric.claims import label_of
from ..fabric.node_listing import Listing

#: Which of a node's addresses Ansible connects to; Hostname: to the node's name; none: to what the inventory says elsewhere.
ADDRESS_TYPES = ("InternalIP", "ExternalIP", "Hostname", "none")
ROLE_LABEL = "node-role.kubernetes.io/"

_LABEL_KEY = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?\Z")


class Grant(t.NamedTuple):
    """What a cluster's nodes may say: ``node_cidrs`` of their addresses; ``prefix`` goes before every host's name."""

    node_cidrs: t.Sequence[str]
    prefix: str = ""


class NodeHost(t.NamedTuple):
    """One host: ``address`` to connect to or None; ``labels`` that are well-formed; ``roles`` of the kubeadm labels."""

    name: str
    node_name: str
    address: t.Optional[str]
    labels: t.Dict[str, str]
    roles: t.List[str]


def node_hosts(
    listings: t.Mapping[str, Listing],
    grants: t.Mapping[str, Grant],
    address_type: str = "InternalIP",
    taken: t.Optional[t.Mapping[str, t.Container[str]]] = None,
) -> t.Tuple[t.Dict[str, t.List[NodeHost]], t.List[Refusal]]:
    """{cluster: hosts by name} and what was refused.

    taken: host names that exist already, each with the clusters whose node it may be (an inventory that lists some nodes
    by hand). Of two nodes with one name the one of the first cluster by name stays.
    """
    if address_type not in ADDRESS_TYPES:
        raise ValueRefused("bad_address_type", "{0} is none of {1}".format(quoted(address_type), ", ".join(ADDRESS_TYPES)))
    used: t.Dict[str, str] = {}
    found: t.Dict[str, t.List[NodeHost]] = {}
    refused: t.List[Refusal] = []
    for cluster in sorted(listings):
        listing, grant = listings[cluster], grants[cluster]
        refused.extend(listing.refused)
        ranges = PrefixSet.of_texts(grant.node_cidrs, "bad_node_cidrs")
        rows = found.setdefault(cluster, [])
        for node_name in sorted(listing.nodes):
            node = listing.nodes[node_name]
            name = grant.prefix + node_name
            try:
                _check_name(name, cluster, used, taken or {})
                address = _address(node, address_type, ranges)
            except ValueRefused as error:
                refused.append(Refusal(label_of(cluster, node_name), error.reason, error.message))
                continue
            used[name] = cluster
            labels = _labels(node.get("labels"))
            roles = sorted(key[len(ROLE_LABEL) :] for key in labels if key.startswith(ROLE_LABEL))
            rows.append(NodeHost(name, node_name, address, labels, roles))
    return found, refused


def _check_name(name: str, cluster: str, used: t.Mapping[str, str], taken: t.Mapping[str, t.Container[str]]) -> None:
    if name in used:
        raise ValueRefused("claimed_twice", "{0} is also a node of {1}, which keeps the name".format(name, used[name]))
    if name in taken and cluster not in taken[name]:
        raise ValueRefused("claimed_twice", "the inventory has a host {0} that is no node of {1}".format(name, cluster))


def _address(node: t.Mapping[str, t.Any], address_type: str, ranges: PrefixSet) -> t.Optional[str]:
    if address_type == "none":
        return None
    if address_type == "Hostname":
        return str(node["name"])
    claimed: t.List[Address] = [one.address for one in parse_node(node).addresses if one.kind == address_type]
    good = [address for address in claimed if address in ranges and special_kind(address) is None]
    if good:
        return str(good[0])
    if not claimed:
        raise ValueRefused("no_address", "it has no address of the type {0}".format(address_type))
    raise ValueRefused("outside_grant", "{0} is outside the node_cidrs of its cluster".format(claimed[0]))


def _labels(given: t.Any) -> t.Dict[str, str]:
    """Labels as Kubernetes defines them; whatever else a server sends is no label, and could be a template."""
    if not isinstance(given, dict):
        return {}
    texts = sorted((key, value) for key, value in given.items() if isinstance(key, str) and isinstance(value, str))
    return {key: value for key, value in texts if _LABEL_KEY.match(key) and _LABEL_VALUE.match(value)}
