# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts packets where they arrive: each pod sends numbered UDP packets to others at a steady rate, keeps TCP streams open, and notes what it received.

Usage: sequence_witness.py OUT NAME RATE STREAMS TARGET...; writes OUT.ready when it can receive, sends once there is a file "go" in the folder of OUT,
runs until SIGTERM or SIGINT, then waits for what is on its way and writes OUT as JSON:
{"sent": {target: count}, "received": {source: count of different numbers}, "last": {source: highest number + 1}, "again": {source: duplicates},
"streams": {"open": count, "broken": [text], "records": count}}.
"""

from __future__ import annotations

import json
import os
import pathlib
import select
import signal
import socket
import struct
import sys
import threading
import time

PORT = 7800
#: Seconds between bursts, and how long what is on its way may take.
TICK, LATE = 0.004, 3.0
#: Packets to one target that are sent in a row at most.
MOST = 20
_NUMBER = struct.Struct("!QI")
_FORCED_BUFFER = 33
_BUFFER = 16 << 20
_RECORD = b"x" * 1000
#: The address that packets come from, where the kernel would take another.
SOURCE = os.environ.get("MCN_WITNESS_SOURCE", "")


class Streams:
    """TCP connections that carry a record in both directions ten times a second; one that ends is broken."""

    def __init__(self, targets, count):
        self.broken, self.records, self.open, self.ended = [], 0, 0, False
        listener = socket.create_server(("", PORT), backlog=256)
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()
        for target in targets:
            for _number in range(count):
                threading.Thread(target=self._ask, args=(target,), daemon=True).start()

    def _serve(self, listener):
        while True:
            connection, _where = listener.accept()
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    @staticmethod
    def _echo(connection):
        try:
            while True:
                data = connection.recv(65536)
                if not data:
                    return
                connection.sendall(data)
        except OSError:
            return

    def _ask(self, target):
        connection = None
        for _try in range(100):  # the other pod's witness may start later
            try:
                connection = socket.create_connection((target, PORT), timeout=5, source_address=(SOURCE, 0))
                break
            except OSError:
                time.sleep(0.2)
        if connection is None:
            self.broken.append(f"{target}: no connection")
            return
        connection.settimeout(20)
        self.open += 1
        try:
            while not self.ended:
                connection.sendall(_RECORD)
                left = len(_RECORD)
                while left:
                    data = connection.recv(left)
                    if not data:
                        raise OSError("the other end closed it")
                    left -= len(data)
                self.records += 1
                time.sleep(0.1)
        except OSError as error:
            if not self.ended:
                self.broken.append(f"{target}: {error}")


def main(out, name, rate, streams, *targets):
    ended = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_unused: ended.append(True))
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, _FORCED_BUFFER, _BUFFER)
    receiver.bind(("", PORT))
    receiver.setblocking(False)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind((SOURCE, 0))
    tcp = Streams(targets, int(streams))
    sent = dict.fromkeys(targets, 0)
    seen = {}
    again = {}

    def receive(seconds):
        if not select.select([receiver], [], [], seconds)[0]:
            return
        try:
            while True:
                data = receiver.recv(2048)
                number, length = _NUMBER.unpack_from(data)
                source = data[_NUMBER.size : _NUMBER.size + length].decode()
                rows = seen.setdefault(source, bytearray())
                if number >= len(rows):
                    rows.extend(bytes(number + 10000 - len(rows)))
                if rows[number]:
                    again[source] = again.get(source, 0) + 1
                rows[number] = 1
        except BlockingIOError:
            return

    text = name.encode()
    payload = text + bytes(120 - len(text))
    pathlib.Path(out + ".ready").touch()
    while not ended and not pathlib.Path(out).with_name("go").exists():  # until all can receive
        time.sleep(0.05)
    started = time.monotonic()
    while not ended:
        due = int((time.monotonic() - started) * float(rate))
        behind = due - min(sent.values(), default=due) - MOST
        if behind > 0:  # this process did not run for a while: a burst would fill queues that a steady rate does not
            started += behind / float(rate)
            due -= behind
        for target in targets:
            while sent[target] < due:
                sender.sendto(_NUMBER.pack(sent[target], len(text)) + payload, (target, PORT))
                sent[target] += 1
        receive(TICK)
    tcp.ended = True
    end = time.monotonic() + LATE
    while time.monotonic() < end:
        receive(0.05)
    result = {
        "sent": sent,
        "received": {source: sum(rows) for source, rows in seen.items()},
        "last": {source: rows.rfind(b"\x01") + 1 for source, rows in seen.items()},
        "again": again,
        "missing": {
            source: [n for n in range(rows.rfind(b"\x01")) if not rows[n]][:2000] for source, rows in seen.items()
        },
        "streams": {"open": tcp.open, "broken": tcp.broken, "records": tcp.records},
    }
    pathlib.Path(out).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
