# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A relay in front of a real API server, which fails when it is asked to."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import os
import ssl
import threading
import time

import urllib3
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import KubeError

#: Seconds that a stalled answer takes; MCN_STALL=31 makes it longer than a request may take with the default options.
STALL = float(os.environ.get("MCN_STALL", "4"))

#: What the writes of one run meet, by their number.
FAULTS = {
    "killed in the middle": {9: "kill"},
    "unreachable from the first write": {1: "dead"},
    "conflict": dict.fromkeys(range(4, 12), 409),
    "too many requests": dict.fromkeys(range(4, 9), 429),
    "too many requests for ever": dict.fromkeys(range(4, 500), 429),
    "internal error for ever": dict.fromkeys(range(6, 500), 500),
    "answers lost": dict.fromkeys(range(3, 60, 4), "cut"),
    "stall": {6: "stall"},
}


def timeout(what):
    """The option ``timeout`` of a run: shorter than a stall, roles have 30; else long enough for a busy machine."""
    return min(30.0, STALL - 1) if what == "stall" else 30.0


class Faulty:
    """The relay. ``faults`` and ``reads``: {number of a write, or of a read: what it meets}.

    A number: this status, and the server never sees the request. cut: the server does it, and the connection breaks before
    the answer. stall: the answer comes too late. dead: from now on nothing is answered at all. kill: the server itself is
    killed (SIGKILL), and revive() starts it again.
    """

    def __init__(self, server, faults, reads=None):
        self.upstream, self.dead, self.met = server, False, 0
        self._faults, self._numbers = {"read": reads or {}, "write": faults}, {"read": 0, "write": 0}
        self._lock = threading.Lock()
        certs = server.folder / "certs"
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(certs / "apiserver.crt"), str(certs / "apiserver.key"))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.server.shutdown()
        self.server.server_close()

    def _handler(self):
        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                what = relay.next("read" if self.command == "GET" else "write")
                if isinstance(what, int):
                    self.give(what, b'{"kind":"Status","status":"Failure","message":"injected"}')
                    return
                if self.command == "GET" and "watch=true" in self.path and not relay.dead:
                    self.stream()
                    return
                answer = None if relay.dead else relay.ask(self.command, self.path, body, self.headers)
                if answer is None or what == "cut":
                    self.close_connection = True
                    return
                if what == "stall":
                    time.sleep(STALL)
                self.give(*answer)

            def stream(self):
                """A watch: what comes is passed on as it comes."""
                try:
                    connection, answer = relay.begin(self.command, self.path, b"", self.headers)
                    with contextlib.closing(connection):
                        self.send_response(answer.status)
                        self.send_header("Content-Type", "application/json")
                        self.send_header("Connection", "close")
                        self.end_headers()
                        self.close_connection = True
                        while True:
                            part = answer.read1(65536)
                            if not part:
                                return
                            self.wfile.write(part)
                            self.wfile.flush()
                except (OSError, http.client.HTTPException):
                    self.close_connection = True

            do_POST = do_PATCH = do_DELETE = do_GET

            def give(self, status, data):
                try:
                    self.send_response(status)
                    if status == 429:
                        self.send_header("Retry-After", "1")
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    self.close_connection = True

            def log_message(self, *unused):
                pass

        return Handler

    def next(self, kind):
        """What the next request of a kind meets."""
        with self._lock:
            self._numbers[kind] += 1
            what = self._faults[kind].get(self._numbers[kind])
            self.met += what is not None
            self.dead = self.dead or what in ("dead", "kill")
            if what == "kill":
                self.upstream.processes[-1].kill()
                self.upstream.processes[-1].wait(10)
            return what

    def ask(self, method, path, body, headers):
        """(status, body) of the server, None when it does not answer."""
        try:
            connection, answer = self.begin(method, path, body, headers)
            with contextlib.closing(connection):
                return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return None

    def begin(self, method, path, body, headers):
        """(connection, answer) of the server, with the body still to be read."""
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.upstream.port, context=ssl._create_unverified_context()
        )
        try:
            connection.request(
                method, path, body, {key: value for key, value in headers.items() if key.lower() != "host"}
            )
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise


def compact(server, revision):
    """Let an API server's etcd forget what was before."""
    words = server.processes[0].args
    url = words[words.index("--listen-client-urls") + 1] + "/v3/kv/compaction"
    answer = urllib3.PoolManager().request(
        "POST", url, body=json.dumps({"revision": str(revision), "physical": True}).encode()
    )
    assert answer.status == 200, answer.data


def revive(server):
    """Start a killed API server again, over the same etcd, and wait until it answers."""
    if server.processes[-1].poll() is None:
        return
    server.run(list(server.processes.pop().args), "apiserver-again")
    deadline = time.monotonic() + 60
    while True:
        try:
            server.client().get("/api/v1/namespaces/default")
            return
        except KubeError:
            assert time.monotonic() < deadline, "the API server did not come back"
            time.sleep(0.2)
