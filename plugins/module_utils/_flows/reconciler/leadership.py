# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of several reconcilers writes to a cluster: the one that has its Lease. Each cluster is led for itself, so that two reconcilers of
which each reaches some clusters serve them all, and none is written by both."""

from __future__ import annotations

import threading
import typing as t

from ..._io.structured_log import Log
from ..._kubernetes.access import AccessRefused
from ..._kubernetes.argspec import limits
from ..._kubernetes.errors import KubeError
from ..._kubernetes.lease import Lease, LeaseHeld, LeaseLost
from ..._kubernetes.watched import LastingClient
from ..._linux.host import processes
from ..._plan.objects import field_manager
from ..._values.refused import ValueRefused
from ..._values.text import parse_subdomain

#: A Lease of a reconciler that was killed, or cut off, is free after so many seconds.
LEASE_SECONDS = 15.0
#: How often somebody who waits looks whether he may begin, and whether he still leads.
_POLL = 0.5
_PAUSE = 5.0


def lease_name(fabric: str) -> str:
    """The Lease of a fabric's reconciler. Raises ValueRefused for fabrics with names that no object can have."""
    return parse_subdomain("multicluster-reconciler-" + fabric)


class Leadership:
    """Tries to lead every cluster until ``stop``; ``turned(cluster)`` is called when it begins to."""

    def __init__(
        self,
        entries: t.Iterable[t.Mapping[str, t.Any]],
        fabric: str,
        namespace: str,
        log: Log,
        turned: t.Callable[[str], None],
        timeout: float = 30.0,
    ) -> None:
        self._log, self._turned, self._namespace = log, turned, namespace
        self._name, self._manager = lease_name(fabric), field_manager(fabric)
        self._stop = threading.Event()
        self._leases: dict[str, Lease | None] = {}
        self._threads = []
        for entry in entries:
            name = str(entry["name"])
            try:
                client = LastingClient(entry, limits(timeout), connections=2)
            except AccessRefused as refused:
                log.say("leader", "refused", cluster=name, reason=refused.reason, message=refused.message)
                continue
            self._leases[name] = None
            self._threads.append(
                threading.Thread(target=self._lead, args=(name, client), name="mcn-lead-" + name, daemon=True)
            )

    def start(self) -> None:
        """Begin; returns at once."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Give every Lease back."""
        self._stop.set()
        for thread in self._threads:
            thread.join(10.0)

    def leads(self, cluster: str) -> bool:
        """Whether this process surely has the cluster's Lease, now."""
        lease = self._leases.get(cluster)
        try:
            if lease is not None:
                lease.check()
        except LeaseLost:
            return False
        return lease is not None

    @property
    def led(self) -> frozenset[str]:
        """The clusters that this process leads."""
        return frozenset(name for name in self._leases if self.leads(name))

    def _lead(self, name: str, client: LastingClient) -> None:
        reported = ""
        while not self._stop.is_set():
            lease = Lease(client, self._namespace, self._name, self._manager, LEASE_SECONDS, processes.has_ended)
            lease.holder = processes.identity()
            try:
                try:
                    lease.acquire(0.0, self._stop)
                except LeaseHeld as error:
                    reported = self._tell(name, reported, error.message)
                    lease.acquire(float("inf"), self._stop)
            except LeaseHeld:
                continue  # the end
            except (KubeError, ValueRefused) as error:
                reported = self._tell(name, reported, str(error))
                self._stop.wait(_PAUSE)
                continue
            reported = ""
            self._leases[name] = lease
            self._log.say("leader", "leads", cluster=name)
            self._turned(name)
            self._hold(name, lease)
            self._leases[name] = None
            lease.release()

    def _hold(self, name: str, lease: Lease) -> None:
        while not self._stop.wait(_POLL):
            try:
                lease.check()
            except LeaseLost as error:
                self._log.say("leader", "lost", cluster=name, message=error.message)
                return

    def _tell(self, name: str, reported: str, why: str) -> str:
        """Say it once."""
        if why != reported:
            self._log.say("leader", "waits", cluster=name, message=why)
        return why
