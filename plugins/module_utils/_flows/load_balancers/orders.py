# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses for Services: adopted, ordered from the provider or taken from a pool, written into the record and the Services (ccm 9)."""

from __future__ import annotations

import typing as t

from ..._loadbalancers.address_claims import Settling, check_address_claims, give_up, settle
from ..._loadbalancers.cost_plan import CostPlan, Order
from ..._loadbalancers.ledger import Entry, ordering
from ..._loadbalancers.reservations import matches_of, service_tags
from ..._loadbalancers.service_plan import RESERVE, Context, PartKey
from ..._loadbalancers.services import Service, address_of, counts
from ..._values.addresses import parse_address
from ..._values.refused import ValueRefused
from . import migration, recorded
from .backends import SYNC
from .providers import host_facility
from .run import Run, version_of
from .writes import service_puts


def settle_claims(run: Run) -> None:
    """What is given up looks as if it were not there; what is in use and is in the status only stays where we can own it."""
    if run.options.gives:
        rules, pool = run.rules(), run.setup.pool
        services = give_up(run.state.services, run.held, rules, pool, run.options.renumber, run.setup.in_annotation)
        run.state.services = settle(services, run.held, Settling(rules, pool, run.options.adopt, run.options.handles))


def _adopt(run: Run) -> None:
    """Addresses of the pool that Services have already, from another controller, become reservations of theirs; and so do reservations of a provider's
    that the upstream controller made for them, which else could never be given back."""
    if not (run.options.adopt and run.options.gives):
        return
    context = run.context(None)
    for service in check_address_claims(run.state.services, run.held, run.rules())[0]:
        text = (
            address_of(service, context.backend)
            if counts(service, context.our_class) and run.options.handles(service.key)
            else ""
        )
        if text and not run.setup.static:
            _record(run, service, text, context)
            continue
        if (
            not text
            or text not in run.setup.pool
            or matches_of(run.held, context.owner, service.namespace, service.name, service.version)
        ):
            continue
        address = str(parse_address(text))
        if any(item.address == address for item in run.held):
            continue  # two Services share it, and the first one holds it
        tags = tuple(service_tags(context.owner, service.namespace, service.name))
        run.ledger[address] = Entry(
            address, address, parse_address(address).max_prefixlen, tags, service.key, "", run.provider.now
        )
        run.held.append(run.ledger[address].reservation())
        shown = {
            "address": address,
            "tags": list(tags),
            "adopted": True,
            **({"given_by": service.giver} if service.giver else {}),
        }
        run.outcome.create("Reservation", f"{run.setup.cluster}/{service.key}", shown)


def _record(run: Run, service: Service, text: str, context: Context) -> None:
    """A reservation with our tags and without an entry in our record: only the one with its Service's address, since anyone can write tags."""
    for item in matches_of(run.held, context.owner, service.namespace, service.name):
        if item.id not in run.ledger and item.address and item.address == text:
            run.ledger[item.id] = Entry(item.id, item.address, item.cidr, item.tags, service.key, "", run.provider.now)
            shown = {"address": item.address, "tags": list(item.tags), "adopted": True}
            run.outcome.create("Reservation", f"{run.setup.cluster}/{service.key}", shown)


def give_addresses(run: Run, limit: int | None) -> CostPlan:
    _adopt(run)
    _hand_over(run)
    cost = run.costs(limit)
    if run.options.gives and any(reason == "no_location" for dummy, reason, dummy_message in cost.refused):
        cost = _placed(run, cost, limit)
    while run.options.gives and any(_is_new(run, order) for order in cost.orders):
        _order(run, cost)
        cost = run.costs(limit)
    for key, reason, message in cost.refused:
        if run.options.handles(key) and (run.options.gives or reason not in ("adoptable", "outside_grant")):
            run.refuse("service " + key, reason, message)
    if run.options.gives:
        recorded.note_retained(run)
        recorded.note_sharers(run, cost)
        recorded.note_groups(run, cost)
    run.keep_ledger()
    if run.options.gives:
        actions = [action for key in cost.outcomes if _served(run, key, cost) for action in cost.outcomes[key].actions]
        run.write(service_puts(run.setup, run.state, actions))
        _take_marks(run, cost)
    for key, outcome in cost.outcomes.items():
        run.outcome.warnings += [f"{run.setup.cluster}/{key}: {note}" for note in outcome.notes]
    return cost


def _take_marks(run: Run, cost: CostPlan) -> None:
    """What a former controller wrote on Services with addresses that we own by now."""
    if not run.options.adopt:
        return
    named = {key for entry in run.ledger.values() for key in (entry.service, *entry.sharers)}
    taken = [key for key in cost.networks if key in named and key in run.state.objects and run.options.handles(key)]
    moved = migration.take_marks(run.client, run.setup.cluster, run.state.objects, taken, run.setup.balancer.type)
    run.former = moved.rows
    run.outcome.warnings += [f"{run.setup.cluster}: {note}" for note in moved.notes]
    run.write(moved.puts + migration.take_records(run.setup.cluster, run.state.objects, taken, run.manager))


def _placed(run: Run, cost: CostPlan, limit: int | None) -> CostPlan:
    """The last resort, as in the upstream controller: the facility of the host, asked only where a Service knows no other place."""
    if not run.setup.metadata_url:
        return cost
    try:
        run.host_facility = host_facility(run.setup.metadata_url, run.setup.plain_http)
    except ValueRefused as error:
        return cost._replace(
            refused=[
                (key, reason, error.message if reason == error.reason else text) for key, reason, text in cost.refused
            ]
        )
    return run.costs(limit)


def _served(run: Run, key: str, cost: CostPlan) -> bool:
    """Whether a Service has an address, or would have one: an order that was refused has no consequences."""
    if not run.options.handles(key) or not any(action.action == RESERVE for action in cost.outcomes[key].actions):
        return run.options.handles(key)
    return not run.effects.writes and f"service {run.setup.cluster}/{key}" not in run.refusals


def _is_new(run: Run, order: Order) -> bool:
    """Whether nobody was asked for it in this run."""
    return run.options.handles(order.service) and (order.service, version_of(order)) not in run.asked


def _begin(run: Run, orders: t.Iterable[Order]) -> dict[str, str]:
    """Note the orders before the provider is asked, all in one write; Service -> id of its entry. Nothing where the pool is the inventory's."""
    if run.setup.static or not run.effects.writes:
        return {}
    entries = [
        ordering(order.request["tags"], order.service, run.provider.now) for order in orders if _is_new(run, order)
    ]
    for entry in entries:
        run.begun.add(entry.id)
        run.ledger.setdefault(entry.id, entry)
    run.keep_ledger()
    return {entry.service: entry.id for entry in entries}


def _order(run: Run, cost: CostPlan) -> None:
    begun = _begin(run, cost.orders)
    for order in cost.orders:
        key, request = order
        if not _is_new(run, order):
            continue
        part = key, version_of(order)
        run.asked.add(part)
        ident = f"{run.setup.cluster}/{key}"
        place = {name: request[name] for name in ("metro", "facility") if name in request}
        try:
            made = run.effects.reserve(run.provider, request, key)
            if made is None:
                run.outcome.create(
                    "Reservation", ident, dict(place, tags=request["tags"], address="(known after apply)")
                )
                continue
        except ValueRefused as error:
            run.unserved.add(part)
            if not _goes_without(run, part, error):
                run.refuse("service " + key, error.reason, error.message)
            if error.reason == "auth":  # nobody else gets one either
                run.asked.update((one.service, version_of(one)) for one in cost.orders)
                break
            continue
        run.held.append(made)
        run.given += [made.address] if run.setup.static else []
        run.outcome.create(
            "Reservation", ident, dict(place, tags=list(made.tags), address=made.address, state=made.state)
        )
        if not run.setup.static:
            run.ledger.pop(begun.get(key, ""), None)
            run.ledger[made.id] = Entry(made.id, made.address, made.cidr, made.tags, key, "", run.provider.now)
            run.keep_ledger()  # at once: without this record it could never be released again


def _goes_without(run: Run, part: PartKey, error: ValueRefused) -> bool:
    """Whether a Service that prefers both families is served by the other one alone."""
    parts = [item for item in run.state.services if item.key == part[0]]
    others = [item for item in parts if item.version != part[1] and (item.key, item.version) not in run.unserved]
    if error.reason != "quota" or not others or any(item.required for item in parts):
        return False
    run.outcome.warnings.append(
        f"{run.setup.cluster}/{part[0]}: it goes without an IPv{part[1]} address: {error.message}"
    )
    return True


def _hand_over(run: Run) -> None:
    """An address of a Service that is gone belongs to those that shared it then."""
    if not (run.setup.static and run.options.gives and run.options.mode == SYNC):
        return
    context = run.context(None)
    known = {item.key for item in run.state.services if counts(item, context.our_class)}
    for ident, entry in run.ledger.items():
        if not entry.sharers or not entry.service or entry.service in known or entry.retain:
            continue
        heirs = [
            item
            for item in run.state.services
            if item.key in entry.sharers and entry.address in (address_of(item, context.backend), *item.ingress)
        ]
        if heirs:
            heir = min(heirs, key=lambda item: item.key)
            tags = tuple(service_tags(context.owner, heir.namespace, heir.name))
            made = entry._replace(
                service=heir.key, tags=tags, sharers=tuple(key for key in entry.sharers if key != heir.key)
            )
            run.ledger[ident] = made
            run.held = [made.reservation() if item.id == ident else item for item in run.held]
            sides = [{"address": entry.address, "service": one.service} for one in (entry, made)]
            run.outcome.update("Reservation", f"{run.setup.cluster}/{heir.key}", *sides)
