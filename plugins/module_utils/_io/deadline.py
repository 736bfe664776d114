# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A deadline that holds for every byte of an answer over TLS (T21)."""

from __future__ import annotations

import socket
import ssl
import threading
import time
import typing as t

#: The deadline of the request that the current thread is in, as time.monotonic().
_CURRENT = threading.local()


class DeadlineSocket(ssl.SSLSocket):
    """A TLS socket whose reads end at the deadline of the request.

    Socket timeouts alone start again with every byte, so a server that drips one byte every few seconds would hold
    a connection, and the run, for ever (T21).
    """

    def recv_into(self, buffer: t.Any, nbytes: t.Optional[int] = None, flags: int = 0) -> int:
        """As ssl.SSLSocket's, within the deadline."""
        deadline = getattr(_CURRENT, "deadline", None)
        timeout = self.gettimeout()
        if deadline is None:
            return super().recv_into(buffer, nbytes, flags)
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise socket.timeout("the request's time is over")
        if timeout is not None and timeout <= remaining:
            return super().recv_into(buffer, nbytes, flags)
        self.settimeout(remaining)
        try:
            return super().recv_into(buffer, nbytes, flags)
        finally:
            self.settimeout(timeout)


class within:
    """Context manager: every TLS read of this thread ends at the deadline."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline

    def __enter__(self) -> None:
        self.before = getattr(_CURRENT, "deadline", None)
        _CURRENT.deadline = self.deadline

    def __exit__(self, *unused: t.Any) -> None:
        _CURRENT.deadline = self.before
