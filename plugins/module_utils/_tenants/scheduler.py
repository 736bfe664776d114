# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node an instance may run on (19.5), and which instances a daemon set wants (19.4)."""

from __future__ import annotations

import re
import typing as t

from .._values.selectors import Requirement, matches
from .fields import Object, deleting, entries, get, items, labels, name, namespace, text

_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_INTEGER = re.compile(r"-?[0-9]{1,19}\Z")
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent", "Gt": "gt", "Lt": "lt"}


def _requirements(expressions: t.Sequence[t.Mapping[str, t.Any]]) -> t.Optional[t.List[Requirement]]:
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


def _anti_terms(instance: Object) -> t.List[t.Dict[str, t.Any]]:
    return entries(instance, "spec", "affinity", "instanceAntiAffinity", _TERMS)


def acceptable_nodes(instance: Object, nodes: t.Sequence[Object], placed: t.Sequence[Object]) -> t.List[str]:
    """The nodes that fit best, by name: of those that pass every filter the ones with the fewest instances."""
    by_name = {name(node): node for node in nodes}
    hosts = [(other, by_name[text(other, "spec", "nodeRef", "name")]) for other in placed
             if text(other, "spec", "nodeRef", "name") in by_name]  # fmt: skip
    near = [(other, node) for other, node in hosts if namespace(other) == namespace(instance)]
    fitting = [node for node in nodes if node_fits(get(instance, "spec") or {}, node)]
    passing = [node for node in fitting if not _repelled(instance, node, near) and _spread(instance, node, fitting, near)]
    if not passing:
        return []
    load = dict.fromkeys(by_name, 0)
    for _other, node in hosts:
        load[name(node)] += 1
    least = min(load[name(node)] for node in passing)
    return sorted(name(node) for node in passing if load[name(node)] == least)


Hosts = t.Sequence[t.Tuple[Object, Object]]


def _repelled(instance: Object, node: Object, hosts: Hosts) -> bool:
    """Anti-affinity, both directions. Nodes without the topology label do not restrict each other."""
    for other, host in hosts:
        for term, matched in [(term, other) for term in _anti_terms(instance)] + [(term, instance) for term in _anti_terms(other)]:
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

    create_for_nodes: t.List[str]
    delete: t.List[str]


def pinned_node(instance: Object) -> str:
    """The node that an instance's affinity pins it to."""
    terms = entries(instance, "spec", "affinity", "nodeAffinity", _TERMS, "nodeSelectorTerms")
    for term in terms:
        for field in entries(term, "matchFields"):
            if field.get("key") == "metadata.name" and items(field, "values"):
                return str(items(field, "values")[0])
    return ""


def node_term(node: str) -> t.Dict[str, t.Any]:
    """The node affinity that pins an instance to a node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {_TERMS: {"nodeSelectorTerms": [{"matchFields": [field]}]}}


def plan_daemon(template: Object, nodes: t.Sequence[Object], instances: t.Sequence[Object]) -> DaemonPlan:
    """One instance on every node that the template's affinity and nodeRef allow; of several the oldest stays."""
    wanted_ref = text(template, "nodeRef", "name")
    fitting = [name(node) for node in nodes if node_fits(template, node) and wanted_ref in ("", name(node))]
    existing = {name(node) for node in nodes}
    by_node: t.Dict[str, t.List[Object]] = {}
    for instance in instances:
        if not deleting(instance):
            by_node.setdefault(text(instance, "spec", "nodeRef", "name") or pinned_node(instance), []).append(instance)
    surplus: t.List[str] = []
    for node, found in by_node.items():
        if node not in existing:
            surplus.extend(name(instance) for instance in found if not text(instance, "spec", "nodeRef", "name"))
        elif node not in fitting:
            surplus.extend(name(instance) for instance in found)
        else:
            surplus.extend(name(instance) for instance in sorted(found, key=_age)[1:])
    return DaemonPlan(sorted(node for node in fitting if not by_node.get(node)), sorted(surplus))


def _age(instance: Object) -> t.Tuple[str, str]:
    return (text(instance, "metadata", "creationTimestamp") or "9999", name(instance))
