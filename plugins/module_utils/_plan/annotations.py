# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired annotations against those that the objects of one cluster have. Pure."""

from __future__ import annotations

import re
import typing as t

from .._values.refused import ValueRefused, quoted
from .budget import check_budget
from .objects import owners
from .plan import Pending, Plan, is_pending

#: What the API server allows for all annotations of one object together.
MAX_BYTES = 256 * 1024

_KEY = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")

#: Annotations of one object: key -> value. A value may be Pending.
Annotations = t.Mapping[str, t.Any]


class Patch(t.NamedTuple):
    """One write: the object's name and uid, and key -> value, or None to remove it.

    ``taken``: keys that others are on record for, and that we alone own afterwards. ``given_up``: keys that stay as they are, and that we own no longer.
    """

    name: str
    uid: str | None
    values: dict[str, str | None]
    taken: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()


class Pattern:
    """Keys that belong to a capability: a whole key, or one with a single ``*`` for a part without slash.

    ``*.wireguard.semaphore.uw.io/pubKey`` and ``kilo.squat.ai/*`` are patterns; a bare ``*`` is refused, for it would
    own everybody's keys.
    """

    def __init__(self, text: t.Any) -> None:
        literal = text.replace("*", "", 1) if isinstance(text, str) else ""
        if "*" in literal or len(literal) < 3 or "/" not in literal or not re.match(r"[A-Za-z0-9._/-]+\Z", literal):
            raise ValueRefused("pattern_invalid", f"{quoted(text)} is no pattern of annotation keys")
        self._match = re.compile(re.escape(text).replace(r"\*", "[A-Za-z0-9._-]+") + r"\Z").match

    def __call__(self, key: str) -> bool:
        return self._match(key) is not None


def check_annotations(desired: Annotations) -> dict[str, t.Any]:
    """Keys and values as they are sent. Raises ``annotation_invalid``; numbers and booleans become text."""
    checked: dict[str, t.Any] = {}
    size = 0
    for key, value in desired.items():
        if not isinstance(key, str) or not _KEY.match(key):
            raise ValueRefused("annotation_invalid", f"{quoted(key)} is no annotation key")
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, (int, float)):
            value = str(value)
        if not isinstance(value, (str, Pending)):
            raise ValueRefused("annotation_invalid", f"the value of {key} is no text")
        size += len(key) + len(str(value).encode("utf-8", "surrogatepass"))
        checked[key] = value
    if size > MAX_BYTES:
        raise ValueRefused("annotation_invalid", f"more than {MAX_BYTES} bytes of annotations")
    return checked


def plan_annotations(
    cluster: str,
    desired: t.Mapping[str, Annotations],
    objects: t.Mapping[str, t.Mapping[str, t.Any]],
    manager: str,
    patterns: t.Sequence[t.Callable[[str], t.Any]] = (),
    state: str = "present",
    purge_all: bool = False,
    adopt: bool = False,
    check: bool = False,
    max_deletes: int | None = None,
    confirm_empty: bool = False,
    whole: bool = False,
) -> tuple[Plan, list[Patch]]:
    """One patch for every object that differs (semaphore 3.4); ``objects`` are Nodes by name, as listed.

    A key with another value that only other field managers own is refused as ``adoptable``, unless ``adopt``, which makes us the only owner of every
    desired key, also where nothing differs (decision 54). Keys
    that match one of ``patterns`` (a Pattern, or any function of a key), are owned and are not desired are removed, on the named
    objects or, with ``purge_all``, on all.
    ``absent`` removes the named keys (and those of the patterns) of the named objects. Pending values are shown in check
    mode and refused as ``value_pending`` otherwise.

    ``whole``: the keys of one object belong together. Where others own one of them, nothing is written alongside it without ``adopt``.
    """
    plan = Plan()
    patches: list[Patch] = []
    removed = owned = kept = 0
    for name in sorted(set(desired) | (set(objects) if purge_all else set())):
        label = f"{cluster}/{name}"
        obj = objects.get(name)
        if obj is None:
            if state == "present" and desired[name]:
                plan.refuse(label, "no_such_node", "the cluster has no node of this name")
            continue
        try:
            values = check_annotations(desired.get(name, {}))
        except ValueRefused as refused:
            plan.refuse(label, refused.reason, refused.message)
            continue
        actual = obj["metadata"].get("annotations") or {}
        changes: dict[str, t.Any] = {}
        theirs = (
            _theirs(obj, {*values, *(key for key in actual if any(match(key) for match in patterns))}, manager)
            if whole or adopt
            else []
        )
        for key in sorted(values):
            if state == "absent" or actual.get(key) == values[key]:
                continue
            if whole and theirs and not adopt:
                changes[key] = values[key]  # refused below, in one sentence
                continue
            if is_pending(values[key]) and not check:
                plan.refuse(label, "value_pending", f"{key} is not known yet: {values[key]}")
            elif key in actual and not _may_change(plan, label, obj, key, manager, adopt):
                continue
            else:
                changes[key] = values[key]
        kept += 0 if state == "absent" else len(values)
        doomed = set(values) if state == "absent" else set()
        doomed |= {key for key in actual if key not in values and any(match(key) for match in patterns)}
        for key in sorted(doomed & set(actual)):
            mine = _is_mine(obj, key, manager)
            owned += mine
            if mine or adopt:
                changes[key] = None
                removed += 1
            elif state == "absent" and key in values:
                _may_change(plan, label, obj, key, manager, adopt)
        if whole and theirs and not adopt:
            if any(value is not None for value in changes.values()):
                _left_alone(plan, label, obj, theirs)
            changes = {key: value for key, value in changes.items() if value is None}
        taken = tuple(key for key in theirs if key in values) if adopt and state == "present" else ()
        if changes or taken:
            patches.append(Patch(name, obj["metadata"].get("uid"), changes, taken))
        elif name in desired:
            plan.unchanged += 1
    if state == "present":
        owned += (
            sum(_is_mine(objects[n], key, manager) for n in desired if n in objects for key in desired[n])
            if removed
            else 0
        )
        refusal = check_budget(cluster, "annotations", owned, removed, kept, max_deletes, confirm_empty)
        if refusal:
            plan.refused.append(refusal)
            patches = [p._replace(values={k: v for k, v in p.values.items() if v is not None}) for p in patches]
            patches = [patch for patch in patches if patch.values or patch.taken]
    for patch in patches:
        actual = objects[patch.name]["metadata"].get("annotations") or {}
        before = {key: actual[key] for key in patch.values if key in actual}
        after = {key: value for key, value in patch.values.items() if value is not None}
        sides: tuple[dict[str, t.Any], dict[str, t.Any]] = ({"annotations": before}, {"annotations": after})
        if patch.taken:
            names = {
                name for key in patch.taken for name in owners(objects[patch.name], "metadata", "annotations", key)
            } - {manager}
            sides[0]["owner"], sides[1]["owner"] = ", ".join(sorted(names)), manager
        plan.update("node", f"{cluster}/{patch.name}", *sides)
    return plan, patches


def plan_release(
    cluster: str,
    desired: t.Mapping[str, Annotations],
    objects: t.Mapping[str, t.Mapping[str, t.Any]],
    manager: str,
    patterns: t.Sequence[t.Callable[[str], t.Any]] = (),
) -> tuple[Plan, list[Patch]]:
    """What gives up the named keys, and those of the patterns, of the named objects: their values stay, for whoever wrote them before us."""
    plan = Plan()
    patches: list[Patch] = []
    for name in sorted(set(desired) & set(objects)):
        obj = objects[name]
        actual = obj["metadata"].get("annotations") or {}
        keys = {key for key in actual if key in desired[name] or any(match(key) for match in patterns)}
        mine = tuple(sorted(key for key in keys if manager in owners(obj, "metadata", "annotations", key)))
        if not mine:
            plan.unchanged += 1
            continue
        patches.append(Patch(name, obj["metadata"].get("uid"), {}, (), mine))
        values = {key: actual[key] for key in mine}
        plan.update(
            "node",
            f"{cluster}/{name}",
            {"annotations": values, "owner": manager},
            {"annotations": values, "owner": None},
        )
    return plan, patches


def _is_mine(obj: t.Mapping[str, t.Any], key: str, manager: str) -> bool:
    if not obj["metadata"].get("managedFields"):
        # The server does not track who writes objects that were made without any field or before it tracked at all;
        # refusing there would refuse for ever, our own keys too. The key itself, which the caller owns, has to do.
        return True
    return manager in owners(obj, "metadata", "annotations", key)


def _theirs(obj: t.Mapping[str, t.Any], keys: t.Iterable[str], manager: str) -> list[str]:
    """Those of the keys, sorted, that somebody else owns."""
    actual = obj["metadata"].get("annotations") or {}
    return sorted(key for key in keys if key in actual and not _is_mine(obj, key, manager))


def _left_alone(plan: Plan, label: str, obj: t.Mapping[str, t.Any], theirs: t.Sequence[str]) -> None:
    names = sorted({name for key in theirs for name in owners(obj, "metadata", "annotations", key)})
    plan.refuse(
        label,
        "adoptable",
        "{0}{1} was written by {2}; nothing is written alongside it, set adopt to take the annotations over".format(
            theirs[0],
            f" and {len(theirs) - 1} more" if len(theirs) > 1 else "",
            quoted(", ".join(names[:3])) if names else "somebody else",
        ),
    )


def _may_change(plan: Plan, label: str, obj: t.Mapping[str, t.Any], key: str, manager: str, adopt: bool) -> bool:
    if adopt or _is_mine(obj, key, manager):
        return True
    names = owners(obj, "metadata", "annotations", key)
    plan.refuse(
        label,
        "adoptable",
        "{0} was written by {1}; it is left alone, set adopt to take it over".format(
            key, quoted(", ".join(names[:3])) if names else "somebody else"
        ),
    )
    return False
