# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How other clusters see pods: one-to-one by prefix, both ways, and nothing of it lost (translation 1)."""

from __future__ import annotations

import ipaddress

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import parse_network
from ansible_collections.multicluster.network.plugins.module_utils._values.exported_ranges import (
    ExportedRanges,
    free_range,
    pair_of,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.prefix_sets import PrefixSet
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

#: Parts of 10.244.0.0/24 that are disjoint, each with a range of its own elsewhere.
MAPPINGS = st.lists(st.tuples(st.integers(26, 30), st.booleans()), max_size=4).map(
    lambda rows: {
        f"10.244.0.{index * 64}/{length}": f"10.201.{index}.{64 if odd else 128}/{length}"
        for index, (length, odd) in enumerate(rows)
    }
)
INSIDE = st.integers(0, 255).map(lambda low: f"10.244.0.{low}")
NETWORKS = st.tuples(st.integers(0, 255), st.integers(22, 32)).map(
    lambda row: ipaddress.ip_network((f"10.244.0.{row[0]}", row[1]), strict=False)
)


def plain(mapping, address):
    """The same by the library that the module does not use for it."""
    own = ipaddress.ip_address(address)
    for source, target in mapping.items():
        network = ipaddress.ip_network(source)
        if own in network:
            return str(ipaddress.ip_network(target)[int(own) - int(network[0])])
    return address


@given(MAPPINGS, INSIDE)
def test_addresses_go_over_and_back(mapping, address):
    exported = ExportedRanges(mapping)
    seen = exported.address(address)
    assert seen == plain(mapping, address) == exported.address(address)
    assert exported.own_address(seen) == address
    assert exported.network(f"{address}/32") == f"{seen}/32"


@given(MAPPINGS, NETWORKS)
def test_networks_hold_what_their_addresses_are_seen_as(mapping, network):
    exported = ExportedRanges(mapping)
    seen = exported.networks([network])
    assert sum(one.num_addresses for one in seen) == network.num_addresses, "nothing is lost or seen twice"
    covered = PrefixSet.of(seen)
    for address in (network[0], network[-1], network[network.num_addresses // 2]):
        assert ipaddress.ip_address(plain(mapping, str(address))) in covered


@given(MAPPINGS)
def test_what_is_written_is_read_again(mapping):
    exported = ExportedRanges(mapping, [mapping])
    assert ExportedRanges(**exported.to_json()).to_json() == exported.to_json()
    assert bool(exported) == bool(mapping)


def test_ranges_of_before_are_accepted_and_not_announced():
    exported = ExportedRanges({"10.244.0.0/16": "10.201.0.0/16"}, [{"10.244.0.0/16": "10.200.0.0/16"}])
    networks = [parse_network("10.244.3.0/24")]
    assert list(map(str, exported.networks(networks))) == ["10.201.3.0/24"]
    assert list(map(str, exported.accepted_networks(networks))) == ["10.201.3.0/24", "10.200.3.0/24"]
    assert exported.accepted == {"10.201.0.0/16": "10.244.0.0/16", "10.200.0.0/16": "10.244.0.0/16"}
    assert exported.hidden.cidrs() == ["10.244.0.0/16"]
    assert exported.own_address("10.200.3.9") == "10.244.3.9" == exported.own_address("10.201.3.9")


def test_a_range_that_was_exported_as_it_is_stays_visible():
    exported = ExportedRanges({"fd01::/64": "fd02::/64"}, [{"fd01::/64": "fd01::/64"}])
    assert not exported.hidden and exported.accepted == {"fd02::/64": "fd01::/64"}
    assert exported.address("fd01::5") == "fd02::5"
    assert list(map(str, exported.accepted_networks([parse_network("fd01::/80")]))) == ["fd02::/80", "fd01::/80"]


@pytest.mark.parametrize(
    "source, target",
    [
        ("10.244.0.0/16", "10.201.0.0/17"),
        ("10.244.0.0/16", "fd00::/16"),
        ("10.244.0.1/16", "10.201.0.0/16"),
        ("10.244.0.0/16", "10.201.0.1/16"),
        ("10.244.0.0", "10.201.0.0/16"),
        (7, "10.201.0.0/16"),
        ("10.244.0.0/16", None),
        ("10.244.0.0/16\n", "10.201.0.0/16"),
    ],
)
def test_what_is_no_mapping_is_refused(source, target):
    with pytest.raises(ValueRefused):
        pair_of(source, target)


@given(st.lists(NETWORKS, max_size=6), st.integers(22, 30))
def test_a_free_range_is_free_and_the_first(taken, length):
    pool = ipaddress.ip_network("10.244.0.0/22")
    used = PrefixSet.of(taken)
    expected = next((str(one) for one in pool.subnets(new_prefix=length) if not PrefixSet.of([one]) & used), None)
    assert free_range(length, pool, used) == expected


def test_a_pool_that_is_too_small_has_none():
    assert free_range(8, parse_network("10.192.0.0/10"), PrefixSet()) is None
