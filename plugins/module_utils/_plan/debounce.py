# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many changes become one event: collect until nothing came for a while, but not for ever. Pure; the caller has the clock."""

from __future__ import annotations

import typing as t

from .changes import Change

#: Names in one event; ``count`` tells how many there were.
NAMES = 100


class Debounce:
    """``add`` changes; ``due`` says when to ``take`` them.

    ``window`` seconds of quiet end a collection, ``longest`` seconds after its first change it ends in any case.
    """

    def __init__(self, window: float = 1.0, longest: float = 5.0) -> None:
        if not 0 <= window <= longest:
            raise ValueError("window must not be longer than longest")
        self._window, self._longest = window, longest
        self._first: t.Optional[float] = None
        self._last = 0.0
        self._found: t.Dict[t.Tuple[str, str], t.Dict[str, str]] = {}

    def add(self, cluster: str, change: Change, now: float) -> None:
        """One change of one cluster. The last one of an object counts."""
        name = "{0}/{1}".format(change.namespace, change.name) if change.namespace else change.name
        self._found.setdefault((cluster, change.kind), {})[name] = change.type
        self._first = now if self._first is None else self._first
        self._last = now

    def due(self, now: float) -> t.Optional[float]:
        """Seconds until the collection ends, 0 when it is over; None while there is nothing."""
        if self._first is None:
            return None
        return max(0.0, min(self._last + self._window, self._first + self._longest) - now)

    def take(self) -> t.List[t.Dict[str, t.Any]]:
        """One event for each cluster and kind: {cluster, kind, names, count, types}; begins anew."""
        events = []
        for cluster, kind in sorted(self._found):
            names = self._found[cluster, kind]
            events.append(
                {"cluster": cluster, "kind": kind, "names": sorted(names)[:NAMES], "count": len(names), "types": sorted(set(names.values()))}
            )
        self._found, self._first = {}, None
        return events
