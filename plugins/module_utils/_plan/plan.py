# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one result that every module returns: what would change, what was refused and why; as text the same bytes for the same plan."""

from __future__ import annotations

import typing as t

CREATE, UPDATE, DELETE = "create", "update", "delete"
#: A result carries at most so many changes; the counts are always complete (decision 49).
SHOWN_CHANGES = 200


class Pending:
    """A value that exists only after an earlier step of the plan was applied (decision 31): the public key of a host that has made none yet.

    It is shown as text in diffs and travels in JSON as ``{"__pending__": text}``, which no remote side can send in
    place of a string, because parsers take strings only.
    """

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what

    def __str__(self) -> str:
        return f"({self.what}, known after apply)"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pending) and other.what == self.what

    def __hash__(self) -> int:
        return hash((Pending, self.what))


def to_wire(value: t.Any) -> t.Any:
    """Replace every Pending in plain data by its JSON form."""
    if isinstance(value, Pending):
        return {"__pending__": value.what}
    if isinstance(value, dict):
        return {key: to_wire(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_wire(item) for item in value]
    return value


def from_wire(value: t.Any) -> t.Any:
    """The inverse of to_wire."""
    if isinstance(value, dict):
        if set(value) == {"__pending__"}:
            return Pending(str(value["__pending__"]))
        return {key: from_wire(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [from_wire(item) for item in value]
    return value


def is_pending(value: t.Any) -> bool:
    """True when the value, or anything inside it, is still to come."""
    if isinstance(value, Pending):
        return True
    if isinstance(value, dict):
        return any(is_pending(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(is_pending(item) for item in value)
    return False


class Refusal(t.NamedTuple):
    """One object that was left out. ``object`` names it (``gcp/gcp-node-1``), ``reason`` is a reason."""

    object: str
    reason: str
    message: str


class Change(t.NamedTuple):
    """One write. ``before`` and ``after`` are plain data (None: absent); secrets appear as fingerprints only."""

    action: str
    kind: str
    id: str
    before: t.Any
    after: t.Any

    @property
    def fields(self) -> list[str]:
        """Names of the top-level fields that differ."""
        if not isinstance(self.before, dict) or not isinstance(self.after, dict):
            return []
        names = set(self.before) | set(self.after)
        return sorted(name for name in names if self.before.get(name) != self.after.get(name))


#: Kinds that keep or start the others on a node. A screen that shows the first lines of a diff shows peers and routes first.
SERVING = frozenset(("file", "folder", "identity", "key", "secret", "unit"))


class Plan:
    """Changes in the order in which they are applied, refusals, and the count of what already is as desired."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.refused: list[Refusal] = []
        self.unchanged = 0
        self.warnings: list[str] = []

    def create(self, kind: str, ident: str, after: t.Any) -> None:
        self.changes.append(Change(CREATE, kind, ident, None, after))

    def update(self, kind: str, ident: str, before: t.Any, after: t.Any) -> None:
        self.changes.append(Change(UPDATE, kind, ident, before, after))

    def delete(self, kind: str, ident: str, before: t.Any) -> None:
        self.changes.append(Change(DELETE, kind, ident, before, None))

    def refuse(self, obj: str, reason: str, message: str) -> None:
        """Note an object that is left out; the rest goes on."""
        self.refused.append(Refusal(obj, reason, message))

    def extend(self, other: Plan) -> Plan:
        """Append another plan: its changes come after those of this one."""
        self.changes.extend(other.changes)
        self.refused.extend(other.refused)
        self.unchanged += other.unchanged
        self.warnings.extend(other.warnings)
        return self

    @property
    def changed(self) -> bool:
        return bool(self.changes)

    def of(self, action: str, kind: str | None = None) -> list[Change]:
        """The changes of one action (and kind), in order."""
        return [c for c in self.changes if c.action == action and kind in (None, c.kind)]

    def result(self) -> dict[str, t.Any]:
        """The keys ``changed``, ``plan`` and ``refused`` of a module's result, plain JSON."""
        plan: dict[str, t.Any] = {"unchanged": self.unchanged}
        for action in (CREATE, UPDATE, DELETE):
            plan[action] = len(self.of(action))
        plan["changes"] = [
            to_wire({"action": c.action, "kind": c.kind, "id": c.id, "fields": c.fields})
            for c in self.changes[:SHOWN_CHANGES]
        ]
        return {
            "changed": self.changed,
            "plan": plan,
            "refused": [r._asdict() for r in sorted(self.refused)],
        }

    def diff(self) -> dict[str, str]:
        """before/after texts for ``--diff``: one block a changed object, sorted by kind and name, what serves the others last."""
        sides: dict[str, list[str]] = {"before": [], "after": []}
        for change in sorted(self.changes, key=lambda c: (c.kind in SERVING, c.kind, c.id)):
            for side, value in (("before", change.before), ("after", change.after)):
                if value is not None:
                    sides[side].append(f"{change.kind} {change.id}")
                    sides[side].extend(render(value, 1))
        return {side: "".join(line + "\n" for line in lines) for side, lines in sides.items()}


def reconcile(kind: str, desired: t.Mapping[str, t.Any], actual: t.Mapping[str, t.Any]) -> Plan:
    """From one map of id -> plain data of one kind to another; creations and updates come before deletions, each sorted by id."""
    plan = Plan()
    for ident in sorted(desired):
        if ident not in actual:
            plan.create(kind, ident, desired[ident])
        elif actual[ident] == desired[ident]:
            plan.unchanged += 1
        else:
            plan.update(kind, ident, actual[ident], desired[ident])
    for ident in sorted(set(actual) - set(desired)):
        plan.delete(kind, ident, actual[ident])
    return plan


def render(value: t.Any, indent: int = 0) -> list[str]:
    """Plain data as indented ``key: value`` lines with sorted keys. Lists keep their order."""
    pad = "  " * indent
    lines: list[str] = []
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            lines.extend(_entry(pad + f"{scalar(str(key))}:", value[key], indent))
    elif isinstance(value, (list, tuple)):
        for item in value:
            lines.extend(_entry(pad + "-", item, indent))
    else:
        lines.append(pad + scalar(value))
    return lines


def _entry(head: str, value: t.Any, indent: int) -> list[str]:
    if isinstance(value, (dict, list, tuple)) and value:
        return [head] + render(value, indent + 1)
    return [f"{head} {scalar(value)}"]


def scalar(value: t.Any) -> str:
    """One value on one line; control characters in it cannot break out of it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, (list, tuple)):
        return "[]"
    text = str(value)
    return text if text.isprintable() else ascii(text)
