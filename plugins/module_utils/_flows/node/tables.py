# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of nftables that an operator gives a node with its mesh: part of its one change, so undone and restored with it.

They are those of the module nft_table, ``{name, family, chains, sets}``, and carry the fabric's mark. What was confirmed stands
in the node's state; a table that is in it and is not wanted any more goes.
"""

from __future__ import annotations

import typing as t

from ..._dataplane.nft_plan import TablePlan
from ..._dataplane.parts import alias_of
from ..._linux.errors import LinuxError
from ..._linux.nftables import table as nft
from ..._linux.stats import Stats, total
from ..._mesh.kubespan.generations import Layout
from ..._mesh.kubespan.nft import FAMILY
from ..._plan.plan import Plan
from ..._values.refused import ValueRefused, quoted
from . import nft_table

Data = t.Dict[str, t.Any]
Raw = t.Mapping[str, t.Any]


def request(raw: Raw, fabric: str, state: str = "present") -> Data:
    """A table as nft_table's flow takes it."""
    unknown = sorted(set(raw) - {"name", "family", "chains", "sets"})
    if unknown:
        raise ValueRefused("bad_name", "a table has no {0}".format(quoted(unknown[0])))
    return dict(raw, family=raw.get("family") or "inet", owner=fabric, state=state)


class Tables:
    """All of one run. wanted: raw tables; previous: those confirmed before; layout: of the KubeSpan mesh, whose table is its own.

    everything: the node leaves, so tables of which no state tells go too.
    """

    def __init__(self, fabric: str, wanted: t.Sequence[Raw], previous: t.Sequence[Raw], layout: t.Optional[Layout], everything: bool) -> None:
        reserved = (FAMILY, (layout or Layout()).table_name)
        self.fabric, self.previous = fabric, list(previous)
        requests = [request(raw, fabric) for raw in wanted]
        names = [(item["family"], item["name"]) for item in requests]
        for name in names:
            if name == reserved or names.count(name) > 1:
                raise ValueRefused("bad_name", "the table {0} {1} is given twice, or that of the mesh itself".format(*name))
        gone = {(raw.get("family") or "inet", raw["name"]) for raw in previous}
        if everything:
            gone.update(_left_over(fabric))
        requests += [request({"family": family, "name": name}, fabric, "absent") for family, name in sorted(gone - set(names) - {reserved})]
        self.parts = [(desired, *self._look(desired)) for desired in map(nft_table.prepare, requests)]

    @staticmethod
    def _look(desired: Data) -> t.Tuple[Data, TablePlan]:
        actual = nft_table.gather_text(desired)
        return actual, nft_table.plan(desired, actual)

    def plan(self) -> Plan:
        """What differs; elements that are none and tables of others are refused by name."""
        todo = Plan()
        for desired, unused, planned in self.parts:
            todo.extend(planned)
            todo.refused.extend(desired["refused"])
        return todo

    def before(self) -> Data:
        """What ``put_back`` needs."""
        touched = [[desired["table"]["family"], desired["table"]["name"]] for desired, unused, planned in self.parts if planned.changed]
        return {"fabric": self.fabric, "touched": touched, "were": self.previous}

    def apply(self) -> Data:
        """Write what differs; returns stats. Raises LinuxError."""
        return total(Stats().as_dict(), *(nft_table.apply_text(*part) for part in self.parts if part[2].changed))

    def left(self) -> t.List[str]:
        """Read back: what still differs."""
        return [
            "{0} {1} {2}".format(change.action, change.kind, change.id)
            for desired, unused, planned in self.parts
            if not planned.foreign
            for change in self._look(desired)[1].changes
        ]


def _left_over(fabric: str) -> t.List[t.Tuple[str, str]]:
    """Tables with the fabric's mark; none on a host that has no nftables."""
    try:
        return [(table["family"], table["name"]) for table in nft.list_tables() if table["owner"] == alias_of(fabric)]
    except LinuxError:
        return []


def put_back(before: t.Optional[t.Mapping[str, t.Any]]) -> None:
    """The touched tables as they were confirmed before; those that were not there go. Raises LinuxError."""
    if before is None:
        return
    were = {(raw.get("family") or "inet", raw["name"]): raw for raw in before["were"]}
    for family, name in before["touched"]:
        raw = were.get((family, name))
        state = "absent" if raw is None else "present"
        nft_table.run(request(raw or {"family": family, "name": name}, before["fabric"], state), False)
