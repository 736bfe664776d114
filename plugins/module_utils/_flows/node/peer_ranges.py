# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other pod ranges of peers that a node has already: their allowed IPs, and the state that a boot restores and the next run compares with.

Nothing else of the node changes, so the change needs no confirmation: whatever carries the controller's connection is as it was.
"""

from __future__ import annotations

import contextlib
import time
import typing as t

from ..._dataplane.node_spec import alias_of
from ..._dataplane.peer_plan import PeerPlan
from ..._dataplane.range_orders import RangeOrder, check_host, check_link, ordered_state, parse_orders, plan_ranges
from ..._linux import files
from ..._linux.errors import LinuxError
from ..._linux.host.links import read_link
from ..._linux.host.lock import HostLock
from ..._linux.stats import Stats
from ..._linux.wireguard.device import open_device
from ..._plan.plan import Plan
from . import persistence

Data = dict[str, t.Any]
#: So often an open change of the node is looked at, in seconds.
_PAUSE = 0.2


def run(request: t.Mapping[str, t.Any], check: bool = False) -> Data:
    """The result of the module. request: {fabric, node, orders: of parse_orders, wait_seconds}. Raises ValueRefused, LinuxError.

    A change of the node that waits for its confirmation would put its own state in place of this one, so it is waited for.
    """
    fabric, orders = str(request["fabric"]), parse_orders(request["orders"])
    deadline = time.monotonic() + float(request.get("wait_seconds") or 0)
    while True:
        left = max(0.0, deadline - time.monotonic())
        with contextlib.nullcontext() if check else HostLock(alias_of(fabric), left):
            if files.read_state(persistence.journal_path(fabric)) is None:
                return _converge(fabric, str(request.get("node") or ""), orders, check)
        if time.monotonic() >= deadline:
            raise LinuxError("change", "pod ranges of peers", "another change of this node waits for its confirmation")
        time.sleep(_PAUSE)


def _converge(fabric: str, node: str, orders: t.Sequence[RangeOrder], check: bool) -> Data:
    stats, todo = Stats(), Plan()
    before = check_host(persistence.load_state(fabric), node)
    after = ordered_state(before, orders)
    planned = [(order, _plan(fabric, order, stats)) for order in orders]
    for _order, one in planned:
        todo.extend(one.plan)
    todo.extend(_plan_state(fabric, after.to_json()))
    if todo.changed and not check:
        for order, one in planned:
            _apply(order.device, one, stats)
        if todo.of("update", "file"):
            persistence.write_confirmed(fabric, after)
            stats.add("file_writes")
        left = [order.device for order in orders if _plan(fabric, order, stats).steps]
        if left:
            raise LinuxError("set", "pod ranges of peers", f"device {', '.join(left)} still has others")
    return dict(todo.result(), diff=todo.diff(), warnings=todo.warnings, stats=stats.as_dict())


def _plan(fabric: str, order: RangeOrder, stats: Stats) -> PeerPlan:
    link = read_link(order.device)
    check_link(order.device, link, alias_of(fabric))
    with contextlib.closing(open_device(order.device, _implementation(link))) as device:
        live = device.dump()
    stats.add("reads", 2)
    return plan_ranges(order, live)


def _apply(name: str, planned: PeerPlan, stats: Stats) -> None:
    if planned.steps:
        with contextlib.closing(open_device(name, _implementation(read_link(name)))) as device:
            device.apply(planned.steps)
            stats.add("wireguard_writes", device.writes)


def _implementation(link: t.Mapping[str, t.Any] | None) -> t.Any:
    return link["implementation"] if link else None


def _plan_state(fabric: str, after: t.Mapping[str, t.Any]) -> Plan:
    path = persistence.state_path(fabric)
    found = files.read_state(path)
    desired = files.FileState("file", 0o600, persistence.state_bytes(after))
    return persistence.plan({path: desired}, {path: found} if found else {})
