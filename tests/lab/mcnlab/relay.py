# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a cluster's API server reachable from its nodes: listen in the underlay on the gateway's address, connect outside.

Run as a program: ``relay.py NETNS ADDRESS PORT``. The bytes pass unread, so TLS is verified end to end. Standard library only.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import pathlib
import socket
import sys

CLONE_NEWNET = 0x40000000


def listen_inside(netns: str, address: str, port: int) -> socket.socket:
    """A listening socket that belongs to another network namespace; we ourselves stay outside."""
    libc = ctypes.CDLL(None, use_errno=True)
    with pathlib.Path(netns).open("rb") as inside, pathlib.Path("/proc/self/ns/net").open("rb") as outside:
        for step in (inside, outside):
            if step is outside:
                listener = socket.create_server((address, port), backlog=256)
            if libc.setns(step.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"setns: {os.strerror(ctypes.get_errno())}")
    return listener


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def serve(listener: socket.socket, port: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target_reader, target_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, target_writer), pump(target_reader, writer))

    server = await asyncio.start_server(connected, sock=listener)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(listen_inside(sys.argv[1], sys.argv[2], int(sys.argv[3])), int(sys.argv[3])))
