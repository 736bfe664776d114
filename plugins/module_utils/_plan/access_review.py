# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an access lacks of the rights that a capability needs, by the API server's own answer. Pure."""

from __future__ import annotations

import typing as t

from .access_manifests import CAPABILITIES

#: A namespace that nobody has: the answer for it holds what the access may do in all of them, and no more.
NOWHERE = "multicluster-network-nowhere"


def review() -> dict[str, t.Any]:
    """The question: what may I do?"""
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": NOWHERE}}


def missing(capability: str, answer: t.Mapping[str, t.Any]) -> list[str]:
    """``list serviceexports.multicluster.x-k8s.io`` and the like, in the order of the rules; nothing where the server does not know all.

    Rights for single names are not looked at, and neither is reading what need not be there.
    """
    status = answer.get("status")
    held = status.get("resourceRules") if isinstance(status, dict) else None
    if not isinstance(held, list) or status.get("incomplete"):  # type: ignore[union-attr]
        return []
    rules = [rule for rule in held if isinstance(rule, dict) and not rule.get("resourceNames")]
    found = []
    for needed in CAPABILITIES[capability]:
        if needed.get("resourceNames"):
            continue
        for group in needed["apiGroups"]:
            for resource in needed["resources"]:
                verbs = [
                    verb for verb in needed["verbs"] if not any(_allows(rule, group, resource, verb) for rule in rules)
                ]
                if verbs:
                    found.append(f"{','.join(verbs)} {resource + ('.' + group if group else '')}")
    return found


def _allows(rule: t.Mapping[str, t.Any], group: str, resource: str, verb: str) -> bool:
    part = resource.partition("/")[2]
    fits = _has(rule.get("resources"), resource) or bool(part) and _has(rule.get("resources"), "*/" + part)
    return fits and _has(rule.get("apiGroups"), group) and _has(rule.get("verbs"), verb)


def _has(given: t.Any, desired: str) -> bool:
    return isinstance(given, list) and (desired in given or "*" in given)
