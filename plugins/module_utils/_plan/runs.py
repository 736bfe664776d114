# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""News become runs: merged over clusters and kinds, and held back while a run that they started is under way. Pure.

A playbook serves all clusters at once, so Node events of twenty clusters are one run of ``mesh``. What comes while it runs is one
further run, however much it is.
"""

from __future__ import annotations

import typing as t

Data = t.Mapping[str, t.Any]
#: Names in one event; ``count`` is how many there were.
NAMES = 100


def merge(events: t.Iterable[Data]) -> dict[str, t.Any]:
    """Events of clusters and kinds as one: {clusters, kinds, names, count, types}; names begin with their cluster."""
    clusters: set[t.Any] = set()
    kinds: set[t.Any] = set()
    names: set[t.Any] = set()
    types: set[t.Any] = set()
    count = 0
    for event in events:
        clusters.add(str(event["cluster"]))
        kinds.add(str(event["kind"]))
        names.update(f"{event['cluster']}/{name}" for name in event.get("names") or ())
        types.update(event.get("types") or ())
        count += int(event.get("count") or 0)
    return {
        "clusters": sorted(clusters),
        "kinds": sorted(kinds),
        "names": sorted(names)[:NAMES],
        "count": count,
        "types": sorted(types),
    }


class Runs:
    """Which playbooks have to run, and when they may be asked for. The caller has the clock and sees runs come and go.

    ``watch``: rows {resource, playbooks}; ``kinds``: resource -> its kinds. A playbook that waits is asked for once. After asking, nothing is asked
    for again until as many runs were seen and have ended, or ``settle`` seconds passed without any: who asked may never run it.
    """

    def __init__(self, watch: t.Sequence[Data], kinds: t.Mapping[str, t.Sequence[str]], settle: float = 30.0) -> None:
        self._settle = settle
        self._order: list[str] = []
        self._books: dict[str, list[str]] = {}
        for row in watch:
            for book in row.get("playbooks") or ():
                if book not in self._order:
                    self._order.append(book)
                for kind in kinds[row["resource"]]:
                    if book not in self._books.setdefault(kind, []):
                        self._books[kind].append(book)
        self._found: dict[str, list[Data]] = {}
        self._asked = 0
        self._seen: set[t.Any] = set()
        self._busy = False
        self._quiet_since: float | None = None

    def add(self, events: t.Iterable[Data]) -> None:
        """News of the clusters."""
        for event in events:
            for book in self._books.get(str(event["kind"]), ()):
                self._found.setdefault(book, []).append(event)

    def asked(self, number: int, now: float) -> None:
        """So many runs were asked for just now."""
        self._asked, self._seen, self._quiet_since = number, set(), now

    def see(self, at_work: t.Iterable[t.Any], now: float) -> None:
        """The runs that are at work at this moment, by whatever identifies them."""
        here = set(at_work)
        self._seen |= here
        if here or self._busy:
            self._quiet_since = now
        self._busy = bool(here)

    def take(self, now: float) -> list[dict[str, t.Any]]:
        """Events to tell now, one for each playbook, in the order of the table; [] while they have to wait."""
        if not self._found or self._busy:
            return []
        if len(self._seen) < self._asked and self._quiet_since is not None and now - self._quiet_since < self._settle:
            return []
        events = [dict(merge(self._found[book]), run=book) for book in self._order if book in self._found]
        self._found = {}
        self.asked(len(events), now)
        return events
