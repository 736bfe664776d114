# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of nftables that an operator gives a node with its mesh: part of its one change, so undone and restored with it.

They are those of the module nft_table, ``{name, family, chains, sets}``, and carry the fabric's mark. What was confirmed stands
in the node's state; a table that is in it and is not desired any more goes.
"""

from __future__ import annotations

import typing as t

from ..._dataplane.nft_plan import TablePlan
from ..._dataplane.node_spec import NodeSpec, NodeState, alias_of
from ..._linux.errors import LinuxError
from ..._linux.nftables import table as nft
from ..._linux.stats import total
from ..._mesh.kubespan.generations import Layout
from ..._mesh.kubespan.nft import FAMILY
from ..._plan.plan import Plan
from ..._values.refused import ValueRefused, quoted
from . import nft_table
from .parts import Part, differing

Data = dict[str, t.Any]
Raw = t.Mapping[str, t.Any]


def request(raw: Raw, fabric: str, state: str = "present") -> Data:
    """A table as nft_table's flow takes it."""
    unknown = sorted(set(raw) - {"name", "family", "chains", "sets"})
    if unknown:
        raise ValueRefused("bad_name", f"a table has no {quoted(unknown[0])}")
    return dict(raw, family=raw.get("family") or "inet", owner=fabric, state=state)


class Tables(Part):
    """All of one run. layout: of the KubeSpan mesh, whose table is its own."""

    def __init__(self, spec: NodeSpec, previous: NodeState | None, layout: Layout | None) -> None:
        self._reserved = (FAMILY, (layout or Layout()).table_name)
        self._fabric, self._desired, self._everything = spec.fabric, spec.tables, spec.empty
        self._previous = list(previous.tables) if previous else []
        self._rows: list[tuple[Data, Data]] = []
        self._plans: list[TablePlan] = []

    def gather(self) -> Data:
        requests = [request(raw, self._fabric) for raw in self._desired]
        names = [(item["family"], item["name"]) for item in requests]
        for name in names:
            if name == self._reserved or names.count(name) > 1:
                raise ValueRefused(
                    "bad_name", "the table {0} {1} is given twice, or that of the mesh itself".format(*name)
                )
        gone = {(raw.get("family") or "inet", raw["name"]) for raw in self._previous}
        if self._everything:
            gone.update(_left_over(self._fabric))  # the node leaves, so tables of which no state tells go too
        gone -= {*names, self._reserved}
        requests += [request({"family": family, "name": name}, self._fabric, "absent") for family, name in sorted(gone)]
        prepared = [nft_table.prepare(item) for item in requests]
        self._rows = [(desired, nft_table.gather_text(desired)) for desired in prepared]
        return {}

    def plan(self) -> Plan:
        """What differs; elements that are none and tables of others are refused by name."""
        todo = Plan()
        self._plans = [nft_table.plan(*row) for row in self._rows]
        for (desired, _actual), planned in zip(self._rows, self._plans):
            todo.extend(planned)
            todo.refused.extend(desired["refused"])
        return todo

    def snapshot(self, before: Data) -> None:
        touched = [
            [row[0]["table"]["family"], row[0]["table"]["name"]]
            for row, planned in zip(self._rows, self._plans)
            if planned.changed
        ]
        before["tables"] = {"fabric": self._fabric, "touched": touched, "were": self._previous}

    def apply(self) -> Data:
        rows = zip(self._rows, self._plans)
        return total(*(nft_table.apply_text(*row, planned) for row, planned in rows if planned.changed))

    def verify(self) -> list[str]:
        return [
            text
            for desired, _actual in self._rows
            for text in differing(nft_table.plan(desired, nft_table.gather_text(desired)))
        ]


def _left_over(fabric: str) -> list[tuple[str, str]]:
    """Tables with the fabric's mark; none on a host that has no nftables."""
    try:
        return [(table["family"], table["name"]) for table in nft.list_tables() if table["owner"] == alias_of(fabric)]
    except LinuxError:
        return []


def put_back(before: t.Mapping[str, t.Any] | None) -> None:
    """The touched tables as they were confirmed before; those that were not there go. Raises LinuxError."""
    if before is None:
        return
    were = {(raw.get("family") or "inet", raw["name"]): raw for raw in before["were"]}
    for family, name in before["touched"]:
        raw = were.get((family, name))
        state = "absent" if raw is None else "present"
        nft_table.run(request(raw or {"family": family, "name": name}, before["fabric"], state), False)
