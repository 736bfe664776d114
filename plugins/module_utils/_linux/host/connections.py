# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Established TCP connections of this node, and who owns them."""

from __future__ import annotations

import ipaddress
import os
import re
import typing as t

from .processes import command

_PROC = "/proc"
_ESTABLISHED = "01"
_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_END = "([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4})"
_ROW = re.compile(
    r" *[0-9]+: " + _END + " " + _END + r" ([0-9A-F]{2}) [^ ]+ [^ ]+ [^ ]+ +[0-9]+ +[0-9]+ ([0-9]{1,19}) "
)


class Connection(t.NamedTuple):
    """Both ends, and the number of its socket."""

    local: str
    local_port: int
    remote: str
    remote_port: int
    socket: int


class Holder(t.NamedTuple):
    """A process: its number, its first words, and the control group that it is in."""

    pid: int
    words: str
    group: str


def parse_connections(text: str) -> list[Connection]:
    """The established connections, of a file such as ``/proc/net/tcp``; lines that are none are left out."""
    found = []
    for line in text.splitlines():
        row = _ROW.match(line)
        if row is not None and row.group(5) == _ESTABLISHED:
            found.append(
                Connection(
                    _address(row.group(1)),
                    int(row.group(2), 16),
                    _address(row.group(3)),
                    int(row.group(4), 16),
                    int(row.group(6)),
                )
            )
    return found


def _address(text: str) -> str:
    """Words of four bytes, each in the order of the machine; all machines that we know of are little-endian here."""
    packed = b"".join(bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8))
    address = ipaddress.ip_address(packed)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def connections() -> list[Connection]:
    """Of this process's network namespace."""
    found: list[Connection] = []
    for name in ("tcp", "tcp6"):
        try:
            with open(f"{_PROC}/self/net/{name}", encoding="ascii", errors="replace") as source:
                found += parse_connections(source.read())
        except OSError:
            continue  # a kernel without that family
    return found


def holder_of(socket: int) -> Holder | None:
    """A process that has the socket open; None where none can be seen."""
    desired = f"socket:[{socket}]"
    for name in os.listdir(_PROC):
        if not _NUMBER.match(name):
            continue
        folder = f"{_PROC}/{name}"
        try:
            if not any(os.readlink(f"{folder}/fd/{one}") == desired for one in os.listdir(folder + "/fd")):
                continue
            with open(folder + "/cgroup", encoding="utf-8", errors="replace") as source:
                return Holder(int(name), command(int(name)), source.read(4096))
        except OSError:
            continue  # it has just ended
    return None
