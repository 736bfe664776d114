# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Peers and their allowed IPs."""

from __future__ import annotations

import json
import random
import time
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.peers import Mesh, PeerSpecs, peers_of
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import parse_network
from ansible_collections.multicluster.network.plugins.module_utils._values.prefix_sets import PrefixSet
from hypothesis import given, settings, strategies as st

Data = dict[str, t.Any]


def peer_specs(affiliates: t.Iterable[Data], local: str | None) -> PeerSpecs:
    return Mesh(affiliates).specs(local)


def node(ident: str, key: str | None = None, *prefixes: str, addresses: t.Sequence[str] = (), **more: t.Any) -> Data:
    ula = f"fd7a:6197:edb7:2302::{sum(map(ord, ident)) % 65536:x}"
    row = {"node_id": ident, "public_key": "K" + ident if key is None else key, "kubespan_address": ula}
    return dict(row, addresses=list(addresses), additional_addresses=list(prefixes), **more)


def test_the_worked_example() -> None:
    beta = dict(
        node("5beta", None, "10.244.2.0/24", addresses=["192.0.2.12"], nodename="beta", endpoints=["192.0.2.12:51820"]),
        kubespan_address="fd7a:6197:edb7:2302:5054:ff:feaa:2",
    )
    gamma = dict(
        node("9gamma", None, "10.244.3.0/24", addresses=["10.20.0.13", "2001:db8:9::13"]),
        kubespan_address="fd7a:6197:edb7:2302:42:acff:fe14:d",
    )
    specs = peer_specs([gamma, node("3alpha"), beta], "3alpha")
    assert list(specs.peers) == ["K5beta", "K9gamma"]
    assert specs.peers["K5beta"].allowed_ips == [
        "10.244.2.0/24",
        "192.0.2.12/32",
        "fd7a:6197:edb7:2302:5054:ff:feaa:2/128",
    ]
    assert specs.peers["K9gamma"].allowed_ips == [
        "10.20.0.13/32",
        "10.244.3.0/24",
        "2001:db8:9::13/128",
        "fd7a:6197:edb7:2302:42:acff:fe14:d/128",
    ]
    assert specs.peers["K5beta"].label == "beta" and specs.peers["K5beta"].endpoints == ["192.0.2.12:51820"]
    assert (specs.overlaps, specs.ignored, specs.empty) == ([], [], [])


def test_adjacent_prefixes_merge_and_host_bits_drop() -> None:
    specs = peer_specs([node("a", None, "10.244.2.1/24", "10.244.3.0/24", "10.244.2.128/25")], None)
    assert specs.peers["Ka"].allowed_ips[0] == "10.244.2.0/23"


@pytest.mark.parametrize(
    "broken",
    [
        {"kubespan_address": None},
        {"kubespan_address": "x"},
        {"addresses": ["x"]},
        {"additional_addresses": ["10.0.0.1"]},
        {"exclude_advertised_networks": ["10.0.0.0/33"]},
    ],
)
def test_a_broken_affiliate_is_ignored_alone(broken: Data) -> None:
    specs = peer_specs([dict(node("a"), **broken), node("b")], None)
    assert list(specs.peers) == ["Kb"] and [item[0] for item in specs.ignored] == ["a"]


def test_a_reinstalled_node_gets_nothing_until_the_old_record_is_gone() -> None:
    old, new = node("1", None, addresses=["10.0.0.1"]), node("2", None, addresses=["10.0.0.1"])
    new["kubespan_address"] = old["kubespan_address"]
    specs = peer_specs([new, old], None)
    assert specs.peers["K2"].allowed_ips == [] and specs.empty == ["K2"] and specs.overlaps == [("K2", "K1")]
    assert peer_specs([new], None).empty == []


def test_one_key_twice() -> None:
    specs = peer_specs(
        [node("a", "K", "10.0.0.0/23"), node("b", "K", "10.0.1.0/24", "10.0.2.0/24"), node("c", "L", "10.0.0.0/24")],
        None,
    )
    assert specs.peers["K"].node_id == "b" and "10.0.2.0/24" in specs.peers["K"].allowed_ips
    # what the replaced record had is free again
    assert "10.0.0.0/24" in specs.peers["L"].allowed_ips and specs.overlaps == [("K", "K")]


PREFIX = st.builds("10.0.{0}.{1}/{2}".format, st.integers(0, 3), st.integers(0, 255), st.integers(22, 32))
NODES = st.lists(st.lists(PREFIX, max_size=3), min_size=1, max_size=6)


def mesh_of(lists: list[list[str]]) -> list[Data]:
    return [node(f"n{number}", None, *prefixes) for number, prefixes in enumerate(lists)]


@settings(deadline=None, max_examples=60)
@given(NODES, st.randoms(use_true_random=False), st.integers(0, 6))
def test_peers_are_disjoint_complete_and_independent_of_order(lists: t.Any, chance: random.Random, local: int) -> None:
    rows = mesh_of(lists)
    specs = peer_specs(rows, None)
    left = PrefixSet()
    for number, row in enumerate(rows):
        claimed = PrefixSet.of(map(parse_network, row["additional_addresses"] + [row["kubespan_address"] + "/128"]))
        peer = specs.peers[row["public_key"]]
        assert PrefixSet.of(map(parse_network, peer.allowed_ips)) == claimed - left
        assert [pair[1] for pair in specs.overlaps if pair[0] == row["public_key"]] == [
            other["public_key"]
            for other in rows[:number]
            if PrefixSet.of_texts(specs.peers[other["public_key"]].allowed_ips) & claimed
        ]
        left = left | claimed
    mixed = rows[:]
    chance.shuffle(mixed)
    assert peer_specs(mixed, None) == specs
    # the shared computation gives every node what one of its own would
    ident = f"n{local}"
    assert Mesh(mixed).specs(ident) == peer_specs([row for row in rows if row["node_id"] != ident], None)


def test_a_thousand_nodes() -> None:
    rows = []
    for number in range(1000):
        high, low = divmod(number, 256)
        prefix = f"10.{64 + high}.{low}.0/24"
        rows.append(
            dict(
                node(f"n{number:04d}", None, prefix, addresses=[f"192.168.{high}.{low}"]),
                kubespan_address=f"fd7a:6197:edb7:2302::{number + 1:x}",
            )
        )
    # generous: what it takes is measured by the benchmark, and this only finds what grows with the square
    started = time.process_time()
    mesh = Mesh(rows)
    assert len(mesh.specs("n0500").peers) == 999
    assert time.process_time() - started < 2


@given(NODES)
def test_a_state_brings_the_same_peers_back(lists: t.Any) -> None:
    """Through the text of the state file, with and without marks; a state of an older release has no marks at all."""
    peers = [
        peer._replace(
            cluster="gcp", node=f"n{number}", by_rank=number % 2 == 0, addresses_by_rank=peer.allowed_ips[: number % 3]
        )
        for number, peer in enumerate(peer_specs(mesh_of(lists), None).peers.values())
    ]
    state = {"peers": [peer.to_json() for peer in peers]}
    assert [peer.to_json() for peer in peers_of(json.loads(json.dumps(state)))] == state["peers"]
    assert [tuple(map(bool, (peer.cluster, peer.by_rank))) for peer in peers_of(state)] == [
        (True, peer.by_rank) for peer in peers
    ]
    assert (
        peers_of({"peers": [{"public_key": "k", "allowed_ips": ["10.0.0.1/32"]}]})[0].endpoints == ()
        and peers_of(None) == []
    )
