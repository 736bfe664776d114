# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let an API server, which is on the machine, reach kubelets, pods and Services, which are in the lab: an HTTP proxy on a Unix socket.

It connects from inside the network of one of the cluster's nodes, so it reaches what a node reaches. Run as a program:
``egress.py SOCKET NETNS...``; the first network namespace that is there serves. The bytes after CONNECT pass unread, so TLS is between
the API server and the kubelet. Standard library only.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import pathlib
import socket
import sys

CLONE_NEWNET = 0x40000000


def socket_inside(netns: list[str], family: int) -> socket.socket:
    """A TCP socket that belongs to the first of these network namespaces that exists; we ourselves stay where we are."""
    libc = ctypes.CDLL(None, use_errno=True)
    error: OSError = OSError("no network namespace is there")
    with pathlib.Path("/proc/self/ns/net").open("rb") as outside:
        for path in netns:
            try:
                with pathlib.Path(path).open("rb") as inside:
                    if libc.setns(inside.fileno(), CLONE_NEWNET) != 0:
                        raise OSError(ctypes.get_errno(), f"setns {path}: {os.strerror(ctypes.get_errno())}")
                try:
                    return socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
                finally:
                    if libc.setns(outside.fileno(), CLONE_NEWNET) != 0:
                        os._exit(1)  # in another network we would serve nobody
            except OSError as failure:
                error = failure
    raise error


async def connect(netns: list[str], target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """(reader, writer) to ``host:port``, where the host is an address."""
    host, _colon, port = target.rpartition(":")
    host = host.strip("[]")
    link = socket_inside(netns, socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(link, (host, int(port))), 10)
        return await asyncio.open_connection(sock=link)
    except BaseException:
        link.close()
        raise


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def serve(path: str, netns: list[str]) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, target, _version = head.split("\r\n", 1)[0].split(" ")
            if method != "CONNECT":
                raise ValueError(f"{method} is not what we are for")
            far_reader, far_writer = await connect(netns, target)
        except (
            OSError,
            ValueError,
            asyncio.TimeoutError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ) as error:
            writer.write(f"HTTP/1.1 502 {type(error).__name__}\r\n\r\n".encode())
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    pathlib.Path(path).unlink(missing_ok=True)
    server = await asyncio.start_unix_server(connected, path)
    pathlib.Path(path).chmod(0o600)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2:]))
