# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What no Service uses any more: given back, within the budget, after the load balancer has let it go (ccm 13)."""

from __future__ import annotations

import typing as t

from ..._loadbalancers.cost_plan import CostPlan
from ..._loadbalancers.reservations import matches_of
from ..._loadbalancers.service_plan import (
    CLEAR_ADDRESS,
    LEAVE,
    LET_GO,
    RELEASE,
    RESERVE,
    RETAIN,
    UNMAP,
    Action,
    Context,
    orphans,
    removal_of,
)
from ..._loadbalancers.services import NAMED, Service, address_of, counts, left_alone, retains
from ..._plan.budget import check_budget
from ..._plan.plan import Change, Refusal
from ..._values.refused import ValueRefused
from . import backends, migration, released
from .backends import ABSENT, REMOVE, SYNC
from .read import is_owned
from .run import Run
from .writes import service_puts

KEPT = "no Service wants an address any more, and {0} stay until you say that this is right: load_balancers_confirm_empty: [{1}]"
KEPT_ALONGSIDE_REFUSED = (
    "{0} stay: this run refuses every Service of the cluster, the first is {1} [{2}]; fix what its refusal names"
)


def hand_back(run: Run) -> None:
    """Everything stays as it is, and none of it is owned any more: the upstream controller finds its own. Our record goes when all else is written."""
    owned = [item for item in run.state.services if counts(item, run.context(None).our_class)]
    mine = [item.key for item in owned if item.set_by_us or item.reported or item.key in run.served]
    before = len(run.failed)
    run.write(released.release_puts(run.client, run.setup, run.state, mine))
    gone = [ident for ident, entry in run.ledger.items() if entry.service]
    if not gone or len(run.failed) > before:
        return
    ident = f"{run.setup.cluster}/kube-system/{run.state.ledger_name}"
    run.outcome.update(
        "ConfigMap", ident, {"addresses": sorted(run.ledger[one].address for one in gone)}, {"addresses": []}
    )
    for one in gone:
        del run.ledger[one]
    run.keep_ledger()


def return_unused(run: Run, cost: CostPlan, backend: backends.BackendPlan) -> None:
    actions, notes = _leftovers(run)
    run.outcome.warnings += [f"{run.setup.cluster}: {note}" for note in notes]
    releases = _unmapped(run, [action for action in actions if action.action == RELEASE], backend)
    if releases and run.proof is not None and run.proof.unproven is not None:
        for action in releases:
            name = f"reservation {run.setup.cluster}/{action.address or action.id}"
            run.refuse(name, run.proof.unproven.reason, run.proof.unproven.message)
        releases = []
    refusal = _over_budget(run, cost, releases)
    if refusal is not None:
        run.outcome.refused.append(refusal)
        return
    run.releases = [str(action.address or action.id) for action in releases]
    if not run.options.release:
        return
    run.write(
        service_puts(
            run.setup, run.state, [action for action in actions if action.action not in (RELEASE, UNMAP, RESERVE)]
        )
    )
    for action in releases:
        _give_back(run, action)
    _let_go(run)
    written = {item.key: item.owned for item in run.state.services}
    run.write(migration.leave_puts(run.setup.cluster, run.state.objects, actions, run.options.keep, is_owned, written))
    if not run.setup.static:
        for ident in set(run.ledger) - {item.id for item in run.held} - run.begun:
            del run.ledger[ident]  # somebody else released it, or nobody asks for it any more
    run.keep_ledger()


def _let_go(run: Run) -> None:
    """The finalizer of cloud controllers goes from Services of which nothing is left to give back: else they could never be deleted.

    Only from those that we served: another controller that still serves one has something of its own to give back.
    """
    context = run.context(None)
    actions: list[Action] = []
    for service in {item.key: item for item in run.state.services}.values():
        goes = service.leaving or run.options.mode == ABSENT
        if not (service.held_back and goes and run.options.mode in (SYNC, ABSENT)) or left_alone(
            service, context.our_class
        ):
            continue
        kept = context.reclaim_policy == RETAIN or retains(service)
        rest = matches_of(run.held, context.owner, service.namespace, service.name)
        if (service.set_by_us or service.reported or service.key in run.served) and (kept or not rest):
            actions.append(Action(LET_GO, service.key))
    run.write(service_puts(run.setup, run.state, actions))


def _leftovers(run: Run) -> tuple[list[Action], list[str]]:
    """The steps for what no Service uses any more, and notes."""
    context, mode = run.context(None), run.options.mode
    if mode == SYNC:
        swept = orphans(run.state.services, run.held, context, run.options.confirmed)
        return swept.actions, list(swept.notes)
    actions: list[Action] = []
    notes: list[str] = []
    for service in _leaving(run, context) if mode in (REMOVE, ABSENT) else ():
        try:
            outcome = removal_of(service, run.held, context)
        except ValueRefused as error:
            run.refuse("service " + service.key, error.reason, error.message)
            continue
        actions, notes = actions + outcome.actions, notes + list(outcome.notes)
        kept = context.reclaim_policy == RETAIN or retains(service) or left_alone(service, context.our_class)
        owned = service.set_by_us or (context.reports_status and service.reported and not service.address)
        if mode == ABSENT and run.options.keep:
            stays = (owned or service.reported or service.key in run.served) and not left_alone(
                service, context.our_class
            )
            actions = [action for action in actions if action.action != CLEAR_ADDRESS]
            actions += (
                [Action(LEAVE, service.key)]
                if stays and service.key not in [one.service for one in actions if one.action == LEAVE]
                else []
            )
        elif (
            owned
            and not kept
            and service.key not in [action.service for action in actions if action.action == CLEAR_ADDRESS]
        ):
            actions.append(Action(CLEAR_ADDRESS, service.key, address_of(service, context.backend)))
    if mode == ABSENT:
        others = [item for item in run.state.services if not counts(item, context.our_class)]
        actions += [
            action
            for action in orphans(others, run.held, context._replace(gc_orphans=True), True).actions
            if action not in actions
        ]
    return actions, notes


def _over_budget(run: Run, cost: CostPlan, releases: t.Sequence[Action]) -> Refusal | None:
    if run.options.mode != SYNC:
        return None
    owned = len([item for item in run.held if item.id in run.ledger])
    refusal = check_budget(
        run.setup.cluster,
        "reservation",
        owned,
        len(releases),
        owned - len(releases),
        run.options.max_deletes,
        run.options.confirmed or bool(cost.outcomes),
    )
    if refusal is None or owned != len(releases) or run.options.max_deletes == 0:
        return refusal
    run.kept = sorted(str(action.address or action.id) for action in releases)
    named = ", ".join(run.kept[:NAMED]) + ("" if len(run.kept) <= NAMED else ", ...")
    first = next((row for row in run.refusals.values() if row.object.startswith("service ")), None)
    # a cluster is not empty where all of its Services are refused: to confirm that it were would fix nothing
    message = (
        KEPT.format(named, run.setup.cluster)
        if first is None
        else KEPT_ALONGSIDE_REFUSED.format(named, first.object, first.reason)
    )
    if run.options.release:
        run.outcome.warnings.append(f"{run.setup.cluster}: {message}")
    return refusal._replace(message=message)


def _unmapped(run: Run, releases: t.Sequence[Action], backend: backends.BackendPlan) -> list[Action]:
    """Without those with an address that the load balancer still announces: what could not be taken from it is not given back either."""
    networks = {item.id: item.network for item in run.held}
    left = [action for action in releases if networks.get(action.id) not in backend.mapped]
    for action in releases:
        if action not in left:
            name = f"reservation {run.setup.cluster}/{action.address or action.id}"
            run.refuse(
                name,
                "not_ours",
                "the load balancer still has its address in a pool of another owner; it is given back when that is gone",
            )
    return left


def _leaving(run: Run, context: Context) -> list[Service]:
    if run.options.mode == ABSENT:
        return [item for item in run.state.services if counts(item, context.our_class)]
    found: list[Service] = []
    for key in run.options.services:
        gone = Service(key.partition("/")[0], key.partition("/")[2], "")
        found += [item for item in run.state.services if item.key == key] or [gone, gone._replace(version=6)]
    return found


def _give_back(run: Run, action: Action) -> None:
    entry = run.ledger.get(action.id)
    ident = f"{run.setup.cluster}/{(entry.service if entry else '') or action.id}"
    change = Change("delete", "Reservation", ident, {"address": str(action.address), "id": action.id}, None)
    try:
        run.effects.release(run.provider, action.id)
    except ValueRefused as error:
        run.refuse("service " + ident.partition("/")[2], error.reason, error.message)
        return
    run.outcome.changes.append(change)
    run.held = [item for item in run.held if item.id != action.id]
    run.ledger.pop(action.id, None)
