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
from ..._kubernetes.watched import WatchedClient
from ..._kubernetes.watched_collection import Heard
from ..._mesh.topology.range_changes import join_orders
from .capabilities import CAPABILITIES, Capability
from .held_events import HeldEvents
from .leadership import Leadership
from .metrics import Metrics
from .node_calls import NodeCalls, Speak
from .other_runs import NODES_ELSEWHERE, OtherRuns
from .pod_ranges import PodRanges
from .settings import POD_RANGES
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
    ``speak`` notifies them of what to announce, ``set_ranges`` of which pod ranges their peers have; without them the playbook does that, too.

    Raises ValueError for what makes no sense; a mesh that makes none is left out, since runs of its playbook report that.
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
        set_ranges: Speak | None = None,
    ) -> None:
        self._log, self._metrics = log, metrics
        self._stop = threading.Event()
        capabilities: dict[str, Capability] = {
            name: CAPABILITIES[name](request) for name, request in sorted(requests.items()) if name != POD_RANGES
        }
        self._ranges = _pod_ranges(requests, log)
        if self._ranges is not None:
            capabilities[POD_RANGES] = self._ranges
        entries, fabric = entries_of(requests), str(next(iter(requests.values()))["fabric"])
        led = entries_of({name: requests[name] for name, capability in capabilities.items() if capability.writes})
        self._leadership = Leadership(led, fabric, namespace, log, self._forget)
        self._others = OtherRuns(entries, fabric, namespace, self._state, self._forget, self._stop)
        self._speaker_calls = NodeCalls(
            speak or (lambda orders: False),
            lambda name: name in self._led(),
            lambda: playbook("load_balancers"),
            log,
            metrics,
        )
        self._range_calls = NodeCalls(
            set_ranges or (lambda orders: False),
            lambda name: not self._others.at_work(NODES_ELSEWHERE),
            lambda: playbook("mesh"),
            log,
            metrics,
            POD_RANGES,
            ("set", "not set"),
            join_orders,
        )
        self.clients: dict[str, WatchedClient] = {}
        longest = max((capability.timeout for capability in capabilities.values()), default=30.0)
        for entry in entries:
            self._connect(str(entry["name"]), entry, longest)
        events = HeldEvents(self.clients, fabric, namespace, log)
        self.workers = []
        for name, capability in capabilities.items():
            clients = {
                str(entry["name"]): self.clients[str(entry["name"])]
                for entry in requests[name]["clusters"]
                if str(entry["name"]) in self.clients
            }
            self.workers.append(
                Worker(
                    name,
                    capability,
                    clients,
                    log,
                    metrics,
                    every,
                    self._led if capability.writes else self._readable,
                    playbook,
                    (self._speaker_calls if capability.writes else self._range_calls).ask,
                    events.report,
                )
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

    def _readable(self) -> frozenset[str]:
        """The clusters with nodes that may be changed now: all, unless a play changes nodes, which may have read less than the watches have."""
        return frozenset() if self._others.at_work(NODES_ELSEWHERE) else frozenset(self.clients)

    @property
    def follows_ranges(self) -> bool:
        """Whether pod ranges of nodes are followed."""
        return self._ranges is not None

    def handles(self, cluster: str, kind: str) -> bool:
        """Whether changes of a kind of objects need no playbook, since they are followed here, and nothing keeps that from working."""
        client = self.clients.get(cluster)
        return (
            self._ranges is not None
            and client is not None
            and all(row.current for row in client.collections if row.path.rsplit("/", 1)[-1] in PodRanges.plurals)
            and self._ranges.handles(cluster, kind)
        )

    def start(self) -> None:
        """Begin; returns at once."""
        self._others.start()
        self._leadership.start()
        self._speaker_calls.start()
        self._range_calls.start()
        for worker in self.workers:
            worker.start()

    def stop(self) -> None:
        """After the turns that are under way."""
        for worker in self.workers:
            worker.stop()
        self._speaker_calls.stop()
        self._range_calls.stop()
        self._stop.set()
        self._leadership.stop()

    @property
    def settled(self) -> bool:
        """Whether everything was planned once."""
        return all(worker.look()["whole"] is not None for worker in self.workers)

    def dead(self) -> t.Iterator[str]:
        """Workers with threads that have ended."""
        for worker in self.workers:
            if not worker.is_alive:
                yield f"{worker.name}: its thread has ended"
        if not self._speaker_calls.is_alive or not self._range_calls.is_alive:
            yield "node calls: their thread has ended"

    def troubles(self) -> t.Iterator[str]:
        """What keeps it from doing its work, one sentence each."""
        for name, client in sorted(self.clients.items()):
            late = [collection.path for collection in client.collections if not collection.current]
            if late:
                yield f"cluster {name}: {'is' if len(late) == 1 else 'are'} not followed now: {', '.join(late)}"

    def held(self) -> t.Iterator[str]:
        """What would be lost, and stays as it is until somebody confirms it; a sentence for each capability. The others go on."""
        for worker in self.workers:
            classes = worker.look()["held"]
            if classes:
                text = "{0}: pairs would be lost, so they stay as they are; correct the inventory, or confirm with {0}_confirm_lost: {1}"
                yield text.format(worker.name, ", ".join(classes))

    def gauges(self) -> t.Iterator[tuple[str, t.Mapping[str, str], float]]:
        """For metrics."""
        now = time.monotonic()
        yield "waits_for_play", {}, float(bool(self._waits))
        yield "queue_length", {"capability": "visits"}, len(self._speaker_calls) + len(self._range_calls)
        for worker in self.workers:
            seen = worker.look()
            label = {"capability": worker.name}
            yield "queue_length", label, seen["length"]
            yield "oldest_event_seconds", label, seen["oldest"]
            yield "lost_pairs_held", label, seen["held_pairs"]
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


def _pod_ranges(requests: t.Mapping[str, t.Mapping[str, t.Any]], log: Log) -> PodRanges | None:
    """What follows pod ranges; None where that is not asked for, or the mesh makes no sense."""
    try:
        return PodRanges(requests[POD_RANGES]) if POD_RANGES in requests else None
    except ValueError as error:
        log.say(POD_RANGES, "refused", message=f"pod ranges are not followed, playbooks are run for them: {error}")
        return None
