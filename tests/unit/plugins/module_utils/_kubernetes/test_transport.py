# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the connections of one client share."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Unreachable
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.session import Limits
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.transport import tls_context
from urllib3.util.ssl_ import ALPN_PROTOCOLS


def test_connections_do_not_change_the_context_under_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[t.Any] = []
    monkeypatch.setattr(ssl.SSLContext, "set_alpn_protocols", lambda self, protocols: calls.append(list(protocols)))
    context = tls_context(parse_access({"name": "aws", "api_url": "https://127.0.0.1:1", "token": "x" * 20}), None)
    for _connection in range(3):
        context.set_alpn_protocols(ALPN_PROTOCOLS)
    assert calls == [["http/1.1"]]
    context.set_alpn_protocols(["h2"])
    assert calls[-1] == ["h2"]


def unreachable(server: str) -> str:
    client = Client(parse_access({"name": "aws", "api_url": server, "token": "x" * 20}))
    with pytest.raises(Unreachable) as caught:
        client.get("/version")
    assert not caught.value.retryable
    return caught.value.message


def test_a_port_where_nobody_listens_is_no_matter_of_time() -> None:
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        server = f"https://127.0.0.1:{bound.getsockname()[1]}"
        assert unreachable(server) == f"{server} ('Connection refused')"


def test_a_name_that_nobody_knows_is_reported_with_the_variable() -> None:
    reported = unreachable("https://api.aws.invalid:6443")
    assert reported.startswith("https://api.aws.invalid:6443 ('") and " within " not in reported
    assert reported.endswith("finds no address for the name: see kubeconfig or api_url of clusters/aws, or its DNS")


def test_a_server_that_does_not_take_the_connection_is_reported_by_its_address() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        server = f"https://127.0.0.1:{full.getsockname()[1]}"
        with contextlib.ExitStack() as stack:
            for _number in range(3):  # the kernel queues one or two, and lets the next ones wait
                one = stack.enter_context(socket.socket())
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            client = Client(
                parse_access({"name": "aws", "api_url": server, "token": "x" * 20}), limits=Limits(connect_seconds=0.5)
            )
            with pytest.raises(Unreachable, match="no connection to " + re.escape(server) + " within 0.5 s"):
                client.get("/version")
