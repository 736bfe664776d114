# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network side's own work: IDs, addresses and claims, instances on nodes, port blocks (19). One runner at a time.

Nothing on a server of plain custom resources is atomic, so what was read before the Lease was taken is read again.
"""

from __future__ import annotations

import typing as t

from ..._kubernetes.clusters import Clusters
from ..._kubernetes.errors import KubeError
from ..._plan.budget import check_budget
from ..._tenants import network_side, placement
from ..._tenants.allocation import check_range
from ..._tenants.converge import PASS_LIMIT, Result, one_by_one, run_passes
from ..._tenants.network_side import Pools
from ..._tenants.options import Options
from ..._tenants.profile import APINET, IP_ADDRESS, NETWORK_ID
from ..._tenants.store import MemoryStore
from ..._tenants.view import View
from ..._tenants.work import REMOVE, Work
from ..._values.addresses import parse_network
from ..._values.refused import ValueRefused
from .converge import lease_of, open_stores, read_options, report, sides
from .result import add_failures, plan_of
from .store import Writer, gather

Planner = t.Callable[[View], t.List[Work]]


def allocate(request: t.Mapping[str, t.Any], check: bool = False) -> t.Dict[str, t.Any]:
    """Hand out IDs and addresses. ``request`` has the module's options. Raises ValueRefused for those that make no sense."""
    lowest, highest = request.get("min_id", network_side.MIN_ID), request.get("max_id", network_side.MAX_ID)
    check_range(lowest, highest)
    try:
        prefixes = tuple(str(parse_network(prefix)) for prefix in request.get("public_prefixes") or ())
    except ValueRefused as error:
        raise ValueRefused(error.reason, "tenants_public_prefixes: {0}".format(error.message)) from None
    pools = Pools(prefixes, lowest, highest)

    def plan(view: View) -> t.List[Work]:
        works = network_side.plan_allocation(view, pools)
        for kind in (NETWORK_ID, IP_ADDRESS):
            _budget(view, kind, [work for work in works if work.kind == kind], request)
        return works

    return _run(request, check, plan, network_side.READS)


def schedule(request: t.Mapping[str, t.Any], check: bool = False) -> t.Dict[str, t.Any]:
    """Place load balancers and serve gateways. Like allocate()."""
    return _run(request, check, placement.plan_placement, placement.READS)


def _budget(view: View, kind: str, works: t.Sequence[Work], request: t.Mapping[str, t.Any]) -> None:
    """More claims without claimer than a run may free are rather a mistake than the end of so many tenants (decision 38)."""
    given = [work for work in works if any(step.verb == REMOVE for step in work.steps)]
    owned = len(view.every(APINET, kind))
    # the last one may go: its claimer was deleted on the very server that was listed
    refusal = check_budget(str(request["apinet"]), kind, owned, len(given), max(1, owned - len(given)), request.get("max_deletes"))
    if refusal is None:
        return
    for work in given:
        work.steps = []
        work.wait(refusal.reason, refusal.message)


def _run(request: t.Mapping[str, t.Any], check: bool, plan: Planner, reads: t.Sequence[str]) -> t.Dict[str, t.Any]:
    options = read_options(request)
    clusters = Clusters(request["clusters"], request.get("timeout") or 120.0)
    names = sides(request, (APINET,))
    stores = open_stores(clusters, names, options)
    pairs = [(APINET, kind) for kind in reads]
    result = None
    if stores:
        view = gather(clusters, stores, options, pairs)
        if not view.unread:
            result = predicted(view, plan) if check else None
            if result is None:
                result = _write(request, clusters, stores, options, view, plan, pairs)
    if result is None:
        return report(clusters, plan_of([], names, 0), names)
    add_failures(clusters, result.outcomes, names[APINET], "serve")
    unchanged = len([outcome for outcome in result.outcomes if outcome.action == "unchanged"])
    return report(clusters, plan_of(result.done, names, unchanged), names, result)


def predicted(view: View, plan: Planner) -> Result:
    """The first pass over copies in memory."""
    store = MemoryStore(view.objects(APINET), prefix="unknown")
    options: Options = view.options
    return run_passes(View([], store.all(), options), plan, one_by_one({APINET: store}, options), 1)


def _write(
    request: t.Mapping[str, t.Any],
    clusters: Clusters,
    stores: t.Mapping[str, t.Any],
    options: Options,
    view: View,
    plan: Planner,
    pairs: t.Sequence[t.Tuple[str, str]],
) -> t.Optional[Result]:
    if not any(work.steps for work in plan(view)):
        return run_passes(view, plan, Writer(stores, options), 1)
    lease = lease_of(stores[APINET], options)
    try:
        lease.acquire(float(request.get("lease_wait") or 0))
        view = gather(clusters, stores, options, pairs)
        return None if view.unread else run_passes(view, plan, Writer(stores, options, lease), PASS_LIMIT)
    except KubeError as error:
        clusters.fail(error)
        return None
    finally:
        lease.release()
