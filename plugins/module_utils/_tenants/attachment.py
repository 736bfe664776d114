# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine pool's side of an interface: a twin on a node, and the provider ID that names it (20)."""

from __future__ import annotations

import functools
import typing as t

from .._values.refused import ValueRefused, quoted
from .fields import Object, address_or_none, deleting, get, items, name, namespace, same, text, uid
from .links import AVAILABLE, READY, format_id, interface_id_or_none, parse_network_id
from .object_turn import CLAIM, DELETE, MAIN, TWIN, ObjectTurn
from .options import APINET, NETWORK, NETWORK_INTERFACE, PREFIX, SOURCE
from .view import View, balancer_addresses

READS = [
    (SOURCE, NETWORK),
    (SOURCE, NETWORK_INTERFACE),
    (SOURCE, PREFIX),
    (APINET, NETWORK),
    (APINET, NETWORK_INTERFACE),
]
#: The source of a twin, also when the source interface is gone already. What has it was made here.
MARK = "multicluster.network/interface"


class Attachment(t.NamedTuple):
    """One interface and the node that its machine runs on ("" to detach it)."""

    namespace: str
    name: str
    node: str = ""

    @property
    def label(self) -> str:
        return f"{self.namespace}/{self.name}"


def plan_attachment(view: View, desired: t.Sequence[Attachment], require_ready: bool = True) -> list[ObjectTurn]:
    """One pass: twins where there are none, provider IDs once they are ready."""
    marked = _marked(view)
    return [
        _turn(
            view,
            one,
            functools.partial(_attach, one=one, marked=marked.get(one.label, []), require_ready=require_ready),
        )
        for one in desired
    ]


def plan_detachment(view: View, desired: t.Sequence[Attachment]) -> list[ObjectTurn]:
    """One pass: provider IDs that name our twins are cleared, and the twins go."""
    marked = _marked(view)
    return [_turn(view, one, functools.partial(_detach, one=one, marked=marked.get(one.label, []))) for one in desired]


def _marked(view: View) -> dict[str, list[dict[str, t.Any]]]:
    found: dict[str, list[dict[str, t.Any]]] = {}
    for twin in view.twins(NETWORK_INTERFACE):
        found.setdefault(_mark(twin), []).append(twin)
    return found


def _mark(twin: Object) -> str:
    return text(twin, "metadata", "annotations", MARK)


def _turn(view: View, one: Attachment, plan: t.Callable[[ObjectTurn], None]) -> ObjectTurn:
    source = view.source(NETWORK_INTERFACE, one.namespace, one.name)
    meta = {"namespace": one.namespace, "name": one.name}
    stub = {"apiVersion": view.options.profile.source, "kind": NETWORK_INTERFACE, "metadata": meta}
    turn = ObjectTurn(view, NETWORK_INTERFACE, stub if source is None else source)
    try:
        plan(turn)
    except ValueRefused as error:
        turn.refuse(error.reason, error.message)
    return turn


def _attach(turn: ObjectTurn, one: Attachment, marked: t.Sequence[Object], require_ready: bool) -> None:
    source, view = turn.subject, turn.view
    if not uid(source):
        raise ValueRefused("interface_missing", f"there is no interface {quoted(one.label)}")
    if deleting(source):
        raise ValueRefused("interface_deleting", "the interface is being deleted")
    network = _network(turn)
    if network is None:
        return
    addresses, missing = balancer_addresses(view, source)
    if missing:
        turn.wait("prefix_not_allocated", f"not allocated yet: {quoted(', '.join(missing))}")
        return
    ips = [address_or_none(entry["ip"]) or str(entry["ip"]) for entry in addresses]
    for stale in marked:
        if name(stale) != uid(source) and not deleting(stale):
            # of an interface that had this name before
            turn.remove_twin(stale)
    twin = view.twin(NETWORK_INTERFACE, uid(source))
    if twin is None:
        meta = {"namespace": view.options.apinet_namespace, "name": uid(source), "annotations": {MARK: one.label}}
        spec = {"nodeRef": {"name": one.node}, "networkRef": {"name": network}, "ips": ips}
        manifest = {
            "apiVersion": view.options.profile.apinet,
            "kind": NETWORK_INTERFACE,
            "metadata": meta,
            "spec": spec,
        }
        turn.create(TWIN, manifest)
        return
    if _mark(twin) != one.label:
        raise ValueRefused("not_ours", f"there is another interface {quoted(name(twin))} on the network side")
    if deleting(twin):
        turn.wait("twin_deleting", "the former interface of the network side is still being deleted")
        return
    found = (text(twin, "spec", "nodeRef", "name"), text(twin, "spec", "networkRef", "name"))
    if found != (one.node, network) or not same(items(twin, "spec", "ips"), ips, "ips"):
        message = f"it is attached on node {quoted(found[0])} to network {quoted(found[1])}; detach it first"
        raise ValueRefused("attached_elsewhere", message)
    if require_ready and get(twin, "status", "state") != READY:
        turn.wait("twin_not_ready", f"the network side reports {quoted(get(twin, 'status', 'state'))}")
        return
    desired = format_id((namespace(twin), name(twin), one.node, uid(twin)), view.options.profile)
    given = text(source, "spec", "providerID")
    if given != desired:
        _check_free(turn, given)
        turn.patch_source(MAIN, {"spec": {"providerID": desired}}, guarded=True)


def _network(turn: ObjectTurn) -> str | None:
    """The name of the network on the network side, verified there: a provider ID is only text (T23)."""
    view = turn.view
    network = view.source(NETWORK, namespace(turn.subject), text(turn.subject, "spec", "networkRef", "name"))
    if network is None or get(network, "status", "state") != AVAILABLE or not text(network, "spec", "providerID"):
        turn.wait("network_not_available", "its network is not available yet")
        return None
    found = parse_network_id(text(network, "spec", "providerID"), view.options.profile)
    twin = view.twin(NETWORK, found.name)
    verified = (
        found.namespace == view.options.apinet_namespace and found.name == uid(network) and uid(twin or {}) == found.uid
    )
    if not verified or not found.uid:
        raise ValueRefused("outside_grant", "the provider ID of its network does not name its twin")
    return found.name


def _check_free(turn: ObjectTurn, given: str) -> None:
    """Another's attachment is not overwritten while it lives."""
    other = interface_id_or_none(given, turn.options.profile)
    for twin in turn.view.twins(NETWORK_INTERFACE):
        if other is not None and uid(twin) == other.uid and not deleting(twin) and _mark(twin) == "":
            raise ValueRefused("attached_elsewhere", f"another machine pool attached it as {quoted(name(twin))}")


def _detach(turn: ObjectTurn, one: Attachment, marked: t.Sequence[Object]) -> None:
    source = turn.subject
    given = interface_id_or_none(text(source, "spec", "providerID"), turn.options.profile)
    if given is not None and given.uid in {uid(twin) for twin in marked}:
        turn.patch_source(CLAIM, {"spec": {"providerID": None}}, guarded=True, stops=False)
    elif given is not None and any(uid(twin) == given.uid for twin in turn.view.twins(NETWORK_INTERFACE)):
        raise ValueRefused("not_ours", "another machine pool attached it")
    for twin in marked:
        if deleting(twin):
            turn.wait("deletion_blocked", "its twin is being deleted and still has finalizers")
        else:
            turn.remove_twin(twin, DELETE)


def attached_to(view: View, within: str) -> list[Attachment]:
    """Everything of one namespace that was attached here."""
    marks = sorted(_mark(twin) for twin in view.twins(NETWORK_INTERFACE))
    return [Attachment(*mark.split("/", 1)) for mark in marks if mark.startswith(within + "/")]
