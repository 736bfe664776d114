# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network side's own work, continued: which node an instance may run on and which ones a daemon set wants, instances on nodes, NAT tables and
the autoscaler as one pass (19.4-19.7)."""

from __future__ import annotations

import re
import typing as t

from .._values.refused import ValueRefused
from .._values.selectors import Requirement, matches
from .fields import (
    Object,
    controller,
    deleting,
    entries,
    get,
    items,
    labels,
    name,
    namespace,
    replacing,
    same,
    text,
    uid,
    without_nulls,
)
from .links import controller_reference
from .nat_blocks import NatPlan, claim_of, desired_addresses, plan_nat
from .object_turn import PATCH_STATUS, ObjectTurn, Step
from .options import (
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
from .view import View

_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_INTEGER = re.compile(r"-?[0-9]{1,19}\Z")
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent", "Gt": "gt", "Lt": "lt"}


def _requirements(expressions: t.Sequence[t.Mapping[str, t.Any]]) -> list[Requirement] | None:
    """Expressions as terms; None when one of them cannot be understood, so that nothing matches."""
    found = []
    for expression in expressions:
        operator = _OPERATORS.get(text(expression, "operator"))
        values = tuple(str(value) for value in items(expression, "values"))
        if operator is None or (operator in ("in", "notin", "gt", "lt") and not values):
            return None
        if operator in ("gt", "lt") and not (len(values) == 1 and _INTEGER.match(values[0])):
            return None
        found.append(Requirement(text(expression, "key"), operator, values))
    return found


def selects(selector: t.Any, found: t.Mapping[str, t.Any]) -> bool:
    """Whether a LabelSelector matches labels. A missing one matches nothing, an empty one everything."""
    if not isinstance(selector, dict):
        return False
    terms = _requirements(entries(selector, "matchExpressions"))
    if terms is None:
        return False
    given = get(selector, "matchLabels") or {}
    return all(found.get(key) == value for key, value in given.items()) and matches(terms, found)


def node_fits(spec: Object, node: Object) -> bool:
    """The required node affinity of an InstanceSpec: terms ORed, what is inside ANDed, an empty term matches nothing."""
    required = get(spec, "affinity", "nodeAffinity", _TERMS)
    if required is None:
        return True
    for term in entries(required, "nodeSelectorTerms"):
        on_labels = _requirements(entries(term, "matchExpressions"))
        on_fields = _requirements(entries(term, "matchFields"))
        if not (on_labels or on_fields) or on_labels is None or on_fields is None:
            continue
        if matches(on_labels, labels(node)) and matches(on_fields, {"metadata.name": name(node)}):
            return True
    return False


def _anti_terms(instance: Object) -> list[dict[str, t.Any]]:
    return entries(instance, "spec", "affinity", "instanceAntiAffinity", _TERMS)


def acceptable_nodes(instance: Object, nodes: t.Sequence[Object], placed: t.Sequence[Object]) -> list[str]:
    """The nodes that fit best, by name: of those that pass every filter the ones with the fewest instances."""
    by_name = {name(node): node for node in nodes}
    hosts = [
        (other, by_name[text(other, "spec", "nodeRef", "name")])
        for other in placed
        if text(other, "spec", "nodeRef", "name") in by_name
    ]
    near = [(other, node) for other, node in hosts if namespace(other) == namespace(instance)]
    fitting = [node for node in nodes if node_fits(get(instance, "spec") or {}, node)]
    passing = [
        node for node in fitting if not _repelled(instance, node, near) and _spread(instance, node, fitting, near)
    ]
    if not passing:
        return []
    load = dict.fromkeys(by_name, 0)
    for _other, node in hosts:
        load[name(node)] += 1
    least = min(load[name(node)] for node in passing)
    return sorted(name(node) for node in passing if load[name(node)] == least)


Hosts = t.Sequence[tuple[Object, Object]]


def _repelled(instance: Object, node: Object, hosts: Hosts) -> bool:
    """Anti-affinity, both directions. Nodes without the topology label do not restrict each other."""
    for other, host in hosts:
        for term, matched in [(term, other) for term in _anti_terms(instance)] + [
            (term, instance) for term in _anti_terms(other)
        ]:
            place = labels(node).get(text(term, "topologyKey"))
            if place is None or place != labels(host).get(text(term, "topologyKey")):
                continue
            if selects(get(term, "labelSelector"), labels(matched)):
                return True
    return False


def _spread(instance: Object, node: Object, nodes: t.Sequence[Object], hosts: Hosts) -> bool:
    constraints = entries(instance, "spec", "topologySpreadConstraints")
    keys = [text(constraint, "topologyKey") for constraint in constraints]
    if any(labels(node).get(key) is None for key in keys):
        return False
    for constraint, key in zip(constraints, keys):
        selector = get(constraint, "labelSelector")
        eligible = [other for other in nodes if all(labels(other).get(each) is not None for each in keys)]
        counts = {labels(other)[key]: 0 for other in eligible}
        for other, host in hosts:
            place = labels(host).get(key)
            if place in counts and selects(selector, labels(other)):
                counts[place] += 1
        own = 1 if selects(selector, labels(instance)) else 0
        if counts[labels(node)[key]] + own - min(counts.values()) > (get(constraint, "maxSkew") or 1):
            return False
    return True


class DaemonPlan(t.NamedTuple):
    """Nodes that lack an instance, and names of instances that are too many."""

    create_for_nodes: list[str]
    delete: list[str]


def pinned_node(instance: Object) -> str:
    """The node that an instance's affinity pins it to."""
    terms = entries(instance, "spec", "affinity", "nodeAffinity", _TERMS, "nodeSelectorTerms")
    for term in terms:
        for field in entries(term, "matchFields"):
            if field.get("key") == "metadata.name" and items(field, "values"):
                return str(items(field, "values")[0])
    return ""


def node_term(node: str) -> dict[str, t.Any]:
    """The node affinity that pins an instance to a node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {_TERMS: {"nodeSelectorTerms": [{"matchFields": [field]}]}}


def plan_daemon(template: Object, nodes: t.Sequence[Object], instances: t.Sequence[Object]) -> DaemonPlan:
    """One instance on every node that the template's affinity and nodeRef allow; of several the oldest stays."""
    desired_ref = text(template, "nodeRef", "name")
    fitting = [name(node) for node in nodes if node_fits(template, node) and desired_ref in ("", name(node))]
    existing = {name(node) for node in nodes}
    by_node: dict[str, list[Object]] = {}

    def oldest(instance: Object) -> tuple[str, str]:
        return (text(instance, "metadata", "creationTimestamp") or "9999", name(instance))

    for instance in instances:
        if not deleting(instance):
            by_node.setdefault(text(instance, "spec", "nodeRef", "name") or pinned_node(instance), []).append(instance)
    surplus: list[str] = []
    for node, found in by_node.items():
        if node not in existing:
            surplus.extend(name(instance) for instance in found if not text(instance, "spec", "nodeRef", "name"))
        elif node not in fitting:
            surplus.extend(name(instance) for instance in found)
        else:
            surplus.extend(name(instance) for instance in sorted(found, key=oldest)[1:])
    return DaemonPlan(sorted(node for node in fitting if not by_node.get(node)), sorted(surplus))


READS = (LOAD_BALANCER, NAT_GATEWAY, NAT_GATEWAY_AUTOSCALER, NAT_TABLE, NETWORK_INTERFACE, DAEMON_SET, INSTANCE, NODE)

FREE, MAKE, TAKE, TABLE, SHOW = range(5)


def plan_placement(view: View) -> list[ObjectTurn]:
    """One pass over load balancers, gateways and instances. Objects of our namespace only."""
    turns = [_daemon(view, balancer) for balancer in view.twins(LOAD_BALANCER) if not deleting(balancer)]
    turns += [_instances(view, daemon) for daemon in view.twins(DAEMON_SET) if not deleting(daemon)]
    return [*turns, *_schedule(view), *_gateways(view), *_stale_claims(view), *_orphans(view)]


def _orphans(view: View) -> t.Iterator[ObjectTurn]:
    """What was made here for an object that is gone, for API servers without a garbage collector."""
    for kind, owner_kind in ((DAEMON_SET, LOAD_BALANCER), (INSTANCE, DAEMON_SET), (NAT_TABLE, NAT_GATEWAY)):
        living = {uid(owner) for owner in view.twins(owner_kind)}
        for obj in view.twins(kind):
            owner = controller(obj)
            if (
                owner is not None
                and owner.get("kind") == owner_kind
                and owner.get("uid") not in living
                and not deleting(obj)
            ):
                turn = ObjectTurn(view, kind, obj)
                turn.remove_twin(obj, SHOW)
                yield turn


def instance_spec(balancer: Object) -> dict[str, t.Any]:
    """The InstanceSpec of a load balancer's instances, without what it does not say of itself."""
    spec = dict(get(balancer, "spec", "template", "spec") or {})
    spec.update(
        type="LoadBalancer",
        loadBalancerType=get(balancer, "spec", "type"),
        networkRef=get(balancer, "spec", "networkRef"),
        ips=[entry["ip"] for entry in entries(balancer, "spec", "ips") if entry.get("ip")],
        loadBalancerPorts=items(balancer, "spec", "ports"),
    )
    return t.cast(dict[str, t.Any], without_nulls(spec))


def _daemon(view: View, balancer: Object) -> ObjectTurn:
    turn = ObjectTurn(view, LOAD_BALANCER, balancer)
    called = "lb-" + name(balancer)
    template = {"metadata": get(balancer, "spec", "template", "metadata") or {}, "spec": instance_spec(balancer)}
    spec = without_nulls({"nodeSelector": get(balancer, "spec", "selector"), "template": template})
    current = view.twin(DAEMON_SET, called)
    if current is None:
        turn.create_owned(MAKE, DAEMON_SET, called, spec=spec)
    elif not same(get(current, "spec"), spec):
        turn.patch_twin(MAKE, current, {"spec": replacing(get(current, "spec"), spec)})
    return turn


def _instances(view: View, daemon: Object) -> ObjectTurn:
    turn = ObjectTurn(view, DAEMON_SET, daemon)
    template = get(daemon, "spec", "template") or {}
    selector = get(daemon, "spec", "nodeSelector")
    owned = []
    for instance in view.twins(INSTANCE):
        owner = controller(instance)
        if owner is not None and owner.get("uid") == uid(daemon):
            owned.append(instance)
        elif owner is None and selects(selector, labels(instance)) and not deleting(instance):
            references = items(instance, "metadata", "ownerReferences")
            reference = controller_reference(dict(daemon, kind=DAEMON_SET), view.options.profile)
            turn.patch_twin(TAKE, instance, {"metadata": {"ownerReferences": references + [reference]}})
            owned.append(instance)
    spec = get(template, "spec") or {}
    plan = plan_daemon(spec, view.every(APINET, NODE), owned)
    for instance in owned:
        if name(instance) in plan.delete:
            turn.remove_twin(instance, FREE)
        elif not deleting(instance):
            desired = {field: spec.get(field) for field in ("ips", "loadBalancerPorts")}
            changed = {
                field: value or None
                for field, value in desired.items()
                if not same(get(instance, "spec", field), value, field)
            }
            if changed:
                turn.patch_twin(MAKE, instance, {"spec": changed})
    for node in plan.create_for_nodes:
        affinity = dict(spec.get("affinity") or {}, nodeAffinity=node_term(node))
        called = f"{name(daemon)}-{node}"
        turn.create_owned(
            MAKE, INSTANCE, called, labels=get(template, "metadata", "labels"), spec=dict(spec, affinity=affinity)
        )
    return turn


def _schedule(view: View) -> t.Iterator[ObjectTurn]:
    nodes = view.every(APINET, NODE)
    instances = view.twins(INSTANCE)
    placed = [instance for instance in instances if text(instance, "spec", "nodeRef", "name")]
    for instance in instances:
        if text(instance, "spec", "nodeRef", "name") or deleting(instance):
            continue
        turn = ObjectTurn(view, INSTANCE, instance)
        found = acceptable_nodes(instance, nodes, placed)
        if found:
            reference = {"nodeRef": {"name": found[0]}}
            turn.patch_twin(MAKE, instance, {"spec": reference})
            placed.append(dict(instance, spec=dict(instance["spec"], **reference)))
        else:
            turn.wait("out_of_capacity", "no node fits")
        yield turn


def _gateways(view: View) -> t.Iterator[ObjectTurn]:
    """Gateways by name; one that takes an interface first is seen by the next."""
    interfaces = {name(twin): twin for twin in view.twins(NETWORK_INTERFACE)}
    scalers = {text(scaler, "spec", "natGatewayRef", "name"): scaler for scaler in view.twins(NAT_GATEWAY_AUTOSCALER)}
    for gateway in view.twins(NAT_GATEWAY):
        if deleting(gateway):
            continue
        turn = ObjectTurn(view, NAT_GATEWAY, gateway)
        try:
            table = view.twin(NAT_TABLE, name(gateway))
            plan = plan_nat(gateway, list(interfaces.values()), entries(table, "ips"))
            _serve(turn, gateway, interfaces, plan, table)
            _scale(turn, gateway, scalers.get(name(gateway)), plan.requested)
        except ValueRefused as error:
            turn.refuse(error.reason, error.message)
        yield turn


def with_claim(interface: Object, family: str, gateway: Object | None) -> dict[str, t.Any]:
    """An interface with its claim for a family set, or taken away."""
    kept = [entry for entry in entries(interface, "spec", "natGateways") if entry.get("ipFamily") != family]
    if gateway is not None:
        kept = kept + [{"ipFamily": family, "claimRef": {"name": name(gateway), "uid": uid(gateway)}}]
    return dict(interface, spec=dict(get(interface, "spec") or {}, natGateways=kept))


def _serve(
    turn: ObjectTurn, gateway: Object, interfaces: dict[str, dict[str, t.Any]], plan: NatPlan, table: Object | None
) -> None:
    family = text(gateway, "spec", "ipFamily")
    for called, claim in plan.claims.items():
        before = claim_of(interfaces[called], family)
        if claim == before:
            continue
        interfaces[called] = with_claim(interfaces[called], family, gateway if claim == uid(gateway) else None)
        claims = interfaces[called]["spec"]["natGateways"] or None
        turn.patch_twin(TAKE if claim else FREE, interfaces[called], {"spec": {"natGateways": claims}})
    if table is None:
        turn.create_owned(TABLE, NAT_TABLE, name(gateway), ips=plan.table)
    elif not same(get(table, "ips"), plan.table, "ips"):
        turn.patch_twin(TABLE, table, {"ips": plan.table})
    status = {"usedNATIPs": plan.used, "requestedNATIPs": plan.requested}
    if any(get(gateway, "status", field) != value for field, value in status.items()):
        turn.steps.append(Step(SHOW, APINET, PATCH_STATUS, turn.key, {"status": status}, uid(gateway)))


def _scale(turn: ObjectTurn, gateway: Object, scaler: Object | None, requested: int) -> None:
    if scaler is None or deleting(scaler):
        return
    ips = entries(gateway, "spec", "ips")
    limits = (get(scaler, "spec", "minPublicIPs") or 0, get(scaler, "spec", "maxPublicIPs"))
    desired = desired_addresses(get(gateway, "spec", "portsPerNetworkInterface"), len(ips), requested, *limits)
    if desired < len(ips):
        turn.patch_twin(MAKE, gateway, {"spec": {"ips": ips[:desired] or None}})
    elif desired > len(ips):
        known = {entry.get("name") for entry in ips}
        free = (
            called for called in (f"ip-{number}" for number in range(len(ips) + desired + 1)) if called not in known
        )
        added = [{"name": next(free)} for _number in range(desired - len(ips))]
        turn.patch_twin(MAKE, gateway, {"spec": {"ips": ips + added}})


def _stale_claims(view: View) -> t.Iterator[ObjectTurn]:
    """Claims of gateways that are gone, or are other objects now."""
    living = {uid(gateway) for gateway in view.twins(NAT_GATEWAY)}
    for interface in view.twins(NETWORK_INTERFACE):
        claims = entries(interface, "spec", "natGateways")
        kept = [entry for entry in claims if text(entry, "claimRef", "uid") in living]
        if len(kept) != len(claims):
            turn = ObjectTurn(view, NETWORK_INTERFACE, interface)
            turn.patch_twin(FREE, interface, {"spec": {"natGateways": kept or None}})
            yield turn
