# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lock between the runs of one user on one machine, held by a process of its own for as long as another one lives.

The lock is a file in a folder that nobody else can enter: no other user can hold it, and it says who does. Earlier releases used a
name of the kernel's socket space, which any user can take; that one is taken too where it can be, so that their runs are kept out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import signal
import socket
import struct
import sys
import threading
import typing as t

Data = t.Dict[str, t.Any]
_ANSWER_BYTES = 64 * 1024
_ASK_SECONDS = 2.0


def folder() -> str:
    """Where the locks of this user lie: the same one from a shell, by sudo and from cron, so no variable decides. Raises OSError."""
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a container may know no such user
        home = os.environ.get("HOME", "")
    if not os.path.isabs(home):
        raise OSError("user {0} has no home folder".format(os.geteuid()))
    return os.path.join(home, ".local", "state", "multicluster-network", "locks")


def names() -> t.List[str]:
    """The files of all locks of this user, whether somebody holds them or not."""
    try:
        return sorted(name for name in os.listdir(folder()) if name.endswith(".lock"))
    except OSError:
        return []


def file_name(key: str) -> str:
    return _digest(key) + ".lock"


def former_name(key: str) -> str:
    """The name in the socket space under which runs of earlier releases find the lock."""
    return "\0multicluster.network/run/" + _digest(key)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8")).hexdigest()[:24]


def ask_former(key: str) -> t.Optional[Data]:
    """What a run of this user and of an earlier release says of itself; {} when it says nothing.

    None: nobody, or somebody who is another user or does not listen, and so is no such run.
    """
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as link:
        link.settimeout(_ASK_SECONDS)
        try:
            link.connect(former_name(key))
            uid = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        except OSError:
            return None
        if uid != os.geteuid():
            return None
        try:
            parts, size = [], 0
            while size < _ANSWER_BYTES:
                part = link.recv(65536)
                if not part:
                    break
                parts.append(part)
                size += len(part)
            told = json.loads(b"".join(parts))
        except (OSError, ValueError, RecursionError):
            told = {}
        return told if isinstance(told, dict) else {}


class FormerName:
    """``take`` once; ``info`` is what runs of earlier releases are told and may be changed while it is held."""

    def __init__(self, key: str, info: Data) -> None:
        self.info = info
        self._key = key
        self._socket: t.Optional[socket.socket] = None

    def take(self) -> bool:
        """True when it is ours now; False when somebody else has it or there are no such names here."""
        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            door.bind(former_name(self._key))
            door.listen(16)
        except OSError:
            door.close()
            return False
        self._socket = door
        threading.Thread(target=self._serve, name="mcn-lock", daemon=True).start()
        return True

    def release(self) -> None:
        """Give it back, where the process lives on."""
        door, self._socket = self._socket, None
        if door is not None:
            with contextlib.suppress(OSError):
                door.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for somebody to ask
            door.close()

    def _serve(self) -> None:
        door = self._socket
        while door is not None and self._socket is door:
            with contextlib.suppress(OSError):
                link, unused = door.accept()
                with contextlib.closing(link):
                    link.settimeout(_ASK_SECONDS)
                    link.sendall(json.dumps(self.info).encode("utf-8"))


def keeper(body: t.Callable[[t.Callable[[Data], None], threading.Event], None], told: t.Callable[[Data], bool]) -> None:
    """Run ``body(report, stop)`` in a process of its own that nobody waits for, until it returns.

    Each ``report`` comes out here as a call of ``told``, until that returns True or the process ends. SIGTERM and SIGINT set
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
            if told(json.loads(line)):
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
    except Exception as error:  # what is not told here is told nowhere
        report({"error": "{0}: {1}".format(type(error).__name__, error)})


def is_supported() -> bool:
    """What tells one process from a later one of its number is read the way of Linux."""
    return sys.platform.startswith("linux")
