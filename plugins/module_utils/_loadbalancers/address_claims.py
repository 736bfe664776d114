# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims of Service authors: an address belongs to one Service, and nobody takes it by writing it down (decision 29, T17)."""

from __future__ import annotations

import typing as t

from .._plan.plan import Refusal
from .._values.addresses import parse_address, special_kind
from .._values.refused import ValueRefused, quoted
from .pools import Pool, Reserved, refuse_foreign
from .reservations import Owner, Reservation, is_ours, service_tag
from .services import Service, address_of, counts


class AddressRules(t.NamedTuple):
    """What the check needs to know. ``recorded``: address -> ``namespace/name`` as our ledger has it;

    ``others``: the pools of other clusters; ``reserved``: what is for something else than Services.
    """

    owner: Owner
    backend: str = ""
    our_class: str = ""
    control_plane_tag: str = ""
    recorded: t.Mapping[str, str] = {}
    others: t.Mapping[str, Pool] = {}
    reserved: Reserved = Reserved()


def check_address_claims(
    services: t.Sequence[Service], reservations: t.Sequence[Reservation], rules: AddressRules
) -> t.Tuple[t.List[Service], t.List[Refusal]]:
    """Services whose address is theirs to use, in their order, and refusals; the rest goes on.

    The one for which an address is reserved or recorded keeps it; else the one that already announces it, else the
    first by name. Others may have it too when both name the same sharing key, as MetalLB asks for.
    """
    reserved = {item.address: item for item in reservations if item.address}
    rows: t.Dict[str, t.List[Service]] = {}
    refused: t.Dict[str, ValueRefused] = {}
    for service in services:
        text = address_of(service, rules.backend) if counts(service, rules.our_class) else ""
        try:
            if text:
                address = parse_address(text)
                kind = special_kind(address)
                if kind is not None:
                    raise ValueRefused("special_address", "{0} is {1}".format(address, kind))
                refuse_foreign(str(address), rules.others)
                rules.reserved.refuse(str(address))
                rows.setdefault(str(address), []).append(service)
        except ValueRefused as error:
            refused[service.key] = error
    for text, users in rows.items():
        holder = _holder(text, users, reserved.get(text), rules)
        for service in users:
            if isinstance(holder, ValueRefused):
                refused[service.key] = holder
            elif service.key != holder and not _shares(service, holder, services):
                message = "{0} belongs to {1}; both would have to name the same sharing key".format(address, quoted(holder))
                refused[service.key] = ValueRefused("claimed_twice", message)
    kept = [service for service in services if service.key not in refused]
    return kept, [Refusal("service " + key, error.reason, error.message) for key, error in sorted(refused.items())]


def _holder(
    address: str, users: t.Sequence[Service], reservation: t.Optional[Reservation], rules: AddressRules
) -> t.Union[str, ValueRefused]:
    """``namespace/name``, or why nobody here may use the address."""
    if reservation is not None:
        if rules.control_plane_tag and rules.control_plane_tag in reservation.tags:
            return ValueRefused("not_ours", "{0} is the control plane's address".format(address))
        owned = [service for service in users if service_tag(service.namespace, service.name) in reservation.tags]
        if is_ours(reservation, rules.owner):
            # Reserved for a Service that is not among these: only its own name, which the tag hides, would fit.
            return owned[0].key if owned else rules.recorded.get(address, "another Service")
        if any(tag.startswith("cluster=") for tag in reservation.tags):
            return ValueRefused("not_ours", "{0} is reserved for another cluster".format(address))
    if address in rules.recorded:
        return rules.recorded[address]
    return min(users, key=lambda service: (address not in service.ingress, service.key)).key


def _shares(service: Service, holder: str, services: t.Sequence[Service]) -> bool:
    key = service.sharing_key()
    return bool(key) and any(other.key == holder and other.sharing_key() == key for other in services)
