# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load balancers: addresses, an instance template, and the routing next to them (11, 12)."""

from __future__ import annotations

import typing as t

from .._values.addresses import parse_address
from .._values.refused import ValueRefused, quoted
from .fields import address_or_none, addresses, entries, family_of, get, items, name, namespace, show_address, text, uid
from .links import controller_reference, link_labels
from .options import LB_NODE_AFFINITY
from .prefixes import balancer_addresses
from .profile import LOAD_BALANCER, LOAD_BALANCER_ROUTING, NETWORK
from .provider_ids import interface_id_or_none
from .work import DEPENDENT, TWIN, Work, twin_manifest

_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"


def plan_load_balancer(work: Work) -> None:
    """One load balancer that is not being deleted."""
    source, options = work.subject, work.options
    network = network_of(work)
    if network is None:
        return
    if get(source, "spec", "type") not in ("Public", "Internal"):
        work.fail("invalid_type", "{0} is neither Public nor Internal".format(quoted(get(source, "spec", "type"))))
        return
    try:
        ips = address_entries(work)
    except ValueRefused as error:
        work.fail(error.reason, error.message)
        return
    labels = link_labels(LOAD_BALANCER, source, options.profile)
    destinations = routing_destinations(work)
    spec = {
        "type": get(source, "spec", "type"),
        "networkRef": {"name": uid(network)},
        "ips": ips or None,
        "ports": items(source, "spec", "ports") or None,
        "selector": {"matchLabels": dict(labels)},
        "template": {"metadata": {"labels": dict(labels)}, "spec": {"affinity": _affinity(work, labels, destinations)}},
    }
    owned: t.List[t.Tuple[str, ...]] = [("spec", "ips"), ("spec", "ports")]
    if LB_NODE_AFFINITY in options.switches:
        owned.append(("spec", "template", "spec", "affinity", "nodeAffinity"))
    twin = work.apply(TWIN, twin_manifest(work, LOAD_BALANCER, labels, spec=spec), owned)
    if twin is None:
        return
    owner = controller_reference(twin, options.profile)
    manifest = twin_manifest(work, LOAD_BALANCER_ROUTING, labels, owner=owner, destinations=destinations or None)
    if work.apply(DEPENDENT, manifest, [("destinations",)]) is None:
        return
    found = addresses(twin, "spec", "ips")
    if len(found) < len(entries(twin, "spec", "ips")):
        work.wait("address_not_allocated", "the network side has not given every address yet")
    work.status({"ips": found})


def network_of(work: Work) -> t.Optional[t.Dict[str, t.Any]]:
    """The source network that an object names, whatever its state."""
    called = text(work.subject, "spec", "networkRef", "name")
    network = work.view.source(NETWORK, namespace(work.subject), called)
    if network is None:
        work.wait("network_missing", "there is no network {0} in its namespace".format(quoted(called)))
    return network


def address_entries(work: Work) -> t.List[t.Dict[str, t.Any]]:
    """spec.ips of the twin. Raises ValueRefused for a literal that is no address."""
    source = work.subject
    if get(source, "spec", "type") == "Public":
        families = [family for family in items(source, "spec", "ipFamilies") if isinstance(family, str)]
        return [{"name": family.lower(), "ipFamily": family} for family in families]
    found, missing = balancer_addresses(work.view, source)
    if missing:
        work.wait("prefix_not_allocated", "not allocated yet: {0}".format(quoted(", ".join(missing))))
    result = []
    for entry in found:
        address = show_address(parse_address(entry["ip"]))
        family = entry["ipFamily"] or family_of(address)
        result.append({"name": "ip-{0}".format(entry["index"]), "ipFamily": family, "ip": address})
    return result


def routing_destinations(work: Work) -> t.List[t.Dict[str, t.Any]]:
    """Every destination of the source routing, in order; a target only where its provider ID can be read."""
    routing = work.view.source(LOAD_BALANCER_ROUTING, namespace(work.subject), name(work.subject))
    result = []
    for destination in entries(routing, "destinations"):
        entry: t.Dict[str, t.Any] = {"ip": address_or_none(destination.get("ip")) or destination.get("ip")}
        found = interface_id_or_none(get(destination, "targetRef", "providerID"), work.options.profile)
        if found is not None:
            entry["targetRef"] = {"uid": found.uid, "name": found.name, "nodeRef": {"name": found.node}}
        result.append(entry)
    return result


def _affinity(work: Work, labels: t.Mapping[str, str], destinations: t.List[t.Dict[str, t.Any]]) -> t.Dict[str, t.Any]:
    term = {"topologyKey": work.options.profile.zone, "labelSelector": {"matchLabels": dict(labels)}}
    affinity: t.Dict[str, t.Any] = {"instanceAntiAffinity": {_TERMS: [term]}}
    nodes = sorted({entry["targetRef"]["nodeRef"]["name"] for entry in destinations if "targetRef" in entry})
    if LB_NODE_AFFINITY in work.options.switches and nodes:
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]} for node in nodes]
        affinity["nodeAffinity"] = {_TERMS: {"nodeSelectorTerms": [{"matchFields": [field]} for field in fields]}}
    return affinity
