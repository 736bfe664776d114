# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of the inventory from the Node objects of clusters. A node's name and addresses are claims (threats T1, T5, T46).

Ansible connects to these hosts with the operator's credentials, so an address counts only inside the node ranges that the
inventory grants the cluster, and no node takes a name that the inventory has for something else: Ansible sets the variables of a host
``all`` on all hosts, and a host ``localhost`` takes the tasks of the controller.
"""

from __future__ import annotations

import collections
import re
import typing as t

from ..._plan.plan import Refusal
from ..._values.addresses import Address, parse_address, special_kind
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import ValueRefused, quoted
from ..fabric.claims import label_of
from ..fabric.node_listing import Listing
from ..kilo.values import parse_node

#: Which of a node's addresses Ansible connects to; Hostname: to the node's name; none: to the address that the inventory has elsewhere.
ADDRESS_TYPES = ("InternalIP", "ExternalIP", "Hostname", "none")
ROLE_LABEL = "node-role.kubernetes.io/"

_LABEL_KEY = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z"
)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?\Z")


#: How hosts are called: as their Nodes, or with the cluster's name before it.
NODE_NAMES = ("plain", "prefixed")
#: Ansible reads the variables of a host ``web`` from the file ``web.yml``, and those of a host ``web.yml`` from the same one.
FILE_ENDINGS = (".yml", ".yaml", ".json")
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback")


class Names(t.NamedTuple):
    """Names that the inventory has already.

    reserved: {name: what it is, such as "a group of the inventory"}, which no node takes. hosts: {host: clusters of which it is a node}.
    """

    reserved: t.Mapping[str, str] = {}
    hosts: t.Mapping[str, t.Container[str]] = {}


class NodeHost(t.NamedTuple):
    """One host: ``address`` to connect to or None; ``labels`` that are well-formed; ``roles`` of the kubeadm labels."""

    name: str
    node_name: str
    address: str | None
    labels: dict[str, str]
    roles: list[str]


class Found(t.NamedTuple):
    """{cluster: hosts by name}, what was refused, and (cluster, node, host name) of nodes that share their name with another cluster's."""

    hosts: dict[str, list[NodeHost]]
    refused: list[Refusal]
    renamed: list[tuple[str, str, str]]


def node_hosts(
    listings: t.Mapping[str, Listing],
    grants: t.Mapping[str, t.Sequence[str]],
    address_type: str = "InternalIP",
    names: Names = Names(),
    node_names: str = "plain",
) -> Found:
    """Hosts of the nodes of every cluster. grants: {cluster: node_cidrs, the ranges in which its nodes' addresses lie}.

    A name that nodes of several clusters have belongs to none of them, since whoever came first by some order could take another's: each
    becomes CLUSTER-NODE. So no cluster changes which hosts another has (threats T31, T46).
    """
    if address_type not in ADDRESS_TYPES:
        raise ValueRefused("bad_address_type", f"{quoted(address_type)} is none of {', '.join(ADDRESS_TYPES)}")
    if node_names not in NODE_NAMES:
        raise ValueRefused("bad_node_names", f"{quoted(node_names)} is none of {', '.join(NODE_NAMES)}")
    refused = [row for cluster in sorted(listings) for row in listings[cluster].refused]
    rows: dict[_Key, NodeHost] = {}
    for cluster in sorted(listings):
        ranges = PrefixSet.of_texts(grants[cluster], "bad_node_cidrs")
        for node_name, node in sorted(listings[cluster].nodes.items()):
            name = _prefixed(cluster, node_name) if node_names == "prefixed" else node_name
            try:
                _check_name(name, cluster, names)
                address = _address(node, address_type, ranges, name == node_name)
            except ValueRefused as error:
                refused.append(Refusal(label_of(cluster, node_name), error.reason, error.message))
                continue
            labels = _labels(node.get("labels"))
            roles = sorted(key[len(ROLE_LABEL) :] for key in labels if key.startswith(ROLE_LABEL))
            rows[cluster, node_name] = NodeHost(name, node_name, address, labels, roles)
    called = _called_apart({key: row.name for key, row in rows.items()})
    found: dict[str, list[NodeHost]] = {cluster: [] for cluster in sorted(listings)}
    renamed = []
    for (cluster, node_name), row in rows.items():
        name = called[cluster, node_name]
        try:
            if name != node_name:
                _check_prefix(name, cluster, grants)
            if name != row.name:
                _check_name(name, cluster, names)
                renamed.append((cluster, node_name, name))
        except ValueRefused as error:
            refused.append(Refusal(label_of(cluster, node_name), error.reason, error.message))
            continue
        found[cluster].append(row._replace(name=name))
    return Found(found, refused, renamed)


_Key = tuple[str, str]


def _prefixed(cluster: str, node_name: str) -> str:
    return cluster + "-" + node_name


def _called_apart(called: t.Mapping[_Key, str]) -> dict[_Key, str]:
    """The names, with the cluster's before those that several nodes have. A new name may be a third node's, so this repeats until none is."""
    apart = dict(called)
    while True:
        count = collections.Counter(apart.values())
        shared = [key for key, name in apart.items() if count[name] > 1 and name == key[1]]
        if not shared:
            return apart
        for key in shared:
            apart[key] = _prefixed(*key)


def _check_name(name: str, cluster: str, names: Names) -> None:
    """Raises ValueRefused for a name that would lead Ansible to something that is no node of this cluster."""
    if name in names.reserved:
        raise ValueRefused(
            "name_reserved", f"{name} is {names.reserved[name]}; node_names: prefixed gives hosts names of their own"
        )
    if name.endswith(FILE_ENDINGS):
        raise ValueRefused("name_reserved", f"Ansible would give it the variables of another host, in the file {name}")
    if name in names.hosts and cluster not in names.hosts[name]:
        raise ValueRefused("claimed_twice", f"the inventory has a host {name} that is no node of {cluster}")


def _check_prefix(name: str, cluster: str, clusters: t.Iterable[str]) -> None:
    """Raises ValueRefused where the name reads as that of a cluster with a longer name: ``a-b-c`` is ``c`` of ``a-b``, if that exists."""
    for other in clusters:
        if other.startswith(cluster + "-") and name.startswith(other + "-"):
            raise ValueRefused("claimed_twice", f"{name} is the name of a node of {other}")


def _address(node: t.Mapping[str, t.Any], address_type: str, ranges: PrefixSet, plain: bool) -> str | None:
    if address_type in ("Hostname", "none"):
        if address_type == "Hostname" or plain:  # without ansible_host, Ansible connects to the host's name
            _check_resolvable(str(node["name"]), ranges)
        return str(node["name"]) if address_type == "Hostname" else None
    claimed: list[Address] = [one.address for one in parse_node(node).addresses if one.kind == address_type]
    good = [address for address in claimed if address in ranges and special_kind(address) is None]
    if good:
        return str(good[0])
    if not claimed:
        raise ValueRefused("no_address", f"it has no address of the type {address_type}")
    raise ValueRefused("outside_grant", f"{claimed[0]} is outside the node_cidrs of its cluster")


def _check_resolvable(name: str, ranges: PrefixSet) -> None:
    """Raises ValueRefused for a name that is an address, in any form that resolvers take (``127.1``, ``0x7f.1``), outside the ranges.

    Without ranges an address only must be no special one. What a name of words resolves to is the resolver's answer.
    """
    if name in _LOOPBACK_NAMES or name.endswith(".localhost"):
        raise ValueRefused("special_address", f"{name} is the controller itself")
    if not re.match(r"(?:[0-9]+|0x[0-9a-f]*)\Z", name.rpartition(".")[2]):
        return
    address = parse_address(name, "special_address")
    if special_kind(address) is not None:
        raise ValueRefused("special_address", f"{name} is no host's address")
    if ranges and address not in ranges:
        raise ValueRefused("outside_grant", f"{name} is outside the node_cidrs of its cluster")


def _labels(given: t.Any) -> dict[str, str]:
    """Labels as Kubernetes defines them; whatever else a server sends is no label, and could be a template."""
    if not isinstance(given, dict):
        return {}
    texts = sorted((key, value) for key, value in given.items() if isinstance(key, str) and isinstance(value, str))
    return {key: value for key, value in texts if _LABEL_KEY.match(key) and _LABEL_VALUE.match(value)}
