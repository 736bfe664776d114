# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hostile endpoints and ports are left out with the right reason, while everything else of the Service stays."""

from __future__ import annotations

import contextlib
import json
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._services.claims import (
    Guard,
    check_groups,
    check_service,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.endpoints import (
    Endpoint,
    Group,
    as_seen,
    from_endpoints,
    from_slice,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.exported_ranges import ExportedRanges
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, strategies as st

FIXTURE = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "service_endpoints.json"
TABLE = json.loads(FIXTURE.read_text("utf-8"))
PORTS = ({"name": "http", "port": 80, "protocol": "TCP"},)


def guard(**more):
    return Guard(TABLE["grants"], TABLE["servers"], TABLE["own_servers"], **more)


def group(*ips, family=None, ports=PORTS):
    return Group(family, ports, tuple(Endpoint((ip,), {"ready": True}) for ip in ips))


def kept(groups):
    return [ip for one in groups for endpoint in one.endpoints for ip in endpoint.addresses]


def test_good_addresses_pass():
    assert check_groups([group(*TABLE["good"])], "aws", "aws/shop/web", guard()) == ([group(*TABLE["good"])], [])


@pytest.mark.parametrize("row", TABLE["rows"], ids=lambda row: row["id"])
def test_hostile_row(row):
    source = row.get("source", "aws")
    good = TABLE["good"] if source == "aws" else []
    groups, refusals = check_groups([group(row["address"], *good)], source, "aws/shop/web", guard())
    assert kept(groups) == good
    assert [(refusal.object, refusal.reason) for refusal in refusals] == [("aws/shop/web", row["word"])]
    assert refusals[0].message.isprintable() and refusals[0].message.isascii() and len(refusals[0].message) < 800


@pytest.mark.parametrize("row", TABLE["rows"], ids=lambda row: row["id"])
def test_hostile_row_in_a_slice(row):
    source = row.get("source", "aws")
    made = from_slice(
        {
            "metadata": {},
            "addressType": "IPv6" if ":" in row["address"] else "IPv4",
            "endpoints": [{"addresses": [row["address"]]}],
        }
    )
    groups, refusals = check_groups([made], source, "l", guard())
    assert kept(groups) == [] and [refusal.reason for refusal in refusals] == [row["word"]]


def test_host_network_can_be_switched_off():
    groups, refusals = check_groups([group("10.66.23.32", "10.2.0.1")], "aws", "l", guard(allow_host_network=False))
    assert kept(groups) == ["10.2.0.1"] and refusals[0].reason == "host_network_in_clear"


def test_what_a_cluster_claims_of_its_api_server_binds_only_itself():
    """gcp claims that an address of aws is its API server: aws may mirror it all the same."""
    assert check_groups([group("10.2.3.19")], "aws", "l", guard())[1] == []


def test_a_slice_holds_its_own_family_only():
    groups, refusals = check_groups([group("10.2.0.1", "fd00:2::1", family="IPv6")], "aws", "l", guard())
    assert kept(groups) == ["fd00:2::1"] and refusals[0].reason == "special_address"


def test_many_bad_addresses_are_one_refusal():
    dummy, refusals = check_groups([group(*(f"10.9.{i // 256}.{i % 256}" for i in range(5000)))], "aws", "l", guard())
    assert len(refusals) == 1 and "and 4995 more" in refusals[0].message


def test_too_many_endpoints_are_cut():
    many = Group(None, PORTS, (Endpoint(("10.2.0.1",), {}),) * 60_000)
    groups, refusals = check_groups([many, many], "aws", "l", guard())
    assert len(kept(groups)) == 50_000 and [refusal.reason for refusal in refusals] == ["source_incomplete"]


def test_other_texts_of_an_endpoint():
    evil = Endpoint(("10.2.0.1",), {}, "bad host", "zone\n", "../node", {"kind": "Pod", "name": "x\n"})
    groups, refusals = check_groups([Group(None, PORTS, (evil,))], "aws", "l", guard())
    assert groups[0].endpoints == (Endpoint(("10.2.0.1",), {}),)
    assert [refusal.reason for refusal in refusals] == ["name_invalid"]


@pytest.mark.parametrize(
    "port",
    [
        {"port": 0},
        {"port": 65536},
        {"port": "80"},
        {"port": True},
        {"port": 80, "protocol": "ICMP"},
        {"port": 80, "name": "{{ x }}"},
        {"port": 80, "appProtocol": ["x"]},
        {"port": 80, "targetPort": "x y"},
        {},
    ],
)
def test_ports_that_nobody_has(port):
    groups, refusals = check_groups([group("10.2.0.1", ports=(port,))], "aws", "l", guard())
    assert groups == [] and [refusal.reason for refusal in refusals] == ["ports_invalid"]
    with pytest.raises(ValueRefused, match="ports_invalid"):
        check_service({"spec": {"ports": [port]}})


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        {"ports": []},
        {"ports": "x"},
        {"ports": [None]},
        {"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]},
        {"ports": [{"port": 1}, {"port": 2}]},
        {"ports": [{"port": 1}], "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": -1}}},
        {"ports": [{"port": 1}], "sessionAffinityConfig": "x"},
        {"ports": [{"port": 1}], "sessionAffinityConfig": {"other": {}}},
    ],
)
def test_services_that_nobody_has(spec):
    with pytest.raises(ValueRefused, match="ports_invalid"):
        check_service({"spec": spec})


def test_services_that_are_fine():
    check_service({"spec": {"ports": [{"port": 53, "name": "a"}, {"port": 53, "protocol": "UDP", "name": "b"}]}})
    check_service({"spec": {"clusterIP": "None"}})
    check_service({"spec": {"ports": [{"port": 1}], "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}})


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "subsets",
                    "addresses",
                    "notReadyAddresses",
                    "ip",
                    "ports",
                    "port",
                    "targetRef",
                    "conditions",
                    "topology",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(ANY, ANY)
def test_no_answer_breaks_the_reading(one, other):
    """Whatever a server sends becomes groups of which nothing special is left."""
    groups = from_endpoints({"metadata": {}, "subsets": one})
    with contextlib.suppress(ValueRefused):
        groups.append(from_slice({"metadata": {}, "addressType": "IPv4", "endpoints": other, "ports": one}))
    found, dummy = check_groups(groups, "aws", "l", guard())
    assert all(guard().refusal("aws", ip) is None for ip in kept(found))


@given(st.ip_addresses())
def test_only_granted_addresses_pass(address):
    import ipaddress

    granted = [ipaddress.ip_network(text) for text in ("10.2.0.0/16", "fd00:2::/48", "10.66.23.0/24")]
    expected = any(address in network for network in granted if network.version == address.version)
    expected = expected and str(address) not in ("10.66.23.1", "10.66.23.31")
    assert (guard().refusal("aws", str(address)) is None) == expected


@pytest.mark.parametrize(
    ("address", "hostname", "seen", "name"),
    [
        ("10.244.1.5", None, "10.201.1.5", "10-244-1-5"),
        ("10.244.1.5", "web-0", "10.201.1.5", "web-0"),
        ("10.9.0.5", None, "10.9.0.5", None),  # not translated: servers make its name of this address everywhere
        ("fd00:244::a", None, "fd00:201::a", "fd00-244--a"),
        ("fd00:244::", None, "fd00:201::", None),  # no name of a host
    ],
)
def test_a_translated_endpoint_has_the_name_that_it_has_at_home(address, hostname, seen, name):
    """A headless import: names of endpoints are the same in all clusters, whatever their addresses are."""
    exported = ExportedRanges({"10.244.0.0/16": "10.201.0.0/16", "fd00:244::/64": "fd00:201::/64"})
    group = Group("IPv6" if ":" in address else "IPv4", (), (Endpoint((address,), {"ready": True}, hostname),))
    for named, expected in ((True, name), (False, hostname)):
        (found,) = as_seen([group], exported, named)[0].endpoints
        assert (found.addresses, found.hostname) == ((seen,), expected)


def test_an_endpoint_on_a_node_is_carried_where_its_range_is_exported():
    """translation 7: within the mapping it holds, also where another cluster's nodes have the same range; outside of it it is in the clear."""
    grants = {
        name: {"pod_cidrs": [f"10.{number}.0.0/16"], "node_cidrs": ["10.22.0.0/16"]}
        for name, number in (("aws", 2), ("gcp", 4))
    }
    one = Guard(
        grants, allow_host_network=False, exported={"gcp": ExportedRanges(nodes={"10.22.22.0/24": "10.203.22.0/24"})}
    )
    assert one.refusal("gcp", "10.22.22.27") is None
    reason, why = one.refusal("gcp", "10.22.23.27")
    assert reason in ("host_network_in_clear", "outside_grant")
    assert one.refusal("aws", "10.22.22.27") is not None and one.refusal("aws", "10.203.22.27")[0] == "outside_grant"
    alone = Guard({"gcp": grants["gcp"]}, allow_host_network=False)
    assert alone.refusal("gcp", "10.22.22.27")[0] == "host_network_in_clear"
    assert "exported_node_cidrs" in alone.refusal("gcp", "10.22.22.27")[1]
