# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An owned set of policy routing rules: gather, plan, apply, verify."""

from __future__ import annotations

import typing as t

from ..._dataplane.rule_plan import RulePlan, parse_rules, plan_rules
from ..._linux.netlink.rules import apply_rules, read_rules
from ..._linux.stats import Stats
from .single import converge

Data = dict[str, t.Any]


def gather() -> Data:
    """Read the rules once a family: ``{"rules": {4: of read_rules, 6: ...}, "stats": {...}}``. Raises LinuxError."""
    stats = Stats()
    return {"rules": {version: read_rules(version) for version in (4, 6)}, "stats": stats.as_dict(reads=2)}


def apply(planned: RulePlan) -> Data:
    """Do what was planned; nothing planned, nothing written. Returns stats. Raises LinuxError."""
    stats = Stats()
    return stats.as_dict(netlink_writes=apply_rules(planned.steps))


def run(request: t.Mapping[str, t.Any], check: bool) -> Data:
    """The whole way, for the module: its result as plain JSON, ``diff`` and ``warnings`` included. Raises LinuxError, ValueRefused."""
    desired = parse_rules(request)
    result, after, dummy = converge(
        gather, lambda actual: plan_rules(desired, actual["rules"]), lambda actual, planned: apply(planned), check
    )
    return dict(result, rules=after.rules)
