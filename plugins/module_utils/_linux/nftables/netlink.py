# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A socket to the kernel's nf_tables: dumps, and batches that are committed as one transaction or not at all."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import typing as t

from ..errors import LinuxError, os_reason
from ..netlink.messages import (
    NLM_F_ACK,
    NLM_F_REQUEST,
    NLMSG_ERROR,
    NetlinkRefused,
    NetlinkSocket,
    attribute,
    attributes,
    error_number,
)
from .codec import FAMILIES, GENERATION_ID, GETGEN, read_u32, u32

NETLINK_NETFILTER = 12
NLM_F_CREATE, NLM_F_EXCL, NLM_F_APPEND = 0x400, 0x200, 0x800
_SUBSYSTEM = 10
_BATCH_BEGIN, _BATCH_END = 16, 17
_SOL_NETLINK, _CAP_ACK, _EXT_ACK = 270, 10, 11
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_ERROR_TEXT = 1
_HEADER = struct.Struct("=IHHII")
_ACK_FLAGS_TLVS = 0x200
#: Linux's number; errno has no name for it where Python was not built with one.
ERESTART = getattr(errno, "ERESTART", 85)


class Message(t.NamedTuple):
    """One message of a batch: ``kind`` as NEWTABLE, ``what`` for error messages."""

    kind: int
    flags: int
    body: bytes
    what: str


class GenerationChanged(Exception):
    """Somebody changed nftables between the read and the commit: read and plan again."""


class BatchRefused(NetlinkRefused):
    """The kernel took nothing of a batch; ``what`` names the first message that it did not like."""

    def __init__(self, number: int, what: str, text: str) -> None:
        super().__init__(number)
        self.what, self.text = what, text


class NetfilterSocket(NetlinkSocket):
    """nf_tables in this network namespace. ``writes`` counts the messages of batches."""

    def __init__(self) -> None:
        super().__init__(NETLINK_NETFILTER, "nftables")
        self.writes = 0
        for option in (_CAP_ACK, _EXT_ACK):
            with contextlib.suppress(OSError):  # an older kernel: answers are longer, or say less
                self._socket.setsockopt(_SOL_NETLINK, option, 1)

    def dump(self, kind: int, family: int = 0, body: bytes = b"") -> list[tuple[int, bytes]]:
        """All answers as (family, body). Raises NetlinkRefused with ENOENT where the thing asked for is not there."""
        answers = self.dump_messages(_SUBSYSTEM << 8 | kind, struct.pack("=BBH", family, 0, 0) + body)
        return [(answer[0], answer[4:]) for answer in answers if len(answer) >= 4]

    def get(self, kind: int, family: int = 0, body: bytes = b"") -> tuple[int, bytes]:
        """One answer. Raises NetlinkRefused."""
        self.requests += 1
        request = struct.pack("=BBH", family, 0, 0) + body
        answers = self.exchange(_SUBSYSTEM << 8 | kind, NLM_F_REQUEST | NLM_F_ACK, request)
        if not answers:
            raise NetlinkRefused(errno.ENOENT)
        return answers[0][0], answers[0][4:]

    def generation(self) -> int:
        """The number of the ruleset: every commit in this namespace makes it one more."""
        for kind, value in attributes(self.get(GETGEN)[1]):
            if kind == GENERATION_ID:
                return read_u32(value)
        raise LinuxError("read", "nftables", "the kernel does not say the number of its ruleset")

    def commit(self, family: str, messages: t.Sequence[Message], generation: int | None = None) -> None:
        """Send one batch: all of it or nothing.

        generation: of when the state was read; another one now raises GenerationChanged. A batch that the kernel does not
        take raises BatchRefused.
        """
        first = self._sequence + 1
        genid = attribute(GENERATION_ID, u32(generation)) if generation is not None else b""
        # The subsystem's number is in network order in the third field of the begin and end messages.
        parts = [self._pack(_BATCH_BEGIN, 0, struct.pack("=BB", 0, 0) + struct.pack(">H", _SUBSYSTEM) + genid)]
        for index, message in enumerate(messages):
            # Only the last is acknowledged; errors come for every message that has one.
            flags = message.flags | (NLM_F_ACK if index == len(messages) - 1 else 0)
            body = struct.pack("=BBH", FAMILIES[family], 0, 0) + message.body
            parts.append(self._pack(_SUBSYSTEM << 8 | message.kind, flags, body))
        last = self._sequence
        parts.append(self._pack(_BATCH_END, 0, struct.pack("=BB", 0, 0) + struct.pack(">H", _SUBSYSTEM)))
        self._send(b"".join(parts))
        self.writes += len(messages)
        self._judge(messages, first, last)

    def _pack(self, kind: int, flags: int, body: bytes) -> bytes:
        self._sequence += 1
        padding = b"\0" * (-len(body) % 4)
        return _HEADER.pack(16 + len(body), kind, flags | NLM_F_REQUEST, self._sequence, 0) + body + padding

    def _send(self, batch: bytes) -> None:
        # The kernel takes a batch in one piece, and it must fit into the socket's buffer.
        for option in (_SO_SNDBUFFORCE, socket.SO_SNDBUF):
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, option, len(batch) + 65536)
                break
            except OSError:
                continue
        try:
            self._socket.send(batch)
        except OSError as error:
            raise LinuxError("write", "nftables", os_reason(error)) from None

    def _judge(self, messages: t.Sequence[Message], first: int, last: int) -> None:
        problem: tuple[int, int, str] | None = None
        for kind, flags, sequence, body in self.received():
            if kind != NLMSG_ERROR or not first <= sequence <= last:
                continue
            number = error_number(body)
            if number and problem is None:
                problem = (number, sequence, _reason(flags, body))
            if sequence == last or (number and sequence == first):
                break
        if problem is None:
            return
        number, sequence, text = problem
        if number == ERESTART:
            raise GenerationChanged()
        what = messages[sequence - first - 1].what if sequence > first else "commit"
        raise BatchRefused(number, what, text)


def _reason(flags: int, body: bytes) -> str:
    """The kernel's own words about an error, where it has some."""
    if not flags & _ACK_FLAGS_TLVS or len(body) < 20:
        return ""
    with contextlib.suppress(ValueError):
        for kind, value in attributes(body[20:]):
            if kind == _ERROR_TEXT:
                return value.rstrip(b"\0").decode("utf-8", "replace")
    return ""
