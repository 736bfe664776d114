# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nf_tables' messages: what is written is read back, and pyroute2 reads the same in them."""

from __future__ import annotations

import struct

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane import nft_plan
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._linux.netlink import messages as netlink
from ansible_collections.multicluster.network.plugins.module_utils._linux.nftables import (
    codec as nft_codec,
    rules as nft_rules,
    table as nft,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan import nft as kubespan_nft
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.generations import GENERATIONS, Layout
from ansible_collections.multicluster.network.plugins.module_utils._values import prefix_sets as kubespan_ranges
from hypothesis import given, settings, strategies as st
from pyroute2.netlink.nfnetlink import nftsocket

LENGTHS = {4: 4, 6: 16}
names = st.text("abcdefghijklmnopqrstuvwxyz0123456789_", min_size=1, max_size=31)


def spans_of(version, size=40):
    """Ranges that nobody merged away: canonical, with both ends of the space in reach."""
    top = (1 << kubespan_ranges.BITS[version]) - 1
    address = st.one_of(st.integers(0, top), st.sampled_from([0, 1, top - 1, top]))
    pair = st.tuples(address, address).map(sorted).map(tuple)
    return st.lists(pair, max_size=size).map(kubespan_ranges.merged)


def kernel_elements(spans, version):
    """Ranges as the kernel has them: the first address, and one past the last with the end flag; none past the highest address."""
    elements = []
    for first, last in spans:
        elements.append((first.to_bytes(LENGTHS[version], "big"), 0))
        if last + 1 < 1 << kubespan_ranges.BITS[version]:
            elements.append(((last + 1).to_bytes(LENGTHS[version], "big"), 1))
    return elements


families = st.sampled_from([4, 6]).flatmap(lambda version: st.tuples(st.just(version), spans_of(version)))


@given(families)
def test_elements_are_those_of_the_plan_and_are_read_back(case):
    version, spans = case
    length = LENGTHS[version]
    bodies = nft_codec.encode_elements("t", "s", length, True, spans)
    assert nft_codec.decode_elements(bodies, length, True) == list(spans)
    read = []
    for body in bodies:
        parts = dict(netlink.attributes(body))
        assert parts[nft_codec.LIST_TABLE] == b"t\0" and parts[nft_codec.LIST_SET] == b"s\0"
        for _kind, element in netlink.attributes(parts[nft_codec.LIST_ELEMENTS]):
            fields = dict(netlink.attributes(element))
            key = dict(netlink.attributes(fields[nft_codec.ELEMENT_KEY]))[nft_codec.DATA_VALUE]
            read.append((key, nft_codec.read_u32(fields.get(nft_codec.ELEMENT_FLAGS, b"\0\0\0\0"))))
    assert read == kernel_elements(spans, version)


@given(families)
def test_elements_in_the_kernels_order_and_form(case):
    version, spans = case
    length = LENGTHS[version]
    elements = kernel_elements(spans, version) + [(bytes(length), 1)]  # nft's own leading end
    listed = b""
    for key, flags in reversed(elements):  # the kernel goes downwards, and does not mark nests
        inner = netlink.attribute(1, netlink.attribute(1, key))
        inner += netlink.attribute(3, nft_codec.u32(flags)) if flags else b""
        listed += netlink.attribute(1, inner)
    body = netlink.attribute(nft_codec.LIST_ELEMENTS, listed)
    found = nft_codec.decode_elements([body], length, True)
    assert found == list(spans)


def test_elements_of_a_later_kernel_with_more_in_them():
    inner = netlink.attribute(1, netlink.attribute(1, bytes([10, 0, 0, 1]))) + netlink.attribute(6, b"\0\1x")
    body = netlink.attribute(nft_codec.LIST_ELEMENTS, netlink.attribute(1, inner))
    assert nft_codec.decode_elements([body], 4, False) == [(0x0A000001, 0x0A000001)]
    with pytest.raises(LinuxError, match="cannot be understood: element of 40 bytes"):
        nft_codec.decode_elements(
            [netlink.attribute(nft_codec.LIST_ELEMENTS, struct.pack("=HH", 40, 1) + bytes(8))], 4, True
        )


@pytest.mark.parametrize("version", [4, 6])
def test_a_hundred_thousand_elements_fit_into_their_messages(version):
    spans = [(2 * n + 10, 2 * n + 10) for n in range(100_000)]
    bodies = nft_codec.encode_elements("t" * 31, "s" * 31, LENGTHS[version], True, spans)
    assert max(map(len, bodies)) < 66_000 and len(bodies) <= 100
    assert nft_codec.decode_elements(bodies, LENGTHS[version], True) == spans


def theirs(kind, body):
    """A message's body, as pyroute2 reads it."""
    data = struct.pack("=BBH", nft_codec.FAMILIES["inet"], 0, 0) + body
    message = kind(struct.pack("=IHHII", 16 + len(data), 0xA00, 1, 1, 0) + data)
    message.decode()
    return message


@given(names, names, families)
@settings(max_examples=40)
def test_pyroute2_reads_our_elements(table, name, case):
    version, spans = case
    keys = []
    for body in nft_codec.encode_elements(table, name, LENGTHS[version], True, spans):
        message = theirs(nftsocket.nft_set_elem_list_msg, body)
        assert (message.get_attr("NFTA_SET_ELEM_LIST_TABLE"), message.get_attr("NFTA_SET_ELEM_LIST_SET")) == (
            table,
            name,
        )
        for element in message.get_attr("NFTA_SET_ELEM_LIST_ELEMENTS"):
            keys.append(bytes(element.get_attr("NFTA_SET_ELEM_KEY").get_attr("NFTA_DATA_VALUE")))
    assert keys == [key for key, _flags in kernel_elements(spans, version)]


@given(names, names)
def test_pyroute2_reads_our_tables_chains_and_sets(table, name):
    assert theirs(nftsocket.nft_table_msg, nft_codec.encode_table(table, "me")).get_attr("NFTA_TABLE_NAME") == table
    chain = {"name": name, "type": "route", "hook": "output", "priority": -150, "policy": "accept"}
    message = theirs(nftsocket.nft_chain_msg, nft_codec.encode_chain(table, chain))
    hook = message.get_attr("NFTA_CHAIN_HOOK")
    assert (message.get_attr("NFTA_CHAIN_NAME"), message.get_attr("NFTA_CHAIN_TYPE")) == (name, "route")
    assert (hook.get_attr("NFTA_HOOK_HOOKNUM"), hook.get_attr("NFTA_HOOK_PRIORITY")) == (3, -150)
    item = {"name": name, "type": "ipv6_addr", "flags": ["interval"]}
    message = theirs(nftsocket.nft_set_msg, nft_codec.encode_set(table, item, 1))
    assert (message.get_attr("NFTA_SET_NAME"), message.get_attr("NFTA_SET_KEY_LEN")) == (name, 16)


@given(names, st.text(max_size=300), st.sampled_from(["filter", "route", "nat"]), st.integers(-500, 500))
def test_tables_chains_and_sets_are_read_back(name, owner, kind, priority):
    kept = owner.split("\0", 1)[0].encode("utf-8")[:250].decode("utf-8", "replace")
    table = nft_codec.decode_table(nft_codec.encode_table(name, owner), 1)
    assert table["name"] == name and table["family"] == "inet" and (table["owner"] or "") == kept
    chain = {
        "name": name,
        "type": kind,
        "hook": "prerouting",
        "priority": priority,
        "policy": "drop",
        "device": None,
        "owner": None,
    }
    assert nft_codec.decode_chain(nft_codec.encode_chain("t", chain)) == ("t", chain)
    item = {"name": name, "type": "ipv4_addr", "flags": ["constant", "interval"]}
    assert nft_codec.decode_set(nft_codec.encode_set("t", item, 3)) == ("t", dict(item, length=4))


def test_user_data_of_others():
    assert nft_codec.read_owner(b"\0\5text\0") is None
    assert nft_codec.read_owner(b"\0\5text\0" + nft_codec.owner_userdata("me")) == "me"
    assert nft_codec.read_owner(b"\x6d") is None and nft_codec.read_owner(b"\x6d\xffshort") == "short"


statements = st.one_of(
    st.builds(
        lambda m, v: {"match": "mark", "mask": m, "value": v}, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)
    ),
    st.builds(lambda n: {"match": "oifname", "value": n}, st.text("abcxyz0189.-", min_size=1, max_size=15)),
    st.builds(lambda f, n: {"match": "daddr", "family": f, "set": n}, st.sampled_from([4, 6]), names),
    st.builds(lambda m, v: {"match": "tcp_flags", "mask": m, "value": v}, st.integers(0, 255), st.integers(0, 255)),
    st.builds(lambda v: {"match": "mss_above", "value": v}, st.integers(0, 65535)),
    st.builds(lambda v: {"set": "mss", "value": v}, st.integers(0, 65535)),
    st.builds(lambda m, x: {"set": "mark", "mask": m, "xor": x}, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)),
    st.sampled_from(["accept", "drop", "return"]).map(lambda v: {"verdict": v}),
)


@given(st.lists(statements, max_size=6))
def test_rules_are_read_back(rule):
    assert nft_rules.decode_rule(nft_rules.encode_rule("t", "c", rule)) == {
        "table": "t",
        "chain": "c",
        "handle": 0,
        "rule": rule,
    }


@pytest.mark.parametrize("name", sorted(GENERATIONS))
def test_rules_of_the_table_are_read_back(name):
    for chain in kubespan_nft.table(Layout(), 1420, GENERATIONS[name])["chains"]:
        for rule in chain["rules"]:
            assert nft_rules.decompile(nft_rules.compile_rule(rule)) == rule


def test_what_is_not_understood_equals_nothing():
    counter = nft_codec.nest(1, netlink.attribute(1, b"counter\0") + nft_codec.nest(2, netlink.attribute(1, bytes(8))))
    found = nft_rules.decode_rule(nft_codec.nest(nft_rules.RULE_EXPRESSIONS, counter))
    assert found["rule"] == [{"unknown": "counter", "data": netlink.attribute(1, bytes(8)).hex()}]
    assert nft_plan.rule_text(found["rule"]).startswith("[counter ")
    # a comparison that no statement has
    odd = [("cmp", {"sreg": 9, "op": 0, "data": b"x"})]
    assert nft_rules.decompile(odd)[0]["unknown"] == "cmp"


@given(st.binary(max_size=200))
def test_user_data_is_an_owner_or_nothing(raw):
    assert nft_codec.read_owner(raw) is None or isinstance(nft_codec.read_owner(raw), str)


def test_steps_are_messages_in_their_order():
    item = {"name": "s", "type": "ipv4_addr", "flags": ["interval"]}
    chain = {"name": "c", "type": "filter", "hook": "input", "priority": 0, "policy": "accept"}
    steps = [
        {"op": "new_table", "owner": "me"},
        {"op": "flush_chain", "chain": "c"},
        {"op": "delete_set", "set": "s"},
        {"op": "delete_chain", "chain": "c"},
        {"op": "new_set", "set": item},
        {"op": "new_chain", "chain": chain, "owner": "me"},
        {"op": "set_policy", "chain": chain},
        {"op": "delete_elements", "set": item, "spans": [(1, 2)]},
        {"op": "add_elements", "set": item, "spans": [(n * 4, n * 4) for n in range(2000)]},
        {"op": "add_rule", "chain": "c", "rule": [{"verdict": "accept"}]},
        {"op": "delete_table"},
    ]
    kinds = [message.kind for message in nft.encode_steps("t", steps)]
    new = nft_codec
    assert kinds == [
        new.NEWTABLE,
        new.DELRULE,
        new.DELSET,
        new.DELCHAIN,
        new.NEWSET,
        new.NEWCHAIN,
        new.NEWCHAIN,
        new.DELSETELEM,
        new.NEWSETELEM,
        new.NEWSETELEM,
        new.NEWRULE,
        new.DELTABLE,
    ]
    with pytest.raises(ValueError):
        nft.encode_steps("t", [{"op": "explode", "chain": "c"}])
