# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds what: Services, reservations, devices, zones, sessions, the control plane's address, and what is in the way."""

from __future__ import annotations

import typing as t

from ..._kubernetes.client import Client
from ..._kubernetes.clusters import seconds_of
from ..._loadbalancers.instances import region_of, zone_of
from ..._loadbalancers.reservations import Owner, is_owned, load_balancer_name, parse_provider_id, service_tags
from ..._loadbalancers.setup import Setup
from ..._plan.objects import field_manager
from ..._values.refused import ValueRefused
from . import providers as interface
from .ccm_nodes import findings, variant_of
from .converge import guarded, open_clusters
from .read import NODES
from .run import RunOptions
from .service_addresses import ServiceAddressReconciler

PODS = "/api/v1/namespaces/kube-system/pods"


def run(request: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The module's result. Raises ValueRefused for options that make no sense."""
    manager = field_manager(request["fabric"])
    setups, clusters = open_clusters(request)
    names = [name for name in sorted(setups) if name in clusters.clients]
    found = clusters.read(
        "read addresses",
        lambda name, client: guarded(client, lambda: _cluster(client, setups[name], request, manager)),
        names,
    )
    in_sync = not clusters.failures and not any(row["plan"]["changes"] for row in found.values())
    return {
        "changed": False,
        "in_sync": in_sync,
        "clusters": found,
        "failures": clusters.failures,
        "stats": clusters.stats(),
    }


def _cluster(client: Client, setup: Setup, request: t.Mapping[str, t.Any], manager: str) -> dict[str, t.Any]:
    one = ServiceAddressReconciler(client, setup, RunOptions(timeout=seconds_of(request)), manager)
    one.gather()
    held = list(one.held)
    report = one.plan()
    result = dict(report.plan.result(), **report.shown)
    result.pop("changed")
    owner, tag = setup.owner(one.state.uid), setup.eip_tag
    recorded = one.state.ledger
    services = {item.id: recorded[item.id].service if item.id in recorded else "" for item in held}
    result["reservations"] = [
        {
            "id": item.id,
            "address": item.address,
            "cidr": item.cidr,
            "state": item.state,
            "location": item.location,
            "owned": bool(one.state.uid) and is_owned(item, owner),
            "service": services[item.id],
            "load_balancer_name": _name(owner, services[item.id]),
            "assigned_to": [row.device for row in item.assignments],
        }
        for item in held
    ]
    result["control_plane"] = next(
        (
            {"address": item.address, "assigned_to": [row.device for row in item.assignments]}
            for item in held
            if tag and tag in item.tags
        ),
        {},
    )
    nodes = list(one.state.nodes.values()) or client.list(NODES).items
    devices = one.provider.list_devices() if interface.DEVICES in one.provider.capabilities() else []
    variant = variant_of(request)
    result["devices"] = [
        {
            "id": item.id,
            "hostname": item.hostname,
            "state": item.state,
            "type": item.plan,
            "region": region_of(item, variant),
            "zone": zone_of(item, variant),
        }
        for item in devices
    ]
    places = {(row["region"], row["zone"]) for row in result["devices"]}
    result["zones"] = [{"region": region, "zone": zone} for region, zone in sorted(places)]
    result["sessions"] = _sessions(one, nodes) if request.get("sessions") is not False else {}
    pods = client.list(PODS, label_selector="tier=control-plane").items
    result["findings"] = findings(nodes, devices, request.get("node_devices") or {}, pods) if not setup.static else []
    return result


def _name(owner: Owner, service: str) -> str:
    namespace, slash, name = service.partition("/")
    return load_balancer_name(service_tags(owner, namespace, name)) if slash and owner.cluster_uid else ""


def _sessions(one: ServiceAddressReconciler, nodes: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Node -> state of its session, where the provider reports it."""
    found: dict[str, t.Any] = {}
    if not hasattr(one.provider, "sessions") or not one.setup.balancer.uses_bgp:
        return found
    for node in nodes:
        name = str(node["metadata"]["name"])
        try:
            found[name] = one.provider.sessions(parse_provider_id((node.get("spec") or {}).get("providerID")))
        except ValueRefused as error:
            found[name] = [{"status": "unknown", "reason": error.reason}]
    return found
