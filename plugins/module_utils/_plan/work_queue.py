# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What waits to be planned: keys that collect until it is quiet, each with its own pause after a failure. Pure; the caller has the clock."""

from __future__ import annotations

import typing as t

Key = str


class Due(t.NamedTuple):
    """One turn: ``keys``, and when the oldest of them became known."""

    keys: frozenset[Key]
    since: float


class WorkQueue:
    """``add`` keys; ``wait`` returns when ``take`` gives some; each taken key ends in ``done`` or ``failed``.

    ``window`` seconds of quiet end a collection, ``longest`` seconds after its first key it ends in any case. A key that failed comes again
    after ``first`` seconds, twice as many each time, at most ``last``, and alone, so that it does not take others along; a new event of it
    makes it due at once.
    """

    def __init__(self, window: float = 0.02, longest: float = 0.2, first: float = 0.5, last: float = 60.0) -> None:
        if not 0 <= window <= longest:
            raise ValueError("window must not be longer than longest")
        self._window, self._longest, self._pauses = window, longest, (first, last)
        self._since: dict[Key, float] = {}
        self._known: dict[Key, float] = {}
        self._begun: float | None = None
        self._last = 0.0
        self._failures: dict[Key, int] = {}
        self._later: dict[Key, float] = {}

    def __len__(self) -> int:
        return len(self._since) + len(self._later)

    def oldest(self) -> float | None:
        """When the oldest key became known that is not done, whether it collects, is at work or comes again after a failure."""
        return min(self._known.values()) if self._known else None

    def add(self, key: Key, now: float, not_before: float = 0.0) -> None:
        """Something changed. ``not_before``: so long it may wait in any case."""
        self._known.setdefault(key, now)
        if not_before > now:
            self._later[key] = min(not_before, self._later.get(key, not_before))
            return
        self._later.pop(key, None)
        self._since.setdefault(key, now)
        self._begun = now if self._begun is None else self._begun
        self._last = now

    def postpone(self, key: Key, until: float) -> None:
        """It is due then, not before and not after, whatever was said of it until now."""
        self._known.setdefault(key, until)
        self._since.pop(key, None)
        self._begun = self._begun if self._since else None
        self._later[key] = until

    def wait(self, now: float) -> float | None:
        """Seconds until something is due; None while there is nothing."""
        when = [] if self._begun is None else [min(self._last + self._window, self._begun + self._longest)]
        when += self._later.values()
        return max(0.0, min(when) - now) if when else None

    def take(self, now: float) -> Due | None:
        """The next turn: everything that collected, or one key that comes again after a failure."""
        if self._begun is not None and now >= min(self._last + self._window, self._begun + self._longest):
            together = {key: since for key, since in self._since.items() if not self._failures.get(key)}
            alone = [key for key in self._since if key not in together]
            for key in alone:
                self._later[key] = now  # after this turn, one at a time
            self._since, self._begun = {}, None
            if together:
                return Due(frozenset(together), min(together.values()))
        ready = sorted((when, repr(key), key) for key, when in self._later.items() if when <= now)
        if not ready:
            return None
        when, unused, key = ready[0]
        del self._later[key]
        return Due(frozenset((key,)), when)

    def done(self, key: Key) -> None:
        """It is as it should be."""
        self._failures.pop(key, None)
        if key in self._since:  # it changed again meanwhile
            self._known[key] = self._since[key]
        elif key not in self._later:
            self._known.pop(key, None)

    def failed(self, key: Key, now: float, after: float = 0.0) -> float:
        """It is not; returns after how many seconds it comes again. ``after``: not earlier, as the server asked."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        pause: float = max(after, min(self._pauses[1], self._pauses[0] * 2 ** min(count - 1, 16)))
        if key not in self._since:
            self._later[key] = now + pause
        return pause
