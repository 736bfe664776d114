# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who listens: sockets of TCP and UDP by the kernel's own list (sock_diag), in this network namespace or another one."""

from __future__ import annotations

import errno
import struct
import typing as t

from ..errors import LinuxError
from .messages import ADDRESS_FAMILIES, NetlinkRefused, NetlinkSocket, attributes, from_kernel, unpack_address

_SOCK_DIAG, _BY_FAMILY = 4, 20
_PROTOCOLS = {"tcp": (6, 1 << 10), "udp": (17, 1 << 7)}
#: family, protocol, extensions, padding, states; the rest names one socket, which is nobody.
_REQUEST = struct.Struct("=BBBxI48x")
#: Up to the attributes: family, state, timer, retransmits, ports, both addresses, and what we do not ask.
_ANSWER_BYTES, _ONLY_V6 = 72, 11


def read_listeners(netns: str | None = None) -> list[dict[str, t.Any]]:
    """``[{protocol, address, port, only_v6}]``, sorted: what accepts TCP connections, and UDP sockets that speak to everybody. Raises LinuxError.

    only_v6: a socket at ``::`` takes no packets of IPv4.
    """
    found: set[tuple[str, str, int, bool]] = set()
    with NetlinkSocket(_SOCK_DIAG, "sockets", netns=netns) as netlink:
        for name, (protocol, states) in _PROTOCOLS.items():
            for family in ADDRESS_FAMILIES.values():
                try:
                    answers = netlink.dump_messages(_BY_FAMILY, _REQUEST.pack(family, protocol, 0, states))
                except NetlinkRefused as error:
                    if error.errno == errno.ENOENT:  # this kernel has no such list, or no such protocol
                        continue
                    raise LinuxError("read", "sockets", str(error)) from None
                found.update((name, *decode_socket(answer)) for answer in answers)
    return [dict(zip(("protocol", "address", "port", "only_v6"), row)) for row in sorted(found)]


@from_kernel("a socket")
def decode_socket(body: bytes) -> tuple[str, int, bool]:
    """(address, port, whether for IPv6 alone) of one answer's own end."""
    if len(body) < _ANSWER_BYTES:
        raise ValueError(f"{len(body)} bytes")
    six = body[0] == ADDRESS_FAMILIES[6]
    address = unpack_address(body[0], body[8 : 8 + (16 if six else 4)])
    return (
        address,
        struct.unpack_from(">H", body, 4)[0],
        six and dict(attributes(body[_ANSWER_BYTES:])).get(_ONLY_V6, b"\0") != b"\0",
    )
