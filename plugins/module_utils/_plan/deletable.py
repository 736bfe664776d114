# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which objects may be deleted: the one rule of every prune and teardown. Pure.

A field manager's name and labels are text that whoever may patch an object can write, and with them our rights could be made to delete what the
writer may not. Nobody can change an object's name. So an object goes when our field manager is on record for it, and

* its name is one that only we derive (``named``), or
* nobody else is on record for its content, as after our own creation of it or its adoption.

The second is for objects that have no such name: the record itself can be rewritten by whoever may patch an object. Of kinds of which we derive
every name (``derived``), the name has to be so.

With adoption the name alone has to be so: what the upstream program made carries the same name, and another manager.
"""

from __future__ import annotations

import typing as t

from .objects import record_of

Object = t.Mapping[str, t.Any]

#: Under this name Kubernetes' own controllers write.
CONTROLLERS = "kube-controller-manager"
#: What the cluster's own controllers put into objects that somebody else made: (kind, field) -> what who makes the object is on record for.
_ADDED = {
    ("ServiceAccount", "f:secrets"): "f:automountServiceAccountToken",
    ("ServiceAccount", "f:imagePullSecrets"): "f:automountServiceAccountToken",
    ("Secret", "f:data"): "f:type",
}


def makers(obj: Object, manager: str, kind: str = "") -> list[str]:
    """Managers other than the given one on record for the content of an object: anything outside of metadata and status, sorted.

    What controllers of the cluster add to what others made does not count (``kind``: of an object out of a list, which does not say it).
    """
    kind = str(obj.get("kind") or kind)
    found = set()
    for entry in record_of(obj):
        if entry.get("manager") == manager or entry.get("subresource"):
            continue
        tree = entry["fieldsV1"]
        content = {
            name
            for name in tree
            if name.startswith("f:") and name not in ("f:metadata", "f:status", "f:apiVersion", "f:kind")
        }
        if entry.get("manager") == CONTROLLERS:
            content = {name for name in content if (kind, name) not in _ADDED or _ADDED[kind, name] in content}
        if content:
            found.add(str(entry.get("manager")))
    return sorted(found)


def may_delete(
    obj: Object,
    manager: str,
    mine: bool,
    named: bool = False,
    adopt: bool = False,
    kind: str = "",
    derived: bool = False,
) -> bool:
    """Whether our rights may delete an object.

    mine: our field manager is on record for it. named: its name is one that only we, or the upstream program, derive. adopt: the
    upstream program's objects may be taken over. derived: nothing of this kind is made under another name.
    """
    if named or derived:
        return named and (mine or adopt)
    return mine and not makers(obj, manager, kind)


def why_it_stays(obj: Object, manager: str, kind: str = "") -> str:
    """The message of a refusal ``not_ours`` for what may not be deleted."""
    others = makers(obj, manager, kind)
    if others:
        return f"carries our field manager, and {', '.join(others)} wrote into it too; it is not deleted: what we did not make alone stays"
    return "carries our labels, and neither its name nor its field managers show that this fabric owns it; it is not deleted"
