# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses that are in use without being ours yet: MetalLB, Cilium and others write theirs into a Service's status only.

Such an address stays. It becomes ours where the user asks for adoption and it lies in the pool, or where we had reported it
ourselves; it is given up where the user names it in ``renumber``, and nowhere else.
"""

from __future__ import annotations

import typing as t

from .._values.addresses import parse_address
from .._values.ascii_text import lower
from .._values.prefix_sets import PrefixSet
from .._values.refused import ValueRefused
from .address_claims import AddressRules
from .pools import Pool
from .reservations import Reservation, is_ours, matches_of
from .services import Service, address_of, annotated_address, counts


class Settling(t.NamedTuple):
    """What the user asked for. ``pool`` of our own, ``adopt`` what others gave, ``selected``: whether this run handles a Service."""

    rules: AddressRules
    pool: Pool = Pool(())
    adopt: bool = False
    selected: t.Callable[[str], bool] = lambda key: True


def settle(services: t.Iterable[Service], reservations: t.Sequence[Reservation], settling: Settling) -> t.List[Service]:
    """The Services, with ``live`` where an address of the status alone is kept as theirs.

    Whether it is theirs to use is for check_address_claims to say. A report of ours whose address is another Service's by now is stale:
    it says nothing any more.
    """
    return [_settled(service, reservations, settling) for service in services]


def _settled(service: Service, reservations: t.Sequence[Reservation], settling: Settling) -> Service:
    rules = settling.rules
    if not counts(service, rules.our_class) or address_of(service, rules.backend) or service.hosts or len(service.ingress) != 1:
        return service
    text = service.ingress[0]
    holders = [item for item in reservations if item.address == text]
    mine = matches_of(holders, rules.owner, service.namespace, service.name)
    if service.reported and holders and not mine and not service.sharing_key() and is_ours(holders[0], rules.owner):
        return service._replace(ingress=())
    wanted = settling.adopt and settling.selected(service.key) and (text in settling.pool or bool(service.sharing_key() and holders))
    return service._replace(live=text) if mine or service.reported or wanted else service


class GivenUp(t.NamedTuple):
    """Which addresses the user gives up: networks, or ``everything`` that is neither of the pool nor reserved for its Service."""

    ranges: PrefixSet = PrefixSet()
    everything: bool = False


def parse_renumber(texts: t.Iterable[object]) -> GivenUp:
    """Networks; ``true`` stands for everything, ``false`` for nothing. Raises ValueRefused ``bad_cidr``."""
    words = [str(text) for text in texts]
    networks = [text for text in words if lower(text) not in ("true", "false")]
    return GivenUp(PrefixSet.of_texts(networks), any(lower(text) == "true" for text in words))


def give_up(
    services: t.Iterable[Service], reservations: t.Sequence[Reservation], rules: AddressRules, pool: Pool, given: GivenUp, annotation: bool = False
) -> t.List[Service]:
    """The Services as if they did not have what is given up. ``annotation``: addresses are written there, so those count too.

    What is reserved for a Service stays its own, and an annotation of its owner's is not ours to change.
    """
    return [_without(service, reservations, rules, pool, given, annotation) for service in services]


def _without(
    service: Service, reservations: t.Sequence[Reservation], rules: AddressRules, pool: Pool, given: GivenUp, annotation: bool
) -> Service:
    if not counts(service, rules.our_class):
        return service
    own = {item.address for item in matches_of(reservations, rules.owner, service.namespace, service.name)}

    def goes(text: str) -> bool:
        try:
            address = parse_address(text)
        except ValueRefused:
            return False  # the claims stage tells its owner
        return str(address) not in own and (address in given.ranges or (given.everything and text not in pool))

    if service.address and goes(service.address):
        service = service._replace(address="")
    named = annotated_address(service, rules.backend)
    if named and annotation and goes(named):
        kept = {key: text for key, text in service.annotations.items() if not key.endswith(("/loadBalancerIPs", "/loadbalancerIPs"))}
        service = service._replace(annotations=kept)
    if service.hosts and given.everything:
        service = service._replace(hosts=())
    return service._replace(ingress=tuple(text for text in service.ingress if not goes(text)))
