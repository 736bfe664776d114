# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages of links and addresses: pyroute2 reads what we write, and we read what it writes."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._linux.netlink import links
from hypothesis import given, strategies as st
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

names = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-", min_size=1, max_size=15)
addresses = st.one_of(
    st.tuples(st.ip_addresses(v=4).map(str), st.integers(0, 32)),
    st.tuples(st.ip_addresses(v=6).map(str), st.integers(0, 128)),
).map(lambda pair: "{0}/{1}".format(*pair))


@pytest.fixture(name="sent")
def sent_fixture(monkeypatch):
    """What would go to the kernel: (type of message, flags, body)."""
    messages = []
    monkeypatch.setattr(links, "_write", lambda *message: messages.append(message))
    return messages


def theirs(kind, message):
    """A body of the collection as pyroute2 decodes it."""
    number, flags, body = message
    read = kind(struct.pack("=IHHII", 16 + len(body), number, flags, 1, 0) + body)
    read.decode()
    return read


def owned(message):
    """A body of pyroute2's."""
    message.encode()
    return bytes(message.data)[16:]


@given(name=names, kind=st.sampled_from(["wireguard", "veth"]))
def test_a_new_link(name, kind):
    with pytest.MonkeyPatch.context() as patch:
        sent = []
        patch.setattr(links, "_write", lambda *message: sent.append(message))
        links.add_link(name, kind)
    read = theirs(ifinfmsg, sent[0])
    assert (sent[0][0], sent[0][1]) == (16, 0x600) and read["index"] == 0
    assert read.get_attr("IFLA_IFNAME") == name and read.get_attr("IFLA_LINKINFO").get_attr("IFLA_INFO_KIND") == kind


@pytest.mark.parametrize("up, flags, change", [(True, 1, 1), (False, 0, 1), (None, 0, 0)])
def test_a_change_has_only_what_is_given(sent, up, flags, change):
    links.change_link(7, up=up)
    links.change_link(7, mtu=1420, txqueuelen=0, alias="multicluster.network/f", up=up)
    for message, expected in zip(
        sent, [{}, {"IFLA_MTU": 1420, "IFLA_TXQLEN": 0, "IFLA_IFALIAS": "multicluster.network/f"}]
    ):
        read = theirs(ifinfmsg, message)
        assert (message[0], message[1], read["index"], read["flags"], read["change"]) == (16, 0, 7, flags, change)
        assert {
            name: value.rstrip("\0") if isinstance(value, str) else value for name, value in read["attrs"]
        } == expected


def test_an_empty_alias_takes_it_away(sent):
    links.change_link(7, alias="")
    assert sent[0][2][links._LINK.size :] == struct.pack("=HH", 4, 20)


def test_a_link_is_deleted_by_its_index(sent):
    links.remove_link(7)
    assert sent[0][0] == 17 and theirs(ifinfmsg, sent[0])["index"] == 7


@given(text=addresses, add=st.booleans(), index=st.integers(1, 2**31 - 1))
def test_an_address(text, add, index):
    with pytest.MonkeyPatch.context() as patch:
        sent = []
        patch.setattr(links, "_write", lambda *message: sent.append(message))
        links.write_address(index, text, add)
    read, interface = theirs(ifaddrmsg, sent[0]), ipaddress.ip_interface(text)
    assert sent[0][:2] == ((20, 0x600) if add else (21, 0))
    assert (read["index"], read["prefixlen"], read["scope"]) == (index, interface.network.prefixlen, 0)
    for name in ("IFA_LOCAL", "IFA_ADDRESS"):
        assert ipaddress.ip_address(read.get_attr(name)) == interface.ip
    # the kernel itself reports that an address without a lifetime is permanent
    assert links.decode_address(sent[0][2]) == (index, links.Address(text, "global", permanent=False))


@given(
    name=names,
    mtu=st.integers(68, 65535),
    kind=st.sampled_from(["", "tun", "wireguard"]),
    alias=st.sampled_from([None, "owned"]),
    up=st.booleans(),
)
def test_we_read_what_pyroute2_writes(name, mtu, kind, alias, up):
    message = ifinfmsg()
    message["index"], message["ifi_type"], message["flags"] = 9, 1, 0x10001 if up else 0
    message["attrs"] = [
        ["IFLA_IFNAME", name],
        ["IFLA_MTU", mtu],
        ["IFLA_TXQLEN", 500],
        ["IFLA_ADDRESS", "02:00:5e:00:53:01"],
        ["IFLA_OPERSTATE", "UP"],
    ]
    message["attrs"] += [["IFLA_LINKINFO", {"attrs": [["IFLA_INFO_KIND", kind]]}]] if kind else []
    message["attrs"] += [["IFLA_IFALIAS", alias]] if alias else []
    assert links.decode_link(owned(message)) == links.Link(
        9, name, kind, links.ETHERNET, "02:00:5e:00:53:01", mtu, 500, alias, 0x10001 if up else 0, 6
    )


@pytest.mark.parametrize("flags, permanent", [(0, False), (0x80, True)])
def test_the_links_own_address_counts_where_it_has_a_peers(flags, permanent):
    message = ifaddrmsg()
    message["family"], message["prefixlen"], message["index"], message["scope"], message["flags"] = 2, 32, 4, 253, flags
    message["attrs"] = [["IFA_ADDRESS", "192.0.2.2"], ["IFA_LOCAL", "192.0.2.1"]]
    assert links.decode_address(owned(message)) == (4, links.Address("192.0.2.1/32", "link", permanent=permanent))


@pytest.mark.parametrize(
    "kind, flags, state, used",
    [
        ("", 0x10001, 6, True),
        ("", 0x1, 6, False),
        ("", 0x10000, 6, False),
        ("veth", 0x1, 6, True),
        ("wireguard", 0x1, 0, True),
        ("veth", 0x1, 2, False),
    ],
)
def test_hardware_needs_a_carrier(kind, flags, state, used):
    assert links.Link(1, "a", kind, 1, None, 1500, 0, None, flags, state).in_use == used
