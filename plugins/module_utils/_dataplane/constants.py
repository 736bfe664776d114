# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers and marks by which this collection knows its own things on a host (decision 32)."""

from __future__ import annotations

#: rtnetlink's protocol number of our routes and rules. Not in /etc/iproute2/rt_protos of any distribution; 4 to 99
#: are taken by the kernel's reserved range and routing daemons, 186 to 192 by FRR's.
ROUTE_PROTOCOL = 109

#: What the kernel gives a route of its own, to the range of an address (RTPROT_KERNEL).
KERNEL_PROTOCOL = 2
#: What the kernel's tools, and semaphore-wireguard's library, give a route for which nobody chooses another (RTPROT_BOOT).
BOOT_PROTOCOL = 3

#: Every owned link has an alias that is this mark, or begins with it and a slash or a blank.
OWNER = "multicluster.network"

MAIN_TABLE = 254
LOCAL_TABLE = 255
#: Routing tables by the names that people know.
TABLES = {"default": 253, "main": MAIN_TABLE, "local": LOCAL_TABLE}
TABLE_NAMES = {number: name for name, number in TABLES.items()}

#: What a rule of nftables selects that is about packets of the host itself.
HOST_PACKETS = "fib saddr type local"
#: In a rule of a node's table: an address of the node in the ranges of its pods, so that other clusters accept it. The node finds it.
NODE_SOURCE = {4: "$node_source4", 6: "$node_source6"}


def is_our_alias(alias: object, desired: str | None = None) -> bool:
    """True when a link's alias shows that the link is owned: the owner's mark, then perhaps a blank and any text.

    desired: the alias that we would give it. A link of another fabric (``multicluster.network/other``) is another
    owner's; one that carries the bare mark belongs to whoever asks.
    """
    if not isinstance(alias, str):
        return False
    mark = alias.split(" ")[0]
    if mark != OWNER and not mark.startswith(OWNER + "/"):
        return False
    return desired is None or mark in (OWNER, desired.split(" ")[0])


#: Rules that every host has; nobody touches them.
KERNEL_PRIORITIES = (0, 32766, 32767)
