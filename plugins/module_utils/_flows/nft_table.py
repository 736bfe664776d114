# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""One owned table of nftables: gather, plan, apply, verify.

``desired`` of gather, plan and apply: ``{"table": of plan_table's wanted, "owner": text, "adopt": bool, "state": "present"
or "absent"}``. In its sets ``elements`` are ranges (``PrefixSet.spans(version)``) and ``external`` says that somebody else
keeps them once the set is there (ruling 35).
"""

from __future__ import annotations

import typing as t

from .._linux import nft
from .._linux.collector import without_collector
from .._linux.stats import Stats
from .._mesh.nft_plan import TablePlan, plan_absent, plan_table

Data = t.Dict[str, t.Any]


@without_collector
def gather(desired: t.Mapping[str, t.Any]) -> Data:
    """Read the table once, without the elements of external sets: ``{"table": of read_table|None, "stats": {...}}``."""
    stats, table = Stats(), desired["table"]
    managed = [item["name"] for item in table["sets"] if not item.get("external")]
    if desired.get("state") == "absent":
        managed = []
    actual: Data = {"table": nft.read_table(table["family"], table["name"], managed)}
    stats.add("reads")
    actual["stats"] = stats.as_dict()
    return actual


@without_collector
def plan(desired: t.Mapping[str, t.Any], actual: t.Mapping[str, t.Any]) -> TablePlan:
    """Pure."""
    table = desired["table"]
    if desired.get("state") == "absent":
        return plan_absent(table["family"], table["name"], actual["table"], desired["owner"])
    return plan_table(table, actual["table"], desired["owner"], bool(desired.get("adopt")))


def apply(desired: t.Mapping[str, t.Any], actual: t.Mapping[str, t.Any], planned: TablePlan) -> Data:
    """Do what was planned as one transaction; nothing planned, nothing written. Returns stats.

    Raises LinuxError, and GenerationChanged when nftables changed since gather: then nothing was written.
    """
    stats, table = Stats(), desired["table"]
    generation = actual["table"]["generation"] if actual["table"] else None
    stats.add("netlink_writes", nft.apply_steps(table["family"], table["name"], planned.steps, generation))
    return stats.as_dict()
