# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run on a fabric at a time: a lock on the controller, and, for fabrics that are run from several, a Lease in every cluster.

It has to be taken before the first read, since a run writes what it planned from what it read. So a Lease costs its three
requests in each cluster also where the run then changes nothing; the lock on the controller costs none.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import typing as t

from ..._io import local_lock
from ..._kubernetes.clusters import Clusters
from ..._kubernetes.errors import KubeError
from ..._kubernetes.lease import LONGEST, Lease, LeaseHeld, LeaseLost, holder_of
from ..._linux.errors import LinuxError
from ..._linux.host import processes
from ..._linux.host.lock import LockFile, read_record
from ..._plan.objects import field_manager
from ..._values.refused import ValueRefused, quoted
from ..._values.text import parse_subdomain

Data = dict[str, t.Any]
Report = t.Callable[[Data], None]
#: A Lease of a run that was killed is free after so many seconds; it is renewed so often in that time. A run over a few clusters takes some ten
#: seconds, and a renewal is how it notices that another run took its Lease.
LEASE_SECONDS, RENEWALS = 30.0, 7.5
#: A cluster that does not answer for so long gets no Lease; the run will say what is wrong with it.
LOOK_SECONDS = 5.0
#: How long a cluster is waited for that alone reports that another run is at work.
LONE_SECONDS = 30.0
LONE = "{0}; it is one of fewer than half of the clusters that say so, and a run has the Leases of all, so this run goes on without its Lease"
#: A run that is over gets so many seconds to give its Leases back before a second one calls it at work.
ENDING_SECONDS = 20.0
#: A run that has the lock for so long probably hangs: whoever waits for it gets a notice of that.
LONG_SECONDS = 24 * 3600.0
_POLL = 0.2
#: The Lease of a workflow is renewed so often while one of its jobs runs.
WORKFLOW_RENEWS = 10.0
#: For so many seconds it holds between two jobs, and where nobody gives it back.
BETWEEN, LONGEST_BETWEEN = 900.0, LONGEST


def key_of(fabric: str, clusters: t.Sequence[t.Mapping[str, t.Any]], workflow: str = "", pid: int | None = None) -> str:
    """What makes two runs runs of one fabric on one controller: its name, and the ways to its clusters.

    Jobs of a workflow run side by side, on one machine too, so each of their processes is a run of its own there.
    """
    ways = []
    for entry in clusters:
        way = entry.get("api_url") or entry.get("kubeconfig") or ""
        ways.append(
            [
                str(entry.get("name")),
                os.path.realpath(os.path.expanduser(way)) if isinstance(way, str) and "://" not in way else way,
            ]
        )
    own = [workflow, pid] if workflow else []
    return json.dumps([fabric, sorted(ways, key=str), *own], sort_keys=True, default=str)


def lease_name(fabric: str) -> str:
    """The Lease of a fabric; fabrics may have names that no object can have."""
    try:
        return parse_subdomain("multicluster-run-" + fabric)
    except ValueRefused:
        return "multicluster-run-" + hashlib.sha256(fabric.encode("utf-8")).hexdigest()[:16]


def held_by(key: str, pid: int) -> Data | None:
    """The record of the lock's holder when it is held for that very process, else None."""
    record = ask(key)
    mine = record and record.get("pid") == pid and record.get("born") == processes.birth(pid)
    return record if mine else None


def ask(key: str) -> Data | None:
    """The record of the process that keeps the lock; None when no such process lives."""
    try:
        record = read_record(local_lock.folder(), local_lock.file_name(key))
    except OSError:
        return None
    return record if processes.lives(record.get("watchdog"), record.get("watchdog_born")) else None


def at_work() -> set[tuple[t.Any, t.Any]]:
    """The runs that this process started, itself or through others, and that hold a lock, by process and start time."""
    found = set()
    for name in local_lock.names():
        record = read_record(local_lock.folder(), name)
        if processes.lives(record.get("watchdog"), record.get("watchdog_born")) and processes.descends(
            record.get("pid"), os.getpid()
        ):
            found.add((record.get("pid"), record.get("born")))
    return found


def take(request: t.Mapping[str, t.Any], on_row: t.Callable[[Data], bool]) -> None:
    """Start the process that holds the lock until the run ends; ``on_row`` gets its rows (see ``keep``).

    request: of ``keep``; ``born`` was found out while the run was still there to be asked.
    """
    local_lock.watchdog(lambda report, stop: keep(request, report, stop), on_row)


def keep(request: t.Mapping[str, t.Any], report: Report, stop: threading.Event) -> None:
    """Take the lock, hold it until the process ends, give it back.

    ``request``: {fabric, scope: controller|fabric, lock_wait, holder, pid, born, clusters, namespace, workflow, between, give_back}. Rows that are reported:
    {waiting: who}, at most once; then {held: True, leases: [cluster], unlocked: [failure]} or {held: False, who}.
    """
    if not processes.lives(request["pid"], request["born"]):
        return  # there is nobody to hold it for
    watch = threading.Thread(target=processes.outlive, args=(request["pid"], request["born"], stop), daemon=True)
    watch.start()
    holder = LockHolder(request, report, stop)
    try:
        if holder.locally() and holder.in_clusters():
            holder.tell()
            report({"held": True, "leases": sorted(holder.leases), "unlocked": holder.unlocked})
            holder.hold()
    finally:
        holder.release()


class LockHolder:
    def __init__(self, request: t.Mapping[str, t.Any], report: Report, stop: threading.Event) -> None:
        self._request, self._report, self._stop = request, report, stop
        self._deadline = time.monotonic() + float(request["lock_wait"])
        self._waiting = False
        self.leases: dict[str, Lease] = {}
        self.unlocked: list[Data] = []
        self._workflow = str(request.get("workflow") or "")
        self._key = key_of(request["fabric"], request["clusters"], self._workflow, request["pid"])
        self._file: LockFile | None = None
        self._info: Data = {
            "holder": request["holder"],
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "at": time.time(),
            "pid": request["pid"],
            "born": request["born"],
            "watchdog": os.getpid(),
            "watchdog_born": processes.birth(os.getpid()),
            "scope": request["scope"],
            "namespace": request["namespace"],
            "leases": [],
            "unlocked": [],
            "lost": "",
        }

    def locally(self) -> bool:
        """The lock on this machine."""
        if not local_lock.is_supported():
            return True
        try:
            self._file = LockFile(local_lock.folder(), local_lock.file_name(self._key))
            taken = self._wait_until(
                lambda: t.cast(LockFile, self._file).take(self._info), self._file.record, end_watchdog=True
            )
        except (LinuxError, OSError) as error:
            self._without("take the lock of this machine", "lock_unsupported", str(error))
            return not self._stop.is_set()
        return taken

    def _wait_until(self, take: t.Callable[[], bool], ask_holder: t.Callable[[], Data], end_watchdog: bool) -> bool:
        """Until ``take`` returns True; False when there is no time left for waiting."""
        ending = 0.0
        while not take():
            record = ask_holder()
            if (
                not processes.lives(record.get("pid"), record.get("born"))
                and not self._stop.is_set()
                and ending < ENDING_SECONDS
            ):
                ending += _POLL  # that run is over and about to give its Leases back: nobody needs a notice
                self._stop.wait(_POLL)
                continue
            if (
                ending >= ENDING_SECONDS
                and end_watchdog
                and processes.end(record.get("watchdog", 0), record.get("watchdog_born", ""))
            ):
                ending, end_watchdog = 0.0, False  # its run is over for long, and it hangs
                continue
            if not self._wait_for(describe(record)):
                return False
        return not self._stop.is_set()

    def _without(self, operation: str, reason: str, message: str) -> None:
        self.unlocked.append(
            {"cluster": "controller", "operation": operation, "reason": reason, "message": message, "status": None}
        )

    def in_clusters(self) -> bool:
        """A Lease in every cluster that answers, in the order of their names, so that two runs never wait for each other."""
        if self._request["scope"] != "fabric":
            return True
        name, namespace = lease_name(self._request["fabric"]), self._request["namespace"]
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
        clusters = Clusters(self._request["clusters"], LOOK_SECONDS)

        found = clusters.read("look at the lock", lambda unused, client: client.find(path))
        manager = field_manager(self._request["fabric"])
        servers: dict[str, str] = {}
        for cluster in sorted(found):
            servers.setdefault(
                clusters.clients[cluster].access.server, cluster
            )  # one API server under two names has one Lease
        names = sorted(servers.values())
        holding = [cluster for cluster in names if found[cluster] is not None]
        held: dict[str, LeaseHeld] = {}

        def take(cluster: str, wait: float) -> None:
            client = clusters.clients[cluster]
            client.limits = client.limits._replace(
                run_bytes=None, run_memory=None, write_seconds=None
            )  # it renews for as long as the run goes on
            lease = self._lease(client, name, manager)
            try:
                lease.acquire(max(0.0, min(wait, self._deadline - time.monotonic())), self._stop)
                self.leases[cluster] = lease
                held.pop(cluster, None)
            except LeaseHeld as error:
                held[cluster] = error
            except KubeError as error:
                clusters.fail(error)

        for cluster in names:
            if cluster in holding:
                self._tell(f"cluster {cluster}: {holder_of(found[cluster])}")
            lone = holding == [cluster] and is_outnumbered(1, len(names))
            take(cluster, LONE_SECONDS if lone else float("inf"))
            if cluster in held and (self._stop.is_set() or not is_outnumbered(len(held), len(names))):
                self._report({"held": False, "who": f"cluster {cluster}: {held[cluster].message}"})
                return False
        for cluster in sorted(held):
            take(cluster, 0.0)
        self.unlocked += clusters.failures
        self.unlocked += [
            dict(error.failure(), reason="lock_claimed", message=LONE.format(error.message))
            for unused, error in sorted(held.items())
        ]
        return not self._stop.is_set()

    def _lease(self, client: t.Any, name: str, manager: str) -> Lease:
        """That of this run, or of the workflow to which it belongs: all jobs of one hold it under one name."""
        namespace = self._request["namespace"]
        if not self._workflow:
            lease = Lease(client, namespace, name, manager, LEASE_SECONDS, renew_every=LEASE_SECONDS / RENEWALS)
            lease.holder = f"{self._request['holder']} {lease.holder}"
            return lease
        lease = Lease(
            client,
            namespace,
            name,
            manager,
            float(self._request.get("between") or BETWEEN),
            renew_every=WORKFLOW_RENEWS,
        )
        lease.holder = workflow_holder(self._workflow)
        return lease

    def hold(self) -> None:
        """Until the run ends. Losing the Lease fails the next playbook; an unreachable API server does not."""
        while not self._stop.wait(1.0):
            lost = {}
            for cluster, lease in self.leases.items():
                try:
                    lease.check()
                except LeaseLost as error:
                    if "could not be renewed" not in error.message:
                        lost[cluster] = f"cluster {cluster}: {error.message}"
            if lost and not is_outnumbered(len(lost), len(self.leases)):
                self._info["lost"] = lost[min(lost)]
                self.tell()

    def tell(self) -> None:
        """Say in the lock's file what is held now."""
        self._info.update(leases=sorted(self.leases), unlocked=self.unlocked)
        if self._file is not None:
            self._file.tell(self._info)

    def release(self) -> None:
        """Give everything back, the lock on this machine last."""
        stays = self._workflow and not self._request.get("give_back")
        for lease in self.leases.values():
            if stays:
                lease.leave()
            else:
                lease.release()
        if self._file is not None:
            self._file.release()

    def _wait_for(self, who: str) -> bool:
        """False when there is no time left for waiting."""
        if self._stop.is_set() or time.monotonic() >= self._deadline:
            self._report({"held": False, "who": who})
            return False
        self._tell(who)
        self._stop.wait(_POLL)
        return True

    def _tell(self, who: str) -> None:
        if not self._waiting and time.monotonic() < self._deadline:
            self._report({"waiting": who})
        self._waiting = True


def workflow_holder(workflow: str) -> str:
    """By which name all jobs of a workflow hold its Leases."""
    return f"workflow {workflow}"


def is_outnumbered(claims: int, clusters: int) -> bool:
    """Whether fewer than half of the clusters say that another run is at work: a run has the Leases of all that answer it, and what one
    cluster reports is its claim alone, with which it could stop everybody's runs."""
    return claims * 2 < clusters


def describe(record: t.Mapping[str, t.Any]) -> str:
    """Who holds the lock, which process keeps it for whom, and what frees it."""
    text = f"{quoted(record.get('holder', '?'))} since {quoted(record.get('since', '?'))}"
    pid, watchdog = record.get("pid"), record.get("watchdog")
    if processes.lives(pid, record.get("born")):
        text += (
            f", process {pid}; its lock is kept by process {watchdog}; `kill {pid}` ends that run and frees the lock"
        )
        at = record.get("at")
        if isinstance(at, (int, float)) and time.time() - at > LONG_SECONDS:
            text += f" (it has had it for {(time.time() - at) / 3600:.0f} hours, so it probably hangs)"
    elif processes.lives(watchdog, record.get("watchdog_born")):
        text += f", a run that is over; its lock is kept by process {watchdog}; `kill -9 {watchdog}` frees it"
    return text


def check_request(request: t.Mapping[str, t.Any]) -> None:
    """Raises ValueError before anything is started."""
    field_manager(str(request["fabric"]))
    parse_subdomain(str(request["namespace"]), "name_invalid")
    if float(request["lock_wait"]) < 0:
        raise ValueRefused("value_range", "lock_wait must not be negative")
    if not LEASE_SECONDS <= float(request.get("between") or BETWEEN) <= LONGEST_BETWEEN:
        text = "run_lock_between (multicluster_workflow_between) must be from {0:.0f} to {1:.0f} seconds"
        raise ValueRefused("value_range", text.format(LEASE_SECONDS, LONGEST_BETWEEN))
    if len(str(request.get("workflow") or "")) > 200:
        raise ValueRefused(
            "value_range", "run_lock_workflow (multicluster_workflow) must not be longer than 200 characters"
        )
