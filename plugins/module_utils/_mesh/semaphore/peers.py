# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pod ranges that a node of a remote cluster has (semaphore 3.5)."""

from __future__ import annotations

import typing as t

from ..._values.addresses import Network, parse_network
from ..._values.refused import ValueRefused, quoted

SOURCES = ("pod_cidr", "pod_cidrs")
#: Kubernetes gives a node at most one range per family; anything near this limit is an attack, not a node.
MAX_POD_CIDRS = 256


def pod_cidrs_of(node: t.Mapping[str, t.Any], source: str = "pod_cidrs") -> list[Network]:
    """A node's pod ranges, host bits masked, in its own order. Raises ``bad_pod_cidr`` when there is none."""
    single, several = node.get("podCIDR"), node.get("podCIDRs")
    if source == "pod_cidr" or not several:
        several = [single] if single else (several or [])[:1] if isinstance(several, list) else []
    if not isinstance(several, list) or not several:
        raise ValueRefused("bad_pod_cidr", f"the node has no pod range; {quoted(several)} is none")
    if len(several) > MAX_POD_CIDRS:
        raise ValueRefused("bad_pod_cidr", f"the node has {len(several)} pod ranges")
    ranges: list[Network] = []
    for text in several:
        network = parse_network(text, "bad_pod_cidr")
        if network not in ranges:
            ranges.append(network)
    return ranges
