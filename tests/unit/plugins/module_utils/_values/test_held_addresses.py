# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host holds for others at the moment is no address of the host, whoever put it there (threat T48)."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.endpoints import node_addresses
from ansible_collections.multicluster.network.plugins.module_utils._values.held_addresses import (
    KEEPALIVED,
    held_for_others,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.prefix_sets import PrefixSet
from hypothesis import given, strategies as st

Row = dict[str, t.Any]
NIC: Row = {
    "address": "10.66.23.31/24",
    "device": "eth0",
    "kind": "",
    "up": True,
    "scope": "global",
    "permanent": True,
    "protocol": 0,
}
NIC6: Row = dict(NIC, address="2001:db8:66::31/64")


def row(address: str, device: str = "eth0", **more: t.Any) -> Row:
    return dict(NIC, address=address, device=device, **more)


@pytest.mark.parametrize(
    "held",
    [
        row("10.66.23.200/32"),  # keepalived's and kube-vip's form
        row("2001:db8:66::200/128"),
        row("203.0.113.7/32", "lo"),  # kube-vip with BGP, MetalLB's and Cilium's neighbours
        row("203.0.113.7/32", "lb0", kind="dummy"),
        row("10.66.23.200/24", protocol=KEEPALIVED),
        row("10.66.23.200/24"),  # of a pool that the inventory names
        row("10.77.0.9/24", "eth1", protocol=KEEPALIVED),
    ],
)
def test_each_form_in_which_addresses_are_held(held: Row) -> None:
    balanced = PrefixSet.of_texts(["10.66.23.200/30"])
    assert list(held_for_others([NIC, NIC6, held], balanced)) == [held["address"]]


@pytest.mark.parametrize(
    "rows",
    [
        [NIC, NIC6],
        [row("10.128.0.5/32")],  # clouds give their machines single addresses
        [row("10.128.0.5/32"), NIC6],
        [row("10.9.9.9/32", "lo"), row("fe80::1/64", scope="link")],  # routing on the host: nothing else of its family
        [row("2001:db8:66::1f/128", permanent=False), NIC6],  # DHCPv6
        [NIC, row("10.77.0.1/24", "eth1")],
        [NIC, row("10.77.0.1/32", "eth1")],  # a device of its own, without a network
    ],
)
def test_what_is_the_hosts_own(rows: list[Row]) -> None:
    assert held_for_others(rows) == {}


def test_an_address_by_which_the_cluster_knows_the_node_is_its_own() -> None:
    loopback = row("10.9.9.9/32", "lo")
    assert held_for_others([NIC, loopback]) and not held_for_others([NIC, loopback], own=["10.9.9.9"])
    # what load balancing assigns, and what keepalived holds, is no node's, whatever the cluster has
    assert held_for_others([NIC, loopback], PrefixSet.of_texts(["10.9.9.0/24"]), ["10.9.9.9"])
    assert held_for_others([NIC, dict(loopback, protocol=KEEPALIVED)], own=["10.9.9.9"])


_FORMS = st.builds(
    row,
    st.integers(1, 250).map("10.66.23.{0}/32".format),
    st.sampled_from(["eth0", "lo", "lb0"]),
    kind=st.sampled_from(["", "dummy"]),
    protocol=st.sampled_from([0, 3, KEEPALIVED]),
)


@given(st.lists(_FORMS, max_size=8), st.randoms(use_true_random=False))
def test_what_a_pool_has_is_never_announced_and_order_does_not_matter(forms: list[Row], random: t.Any) -> None:
    pool = ["10.66.23.128/25"]
    rows = [row("10.66.23.1/24"), *forms]
    found = node_addresses(rows, balanced=pool)
    assert all(int(text.rpartition(".")[2]) < 128 for text in found) and "10.66.23.1" in found
    random.shuffle(rows)
    assert node_addresses(rows, balanced=pool) == found
    # holding one more, or one less, changes nothing of what a node states of itself
    assert node_addresses([*rows, row("10.66.23.251/32")], balanced=pool) == found


def test_devices_are_left_out_by_name_pattern_and_kind() -> None:
    rows = [
        NIC,
        row("100.64.0.1/32", "tailscale0", kind="tun"),
        row("100.100.0.1/16", "wt0", kind="wireguard"),
        row("172.17.0.1/16", "docker0", kind="bridge"),
    ]
    assert node_addresses(rows, (), ["docker0", "wt*", "tailscale*"]) == ["10.66.23.31"]
    assert node_addresses(rows, (), ["kind:tun", "kind:wireguard", "docker?"]) == ["10.66.23.31"]
    assert node_addresses(rows, (), ["tail", "wt", "kind:tu"]) == [
        "10.66.23.31",
        "100.64.0.1",
        "100.100.0.1",
        "172.17.0.1",
    ]
