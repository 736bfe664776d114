# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses, networks and endpoints: what passes, what is refused, and that nothing else can happen."""

from __future__ import annotations

import ipaddress
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import (
    address_number,
    contains,
    is_plain_endpoint,
    network_key,
    network_span,
    network_text_and_key,
    overlaps,
    parse_address,
    parse_endpoint,
    parse_network,
    plain_address,
    plain_network_key,
    special_kind,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused, quoted
from hypothesis import given, strategies as st

BAD_ADDRESSES = [
    "",
    " 10.0.0.1",
    "10.0.0.1 ",
    "10.0.0",
    "10.1",
    "1",
    "0x7f.0.0.1",
    "010.0.0.1",
    "10.0.0.01",
    "1.2.3.4.5",
]
BAD_ADDRESSES += [
    "256.0.0.1",
    "10.0.0.1/32",
    "fe80::1%eth0",
    "::ffff:010.0.0.1",
    "\u0661.2.3.4",
    "1" * 1000,
    "fd00:::1",
]
BAD_NETWORKS = [
    "10.0.0.0",
    "10.0.0.0/",
    "/8",
    "10.0.0.0/33",
    "10.0.0.0/-1",
    "10.0.0.0/+8",
    "10.0.0.0/08",
    "10.0.0.0/8/8",
]
BAD_NETWORKS += ["10.0.0.0/255.0.0.0", "::/129", "10.0.0.0/ 8", "10.0.0.0/8\n", "::1%1/64", "10.0.0.0/\u0668"]
BAD_ENDPOINTS = [
    "",
    ":",
    ":1",
    "host",
    "host:",
    "10.0.0.1:0",
    "10.0.0.1:65536",
    "10.0.0.1:01",
    "10.0.0.1:+1",
    "fd00::1:51820",
]
BAD_ENDPOINTS += [
    "[10.0.0.1]:1",
    "[fd00::1]",
    "[fd00::1]51820",
    "[]:1",
    "a b:1",
    "-a:1",
    "a-:1",
    "a..b:1",
    "127.1:1",
    "0x7f:1",
]
BAD_ENDPOINTS += [
    "1.2.3:1",
    "x.1:1",
    "10.0.0.256:1",
    "a" * 64 + ":1",
    "a." * 130 + "b:1",
    "u@h:1",
    "h/x:1",
    "\u00e9:1",
    "h:1\n",
]
GOOD_ENDPOINTS = {
    "10.22.22.27:51820": "10.22.22.27:51820",
    "[fd00::31]:1": "[fd00::31]:1",
    "[FD00:0::31]:65535": "[fd00::31]:65535",
    "node-1.example.com:51820": "node-1.example.com:51820",
    "localhost:7": "localhost:7",
    "a_b:7": "a_b:7",
    "example.com.:7": "example.com.:7",
    "3com.com:1": "3com.com:1",
}
NO_TEXTS: list[t.Any] = [None, 7, True, 1.5, [], {}, b"10.0.0.1"]


@pytest.mark.parametrize("text", BAD_ADDRESSES + NO_TEXTS)
def test_bad_addresses(text: t.Any) -> None:
    with pytest.raises(ValueRefused) as caught:
        parse_address(text, "some_reason")
    assert caught.value.reason == "some_reason"


@pytest.mark.parametrize("text", BAD_NETWORKS + NO_TEXTS)
def test_bad_networks(text: t.Any) -> None:
    with pytest.raises(ValueRefused):
        parse_network(text)


@pytest.mark.parametrize("text", BAD_ENDPOINTS + NO_TEXTS)
def test_bad_endpoints(text: t.Any) -> None:
    with pytest.raises(ValueRefused) as caught:
        parse_endpoint(text)
    assert caught.value.reason == "bad_endpoint"


@pytest.mark.parametrize("text", GOOD_ENDPOINTS)
def test_good_endpoints(text: str) -> None:
    endpoint = parse_endpoint(text)
    assert str(endpoint) == GOOD_ENDPOINTS[text]
    assert parse_endpoint(str(endpoint)) == endpoint


def test_host_bits() -> None:
    assert str(parse_network("10.2.3.4/16")) == "10.2.0.0/16"
    assert str(parse_network("fd00::1/64")) == "fd00::/64"


@pytest.mark.parametrize(
    "text, kind",
    [
        ("10.0.0.1", None),
        ("2001:db8::1", None),
        ("fd00::1", None),
        ("0.0.0.0", "unspecified"),
        ("::", "unspecified"),
        ("127.9.9.9", "loopback"),
        ("::1", "loopback"),
        ("169.254.169.254", "link_local"),
        ("fe80::1", "link_local"),
        ("224.0.0.1", "multicast"),
        ("ff0e::1", "multicast"),
        ("255.255.255.255", "broadcast"),
        ("240.0.0.1", "reserved"),
        ("0.1.2.3", "reserved"),
        ("::ffff:10.0.0.1", "v4_embedded"),
        ("64:ff9b::a9fe:a9fe", "v4_embedded"),
    ],
)
def test_special_kinds(text: str, kind: str | None) -> None:
    assert special_kind(parse_address(text)) == kind


def test_relations_never_cross_families() -> None:
    four, six = parse_network("0.0.0.0/0"), parse_network("::/0")
    assert not contains(four, six) and not overlaps(six, four)
    assert contains(four, parse_network("10.0.0.0/8")) and not contains(parse_network("10.0.0.0/8"), four)
    assert sorted([six, parse_network("10.0.0.0/16"), parse_network("10.0.0.0/8"), four], key=network_key) == [
        four,
        parse_network("10.0.0.0/8"),
        parse_network("10.0.0.0/16"),
        six,
    ]


@given(st.ip_addresses(), st.integers(1, 65535))
def test_every_endpoint_survives_its_own_text(address: t.Any, port: int) -> None:
    text = ("[{0}]:{1}" if address.version == 6 else "{0}:{1}").format(address, port)
    if "%" in text:
        return
    endpoint = parse_endpoint(text)
    assert endpoint.address == address and endpoint.port == port and parse_endpoint(str(endpoint)) == endpoint


@given(st.ip_addresses(), st.integers(0, 128))
def test_networks_agree_with_the_library(address: t.Any, length: int) -> None:
    text = f"{address}/{length}"
    if length > address.max_prefixlen or "%" in text:
        with pytest.raises(ValueRefused):
            parse_network(text)
    else:
        assert parse_network(text) == ipaddress.ip_network(text, strict=False)


@given(st.text() | st.text("0123456789.:/[]abcdefx%-", max_size=50) | st.none() | st.integers())
def test_nothing_but_refusals(text: t.Any) -> None:
    for parse in (parse_address, parse_network, parse_endpoint):
        try:
            assert str(parse(text)).isprintable()
        except ValueRefused as error:
            assert error.message.isprintable() and len(error.message) < 500


@given(st.text(max_size=1000) | st.binary(max_size=300))
def test_quoted_is_short_and_plain(text: t.Any) -> None:
    shown = quoted(text)
    assert len(shown) <= 200 and shown.isascii() and shown.isprintable()


_NUMBERS = st.one_of(
    st.integers(0, 300).map(str), st.sampled_from(["01", "00", "", "-1", "1 ", "\u0661", "127", "169", "224", "254"])
)
_DOTTED = st.lists(_NUMBERS, min_size=3, max_size=5).map(".".join)


@given(st.builds("{0}/{1}".format, _DOTTED, st.one_of(st.integers(0, 40), _NUMBERS)))
def test_the_short_way_for_networks_gives_what_the_long_way_gives(text):
    key = plain_network_key(text)
    try:
        network = parse_network(text)
    except ValueRefused as error:
        assert key is None
        with pytest.raises(ValueRefused) as again:
            network_text_and_key(text)
        assert str(again.value) == str(error)
        return
    assert key in (None, network_key(network)) and (key is None) == (str(network) != text)
    assert network_text_and_key(text) == (network_key(network), str(network))


@given(
    st.builds(
        "{0}/{1}".format, st.one_of(_DOTTED, st.ip_addresses().map(str)), st.one_of(st.integers(0, 140), _NUMBERS)
    )
    | st.sampled_from(BAD_NETWORKS)
)
def test_a_span_of_a_text_is_that_of_its_network(text):
    try:
        network = parse_network(text, "a_reason")
    except ValueRefused as error:
        with pytest.raises(ValueRefused) as again:
            network_span(text, "a_reason")
        assert (again.value.reason, str(again.value)) == ("a_reason", str(error))
        return
    assert network_span(text) == (network.version, int(network[0]), int(network[-1]))


_GROUPS = st.lists(
    st.one_of(st.integers(0, 0x1FFFF).map("{0:x}".format), st.sampled_from(["0", "", "", "00", "g", "A", "1.2.3.4"])),
    min_size=2,
    max_size=9,
)


@given(
    st.one_of(
        _GROUPS.map(":".join),
        _DOTTED,
        st.ip_addresses().map(str),
        st.ip_addresses(v=6).map(lambda address: address.exploded),
    )
)
def test_the_number_of_an_address_is_that_of_the_address(text):
    try:
        address = parse_address(text, "a_reason")
    except ValueRefused as error:
        with pytest.raises(ValueRefused) as again:
            address_number(text, "a_reason")
        assert (again.value.reason, str(again.value)) == ("a_reason", str(error))
        return
    assert address_number(text) == (address.version, int(address))


@given(st.builds("{0}:{1}".format, _DOTTED, st.one_of(st.integers(0, 70000), _NUMBERS)))
def test_the_short_way_for_endpoints_passes_only_what_the_long_way_passes(text):
    try:
        endpoint = parse_endpoint(text)
    except ValueRefused:
        endpoint = None
    good = (
        endpoint is not None
        and endpoint.address is not None
        and special_kind(endpoint.address) is None
        and str(endpoint) == text
    )
    assert is_plain_endpoint(text) == good


@pytest.mark.parametrize("text", BAD_NETWORKS + ["fd00::/64", "10.0.0.1/24", "0.0.0.0/0\n", None, 7])
def test_nothing_else_is_plain(text):
    assert plain_network_key(text) is None and not is_plain_endpoint(text)


@pytest.mark.parametrize(
    "text",
    BAD_ADDRESSES
    + ["::1", "fd00::1", "10.0.0.1\n", "10.0.0.256", "127.0.0.1", "0.1.2.3", "169.254.169.254", "224.0.0.1", None, 7],
)
def test_no_address_that_is_bad_or_special_is_plain(text):
    assert plain_address(text) is None


@given(st.ip_addresses(v=4))
def test_a_plain_address_is_an_ordinary_one(address):
    assert plain_address(str(address)) == (None if special_kind(address) else int(address))
