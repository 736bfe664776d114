# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Take connections at one address and hand their bytes to another; with a certificate, TLS ends here.

front.py ADDRESS PORT TO_ADDRESS TO_PORT [CERTIFICATE KEY]
"""

from __future__ import annotations

import asyncio
import ssl
import sys


async def pump(reader, writer):
    try:
        while True:
            data = await reader.read(65536)
            if not data:
                break
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def serve(address, port, to_address, to_port, *pair):
    async def connected(reader, writer):
        try:
            back, forth = await asyncio.open_connection(to_address, int(to_port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, forth), pump(back, writer))

    context = None
    if pair:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair)
    server = await asyncio.start_server(connected, address, int(port), ssl=context)
    print("listens", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
