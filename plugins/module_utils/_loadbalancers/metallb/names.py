# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of MetalLB's custom resources and of the labels that tell whom they serve (ccm 10.4)."""

from __future__ import annotations

import hashlib
import re
import typing as t

from ..bgp.peer_selectors import ServiceKey

POOL, ADVERTISEMENT, PEER, SECRET = "IPAddressPool", "BGPAdvertisement", "BGPPeer", "Secret"
_DROPPED = re.compile(r"[^A-Za-z0-9-]")
#: What a label's name and value may have.
LONGEST = 63


class PoolNames(t.NamedTuple):
    """A pool's name, and the label of one Service that uses it. ``hashed``: the label does not tell the name."""

    pool: str
    label_key: str
    label_value: str
    hashed: bool


def pool_names(key: ServiceKey) -> PoolNames:
    """For a Service (namespace, name)."""
    namespace, name = key
    pool = "{0}.{1}".format(_DROPPED.sub("", namespace), _DROPPED.sub("", name))
    label_key, label_value = "service-" + name, "namespace-" + namespace
    if len(label_key) > LONGEST or len(label_value) > LONGEST:
        return hashed_names(key)
    return PoolNames(pool, label_key, label_value, False)


def hashed_names(key: ServiceKey) -> PoolNames:
    """The same with a digest for a label, for names that are too long and names that meet."""
    namespace, name = key
    pool = "{0}.{1}".format(_DROPPED.sub("", namespace), _DROPPED.sub("", name))
    digest = hashlib.sha256("/".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return PoolNames(pool, "service-" + digest, "hashed", True)


def peer_name(node: str, index: int) -> str:
    """Of a node's peer towards its router of this index."""
    return "{0}-{1}".format(node, index)


def shared_peer_name(router: str) -> str:
    """Of the one peer that all nodes share towards a router; colons are no part of names."""
    return router.replace(":", "-").strip("-")


def secret_name(peer: str) -> str:
    """Of the Secret with a peer's password."""
    return "bgp-password-" + peer
