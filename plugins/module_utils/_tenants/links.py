# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What binds a twin to its source object: its name, three labels and a finalizer (7), the provider ID that names it (6), its owner, and how its
state shows (16)."""

from __future__ import annotations

import re
import typing as t

from .._values.refused import ValueRefused, quoted
from .fields import Object, entries, items, labels, name, namespace, uid
from .options import ONMETAL, PROFILES, Options, Profile

#: Label values are at most so long; a longer name is refused, never cut.
LONGEST_LABEL = 63

_PARTS = ("name", "namespace", "uid")


def twin_name(source: Object) -> str:
    """A twin is named by the uid of its source object, so making it twice makes it once."""
    return uid(source)


def link_labels(kind: str, source: Object, profile: Profile = ONMETAL) -> dict[str, str]:
    """The three labels on everything that belongs to a source object of a kind."""
    values = (name(source), namespace(source), uid(source))
    return {profile.link(kind, part): value for part, value in zip(_PARTS, values)}


class Link(t.NamedTuple):
    """Whom the labels of an object name. ``uid`` is empty where its label is missing."""

    namespace: str
    name: str
    uid: str


def linked(kind: str, obj: Object, profile: Profile = ONMETAL) -> Link | None:
    """The source object that the labels name; None unless both name and namespace are there."""
    found = labels(obj)
    values = [found.get(profile.link(kind, part)) for part in _PARTS]
    if values[0] is None or values[1] is None:
        return None
    return Link(str(values[1]), str(values[0]), "" if values[2] is None else str(values[2]))


def claimer(kind: str, obj: Object, profile: Profile = ONMETAL) -> str | None:
    """The uid that holds an object; None when any of the three labels is missing, so that it is free."""
    found = labels(obj)
    if all(found.get(profile.link(kind, part)) is not None for part in _PARTS):
        return str(found[profile.link(kind, "uid")])
    return None


def unlink_patch(kind: str, profile: Profile = ONMETAL) -> dict[str, None]:
    """A merge patch of labels that takes the three away."""
    return {profile.link(kind, part): None for part in _PARTS}


def has_finalizer(kind: str, source: Object, profile: Profile = ONMETAL) -> bool:
    return profile.finalizer(kind) in items(source, "metadata", "finalizers")


def with_finalizer(kind: str, source: Object, profile: Profile = ONMETAL) -> dict[str, t.Any]:
    return {"metadata": {"finalizers": items(source, "metadata", "finalizers") + [profile.finalizer(kind)]}}


def without_finalizer(kind: str, source: Object, profile: Profile = ONMETAL) -> dict[str, t.Any]:
    """The patch that takes our finalizer away and keeps the others."""
    owned = profile.finalizer(kind)
    return {"metadata": {"finalizers": [item for item in items(source, "metadata", "finalizers") if item != owned]}}


def controller_reference(owner: Object, profile: Profile = ONMETAL) -> dict[str, t.Any]:
    return {
        "apiVersion": profile.apinet,
        "kind": str(owner.get("kind", "")),
        "name": name(owner),
        "uid": uid(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


# -- who may write a twin: the field managers that applied it say so (decisions 1 and 32)

ADOPTABLE, UNOWNED = "adoptable", "not_ours"


def unowned(kind: str, twin: Object, options: Options) -> str:
    """ "" for a twin that may be written, else why not: ADOPTABLE or UNOWNED. ``kind``: of its source object.

    Where no server has noted who wrote what, the labels alone decide, and they were looked at already.
    """
    noted = entries(twin, "metadata", "managedFields")
    if options.adopt or not noted or options.profile.field_manager in appliers(noted):
        return ""
    theirs = PROFILES[options.profile.name].field_manager in appliers(noted)
    return ADOPTABLE if theirs or linked(kind, twin, options.profile) is not None else UNOWNED


def appliers(noted: t.Sequence[t.Mapping[str, t.Any]]) -> set[str]:
    """The field managers that applied an object; who only patched it does not own it."""
    return {
        str(entry.get("manager"))
        for entry in noted
        if entry.get("operation") == "Apply" and not entry.get("subresource")
    }


def message(reason: str, kind: str) -> str:
    """A sentence for the reason."""
    if reason == ADOPTABLE:
        return f"the {kind} of the network side was made by another program; set adopt to take it over"
    return f"there is another program's {kind} under the name of the twin"


# -- how the state of a twin is shown on its source object

PENDING, AVAILABLE, ERROR, READY = "Pending", "Available", "Error", "Ready"

_INTERFACE = {READY: AVAILABLE, ERROR: ERROR, PENDING: PENDING}


def interface_state(twin_state: t.Any) -> str:
    """The state of an interface from the state of its twin: what is unknown or missing is pending."""
    return _INTERFACE.get(twin_state, PENDING) if isinstance(twin_state, str) else PENDING


def network_state(before: t.Any, allocated: bool) -> str:
    """The state of a network: pending until its ID is known, and never downgraded."""
    return AVAILABLE if allocated or before == AVAILABLE else PENDING


# No limit of 63 characters a label: upstream checks the whole name only.
_NODE = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*\Z")


class InterfaceID(t.NamedTuple):
    """Where an interface is realised."""

    namespace: str
    name: str
    node: str
    uid: str


class NetworkID(t.NamedTuple):
    """What a network is on the network side."""

    namespace: str
    name: str
    id: str
    uid: str


def _parts(text: object, profile: Profile) -> list[str]:
    if not isinstance(text, str):
        raise ValueRefused("segment_count", f"{quoted(text)} is not a provider ID")
    rest = text[len(profile.provider_prefix) :] if text.startswith(profile.provider_prefix) else text
    parts = rest.split("/", 4)
    if len(parts) != 4:
        raise ValueRefused("segment_count", f"{quoted(text)} does not have four parts")
    return parts


def parse_interface_id(text: object, profile: Profile = ONMETAL) -> InterfaceID:
    """namespace/name/node/uid with or without the scheme. Only the node's form is checked."""
    found = InterfaceID(*_parts(text, profile))
    if len(found.node) > 253 or not _NODE.match(found.node):
        raise ValueRefused("invalid_node", f"the node in {quoted(text)} is not a DNS subdomain")
    return found


def parse_network_id(text: object, profile: Profile = ONMETAL) -> NetworkID:
    """namespace/name/id/uid with or without the scheme."""
    return NetworkID(*_parts(text, profile))


def format_id(parts: t.Iterable[t.Any], profile: Profile = ONMETAL) -> str:
    """The text of four parts. Never fails and never escapes: a slash in a part cannot be read back."""
    return profile.provider_prefix + "/".join("" if part is None else str(part) for part in parts)


def interface_id_or_none(text: object, profile: Profile = ONMETAL) -> InterfaceID | None:
    """The parsed ID; None for what does not parse, which is no failure where IDs are only matched."""
    try:
        return parse_interface_id(text, profile)
    except ValueRefused:
        return None
