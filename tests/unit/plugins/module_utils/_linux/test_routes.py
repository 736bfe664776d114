# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Route messages: pyroute2's decoder is the oracle of our encoder, our decoder reads both, and refuses what is no route by name."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._linux.netlink import routes as kernel_routes
from hypothesis import given, strategies as st
from pyroute2.netlink.rtnl.rtmsg import rtmsg

numbers = st.integers(1, 2**32 - 1)


@st.composite
def routes(draw):
    version = draw(st.sampled_from((4, 6)))
    address = st.ip_addresses(v=version).map(str)
    network = ipaddress.ip_network(
        (draw(st.ip_addresses(v=version)), draw(st.integers(0, 32 if version == 4 else 128))), strict=False
    )
    return {
        "dst": str(network),
        "type": draw(st.sampled_from(sorted(kernel_routes.TYPES))),
        "scope": draw(st.sampled_from(sorted(kernel_routes.SCOPES))),
        "via": draw(st.none() | address),
        "src": draw(st.none() | address),
        "metric": draw(st.integers(0, 2**32 - 1)),
    }


@given(routes(), st.integers(1, 2**32 - 1), st.integers(0, 255), st.none() | st.integers(1, 2**31 - 1))
def test_pyroute2_reads_what_was_meant(route, table, protocol, oif):
    body = kernel_routes.encode_route(route, table, protocol, oif)
    message = rtmsg(struct.pack("=IHHII", 16 + len(body), 24, 5, 1, 0) + body)
    message.decode()
    network = ipaddress.ip_network(route["dst"])
    assert message["family"] == (2 if network.version == 4 else 10)
    assert (message["dst_len"], message["src_len"], message["tos"], message["flags"]) == (network.prefixlen, 0, 0, 0)
    assert (message["proto"], message["type"]) == (protocol, kernel_routes.TYPES[route["type"]])
    assert message["scope"] == kernel_routes.SCOPES[route["scope"]]
    assert message["table"] == (table if table < 256 else 252) and message.get_attr("RTA_TABLE") == table
    found = message.get_attr("RTA_DST")
    assert (found is None) if not network.prefixlen else ipaddress.ip_address(found) == network.network_address
    for name, kind in (("via", "RTA_GATEWAY"), ("src", "RTA_PREFSRC")):
        found = message.get_attr(kind)
        assert (found and ipaddress.ip_address(found)) == (route[name] and ipaddress.ip_address(route[name]))
    assert message.get_attr("RTA_PRIORITY") == (route["metric"] or None)
    assert message.get_attr("RTA_OIF") == oif


def test_an_address_of_the_other_family_is_an_error():
    route = {"dst": "10.0.0.0/8", "type": "unicast", "scope": "global", "via": "fd00::1", "src": None, "metric": 0}
    with pytest.raises(ValueError, match="fd00::1 is not an address of the route's family"):
        kernel_routes.encode_route(route, 254, 109, 1)


@st.composite
def read_routes(draw):
    version = draw(st.sampled_from([4, 6]))
    address = st.ip_addresses(v=version).map(str)
    length = draw(st.sampled_from([0, 8, 24, 32] if version == 4 else [0, 48, 64, 128]))
    base = draw(address) if length else ("0.0.0.0" if version == 4 else "::")
    kind = draw(st.sampled_from(["unicast", "blackhole", "unreachable", "prohibit", "throw"]))
    mtu = draw(st.one_of(st.none(), st.integers(1280, 65535)))
    return {
        "version": version,
        "table": draw(numbers),
        "dst": f"{base}/{length}",
        "type": kind,
        "dev": "wg0" if kind == "unicast" else None,
        "via": draw(st.one_of(st.none(), address)),
        "src": draw(st.one_of(st.none(), address)),
        "metric": draw(st.sampled_from([0, 1, 2**32 - 1])),
        "scope": "global" if version == 6 else draw(st.sampled_from(["global", "link", "host"])),
        "protocol": draw(st.integers(0, 255)),
        "mtu": mtu,
        "mtu_locked": mtu is not None and draw(st.booleans()),
    }


@given(read_routes())
def test_what_is_written_is_read_back(route):
    body = kernel_routes.encode_route(route, route["table"], route["protocol"], 7 if route["dev"] else None)
    assert kernel_routes.decode_route(body, {7: "wg0"}) == route


@given(st.binary(min_size=12, max_size=120))
def test_bytes_that_are_no_route(raw):
    try:
        kernel_routes.decode_route(raw, {})
    except LinuxError as error:  # and no other: that one names what could not be read
        assert "cannot be understood" in str(error)
