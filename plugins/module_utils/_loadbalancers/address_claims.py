# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims of Service authors (decision 29, T17): an address belongs to one Service, and nobody takes it by writing it down.

Some are in use without being owned yet: MetalLB, Cilium and others write theirs into a Service's status only. Such an address stays. It becomes
owned where the user asks for adoption and it is in the pool, or where we had reported it ourselves; it is given up where the user names it in
``renumber``, and nowhere else.
"""

from __future__ import annotations

import typing as t

from .._plan.plan import Refusal
from .._values.addresses import parse_address, readable_address, special_kind
from .._values.prefix_sets import PrefixSet
from .._values.refused import ValueRefused
from .._values.text import lower
from .named_pools import Grants, Held, Wish, check_wish
from .pools import Pool, Reserved, refuse_unowned
from .reservations import Owner, Reservation, is_owned, matches_of, service_tag
from .services import Service, address_of, annotated_address, counts
from .sharing import Sharing, refusal_text, wants_to_share


class AddressRules(t.NamedTuple):
    """What the check needs to know. ``recorded``: address -> ``namespace/name`` as our ledger has it;

    ``others``: the pools of other clusters; ``reserved``: what is for something else than Services; ``grants``: which pools are for whom.
    """

    owner: Owner
    backend: str = ""
    our_class: str = ""
    control_plane_tag: str = ""
    recorded: t.Mapping[str, str] = {}
    others: t.Mapping[str, Pool] = {}
    reserved: Reserved = Reserved()
    grants: Grants = Grants()


def check_address_claims(
    services: t.Sequence[Service], reservations: t.Sequence[Reservation], rules: AddressRules
) -> tuple[list[Service], list[Refusal]]:
    """Services that may use their address, in their order, and refusals; the rest goes on.

    The one for which an address is reserved or recorded keeps it; else the one that already announces it, else the
    first by name. Others may have it too when they agree to share it (sharing.why_not). Where the inventory names pools, an address that is
    not in use yet is only for whom its pool is.
    """
    granted = _GrantCheck(reservations, rules)
    reserved = {item.address: item for item in reservations if item.address}
    rows: dict[str, list[Service]] = {}
    refused: dict[str, ValueRefused] = {}
    for service in services:
        text = address_of(service, rules.backend) if counts(service, rules.our_class) else ""
        try:
            if text:
                address = parse_address(text)
                kind = special_kind(address)
                if kind is not None:
                    raise ValueRefused("special_address", f"{address} is {kind}")
                refuse_unowned(str(address), rules.others)
                rules.reserved.refuse(str(address))
                granted.check(service, str(address))
                rows.setdefault(str(address), []).append(service)
        except ValueRefused as error:
            refused[service.key] = error
    named = {service.key: service for service in services}
    for text, users in rows.items():
        holder = _holder(text, users, reserved.get(text), rules)
        if isinstance(holder, ValueRefused):
            refused.update((service.key, holder) for service in users)
            continue
        sharing = Sharing([named[holder]] if holder in named else [])
        for service in sorted(users, key=lambda item: item.key):
            why = "" if service.key == holder else sharing.join(service)
            if why:
                refused[service.key] = ValueRefused("claimed_twice", refusal_text(text, holder, why))
    kept = [service for service in services if service.key not in refused]
    return kept, [Refusal("service " + key, error.reason, error.message) for key, error in sorted(refused.items())]


def _holder(
    address: str, users: t.Sequence[Service], reservation: Reservation | None, rules: AddressRules
) -> str | ValueRefused:
    """``namespace/name``, or why nobody here may use the address."""
    if reservation is not None:
        if rules.control_plane_tag and rules.control_plane_tag in reservation.tags:
            return ValueRefused("not_ours", f"{address} is the control plane's address")
        owned = [service for service in users if service_tag(service.namespace, service.name) in reservation.tags]
        if is_owned(reservation, rules.owner):
            # Reserved for a Service that is not among these: only its own name, which the tag hides, would fit.
            return owned[0].key if owned else rules.recorded.get(address, "another Service")
        if any(tag.startswith("cluster=") for tag in reservation.tags):
            return ValueRefused("not_ours", f"{address} is reserved for another cluster")
    if address in rules.recorded:
        return rules.recorded[address]
    return min(users, key=lambda service: (address not in service.ingress, service.key)).key


class _GrantCheck:
    """Whether Services may have the addresses that they name, by the pools of the inventory: those that they have already stay."""

    def __init__(self, reservations: t.Sequence[Reservation], rules: AddressRules) -> None:
        self._rules = rules
        self._own = {item.address: item for item in reservations if item.address and is_owned(item, rules.owner)}
        self._held = Held(rules.recorded)

    def check(self, service: Service, address: str) -> None:
        """Raise ValueRefused ``outside_grant``, or ``quota`` where its namespace has as many as it may."""
        grants = self._rules.grants
        if not grants.strict or address in service.ingress:
            return
        if address in self._own and service_tag(service.namespace, service.name) in self._own[address].tags:
            return
        pools = check_wish(grants, Wish(service.namespace, service.name, service.labels, service.version, address))
        if address not in self._held:
            why = pools[0].limit(service.namespace, parse_address(address).version, self._held)
            if why:
                raise ValueRefused("quota", why)
            self._held.add(address, service.key)


class Settling(t.NamedTuple):
    """What the user asked for. ``pool`` of our own, ``adopt`` what others gave, ``selected``: whether this run handles a Service."""

    rules: AddressRules
    pool: Pool = Pool(())
    adopt: bool = False
    selected: t.Callable[[str], bool] = lambda key: True


def settle(services: t.Iterable[Service], reservations: t.Sequence[Reservation], settling: Settling) -> list[Service]:
    """The Services, with ``live`` where an address of the status alone is kept as theirs.

    check_address_claims decides whether they may use it. A report of our own is stale once another Service has its address:
    it counts no more.
    """
    return [_settled(service, reservations, settling) for service in services]


def _settled(service: Service, reservations: t.Sequence[Reservation], settling: Settling) -> Service:
    rules = settling.rules
    if (
        not counts(service, rules.our_class)
        or address_of(service, rules.backend)
        or service.hosts
        or len(service.ingress) != 1
    ):
        return service
    text = service.ingress[0]
    holders = [item for item in reservations if item.address == text]
    mine = matches_of(holders, rules.owner, service.namespace, service.name)
    if service.reported and holders and not mine and not wants_to_share(service) and is_owned(holders[0], rules.owner):
        return service._replace(ingress=())
    desired = (
        settling.adopt
        and settling.selected(service.key)
        and (text in settling.pool or bool(wants_to_share(service) and holders))
    )
    return service._replace(live=text) if mine or service.reported or desired else service


class GivenUp(t.NamedTuple):
    """Which addresses the user gives up: networks, or ``everything`` that is neither of the pool nor reserved for its Service."""

    ranges: PrefixSet = PrefixSet()
    everything: bool = False


def parse_renumber(texts: t.Iterable[object]) -> GivenUp:
    """Networks; ``true`` means everything, ``false`` for nothing. Raises ValueRefused ``bad_cidr``."""
    given = [str(text) for text in texts]
    networks = [text for text in given if lower(text) not in ("true", "false")]
    return GivenUp(PrefixSet.of_texts(networks), any(lower(text) == "true" for text in given))


def give_up(
    services: t.Iterable[Service],
    reservations: t.Sequence[Reservation],
    rules: AddressRules,
    pool: Pool,
    given: GivenUp,
    annotation: bool = False,
) -> list[Service]:
    """The Services as if they did not have what is given up. ``annotation``: addresses are written there, so those count too.

    What is reserved for a Service stays its own, and an annotation that the Service's owner wrote is not changed.
    """
    return [_without(service, reservations, rules, pool, given, annotation) for service in services]


def _without(
    service: Service,
    reservations: t.Sequence[Reservation],
    rules: AddressRules,
    pool: Pool,
    given: GivenUp,
    annotation: bool,
) -> Service:
    if not counts(service, rules.our_class):
        return service
    own = {item.address for item in matches_of(reservations, rules.owner, service.namespace, service.name)}

    def goes(text: str) -> bool:
        address = readable_address(text)
        if address is None or str(address) in own:
            return False  # the claims stage reports one that is none
        return address in given.ranges or (given.everything and text not in pool)

    if service.address and goes(service.address):
        service = service._replace(address="")
    named = annotated_address(service, rules.backend)
    if named and (annotation or service.owned) and goes(named):
        kept = {
            key: text
            for key, text in service.annotations.items()
            if not key.endswith(("/loadBalancerIPs", "/loadbalancerIPs"))
        }
        service = service._replace(annotations=kept)
    if service.hosts and given.everything:
        service = service._replace(hosts=())
    return service._replace(ingress=tuple(text for text in service.ingress if not goes(text)))
