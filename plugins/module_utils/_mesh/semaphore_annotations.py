# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""What a node publishes about itself: two annotations per remote cluster (semaphore 3.4)."""

from __future__ import annotations

import typing as t

from .._values.addresses import parse_address
from .._values.names import parse_cluster_name
from .._values.refused import ValueRefused, quoted

DOMAIN = "wireguard.semaphore.uw.io"
PATCH_TYPE = "application/strategic-merge-patch+json"
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


def annotation_key_valid(cluster: object) -> t.Dict[str, t.Any]:
    """{valid, error} for a cluster name as the prefix of an annotation key."""
    try:
        parse_cluster_name(cluster)
    except ValueRefused as error:
        return {"valid": False, "error": error.word}
    return {"valid": True, "error": None}


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


def node_annotations(
    local: str,
    remotes: t.Iterable[t.Mapping[str, t.Any]],
    node_addresses: t.Optional[t.Iterable[t.Any]],
    address_type: str = "InternalIP",
) -> t.Dict[str, t.Any]:
    """What one node publishes and what its cluster watches.

    remotes: [{name, listen_port (0: default), public_key (text or Pending)}]. Returns {patch: {key: value},
    watch: {remote: {pubKey, endpoint}}}. Raises ``cluster_name_not_dns_label`` and ``no_internal_ip``.
    """
    parse_cluster_name(local)
    known = list(node_addresses or ())
    patch: t.Dict[str, t.Any] = {}
    watch: t.Dict[str, t.Dict[str, str]] = {}
    for remote in remotes:
        name = parse_cluster_name(remote["name"])
        patch[key_of(name, "pubKey")] = remote.get("public_key")
        patch[key_of(name, "endpoint")] = endpoint(known, remote.get("listen_port") or DEFAULT_PORT, address_type)
        watch[name] = keys_for(local)
    return {"patch": patch, "watch": watch}


def patch_body(values: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    """The body of a strategic merge patch that touches these annotations only; None removes one.

    No resourceVersion: Node objects change too often for a read-modify-write.
    """
    return {"metadata": {"annotations": dict(values)}}


def announces(local: str, published: t.Optional[t.Mapping[str, t.Any]]) -> bool:
    """True when a remote node publishes for us. Presence counts, not content."""
    return bool(published) and all(key in published for key in keys_for(local).values())  # type: ignore[operator]
