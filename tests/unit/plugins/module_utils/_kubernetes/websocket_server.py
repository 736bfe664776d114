# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A double of an API server that switches to WebSockets over real TLS, and then does what a test asks for."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import ssl
import threading
import time
import urllib.parse

from hostile_server import make_certificate

SUCCESS = json.dumps({"status": "Success"}).encode()


def failure(code):
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return json.dumps({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}).encode()


class Peer:
    """The server's end of one WebSocket."""

    def __init__(self, stream, rest=b""):
        self.stream, self.buffer = stream, rest

    def need(self, size):
        while len(self.buffer) < size:
            data = self.stream.recv(65536)
            if not data:
                raise EOFError
            self.buffer += data
        found, self.buffer = self.buffer[:size], self.buffer[size:]
        return found

    def receive(self):
        """(kind, data) of the next frame."""
        first, second = self.need(2)
        size = second & 0x7F
        if size >= 126:
            size = int.from_bytes(self.need(2 if size == 126 else 8), "big")
        assert second & 0x80, "a client masks"
        key, data = self.need(4), self.need(size)
        return first & 0x0F, bytes(byte ^ key[index % 4] for index, byte in enumerate(data))

    def input(self, size):
        """So many bytes of what the client sends as input."""
        found = b""
        while len(found) < size:
            kind, data = self.receive()
            if kind == 2:
                assert data[0] == 0, "nothing but input goes to a command"
                found += data[1:]
        return found

    def frame(self, data, kind=2, final=True):
        size = len(data)
        head = bytes([(0x80 if final else 0) | kind])
        head += (
            bytes([size])
            if size < 126
            else bytes([126]) + size.to_bytes(2, "big")
            if size < 65536
            else bytes([127]) + size.to_bytes(8, "big")
        )
        self.stream.sendall(head + data)

    def channel(self, number, data):
        self.frame(bytes([number]) + data)

    def end(self, status=SUCCESS):
        self.channel(3, status)
        self.frame(b"\x03\xe8", kind=8)


class WebSocketServer:
    """``pods``: what a list of pods answers; ``act(peer, query)``: what a command does. ``accept`` and ``protocol`` replace what is right."""

    def __init__(self, folder, act, pods=(), accept=None, protocol=None):
        self.act, self.pods, self.accept, self.protocol = act, list(pods), accept, protocol
        self.requests = []
        path, self.ca = make_certificate(folder, ["127.0.0.1"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.context = context
        threading.Thread(target=self.serve, daemon=True).start()

    def close(self):
        self.listener.close()

    @property
    def access(self):
        port = self.listener.getsockname()[1]
        return {"name": "aws", "api_url": f"https://127.0.0.1:{port}", "token": "not-a-secret", "ca_data": self.ca}

    def serve(self):
        while True:
            try:
                plain, _address = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(plain,), daemon=True).start()

    def one(self, plain):
        try:
            with self.context.wrap_socket(plain, server_side=True) as stream:
                rest = b""
                while True:
                    while b"\r\n\r\n" not in rest:
                        data = stream.recv(65536)
                        if not data:
                            return
                        rest += data
                    head, rest = rest.split(b"\r\n\r\n", 1)
                    first, *lines = head.decode().split("\r\n")
                    headers = {line.split(":", 1)[0].lower(): line.split(":", 1)[1].strip() for line in lines}
                    parts = urllib.parse.urlsplit(first.split(" ")[1])
                    query = urllib.parse.parse_qs(parts.query, keep_blank_values=True)
                    self.requests.append((parts.path, query, headers))
                    if "upgrade" in headers:
                        self.upgrade(stream, headers, query, rest)
                        return
                    body = json.dumps(
                        {
                            "kind": "PodList",
                            "apiVersion": "v1",
                            "metadata": {"resourceVersion": "1"},
                            "items": self.pods,
                        }
                    ).encode()
                    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        except (OSError, EOFError, AssertionError):
            return

    def upgrade(self, stream, headers, query, rest):
        key = headers["sec-websocket-key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = self.accept or base64.b64encode(hashlib.sha1(key).digest()).decode()
        protocol = self.protocol or headers["sec-websocket-protocol"].split(",")[0]
        answer = (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
        )
        stream.sendall(answer.encode())
        self.act(Peer(stream, rest), query)
        time.sleep(0.05)
