# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sealed records: what was sealed opens, what was not is refused, and no bytes break the reader."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan import sealing as seal
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.endpoints import (
    AddrPort,
    parse_addr_port,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, settings, strategies as st

SECRET = bytes(range(32))
AFFILIATE: dict[str, t.Any] = {
    "node_id": "29QQTc97U5ZyFTIX33Dp9NqtwxqQI8QI13scCLzffrZ",
    "addresses": ["192.0.2.1", "2001:db8::1"],
    "hostname": "n1.example",
    "nodename": "n1",
    "machine_type": "worker",
    "operating_system": "Debian 12",
    "public_key": "PLPNBddmTgHJhtw0vxltq1ZBdPP9RNOEUd5JjJZzBRY=",
    "kubespan_address": "fd50:8d60:4238:6302:f857:23ff:fe21:d1e0",
    "additional_addresses": ["10.244.3.1/24", "0.0.0.0/0"],
    "exclude_advertised_networks": ["10.9.0.0/16"],
    "api_server_port": 6443,
    "endpoints": [],
}


@settings(deadline=None, max_examples=60)
@given(st.ip_addresses().filter(lambda a: a.version == 4 or not a.scope_id), st.integers(1, 65535))
def test_endpoints_come_back(address: t.Any, port: int) -> None:
    endpoint = AddrPort(address, port)
    sealed = seal.seal_endpoint(SECRET, endpoint)
    assert len(sealed) == (16 if address.version == 4 else 32) and sealed == seal.seal_endpoint(SECRET, endpoint)
    assert seal.open_endpoint(SECRET, sealed) == endpoint


def test_affiliates_come_back() -> None:
    sealed = seal.seal_affiliate(SECRET, AFFILIATE, b"n" * 12)
    assert sealed[:12] == b"n" * 12 and seal.open_affiliate(SECRET, sealed) == AFFILIATE
    empty = seal.open_affiliate(SECRET, seal.seal_affiliate(SECRET, {}, bytes(12)))
    assert not any(empty.values())


def test_bytes_that_are_encoded_already() -> None:
    raw = seal.encode_affiliate(AFFILIATE)
    sealed = seal.seal_record(SECRET, raw, b"n" * 12)
    assert sealed == seal.seal_affiliate(SECRET, AFFILIATE, b"n" * 12) and seal.open_record(SECRET, sealed) == raw


def test_every_flipped_bit_is_noticed() -> None:
    sealed = seal.seal_affiliate(SECRET, AFFILIATE, b"n" * 12)
    for place in range(len(sealed)):
        broken = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        with pytest.raises(ValueRefused):
            seal.open_affiliate(SECRET, broken)


def test_another_secret_opens_nothing() -> None:
    other = bytes(32)
    with pytest.raises(ValueRefused):
        seal.open_affiliate(other, seal.seal_affiliate(SECRET, AFFILIATE, bytes(12)))
    with pytest.raises(ValueRefused):
        seal.open_endpoint(other, seal.seal_endpoint(SECRET, parse_addr_port("10.0.0.1:5")))


def test_limits() -> None:
    with pytest.raises(ValueRefused) as caught:
        seal.seal_affiliate(SECRET, {"addresses": ["2001:db8::1"] * 120}, bytes(12))
    assert caught.value.reason == "record_too_long"
    with pytest.raises(ValueRefused):
        seal.seal_affiliate(SECRET, AFFILIATE, b"short")
    with pytest.raises(ValueRefused):
        seal.open_affiliate(SECRET, bytes(2049))


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=60))
def test_no_bytes_break_the_readers(raw: bytes) -> None:
    for read in (seal.decode_affiliate, seal.decode_endpoint):
        try:
            read(raw)
        except ValueRefused as error:
            assert error.reason == "bad_record"
    for open_it in (seal.open_affiliate, seal.open_endpoint):
        try:
            open_it(SECRET, raw)
        except ValueRefused as error:
            assert error.reason in ("bad_record", "sealed_otherwise")


def test_unknown_fields_and_hostile_lengths() -> None:
    assert seal.decode_endpoint(bytes.fromhex("0a04c0a8030410ec9403") + b"\x78\x01\x7a\x01x")[1] == 51820
    for raw in (
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x80" * 20,
        b"\x0b",
        b"\x0a\x05\x01\x02\x03\x04\x05\x10\x01",
        b"\x02\x00",
    ):
        with pytest.raises(ValueRefused):
            seal.decode_endpoint(raw)
