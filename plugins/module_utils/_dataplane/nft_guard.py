# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guard for addresses that stay in a set while the range that holds them is exchanged for another (kubespan 17.2).

Linux up to 6.18 looks an address up in a set of ranges by the nearest start at or below it, and sees starts that are being
added or removed: while a transaction commits, an address whose range gets another start is in neither. The transaction is
atomic for rules, not for such a lookup, and a packet to that address would miss its mark. Hence three transactions: the
addresses that stay go into a small set of their own, asked right after the first by copies of the rules; the ranges change;
the guard goes. Each alone is safe, since none changes a range that covers an address which only it covers.
"""

from __future__ import annotations

import typing as t

from .._values.prefix_sets import Spans, intersection, merged
from .set_delta import Delta

Step = t.Dict[str, t.Any]
Rule = t.List[t.Dict[str, t.Any]]
_SUFFIX = "_kept"


def guard_name(name: str) -> str:
    """The guard of a set; one that is found is left over from a run that was killed, and goes like any set too many."""
    return name + _SUFFIX


class Guard:
    """What has to be guarded in one change of a table; nothing at first, and then its steps are none."""

    def __init__(self) -> None:
        self._kept: t.Dict[str, t.Tuple[t.Mapping[str, t.Any], Spans]] = {}

    def keep(self, form: t.Mapping[str, t.Any], delta: Delta) -> None:
        """Note what of a set (``{name, type, flags}``) is deleted as one range and added as another."""
        kept = intersection(merged(delta.delete), merged(delta.add))
        if kept:
            self._kept[form["name"]] = (form, kept)

    def names(self) -> t.List[str]:
        """Names of the sets that ``before`` makes."""
        return [guard_name(name) for name in self._kept]

    def rules(self, rules: t.Iterable[Rule]) -> t.List[Rule]:
        """Rules, each that asks a guarded set followed by a copy that asks its guard. The rules must bear being run twice."""
        if not self._kept:
            return list(rules)
        result: t.List[Rule] = []
        for rule in rules:
            result.append(rule)
            if self._asks(rule):
                result.append([dict(item, set=guard_name(item["set"])) if self._is_question(item) else item for item in rule])
        return result

    def before(self, sets: t.Container[str], chains: t.Iterable[t.Mapping[str, t.Any]]) -> t.List[Step]:
        """The first transaction: guards are made and asked. sets, chains: those of the table as it was read.

        A chain with rules that are not ours to encode stays; it differs from the wanted one and is made anew in the second.
        """
        if not self._kept:
            return []
        old = [name for name in self.names() if name in sets]
        flush: t.List[Step] = []
        fill: t.List[Step] = []
        for chain in chains:
            rules = [rule for rule in chain["rules"] if not any(_asked(item) in old for item in rule)]
            touched = len(rules) < len(chain["rules"]) or any(self._asks(rule) for rule in rules)
            if touched and not any("unknown" in item for rule in rules for item in rule):
                flush.append({"op": "flush_chain", "chain": chain["name"]})
                fill.extend({"op": "add_rule", "chain": chain["name"], "rule": rule} for rule in self.rules(rules))
        make: t.List[Step] = []
        for name, (form, kept) in self._kept.items():
            guard = dict(form, name=guard_name(name))
            make.extend([{"op": "new_set", "set": guard}, {"op": "add_elements", "set": guard, "spans": list(kept)}])
        return [*flush, *({"op": "delete_set", "set": name} for name in old), *make, *fill]

    def after(self, chains: t.Iterable[t.Mapping[str, t.Any]]) -> t.List[Step]:
        """The last transaction: nobody asks the guards any more, and they go. chains: the wanted ones."""
        if not self._kept:
            return []
        steps: t.List[Step] = []
        for chain in chains:
            if any(self._asks(rule) for rule in chain["rules"]):
                steps.append({"op": "flush_chain", "chain": chain["name"]})
                steps.extend({"op": "add_rule", "chain": chain["name"], "rule": rule} for rule in chain["rules"])
        return [*steps, *({"op": "delete_set", "set": name} for name in self.names())]

    def _asks(self, rule: Rule) -> bool:
        return any(self._is_question(item) for item in rule)

    def _is_question(self, item: t.Mapping[str, t.Any]) -> bool:
        return _asked(item) in self._kept


def _asked(item: t.Mapping[str, t.Any]) -> t.Optional[str]:
    return item.get("set") if item.get("match") == "daddr" else None
