# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Source objects that are being deleted, and twins without their source object (15, 18.2, 18.3)."""

from __future__ import annotations

import typing as t

from .._plan.budget import check_budget
from .._plan.object_plan import Key
from .fields import Object, controller, deleting, name, namespace, uid
from .interfaces import release, release_patch
from .links import has_finalizer, linked, message, unowned, without_finalizer
from .object_turn import DELETE, DELETE_NETWORK, LAST, RELEASE, REMOVE, ObjectTurn, Step
from .options import (
    DEPENDENTS,
    LOAD_BALANCER_ROUTING,
    NETWORK,
    NETWORK_INTERFACE,
    SOURCE,
    STALE_UID,
    TWIN_KINDS,
    VIP_RELEASE,
    in_watch,
    selected,
)
from .view import Index, View


def plan_deletion(turn: ObjectTurn, index: Index | None) -> None:
    """One source object with a deletion timestamp. Without our finalizer there is nothing to do."""
    profile = turn.options.profile
    if not has_finalizer(turn.kind, turn.subject, profile):
        return
    if index is not None:
        _let_go(turn, index)
    else:
        twin = turn.view.twin(TWIN_KINDS[turn.kind], uid(turn.subject))
        if twin is not None:
            if deleting(twin):
                turn.wait("deletion_blocked", "its twin is being deleted and still has finalizers")
            else:
                turn.remove_twin(twin, DELETE_NETWORK if turn.kind == NETWORK else DELETE)
            return
        _remove_dependent(turn, uid(turn.subject))
    turn.patch_source(LAST, without_finalizer(turn.kind, turn.subject, profile), guarded=True)


def plan_leaving(turn: ObjectTurn) -> None:
    """A tenant's object when the tenant leaves; our finalizer keeps it until its twin is gone."""
    turn.steps.append(Step(RELEASE, SOURCE, REMOVE, turn.key, {}, uid(turn.subject), action="deleted"))


def leaving_routings(view: View) -> t.Iterator[ObjectTurn]:
    """The routings of a tenant that leaves, which have no twin of their own."""
    for routing in view.every(SOURCE, LOAD_BALANCER_ROUTING):
        if selected(routing, view.options) and not deleting(routing):
            turn = ObjectTurn(view, LOAD_BALANCER_ROUTING, routing)
            plan_leaving(turn)
            yield turn


def _let_go(turn: ObjectTurn, index: Index) -> None:
    """An interface only gives its twins up; they are the machine pool's."""
    for twin in index.by_claimer.get(uid(turn.subject), ()):
        release(turn, twin)
    if VIP_RELEASE in turn.options.switches:
        for virtual_ip in index.targeting(namespace(turn.subject), uid(turn.subject)):
            turn.patch_source(RELEASE, {"spec": {"targetRef": None}}, True, virtual_ip)


def _remove_dependent(turn: ObjectTurn, called: str) -> None:
    """Delete the routing or autoscaler of a main twin that is gone. Its owner reference identifies the twin."""
    main = TWIN_KINDS[turn.kind]
    dependent = turn.view.twin(DEPENDENTS[main], called) if main in DEPENDENTS else None
    owner = (controller(dependent) or {}) if dependent is not None else {}
    if dependent is not None and not deleting(dependent) and (owner.get("kind"), owner.get("name")) == (main, called):
        turn.remove_twin(dependent)


def collected(view: View, kind: str) -> t.Iterator[dict[str, t.Any]]:
    """Twins of a kind without their source object, or with another one now (switch stale_uid)."""
    mapped = {uid(source) for source in view.every(SOURCE, kind) if selected(source, view.options)}
    for twin in view.twins(TWIN_KINDS[kind]):
        link = linked(kind, twin, view.options.profile)
        if link is None or not in_watch(link.namespace, view.options):
            continue
        holder = link.uid if kind == NETWORK_INTERFACE else name(twin)
        if holder in mapped:
            continue  # its labels are put right, or it is given up, in its source object's own turn
        source = view.source(kind, link.namespace, link.name)
        stale = STALE_UID in view.options.switches and link.uid and source is not None and link.uid != uid(source)
        if source is None or stale:
            yield twin


def plan_collection(view: View, kind: str) -> list[ObjectTurn]:
    """The turns of twins that nobody wants; none while the budget of deletions forbids it (decision 38)."""
    if not view.options.collect:
        return []
    gone = list(collected(view, kind))
    turns = [_collect(view, kind, twin) for twin in gone]
    if kind == NETWORK_INTERFACE:
        return turns
    removable = [twin for twin in gone if not unowned(kind, twin, view.options)]
    owned = [
        twin
        for twin in view.twins(TWIN_KINDS[kind])
        if linked(kind, twin, view.options.profile) and not unowned(kind, twin, view.options)
    ]
    deletes = len([twin for twin in removable if not deleting(twin)])
    refusal = check_budget(
        "source",
        kind,
        len(owned),
        deletes,
        len(owned) - len(removable),
        view.options.max_deletes,
        view.options.confirm_empty,
    )
    if refusal is not None:
        for turn in turns:
            turn.steps = []
            turn.wait(refusal.reason, refusal.message)
    return turns


def _collect(view: View, kind: str, twin: Object) -> ObjectTurn:
    turn = ObjectTurn(view, kind, twin)
    link = linked(kind, twin, view.options.profile)
    if link is not None:
        turn.source = Key(view.options.profile.source, kind, link.namespace, link.name)
    reason = unowned(kind, twin, view.options)
    if kind == NETWORK_INTERFACE:
        turn.patch_twin(RELEASE, twin, release_patch(turn), "released")
    elif reason:
        turn.wait(reason, message(reason, TWIN_KINDS[kind]))
    elif deleting(twin):
        turn.wait("deletion_blocked", "the twin is being deleted and still has finalizers")
    else:
        turn.remove_twin(twin, DELETE_NETWORK if kind == NETWORK else DELETE)
    return turn


def plan_orphans(view: View, kind: str) -> t.Iterator[ObjectTurn]:
    """Routings and autoscalers without their main twin; a garbage collector would do the same."""
    main = TWIN_KINDS[kind]
    if main not in DEPENDENTS:
        return
    living = {name(twin) for twin in view.twins(main)}
    for dependent in view.twins(DEPENDENTS[main]):
        owner = controller(dependent) or {}
        owned = linked(kind, dependent, view.options.profile) is not None and not unowned(kind, dependent, view.options)
        if owned and owner.get("kind") == main and owner.get("name") not in living and not deleting(dependent):
            link = linked(kind, dependent, view.options.profile)
            if link is not None and in_watch(link.namespace, view.options):
                turn = ObjectTurn(view, kind, dependent)
                turn.remove_twin(dependent)
                yield turn
