# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status with which ports of this node answer a question over HTTP, all asked at once.

Of an answer only the first line is read, and all of them have one deadline, so that nobody who listens there can hold us up.
"""

from __future__ import annotations

import errno
import re
import selectors
import socket
import struct
import time
import typing as t

_QUESTION = b"GET /healthz HTTP/1.0\r\nHost: localhost\r\nUser-Agent: multicluster.network\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.[0-9] ([0-9]{3})[ \r\n]")
_MOST_BYTES = 64
#: Open at a time; what a process may have open is far more.
_MOST_SOCKETS = 256

Target = tuple[str, int]


def ask(targets: t.Iterable[Target], seconds: float) -> dict[Target, int | None]:
    """(address, port) -> status, None where nobody answered within the seconds. Does not raise."""
    todo = sorted(set(targets))
    found: dict[Target, int | None] = dict.fromkeys(todo)
    for start in range(0, len(todo), _MOST_SOCKETS):
        found.update(_ask(todo[start : start + _MOST_SOCKETS], seconds))
    return found


def ask_any(ports: t.Iterable[int], hosts: t.Sequence[str], seconds: float) -> dict[int, int | None]:
    """Port -> status. kube-proxy may listen on some addresses of the node only; one address that reports 200 is enough."""
    desired = sorted(set(ports))
    said = ask([(host, port) for host in hosts for port in desired], seconds)
    found: dict[int, int | None] = {}
    for port in desired:
        statuses = [status for status in (said[(host, port)] for host in hosts) if status is not None]
        found[port] = 200 if 200 in statuses else statuses[0] if statuses else None
    return found


def _ask(targets: t.Sequence[Target], seconds: float) -> dict[Target, int]:
    found: dict[Target, int] = {}
    with selectors.DefaultSelector() as selector:
        try:
            for target in targets:
                _open(selector, target)
            deadline = time.monotonic() + seconds
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                for key, unused in ready:
                    status = _step(selector, key)
                    if status is not None:
                        found[key.data[0]] = status
                if time.monotonic() >= deadline:
                    break
        finally:
            for key in list(selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
    return found


def _open(selector: selectors.BaseSelector, target: Target) -> None:
    try:
        handle = socket.socket(
            socket.AF_INET6 if ":" in target[0] else socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC
        )
    except OSError:
        return  # a kernel without IPv6
    handle.setblocking(False)
    # closed by a reset: a question every half second would leave some hundred sockets waiting
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if handle.connect_ex(target) in (0, errno.EINPROGRESS):
        selector.register(handle, selectors.EVENT_WRITE, (target, bytearray()))
    else:
        handle.close()


def _step(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> int | None:
    """Send the question or read on; the status once it is there. What ends or fails is closed."""
    handle, (unused, got) = t.cast(socket.socket, key.fileobj), key.data
    status, over = None, True
    try:
        if key.events & selectors.EVENT_WRITE:
            handle.sendall(_QUESTION)
            selector.modify(handle, selectors.EVENT_READ, key.data)
            return None
        part = handle.recv(_MOST_BYTES)
        got += part
        match = _STATUS.match(bytes(got))
        status = int(match.group(1)) if match else None
        over = match is not None or not part or len(got) >= _MOST_BYTES
    except OSError:
        pass  # nobody listens there, or whoever did is gone
    if over:
        selector.unregister(handle)
        handle.close()
    return status
