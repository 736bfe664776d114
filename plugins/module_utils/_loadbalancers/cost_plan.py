# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run would order and give back, before any call: the costs of a plan (ccm 9, check mode)."""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused
from .reservations import Reservation, is_ours
from .service_plan import MAP, RELEASE, RESERVE, Context, Outcome, orphans, users_addresses, wanted_by
from .services import Service, counts


class CostPlan(t.NamedTuple):
    """``after`` counts the prefixes announced once all is done; ``limit`` None: not known."""

    orders: t.List[t.Dict[str, t.Any]]
    releases: t.List[t.Dict[str, str]]
    before: int
    after: int
    limit: t.Optional[int]
    refused: t.List[t.Tuple[str, str, str]]
    outcomes: t.Dict[str, Outcome]
    orphans: Outcome


def cost_plan(
    services: t.Optional[t.Sequence[Service]], reservations: t.Sequence[Reservation], context: Context, confirm_empty: bool = False
) -> CostPlan:
    """The whole run for all Services of a cluster: one that fails does not stop the others, all failures are told.

    ``services`` None: they could not be read; nothing follows then. Orders come in the order of the Services' names, so
    that the same ones are refused in every run when the limit does not allow for all.
    """
    refused: t.List[t.Tuple[str, str, str]] = []
    outcomes: t.Dict[str, Outcome] = {}
    known = sorted((item for item in services or () if counts(item, context.our_class)), key=lambda item: item.key)
    brought = users_addresses(known, reservations, context)
    ordered = 0
    for service in known:
        try:
            outcomes[service.key] = wanted_by(service, reservations, context, brought + ordered)
            ordered += any(action.action == RESERVE for action in outcomes[service.key].actions)
        except ValueRefused as error:
            refused.append((service.key, error.reason, error.message))
    swept = orphans(services, reservations, context, confirm_empty)
    orders = [
        {"service": key, "request": action.request}
        for key, outcome in outcomes.items()
        for action in outcome.actions
        if action.action == RESERVE
    ]
    releases = [{"id": action.id, "address": str(action.address)} for action in swept.actions if action.action == RELEASE]
    before = len([item for item in reservations if context.owner.cluster_uid and is_ours(item, context.owner)]) + brought
    after = before + len(orders) - len(releases)
    return CostPlan(orders, releases, before, after, context.max_prefixes, refused, outcomes, swept)


def mapped_networks(plan: CostPlan) -> t.Dict[str, str]:
    """``namespace/name`` -> network, for all that are to be in the back end; Pending ones are left out."""
    return {
        key: action.address
        for key, outcome in plan.outcomes.items()
        for action in outcome.actions
        if action.action == MAP and isinstance(action.address, str)
    }
