# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer at a time on a host."""

from __future__ import annotations

import os
import socket
import time
import types
import typing as t

from ..errors import LinuxError
from . import processes
from .lock_file import LockFile

#: Root's alone, and beside nothing that others may read.
FOLDER = "/run/multicluster-network-lock"
#: Earlier releases held a name of the kernel's socket space, which any user can take. So this one takes it too where it can, and
#: waits for a holder of it no longer than this: it goes on with its file.
FORMER_SECONDS = 10.0
_PAUSE = 0.1
#: A holder that nobody can find is about to end, or in a container of its own.
_UNSEEN_SECONDS = 1.0


class HostLock:
    """``with`` it one process at a time works on ``name``. ``warnings``: who had a name that should have been ours."""

    def __init__(self, name: str, wait_seconds: float, former_seconds: float = FORMER_SECONDS) -> None:
        self._name, self._wait, self._former_wait = name, wait_seconds, min(former_seconds, wait_seconds)
        self._file = LockFile(FOLDER, name.replace("/", "_") + ".lock")
        self._former: t.Optional[socket.socket] = None
        self.warnings: t.List[str] = []

    def __enter__(self) -> "HostLock":
        deadline = time.monotonic() + self._wait
        record = {"pid": os.getpid(), "born": processes.birth(os.getpid()), "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        while not self._file.take(record):
            if time.monotonic() >= deadline:
                raise LinuxError("lock", self._name, self._held())
            time.sleep(_PAUSE)
        try:
            self._take_former()
        except BaseException:
            self._file.release()
            raise
        return self

    def _held(self) -> str:
        message = "another run has been changing this host for {0:.0f} s".format(self._wait)
        told = self._file.told()
        if processes.lives(told.get("pid"), told.get("born")):
            pid = int(told["pid"])
            message += ": process {0} ({1}) since {2}; if it hangs, `kill {0}` on this host frees the lock".format(
                pid, processes.command(pid), str(told.get("since"))[:32]
            )
        return message

    def _take_former(self) -> None:
        deadline = time.monotonic() + self._former_wait
        unseen = time.monotonic() + min(_UNSEEN_SECONDS, self._former_wait)
        while True:
            self._former = _bind(self._name)
            if self._former is not None:
                return
            holders = processes.name_holders(self._name)
            ours = [pid for pid, uid in holders if uid == os.geteuid()]
            if holders and not ours:
                break  # no run of ours, and nobody else has a right to it
            if time.monotonic() >= (deadline if ours else unseen):
                break
            time.sleep(_PAUSE)
        who = ", ".join("process {0} of user {1} ({2})".format(pid, uid, processes.command(pid)) for pid, uid in holders) or "a process that cannot be seen"
        self.warnings.append(
            "the socket name @{0} is held by {1}; it only keeps runs of earlier releases out, so this run went on without it".format(self._name, who)
        )

    def __exit__(
        self,
        kind: t.Optional[t.Type[BaseException]],
        error: t.Optional[BaseException],
        trace: t.Optional[types.TracebackType],
    ) -> None:
        if self._former is not None:
            self._former.close()
            self._former = None
        self._file.release()


def _bind(name: str) -> t.Optional[socket.socket]:
    held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        held.bind("\0" + name)
    except OSError:
        held.close()
        return None
    return held
