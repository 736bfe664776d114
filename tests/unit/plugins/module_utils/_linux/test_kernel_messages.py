# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages that no kernel should send: attributes that are empty, too short, nested where they are none. Read, or refused by name."""

from __future__ import annotations

import struct

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._linux.netlink import (
    links,
    messages as netlink,
    routes,
    rules,
    sockets,
)
from ansible_collections.multicluster.network.plugins.module_utils._linux.netlink.messages import attribute
from ansible_collections.multicluster.network.plugins.module_utils._linux.nftables import (
    codec as nft_codec,
    rules as nft_rules,
    trace as nft_trace,
)
from ansible_collections.multicluster.network.plugins.module_utils._linux.wireguard import netlink as wg_netlink
from hypothesis import given, strategies as st

raw = st.binary(max_size=24)
leaf = st.tuples(st.integers(0, 20), st.just(b"") | raw)
nested = st.recursive(
    leaf.map(lambda item: attribute(*item)),
    lambda inner: st.tuples(st.integers(0, 20), st.lists(inner, max_size=3)).map(
        lambda item: attribute(item[0], b"".join(item[1]))
    ),
    max_leaves=10,
)
bodies = st.one_of(st.lists(nested, max_size=6).map(b"".join), st.binary(max_size=60))
route_head = st.binary(min_size=12, max_size=12) | st.just(struct.pack("=BBBBBBBBI", 2, 24, 0, 0, 254, 109, 253, 1, 0))
DECODERS = {
    "a route": lambda body: routes.decode_route(body, {}),
    "a rule": rules.decode_rule,
    "a link": links.decode_link,
    "a link's counters": links.decode_counters,
    "a socket": sockets.decode_socket,
    "a trace": nft_trace.decode_event,
    "an address": links.decode_address,
    "WireGuard": lambda body: wg_netlink.decode_dump([body]),
    "WireGuard's secrets": lambda body: wg_netlink.decode_secrets([body]),
    "a table": lambda body: nft_codec.decode_table(body, 1),
    "a chain": nft_codec.decode_chain,
    "a set": nft_codec.decode_set,
    "elements": lambda body: nft_codec.decode_elements([body], 4, True),
    "a rule of nftables": nft_rules.decode_rule,
}


@pytest.mark.parametrize("name", sorted(DECODERS))
@given(head=route_head, body=bodies)
def test_whatever_the_kernel_sends_is_read_or_refused_by_name(name, head, body):
    try:
        DECODERS[name](head + body if name in ("a route", "a rule") else body)
    except LinuxError as error:
        assert "the kernel's answer cannot be understood" in error.message and error.operation == "read"


@pytest.mark.parametrize("number", range(1, 31))
@pytest.mark.parametrize("name", sorted(DECODERS))
def test_an_empty_attribute_is_no_traceback(name, number):
    head = struct.pack("=BBBBBBBBI", 2, 24, 0, 0, 254, 109, 253, 1, 0) if name in ("a route", "a rule") else b""
    try:
        DECODERS[name](head + attribute(number, b""))
    except LinuxError as error:
        assert "cannot be understood" in error.message


def test_a_family_without_a_number_is_unknown(monkeypatch):
    answer = struct.pack("=BBH", 1, 1, 0) + attribute(netlink.CTRL_ATTR_FAMILY_ID, b"")
    monkeypatch.setattr(netlink.GenericSocket, "exchange", lambda *unused: [answer])
    with pytest.raises(LinuxError, match="this kernel has no wireguard support"):
        netlink.GenericSocket("wireguard")
