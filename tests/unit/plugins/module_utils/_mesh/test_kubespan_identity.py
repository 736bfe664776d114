# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ULA and MAC: nothing but the right form makes an address."""

from __future__ import annotations

import ipaddress
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan import identity
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, settings, strategies as st

MESH = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="


def test_worked_example() -> None:
    assert str(identity.mesh_subnet(MESH)) == "fd7a:6197:edb7:2302::/64"
    for mac, address in (
        ("02:42:ac:14:00:0d", "fd7a:6197:edb7:2302:42:acff:fe14:d"),
        ("52-54-00-AA-00-01", "fd7a:6197:edb7:2302:5054:ff:feaa:1"),
        ("5254.00aa.0001", "fd7a:6197:edb7:2302:5054:ff:feaa:1"),
        ("02:00:00:ff:fe:00:00:01", "fd7a:6197:edb7:2302:0:ff:fe00:1"),
    ):
        assert str(identity.mesh_address(MESH, mac)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "02:42:ac:14:00",
        "02:42-ac:14:00:0d",
        "0242ac14000d",
        "02:42:ac:14:00:0g",
        " 02:42:ac:14:00:0d",
        "02:42:ac:14:00:0d\n",
        ":".join(["00"] * 20),
        None,
        7,
        "02:42:ac:14:00:0d:",
        "٠2:42:ac:14:00:0d",
    ],
)
def test_no_mac(text: t.Any) -> None:
    with pytest.raises(ValueRefused) as caught:
        identity.mesh_address(MESH, text)
    assert caught.value.reason == "invalid_mac"


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=40), st.binary(min_size=6, max_size=6))
def test_every_address_is_in_its_mesh(mesh: str, raw: bytes) -> None:
    mac = ":".join(f"{byte:02x}" for byte in raw)
    address, subnet = identity.mesh_address(mesh, mac), identity.mesh_subnet(mesh)
    assert address in subnet and identity.looks_like_ula(address)
    assert identity.mesh_address(mesh, "-".join(mac.upper().split(":"))) == address


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=30))
def test_mac_parser_never_breaks(text: str) -> None:
    try:
        assert len(identity.parse_mac(text)) in (6, 8)
    except ValueRefused as error:
        assert error.reason == "invalid_mac"


def test_a_sites_own_address_looks_like_one_of_the_mesh() -> None:
    assert identity.looks_like_ula(ipaddress.ip_address("fd12:3456:789a:2::10"))
    assert not identity.looks_like_ula(ipaddress.ip_address("10.0.0.1"))


def test_first_mac() -> None:
    links = [
        {"name": "bond0", "type": "ether", "kind": "bond", "mac": "aa:00:00:00:00:09"},
        {"name": "ens3", "type": 1, "kind": None, "mac": "aa:00:00:00:00:03"},
        {"name": "ens12", "type": 1, "kind": None, "mac": "aa:00:00:00:00:12"},
        {"name": "Z", "type": "loopback", "kind": "", "mac": "00:00:00:00:00:00"},
    ]
    assert identity.first_mac(links) == "aa:00:00:00:00:12"
    assert identity.choose_mac(None, None, links) == "aa:00:00:00:00:12"
    assert identity.choose_mac(None, "02:00:00:00:00:01", links) == "02:00:00:00:00:01"
    assert identity.choose_mac("02:00:00:00:00:02", "02:00:00:00:00:01", links) == "02:00:00:00:00:02"
    with pytest.raises(ValueRefused, match="kubespan_mac") as caught:
        identity.choose_mac(None, None, links[:1])
    assert caught.value.reason == "mac_missing"


def test_node_id() -> None:
    assert identity.make_node_id(bytes(32)) == "0"
    text = identity.make_node_id(b"\xff" * 32)
    assert len(text) == 43 and text.isalnum()
    with pytest.raises(ValueRefused):
        identity.make_node_id(b"short")
