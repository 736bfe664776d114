# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traffic between many network namespaces by one process, counted where it arrives: numbered UDP packets at a steady rate, TCP streams, long downloads.

Usage: sequence_witness.py SPEC OUT. SPEC is a file: {"members": {name: {"netns": path, "source": address or ""}}, "flows": [[from, to, address], ...],
"rate": packets a second of each flow, "streams": TCP streams of each pair, "download": bytes a second of each pair's download, 0 for none}.
Writes OUT.ready when all connections are open, sends once there is a file "go" in the folder of OUT, runs until SIGTERM, then waits for what is on its way
and writes OUT: {"seconds", "flows": [{"from", "to", "sent", "received": different numbers, "again": duplicates, "missing": [number]}],
"streams": [{"from", "to", "kind", "bytes", "pause": longest time in seconds without a byte, "broken": text or ""}]}.

One process for all, with batches of packets by one system call: eight flows of 1,000 packets a second cost a tenth of a core, so that the machine's cores are
left to what is measured.
"""

from __future__ import annotations

import bisect
import ctypes
import errno
import json
import os
import pathlib
import select
import signal
import socket
import struct
import sys
import time

PORT = 7800
#: Seconds between bursts, and how long what is on its way may take.
TICK, LATE = 0.004, 3.0
#: Packets of one flow that are sent in a row at most.
MOST = 20
#: Seconds between two records of a stream, and after how many without a byte one is broken.
PERIOD, STALLED = 0.2, 20.0
#: Seconds between two rows of lost packets.
APART = 0.5
_PACKET = struct.Struct("!QII104x")
#: In each of its packets, so that those of an earlier witness are left out: WireGuard keeps some while it has no session, and sends them when it has one.
_OWN = int.from_bytes(os.urandom(4), "big")
_BATCH = 64
_FORCED_BUFFER = 33
_BUFFER = 16 << 20
_NEW_NET = 0x40000000
#: What a stream carries, again and again; its length is odd so that a lost or repeated piece shows.
_BLOCK = bytes(number * number % 251 for number in range(65521))
_RECORD = 1000

_libc = ctypes.CDLL(None, use_errno=True)


class _Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class _Header(ctypes.Structure):  # struct msghdr
    _fields_ = [
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vectors", ctypes.POINTER(_Vector)),
        ("count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


class _Message(ctypes.Structure):  # struct mmsghdr
    _fields_ = [("header", _Header), ("length", ctypes.c_uint)]


class Batch:
    """Room for many packets of the same size, for one system call. ``address``: where they go, None for those that come."""

    def __init__(self, count, address=None):
        self.data = ctypes.create_string_buffer(count * _PACKET.size)
        base = ctypes.addressof(self.data)
        self._name = ctypes.create_string_buffer(_socket_address(address)) if address else None
        self._vectors = (_Vector * count)()
        self.messages = (_Message * count)()
        for number in range(count):
            vector = self._vectors[number]
            vector.base, vector.length = base + number * _PACKET.size, _PACKET.size
            message = self.messages[number].header
            message.vectors, message.count = ctypes.pointer(vector), 1
            if self._name:
                message.name, message.name_length = ctypes.addressof(self._name), len(self._name) - 1


def _socket_address(address):
    """The kernel's form of an address and PORT."""
    if ":" in address:
        return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", PORT, 0) + _packed(address) + bytes(4)
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", PORT) + _packed(address) + bytes(8)


def _packed(address):
    return socket.inet_pton(_family(address), address)


def _family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def enter(netns):
    """Opens sockets in a network namespace, an open file, from now on."""
    if _libc.setns(netns.fileno(), _NEW_NET):
        raise OSError(ctypes.get_errno(), f"no namespace {netns.name}")


class Member:
    """A namespace with its sockets."""

    def __init__(self, netns, source, families):
        self._netns, self._source = netns, source
        self.enter()
        self.receivers, self.listeners, self.senders = [], {}, {}
        for family in families:
            anywhere = "::" if family == socket.AF_INET6 else ""
            receiver = socket.socket(family, socket.SOCK_DGRAM)
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            for made in (receiver, listener):
                if family == socket.AF_INET6:
                    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                made.bind((anywhere, PORT))
            receiver.setsockopt(socket.SOL_SOCKET, _FORCED_BUFFER, _BUFFER)
            listener.listen(256)
            sender = socket.socket(family, socket.SOCK_DGRAM)
            sender.bind((source, 0))
            for made in (receiver, sender):
                made.setblocking(False)
            self.receivers.append(receiver)
            self.listeners[family], self.senders[family] = listener, sender

    def enter(self):
        with pathlib.Path(self._netns).open("rb") as file:
            enter(file)

    def connect(self, other, address):
        """(own end, other end) of a connection to another member."""
        self.enter()
        for attempt in range(10):
            try:
                near = socket.create_connection((address, PORT), timeout=5, source_address=(self._source, 0))
                break
            except OSError:
                if attempt == 9:
                    raise
                time.sleep(0.5)
        far = other.listeners[_family(address)].accept()[0]
        for end in (near, far):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return near, far


class Flow:
    """Numbered packets from one member to another."""

    def __init__(self, index, names, sender, address):
        self.source, self.target = names
        self._index, self._sender, self._batch = index, sender.fileno(), Batch(MOST, address)
        self.sent = self.again = 0
        self.seen = bytearray()

    def send(self, due):
        """Everything up to the number ``due``; what the kernel has no room for comes next time."""
        count = min(due - self.sent, MOST)
        if count <= 0:
            return
        for number in range(count):
            _PACKET.pack_into(self._batch.data, number * _PACKET.size, self.sent + number, self._index, _OWN)
        done = _libc.sendmmsg(self._sender, self._batch.messages, count, 0)
        if done > 0:
            self.sent += done
        elif ctypes.get_errno() not in (
            errno.EAGAIN,
            errno.EINTR,
        ):  # no route, no neighbour: packets that do not arrive, and that keep no other flow waiting for this one
            self.sent += count

    def arrived(self, number):
        if number >= len(self.seen):
            self.seen.extend(bytes(number + 10000 - len(self.seen)))
        if self.seen[number]:
            self.again += 1
        self.seen[number] = 1

    def result(self, moments):
        """moments: [(how many packets were due, seconds)] in order."""
        missing = [number for number in range(self.sent) if number >= len(self.seen) or not self.seen[number]]
        return {
            "gaps": _gaps(missing, moments),
            "from": self.source,
            "to": self.target,
            "sent": self.sent,
            "received": sum(self.seen),
            "again": self.again,
            "missing": missing[:2000],
        }


def _gaps(missing, moments):
    """[[seconds when the first packet of a row of lost ones was sent, of the last one, how many]]; rows that are nearer than APART are one."""
    dues = [due for due, _seconds in moments]
    found = []
    for number in missing:
        when = moments[min(bisect.bisect_right(dues, number), len(moments) - 1)][1]
        if found and when - found[-1][1] < APART:
            found[-1][1:] = [when, found[-1][2] + 1]
        else:
            found.append([when, when, 1])
    return found[:200]


class Stream:
    """A TCP connection: ``record`` asks for an echo every PERIOD, ``download`` is fed from the far end at a rate. One that ends or stalls is broken."""

    def __init__(self, names, ends, kind, rate):
        self.names, self.kind, self._rate = names, kind, rate
        self.near, self.far = ends
        self.broken, self.bytes, self.pause = "", 0, 0.0
        self._given = self._asked = self._next = 0
        self._pending = b""
        self._last = self._began = time.monotonic()

    def start(self, now, delay):
        self._last = self._began = now
        self._next = now + delay

    def tick(self, now):
        """Writes what is due at either end."""
        if self.broken:
            return
        self.pause = max(self.pause, now - self._last)
        if now - self._last > STALLED:
            self.broken = f"no byte for {STALLED:.0f} s"
            return
        try:
            if self.kind == "download":
                self._feed(int((now - self._began) * self._rate))
            else:
                self._ask(now)
                if self._pending:
                    self._pending = self._pending[self._far_send(self._pending) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self.broken = str(error)

    def _feed(self, due):
        while self._given < due:
            place = self._given % len(_BLOCK)
            self._given += self._far_send(_BLOCK[place : place + min(due - self._given, 16384)])

    def _far_send(self, data):
        return self.far.send(data)

    def _ask(self, now):
        if now >= self._next and self.bytes == self._asked:  # the answer to the last record is complete
            self._asked += _RECORD
            self._next = now + PERIOD
            if self._given == self.bytes:
                self._last = now
        while self._given < self._asked:
            place = self._given % len(_BLOCK)
            self._given += self.near.send(_BLOCK[place : place + self._asked - self._given])

    def far_readable(self):
        try:
            data = self.far.recv(65536)
            if not data:
                self.broken = self.broken or "the other end closed it"
                return False
            self._pending += data
            self._pending = self._pending[self._far_send(self._pending) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self.broken = self.broken or str(error)
            return False
        return True

    def near_readable(self):
        try:
            data = self.near.recv(65536)
        except BlockingIOError:
            return True
        except OSError as error:
            self.broken = self.broken or str(error)
            return False
        if not data:
            self.broken = self.broken or "the other end closed it"
            return False
        place = self.bytes % len(_BLOCK)
        if (_BLOCK + _BLOCK)[place : place + len(data)] != data:
            self.broken = self.broken or f"other bytes than were sent, from {self.bytes}"
        self.bytes += len(data)
        self._last = time.monotonic()
        return True

    def result(self):
        return {
            "from": self.names[0],
            "to": self.names[1],
            "kind": self.kind,
            "bytes": self.bytes,
            "pause": round(self.pause, 3),
            "broken": self.broken,
        }


class Witness:
    """All members, flows and streams, served by one loop."""

    def __init__(self, spec):
        families = sorted({_family(address) for _source, _target, address in spec["flows"]})
        with pathlib.Path("/proc/self/ns/net").open("rb") as home:
            self._open_all(spec, families)
            enter(home)  # a lab that takes a node's power ends what is in the namespaces of its pods

    def _open_all(self, spec, families):
        self._rate = float(spec["rate"])
        self._members = {
            name: Member(row["netns"], row.get("source", ""), families) for name, row in spec["members"].items()
        }
        self.flows = [
            Flow(index, (source, target), self._members[source].senders[_family(address)], address)
            for index, (source, target, address) in enumerate(spec["flows"])
        ]
        self.streams = []
        self.began, self.moments = 0.0, []
        self._poll = select.epoll()
        self._readers = {}
        for member in self._members.values():
            for receiver in member.receivers:
                self._watch(receiver, self._reader(receiver))
        for source, target, address in spec["flows"]:
            self._open(spec, source, target, address)

    def _open(self, spec, source, target, address):
        """Half of a pair's streams are opened from either end; the download goes to the first of both names."""
        first = source < target
        count = (int(spec["streams"]) + first) // 2
        kinds = ["record"] * count + ["download"] * bool(first and spec.get("download"))
        for kind in kinds:
            ends = self._members[source].connect(self._members[target], address)
            stream = Stream((source, target), ends, kind, spec.get("download"))
            self.streams.append(stream)
            self._watch(stream.near, stream.near_readable)
            if kind == "record":
                self._watch(stream.far, stream.far_readable)

    def _watch(self, sock, reader):
        self._poll.register(sock.fileno(), select.EPOLLIN)
        self._readers[sock.fileno()] = reader

    def _reader(self, receiver):
        number, batch, flows = receiver.fileno(), Batch(_BATCH), self.flows

        def read():
            while True:
                count = _libc.recvmmsg(number, batch.messages, _BATCH, 0x40, None)
                if count <= 0:
                    return True
                for place, index, sender in _PACKET.iter_unpack(batch.data.raw[: count * _PACKET.size]):
                    if sender == _OWN:
                        flows[index].arrived(place)
                if count < _BATCH:
                    return True

        return read

    def receive(self, seconds):
        for number, _events in self._poll.poll(seconds):
            if not self._readers[number]():
                self._poll.unregister(number)

    def run(self, ended):
        """Sends until ``ended`` has something in it. Returns for how many seconds."""
        self.began = began = started = time.monotonic()
        for number, stream in enumerate(self.streams):
            stream.start(began, PERIOD * number / max(1, len(self.streams)))
        following = began
        while not ended:
            now = time.monotonic()
            due = int((now - started) * self._rate)
            behind = due - min((flow.sent for flow in self.flows), default=due) - MOST
            if (
                behind > 0
            ):  # this process did not run for a while: a burst would fill queues that a steady rate does not
                started += behind / self._rate
                due -= behind
            self.moments.append((due, now - began))
            for flow in self.flows:
                flow.send(due)
            if now >= following:
                following = now + 5 * TICK
                for stream in self.streams:
                    stream.tick(now)
            self.receive(TICK)
        seconds = time.monotonic() - began
        end = time.monotonic() + LATE
        while time.monotonic() < end:
            self.receive(0.05)
        return seconds


def main(spec, out):
    ended = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_unused: ended.append(True))
    witness = Witness(json.loads(pathlib.Path(spec).read_text(encoding="utf-8")))
    pathlib.Path(out + ".ready").touch()
    while not ended and not pathlib.Path(out).with_name("go").exists():
        time.sleep(0.05)
    seconds = witness.run(ended)
    result = {
        "seconds": seconds,
        "began": witness.began,
        "flows": [flow.result(witness.moments) for flow in witness.flows],
        "streams": [stream.result() for stream in witness.streams],
        "processor": sum(os.times()[:2]),
    }
    pathlib.Path(out).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
