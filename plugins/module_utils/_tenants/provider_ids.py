# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provider IDs: how a source object names its twin (6). Only the form is checked, never what it points at."""

from __future__ import annotations

import re
import typing as t

from .._values.refused import ValueRefused, quoted
from .profile import ONMETAL, Profile

# No limit of 63 characters a label: the original checks the whole name only.
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


def _parts(text: object, profile: Profile) -> t.List[str]:
    if not isinstance(text, str):
        raise ValueRefused("segment_count", "{0} is not a provider ID".format(quoted(text)))
    rest = text[len(profile.provider_prefix) :] if text.startswith(profile.provider_prefix) else text
    parts = rest.split("/", 4)
    if len(parts) != 4:
        raise ValueRefused("segment_count", "{0} does not have four parts".format(quoted(text)))
    return parts


def parse_interface_id(text: object, profile: Profile = ONMETAL) -> InterfaceID:
    """namespace/name/node/uid with or without the scheme. Only the node's form is checked."""
    found = InterfaceID(*_parts(text, profile))
    if len(found.node) > 253 or not _NODE.match(found.node):
        raise ValueRefused("invalid_node", "the node in {0} is not a DNS subdomain".format(quoted(text)))
    return found


def parse_network_id(text: object, profile: Profile = ONMETAL) -> NetworkID:
    """namespace/name/id/uid with or without the scheme."""
    return NetworkID(*_parts(text, profile))


def format_id(parts: t.Iterable[t.Any], profile: Profile = ONMETAL) -> str:
    """The text of four parts. Never fails and never escapes: a slash in a part cannot be read back."""
    return profile.provider_prefix + "/".join("" if part is None else str(part) for part in parts)


def interface_id_or_none(text: object, profile: Profile = ONMETAL) -> t.Optional[InterfaceID]:
    """The parsed ID; None for what does not parse, which is no failure where IDs are only matched."""
    try:
        return parse_interface_id(text, profile)
    except ValueRefused:
        return None
