# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Source objects that are being deleted, and twins whose source object is gone (15, 18.2, 18.3)."""

from __future__ import annotations

import typing as t

from .._plan.budget import check_budget
from .._plan.object_plan import Key
from .fields import Object, controller, deleting, name, namespace, uid
from .interfaces import release, release_patch
from .links import has_finalizer, linked, without_finalizer
from .options import STALE_UID, VIP_RELEASE, in_watch, selected
from .ownership import foreign, message
from .profile import DEPENDENTS, LOAD_BALANCER_ROUTING, NETWORK, NETWORK_INTERFACE, SOURCE, TWIN_KINDS
from .view import Index, View
from .work import DELETE, DELETE_NETWORK, LAST, RELEASE, REMOVE, Step, Work


def plan_deletion(work: Work, index: t.Optional[Index]) -> None:
    """One source object with a deletion timestamp. Without our finalizer there is nothing to do."""
    profile = work.options.profile
    if not has_finalizer(work.kind, work.subject, profile):
        return
    if index is not None:
        _let_go(work, index)
    else:
        twin = work.view.twin(TWIN_KINDS[work.kind], uid(work.subject))
        if twin is not None:
            if deleting(twin):
                work.wait("deletion_blocked", "its twin is being deleted and still has finalizers")
            else:
                work.remove_twin(twin, DELETE_NETWORK if work.kind == NETWORK else DELETE)
            return
        _remove_dependent(work, uid(work.subject))
    work.patch_source(LAST, without_finalizer(work.kind, work.subject, profile), guarded=True)


def plan_leaving(work: Work) -> None:
    """A tenant's object whose tenant leaves; our finalizer keeps it until its twin is gone."""
    work.add(Step(RELEASE, SOURCE, REMOVE, work.key, {}, uid(work.subject), outcome="deleted"))


def leaving_routings(view: View) -> t.List[Work]:
    """The routings of a tenant that leaves, which have no twin of their own."""
    works = []
    for routing in view.every(SOURCE, LOAD_BALANCER_ROUTING):
        if selected(routing, view.options) and not deleting(routing):
            work = Work(view, LOAD_BALANCER_ROUTING, routing)
            plan_leaving(work)
            works.append(work)
    return works


def _let_go(work: Work, index: Index) -> None:
    """An interface only gives its twins up; they are the machine pool's."""
    for twin in index.by_claimer.get(uid(work.subject), ()):
        release(work, twin)
    if VIP_RELEASE in work.options.switches:
        for virtual_ip in index.targeting(namespace(work.subject), uid(work.subject)):
            work.patch_source(RELEASE, {"spec": {"targetRef": None}}, True, virtual_ip)


def _remove_dependent(work: Work, called: str) -> None:
    """Delete the routing or autoscaler of a main twin that is gone. Its owner says whose it was."""
    main = TWIN_KINDS[work.kind]
    dependent = work.view.twin(DEPENDENTS[main], called) if main in DEPENDENTS else None
    owner = (controller(dependent) or {}) if dependent is not None else {}
    if dependent is not None and not deleting(dependent) and (owner.get("kind"), owner.get("name")) == (main, called):
        work.remove_twin(dependent)


def collected(view: View, kind: str) -> t.List[t.Dict[str, t.Any]]:
    """Twins of a kind whose source object is gone, or is another one now (switch stale_uid)."""
    found = []
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
            found.append(twin)
    return found


def plan_collection(view: View, kind: str) -> t.List[Work]:
    """The turns of twins that nobody wants; none while the budget of deletions forbids it (decision 38)."""
    if not view.options.collect:
        return []
    gone = collected(view, kind)
    works = [_collect(view, kind, twin) for twin in gone]
    if kind == NETWORK_INTERFACE:
        return works
    ours = [twin for twin in gone if not foreign(kind, twin, view.options)]
    owned = [
        twin
        for twin in view.twins(TWIN_KINDS[kind])
        if linked(kind, twin, view.options.profile) and not foreign(kind, twin, view.options)
    ]
    deletes = len([twin for twin in ours if not deleting(twin)])
    refusal = check_budget(
        "source", kind, len(owned), deletes, len(owned) - len(ours), view.options.max_deletes, view.options.confirm_empty
    )
    if refusal is not None:
        for work in works:
            work.steps = []
            work.wait(refusal.reason, refusal.message)
    return works


def _collect(view: View, kind: str, twin: Object) -> Work:
    work = Work(view, kind, twin)
    link = linked(kind, twin, view.options.profile)
    if link is not None:
        work.source = Key(view.options.profile.source, kind, link.namespace, link.name)
    if kind == NETWORK_INTERFACE:
        work.patch_twin(RELEASE, twin, release_patch(work), "released")
    elif foreign(kind, twin, view.options):
        reason = foreign(kind, twin, view.options)
        work.wait(reason, message(reason, TWIN_KINDS[kind]))
    elif deleting(twin):
        work.wait("deletion_blocked", "the twin is being deleted and still has finalizers")
    else:
        work.remove_twin(twin, DELETE_NETWORK if kind == NETWORK else DELETE)
    return work


def plan_orphans(view: View, kind: str) -> t.List[Work]:
    """Routings and autoscalers whose main twin is gone; a garbage collector would do the same."""
    main = TWIN_KINDS[kind]
    if main not in DEPENDENTS:
        return []
    living = {name(twin) for twin in view.twins(main)}
    works = []
    for dependent in view.twins(DEPENDENTS[main]):
        owner = controller(dependent) or {}
        ours = linked(kind, dependent, view.options.profile) is not None and not foreign(kind, dependent, view.options)
        if ours and owner.get("kind") == main and owner.get("name") not in living and not deleting(dependent):
            link = linked(kind, dependent, view.options.profile)
            if link is not None and in_watch(link.namespace, view.options):
                work = Work(view, kind, dependent)
                work.remove_twin(dependent)
                works.append(work)
    return works
