# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections of this very machine, and tables that are none."""

from __future__ import annotations

import contextlib
import os
import socket

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import connections
from hypothesis import given, strategies as st


@contextlib.contextmanager
def connected(address, other=None):
    """A connection to a port of this process, from its own socket: (client, port)."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with (
        socket.socket(family) as server,
        socket.socket(socket.AF_INET6 if ":" in (other or address) else socket.AF_INET) as client,
    ):
        server.bind((address, 0))
        server.listen()
        client.connect((other or address, server.getsockname()[1]))
        with server.accept()[0]:
            yield client, server.getsockname()[1]


@pytest.mark.parametrize(("address", "other"), [("127.0.0.1", None), ("127.0.0.1", "::ffff:127.0.0.1")])
def test_a_connection_and_its_process_are_found(address, other):
    with connected(address, other) as (client, port):
        rows = [row for row in connections.connections() if row.remote_port == port]
        assert [(row.local, row.local_port, row.remote) for row in rows] == [
            ("127.0.0.1", client.getsockname()[1], "127.0.0.1")
        ]
        holder = connections.holder_of(rows[0].socket)
        assert holder is not None and holder.pid == os.getpid() and holder.words
    assert not [row for row in connections.connections() if row.remote_port == port]


def test_addresses_of_six():
    text = "   0: B80D0120000000000000000001000000:00B3 B80D0120000000000000000002000000:9C40 01 00000000:00000000 00:00000000 00000000     0        0 77 1 0\n"
    assert connections.parse_connections(text) == [connections.Connection("2001:db8::1", 179, "2001:db8::2", 40000, 77)]
    assert connections.holder_of(1 << 40) is None


@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from(["0: ", "0100007F:00B3 ", "01 ", "FF", " 12 ", ":", "\n", "\0"]), max_size=30).map(
        "".join
    )
)
def test_what_is_no_table_has_no_connections(text):
    for row in connections.parse_connections(text):
        assert 0 <= row.local_port <= 65535 and row.socket >= 0
