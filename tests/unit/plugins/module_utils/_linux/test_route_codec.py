# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Route messages: pyroute2's decoder is the oracle of our encoder."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._linux.netlink import route_codec
from hypothesis import given, strategies as st
from pyroute2.netlink.rtnl.rtmsg import rtmsg


@st.composite
def routes(draw):
    version = draw(st.sampled_from((4, 6)))
    address = st.ip_addresses(v=version).map(str)
    network = ipaddress.ip_network((draw(st.ip_addresses(v=version)), draw(st.integers(0, 32 if version == 4 else 128))), strict=False)
    return {
        "dst": str(network), "type": draw(st.sampled_from(sorted(route_codec.TYPES))), "scope": draw(st.sampled_from(sorted(route_codec.SCOPES))),
        "via": draw(st.none() | address), "src": draw(st.none() | address), "metric": draw(st.integers(0, 2**32 - 1)),
    }


@given(routes(), st.integers(1, 2**32 - 1), st.integers(0, 255), st.none() | st.integers(1, 2**31 - 1))
def test_pyroute2_reads_what_was_meant(route, table, protocol, oif):
    body = route_codec.encode_route(route, table, protocol, oif)
    message = rtmsg(struct.pack("=IHHII", 16 + len(body), 24, 5, 1, 0) + body)
    message.decode()
    network = ipaddress.ip_network(route["dst"])
    assert message["family"] == (2 if network.version == 4 else 10)
    assert (message["dst_len"], message["src_len"], message["tos"], message["flags"]) == (network.prefixlen, 0, 0, 0)
    assert (message["proto"], message["type"]) == (protocol, route_codec.TYPES[route["type"]])
    assert message["scope"] == route_codec.SCOPES[route["scope"]]
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
        route_codec.encode_route(route, 254, 109, 1)
