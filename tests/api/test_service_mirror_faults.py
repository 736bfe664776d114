# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An API server that fails in the middle of an apply: the next run converges, and nothing was lost."""

from __future__ import annotations

import http.client
import http.server
import ssl
import threading
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows import service_mirror
from mirror_clusters import NAMESPACE, endpoints, namespace, other, service, two  # pylint: disable=unused-import

__all__ = ["other", "two"]
COUNT = 12
STALL = 2.5


class Faulty:
    """A relay to a real API server, under its certificate. ``fault(number)`` says what the number-th write meets.

    None: nothing. A number: this status, and the server never sees the write. cut: the server does it, and the connection
    breaks before the answer. dead: from now on nothing is answered at all. stall: the answer comes too late.
    """

    def __init__(self, server, fault):
        self.writes, self.dead, self.faults = 0, False, 0
        self._lock = threading.Lock()
        relay, certs = self, server.folder / "certs"

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                what = relay.next(fault) if self.command != "GET" else None
                if relay.dead:
                    self.close_connection = True
                    return
                if isinstance(what, int):
                    self.give(what, b'{"kind":"Status","status":"Failure","message":"injected"}')
                    return
                context = ssl._create_unverified_context()
                upstream = http.client.HTTPSConnection("127.0.0.1", server.port, context=context)
                upstream.request(self.command, self.path, body, {k: v for k, v in self.headers.items() if k.lower() != "host"})
                answer = upstream.getresponse()
                data = answer.read()
                upstream.close()
                if what == "cut":
                    self.close_connection = True
                    return
                if what == "stall":
                    time.sleep(STALL)
                self.give(answer.status, data)

            do_POST = do_PATCH = do_DELETE = do_GET

            def give(self, status, data):
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    self.close_connection = True

            def log_message(self, *unused):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(certs / "apiserver.crt"), str(certs / "apiserver.key"))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = "https://127.0.0.1:{0}".format(self.server.server_address[1])

    def next(self, fault):
        with self._lock:
            self.writes += 1
            what = fault(self.writes)
            self.faults += what is not None
            self.dead = self.dead or what == "dead"
            return what

    def close(self):
        self.server.shutdown()
        self.server.server_close()


FAULTS = {
    "killed in the middle": {9: "dead"},
    "killed at the first write": {1: "dead"},
    "conflict": dict.fromkeys(range(4, 12), 409),
    "too many requests": dict.fromkeys(range(4, 9), 429),
    "internal error for ever": dict.fromkeys(range(6, 500), 500),
    "answers lost": dict.fromkeys(range(3, 60, 4), "cut"),
    "stall": {6: "stall"},
}


@pytest.mark.parametrize("name", FAULTS, ids=lambda name: name.replace(" ", "_"))
@pytest.mark.parametrize("job", ["create", "sweep"])
def test_the_next_run_converges(two, name, job):  # noqa: F811
    for number in range(COUNT):
        two.put("aws", service("shop", "s{0}".format(number)), endpoints("shop", "s{0}".format(number), "10.2.3.4"))
    more = {"mirror_as": "endpoints", "max_deletes": -1, "confirm_empty": ["aws"]}
    two.run(check=job == "create", **more)
    if job == "create":
        two.put("gcp", namespace(NAMESPACE))
    else:
        for number in range(0, COUNT, 2):
            two.drop("aws", "Service", "shop", "s{0}".format(number))
    relay = Faulty(two.servers["gcp"], FAULTS[name].get)
    try:
        request = two.request(**dict(more, timeout=1.5))
        request["clusters"][1]["api_url"] = relay.url
        result = service_mirror.run(request)
        assert relay.faults, "the fault was never met"
    finally:
        relay.close()
    # the failed run told what it did not do, and removed nothing that has a source
    if name not in ("too many requests", "answers lost") and not (job == "sweep" and name == "conflict"):
        assert result["failures"] or result["refused"], result
    kept = {"aws-shop-73736d-s{0}".format(number) for number in range(1, COUNT, 2)}
    if job == "sweep":
        assert kept <= set(two.names("gcp", "Service")), "a run with failures took away what has a source"
    result = two.run(**more)
    assert (result["failures"], result["refused"]) == ([], [])
    wanted = kept if job == "sweep" else kept | {"aws-shop-73736d-s{0}".format(number) for number in range(0, COUNT, 2)}
    assert set(two.names("gcp", "Service")) == set(two.names("gcp", "Endpoints")) == wanted
    mark = two.mark()
    assert not two.run(**more)["changed"] and two.writes(mark) == {"aws": [], "gcp": []}
