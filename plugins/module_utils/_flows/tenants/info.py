# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What there is of tenants' networks on both sides, without writing: drift, reasons, orphans, who serves whom, holders of nothing (decisions 25, 27)."""

from __future__ import annotations

import typing as t

from ..._plan.plan import SHOWN_CHANGES
from ..._tenants.claims import apply_claims
from ..._tenants.converge import predict
from ..._tenants.deletion import collected
from ..._tenants.fields import address_or_none, addresses, entries, get, items, name, text, uid
from ..._tenants.links import ADOPTABLE, linked, unowned
from ..._tenants.options import (
    APINET,
    IP,
    IP_ADDRESS,
    KINDS,
    LOAD_BALANCER,
    LOAD_BALANCER_ROUTING,
    NETWORK,
    NETWORK_ID,
    NETWORK_INTERFACE,
    SOURCE,
    TWIN_KINDS,
    needed,
)
from ..._tenants.view import NotRead, View
from .converge import mapped, now, open_run, report
from .store import gather


class Target(t.NamedTuple):
    """A load balancer with traffic that reaches an interface."""

    load_balancer: str
    address: str
    ips: list[str]
    ports: list[t.Any]


def targets_of_interfaces(view: View) -> dict[str, list[Target]]:
    """Interface twin -> the load balancers of its own network with routing to one of its addresses."""
    routed: dict[tuple[str, str], list[Target]] = {}
    for balancer in view.twins(LOAD_BALANCER):
        routing = view.twin(LOAD_BALANCER_ROUTING, name(balancer))
        network = text(balancer, "spec", "networkRef", "name")
        ips, ports = addresses(balancer, "spec", "ips"), items(balancer, "spec", "ports")
        for destination in dict.fromkeys(addresses(routing, "destinations")):
            routed.setdefault((network, destination), []).append(Target(name(balancer), destination, ips, ports))
    found: dict[str, list[Target]] = {}
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


def orphans(view: View) -> list[Orphan]:
    """Twins without source, and IDs and addresses without their claimer; lists that were not read are left out."""
    found: list[Orphan] = []
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
        found.extend(
            Orphan(kind, name(obj), "claimer_gone")
            for obj in mine
            if text(obj, "spec", "claimRef", "uid") not in living
        )
    return found


def served_by(view: View) -> dict[str, list[str]]:
    """Interface twin -> names of the NAT gateways that claim it."""
    found = {}
    for twin in view.twins(NETWORK_INTERFACE):
        claims = [text(entry, "claimRef", "name") for entry in entries(twin, "spec", "natGateways")]
        if claims:
            found[name(twin)] = claims
    return found


_AUDITED = [(APINET, kind) for kind in (NETWORK, NETWORK_ID, IP, IP_ADDRESS)]
Rows = list[dict[str, t.Any]]


def run(request: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The module's result. ``request`` has the module's options. Raises ValueRefused for options that make no sense."""
    opened = open_run(request)
    clusters, options = opened.clusters, opened.options
    view = gather(clusters, opened.stores, options, needed(options) + _AUDITED)
    found = orphans(view)
    interfaces = interface_rows(view)
    if SOURCE in opened.names:
        result = predict(view, now(), apply_claims)
        shown = report(clusters, mapped(opened, result), result)
    else:
        shown = report(clusters)
    in_sync = not shown["changed"] and not clusters.failures
    shown.update(
        changed=False,
        in_sync=in_sync,
        orphans=[orphan._asdict() for orphan in found][:SHOWN_CHANGES],
        interfaces=interfaces[:SHOWN_CHANGES],
        counts={"orphans": len(found), "interfaces": len(interfaces), "adoptable": adoptable(view)},
        whole={"objects": shown["whole"], "orphans": [orphan._asdict() for orphan in found], "interfaces": interfaces},
    )
    return shown


def interface_rows(view: View) -> Rows:
    """Each interface of the network side: where it is, its owner, and which load balancers and gateways serve it (decision 27)."""
    try:
        twins = view.twins(NETWORK_INTERFACE)
        targets, gateways = targets_of_interfaces(view), served_by(view)
    except NotRead:
        return []
    rows = []
    for twin in twins:
        link = linked(NETWORK_INTERFACE, twin, view.options.profile)
        rows.append(
            {
                "name": name(twin),
                "uid": uid(twin),
                "source": f"{link.namespace}/{link.name}" if link is not None else None,
                "network": text(twin, "spec", "networkRef", "name"),
                "node": text(twin, "spec", "nodeRef", "name"),
                "state": text(twin, "status", "state"),
                "ips": [address_or_none(item) or str(item) for item in items(twin, "spec", "ips")],
                "public_ips": addresses(twin, "spec", "publicIPs"),
                "load_balancers": [target._asdict() for target in targets.get(name(twin), ())],
                "nat_gateways": gateways.get(name(twin), []),
            }
        )
    return rows


def adoptable(view: View) -> int:
    """How many twins another program made."""
    found = 0
    for kind in KINDS:
        try:
            twins = view.twins(TWIN_KINDS[kind]) if kind != NETWORK_INTERFACE and kind in view.options.kinds else []
        except NotRead:
            continue
        found += len([twin for twin in twins if unowned(kind, twin, view.options) == ADOPTABLE])
    return found
