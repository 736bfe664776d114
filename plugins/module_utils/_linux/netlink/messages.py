# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Netlink messages and attributes by struct, plain netlink sockets and generic ones (no library, no import cost)."""

from __future__ import annotations

import contextlib
import errno
import functools
import ipaddress
import os
import socket
import struct
import typing as t

from ..errors import LinuxError, os_reason

NETLINK_ROUTE, NETLINK_GENERIC = 0, 16
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR = 0x1, 0x4, 0x300, 0x10
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x100, 0x200, 0x400
NLA_F_NESTED, NLA_TYPE_MASK = 0x8000, 0x3FFF
GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
#: An attribute's length is 16 bits wide, its own header included.
MAX_ATTRIBUTE = 65535
#: rtnetlink's numbers for families by the version of IP, and for scopes.
ADDRESS_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
SCOPES = {"global": 0, "site": 200, "link": 253, "host": 254, "nowhere": 255}
SCOPE_NAMES = {number: name for name, number in SCOPES.items()}

_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_RECEIVE_BYTES = 1 << 18
_DUMP_TRIES = 5
#: Answers to one send must fit the smallest receive buffer together: a page each, or an acknowledgement each.
_QUESTIONS, _ORDERS = 32, 100
_TIMEOUT = 20.0
_CLONE_NEWNET = 0x40000000
_SOL_NETLINK, _NETLINK_CAP_ACK, _NETLINK_GET_STRICT_CHK = 270, 10, 12


Socket = t.TypeVar("Socket", bound="NetlinkSocket")
Made = t.TypeVar("Made")


class NetlinkRefused(Exception):
    """The kernel's answer was an error number; its text has what it means and, where that fixes it, that root is needed."""

    def __init__(self, number: int) -> None:
        self.errno = number
        super().__init__(os_reason(OSError(number, "")))


_Decode = t.TypeVar("_Decode", bound=t.Callable[..., t.Any])


def from_kernel(what: str) -> t.Callable[[_Decode], _Decode]:
    """For what decodes the kernel's messages: one that is too short, or empty, is a LinuxError that names ``what``, and no traceback."""

    def wrap(decode: _Decode) -> _Decode:
        @functools.wraps(decode)
        def decoded(*arguments: t.Any, **named: t.Any) -> t.Any:
            try:
                return decode(*arguments, **named)
            except (struct.error, LookupError, TypeError, ValueError, OverflowError, OSError) as error:
                raise LinuxError("read", what, f"the kernel's answer cannot be understood: {error}") from None

        return t.cast(_Decode, decoded)

    return wrap


def attribute(kind: int, payload: bytes) -> bytes:
    """One attribute, padded to four bytes."""
    length = 4 + len(payload)
    if length > MAX_ATTRIBUTE:
        raise ValueError(f"an attribute cannot hold {len(payload)} bytes")
    return _ATTRIBUTE.pack(length, kind) + payload + b"\0" * (-length % 4)


def attributes(data: bytes) -> t.Iterator[tuple[int, bytes]]:
    """The attributes in a buffer as (type, payload). Raises ValueError when a length does not fit."""
    position, end = 0, len(data)
    while position + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, position)
        if length < 4 or position + length > end:
            raise ValueError(f"attribute of {length} bytes at {position} of {end}")
        yield kind & NLA_TYPE_MASK, data[position + 4 : position + length]
        position += (length + 3) & ~3


def messages(data: bytes) -> t.Iterator[tuple[int, int, int, bytes]]:
    """The messages in a datagram as (type, flags, sequence, payload)."""
    position, end = 0, len(data)
    while position + 16 <= end:
        length, kind, flags, sequence, _port = _HEADER.unpack_from(data, position)
        if length < 16 or position + length > end:
            raise ValueError(f"message of {length} bytes at {position} of {end}")
        yield kind, flags, sequence, data[position + 16 : position + length]
        position += (length + 3) & ~3


def unpack_address(family: int, value: bytes) -> str:
    """An address as what is desired is written: the C library writes mapped addresses otherwise."""
    return socket.inet_ntop(family, value) if family == socket.AF_INET else str(ipaddress.ip_address(value))


class NetlinkSocket:
    """One plain netlink socket of a protocol. ``name`` is for messages; ``requests`` counts what was sent.

    strict: a dump is answered with what its header asks for, where the kernel can (4.20); older ones send everything.
    netns: path of the network namespace that it shall belong to, if not this one.
    """

    def __init__(self, protocol: int, name: str, strict: bool = False, netns: str | None = None) -> None:
        self._name = name
        self._sequence = 0
        self.requests = 0
        #: every answer is read into it: one of its own for each of a thousand acknowledgements would cost more than the orders
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._view = memoryview(self._buffer)
        make = functools.partial(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        try:
            self._socket = in_namespace(netns, make) if netns else make()
        except OSError as error:
            raise LinuxError("open netlink for", name, os_reason(error)) from None
        try:
            self._socket.bind((0, 0))
            self._socket.settimeout(_TIMEOUT)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            self._socket.setsockopt(_SOL_NETLINK, _NETLINK_CAP_ACK, 1)
        except BaseException:
            self._socket.close()
            raise
        if strict:
            with contextlib.suppress(OSError):
                self._socket.setsockopt(_SOL_NETLINK, _NETLINK_GET_STRICT_CHK, 1)

    def __enter__(self: Socket) -> Socket:
        return self

    def __exit__(self, *unused: t.Any) -> None:
        self.close()

    def order(self, kind: int, flags: int, body: bytes) -> list[bytes]:
        """One request that is acknowledged, and what comes back before that. Raises NetlinkRefused, InterruptedError."""
        return self.exchange(kind, NLM_F_REQUEST | NLM_F_ACK | flags, body)

    def dump_messages(self, kind: int, body: bytes) -> list[bytes]:
        """All answers to a dump request, without netlink's header. Repeated when the kernel reports that it was interrupted."""
        for _attempt in range(_DUMP_TRIES):
            self.requests += 1
            try:
                return self.order(kind, NLM_F_DUMP, body)
            except InterruptedError:
                continue
        raise LinuxError("dump", self._name, f"it changed during each of {_DUMP_TRIES} reads")

    def exchange(self, kind: int, flags: int, body: bytes) -> list[bytes]:
        """One request and what comes back for it, without netlink's header. Raises NetlinkRefused, InterruptedError."""
        self._sequence += 1
        self._send(_HEADER.pack(16 + len(body), kind, flags, self._sequence, 0) + body)
        answers: list[bytes] = []
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

    def ask_each(self, kind: int, bodies: t.Sequence[bytes], flags: int = 0) -> list[int | bytes]:
        """Many requests of one answer each, several a send: the answer without netlink's header, or the kernel's error number.

        With NLM_F_ACK in ``flags`` they are orders, answered by error numbers alone, of which 0 means done.
        """
        answers: list[int | bytes] = [errno.ENODATA] * len(bodies)
        batch = _ORDERS if flags & NLM_F_ACK else _QUESTIONS
        for start in range(0, len(bodies), batch):
            part = bodies[start : start + batch]
            first = self._sequence + 1
            self._sequence += len(part)
            self.requests += 1
            self._send(
                b"".join(
                    _HEADER.pack(16 + len(body), kind, NLM_F_REQUEST | flags, first + offset, 0) + body
                    for offset, body in enumerate(part)
                )
            )
            missing = set(range(first, first + len(part)))
            while missing:
                for answer, _flags, sequence, body in messages(self._receive()):
                    if sequence in missing:
                        missing.remove(sequence)
                        answers[start + sequence - first] = error_number(body) if answer == NLMSG_ERROR else body
        return answers

    def _send(self, data: bytes) -> None:
        try:
            self._socket.send(data)
        except OSError as error:
            raise LinuxError("ask the kernel about", self._name, os_reason(error)) from None

    def received(self) -> t.Iterator[tuple[int, int, int, bytes]]:
        """What the kernel sends, as it comes, as messages() has it. The caller stops."""
        while True:
            yield from messages(self._receive())

    def _receive(self) -> bytes:
        while True:
            try:
                size, sender = self._socket.recvfrom_into(self._buffer, 0, socket.MSG_TRUNC)
            except socket.timeout:
                raise LinuxError("read", self._name, f"the kernel did not answer within {_TIMEOUT:.0f} s") from None
            except OSError as error:
                raise LinuxError("read", self._name, os_reason(error)) from None
            if size > _RECEIVE_BYTES:  # what it was before it was cut
                raise LinuxError("read", self._name, f"a message is longer than {_RECEIVE_BYTES} bytes")
            if sender[0] == 0:  # only the kernel (port 0) is believed
                return bytes(self._view[:size])

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()


def error_number(body: bytes) -> int:
    """The errno of an NLMSG_ERROR or NLMSG_DONE; 0 for a plain acknowledgement."""
    return -struct.unpack_from("=i", body)[0] if len(body) >= 4 else 0


def in_namespace(path: str, make: t.Callable[[], Made]) -> Made:
    """A socket, or several, of the network namespace at a path: each belongs to the one that its thread was in when it was made. Raises OSError.

    A thread of its own enters it and ends there, so that nothing else of this process ever runs in the wrong one.
    """
    import concurrent.futures  # only where other namespaces are looked into, as what follows
    import ctypes  # os.setns came with Python 3.12

    libc = ctypes.CDLL(None, use_errno=True)

    def enter() -> Made:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if libc.setns(handle, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "")
            return make()
        finally:
            os.close(handle)

    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(enter).result()


class RouteSocket(NetlinkSocket):
    """rtnetlink: links, addresses, routes, rules."""

    def __init__(self, name: str, strict: bool = False, netns: str | None = None) -> None:
        super().__init__(NETLINK_ROUTE, name, strict, netns)


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
                raise LinuxError("find", family, f"this kernel has no {family} support") from None
            raise LinuxError("find", family, str(error)) from None
        except BaseException:
            self._socket.close()
            raise

    def _look_up(self, family: str) -> int:
        name = attribute(CTRL_ATTR_FAMILY_NAME, family.encode("ascii") + b"\0")
        for payload in self.order(GENL_ID_CTRL, 0, _generic(CTRL_CMD_GETFAMILY, 1) + name):
            for kind, value in attributes(payload[4:]):
                if kind == CTRL_ATTR_FAMILY_ID:
                    if len(value) < 2:
                        break
                    number: int = struct.unpack("=H", value[:2])[0]
                    return number
        raise NetlinkRefused(errno.ENOENT)

    def dump(self, command: int, payload: bytes, version: int = 1) -> list[bytes]:
        """All answers to a dump request, without their headers. Repeated when the kernel reports that it was interrupted."""
        return [answer[4:] for answer in self.dump_messages(self._id, _generic(command, version) + payload)]

    def send(self, command: int, payload: bytes, version: int = 1) -> None:
        """One request, acknowledged. Raises NetlinkRefused."""
        self.requests += 1
        self.order(self._id, 0, _generic(command, version) + payload)


def _generic(command: int, version: int) -> bytes:
    return struct.pack("=BBH", command, version, 0)
