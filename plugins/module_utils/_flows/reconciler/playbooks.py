# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What needs nodes: playbooks that are run for what changed, one after the other, in a thread of their own."""

from __future__ import annotations

import threading
import time
import typing as t

from ..._io.commands import run_playbook
from ..._io.structured_log import Log
from ..._kubernetes.watch import RESOURCES, Settings
from ..mesh.watch import Watch
from .metrics import Metrics

PREFIX = "multicluster.network."
#: So often the thread looks what else there is to do, in seconds.
_TICK = 0.5


class Pending:
    """Playbooks that have to run, in the order of the configuration; those that failed come again after a pause.

    Pure: the caller has the clock.
    """

    def __init__(self, watch: t.Sequence[t.Mapping[str, t.Any]], first: float = 5.0, longest: float = 60.0) -> None:
        self._first, self._longest = first, longest
        self._order: list[str] = []
        self._of_kind: dict[str, list[str]] = {}
        self._due: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        for row in watch:
            for book in row["playbooks"]:
                self._know(book)
                for kind, unused in RESOURCES[row["resource"]]:
                    self._of_kind.setdefault(kind, []).append(book)

    def __len__(self) -> int:
        return len(self._due)

    @property
    def books(self) -> list[str]:
        """All that are known, in their order."""
        return list(self._order)

    def _know(self, book: str) -> None:
        if book not in self._order:
            self._order.append(book)

    def ask(self, book: str, now: float) -> None:
        """Somebody found out that this one has to run."""
        self._know(book)
        self._due.setdefault(book, now)

    def add(self, events: t.Iterable[t.Mapping[str, t.Any]], now: float) -> None:
        """What changed makes its playbooks due now, also those that wait after a failure."""
        for event in events:
            for book in self._of_kind.get(str(event["kind"]), ()):
                self._due[book] = now

    def take(self, now: float) -> str | None:
        """The next playbook to run."""
        for book in self._order:
            if self._due.get(book, now + 1) <= now:
                del self._due[book]
                return book
        return None

    def ended(self, book: str, well: bool, now: float) -> None:
        """How a run ended; one that failed is due again."""
        self._failures[book] = 0 if well else self._failures.get(book, 0) + 1
        if not well:
            self._due.setdefault(book, now + min(self._longest, self._first * 2 ** (self._failures[book] - 1)))

    def wait(self, now: float, longest: float) -> float:
        """Seconds until something is due."""
        return max(0.0, min([longest] + [when - now for when in self._due.values()]))


class PlaybookRunner:
    """Runs ``config["command"]`` with the playbooks that the rows of ``config["watch"]`` name, merged while one runs.

    ``handled(cluster, kind)``: whether changes of a kind need no playbook now.
    """

    def __init__(
        self,
        config: t.Mapping[str, t.Any],
        log: Log,
        metrics: Metrics,
        handled: t.Callable[[str, str], bool] = lambda cluster, kind: False,
    ) -> None:
        self._config, self._log, self._metrics, self._handled = config, log, metrics, handled
        self._stop, self._watch_stop = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._pending = Pending((), *_retry(config))
        self._watch: Watch | None = None
        self._followed: t.Any = None
        self._thread = threading.Thread(target=self._work, name="mcn-playbooks", daemon=True)

    def follow(self, clusters: t.Sequence[t.Mapping[str, t.Any]], elsewhere: t.Collection[str]) -> None:
        """Follow these clusters from now on. What changes of anything but nodes is ``elsewhere``'s matter, for those capabilities.

        Raises ValueRefused for what cannot be followed.
        """
        rows = [
            dict(
                row,
                playbooks=[book for book in row["playbooks"] if row["resource"] == "nodes" or book not in elsewhere],
            )
            for row in self._config["watch"]
        ]
        rows = [row for row in rows if row["playbooks"]]
        if (rows, clusters) == self._followed:
            return
        stop, watch = threading.Event(), None
        pending = Pending(rows, *_retry(self._config))
        if rows:
            request = dict(
                self._config,
                watch=rows,
                clusters=list(clusters),
                settings=Settings(seconds=float(self._config.get("watch_seconds", 540))),
            )
            watch = Watch(request, stop, lambda text: self._log.say("watch", "state", message=text))
            watch.start()
        with self._lock:
            first, self._followed = self._followed is None, (rows, clusters)
            if not first:
                for book in pending.books:  # what happened between the two was heard by neither
                    pending.ask(book, time.monotonic())
            self._watch_stop.set()
            self._pending, self._watch, self._watch_stop = pending, watch, stop

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """A run that is under way is ended first."""
        self._stop.set()
        self._watch_stop.set()
        self._thread.join()

    def ask(self, book: str) -> None:
        """Run this playbook."""
        with self._lock:
            self._pending.ask(book, time.monotonic())

    @property
    def is_alive(self) -> bool:
        """Whether it works."""
        return self._thread.is_alive()

    @property
    def books(self) -> list[str]:
        """Playbooks that changes ask for."""
        return self._pending.books

    def __len__(self) -> int:
        with self._lock:
            return len(self._pending)

    def _work(self) -> None:
        while not self._stop.is_set():
            self._listen(_TICK)
            book = self._take()
            while book is not None and not self._stop.is_set():
                self._run(book)
                self._listen(0)
                book = self._take()

    def _take(self) -> str | None:
        with self._lock:
            return self._pending.take(time.monotonic())

    def _listen(self, seconds: float) -> None:
        watch, stop = self._watch, self._watch_stop
        if watch is None:
            stop.wait(seconds)
            return
        events = watch.next(seconds)
        for event in events:
            names = [*event["names"][:5], *([f"{event['count'] - 5} more"] if event["count"] > 5 else ())]
            self._log.say(
                "watch", "changed", cluster=event["cluster"], kind=event["kind"], change=event["types"], object=names
            )
        events = [event for event in events if not self._handled(str(event["cluster"]), str(event["kind"]))]
        with self._lock:
            self._pending.add(events, time.monotonic())

    def _run(self, book: str) -> None:
        begun = time.monotonic()
        result = run_playbook(
            [*self._config["command"], PREFIX + book], float(self._config.get("limit", 600)), self._stop
        )
        seconds = time.monotonic() - begun
        self._log.say("playbooks", "ended", playbook=book, result=result, seconds=round(seconds, 1))
        self._metrics.count("playbooks_total", playbook=book, result="ok" if result == 0 else "failed")
        with self._lock:
            self._pending.ended(book, result == 0, time.monotonic())


def _retry(config: t.Mapping[str, t.Any]) -> list[float]:
    return [float(value) for value in config.get("retry", (5, 60))]
