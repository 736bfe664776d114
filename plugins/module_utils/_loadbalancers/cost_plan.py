# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run orders and writes for all Services of a cluster, and who shares an address, before any call (ccm). Pure."""

from __future__ import annotations

import typing as t

from .._values.addresses import parse_address, readable_address
from .._values.refused import ValueRefused
from .reservations import Reservation, is_owned
from .service_plan import (
    MAP,
    REPORT,
    RESERVE,
    SET_ADDRESS,
    Context,
    Outcome,
    PartKey,
    outcome_of,
    reserved_for,
    users_addresses,
    wish_of,
)
from .services import Service, address_of, asked_address, counts
from .sharing import Key, Sharing, keys_of, wants_to_share, why_not


class Order(t.NamedTuple):
    """An address to be reserved for a Service (``namespace/name``), as a provider is asked for it."""

    service: str
    request: dict[str, t.Any]


class CostPlan(t.NamedTuple):
    """What a run would order, before any call. ``before`` and ``after`` count the prefixes announced; ``limit`` None: not known;
    ``refused`` (service, reason, message)."""

    orders: list[Order]
    before: int
    after: int
    limit: int | None
    refused: list[tuple[str, str, str]]
    outcomes: dict[str, Outcome]

    @property
    def networks(self) -> dict[str, tuple[str, ...]]:
        """``namespace/name`` -> networks, for all that are to be in the back end, one for each family; Pending ones are left out."""
        found: dict[str, tuple[str, ...]] = {}
        for key, outcome in self.outcomes.items():
            networks = tuple(
                action.address for action in outcome.actions if action.action == MAP and isinstance(action.address, str)
            )
            if networks:
                found[key] = networks
        return found


def cost_plan(services: t.Sequence[Service], reservations: t.Sequence[Reservation], context: Context) -> CostPlan:
    """For all Services of a cluster: one that fails does not stop the others, all failures are reported.

    Orders come in the order of the Services' names, so that the same ones are refused in every run when the limit does not allow for all;
    but first those that ask for an address, which no other Service is given then, and last second addresses of who would go without one.
    """
    refused: list[tuple[str, str, str]] = []
    parts: dict[str, list[Outcome | None]] = {}
    known = sorted((item for item in services if counts(item, context.our_class)), key=_place)
    orders: list[tuple[int, Order]] = []
    brought = users_addresses(known, reservations, context)
    context = _with_sharers(known, reservations, context)
    for service in known:
        try:
            outcome = outcome_of(service, reservations, context, brought + len(orders))
        except ValueRefused as error:
            parts.setdefault(service.key, []).append(None)
            if service.key not in [key for key, dummy, dummy_message in refused[-1:]]:
                refused.append((service.key, error.reason, error.message))
            continue
        parts.setdefault(service.key, []).append(outcome)
        rank = 0 if context.places is None and asked_address(service) else 2 if _is_second(service) else 1
        orders += [
            (rank, Order(service.key, action.request or {})) for action in outcome.actions if action.action == RESERVE
        ]
    whole = {
        key: _together([part for part in found if part is not None])
        for key, found in parts.items()
        if None not in found
    }
    placed = [order for dummy, order in sorted(orders, key=lambda row: row[0]) if order.service in whole]
    before = (
        len([item for item in reservations if context.owner.cluster_uid and is_owned(item, context.owner)]) + brought
    )
    return CostPlan(placed, before, before + len(placed), context.max_prefixes, refused, whole)


def _place(service: Service) -> tuple[str, int]:
    return service.key, service.families.index(service.version) if service.families else 0


def _is_second(service: Service) -> bool:
    return bool(service.families) and not service.required and service.version != service.families[0]


def _together(parts: t.Sequence[Outcome]) -> Outcome:
    """The outcome of a Service out of those of its parts: each address on its own, what is written into it at once."""
    if len(parts) < 2:
        return parts[0]
    actions = [action for part in parts for action in part.actions if action.action not in (SET_ADDRESS, REPORT)]
    networks = [action.address for action in actions if action.action == MAP]
    both = ",".join(str(network).partition("/")[0] for network in networks)
    for kind in (SET_ADDRESS, REPORT):
        steps = [action for part in parts for action in part.actions if action.action == kind]
        if steps:
            actions.append(steps[0]._replace(address=both))
    waits = any(action.action == RESERVE for action in actions) or len(networks) < len(parts)
    if waits:  # one of them is still to come, and half of it is written only where it is already
        actions = [action for action in actions if action.action not in (SET_ADDRESS, REPORT)]
    notes = tuple(note for part in parts for note in part.notes)
    return Outcome(actions, "Requested" if waits else parts[0].state, notes)


def _with_sharers(known: t.Sequence[Service], reservations: t.Sequence[Reservation], context: Context) -> Context:
    """Who shares which address without having one: the lowest that Services have which agree, of a pool that is for the Service."""
    if context.places is not None or not any(map(wants_to_share, known)):
        return context
    users: dict[str, Sharing] = {}
    texts: dict[
        Key, list[str]
    ] = {}  # by the sharing keys of the first who has each: who has none of them cannot agree with him
    without: list[Service] = []
    for service in known:
        try:
            mine = reserved_for(service, reservations, context, "", service.version)
        except ValueRefused:
            continue
        text = address_of(service, context.backend) or (mine.address if mine is not None else "")
        if text:
            if text in users:
                users[text].add(service)
            else:
                users[text] = Sharing([service])
                _index(texts, service, text)
        elif mine is None and not service.ingress and not service.hosts:
            without.append(service)
    shared: dict[PartKey, str] = {}
    waiting: set[PartKey] = set()
    ordering: dict[Key, list[tuple[int, Service]]] = {}
    for place, service in enumerate(sorted(without, key=lambda item: (not asked_address(item), _place(item)))):
        part = service.key, service.version
        agreed: list[str] = []
        partners: list[Service] = []
        if wants_to_share(service):
            mine_too = dict.fromkeys(text for key in keys_of(service) for text in texts.get(key, ()))
            agreed = [
                text for text in mine_too if not users[text].refuses(service) and _may_share(service, text, context)
            ]
            earlier = sorted(
                ((at, other) for key in keys_of(service) for at, other in ordering.get(key, ())), key=lambda row: row[0]
            )
            partners = [
                other for unused, other in earlier if other.version == service.version and not why_not(service, other)
            ]
        if agreed:
            shared[part] = min(agreed, key=lambda text: int(parse_address(text)))
            users[shared[part]].add(service)
        elif partners and asked_address(service) in ("", asked_address(partners[0])):
            waiting.add(part)
        elif part not in context.unserved:
            _index(ordering, service, (place, service))
    return context._replace(shared=shared, waiting=frozenset(waiting))


def _index(rows: dict[Key, list[t.Any]], service: Service, row: t.Any) -> None:
    for key in keys_of(service):
        rows.setdefault(key, []).append(row)


def _may_share(service: Service, text: str, context: Context) -> bool:
    address = readable_address(text)
    wish = wish_of(service)
    if address is None or address.version != service.version or wish.address not in ("", text):
        return False
    pools = [pool for pool in context.grants.of(service.namespace, service.labels) if address in pool.pool]
    return any(
        wish.address or (wish.pool == pool.name if wish.pool and context.grants.strict else pool.auto_assign)
        for pool in pools
    )
