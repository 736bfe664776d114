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
#: Each newcomer is compared with one of each kind.
MOST_KINDS = 256
#: Every node asks a port of each, twice a second: nobody may have nodes ask thousands for one address.
MOST_LOCAL = 64
Key = tuple[str, str]
_NO_KEY = "both would have to name the same sharing key"
_MEETING = "both use the port {0}/{1}"


def wants_to_share(service: Service) -> bool:
    return bool(keys_of(service))


def keys_of(service: Service) -> list[Key]:
    """The owner of a key, and the key: two Services without one in common never share."""
    found = [(names[0], annotation(service.annotations, names)) for names in (METALLB_KEYS, CILIUM_KEYS)]
    return [row for row in found if row[1]]


def why_not(one: Service, other: Service) -> str:
    """Why two Services may not have one address, in words for both owners; nothing where they may."""
    by_metallb, by_cilium = _same_key(one, other, METALLB_KEYS), _same_key(one, other, CILIUM_KEYS)
    if not by_metallb and not by_cilium:
        return _NO_KEY
    if not by_metallb and not (_admits(one, other.namespace) and _admits(other, one.namespace)):
        return f"both would have to name the other's namespace in {CILIUM_NAMESPACES[0]}"
    meeting = sorted(one.ports & other.ports)
    if meeting:
        return _MEETING.format(*meeting[0])
    if one.local != other.local:
        return "both would have to have the same externalTrafficPolicy"
    if one.local and one.selector != other.selector:
        return "with externalTrafficPolicy Local both would have to select the same pods"
    if one.local and not one.selector and not by_metallb:
        return "with externalTrafficPolicy Local both would have to select pods"
    return ""


class Sharing:
    """Services that share an address: each with each of the others. There may be thousands, which differ in their ports alone."""

    def __init__(self, services: t.Iterable[Service]) -> None:
        self._kinds: dict[t.Any, Service] = {}
        self._ports: set[tuple[str, int]] = set()
        self._local = 0
        for service in services:
            self.add(service)

    def refuses(self, service: Service) -> str:
        """Why it may not be one of them, or nothing."""
        if not self._kinds:
            return _NO_KEY
        alone = service._replace(ports=frozenset())
        why = next((reason for reason in (why_not(alone, other) for other in self._kinds.values()) if reason), "")
        if not why:
            meeting = sorted(service.ports & self._ports)
            why = _MEETING.format(*meeting[0]) if meeting else ""
        if not why and service.local and self._local >= MOST_LOCAL:
            why = f"{MOST_LOCAL} Services with externalTrafficPolicy Local share it already, and nodes ask a port for each of them"
        if not why and len(self._kinds) >= MOST_KINDS and _kind(service) not in self._kinds:
            why = f"those that share it have {MOST_KINDS} different pairs of sharing keys and pods already"
        return why

    def join(self, service: Service) -> str:
        """The same; who may is one of them from now on."""
        why = self.refuses(service)
        if not why:
            self.add(service)
        return why

    def add(self, service: Service) -> None:
        """One that has the address, whether it should or not."""
        self._kinds.setdefault(_kind(service), service._replace(ports=frozenset()))
        self._ports |= service.ports
        self._local += service.local


def _kind(service: Service) -> t.Any:
    """What why_not looks at alongside ports: two Services of a kind get the same answers."""
    cilium = annotation(service.annotations, CILIUM_KEYS)
    return (
        annotation(service.annotations, METALLB_KEYS),
        (cilium, service.namespace, annotation(service.annotations, CILIUM_NAMESPACES)) if cilium else (),
        service.local,
        tuple(sorted(service.selector.items())) if service.local else (),
    )


def _same_key(one: Service, other: Service, names: t.Iterable[str]) -> bool:
    keys = [annotation(item.annotations, names) for item in (one, other)]
    return bool(keys[0]) and keys[0] == keys[1]


def _admits(service: Service, namespace: str) -> bool:
    if service.namespace == namespace:
        return True
    named = [text.strip() for text in annotation(service.annotations, CILIUM_NAMESPACES).split(",")]
    return namespace in named or ANY in named


def refusal_text(address: object, holder: str, why: str) -> str:
    return f"{address} belongs to {quoted(holder)}; {why}"
