# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load balancers: addresses, an instance template, and the routing next to them (11, 12); NAT gateways and the autoscaler of their addresses (13)."""

from __future__ import annotations

import typing as t

from .._values.addresses import parse_address
from .._values.refused import ValueRefused, quoted
from .fields import address_or_none, addresses, entries, family_of, get, items, name, namespace, show_address, text, uid
from .links import controller_reference, interface_id_or_none, link_labels
from .object_turn import DEPENDENT, TWIN, ObjectTurn
from .options import (
    LB_NODE_AFFINITY,
    LOAD_BALANCER,
    LOAD_BALANCER_ROUTING,
    NAT_GATEWAY,
    NAT_GATEWAY_AUTOSCALER,
    NETWORK,
)
from .view import balancer_addresses

_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"


def plan_load_balancer(turn: ObjectTurn) -> None:
    """One load balancer that is not being deleted."""
    source, options = turn.subject, turn.options
    network = network_of(turn)
    if network is None:
        return
    if get(source, "spec", "type") not in ("Public", "Internal"):
        turn.fail("invalid_type", f"{quoted(get(source, 'spec', 'type'))} is neither Public nor Internal")
        return
    try:
        ips = address_entries(turn)
    except ValueRefused as error:
        turn.fail(error.reason, error.message)
        return
    labels = link_labels(LOAD_BALANCER, source, options.profile)
    destinations = routing_destinations(turn)
    spec = {
        "type": get(source, "spec", "type"),
        "networkRef": {"name": uid(network)},
        "ips": ips or None,
        "ports": items(source, "spec", "ports") or None,
        "selector": {"matchLabels": dict(labels)},
        "template": {"metadata": {"labels": dict(labels)}, "spec": {"affinity": _affinity(turn, labels, destinations)}},
    }
    owned: list[tuple[str, ...]] = [("spec", "ips"), ("spec", "ports")]
    if LB_NODE_AFFINITY in options.switches:
        owned.append(("spec", "template", "spec", "affinity", "nodeAffinity"))
    twin = turn.apply(TWIN, turn.manifest(LOAD_BALANCER, spec=spec), owned)
    if twin is None:
        return
    owner = controller_reference(twin, options.profile)
    manifest = turn.manifest(LOAD_BALANCER_ROUTING, owner, destinations=destinations or None)
    if turn.apply(DEPENDENT, manifest, [("destinations",)]) is None:
        return
    found = addresses(twin, "spec", "ips")
    if len(found) < len(entries(twin, "spec", "ips")):
        turn.wait("address_not_allocated", "the network side has not given every address yet")
    turn.status({"ips": found})


def network_of(turn: ObjectTurn) -> dict[str, t.Any] | None:
    """The source network that an object names, whatever its state."""
    called = text(turn.subject, "spec", "networkRef", "name")
    network = turn.view.source(NETWORK, namespace(turn.subject), called)
    if network is None:
        turn.wait("network_missing", f"there is no network {quoted(called)} in its namespace")
    return network


def address_entries(turn: ObjectTurn) -> list[dict[str, t.Any]]:
    """spec.ips of the twin. Raises ValueRefused for a literal that is no address."""
    source = turn.subject
    if get(source, "spec", "type") == "Public":
        families = [family for family in items(source, "spec", "ipFamilies") if isinstance(family, str)]
        return [{"name": family.lower(), "ipFamily": family} for family in families]
    found, missing = balancer_addresses(turn.view, source)
    if missing:
        turn.wait("prefix_not_allocated", f"not allocated yet: {quoted(', '.join(missing))}")
    result = []
    for entry in found:
        address = show_address(parse_address(entry["ip"]))
        family = entry["ipFamily"] or family_of(address)
        result.append({"name": f"ip-{entry['index']}", "ipFamily": family, "ip": address})
    return result


def routing_destinations(turn: ObjectTurn) -> list[dict[str, t.Any]]:
    """Every destination of the source routing, in order; a target only where its provider ID can be read."""
    routing = turn.view.source(LOAD_BALANCER_ROUTING, namespace(turn.subject), name(turn.subject))
    result = []
    for destination in entries(routing, "destinations"):
        entry: dict[str, t.Any] = {"ip": address_or_none(destination.get("ip")) or destination.get("ip")}
        found = interface_id_or_none(get(destination, "targetRef", "providerID"), turn.options.profile)
        if found is not None:
            entry["targetRef"] = {"uid": found.uid, "name": found.name, "nodeRef": {"name": found.node}}
        result.append(entry)
    return result


def _affinity(turn: ObjectTurn, labels: t.Mapping[str, str], destinations: list[dict[str, t.Any]]) -> dict[str, t.Any]:
    term = {"topologyKey": turn.options.profile.zone, "labelSelector": {"matchLabels": dict(labels)}}
    affinity: dict[str, t.Any] = {"instanceAntiAffinity": {_TERMS: [term]}}
    nodes = sorted({entry["targetRef"]["nodeRef"]["name"] for entry in destinations if "targetRef" in entry})
    if LB_NODE_AFFINITY in turn.options.switches and nodes:
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]} for node in nodes]
        affinity["nodeAffinity"] = {_TERMS: {"nodeSelectorTerms": [{"matchFields": [field]} for field in fields]}}
    return affinity


DEFAULT_PORTS = 2048


def plan_nat_gateway(turn: ObjectTurn) -> None:
    """One NAT gateway that is not being deleted. Its addresses are the network side's and survive."""
    source, options = turn.subject, turn.options
    network = network_of(turn)
    if network is None:
        return
    ports = get(source, "spec", "portsPerNetworkInterface")
    spec = {
        "ipFamily": get(source, "spec", "ipFamily"),
        "networkRef": {"name": uid(network)},
        "portsPerNetworkInterface": DEFAULT_PORTS if ports is None else ports,
    }
    twin = turn.apply(TWIN, turn.manifest(NAT_GATEWAY, spec=spec))
    if twin is None:
        return
    limits = {
        "natGatewayRef": {"name": uid(source)},
        "minPublicIPs": options.min_public_ips,
        "maxPublicIPs": options.max_public_ips,
    }
    owner = controller_reference(twin, options.profile)
    if turn.apply(DEPENDENT, turn.manifest(NAT_GATEWAY_AUTOSCALER, owner, spec=limits)) is None:
        return
    found = addresses(twin, "spec", "ips")
    if not found or len(found) < len(entries(twin, "spec", "ips")):
        turn.wait("address_not_allocated", "the network side has not given every address yet")
    turn.status({"ips": found})
