# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network interfaces: find and claim the twin that the machine pool made, equip it, report its state (14); virtual IPs (10)."""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused, quoted
from .fields import (
    Object,
    address_or_none,
    deleting,
    entries,
    family_of,
    get,
    items,
    labels,
    name,
    namespace,
    same,
    text,
    uid,
)
from .links import PENDING, READY, claimer, interface_state, link_labels, parse_interface_id, unlink_patch
from .object_turn import CLAIM, RELEASE, TWIN, ObjectTurn
from .options import IP, NETWORK_INTERFACE, VIRTUAL_IP
from .view import Index, interface_prefixes


def plan_interface(turn: ObjectTurn, index: Index, now: str) -> None:
    """One interface that is not being deleted. ``now``: the time of a change of state."""
    twin = claim_twin(turn, index)
    virtual_ip = claim_virtual_ip(turn, index)
    prefixes, missing = interface_prefixes(turn.view, turn.subject)
    if turn.outstanding:
        return
    if twin is None:
        _report(turn, PENDING, {"ips": None, "prefixes": None, "virtualIP": None}, now)
        return
    if missing:
        turn.wait("prefix_not_allocated", f"not allocated yet: {quoted(', '.join(missing))}")
    if equip(turn, index, twin, virtual_ip, prefixes):
        return
    state = get(twin, "status", "state")
    public = [address_or_none(item) for item in items(twin, "status", "publicIPs")]
    shown = {
        "ips": [address_or_none(item) or item for item in items(twin, "spec", "ips") if item],
        "prefixes": [item for item in items(twin, "spec", "prefixes") if item],
        "virtualIP": next((item for item in public if item and ":" not in item), None),
    }
    _report(turn, interface_state(state), shown, now)
    if state != READY:
        turn.wait("twin_not_ready", f"the network side reports {quoted(state)}")


def _report(turn: ObjectTurn, state: str, shown: t.Mapping[str, t.Any], now: str) -> None:
    desired = dict(shown, state=state)
    if get(turn.subject, "status", "state") != state:
        desired["lastStateTransitionTime"] = now
    turn.status(desired)


def claim_twin(turn: ObjectTurn, index: Index) -> dict[str, t.Any] | None:
    """The usable twin; also releases what is owned and does not match any more."""
    source, profile = turn.subject, turn.options.profile
    desired = ""
    given = get(source, "spec", "providerID")
    try:
        if not given:
            turn.wait("no_provider_id", "the machine pool has not set a provider ID")
        else:
            desired = parse_interface_id(given, profile).uid
    except ValueRefused as error:
        turn.wait("provider_id_" + error.reason, error.message)
    for twin in index.by_claimer.get(uid(source), ()):
        if not desired or uid(twin) != desired:
            release(turn, twin, stops=False)
    if not desired:
        return None
    mine = index.by_uid.get(desired)
    if mine is None:
        turn.wait("twin_unknown", f"the network side has no interface with the uid in {quoted(given)}")
        return None
    holder = claimer(NETWORK_INTERFACE, mine, profile)
    if holder != uid(source):
        if holder is not None or uid(mine) in index.taken:
            turn.wait("twin_claimed", f"the interface is claimed by {quoted(holder or 'another one')}")
            return None
        if deleting(mine):
            turn.wait("twin_deleting", "the interface is being deleted on the network side")
            return None
        index.taken.add(uid(mine))
    owned = link_labels(NETWORK_INTERFACE, source, profile)
    if any(labels(mine).get(key) != value for key, value in owned.items()):
        # also the name in the labels of an owned twin is forced, like on every other
        turn.patch_twin(CLAIM, mine, {"metadata": {"labels": owned}}, stops=False)
    return mine


def release_patch(turn: ObjectTurn) -> dict[str, t.Any]:
    """What a released twin loses. NAT claims and unowned labels stay."""
    unlinked = unlink_patch(NETWORK_INTERFACE, turn.options.profile)
    return {"metadata": {"labels": unlinked}, "spec": {"publicIPs": None, "prefixes": None}}


def release(turn: ObjectTurn, twin: Object, stops: bool = True) -> None:
    turn.patch_twin(RELEASE, twin, release_patch(turn), "released", stops)


def desired_virtual_ip(source: Object) -> str:
    """The name of the virtual IP that an interface wants, "" for none."""
    if isinstance(get(source, "spec", "virtualIP", "virtualIPRef"), dict):
        return text(source, "spec", "virtualIP", "virtualIPRef", "name")
    return name(source) if get(source, "spec", "virtualIP", "ephemeral") is not None else ""


def claim_virtual_ip(turn: ObjectTurn, index: Index) -> dict[str, t.Any] | None:
    """The usable virtual IP; also releases those that point at us and are not desired any more."""
    source = turn.subject
    desired = desired_virtual_ip(source)
    for virtual_ip in index.targeting(namespace(source), uid(source)):
        if name(virtual_ip) != desired:
            turn.patch_source(RELEASE, {"spec": {"targetRef": None}}, True, virtual_ip, stops=False)
    if not desired:
        return None
    found = turn.view.source(VIRTUAL_IP, namespace(source), desired)
    if found is None:
        turn.wait("virtual_ip_missing", f"there is no virtual IP {quoted(desired)}")
        return None
    holder = text(found, "spec", "targetRef", "uid")
    if holder == uid(source):
        return found
    if get(found, "spec", "targetRef") or uid(found) in index.taken:
        turn.wait("virtual_ip_taken", f"the virtual IP {quoted(desired)} is in use by another interface")
        return None
    if deleting(found):
        turn.wait("virtual_ip_deleting", f"the virtual IP {quoted(desired)} is being deleted")
        return None
    index.taken.add(uid(found))
    target = {"name": name(source), "uid": uid(source)}
    turn.patch_source(CLAIM, {"spec": {"targetRef": target}}, True, found, stops=False)
    return found


def plan_virtual_ip(turn: ObjectTurn) -> None:
    """One virtual IP that is not being deleted. Who uses it is the interface's business."""
    spec = {"type": "Public", "ipFamily": get(turn.subject, "spec", "ipFamily")}
    twin = turn.apply(TWIN, turn.manifest(IP, spec=spec))
    if twin is None:
        return
    address = address_or_none(get(twin, "spec", "ip"))
    if address is None:
        turn.wait("address_not_allocated", "the network side has not given an address yet")
        return
    turn.status({"ip": address})


def equip(turn: ObjectTurn, index: Index, twin: Object, virtual_ip: Object | None, prefixes: t.Sequence[str]) -> bool:
    """Public addresses, prefixes and NAT claims in one patch; False when they are right already."""
    address = address_or_none(get(virtual_ip, "status", "ip"))
    if virtual_ip is not None and address is None:
        turn.wait("virtual_ip_without_address", "the virtual IP has no address yet")
    public = [] if address is None else [{"name": address, "ipFamily": family_of(address), "ip": address}]
    families = {entry["ipFamily"] for entry in public}
    desired = {
        "publicIPs": public,
        "prefixes": list(prefixes),
        "natGateways": [item for item in entries(twin, "spec", "natGateways") if item.get("ipFamily") not in families],
    }
    if all(same(get(twin, "spec", field), value, field) for field, value in desired.items()):
        return False
    before = {address_or_none(entry.get("ip")) for entry in entries(twin, "spec", "publicIPs")} - {None}
    dropped = bool(before - {address})
    held = address is not None and address not in before and index.held_elsewhere(address, twin)
    if dropped and held:
        # a swap: the server refuses an address that another twin still has, so both let go before either takes
        desired.update(publicIPs=[], natGateways=entries(twin, "spec", "natGateways"))
    body = {"spec": {field: value or None for field, value in desired.items()}}
    turn.patch_twin(RELEASE if dropped else CLAIM, twin, body)
    return True
