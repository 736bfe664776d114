# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Routes of a dump: what our encoder writes is read back, and bytes that are no route are refused by name."""

from __future__ import annotations

from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._linux.netlink import route_codec
from hypothesis import given, strategies as st

numbers = st.integers(1, 2**32 - 1)


@st.composite
def routes(draw):
    version = draw(st.sampled_from([4, 6]))
    address = st.ip_addresses(v=version).map(str)
    length = draw(st.sampled_from([0, 8, 24, 32] if version == 4 else [0, 48, 64, 128]))
    base = draw(address) if length else ("0.0.0.0" if version == 4 else "::")
    kind = draw(st.sampled_from(["unicast", "blackhole", "unreachable", "prohibit", "throw"]))
    mtu = draw(st.one_of(st.none(), st.integers(1280, 65535)))
    return {
        "version": version, "table": draw(numbers), "dst": "{0}/{1}".format(base, length), "type": kind, "dev": "wg0" if kind == "unicast" else None,
        "via": draw(st.one_of(st.none(), address)), "src": draw(st.one_of(st.none(), address)), "metric": draw(st.sampled_from([0, 1, 2**32 - 1])),
        "scope": "global" if version == 6 else draw(st.sampled_from(["global", "link", "host"])), "protocol": draw(st.integers(0, 255)),
        "mtu": mtu, "mtu_locked": mtu is not None and draw(st.booleans()),
    }  # fmt: skip


@given(routes())
def test_what_is_written_is_read_back(route):
    body = route_codec.encode_route(route, route["table"], route["protocol"], 7 if route["dev"] else None)
    assert route_codec.decode_route(body, {7: "wg0"}) == route


@given(st.binary(min_size=12, max_size=120))
def test_bytes_that_are_no_route(raw):
    try:
        route_codec.decode_route(raw, {})
    except LinuxError as error:  # and no other: that one names what could not be read
        assert "cannot be understood" in str(error)
