# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One owned table of nftables: what has to be done to it, as the steps of one transaction (decisions 2, 32, 35; kubespan 17.2).

The table is never deleted to be made anew. Chains with other rules are emptied and filled, sets change by what differs,
a chain of another hook or a set of another type is replaced within the same transaction. What a packet under way could miss
meanwhile is kept alongside in two more transactions, see nft_guard.
"""

from __future__ import annotations

import typing as t

from .._plan.plan import Plan
from .._values.prefix_sets import Span, range_text
from .constants import is_our_alias
from .nft_guard import Data, Delta, Guard, Rule, Step, Substitutes, asks_own_set, bears_a_copy

#: A diff shows so many elements of a set; the counts are always complete.
SHOWN_ELEMENTS = 100
_BASE = ("type", "hook", "priority")
_VERSIONS = {"ipv4_addr": 4, "ipv6_addr": 6}


class TablePlan(Plan):
    """A plan and its ``steps``, one transaction, in order. ``unowned``: the table has another owner and stays.

    ``before`` and ``after``: transactions of their own around it, empty where nothing needs a guard or a substitute.
    """

    def __init__(self) -> None:
        super().__init__()
        self.before: list[Step] = []
        self.steps: list[Step] = []
        self.after: list[Step] = []
        self.unowned = False

    def transactions(self) -> list[list[Step]]:
        return [steps for steps in (self.before, self.steps, self.after) if steps]


def plan_table(
    desired: t.Mapping[str, t.Any], actual: t.Mapping[str, t.Any] | None, owner: str, adopt: bool = False
) -> TablePlan:
    """From the table as it was read to the desired one.

    desired: ``{family, name, sets: [{name, type, flags, elements: [(first, last)], external}], chains: [{name, type, hook,
    priority, policy, rules}]}``; sets and rules as kubespan_nft.table has them. An ``external`` set gets its elements only
    when it is made. A chain may have ``code``, which is then compared with that of the chain as read, instead of its rules.

    actual: of _linux.nftables.table.read_table. owner: our mark. A table without one is refused as ``adoptable`` where it has nothing
    but what we would make, else as ``not_ours``; with adopt it is taken over, and its chains are made anew (in the same
    transaction, which loses no packet) since they carry the mark from then on.
    """
    plan = TablePlan()
    ident = f"{desired['family']} {desired['name']}"
    if actual is None:
        plan.create("nftables table", ident, {"owner": owner})
        plan.steps.append({"op": "new_table", "owner": owner})
        actual = {"sets": [], "chains": [], "owner": owner}
    taking_over = not owned(actual, owner)
    if taking_over and not (adopt and actual.get("owner") is None):
        _refuse(plan, ident, desired, actual)
        return plan
    _Difference(plan, ident, desired, actual, owner, taking_over).plan()
    return plan


def plan_absent(family: str, name: str, actual: t.Mapping[str, t.Any] | None, owner: str) -> TablePlan:
    """Removing the table with all it holds; an unowned one stays and is refused as ``not_ours``."""
    plan = TablePlan()
    ident = f"{family} {name}"
    if actual is not None and not owned(actual, owner):
        plan.unowned = True
        plan.refuse(ident, "not_ours", f"the table has another owner{_by(actual)}; it is left alone")
    elif actual is not None:
        chains = sorted(chain["name"] for chain in actual["chains"])
        sets = sorted(item["name"] for item in actual["sets"] if "anonymous" not in item["flags"])
        plan.delete("nftables table", ident, {"owner": actual.get("owner"), "chains": chains, "sets": sets})
        plan.steps.append({"op": "delete_table"})
    return plan


def owned(actual: t.Mapping[str, t.Any], owner: str) -> bool:
    """Whether a table is owned: its mark shows it, or (one that was taken over) those of all its chains do."""
    if is_our_alias(actual.get("owner"), owner):
        return True
    chains = actual["chains"]
    return (
        actual.get("owner") is None
        and bool(chains)
        and all(is_our_alias(chain.get("owner"), owner) for chain in chains)
    )


def _by(actual: t.Mapping[str, t.Any]) -> str:
    return f" ({actual['owner']})" if actual.get("owner") else ""


def _refuse(plan: TablePlan, ident: str, desired: t.Mapping[str, t.Any], actual: t.Mapping[str, t.Any]) -> None:
    plan.unowned = True
    names = {item["name"] for part in ("sets", "chains") for item in desired[part]}
    others = {item["name"] for part in ("sets", "chains") for item in actual[part]} - names
    if actual.get("owner") is None and not others:
        plan.refuse(ident, "adoptable", "a table of this name exists without our mark; set adopt to take it over")
    else:
        plan.refuse(ident, "not_ours", f"a table of this name has another owner{_by(actual)}; it is left alone")


class _Difference:
    """The parts of one comparison."""

    def __init__(
        self,
        plan: TablePlan,
        ident: str,
        desired: t.Mapping[str, t.Any],
        actual: t.Mapping[str, t.Any],
        owner: str,
        remake: bool,
    ) -> None:
        self.todo, self.ident, self.owner, self.remake = plan, ident, owner, remake
        self.sets = {item["name"]: item for item in desired["sets"]}
        self.chains = {chain["name"]: chain for chain in desired["chains"]}
        self.actual_sets = {item["name"]: item for item in actual["sets"] if "anonymous" not in item["flags"]}
        self.actual_chains = {chain["name"]: chain for chain in actual["chains"]}
        self.guard = Guard()
        self.substitutes = Substitutes(owner)
        # rules that somebody else wrote may count or log: their owner alone may have them run twice
        self.guarding = not any("code" in chain for chain in self.chains.values())

    def plan(self) -> None:
        """All steps: what is emptied, what goes, what is made, elements, rules."""
        parts: dict[str, list[Step]] = {name: [] for name in ("flush", "drop", "make", "elements", "rules")}
        replaced = [
            name
            for name, item in self.sets.items()
            if name in self.actual_sets and not _same_set(item, self.actual_sets[name])
        ]
        for name, item in self.sets.items():
            self._set(name, item, parts, name in replaced)
        for name in [
            *replaced,
            *(name for name in self.actual_sets if name not in self.sets and name not in self.guard.names()),
        ]:
            parts["drop"].append({"op": "delete_set", "set": name})
        for name, item in self.actual_sets.items():
            if name not in self.sets:
                self.todo.delete("nftables set", self._name(name), _shown_set(item))
        for name, chain in self.chains.items():
            self._chain(name, chain, parts, bool(replaced))
        for name, chain in self.actual_chains.items():
            if name not in self.chains:
                self.todo.delete("nftables chain", self._name(name), shown_chain(chain))
                parts["flush"].append({"op": "flush_chain", "chain": name})
                parts["drop"].append({"op": "delete_chain", "chain": name})
        lasting = [name for name in self.actual_sets if name in self.sets and name not in replaced]
        copies = self.substitutes.before(self.actual_chains, lasting, self.guard)
        self.todo.before = [*self.guard.before(self.actual_sets, self.actual_chains.values()), *copies]
        for steps in parts.values():
            self.todo.steps.extend(steps)
        self.todo.after = [*self.substitutes.after(), *self.guard.after(self.chains.values())]

    def _name(self, name: str) -> str:
        return f"{self.ident} {name}"

    def _set(self, name: str, item: t.Mapping[str, t.Any], parts: dict[str, list[Step]], replaced: bool) -> None:
        there = self.actual_sets.get(name)
        form = {"name": name, "type": item["type"], "flags": list(item["flags"])}
        if there is None or replaced:
            parts["make"].append({"op": "new_set", "set": form})
            current: t.Sequence[tuple[int, int]] = ()
        elif item.get("external"):
            self.todo.unchanged += 1
            return
        else:
            current = there["elements"] or ()
        goal = item.get("elements") or ()
        delta = set_delta(current, goal)
        if self.guarding and delta.delete and delta.add:
            self.guard.keep(form, delta)
        if delta.delete:
            parts["elements"].append({"op": "delete_elements", "set": form, "spans": delta.delete})
        if delta.add:
            parts["elements"].append({"op": "add_elements", "set": form, "spans": delta.add})
        after = dict(_shown_set(item), elements=len(goal), added=_shown(delta.add, item["type"]))
        if there is None:
            self.todo.create("nftables set", self._name(name), after)
        elif replaced or delta:
            gone = there["elements"] or () if replaced else delta.delete
            before = dict(_shown_set(there), elements=len(there["elements"] or ()), removed=_shown(gone, there["type"]))
            self.todo.update("nftables set", self._name(name), before, after)
        else:
            self.todo.unchanged += 1

    def _chain(self, name: str, chain: t.Mapping[str, t.Any], parts: dict[str, list[Step]], refill: bool) -> None:
        there = self.actual_chains.get(name)
        form = {key: chain.get(key) for key in ("name", "type", "hook", "priority", "policy")}
        make = {"op": "new_chain", "chain": form, "owner": self.owner}
        if there is None:
            parts["make"].append(make)
            self.todo.create("nftables chain", self._name(name), shown_chain(chain))
        else:
            anew = self.remake or there.get("device") or any(there.get(key) != chain.get(key) for key in _BASE)
            same = _same_rules(chain, there)
            if same and not refill and not anew and there.get("policy") == chain.get("policy"):
                self.todo.unchanged += 1
                return
            if anew or refill or not same:
                parts["flush"].append({"op": "flush_chain", "chain": name})
                if self._needs_given(chain, there, bool(anew)):
                    self.substitutes.keep_given(chain)
            if anew:
                if self.guarding:
                    self.substitutes.keep(name)
                parts["drop"].append({"op": "delete_chain", "chain": name})
                parts["make"].append(make)
            elif there.get("policy") != chain.get("policy"):
                parts["make"].append({"op": "set_policy", "chain": form})
            before, after = shown_chain(there), shown_chain(chain)
            if before != after or self.remake:
                mark = {"owner": self.owner} if self.remake else {}
                self.todo.update("nftables chain", self._name(name), before, dict(after, **mark))
            if not (anew or refill) and same:
                return
        parts["rules"].extend(
            {"op": "add_rule", "chain": name, "rule": rule} for rule in self.guard.rules(chain["rules"])
        )

    @staticmethod
    def _needs_given(chain: t.Mapping[str, t.Any], there: t.Mapping[str, t.Any], anew: bool) -> bool:
        """Whether a chain of nft's text has a substitute while it changes, with its desired rules."""
        if "code" not in chain or not chain["rules"] or not chain.get("hook") or not bears_a_copy(chain["rules"]):
            return False
        return anew or asks_own_set([*(there.get("code") or ()), *chain["rules"]])


def set_delta(current: t.Sequence[Span], desired: t.Sequence[Span]) -> Delta:
    """From a set's elements as they are, adjacent and unowned ones included, to the desired ranges.

    Elements are whole: one that only overlaps a desired range is deleted and the desired one added. Nothing is merged, so
    that every element can be named again.
    """
    # that nothing is there, or nothing differs, needs no sets of a hundred thousand pairs
    if not current:
        return Delta([], list(desired))
    if list(current) == list(desired):
        return Delta([], [])
    have, want = set(current), set(desired)
    return Delta(sorted(have - want), sorted(want - have))


def _same_set(item: t.Mapping[str, t.Any], there: t.Mapping[str, t.Any]) -> bool:
    return item["type"] == there["type"] and set(item["flags"]) == set(there["flags"])


def _same_rules(chain: t.Mapping[str, t.Any], there: t.Mapping[str, t.Any]) -> bool:
    name = "code" if "code" in chain else "rules"
    return list(chain[name]) == list(there.get(name) or ())


def _shown_set(item: t.Mapping[str, t.Any]) -> Data:
    return {"type": item["type"], "flags": sorted(item["flags"])}


def shown_chain(chain: t.Mapping[str, t.Any]) -> Data:
    shown = {name: chain.get(name) for name in ("type", "hook", "priority", "policy") if chain.get("hook")}
    texts = (
        chain["texts"]
        if "texts" in chain
        else [rule if isinstance(rule, str) else rule_text(rule) for rule in chain["rules"]]
    )
    return dict(shown, rules=list(texts))


def shown_table(table: t.Mapping[str, t.Any]) -> Data:
    """A table for a result: names, forms and counts; elements may be a hundred thousand."""
    sets = [
        dict(
            _shown_set(item),
            name=item["name"],
            elements=None if item.get("elements") is None else len(item["elements"]),
        )
        for item in table["sets"]
        if "anonymous" not in item["flags"]
    ]
    chains = [dict(shown_chain(chain), name=chain["name"]) for chain in table["chains"]]
    return {
        "family": table["family"],
        "name": table["name"],
        "sets": sorted(sets, key=lambda item: item["name"]),
        "chains": sorted(chains, key=lambda chain: chain["name"]),
    }


def _shown(spans: t.Sequence[tuple[int, int]], kind: str) -> list[str]:
    version = _VERSIONS.get(kind)
    texts = [
        range_text(version, span) if version else "-".join(map(str, sorted(set(span))))
        for span in spans[:SHOWN_ELEMENTS]
    ]
    if len(spans) > SHOWN_ELEMENTS:
        texts.append(f"and {len(spans) - SHOWN_ELEMENTS} more")
    return texts


def rule_text(rule: Rule) -> str:
    """One rule in nft's own spelling."""
    return " ".join(_statement(item) for item in rule)


def _statement(item: Data) -> str:
    if "unknown" in item:  # what only rules of other owners have
        return "[{unknown} {data}]".format(**item)
    kind = item.get("match")
    if kind == "mark":
        return f"meta mark & 0x{item['mask']:08x} == 0x{item['value']:08x}"
    if kind == "oifname":
        return f'oifname "{item["value"]}"'
    if kind == "daddr":
        return f"{'ip' if item['family'] == 4 else 'ip6'} daddr @{item['set']}"
    if kind == "tcp_flags":
        return "tcp flags syn / syn,rst"
    if kind == "mss_above":
        return f"tcp option maxseg size > {item['value']}"
    if item.get("set") == "mss":
        return f"tcp option maxseg size set {item['value']}"
    if item.get("set") == "mark":
        # nft prints the and-mask with the bits of the or-value set; the kernel's expression is the same
        return f"meta mark set meta mark & 0x{item['mask'] | item['xor']:08x} | 0x{item['xor']:08x}"
    return str(item["verdict"])
