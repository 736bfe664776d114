# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run is told, and which source objects it may touch (2)."""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused, quoted
from .fields import Object, get, labels, namespace
from .profile import KINDS, ONMETAL, PROFILES, Profile

PEERING, VIP_RELEASE, STALE_UID, LB_NODE_AFFINITY = "peering", "vip_release", "stale_uid", "lb_node_affinity"
SWITCHES = (PEERING, VIP_RELEASE, STALE_UID, LB_NODE_AFFINITY)


class Options(t.NamedTuple):
    """Settings of the mapping.

    ``adopt``: write also twins that another program applied. ``leaving``: the selected source objects go, all of them.

    ``max_deletes``: negative for no limit, None for the default budget. ``always_apply``: send every manifest of a twin
    also when nothing differs, as the original does, so that a server that refuses it shows as a failure.
    """

    apinet_namespace: str
    watch_namespace: str = ""
    watch_filter: t.Optional[str] = None
    kinds: t.FrozenSet[str] = frozenset(KINDS)
    switches: t.FrozenSet[str] = frozenset()
    collect: bool = True
    min_public_ips: int = 1
    max_public_ips: int = 10
    max_deletes: t.Optional[int] = None
    confirm_empty: bool = False
    always_apply: bool = False
    adopt: bool = False
    leaving: bool = False
    profile: Profile = ONMETAL


def parse_options(given: t.Mapping[str, t.Any]) -> Options:
    """Options from plain data. Raises ValueRefused before anything is done."""
    known = {key: value for key, value in given.items() if key in Options._fields and value is not None}
    if not known.get("apinet_namespace"):
        raise ValueRefused("apinet_namespace_missing", "apinet_namespace is required")
    known["kinds"] = _subset("kinds", known.get("kinds") or KINDS, KINDS)
    known["switches"] = _subset("switches", known.get("switches", ()), SWITCHES)
    profile = known.get("profile", ONMETAL)
    if not isinstance(profile, Profile):
        if profile not in PROFILES:
            raise ValueRefused("unknown_profile", "{0} is none of {1}".format(quoted(profile), ", ".join(PROFILES)))
        known["profile"] = PROFILES[profile]
    options = Options(**known)
    if options.leaving and not options.watch_namespace:
        raise ValueRefused("watch_namespace_missing", "whose objects are to go must be said: watch_namespace is required")
    if not 0 <= options.min_public_ips <= options.max_public_ips:
        raise ValueRefused("public_ips_range", "0 <= min_public_ips <= max_public_ips does not hold")
    return options


def _subset(option: str, given: t.Any, known: t.Sequence[str]) -> t.FrozenSet[str]:
    chosen = frozenset([given] if isinstance(given, str) else given)
    unknown = sorted(str(item) for item in chosen - frozenset(known))
    if unknown:
        raise ValueRefused("unknown_" + option, "{0}: {1} is none of {2}".format(option, quoted(unknown[0]), ", ".join(known)))
    return chosen


def selected(source: Object, options: Options) -> bool:
    """Whether a source object is ours to map. The others still exist for lookups."""
    if not in_watch(namespace(source), options):
        return False
    if options.watch_filter and labels(source).get(options.profile.watch_filter_label) != options.watch_filter:
        return False
    return options.profile.managed_by_annotation not in (get(source, "metadata", "annotations") or {})


def in_watch(name: str, options: Options) -> bool:
    """Whether a source namespace is within the watched one."""
    return not options.watch_namespace or name == options.watch_namespace
