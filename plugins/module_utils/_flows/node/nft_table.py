# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One owned table of nftables: gather, plan, apply, verify.

``desired`` of gather, plan and apply: ``{"table": of plan_table's desired, "owner": text, "adopt": bool, "state": "present"
or "absent"}``. In its sets ``elements`` are ranges (``PrefixSet.spans(version)``) and ``external`` means that somebody else
keeps them once the set is there (decision 35). Rules are lists of statements; ``run``, for the module, has them as nft's text.
"""

from __future__ import annotations

import contextlib
import typing as t

from ..._dataplane.nft_plan import TablePlan, owned, plan_absent, plan_table, shown_table
from ..._dataplane.nft_spec import parse_table
from ..._linux.errors import LinuxError
from ..._linux.nftables import table as nft, text as nft_text
from ..._linux.stats import Stats
from ..._values.gc_pause import gc_paused
from .single import converge

Data = dict[str, t.Any]
#: How often a table is read and planned again when somebody changes nftables between read and commit.
_TRIES = 8
_ELEMENT_STEPS = ("add_elements", "delete_elements")


@gc_paused()
def gather(desired: t.Mapping[str, t.Any]) -> Data:
    """Read the table once, without the elements of external sets: ``{"table": of read_table|None, "stats": {...}}``."""
    stats, table = Stats(), desired["table"]
    managed = (
        [item["name"] for item in table["sets"] if not item.get("external")] if desired.get("state") != "absent" else []
    )
    return {"table": nft.read_table(table["family"], table["name"], managed), "stats": stats.as_dict(reads=1)}


@gc_paused()
def plan(desired: t.Mapping[str, t.Any], actual: t.Mapping[str, t.Any]) -> TablePlan:
    """Pure."""
    table = desired["table"]
    if desired.get("state") == "absent":
        return plan_absent(table["family"], table["name"], actual["table"], desired["owner"])
    return plan_table(table, actual["table"], desired["owner"], bool(desired.get("adopt")))


def apply(desired: t.Mapping[str, t.Any], actual: t.Mapping[str, t.Any], planned: TablePlan) -> Data:
    """Do what was planned, one transaction or three (see nft_plan.Guard); nothing planned, nothing written. Returns stats.

    Where anybody changed nftables since gather (kube-proxy does so all day), the table is read and planned again, and what
    is sent is what it takes then. A table that another owner took meanwhile is left alone. Raises LinuxError.
    """
    stats, table = Stats(), desired["table"]
    name = "nftables table {family} {name}".format(**table)
    for _attempt in range(_TRIES):
        generation = actual["table"]["generation"] if actual["table"] else None
        try:
            for steps in planned.transactions():
                stats.add("netlink_writes", nft.apply_steps(table["family"], table["name"], steps, generation))
                if generation is not None:
                    generation += 1  # our own transaction; anybody else's in between is seen
            return stats.as_dict()
        except nft.GenerationChanged:
            actual = gather(desired)
            stats.add("reads")
            planned = plan(desired, actual)
            if planned.unowned:
                raise LinuxError("set", name, "somebody else made a table of this name meanwhile") from None
    raise LinuxError("set", name, f"nftables changed before each of {_TRIES} attempts")


def run(request: t.Mapping[str, t.Any], check: bool) -> Data:
    """The whole way, for the module: its result as plain JSON, ``diff`` and ``warnings`` included.

    request: see parse_table. Raises ValueRefused when it is not understood, LinuxError when the host refuses.
    """
    desired = prepare(request)

    def planned_with(actual: Data) -> TablePlan:
        found = plan(desired, actual)
        found.refused.extend(desired["refused"])
        return found

    result, planned, actual = converge(
        lambda: gather_text(desired), planned_with, lambda actual, planned: apply_text(desired, actual, planned), check
    )
    after = actual["table"]
    if planned.changed and check:
        after = None if desired["state"] == "absent" else desired["table"]
    return dict(result, table=None if planned.unowned or after is None else shown_table(after))


def prepare(request: t.Mapping[str, t.Any]) -> Data:
    """What a person wants, with its rules as nft itself would list them. Raises ValueRefused, LinuxError."""
    desired = parse_table(request)
    if desired["state"] == "present":
        meant = nft_text.compile_chains(desired["table"])
        for chain in desired["table"]["chains"]:
            chain["code"] = chain["texts"] = meant.get(chain["name"], [])
    return desired


def gather_text(desired: t.Mapping[str, t.Any]) -> Data:
    """As gather, with every chain's rules as nft lists them."""
    actual, table = gather(desired), desired["table"]
    if actual["table"] is not None and desired["state"] == "present" and owned(actual["table"], desired["owner"]):
        listed = nft_text.list_chains(table["family"], table["name"])
        for chain in actual["table"]["chains"]:
            chain["code"] = chain["texts"] = listed.get(chain["name"], [])
    return actual


def apply_text(desired: t.Mapping[str, t.Any], actual: t.Mapping[str, t.Any], planned: TablePlan) -> Data:
    """Elements alone, and the end of a table, go the short way. nft gets the rest; a new table has its mark from us first."""
    steps = [step for transaction in planned.transactions() for step in transaction]
    if {step["op"] for step in steps} <= {*_ELEMENT_STEPS, "delete_table"}:
        return apply(desired, actual, planned)
    stats, table = Stats(), desired["table"]
    first = [step for step in steps if step["op"] == "new_table"]
    # a table without chains has no effect on anything
    written = nft.apply_steps(table["family"], table["name"], first)
    try:
        for transaction in planned.transactions():
            written += nft_text.apply_text(table, [step for step in transaction if step not in first])
    except LinuxError:
        if first:
            nft.apply_steps(table["family"], table["name"], [{"op": "delete_table"}])
        elif planned.before:
            # substitutes have the rules that did not come to be; where they are not there, the error is the one before
            with contextlib.suppress(LinuxError):
                nft_text.apply_text(table, planned.after)
        raise
    return stats.as_dict(netlink_writes=written)
