# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How lists of API objects compare: map-lists by their keys, sets as sets, all others in order (decision 72).

A server keeps a map-list in the order in which its entries came, and merges what several owners wrote. The record of fields
(``managedFields``) shows which lists are keyed, but not of status that was patched, nor where the record was emptied. So what the
schemas say of the lists that we write is declared here, by kind.
"""

from __future__ import annotations

import typing as t

Path = tuple[str, ...]
#: The keys of a map-list; an empty tuple is a set. What is not listed is atomic: its order means something.
Keys = tuple[str, ...]

SET: Keys = ()
_CONDITIONS: dict[Path, Keys] = {("status", "conditions"): ("type",)}
#: Of every object.
_METADATA: dict[Path, Keys] = {("metadata", "ownerReferences"): ("uid",), ("metadata", "finalizers"): SET}
_LISTS: dict[str, dict[Path, Keys]] = {
    "Service": {("spec", "ports"): ("port", "protocol"), **_CONDITIONS},
    "EndpointSlice": {("endpoints", "*", "addresses"): SET},
    "Node": {("status", "addresses"): ("type", "address"), ("spec", "podCIDRs"): SET, **_CONDITIONS},
    "ServiceAccount": {("secrets",): ("name",), ("imagePullSecrets",): ("name",)},
    "ServiceExport": _CONDITIONS,
    "ServiceImport": {("status", "clusters"): ("cluster",), **_CONDITIONS},
}


def keys_of(kind: str, path: Path) -> Keys | None:
    """The keys of the list at a path of an object of this kind, SET for a set, None for a list in which the order counts."""
    own = _LISTS.get(kind, {})
    return own[path] if path in own else _METADATA.get(path)


def same_list(kind: str, path: Path, one: t.Any, other: t.Any) -> bool:
    """Whether two whole lists, of scalars and flat mappings, say the same. None counts as empty."""
    left, right = list(one or ()), list(other or ())
    if keys_of(kind, path) is None:
        return left == right
    return len(left) == len(right) and all(left.count(item) == right.count(item) for item in left)
