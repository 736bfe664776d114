# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory in the making: what upstream programs have configured of clusters and of the fabric, what became of each of their keys, what is left to fill in.

Only values that their parser accepted get here, never a text that was not understood: so nothing that is secret, or a template, comes along by chance.
"""

from __future__ import annotations

import re
import typing as t

from .._plan.plan import Refusal
from .._values.refused import ValueRefused
from .._values.text import lower
from .programs import UNKNOWN, Program
from .workloads import shown

#: A cluster has a handful of neighbours, a program tens of keys. More is no configuration.
MOST_CLUSTERS, MOST_ROWS = 256, 2000
_SEPARATORS = re.compile(r"[^a-z0-9]+")


class Vault(str):
    """A template that names a variable of a vault; any other text is data."""


class Row(t.NamedTuple):
    """What becomes of one key, as the module returns it: ``fate`` as in programs, then the variables that have the same meaning here."""

    program: str
    where: str
    key: str
    fate: str
    variables: tuple[str, ...]
    remark: str


class Proposal:
    """``clusters`` variables by cluster; ``fabric`` those of all; ``secrets`` variable of a vault -> where its value is now."""

    def __init__(self, reachable: t.Iterable[str] = ()) -> None:
        self.reachable = frozenset(reachable)
        self.clusters: dict[str, dict[str, t.Any]] = {}
        self.fabric: dict[str, t.Any] = {}
        self.secrets: dict[str, str] = {}
        self.rows: list[Row] = []
        self.findings: list[Refusal] = []
        self._said: dict[tuple[str, str], str] = {}

    def cluster(self, name: str) -> dict[str, t.Any]:
        """The variables of a cluster, which is one from now on. Raises ValueRefused where there are too many."""
        if name not in self.clusters and len(self.clusters) >= MOST_CLUSTERS:
            raise ValueRefused("too_many", f"there are more than {MOST_CLUSTERS} clusters")
        return self.clusters.setdefault(name, {})

    def say(self, cluster: str | None, variable: str, value: t.Any, where: str) -> None:
        """A variable of a cluster, or of the fabric (None). Where two programs say different things, the first stays and the other is named."""
        held = self.fabric if cluster is None else self.cluster(cluster)
        if variable not in held:
            held[variable] = value
            self._said[cluster or "", variable] = where
        elif held[variable] != value:
            text = "it has another {0}{1} than {2}, which the proposal has"
            self.find(
                where,
                "differs",
                text.format(variable, " of " + cluster if cluster else "", self._said[cluster or "", variable]),
            )

    def add(self, cluster: str | None, variable: str, values: t.Iterable[t.Any]) -> None:
        """Further entries of a list, without those that it has."""
        held = self.fabric if cluster is None else self.cluster(cluster)
        entries = held.setdefault(variable, [])
        entries.extend(value for value in values if value not in entries)

    def put(self, cluster: str | None, variable: str, key: str, value: t.Any, where: str) -> None:
        """One key of a variable that is a dictionary; the first value stays, as with say."""
        held = self.fabric if cluster is None else self.cluster(cluster)
        entries = held.setdefault(variable, {})
        if entries.setdefault(key, value) != value:
            self.find(where, "differs", f"it has another {variable}.{key} than another program, which the proposal has")

    def vault(self, cluster: str, what: str, place: str) -> Vault:
        """The template of a variable that a vault has to hold; place: where the value is now, as text."""
        name = _SEPARATORS.sub("_", lower(f"vault {cluster} {what}").strip())
        known = self.secrets.setdefault(name, place)
        if place not in known:
            self.secrets[name] = f"{known}; or {place}"
        return Vault("{{ " + name + " }}")

    def find(self, where: str, reason: str, message: str) -> None:
        """What somebody has to look at."""
        finding = Refusal(where, reason, message)
        if len(self.findings) < MOST_ROWS and finding not in self.findings:
            self.findings.append(finding)

    def tell(self, program: Program, where: str, name: str) -> None:
        """A key that the program was given, by its name there."""
        if len(self.rows) >= MOST_ROWS:
            return
        key = program.key(name)
        if key is None:
            row = Row(
                program.name, where, shown(name), UNKNOWN, (), "the reader does not know it: it counts for nothing here"
            )
        else:
            row = Row(program.name, where, name, key.fate, key.owned, key.remark)
        if row not in self.rows:
            self.rows.append(row)

    def checked(self, where: str, key: str, parse: t.Callable[[t.Any], t.Any], value: t.Any) -> t.Any:
        """The value as its parser has it, or None with a finding that never quotes it."""
        try:
            return parse(value)
        except ValueRefused as refused:
            self.find(where, refused.reason, f"{key} has a value that cannot be used, and is left out")
            return None
