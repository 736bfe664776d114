# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""BGP facts as node annotations, in both spellings, as kube-vip and the seed's users read them (ccm 8, decision 23)."""

from __future__ import annotations

import base64
import re
import typing as t

from .._values.addresses import parse_address, parse_network
from .._values.refused import ValueRefused
from .bgp import NodeBgp
from .identities import DEFAULT_DOMAIN

LEGACY, INDEXED, BOTH = "legacy", "indexed", "both"
MARK = "{{n}}"
_LEGACY = {"local_asn": "node-asn", "peer_asn": "peer-asns", "peer_ip": "peer-ips", "source_ip": "src-ip"}
_INDEXED = {"local_asn": "node-asn", "peer_asn": "peer-asn", "peer_ip": "peer-ip", "source_ip": "src-ip", "password": "bgp-pass"}
_TWINS = {"peer_asn": "peer-asn", "peer_ip": "peer-ip"}
Patch = t.Dict[str, t.Optional[str]]


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

    def legacy(self) -> t.Dict[str, str]:
        """Name by datum, {} when this spelling is not in use."""
        if self.names == INDEXED:
            return {}
        return {datum: self._name(datum, default, False) for datum, default in _LEGACY.items()}

    def indexed(self) -> t.Dict[str, str]:
        """Pattern by datum, {} when this spelling is not in use."""
        if self.names == LEGACY:
            return {}
        return {datum: self._name(datum, "bgp-peers-{0}-{1}".format(MARK, default), True) for datum, default in _INDEXED.items()}

    def _name(self, datum: str, default: str, indexed: bool) -> str:
        given = self.overrides.get(datum)
        if given and (self.names != BOTH or (MARK in given) == indexed):
            return given
        return "{0}/{1}".format(self.domain, default)


def node_annotations(node: NodeBgp, scheme: Scheme, private_network: str = "") -> t.Dict[str, str]:
    """What a node should carry."""
    peers = sorted(node.peers)
    wanted: t.Dict[str, str] = {}
    values = {
        "local_asn": str(node.local_asn),
        "peer_asn": str(node.peer_asn),
        "peer_ip": ",".join(peers),
        "source_ip": node.source_ip,
    }
    for datum, name in scheme.legacy().items():
        wanted[name] = values[datum]
    if scheme.names == LEGACY and scheme.singular:
        for datum, name in _TWINS.items():
            if not scheme.overrides.get(datum):
                wanted["{0}/{1}".format(scheme.domain, name)] = values[datum]
    values["password"] = base64.b64encode(node.password.encode("utf-8")).decode("ascii")
    for index, peer in enumerate(peers):
        for datum, pattern in scheme.indexed().items():
            if datum != "password" or scheme.publish_password:
                wanted[_numbered(pattern, index)] = peer if datum == "peer_ip" else values[datum]
    if private_network and scheme.names != LEGACY:
        wanted[scheme.private_network] = private_network
    return wanted


def _numbered(pattern: str, index: int) -> str:
    return pattern.replace(MARK, str(index), 1)


def stale_annotations(existing: t.Iterable[str], wanted: t.Container[str], scheme: Scheme) -> t.List[str]:
    """Keys of our own patterns that nobody wants any more: those of routers that are gone, and withheld passwords."""
    patterns = [
        re.compile(re.escape(before) + "(?:0|[1-9][0-9]{0,5})" + re.escape(after) + r"\Z")
        for before, mark, after in (pattern.partition(MARK) for pattern in scheme.indexed().values())
        if mark
    ]
    return sorted(key for key in existing if key not in wanted and any(pattern.match(key) for pattern in patterns))


def annotation_patch(existing: t.Mapping[str, str], wanted: t.Mapping[str, str], scheme: Scheme) -> t.Optional[Patch]:
    """The differing keys only, None for those to remove; None when nothing differs."""
    patch: Patch = {key: value for key, value in wanted.items() if existing.get(key) != value}
    patch.update(dict.fromkeys(stale_annotations(existing, wanted, scheme)))
    return patch or None


def password_keys(keys: t.Iterable[str], scheme: Scheme) -> t.Set[str]:
    """Those of the keys whose values a diff must not show."""
    before, mark, after = scheme.indexed().get("password", "").partition(MARK)
    return {key for key in keys if before and (key == before if not mark else key.startswith(before) and key.endswith(after))}


def private_network(addresses: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """The network of a device's private management address. Raises ValueRefused ``no_private_network``."""
    for item in addresses:
        if item.get("public") is False and item.get("management") is True and item.get("address_family") == 4:
            parent = item.get("parent_block") or {}
            if not isinstance(parent, dict) or parent.get("network") is None:
                break
            return str(parse_network("{0}/{1}".format(parse_address(parent["network"], "no_private_network"), parent.get("cidr")),
                                     "no_private_network"))  # fmt: skip
    raise ValueRefused("no_private_network", "the device has no private management address with a parent block")
