# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Server-side apply on plain data: keyed lists are merged, everything else in a list is one value (4, 8.6)."""

from __future__ import annotations

import typing as t

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
