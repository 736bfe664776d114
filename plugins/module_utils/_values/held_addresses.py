# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of a host's addresses it holds for others at the moment: load-balancer and other floating addresses (threat T48).

They move to another host in seconds, by keepalived, kube-vip, MetalLB and their like, so they say nothing of where a node is.
"""

from __future__ import annotations

import typing as t

from .addresses import parse_address, parse_network
from .prefix_sets import PrefixSet

#: The kernel's number of keepalived, as it is kept with an address (IFA_PROTO).
KEEPALIVED = 18
#: Devices on which programs keep addresses of Services, so that the host takes packets to them.
_SHELVES = ("lo",)
_SHELF_KINDS = ("dummy",)


def held_for_others(
    configured: t.Iterable[t.Mapping[str, t.Any]], balanced: PrefixSet | None = None, own: t.Container[str] = ()
) -> dict[str, str]:
    """{address/length: why it is no address of the host} of addresses as read_host has them.

    balanced: what load balancing hands out. own: addresses, without a length, by which the host is known: they stay where their form alone
    counts against them. That form is a single address without a lifetime on ``lo`` or a dummy device, or next to a network of the same
    family on its device. What a host would have no address of a family without is its own, too.
    """
    rows = [dict(row, text=str(row["address"])) for row in configured]
    networks = {(row.get("device"), ":" in row["text"]) for row in rows if not _single(row["text"])}
    found: dict[str, str] = {}
    doubtful: dict[str, str] = {}
    for row in rows:
        text = row["text"]
        address = text.partition("/")[0]
        if balanced is not None and parse_address(address) in balanced:
            found[text] = "load balancing hands it out"
        elif row.get("protocol") == KEEPALIVED:
            found[text] = "keepalived holds it"
        elif address in own or not _single(text) or not row.get("permanent", True):
            continue
        elif row.get("device") in _SHELVES or row.get("kind") in _SHELF_KINDS:
            doubtful[text] = f"it is a single address on {row.get('device')}"
        elif (row.get("device"), ":" in text) in networks:
            doubtful[text] = f"it is a single address next to a network on {row.get('device')}"
    for version6 in (False, True):
        left = [
            row
            for row in rows
            if (":" in row["text"]) is version6
            and row.get("scope", "global") in ("global", "site")
            and row.get("up", True)
        ]
        if any(row["text"] not in found and row["text"] not in doubtful for row in left):
            found.update((text, why) for text, why in doubtful.items() if (":" in text) is version6)
    return found


def _single(text: str) -> bool:
    network = parse_network(text)
    return network.prefixlen == network.max_prefixlen
