# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node publishes about itself: two annotations per remote cluster (semaphore 3.4)."""

from __future__ import annotations

import typing as t

from ..._values.addresses import Address, parse_address
from ..._values.generations import NEXT
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import ValueRefused, quoted

DOMAIN = "wireguard.semaphore.uw.io"
#: Of the records of a rotation of keys, which upstream programs do not read.
ROTATION_DOMAIN = "rotation.multicluster.network"
ADDRESS_TYPES = ("InternalIP", "ExternalIP")
#: Where a device listens, and is announced, when no other port is given.
DEFAULT_PORT = 51820
_CHOOSE = "write wireguard_endpoint for the host, the address at which other clusters reach it"
#: Every key of the mesh, whatever cluster it is meant for.
PATTERNS = (
    "*." + DOMAIN + "/pubKey",
    "*." + DOMAIN + "/endpoint",
    "*." + ROTATION_DOMAIN + "/pubKey",
    "*." + ROTATION_DOMAIN + "/state",
    "*." + ROTATION_DOMAIN + "/preshared",
)


def key_of(cluster: str, what: str) -> str:
    """The annotation meant for a cluster; ``what`` is ``pubKey`` or ``endpoint``.

    Of the bypass device towards it (``gcp/next``) ``pubKey``, ``state`` or ``preshared``.
    """
    if cluster.endswith(NEXT):
        return f"{cluster[: -len(NEXT)]}.{ROTATION_DOMAIN}/{what}"
    return f"{cluster}.{DOMAIN}/{what}"


def is_next_public_key(name: str) -> bool:
    """Whether an annotation has the key that is to replace the one of a device."""
    return name.endswith(f".{ROTATION_DOMAIN}/pubKey")


def keys_for(cluster: str) -> dict[str, str]:
    """Both keys under which nodes publish for a cluster: what it watches on its remotes."""
    return {"pubKey": key_of(cluster, "pubKey"), "endpoint": key_of(cluster, "endpoint")}


def cluster_of_key(key: object) -> str | None:
    """The cluster that an annotation key is meant for, or None when the key is not of a Semaphore mesh."""
    if not isinstance(key, str):
        return None
    for pattern in PATTERNS:
        if key.endswith(pattern[1:]):
            return key[: 1 - len(pattern)]
    return None


def endpoint(
    node_addresses: t.Iterable[t.Any] | None,
    listen_port: int,
    address_type: str = "InternalIP",
    granted: PrefixSet | None = None,
    balanced: PrefixSet | None = None,
) -> str:
    """``address:port`` of a node: its first IPv4 address of the type, else its first IPv6 address in brackets.

    node_addresses: status.addresses of a Node. Entries that are no addresses are passed over, since a kubelet may
    put names there. granted: node_cidrs of its cluster, in which the address must lie where there are any (threat T4). balanced: what load
    balancing hands out, which is no node's (threat T48). Raises ``no_internal_ip``, ``outside_grant``, ``special_address``.
    """
    found: list[Address] = []
    for entry in node_addresses or ():
        if isinstance(entry, dict) and entry.get("type") == address_type:
            try:
                found.append(parse_address(entry.get("address")))
            except ValueRefused:
                continue
    if not found:
        raise ValueRefused("no_internal_ip", f"the node has no address of type {quoted(address_type)}")
    own = [address for address in found if balanced is None or address not in balanced]
    if not own:
        message = "{0} is an address that load balancing hands out (floating_cidrs, pools of load_balancers_settings), no node's; {1}"
        raise ValueRefused("special_address", message.format(found[0], _CHOOSE))
    good = [address for address in own if granted is None or not granted or address in granted]
    if not good:
        raise ValueRefused(
            "outside_grant", f"{own[0]} is outside the node_cidrs of its cluster; widen node_cidrs, or {_CHOOSE}"
        )
    return chosen_endpoint(str(next((address for address in good if address.version == 4), good[0])), listen_port)


def chosen_endpoint(address: str, listen_port: int) -> str:
    """``address:port``, of an address of either family or a name."""
    return ("[{0}]:{1}" if ":" in address else "{0}:{1}").format(address, listen_port)


def announces(local: str, published: t.Mapping[str, t.Any] | None) -> bool:
    """True when a remote node publishes for us. Presence counts, not content."""
    return bool(published) and all(key in published for key in keys_for(local).values())  # type: ignore[operator]
