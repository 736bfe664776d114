# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows for Services from the reservations and the addresses they have, and what a run orders and gives back (ccm 4, 9.3 to 9.5).

An address that is in use is never changed: where another one is reserved, or where only the status has it, that is reported.

Nothing here calls anyone. Where an address must be ordered first, the plan shows it as Pending; after the order the
caller adds the provider's record to the reservations and asks again.
"""

from __future__ import annotations

import typing as t

from .._plan.plan import Pending
from .._values.addresses import host_cidr, parse_address, parse_network, readable_address
from .._values.refused import ValueRefused, quoted
from .named_pools import Grants, Wish
from .pools import Pool
from .reservations import (
    DEFAULT_DOMAIN,
    DENIED,
    REFUSE,
    Owner,
    Reservation,
    family_of,
    is_owned,
    reservation_of,
    service_tag,
    service_tags,
)
from .services import (
    Service,
    address_of,
    addresses_in_use,
    annotated_address,
    annotates,
    asked_address,
    asked_pool,
    counts,
    left_alone,
    opted_out,
    retains,
)

METRO, FACILITY = "metro", "facility"


class Places(t.NamedTuple):
    """What is configured. ``host_facility`` is what the host's metadata has, the seed's last resort."""

    metro: str = ""
    facility: str = ""
    host_facility: str = ""
    metro_annotation: str = DEFAULT_DOMAIN + "/eip-metro"
    facility_annotation: str = DEFAULT_DOMAIN + "/eip-facility"


def location_of(annotations: t.Mapping[str, str] | None, places: Places) -> dict[str, str]:
    """``{"metro": code}`` or ``{"facility": code}``. Raises ValueRefused ``no_location``."""
    given = annotations or {}
    for kind, text in (
        (METRO, given.get(places.metro_annotation)),
        (FACILITY, given.get(places.facility_annotation)),
        (METRO, places.metro),
        (FACILITY, places.facility),
        (FACILITY, places.host_facility),
    ):
        if text:
            if not isinstance(text, str) or len(text) > 63 or not text.isascii() or not text.isprintable():
                raise ValueRefused("no_location", f"{quoted(text)} is no {kind}")
            return {kind: text}
    raise ValueRefused(
        "no_location", "no metro or facility is known; set metro in load_balancers_settings, or annotate the Service"
    )


RESERVE, SET_ADDRESS, CLEAR_ADDRESS, MAP, UNMAP, RELEASE, REPORT = [
    "reserve",
    "set_service_ip",
    "clear_service_ip",
    "map",
    "unmap",
    "release",
    "report",
]
#: Take the finalizer of cloud controllers from a Service; and leave it its address, for the next controller.
LET_GO, LEAVE = "let_go", "leave"
DELETE, RETAIN = "delete", "retain"
Address = t.Union[str, Pending]


#: A Service's part for one family: its key, and 4 or 6.
PartKey = tuple[str, int]


class Action(t.NamedTuple):
    """One step. ``request`` is what an order asks for, ``id`` the reservation's; unused fields are empty.

    Where an address is written for a Service of both families, ``address`` has both, with a comma between.
    """

    action: str
    service: str = ""
    address: Address = ""
    id: str = ""
    request: dict[str, t.Any] | None = None


class Context(t.NamedTuple):
    """What is the same for all Services of a run.

    ``recorded`` ids of reservations that we made ourselves; without a record none is released, unless
    ``release_unrecorded``. ``places`` None: the provider has no locations. ``on_duplicate`` refuse or first.
    ``reports_status``: the back end does not report addresses. ``pool``: the addresses of our own, where there are any.
    ``retained`` ids of reservations that their Services asked to keep when we saw them last: it counts once they are gone.
    ``grants``: which pools are for whom. ``shared``: the address that a Service without one shares with others; ``waiting``: those that share
    one which is ordered in this run; ``unserved``: those with a refused order in this run.
    """

    owner: Owner
    places: Places | None = Places()
    backend: str = ""
    our_class: str = ""
    control_plane_tag: str = ""
    max_prefixes: int | None = None
    recorded: frozenset[str] = frozenset()
    release_unrecorded: bool = False
    on_duplicate: str = REFUSE
    reclaim_policy: str = DELETE
    gc_orphans: bool = False
    reports_status: bool = False
    pool: Pool = Pool(())
    retained: frozenset[str] = frozenset()
    grants: Grants = Grants()
    shared: t.Mapping[PartKey, str] = {}
    waiting: frozenset[PartKey] = frozenset()
    unserved: frozenset[PartKey] = frozenset()

    def version(self, service: Service) -> int:
        """Of the reservations that are a Service's; a provider hands out one address whatever the family."""
        return service.version if self.places is None else 0


class Outcome(t.NamedTuple):
    """What to do for one Service, the farthest state known now, and notes for its owner."""

    actions: list[Action]
    state: str = ""
    notes: tuple[str, ...] = ()


def reserved_for(
    service: Service, reservations: t.Iterable[Reservation], context: Context, address: str, version: int
) -> Reservation | None:
    """As reservation_of, by the records of the context."""
    name, recorded, duplicate = (service.namespace, service.name), context.recorded, context.on_duplicate
    return reservation_of(reservations, context.owner, *name, address, recorded, duplicate, version)


def outcome_of(service: Service, reservations: t.Sequence[Reservation], context: Context, ordered: int = 0) -> Outcome:
    """The steps that give a Service its address; ``ordered`` counts orders planned before in the same run.

    Raises ValueRefused ``denied claimed_twice no_location prefix_limit missing_cluster_uid``; and ``adoptable`` or ``outside_grant`` for
    one that another controller serves: its status has what neither its owner nor we gave it.
    """
    if not counts(service, context.our_class):
        return Outcome([])
    has = address_of(service, context.backend)
    mine = reserved_for(service, reservations, context, has or "".join(service.ingress[:1]), context.version(service))
    if has and not service.hosts:
        return _with_address(service, has, mine, context)
    if service.hosts or service.ingress and not (mine is not None and mine.address and mine.address in service.ingress):
        raise _served_by_another(service, mine, context)
    if mine is None:
        if (service.key, service.version) in context.waiting:
            return Outcome([], "Requested")
        shared = context.shared.get((service.key, service.version))
        if shared is not None:
            return Outcome(_set_and_map(service, shared, host_cidr(shared), context), "Reserved")
        return _order(service, reservations, context, ordered)
    if not mine.address:
        if mine.state == DENIED:
            raise ValueRefused("denied", f"the provider denied the address of {service.key}")
        return Outcome([], "Requested")
    return Outcome(
        _set_and_map(service, mine.address, mine.network, context), "Reserved", _unheard(service, mine.address, context)
    )


def _unheard(service: Service, has: str, context: Context) -> tuple[str, ...]:
    """What to tell the owner who asks for another address than the one that his Service has."""
    asked = asked_address(service) if context.places is None else ""
    address = readable_address(asked)
    if address is None or str(address) == has:
        return ()
    return (
        f"it asks for {address} and has {has}, which is in use and stays; a Service that is made anew gets the other one",
    )


def _with_address(service: Service, has: str, mine: Reservation | None, context: Context) -> Outcome:
    notes: tuple[str, ...] = ()
    if mine is not None and mine.address and mine.address != has:
        text = "it has {0}, which stays; the address {1} reserved for it is unused (load_balancers_renumber: [{2}] gives it that one)"
        notes = (text.format(has, mine.address, host_cidr(has)),)
    notes += _unheard(service, has, context)
    # the reserved length belongs to the reserved addresses only
    inside = mine is not None and mine.address and parse_address(has) in parse_network(mine.network)
    network = f"{parse_address(has)}/{mine.cidr}" if mine is not None and inside else host_cidr(has)
    written = service.families and not context.reports_status and annotated_address(service, context.backend) == has
    missing = (
        not written
        if service.families and not context.reports_status
        else has == service.live and not annotates(service, has)
    )
    steps = _set(service, has, context) if missing else []
    others = [text for text in service.ingress if text != has and (mine is None or text != mine.address)]
    if context.reports_status and others and has not in service.ingress and not service.reported:
        text = "its status has {0}, which another controller wrote and which stays (load_balancers_renumber: [{1}] replaces it)"
        notes += (text.format(others[0], host_cidr(others[0])),)
        return Outcome(steps + [Action(MAP, service.key, network)], "Assigned", notes)
    return Outcome(steps + [Action(MAP, service.key, network)] + _report(service, has, context), "Assigned", notes)


def _served_by_another(service: Service, mine: Reservation | None, context: Context) -> ValueRefused:
    has = ", ".join((service.ingress + service.hosts)[:5])
    kept = f"{service.giver or 'another controller'} gave it {has}, which is in its status and stays; "
    if len(service.ingress) == 1 and not service.hosts and service.ingress[0] in context.pool:
        return ValueRefused("adoptable", kept + "load_balancers_adopt: true takes that over")
    reserved = f"{mine.address} is reserved for it; " if mine is not None and mine.address else ""
    networks = ", ".join(host_cidr(address) for address in service.ingress)
    other = (
        f"load_balancers_renumber: [{networks}]" if networks and not service.hosts else "load_balancers_renumber: true"
    )
    return ValueRefused(
        "outside_grant",
        f'{kept}{reserved}{other} gives it an address of the pool, the annotation loadbalancer-managed "false" leaves it there',
    )


def _order(service: Service, reservations: t.Sequence[Reservation], context: Context, ordered: int) -> Outcome:
    request: dict[str, t.Any] = {
        "type": "public_ipv4",
        "quantity": 1,
        "tags": service_tags(context.owner, service.namespace, service.name),
        "fail_on_approval_required": True,
    }
    if context.places is not None:
        request.update(location_of(service.annotations, context.places))
    if context.places is None:
        request.update(wish=wish_of(service))
    if service.version == 6:
        if context.places is not None:
            raise ValueRefused(
                "quota", f"the provider hands out IPv4 addresses, and {service.key} is a Service of IPv6"
            )
        request["version"] = 6
    limit = context.max_prefixes
    if limit is not None and _held(reservations, context) + ordered >= limit:
        raise ValueRefused(
            "prefix_limit",
            f"an address for {service.key} would be announced as number {_held(reservations, context) + ordered + 1}, "
            f"and {limit} are allowed; let Services share one",
        )
    address = Pending(f"address of {service.key}")
    later = _set_and_map(service, address, Pending(f"network of {service.key}"), context)
    return Outcome([Action(RESERVE, service.key, request=request)] + later)


def _held(reservations: t.Iterable[Reservation], context: Context) -> int:
    return len([item for item in reservations if item.state != DENIED and is_owned(item, context.owner)])


def users_addresses(services: t.Iterable[Service], reservations: t.Iterable[Reservation], context: Context) -> int:
    """How many further prefixes counting Services bring along: they are announced too (give it as ``ordered``)."""
    owned = {item.address for item in reservations if is_owned(item, context.owner)}
    return len(
        {address_of(item, context.backend) for item in services if counts(item, context.our_class)} - owned - {""}
    )


def _set_and_map(service: Service, address: Address, network: Address, context: Context) -> list[Action]:
    kept = annotates(service, str(address)) and (address in service.ingress or context.reports_status)
    steps = [] if kept else _set(service, address, context)
    return steps + [Action(MAP, service.key, network)] + _report(service, address, context)


def _set(service: Service, address: Address, context: Context) -> list[Action]:
    """``spec.loadBalancerIP`` holds one address: of a Service of both families that of its first, where no annotation takes both."""
    if service.families and context.reports_status and service.version != service.families[0]:
        return []
    return [Action(SET_ADDRESS, service.key, address)]


def wish_of(service: Service) -> Wish:
    """What its owner asks for. It is a claim, which the pools of the inventory grant or not."""
    return Wish(
        service.namespace, service.name, service.labels, service.version, asked_address(service), asked_pool(service)
    )


def _report(service: Service, address: Address, context: Context) -> list[Action]:
    return [Action(REPORT, service.key, address)] if context.reports_status and address not in service.ingress else []


def removal_of(service: Service, reservations: t.Sequence[Reservation], context: Context) -> Outcome:
    """The steps after a Service went: never announce what may already be another Service's, so unmap comes first.

    Its reservation is found by tags, never by the address that is in the Service. One that was left alone while it
    lived is left alone now. Raises ValueRefused ``claimed_twice``.
    """
    if left_alone(service, context.our_class):
        return Outcome([], notes=(f"{service.key} is left alone, also now that it goes",))
    mine = reserved_for(service, reservations, context, service.address, context.version(service))
    if mine is None:
        has = address_of(service, context.backend)
        return Outcome([Action(UNMAP, service.key, host_cidr(has))] if has else [])
    actions = [Action(UNMAP, service.key, mine.network)] if mine.address else []
    if context.reclaim_policy == RETAIN or retains(service) or (not service.type and mine.id in context.retained):
        return Outcome(actions, notes=(f"its address {mine.address} is kept",))
    releases, notes = _release(mine, context)
    return Outcome(actions + releases, notes=tuple(notes))


def _release(item: Reservation, context: Context) -> tuple[list[Action], list[str]]:
    if item.id in context.recorded or context.release_unrecorded:
        return [Action(RELEASE, address=item.address, id=item.id)], []
    return [], [
        f"the reservation {item.id} carries our tags but this cluster has no record of it; release_unrecorded releases it"
    ]


def orphans(
    services: t.Sequence[Service] | None,
    reservations: t.Sequence[Reservation],
    context: Context,
    confirm_empty: bool = False,
) -> Outcome:
    """Reservations of this cluster that no Service wants (ccm 9.5).

    ``services`` None: they could not be read, so nothing is done; an empty list needs ``confirm_empty``. All Services of
    the cluster belong here, also those that we leave alone: an address that any of them has is in use.
    """
    if (
        not context.gc_orphans
        or not context.owner.cluster_uid
        or services is None
        or (not services and not confirm_empty)
    ):
        return Outcome([])
    desired = {
        (service_tag(item.namespace, item.name), context.version(item))
        for item in services
        if counts(item, context.our_class)
    }
    desired |= {
        (service_tag(item.namespace, item.name), version)
        for item in services
        if opted_out(item)
        for version in (0, 4, 6)
    }
    in_use = {
        address
        for item in services
        if item.type == "LoadBalancer" and not item.leaving
        for address in addresses_in_use(item, context.backend)
    }
    actions: list[Action] = []
    notes: list[str] = []
    for item in reservations:
        tags = [tag for tag in item.tags if tag.startswith("service=")]
        family = family_of(item) if context.places is None else 0
        if (
            not is_owned(item, context.owner)
            or not tags
            or item.address in in_use
            or any((tag, family) in desired for tag in tags)
        ):
            continue
        if context.control_plane_tag and context.control_plane_tag in item.tags:
            continue
        former = [other for other in services if service_tag(other.namespace, other.name) in tags]
        if (
            context.reclaim_policy == RETAIN
            or any(retains(other) for other in former)
            or (not former and item.id in context.retained)
        ):
            continue
        releases, said = _release(item, context)
        notes += said
        if not releases:
            continue
        if item.address:
            actions.append(Action(UNMAP, former[0].key if former else "", item.network))
        actions += releases
        actions += [
            Action(CLEAR_ADDRESS, other.key, item.address)
            for other in former
            if other.address and other.address == item.address
        ]
    return Outcome(actions, notes=tuple(notes))
