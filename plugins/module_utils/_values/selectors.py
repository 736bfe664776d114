# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes label selectors: equality, sets, existence, comma as and (semaphore 4.1)."""

from __future__ import annotations

import re
import typing as t

from .refused import ValueRefused, quoted
from .text import BLANKS

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")
_PREFIX = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*\Z")
_TOKEN = re.compile(r"\s*(==|!=|=|!|<|>|,|\(|\)|[^\s=!<>,()]+)", re.ASCII)
#: Selectors are short; a longer text is no selector.
_LONGEST = 4096


class Requirement(t.NamedTuple):
    """One term: ``operator`` is in, notin, exists, absent, gt or lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: t.Mapping[str, str]) -> bool:
        """Whether an object's labels satisfy this term. ``notin`` is also true of a missing label."""
        value = labels.get(self.key)
        if self.operator == "exists":
            return value is not None
        if self.operator == "absent":
            return value is None
        if self.operator == "in":
            return value in self.values
        if self.operator == "notin":
            return value not in self.values
        if value is None or not re.match(r"[+-]?[0-9]{1,19}\Z", value):
            return False
        return int(value) > int(self.values[0]) if self.operator == "gt" else int(value) < int(self.values[0])


def parse_selector(text: object, reason: str = "selector_syntax") -> list[Requirement]:
    """The terms of a selector; an empty text has none and matches everything."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ValueRefused(reason, f"{quoted(text)} is not a label selector")
    return _Parser(text, reason).all()


def matches(requirements: t.Iterable[Requirement], labels: t.Mapping[str, str] | None) -> bool:
    """True when every term holds."""
    return all(requirement.matches(labels or {}) for requirement in requirements)


def unmet(requirements: t.Iterable[Requirement], labels: t.Mapping[str, str] | None) -> str:
    """The terms that do not hold, as text that can be parsed again; empty where all do."""
    return ",".join(_text(one) for one in requirements if not one.matches(labels or {}))


def _text(term: Requirement) -> str:
    if term.operator in ("exists", "absent"):
        return ("!" if term.operator == "absent" else "") + term.key
    if term.operator in ("gt", "lt"):
        return term.key + (">" if term.operator == "gt" else "<") + term.values[0]
    if len(term.values) == 1:
        return term.key + ("=" if term.operator == "in" else "!=") + term.values[0]
    return f"{term.key} {term.operator} ({','.join(term.values)})"


class _Parser:
    def __init__(self, text: str, reason: str) -> None:
        self._text, self._reason = text, reason
        self._tokens = self._split(text.rstrip(BLANKS))
        self._at = 0

    def _split(self, text: str) -> list[str]:
        tokens, position = [], 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            if not found:
                raise self._bad()
            tokens.append(found.group(1))
            position = found.end()
        return tokens

    def _bad(self) -> ValueRefused:
        return ValueRefused(self._reason, f"{quoted(self._text)} is not a label selector")

    def _next(self) -> str | None:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        self._at += 1
        return token

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def all(self) -> list[Requirement]:
        terms: list[Requirement] = []
        while self._peek() is not None:
            terms.append(self._term())
            comma = self._next()
            if comma is None:
                break
            if comma != "," or self._peek() is None:
                raise self._bad()
        return terms

    def _term(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._key(), "absent")
        key = self._key()
        operator = self._peek()
        if operator in (None, ","):
            return Requirement(key, "exists")
        self._next()
        if operator in ("=", "==", "!="):
            return Requirement(key, "notin" if operator == "!=" else "in", (self._value(),))
        if operator in ("<", ">"):
            number = self._next() or ""
            if not re.match(r"[0-9]{1,19}\Z", number):
                raise self._bad()
            return Requirement(key, "gt" if operator == ">" else "lt", (number,))
        if operator in ("in", "notin"):
            return Requirement(key, operator, self._values())
        raise self._bad()

    def _key(self) -> str:
        key = self._next() or ""
        prefix, slash, name = key.rpartition("/")
        if not _NAME.match(name) or (slash and not (len(prefix) <= 253 and _PREFIX.match(prefix))):
            raise self._bad()
        return key

    def _value(self) -> str:
        if self._peek() in (None, ","):
            return ""
        value = self._next() or ""
        if not _NAME.match(value):
            raise self._bad()
        return value

    def _values(self) -> tuple[str, ...]:
        if self._next() != "(":
            raise self._bad()
        values = []
        while True:
            value = "" if self._peek() in (",", ")") else self._value()
            values.append(value)
            token = self._next()
            if token == ")":
                return tuple(sorted(set(values)))
            if token != ",":
                raise self._bad()
