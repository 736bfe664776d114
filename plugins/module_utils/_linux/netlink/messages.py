# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Netlink messages and attributes by struct, and one plain generic netlink socket (no library, no import cost)."""

from __future__ import annotations

import errno
import functools
import os
import socket
import struct
import typing as t

from ..errors import LinuxError, os_reason

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
#: Answers to one send must fit the smallest receive buffer together, a page each.
_QUESTIONS = 32
_TIMEOUT = 20.0


class NetlinkRefused(Exception):
    """The kernel's answer was an error number."""

    def __init__(self, number: int) -> None:
        self.errno = number
        super().__init__(os.strerror(number))


def from_kernel(what: str) -> t.Callable[[t.Callable[..., t.Any]], t.Callable[..., t.Any]]:
    """For what decodes the kernel's messages: one that is too short, or empty, is a LinuxError that names ``what``, and no traceback."""

    def wrap(decode: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
        @functools.wraps(decode)
        def decoded(*arguments: t.Any, **named: t.Any) -> t.Any:
            try:
                return decode(*arguments, **named)
            except (struct.error, LookupError, TypeError, ValueError, OverflowError, OSError) as error:
                raise LinuxError("read", what, "the kernel's answer cannot be understood: {0}".format(error)) from None

        return decoded

    return wrap


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


class NetlinkSocket:
    """One plain netlink socket of a protocol. ``name`` stands in messages; ``requests`` counts what was sent."""

    def __init__(self, protocol: int, name: str) -> None:
        self._name = name
        self._sequence = 0
        self.requests = 0
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        except OSError as error:
            raise LinuxError("open netlink for", name, os_reason(error)) from None
        try:
            self._socket.bind((0, 0))
            self._socket.settimeout(_TIMEOUT)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        except BaseException:
            self._socket.close()
            raise

    def dump_messages(self, kind: int, body: bytes) -> t.List[bytes]:
        """All answers to a dump request, without netlink's header. Repeated when the kernel says it was interrupted."""
        for _attempt in range(_DUMP_TRIES):
            self.requests += 1
            try:
                return self.exchange(kind, NLM_F_REQUEST | NLM_F_ACK | NLM_F_DUMP, body)
            except InterruptedError:
                continue
        raise LinuxError("dump", self._name, "it changed during each of {0} reads".format(_DUMP_TRIES))

    def exchange(self, kind: int, flags: int, body: bytes) -> t.List[bytes]:
        """One request and what comes back for it, without netlink's header. Raises NetlinkRefused, InterruptedError."""
        self._sequence += 1
        self._socket.send(_HEADER.pack(16 + len(body), kind, flags, self._sequence, 0) + body)
        answers: t.List[bytes] = []
        interrupted = False
        for answer, answer_flags, sequence, answer_body in self.received():
            if sequence != self._sequence:
                continue
            interrupted = interrupted or bool(answer_flags & NLM_F_DUMP_INTR)
            if answer in (NLMSG_ERROR, NLMSG_DONE):
                number = error_number(answer_body)
                if number > 0:
                    raise NetlinkRefused(number)
                break
            answers.append(answer_body)
        if interrupted:
            raise InterruptedError()
        return answers

    def ask_each(self, kind: int, bodies: t.Sequence[bytes]) -> t.List[t.Union[int, bytes]]:
        """Many questions of one answer each, several a send: the answer without netlink's header, or the kernel's error number."""
        answers: t.List[t.Union[int, bytes]] = [errno.ENODATA] * len(bodies)
        for start in range(0, len(bodies), _QUESTIONS):
            part = bodies[start : start + _QUESTIONS]
            first = self._sequence + 1
            self._sequence += len(part)
            self.requests += 1
            self._socket.send(b"".join(
                _HEADER.pack(16 + len(body), kind, NLM_F_REQUEST, first + offset, 0) + body for offset, body in enumerate(part)
            ))  # fmt: skip
            missing = set(range(first, first + len(part)))
            for answer, _flags, sequence, body in self.received():
                if sequence in missing:
                    missing.discard(sequence)
                    answers[start + sequence - first] = error_number(body) if answer == NLMSG_ERROR else body
                    if not missing:
                        break
        return answers

    def received(self) -> t.Iterator[t.Tuple[int, int, int, bytes]]:
        """What the kernel sends, as it comes, as messages() has it. The caller stops."""
        while True:
            try:
                data, _ancillary, flags, sender = self._socket.recvmsg(_RECEIVE_BYTES)
            except socket.timeout:
                raise LinuxError("read", self._name, "the kernel did not answer within {0:.0f} s".format(_TIMEOUT)) from None
            except OSError as error:
                raise LinuxError("read", self._name, os_reason(error)) from None
            if flags & socket.MSG_TRUNC:
                raise LinuxError("read", self._name, "a message is longer than {0} bytes".format(_RECEIVE_BYTES))
            if sender[0] == 0:  # only the kernel (port 0) is believed
                yield from messages(data)

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()


def error_number(body: bytes) -> int:
    """The errno of an NLMSG_ERROR or NLMSG_DONE; 0 for a plain acknowledgement."""
    return -struct.unpack_from("=i", body)[0] if len(body) >= 4 else 0


class GenericSocket(NetlinkSocket):
    """One family's generic netlink socket. ``requests`` counts what was sent after the family look-up.

    Raises LinuxError (with ENOENT's meaning) when the kernel does not know the family.
    """

    def __init__(self, family: str) -> None:
        super().__init__(NETLINK_GENERIC, family)
        try:
            self._id = self._look_up(family)
        except NetlinkRefused as error:
            self._socket.close()
            if error.errno == errno.ENOENT:
                raise LinuxError("find", family, "this kernel has no {0} support".format(family)) from None
            raise LinuxError("find", family, str(error)) from None
        except BaseException:
            self._socket.close()
            raise

    def _look_up(self, family: str) -> int:
        name = attribute(CTRL_ATTR_FAMILY_NAME, family.encode("ascii") + b"\0")
        for payload in self.exchange(GENL_ID_CTRL, NLM_F_REQUEST | NLM_F_ACK, _generic(CTRL_CMD_GETFAMILY, 1) + name):
            for kind, value in attributes(payload[4:]):
                if kind == CTRL_ATTR_FAMILY_ID:
                    if len(value) < 2:
                        break
                    return struct.unpack("=H", value[:2])[0]
        raise NetlinkRefused(errno.ENOENT)

    def dump(self, command: int, payload: bytes, version: int = 1) -> t.List[bytes]:
        """All answers to a dump request, without their headers. Repeated when the kernel says it was interrupted."""
        return [answer[4:] for answer in self.dump_messages(self._id, _generic(command, version) + payload)]

    def send(self, command: int, payload: bytes, version: int = 1) -> None:
        """One request, acknowledged. Raises NetlinkRefused."""
        self.requests += 1
        self.exchange(self._id, NLM_F_REQUEST | NLM_F_ACK, _generic(command, version) + payload)


def _generic(command: int, version: int) -> bytes:
    return struct.pack("=BBH", command, version, 0)
