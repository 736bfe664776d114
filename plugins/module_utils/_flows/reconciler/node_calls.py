# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes announce, or have as pod ranges of peers, sent to all of them in one node call: what changes meanwhile is the next.

A node call is a short play (playbooks/plays/speakers.yml, pod_ranges.yml) that gets that with it. It asks no API server, takes no lock of the fabric, and
changes nothing else on nodes, so it may run alongside plays that write something else. Where it does not succeed on every node, the playbook of
the capability is asked for, which does all of it and is repeated until it has.
"""

from __future__ import annotations

import threading
import time
import typing as t

from ..._io.settings_source import play_path, private_folder, write_json
from ..._io.structured_log import Log
from ..._io.warm_playbooks import WarmPlaybooks
from .metrics import Metrics

Data = dict[str, t.Any]
#: By cluster: {routes: as the module bgp_speaker takes them, left_out: {node: why}}, or the option ``orders`` of the module peer_ranges.
Orders = dict[str, Data]
#: Notifies nodes; whether all of them were reached.
Speak = t.Callable[[Orders], bool]
#: Of the play: the orders.
VARIABLE = "__load_balancers_orders"
BOOK = play_path("speakers.yml")
#: The same of pod ranges.
RANGES_VARIABLE, RANGES_BOOK = "__pod_ranges_orders", play_path("pod_ranges.yml")
#: One way to each node and back instead of five, and notice of a node that has died, where the inventory does not set otherwise.
_QUICK = {"ANSIBLE_PIPELINING": "true", "ANSIBLE_SSH_EXTRA_ARGS": "-o ServerAliveInterval=3 -o ServerAliveCountMax=3"}
#: So often a node call that has to wait looks whether it still has to, in seconds.
_PAUSE = 0.2


class PlaySpeaker:
    """Calls nodes by a short play of ``command``, ansible-playbook with the inventory, which a process alongside this one has in memory from the first on."""

    def __init__(
        self, command: t.Sequence[str], seconds: float, stop: threading.Event, log: Log, metrics: Metrics
    ) -> None:
        self._seconds, self._stop, self._metrics = seconds, stop, metrics
        self._playbooks = WarmPlaybooks(
            command, _QUICK, lambda message: log.once("speakers", "starts Ansible for each node call", message=message)
        )

    def __call__(self, orders: Orders) -> bool:
        return self._play(VARIABLE, orders, BOOK)

    def set_ranges(self, orders: Orders) -> bool:
        """The same of pod ranges of peers."""
        return self._play(RANGES_VARIABLE, orders, RANGES_BOOK)

    def _play(self, variable: str, orders: Orders, book: str) -> bool:
        with private_folder() as folder:
            path = write_json(folder, "orders.json", {variable: orders})
            before = self._playbooks.starts
            try:
                return self._playbooks.run(["-e", "@" + path, book], self._seconds, self._stop) == 0
            finally:
                self._metrics.count("ansible_starts_total", self._playbooks.starts - before)

    def prepare(self) -> None:
        """Have Ansible in memory before the first call."""
        self._playbooks.prepare()

    def end(self) -> None:
        """After the node call that is under way."""
        self._playbooks.stop()


class NodeCalls:
    """``ask`` may be called from any thread. ``free(cluster)``: whether its nodes may be notified now; what waits for that is sent in its newest form.
    ``broken()`` is called when not every node could be notified. ``name`` and ``done``: in the log and the metrics, and how it ended there.
    ``join``: of the orders of a cluster that wait, and later ones, where these are not all of it."""

    def __init__(
        self,
        speak: Speak,
        free: t.Callable[[str], bool],
        broken: t.Callable[[], None],
        log: Log,
        metrics: Metrics,
        name: str = "speakers",
        done: tuple[str, str] = ("notified", "not notified"),
        join: t.Callable[[Data, Data], Data] = lambda before, after: after,
    ) -> None:
        self._speak, self._free, self._broken, self._log, self._metrics = speak, free, broken, log, metrics
        self._name, self._done, self._join = name, done, join
        self._changed = threading.Condition()
        self._stopping = False
        self._waiting: dict[str, tuple[Data, float]] = {}
        self._thread = threading.Thread(target=self._work, name="mcn-" + name, daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it works."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """After the node call that is under way; whoever makes it ends it."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def ask(self, orders: Orders, since: float) -> None:
        """Nodes of these clusters have to announce this. ``since``: when what asks for it became known."""
        with self._changed:
            for cluster, order in orders.items():
                before = self._waiting.get(cluster)
                self._waiting[cluster] = (self._join(before[0], order), before[1]) if before else (order, since)
            self._changed.notify()

    def __len__(self) -> int:
        with self._changed:
            return len(self._waiting)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._stopping and not self._waiting:
                    self._changed.wait()
                if self._stopping:
                    return
                names = sorted(self._waiting)
            ready = [name for name in names if self._free(name)]
            with self._changed:
                if not ready:
                    self._changed.wait(_PAUSE)
                    continue
                due = {name: self._waiting.pop(name) for name in ready}
            self._call_nodes(due)

    def _call_nodes(self, due: t.Mapping[str, tuple[Data, float]]) -> None:
        begun = time.monotonic()
        try:
            well = self._speak({name: order for name, (order, unused) in due.items()})
        except (OSError, ValueError) as error:  # a full disk, say: the playbook is tried again and again
            self._log.say(self._name, "failed", error=str(error))
            well = False
        now = time.monotonic()
        self._metrics.count("node_calls_total", of=self._name, result="ok" if well else "failed")
        self._log.say(
            self._name,
            self._done[not well],
            clusters=sorted(due),
            seconds=round(now - begun, 1),
            after=round(now - min(since for unused, since in due.values()), 1),
        )
        if not well:
            self._broken()
