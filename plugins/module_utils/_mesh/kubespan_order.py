# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""The order of kernel objects in every operation, so that nothing leaks (kubespan 17.1). The mark is the switch: on last, off first."""

from __future__ import annotations

import enum
import typing as t

from .._values.refused import ValueRefused, quoted


class Part(str, enum.Enum):
    """What an operation touches. The private key stays in every one of them; the state file goes after everything."""

    LINK = "link"
    WIREGUARD = "wireguard settings and peers"
    WIREGUARD_IN_PLACE = "wireguard attributes in place"
    PEER = "wireguard peer"
    PEER_WITH_IPS = "wireguard peer with allowed ips"
    GAINING_PEER = "wireguard gaining peer"
    LOSING_PEER = "wireguard losing peer"
    MTU = "mtu"
    LINK_UP = "link up"
    ADDRESS = "ula address"
    ROUTES = "table 180 routes"
    RULES = "ip rules"
    TABLE = "nft table"
    TARGETS = "nft targets"
    CLAMP = "clamp rules"


ORDERS: t.Mapping[str, t.Tuple[Part, ...]] = {
    "enable": (Part.LINK, Part.WIREGUARD, Part.MTU, Part.LINK_UP, Part.ADDRESS, Part.ROUTES, Part.RULES, Part.TABLE),
    "peer_added": (Part.PEER_WITH_IPS, Part.TARGETS),
    "peer_removed": (Part.TARGETS, Part.PEER),
    # the union of targets seldom changes when a prefix moves; where it does, it does so last
    "prefix_moved": (Part.GAINING_PEER, Part.LOSING_PEER, Part.TARGETS),
    "mtu_lowered": (Part.LINK, Part.ROUTES, Part.CLAMP),
    "mtu_raised": (Part.LINK, Part.ROUTES, Part.CLAMP),
    "key_changed": (Part.WIREGUARD_IN_PLACE,),
    "secret_changed": (Part.WIREGUARD_IN_PLACE,),
    "disable": (Part.TABLE, Part.RULES, Part.ROUTES, Part.LINK),
}


def safe_order(operation: str) -> t.List[str]:
    """The parts of an operation, in order, as text."""
    if operation not in ORDERS:
        raise ValueRefused("operation_unknown", "{0} is no operation".format(quoted(operation)))
    return [part.value for part in ORDERS[operation]]
