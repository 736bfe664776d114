# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of a configuration document by their paths, and the values that may leave it: each through a strict parser, none quoted."""

from __future__ import annotations

import re
import typing as t

from .._values.addresses import parse_network
from .._values.refused import ValueRefused
from .._values.selectors import parse_selector
from .._values.text import field, is_graphic, lower, parse_object
from .programs import Program
from .proposal import MOST_CLUSTERS, Proposal

_URL = re.compile(r"https?://[A-Za-z0-9._\[\]:-]{1,300}(?:/[A-Za-z0-9._/-]{0,500})?\Z")
_PATH = re.compile(r"/[A-Za-z0-9._/@+-]{0,500}\Z")
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|ms|s|m|h))+\Z|0\Z", re.ASCII)
#: Longer texts are names of nothing.
LONGEST = 300


def names_in(program: Program, document: t.Any, prefix: str = "") -> t.Iterator[str]:
    """The path of every key of a document that the program's table has, and of the first one on the way to any other."""
    for key in document if isinstance(document, dict) else ():
        path = f"{prefix}{key}"
        value = document[key]
        inner = value if isinstance(value, list) else [value]
        below = lower(path) + ("[]." if isinstance(value, list) else ".")
        if program.key(path) is not None or not any(
            lower(name).startswith(below) for one in program.keys for name in one.names
        ):
            yield path
            continue
        for entry in inner[:MOST_CLUSTERS]:
            yield from names_in(program, entry, path + ("[]." if isinstance(value, list) else "."))


class Document:
    """One object of a configuration: values by key in any case, wrong types reported to the proposal and left out."""

    def __init__(self, fields: t.Mapping[str, t.Any], where: str, into: Proposal, path: str = "") -> None:
        self._fields, self.where, self.into, self._path = fields, where, into, path

    @classmethod
    def parse(cls, text: str, where: str, into: Proposal) -> Document | None:
        """The document of a JSON text, None with a finding where it is none."""
        try:
            return cls(parse_object(text), where, into)
        except ValueRefused as refused:  # its message quotes the text, which may hold anything
            into.find(where, refused.reason, "its configuration is no JSON object, and nothing of it is used")
            return None

    def tell(self, program: Program) -> None:
        """Every key to the proposal."""
        for name in sorted(set(names_in(program, self._fields))):
            self.into.tell(program, self.where, name)

    def value(self, key: str, parse: t.Callable[[t.Any], t.Any]) -> t.Any:
        """A value through its parser; None where it is not there, empty, or not what it should be."""
        given = field(self._fields, key)
        if given is None or given == "":
            return None
        return self.into.checked(self.where, self._path + key, parse, given)

    def below(self, key: str) -> Document:
        """The object under a key, an empty one where there is none."""
        given = field(self._fields, key)
        if given is not None and not isinstance(given, dict):
            self.into.find(self.where, "bad_type", f"{self._path}{key} is no object, and is left out")
        return Document(given if isinstance(given, dict) else {}, self.where, self.into, f"{self._path}{key}.")

    def each(self, key: str) -> list[Document]:
        """The objects of the list under a key."""
        given = field(self._fields, key)
        if given is not None and not isinstance(given, list):
            self.into.find(self.where, "bad_type", f"{self._path}{key} is no list, and is left out")
        rows = given if isinstance(given, list) else []
        if len(rows) > MOST_CLUSTERS or not all(isinstance(row, dict) for row in rows):
            self.into.find(
                self.where,
                "bad_type",
                f"{self._path}{key} has entries that are no objects, or too many: they are left out",
            )
        return [
            Document(row, self.where, self.into, f"{self._path}{key}[].")
            for row in rows[:MOST_CLUSTERS]
            if isinstance(row, dict)
        ]


def url(text: t.Any) -> str:
    """An address of a server without user, password, query or fragment: these may hold secrets."""
    if not isinstance(text, str) or not _URL.match(text):
        raise ValueRefused("bad_url", "that is no plain URL")
    return text


def path(text: t.Any) -> str:
    """An absolute path of ordinary characters."""
    if not isinstance(text, str) or not _PATH.match(text) or ".." in text:
        raise ValueRefused("bad_path", "that is no absolute path")
    return text


def network(text: t.Any) -> str:
    """A network, its host bits masked as the upstream programs do."""
    return str(parse_network(text))


def networks(values: t.Any) -> list[str]:
    """A list of networks, or one."""
    if not isinstance(values, list):
        values = [values]
    return [network(value) for value in values[:LONGEST]]


def selector(text: t.Any) -> str:
    """A label selector."""
    parse_selector(text)
    return str(text)


def duration(value: t.Any) -> t.Any:
    """How often something is done; the time itself has no use here."""
    if isinstance(value, int) and not isinstance(value, bool) or isinstance(value, str) and _DURATION.match(value):
        return value
    raise ValueRefused("bad_duration", "that is no duration")


def flag(value: t.Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueRefused("bad_type", "that is neither true nor false")
    return value


def short_text(text: t.Any) -> str:
    """A short text of visible ASCII characters."""
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST or not is_graphic(text):
        raise ValueRefused("bad_type", "that is no short text")
    return text


def number(least: int, most: int) -> t.Callable[[t.Any], int]:
    """A parser of integers in a range, also as texts of digits."""

    def parse(value: t.Any) -> int:
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueRefused("value_range", f"that is no number from {least} to {most}")
        return value

    return parse


def zones(values: t.Any) -> list[str]:
    """Names of zones, which are values of labels."""
    if not isinstance(values, list) or len(values) > 8:
        raise ValueRefused("too_many_zones", "zones are a list of eight at most")
    return [short_text(value) for value in values]
