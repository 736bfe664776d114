# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether two Services may have one address, by the rules of MetalLB and of Cilium.

Both want one key in both Services, ports that do not meet, and one traffic policy; with Local the same pods, since a node without pods of the one
would else be sent the traffic of the other. Cilium's key counts within a namespace, and across where both Services name the other's.
"""

from __future__ import annotations

import typing as t

from .._values.refused import quoted
from .services import Service, annotation

METALLB_KEYS = ("metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip")
CILIUM_KEYS = ("lbipam.cilium.io/sharing-key", "io.cilium/lb-ipam-sharing-key")
CILIUM_NAMESPACES = ("lbipam.cilium.io/sharing-cross-namespace", "io.cilium/lb-ipam-sharing-cross-namespace")
ANY = "*"


def wants_to_share(service: Service) -> bool:
    return bool(annotation(service.annotations, METALLB_KEYS + CILIUM_KEYS))


def why_not(one: Service, other: Service) -> str:
    """Why two Services may not have one address, in words for both owners; nothing where they may."""
    by_metallb, by_cilium = _same_key(one, other, METALLB_KEYS), _same_key(one, other, CILIUM_KEYS)
    if not by_metallb and not by_cilium:
        return "both would have to name the same sharing key"
    if not by_metallb and not (_admits(one, other.namespace) and _admits(other, one.namespace)):
        return "both would have to name the other's namespace in {0}".format(CILIUM_NAMESPACES[0])
    meeting = sorted(one.ports & other.ports)
    if meeting:
        return "both use the port {0}/{1}".format(*meeting[0])
    if one.local != other.local:
        return "both would have to have the same externalTrafficPolicy"
    if one.local and one.selector != other.selector:
        return "with externalTrafficPolicy Local both would have to select the same pods"
    if one.local and not one.selector and not by_metallb:
        return "with externalTrafficPolicy Local both would have to select pods"
    return ""


def _same_key(one: Service, other: Service, names: t.Iterable[str]) -> bool:
    keys = [annotation(item.annotations, names) for item in (one, other)]
    return bool(keys[0]) and keys[0] == keys[1]


def _admits(service: Service, namespace: str) -> bool:
    if service.namespace == namespace:
        return True
    named = [text.strip() for text in annotation(service.annotations, CILIUM_NAMESPACES).split(",")]
    return namespace in named or ANY in named


def refusal_text(address: object, holder: str, why: str) -> str:
    return "{0} belongs to {1}; {2}".format(address, quoted(holder), why)
