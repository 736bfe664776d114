# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node publishes about itself: two annotations per remote cluster (semaphore 3.4)."""

from __future__ import annotations

import typing as t

from ..._values.addresses import parse_address
from ..._values.refused import ValueRefused, quoted

DOMAIN = "wireguard.semaphore.uw.io"
ADDRESS_TYPES = ("InternalIP", "ExternalIP")
#: Where a device listens, and is announced, when nobody says otherwise.
DEFAULT_PORT = 51820
#: Every key of the mesh, whatever cluster it is meant for.
PATTERNS = ("*." + DOMAIN + "/pubKey", "*." + DOMAIN + "/endpoint")


def key_of(cluster: str, what: str) -> str:
    """The annotation meant for a cluster; ``what`` is ``pubKey`` or ``endpoint``."""
    return "{0}.{1}/{2}".format(cluster, DOMAIN, what)


def keys_for(cluster: str) -> t.Dict[str, str]:
    """Both keys under which nodes publish for a cluster: what it watches on its remotes."""
    return {"pubKey": key_of(cluster, "pubKey"), "endpoint": key_of(cluster, "endpoint")}


def cluster_of_key(key: object) -> t.Optional[str]:
    """The cluster that an annotation key is meant for, or None when the key is not Semaphore's."""
    if not isinstance(key, str):
        return None
    for what in ("pubKey", "endpoint"):
        tail = ".{0}/{1}".format(DOMAIN, what)
        if key.endswith(tail):
            return key[: -len(tail)]
    return None


def endpoint(node_addresses: t.Optional[t.Iterable[t.Any]], listen_port: int, address_type: str = "InternalIP") -> str:
    """``address:port`` of a node: its first IPv4 address of the type, else its first IPv6 address in brackets.

    node_addresses: status.addresses of a Node. Entries that are no addresses are passed over, since a kubelet may
    put names there. Raises ``no_internal_ip``.
    """
    found = []
    for entry in node_addresses or ():
        if isinstance(entry, dict) and entry.get("type") == address_type:
            try:
                found.append(parse_address(entry.get("address")))
            except ValueRefused:
                continue
    if not found:
        raise ValueRefused("no_internal_ip", "the node has no address of type {0}".format(quoted(address_type)))
    chosen = next((address for address in found if address.version == 4), found[0])
    return ("{0}:{1}" if chosen.version == 4 else "[{0}]:{1}").format(chosen, listen_port)


def announces(local: str, published: t.Optional[t.Mapping[str, t.Any]]) -> bool:
    """True when a remote node publishes for us. Presence counts, not content."""
    return bool(published) and all(key in published for key in keys_for(local).values())  # type: ignore[operator]
