# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reconciler: follows the clusters and runs the collection's playbooks for what changed. A service's main program.

``python -m ansible_collections.multicluster.network.plugins.module_utils._flows.fabric.reconciler CONFIG``; CONFIG is JSON:
{clusters, watch: [{resource, selector, playbooks}], command: [word], window, longest, watch_seconds, limit, retry: [first, longest]}.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
import typing as t

from ..._io.commands import run_playbook
from ..._io.settings_source import read_text
from ..._kubernetes.watch import RESOURCES, Settings
from .watch import Watch

PREFIX = "multicluster.network."


class Pending:
    """Playbooks that have to run, in the order of the configuration; those that failed come again after a pause.

    Pure: the caller has the clock.
    """

    def __init__(self, watch: t.Sequence[t.Mapping[str, t.Any]], first: float = 5.0, longest: float = 60.0) -> None:
        self._first, self._longest = first, longest
        self._order: t.List[str] = []
        self._of_kind: t.Dict[str, t.List[str]] = {}
        self._due: t.Dict[str, float] = {}
        self._failures: t.Dict[str, int] = {}
        for row in watch:
            for book in row["playbooks"]:
                if book not in self._order:
                    self._order.append(book)
                for kind, unused in RESOURCES[row["resource"]]:
                    self._of_kind.setdefault(kind, []).append(book)

    def add(self, events: t.Iterable[t.Mapping[str, t.Any]], now: float) -> None:
        """What changed makes its playbooks due now, also those that wait after a failure."""
        for event in events:
            for book in self._of_kind.get(str(event["kind"]), ()):
                self._due[book] = now

    def take(self, now: float) -> t.Optional[str]:
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


def reconcile(config: t.Mapping[str, t.Any], stop: threading.Event, say: t.Callable[[str], None]) -> None:
    """Until ``stop`` is set."""
    request = dict(config, settings=Settings(seconds=float(config.get("watch_seconds", 540))))
    pending = Pending(config["watch"], *(float(value) for value in config.get("retry", (5, 60))))
    watch = Watch(request, stop, say)
    watch.start()
    say("following {0}".format(", ".join(sorted(str(entry["name"]) for entry in config["clusters"]))))
    while not stop.is_set():
        events = watch.next(pending.wait(time.monotonic(), 5.0))
        for event in events:
            more = "" if event["count"] <= 5 else " and {0} more".format(event["count"] - 5)
            say("cluster {0}: {1} {2}: {3}{4}".format(event["cluster"], event["kind"], "/".join(event["types"]), ", ".join(event["names"][:5]), more))
        pending.add(events, time.monotonic())
        book = pending.take(time.monotonic())
        while book is not None and not stop.is_set():
            begun = time.monotonic()
            result = run_playbook([*config["command"], PREFIX + book], float(config.get("limit", 600)), stop)
            say("{0} ended with {1} after {2:.1f} s".format(book, result, time.monotonic() - begun))
            pending.ended(book, result == 0, time.monotonic())
            pending.add(watch.next(0), time.monotonic())
            book = pending.take(time.monotonic())


def main(words: t.Sequence[str]) -> int:
    """The program."""
    if len(words) != 1:
        sys.stderr.write("usage: reconciler CONFIG\n")
        return 2
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *unused: stop.set())
    try:
        reconcile(json.loads(read_text(words[0])), stop, _say)
    except ValueError as error:
        _say("error: {0}".format(error))
        return 1
    return 0


def _say(text: str) -> None:
    # names and texts of clusters are somebody else's: one line each, nothing that moves a terminal's cursor
    sys.stdout.write("".join(char if char.isprintable() else "?" for char in text) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
