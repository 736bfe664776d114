# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NetworkPolicies say of a source: a statement of theirs, and not what a CNI that nobody knows enforces. Pure."""

from __future__ import annotations

import typing as t

from .._values.addresses import network_span
from .._values.refused import ValueRefused
from .._values.text import is_alnum, list_of, mapping
from .causes import place_text, printable
from .facts import Data

Address = tuple[int, int]
#: (namespace, labels) of a source in the same cluster.
Source = t.Optional[tuple[str, t.Mapping[str, str]]]


def lacks_source(
    policies: t.Iterable[Data], namespace: str, labels: t.Mapping[str, str], address: Address, source: Source = None
) -> str | None:
    """Which policies select a pod and let an address in by none of their rules; None where one does, or none selects it.

    What cannot be decided from here, such as a selector of namespaces, counts as letting in.
    """
    names = []
    for obj in policies:
        spec = mapping(obj, "spec")
        if mapping(obj, "metadata").get("namespace") != namespace or not _selects(spec.get("podSelector"), labels):
            continue
        types = spec.get("policyTypes")
        if isinstance(types, list) and "Ingress" not in types:
            continue
        if any(_lets_in(rule, address, source) for rule in list_of(spec.get("ingress"))):
            return None
        names.append(printable(f"{namespace}/{mapping(obj, 'metadata').get('name')}"))
    if not names:
        return None
    return f"NetworkPolicy {', '.join(sorted(names))} selects it and names {place_text(*address)} in no rule"


class Calico(t.NamedTuple):
    """Calico's own policies of a cluster, and the global sets that they may name."""

    policies: tuple[Data, ...] = ()
    sets: tuple[Data, ...] = ()


def lacks_set(
    calico: Calico, namespace: str, labels: t.Mapping[str, str], address: Address, source: Source = None
) -> str | None:
    """Which of Calico's policies select a pod and let an address in by none of their rules, nor by the sets that these name; None as above."""
    names, lacking = [], set()
    for obj in calico.policies:
        spec, where = mapping(obj, "spec"), mapping(obj, "metadata").get("namespace")
        types = spec.get("types")
        inside = where == namespace if where else not spec.get("namespaceSelector")
        if (
            not inside
            or not _fits(spec.get("selector") or "all()", labels)
            or isinstance(types, list)
            and types
            and "Ingress" not in types
        ):
            continue
        for rule in list_of(spec.get("ingress")):
            reach = _sets_of(rule, calico.sets, address, source, bool(where))
            if reach is None:
                return None
            lacking |= reach
        names.append(printable("/".join(str(part) for part in (where, mapping(obj, "metadata").get("name")) if part)))
    if not names:
        return None
    text = f"Calico's policy {', '.join(sorted(names))} selects it and lets {place_text(*address)} in by no rule"
    if any(
        rule.get("source")
        for obj in calico.policies
        for rule in list_of(mapping(obj, "spec").get("ingress"))
        if isinstance(rule, dict)
    ):
        text += f"; the sets that it names are {', '.join(map(printable, sorted(lacking))) if lacking else 'not there'}"
    return text


def _sets_of(
    rule: t.Any, sets: t.Iterable[Data], address: Address, source: Source, namespaced: bool
) -> set[str] | None:
    """The sets that a rule names and that lack the address; None where it lets it in, or where that cannot be decided here."""
    if not isinstance(rule, dict):
        return None
    if str(rule.get("action")) in ("Deny", "Log"):
        return set()
    given = rule.get("source")
    if source is not None or not isinstance(given, dict) or set(given) - {"selector", "namespaceSelector", "nets"}:
        return None
    nets, selector = given.get("nets"), given.get("selector")
    if isinstance(nets, list) and nets and not any(_inside(text, address) for text in nets):
        return set()
    if not selector:
        return None if not given.get("namespaceSelector") else set()
    if namespaced and given.get("namespaceSelector") != "global()":
        return set()  # pods of its own cluster alone
    found = set()
    for one in sets:
        labels = mapping(mapping(one, "metadata"), "labels")
        if _fits(selector, {str(key): str(value) for key, value in labels.items()}, True):
            inside = mapping(one, "spec").get("nets")
            if not isinstance(inside, list) or any(_inside(text, address) for text in inside):
                return None
            found.add(str(mapping(one, "metadata").get("name")))
    return None if _terms(selector) is None else found


def _terms(selector: t.Any) -> dict[str, str] | None:
    """``{label: value}`` of ``a == 'b' && c == 'd'``, which is all of Calico's language that is read here; None for the rest of it."""
    found = {}
    if selector == "all()":
        return {}
    for part in selector.split("&&") if isinstance(selector, str) else [""]:
        label, sign, value = part.strip().partition(" == ")
        plain = label.replace("/", "").replace(".", "").replace("-", "").replace("_", "")
        quotes = value[:1] + value[-1:]
        if not sign or not is_alnum(plain) or len(value) < 2 or quotes not in ("''", '""') or quotes[0] in value[1:-1]:
            return None
        found[label] = value[1:-1]
    return found


def _fits(selector: t.Any, labels: t.Mapping[str, str], unknown: bool = False) -> bool:
    """Whether a selector of Calico takes these labels; ``unknown`` for one that is not understood."""
    terms = _terms(selector)
    return unknown if terms is None else all(labels.get(label) == value for label, value in terms.items())


def _selects(selector: t.Any, labels: t.Mapping[str, str]) -> bool:
    """Whether a selector takes these labels."""
    if not isinstance(selector, dict):
        return False
    if any(labels.get(str(key)) != value for key, value in mapping(selector, "matchLabels").items()):
        return False
    for row in list_of(selector.get("matchExpressions")):
        if not isinstance(row, dict):
            return False
        key, values, operator = str(row.get("key")), list_of(row.get("values")), row.get("operator")
        found = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not found.get(str(operator), False):
            return False
    return True


def _lets_in(rule: t.Any, address: Address, source: Source) -> bool:
    if not isinstance(rule, dict):
        return False
    peers = rule.get("from")
    if not peers:
        return True
    for peer in peers if isinstance(peers, list) else ():
        block = peer.get("ipBlock") if isinstance(peer, dict) else None
        if isinstance(block, dict):
            if _inside(block.get("cidr"), address) and not any(
                _inside(text, address) for text in list_of(block.get("except"))
            ):
                return True
        elif source is not None:  # pods of other clusters are in no selector
            return True
    return False


def _inside(text: t.Any, address: Address) -> bool:
    try:
        version, first, last = network_span(text)
    except ValueRefused:
        return False
    return version == address[0] and first <= address[1] <= last
