# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects with one owner: who else is on record as an owner, what somebody else put into them, and both undone. Pure.

Server-side apply takes a field away only from whoever has another value in it: a former owner with an equal value stays on
record alongside us, and then we can neither remove that field nor change it without a conflict. So whoever takes an object over
ends the record of everybody else. What others write into it later, they are on record for, which is how it is found.

Metadata is everybody's, but for the labels and annotations that we applied; so is status.
"""

from __future__ import annotations

import typing as t

from .objects import merge_trees, record_of

Object = t.Mapping[str, t.Any]
Path = tuple[str, ...]
Patch = dict[str, t.Any]

_APART = frozenset(("f:metadata", "f:status"))
#: What a Service has by default; another value is somebody's doing, whoever is on record for it.
_DEFAULTS: dict[str, dict[Path, t.Any]] = {
    "Service": {
        ("spec", "sessionAffinity"): "None",
        ("spec", "type"): "ClusterIP",
        ("spec", "internalTrafficPolicy"): "Cluster",
        ("spec", "publishNotReadyAddresses"): False,
    }
}
#: What no server fills in.
_NEVER: dict[str, frozenset[Path]] = {
    "Service": frozenset(
        ("spec", name)
        for name in (
            "selector",
            "externalIPs",
            "externalName",
            "loadBalancerIP",
            "loadBalancerSourceRanges",
            "loadBalancerClass",
            "sessionAffinityConfig",
            "topologyKeys",
            "trafficDistribution",
        )
    )
}
#: What a server chooses for an object, and keeps.
_ASSIGNED: dict[str, frozenset[Path]] = {
    "Service": frozenset(
        ("spec", name) for name in ("clusterIP", "clusterIPs", "ipFamily", "ipFamilies", "ipFamilyPolicy")
    )
}
#: Kinds of objects in which no server fills in anything.
_PLAIN = frozenset(("Peer", "GlobalNetworkSet", "ServiceImport"))
_NOTHING = object()


def others(obj: Object, manager: str, kept: t.Collection[Path] = ()) -> list[str]:
    """Managers besides the given one that are on record for something that it owns alone, sorted. ``kept``: paths that may be theirs."""
    found: set[str] = set()
    mine: set[Path] | None = None
    for entry in record_of(obj):
        if entry.get("manager") == manager or entry.get("subresource"):
            continue
        for part, inner in entry["fieldsV1"].items():
            if part in _APART:
                if part == "f:metadata":
                    mine = _our_metadata(obj, manager) if mine is None else mine
                    if mine and not mine.isdisjoint(_leaves(inner, (part,))):
                        found.add(str(entry.get("manager")))
            elif not kept or any(not _within(leaf, kept) for leaf in _leaves(inner, (part,))):
                found.add(str(entry.get("manager")))
    return sorted(found)


def sole_record(
    obj: Object, manager: str, kept: t.Collection[Path] = (), whole: bool = True
) -> list[dict[str, t.Any]] | None:
    """``metadata.managedFields`` with nobody alongside us; None where it is so already.

    whole: everything but metadata and status is owned. Otherwise only what we applied is.
    """
    if all(entry.get("manager") == manager or entry.get("subresource") for entry in record_of(obj)):
        return None
    mine = _our_metadata(obj, manager)
    content = set() if whole else _applied(obj, manager)
    made: list[dict[str, t.Any]] = []
    for entry, leaves in _record(obj, lambda row: row.get("manager") != manager and not row.get("subresource")):
        left = [
            leaf
            for leaf in leaves or ()
            if leaf not in mine and (leaf[0] in _APART or _within(leaf, kept) or not (whole or _covered(leaf, content)))
        ]
        made += _reduced(entry, left) if leaves and len(left) < len(leaves) else [entry]
    entries = obj["metadata"]["managedFields"]
    return made if len(made) != len(entries) or made != entries else None


def release_patch(obj: Object) -> dict[str, t.Any]:
    """The merge patch that gives an object back as it is: nothing of it changes but that nobody is on record as its owner."""
    meta = obj["metadata"]
    # an empty entry is the API's way to say so
    return {"metadata": {"uid": meta.get("uid"), "resourceVersion": meta.get("resourceVersion"), "managedFields": [{}]}}


def given_up_record(obj: Object, manager: str, paths: t.Iterable[Path]) -> list[dict[str, t.Any]]:
    """``metadata.managedFields`` in which we are not on record for the fields at the paths, and nobody is in our place.

    For an object that is others', but for these fields of it; see release_patch for one that is owned as a whole.
    """
    desired = {tuple("f:" + name for name in path) for path in paths}
    made: list[dict[str, t.Any]] = []
    for entry, leaves in _record(obj, lambda row: row.get("manager") == manager and not row.get("subresource")):
        made += [entry] if leaves is None else _reduced(entry, [leaf for leaf in leaves if leaf not in desired])
    return made or [{}]  # an empty entry is the API's way to say nobody


#: On record, in place of us, for what we gave up: the API's own name for writers of whom nothing is known.
NOBODY = "before-first-apply"


def transferred(
    obj: Object,
    is_owned: t.Callable[[Object], bool],
    heir: str = NOBODY,
    operation: str = "Update",
    within: t.Callable[[Path], bool] | None = None,
) -> list[dict[str, t.Any]] | None:
    """``metadata.managedFields`` in which what the owners are on record for is the heir's, as by that operation; None where they are for nothing.

    An object of which nobody is on record would look as if it came from a server that does not track writers, and be owned again.
    ``is_owned``: whether an entry of the record is an owner's. ``within``: whether a field, as its path in a fieldsV1 tree, is given up, where we keep others.
    """
    made: list[dict[str, t.Any]] = []
    given: dict[tuple[str, str], list[dict[str, t.Any]]] = {}
    for entry, leaves in _record(obj, is_owned):
        goes = [leaf for leaf in leaves or () if within is None or within(leaf)]
        if not goes or leaves is None:
            made.append(entry)
            continue
        given.setdefault((str(entry.get("apiVersion")), str(entry.get("subresource") or "")), []).append(
            dict(entry, fieldsV1=tree_of(goes))
        )
        made += _reduced(entry, [leaf for leaf in leaves if leaf not in goes])
    for (version, subresource), entries in sorted(given.items()):
        same = [
            row
            for row in made
            if isinstance(row, dict)
            and row.get("manager") == heir
            and row.get("operation") == operation
            and str(row.get("apiVersion")) == version
            and str(row.get("subresource") or "") == subresource
        ]
        made = [row for row in made if row not in same]
        trees = [row["fieldsV1"] for row in [*same, *entries] if isinstance(row.get("fieldsV1"), dict)]
        made.append(dict(entries[0], manager=heir, operation=operation, fieldsV1=merge_trees(trees)))
    return made if given else None


def writers_of(obj: Object, counts: t.Callable[[Object], bool], within: t.Callable[[Path], bool]) -> list[str]:
    """The managers on record for a field, as its path in a fieldsV1 tree, for which ``within`` holds, sorted. ``counts``: whether an entry is looked at."""
    found = set()
    for entry in record_of(obj):
        if counts(entry) and any(
            within(leaf) for part, inner in entry["fieldsV1"].items() for leaf in _leaves(inner, (part,))
        ):
            found.add(str(entry.get("manager")))
    return sorted(found)


def taken_record(obj: Object, manager: str) -> list[dict[str, t.Any]]:
    """``metadata.managedFields`` in which whatever others are on record for is the manager's, as by its update.

    For objects that are written by patches: a patch which changes no value takes nothing over.
    """
    made: list[dict[str, t.Any]] = []
    mine: dict[str, list[dict[str, t.Any]]] = {}
    for entry in (obj.get("metadata") or {}).get("managedFields") or []:
        tree = entry.get("fieldsV1") if isinstance(entry, dict) else None
        if (
            not isinstance(tree, dict)
            or entry.get("subresource")
            or (entry.get("manager") == manager and entry.get("operation") == "Apply")
        ):
            made.append(entry)
            continue
        mine.setdefault(str(entry.get("apiVersion")), []).append(dict(entry, manager=manager, operation="Update"))
    return made + [
        dict(found[0], fieldsV1=merge_trees([one["fieldsV1"] for one in found]))
        for dummy, found in sorted(mine.items())
    ]


def taken_paths(obj: Object, manager: str, paths: t.Iterable[Path]) -> list[dict[str, t.Any]] | None:
    """``metadata.managedFields`` in which the fields at the paths are the manager's alone, as by its update; None where they are so already.

    For an object that is others', but for these fields of it.
    """
    desired = {tuple("f:" + name for name in path) for path in paths}
    made: list[dict[str, t.Any]] = []
    taken: dict[str, set[Path]] = {}
    for entry, leaves in _record(obj, lambda row: row.get("manager") != manager and not row.get("subresource")):
        goes = desired.intersection(leaves or ())
        if not goes or leaves is None:
            made.append(entry)
            continue
        taken.setdefault(str(entry.get("apiVersion")), set()).update(goes)
        made += _reduced(entry, [leaf for leaf in leaves if leaf not in goes])
    for version, leaves_of_it in sorted(taken.items()):
        made.append(
            {
                "manager": manager,
                "operation": "Update",
                "apiVersion": version,
                "fieldsType": "FieldsV1",
                "fieldsV1": tree_of(sorted(leaves_of_it)),
            }
        )
    return made if taken else None


def surplus(manifest: Object, actual: Object, manager: str, kept: t.Collection[Path] = ()) -> Patch:
    """The merge patch that takes out of an object what neither the manifest has nor the server filled in; {} for nothing.

    Absence is part of what a manifest means. What servers of newer releases fill in, nobody here knows: a field that no table
    names counts only when somebody else is on record for it. A list that has too much is put right as a whole.
    """
    kind = str(manifest.get("kind") or actual.get("kind") or "")
    theirs = merge_trees(
        [
            entry["fieldsV1"]
            for entry in record_of(actual)
            if entry.get("manager") != manager and not entry.get("subresource")
        ]
    )
    patch: Patch = {}
    for name, value in actual.items():
        if name not in ("apiVersion", "kind", "metadata", "status"):
            part = _surplus(manifest.get(name), value, _inside(theirs, name), (name,), kind, kept)
            if part is not _NOTHING:
                patch[name] = part
    return patch


def _surplus(desired: t.Any, actual: t.Any, theirs: t.Any, path: Path, kind: str, kept: t.Collection[Path]) -> t.Any:
    if path in kept or path in _ASSIGNED.get(kind, ()):
        return _NOTHING
    if isinstance(actual, dict) and isinstance(desired, dict):
        patch: Patch = {}
        for name, value in actual.items():
            part = _surplus(desired.get(name), value, _inside(theirs, name), path + (name,), kind, kept)
            if part is not _NOTHING:
                patch[name] = part
        return patch or _NOTHING
    if desired is None:
        default = _DEFAULTS.get(kind, {}).get(path, _NOTHING)
        if default is not _NOTHING:
            return _NOTHING if actual == default else None
        known = path in _NEVER.get(kind, ()) or (kind in _PLAIN and path[0] == "spec")
        return None if known or theirs is not None else _NOTHING
    if isinstance(desired, list) and isinstance(actual, list) and _too_much(desired, actual, theirs):
        return desired
    return _NOTHING


def _too_much(desired: list[t.Any], actual: list[t.Any], theirs: t.Any) -> bool:
    """Whether a list has more entries than is desired, or more in an entry that others are on record for."""
    if len(actual) > len(desired):
        return True
    items = theirs.values() if isinstance(theirs, dict) else ()
    extra = {name[2:] for item in items if isinstance(item, dict) for name in item if name.startswith("f:")}
    extra -= {"protocol", "targetPort"}  # these the server fills in, and whoever made the object is on record for them
    pairs = [(one, other) for one, other in zip(desired, actual) if isinstance(one, dict) and isinstance(other, dict)]
    return any(name in extra and name not in one for one, other in pairs for name in other)


# -- trees of fields as sets of paths --------------------------------------------------------------------------------


def _record(obj: Object, concerned: t.Callable[[Object], bool]) -> t.Iterator[tuple[t.Any, list[Path] | None]]:
    """Each entry of the record with the ends of its tree; None for one that is not concerned or has no tree, and stays as it is."""
    for entry in (obj.get("metadata") or {}).get("managedFields") or []:
        tree = entry.get("fieldsV1") if isinstance(entry, dict) else None
        if isinstance(tree, dict) and concerned(entry):
            yield entry, [leaf for part in tree for leaf in _leaves(tree[part], (part,))]
        else:
            yield entry, None


def _reduced(entry: Object, left: list[Path]) -> list[dict[str, t.Any]]:
    """The entry with what is left of its fields; none where nothing is."""
    if all(leaf[-1] == "." for leaf in left):
        return []
    return [dict(entry, fieldsV1=tree_of(_without_empty_maps(left)))]


def _inside(tree: t.Any, name: str) -> t.Any:
    return tree.get("f:" + name) if isinstance(tree, dict) else None


def _leaves(tree: t.Any, path: Path) -> list[Path]:
    """The ends of a fieldsV1 tree, each as the names on the way."""
    if not isinstance(tree, dict) or not tree or len(path) > 40:
        return [path]
    return [leaf for name, inner in tree.items() for leaf in _leaves(inner, path + (name,))]


def tree_of(paths: t.Iterable[Path]) -> dict[str, t.Any]:
    """Paths as a tree of their names."""
    tree: dict[str, t.Any] = {}
    for path in paths:
        node = tree
        for name in path:
            node = node.setdefault(name, {})
    return tree


def _without_empty_maps(leaves: list[Path]) -> list[Path]:
    """A server reads a map with nothing in it as all that is in it, and would put back what was taken out."""
    inside = {leaf[:length] for leaf in leaves if leaf[-1] != "." for length in range(1, len(leaf))}
    return [leaf for leaf in leaves if leaf[-1] != "." or leaf[:-1] in inside]


def _within(leaf: Path, kept: t.Collection[Path]) -> bool:
    return any(leaf[: len(path)] == tuple("f:" + name for name in path) for path in kept)


def _covered(leaf: Path, mine: t.AbstractSet[Path]) -> bool:
    """True when we own what is at the path, as one value, or the entry of a list that it is in."""
    return any(leaf[:length] in mine for length in range(1, len(leaf) + 1))


def _applied(obj: Object, manager: str) -> set[Path]:
    """What we applied: ends of the tree, and entries of lists as wholes."""
    leaves = [
        leaf
        for entry in record_of(obj)
        if _owned(entry, manager)
        for part, inner in entry["fieldsV1"].items()
        for leaf in _leaves(inner, (part,))
    ]
    items = {leaf[: index + 1] for leaf in leaves for index, name in enumerate(leaf) if name[:2] in ("k:", "v:")}
    return {leaf for leaf in leaves if leaf[-1] != "."} | items


def _our_metadata(obj: Object, manager: str) -> set[Path]:
    parts = [entry["fieldsV1"].get("f:metadata") for entry in record_of(obj) if _owned(entry, manager)]
    leaves = [leaf for part in parts if part for leaf in _leaves(part, ("f:metadata",))]
    return {leaf for leaf in leaves if len(leaf) > 2 and leaf[1] in ("f:labels", "f:annotations") and leaf[-1] != "."}


def _owned(entry: Object, manager: str) -> bool:
    return entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource")
