# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network side's own work for servers that are plain custom resources: IDs, addresses and their claims (19.1-19.3).

Nothing here is atomic as in a server of its own, so the claim object is made first, the field filled afterwards, and
only one runner may work at a time. An object that claims already is found again, so a crash in between loses nothing.
"""

from __future__ import annotations

import typing as t

from .._values.ascii_text import lower
from .._values.refused import ValueRefused, quoted
from .allocation import MAX_ID, MIN_ID, address_labels, address_object_name, claim_reference, next_address, next_id
from .fields import Object, address_or_none, controller, entries, family_of, get, labels, name, namespace, text, uid
from .links import controller_reference
from .profile import APINET, IP, IP_ADDRESS, LOAD_BALANCER, NAT_GATEWAY, NETWORK, NETWORK_ID, NETWORK_INTERFACE
from .store import key_of
from .view import View
from .work import CREATE, PATCH, REMOVE, Step, Work

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

    prefixes: t.Tuple[str, ...] = ()
    lowest: int = MIN_ID
    highest: int = MAX_ID
    start: int = 0


def plan_allocation(view: View, pools: Pools) -> t.List[Work]:
    """One pass over everything that waits for an ID or an address, or holds one that it should not."""
    return _network_ids(view, pools) + _addresses(view, pools) + _claims(view)


# -- network IDs


def _network_ids(view: View, pools: Pools) -> t.List[Work]:
    held = {text(obj, "spec", "claimRef", "uid"): name(obj) for obj in view.every(APINET, NETWORK_ID)}
    owners = {name(obj): text(obj, "spec", "claimRef", "uid") for obj in view.every(APINET, NETWORK_ID)}
    taken = set(owners)
    works = []
    for network in view.twins(NETWORK):
        work = Work(view, NETWORK, network)
        works.append(work)
        given = text(network, "spec", "id")
        try:
            if given and owners.get(given) == uid(network):
                continue
            found = held.get(uid(network)) if not given else None
            if found is None:
                found = next_id(taken, given or None, pools.lowest, pools.highest, pools.start)
                taken.add(found)
                spec = {"claimRef": claim_reference("networks", network, profile=view.options.profile)}
                _make(work, NETWORK_ID, found, spec)
            if not given:
                work.add(Step(FILL, APINET, PATCH, work.key, {"spec": {"id": found}}, uid(network), True))
        except ValueRefused as error:
            work.fail(error.reason, error.message)
    living = {uid(network) for network in view.every(APINET, NETWORK)}
    return works + _without_claimer(view, NETWORK_ID, living)


def _make(work: Work, kind: str, called: str, spec: t.Mapping[str, t.Any]) -> None:
    manifest = {"apiVersion": work.options.profile.apinet, "kind": kind, "metadata": {"name": called}, "spec": dict(spec)}
    work.add(Step(CLAIM, APINET, CREATE, key_of(manifest), manifest, outcome="created"))


def _without_claimer(view: View, kind: str, living: t.Container[str]) -> t.List[Work]:
    """Claim objects whose claimer is gone, or is another object now. Only those of our namespace are ours to judge."""
    works = []
    for obj in view.every(APINET, kind):
        ours = text(obj, "spec", "claimRef", "namespace") == view.options.apinet_namespace
        if ours and text(obj, "spec", "claimRef", "uid") not in living:
            work = Work(view, kind, obj)
            work.add(Step(GIVE_UP, APINET, REMOVE, work.key, {}, uid(obj), outcome="deleted"))
            works.append(work)
    return works


# -- addresses


def _addresses(view: View, pools: Pools) -> t.List[Work]:
    taken: t.Dict[str, str] = {}
    held: t.Dict[str, str] = {}
    for obj in view.every(APINET, IP_ADDRESS):
        address = address_or_none(get(obj, "spec", "ip")) or name(obj)
        taken[address] = text(obj, "spec", "claimRef", "uid")
        held[taken[address]] = address
    works = []
    for obj in view.twins(IP):
        work = Work(view, IP, obj)
        works.append(work)
        given, family = address_or_none(get(obj, "spec", "ip")), get(obj, "spec", "ipFamily")
        try:
            found = given if given and taken.get(given) == uid(obj) else None
            found = found or (held.get(uid(obj)) if not given else None)
            if found is None:
                found = next_address(pools.prefixes, family, taken, given, pools.start)
                taken[found] = uid(obj)
                spec = {"ip": found, "claimRef": claim_reference("ips", obj, profile=view.options.profile)}
                _make(work, IP_ADDRESS, address_object_name(found), spec)
            wanted = address_labels(found, family_of(found), view.options.profile)
            body: t.Dict[str, t.Any] = {} if given else {"spec": {"ip": found}}
            if any(labels(obj).get(key) != value for key, value in wanted.items()):
                body["metadata"] = {"labels": wanted}
            if body:
                work.add(Step(FILL, APINET, PATCH, work.key, body, uid(obj), True))
        except ValueRefused as error:
            work.fail(error.reason, error.message)
    living = {uid(obj) for obj in view.every(APINET, IP)}
    return works + _without_claimer(view, IP_ADDRESS, living)


# -- who uses an address


def _claims(view: View) -> t.List[Work]:
    by_address: t.Dict[str, t.Dict[str, t.Any]] = {}
    for obj in view.twins(IP):
        address = address_or_none(get(obj, "spec", "ip"))
        if address:
            by_address[address] = obj
    works = []
    used: t.Dict[str, str] = {}
    claimers = [(kind, obj) for kind in CLAIMERS for obj in view.twins(kind) if _takes_part(kind, obj)]
    for kind, obj in claimers:
        for entry in entries(obj, "spec", CLAIMERS[kind][1]):
            address = address_or_none(entry.get("ip"))
            known = by_address.get(address) if address else None
            if known is not None and text(known, "spec", "claimRef", "uid") in ("", uid(obj)):
                used.setdefault(uid(known), uid(obj))
    for kind, obj in claimers:
        works.append(_claimer(view, kind, obj, by_address, used))
    return _given_up(view, {uid(obj): (kind, obj) for kind, obj in claimers}, used) + works


def _takes_part(kind: str, obj: Object) -> bool:
    return kind != LOAD_BALANCER or get(obj, "spec", "type") == "Public"


def _claimer(
    view: View, kind: str, obj: Object, by_address: t.Mapping[str, t.Any], used: t.Mapping[str, str]
) -> Work:
    work = Work(view, kind, obj)
    resource, field = CLAIMERS[kind]
    filled, changed = [], False
    for entry in entries(obj, "spec", field):
        address = address_or_none(entry.get("ip"))
        if address is None:
            dynamic = view.twin(IP, dynamic_name(obj, entry))
            mine = dynamic is not None and (controller(dynamic) or {}).get("uid") == uid(obj)
            found = address_or_none(get(dynamic, "spec", "ip")) if mine else None
            if dynamic is None:
                _make_dynamic(work, resource, obj, entry)
            elif not mine:
                work.fail("name_taken", "an IP {0} exists and is another's".format(quoted(name(dynamic))))
            if found:
                entry, changed = dict(entry, ip=found), True
        else:
            known = by_address.get(address)
            holder = used.get(uid(known)) if known is not None else None
            if known is None:
                work.fail("address_unknown", "no IP object has the address {0}".format(address))
            elif holder != uid(obj):
                work.fail("address_claimed", "the address {0} is in use".format(address))
            elif text(known, "spec", "claimRef", "uid") != uid(obj):
                reference = claim_reference(resource, obj, False, view.options.profile)
                body = {"spec": {"claimRef": reference}}
                work.add(Step(CLAIM, APINET, PATCH, key_of(known), body, uid(known), True))
        filled.append(entry)
    if changed:
        work.add(Step(FILL, APINET, PATCH, work.key, {"spec": {field: filled}}, uid(obj), True))
    return work


def dynamic_name(claimer: Object, entry: t.Mapping[str, t.Any]) -> str:
    """The name of the IP made for an entry without address: always the same, so that none is made twice."""
    return "{0}-{1}".format(name(claimer), lower(text(entry, "name")).replace(":", "-"))


def _make_dynamic(work: Work, resource: str, obj: Object, entry: t.Mapping[str, t.Any]) -> None:
    profile = work.options.profile
    family = entry.get("ipFamily") or get(obj, "spec", "ipFamily")
    meta = {
        "namespace": namespace(obj),
        "name": dynamic_name(obj, entry),
        "ownerReferences": [controller_reference(dict(obj, kind=work.kind), profile)],
    }
    spec = {"type": "Public", "ipFamily": family, "claimRef": claim_reference(resource, obj, False, profile)}
    manifest = {"apiVersion": profile.apinet, "kind": IP, "metadata": meta, "spec": spec}
    work.add(Step(CLAIM, APINET, CREATE, key_of(manifest), manifest, outcome="created"))


def _given_up(
    view: View, claimers: t.Mapping[str, t.Tuple[str, Object]], used: t.Mapping[str, str]
) -> t.List[Work]:
    """Addresses whose claimer names them no more: a dynamic one is deleted, any other is free again."""
    works = []
    for obj in view.twins(IP):
        holder = text(obj, "spec", "claimRef", "uid")
        if not holder or used.get(uid(obj)) == holder or get(obj, "metadata", "deletionTimestamp"):
            continue
        kind, claimer = claimers.get(holder, ("", {}))
        dynamic = bool(controller(obj))
        waiting = entries(claimer, "spec", CLAIMERS[kind][1]) if kind else []
        if dynamic and any(not entry.get("ip") and dynamic_name(claimer, entry) == name(obj) for entry in waiting):
            continue  # its entry is filled in as soon as it has an address
        work = Work(view, IP, obj)
        if dynamic:
            work.add(Step(GIVE_UP, APINET, REMOVE, work.key, {}, uid(obj), outcome="deleted"))
        else:
            work.add(Step(GIVE_UP, APINET, PATCH, work.key, {"spec": {"claimRef": None}}, uid(obj), True, outcome="released"))
        works.append(work)
    return works
