# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Semaphore's WireGuard device of one remote: name, MTU, port and routes (semaphore 3.2)."""

from __future__ import annotations

import typing as t

from ..._values.addresses import parse_network
from ..._values.names import check_interface_name, parse_cluster_name
from ..._values.numbers import parse_decimal, parse_port
from ..._values.refused import ValueRefused, quoted
from .annotations import DEFAULT_PORT

PREFIX = "wireguard."
DEFAULT_MTU, TXQUEUELEN, KEEPALIVE = 1420, 1000, 25
SMALLEST_MTU, LARGEST_MTU = 576, 9216


def device_of(cluster: str, alias: t.Optional[str] = None) -> str:
    """The device name towards a remote cluster; an alias stands in for a name that is too long for Linux."""
    return PREFIX + (alias or cluster)


def check_device_name(cluster: object, alias: object = None) -> str:
    """The device name, or ValueRefused with the first failing check in the order of semaphore 11.2."""
    name = cluster if alias is None else alias
    if not isinstance(name, str):
        raise ValueRefused("cluster_name_not_dns_label", "{0} is not a cluster name".format(quoted(name)))
    try:
        check_interface_name(PREFIX + name)
    except ValueRefused as error:
        if error.reason != "device_name_too_long":
            raise
        raise ValueRefused(
            error.reason,
            "device name {0} is longer than 15 bytes; give the cluster a device_alias of at most {1} "
            "characters".format(quoted(PREFIX + name), 15 - len(PREFIX)),
        ) from None
    parse_cluster_name(name)
    return PREFIX + name


def parse_mtu(value: object) -> int:
    """A device MTU in bytes; 0 and None mean the default."""
    if value is None or value == 0 and not isinstance(value, bool):
        return DEFAULT_MTU
    mtu = parse_decimal(value, "mtu_out_of_range")
    if mtu == 0:
        return DEFAULT_MTU
    if not SMALLEST_MTU <= mtu <= LARGEST_MTU:
        raise ValueRefused("mtu_out_of_range", "MTU {0} is not between 576 and 9216".format(mtu))
    return mtu


def parse_listen_port(value: object) -> int:
    """A UDP port to listen on; 0 and None mean the default."""
    if value is None or value in (0, "0") and not isinstance(value, bool):
        return DEFAULT_PORT
    return parse_port(value)


def routes_of(device: str, pod_subnets: t.Iterable[object]) -> t.List[t.Dict[str, str]]:
    """One link-scoped route in the main table per remote pod subnet, host bits masked off."""
    return [
        {"dst": str(parse_network(subnet, "pod_subnet_invalid")), "dev": device, "scope": "link", "table": "main"}
        for subnet in pod_subnets
    ]
