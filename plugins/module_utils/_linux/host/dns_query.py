# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a DNS server answers to somebody in a network namespace: names in the order of a resolver, over UDP, the first that has addresses counts.

The server belongs to others: of what it sends, codes and addresses are read, and nothing that is no answer to the question.
"""

from __future__ import annotations

import ipaddress
import os
import random
import socket
import struct
import time
import typing as t

from ..._values.text import lower
from ..netlink.messages import ADDRESS_FAMILIES, in_namespace

ANSWERED, NO_NAME, NO_ADDRESS, FAILED, UNREACHABLE = "answered", "no_name", "no_address", "failed", "no_answer"
_TYPES = {4: 1, 6: 28}
_CODES = {1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}
_NO_SUCH_NAME = 3
_HEAD = struct.Struct(">HHHHHH")
_RECORD = struct.Struct(">HHIH")
#: Records that are looked at, and pointers of one name.
_MOST_RECORDS, _MOST_POINTERS = 64, 16
_TRIES = 2


class Question(t.NamedTuple):
    """netns: path of who asks, None for the host. version: 4 for addresses of IPv4, 6 for those of IPv6."""

    netns: str | None
    server: str
    port: int
    names: tuple[str, ...]
    version: int


class Answer(t.NamedTuple):
    """outcome: answered, no_name (none of the names exists), no_address (of this version), failed (``detail`` has the code), "no_answer" (no reply)."""

    outcome: str
    name: str
    addresses: tuple[str, ...]
    detail: str


class Reply(t.NamedTuple):
    """The content of one message."""

    code: int
    addresses: tuple[str, ...]


def ask(question: Question, wait: float) -> Answer:
    """Ask for one name after the other. wait: seconds for all of it."""
    family = ADDRESS_FAMILIES[ipaddress.ip_address(question.server).version]
    until = time.monotonic() + wait
    worst = Answer(UNREACHABLE, "", (), "no name was asked for")
    try:
        made = in_namespace(question.netns, lambda: _socket(family)) if question.netns else _socket(family)
    except OSError as error:
        return Answer(FAILED, "", (), _reason(error))
    with made:
        try:
            made.connect((question.server, question.port))
            for name in question.names:
                found = _ask_one(made, name, _TYPES[question.version], until)
                if found is None:
                    return Answer(UNREACHABLE, name, (), "no answer")
                if found.addresses:
                    return Answer(ANSWERED, name, found.addresses, "")
                if found.code not in (0, _NO_SUCH_NAME):
                    return Answer(FAILED, name, (), _CODES.get(found.code, f"code {found.code}"))
                if found.code == 0 or worst.outcome != NO_ADDRESS:
                    worst = Answer(
                        NO_NAME if found.code else NO_ADDRESS, name, (), _CODES.get(found.code, "no address")
                    )
        except OSError as error:
            return Answer(FAILED, "", (), _reason(error))
        except ValueError as error:
            return Answer(FAILED, "", (), str(error)[:200])
    return worst


def _socket(family: int) -> socket.socket:
    return socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)[:200]


def _ask_one(made: socket.socket, name: str, kind: int, until: float) -> Reply | None:
    ident = random.getrandbits(16)
    packet = encode_query(ident, name, kind)
    for turn in range(_TRIES):
        made.send(packet)
        now = time.monotonic()
        again = until if turn == _TRIES - 1 else now + max(0.0, until - now) / 2
        while True:
            left = again - time.monotonic()
            if left <= 0:
                break
            made.settimeout(left)
            try:
                data = made.recv(65535)
            except socket.timeout:  # TimeoutError itself only since Python 3.10
                break
            found = read_reply(data, ident, name, kind)
            if found is not None:
                return found
    return None


def encode_query(ident: int, name: str, kind: int) -> bytes:
    """A question. Raises ValueError for a name that has no form on the wire."""
    labels = name.rstrip(".").split(".")
    if not name.isascii() or len(name) > 253 or not all(1 <= len(label) <= 63 for label in labels):
        raise ValueError(f"{name[:100]!r} is no DNS name")
    wire = b"".join(bytes([len(label)]) + label.encode("ascii") for label in labels) + b"\0"
    return _HEAD.pack(ident, 0x0100, 1, 0, 0, 0) + wire + struct.pack(">HH", kind, 1)


def read_reply(data: bytes, ident: int, name: str, kind: int) -> Reply | None:
    """What a message answers to a question; None for one that is no answer to it. What comes behind something broken is not read."""
    try:
        number, flags, questions, answers, _authority, _more = _HEAD.unpack_from(data)
        if number != ident or not flags & 0x8000 or questions != 1:
            return None
        asked, at = _read_name(data, _HEAD.size)
        if lower(asked) != lower(name.rstrip(".")) or struct.unpack_from(">HH", data, at) != (kind, 1):
            return None
    except (struct.error, IndexError, ValueError):
        return None
    at += 4
    found: dict[str, None] = {}
    try:
        for _number in range(min(answers, _MOST_RECORDS)):
            _owner, at = _read_name(data, at)
            one, group, _ttl, length = _RECORD.unpack_from(data, at)
            at += _RECORD.size
            raw = data[at : at + length]
            at += length
            if (one, group) == (kind, 1) and length == len(raw) == (4 if kind == 1 else 16):
                found[str(ipaddress.ip_address(raw))] = None
    except (struct.error, IndexError, ValueError):
        pass
    return Reply(flags & 15, tuple(found))


def _read_name(data: bytes, at: int) -> tuple[str, int]:
    """(name, where the next thing begins). Raises IndexError, ValueError."""
    labels: list[str] = []
    end: int | None = None
    pointers = 0
    while data[at]:
        length = data[at]
        if length >= 0xC0:
            pointers += 1
            if pointers > _MOST_POINTERS:
                raise ValueError("pointers in a circle")
            end = at + 2 if end is None else end
            at = (length & 0x3F) << 8 | data[at + 1]
            continue
        if length > 63 or at + length >= len(data):
            raise ValueError("a label that is none")
        labels.append(data[at + 1 : at + 1 + length].decode("latin-1"))
        at += 1 + length
    return ".".join(labels), at + 1 if end is None else end
