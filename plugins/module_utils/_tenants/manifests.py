# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests and objects: what applying one to the other gives, and what of an object a manifest does not say (4, 8.6)."""

from __future__ import annotations

import typing as t

from .fields import Object, entries, get, items, same

#: Lists that the server treats as maps, by the name of the field and its parent, and their key.
_KEYED = {
    ("spec", "ips"): "name",
    ("spec", "publicIPs"): "name",
    ("spec", "peerings"): "name",
    ("spec", "incomingPeerings"): "name",
    ("status", "peerings"): "name",
    ("metadata", "ownerReferences"): "uid",
}
#: Maps that are one value.
ATOMIC = frozenset(("selector", "labelSelector", "networkRef", "natGatewayRef", "claimRef", "targetRef", "nodeRef"))


def list_key(path: t.Tuple[str, ...], *lists: t.Any) -> t.Optional[str]:
    """The key field of the list at a path; None when it is one value (as the plain addresses in spec.ips are)."""
    key = _KEYED.get(path[-2:]) if len(path) == 2 else None
    if key is None:
        return None
    return key if all(isinstance(item, dict) and item.get(key) for part in lists for item in part or ()) else None


def merged(current: t.Any, wanted: t.Any, path: t.Tuple[str, ...] = ()) -> t.Any:
    """What an object is after the manifest was applied. Entries keep the place that the manifest gives them."""
    if isinstance(wanted, dict) and isinstance(current, dict) and not (path and path[-1] in ATOMIC):
        result = dict(current)
        for name, value in wanted.items():
            result[name] = merged(current.get(name), value, path + (name,))
        return result
    if isinstance(wanted, list) and isinstance(current, list):
        key = list_key(path, wanted, current)
        if key is not None:
            known = {item[key]: item for item in current}
            rows = [merged(known.get(item[key]), item, path + ("-",)) for item in wanted]
            names = {item[key] for item in wanted}
            return rows + [item for item in current if item[key] not in names]
    return wanted


def pruned(current: t.Any, applied: t.Any, wanted: t.Any, path: t.Tuple[str, ...] = ()) -> t.Any:
    """The current object without what the last manifest had and this one has no more."""
    if isinstance(applied, dict) and isinstance(current, dict) and not (path and path[-1] in ATOMIC):
        result = dict(current)
        for name, value in applied.items():
            if name not in result or name in ("apiVersion", "kind"):
                continue
            if not isinstance(wanted, dict) or name not in wanted:
                rest = pruned(result[name], value, {}, path + (name,)) if isinstance(value, dict) else None
                if rest:
                    result[name] = rest
                else:
                    del result[name]
            else:
                result[name] = pruned(result[name], value, wanted[name], path + (name,))
        return result
    if isinstance(applied, list) and isinstance(current, list) and isinstance(wanted, (list, dict)):
        key = list_key(path, applied, current)
        if key is not None:
            names = {item[key] for item in wanted} if isinstance(wanted, list) else set()
            gone = {item[key] for item in applied} - names
            return [item for item in current if item[key] not in gone]
    return current


def without_nulls(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def merge_patched(target: t.Any, patch: t.Any) -> t.Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patched(merged.get(key), value)
    return merged


def covered(wanted: t.Any, current: t.Any, path: t.Tuple[str, ...] = ()) -> bool:
    """Whether an object says everything that a manifest says."""
    if isinstance(wanted, dict) and not (path and path[-1] in ATOMIC):
        inner = current if isinstance(current, dict) else {}
        return all(covered(value, inner.get(name), path + (name,)) for name, value in wanted.items())
    if isinstance(wanted, list):
        key = list_key(path, wanted, current if isinstance(current, list) else [])
        if key is not None:
            known = {item[key]: item for item in current or ()}
            return all(item[key] in known and covered(item, known[item[key]], path + ("-",)) for item in wanted)
    return same(wanted, current, path[-1] if path else "")


def spelled(wanted: t.Any, current: t.Any, key: str = "") -> t.Any:
    """A manifest in the spelling of an object that says the same, so that sending it changes nothing."""
    if isinstance(wanted, dict) and isinstance(current, dict):
        return {name: spelled(value, current.get(name), name) for name, value in wanted.items()}
    if isinstance(wanted, list) and isinstance(current, list) and len(wanted) == len(current):
        return [spelled(one, other, key) for one, other in zip(wanted, current)]
    return current if isinstance(wanted, str) and isinstance(current, str) and same(wanted, current, key) else wanted


#: Lists of which every field of every entry is ours; in the others the network side fills fields in.
_WHOLE = ("peerings",)


def leftovers(manifest: Object, current: Object, owned: t.Sequence[t.Tuple[str, ...]]) -> t.Dict[str, t.Any]:
    """The patch that takes away, from the fields that are ours, what the manifest does not say."""
    patch: t.Dict[str, t.Any] = {}
    for path in owned:
        wanted, found = get(manifest, *path), get(current, *path)
        if found is None or same(found, None):
            continue
        if wanted is None:
            _set(patch, path, None)
        elif isinstance(wanted, list) and isinstance(found, list):
            key = list_key(path, wanted, found)
            names = {item[key] for item in wanted} if key else set()
            kept = [item for item in found if item[key] in names] if key else wanted
            if path[-1] in _WHOLE and not same(found, wanted):
                _set(patch, path, wanted)
            elif len(kept) != len(found):
                _set(patch, path, kept)
    stale = _second_controllers(manifest, current)
    if stale:
        kept = [ref for ref in items(current, "metadata", "ownerReferences") if ref not in stale]
        _set(patch, ("metadata", "ownerReferences"), kept)
    return patch


def _second_controllers(manifest: Object, current: Object) -> t.List[t.Any]:
    ours = {ref.get("uid") for ref in entries(manifest, "metadata", "ownerReferences")}
    if not ours:
        return []
    return [ref for ref in entries(current, "metadata", "ownerReferences") if ref.get("controller") is True and ref.get("uid") not in ours]


def _set(patch: t.Dict[str, t.Any], path: t.Tuple[str, ...], value: t.Any) -> None:
    for name in path[:-1]:
        patch = patch.setdefault(name, {})
    patch[path[-1]] = value
