# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of nftables that an operator gives a node with its mesh: part of its one change, so undone and restored with it.

They are those of the module nft_table, ``{name, family, chains, sets}``, and carry the fabric's mark. What was confirmed is
in the node's state; a table that is in it and is not desired any more goes.
"""

from __future__ import annotations

import typing as t

from ..._dataplane.constants import HOST_PACKETS, NODE_SOURCE, is_our_alias
from ..._dataplane.nft_plan import TablePlan
from ..._dataplane.node_spec import NodeSpec, NodeState, alias_of
from ..._linux.errors import LinuxError
from ..._linux.netlink.conntrack import forget_translations
from ..._linux.netlink.links import read_links
from ..._linux.nftables import table as nft
from ..._linux.stats import total
from ..._mesh.kubespan.generations import Layout
from ..._mesh.kubespan.nft import FAMILY
from ..._plan.plan import Plan
from ..._values.addresses import Address, parse_address
from ..._values.exported_ranges import ExportedRanges
from ..._values.prefix_sets import PrefixSet
from ..._values.refused import ValueRefused, quoted
from . import nft_table
from .parts import Part, differing

Data = dict[str, t.Any]
Raw = t.Mapping[str, t.Any]
#: What a table has in addition to those of nft_table: whether it comes before the routes and goes after them; whether a node that cannot
#: have it goes without; ranges of the node's pods, for rules with NODE_SOURCE; the addresses that took its place, of the confirmed state; how
#: other clusters see pod ranges, which the node's address is in too (ExportedRanges); and the ranges of other clusters' pods.
MARKS = ("before_routes", "optional", "sources", "node_sources", "exported", "towards")
_LEFT_OUT = (
    "the table {0} is left out: {1}. It keeps addresses of pods towards other clusters where something masquerades, and needs nft 1.0.6 and Linux 5.8; "
    "keep_pod_addresses: false of the cluster goes without it"
)


def request(raw: Raw, fabric: str, state: str = "present") -> Data:
    """A table as nft_table's flow takes it."""
    unknown = sorted(set(raw) - {"name", "family", "chains", "sets", *MARKS})
    if unknown:
        raise ValueRefused("bad_name", f"a table has no {quoted(unknown[0])}")
    form = {name: value for name, value in raw.items() if name not in MARKS}
    return dict(form, family=raw.get("family") or "inet", owner=fabric, state=state)


def resolved(given: t.Iterable[Data], previous: NodeState | None) -> tuple[Data, ...]:
    """Tables with an address of this node in place of NODE_SOURCE. A rule of a family in which the node holds none is left out.

    An address that was confirmed stays while it is held, and while no other is: at boot a plugin's devices come later. Where ``sources`` is
    empty the ranges of the node's pods are not known, and what was confirmed stays.
    """
    found = []
    for raw in given:
        if "sources" not in raw:
            found.append(raw)
            continue
        before = next((one for one in previous.tables if one.get("name") == raw["name"]), {}) if previous else {}
        confirmed = list(before.get("node_sources") or ())
        if raw["sources"]:
            chosen = _node_sources(PrefixSet.of_texts(raw["sources"]), confirmed)
        else:
            chosen = {address.version: address for address in map(parse_address, confirmed)}
        exported = exported_by(raw)
        seen = {version: exported.address(str(address)) for version, address in chosen.items()}
        chains = [dict(chain, rules=list(_replaced(chain["rules"], seen))) for chain in raw["chains"]]
        form = {name: value for name, value in raw.items() if name != "sources"}
        found.append(dict(form, chains=chains, node_sources=[str(chosen[version]) for version in sorted(chosen)]))
    return tuple(found)


def host_sources(state: NodeState | None) -> dict[int, str]:
    """By version of IP: the address at which other clusters see packets of the host itself, as the confirmed tables have it (translation 7)."""
    rules = [
        rule
        for table in (state.tables if state else ())
        for chain in table.get("chains") or ()
        for rule in chain.get("rules") or ()
        if HOST_PACKETS in rule
    ]
    texts = [parse_address(rule.rpartition(" to ")[2]) for rule in rules]
    return {address.version: str(address) for address in texts}


def carried_versions(state: NodeState | None, ranges: PrefixSet) -> list[int]:
    """Versions of IP in which the host's own packets have, or should have, an address that other clusters accept (translation 7).

    Those of the confirmed rules, and, of a node with such a table, those in which it holds an address of its pods' ``ranges``: a table
    without the rule is a fault then, not the lack of an address.
    """
    given = any("node_sources" in table for table in (state.tables if state else ()))
    return sorted({*host_sources(state), *(_node_sources(ranges, ()) if given else ())})


def exported_by(raw: Raw) -> ExportedRanges:
    """How other clusters see pods through a table; as they are through one without a mapping."""
    return ExportedRanges(**raw.get("exported") or {})


def forget_connections(before: Raw, after: Raw) -> None:
    """Forget those connections that still have a translation which ended, or began without the one that there is now.

    Others stay, as do all of them where the kernel has no list of connections. Raises LinuxError.
    """
    was, now = exported_by(before), exported_by(after)
    before_ranges, ranges = (PrefixSet.of_texts([*one.accepted, *one.exported_nodes]) for one in (was, now))
    gone = before_ranges - ranges
    towards = PrefixSet.of_texts(after.get("towards") or before.get("towards") or ())
    forget_translations(gone, now.hidden, towards)


def _node_sources(ranges: PrefixSet, before: t.Iterable[str]) -> dict[int, Address]:
    """By version of IP: an address in these ranges that a device of this node holds, such as a bridge's or a tunnel's (pod_ranges 6.9)."""
    held = [
        parse_address(address.text.partition("/")[0])
        for link in read_links()
        if not is_our_alias(link.alias)
        for address in link.addresses
        if address.scope == "global"
    ]
    inside = sorted((address for address in held if address in ranges), key=lambda one: (one.version, int(one)))
    known = [address for address in map(parse_address, before) if address in ranges]
    rows = [address for address in known if address in inside] + inside + known
    return {version: one for one in reversed(rows) for version in (one.version,)}


def _replaced(rules: t.Iterable[str], chosen: t.Mapping[int, str]) -> t.Iterator[str]:
    for rule in rules:
        version = next((version for version, name in NODE_SOURCE.items() if name in rule), None)
        if version is None:
            yield rule
        elif version in chosen:
            yield rule.replace(NODE_SOURCE[version], chosen[version])


class Tables(Part):
    """Of one run those that come before routes (``early``), or all others and what goes. layout: of the KubeSpan mesh, which has a table of its own."""

    def __init__(self, spec: NodeSpec, previous: NodeState | None, layout: Layout | None, early: bool) -> None:
        self._reserved = (FAMILY, (layout or Layout()).table_name)
        self._fabric, self._everything, self._early = spec.fabric, spec.empty, early
        self._all = spec.tables
        self._previous = list(previous.tables) if previous else []
        self._rows: list[tuple[Data, Data]] = []
        self._plans: list[TablePlan] = []
        self._left_out: list[str] = []

    def gather(self) -> Data:
        names = [_name_of(raw) for raw in self._all]
        for name in names:
            if name == self._reserved or names.count(name) > 1:
                raise ValueRefused(
                    "bad_name", "the table {0} {1} is given twice, or that of the mesh itself".format(*name)
                )
        todo = [(raw, "present") for raw in self._all if bool(raw.get("before_routes")) == self._early]
        if not self._early:
            gone: dict[tuple[str, str], Raw] = {_name_of(raw): raw for raw in self._previous}
            if self._everything:  # the node leaves, so tables that are in no state go too
                gone = {**{name: {"family": name[0], "name": name[1]} for name in _left_over(self._fabric)}, **gone}
            for name in sorted(set(gone) - {*names, self._reserved}):
                raw = {"family": name[0], "name": name[1], "optional": bool(gone[name].get("optional"))}
                todo.append((raw, "absent"))
        for raw, state in todo:
            desired = request(raw, self._fabric, state)
            try:
                prepared = nft_table.prepare(desired)
                self._rows.append((prepared, nft_table.gather_text(prepared)))
            except LinuxError as error:
                if not raw.get("optional"):
                    raise
                if state == "present":
                    self._left_out.append(_LEFT_OUT.format(desired["name"], error.message))
        return {}

    def plan(self) -> Plan:
        """What differs; elements that are none and tables of others are refused by name."""
        todo = Plan()
        self._plans = [nft_table.plan(*row) for row in self._rows]
        for (desired, _actual), planned in zip(self._rows, self._plans):
            todo.extend(planned)
            todo.refused.extend(desired["refused"])
        todo.warnings.extend(self._left_out)
        return todo

    def snapshot(self, before: Data) -> None:
        touched = [row for row, planned in zip(self._rows, self._plans) if planned.changed]
        record = before["tables"] or {"fabric": self._fabric, "touched": [], "last": [], "were": self._previous}
        record["tried"] = list(self._all)
        record["touched"] += [list(_name_of(desired["table"])) for desired, dummy in touched]
        if self._early:
            record["last"] += [list(_name_of(desired["table"])) for desired, found in touched if not found["table"]]
        before["tables"] = record

    def apply(self) -> Data:
        changed = [row for row, planned in zip(self._rows, self._plans) if planned.changed]
        done = total(
            *(nft_table.apply_text(*row, planned) for row, planned in zip(self._rows, self._plans) if planned.changed)
        )
        were, desired = ({_name_of(raw): raw for raw in tables} for tables in (self._previous, self._all))
        for name in {_name_of(row[0]["table"]) for row in changed}:
            forget_connections(were.get(name) or {}, desired.get(name) or {})
        return done

    def verify(self) -> list[str]:
        return [
            text
            for desired, _actual in self._rows
            for text in differing(nft_table.plan(desired, nft_table.gather_text(desired)))
        ]


def _name_of(raw: Raw) -> tuple[str, str]:
    return raw.get("family") or "inet", raw["name"]


def _left_over(fabric: str) -> list[tuple[str, str]]:
    """Tables with the fabric's mark; none on a host that has no nftables."""
    try:
        return [(table["family"], table["name"]) for table in nft.list_tables() if table["owner"] == alias_of(fabric)]
    except LinuxError:
        return []


def put_back(before: t.Mapping[str, t.Any] | None, last: bool = False) -> None:
    """The touched tables as they were confirmed before; those that were not there go. Raises LinuxError.

    last: those that the change made before its routes, which go after them; without it all others.
    """
    if before is None:
        return
    were = {_name_of(raw): raw for raw in before["were"]}
    made = [list(name) for name in before.get("last") or ()]
    tried = {_name_of(raw): raw for raw in before.get("tried") or ()}
    for family, name in before["touched"]:
        if ([family, name] in made) != last:
            continue
        raw = were.get((family, name))
        state = "absent" if raw is None else "present"
        nft_table.run(request(raw or {"family": family, "name": name}, before["fabric"], state), False)
        forget_connections(tried.get((family, name)) or {}, raw or {})
