# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to one API server, within limits on time, bytes and memory, and its answers as plain JSON (T14, T21, T22).

They go through urllib3, the pool of the kubernetes library, directly: its object model costs ten times the decoding, and its own
request functions follow redirects and try again.
"""

from __future__ import annotations

import json
import random
import socket
import ssl
import threading
import time
import typing as t
import urllib.parse

from .._io.https import within
from .._values.refused import quoted
from .._values.text import is_digits, mapping
from . import errors
from .access import Access
from .decode import decode, memory_of
from .transport import Transport, connect, library

MIB = 1024 * 1024
#: The most that one request may take, whatever the user allows for all of them.
BUILT_IN_SECONDS = 30.0


class Limits(t.NamedTuple):
    """Bounds for one cluster: seconds, bytes, counts. ``tries`` includes the first.

    ``list_bytes`` and ``list_memory`` (bytes that the decoded objects need, see memory_of) hold for all pages of a list together,
    ``run_bytes`` and ``run_memory`` for everything that a client reads, ``write_seconds`` for its writes; None is no bound, for a client
    that lives as long as a service.
    """

    connect_seconds: float = 10.0
    request_seconds: float = BUILT_IN_SECONDS
    list_seconds: float = 120.0
    answer_bytes: int = 64 * MIB
    list_bytes: int = 256 * MIB
    list_memory: int = 1024 * MIB
    run_bytes: int | None = 1024 * MIB
    run_memory: int | None = 2048 * MIB
    write_seconds: float | None = None
    objects: int = 200_000
    pages: int = 2_000
    depth: int = 64
    tries: int = 4
    retry_seconds: float = 10.0


def scaled(limits: Limits, mib: int | None) -> Limits:
    """The limits for a cluster with lists of up to so many MiB; None: as they are."""
    if mib is None:
        return limits
    return limits._replace(
        answer_bytes=min(limits.answer_bytes, mib * MIB),
        list_bytes=mib * MIB,
        list_memory=4 * mib * MIB,
        run_bytes=None if limits.run_bytes is None else 4 * mib * MIB,
        run_memory=None if limits.run_memory is None else 8 * mib * MIB,
    )


class Allowance:
    """What is left of the bounds of one list: bytes while they are read, memory before they are decoded."""

    def __init__(self, limits: Limits) -> None:
        self.bytes, self.memory = limits.list_bytes, limits.list_memory


class Request(t.NamedTuple):
    """``verb`` is Kubernetes' name of it, for messages and counts; ``query`` may name a key twice, as pairs; ``body`` is sent as JSON."""

    verb: str
    method: str
    path: str
    query: t.Mapping[str, str] | t.Sequence[tuple[str, str]] | None = None
    body: t.Mapping[str, t.Any] | None = None
    content_type: str = "application/json"
    headers: t.Mapping[str, str] | None = None

    @property
    def operation(self) -> str:
        """As errors name it."""
        return f"{self.verb} {self.path}"


class Session:
    """The connections to one API server; may be used from several threads. ``stats`` counts the requests sent, by verb."""

    def __init__(self, access: Access, limits: Limits | None = None, connections: int = 10) -> None:
        self.access, self.cluster = access, access.cluster
        self.limits = scaled(limits or Limits(), access.read_limit_mib)
        self.bytes_read, self.memory_used = 0, 0
        #: what came in parts, see ``stream``
        self.bytes_streamed = 0
        self.stats: dict[str, int] = {}
        self._connections = connections
        self._lock = threading.Lock()
        self._transport: Transport | None = None

    def error(self, kind: type[errors.KubeError], operation: str, message: str, **more: t.Any) -> errors.KubeError:
        """An error of this cluster."""
        return kind(self.cluster, operation, message, **more)

    def send(self, request: Request, deadline: float, allowance: Allowance | None = None) -> t.Any:
        """The answer, decoded. Sends until it works, fails for good, or tries and time (``deadline`` of all tries together) are used up."""
        allowance = allowance or Allowance(self.limits)
        for attempt in range(1, self.limits.tries + 1):
            try:
                return self._send_once(request, deadline, allowance)
            except errors.KubeError as error:
                # a timeout has used the time already; a POST may have worked unless the server reports that it did not
                again = error.retryable and not isinstance(error, (errors.TimedOut, errors.Expired))
                if request.method == "POST" and error.status != 429:
                    again = False
                if not again or attempt == self.limits.tries:
                    raise
                pause = min(self.limits.retry_seconds, error.retry_after or 0.2 * 2 ** (attempt - 1))
                pause *= 0.75 + random.random() / 2
                if time.monotonic() + pause >= deadline:
                    raise
                time.sleep(pause)
        raise AssertionError("no try was made")

    def stream(self, request: Request, seconds: float) -> t.Generator[bytes, None, None]:
        """The answer in parts as they come, after an empty one as soon as the server answers."""
        urllib3 = library(self.cluster)
        answer = None
        try:
            with within(time.monotonic() + seconds):
                answer = self._open(self._connected(), request, seconds)
                if answer.status != 200:
                    allowance = Allowance(self.limits)
                    self._judge(
                        answer,
                        self._read(answer, request.operation, time.monotonic() + 10.0, allowance),
                        request.operation,
                        allowance,
                    )
                    raise self.error(errors.BadAnswer, request.operation, f"HTTP status {answer.status}")
                yield b""
                for part in answer.stream(65536, decode_content=False):
                    self.bytes_streamed += len(part)
                    yield part
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._broken(error, request.operation, seconds) from None
        finally:
            if answer is not None:
                answer.close()

    def upgrade(self, request: Request, seconds: float) -> t.Any:
        """The answer of a server that has switched protocols; its connection is the caller's, to use and to close. Raises KubeErrors."""
        urllib3 = library(self.cluster)
        try:
            with within(time.monotonic() + seconds):
                answer = self._open(self._connected(), request, seconds)
                if answer.status == 101:
                    return answer
                try:
                    allowance = Allowance(self.limits)
                    payload = self._read(answer, request.operation, time.monotonic() + seconds, allowance)
                finally:
                    answer.close()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._broken(error, request.operation, seconds) from None
        if not 200 <= answer.status < 300:
            self._judge(answer, payload, request.operation, allowance)
        raise self.error(errors.BadAnswer, request.operation, f"HTTP status {answer.status}, and no other protocol")

    # -- one request

    def _connected(self) -> Transport:
        with self._lock:
            if self._transport is None:
                self._transport = connect(self.access, self._connections, self.limits.request_seconds)
            return self._transport

    def _send_once(self, request: Request, deadline: float, allowance: Allowance) -> t.Any:
        urllib3 = library(self.cluster)
        transport = self._connected()  # which may take its own time
        seconds = min(self.limits.request_seconds, deadline - time.monotonic())
        if seconds <= 0:
            raise self.error(errors.TimedOut, request.operation, "no time is left" + self._owner(request.verb, 0))
        try:
            with within(time.monotonic() + seconds):
                answer = self._open(transport, request, seconds)
                try:
                    payload = self._read(answer, request.operation, time.monotonic() + seconds, allowance)
                except BaseException:
                    answer.close()  # half-read: the connection is of no further use
                    raise
                answer.release_conn()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._broken(error, request.operation, seconds) from None
        return self._judge(answer, payload, request.operation, allowance)

    def _open(self, transport: Transport, request: Request, seconds: float) -> t.Any:
        """The answer as far as its headers, with at most ``seconds`` between any two bytes."""
        headers = transport.headers.copy()
        headers.update(request.headers or {})
        data = None
        if request.body is not None:
            headers["Content-Type"] = request.content_type
            data = json.dumps(request.body, separators=(",", ":")).encode("utf-8")
        with self._lock:
            self.stats[request.verb] = self.stats.get(request.verb, 0) + 1
        # the shortest of its ways, which takes the headers as they are
        return transport.host.request_encode_url(
            request.method,
            transport.base + request.path + ("?" + urllib.parse.urlencode(request.query) if request.query else ""),
            body=data,
            headers=headers,
            redirect=False,
            retries=False,
            preload_content=False,
            enforce_content_length=True,  # not the default before urllib3 2
            timeout=library(self.cluster).Timeout(connect=min(self.limits.connect_seconds, seconds), read=seconds),
        )

    def _read(self, answer: t.Any, operation: str, deadline: float, allowance: Allowance) -> bytes:
        """The body, within the limits of bytes and time."""
        limit = self.limits.answer_bytes
        if (answer.headers.get("Content-Encoding") or "identity") != "identity":
            raise self.error(errors.BadAnswer, operation, "the answer is compressed, which was not asked for")
        parts, size, begun = [], 0, time.monotonic()
        for part in answer.stream(65536, decode_content=False):
            size += len(part)
            if size > limit:
                raise self.error(errors.TooLarge, operation, f"more than {limit} bytes")
            allowance.bytes -= len(part)
            if allowance.bytes < 0:
                raise self._too_large(operation, f"the list has more than {self.limits.list_bytes // MIB} MiB")
            with self._lock:
                self.bytes_read += len(part)
            if self.limits.run_bytes is not None and self.bytes_read > self.limits.run_bytes:
                raise self._too_large(
                    operation, f"all lists together have more than {self.limits.run_bytes // MIB} MiB"
                )
            if time.monotonic() > deadline:
                raise self.error(
                    errors.TimedOut, operation, "the answer took too long" + self._owner(operation, deadline - begun)
                )
            parts.append(part)
        return b"".join(parts)

    def _too_large(self, operation: str, what: str) -> errors.KubeError:
        text = f"{what}; if that is right, raise read_limit_mib of clusters/{self.cluster}"
        return self.error(errors.TooLarge, operation, text)

    def _broken(self, error: BaseException, operation: str, seconds: float) -> errors.KubeError:
        """A failed connection as our error. urllib3 wraps the cause several times, and its text may hold a URL."""
        chain: list[BaseException] = []
        todo: list[t.Any] = [error]
        while todo and len(chain) < 12:
            one = todo.pop()
            if isinstance(one, BaseException) and one not in chain:
                chain.append(one)
                todo += [one.__cause__, one.__context__, getattr(one, "reason", None)]
                todo += [arg for arg in one.args if isinstance(arg, BaseException)]
        # urllib3 has a CertificateError of its own for names that do not match, in different places of its releases
        tls = [one for one in chain if isinstance(one, ssl.SSLError) or type(one).__name__ == "CertificateError"]
        if tls and not any(isinstance(one, ssl.SSLEOFError) for one in tls):
            why = getattr(tls[0], "verify_message", "") or getattr(tls[0], "reason", "") or type(tls[0]).__name__
            return self.error(errors.Untrusted, operation, f"TLS failed: {quoted(why)}")
        exceptions = library(self.cluster).exceptions
        # a name that is not known and a port where nobody listens are kinds of urllib3's TimeoutError too, and take no time
        refused = any(isinstance(one, exceptions.NewConnectionError) for one in chain)
        waited = [
            one
            for one in chain
            if isinstance(one, (exceptions.TimeoutError, TimeoutError))
            and not isinstance(one, exceptions.NewConnectionError)
        ]
        if waited:
            connecting = any(isinstance(one, exceptions.ConnectTimeoutError) for one in chain)
            limit = min(self.limits.connect_seconds, seconds) if connecting else seconds
            kind = errors.Unreachable if connecting else errors.TimedOut
            where = f" to {self.access.server}" if connecting else ""
            reported = f"no {'connection' if connecting else 'answer'}{where} within {limit:.3g} s"
            return self.error(
                kind, operation, reported if connecting else reported + self._owner(operation, seconds), retryable=False
            )
        system = [one for one in chain if isinstance(one, OSError) and one.strerror]
        why = system[0].strerror if system else type(chain[-1]).__name__
        reported = f"{self.access.server} ({quoted(why)})"
        if any(isinstance(one, socket.gaierror) for one in chain):
            reported += f"; this controller finds no address for the name: see kubeconfig or api_url of clusters/{self.cluster}, or its DNS"
        return self.error(errors.Unreachable, operation, reported, retryable=False if refused else None)

    def _owner(self, operation: str, seconds: float) -> str:
        """Who sets the limit that such a time is: an option of the user, or a default that is built in."""
        whole, most = self.limits.list_seconds, self.limits.request_seconds
        if seconds < most - 0.5 and operation.startswith("list"):
            return f", which was left of the {whole:.3g} s that the option timeout allows for a list"
        if most < BUILT_IN_SECONDS:
            return ", which the option timeout allows"
        return ", the most that one request may take"

    def _judge(self, answer: t.Any, payload: bytes, operation: str, allowance: Allowance) -> t.Any:
        status = answer.status
        needs = memory_of(payload)
        allowance.memory -= needs
        if allowance.memory < 0:
            raise self._too_large(operation, f"the list needs more than {self.limits.list_memory // MIB} MiB of memory")
        with self._lock:
            self.memory_used += needs
        if self.limits.run_memory is not None and self.memory_used > self.limits.run_memory:
            raise self._too_large(
                operation, f"all lists together need more than {self.limits.run_memory // MIB} MiB of memory"
            )
        if 200 <= status < 300:
            try:
                return decode(payload, self.limits.depth)
            except ValueError as error:
                raise self.error(errors.BadAnswer, operation, str(error), status=status) from None
        if 300 <= status < 400:
            where = urllib.parse.urlsplit(answer.headers.get("Location") or "").netloc
            raise self.error(
                errors.Redirected, operation, f"redirected to {quoted(where)}; not followed", status=status
            )
        raise self._refusal(answer, payload, operation)

    def _refusal(self, answer: t.Any, payload: bytes, operation: str) -> errors.KubeError:
        """What an answer that is no success means. Made apart from where it is raised: an error with a traceback that knows the frame that knows
        the error keeps everything that was read until the garbage collector comes."""
        status = answer.status
        try:
            reported = mapping(decode(payload, self.limits.depth))
        except ValueError:
            reported = {}
        message = f"HTTP {status}: {quoted(reported.get('message') or 'no reason given')}"
        if status == 401 and self.access.credential:
            message += f"; the credential from {self.access.credential} is not accepted, perhaps it has expired"
        kind = errors.BY_STATUS.get(status, errors.Busy if status >= 500 else errors.KubeError)
        if status == 500 and "typed patch object" in str(reported.get("message")):
            kind = errors.Invalid  # the manifest does not fit the schema; older servers call that their own fault
        found = self.error(
            kind, operation, message, status=status, retry_after=_seconds(answer.headers.get("Retry-After"))
        )
        if isinstance(found, errors.Conflict):
            found.cause = str(reported.get("reason", ""))[:64]
        return found


def _seconds(text: str | None) -> float | None:
    """Retry-After in seconds; its other form, a date, depends on clocks that need not agree (T30)."""
    return float(text) if text and is_digits(text) and len(text) < 7 else None
