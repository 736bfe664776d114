# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program that fills the table of tracked connections of its network namespace to its last place, once (``fill``) or for ever (``keep``), or ``flush``es it.

The limit is one for the whole machine and is left as it is; how much of it is used is counted in each network namespace. The connections are
established ones, which the kernel does not give up for new ones. Prints ``count of limit``.
"""

from __future__ import annotations

import errno
import pathlib
import socket
import struct
import sys
import time

NETFILTER, NEW, DELETE = 12, 1 << 8, 1 << 8 | 2
REQUEST, ACK, CREATE = 1, 4, 0x400
NESTED = 0x8000
#: Seen both ways, assured, confirmed.
STATUS = 2 | 4 | 8
BATCH = 200


def attribute(kind, value):
    return struct.pack("=HH", len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)


def end(source, target, ports):
    """A tuple of UDP: CTA_TUPLE_IP and CTA_TUPLE_PROTO."""
    addresses = attribute(1, socket.inet_aton(source)) + attribute(2, socket.inet_aton(target))
    protocol = (
        attribute(1, b"\x11") + attribute(2, struct.pack("!H", ports[0])) + attribute(3, struct.pack("!H", ports[1]))
    )
    return attribute(1 | NESTED, addresses) + attribute(2 | NESTED, protocol)


def connection(number):
    """The number-th connection between addresses that nobody has."""
    source, ports = f"198.18.{number >> 22 & 255}.{number >> 14 & 255}", (1024 + (number & 16383), 9)
    body = attribute(1 | NESTED, end(source, "198.19.0.1", ports))
    body += attribute(2 | NESTED, end("198.19.0.1", source, ports[::-1]))
    return (
        struct.pack("=BBH", 2, 0, 0)
        + body
        + attribute(3, struct.pack("!I", STATUS))
        + attribute(7, struct.pack("!I", 3600))
    )


def message(kind, flags, body):
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 0, 0) + body


def answered(kernel):
    """The error numbers of a batch, of which 0 is none; ENOBUFS where there were more than the socket holds."""
    found, wait = [], 0
    while not found or wait == socket.MSG_DONTWAIT:
        try:
            data, wait = kernel.recv(1 << 16, wait), socket.MSG_DONTWAIT
        except BlockingIOError:
            break
        except OSError as error:
            found.append(error.errno)
            continue
        while len(data) >= 20:
            (length,) = struct.unpack_from("=I", data)
            found.append(-struct.unpack_from("=i", data, 16)[0])
            data = data[(length + 3) & ~3 :]
    return found


def setting(name):
    return int(pathlib.Path("/proc/sys/net/netfilter/nf_conntrack_" + name).read_text(encoding="ascii"))


def fill(kernel, number=0):
    """From the number-th connection on; the number behind the last one."""
    while True:
        batch = [message(NEW, REQUEST | CREATE, connection(number + one)) for one in range(BATCH - 1)]
        number += BATCH
        # of the last one alone an answer is expected, besides those of what is refused
        kernel.send(b"".join(batch) + message(NEW, REQUEST | CREATE | ACK, connection(number - 1)))
        found = answered(kernel)
        if any(found):
            assert set(found) <= {0, errno.ENOMEM, errno.ENOBUFS}, found
            return number


def main(order):
    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETFILTER)
    kernel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    kernel.bind((0, 0))
    if order in ("fill", "keep"):
        number = fill(kernel)
        while order == "keep":  # others end meanwhile
            time.sleep(0.05)
            number = fill(kernel, number)
    else:
        kernel.send(message(DELETE, REQUEST | ACK, struct.pack("=BBH", 0, 0, 0)))
        assert answered(kernel) == [0]
    print(setting("count"), "of", setting("max"))


if __name__ == "__main__":
    main(sys.argv[1])
