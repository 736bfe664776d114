# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An owned set of routes in one table: gather, plan, apply, verify."""

from __future__ import annotations

import typing as t

from ..._dataplane.route_plan import RoutePlan, RouteSpec, parse_routes, plan_routes
from ..._linux.netlink.links import link_names
from ..._linux.netlink.routes import read_routes, write_routes
from ..._linux.stats import Stats
from .single import converge

Data = dict[str, t.Any]


def gather(desired: RouteSpec) -> Data:
    """Read the table once a family: ``{"routes": of read_routes, "links": [name], "stats": {...}}``. Raises LinuxError."""
    stats = Stats()
    return {"routes": read_routes(desired.table), "links": sorted(link_names()), "stats": stats.as_dict(reads=2)}


def apply(desired: RouteSpec, planned: RoutePlan) -> Data:
    """Do what was planned; nothing planned, nothing written. Returns stats. Raises LinuxError."""
    stats = Stats()
    if planned.replacements or planned.deletions:
        stats.add(
            "netlink_writes", write_routes(desired.table, desired.protocol, planned.replacements, planned.deletions)
        )
    return stats.as_dict()


def run(request: t.Mapping[str, t.Any], check: bool) -> Data:
    """The whole way, for the module: its result as plain JSON, ``diff`` and ``warnings`` included. Raises LinuxError, ValueRefused."""
    desired = parse_routes(request)
    result, after, dummy = converge(
        lambda: gather(desired),
        lambda actual: plan_routes(desired, actual, need_devices=True),
        lambda actual, planned: apply(desired, planned),
        check,
    )
    return dict(result, routes=after.routes)
