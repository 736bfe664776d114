# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many pings in one process: a socket for each pod, made in its network namespace, and all of its targets asked at once.

A process for each pair is what a node of a large fabric would spend most of its time on. Every pair is asked with a small packet, and who answers once
more with one that fills the tunnel: a way that carries small packets alone answers pings and stalls connections.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
import typing as t

from ..netlink.messages import in_namespace

#: So many are sent before answers are taken: a burst must not overrun a device's queue or our own.
_BURST = 32
_HEADER, _TOKEN_BYTES, _RECEIVE_BYTES = struct.Struct(">BBHHH"), 8, 1 << 20
#: An echo has the token and its place in the rows, then as many zeros as its size asks for.
_SMALL = _TOKEN_BYTES + 4
_ICMP6_FILTER, _SOL_ICMPV6 = 1, 58
#: (request, reply)
_KINDS = {4: (8, 0), 6: (128, 129)}
#: Of a packet, before the echo's body.
_HEADERS = {4: 20 + _HEADER.size, 6: 40 + _HEADER.size}
#: linux/in.h, linux/in6.h: do not fragment, ever; and the largest packet that the kernel would send to a connected target.
_DISCOVER = {4: (socket.IPPROTO_IP, 10), 6: (socket.IPPROTO_IPV6, 23)}
_MTU = {4: (socket.IPPROTO_IP, 14), 6: (socket.IPPROTO_IPV6, 24)}
_DO = 2
#: Where a full packet is lost: so many sizes are asked at once until two that are next to each other are found, for at most so long each time.
_SIZES, _SIZE_SECONDS = 16, 1.0

Row = dict[str, t.Any]


def ping_all(jobs: t.Sequence[t.Mapping[str, t.Any]], tries: int, wait_seconds: float) -> list[Row]:
    """Every job is {netns: path or None, source, target, mtu, ...} and comes back with ok and milliseconds (None without an answer), size and full.

    One answer counts: the first packets may wait for a handshake. An address is asked ``tries`` times, each for ``wait_seconds``. A job with
    ``awaited`` False is asked once, and its answer taken if it comes while others are waited for.
    ``mtu``: bytes of a packet that fills the tunnel to the target, or None where there is none; ``full``: bytes of the largest packet that had to be
    answered, which is not larger than what the pod's kernel would send; ``size``: bytes of the largest one that was, both None where none was asked for.
    """
    rows: list[Row] = [dict(job, ok=False, milliseconds=None, size=None, full=None) for job in jobs]
    pods: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        pods.setdefault((row.get("netns") or "", row["source"]), []).append(row)
    open_ones: list[_Pod] = []
    try:
        for (netns, source), asked in pods.items():
            pod = _Pod(source, asked)
            try:
                in_namespace(netns, pod.open) if netns else pod.open()
            except OSError:
                continue  # it went while we looked, or has given its address up: nothing answers from there
            open_ones.append(pod)
        for ask in (_Pod.ask_small, _Pod.ask_full):
            for dummy in range(tries):
                if not _some(ask, open_ones):
                    break
                _ask(open_ones, wait_seconds)
        while _some(_Pod.ask_sizes, open_ones):
            _ask(open_ones, min(wait_seconds, _SIZE_SECONDS))
    finally:
        for pod in open_ones:
            pod.close()
    return rows


def _some(ask: t.Callable[[_Pod], bool], pods: t.Sequence[_Pod]) -> bool:
    """Let every pod choose what it asks next; whether any has something to ask."""
    return max([ask(pod) for pod in pods], default=False)


def _ask(pods: t.Sequence[_Pod], wait: float) -> None:
    """Send what is to be asked, and wait until all of it is answered, ``wait`` seconds at most."""
    sent = [pod for pod in pods if pod.send(pods)]
    deadline = time.monotonic() + wait
    while any(pod.waits() for pod in sent):
        left = deadline - time.monotonic()
        if left <= 0:
            return
        _take(pods, left)


def _take(pods: t.Sequence[_Pod], seconds: float) -> None:
    poller = select.poll()
    by_file = {pod.fileno(): pod for pod in pods}
    for number in by_file:
        poller.register(number, select.POLLIN)
    for number, dummy in poller.poll(int(1000 * seconds)):
        by_file[number].receive()


class _Pod:
    """One source with its targets; an answer has to come from who was asked and to bear what was sent."""

    def __init__(self, source: str, rows: t.Sequence[Row]) -> None:
        self._source, self._rows = source, rows
        self._version = 6 if ":" in source else 4
        self._token, self._number = os.urandom(_TOKEN_BYTES), int.from_bytes(os.urandom(2), "big")
        self._sent: dict[int, float] = {}
        self._sockets: list[socket.socket] = []
        #: (place in the rows, bytes of the packet or 0 for a small one) of what is asked and not answered
        self.pending: set[tuple[int, int]] = set()
        #: place -> the sizes that were asked at once, the last of them known to be lost
        self._asked: dict[int, list[int]] = {}

    def open(self) -> None:
        """Make the sockets, in whichever namespace this is called in. Raises OSError."""
        family, protocol = (
            (socket.AF_INET6, socket.IPPROTO_ICMPV6) if self._version == 6 else (socket.AF_INET, socket.IPPROTO_ICMP)
        )
        made = socket.socket(family, socket.SOCK_RAW | socket.SOCK_NONBLOCK, protocol)
        self._sockets.append(made)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
            made.setsockopt(*_DISCOVER[self._version], _DO)
            if self._version == 6:
                reply = _KINDS[6][1]  # the kernel keeps everything else from us: a bit that is set blocks its type
                made.setsockopt(
                    _SOL_ICMPV6,
                    _ICMP6_FILTER,
                    b"".join(
                        struct.pack("=I", 0xFFFFFFFF & ~(1 << (reply % 32) if reply // 32 == word else 0))
                        for word in range(8)
                    ),
                )
            made.bind((self._source, 0))
            self._sockets.append(socket.socket(family, socket.SOCK_DGRAM))  # which only asks the kernel
            self._sockets[1].bind((self._source, 0))
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Give the sockets back."""
        for made in self._sockets:
            made.close()

    def fileno(self) -> int:
        """For a poll."""
        return self._sockets[0].fileno()

    def waits(self) -> bool:
        """Whether an answer is awaited that has not come."""
        return any(self._awaited(place) for place, _size in self.pending)

    def _awaited(self, place: int) -> bool:
        return self._rows[place].get("awaited") is not False

    def ask_small(self) -> bool:
        """Ask whoever has not answered at all; False where there is no such."""
        open_ones = [place for place, row in enumerate(self._rows) if not row["ok"]]
        self.pending = {(place, 0) for place in open_ones if self._awaited(place) or place not in self._sent}
        return bool(self.pending)

    def ask_full(self) -> bool:
        """Ask those that answered and have not answered a packet that fills the tunnel; False where there is no such."""
        self.pending = set()
        for place, row in enumerate(self._rows):
            if row["ok"] and row.get("mtu") and (row["size"] is None or row["size"] < row["full"]):
                # again each time: the kernel keeps the MTU of a router's "too big", and a connection would send less from then on
                row["full"] = min(row["mtu"], self._largest(row["target"]) or row["mtu"])
                row["size"] = row["size"] or _HEADERS[self._version] + _SMALL
                if row["size"] < row["full"]:
                    self.pending.add((place, row["full"]))
        return bool(self.pending)

    def ask_sizes(self) -> bool:
        """Ask sizes between the largest that was answered and the smallest that was lost, where full ones were; False where none is between them."""
        self.pending = set()
        for place, row in enumerate(self._rows):
            if row["full"] is None or row["size"] >= row["full"]:
                continue
            passed, lost = (
                row["size"],
                min((size for size in self._asked.get(place, ()) if size > row["size"]), default=row["full"]),
            )
            step = max(1, -(-(lost - passed - 1) // _SIZES))
            self._asked[place] = [*range(passed + step, lost, step), lost]
            self.pending.update((place, size) for size in self._asked[place][:-1])
        return bool(self.pending)

    def _largest(self, target: str) -> int | None:
        """The largest packet that the pod's kernel would send to a target now, None where it has no way."""
        try:
            self._sockets[1].connect((target, 9))
            return int(self._sockets[1].getsockopt(*_MTU[self._version]))
        except OSError:
            return None

    def send(self, pods: t.Sequence[_Pod]) -> bool:
        """Send what is to be asked; False where none could even be sent."""
        gone = False
        for count, (place, size) in enumerate(sorted(self.pending)):
            if count % _BURST == _BURST - 1:
                _take(pods, 0.001)
            gone = self._send(place, size) or gone
        return gone

    def _send(self, place: int, size: int) -> bool:
        body = self._token + struct.pack(">I", place)
        body += bytes(max(0, size - _HEADERS[self._version] - len(body)))
        words = (_KINDS[self._version][0], 0, 0, self._number, place & 0xFFFF)
        if self._version == 4:  # of version 6 the kernel fills the sum in
            words = (*words[:2], _checksum(_HEADER.pack(*words) + body), *words[3:])
        packet = _HEADER.pack(*words) + body
        if not size:
            self._sent[place] = time.monotonic()
        try:
            self._sockets[0].sendto(packet, (self._rows[place]["target"], 0))
        except OSError:
            return False  # this host has no way there, now, or none for that size
        return True

    def receive(self) -> None:
        """Take every answer that is there."""
        while True:
            try:
                packet, sender = self._sockets[0].recvfrom(65535)
            except BlockingIOError:
                return
            except OSError:
                continue  # an error that came back of another packet
            if self._version == 4:
                packet = packet[4 * (packet[0] & 15) :] if packet else b""
            self._answer(packet, str(sender[0]).partition("%")[0], time.monotonic())

    def _answer(self, packet: bytes, sender: str, now: float) -> None:
        start, length = _HEADER.size + _TOKEN_BYTES, len(packet) - _HEADER.size - _SMALL
        if length < 0 or packet[0] != _KINDS[self._version][1] or packet[_HEADER.size : start] != self._token:
            return
        (place,) = struct.unpack(">I", packet[start : start + 4])
        if place not in self._sent or not _same(sender, self._rows[place]["target"]):
            return
        row, size = self._rows[place], length and len(packet) + _HEADERS[self._version] - _HEADER.size
        self.pending.discard((place, size))
        if size:
            row["size"] = max(size, row["size"] or 0)
        elif not row["ok"]:
            row.update(ok=True, milliseconds=round(1000 * (now - self._sent[place]), 3))


def _same(one: str, other: str) -> bool:
    family = socket.AF_INET6 if ":" in one else socket.AF_INET
    try:
        return socket.inet_pton(family, one) == socket.inet_pton(family, other)
    except OSError:
        return False


def _checksum(packet: bytes) -> int:
    packet += b"\0" * (len(packet) % 2)
    total: int = sum(struct.unpack(f">{len(packet) // 2}H", packet))
    while total >> 16:
        total = (total >> 16) + (total & 0xFFFF)
    return 0xFFFF & ~total
