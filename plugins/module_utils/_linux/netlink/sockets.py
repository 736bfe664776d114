# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who listens: sockets of TCP and UDP by the kernel's own list (sock_diag), in this network namespace or another one."""

from __future__ import annotations

import errno
import struct
import typing as t

from ..errors import LinuxError
from .messages import ADDRESS_FAMILIES, NetlinkRefused, NetlinkSocket, from_kernel, unpack_address

_SOCK_DIAG, _BY_FAMILY = 4, 20
_PROTOCOLS = {"tcp": (6, 1 << 10), "udp": (17, 1 << 7)}
#: family, protocol, extensions, padding, states; the rest names one socket, which is nobody.
_REQUEST = struct.Struct("=BBBxI48x")
#: family, state, timer, retransmits; ports, then both addresses
_ANSWER = struct.Struct("=BBBB")


def read_listeners(netns: t.Optional[str] = None) -> t.List[t.Dict[str, t.Any]]:
    """``[{protocol, address, port}]``, sorted: what accepts TCP connections, and UDP sockets that are bound to nobody. Raises LinuxError."""
    found: t.Set[t.Tuple[str, str, int]] = set()
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
    return [{"protocol": name, "address": address, "port": port} for name, address, port in sorted(found)]


@from_kernel("a socket")
def decode_socket(body: bytes) -> t.Tuple[str, int]:
    """(address, port) of one answer's own end."""
    family = _ANSWER.unpack_from(body)[0]
    length = 16 if family == ADDRESS_FAMILIES[6] else 4
    if len(body) < 8 + 16:
        raise ValueError("{0} bytes".format(len(body)))
    return unpack_address(family, body[8 : 8 + length]), struct.unpack_from(">H", body, 4)[0]
