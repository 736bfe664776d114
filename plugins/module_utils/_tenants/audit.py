# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only a look at both servers shows: targets of an interface, orphans, holders of nothing (decision 27, 25)."""

from __future__ import annotations

import typing as t

from .deletion import collected
from .fields import address_or_none, addresses, entries, get, items, name, text, uid
from .options import APINET, IP, IP_ADDRESS, KINDS, LOAD_BALANCER, LOAD_BALANCER_ROUTING, NETWORK, NETWORK_ID, NETWORK_INTERFACE, TWIN_KINDS
from .view import NotRead, View


class Target(t.NamedTuple):
    """A load balancer whose traffic reaches an interface."""

    load_balancer: str
    address: str
    ips: t.List[str]
    ports: t.List[t.Any]


def targets_of_interfaces(view: View) -> t.Dict[str, t.List[Target]]:
    """Interface twin -> the load balancers of its own network whose routing names one of its addresses."""
    routed: t.Dict[t.Tuple[str, str], t.List[Target]] = {}
    for balancer in view.twins(LOAD_BALANCER):
        routing = view.twin(LOAD_BALANCER_ROUTING, name(balancer))
        network = text(balancer, "spec", "networkRef", "name")
        ips, ports = addresses(balancer, "spec", "ips"), items(balancer, "spec", "ports")
        for destination in dict.fromkeys(addresses(routing, "destinations")):
            routed.setdefault((network, destination), []).append(Target(name(balancer), destination, ips, ports))
    found: t.Dict[str, t.List[Target]] = {}
    for twin in view.twins(NETWORK_INTERFACE):
        network = text(twin, "spec", "networkRef", "name")
        for item in items(twin, "spec", "ips"):
            for target in routed.get((network, address_or_none(item) or ""), ()):
                found.setdefault(name(twin), []).append(target)
    return found


class Orphan(t.NamedTuple):
    """An object that belongs to nothing. ``reason``: source_gone or claimer_gone."""

    kind: str
    name: str
    reason: str


def orphans(view: View) -> t.List[Orphan]:
    """Twins without source, and IDs and addresses whose claimer is gone; lists that were not read are left out."""
    found: t.List[Orphan] = []
    for kind in KINDS:
        try:
            found.extend(Orphan(TWIN_KINDS[kind], name(twin), "source_gone") for twin in collected(view, kind))
        except NotRead:
            continue
    for kind, claimer in ((NETWORK_ID, NETWORK), (IP_ADDRESS, IP)):
        try:
            living = {uid(obj) for obj in view.every(APINET, claimer)}
            claims = [obj for obj in view.every(APINET, kind) if get(obj, "spec", "claimRef")]
        except NotRead:
            continue
        mine = [obj for obj in claims if text(obj, "spec", "claimRef", "namespace") == view.options.apinet_namespace]
        found.extend(Orphan(kind, name(obj), "claimer_gone") for obj in mine if text(obj, "spec", "claimRef", "uid") not in living)
    return found


def served_by(view: View) -> t.Dict[str, t.List[str]]:
    """Interface twin -> names of the NAT gateways that claim it."""
    found = {}
    for twin in view.twins(NETWORK_INTERFACE):
        claims = [text(entry, "claimRef", "name") for entry in entries(twin, "spec", "natGateways")]
        if claims:
            found[name(twin)] = claims
    return found
