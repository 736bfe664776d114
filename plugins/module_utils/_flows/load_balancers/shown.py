# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module returns of one cluster, and the Events of its Services."""

from __future__ import annotations

import typing as t

from ..._loadbalancers.bgp.routes import all_left_out, left_out
from ..._loadbalancers.bgp.values import NodeBgp
from ..._loadbalancers.cost_plan import CostPlan
from ..._loadbalancers.named_pools import usage
from ..._loadbalancers.reservations import matches_of
from ..._loadbalancers.service_events import GIVEN, NORMAL, Notice, given_text, refused
from ..._loadbalancers.services import Row, address_of, alongside, counts, of_family, silence, states, unannounced
from ..._loadbalancers.settings import EMPTY
from ..._values.addresses import parse_address
from . import backends
from .backends import ABSENT
from .run import Run


def _announced(run: Run, cost: CostPlan) -> set[str]:
    """What nodes announce afterwards: of all Services, also in a run that handles some of them."""
    if run.options.mode == ABSENT:
        return set()
    return {network for networks in run.networks(cost).values() for network in networks}


def _speaking(run: Run, cost: CostPlan) -> dict[str, t.Any]:
    """What our speakers need, alongside the networks: routes with the ports that say whether a node can deliver, and nodes that announce nothing."""
    if run.setup.balancer.type != EMPTY or run.options.mode == ABSENT:
        return {"routes": [], "left_out": {}, "segments": {}}
    numbers = run.groups(cost)[0]
    routes = [route._replace(group=numbers.get(route.network.partition("/")[0], 0)) for route in run.routes(cost)]
    out = left_out(run.state.nodes, run.setup.exclude_cordoned, run.setup.not_ready_seconds, run.began)
    return {"routes": [route.shown() for route in routes], "left_out": out, "segments": dict(run.setup.segments)}


def shown(run: Run, cost: CostPlan, backend: backends.BackendPlan, speakers: t.Sequence[NodeBgp]) -> dict[str, t.Any]:
    setup, rows, served = run.setup, t.cast(dict[str, dict[str, t.Any]], {}), t.cast(list[Row], [])
    owner, balancer = setup.owner(run.state.uid), setup.balancer.type
    mapped = cost.networks if run.options.gives else {}
    why = silence(balancer, setup.announced_by, setup.speakers, backend.unreachable)
    speaking = _speaking(run, cost)
    why = why or all_left_out(setup.speakers, speaking["left_out"])
    planned = {(change.kind, change.id): change for change in run.outcome.changes}
    for service in sorted(run.state.services, key=lambda item: item.key) if setup.balancer.enabled else ():
        if not counts(service, setup.our_class):
            continue
        mine = next(
            iter(matches_of(run.held, owner, service.namespace, service.name, service.version if setup.static else 0)),
            None,
        )
        has = address_of(service, balancer)
        ident = f"{setup.cluster}/{service.key}"
        change = planned.get(("Service", ident))
        if change is not None and isinstance(change.after, dict):
            has = of_family(str(change.after.get("address", has)), service)
        if (
            not has and balancer == EMPTY
        ):  # only the status and the record have it: of a second family, or where an annotation asks for it
            status = planned.get(("Service status", ident))
            has = of_family(",".join(network.partition("/")[0] for network in mapped.get(service.key, ())), service)
            has = has if has in service.ingress or status is not None else ""
        served.append(Row(service.key, has if service.key in mapped else "", change is None, has in service.ingress))
        found = states(has, mine, backend.mapped)
        row = dict(
            found._asdict(),
            service=service.key,
            address=has,
            ready=found.ready,
            state=found.state,
            reservation=mine.id if mine is not None else "",
            addresses=[has] if has else [],
        )
        rows[service.key] = alongside(rows[service.key], row) if service.key in rows else row
    return {
        "provider": setup.provider,
        "load_balancer": balancer,
        "services": list(rows.values()),
        "pools": _pools(run),
        "announce": sorted(_announced(run, cost)) if balancer == EMPTY else [],
        **speaking,
        "unannounced": unannounced(served, balancer, why, setup.families if balancer == EMPTY else None),
        "nodes": [node.name for node in speakers],
        "former": run.former,
        "releases": run.releases,
        "released": run.options.release,
        "kept": run.kept,
        "cost": {
            "orders": [] if run.effects.writes else [order.service for order in cost.orders],
            "before": cost.before,
            "after": cost.after,
            "limit": cost.limit,
        },
    }


def notices(run: Run, cost: CostPlan) -> list[Notice]:
    """What the Events of Services say: to whom this run gave an address, and whom it refuses."""
    found: list[Notice] = []
    changed = {change.id for change in run.outcome.changes if change.kind in ("Service", "Service status")}
    for service in {item.key: item for item in run.state.services}.values():
        ident = f"{run.setup.cluster}/{service.key}"
        refusal = run.refusals.get("service " + ident)
        if refusal is not None:
            found.append(refused(service.namespace, service.name, service.uid, refusal.reason, refusal.message))
        elif run.options.gives and ident in changed and cost.networks.get(service.key):
            addresses = [network.partition("/")[0] for network in cost.networks[service.key]]
            text = given_text(
                [(address, run.setup.pool_of(address) if run.setup.strict else "") for address in addresses]
            )
            found.append(Notice(service.namespace, service.name, service.uid, NORMAL, GIVEN, text))
    return found


def _pools(run: Run) -> list[dict[str, t.Any]]:
    """How the pools are used after this run, with a warning when it took the last address of one."""
    if not run.setup.static or not run.setup.balancer.enabled:
        return []
    rows = usage(run.setup.pools, run.provider.held())
    drawn = {(run.setup.pool_of(address), parse_address(address).version) for address in run.given}
    for row in rows:
        if row.free < 1 and (row.pool, row.family) in drawn:
            text = "{0}: this run takes the last IPv{1} address of the pool {2}, {3} in all; the next Service that wants one gets none"
            run.outcome.warnings.append(text.format(run.setup.cluster, row.family, row.pool, row.total))
    return [row._asdict() for row in rows]
