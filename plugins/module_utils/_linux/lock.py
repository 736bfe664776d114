# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""One writer at a time on a host, without a file that somebody would have to remove (threat T24)."""

from __future__ import annotations

import errno
import socket
import time
import types
import typing as t

from .errors import LinuxError

_PAUSE = 0.1


class HostLock:
    """Held while a name in the kernel's abstract socket space is ours; gone with the process, however it ends."""

    def __init__(self, name: str, wait_seconds: float) -> None:
        self._name, self._wait = name, wait_seconds
        self._socket: t.Optional[socket.socket] = None

    def __enter__(self) -> "HostLock":
        deadline = time.monotonic() + self._wait
        while True:
            held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            try:
                held.bind("\0" + self._name)
                self._socket = held
                return self
            except OSError as error:
                held.close()
                if error.errno != errno.EADDRINUSE:
                    raise
            if time.monotonic() >= deadline:
                message = "another run has been changing this host for {0:.0f} s".format(self._wait)
                raise LinuxError("lock", self._name, message)
            time.sleep(_PAUSE)

    def __exit__(
        self,
        kind: t.Optional[t.Type[BaseException]],
        error: t.Optional[BaseException],
        trace: t.Optional[types.TracebackType],
    ) -> None:
        if self._socket is not None:
            self._socket.close()
