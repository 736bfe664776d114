# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Semaphore's WireGuard device of one remote: name, wanted state, convergence and removal (semaphore 3.2, 3.6).

The firewall mark, addresses and peers of such a device belong to other steps; a device carries no address at all.
"""

from __future__ import annotations

import typing as t

from .._values.addresses import parse_network
from .._values.names import check_interface_name, parse_cluster_name
from .._values.numbers import parse_decimal, parse_port
from .._values.refused import ValueRefused, quoted
from .semaphore_annotations import DEFAULT_PORT

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
        if error.word != "device_name_too_long":
            raise
        raise ValueRefused(
            error.word,
            "device name {0} is longer than 15 bytes; give the cluster a device_alias of at most {1} "
            "characters".format(quoted(PREFIX + name), 15 - len(PREFIX)),
        ) from None
    parse_cluster_name(name)
    return PREFIX + name


def device_name(cluster: str, alias: t.Optional[str] = None) -> t.Dict[str, t.Any]:
    """{device, length (bytes), valid, error (reason word or None)} for one remote cluster (semaphore 11.1)."""
    name = device_of(cluster, alias)
    return dict(_verdict(lambda: check_device_name(cluster, alias)), device=name, length=_bytes(name))


def interface_name(name: str) -> t.Dict[str, t.Any]:
    """{valid, error} for any device name, without the rules for cluster names."""
    return _verdict(lambda: check_interface_name(name))


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _verdict(check: t.Callable[[], object]) -> t.Dict[str, t.Any]:
    try:
        check()
    except ValueRefused as error:
        return {"valid": False, "error": error.word}
    return {"valid": True, "error": None}


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


def device_plan(
    cluster: str,
    pod_subnets: t.Iterable[object],
    mtu: object = None,
    listen_port: object = None,
    alias: t.Optional[str] = None,
) -> t.Dict[str, t.Any]:
    """The wanted device and routes towards one remote, as plain data. Raises ValueRefused for a bad setting."""
    device = check_device_name(cluster, alias)
    return {
        "device": device,
        "type": "wireguard",
        "mtu": parse_mtu(mtu),
        "txqueuelen": TXQUEUELEN,
        "listen_port": parse_listen_port(listen_port),
        "addresses": [],
        "firewall_mark": 0,
        "up": True,
        "routes": routes_of(device, pod_subnets),
    }


def converge_device(wanted: t.Mapping[str, t.Any], existing: t.Optional[t.Mapping[str, t.Any]]) -> t.Dict[str, t.Any]:
    """What to do about a device that may exist already; it is adjusted and never recreated.

    existing: {type, mtu, txqueuelen, listen_port, firewall_mark, up, addresses: [cidr]}, absent keys unknown.
    Returns {action: create | adjust | keep | conflict, set: {property: value}, remove_addresses: [cidr], reason}.
    IPv4 addresses go, IPv6 stays, peers are not this step's business. A device of another type under our name is
    somebody else's and a conflict.
    """
    watched = ("mtu", "txqueuelen", "listen_port", "firewall_mark", "up")
    if existing is None:
        settings = {key: wanted[key] for key in watched if key in wanted}
        return {"action": "create", "set": settings, "remove_addresses": [], "reason": None}
    if existing.get("type", "wireguard") != "wireguard":
        return {"action": "conflict", "set": {}, "remove_addresses": [], "reason": "not_ours"}
    settings = {key: wanted[key] for key in watched if key in wanted and existing.get(key, wanted[key]) != wanted[key]}
    remove = [address for address in existing.get("addresses") or [] if ":" not in str(address)]
    return {
        "action": "adjust" if settings or remove else "keep",
        "set": settings,
        "remove_addresses": remove,
        "reason": None,
    }


#: What goes away, per event (semaphore 3.6). On a reboot the kernel drops devices and routes by itself.
_NOTHING = {"peers": False, "route": False, "device": False, "annotations": False}
_GONE: t.Dict[str, t.Dict[str, bool]] = {
    "absent": {"peers": True, "route": True, "device": True, "annotations": True},
    "stop": _NOTHING,
    "reboot": {"peers": True, "route": True, "device": True, "annotations": False},
    "remote_emptied": dict(_NOTHING, peers=True),
    "remote_unreachable": _NOTHING,
}


def teardown(event: str, remove_keys: bool = False) -> t.Dict[str, bool]:
    """What is removed, in this order: peers, route, device, annotations, key.

    event: ``absent`` (the remote left the configuration, or state absent), ``stop`` (nothing runs any more),
    ``reboot``, ``remote_emptied`` (a complete list without nodes), ``remote_unreachable``. Keys go only on
    explicit request and only with ``absent``: without them the node would come back as a stranger.
    """
    gone = _GONE[event]
    return dict(gone, key=bool(remove_keys and event == "absent"))
