# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the nodes of a remote cluster to the peers of our device (semaphore 3.5).

Whether a node may claim what it publishes is decided elsewhere (claims.py); here text becomes values.
"""

from __future__ import annotations

import typing as t

from ..._values.addresses import Network, parse_endpoint, parse_network
from ..._values.keys import parse_key
from ..._values.refused import ValueRefused, quoted
from .annotations import announces, keys_for

SOURCES = ("pod_cidr", "pod_cidrs")
#: Kubernetes gives a node at most one range per family; anything near this limit is an attack, not a node.
MAX_POD_CIDRS = 256


def pod_cidrs_of(node: t.Mapping[str, t.Any], source: str = "pod_cidrs") -> t.List[Network]:
    """A node's pod ranges, host bits masked, in its own order. Raises ``bad_pod_cidr`` when there is none."""
    single, several = node.get("podCIDR"), node.get("podCIDRs")
    if source == "pod_cidr" or not several:
        several = [single] if single else (several or [])[:1] if isinstance(several, list) else []
    if not isinstance(several, list) or not several:
        raise ValueRefused("bad_pod_cidr", "the node has no pod range; {0} is none".format(quoted(several)))
    if len(several) > MAX_POD_CIDRS:
        raise ValueRefused("bad_pod_cidr", "the node has {0} pod ranges".format(len(several)))
    ranges: t.List[Network] = []
    for text in several:
        network = parse_network(text, "bad_pod_cidr")
        if network not in ranges:
            ranges.append(network)
    return ranges


def read_endpoint(text: object) -> t.Optional[str]:
    """The endpoint in canonical form; None for the empty text of a passive peer. Names are kept as they are."""
    return None if text in ("", None) else str(parse_endpoint(text))


def read_published(local: str, published: t.Any) -> t.Optional[t.Tuple[str, t.Optional[str]]]:
    """(public key, endpoint or None) that a node publishes for us, or None when it does not.

    Raises ValueRefused (``bad_public_key``, ``bad_endpoint``).
    """
    if not isinstance(published, dict) or not announces(local, published):
        return None
    keys = keys_for(local)
    return parse_key(published[keys["pubKey"]]), read_endpoint(published[keys["endpoint"]])
