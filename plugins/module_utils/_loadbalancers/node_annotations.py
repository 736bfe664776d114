# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""BGP facts as node annotations, in both spellings, as kube-vip and the seed's users read them (ccm 8, decision 23)."""

from __future__ import annotations

import base64
import re
import typing as t

from .._plan.annotations import Patch, plan_annotations
from .._plan.plan import Plan
from .._values.addresses import parse_address, parse_network
from .._values.refused import ValueRefused
from .bgp.values import NodeBgp
from .reservations import DEFAULT_DOMAIN

LEGACY, INDEXED, BOTH = "legacy", "indexed", "both"
MARK = "{{n}}"
_LEGACY = {"local_asn": "node-asn", "peer_asn": "peer-asns", "peer_ip": "peer-ips", "source_ip": "src-ip"}
_INDEXED = {
    "local_asn": "node-asn",
    "peer_asn": "peer-asn",
    "peer_ip": "peer-ip",
    "source_ip": "src-ip",
    "password": "bgp-pass",
}
_TWINS = {"peer_asn": "peer-asn", "peer_ip": "peer-ip"}


class Scheme(t.NamedTuple):
    """How annotations are named.

    ``overrides`` by datum (``local_asn peer_asn peer_ip source_ip password``): with both schemes in use a name with
    ``{{n}}`` replaces the indexed one, another the legacy one. ``singular``: with the legacy scheme alone, also the
    names that kube-vip reads. ``publish_password`` False leaves the password out, and takes a published one away.
    """

    names: str = BOTH
    overrides: t.Mapping[str, str] = {}
    singular: bool = True
    publish_password: bool = False
    domain: str = DEFAULT_DOMAIN
    private_network: str = DEFAULT_DOMAIN + "/network-4-private"

    def legacy(self) -> dict[str, str]:
        """Name by datum, {} when this spelling is not in use."""
        if self.names == INDEXED:
            return {}
        return {datum: self._name(datum, default, False) for datum, default in _LEGACY.items()}

    def indexed(self) -> dict[str, str]:
        """Pattern by datum, {} when this spelling is not in use."""
        if self.names == LEGACY:
            return {}
        return {datum: self._name(datum, f"bgp-peers-{MARK}-{default}", True) for datum, default in _INDEXED.items()}

    def _name(self, datum: str, default: str, indexed: bool) -> str:
        given = self.overrides.get(datum)
        if given and (self.names != BOTH or (MARK in given) == indexed):
            return given
        return f"{self.domain}/{default}"


def node_annotations(node: NodeBgp, scheme: Scheme, private_network: str = "") -> dict[str, str]:
    peers = sorted(node.peers)
    desired: dict[str, str] = {}
    values = {
        "local_asn": str(node.local_asn),
        "peer_asn": str(node.peer_asn),
        "peer_ip": ",".join(peers),
        "source_ip": node.source_ip,
    }
    for datum, name in scheme.legacy().items():
        desired[name] = values[datum]
    if scheme.names == LEGACY and scheme.singular:
        for datum, name in _TWINS.items():
            if not scheme.overrides.get(datum):
                desired[f"{scheme.domain}/{name}"] = values[datum]
    values["password"] = base64.b64encode(node.password.encode("utf-8")).decode("ascii")
    for index, peer in enumerate(peers):
        for datum, pattern in scheme.indexed().items():
            if datum != "password" or scheme.publish_password:
                desired[pattern.replace(MARK, str(index), 1)] = peer if datum == "peer_ip" else values[datum]
    if private_network and scheme.names != LEGACY:
        desired[scheme.private_network] = private_network
    return desired


def stale_keys(scheme: Scheme) -> list[t.Callable[[str], object]]:
    """What matches our own numbered keys, which go once they are not desired: those of routers that are gone, and withheld passwords."""
    return [
        re.compile(re.escape(before) + ("(?:0|[1-9][0-9]{0,5})" if mark else "") + re.escape(after) + r"\Z").match
        for before, mark, after in (pattern.partition(MARK) for pattern in scheme.indexed().values())
    ]


def is_annotation(name: str, scheme: Scheme) -> bool:
    """Whether an annotation of a Node is one of those that tell its BGP facts."""
    twins = [f"{scheme.domain}/{one}" for one in _TWINS.values()]
    return name in (*scheme.legacy().values(), scheme.private_network, *twins) or any(
        match(name) for match in stale_keys(scheme)
    )


def plan_node_annotations(
    cluster: str,
    nodes: t.Iterable[NodeBgp],
    private: t.Mapping[str, str],
    objects: t.Mapping[str, t.Mapping[str, t.Any]],
    scheme: Scheme,
    manager: str,
    adopt: bool = False,
    absent: bool = False,
) -> tuple[Plan, list[Patch]]:
    """One patch for each node that differs. ``objects`` are the cluster's Nodes by name, ``private`` their private networks.

    A node with missing facts keeps what it has. With ``absent`` everything owned goes from all nodes.
    """
    desired = {
        name: {scheme.private_network: network}
        for name, network in private.items()
        if network and scheme.names != LEGACY
    }
    desired.update({node.name: node_annotations(node, scheme, private.get(node.name, "")) for node in nodes})
    owned = stale_keys(scheme)
    if absent:
        owned.append(lambda name: is_annotation(name, scheme))
        desired = {name: {} for name in objects}
    return plan_annotations(
        cluster, desired, objects, manager, owned, adopt=adopt, max_deletes=-1, confirm_empty=True, whole=True
    )


def password_keys(keys: t.Iterable[str], scheme: Scheme) -> set[str]:
    """Those of the keys that hold values which a diff must not show."""
    before, mark, after = scheme.indexed().get("password", "").partition(MARK)
    return {
        key
        for key in keys
        if before and (key == before if not mark else key.startswith(before) and key.endswith(after))
    }


def private_network(addresses: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """The network of a device's private management address. Raises ValueRefused ``no_private_network``."""
    for item in addresses:
        if item.get("public") is False and item.get("management") is True and item.get("address_family") == 4:
            parent = item.get("parent_block") or {}
            if not isinstance(parent, dict) or parent.get("network") is None:
                break
            return str(
                parse_network(
                    f"{parse_address(parent['network'], 'no_private_network')}/{parent.get('cidr')}",
                    "no_private_network",
                )
            )
    raise ValueRefused("no_private_network", "the device has no private management address with a parent block")
