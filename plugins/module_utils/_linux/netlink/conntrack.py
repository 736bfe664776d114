# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections that the kernel tracks: those with an address in given ranges are forgotten, so that their next packet is judged anew (translation 3)."""

from __future__ import annotations

import errno
import struct
import typing as t

from ..._values.prefix_sets import PrefixSet
from ..errors import LinuxError
from .messages import (
    ADDRESS_FAMILIES,
    NLM_F_ACK,
    NetlinkRefused,
    NetlinkSocket,
    attribute,
    attributes,
    from_kernel,
)

_NETFILTER, _SUBSYSTEM = 12, 1
_GET, _DELETE, _COUNTERS = (_SUBSYSTEM << 8 | number for number in (1, 2, 4))
#: CTA_STATS_DROP, of each processor.
_DROPPED = 10
#: CTA_TUPLE_ORIG, CTA_TUPLE_REPLY, CTA_ID, CTA_ZONE; CTA_TUPLE_IP; CTA_IP_V4_SRC to CTA_IP_V6_DST.
_ORIGINAL, _REPLY, _ID, _ZONE = 1, 2, 12, 18
_ADDRESSES = 1
_SOURCES, _TARGETS = (1, 3), (2, 4)
_NESTED = 0x8000
#: Where the kernel was built without this list.
_NOT_THERE = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT, errno.EPROTONOSUPPORT)


class Connection(t.NamedTuple):
    """One connection by its ends as (version, number). ``source`` and ``target`` as it was opened; ``seen``: to what its answers go.

    ``key``: what names it to the kernel.
    """

    version: int
    source: int
    target: int
    seen: int
    key: bytes


def read_dropped() -> int | None:
    """Packets of this network namespace that could not be tracked; None where the kernel has no list of connections. Raises LinuxError."""
    with NetlinkSocket(_NETFILTER, "tracked connections") as netlink:
        try:
            answers = netlink.dump_messages(_COUNTERS, struct.pack("=BBH", 0, 0, 0))
        except NetlinkRefused as error:
            if error.errno in _NOT_THERE:
                return None
            raise LinuxError("read", "counters of tracked connections", str(error)) from None
    return sum(map(decode_dropped, answers))


@from_kernel("a counter of tracked connections")
def decode_dropped(body: bytes) -> int:
    """Packets that one processor could not track, without the header of netlink."""
    found = {kind & ~_NESTED: value for kind, value in attributes(body[4:])}
    number: int = struct.unpack_from("!I", found[_DROPPED])[0] if len(found.get(_DROPPED, b"")) >= 4 else 0
    return number


def forget(chosen: t.Callable[[Connection], bool]) -> int | None:
    """Forget the connections that are chosen; how many, and None where the kernel has no list of them. Raises LinuxError."""
    gone = 0
    with NetlinkSocket(_NETFILTER, "tracked connections") as netlink:
        for version, family in ADDRESS_FAMILIES.items():
            try:
                answers = netlink.dump_messages(_GET, struct.pack("=BBH", family, 0, 0))
            except NetlinkRefused as error:
                if error.errno in _NOT_THERE:
                    return None
                raise LinuxError("list", "tracked connections", str(error)) from None
            found = [
                connection for answer in answers for connection in [decode_connection(answer, version)] if connection
            ]
            keys = [connection.key for connection in found if chosen(connection)]
            orders = [struct.pack("=BBH", family, 0, 0) + key for key in keys]
            for number in netlink.ask_each(_DELETE, orders, NLM_F_ACK):
                if isinstance(number, int) and number not in (0, errno.ENOENT):  # one that ended meanwhile is gone
                    raise LinuxError("forget", "a tracked connection", str(NetlinkRefused(number)))
                gone += number == 0
    return gone


def forget_translations(gone: PrefixSet, hidden: PrefixSet, devices: PrefixSet) -> int | None:
    """Forget connections of a mapping that goes, and those that began before one came.

    ``gone``: exported ranges that are no more; ``hidden``: pod ranges that are translated from now on; ``devices``: what the routes of
    our devices lead to, since those towards anything else are nobody's matter. Raises LinuxError.
    """

    def chosen(one: Connection) -> bool:
        spans = gone.spans(one.version)
        if spans and (_inside(spans, one.target) or _inside(spans, one.seen)):
            return True
        return _inside(hidden.spans(one.version), one.seen) and (
            _inside(devices.spans(one.version), one.target) or _inside(devices.spans(one.version), one.source)
        )

    return forget(chosen) if gone or hidden else 0


def _inside(spans: t.Sequence[tuple[int, int]], number: int) -> bool:
    return any(first <= number <= last for first, last in spans)


@from_kernel("a tracked connection")
def decode_connection(body: bytes, version: int) -> Connection | None:
    """A connection of this version of IP, without the header of netlink; None for one of another."""
    if len(body) < 4 or body[0] != ADDRESS_FAMILIES[version]:
        return None
    found = {kind & ~_NESTED: value for kind, value in attributes(body[4:])}
    original, reply = (_ends(found.get(kind, b"")) for kind in (_ORIGINAL, _REPLY))
    if original is None or reply is None:
        return None
    key = attribute(_ORIGINAL | _NESTED, found[_ORIGINAL])
    key += b"".join(attribute(kind, found[kind]) for kind in (_ID, _ZONE) if kind in found)
    return Connection(version, original[0], original[1], reply[1], key)


def _ends(value: bytes) -> tuple[int, int] | None:
    """(source, target) of one direction."""
    for kind, inner in attributes(value):
        if kind & ~_NESTED == _ADDRESSES:
            rows = {number & ~_NESTED: int.from_bytes(address, "big") for number, address in attributes(inner)}
            source = next((rows[kind] for kind in _SOURCES if kind in rows), None)
            target = next((rows[kind] for kind in _TARGETS if kind in rows), None)
            return (source, target) if source is not None and target is not None else None
    return None
