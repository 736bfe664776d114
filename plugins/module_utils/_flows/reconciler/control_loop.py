# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capabilities of a fabric, kept: one client that watches for each cluster, one worker for each capability."""

from __future__ import annotations

import threading
import time
import typing as t

from ..._io.structured_log import Log
from ..._kubernetes.access import AccessRefused
from ..._kubernetes.argspec import limits
from ..._kubernetes.watched import Heard, WatchedClient
from .capabilities import CAPABILITIES
from .leadership import Leadership
from .metrics import Metrics
from .other_runs import OtherRuns
from .visits import Speak, Visits
from .worker import Worker

Entries = list[t.Mapping[str, t.Any]]
#: Seconds between plans of everything, which repair what no event reported.
EVERY = 300.0


def entries_of(requests: t.Mapping[str, t.Mapping[str, t.Any]]) -> Entries:
    """The clusters of all capabilities with the access to them, each once, by name."""
    found = {str(entry["name"]): entry for request in requests.values() for entry in request["clusters"]}
    return [found[name] for name in sorted(found)]


class ControlLoop:
    """``requests``: the options of each capability's module, by the capability's name; not empty. ``playbook(name)`` asks for what needs nodes,
    ``speak`` tells them what to announce; without it the playbook does that, too.

    Raises ValueError for what makes no sense.
    """

    def __init__(
        self,
        requests: t.Mapping[str, t.Mapping[str, t.Any]],
        log: Log,
        metrics: Metrics,
        every: float = EVERY,
        playbook: t.Callable[[str], None] = lambda name: None,
        namespace: str = "kube-system",
        speak: Speak | None = None,
    ) -> None:
        self._log, self._metrics = log, metrics
        self._stop = threading.Event()
        capabilities = {name: CAPABILITIES[name](request) for name, request in sorted(requests.items())}
        entries, fabric = entries_of(requests), str(next(iter(requests.values()))["fabric"])
        self._leadership = Leadership(entries, fabric, namespace, log, self._forget)
        self._others = OtherRuns(entries, fabric, namespace, self._state, self._forget, self._stop)
        self._visits = Visits(
            speak or (lambda orders: False),
            lambda name: name in self._led(),
            lambda: playbook("load_balancers"),
            log,
            metrics,
        )
        self.clients: dict[str, WatchedClient] = {}
        for entry in entries:
            self._connect(str(entry["name"]), entry, max(capability.timeout for capability in capabilities.values()))
        self.workers = []
        for name, capability in capabilities.items():
            clients = {
                str(entry["name"]): self.clients[str(entry["name"])]
                for entry in requests[name]["clusters"]
                if str(entry["name"]) in self.clients
            }
            self.workers.append(
                Worker(name, capability, clients, log, metrics, every, self._led, playbook, self._visits.ask)
            )
        self._waits = ""

    def _connect(self, name: str, entry: t.Mapping[str, t.Any], timeout: float) -> None:
        def heard(change: Heard) -> None:
            for worker in self.workers:
                worker.heard(name, change)

        try:
            self.clients[name] = WatchedClient(
                entry, limits(timeout), heard, self._state, self._stop, may_write=lambda: self._leadership.leads(name)
            )
        except AccessRefused as refused:
            self._log.say("access", "refused", cluster=name, reason=refused.reason, message=refused.message)

    def _state(self, text: str) -> None:
        self._log.say("watch", "state", message=text)

    def _forget(self, unused: str = "") -> None:
        for worker in self.workers:
            worker.forget()

    def _led(self) -> frozenset[str]:
        """The clusters that may be written now."""
        who = self._others.at_work()
        if who != self._waits:
            self._waits = who
            self._log.say("lock", "waits" if who else "goes on", message=who)
        return frozenset() if who else self._leadership.led

    def start(self) -> None:
        """Begin; returns at once."""
        self._others.start()
        self._leadership.start()
        self._visits.start()
        for worker in self.workers:
            worker.start()

    def stop(self) -> None:
        """After the turns that are under way."""
        for worker in self.workers:
            worker.stop()
        self._visits.stop()
        self._stop.set()
        self._leadership.stop()

    @property
    def settled(self) -> bool:
        """Whether everything was planned once."""
        return all(worker.look()["whole"] is not None for worker in self.workers)

    def dead(self) -> t.Iterator[str]:
        """Workers whose threads have ended."""
        for worker in self.workers:
            if not worker.is_alive:
                yield f"{worker.name}: its thread has ended"
        if not self._visits.is_alive:
            yield "visits: their thread has ended"

    def troubles(self) -> t.Iterator[str]:
        """What keeps it from doing its work, one sentence each."""
        for name, client in sorted(self.clients.items()):
            late = [collection.path for collection in client.collections if not collection.current]
            if late:
                yield f"cluster {name}: {'is' if len(late) == 1 else 'are'} not followed now: {', '.join(late)}"

    def gauges(self) -> t.Iterator[tuple[str, t.Mapping[str, str], float]]:
        """For metrics."""
        now = time.monotonic()
        yield "waits_for_play", {}, float(bool(self._waits))
        yield "queue_length", {"capability": "visits"}, len(self._visits)
        for worker in self.workers:
            seen = worker.look()
            label = {"capability": worker.name}
            yield "queue_length", label, seen["length"]
            yield "oldest_event_seconds", label, seen["oldest"]
            if seen["whole"] is not None:
                yield "whole_plan_age_seconds", label, seen["whole"]
        for name, client in sorted(self.clients.items()):
            yield "leader", {"cluster": name}, float(self._leadership.leads(name))
            for collection in client.collections:
                labels = {"cluster": name, "path": collection.path, "labels": collection.labels}
                yield "watch_current", labels, float(collection.current)
                yield "objects", labels, collection.size
                if collection.follower is not None:
                    yield "watch_silent_seconds", labels, now - collection.follower.heard_at
            for (verb, code), count in sorted(client.requests().items()):
                yield "requests_total", {"cluster": name, "verb": verb, "code": code}, count
