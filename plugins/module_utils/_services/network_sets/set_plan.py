# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired sets against those of a cluster: the writes, source by source (semaphore 6.3, 7; decisions 1, 32 and 38). Pure."""

from __future__ import annotations

import typing as t

from ..._plan.budget import check_budget
from ..._plan.deletable import may_delete, why_it_stays
from ..._plan.object_plan import Key, Write
from ..._plan.objects import inside, labels_of, owned_tree
from ..._plan.plan import CREATE, DELETE, UPDATE, Change, Plan
from ..._plan.sole_owner import others, release_patch, surplus
from ..._values.refused import ValueRefused
from .members import (
    CLUSTER_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    NAMESPACE_LABEL,
    Member,
    Members,
    NamedSet,
    name_sets,
    set_name,
)
from .targets import Target, manifest, nets_of

Objects = t.Mapping[str, t.Mapping[str, t.Any]]


class Planned(t.NamedTuple):
    """What would be written to one cluster; ``plan`` has the same changes as ``writes``, in their order."""

    plan: Plan
    writes: list[Write]

    def write(self, write: Write) -> None:
        self.plan.changes.append(write.change)
        self.writes.append(write)


def plan_sets(
    local: str,
    target: Target,
    existing: Objects,
    sources: t.Mapping[str, Members],
    manager: str,
    adopt: bool = False,
    max_deletes: int | None = None,
    confirm_empty: t.Collection[str] = (),
    absent: bool = False,
    emptied: t.Collection[str] = (),
    turned_away: t.Mapping[str, str] | None = None,
) -> Planned:
    """The writes that make cluster ``local`` have the sets of its sources.

    existing: every object of the target's kind, by name. sources: {cluster: members}; sets of a cluster that is not
    among them stay as they are, because unknown is not empty. absent: the sources' sets go, whatever their number.
    emptied: clusters that are to have their sets without any network. turned_away: {source: of why_refused}.

    An object is owned by our field manager. One that carries semaphore-policy's labels is ``adoptable``; any other
    under a desired name is ``not_ours``, and no option takes it.
    """
    planned = Planned(Plan(), [])
    holders = {
        name: member
        for name, member in ((name, member_of(obj)) for name, obj in existing.items())
        if member is not None
    }
    merged = {member: nets for source in sorted(sources) for member, nets in sources[source].items()}
    # a set that its known source has no more gives its name free
    held = {name: member for name, member in holders.items() if member in merged or member.cluster not in sources}
    named, clashes = name_sets({} if absent else merged, held)
    planned.plan.refused += [clash.refusal for clash in clashes]
    desired = {item.name: item for item in named}
    for name in sorted(desired):
        _compare(planned, local, target, desired[name], existing.get(name), manager, adopt)
    for name, member in sorted(holders.items()):
        if member.cluster in emptied and member.cluster not in sources and owned_by(existing[name], manager):
            _compare(planned, local, target, NamedSet(name, member, ()), existing[name], manager, adopt)
    for source in sorted(sources):
        stale = {name for name, member in holders.items() if member.cluster == source and name not in desired}
        # a name in conflict is still owned: the loser's set is in nobody's way but its own
        owned = [
            name
            for name, member in holders.items()
            if member.cluster == source and (adopt or owned_by(existing[name], manager))
        ]
        gone = sorted(
            name for name in stale if name in owned and not existing[name]["metadata"].get("deletionTimestamp")
        )
        for name in gone:
            if not _may_delete(name, holders[name], existing[name], manager, adopt):
                planned.plan.refuse(f"{target.kind} {local}/{name}", "not_ours", why_it_stays(existing[name], manager))
        gone = [name for name in gone if _may_delete(name, holders[name], existing[name], manager, adopt)]
        remaining = sum(1 for item in desired.values() if item.member.cluster == source)
        if not absent:
            why = (turned_away or {}).get(source, "")
            refusal = check_budget(
                source,
                target.kind,
                len(owned),
                len(gone),
                remaining,
                max_deletes,
                source in confirm_empty,
                why,
                claimed=True,
            )
            if refusal is not None:
                planned.plan.refused.append(refusal._replace(object=f"{local}/{source}"))
                continue
        for name in gone:
            obj = existing[name]
            change = Change(DELETE, target.kind, f"{local}/{name}", _shown(target, obj), None)
            planned.write(Write(change, _key(target, name), None, obj["metadata"].get("uid"), None, False))
    return planned


def plan_release(local: str, target: Target, existing: Objects, sources: t.Collection[str], manager: str) -> Planned:
    """Give the sources' sets back as they are: nothing of them changes but that we are no field manager of theirs (decision 1).

    A write's manifest is the merge patch that does it. semaphore-policy knows its sets by their labels.
    """
    planned = Planned(Plan(), [])
    for name in sorted(existing):
        obj, member = existing[name], member_of(existing[name])
        if member is None or member.cluster not in sources or not owned_by(obj, manager):
            continue
        change = Change(UPDATE, target.kind, f"{local}/{name}", {"field_manager": manager}, {"field_manager": None})
        planned.write(Write(change, _key(target, name), release_patch(obj), obj["metadata"].get("uid"), None, False))
    return planned


def _compare(
    planned: Planned,
    local: str,
    target: Target,
    desired: NamedSet,
    actual: t.Mapping[str, t.Any] | None,
    manager: str,
    adopt: bool,
) -> None:
    plan, ident, after = planned.plan, f"{local}/{desired.name}", manifest(target, desired)
    label = f"{target.kind} {ident}"
    if actual is None:
        change = Change(CREATE, target.kind, ident, None, _shown(target, after))
        planned.write(Write(change, _key(target, desired.name), after, None, None, False))
        return
    metadata = actual["metadata"]
    if metadata.get("deletionTimestamp"):
        plan.refuse(label, "terminating", "is being deleted; run again when it is gone")
        return
    mine = owned_by(actual, manager)
    same = _same(target, after, actual)
    extra = mine and same and (surplus(after, actual, manager) or others(actual, manager))
    if mine and same and not extra:
        plan.unchanged += 1
        return
    if not mine:
        member = member_of(actual)
        if member is None:
            plan.refuse(label, "not_ours", "a set of this name exists, has another owner and is left alone")
            return
        if not adopt:
            if same:
                plan.unchanged += 1
            else:
                plan.refuse(label, "adoptable", "the upstream program's set differs; set adopt to take it over")
            return
    shown = _shown(target, actual), _shown(target, after)
    if same:
        # as desired already, except for its owner
        shown = dict(shown[0], owner=", ".join(others(actual, manager)) or None), dict(shown[1], owner=manager)
    change = Change(UPDATE, target.kind, ident, *shown)
    # forced: what somebody edited by hand in an owned set is put right, or it would admit whom they wrote there
    write = Write(change, _key(target, desired.name), after, metadata.get("uid"), metadata.get("resourceVersion"), True)
    planned.write(write)


def owned_by(obj: t.Mapping[str, t.Any], manager: str) -> bool:
    """True when our field manager wrote the set's networks, or the label with the cluster of its pods.

    Whoever edits the networks of a set by hand becomes their owner; the set is owned all the same.
    """
    tree = owned_tree(obj, manager)
    return "f:spec" in tree or "f:" + CLUSTER_LABEL in inside(tree, "f:metadata", "f:labels")


def _may_delete(name: str, member: Member, obj: t.Mapping[str, t.Any], manager: str, adopt: bool) -> bool:
    try:
        plain = set_name(member)
        named = name == plain or name.startswith(plain + ".part-")
    except ValueRefused:
        named = name.startswith(member.cluster + "-")  # some of its labels are gone
    return may_delete(obj, manager, owned_by(obj, manager), named, adopt, derived=True)


def member_of(obj: t.Mapping[str, t.Any]) -> Member | None:
    """What a set represents by its labels; None for an object without semaphore-policy's marks.

    These are managed-by and the cluster. A set without its other labels represents no pods any more.
    """
    labels = labels_of(obj)
    cluster, namespace, value = (labels.get(name) for name in (CLUSTER_LABEL, NAMESPACE_LABEL, NAME_LABEL))
    if labels.get(MANAGED_BY_LABEL) != MANAGED_BY or not cluster:
        return None
    return Member(cluster, "", "") if namespace is None or value is None else Member(cluster, namespace, value)


def _same(target: Target, desired: t.Mapping[str, t.Any], actual: t.Mapping[str, t.Any]) -> bool:
    labels = labels_of(actual)
    if any(labels.get(key) != value for key, value in desired["metadata"]["labels"].items()):
        return False
    nets = nets_of(target, actual)
    mine = nets_of(target, desired)
    return nets == mine or (
        len(nets) == len(mine) and all(isinstance(net, str) for net in nets) and set(nets) == set(mine)
    )


def _shown(target: Target, obj: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {"labels": dict(obj["metadata"].get("labels") or {}), target.field: list(nets_of(target, obj))}


def _key(target: Target, name: str) -> Key:
    return Key(target.api_version, target.kind, "", name)
