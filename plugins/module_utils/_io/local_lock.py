# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""A lock between the processes of one machine, held by a process of its own for as long as another one lives.

The lock is a socket with a name in the kernel, not a file: it needs no folder that everybody may write to, says who holds it
to whoever connects, and is gone with its process however that ends.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import signal
import socket
import sys
import threading
import time
import typing as t

Data = t.Dict[str, t.Any]
_ANSWER_BYTES = 64 * 1024
_ASK_SECONDS = 2.0


def socket_name(key: str) -> str:
    """The name under which everybody on this machine finds the lock of ``key``. Abstract: there is no file of it."""
    return "\0multicluster.network/run/" + hashlib.sha256(key.encode("utf-8")).hexdigest()[:24]


def ask(key: str) -> t.Optional[Data]:
    """What the holder says of itself; None when nobody has the lock, {} when somebody has it who does not answer."""
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as link:
        link.settimeout(_ASK_SECONDS)
        try:
            link.connect(socket_name(key))
        except OSError:
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
        except (OSError, ValueError):
            told = {}
        return told if isinstance(told, dict) else {}


class LocalLock:
    """``take`` once; ``info`` is what others are told and may be changed while it is held."""

    def __init__(self, key: str, info: Data) -> None:
        self.info = info
        self._key = key
        self._socket: t.Optional[socket.socket] = None

    def take(self) -> bool:
        """True when it is ours now; False when somebody else has it. Raises OSError where there are no such sockets."""
        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            door.bind(socket_name(self._key))
            door.listen(16)
        except OSError as error:
            door.close()
            if error.errno == errno.EADDRINUSE:
                return False
            raise
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


def birth(pid: int) -> str:
    """When a process began, in the kernel's ticks: with its number it names one process for ever. "" when it is no more."""
    try:
        with open("/proc/{0}/stat".format(pid), encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def lives(pid: int, born: str) -> bool:
    """Whether that very process still runs."""
    return bool(born) and birth(pid) == born


def outlive(pid: int, born: str, stop: threading.Event, pause: float = 0.25) -> None:
    """Return when the process has ended or ``stop`` is set."""
    while lives(pid, born) and not stop.wait(pause):
        continue
    stop.set()


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
    """Names of sockets without files are Linux's own."""
    return sys.platform.startswith("linux")


def moment() -> str:
    """Now, for people."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
