# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guards and substitutes while a table of nftables changes, so that no packet under way finds nothing (kubespan 17.2).

A transaction is atomic for the rules of one chain. It is not for a look into a set of ranges (see Guard), not for a look into a set
or map that is written in a rule, and not for a packet that passes two chains, one before and one after it (see Substitutes). All are covered by
two more transactions around it.
"""

from __future__ import annotations

import re
import typing as t

from .._values.prefix_sets import Span, Spans, intersection, merged

Data = dict[str, t.Any]
Step = dict[str, t.Any]
#: A list of statements.
Rule = list[Data]


class Delta(t.NamedTuple):
    """Elements to delete, then elements to add, in one transaction; both are ranges as the kernel has them."""

    delete: list[Span]
    add: list[Span]

    def __bool__(self) -> bool:
        return bool(self.delete or self.add)


def guard_name(name: str) -> str:
    """The guard of a set; one that is found is left over from a run that was killed, and goes like any set too many."""
    return name + "_kept"


class Guard:
    """Addresses that stay in a set while the range that holds them is exchanged for another (kubespan 17.2).

    Linux up to 6.18 looks an address up in a set of ranges by the nearest start at or below it, and sees starts that are being
    added or removed: while a transaction commits, an address is in neither when its range gets another start. The transaction is
    atomic for rules, not for such a lookup, and a packet to that address would miss its mark. Hence three transactions: the
    addresses that stay go into a small set of their own, asked right after the first by copies of the rules; the ranges change;
    the guard goes. Each alone is safe, since none changes a range that covers an address which only it covers.
    Where nothing has to be guarded, its steps are none.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[t.Mapping[str, t.Any], Spans]] = {}

    def keep(self, form: t.Mapping[str, t.Any], delta: Delta) -> None:
        """Note what of a set (``{name, type, flags}``) is deleted as one range and added as another."""
        kept = intersection(merged(delta.delete), merged(delta.add))
        if kept:
            self._kept[form["name"]] = (form, kept)

    def names(self) -> list[str]:
        """Names of the sets that ``before`` makes."""
        return [guard_name(name) for name in self._kept]

    def rules(self, rules: t.Iterable[Rule]) -> list[Rule]:
        """Rules, each that asks a guarded set followed by a copy that asks its guard. The rules must bear being run twice."""
        if not self._kept:
            return list(rules)
        result: list[Rule] = []
        for rule in rules:
            result.append(rule)
            if self._asks(rule):
                result.append(
                    [dict(item, set=guard_name(item["set"])) if self._is_question(item) else item for item in rule]
                )
        return result

    def before(self, sets: t.Container[str], chains: t.Iterable[t.Mapping[str, t.Any]]) -> list[Step]:
        """The first transaction: guards are made and asked. sets, chains: those of the table as it was read.

        A chain with rules that cannot be encoded stays; it differs from the desired one and is made anew in the second.
        """
        if not self._kept:
            return []
        old = [name for name in self.names() if name in sets]
        flush: list[Step] = []
        fill: list[Step] = []
        for chain in chains:
            rules = [rule for rule in chain["rules"] if not any(_asked(item) in old for item in rule)]
            touched = len(rules) < len(chain["rules"]) or any(self._asks(rule) for rule in rules)
            if touched and not any("unknown" in item for rule in rules for item in rule):
                flush.append({"op": "flush_chain", "chain": chain["name"]})
                fill.extend({"op": "add_rule", "chain": chain["name"], "rule": rule} for rule in self.rules(rules))
        make: list[Step] = []
        for name, (form, kept) in self._kept.items():
            guard = dict(form, name=guard_name(name))
            make.extend([{"op": "new_set", "set": guard}, {"op": "add_elements", "set": guard, "spans": list(kept)}])
        return [*flush, *({"op": "delete_set", "set": name} for name in old), *make, *fill]

    def after(self, chains: t.Iterable[t.Mapping[str, t.Any]]) -> list[Step]:
        """The last transaction: nobody asks the guards any more, and they go. chains: the desired ones."""
        if not self._kept:
            return []
        steps: list[Step] = []
        for chain in chains:
            if any(self._asks(rule) for rule in chain["rules"]):
                steps.append({"op": "flush_chain", "chain": chain["name"]})
                steps.extend({"op": "add_rule", "chain": chain["name"], "rule": rule} for rule in chain["rules"])
        return [*steps, *({"op": "delete_set", "set": name} for name in self.names())]

    def _asks(self, rule: Rule) -> bool:
        return any(self._is_question(item) for item in rule)

    def _is_question(self, item: t.Mapping[str, t.Any]) -> bool:
        return _asked(item) in self._kept


def _asked(item: t.Mapping[str, t.Any]) -> str | None:
    return item.get("set") if item.get("match") == "daddr" else None


#: Names of devices and comments are no statements, whatever they are.
_QUOTED = re.compile(r'"[^"]*"', re.ASCII)
_SET_NAME = re.compile(r"@([A-Za-z0-9_.-]+)", re.ASCII)
#: What a rule that runs twice does twice. A rule of nft's own text with any of these has no copy.
_NOT_TWICE = re.compile(
    r"\b(counter|quota|limit|log|queue|dup|fwd|add|update|delete|set|last|notrack|synproxy|tproxy|jump|goto)\b",
    re.ASCII,
)


def asks_own_set(texts: t.Iterable[str]) -> bool:
    """Whether a rule, as nft's text, looks into a set or map of its own: ``ip saddr { ... } drop``, ``snat ip prefix to ip saddr map { ... }``."""
    return any("{" in _QUOTED.sub("", text) for text in texts)


def bears_a_copy(texts: t.Iterable[str]) -> bool:
    """Whether rules, as nft's text, do the same when they are run twice."""
    return not any(_NOT_TWICE.search(_QUOTED.sub("", text)) for text in texts)


class Substitutes:
    """Chains alongside those that are made or filled anew, while the new ones take over.

    The new chain has no rules before the transaction and the old one none after it. A packet that passes the place of the new
    chain before and that of the old one after it would meet no rule at all. The copy has its rules all the time. Its rules must
    bear being run alongside the others, as those of Guard.

    A chain needs one too when it is only filled anew, where its rules have sets or maps of their own: the transaction takes the elements of the
    former maps away at once, also from a packet that still walks the former rules, and fills the new sets of ranges a moment after the new rules
    hold. Such a packet would find nothing: it would leave without its translation, or although a rule drops it.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._moved: list[str] = []
        self._given: list[tuple[Data, list[t.Any]]] = []
        self._made: list[str] = []

    def keep_given(self, chain: t.Mapping[str, t.Any]) -> None:
        """Note a chain. Its substitute has the rules that are desired, at the place that is desired: those as read are nft's text, which
        nft may not take again."""
        form = {key: chain.get(key) for key in ("name", "type", "hook", "priority", "policy")}
        self._given.append((form, list(chain["rules"])))

    def keep(self, name: str) -> None:
        """Note that a chain is made anew."""
        self._moved.append(name)

    def before(
        self, chains: t.Mapping[str, t.Mapping[str, t.Any]], lasting: t.Container[str], guard: Guard
    ) -> list[Step]:
        """The copies. chains: those of the table as it was read. lasting: names of the sets that the change does not delete.

        A chain has none where its rules cannot be encoded or ask a set that goes, or where it is empty or no chain of a hook.
        """
        steps: list[Step] = []
        for name in self._moved:
            chain = chains[name]
            copied = [item for rule in chain["rules"] for item in rule]
            if not copied or not chain.get("hook") or chain.get("device") or any("unknown" in item for item in copied):
                continue
            if not all(_asked(item) is None or _asked(item) in lasting for item in copied):
                continue
            form = {key: chain.get(key) for key in ("type", "hook", "priority", "policy")}
            steps.extend(self._made_as(dict(form, name=name), guard.rules(chain["rules"]), chains))
        for form, rules in self._given:
            if all(name in lasting for rule in rules for name in _SET_NAME.findall(rule)):
                steps.extend(self._made_as(form, rules, chains))
        return steps

    def _made_as(self, form: Data, rules: t.Iterable[t.Any], chains: t.Container[str]) -> list[Step]:
        free = substitute_name(form["name"])
        while free in chains:  # left over from a run that was killed; it goes like any chain too many
            free = substitute_name(free)
        self._made.append(free)
        made: list[Step] = [{"op": "new_chain", "chain": dict(form, name=free), "owner": self._owner}]
        return [*made, *({"op": "add_rule", "chain": free, "rule": rule} for rule in rules)]

    def after(self) -> list[Step]:
        """Their end."""
        return [
            {"op": operation, "chain": name} for name in self._made for operation in ("flush_chain", "delete_chain")
        ]


def substitute_name(name: str) -> str:
    """The substitute of a chain."""
    return name + "_stays"
