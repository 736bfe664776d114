# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests against what a cluster has: the writes, in order, and the refusals. Pure."""

from __future__ import annotations

import typing as t

from .._values.keys import fingerprint
from .._values.refused import ValueRefused, quoted
from .._values.text import in_short, is_alnum, parse_subdomain
from .budget import check_budget
from .deletable import may_delete, why_it_stays
from .objects import (
    MANAGED_BY,
    MANAGED_BY_US,
    differences,
    is_owned,
    normalise,
    other_owners,
    ownable,
    owned_tree,
    redacted,
    stale_fields,
    whole_tree,
)
from .plan import CREATE, DELETE, UPDATE, Change, Plan, is_pending
from .sole_owner import others, release_patch, surplus, tree_of

#: Somebody else changed an owned field. It fails the run unless the inventory has it left.
CONFLICT = "conflict"
#: What others need comes first; deletions go the other way round. Kinds that are not named come last.
ORDER = (
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Secret",
    "ConfigMap",
)


class Key(t.NamedTuple):
    """One object of one cluster. ``namespace`` is empty for kinds without."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def short(self) -> str:
        """``namespace/name``, or the name alone."""
        return self.namespace + "/" + self.name if self.namespace else self.name


class Scope(t.NamedTuple):
    """A range that a run may purge: objects of one kind that are owned and that nobody wants. Empty text: all."""

    api_version: str
    kind: str
    namespace: str = ""
    label_selector: str = ""


class Write(t.NamedTuple):
    """One write: its Change, the object, the manifest to apply (None: delete), uid and version of what was read.

    ``force``: it becomes owned, whoever owns what the manifest has. ``alone``: all of the object is owned, what the manifest leaves out too.
    """

    change: Change
    key: Key
    manifest: dict[str, t.Any] | None
    uid: str | None
    version: str | None
    force: bool
    alone: bool = False


class Read(t.NamedTuple):
    """What was read of one cluster.

    ``objects`` every object that a list returned; ``purgeable`` keys inside the scopes; ``unserved`` (apiVersion, kind)
    pairs that the API server does not have; ``namespaced`` pair -> whether the kind lives in namespaces.
    """

    objects: t.Mapping[Key, t.Mapping[str, t.Any]]
    purgeable: t.AbstractSet[Key]
    unserved: t.AbstractSet[tuple[str, str]]
    namespaced: t.Mapping[tuple[str, str], bool]


def rank(kind: str) -> int:
    """Place of a kind in the order of writes."""
    return ORDER.index(kind) if kind in ORDER else len(ORDER)


def parse_manifest(given: t.Any, where: str) -> tuple[Key, dict[str, t.Any]]:
    """A manifest and its key. Raises ValueRefused ``manifest_invalid`` naming ``where`` (``objects[3]``)."""
    if not isinstance(given, dict) or not isinstance(given.get("metadata"), dict):
        raise ValueRefused("manifest_invalid", f"{where} is no manifest: it has no metadata")
    if is_pending(given):
        raise ValueRefused("value_pending", f"{where} holds a value that does not exist yet")
    manifest = _with_merge_keys(normalise(given))
    meta = manifest["metadata"]
    for name in ("apiVersion", "kind"):
        if not isinstance(manifest.get(name), str) or not is_alnum(
            manifest[name].replace("/", "").replace(".", "").replace("-", "")
        ):
            raise ValueRefused("manifest_invalid", f"{where} has no valid {name}")
    if manifest["apiVersion"].count("/") > 1:
        raise ValueRefused("manifest_invalid", f"{where}: {quoted(manifest['apiVersion'])} is no apiVersion")
    name, namespace = meta.get("name"), meta.get("namespace", "")
    # RBAC names may hold colons; everything else is a DNS subdomain
    parse_subdomain(
        str(name).replace(":", "-") if manifest["apiVersion"].startswith("rbac.") else name, "manifest_invalid"
    )
    if namespace:
        parse_subdomain(namespace, "manifest_invalid")
    if not ownable(manifest):
        raise ValueRefused(
            "manifest_invalid",
            "{0}: {1} {2} has no content by which we could know it again; give it the label {3}: {4}".format(
                where, manifest["kind"], quoted(name), MANAGED_BY, MANAGED_BY_US
            ),
        )
    return Key(manifest["apiVersion"], manifest["kind"], namespace, str(name)), manifest


def _with_merge_keys(manifest: dict[str, t.Any]) -> dict[str, t.Any]:
    """Fill in the protocol of a Service's ports: it is one of their merge keys, and servers before 1.21 want it given."""
    spec = manifest.get("spec")
    ports = spec.get("ports") if manifest.get("kind") == "Service" and isinstance(spec, dict) else None
    for port in ports if isinstance(ports, list) else ():
        if isinstance(port, dict):
            port.setdefault("protocol", "TCP")
    return manifest


def plan_objects(
    cluster: str,
    desired: t.Mapping[Key, t.Mapping[str, t.Any]],
    read: Read,
    manager: str,
    state: str = "present",
    adopt: bool = False,
    max_deletes: int | None = None,
    confirm_empty: bool = False,
    alone: bool = False,
    named: bool = False,
) -> tuple[Plan, list[Write]]:
    """The writes that make one cluster have the desired objects, or, with state ``absent``, none of them.

    An existing object that is not owned (is_owned) and differs is refused as ``not_ours``; one that is as desired is left
    alone, whoever made it. With ``adopt`` both are taken over, and nobody else stays on record for what we write. An owned
    one in which somebody else changed a field that we write is a ``conflict``. With ``alone`` all of an object is owned: what
    others put into it goes, and so does their record. Objects in ``read.purgeable`` that are owned and not desired
    are deleted, within the budget (decision 38); ``absent`` ignores the budget. What somebody else wrote into stays (may_delete),
    unless its name is ``named`` by us alone. Change ids are ``cluster/namespace/name``.
    """
    plan, writes = Plan(), []
    coming = defined_kinds(desired.values()) if state == "present" else set()
    deletes: dict[tuple[str, str], list[Key]] = {}
    for key in sorted(desired, key=lambda key: (rank(key.kind), key)):
        ident = f"{cluster}/{key.short}"
        label = f"{key.kind} {ident}"
        actual = read.objects.get(key)
        if (key.api_version, key.kind) in read.unserved - coming:
            if state == "present":
                plan.refuse(label, "kind_not_served", f"the API server has no {key.kind} in {key.api_version}")
        elif state == "absent":
            if actual is None or _going(actual):
                plan.unchanged += 1
            elif adopt or may_delete(actual, manager, is_owned(actual, manager), named, kind=key.kind):
                deletes.setdefault((key.api_version, key.kind), []).append(key)
            else:
                text = (
                    why_it_stays(actual, manager, key.kind)
                    if is_owned(actual, manager)
                    else "has another owner and stays"
                )
                plan.refuse(label, "not_ours", text)
        elif actual is None:
            manifest = dict(desired[key])
            change = Change(CREATE, key.kind, ident, None, redacted(manifest, fingerprint, owned=True))
            writes.append(Write(change, key, manifest, None, None, adopt, alone))
        elif _going(actual):
            plan.refuse(label, "terminating", "is being deleted; run again when it is gone")
        else:
            _compare(plan, writes, key, ident, desired[key], actual, manager, adopt, alone)

    owned = {key for key in read.purgeable if key in read.objects and is_owned(read.objects[key], manager)}
    for key in sorted(key for key in owned if not _going(read.objects[key])):
        if state == "absent" or key not in desired:
            listed = deletes.setdefault((key.api_version, key.kind), [])
            if key in listed:
                continue
            if may_delete(read.objects[key], manager, True, named, kind=key.kind):
                listed.append(key)
            elif key not in desired:
                label = f"{key.kind} {cluster}/{key.short}"
                plan.refuse(label, "not_ours", why_it_stays(read.objects[key], manager, key.kind))
    for (api_version, kind), keys in sorted(deletes.items(), key=lambda item: (-rank(item[0][1]), item[0])):
        of_kind = [key for key in owned if (key.api_version, key.kind) == (api_version, kind)]
        if state == "present":
            remaining = sum(1 for key in desired if (key.api_version, key.kind) == (api_version, kind))
            refusal = check_budget(cluster, kind, len(of_kind), len(keys), remaining, max_deletes, confirm_empty)
            if refusal:
                plan.refused.append(refusal)
                continue
        for key in sorted(keys):
            actual = read.objects[key]
            ident = f"{cluster}/{key.short}"
            change = Change(DELETE, kind, ident, redacted(actual, fingerprint), None)
            writes.append(Write(change, key, None, actual["metadata"].get("uid"), None, False))
    plan.changes.extend(write.change for write in writes)
    return plan, writes


def plan_release(cluster: str, desired: t.Iterable[Key], read: Read, manager: str) -> tuple[Plan, list[Write]]:
    """Those of the named objects that are owned, and what is owned in ``read.purgeable``, given back as they are (decision 1).

    A write's manifest is the merge patch that does it.
    """
    plan, writes = Plan(), []
    for key in sorted({*desired, *read.purgeable}):
        obj = read.objects.get(key)
        if obj is None or not is_owned(obj, manager):
            plan.unchanged += 1
            continue
        change = Change(UPDATE, key.kind, f"{cluster}/{key.short}", {"owner": manager}, {"owner": None})
        writes.append(
            Write(
                change,
                key,
                release_patch(obj),
                obj["metadata"].get("uid"),
                obj["metadata"].get("resourceVersion"),
                False,
            )
        )
    plan.changes.extend(write.change for write in writes)
    return plan, writes


def defined_kinds(manifests: t.Iterable[t.Mapping[str, t.Any]]) -> set[tuple[str, str]]:
    """(apiVersion, kind) pairs that the custom resource definitions among the manifests will bring."""
    found = set()
    for manifest in manifests:
        spec = manifest.get("spec")
        if manifest.get("kind") == "CustomResourceDefinition" and isinstance(spec, dict):
            for version in spec.get("versions") or ():
                found.add((f"{spec.get('group')}/{version.get('name')}", str(spec.get("names", {}).get("kind"))))
    return found


def _going(obj: t.Mapping[str, t.Any]) -> bool:
    """True for an object that is deleted already and waits for its finalizers."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def _compare(
    plan: Plan,
    writes: list[Write],
    key: Key,
    ident: str,
    manifest: t.Mapping[str, t.Any],
    actual: t.Mapping[str, t.Any],
    manager: str,
    adopt: bool,
    alone: bool,
) -> None:
    # only for manifests that differ at first sight is the object searched for its keyed lists, in which the order means nothing
    paths = differences(manifest, actual)
    if paths:
        paths = differences(manifest, actual, whole_tree(actual))
    stale = stale_fields(owned_tree(actual, manager, "Apply"), manifest)
    extra = surplus(manifest, actual, manager) if alone else {}
    owners = others(actual, manager) if alone else []
    taking = adopt and not is_owned(actual, manager)
    if not paths and not stale and not extra and not owners and not taking:
        plan.unchanged += 1
        return
    label = f"{key.kind} {ident}"
    if not adopt:
        if not is_owned(actual, manager):
            plan.refuse(
                label, "not_ours", f"exists, has another owner and differs in {_shown(paths)}; it is left alone"
            )
            return
        taken = other_owners(actual, manager, paths)
        if taken:
            plan.refuse(
                label,
                CONFLICT,
                f"{quoted(taken[0][1])} wrote {taken[0][0]}, which {quoted(manager)} owns; set adopt to put it right, or see to it that only one writes it",
            )
            return
    meta = actual["metadata"]
    shape = tree_of([path for path in paths + stale + _ends(extra) if path])
    if shape:
        before, after = redacted(actual, fingerprint), redacted(manifest, fingerprint, owned=True)
        change = Change(UPDATE, key.kind, ident, _part(before, shape), _part(after, shape))
    else:
        # as desired already, but for the owner
        change = Change(UPDATE, key.kind, ident, {"owner": ", ".join(owners) or None}, {"owner": manager})
    writes.append(
        Write(change, key, dict(manifest), meta.get("uid"), meta.get("resourceVersion"), adopt or alone, alone)
    )


def _ends(patch: t.Mapping[str, t.Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths that a merge patch changes."""
    found: list[tuple[str, ...]] = []
    for name, value in patch.items():
        found += _ends(value, path + (name,)) if isinstance(value, dict) else [path + (name,)]
    return found


def _shown(paths: t.Sequence[tuple[str, ...]]) -> str:
    return in_short(sorted({".".join(path) for path in paths}), 5)


def _part(value: t.Any, shape: t.Mapping[str, t.Any]) -> t.Any:
    """The part of an object that the shape names; lists are shown whole."""
    if not shape or not isinstance(value, dict):
        return value
    return {name: _part(value[name], inner) for name, inner in shape.items() if name in value}
