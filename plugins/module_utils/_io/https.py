# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP and HTTPS with a deadline that holds for every byte of an answer (T21), and asking a server by it whether it is healthy: one GET without credentials,
nothing followed, nothing kept."""

from __future__ import annotations

import contextlib
import functools
import http.client
import socket
import ssl
import threading
import time
import typing as t
import urllib.parse

#: The deadline of the request that the current thread is in, as time.monotonic().
_CURRENT = threading.local()


def _left(timeout: float | None) -> float | None:
    """Seconds to the deadline of the request, None where the socket's own timeout ends before. Raises socket.timeout once it has passed."""
    deadline = getattr(_CURRENT, "deadline", None)
    if deadline is None:
        return None
    remaining: float = deadline - time.monotonic()
    if remaining <= 0:
        raise socket.timeout("the request's time is over")
    return None if timeout is not None and timeout <= remaining else remaining


@contextlib.contextmanager
def _before_deadline(made: socket.socket) -> t.Iterator[None]:
    """A read of the socket ends at the deadline of the request. Raises socket.timeout once it has passed."""
    timeout = made.gettimeout()
    left = _left(timeout)
    if left is not None:
        made.settimeout(left)
    try:
        yield
    finally:
        if left is not None:
            made.settimeout(timeout)


class DeadlineSocket(ssl.SSLSocket):
    """A TLS socket that ends its reads at the deadline of the request.

    Socket timeouts alone start again with every byte, so a server that drips one byte every few seconds would hold
    a connection, and the run, for ever (T21).
    """

    def recv_into(self, buffer: t.Any, nbytes: int | None = None, flags: int = 0) -> int:
        """As ssl.SSLSocket's, within the deadline."""
        with _before_deadline(self):
            return super().recv_into(buffer, nbytes, flags)

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """As ssl.SSLSocket's, within the deadline: TLS inside of TLS reads by it."""
        with _before_deadline(self):
            return super().recv(buflen, flags)


class PlainDeadlineSocket(socket.socket):
    """The same without TLS: plain HTTP, and what a proxy answers to CONNECT."""

    def recv_into(self, buffer: t.Any, nbytes: int = 0, flags: int = 0) -> int:
        """As socket.socket's, within the deadline."""
        with _before_deadline(self):
            return super().recv_into(buffer, nbytes, flags)


def deadline_socket(made: socket.socket) -> PlainDeadlineSocket:
    """The same connection, as such a socket; the one that is given is closed by it."""
    timeout = made.gettimeout()
    steady = PlainDeadlineSocket(made.family, made.type, made.proto, made.detach())
    steady.settimeout(timeout)
    return steady


def within_deadlines(pools: t.Any) -> t.Any:
    """A pool manager of urllib3 -> the same, every connection of which begins with a socket that keeps deadlines."""
    pools.pool_classes_by_scheme = {
        scheme: _deadline_pool(pool) for scheme, pool in pools.pool_classes_by_scheme.items()
    }
    return pools


@functools.cache
def _deadline_pool(pool: t.Any) -> t.Any:
    """A kind of pool of urllib3 with connections over such sockets."""

    def connect(self: t.Any) -> socket.socket:
        return deadline_socket(pool.ConnectionCls._new_conn(self))

    connection = type(pool.ConnectionCls.__name__, (pool.ConnectionCls,), {"_new_conn": connect})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})


class within:
    """Context manager: every read of this thread from such a socket ends at the deadline."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline

    def __enter__(self) -> None:
        self.before = getattr(_CURRENT, "deadline", None)
        _CURRENT.deadline = self.deadline

    def __exit__(self, *unused: t.Any) -> None:
        _CURRENT.deadline = self.before


class _Named(http.client.HTTPSConnection):
    """To one address, with the certificate of a name: API servers are asked by address and carry a name in common."""

    def __init__(self, host: str, port: int, name: str, context: ssl.SSLContext, seconds: float) -> None:
        super().__init__(host, port, timeout=seconds, context=context)
        self._name, self._tls = name or host, context

    def connect(self) -> None:
        """As its parent's, with the other name."""
        plain = socket.create_connection((self.host, self.port), self.timeout)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self._name)


class HealthProbe:
    """``ca_pem`` None: the system's trust store; ``verify`` False: any certificate, as cloud-provider-equinix-metal did (decision 22)."""

    def __init__(self, ca_pem: str | None, name: str, verify: bool = True, seconds: float = 5.0) -> None:
        self._name, self._seconds = name, seconds
        self._context = ssl.create_default_context(cadata=ca_pem) if ca_pem else ssl.create_default_context()
        self._context.sslsocket_class = DeadlineSocket
        if not verify:
            self._context.check_hostname = False
            self._context.verify_mode = ssl.CERT_NONE
        self.count = 0

    def __call__(self, url: str) -> int | None:
        """The HTTP status, None when there was no answer within the time."""
        self.count += 1
        parts = urllib.parse.urlsplit(url)
        connection = _Named(str(parts.hostname), parts.port or 443, self._name, self._context, self._seconds)
        try:
            # a server that only takes connections, or answers byte by byte, is not healthy
            with within(time.monotonic() + self._seconds):
                connection.request("GET", parts.path)
                return connection.getresponse().status
        except (OSError, ssl.SSLError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
