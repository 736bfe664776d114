# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows for Services from the reservations and the addresses they have, and what a run orders and gives back (ccm 4, 9.3 to 9.5).

An address that is in use is never changed: where another one is reserved, or where only the status has it, that is told.

Nothing here calls anyone. Where an address must be ordered first, the plan shows it as Pending; after the order the
caller adds the provider's record to the reservations and asks again.
"""

from __future__ import annotations

import typing as t

from .._plan.plan import Pending
from .._values.addresses import parse_address, parse_network
from .._values.refused import ValueRefused, quoted
from .pools import Pool
from .reservations import DEFAULT_DOMAIN, DENIED, REFUSE, Owner, Reservation, is_ours, reservation_of, service_tag, service_tags
from .services import Service, address_of, addresses_in_use, annotates, counts, left_alone, opted_out, retains

METRO, FACILITY = "metro", "facility"


class Places(t.NamedTuple):
    """What is configured. ``host_facility`` is what the host's metadata says, the seed's last resort."""

    metro: str = ""
    facility: str = ""
    host_facility: str = ""
    metro_annotation: str = DEFAULT_DOMAIN + "/eip-metro"
    facility_annotation: str = DEFAULT_DOMAIN + "/eip-facility"


def location_of(annotations: t.Optional[t.Mapping[str, str]], places: Places) -> t.Dict[str, str]:
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
                raise ValueRefused("no_location", "{0} is no {1}".format(quoted(text), kind))
            return {kind: text}
    raise ValueRefused("no_location", "no metro or facility is known; set metro in load_balancers_settings, or annotate the Service")


RESERVE, SET_ADDRESS, CLEAR_ADDRESS, MAP, UNMAP, RELEASE, REPORT = "reserve set_service_ip clear_service_ip map unmap release report".split()
DELETE, RETAIN = "delete", "retain"
Address = t.Union[str, Pending]


class Action(t.NamedTuple):
    """One step. ``request`` is what an order asks for, ``id`` the reservation's; unused fields are empty."""

    action: str
    service: str = ""
    address: Address = ""
    id: str = ""
    request: t.Optional[t.Dict[str, t.Any]] = None


class Context(t.NamedTuple):
    """What is the same for all Services of a run.

    ``recorded`` ids of reservations that we made ourselves; without a record none is released, unless
    ``release_unrecorded``. ``places`` None: the provider has no locations. ``on_duplicate`` refuse or first.
    ``reports_status``: the back end does not report addresses. ``pool``: the addresses of our own, where there are any.
    ``retained`` ids of reservations whose Services wanted them kept when we saw them last: it counts once they are gone.
    """

    owner: Owner
    places: t.Optional[Places] = Places()
    backend: str = ""
    our_class: str = ""
    control_plane_tag: str = ""
    max_prefixes: t.Optional[int] = None
    recorded: t.FrozenSet[str] = frozenset()
    release_unrecorded: bool = False
    on_duplicate: str = REFUSE
    reclaim_policy: str = DELETE
    gc_orphans: bool = False
    reports_status: bool = False
    pool: Pool = Pool(())
    retained: t.FrozenSet[str] = frozenset()


class Outcome(t.NamedTuple):
    """What to do for one Service, the farthest state known now, and notes for its owner."""

    actions: t.List[Action]
    state: str = ""
    notes: t.Tuple[str, ...] = ()


def wanted_by(service: Service, reservations: t.Sequence[Reservation], context: Context, ordered: int = 0) -> Outcome:
    """The steps that give a Service its address; ``ordered`` counts orders planned before in the same run.

    Raises ValueRefused ``denied claimed_twice no_location prefix_limit missing_cluster_uid``; and ``adoptable`` or ``outside_grant`` for
    one that another controller serves: its status has what neither its owner nor we gave it.
    """
    if not counts(service, context.our_class):
        return Outcome([])
    has = address_of(service, context.backend)
    mine = reservation_of(
        reservations, context.owner, service.namespace, service.name, has or "".join(service.ingress[:1]), context.recorded, context.on_duplicate
    )
    if has and not service.hosts:
        return _with_address(service, has, mine, context)
    if service.hosts or service.ingress and not (mine is not None and mine.address and mine.address in service.ingress):
        raise _served_by_another(service, mine, context)
    if mine is None:
        return _order(service, reservations, context, ordered)
    if not mine.address:
        if mine.state == DENIED:
            raise ValueRefused("denied", "the provider denied the address of {0}".format(service.key))
        return Outcome([], "Requested")
    return Outcome(_set_and_map(service, mine.address, mine.network, context), "Reserved")


def _with_address(service: Service, has: str, mine: t.Optional[Reservation], context: Context) -> Outcome:
    notes: t.Tuple[str, ...] = ()
    if mine is not None and mine.address and mine.address != has:
        text = "it has {0}, which stays; the address {1} reserved for it is unused (load_balancers_renumber: [{2}] gives it that one)"
        notes = (text.format(has, mine.address, host_network(has)),)
    # the reserved length belongs to the reserved addresses only
    inside = mine is not None and mine.address and parse_address(has) in parse_network(mine.network)
    network = "{0}/{1}".format(parse_address(has), mine.cidr) if mine is not None and inside else host_network(has)
    steps = [Action(SET_ADDRESS, service.key, has)] if has == service.live and not annotates(service, has) else []
    others = [text for text in service.ingress if text != has and (mine is None or text != mine.address)]
    if context.reports_status and others and has not in service.ingress and not service.reported:
        text = "its status says {0}, which another controller wrote and which stays (load_balancers_renumber: [{1}] replaces it)"
        notes += (text.format(others[0], host_network(others[0])),)
        return Outcome(steps + [Action(MAP, service.key, network)], "Assigned", notes)
    return Outcome(steps + [Action(MAP, service.key, network)] + _report(service, has, context), "Assigned", notes)


def _served_by_another(service: Service, mine: t.Optional[Reservation], context: Context) -> ValueRefused:
    has = ", ".join((service.ingress + service.hosts)[:5])
    kept = "another controller gave it {0}, which stands in its status and stays; ".format(has)
    if len(service.ingress) == 1 and not service.hosts and service.ingress[0] in context.pool:
        return ValueRefused("adoptable", kept + "load_balancers_adopt: true takes that over")
    reserved = "{0} is reserved for it; ".format(mine.address) if mine is not None and mine.address else ""
    networks = ", ".join(host_network(address) for address in service.ingress)
    other = "load_balancers_renumber: [{0}]".format(networks) if networks and not service.hosts else "load_balancers_renumber: true"
    return ValueRefused("outside_grant", "{0}{1}{2} gives it an address of ours, the annotation loadbalancer-managed \"false\" leaves it there".format(
        kept, reserved, other))


def _order(service: Service, reservations: t.Sequence[Reservation], context: Context, ordered: int) -> Outcome:
    request: t.Dict[str, t.Any] = {
        "type": "public_ipv4",
        "quantity": 1,
        "tags": service_tags(context.owner, service.namespace, service.name),
        "fail_on_approval_required": True,
    }
    if context.places is not None:
        request.update(location_of(service.annotations, context.places))
    if service.version == 6:
        if context.places is not None:
            raise ValueRefused("quota", "the provider hands out IPv4 addresses, and {0} is a Service of IPv6".format(service.key))
        request["version"] = 6
    limit = context.max_prefixes
    if limit is not None and _held(reservations, context) + ordered >= limit:
        raise ValueRefused(
            "prefix_limit",
            "an address for {0} would be announced as number {1}, and {2} are allowed; let Services share one".format(
                service.key, _held(reservations, context) + ordered + 1, limit
            ),
        )
    address = Pending("address of {0}".format(service.key))
    later = _set_and_map(service, address, Pending("network of {0}".format(service.key)), context)
    return Outcome([Action(RESERVE, service.key, request=request)] + later)


def _held(reservations: t.Iterable[Reservation], context: Context) -> int:
    return len([item for item in reservations if item.state != DENIED and is_ours(item, context.owner)])


def users_addresses(services: t.Iterable[Service], reservations: t.Iterable[Reservation], context: Context) -> int:
    """How many further prefixes counting Services bring along: they are announced too (give it as ``ordered``)."""
    ours = {item.address for item in reservations if is_ours(item, context.owner)}
    return len({address_of(item, context.backend) for item in services if counts(item, context.our_class)} - ours - {""})


def _set_and_map(service: Service, address: Address, network: Address, context: Context) -> t.List[Action]:
    kept = address in service.ingress and annotates(service, str(address))
    steps = [] if kept else [Action(SET_ADDRESS, service.key, address)]
    return steps + [Action(MAP, service.key, network)] + _report(service, address, context)


def _report(service: Service, address: Address, context: Context) -> t.List[Action]:
    return [Action(REPORT, service.key, address)] if context.reports_status and address not in service.ingress else []


def host_network(address: str) -> str:
    """One address as a network. Raises ValueRefused ``bad_address``."""
    parsed = parse_address(address)
    return "{0}/{1}".format(parsed, parsed.max_prefixlen)


def removal_of(service: Service, reservations: t.Sequence[Reservation], context: Context) -> Outcome:
    """The steps after a Service went: never announce what may already be somebody else's, so unmap comes first.

    Its reservation is found by tags, never by the address that stands in the Service. One that was left alone while it
    lived is left alone now. Raises ValueRefused ``claimed_twice``.
    """
    if left_alone(service, context.our_class):
        return Outcome([], notes=("{0} is left alone, also now that it goes".format(service.key),))
    mine = reservation_of(
        reservations, context.owner, service.namespace, service.name, service.address, context.recorded, context.on_duplicate
    )
    if mine is None:
        has = address_of(service, context.backend)
        return Outcome([Action(UNMAP, service.key, host_network(has))] if has else [])
    actions = [Action(UNMAP, service.key, mine.network)] if mine.address else []
    if context.reclaim_policy == RETAIN or retains(service) or (not service.type and mine.id in context.retained):
        return Outcome(actions, notes=("its address {0} is kept".format(mine.address),))
    releases, notes = _release(mine, context)
    return Outcome(actions + releases, notes=tuple(notes))


def _release(item: Reservation, context: Context) -> t.Tuple[t.List[Action], t.List[str]]:
    if item.id in context.recorded or context.release_unrecorded:
        return [Action(RELEASE, address=item.address, id=item.id)], []
    return [], ["the reservation {0} carries our tags but no record of ours; release_unrecorded releases it".format(item.id)]


def orphans(
    services: t.Optional[t.Sequence[Service]], reservations: t.Sequence[Reservation], context: Context, confirm_empty: bool = False
) -> Outcome:
    """Reservations of this cluster that no Service wants (ccm 9.5).

    ``services`` None: they could not be read, so nothing is done; an empty list needs ``confirm_empty``. All Services of
    the cluster belong here, also those that we leave alone: an address that any of them has is in use.
    """
    if not context.gc_orphans or not context.owner.cluster_uid or services is None or (not services and not confirm_empty):
        return Outcome([])
    wanted = {service_tag(item.namespace, item.name) for item in services if counts(item, context.our_class) or opted_out(item)}
    in_use = {address for item in services if item.type == "LoadBalancer" for address in addresses_in_use(item, context.backend)}
    actions: t.List[Action] = []
    notes: t.List[str] = []
    for item in reservations:
        tags = [tag for tag in item.tags if tag.startswith("service=")]
        if not is_ours(item, context.owner) or not tags or not wanted.isdisjoint(tags) or item.address in in_use:
            continue
        if context.control_plane_tag and context.control_plane_tag in item.tags:
            continue
        former = [other for other in services if service_tag(other.namespace, other.name) in tags]
        if context.reclaim_policy == RETAIN or any(retains(other) for other in former) or (not former and item.id in context.retained):
            continue
        releases, said = _release(item, context)
        notes += said
        if not releases:
            continue
        if item.address:
            actions.append(Action(UNMAP, former[0].key if former else "", item.network))
        actions += releases
        actions += [Action(CLEAR_ADDRESS, other.key, item.address) for other in former if other.address and other.address == item.address]
    return Outcome(actions, notes=tuple(notes))


class Order(t.NamedTuple):
    """An address to be reserved for a Service (``namespace/name``), as a provider is asked for it."""

    service: str
    request: t.Dict[str, t.Any]


class CostPlan(t.NamedTuple):
    """What a run would order, before any call. ``before`` and ``after`` count the prefixes announced; ``limit`` None: not known;
    ``refused`` (service, reason, message)."""

    orders: t.List[Order]
    before: int
    after: int
    limit: t.Optional[int]
    refused: t.List[t.Tuple[str, str, str]]
    outcomes: t.Dict[str, Outcome]

    @property
    def networks(self) -> t.Dict[str, str]:
        """``namespace/name`` -> network, for all that are to be in the back end; Pending ones are left out."""
        steps = ((key, action) for key, outcome in self.outcomes.items() for action in outcome.actions)
        return {key: action.address for key, action in steps if action.action == MAP and isinstance(action.address, str)}


def cost_plan(services: t.Sequence[Service], reservations: t.Sequence[Reservation], context: Context) -> CostPlan:
    """For all Services of a cluster: one that fails does not stop the others, all failures are told.

    Orders come in the order of the Services' names, so that the same ones are refused in every run when the limit does not allow for all.
    """
    refused: t.List[t.Tuple[str, str, str]] = []
    outcomes: t.Dict[str, Outcome] = {}
    orders: t.List[Order] = []
    known = sorted((item for item in services if counts(item, context.our_class)), key=lambda item: item.key)
    brought = users_addresses(known, reservations, context)
    for service in known:
        try:
            outcomes[service.key] = wanted_by(service, reservations, context, brought + len(orders))
        except ValueRefused as error:
            refused.append((service.key, error.reason, error.message))
            continue
        orders += [Order(service.key, action.request or {}) for action in outcomes[service.key].actions if action.action == RESERVE]
    before = len([item for item in reservations if context.owner.cluster_uid and is_ours(item, context.owner)]) + brought
    return CostPlan(orders, before, before + len(orders), context.max_prefixes, refused, outcomes)
