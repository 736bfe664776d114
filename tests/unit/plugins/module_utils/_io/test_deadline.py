# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server that answers byte by byte, each of them in time, is given up at the deadline of the whole (T21)."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import ssl
import sys
import threading
import time
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._io.https import HealthProbe
from ansible_collections.multicluster.network.plugins.module_utils._io.json_api import https

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "_kubernetes"))
from hostile_server import make_certificate

ANSWER = b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 50 + b"\r\nContent-Length: 2\r\n\r\n{}"
#: Bytes that were taken of the last answer.
TAKEN: list[int] = []


def drip(server: ssl.SSLSocket) -> None:
    """A good answer that takes four seconds, a byte every 40 ms."""
    with contextlib.suppress(OSError), server.accept()[0] as link:
        link.recv(65536)
        for byte in ANSWER:
            link.send(bytes([byte]))
            TAKEN.append(byte)
            time.sleep(0.04)


@pytest.fixture
def url(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[str]:
    path, public = make_certificate(tmp_path, ["127.0.0.1"])
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(public, "utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with context.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True) as server:
        thread = threading.Thread(target=drip, args=(server,), daemon=True)
        TAKEN.clear()
        thread.start()
        yield f"https://127.0.0.1:{server.getsockname()[1]}"
        thread.join(10)


@pytest.fixture
def plain_url() -> t.Iterator[str]:
    """The same without TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,), daemon=True)
        TAKEN.clear()
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join(10)


@pytest.mark.parametrize("seconds, body", [(0.5, b""), (60.0, b"{}")])
def test_a_vendors_answer_without_tls(plain_url: str, seconds: float, body: bytes) -> None:
    test_a_vendors_answer(plain_url, seconds, body)


@pytest.mark.parametrize("seconds, body", [(0.5, b""), (60.0, b"{}")])
def test_a_vendors_answer(url: str, seconds: float, body: bytes) -> None:
    answer = https("GET", url + "/x", {}, None, seconds)
    assert answer.body == body and (answer.status is None) == (body == b"")
    assert (len(TAKEN) >= len(ANSWER) - 1) == (body != b"")


@pytest.mark.parametrize("seconds, status", [(0.5, None), (60.0, 200)])
def test_a_server_that_is_asked_for_its_health(url: str, seconds: float, status: int | None) -> None:
    assert HealthProbe(None, "", seconds=seconds)(url + "/healthz") == status
