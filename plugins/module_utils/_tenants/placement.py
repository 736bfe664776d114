# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network side's own work, continued: instances on nodes, NAT tables and the autoscaler as one pass (19.4-19.7)."""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused
from .fields import Object, controller, deleting, entries, get, items, labels, name, same, text, uid
from .links import controller_reference
from .nat_blocks import NatPlan, claim_of, desired_addresses, plan_nat
from .profile import (
    APINET,
    DAEMON_SET,
    INSTANCE,
    LOAD_BALANCER,
    NAT_GATEWAY,
    NAT_GATEWAY_AUTOSCALER,
    NAT_TABLE,
    NETWORK_INTERFACE,
    NODE,
)
from .scheduler import acceptable_nodes, node_term, plan_daemon, selects
from .store import key_of
from .view import View
from .work import CREATE, PATCH, PATCH_STATUS, REMOVE, Step, Work

READS = (LOAD_BALANCER, NAT_GATEWAY, NAT_GATEWAY_AUTOSCALER, NAT_TABLE, NETWORK_INTERFACE, DAEMON_SET, INSTANCE, NODE)

FREE, MAKE, TAKE, TABLE, SHOW = range(5)


def plan_placement(view: View) -> t.List[Work]:
    """One pass over load balancers, gateways and instances. Objects of our namespace only."""
    works = [_daemon(view, balancer) for balancer in view.twins(LOAD_BALANCER) if not deleting(balancer)]
    works += [_instances(view, daemon) for daemon in view.twins(DAEMON_SET) if not deleting(daemon)]
    works += _schedule(view)
    works += _gateways(view)
    return works + _stale_claims(view) + _orphans(view)


def _manifest(view: View, kind: str, called: str, owner: Object, owner_kind: str, **parts: t.Any) -> t.Dict[str, t.Any]:
    meta: t.Dict[str, t.Any] = {
        "namespace": view.options.apinet_namespace,
        "name": called,
        "ownerReferences": [controller_reference(dict(owner, kind=owner_kind), view.options.profile)],
    }
    found = parts.pop("labels", None)
    if found:
        meta["labels"] = dict(found)
    return dict({"apiVersion": view.options.profile.apinet, "kind": kind, "metadata": meta}, **parts)


def _create(work: Work, phase: int, manifest: t.Mapping[str, t.Any]) -> None:
    work.add(Step(phase, APINET, CREATE, key_of(manifest), manifest, outcome="created"))


def _patch(work: Work, phase: int, obj: Object, body: t.Mapping[str, t.Any], status: bool = False) -> None:
    work.add(Step(phase, APINET, PATCH_STATUS if status else PATCH, key_of(obj), body, uid(obj), not status))


def _remove(work: Work, phase: int, obj: Object) -> None:
    work.add(Step(phase, APINET, REMOVE, key_of(obj), {}, uid(obj), outcome="deleted"))


def _orphans(view: View) -> t.List[Work]:
    """What was made here for an object that is gone, for API servers without a garbage collector."""
    works = []
    for kind, owner_kind in ((DAEMON_SET, LOAD_BALANCER), (INSTANCE, DAEMON_SET), (NAT_TABLE, NAT_GATEWAY)):
        living = {uid(owner) for owner in view.twins(owner_kind)}
        for obj in view.twins(kind):
            owner = controller(obj)
            if owner is not None and owner.get("kind") == owner_kind and owner.get("uid") not in living and not deleting(obj):
                work = Work(view, kind, obj)
                _remove(work, SHOW, obj)
                works.append(work)
    return works


# -- instances


def instance_spec(balancer: Object) -> t.Dict[str, t.Any]:
    """The InstanceSpec of a load balancer's instances."""
    spec = dict(get(balancer, "spec", "template", "spec") or {})
    spec.update(
        type="LoadBalancer",
        loadBalancerType=get(balancer, "spec", "type"),
        networkRef=get(balancer, "spec", "networkRef"),
        ips=[entry["ip"] for entry in entries(balancer, "spec", "ips") if entry.get("ip")],
        loadBalancerPorts=items(balancer, "spec", "ports"),
    )
    return spec


def _daemon(view: View, balancer: Object) -> Work:
    work = Work(view, LOAD_BALANCER, balancer)
    called = "lb-" + name(balancer)
    template = {"metadata": get(balancer, "spec", "template", "metadata") or {}, "spec": instance_spec(balancer)}
    spec = {"nodeSelector": get(balancer, "spec", "selector"), "template": template}
    current = view.twin(DAEMON_SET, called)
    if current is None:
        _create(work, MAKE, _manifest(view, DAEMON_SET, called, balancer, LOAD_BALANCER, spec=spec))
    elif not same(get(current, "spec"), spec):
        _patch(work, MAKE, current, {"spec": {"nodeSelector": spec["nodeSelector"], "template": template}})
    return work


def _instances(view: View, daemon: Object) -> Work:
    work = Work(view, DAEMON_SET, daemon)
    template = get(daemon, "spec", "template") or {}
    selector = get(daemon, "spec", "nodeSelector")
    ours = []
    for instance in view.twins(INSTANCE):
        owner = controller(instance)
        if owner is not None and owner.get("uid") == uid(daemon):
            ours.append(instance)
        elif owner is None and selects(selector, labels(instance)) and not deleting(instance):
            references = items(instance, "metadata", "ownerReferences")
            reference = controller_reference(dict(daemon, kind=DAEMON_SET), view.options.profile)
            _patch(work, TAKE, instance, {"metadata": {"ownerReferences": references + [reference]}})
            ours.append(instance)
    spec = get(template, "spec") or {}
    plan = plan_daemon(spec, view.every(APINET, NODE), ours)
    for instance in ours:
        if name(instance) in plan.delete:
            _remove(work, FREE, instance)
        elif not deleting(instance):
            wanted = {field: spec.get(field) for field in ("ips", "loadBalancerPorts")}
            changed = {field: value or None for field, value in wanted.items() if not same(get(instance, "spec", field), value, field)}
            if changed:
                _patch(work, MAKE, instance, {"spec": changed})
    for node in plan.create_for_nodes:
        affinity = dict(spec.get("affinity") or {}, nodeAffinity=node_term(node))
        found = get(template, "metadata", "labels")
        called = "{0}-{1}".format(name(daemon), node)
        pinned = dict(spec, affinity=affinity)
        _create(work, MAKE, _manifest(view, INSTANCE, called, daemon, DAEMON_SET, labels=found, spec=pinned))
    return work


def _schedule(view: View) -> t.List[Work]:
    nodes = view.every(APINET, NODE)
    instances = view.twins(INSTANCE)
    placed = [instance for instance in instances if text(instance, "spec", "nodeRef", "name")]
    works = []
    for instance in instances:
        if text(instance, "spec", "nodeRef", "name") or deleting(instance):
            continue
        work = Work(view, INSTANCE, instance)
        found = acceptable_nodes(instance, nodes, placed)
        if found:
            reference = {"nodeRef": {"name": found[0]}}
            _patch(work, MAKE, instance, {"spec": reference})
            placed.append(dict(instance, spec=dict(instance["spec"], **reference)))
        else:
            work.wait("out_of_capacity", "no node fits")
        works.append(work)
    return works


# -- NAT


def _gateways(view: View) -> t.List[Work]:
    """Gateways by name; one that takes an interface first is seen by the next."""
    interfaces = {name(twin): twin for twin in view.twins(NETWORK_INTERFACE)}
    scalers = {text(scaler, "spec", "natGatewayRef", "name"): scaler for scaler in view.twins(NAT_GATEWAY_AUTOSCALER)}
    works = []
    for gateway in view.twins(NAT_GATEWAY):
        if deleting(gateway):
            continue
        work = Work(view, NAT_GATEWAY, gateway)
        works.append(work)
        try:
            table = view.twin(NAT_TABLE, name(gateway))
            plan = plan_nat(gateway, list(interfaces.values()), entries(table, "ips"))
            _serve(work, gateway, interfaces, plan, table)
            _scale(work, gateway, scalers.get(name(gateway)), plan.requested)
        except ValueRefused as error:
            work.steps = []
            work.fail(error.reason, error.message)
    return works


def with_claim(interface: Object, family: str, gateway: t.Optional[Object]) -> t.Dict[str, t.Any]:
    """An interface with its claim for a family set, or taken away."""
    kept = [entry for entry in entries(interface, "spec", "natGateways") if entry.get("ipFamily") != family]
    if gateway is not None:
        kept = kept + [{"ipFamily": family, "claimRef": {"name": name(gateway), "uid": uid(gateway)}}]
    return dict(interface, spec=dict(get(interface, "spec") or {}, natGateways=kept))


def _serve(
    work: Work, gateway: Object, interfaces: t.Dict[str, t.Dict[str, t.Any]], plan: NatPlan, table: t.Optional[Object]
) -> None:
    family = text(gateway, "spec", "ipFamily")
    for called, claim in plan.claims.items():
        before = claim_of(interfaces[called], family)
        if claim == before:
            continue
        interfaces[called] = with_claim(interfaces[called], family, gateway if claim == uid(gateway) else None)
        claims = interfaces[called]["spec"]["natGateways"] or None
        _patch(work, TAKE if claim else FREE, interfaces[called], {"spec": {"natGateways": claims}})
    if table is None:
        _create(work, TABLE, _manifest(work.view, NAT_TABLE, name(gateway), gateway, NAT_GATEWAY, ips=plan.table))
    elif not same(get(table, "ips"), plan.table, "ips"):
        _patch(work, TABLE, table, {"ips": plan.table})
    status = {"usedNATIPs": plan.used, "requestedNATIPs": plan.requested}
    if any(get(gateway, "status", field) != value for field, value in status.items()):
        _patch(work, SHOW, gateway, {"status": status}, True)


def _scale(work: Work, gateway: Object, scaler: t.Optional[Object], requested: int) -> None:
    if scaler is None or deleting(scaler):
        return
    ips = entries(gateway, "spec", "ips")
    limits = (get(scaler, "spec", "minPublicIPs") or 0, get(scaler, "spec", "maxPublicIPs"))
    wanted = desired_addresses(get(gateway, "spec", "portsPerNetworkInterface"), len(ips), requested, *limits)
    if wanted < len(ips):
        _patch(work, MAKE, gateway, {"spec": {"ips": ips[:wanted] or None}})
    elif wanted > len(ips):
        known = {entry.get("name") for entry in ips}
        free = (called for called in ("ip-{0}".format(number) for number in range(len(ips) + wanted + 1)) if called not in known)
        added = [{"name": next(free)} for _number in range(wanted - len(ips))]
        _patch(work, MAKE, gateway, {"spec": {"ips": ips + added}})


def _stale_claims(view: View) -> t.List[Work]:
    """Claims of gateways that are gone, or are other objects now."""
    living = {uid(gateway) for gateway in view.twins(NAT_GATEWAY)}
    works = []
    for interface in view.twins(NETWORK_INTERFACE):
        claims = entries(interface, "spec", "natGateways")
        kept = [entry for entry in claims if text(entry, "claimRef", "uid") in living]
        if len(kept) != len(claims):
            work = Work(view, NETWORK_INTERFACE, interface)
            _patch(work, FREE, interface, {"spec": {"natGateways": kept or None}})
            works.append(work)
    return works
