# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What binds a twin to its source object: its name, three labels, and a finalizer on the source (7)."""

from __future__ import annotations

import typing as t

from .fields import Object, items, labels, name, namespace, uid
from .profile import ONMETAL, Profile

#: Label values are at most so long; a longer name is refused, never cut.
LONGEST_LABEL = 63

_PARTS = ("name", "namespace", "uid")


def twin_name(source: Object) -> str:
    """A twin is named by the uid of its source object, so making it twice makes it once."""
    return uid(source)


def link_labels(kind: str, source: Object, profile: Profile = ONMETAL) -> t.Dict[str, str]:
    """The three labels on everything that belongs to a source object of a kind."""
    values = (name(source), namespace(source), uid(source))
    return {profile.link(kind, part): value for part, value in zip(_PARTS, values)}


class Link(t.NamedTuple):
    """Whom the labels of an object name. ``uid`` is empty where its label is missing."""

    namespace: str
    name: str
    uid: str


def linked(kind: str, obj: Object, profile: Profile = ONMETAL) -> t.Optional[Link]:
    """The source object that the labels name; None unless both name and namespace are there."""
    found = labels(obj)
    values = [found.get(profile.link(kind, part)) for part in _PARTS]
    if values[0] is None or values[1] is None:
        return None
    return Link(str(values[1]), str(values[0]), "" if values[2] is None else str(values[2]))


def claimer(kind: str, obj: Object, profile: Profile = ONMETAL) -> t.Optional[str]:
    """The uid that holds an object; None when any of the three labels is missing, so that it is free."""
    found = labels(obj)
    if all(found.get(profile.link(kind, part)) is not None for part in _PARTS):
        return str(found[profile.link(kind, "uid")])
    return None


def unlink_patch(kind: str, profile: Profile = ONMETAL) -> t.Dict[str, None]:
    """A merge patch of labels that takes the three away."""
    return {profile.link(kind, part): None for part in _PARTS}


def has_finalizer(kind: str, source: Object, profile: Profile = ONMETAL) -> bool:
    """Whether our finalizer is on a source object."""
    return profile.finalizer(kind) in items(source, "metadata", "finalizers")


def with_finalizer(kind: str, source: Object, profile: Profile = ONMETAL) -> t.Dict[str, t.Any]:
    """The patch that appends our finalizer."""
    return {"metadata": {"finalizers": items(source, "metadata", "finalizers") + [profile.finalizer(kind)]}}


def without_finalizer(kind: str, source: Object, profile: Profile = ONMETAL) -> t.Dict[str, t.Any]:
    """The patch that takes our finalizer away and keeps the others."""
    ours = profile.finalizer(kind)
    return {"metadata": {"finalizers": [item for item in items(source, "metadata", "finalizers") if item != ours]}}


def controller_reference(owner: Object, profile: Profile = ONMETAL) -> t.Dict[str, t.Any]:
    """The owner reference to a twin."""
    return {
        "apiVersion": profile.apinet,
        "kind": str(owner.get("kind", "")),
        "name": name(owner),
        "uid": uid(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }
