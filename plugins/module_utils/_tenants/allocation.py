# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network side's own IDs and addresses, for servers that are plain custom resources: allocation and claims (19.1-19.3).

Nothing here is atomic as in a server of its own, so the claim object is made first, the field filled afterwards, and
only one runner may work at a time. An object that claims already is found again, so a crash in between loses nothing.
"""

from __future__ import annotations

import re
import typing as t

from .._values.addresses import Network, contains, parse_address, parse_network
from .._values.refused import ValueRefused, quoted
from .._values.text import lower
from .fields import (
    Object,
    address_or_none,
    controller,
    deleting,
    entries,
    family_of,
    get,
    labels,
    name,
    namespace,
    show_address,
    text,
    uid,
)
from .object_turn import ObjectTurn
from .options import (
    APINET,
    IP,
    IP_ADDRESS,
    LOAD_BALANCER,
    NAT_GATEWAY,
    NETWORK,
    NETWORK_ID,
    NETWORK_INTERFACE,
    ONMETAL,
    Profile,
)
from .view import View

#: The range of network IDs that onmetal-api-net hands out, both ends included.
MIN_ID, MAX_ID = 200, 16777215

# A sign is allowed as in upstream's parser; int() would also take blanks, underscores and other digits.
_NUMBER = re.compile(r"[+-]?[0-9]{1,32}\Z", re.ASCII)


def check_range(lowest: int, highest: int) -> None:
    """Raises ValueRefused unless 0 <= lowest < highest."""
    if not 0 <= lowest < highest:
        raise ValueRefused("invalid_range", f"0 <= {lowest} < {highest} does not hold")


def next_id(
    taken: t.Container[str], desired: t.Any = None, lowest: int = MIN_ID, highest: int = MAX_ID, start: int = 0
) -> str:
    """The desired ID or the first free one from ``start`` on, with wrap-around.

    Refused with ``invalid_vni``, ``not_in_range``, ``allocated`` or ``full``.
    """
    check_range(lowest, highest)
    if desired not in (None, ""):
        if not isinstance(desired, str) or not _NUMBER.match(desired) or not -(2**31) <= int(desired) < 2**31:
            raise ValueRefused("invalid_vni", f"{quoted(desired)} is no decimal number of 32 bits")
        number = int(desired)
        if not lowest <= number <= highest:
            raise ValueRefused("not_in_range", f"{number} is not in {lowest} to {highest}")
        if str(number) in taken:
            raise ValueRefused("allocated", f"{number} is taken")
        return str(number)
    size = highest - lowest + 1
    for offset in range(size):
        free = str(lowest + (start + offset) % size)
        if free not in taken:
            return free
    raise ValueRefused("full", f"every ID from {lowest} to {highest} is taken")


def next_address(
    prefixes: t.Sequence[str | Network], family: t.Any, taken: t.Container[str], desired: t.Any = None, start: int = 0
) -> str:
    """The desired address or the first free one of the family's prefixes; their first and last are given out too.

    Refused with ``no_prefix``, ``bad_address``, ``not_in_range``, ``allocated`` or ``full``.
    """
    ranges = [parse_network(prefix) if isinstance(prefix, str) else prefix for prefix in prefixes]
    ranges = [prefix for prefix in ranges if f"IPv{prefix.version}" == family]
    if not ranges:
        raise ValueRefused("no_prefix", f"there is no prefix of family {quoted(family)}")
    if desired not in (None, ""):
        address = parse_address(desired)
        if not any(contains(prefix, parse_network(f"{address}/{address.max_prefixlen}")) for prefix in ranges):
            raise ValueRefused("not_in_range", f"{address} is in none of the prefixes")
        if show_address(address) in taken:
            raise ValueRefused("allocated", f"{address} is taken")
        return show_address(address)
    for prefix in ranges:
        size = prefix.num_addresses
        for offset in range(size):
            found = show_address(prefix[(start + offset) % size])
            if found not in taken:
                return found
    raise ValueRefused("full", f"every address of family {quoted(family)} is taken")


def claim_reference(
    resource: str, claimer: Object, namespaced: bool = True, profile: Profile = ONMETAL
) -> dict[str, str]:
    """Whom an ID or an address belongs to."""
    found = {"group": profile.apinet.partition("/")[0], "resource": resource}
    if namespaced:
        found["namespace"] = namespace(claimer)
    return dict(found, name=name(claimer), uid=uid(claimer))


def address_labels(address: str, family: str, profile: Profile = ONMETAL) -> dict[str, str]:
    """The labels of an IP object. A label cannot have colons."""
    prefix = profile.finalizer_prefix
    return {prefix + "ip-family": family, prefix + "ip": address.replace(":", "-").strip("-") or "0"}


def address_object_name(address: str) -> str:
    """The name of an IPAddress: colons are not allowed in names of custom resources, nor dashes at their ends."""
    text = address.replace(":", "-")
    return ("0" if text.startswith("-") else "") + text + ("0" if text.endswith("-") else "")


# -- one pass over both servers' objects

#: Order of the writes: what is given up, what is claimed, what is filled in.
GIVE_UP, CLAIM, FILL = 0, 1, 2

#: What may claim addresses: kind -> (resource, field of its entries).
CLAIMERS = {
    NETWORK_INTERFACE: ("networkinterfaces", "publicIPs"),
    LOAD_BALANCER: ("loadbalancers", "ips"),
    NAT_GATEWAY: ("natgateways", "ips"),
}
READS = (NETWORK, NETWORK_ID, IP, IP_ADDRESS) + tuple(CLAIMERS)


class Pools(t.NamedTuple):
    """What there is to hand out. ``start`` moves the place where the search begins."""

    prefixes: tuple[str, ...] = ()
    lowest: int = MIN_ID
    highest: int = MAX_ID
    start: int = 0


def plan_allocation(view: View, pools: Pools) -> list[ObjectTurn]:
    """One pass over everything that waits for an ID or an address, or holds one that it should not."""
    return [*_network_ids(view, pools), *_addresses(view, pools), *_claims(view)]


def _network_ids(view: View, pools: Pools) -> list[ObjectTurn]:
    held = {text(obj, "spec", "claimRef", "uid"): name(obj) for obj in view.every(APINET, NETWORK_ID)}
    owners = {name(obj): text(obj, "spec", "claimRef", "uid") for obj in view.every(APINET, NETWORK_ID)}
    taken = set(owners)
    turns = []
    for network in view.twins(NETWORK):
        turn = ObjectTurn(view, NETWORK, network)
        turns.append(turn)
        given = text(network, "spec", "id")
        try:
            if given and owners.get(given) == uid(network):
                continue
            found = held.get(uid(network)) if not given else None
            if found is None:
                found = next_id(taken, given or None, pools.lowest, pools.highest, pools.start)
                taken.add(found)
                _make(
                    turn,
                    NETWORK_ID,
                    found,
                    {"claimRef": claim_reference("networks", network, profile=view.options.profile)},
                )
            if not given:
                turn.patch_twin(FILL, network, {"spec": {"id": found}})
        except ValueRefused as error:
            turn.fail(error.reason, error.message)
    living = {uid(network) for network in view.every(APINET, NETWORK)}
    return [*turns, *_without_claimer(view, NETWORK_ID, living)]


def _make(turn: ObjectTurn, kind: str, called: str, spec: t.Mapping[str, t.Any]) -> None:
    manifest = {
        "apiVersion": turn.options.profile.apinet,
        "kind": kind,
        "metadata": {"name": called},
        "spec": dict(spec),
    }
    turn.create(CLAIM, manifest)


def _without_claimer(view: View, kind: str, living: t.Container[str]) -> t.Iterator[ObjectTurn]:
    """Claim objects without their claimer, or with another object in its place now. Only those of our namespace are judged."""
    for obj in view.every(APINET, kind):
        owned = text(obj, "spec", "claimRef", "namespace") == view.options.apinet_namespace
        if owned and text(obj, "spec", "claimRef", "uid") not in living:
            turn = ObjectTurn(view, kind, obj)
            turn.remove_twin(obj, GIVE_UP)
            yield turn


def _addresses(view: View, pools: Pools) -> list[ObjectTurn]:
    taken: dict[str, str] = {}
    held: dict[str, str] = {}
    for obj in view.every(APINET, IP_ADDRESS):
        address = address_or_none(get(obj, "spec", "ip")) or name(obj)
        taken[address] = text(obj, "spec", "claimRef", "uid")
        held[taken[address]] = address
    turns = []
    for obj in view.twins(IP):
        turn = ObjectTurn(view, IP, obj)
        turns.append(turn)
        given, family = address_or_none(get(obj, "spec", "ip")), get(obj, "spec", "ipFamily")
        try:
            found = given if given and taken.get(given) == uid(obj) else None
            found = found or (held.get(uid(obj)) if not given else None)
            if found is None:
                found = next_address(pools.prefixes, family, taken, given, pools.start)
                taken[found] = uid(obj)
                spec = {"ip": found, "claimRef": claim_reference("ips", obj, profile=view.options.profile)}
                _make(turn, IP_ADDRESS, address_object_name(found), spec)
            desired = address_labels(found, family_of(found), view.options.profile)
            body: dict[str, t.Any] = {} if given else {"spec": {"ip": found}}
            if any(labels(obj).get(key) != value for key, value in desired.items()):
                body["metadata"] = {"labels": desired}
            if body:
                turn.patch_twin(FILL, obj, body)
        except ValueRefused as error:
            turn.fail(error.reason, error.message)
    living = {uid(obj) for obj in view.every(APINET, IP)}
    return [*turns, *_without_claimer(view, IP_ADDRESS, living)]


def _claims(view: View) -> list[ObjectTurn]:
    by_address = {address_or_none(get(obj, "spec", "ip")) or "": obj for obj in view.twins(IP)}
    used: dict[str, str] = {}
    claimers = [
        (kind, obj)
        for kind in CLAIMERS
        for obj in view.twins(kind)
        if kind != LOAD_BALANCER or get(obj, "spec", "type") == "Public"
    ]
    for kind, obj in claimers:
        for entry in entries(obj, "spec", CLAIMERS[kind][1]):
            address = address_or_none(entry.get("ip"))
            known = by_address.get(address) if address else None
            if known is not None and text(known, "spec", "claimRef", "uid") in ("", uid(obj)):
                used.setdefault(uid(known), uid(obj))
    turns = [_claimer(view, kind, obj, by_address, used) for kind, obj in claimers]
    return [*_given_up(view, {uid(obj): (kind, obj) for kind, obj in claimers}, used), *turns]


def _claimer(
    view: View, kind: str, obj: Object, by_address: t.Mapping[str, t.Any], used: t.Mapping[str, str]
) -> ObjectTurn:
    turn = ObjectTurn(view, kind, obj)
    resource, field = CLAIMERS[kind]
    filled, changed = [], False
    for entry in entries(obj, "spec", field):
        address = address_or_none(entry.get("ip"))
        if address is None:
            dynamic = view.twin(IP, dynamic_name(obj, entry))
            mine = dynamic is not None and (controller(dynamic) or {}).get("uid") == uid(obj)
            found = address_or_none(get(dynamic, "spec", "ip")) if mine else None
            if dynamic is None:
                family = entry.get("ipFamily") or get(obj, "spec", "ipFamily")
                spec = {
                    "type": "Public",
                    "ipFamily": family,
                    "claimRef": claim_reference(resource, obj, False, turn.options.profile),
                }
                turn.create_owned(CLAIM, IP, dynamic_name(obj, entry), spec=spec)
            elif not mine:
                turn.fail("name_taken", f"an IP {quoted(name(dynamic))} exists and is another's")
            if found:
                entry, changed = dict(entry, ip=found), True
        else:
            known = by_address.get(address)
            holder = used.get(uid(known)) if known is not None else None
            if known is None:
                turn.fail("address_unknown", f"no IP object has the address {address}")
            elif holder != uid(obj):
                turn.fail("address_claimed", f"the address {address} is in use")
            elif text(known, "spec", "claimRef", "uid") != uid(obj):
                turn.patch_twin(
                    CLAIM, known, {"spec": {"claimRef": claim_reference(resource, obj, False, view.options.profile)}}
                )
        filled.append(entry)
    if changed:
        turn.patch_twin(FILL, obj, {"spec": {field: filled}})
    return turn


def dynamic_name(claimer: Object, entry: t.Mapping[str, t.Any]) -> str:
    """The name of the IP made for an entry without address: always the same, so that none is made twice."""
    return f"{name(claimer)}-{lower(text(entry, 'name')).replace(':', '-')}"


def _given_up(
    view: View, claimers: t.Mapping[str, tuple[str, Object]], used: t.Mapping[str, str]
) -> t.Iterator[ObjectTurn]:
    """Addresses that their claimer names no more: a dynamic one is deleted, any other is free again."""
    for obj in view.twins(IP):
        holder = text(obj, "spec", "claimRef", "uid")
        if not holder or used.get(uid(obj)) == holder or deleting(obj):
            continue
        kind, claimer = claimers.get(holder, ("", {}))
        dynamic = bool(controller(obj))
        waiting = entries(claimer, "spec", CLAIMERS[kind][1]) if kind else []
        if dynamic and any(not entry.get("ip") and dynamic_name(claimer, entry) == name(obj) for entry in waiting):
            continue  # its entry is filled in as soon as it has an address
        turn = ObjectTurn(view, IP, obj)
        if dynamic:
            turn.remove_twin(obj, GIVE_UP)
        else:
            turn.patch_twin(GIVE_UP, obj, {"spec": {"claimRef": None}}, "released")
        yield turn
