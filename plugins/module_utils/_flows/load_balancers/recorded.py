# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What else the record of addresses has: which are kept, who shares them, in which group nodes wait for it (ccm 9)."""

from __future__ import annotations

from ..._loadbalancers.cost_plan import CostPlan
from ..._loadbalancers.ledger import ORDERING
from ..._loadbalancers.services import left_alone, retains
from .run import Run


def note_retained(run: Run) -> None:
    """Which addresses their Services want kept: it is in an annotation that goes with the Service."""
    our_class = run.context(None).our_class
    options = {item.key: retains(item) for item in run.state.services if not left_alone(item, our_class)}
    for ident, entry in run.ledger.items():
        wish = options.get(entry.service, entry.retain)
        if wish == entry.retain or not run.options.handles(entry.service) or ident.startswith(ORDERING):
            continue
        run.ledger[ident] = entry._replace(retain=wish)
        sides = [{"address": entry.address, "retain": value} for value in (entry.retain, wish)]
        if ident in run.written:  # a new one is reported as such
            run.outcome.update("Reservation", f"{run.setup.cluster}/{entry.service}", *sides)


def note_sharers(run: Run, cost: CostPlan) -> None:
    """Who has an address alongside the Service that holds it: when that one goes, the address is theirs."""
    users: dict[str, set[str]] = {}
    for key, networks in cost.networks.items() if run.setup.static else ():
        for network in networks:
            users.setdefault(network.partition("/")[0], set()).add(key)
    for ident, entry in run.ledger.items():
        sharers = tuple(sorted(users.get(entry.address, set()) - {entry.service}))
        if sharers != entry.sharers and entry.service in users.get(entry.address, ()):
            run.ledger[ident] = entry._replace(sharers=sharers)
            sides = [{"address": entry.address, "sharers": list(value)} for value in (entry.sharers, sharers)]
            run.outcome.update("Reservation", f"{run.setup.cluster}/{entry.service}", *sides)


def note_groups(run: Run, cost: CostPlan) -> None:
    """The group in which nodes of a segment back each other up for an address, where that has to be remembered."""
    numbers, refused = run.groups(cost)
    routes = {route.network.partition("/")[0]: route for route in run.routes(cost)}
    for address, error in refused.items():
        for key in routes[address].services:
            run.refuse("service " + key, error.reason, error.message)
    for ident, entry in run.ledger.items():
        route = routes.get(entry.address)
        number = numbers.get(entry.address, 0) if route is not None and route.health_ports else 0
        if number != entry.group:
            run.ledger[ident] = entry._replace(group=number)
            sides = [{"address": entry.address, "group": value} for value in (entry.group, number)]
            run.outcome.update("Reservation", f"{run.setup.cluster}/{entry.service}", *sides)
