# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An owned set of routes in one table: gather, plan, apply, verify."""

from __future__ import annotations

import typing as t

from ..._dataplane.route_plan import RoutePlan, RouteSpec, parse_routes, plan_routes
from ..._linux.netlink.links import link_names
from ..._linux.netlink.routes import read_routes, write_routes
from ..._linux.stats import Stats, total

Data = t.Dict[str, t.Any]


def gather(desired: RouteSpec) -> Data:
    """Read the table once a family: ``{"routes": of read_routes, "links": [name], "stats": {...}}``. Raises LinuxError."""
    stats = Stats()
    actual: Data = {"routes": read_routes(desired.table), "links": sorted(link_names())}
    stats.add("reads", 2)
    actual["stats"] = stats.as_dict()
    return actual


def plan(desired: RouteSpec, actual: t.Mapping[str, t.Any], need_devices: bool = False) -> RoutePlan:
    """Pure. need_devices: refuse routes over devices that do not exist yet; a flow that makes them first does not."""
    return plan_routes(desired, actual, need_devices)


def apply(desired: RouteSpec, actual: t.Mapping[str, t.Any], planned: RoutePlan) -> Data:
    """Do what was planned; nothing planned, nothing written. Returns stats. Raises LinuxError."""
    del actual  # the plan says it all; flows share one signature
    stats = Stats()
    if planned.replacements or planned.deletions:
        written = write_routes(desired.table, desired.protocol, planned.replacements, planned.deletions)
        stats.add("netlink_writes", written)
    return stats.as_dict()


def run(wanted: t.Mapping[str, t.Any], check: bool) -> Data:
    """The whole way, for the module: its result as plain JSON, ``diff`` and ``warnings`` included. Raises LinuxError, ValueRefused."""
    desired = parse_routes(wanted)
    actual = gather(desired)
    planned = plan(desired, actual, need_devices=True)
    stats, after = actual["stats"], planned
    if planned.changed and not check:
        stats = total(stats, apply(desired, actual, planned))
        read_back = gather(desired)
        stats = total(stats, read_back["stats"])
        after = plan(desired, read_back, need_devices=True)
        for change in after.changes:
            planned.warnings.append("{0} {1} is not as it was set".format(change.kind, change.id))
    return dict(
        planned.result(), diff=planned.diff(), warnings=planned.warnings, stats=stats, routes=after.routes
    )
