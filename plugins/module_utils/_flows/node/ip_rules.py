# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An owned set of policy routing rules: gather, plan, apply, verify."""

from __future__ import annotations

import typing as t

from ..._dataplane.rule_plan import RulePlan, parse_rules, plan_rules
from ..._linux.netlink.rules import apply_rules, read_rules
from ..._linux.stats import Stats, total

Data = t.Dict[str, t.Any]


def gather() -> Data:
    """Read the rules once a family: ``{"rules": {4: of read_rules, 6: ...}, "stats": {...}}``. Raises LinuxError."""
    stats = Stats()
    actual: Data = {"rules": {version: read_rules(version) for version in (4, 6)}}
    stats.add("reads", 2)
    actual["stats"] = stats.as_dict()
    return actual


def apply(planned: RulePlan) -> Data:
    """Do what was planned; nothing planned, nothing written. Returns stats. Raises LinuxError."""
    stats = Stats()
    stats.add("netlink_writes", apply_rules(planned.steps))
    return stats.as_dict()


def run(wanted: t.Mapping[str, t.Any], check: bool) -> Data:
    """The whole way, for the module: its result as plain JSON, ``diff`` and ``warnings`` included. Raises LinuxError, ValueRefused."""
    desired = parse_rules(wanted)
    actual = gather()
    planned = plan_rules(desired, actual["rules"])
    stats, after = actual["stats"], planned
    if planned.changed and not check:
        stats = total(stats, apply(planned))
        read_back = gather()
        stats = total(stats, read_back["stats"])
        after = plan_rules(desired, read_back["rules"])
        for change in after.changes:
            planned.warnings.append("{0} {1} is not as it was set".format(change.kind, change.id))
    return dict(planned.result(), diff=planned.diff(), warnings=planned.warnings, stats=stats, rules=after.rules)
