# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands in containers through an API server: WebSockets (RFC 6455) and the channel protocol of Kubernetes, versions 5 and 4.

No input is ever closed, although version 5 could: a command has to know where its input ends. An API server passes the connection on to a kubelet,
and when it cannot write to the kubelet any more, which has closed its end together with the command, it drops what the kubelet has still to report.
So nothing may be on its way to a command that has ended.

The connection is the session's own, with its TLS, credentials and proxies. A command has succeeded or failed only when the server reports it on
the channel for that; a connection that ends before is an error, whatever had arrived.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import select
import socket
import ssl
import time
import typing as t

from .._values.refused import quoted
from .._values.text import dicts_of, is_digits, mapping, text_of
from . import errors
from .session import Request, Session

#: The newest first.
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, STATUS = 0, 1, 2, 3
_TEXT, _BINARY, _CLOSED, _PING, _PONG = 1, 2, 8, 9, 10
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
#: A server sends 32 KiB at a time.
_FRAME_BYTES = 16 * 1024 * 1024
_STATUS_BYTES = 1024 * 1024
_PART = 32 * 1024
_READ = 256 * 1024
#: A connection without any byte is asked whether it is there, and given up when it does not answer.
_PING_SECONDS, _LOST_SECONDS, _BLOCKED_SECONDS = 10.0, 60.0, 300.0

Sink = t.Callable[[bytes], None]


class Frame(t.NamedTuple):
    """One frame of a WebSocket."""

    final: bool
    kind: int
    data: bytes


def mask(data: bytes, key: bytes) -> bytes:
    """A client's data as they go over the wire, and back."""
    size = len(data)
    pattern = (key * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(pattern, "little")).to_bytes(size, "little")


def frame(kind: int, data: bytes, key: bytes | None = None) -> bytes:
    """A whole message as a client sends it, masked by ``key`` (by chance)."""
    key = key or os.urandom(4)
    size = len(data)
    if size < 126:
        head = bytes((0x80 | kind, 0x80 | size))
    elif size < 65536:
        head = bytes((0x80 | kind, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | kind, 0x80 | 127)) + size.to_bytes(8, "big")
    return head + key + mask(data, key)


def take_frame(buffer: bytearray) -> Frame | None:
    """The first frame of what a server has sent, taken out; None until all of it is there. Raises ValueError for what is none."""
    if len(buffer) < 2:
        return None
    first, second = buffer[0], buffer[1]
    if first & 0x70 or second & 0x80:
        raise ValueError("a frame with an extension or a mask, which was not agreed upon")
    size, begin = second & 0x7F, 2
    if size >= 126:
        width = 2 if size == 126 else 8
        if len(buffer) < 2 + width:
            return None
        size, begin = int.from_bytes(buffer[2 : 2 + width], "big"), 2 + width
    if size > _FRAME_BYTES:
        raise ValueError(f"a frame of {size} bytes, and {_FRAME_BYTES} are the most")
    if first & 0x08 and (size > 125 or not first & 0x80):
        raise ValueError("a control frame that is long or in parts")
    if len(buffer) < begin + size:
        return None
    data = bytes(buffer[begin : begin + size])
    del buffer[: begin + size]
    return Frame(bool(first & 0x80), first & 0x0F, data)


def exit_code(text: bytes) -> int:
    """The exit code in the server's report of a command's end (a Status). Raises ValueError where the command has not ended by itself."""
    try:
        status = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, dict):
        raise ValueError("the end of the command is no Status")
    if status.get("status") == "Success":
        return 0
    if status.get("status") == "Failure" and status.get("reason") == "NonZeroExitCode":
        for cause in dicts_of(mapping(status, "details").get("causes")):
            if cause.get("reason") == "ExitCode":
                code = text_of(cause.get("message"))
                if is_digits(code) and len(code) < 4 and 0 < int(code) < 256:
                    return int(code)
    raise ValueError(str(status.get("message") or status.get("reason") or "the command's end has no exit code"))


class Command(t.NamedTuple):
    """``arguments`` of a command in ``container`` of the pod at ``path``; ``has_input``: it reads something."""

    path: str
    container: str
    arguments: tuple[str, ...]
    has_input: bool


def request_of(command: Command, key: str) -> Request:
    """The request that begins the command."""
    query = [("container", command.container), ("stdout", "true"), ("stderr", "true")]
    query += [("stdin", "true")] if command.has_input else []
    query += [("command", argument) for argument in command.arguments]
    headers = {
        "Accept": "*/*",  # else 406
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Protocol": ", ".join(PROTOCOLS),
    }
    return Request("exec in", "GET", command.path + "/exec", query, headers=headers)


def run(
    session: Session,
    command: Command,
    feed: t.BinaryIO | None,
    out: Sink,
    err: Sink,
    seconds: float = 30.0,
    ready: t.Callable[[], bool] = lambda: True,
) -> int:
    """Run it to its end: its exit code. ``seconds`` are for its begin; nothing of the input is sent before ``ready``.

    Raises KubeErrors, and what the sinks raise.
    """
    key = base64.b64encode(os.urandom(16)).decode("ascii")
    request = request_of(command, key)
    answer = session.upgrade(request, seconds)
    try:
        return _Stream(session, request.operation, answer, key).run(feed, out, err, ready)
    finally:
        connection = answer.connection
        answer.close()
        if connection is not None:
            connection.close()


class _Stream:
    def __init__(self, session: Session, operation: str, answer: t.Any, key: str) -> None:
        self._session, self._operation = session, operation
        self._check_agreed(answer.headers, key)
        self._socket: socket.socket = answer.connection.sock
        if not isinstance(self._socket, socket.socket):  # TLS inside of TLS
            raise self._error(errors.BadAnswer, "commands in pods do not pass a proxy that is reached by https")
        self._socket.setblocking(False)
        self._received = bytearray(_behind(answer))
        self._sending = bytearray()
        self._message: list[bytes] = []
        self._kind: int | None = None
        self._status = b""
        self._reason = "it broke off"

    def _error(self, kind: type[errors.KubeError], message: str, **more: t.Any) -> errors.KubeError:
        return self._session.error(kind, self._operation, message, **more)

    def _check_agreed(self, headers: t.Mapping[str, str], key: str) -> None:
        """That the server answers this request, and has chosen one of the protocols offered. Raises BadAnswer."""
        expected = base64.b64encode(hashlib.sha1(key.encode("ascii") + _GUID).digest()).decode("ascii")
        accepted = str(headers.get("Sec-WebSocket-Accept") or "")
        if not hmac.compare_digest(accepted.encode("utf-8", "replace"), expected.encode("ascii")):
            raise self._error(errors.BadAnswer, "the server's answer is none to this WebSocket")
        protocol = str(headers.get("Sec-WebSocket-Protocol") or "")
        if protocol not in PROTOCOLS:
            raise self._error(
                errors.BadAnswer, f"the server chose {quoted(protocol)} instead of {' or '.join(PROTOCOLS)}"
            )

    def run(self, feed: t.BinaryIO | None, out: Sink, err: Sink, ready: t.Callable[[], bool]) -> int:
        sinks = {STDOUT: out, STDERR: err, STATUS: self._ended}
        heard = sent = asked = time.monotonic()
        ended = False
        try:
            while not ended:
                while (found := take_frame(self._received)) is not None:
                    ended = ended or self._take(found, sinks)
                if ended:
                    break
                if ready():
                    feed = self._fill(feed)
                readable, writable, _none = select.select(
                    [self._socket], [self._socket] if self._sending else [], [], 0 if self._pending() else 1.0
                )
                now = time.monotonic()
                if readable or self._pending():
                    if not self._receive():
                        break
                    heard = now
                if writable:
                    sent = now if self._send() else sent
                if not self._sending:
                    sent = now
                    if now - max(heard, asked) > _PING_SECONDS:
                        self._sending += frame(_PING, b"")
                        asked = now
                    if now - heard > _LOST_SECONDS:
                        raise self._error(errors.Unreachable, f"the connection gave no sign for {_LOST_SECONDS:.0f} s")
                elif now - sent > _BLOCKED_SECONDS:
                    raise self._error(errors.Unreachable, f"nothing could be sent for {_BLOCKED_SECONDS:.0f} s")
        except (OSError, ssl.SSLError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            raise self._error(errors.Unreachable, f"the connection broke before the command's end ({why})") from None
        except ValueError as error:
            raise self._error(errors.BadAnswer, quoted(str(error))) from None
        if not self._status:
            raise self._error(errors.Unreachable, f"the connection ended before the command did ({self._reason})")
        try:
            return exit_code(self._status)
        except ValueError as error:
            raise self._error(errors.Unreachable, f"the command was not run to its end: {quoted(str(error))}") from None

    def _ended(self, data: bytes) -> None:
        self._status += data
        if len(self._status) > _STATUS_BYTES:
            raise ValueError("the Status of the command's end is too long")

    def _take(self, found: Frame, sinks: t.Mapping[int, Sink]) -> bool:
        """One frame; True for the last."""
        if found.kind == _CLOSED:
            self._reason = quoted(found.data[2:].decode("utf-8", "replace")) if found.data[2:] else "it was closed"
            return True
        if found.kind == _PING:
            self._sending += frame(_PONG, found.data)
        elif found.kind in (_TEXT, _BINARY, 0):
            if (found.kind == 0) != (self._kind is not None):
                raise ValueError("parts of messages that do not follow each other")
            self._message.append(found.data)
            if sum(map(len, self._message)) > _FRAME_BYTES:
                raise ValueError("a message that is too long")
            self._kind = found.kind or self._kind
            if found.final:
                message, self._message, self._kind = b"".join(self._message), [], None
                if message[:1]:
                    sink = sinks.get(message[0])
                    if sink is not None and len(message) > 1:
                        sink(message[1:])
        elif found.kind != _PONG:
            raise ValueError("a frame of an unknown kind")
        return False

    def _fill(self, feed: t.BinaryIO | None) -> t.BinaryIO | None:
        """More of the input, a part at a time; None once all of it is on its way."""
        if feed is None or self._sending:
            return feed
        data = feed.read(_PART)
        if data:
            self._sending += frame(_BINARY, bytes((STDIN,)) + data)
            return feed
        return None

    def _pending(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _receive(self) -> bool:
        """False at the end of the connection."""
        try:
            data = self._socket.recv(_READ)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        self._received += data
        return bool(data)

    def _send(self) -> bool:
        """Whether anything went."""
        try:
            done = self._socket.send(self._sending)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        del self._sending[:done]
        return done > 0


def _behind(answer: t.Any) -> bytes:
    """What has come with the answer's headers and was read with them."""
    reader = getattr(getattr(answer, "_fp", None), "fp", None)
    with contextlib.suppress(OSError):
        return bytes(reader.peek()) if reader is not None else b""
    return b""
