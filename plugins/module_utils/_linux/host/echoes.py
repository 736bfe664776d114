# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many pings in one process: a socket for each pod, made in its network namespace, and all of its targets asked at once.

A process for each pair is what a node of a large fabric would spend most of its time on.
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
_ICMP6_FILTER, _SOL_ICMPV6 = 1, 58
#: (request, reply)
_KINDS = {4: (8, 0), 6: (128, 129)}

Row = t.Dict[str, t.Any]


def ping_all(jobs: t.Sequence[t.Mapping[str, t.Any]], tries: int, wait_seconds: float) -> t.List[Row]:
    """Every job is {netns: path or None, source, target, ...} and comes back with ok and milliseconds (None without an answer).

    One answer counts: the first packets may wait for a handshake. An address is asked ``tries`` times, each for ``wait_seconds``.
    """
    rows: t.List[Row] = [dict(job, ok=False, milliseconds=None) for job in jobs]
    pods: t.Dict[t.Tuple[str, str], t.List[Row]] = {}
    for row in rows:
        pods.setdefault((row.get("netns") or "", row["source"]), []).append(row)
    open_ones: t.List[_Pod] = []
    try:
        for (netns, source), asked in pods.items():
            pod = _Pod(source, asked)
            try:
                in_namespace(netns, pod.open) if netns else pod.open()
            except OSError:
                continue  # it went while we looked, or has given its address up: nothing answers from there
            open_ones.append(pod)
        ready: t.Sequence[_Pod] = open_ones
        for dummy in range(tries):
            ready = [pod for pod in ready if pod.missing()]
            if not ready:
                break
            _ask(ready, wait_seconds)
    finally:
        for pod in open_ones:
            pod.close()
    return rows


def _ask(pods: t.Sequence["_Pod"], wait: float) -> None:
    """Ask everyone who has not answered once more, and wait until all of those have, ``wait`` seconds at most."""
    sent = [pod for pod in pods if pod.send(pods)]
    deadline = time.monotonic() + wait
    while any(pod.missing() for pod in sent):
        left = deadline - time.monotonic()
        if left <= 0:
            return
        _take(pods, left)


def _take(pods: t.Sequence["_Pod"], seconds: float) -> None:
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
        self._sent: t.Dict[int, float] = {}
        self._socket: t.Optional[socket.socket] = None

    def open(self) -> None:
        """Make the socket, in whichever namespace this is called in. Raises OSError."""
        family, protocol = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if self._version == 6 else (socket.AF_INET, socket.IPPROTO_ICMP)
        made = socket.socket(family, socket.SOCK_RAW | socket.SOCK_NONBLOCK, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
            if self._version == 6:
                reply = _KINDS[6][1]  # the kernel keeps everything else from us: a bit that is set blocks its type
                made.setsockopt(_SOL_ICMPV6, _ICMP6_FILTER, b"".join(
                    struct.pack("=I", 0xFFFFFFFF & ~(1 << (reply % 32) if reply // 32 == word else 0)) for word in range(8)
                ))  # fmt: skip
            made.bind((self._source, 0))
        except OSError:
            made.close()
            raise
        self._socket = made

    def close(self) -> None:
        """Give the socket back."""
        if self._socket is not None:
            self._socket.close()

    def fileno(self) -> int:
        """For a poll."""
        return -1 if self._socket is None else self._socket.fileno()

    def missing(self) -> t.List[int]:
        """The places in the rows of those who have not answered."""
        return [place for place, row in enumerate(self._rows) if not row["ok"]]

    def send(self, pods: t.Sequence["_Pod"]) -> bool:
        """Ask whoever has not answered; False where none could even be sent."""
        gone = False
        for count, place in enumerate(self.missing()):
            if count % _BURST == _BURST - 1:
                _take(pods, 0.001)
            gone = self._send(place) or gone
        return gone

    def _send(self, place: int) -> bool:
        if self._socket is None:
            return False
        body = self._token + struct.pack(">I", place)
        words = (_KINDS[self._version][0], 0, 0, self._number, place & 0xFFFF)
        if self._version == 4:  # of version 6 the kernel fills the sum in
            words = (*words[:2], _checksum(_HEADER.pack(*words) + body), *words[3:])
        packet = _HEADER.pack(*words) + body
        self._sent[place] = time.monotonic()
        try:
            self._socket.sendto(packet, (self._rows[place]["target"], 0))
        except OSError:
            return False  # this host has no way there, now
        return True

    def receive(self) -> None:
        """Take every answer that is there."""
        while self._socket is not None:
            try:
                packet, sender = self._socket.recvfrom(2048)
            except BlockingIOError:
                return
            except OSError:
                continue  # an error that came back of another packet
            if self._version == 4:
                packet = packet[4 * (packet[0] & 15) :] if packet else b""
            self._answer(packet, str(sender[0]).partition("%")[0], time.monotonic())

    def _answer(self, packet: bytes, sender: str, now: float) -> None:
        size = _HEADER.size + _TOKEN_BYTES
        if len(packet) != size + 4 or packet[0] != _KINDS[self._version][1] or packet[_HEADER.size : size] != self._token:
            return
        (place,) = struct.unpack(">I", packet[size:])
        if place in self._sent and _same(sender, self._rows[place]["target"]) and not self._rows[place]["ok"]:
            self._rows[place].update(ok=True, milliseconds=round(1000 * (now - self._sent[place]), 3))


def _same(one: str, other: str) -> bool:
    family = socket.AF_INET6 if ":" in one else socket.AF_INET
    try:
        return socket.inet_pton(family, one) == socket.inet_pton(family, other)
    except OSError:
        return False


def _checksum(packet: bytes) -> int:
    total = sum(struct.unpack(">{0}H".format(len(packet) // 2), packet))
    total = (total >> 16) + (total & 0xFFFF)
    return 0xFFFF & ~(total + (total >> 16))
