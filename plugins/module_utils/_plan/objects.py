# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""API objects as data: who owns which field, and whether an object already is as in a manifest.

Ownership is read from ``metadata.managedFields`` (decision 32), so that no object needs marks that upstream programs
do not write. The same field trees show which lists the server treats as maps, so no table of merge keys is needed.
"""

from __future__ import annotations

import fractions
import json
import re
import typing as t

from .list_kinds import keys_of

#: Prefix of our field manager's name; the fabric follows.
MANAGER_PREFIX = "multicluster.network/"
#: An object without any content, such as a bare ServiceAccount, is owned by this label (and only if we own the label).
MANAGED_BY, MANAGED_BY_US = "app.kubernetes.io/managed-by", "multicluster.network"

Tree = dict[str, t.Any]

_QUANTITY = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(m|k|[KMGTPE]i?|u|n|[eE][+-]?[0-9]{1,2})?\Z")
_SUFFIXES = {"n": "1e-9", "u": "1e-6", "m": "1e-3", "": "1", "k": "1e3", "M": "1e6", "G": "1e9", "T": "1e12"}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_QUANTITY_PARENTS = frozenset(("limits", "requests", "hard", "capacity", "allocatable", "default", "defaultRequest"))
_QUANTITY_FIELDS = frozenset(("sizeLimit", "storage", "averageValue", "divisor"))
#: Maps that the server does not store when they are empty.
_PLAIN_MAPS = frozenset(("annotations", "labels", "nodeSelector", "matchLabels", "data", "binaryData", "stringData"))
#: Maps with values of text, whatever YAML made of them.
_TEXT_MAPS = frozenset(("annotations", "labels", "nodeSelector", "matchLabels", "data", "stringData"))


def field_manager(fabric: str) -> str:
    """Our field manager for one fabric. Raises ValueError for a name that the API server would refuse."""
    name = MANAGER_PREFIX + fabric
    if not fabric or len(name) > 128 or not name.isprintable() or not name.isascii():
        raise ValueError(f"a fabric's name is 1 to {128 - len(MANAGER_PREFIX)} printable characters")
    return name


# -- managedFields -----------------------------------------------------------------------------------------------


def record_of(obj: t.Mapping[str, t.Any]) -> t.Iterator[t.Mapping[str, t.Any]]:
    """The entries of ``metadata.managedFields`` that can be read."""
    entries = obj.get("metadata", {}).get("managedFields")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("fieldsV1"), dict):
            yield entry


def inside(tree: t.Any, *names: str) -> Tree:
    """The part of a fieldsV1 tree below these names; {} where there is none, or no tree: others may have sent anything."""
    for name in names:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree if isinstance(tree, dict) else {}


def labels_of(obj: t.Mapping[str, t.Any] | None) -> dict[str, str]:
    """The labels of an object that anybody may have written: those with a value of text."""
    try:
        labels = obj["metadata"]["labels"]  # type: ignore[index]
    except (KeyError, TypeError):
        return {}
    return text_values(labels)


def text_values(given: t.Any) -> dict[str, str]:
    """What of a mapping is text."""
    if not isinstance(given, dict):
        return {}
    for value in given.values():
        if not isinstance(value, str):
            return {key: value for key, value in given.items() if isinstance(value, str)}
    return given


def owned_tree(obj: t.Mapping[str, t.Any], manager: str, operation: str | None = None) -> Tree:
    """The fields that the manager owns, as one fieldsV1 tree; {} when it owns none. Status writes do not count."""
    trees = [
        entry["fieldsV1"]
        for entry in record_of(obj)
        if entry.get("manager") == manager
        and operation in (None, entry.get("operation"))
        and entry.get("subresource") in (None, "")
    ]
    return merge_trees(trees)


def whole_tree(obj: t.Mapping[str, t.Any]) -> Tree:
    """The fields that anybody owns: the server's own knowledge of which lists are keyed."""
    return merge_trees([entry["fieldsV1"] for entry in record_of(obj)])


def owners(obj: t.Mapping[str, t.Any], *path: str, leaf: bool = False) -> list[str]:
    """Managers that own the field at the path (plain names, such as metadata, annotations, KEY), sorted.

    With ``leaf`` only those that own it as one value, not those that own something inside it.
    """
    found = set()
    for entry in record_of(obj):
        tree: t.Any = entry["fieldsV1"]
        for name in path:
            tree = tree.get("f:" + name) if isinstance(tree, dict) else None
        if tree is not None and not (leaf and tree):
            found.add(str(entry.get("manager")))
    return sorted(found)


def merge_trees(trees: t.Sequence[t.Any], depth: int = 40) -> Tree:
    """The union of fieldsV1 trees; below ``depth`` the first one counts, and what is no tree counts as an empty one."""
    kept: list[Tree] = [tree for tree in trees if isinstance(tree, dict)]
    if len(kept) == 1 or (depth == 0 and kept):
        return kept[0]
    merged: Tree = {}
    for name in {name for tree in kept for name in tree}:
        merged[name] = merge_trees([tree[name] for tree in kept if name in tree], depth - 1)
    return merged


def is_owned(obj: t.Mapping[str, t.Any], manager: str) -> bool:
    """True when the object, and not just an annotation on it, is owned.

    That is: our manager *applied* (operation Apply) something outside metadata; or it applied the managed-by label with
    our name, the way to own objects that have no content. Annotations that we patch onto a Node (operation Update), or
    labels applied onto somebody's Namespace, do not make these owned, so no purge can ever take them.
    """
    mine = False
    for entry in record_of(obj):
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            mine = True
            for name in entry["fieldsV1"]:
                if name != "f:metadata" and name.startswith("f:"):
                    return True
    if not mine:
        return False
    applied = inside(owned_tree(obj, manager, "Apply"), "f:metadata", "f:labels")
    return "f:" + MANAGED_BY in applied and labels_of(obj).get(MANAGED_BY) == MANAGED_BY_US


def ownable(manifest: t.Mapping[str, t.Any]) -> bool:
    """False for a manifest which, once applied, is_owned could not recognise."""
    if any(
        name not in ("apiVersion", "kind", "metadata", "status") and value not in (None, {}, [])
        for name, value in manifest.items()
    ):
        return True
    return (manifest.get("metadata", {}).get("labels") or {}).get(MANAGED_BY) == MANAGED_BY_US


# -- manifests ---------------------------------------------------------------------------------------------------


def normalise(value: t.Any, name: str = "", inside: str = "") -> t.Any:
    """A manifest as it is sent: no nulls, no server fields, text where the API wants text."""
    if isinstance(value, dict):
        skipped = ("status",) if not name and "kind" in value else ()
        return {
            str(key): normalise(item, str(key), name)
            for key, item in value.items()
            if item is not None and key not in skipped and not (name == "metadata" and key in _SERVER_METADATA)
        }
    if isinstance(value, (list, tuple)):
        return [normalise(item, "-", name) for item in value]
    if inside in _TEXT_MAPS and not isinstance(value, str):
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float)):
            return str(value)
    return value


_SERVER_METADATA = frozenset(
    (
        "managedFields",
        "resourceVersion",
        "uid",
        "generation",
        "creationTimestamp",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    )
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def stripped(obj: t.Mapping[str, t.Any], owned: bool = False) -> dict[str, t.Any]:
    """An object without what the server fills in: for diffs, and for comparing before with after.

    owned: a manifest of our own making; its parts are shared instead of copied as deep as is safe.
    """
    metadata = obj.get("metadata", {})
    shown = {key: value for key, value in obj.items() if key not in ("status", "metadata")}
    shown["metadata"] = {key: value for key, value in metadata.items() if key not in _SERVER_METADATA}
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        shown["metadata"]["annotations"] = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
        if not shown["metadata"]["annotations"]:
            del shown["metadata"]["annotations"]
    return shown if owned else {key: _bounded(value, 32) for key, value in shown.items()}


def redacted(obj: t.Mapping[str, t.Any], fingerprint: t.Callable[[str], str], owned: bool = False) -> dict[str, t.Any]:
    """stripped(), and a Secret's values as fingerprints (T19)."""
    shown = stripped(obj, owned)
    if obj.get("kind") == "Secret":
        for part in ("data", "stringData"):
            if isinstance(shown.get(part), dict):
                shown[part] = {key: fingerprint(str(value)) for key, value in shown[part].items()}
    return shown


def _bounded(value: t.Any, depth: int) -> t.Any:
    if depth == 0:
        return "..."
    if isinstance(value, dict):
        return {key: _bounded(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_bounded(item, depth - 1) for item in value]
    return value


# -- comparing ---------------------------------------------------------------------------------------------------


def differences(
    desired: t.Any, actual: t.Any, tree: t.Any = None, path: tuple[str, ...] = (), kind: str = ""
) -> list[tuple[str, ...]]:
    """Paths at which ``actual`` is not as in ``desired``; fields that desired leaves out never count.

    ``tree`` is whole_tree(actual object): where it has keyed entries for a list, elements are matched by these keys and
    others may be present; where it has value entries, the list is a set. Where it has neither, the declared kinds of lists
    count (decision 72); every other list is compared in order.
    """
    if not path and isinstance(desired, dict):
        kind = str(desired.get("kind") or kind)
    if isinstance(desired, dict):
        if not isinstance(actual, dict):
            if actual is None and not desired and path and path[-1] in _PLAIN_MAPS:
                return []
            return [path]
        found: list[tuple[str, ...]] = []
        for key, value in desired.items():
            if path == () and key in ("apiVersion", "kind"):
                continue  # the list was asked for them, and list items do not repeat them
            inner = tree.get("f:" + key) if isinstance(tree, dict) else None
            found += differences(value, actual.get(key), inner, path + (key,), kind)
        return found
    if isinstance(desired, list):
        if not desired and actual is None:
            return []
        if not isinstance(actual, list):
            return [path]
        return _list_differences(desired, actual, tree if isinstance(tree, dict) else {}, path, kind)
    return [] if same_scalar(desired, actual, path) else [path]


def _list_differences(
    desired: list[t.Any], actual: list[t.Any], tree: Tree, path: tuple[str, ...], kind: str
) -> list[tuple[str, ...]]:
    keyed = [name for name in tree if name.startswith("k:")]
    declared = keys_of(kind, path) if not keyed else None
    if keyed or declared:
        keys, trees = _merge_keys(keyed) if keyed else (list(declared or ()), {})
        for item in desired:
            if not isinstance(item, dict):
                return [path]
            match = [
                (one, trees.get(tuple(_text(one.get(key)) for key in keys)))
                for one in actual
                if isinstance(one, dict)
                and all(key not in item or same_scalar(item[key], one.get(key), path) for key in keys)
            ]
            if not match or differences(item, match[0][0], tree.get(match[0][1] or ""), path + ("*",), kind):
                return [path]
        return []
    if declared is not None or any(name.startswith("v:") for name in tree):
        return [] if all(any(same_scalar(item, one, path) for one in actual) for item in desired) else [path]
    if len(desired) != len(actual):
        return [path]
    return [path] if any(differences(w, a, None, path + ("*",), kind) for w, a in zip(desired, actual)) else []


def _merge_keys(names: t.Sequence[str]) -> tuple[list[str], dict[tuple[str, ...], str]]:
    """``k:{...}`` names -> the key fields, and key values -> name."""
    keys: list[str] = []
    trees: dict[tuple[str, ...], str] = {}
    for name in names:
        try:
            values = json.loads(name[2:])
        except ValueError:
            continue
        if isinstance(values, dict):
            keys = keys or sorted(values)
            trees[tuple(_text(values.get(key)) for key in keys)] = name
    return keys, trees


def _text(value: t.Any) -> str:
    return json.dumps(value, sort_keys=True)


def same_scalar(desired: t.Any, actual: t.Any, path: tuple[str, ...] = ()) -> bool:
    """Equal as the API sees it: 80 and "80", and quantities by amount where the field is one."""
    if desired == actual and isinstance(desired, bool) == isinstance(actual, bool):
        return True
    if isinstance(desired, (bool, dict, list)) or isinstance(actual, (bool, dict, list)) or None in (desired, actual):
        return False
    if str(desired) == str(actual):
        return True
    if path and (path[-1] in _QUANTITY_FIELDS or (len(path) > 1 and path[-2] in _QUANTITY_PARENTS)):
        left, right = quantity(desired), quantity(actual)
        return left is not None and left == right
    return False


def quantity(value: t.Any) -> fractions.Fraction | None:
    """A Kubernetes quantity as an exact number, None for anything else."""
    match = _QUANTITY.match(str(value)) if len(str(value)) < 64 else None
    if not match:
        return None
    number, suffix = fractions.Fraction(match.group(1)), match.group(2) or ""
    if suffix in _BINARY:
        return number * (1 << _BINARY[suffix])
    if suffix in _SUFFIXES:
        return number * fractions.Fraction(_SUFFIXES[suffix])
    if suffix in ("P", "E"):
        return number * 10 ** (15 if suffix == "P" else 18)
    return number * fractions.Fraction("1" + suffix)


def stale_fields(tree: t.Any, desired: t.Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Paths that we applied once (``tree``: owned_tree(obj, manager, "Apply")) and that the manifest has no more.

    Applying without them removes them, which comparing by the manifest's own fields alone would never notice.
    """
    found: list[tuple[str, ...]] = []
    for name, inner in tree.items() if isinstance(tree, dict) else ():
        if name.startswith("f:"):
            key = name[2:]
            if path == ("metadata",) and key in ("name", "namespace"):
                continue
            if not isinstance(desired, dict) or key not in desired:
                found.append(path + (key,))
            elif inner:
                found += stale_fields(inner, desired[key], path + (key,))
        elif name.startswith("k:") and isinstance(desired, list):
            keys, dummy = _merge_keys([name])
            values = json.loads(name[2:]) if keys else {}
            match = [
                item
                for item in desired
                if isinstance(item, dict)
                and all(key not in item or same_scalar(item[key], values[key]) for key in keys)
            ]
            if not match:
                found.append(path + (name[2:],))
        elif name.startswith("v:") and isinstance(desired, list) and name[2:] not in [_text(item) for item in desired]:
            found.append(path + (name[2:],))
    return found


def other_owners(obj: t.Mapping[str, t.Any], manager: str, paths: t.Iterable[tuple[str, ...]]) -> list[tuple[str, str]]:
    """(path, manager) of fields to be changed that others own and we do not: server-side apply would conflict there.

    What happens inside keyed lists is left to the server.
    """
    found = []
    for path in paths:
        names = owners(obj, *path, leaf=True)
        if names and manager not in names:
            found.append((".".join(path), names[0]))
    return found
