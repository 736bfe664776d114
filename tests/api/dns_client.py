# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""As much of a DNS client as the tests of CoreDNS need: one question over UDP, the records of the answer as text."""

from __future__ import annotations

import ipaddress
import socket
import struct
import typing as t

TYPES = {"A": 1, "CNAME": 5, "SOA": 6, "PTR": 12, "AAAA": 28, "SRV": 33}
NAMES = {number: name for name, number in TYPES.items()}
CODES = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 5: "REFUSED"}


class Record(t.NamedTuple):
    """``value``: an address, or for SRV ``port target``."""

    name: str
    type: str
    value: str


class Answer(t.NamedTuple):
    """``denied_for``: seconds for which that there is nothing may be remembered, None where no SOA has it."""

    code: str
    question: str
    answer: list[Record]
    additional: list[Record]
    denied_for: int | None = None


def encode(name: str) -> bytes:
    """A name on the wire. Raises ValueError for one that has no form there."""
    labels = name.rstrip(".").encode("utf-8").split(b".")
    if not all(1 <= len(label) <= 63 for label in labels):
        raise ValueError(name)
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def ask(port: int, name: str, kind: str = "A", seconds: float = 5.0) -> Answer:
    """Ask the server on this machine."""
    query = struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + encode(name) + struct.pack("!HH", TYPES[kind], 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(seconds)
        one.sendto(query, ("127.0.0.1", port))
        data = one.recv(65535)
    dummy, flags, questions, answers, authorities, additional = struct.unpack("!HHHHHH", data[:12])
    at, asked = 12, ""
    for dummy in range(questions):
        asked, at = _name(data, at)
        at += 4
    sections, denied_for = [], None
    for count in (answers, authorities, additional):
        records = []
        for dummy in range(count):
            record, at, ttl = _record(data, at)
            records.append(record)
            denied_for = ttl if record.type == "SOA" else denied_for
        sections.append(records)
    return Answer(CODES.get(flags & 15, str(flags & 15)), asked, sections[0], sections[2], denied_for)


def _record(data: bytes, at: int) -> tuple[Record, int, int]:
    name, at = _name(data, at)
    kind, _class, ttl, length = struct.unpack("!HHIH", data[at : at + 10])
    at += 10
    if kind in (1, 28):
        value = str(ipaddress.ip_address(data[at : at + length]))
    elif kind == 33:
        value = f"{struct.unpack('!H', data[at + 4 : at + 6])[0]} {_name(data, at + 6)[0]}"
    elif kind in (5, 6, 12):
        value = _name(data, at)[0]
    else:
        value = data[at : at + length].hex()
    return Record(name, NAMES.get(kind, str(kind)), value), at + length, ttl


def _name(data: bytes, at: int) -> tuple[str, int]:
    labels, end = [], None
    while data[at]:
        if data[at] >= 0xC0:
            end = end or at + 2
            at = struct.unpack("!H", data[at : at + 2])[0] & 0x3FFF
            continue
        labels.append(data[at + 1 : at + 1 + data[at]].decode("utf-8", "replace"))
        at += data[at] + 1
    return ".".join(labels) + ".", end or at + 1
