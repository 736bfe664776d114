# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that goes on when the module has ended, for some seconds at most, and answers on a socket without a file.

It is a fork of the module with all of its code in memory, so it leaves nothing on disk and needs nothing from there. The
socket is abstract: it belongs to the network namespace and ends with the process. Both ends look at who the other one is.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import struct
import time
import typing as t

from ..errors import LinuxError, os_reason
from .processes import birth, lives

#: How long the start may take, and how long an answer.
_START, _ANSWER = 10.0, 20.0
_END_WAIT = 2.0
_REQUEST_BYTES, _MOST_BYTES = 64, 64 << 20
_CREDENTIALS = struct.Struct("=iII")
#: It ends of itself a little after its lifetime, whatever it is doing.
_GRACE = 5
_PR_SET_NAME = 15


class Work(t.Protocol):
    """What the process does: reads from something whenever that has news, and answers questions."""

    def fileno(self) -> int:
        """Of what it reads from."""

    def read(self) -> None:
        """Take what has come."""

    def answer(self, request: str) -> tuple[dict[str, t.Any], bool]:
        """(what is sent, as JSON; whether this was the last question)."""

    def close(self) -> None:
        """Give everything back."""


def start(name: str, lifetime: float, begin: t.Callable[[], Work]) -> str | None:
    """Start one under a name; None, or why it did not start. begin: called in the new process; a LinuxError of it is the reason."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setsid()  # the session of the connection ends with it
            if not os.fork():
                _live(name, lifetime, begin, writing)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        os.waitpid(child, 0)
        return _outcome(reading)
    finally:
        os.close(reading)


def _outcome(reading: int) -> str | None:
    deadline, reported = time.monotonic() + _START, b""
    while select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
        piece = os.read(reading, 4096)
        reported += piece
        if not piece:
            break
    try:
        return t.cast(t.Optional[str], json.loads(reported)["reason"])
    except (ValueError, LookupError, TypeError):
        return "the process that was to record did not start"


def _live(name: str, lifetime: float, begin: t.Callable[[], Work], writing: int) -> None:
    """All of the new process."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.alarm(int(lifetime) + _GRACE)
    os.chdir("/")
    _let_go(writing)
    with contextlib.suppress(Exception):  # a name for people who look at their processes
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode("ascii")[-15:] + b"\0", 0, 0, 0)
    work = None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as listener:
            listener.bind("\0" + name)
            listener.listen(4)
            work = begin()
            os.write(writing, b'{"reason": null}')
            os.close(writing)
            writing = -1
            _serve(listener, work, time.monotonic() + lifetime)
    except Exception as error:  # whatever it is: the module reports why it did not start
        if writing >= 0:
            os.write(writing, json.dumps({"reason": _reason(error)}).encode("ascii")[:4000])
    finally:
        if work is not None:
            work.close()


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return "its name is taken" if error.errno == 98 else os_reason(error)
    return str(error)[:1000] or type(error).__name__


def _let_go(keep: int) -> None:
    """Of every open file but one: a pipe that stays open would keep Ansible waiting."""
    for text in os.listdir("/proc/self/fd"):
        if int(text) > 2 and int(text) != keep:
            with contextlib.suppress(OSError):
                os.close(int(text))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)


def _serve(listener: socket.socket, work: Work, deadline: float) -> None:
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return
        ready = select.select([work, listener], [], [], left)[0]
        if work in ready:
            work.read()
        if listener in ready:
            with contextlib.suppress(OSError):
                if _answer(listener, work):
                    return


def _answer(listener: socket.socket, work: Work) -> bool:
    """Answer one caller; True when that was the last."""
    caller, _address = listener.accept()
    with caller:
        if not _may_speak(caller):
            return False
        caller.settimeout(_ANSWER)
        request = caller.recv(_REQUEST_BYTES).decode("ascii", "replace")
        found, last = work.answer(request)
        if last:
            work.close()
        found["process"] = [os.getpid(), birth(os.getpid())]
        caller.sendall(json.dumps(found).encode("ascii"))
    return last


def _may_speak(other: socket.socket) -> bool:
    """Root, or who we are ourselves. Anybody may know the name of the socket."""
    _pid, uid, _gid = _CREDENTIALS.unpack(other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return uid in (0, os.geteuid())


def ask(name: str, request: str) -> dict[str, t.Any] | None:
    """What the process of that name answers; None where there is none. Raises LinuxError when it is another user's, or makes no sense.

    When the answer is its last, it has ended when this returns.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as caller:
        caller.settimeout(_ANSWER)
        try:
            caller.connect("\0" + name)
        except ConnectionRefusedError:
            return None
        except OSError as error:
            raise LinuxError("ask", name, os_reason(error)) from None
        if not _may_speak(caller):
            raise LinuxError("ask", name, "somebody else has taken its name")
        try:
            caller.sendall(request.encode("ascii"))
            found = json.loads(_all(caller))
        except (OSError, ValueError) as error:
            raise LinuxError("ask", name, f"it did not answer: {error}") from None
    if not isinstance(found, dict):
        raise LinuxError("ask", name, "its answer makes no sense")
    process = found.pop("process", None)
    if found.pop("last", False) and isinstance(process, list) and len(process) == 2:
        deadline = time.monotonic() + _END_WAIT
        while lives(*process) and time.monotonic() < deadline:
            time.sleep(0.005)
    return found


def _all(caller: socket.socket) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        part = caller.recv(1 << 16)
        if not part:
            return b"".join(parts)
        size += len(part)
        if size > _MOST_BYTES:
            raise ValueError(f"it is longer than {_MOST_BYTES} bytes")
        parts.append(part)
