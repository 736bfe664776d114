# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Since when a source has not been reachable, remembered in a ConfigMap of the cluster that mirrors it. Pure."""

from __future__ import annotations

import typing as t

from .._values.ascii_text import is_digits
from .mirror_services import Manifest, Object

#: Reasons why a list failed that speak of the source's health; a refused credential does not.
OUTAGES = ("unreachable", "timed_out", "server_busy")


def record_name(what: str, fabric: str) -> str:
    """Name of the ConfigMap of a capability."""
    return "{0}-outages-{1}".format(what, fabric)


def outage_record(name: str, namespace: str, since: t.Mapping[str, int]) -> Manifest:
    """The ConfigMap: cluster -> seconds since 1970 at which it was first found unreachable."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {cluster: str(since[cluster]) for cluster in sorted(since)},
    }


def read_record(obj: t.Optional[Object]) -> t.Dict[str, int]:
    """The inverse; what is no time is left out."""
    data = obj.get("data") if isinstance(obj, dict) else None
    found = {}
    for name, text in (data if isinstance(data, dict) else {}).items():
        if isinstance(text, str) and is_digits(text) and len(text) < 12:
            found[name] = int(text)
    return found


def judge(
    known: t.Mapping[str, int], failed: t.Collection[str], listed: t.Collection[str], now: int, grace: float
) -> t.Tuple[t.Set[str], t.Dict[str, int]]:
    """(sources whose outage counts now, what to remember).

    A time in the future, from a controller whose clock is ahead, starts anew.
    """
    since = {name: begun for name, begun in known.items() if name not in listed}
    for name in failed:
        since[name] = min(since.get(name, now), now)
    return {name for name in failed if now - since[name] >= grace}, since
