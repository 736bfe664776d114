# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts from nodes: what a node states of itself does not lead Ansible anywhere else."""

from __future__ import annotations

import ipaddress
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.node_listing import read_listing
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.node_hosts import Names, node_hosts
from hypothesis import given, strategies as st

GRANTS = {"aws": ["10.66.23.0/24", "fd00:66::/64"], "gcp": ["10.22.22.0/24"]}


def node(name: t.Any, *addresses: str, labels: t.Any = None) -> dict[str, t.Any]:
    rows = [{"type": "InternalIP", "address": address} for address in addresses]
    return {"metadata": {"name": name, "labels": labels}, "status": {"addresses": rows}}


def hosts(aws: t.Sequence[t.Any] = (), gcp: t.Sequence[t.Any] = (), **more: t.Any) -> t.Any:
    listings = {"aws": read_listing("aws", {"nodes": list(aws)}), "gcp": read_listing("gcp", {"nodes": list(gcp)})}
    return node_hosts(listings, GRANTS, **more)[:2]


@pytest.mark.parametrize(
    "address",
    ["10.22.22.1", "127.0.0.1", "169.254.169.254", "0.0.0.0", "10.66.23.1 ", "::ffff:10.22.22.1", "evil.example"],
)
def test_an_address_outside_the_grant_is_no_host(address: str) -> None:
    found, refused = hosts([node("one", address), node("two", "10.66.23.2")])
    assert [host.name for host in found["aws"]] == ["two"]
    assert refused[0].object == "aws/one"


def test_the_first_granted_address_counts() -> None:
    found, refused = hosts([node("one", "192.0.2.1", "fd00:66::1", "10.66.23.1")])
    assert found["aws"][0].address == "fd00:66::1" and not refused


def test_names() -> None:
    found, refused = hosts(
        [node("one", "10.66.23.1")],
        [node("bad name", "10.22.22.2"), node("two", "10.22.22.3")],
        names=Names(hosts={"two": ()}),
    )
    assert [host.name for host in found["aws"]] == ["one"] and not found["gcp"]
    assert {row.reason for row in refused} == {"claimed_twice", "name_invalid"}
    assert hosts([node("one", "10.66.23.1")], names=Names(hosts={"one": {"aws"}}))[0]["aws"][0].name == "one"


def test_a_name_of_two_clusters_is_neither_s_and_costs_nobody_a_host() -> None:
    listings = {
        "a": read_listing(
            "a", {"nodes": [node("one", "10.1.0.1"), node("b-one", "10.1.0.2"), node("b-c-x", "10.1.0.3")]}
        ),
        "a-b": read_listing("a-b", {"nodes": [node("one", "10.2.0.1"), node("c-x", "10.2.0.2")]}),
    }
    grants = {"a": ["10.1.0.0/24"], "a-b": ["10.2.0.0/24"]}
    found = node_hosts(listings, grants)
    assert {host.name: host.address for host in found.hosts["a"]} == {
        "a-one": "10.1.0.1",
        "b-one": "10.1.0.2",
        "b-c-x": "10.1.0.3",
    }
    assert {host.name for host in found.hosts["a-b"]} == {"a-b-one", "c-x"} and not found.refused
    assert found.renamed == [("a", "one", "a-one"), ("a-b", "one", "a-b-one")]
    found = node_hosts(listings, grants, node_names="prefixed")  # a-b-one is one of a-b, whatever a has
    assert {host.name for host in found.hosts["a-b"]} == {"a-b-one", "a-b-c-x"} and [
        host.name for host in found.hosts["a"]
    ] == ["a-one"]
    assert {(row.object, row.reason) for row in found.refused} == {
        ("a/b-one", "claimed_twice"),
        ("a/b-c-x", "claimed_twice"),
    }


@pytest.mark.parametrize(
    "address_type, plain, prefixed", [("Hostname", True, True), ("none", True, False), ("InternalIP", False, False)]
)
@pytest.mark.parametrize(
    "name",
    [
        "127.1",
        "2130706433",
        "0x7f.1",
        "10.22.22.1",
        "localhost.localdomain",
        "ip6-localhost",
        "db.localhost",
        "10.66.23.300",
    ],
)
def test_a_name_that_ansible_would_connect_to(name: str, address_type: str, plain: bool, prefixed: bool) -> None:
    for naming, bad in (("plain", plain), ("prefixed", prefixed)):
        found, refused = hosts(
            [node(name, "10.66.23.1"), node("10.66.23.7", "10.66.23.7")], address_type=address_type, node_names=naming
        )
        assert [host.node_name for host in found["aws"]] == (["10.66.23.7"] if bad else sorted(["10.66.23.7", name]))
        assert {row.reason for row in refused} <= {"special_address", "outside_grant"} and len(refused) == bad


def test_labels_are_labels() -> None:
    labels = {
        "zone": "{{ lookup('pipe', 'id') }}",
        "a{{b": "c",
        "node-role.kubernetes.io/worker": "",
        "disk": "ssd",
        "n": 1,
        2: "x",
    }
    host = hosts([node("one", "10.66.23.1", labels=labels)])[0]["aws"][0]
    assert host.labels == {"node-role.kubernetes.io/worker": "", "disk": "ssd"} and host.roles == ["worker"]


@given(
    st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20) | st.ip_addresses().map(str)), max_size=6),
    st.dictionaries(st.text(), st.text(), max_size=4),
)
def test_whatever_a_server_sends(rows: t.Any, labels: t.Any) -> None:
    found, _refused = hosts([node(name, address, labels=labels) for name, address in rows])
    grants = [ipaddress.ip_network(text) for text in GRANTS["aws"]]
    for host in found["aws"]:
        address = ipaddress.ip_address(host.address)
        assert any(address in network for network in grants if network.version == address.version)
        assert "{" not in "".join([host.name, host.node_name, *host.labels, *host.labels.values()])
