# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node pods that go between runs (``node_pods: during_runs``): a process removes them where a run ended before it could.

A run removes its pods itself, at its end. One that failed early, was killed, or lost a node leaves them: a change that nobody confirmed is
taken back by a process in the pod, which must not end before. So this process waits for as long as that takes, and then for nobody: where
another run has the lock by then, the pods are that run's.
"""

from __future__ import annotations

import os
import threading
import time
import typing as t

from ..._io import local_lock
from ..._linux.errors import LinuxError
from ..._linux.host import processes
from ..._linux.host.lock import LockFile
from ..runs.run_lock import LockHolder, key_of
from . import cluster_objects

Data = dict[str, t.Any]
#: More than the seconds in which a change is taken back.
MARGIN_SECONDS = 30.0


def settle_seconds(hosts: int, given: t.Iterable[t.Any]) -> float:
    """Seconds until every change that nobody confirmed has been taken back. given: values of node_dataplane_rollback_seconds of hosts."""
    longest = max(60.0, 2.0 * hosts)
    for value in given:
        try:
            longest = max(longest, float(value))
        except (TypeError, ValueError):
            continue  # the module refuses it
    return longest + MARGIN_SECONDS


def _file_name(request: t.Mapping[str, t.Any]) -> str:
    """Of the process of a fabric; it must not look like the lock of a run."""
    return local_lock.file_name(key_of(request["fabric"], request["lock_clusters"])) + ".pods"


def forget(request: t.Mapping[str, t.Any]) -> bool:
    """End the process of an earlier task or run. request: as of ``watch``. True when there was one."""
    if not local_lock.is_supported():
        return False
    try:
        file = LockFile(local_lock.folder(), _file_name(request))
        record = file.record()
        ended = processes.end(record.get("watchdog", 0), record.get("watchdog_born", ""))
        for _attempt in range(50 if record else 0):
            if file.take(record):
                file.release()  # its file goes as well
                break
            time.sleep(0.1)
    except (OSError, LinuxError):
        return False
    return ended


def watch(request: t.Mapping[str, t.Any]) -> str:
    """Start the process; what is wrong as text where there is none, else empty.

    request: the options of cluster_objects, with ``pid`` and ``born`` of the run, ``settle`` seconds, and ``lock_clusters``, ``scope`` and
    ``namespace`` as the run's lock has them.
    """
    if not local_lock.is_supported():
        return "a process that removes them after a failed run needs Linux on the controller"
    forget(request)
    rows: list[Data] = []

    def on_row(row: Data) -> bool:
        rows.append(row)
        return True

    local_lock.watchdog(lambda report, stop: keep(request, report, stop), on_row)
    return str(rows[0].get("error") or "") if rows else "the process that removes them ended"


def keep(request: t.Mapping[str, t.Any], report: t.Callable[[Data], None], stop: threading.Event) -> None:
    """Wait for the end of the run and for ``settle`` seconds, then remove the pods. Reports {watching: True} or {error}, once."""
    file = LockFile(local_lock.folder(), _file_name(request))
    record = {"watchdog": os.getpid(), "watchdog_born": processes.birth(os.getpid())}
    try:
        for _attempt in range(50):  # the one before us is being ended
            if file.take(record):
                break
            stop.wait(0.1)
        else:
            report({"error": "another process already waits for the end of its run"})
            return
    except LinuxError as error:
        report({"error": str(error)})
        return
    report({"watching": True})
    try:
        ended = threading.Event()
        arguments = (request["pid"], request["born"], ended)
        threading.Thread(target=processes.outlive, args=arguments, daemon=True).start()
        while not ended.wait(0.5):
            if stop.is_set():
                return
        if not stop.wait(float(request["settle"])):
            remove(request, stop)
    finally:
        file.release()


def remove(request: t.Mapping[str, t.Any], stop: threading.Event) -> None:
    """Remove the pods of all clusters, unless another run is at work."""
    lock = {
        "fabric": request["fabric"],
        "clusters": request["lock_clusters"],
        "scope": request["scope"],
        "namespace": request["namespace"],
        "lock_wait": 0,
        "holder": "removal of the node pods",
        "pid": os.getpid(),
        "born": processes.birth(os.getpid()),
    }
    holder = LockHolder(lock, lambda row: None, stop)
    try:
        if request["scope"] == "none" or (holder.locally() and holder.in_clusters()):
            cluster_objects.run({**request, "state": "absent"})
    finally:
        holder.release()
