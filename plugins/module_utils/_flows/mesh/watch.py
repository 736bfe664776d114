# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""News of the whole fabric: every cluster followed, noise left out, changes collected. What EDA and the reconciler listen to."""

from __future__ import annotations

import queue
import threading
import time
import typing as t

from ..._kubernetes.client import Listing
from ..._kubernetes.watch import RESOURCES, Follower, Settings
from ..._plan.changes import Change, ChangeTracker, Debounce
from ..._values.refused import ValueRefused, quoted
from ..._values.selectors import parse_selector

Data = dict[str, t.Any]


def check(request: t.Mapping[str, t.Any]) -> None:
    """Raises ValueError for a request that cannot be followed."""
    for row in request["watch"]:
        if row.get("resource") not in RESOURCES:
            raise ValueRefused(
                "choice", f"resource {quoted(row.get('resource'))} is none of {', '.join(sorted(RESOURCES))}"
            )
        if row.get("selector"):
            parse_selector(row["selector"])
    if not request["clusters"]:
        raise ValueRefused("remote_name_missing", "there are no clusters to follow")
    Debounce(float(request.get("window", 1.0)), float(request.get("longest", 5.0)))


class Watch:
    """``next`` gives the collected events. ``request``: {clusters, watch: [{resource, selector}], window, longest, settings}.

    ``status`` gets lines for a log. What is there at the beginning is no news.
    """

    def __init__(self, request: t.Mapping[str, t.Any], stop: threading.Event, status: t.Callable[[str], None]) -> None:
        check(request)
        self._stop, self._status = stop, status
        self._queue: queue.Queue[tuple[str, Change | None]] = queue.Queue(maxsize=100_000)
        self._debounce = Debounce(float(request.get("window", 1.0)), float(request.get("longest", 5.0)))
        settings = request.get("settings") or Settings()
        pairs = sorted({(str(row["resource"]), str(row.get("selector") or "")) for row in request["watch"]})
        self._followers = [
            self._follow(cluster, resource, selector, settings)
            for cluster in request["clusters"]
            for resource, selector in pairs
        ]
        self._waiting = len(self._followers)

    def _follow(self, cluster: t.Mapping[str, t.Any], resource: str, selector: str, settings: Settings) -> Follower:
        name = str(cluster.get("name"))
        trackers: dict[str, ChangeTracker] = {}
        first = [True]

        def listed(kind: str, listing: Listing) -> None:
            tracker = trackers.setdefault(kind, ChangeTracker(kind))
            changes = tracker.replace(listing.items)
            if first[0]:
                first[0], changes = False, []
                self._queue.put((name, None))
            for change in changes:
                self._queue.put((name, change))

        def heard(kind: str, event: str, obj: Data) -> None:
            change = trackers.setdefault(kind, ChangeTracker(kind)).observe(event, obj)
            if change is not None:
                self._queue.put((name, change))

        return Follower(cluster, RESOURCES[resource], selector, listed, heard, self._status, self._stop, settings)

    def start(self) -> None:
        """Begin to follow; returns at once."""
        for follower in self._followers:
            follower.start()

    def next(self, seconds: float) -> list[Data]:
        """Events that are due within the seconds; [] when there are none."""
        end = time.monotonic() + seconds
        while not self._stop.is_set():
            now = time.monotonic()
            due = self._debounce.due(now)
            if due == 0.0:
                return self._debounce.take()
            left = end - now if due is None else min(due, end - now)
            if left <= 0:
                return []
            try:
                cluster, change = self._queue.get(timeout=min(left, 1.0))
            except queue.Empty:
                continue
            if change is None:
                self._waiting -= 1
            else:
                self._debounce.add(cluster, change, time.monotonic())
        return []

    @property
    def complete(self) -> bool:
        """Whether everything was listed once; before that, changes may be missed."""
        return self._waiting <= 0
