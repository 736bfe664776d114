# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the connections of one client share."""

from __future__ import annotations

import ssl
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.transport import tls_context
from urllib3.util.ssl_ import ALPN_PROTOCOLS


def test_connections_do_not_change_the_context_under_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: t.List[t.Any] = []
    monkeypatch.setattr(ssl.SSLContext, "set_alpn_protocols", lambda self, protocols: calls.append(list(protocols)))
    context = tls_context(parse_access({"name": "aws", "api_url": "https://127.0.0.1:1", "token": "x" * 20}), None)
    for _connection in range(3):
        context.set_alpn_protocols(ALPN_PROTOCOLS)
    assert calls == [["http/1.1"]]
    context.set_alpn_protocols(["h2"])
    assert calls[-1] == ["h2"]
