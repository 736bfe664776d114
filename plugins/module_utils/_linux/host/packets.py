# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sending single packets from a pod's own network namespace, from a chosen port, and what comes back: an answer, a refusal, an error, nothing.

Sockets belong to the namespace in which they were made, so this process itself stays where it is. TCP opens a connection
and resets it, UDP sends an empty datagram (a question for the root to a name server), ICMP an echo. A size is of the whole
IP packet, which then must not be fragmented; TCP's is a SYN with a payload, which no server hands to its program.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time
import typing as t

from ..netlink.messages import ADDRESS_FAMILIES, in_namespace
from ..nftables.headers import ECHO, ECHO_REPLY, ICMP, TCP, Headers, error_name, read_headers

#: So many at once; each takes a file or two.
_AT_ONCE = 200
_AGAIN = 0.7
_NAME_SERVER = 53
_HEADER_BYTES = {4: 20, 6: 40}
#: Where a path reports that it takes less, so often that is tried.
_SMALLER = 3
_LEAST = {4: 68, 6: 1280}
_IP_RECVERR, _IP_MTU_DISCOVER, _IPV6_RECVERR, _IPV6_MTU_DISCOVER, _IPV6_CHECKSUM, _PROBE = 11, 10, 25, 23, 7, 3
_MSG_ERRQUEUE = 0x2000
_LOCAL, _EXTENDED_ERROR = 1, struct.Struct("=IBBBxII")
_RESET_ON_CLOSE = struct.pack("=ii", 1, 0)
_UNREACHABLE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EPERM, errno.EINVAL)


class Job(t.NamedTuple):
    """``flow`` is returned as given. netns: path of the namespace, None for that of the host. number: source port, or identifier of ICMP."""

    flow: str
    netns: str | None
    protocol: str
    version: int
    source: str
    target: str
    port: int
    number: int


class Outcome(t.NamedTuple):
    """outcome: answered, refused, unreachable (this host has no way), icmp_error, "no_answer" (no answer), failed (nothing was sent). size 0 is a small packet.

    error: name of an ICMP error, with who sent it and the MTU that it reports.
    """

    flow: str
    size: int
    outcome: str
    detail: str
    milliseconds: float | None = None
    error: str | None = None
    sender: str | None = None
    mtu: int | None = None


class _Failure(t.NamedTuple):
    """What the kernel keeps about an error of a socket."""

    number: int
    local: bool
    error: str | None
    sender: str | None
    mtu: int


_SOMEBODY_ELSES = _Failure(0, False, None, None, 0)


def send(jobs: t.Sequence[Job], wait: float, sizes: t.Sequence[int] = ()) -> list[Outcome]:
    """A small packet for each job, then for each one that was not turned down those sizes. wait: seconds for an answer, each time."""
    found = _send_all([(job, 0) for job in jobs], wait)
    no_answer_is_fine = {job.flow for job in jobs if job.protocol == "udp"}
    open_ways = {
        row.flow
        for row in found
        if row.outcome == "answered" or (row.outcome == "no_answer" and row.flow in no_answer_is_fine)
    }
    for size in sizes:
        todo = [(job, size) for job in jobs if job.flow in open_ways]
        for _turn in range(_SMALLER):
            rows = _send_all(todo, wait) if todo else []
            found += rows
            again = {row.flow: row.mtu for row in rows if row.error == "too_big" and row.mtu and row.mtu < row.size}
            todo = [(job, again[job.flow] or 0) for job in jobs if (again.get(job.flow) or 0) >= _LEAST[job.version]]
    return found


def _send_all(todo: t.Sequence[tuple[Job, int]], wait: float) -> list[Outcome]:
    found: list[Outcome] = []
    for start in range(0, len(todo), _AT_ONCE):
        probes = [_Probe(job, size) for job, size in todo[start : start + _AT_ONCE]]
        try:
            _make_sockets(probes)
            _run(probes, wait)
            found += [probe.outcome() for probe in probes]
        finally:
            for probe in probes:
                probe.close()
    return found


def _make_sockets(probes: t.Sequence[_Probe]) -> None:
    """Enter each namespace once."""
    for netns in sorted({probe.job.netns or "" for probe in probes}):
        there = [probe for probe in probes if (probe.job.netns or "") == netns]

        def make(there: t.Sequence[_Probe] = there) -> None:
            for probe in there:
                probe.make()

        try:
            in_namespace(netns, make) if netns else make()
        except OSError as error:
            for probe in there:
                probe.fail("failed", f"its network namespace cannot be entered: {os.strerror(error.errno or 0)}")


def _run(probes: t.Sequence[_Probe], wait: float) -> None:
    poller = select.poll()
    by_file: dict[int, _Probe] = {}
    for probe in probes:
        if probe.done is None:
            probe.begin()
        if probe.done is None:
            by_file[probe.fileno()] = probe
            poller.register(probe.fileno(), probe.events)
    while by_file:
        now = time.monotonic()
        next_time = min(min(probe.on_time(now), probe.began + wait) for probe in by_file.values())
        for number, _event in poller.poll(max(1, int(1000 * (next_time - now)) + 1)):
            by_file[number].ready()
        over = time.monotonic() - wait
        for number in [number for number, probe in by_file.items() if probe.done is not None or probe.began <= over]:
            poller.unregister(number)
            del by_file[number]


class _Probe:
    """One packet (and its repetitions) with what became of it."""

    def __init__(self, job: Job, size: int) -> None:
        self.job, self.size = job, size
        self.done: Outcome | None = None
        self.events = select.POLLIN
        self._socket: socket.socket | None = None
        self.began = self._last = 0.0
        self._connects = job.protocol == "tcp" and not size

    # --- before ---

    def make(self) -> None:
        """In the namespace's own thread."""
        job = self.job
        kind, protocol = socket.SOCK_RAW, {"tcp": TCP, "icmp": ICMP[job.version]}.get(job.protocol, 0)
        if self._connects:
            kind, protocol = socket.SOCK_STREAM, 0
        elif job.protocol == "udp":
            kind = socket.SOCK_DGRAM
        try:
            made = socket.socket(
                ADDRESS_FAMILIES[job.version], kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol
            )
            self._socket = made
            level, recverr, discover = (
                (socket.IPPROTO_IP, _IP_RECVERR, _IP_MTU_DISCOVER)
                if job.version == 4
                else (socket.IPPROTO_IPV6, _IPV6_RECVERR, _IPV6_MTU_DISCOVER)
            )
            made.setsockopt(level, recverr, 1)
            if self.size:
                made.setsockopt(level, discover, _PROBE)
            if kind == socket.SOCK_RAW:
                if job.version == 6 and protocol == TCP:
                    made.setsockopt(socket.IPPROTO_IPV6, _IPV6_CHECKSUM, 16)
                made.bind((job.source, 0))
            else:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                made.bind((job.source, job.number))
            if self._connects:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        except OSError as error:
            what = (
                f"port {job.number} of {job.source} is in use there"
                if error.errno == errno.EADDRINUSE
                else _words(error)
            )
            self.fail("failed", what)

    def begin(self) -> None:
        self.began = self._last = time.monotonic()
        job, made = self.job, self._made()
        number = made.connect_ex((job.target, job.port if made.type != socket.SOCK_RAW else 0))
        if number == errno.EINPROGRESS:
            self.events = select.POLLOUT
        elif number:
            self._refused_here(number)
        elif self._connects:
            self._answered()
        else:
            self.again()

    def on_time(self, now: float) -> float:
        """Repeat what got no answer for a while; when that is due the next time."""
        if self.done is None and now - self._last >= _AGAIN:
            self._last = now
            self.again()
        return self._last + _AGAIN

    def again(self) -> None:
        """Send, or send once more; the kernel repeats a SYN by itself."""
        if self._connects or self.done is not None:
            return
        try:
            self._made().send(self._packet())
        except OSError as error:
            self._failed_with(error.errno or 0)

    def _made(self) -> socket.socket:
        if self._socket is None:
            raise ValueError("no socket")
        return self._socket

    def fileno(self) -> int:
        return self._made().fileno()

    def _packet(self) -> bytes:
        job = self.job
        room = max(0, self.size - _HEADER_BYTES[job.version])
        if job.protocol == "udp":
            if job.port == _NAME_SERVER and not self.size:
                return struct.pack(">HHHHHHBHH", job.number, 0x0100, 1, 0, 0, 0, 0, 2, 1)
            return bytes(max(0, room - 8))
        if job.protocol == "icmp":
            head = struct.pack(">BBHHH", ECHO[job.version], 0, 0, job.number, 1)
            packet = head + bytes(max(16, room - len(head)))
            return _with_checksum(packet, 2, b"")
        head = struct.pack(">HHIIBBHHH", job.number, job.port, 0x6D636E00 + self.size, 0, 5 << 4, 0x02, 64240, 0, 0)
        packet = head + bytes(max(0, room - len(head)))
        if job.version == 6:
            return packet  # the kernel adds its checksum
        ends = socket.inet_aton(job.source) + socket.inet_aton(job.target)
        return _with_checksum(packet, 16, ends + struct.pack(">BBH", 0, TCP, len(packet)))

    # --- after ---

    def ready(self) -> None:
        """Something came."""
        made = self._made()
        if self._connects:
            number = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                self._failed_with(number)
            else:
                self._answered()
            return
        try:
            data, _sender = made.recvfrom(1 << 16)
        except BlockingIOError:
            failure = self._failure()
            if failure is not None:
                self._judge(failure)
        except OSError as error:
            self._failed_with(error.errno or 0)
        else:
            self._read(data)

    def _read(self, data: bytes) -> None:
        job = self.job
        if job.protocol == "udp":
            self._answered()
            return
        found = self._headers(data)
        if found is None:
            return
        if job.protocol == "icmp" and found.number == job.number and found.icmp == (ECHO_REPLY[job.version], 0):
            self._answered()
        elif job.protocol == "tcp" and (found.sport, found.dport) == (job.port, job.number):
            if "rst" in found.flags:
                self._refused()
            elif "syn" in found.flags:
                self._answered()

    def _headers(self, data: bytes) -> Headers | None:
        """Raw sockets of IPv4 show IP's header, those of IPv6 do not."""
        if self.job.version == 4:
            length = (data[0] & 0x0F) * 4 if data else 0
            return read_headers(data[:length], data[length:])
        protocol = TCP if self.job.protocol == "tcp" else ICMP[6]
        return read_headers(struct.pack(">IHBB", 6 << 28, len(data) & 0xFFFF, protocol, 0) + bytes(32), data)

    def _failed_with(self, number: int) -> None:
        self._judge(self._failure() or _Failure(number, True, None, None, 0))

    def _failure(self) -> _Failure | None:
        """What the kernel keeps of an error alongside its number."""
        try:
            data, extra, _flags, _address = self._made().recvmsg(1 << 16, 512, _MSG_ERRQUEUE)
        except OSError:
            return None
        for _level, kind, raw in extra:
            if kind not in (_IP_RECVERR, _IPV6_RECVERR) or len(raw) < _EXTENDED_ERROR.size:
                continue
            number, origin, icmp, code, info, _data = _EXTENDED_ERROR.unpack_from(raw)
            if origin == _LOCAL:
                return _Failure(number, True, None, None, info)
            if self.job.protocol == "icmp" and not self._is_owned(data):
                return _SOMEBODY_ELSES
            name = error_name(self.job.version, icmp, code) or f"icmp_{icmp}_{code}"
            return _Failure(
                number, False, name, _offender(raw[_EXTENDED_ERROR.size :]), info if name == "too_big" else 0
            )
        return None

    def _is_owned(self, quoted: bytes) -> bool:
        """A raw socket gets the errors of every echo to its target."""
        return len(quoted) < 6 or struct.unpack_from(">H", quoted, 4)[0] == self.job.number

    def _judge(self, failure: _Failure) -> None:
        if failure == _SOMEBODY_ELSES:
            return
        if failure.local:
            if failure.number == errno.EMSGSIZE and self.size and _LEAST[self.job.version] <= failure.mtu < self.size:
                self.size = failure.mtu  # more than the pod's own device takes is nobody's fault
                self.again()
            elif failure.number == errno.ECONNREFUSED:
                self._refused()
            elif failure.number == errno.ETIMEDOUT:
                return  # the kernel's time limit is over; the probe's own decides
            else:
                self._refused_here(failure.number)
            return
        if failure.error == "port_unreachable" and failure.sender == self.job.target:
            self._refused()
            return
        words = [
            failure.error or "",
            f"from {failure.sender}" if failure.sender else "",
            f"mtu {failure.mtu}" if failure.mtu else "",
        ]
        self._end("icmp_error", " ".join(filter(None, words)), failure)

    def _refused_here(self, number: int) -> None:
        self._end("unreachable" if number in _UNREACHABLE else "failed", os.strerror(number))

    def _answered(self) -> None:
        self._end("answered", "")

    def _refused(self) -> None:
        self._end("refused", "connection refused" if self.job.protocol == "tcp" else "port unreachable")

    def _end(self, outcome: str, detail: str, failure: _Failure | None = None) -> None:
        took = round((time.monotonic() - self.began) * 1000, 2)
        self.done = Outcome(
            self.job.flow,
            self.size,
            outcome,
            detail,
            took,
            failure.error if failure else None,
            failure.sender if failure else None,
            (failure.mtu or None) if failure else None,
        )

    def fail(self, outcome: str, detail: str) -> None:
        self.done = Outcome(self.job.flow, self.size, outcome, detail)

    def outcome(self) -> Outcome:
        return self.done or Outcome(self.job.flow, self.size, "no_answer", "no answer")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _words(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _offender(raw: bytes) -> str | None:
    """The address behind an extended error."""
    family = struct.unpack_from("=H", raw)[0] if len(raw) >= 2 else 0
    if family == socket.AF_INET and len(raw) >= 8:
        return socket.inet_ntop(socket.AF_INET, raw[4:8])
    if family == socket.AF_INET6 and len(raw) >= 24:
        return socket.inet_ntop(socket.AF_INET6, raw[8:24])
    return None


def _with_checksum(packet: bytes, offset: int, before: bytes) -> bytes:
    data = before + packet + b"\0" * (len(packet) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return packet[:offset] + struct.pack(">H", ~total & 0xFFFF) + packet[offset + 2 :]
