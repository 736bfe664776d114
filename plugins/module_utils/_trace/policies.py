# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NetworkPolicies say of a source: a statement of theirs, and not what a CNI that nobody knows enforces. Pure."""

from __future__ import annotations

import typing as t

from .._values.addresses import network_span
from .._values.refused import ValueRefused
from .._values.text import mapping
from .causes import place_text, printable
from .facts import Data

Address = t.Tuple[int, int]
#: (namespace, labels) of a source in the same cluster.
Source = t.Optional[t.Tuple[str, t.Mapping[str, str]]]


def lacks_source(
    policies: t.Iterable[Data], namespace: str, labels: t.Mapping[str, str], address: Address, source: Source = None
) -> t.Optional[str]:
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
        if any(_lets_in(rule, address, source) for rule in spec.get("ingress") or ()):
            return None
        names.append(printable("{0}/{1}".format(namespace, mapping(obj, "metadata").get("name"))))
    if not names:
        return None
    return "NetworkPolicy {0} selects it and names {1} in no rule".format(", ".join(sorted(names)), place_text(*address))


def _selects(selector: t.Any, labels: t.Mapping[str, str]) -> bool:
    """Whether a selector takes these labels."""
    if not isinstance(selector, dict):
        return False
    if any(labels.get(str(key)) != value for key, value in mapping(selector, "matchLabels").items()):
        return False
    for row in selector.get("matchExpressions") or ():
        if not isinstance(row, dict):
            return False
        key, values, operator = str(row.get("key")), row.get("values") or [], row.get("operator")
        found = {"In": labels.get(key) in values, "NotIn": labels.get(key) not in values, "Exists": key in labels, "DoesNotExist": key not in labels}
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
            if _inside(block.get("cidr"), address) and not any(_inside(text, address) for text in block.get("except") or ()):
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
