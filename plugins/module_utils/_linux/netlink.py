# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Netlink messages and attributes by struct, and one plain generic netlink socket (no library, no import cost)."""

from __future__ import annotations

import errno
import os
import socket
import struct
import typing as t

from .errors import LinuxError, os_reason

NETLINK_GENERIC = 16
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR = 0x1, 0x4, 0x300, 0x10
NLA_F_NESTED, NLA_TYPE_MASK = 0x8000, 0x3FFF
GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
#: An attribute's length is 16 bits wide, its own header included.
MAX_ATTRIBUTE = 65535

_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_RECEIVE_BYTES = 1 << 18
_DUMP_TRIES = 5
_TIMEOUT = 20.0


class NetlinkRefused(Exception):
    """The kernel's answer was an error number."""

    def __init__(self, number: int) -> None:
        self.errno = number
        super().__init__(os.strerror(number))


def attribute(kind: int, payload: bytes) -> bytes:
    """One attribute, padded to four bytes."""
    length = 4 + len(payload)
    if length > MAX_ATTRIBUTE:
        raise ValueError("an attribute cannot hold {0} bytes".format(len(payload)))
    return _ATTRIBUTE.pack(length, kind) + payload + b"\0" * (-length % 4)


def attributes(data: bytes) -> t.Iterator[t.Tuple[int, bytes]]:
    """The attributes in a buffer as (type, payload). Raises ValueError when a length does not fit."""
    position, end = 0, len(data)
    while position + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, position)
        if length < 4 or position + length > end:
            raise ValueError("attribute of {0} bytes at {1} of {2}".format(length, position, end))
        yield kind & NLA_TYPE_MASK, data[position + 4 : position + length]
        position += (length + 3) & ~3


def messages(data: bytes) -> t.Iterator[t.Tuple[int, int, int, bytes]]:
    """The messages in a datagram as (type, flags, sequence, payload)."""
    position, end = 0, len(data)
    while position + 16 <= end:
        length, kind, flags, sequence, _port = _HEADER.unpack_from(data, position)
        if length < 16 or position + length > end:
            raise ValueError("message of {0} bytes at {1} of {2}".format(length, position, end))
        yield kind, flags, sequence, data[position + 16 : position + length]
        position += (length + 3) & ~3


class GenericSocket:
    """One family's generic netlink socket. ``requests`` counts what was sent after the family look-up.

    Raises LinuxError (with ENOENT's meaning) when the kernel does not know the family.
    """

    def __init__(self, family: str) -> None:
        self._family = family
        self._sequence = 0
        self.requests = 0
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_GENERIC)
        except OSError as error:
            raise LinuxError("open netlink for", family, os_reason(error)) from None
        try:
            self._socket.bind((0, 0))
            self._socket.settimeout(_TIMEOUT)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            self._id = self._look_up()
        except NetlinkRefused as error:
            self._socket.close()
            if error.errno == errno.ENOENT:
                raise LinuxError("find", family, "this kernel has no {0} support".format(family)) from None
            raise LinuxError("find", family, str(error)) from None
        except BaseException:
            self._socket.close()
            raise

    def _look_up(self) -> int:
        name = attribute(CTRL_ATTR_FAMILY_NAME, self._family.encode("ascii") + b"\0")
        for payload in self._exchange(GENL_ID_CTRL, NLM_F_REQUEST | NLM_F_ACK, CTRL_CMD_GETFAMILY, 1, name):
            for kind, value in attributes(payload):
                if kind == CTRL_ATTR_FAMILY_ID:
                    return struct.unpack("=H", value[:2])[0]
        raise NetlinkRefused(errno.ENOENT)

    def dump(self, command: int, payload: bytes, version: int = 1) -> t.List[bytes]:
        """All answers to a dump request, without their headers. Repeated when the kernel says it was interrupted."""
        for _attempt in range(_DUMP_TRIES):
            self.requests += 1
            try:
                return self._exchange(self._id, NLM_F_REQUEST | NLM_F_ACK | NLM_F_DUMP, command, version, payload)
            except InterruptedError:
                continue
        raise LinuxError("dump", self._family, "it changed during each of {0} reads".format(_DUMP_TRIES))

    def send(self, command: int, payload: bytes, version: int = 1) -> None:
        """One request, acknowledged. Raises NetlinkRefused."""
        self.requests += 1
        self._exchange(self._id, NLM_F_REQUEST | NLM_F_ACK, command, version, payload)

    def _exchange(self, kind: int, flags: int, command: int, version: int, payload: bytes) -> t.List[bytes]:
        self._sequence += 1
        body = struct.pack("=BBH", command, version, 0) + payload
        self._socket.send(_HEADER.pack(16 + len(body), kind, flags, self._sequence, 0) + body)
        answers: t.List[bytes] = []
        interrupted = False
        while True:
            data, _ancillary, received, sender = self._socket.recvmsg(_RECEIVE_BYTES)
            if received & socket.MSG_TRUNC:
                raise LinuxError("read", self._family, "a message is longer than {0} bytes".format(_RECEIVE_BYTES))
            if sender[0] != 0:
                continue  # only the kernel (port 0) is believed
            for answer, answer_flags, sequence, answer_body in messages(data):
                if sequence != self._sequence:
                    continue
                interrupted = interrupted or bool(answer_flags & NLM_F_DUMP_INTR)
                if answer in (NLMSG_ERROR, NLMSG_DONE):
                    number = -struct.unpack_from("=i", answer_body)[0] if len(answer_body) >= 4 else 0
                    if number > 0:
                        raise NetlinkRefused(number)
                    if interrupted:
                        raise InterruptedError()
                    return answers
                answers.append(answer_body[4:])

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()
