# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One capability that is kept: what changed collects in its queue, and a thread of its own plans and writes it."""

from __future__ import annotations

import threading
import time
import traceback
import typing as t

from ..._io.structured_log import Log
from ..._kubernetes.client import Client
from ..._kubernetes.errors import TimedOut
from ..._kubernetes.watched_collection import Heard
from ..._plan.work_queue import Due, WorkQueue
from ..runs.outages import OUTAGES
from .capabilities import EVERYTHING, SETTLING, Capability
from .metrics import Metrics
from .node_calls import Orders

Data = dict[str, t.Any]
#: So often somebody who may not write looks whether he may, in seconds.
_PAUSE = 0.2
#: So long a cluster that timed out is left alone, in seconds: at first, and at most.
_FIRST_REST, _LONGEST_REST = 5.0, 60.0
#: After a plan of everything the next one that an event asks for waits so many times as long as that took.
_REST = 4.0


class Worker:
    """``heard`` may be called from any thread. ``every``: seconds between plans of everything. ``led()``: the clusters that may be written
    now; nothing is done while there are none. ``playbook(name)`` asks for what needs nodes, ``node_call(orders, since)`` for what they are notified of,
    ``report_held(name, classes)`` has classes of pairs that are not lost as long as nobody confirms that."""

    def __init__(
        self,
        name: str,
        capability: Capability,
        clients: t.Mapping[str, Client],
        log: Log,
        metrics: Metrics,
        every: float,
        led: t.Callable[[], frozenset[str]],
        playbook: t.Callable[[str], None],
        node_call: t.Callable[[Orders, float], None] = lambda orders, since: None,
        report_held: t.Callable[[str, t.Sequence[Data]], None] = lambda name, rows: None,
    ) -> None:
        self.name = name
        self._capability, self._clients, self._log, self._metrics = capability, clients, log, metrics
        self._every, self._led, self._playbook, self._node_call = every, led, playbook, node_call
        self._report_held = report_held
        self._queue = WorkQueue(*capability.window)
        #: when the oldest event of each key became known that no turn took so far
        self._events: dict[str, float] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._turning = 0
        #: clusters that kept a turn waiting: how often in turn, and until when the others go on without them
        self._slow: dict[str, tuple[int, float]] = {}
        self._whole_at, self._rest_until = float("-inf"), 0.0
        #: classes of pairs that are not lost as long as nobody confirms that
        self._held: tuple[str, ...] = ()
        self._held_pairs = 0
        #: since when something waits that a plan of everything decides
        self._unsettled: float | None = None
        self._thread = threading.Thread(target=self._work, name="mcn-" + name, daemon=True)

    def start(self) -> None:
        """Begin with a plan of everything."""
        self.ask_everything()
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it still works."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """After the turn that is under way."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def ask_everything(self) -> None:
        """Plan everything."""
        with self._changed:
            self._queue.add(EVERYTHING, time.monotonic(), self._rest_until)
            self._changed.notify()

    def forget(self) -> None:
        """Somebody else may have notified nodes of something: plan everything, and notify them again."""
        self._capability.forget()
        self.ask_everything()

    def heard(self, cluster: str, heard: Heard) -> None:
        """A change of an object."""
        keys = self._capability.keys(cluster, heard)
        if not keys:
            return
        self._metrics.count("events_total", capability=self.name, cluster=cluster)
        now = time.monotonic()
        with self._changed:
            for key in keys:
                if heard.news:
                    self._events.setdefault(key, now)
                # a cluster that gives reason for doubt all the time must not keep the processor busy with plans of everything
                self._queue.add(key, now, self._rest_until if key == EVERYTHING else 0.0)
            self._changed.notify()

    def look(self) -> Data:
        """For metrics and health: {length, oldest (seconds), whole (seconds since the last plan of everything, or None), held: classes of pairs
        that a plan would lose and may not, held_pairs: how many}."""
        now = time.monotonic()
        with self._changed:
            oldest = self._queue.oldest()
            return {
                "length": len(self._queue) + self._turning,
                "oldest": max(0.0, now - oldest) if oldest is not None else 0.0,
                "whole": now - self._whole_at if self._whole_at > float("-inf") else None,
                "held": self._held,
                "held_pairs": self._held_pairs,
            }

    # -- the thread

    def _work(self) -> None:
        while True:
            turn = self._next()
            if turn is None:
                return
            due, led, events = turn
            try:
                remaining = self._turn(due, led, min(events.values(), default=None))
            except Exception as error:  # a capability that ends would be missed by nobody
                remaining = due.keys
                self._failed(due.keys, f"{error!r} at {traceback.extract_tb(error.__traceback__)[-1].name}")
            finally:
                with self._changed:
                    self._turning = 0
            with self._changed:
                for key, since in events.items():
                    if key in remaining or EVERYTHING in remaining:
                        self._events[key] = since  # older than what was heard meanwhile

    def _next(self) -> tuple[Due, frozenset[str], dict[str, float]] | None:
        with self._changed:
            while not self._stopping:
                now = time.monotonic()
                if self._whole_at + self._every <= now and self._whole_at > float("-inf"):
                    self._whole_at = now
                    self._queue.add(EVERYTHING, now)
                self._wake(now)
                wait = self._queue.wait(now)
                if wait == 0.0:
                    led = self._led()
                    if not led:
                        self._events.clear()  # until now they were for whoever leads
                    led = self._awake(led, now)
                    due = self._queue.take(now) if led else None
                    if due is not None:
                        self._turning = len(due.keys)
                        taken = list(self._events) if EVERYTHING in due.keys else due.keys & self._events.keys()
                        return due, led, {key: self._events.pop(key) for key in taken}
                    wait = _PAUSE
                self._changed.wait(min(self._every, 1.0 if wait is None else wait))
        return None

    def _awake(self, led: frozenset[str], now: float) -> frozenset[str]:
        return frozenset(name for name in led if self._slow.get(name, (0, 0.0))[1] <= now)

    def _wake(self, now: float) -> None:
        """A cluster that rested is planned for again, all of it."""
        for name, (count, until) in self._slow.items():
            if count and 0.0 < until <= now:
                self._slow[name] = count, 0.0
                self._queue.add(EVERYTHING, now)

    def _judge(self, led: frozenset[str], failures: t.Sequence[t.Mapping[str, t.Any]]) -> None:
        """One that does not answer would keep every turn waiting, and with it all others."""
        now = time.monotonic()
        slow = {str(row["cluster"]) for row in failures if row["reason"] == TimedOut.reason}
        for name in led:
            if name in slow:
                count = self._slow.get(name, (0, 0.0))[0] + 1
                pause = min(_LONGEST_REST, _FIRST_REST * 2 ** (count - 1))
                self._slow[name] = count, now + pause
                self._log.say(
                    self.name,
                    "rests",
                    cluster=name,
                    seconds=pause,
                    message="it does not answer; the others go on without it",
                )
            else:
                self._slow.pop(name, None)

    def _settle(self, due: Due, now: float) -> None:
        """Everything decides, once it is quiet."""
        with self._changed:
            self._unsettled = due.since if self._unsettled is None else self._unsettled
            for key in due.keys:
                self._queue.done(key)
            self._queue.postpone(EVERYTHING, min(now + SETTLING[0], max(now, self._unsettled + SETTLING[1])))

    def _turn(self, due: Due, led: frozenset[str], heard_at: float | None) -> frozenset[str]:
        """Returns the keys with events that still wait for their objects. ``heard_at``: when the oldest event became known that it is for."""
        begun = time.monotonic()
        result = self._capability.run(due.keys, self._clients, led)
        ended = time.monotonic()
        if result is None:
            self._settle(due, ended)
            return due.keys
        if EVERYTHING in due.keys:
            self._whole_at, self._rest_until, self._unsettled = ended, ended + _REST * (ended - begun), None
        if "reachability" in result:
            self._note_held(result["reachability"])
        for change in result["plan"]["changes"]:
            self._log.say(
                self.name,
                "wrote",
                action=change["action"],
                kind=change["kind"],
                object=change["id"],
                after=round(ended - due.since, 3),
            )
        for refusal in result["refused"]:
            self._log.once(
                self.name, "refused", object=refusal["object"], reason=refusal["reason"], message=refusal["message"]
            )
        for warning in result.get("warnings") or ():
            self._log.once(self.name, "warning", message=warning)
        orders = self._capability.orders(result)
        if orders:
            self._node_call(orders, due.since)
        for book in self._capability.playbooks(result):
            self._playbook(book)
        reaction = None if heard_at is None else ended - heard_at
        self._metrics.turn(self.name, ended - begun, reaction, _writes(result["plan"]), EVERYTHING in due.keys)
        self._judge(led, result["failures"])
        broken = due.keys if result["failures"] else frozenset()
        if EVERYTHING in broken:
            broken = frozenset((EVERYTHING,))  # the others are a part of it
        with self._changed:
            for key in due.keys - broken:
                self._queue.done(key)
        if broken:
            first = result["failures"][0]
            self._failed(broken, f"cluster {first['cluster']}: cannot {first['operation']}: {first['message']}")
        # what waits for a cluster that is away would make each later reaction as long as that is away
        return frozenset() if any(row["reason"] in OUTAGES for row in result["failures"]) else broken

    def _note_held(self, reach: Data) -> None:
        """What a plan of everything found."""
        rows = [row for row in reach["classes"] if row["class"] in reach["stops"]]
        for row in rows:
            if row["class"] not in self._held:
                about = {"class": row["class"], "pairs": row["pairs"], "object": row["first_hop"]}
                self._log.say(self.name, "pairs_lost", message=row["message"], **about)
        with self._changed:
            self._held, self._held_pairs = tuple(reach["stops"]), sum(row["pairs"] for row in rows)
        self._report_held(self.name, rows)

    def _failed(self, keys: t.Collection[str], why: str) -> None:
        now = time.monotonic()
        with self._changed:
            pauses = [self._queue.failed(key, now) for key in keys]
        self._metrics.count("errors_total", capability=self.name)
        self._log.say(self.name, "failed", error=why, objects=sorted(keys)[:5], again_in=round(max(pauses), 1))


def _writes(plan: t.Mapping[str, t.Any]) -> int:
    """How many there were; the list of changes ends after the first few hundred."""
    return sum(plan.get(action, 0) for action in ("create", "update", "delete"))
