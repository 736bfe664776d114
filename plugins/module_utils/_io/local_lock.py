# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lock between the runs of one user on one machine, held by a process of its own for as long as another one lives.

The lock is a file in a folder that nobody else can enter: no other user can hold it, and it names its holder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import pwd
import signal
import sys
import threading
import typing as t

Data = dict[str, t.Any]


def folder() -> str:
    """Where the locks of this user lie: the same one from a shell, by sudo and from cron, so no variable decides. Raises OSError."""
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a container may know no such user
        home = os.environ.get("HOME", "")
    if not pathlib.PurePath(home).is_absolute():
        raise OSError(f"user {os.geteuid()} has no home folder")
    return str(pathlib.PurePath(home, ".local", "state", "multicluster-network", "locks"))


def names() -> list[str]:
    """The files of all locks of this user, whether somebody holds them or not."""
    try:
        return sorted(file.name for file in pathlib.Path(folder()).iterdir() if file.name.endswith(".lock"))
    except OSError:
        return []


def file_name(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8")).hexdigest()[:24] + ".lock"


def watchdog(
    body: t.Callable[[t.Callable[[Data], None], threading.Event], None], on_row: t.Callable[[Data], bool]
) -> None:
    """Run ``body(report, stop)`` in a process of its own that nobody waits for, until it returns.

    Each ``report`` comes out here as a call of ``on_row``, until that returns True or the process ends. SIGTERM and SIGINT set
    ``stop``. Of the caller's files the process keeps none, so nobody waits for it unknowingly.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                _live(body, writer)
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, encoding="utf-8") as lines:
        for line in lines:
            if on_row(json.loads(line)):
                break


def _live(body: t.Callable[[t.Callable[[Data], None], threading.Event], None], writer: int) -> None:
    os.chdir("/")
    pipe = os.dup2(writer, 3)
    os.closerange(4, min(65536, os.sysconf("SC_OPEN_MAX")))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *unused: stop.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def report(row: Data) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more
            os.write(pipe, (json.dumps(row) + "\n").encode("utf-8"))

    try:
        body(report, stop)
    except Exception as error:  # what is not reported here is reported nowhere
        report({"error": f"{type(error).__name__}: {error}"})


def is_supported() -> bool:
    """What distinguishes a process from a later one with its number is read the way of Linux."""
    return sys.platform.startswith("linux")
