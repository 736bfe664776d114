# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network side's own work: IDs, addresses and claims, instances on nodes, port blocks (19). One runner at a time.

Nothing on a server of plain custom resources is atomic, so what was read before the Lease was taken is read again.
"""

from __future__ import annotations

import typing as t

from ..._kubernetes.errors import KubeError
from ..._plan.budget import check_budget
from ..._tenants import allocation, placement
from ..._tenants.allocation import Pools, check_range
from ..._tenants.converge import PASS_LIMIT, Planner, Result, predict_pass, run_passes
from ..._tenants.object_turn import REMOVE, ObjectTurn
from ..._tenants.options import APINET, IP_ADDRESS, NETWORK_ID
from ..._tenants.view import View
from ..._values.addresses import parse_network
from ..._values.refused import ValueRefused
from .converge import OpenRun, lease_of, open_run, report_turns
from .store import Writer, gather


def allocate(request: t.Mapping[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    """Allocate IDs and addresses. ``request`` has the module's options. Raises ValueRefused for those that make no sense."""
    lowest, highest = request.get("min_id", allocation.MIN_ID), request.get("max_id", allocation.MAX_ID)
    check_range(lowest, highest)
    try:
        prefixes = tuple(str(parse_network(prefix)) for prefix in request.get("public_prefixes") or ())
    except ValueRefused as error:
        raise ValueRefused(error.reason, f"tenants_public_prefixes: {error.message}") from None
    pools = Pools(prefixes, lowest, highest)

    def plan(view: View) -> list[ObjectTurn]:
        turns = allocation.plan_allocation(view, pools)
        for kind in (NETWORK_ID, IP_ADDRESS):
            _budget(view, kind, [turn for turn in turns if turn.kind == kind], request)
        return turns

    return _run(request, check, plan, allocation.READS)


def schedule(request: t.Mapping[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    """Place load balancers and serve gateways. Like allocate()."""
    return _run(request, check, placement.plan_placement, placement.READS)


def _budget(view: View, kind: str, turns: t.Sequence[ObjectTurn], request: t.Mapping[str, t.Any]) -> None:
    """More claims without claimer than a run may free are rather a mistake than the end of so many tenants (decision 38)."""
    given = [turn for turn in turns if any(step.verb == REMOVE for step in turn.steps)]
    owned = len(view.every(APINET, kind))
    # the last one may go: its claimer was deleted on the very server that was listed
    refusal = check_budget(
        str(request["apinet"]), kind, owned, len(given), max(1, owned - len(given)), request.get("max_deletes")
    )
    if refusal is None:
        return
    for turn in given:
        turn.steps = []
        turn.wait(refusal.reason, refusal.message)


def _run(request: t.Mapping[str, t.Any], check: bool, plan: Planner, reads: t.Sequence[str]) -> dict[str, t.Any]:
    opened = open_run(request, (APINET,))
    pairs = [(APINET, kind) for kind in reads]
    result = None
    if opened.stores:
        view = gather(opened.clusters, opened.stores, opened.options, pairs)
        if not view.unread:
            result = predict_pass(view, plan) if check else _write(request, opened, view, plan, pairs)
    return report_turns(opened, result, APINET, "serve")


def _write(
    request: t.Mapping[str, t.Any], opened: OpenRun, view: View, plan: Planner, pairs: t.Sequence[tuple[str, str]]
) -> Result | None:
    stores, options = opened.stores, opened.options
    if not any(turn.steps for turn in plan(view)):
        return run_passes(view, plan, Writer(stores, options), 1)
    lease = lease_of(stores[APINET], options)
    try:
        lease.acquire(float(request.get("lock_wait") or 0))
        view = gather(opened.clusters, stores, options, pairs)
        return None if view.unread else run_passes(view, plan, Writer(stores, options, lease), PASS_LIMIT)
    except KubeError as error:
        opened.clusters.fail(error)
        return None
    finally:
        lease.release()
