# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""nfnetlink's tables, chains, sets and elements as bytes, both ways; rules are in nft_rules.

The nft tool reads a whole set before it changes one element of it, and pyroute2 writes no elements. Numbers are those
of <linux/netfilter/nf_tables.h>; everything but lengths and types is big-endian there.
"""

from __future__ import annotations

import struct
import typing as t

from ..netlink.messages import NLA_F_NESTED, attribute, attributes, from_kernel

Data = dict[str, t.Any]
Span = tuple[int, int]

NEWTABLE, GETTABLE, DELTABLE, NEWCHAIN, GETCHAIN, DELCHAIN = 0, 1, 2, 3, 4, 5
NEWRULE, GETRULE, DELRULE, NEWSET, GETSET, DELSET = 6, 7, 8, 9, 10, 11
NEWSETELEM, GETSETELEM, DELSETELEM, NEWGEN, GETGEN = 12, 13, 14, 15, 16

TABLE_NAME, TABLE_FLAGS, TABLE_USE, TABLE_HANDLE, TABLE_USERDATA = 1, 2, 3, 4, 6
CHAIN_TABLE, CHAIN_HANDLE, CHAIN_NAME, CHAIN_HOOK, CHAIN_POLICY, CHAIN_TYPE, CHAIN_USERDATA = 1, 2, 3, 4, 5, 7, 12
HOOK_NUMBER, HOOK_PRIORITY, HOOK_DEVICE, HOOK_DEVICES = 1, 2, 3, 4
SET_TABLE, SET_NAME, SET_FLAGS, SET_KEY_TYPE, SET_KEY_LENGTH, SET_ID, SET_USERDATA = 1, 2, 3, 4, 5, 10, 13
LIST_TABLE, LIST_SET, LIST_ELEMENTS = 1, 2, 3
ELEMENT_KEY, ELEMENT_FLAGS = 1, 3
DATA_VALUE, LIST_ELEMENT = 1, 1
DATA_VERDICT, VERDICT_CODE, VERDICT_CHAIN = 2, 1, 2
INTERVAL_END = 1
GENERATION_ID = 1

FAMILIES = {"ip": 2, "ip6": 10, "inet": 1, "arp": 3, "bridge": 7, "netdev": 5}
_FAMILY_NAMES = {number: name for name, number in FAMILIES.items()}
#: Chains of devices count anew.
NETDEV_HOOKS = {"prerouting": "ingress", "input": "egress"}
HOOKS = ("prerouting", "input", "forward", "output", "postrouting", "ingress")
POLICIES = ("drop", "accept")
#: nft's numbers of data types, and how long a key is.
SET_TYPES = {"ipv4_addr": (7, 4), "ipv6_addr": (8, 16), "inet_service": (13, 2)}
_TYPE_NAMES = {number: name for name, (number, _length) in SET_TYPES.items()}
SET_FLAGS_BITS = {
    "anonymous": 1,
    "constant": 2,
    "interval": 4,
    "map": 8,
    "timeout": 16,
    "dynamic": 32,
    "object": 64,
    "concatenation": 128,
}
#: What nft remembers about a set alongside the kernel: its keys are big-endian. Without it some releases print nonsense.
_SET_USERDATA = struct.pack("=BBI", 0, 4, 2)
#: Type of the entry in a table's or chain's user data that names the owner. nft knows 0 to 3 and skips the rest.
_OWNER_ENTRY = 0x6D
#: Intervals of one message: an attribute holds 65,535 bytes, an IPv4 interval takes 40 of them and an IPv6 one 64.
_CHUNK = {4: 1600, 16: 1000, 2: 1600}


def text(value: str) -> bytes:
    """A name as the kernel wants it."""
    return value.encode("utf-8") + b"\0"


def read_text(raw: bytes) -> str:
    """The inverse; a name is what comes before the first zero."""
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def u32(value: int) -> bytes:
    """A big-endian number."""
    return struct.pack(">I", value & 0xFFFFFFFF)


def read_u32(raw: bytes) -> int:
    """The inverse."""
    number: int = struct.unpack(">I", raw)[0]
    return number


def nest(kind: int, payload: bytes) -> bytes:
    """An attribute of attributes."""
    return attribute(kind | NLA_F_NESTED, payload)


# --- the owner -----------------------------------------------------------------------------------------------------


def owner_userdata(owner: str) -> bytes:
    """User data that names the owner."""
    raw = owner.encode("utf-8")[:250] + b"\0"
    return struct.pack("=BB", _OWNER_ENTRY, len(raw)) + raw


def read_owner(userdata: bytes) -> str | None:
    """The owner that owner_userdata wrote, or None."""
    position = 0
    while position + 2 <= len(userdata):
        kind, length = userdata[position], userdata[position + 1]
        if kind == _OWNER_ENTRY:
            return read_text(userdata[position + 2 : position + 2 + length])
        position += 2 + length
    return None


# --- tables, chains, sets ------------------------------------------------------------------------------------------


def encode_table(name: str, owner: str | None = None) -> bytes:
    """The body of NEWTABLE; without owner also of GETTABLE and DELTABLE."""
    body = attribute(TABLE_NAME, text(name))
    return body + attribute(TABLE_USERDATA, owner_userdata(owner)) if owner else body


@from_kernel("a table of nftables")
def decode_table(body: bytes, family: int) -> Data:
    """``{family, name, handle, flags, owner}``."""
    found: Data = {"family": _FAMILY_NAMES.get(family, str(family)), "name": "", "handle": 0, "flags": 0, "owner": None}
    for kind, value in attributes(body):
        if kind == TABLE_NAME:
            found["name"] = read_text(value)
        elif kind == TABLE_FLAGS:
            found["flags"] = read_u32(value)
        elif kind == TABLE_HANDLE:
            found["handle"] = int.from_bytes(value, "big")
        elif kind == TABLE_USERDATA:
            found["owner"] = read_owner(value)
    return found


def encode_chain(table: str, chain: t.Mapping[str, t.Any], owner: str | None = None) -> bytes:
    """The body of NEWCHAIN: a base chain where it has a hook, else a plain one."""
    body = attribute(CHAIN_TABLE, text(table)) + attribute(CHAIN_NAME, text(chain["name"]))
    if chain.get("hook"):
        hook = attribute(HOOK_NUMBER, u32(HOOKS.index(chain["hook"]))) + attribute(
            HOOK_PRIORITY, u32(chain["priority"])
        )
        body += attribute(CHAIN_TYPE, text(chain["type"])) + attribute(
            CHAIN_POLICY, u32(POLICIES.index(chain["policy"]))
        )
        body += nest(CHAIN_HOOK, hook)
    return body + attribute(CHAIN_USERDATA, owner_userdata(owner)) if owner else body


@from_kernel("a chain of nftables")
def decode_chain(body: bytes) -> tuple[str, Data]:
    """(table, ``{name, type, hook, priority, policy, device, owner}``); type, hook, policy None for a plain chain."""
    table = ""
    chain: Data = {"name": "", "type": None, "hook": None, "priority": 0, "policy": None, "device": None, "owner": None}
    for kind, value in attributes(body):
        if kind == CHAIN_TABLE:
            table = read_text(value)
        elif kind == CHAIN_NAME:
            chain["name"] = read_text(value)
        elif kind == CHAIN_TYPE:
            chain["type"] = read_text(value)
        elif kind == CHAIN_POLICY:
            chain["policy"] = dict(enumerate(POLICIES)).get(read_u32(value))
        elif kind == CHAIN_USERDATA:
            chain["owner"] = read_owner(value)
        elif kind == CHAIN_HOOK:
            for part, inner in attributes(value):
                if part == HOOK_NUMBER:
                    chain["hook"] = dict(enumerate(HOOKS)).get(read_u32(inner), str(read_u32(inner)))
                elif part == HOOK_PRIORITY:
                    chain["priority"] = struct.unpack(">i", inner)[0]
                elif part in (HOOK_DEVICE, HOOK_DEVICES):
                    chain["device"] = read_text(inner) if part == HOOK_DEVICE else "several"
    return table, chain


def encode_set(table: str, item: t.Mapping[str, t.Any], number: int) -> bytes:
    """The body of NEWSET. number: names the set within one batch."""
    kind, length = SET_TYPES[item["type"]]
    flags = sum(SET_FLAGS_BITS[flag] for flag in item["flags"])
    body = (
        attribute(SET_TABLE, text(table)) + attribute(SET_NAME, text(item["name"])) + attribute(SET_FLAGS, u32(flags))
    )
    body += attribute(SET_KEY_TYPE, u32(kind)) + attribute(SET_KEY_LENGTH, u32(length)) + attribute(SET_ID, u32(number))
    return body + attribute(SET_USERDATA, _SET_USERDATA)


@from_kernel("a set of nftables")
def decode_set(body: bytes) -> tuple[str, Data]:
    """(table, ``{name, type, length, flags}``); a type that is not in SET_TYPES is shown by its number."""
    table, kind_number = "", 0
    item: Data = {"name": "", "type": "", "length": 0, "flags": []}
    for kind, value in attributes(body):
        if kind == SET_TABLE:
            table = read_text(value)
        elif kind == SET_NAME:
            item["name"] = read_text(value)
        elif kind == SET_KEY_TYPE:
            kind_number = read_u32(value)
        elif kind == SET_KEY_LENGTH:
            item["length"] = read_u32(value)
        elif kind == SET_FLAGS:
            bits = read_u32(value)
            item["flags"] = [name for name, bit in SET_FLAGS_BITS.items() if bits & bit]
    item["type"] = _TYPE_NAMES.get(kind_number, f"type {kind_number}")
    return table, item


# --- elements ------------------------------------------------------------------------------------------------------


def _header(length: int, nested: bool) -> bytes:
    """What comes before a key of that many bytes in an element of one key and nothing else."""
    flag = NLA_F_NESTED if nested else 0
    padded = length + (-length % 4)
    return struct.pack(
        "=HHHHHH", 12 + padded, LIST_ELEMENT | flag, 8 + padded, ELEMENT_KEY | flag, 4 + length, DATA_VALUE
    )


def _end_header(length: int, nested: bool) -> bytes:
    padded = length + (-length % 4)
    return struct.pack("=H", 20 + padded) + _header(length, nested)[2:]


_END_FLAGS = attribute(ELEMENT_FLAGS, u32(INTERVAL_END))


def encode_elements(table: str, name: str, length: int, interval: bool, spans: t.Sequence[Span]) -> list[bytes]:
    """Bodies of NEWSETELEM or DELSETELEM, each within the limits of one message.

    spans: (first, last). In an interval set a range is its first key, and one past its last with the end flag; one up
    to the highest key has no end. In another set first and last are the same.
    """
    start, end, pad = _header(length, True), _end_header(length, True), b"\0" * (-length % 4)
    middle, after, limit = pad + end, pad + _END_FLAGS, (1 << 8 * length) - 1
    head = attribute(LIST_TABLE, text(table)) + attribute(LIST_SET, text(name))
    bodies = []
    for offset in range(0, len(spans), _CHUNK[length]):
        parts = []
        for first, last in spans[offset : offset + _CHUNK[length]]:
            if not interval or last >= limit:
                parts.append(start + first.to_bytes(length, "big") + pad)
            else:
                parts.append(
                    b"".join((start, first.to_bytes(length, "big"), middle, (last + 1).to_bytes(length, "big"), after))
                )
        bodies.append(head + nest(LIST_ELEMENTS, b"".join(parts)))
    return bodies


def encode_flush(table: str, name: str) -> bytes:
    """The body of DELSETELEM that empties a set; also what GETSETELEM asks with."""
    return attribute(LIST_TABLE, text(table)) + attribute(LIST_SET, text(name))


@from_kernel("elements of nftables")
def decode_elements(bodies: t.Iterable[bytes], length: int, interval: bool) -> list[Span]:
    """Ranges, ascending, from all messages of a set's dump. Adjacent ones stay apart, as they are in the kernel."""
    marks: list[int] = []
    for body in bodies:
        for kind, value in attributes(body):
            if kind == LIST_ELEMENTS:
                _collect(value, length, marks)
    # Each mark is twice the key, plus one for a start: where one range ends and the next begins, the end comes first.
    marks.sort()
    if not interval:
        return [(mark >> 1, mark >> 1) for mark in marks]
    spans: list[Span] = []
    first: int | None = None
    for mark in marks:
        key = mark >> 1
        if first is not None:
            spans.append((first, key - 1))
            first = None
        if mark & 1:
            first = key
    if first is not None:
        spans.append((first, (1 << 8 * length) - 1))
    return spans


def _collect(data: bytes, length: int, marks: list[int]) -> None:
    """The marks of one list of elements. The two plain forms are most of it and are known by their headers alone."""
    start, end = _header(length, False), _end_header(length, False)
    padded = length + (-length % 4)
    position, size = 0, len(data)
    number = int.from_bytes
    while position < size:
        key_at = position + 12
        head = data[position:key_at]
        if head == start:
            marks.append(number(data[key_at : key_at + length], "big") << 1 | 1)
            position = key_at + padded
        elif head == end and data[key_at + padded : key_at + padded + 8] == _END_FLAGS:
            marks.append(number(data[key_at : key_at + length], "big") << 1)
            position = key_at + padded + 8
        else:
            whole = struct.unpack_from("=H", data, position)[0]
            if whole < 4 or position + whole > size:
                raise ValueError(f"element of {whole} bytes at {position} of {size}")
            marks.append(_mark(data[position + 4 : position + whole]))
            position += (whole + 3) & ~3


def _mark(element: bytes) -> int:
    key = flags = 0
    for kind, value in attributes(element):
        if kind == ELEMENT_KEY:
            for part, inner in attributes(value):
                key = int.from_bytes(inner, "big") if part == DATA_VALUE else key
        elif kind == ELEMENT_FLAGS:
            flags = read_u32(value)
    return key << 1 | (not flags & INTERVAL_END)
