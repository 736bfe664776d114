# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters of load balancing, and what the inventory sets of it."""

from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.filter.cloud_config import cloud_config
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.settings import (
    SETTINGS,
    read_settings,
)
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.setup import parse_setups
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_findings import inventory_findings
from ansible_collections.multicluster.network.plugins.plugin_utils.load_balancer_keys import wrong_types
from ansible_collections.multicluster.network.plugins.plugin_utils.load_balancer_settings import load_balancer_settings
from hypothesis import given, settings, strategies as st

NAMES = [item for item in SETTINGS if item.name != "bgp_node_selector"]
VALUES = {
    "text": st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=20),
    "boolean": st.booleans(),
}


@settings(max_examples=50, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            item.name: VALUES[item.kind] if item.kind in VALUES else st.integers(1, item.largest or 65535)
            for item in NAMES
        },
    )
)
def test_what_is_written_is_read_back(values):
    found = read_settings({}, cloud_config(values), required=False).values
    assert {name: found[name] for name in values} == values


def test_spelling_of_the_original():
    text = cloud_config(
        {"api_key": "k", "project_id": "p", "metro": "", "loadbalancer": "kube-vip://", "local_asn": None}
    )
    assert json.loads(text) == {"apiKey": "k", "projectID": "p", "loadbalancer": "kube-vip://"}


@pytest.mark.parametrize("values", [{"password": "hunter2"}, {"apiKey": "hunter2"}, ["hunter2"], None, "hunter2"])
def test_what_is_no_setting_is_refused_without_its_value(values):
    with pytest.raises(AnsibleFilterError) as raised:
        cloud_config(values)
    assert "hunter2" not in str(raised.value)


def test_settings_of_clusters_with_the_facts_of_their_nodes():
    peers = [{"address": "10.66.23.1", "asn": 65530, "password": "s"}, {"address": "10.66.23.2", "asn": 65530}]
    node = {"multicluster_cluster": "aws", "bgp_speaker_neighbors": peers, "bgp_speaker_source_ip": "10.66.23.31"}
    other = dict(node, node_name="other", bgp_speaker_asn=64512)
    cluster = {"load_balancers_settings": {"pool": ["203.0.113.0/29"]}}
    other["ansible_host"] = "other.example.net"
    remote = {
        "pod_cidrs": "10.2.0.0/16",
        "node_cidrs": ["10.66.2.0/24"],
        "control_plane_address_ip": "10.66.2.100",
        "load_balancers_settings": {},
    }
    remote_pool = {"load_balancers_settings": {"pool": "198.51.100.0/29"}}
    hostvars = {
        "aws": cluster,
        "gcp": remote,
        "oci": remote_pool,
        "n1": node,
        "n2": other,
        "n3": {"multicluster_cluster": "aws"},
    }
    hostvars["n3"]["ansible_host"] = "10.66.23.33"
    groups = {"clusters": ["gcp", "aws"], "nodes": ["n1", "n2", "n3"]}
    reserved = {
        "routers of cluster aws (bgp_speaker_neighbors)": ["10.66.23.1", "10.66.23.2"],
        "nodes of cluster aws (ansible_host, bgp_speaker_source_ip)": ["10.66.23.31", "10.66.23.33"],
        "pod_cidrs of cluster gcp": ["10.2.0.0/16"],
        "node_cidrs of cluster gcp": ["10.66.2.0/24"],
        "control_plane_address_ip of cluster gcp": ["10.66.2.100"],
    }
    row = {
        "source_ip": "10.66.23.31",
        "peers": ["10.66.23.1", "10.66.23.2"],
        "peer_asn": 65530,
        "password": "s",
        "multihop": False,
    }
    assert load_balancer_settings(hostvars, groups) == [
        {
            "cluster": "aws",
            "pool": ["203.0.113.0/29"],
            "bgp_nodes": [dict(row, name="n1"), dict(row, name="other", local_asn=64512)],
            "bgp_speakers": ["n1", "other"],
            "bgp_families": [4],
            "reserved_ranges": reserved,
        }
    ]
    rack = {"multicluster_cluster": "aws", "layer2_speaker_segment": "rack1", "ansible_host": "10.66.23.34"}
    both = dict(rack, layer2_speaker_address=["2001:db8::5", "10.66.23.35"])
    found = load_balancer_settings(
        {"aws": cluster, "n4": rack, "n5": both}, {"clusters": ["aws"], "nodes": ["n4", "n5"]}
    )[0]
    assert found["bgp_speakers"] == ["n4", "n5"] and found["bgp_nodes"] == [] and found["bgp_families"] == [4, 6]
    assert found["layer2_nodes"] == [
        {"name": "n4", "segment": "rack1", "addresses": ["10.66.23.34"]},
        {"name": "n5", "segment": "rack1", "addresses": ["2001:db8::5", "10.66.23.35"]},
    ]
    for name, value in (
        ("ansible_host", "n4.example.net"),
        ("layer2_speaker_address", ["10.0.0.1/24"]),
        ("layer2_speaker_segment", 7),
    ):
        found = load_balancer_settings(
            {"aws": cluster, "n4": dict(rack, **{name: value})}, {"clusters": ["aws"], "nodes": ["n4"]}
        )[0]
        assert "layer2_speaker_address of n4" in found["wrong"]
    several = load_balancer_settings(hostvars, {"clusters": ["aws", "oci"]})
    assert [row["reserved_ranges"] for row in several] == [
        {"pool of cluster oci": ["198.51.100.0/29"]},
        {"pool of cluster aws": ["203.0.113.0/29"]},
    ]
    peers[0].update(address="2001:db8::1")
    assert load_balancer_settings(hostvars, groups)[0]["bgp_families"] == [4, 6]
    del peers[1]
    assert load_balancer_settings(hostvars, groups)[0]["bgp_families"] == [6]
    peers[0].update(both_families=True)
    assert load_balancer_settings(hostvars, groups)[0]["bgp_families"] == [4, 6]
    # a node with a source address that FRR finds itself runs as well, though nobody else can be notified of its session
    del node["bgp_speaker_source_ip"]
    found = load_balancer_settings(hostvars, groups)[0]
    assert found["bgp_speakers"] == ["n1", "other"] and [row["name"] for row in found["bgp_nodes"]] == ["other"]
    hostvars["aws"]["load_balancers_settings"]["bgp_nodes"] = []
    assert load_balancer_settings(hostvars, groups)[0]["bgp_nodes"] == []


WRONG = {
    "a key with a typo": (
        {"load_balancer": "empty://", "pol": ["203.0.113.0/29"]},
        '"pol" is no setting; did you mean pool?',
    ),
    "a key from nowhere": ({"xyzzy": 1}, '"xyzzy" is no setting'),
    "a load balancer with a typo": (
        {"load_balancer": "metalb:///x"},
        'load_balancer: "metalb:///x" names no load balancer: write empty://, kube-vip://, metallb:///',
    ),
    "a namespace that is none": ({"load_balancer": "metallb:///A_B/c"}, 'load_balancer: "metallb:///A_B/c": '),
    "a prefix that is too long": (
        {"pool": ["203.0.113.0/33"]},
        'pool: "203.0.113.0/33" has a prefix longer than 32 bits',
    ),
    "a provider that is none": ({"provider": "equinix"}, 'provider: "equinix" is none of static, equinix_metal'),
    "no number": ({"max_prefixes": "many"}, "argument 'max_prefixes'"),
    "no number below": ({"bgp_grants": {"local_asns": ["x"]}}, "Elements value for option 'local_asns'"),
    "no dictionary": ("empty://", "it is a dictionary, such as {load_balancer: "),
}


@pytest.mark.parametrize("case", sorted(WRONG))
def test_a_wrong_setting_names_cluster_variable_and_fix(case):
    """It used to switch a cluster's load balancing off, with a warning, or to name an option of a module and neither cluster nor variable."""
    value, text = WRONG[case]
    text = text.replace('"', "'")
    good = {"load_balancer": "empty://", "pool": ["198.51.100.0/29"]}
    found = load_balancer_settings(
        {"oslo": {"load_balancers_settings": value}, "rome": {"load_balancers_settings": good}},
        {"clusters": ["oslo", "rome"]},
    )
    assert "load_balancers_settings of oslo: " + text in found[0]["wrong"] and found[1]["pool"] == good["pool"]
    # the module does not refuse the entry of the one cluster, and with it those of all
    assert not any(wrong_types(row) for row in found)
    setups, refused = parse_setups(found, {}, {})
    assert list(setups) == ["rome"] and [(name, error.reason) for name, error in refused.items()] == [
        ("oslo", "bad_setting")
    ]
    findings = inventory_findings({"oslo": {"pod_cidrs": [], "load_balancers_settings": value}}, {"clusters": ["oslo"]})
    found = [row for row in findings if row["reason"] == "bad_setting"]
    assert [(row["where"], row["variable"], row["level"]) for row in found] == [
        ("clusters/oslo", "load_balancers_settings", "error")
    ]
    assert text in found[0]["message"]


def test_right_settings_are_no_finding():
    for balancer in (
        "",
        "empty://",
        "kube-vip://",
        "metallb:///metallb-system/config",
        "metallb:///m?crdConfiguration=true",
    ):
        value = {"load_balancer": balancer, "pool": ["203.0.113.0/29"], "announced_by": "other"}
        assert load_balancer_settings({"oslo": {"load_balancers_settings": value}}, {"clusters": ["oslo"]})
        findings = inventory_findings(
            {"oslo": {"pod_cidrs": [], "load_balancers_settings": value}}, {"clusters": ["oslo"]}
        )
        assert "bad_setting" not in {row["reason"] for row in findings}


def test_a_module_refuses_what_names_no_load_balancer():
    setups, refused = parse_setups([{"cluster": "oslo", "load_balancer": "metalb:///x"}, {"cluster": "rome"}], {}, {})
    assert list(setups) == ["rome"] and list(refused) == ["oslo"]
    assert refused["oslo"].reason == "bad_choice" and refused["oslo"].message.startswith(
        "load_balancers_settings of oslo: "
    )


#: A variable of one cluster or of one of its nodes, and the message of the run.
OF_ONE_CLUSTER = {
    "a range of pods": (
        {},
        {"pod_cidrs": ["10.2.0.0/33"]},
        "pod_cidrs of oslo: '10.2.0.0/33' has a prefix longer than 32 bits",
    ),
    "a range that is no text": ({}, {"node_cidrs": 7}, "node_cidrs of oslo: "),
    "a router without an address": (
        {"bgp_speaker_neighbors": [{"asn": 65530}]},
        {},
        "bgp_speaker_neighbors of n1: write a list of routers",
    ),
    "a router that is no router": (
        {"bgp_speaker_neighbors": "10.66.23.1"},
        {},
        "bgp_speaker_neighbors of n1: write a list of routers",
    ),
    "a router with a text for its number": (
        {"bgp_speaker_neighbors": [{"address": "10.66.23.1", "asn": "x"}]},
        {},
        "bgp_speaker_neighbors and ",
    ),
    "a node with a text for its number": (
        {"bgp_speaker_asn": "x"},
        {},
        "bgp_speaker_neighbors and bgp_speaker_asn of the nodes of oslo: ",
    ),
}


@pytest.mark.parametrize("case", sorted(OF_ONE_CLUSTER))
def test_a_wrong_variable_of_one_cluster_leaves_the_others_their_run(case):
    of_node, of_cluster, text = OF_ONE_CLUSTER[case]
    node = {
        "multicluster_cluster": "oslo",
        "bgp_speaker_source_ip": "10.66.23.31",
        "bgp_speaker_neighbors": [{"address": "10.66.23.1", "asn": 65530}],
    }
    hostvars = {
        "n1": dict(node, **of_node),
        "oslo": dict(
            {"load_balancers_settings": {"load_balancer": "empty://", "pool": ["203.0.113.0/29"]}}, **of_cluster
        ),
        "rome": {
            "load_balancers_settings": {"load_balancer": "empty://", "pool": ["198.51.100.0/29"]},
            "pod_cidrs": ["10.3.0.0/16"],
        },
    }
    found = load_balancer_settings(hostvars, {"clusters": ["oslo", "rome"], "nodes": ["n1"]})
    assert text in found[0]["wrong"] and not any(wrong_types(row) for row in found)
    setups, refused = parse_setups(found, {}, {})
    assert list(setups) == ["rome"] and list(refused) == ["oslo"]
    # its pool may be in use: nobody else gives or takes it
    assert "203.0.113.1" in setups["rome"].others["oslo"] and found[1]["reserved_ranges"]["pool of cluster oslo"] == [
        "203.0.113.0/29"
    ]


def test_what_is_wrong_with_a_provider_keeps_its_reservations():
    """A cluster with settings that cannot be used may own reservations at a provider, unless it has a pool of its own."""
    for provider, reported in (
        ("equinix_metal", "equinix_metal"),
        ("static", "static"),
        ("equinix", "equinix_metal"),
        (None, None),
    ):
        value = dict({"pol": []}, **({"provider": provider} if provider else {}))
        (row,) = load_balancer_settings({"oslo": {"load_balancers_settings": value}}, {"clusters": ["oslo"]})
        assert row.get("provider") == reported and "did you mean pool?" in row["wrong"]


def test_two_clusters_with_one_range_are_left_out_and_named():
    pools = {
        "a": ["192.0.2.0/24"],
        "b": ["192.0.2.200-192.0.3.10"],
        "c": ["192.0.2.7"],
        "d": ["198.51.100.0/29"],
        "e": ["2001:db8::/120"],
    }
    setups, refused = parse_setups([{"cluster": name, "pool": pool} for name, pool in pools.items()], {}, {})
    assert sorted(setups) == ["d", "e"] and sorted(refused) == ["a", "b", "c"]
    assert all(
        error.reason == "claimed_twice" and "load_balancers_settings" in error.message for error in refused.values()
    )


def test_settings_that_are_there_twice_leave_their_cluster_out():
    setups, refused = parse_setups(
        [{"cluster": "a", "pool": ["192.0.2.0/29"]}, {"cluster": "b"}, {"cluster": "a", "pool": ["192.0.2.8/29"]}],
        {},
        {},
    )
    assert list(setups) == ["b"] and refused["a"].reason == "claimed_twice" and "192.0.2.9" in setups["b"].others["a"]


def test_ranges_at_which_other_clusters_see_pods_are_for_no_service():
    """They are addresses of pods for everybody else (translation 2.1)."""
    mapping = {"10.2.0.0/16": "10.201.0.0/16", "former": [{"10.2.0.0/16": "10.203.0.0/16"}, "nothing"]}
    hosts = {
        "oslo": {"pod_cidrs": ["10.2.0.0/16"], "load_balancers_settings": {"pool": ["203.0.113.0/24"]}},
        "rome": {"exported_pod_cidrs": mapping, "exported_node_cidrs": {"10.22.22.0/24": "10.203.22.0/24"}},
        "bern": {"exported_pod_cidrs": "nothing"},
    }
    row = load_balancer_settings(hosts, {"clusters": list(hosts)})[0]
    assert row["reserved_ranges"]["exported_pod_cidrs of cluster rome"] == ["10.201.0.0/16", "10.203.0.0/16"]
    assert row["reserved_ranges"]["exported_node_cidrs of cluster rome"] == ["10.203.22.0/24"]
    assert "exported_pod_cidrs of cluster bern" not in row["reserved_ranges"]
