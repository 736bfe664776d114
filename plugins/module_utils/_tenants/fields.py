# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading API objects that may be incomplete, and comparing what they say (5.3, 8.3); what applying a manifest to one gives, and what of it the manifest
does not say (4, 8.6)."""

from __future__ import annotations

import ipaddress
import typing as t

from .._values.addresses import Address, parse_address, readable_address

Object = t.Mapping[str, t.Any]


def get(obj: t.Any, *path: str) -> t.Any:
    """The value at a path; None where anything on the way is missing or of another type."""
    for name in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(name)
    return obj


def text(obj: t.Any, *path: str) -> str:
    """The text at a path, "" for anything else."""
    value = get(obj, *path)
    return value if isinstance(value, str) else ""


def items(obj: t.Any, *path: str) -> list[t.Any]:
    """The list at a path, [] for anything else."""
    value = get(obj, *path)
    return value if isinstance(value, list) else []


def entries(obj: t.Any, *path: str) -> list[dict[str, t.Any]]:
    """The objects in the list at a path."""
    return [item for item in items(obj, *path) if isinstance(item, dict)]


def uid(obj: Object) -> str:
    return text(obj, "metadata", "uid")


def name(obj: Object) -> str:
    return text(obj, "metadata", "name")


def namespace(obj: Object) -> str:
    return text(obj, "metadata", "namespace")


def labels(obj: Object) -> dict[str, t.Any]:
    return get(obj, "metadata", "labels") or {}


def deleting(obj: Object) -> bool:
    return bool(get(obj, "metadata", "deletionTimestamp"))


def controller(obj: Object) -> dict[str, t.Any] | None:
    """The owner reference that controls the object."""
    return next((ref for ref in entries(obj, "metadata", "ownerReferences") if ref.get("controller") is True), None)


def show_address(address: Address) -> str:
    """An address as the API servers write it: IPv4 inside IPv6 keeps its dotted form, on every Python."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return f"::ffff:{address.ipv4_mapped}"
    return str(address)


def address_or_none(value: t.Any) -> str | None:
    """The canonical text of an address; None when it is missing, null, empty or no address."""
    found = readable_address(value)
    return None if found is None else show_address(found)


def family_of(value: t.Any) -> str:
    """``IPv4`` or ``IPv6``. Raises ValueRefused."""
    return f"IPv{parse_address(value).version}"


def addresses(obj: t.Any, *path: str) -> list[str]:
    """The canonical addresses in the ``ip`` fields of a list of entries, those without address left out."""
    found = (address_or_none(entry.get("ip")) for entry in entries(obj, *path))
    return [address for address in found if address is not None]


def canonical_prefix(value: t.Any) -> t.Any:
    """A prefix with its address in canonical form; host bits stay as they are written."""
    if isinstance(value, str) and value.count("/") == 1:
        address, length = value.split("/")
        shown = address_or_none(address)
        if shown is not None:
            return f"{shown}/{length}"
    return value


def plain(value: t.Any, key: str = "") -> t.Any:
    """A value for comparing: nothing empty, addresses in canonical form."""
    if isinstance(value, dict):
        inner = {name: plain(item, name) for name, item in value.items()}
        return {
            name: item for name, item in inner.items() if item is not None and item != "" and item != {} and item != []
        }
    if isinstance(value, (list, tuple)):
        return [plain(item, key) for item in value]
    if key in ("ip", "ips", "virtualIP", "value") and isinstance(value, str):
        return address_or_none(value) or value
    if key in ("prefix", "prefixes") and isinstance(value, str):
        return canonical_prefix(value)
    return value


def same(first: t.Any, second: t.Any, key: str = "") -> bool:
    """Equal after leaving out what is empty."""
    one, other = plain(first, key), plain(second, key)
    return _empty(one) and _empty(other) or one == other


def _empty(value: t.Any) -> bool:
    return value is None or value == "" or value == {} or value == []


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


def list_key(path: tuple[str, ...], *lists: t.Any) -> str | None:
    """The key field of the list at a path; None when it is one value (as the plain addresses in spec.ips are)."""
    key = _KEYED.get(path[-2:]) if len(path) == 2 else None
    if key is None:
        return None
    return key if all(isinstance(item, dict) and item.get(key) for part in lists for item in part or ()) else None


def merged(current: t.Any, desired: t.Any, path: tuple[str, ...] = ()) -> t.Any:
    """What an object is after the manifest was applied. Entries keep the place that the manifest gives them."""
    if isinstance(desired, dict) and isinstance(current, dict) and not (path and path[-1] in ATOMIC):
        result = dict(current)
        for name, value in desired.items():
            result[name] = merged(current.get(name), value, path + (name,))
        return result
    if isinstance(desired, list) and isinstance(current, list):
        key = list_key(path, desired, current)
        if key is not None:
            known = {item[key]: item for item in current}
            rows = [merged(known.get(item[key]), item, path + ("-",)) for item in desired]
            names = {item[key] for item in desired}
            return rows + [item for item in current if item[key] not in names]
    return desired


def pruned(current: t.Any, applied: t.Any, desired: t.Any, path: tuple[str, ...] = ()) -> t.Any:
    """The current object without what the last manifest had and this one has no more."""
    if isinstance(applied, dict) and isinstance(current, dict) and not (path and path[-1] in ATOMIC):
        result = dict(current)
        for name, value in applied.items():
            if name not in result or name in ("apiVersion", "kind"):
                continue
            if not isinstance(desired, dict) or name not in desired:
                rest = pruned(result[name], value, {}, path + (name,)) if isinstance(value, dict) else None
                if rest:
                    result[name] = rest
                else:
                    del result[name]
            else:
                result[name] = pruned(result[name], value, desired[name], path + (name,))
        return result
    if isinstance(applied, list) and isinstance(current, list) and isinstance(desired, (list, dict)):
        key = list_key(path, applied, current)
        if key is not None:
            names = {item[key] for item in desired} if isinstance(desired, list) else set()
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


def replacing(current: t.Any, desired: t.Any) -> t.Any:
    """The merge patch that makes the one of the other, so that what only the first has is gone."""
    if not isinstance(desired, dict) or not isinstance(current, dict):
        return desired
    return dict(dict.fromkeys(current), **{key: replacing(current.get(key), value) for key, value in desired.items()})


def covered(desired: t.Any, current: t.Any, path: tuple[str, ...] = ()) -> bool:
    """Whether an object has everything that a manifest has."""
    if isinstance(desired, dict) and not (path and path[-1] in ATOMIC):
        inner = current if isinstance(current, dict) else {}
        return all(covered(value, inner.get(name), path + (name,)) for name, value in desired.items())
    if isinstance(desired, list):
        key = list_key(path, desired, current if isinstance(current, list) else [])
        if key is not None:
            known = {item[key]: item for item in current or ()}
            return all(item[key] in known and covered(item, known[item[key]], path + ("-",)) for item in desired)
    return same(desired, current, path[-1] if path else "")


def spelled(desired: t.Any, current: t.Any, key: str = "") -> t.Any:
    """A manifest in the spelling of an object with the same contents, so that sending it changes nothing."""
    if isinstance(desired, dict) and isinstance(current, dict):
        return {name: spelled(value, current.get(name), name) for name, value in desired.items()}
    if isinstance(desired, list) and isinstance(current, list) and len(desired) == len(current):
        return [spelled(one, other, key) for one, other in zip(desired, current)]
    return current if isinstance(desired, str) and isinstance(current, str) and same(desired, current, key) else desired


#: Lists of which every field of every entry is owned; in the others the network side fills fields in.
_WHOLE = ("peerings",)


def leftovers(manifest: Object, current: Object, owned: t.Sequence[tuple[str, ...]]) -> dict[str, t.Any]:
    """The patch that takes away, from the owned fields, what the manifest does not have."""
    patch: dict[str, t.Any] = {}
    for path in owned:
        desired, found = get(manifest, *path), get(current, *path)
        if found is None or same(found, None):
            continue
        if desired is None:
            _set(patch, path, None)
        elif isinstance(desired, list) and isinstance(found, list):
            key = list_key(path, desired, found)
            names = {item[key] for item in desired} if key else set()
            kept = [item for item in found if item[key] in names] if key else desired
            if path[-1] in _WHOLE and not same(found, desired):
                _set(patch, path, desired)
            elif len(kept) != len(found):
                _set(patch, path, kept)
    stale = _second_controllers(manifest, current)
    if stale:
        kept = [ref for ref in items(current, "metadata", "ownerReferences") if ref not in stale]
        _set(patch, ("metadata", "ownerReferences"), kept)
    return patch


def _second_controllers(manifest: Object, current: Object) -> list[t.Any]:
    owned = {ref.get("uid") for ref in entries(manifest, "metadata", "ownerReferences")}
    if not owned:
        return []
    return [
        ref
        for ref in entries(current, "metadata", "ownerReferences")
        if ref.get("controller") is True and ref.get("uid") not in owned
    ]


def _set(patch: dict[str, t.Any], path: tuple[str, ...], value: t.Any) -> None:
    for name in path[:-1]:
        patch = patch.setdefault(name, {})
    patch[path[-1]] = value
