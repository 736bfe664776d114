# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One private key file: gather, plan, apply, verify. Only public keys come out (semaphore 3.3)."""

from __future__ import annotations

import typing as t

from ..._dataplane.key_plan import KeyPlan, parse_key_wanted, plan_key
from ..._linux.stats import Stats, total
from ..._linux.wireguard.keys import KeyFile
from ..._plan.pending import to_wire

Data = t.Dict[str, t.Any]


def gather(desired: t.Mapping[str, t.Any]) -> Data:
    """``{"state": absent|key|unusable, "public_key": text|None, "mode", "message", "stats"}``.

    desired: see parse_key_wanted. Raises ValueRefused.
    """
    stats = Stats()
    actual = KeyFile(parse_key_wanted(desired)["path"]).state()
    stats.add("reads")
    return dict(actual, stats=stats.as_dict())


def plan(desired: t.Mapping[str, t.Any], actual: t.Mapping[str, t.Any]) -> KeyPlan:
    """Pure."""
    return plan_key(parse_key_wanted(desired), actual)


def apply(desired: t.Mapping[str, t.Any], actual: t.Mapping[str, t.Any], planned: KeyPlan) -> Data:
    """Do what was planned; nothing planned, nothing written. Returns stats. Raises LinuxError."""
    del actual  # the plan says it all; flows share one signature
    stats = Stats()
    key = KeyFile(parse_key_wanted(desired)["path"])
    if planned.work == "ensure":
        key.ensure()
    elif planned.work == "rotate":
        key.rotate()
    elif planned.work == "remove":
        key.remove()
    stats.add("file_writes", 1 if planned.work else 0)
    return stats.as_dict()


def run(desired: t.Mapping[str, t.Any], check: bool) -> Data:
    """The whole way, for the module: its result as plain JSON, ``diff`` and ``warnings`` included."""
    actual = gather(desired)
    planned = plan(desired, actual)
    stats, public_key = actual["stats"], planned.public_key
    if planned.changed and not check:
        stats = total(stats, apply(desired, actual, planned))
        read_back = gather(desired)
        stats = total(stats, read_back["stats"])
        public_key = read_back["public_key"]
    return to_wire(
        dict(
            planned.result(), diff=planned.diff(), warnings=planned.warnings, stats=stats,
            path=desired["path"], public_key=public_key,
        )
    )
