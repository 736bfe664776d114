# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that a plan needs and that exist only after an earlier step of it was applied (decision 31)."""

from __future__ import annotations

import typing as t


class Pending:
    """A deferred value, such as the public key of a host that has not made its key yet.

    It is shown as text in diffs and travels in JSON as ``{"__pending__": text}``, which no remote side can send in
    place of a string, because parsers take strings only.
    """

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what

    def __str__(self) -> str:
        return "({0}, known after apply)".format(self.what)

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
