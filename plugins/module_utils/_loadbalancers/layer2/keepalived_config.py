# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A segment's groups as a configuration of keepalived, one VRRP instance for each.

What an advertisement names is an address of the loopback device that represents the group alone: the addresses of Services are kept alongside it
(``virtual_ipaddress_excluded``), of both families in one group, so that nodes that have heard of a change and nodes that have not go on hearing each other.
Advertisements go to the other nodes of the segment, not to a multicast group: routers on the segment, and other clusters, do not meet our numbers.
"""

from __future__ import annotations

from .segment import Segment, check_interface

NAME = "layer2-{0}"
_ALONE = {4: "127.112.0.0", 6: "fe80::7f70"}
_HEAD = """\
# Written by multicluster.network; changes are overwritten.
global_defs {
    router_id multicluster-layer2
    vrrp_version 3
    vrrp_check_unicast_src
    vrrp_garp_master_delay 1
    vrrp_garp_master_repeat 3
    vrrp_garp_master_refresh 30
    vrrp_garp_lower_prio_delay 1
    vrrp_garp_lower_prio_repeat 3
    vrrp_higher_prio_send_advert true
    vrrp_priority -10
    max_auto_priority -1
}
"""


def marker(number: int, version: int) -> str:
    """What represents a group in advertisements: an address that never leaves the host."""
    return f"127.112.0.{number}/32 dev lo scope host" if version == 4 else f"fe80::7f70:{number:x}/128 dev lo"


def render(segment: Segment, interface: str, track_folder: str) -> str:
    """The whole file. ``track_folder``: there each group has a file, in which 0 means that this node can deliver."""
    return _HEAD + "".join(
        _group(segment, number, check_interface(interface), track_folder) for number in range(len(segment.groups))
    )


def _group(segment: Segment, index: int, interface: str, track_folder: str) -> str:
    group = segment.groups[index]
    name, version = NAME.format(group.number), segment.version
    # without any other node it sends to itself: keepalived would send to a multicast group
    others = [member.of(version) for member in segment.members if member.name != segment.node] or [_ALONE[version]]
    lines = [
        f"track_file {name} {{",
        f'    file "{track_folder}/{group.number}"',
        "    weight 0",
        "}",
        f"vrrp_instance {name} {{",
        "    state BACKUP",
        f"    interface {interface}",
        f"    virtual_router_id {group.number}",
        f"    priority {segment.priority(group.number)}",
        f"    advert_int {segment.advert_ms / 1000.0:g}",
        "    preempt_delay 2",
        f"    unicast_src_ip {segment.me.of(version)}",
        "    unicast_ttl 255",
        "    unicast_peer {",
        *(f"        {one} min_ttl 255" for one in others),
        "    }",
        "    track_file {",
        f"        {name} weight 0",
        "    }",
        "    virtual_ipaddress {",
        f"        {marker(group.number, version)}",
        "    }",
        "    virtual_ipaddress_excluded {",
        *(
            f"        {address}/{128 if ':' in address else 32} dev {interface} noprefixroute"
            for address in group.addresses
        ),
        "    }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def own_numbers(text: str) -> set[int]:
    """The virtual router ids that another owner's configuration has."""
    words = [line.split() for line in text.splitlines()]
    return {
        int(row[1])
        for row in words
        if len(row) > 1 and row[0] == "virtual_router_id" and row[1].isascii() and row[1].isdigit()
    }
