# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A few read-only pages over HTTP, for Prometheus and health checks, made when they are asked for."""

from __future__ import annotations

import http.server
import threading
import typing as t

#: path -> () -> (status, content type, text)
Pages = t.Mapping[str, t.Callable[[], tuple[int, str, str]]]


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # a neighbour that connects and sends nothing keeps one thread until the timeout
    request_queue_size = 16


def serve(address: str, port: int, pages: Pages) -> http.server.ThreadingHTTPServer:
    """Listen in a thread of its own; port 0 takes any (see ``server_port``). ``shutdown`` ends it. Raises OSError."""

    class Handler(http.server.BaseHTTPRequestHandler):
        server_version, sys_version, timeout = "multicluster.network", "", 10

        def do_GET(self) -> None:  # pylint: disable=invalid-name  # the library's name
            """One page."""
            page = pages.get(self.path.split("?", 1)[0])
            status, kind, text = page() if page is not None else (404, "text/plain", "not found\n")
            body = text.encode("utf-8")
            self.send_response(status)
            self.send_header("Content-Type", kind + "; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: t.Any) -> None:  # pylint: disable=redefined-builtin
            """Every scrape in the log would hide what happens."""

    server = _Server((address, port), Handler)
    threading.Thread(target=server.serve_forever, name="mcn-http", daemon=True).start()
    return server
