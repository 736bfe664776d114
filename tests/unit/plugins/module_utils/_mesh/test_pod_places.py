# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where pods really are, by what real CNIs wrote (tests/fixtures/cni), and by what nobody should write."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric import (
    pod_places,
    pod_range_readers,
    pod_ranges,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.pod_places import (
    ASTRAY,
    OUTSIDE,
    POOL,
    UNREAD,
    Found,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.prefix_sets import PrefixSet
from hypothesis import given, strategies as st

FIXTURES = pathlib.Path(__file__).parents[4] / "fixtures" / "cni"


def recorded(name, *kinds):
    document = json.loads((FIXTURES / (name + ".json")).read_text())
    items = document.get("items", [document])
    return [item for item in items if item["kind"] in kinds]


def nodes(**cidrs):
    return [
        {"metadata": {"name": name.replace("_", "-")}, "spec": {"podCIDRs": given}} for name, given in cidrs.items()
    ]


def pod(name, node, *addresses, phase="Running", host=False):
    status = {"phase": phase, "podIPs": [{"ip": address} for address in addresses]}
    return {
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"nodeName": node, "hostNetwork": host},
        "status": status,
    }


def reasons(rows):
    return [(row["level"], row["reason"]) for row in rows]


CAL = nodes(cal_node_1=["10.244.0.0/24"], cal_node_2=["10.244.1.0/24"])


def test_calicos_default_has_no_pod_in_pod_cidrs_and_is_reported_without_any_pod():
    found = Found(
        affinities=recorded("ipam-0-tunnel-only", "BlockAffinity"), pools=recorded("ippools-after-site", "IPPool")
    )
    rows = pod_places.find("cal", found, CAL, ["10.244.0.0/16"])
    assert reasons(rows) == [("error", OUTSIDE), ("warning", POOL)], (
        "the second pool of the record is used by nobody yet"
    )
    assert (
        "192.168.185.64/26 on cal-node-1" in rows[0]["message"]
        and "outside of pod_cidrs 10.244.0.0/16" in rows[0]["message"]
    )
    assert (
        "the cluster really uses 192.168.0.0/16: write that as pod_cidrs of cal; set pod_ranges: calico for cal"
        in rows[0]["message"]
    )
    assert "'small'" in rows[1]["message"] and "10.251.0.0/25" in rows[1]["message"]
    granted = pod_places.find("cal", found, CAL, ["192.168.0.0/16", "10.251.0.0/25"])
    assert reasons(granted) == [("error", ASTRAY)] and "cal-node-1 has 10.244.0.0/24" in granted[0]["message"]


def test_both_api_groups_of_calico_say_the_same():
    found = Found(affinities=recorded("ipam-v3-crds", "BlockAffinity"))
    rows = pod_places.find("gcp", found, nodes(gcp_node_1=["10.4.7.0/24"], gcp_node_2=["10.4.8.0/24"]), ["10.4.0.0/16"])
    assert reasons(rows) == [("error", OUTSIDE)] and "10.9.0.144/28 on gcp-node-1" in rows[0]["message"]


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "pending"},
        {"state": "pendingDeletion"},
        {"deleted": "true"},
        {"deleted": True},
        {"node": "gone"},
        {"type": "virtual"},
        {"cidr": 7},
        {"cidr": "x"},
    ],
)
def test_what_is_on_its_way_or_of_no_node_is_no_finding(changed):
    affinities = [
        dict(item, spec=dict(item["spec"], **changed)) for item in recorded("ipam-0-tunnel-only", "BlockAffinity")
    ]
    assert pod_places.find("cal", Found(affinities=affinities), CAL, ["10.244.0.0/16"]) == []


def test_host_local_calico_and_owned_pools_are_fine():
    pools = [item for item in recorded("ippools-after-site", "IPPool") if item["spec"].get("disabled")]
    pods = [
        pod("a", "cal-node-1", "10.244.0.5"),
        pod("h", "cal-node-1", "10.66.0.1", host=True),
        pod("d", "cal-node-1", "1.2.3.4", phase="Failed"),
    ]
    found = Found(pods, pools=pools)
    assert pools and pod_places.find("cal", found, CAL, ["10.244.0.0/16"]) == []


@pytest.mark.parametrize("name", ["ciliumnodes-multi-pool", "ciliumnodes-cluster-pool"])
def test_ciliums_ranges_that_differ_are_named(name):
    cilium = recorded(name, "CiliumNode")
    assert cilium
    own = nodes(**{item["metadata"]["name"].replace("-", "_"): ["10.4.7.0/24"] for item in cilium})
    assert reasons(pod_places.find("gcp", Found(cilium_nodes=cilium), own, ["10.4.0.0/16"])) == [("error", OUTSIDE)]
    inside = pod_places.find("gcp", Found(cilium_nodes=cilium), own, ["10.0.0.0/8"])
    assert reasons(inside) == [("error", ASTRAY)] and "set pod_ranges: cilium for gcp" in inside[0]["message"]


def test_a_cilium_node_with_a_taken_range_and_flannel_say_nothing():
    assert (
        pod_places.find(
            "gcp",
            Found(cilium_nodes=recorded("ciliumnode-clash", "CiliumNode")),
            nodes(clash=["10.0.0.0/24"]),
            ["10.0.0.0/16"],
        )
        == []
    )
    flannel = nodes(a=["10.4.7.0/24"])
    flannel[0]["metadata"]["annotations"] = json.loads((FIXTURES / "flannel-node-annotations.json").read_text())
    assert pod_places.find("gcp", Found([pod("a", "a", "10.4.7.3")]), flannel, ["10.4.0.0/16"]) == []


def test_an_autoselected_pool_is_read_and_never_assumed():
    rows = pod_places.find("cal", Found(pools=recorded("ippool-autoselected-172", "IPPool")), CAL, ["192.168.0.0/16"])
    assert reasons(rows) == [("warning", POOL)] and "172.16.0.0/16" in rows[0]["message"]


def test_pods_alone_tell_it_where_no_object_of_a_cni_does():
    found = Found([pod("a", "cal-node-1", "172.16.5.5"), pod("b", "cal-node-2", "10.244.0.9")], whole=False)
    rows = pod_places.find("cal", found, CAL, ["10.244.0.0/16"])
    assert reasons(rows) == [("error", OUTSIDE), ("error", ASTRAY)]
    assert (
        "1 of the first 2 pods ('shop/a' 172.16.5.5 on cal-node-1)" in rows[0]["message"]
        and "'shop/b' 10.244.0.9 on cal-node-2" in rows[1]["message"]
    )


def test_a_wrong_line_of_the_inventory_alone_needs_only_that_line():
    rows = pod_places.find("cal", Found([pod("a", "cal-node-1", "10.244.0.5")]), CAL, ["10.2.0.0/16"])
    assert rows[0]["message"].endswith("write that as pod_cidrs of cal")


def test_a_family_that_the_inventory_leaves_out_is_no_fault():
    assert (
        pod_places.find("cal", Found([pod("a", "cal-node-1", "10.244.0.5", "fd00:9::5")]), CAL, ["10.244.0.0/16"]) == []
    )
    assert reasons(pod_places.find("cal", Found([pod("a", "cal-node-1", "fd00:9::5")]), CAL, ["10.244.0.0/16"])) == [
        ("error", OUTSIDE)
    ]


def test_a_note_of_calico_or_ovn_counts_where_its_api_may_not_be_read():
    own = nodes(a=["10.4.7.0/24"])
    own[0]["metadata"]["annotations"] = {
        "projectcalico.org/IPv4VXLANTunnelAddr": "192.168.185.64",
        "k8s.ovn.org/node-subnets": '{"default": ["10.128.0.0/23"]}',
    }
    rows = pod_places.find("cal", Found(unread=["IPPools of Calico (forbidden)"]), own, ["10.4.0.0/16"])
    assert (
        reasons(rows) == [("error", OUTSIDE), ("warning", UNREAD)]
        and "Calico's tunnel" in rows[0]["message"]
        and "10.128.0.0/23" in rows[0]["message"]
    )
    assert (
        "IPPools of Calico (forbidden)" in rows[1]["message"]
        and "cluster_access_capability: pod_ranges" in rows[1]["message"]
    )


def end(name, node, *profiles):
    return {"metadata": {"name": name}, "spec": {"node": node, "interfaceName": "*", "profiles": list(profiles)}}


def test_a_host_endpoint_that_closes_the_port_is_named():
    ends = [end("eth0-1", "cal-node-1"), end("auto", "cal-node-2", "projectcalico-default-allow"), end("old", "gone")]
    (row,) = pod_places.find("cal", Found(host_endpoints=ends), CAL, ["10.244.0.0/16"])
    assert (
        (row["level"], row["reason"]) == ("warning", "host_endpoint")
        and "('eth0-1' on cal-node-1)" in row["message"]
        and "UDP ports" in row["message"]
    )


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["cidr", "node", "state", "podCIDRs", "pools", "allocated", "cidrs", "ipam", "podIPs", "ip", "default"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
OBJECTS = st.lists(
    st.fixed_dictionaries(
        {
            "metadata": st.fixed_dictionaries({"name": st.text(min_size=1, max_size=5)}),
            "spec": st.none()
            | st.dictionaries(
                st.sampled_from(["cidr", "node", "state", "ipam", "type", "deleted", "allowedUses", "nodeName"]),
                ANYTHING,
                max_size=4,
            ),
            "status": st.none() | st.dictionaries(st.sampled_from(["podIPs", "podIP", "phase"]), ANYTHING, max_size=3),
        }
    ),
    max_size=3,
)


@given(OBJECTS, OBJECTS, OBJECTS, OBJECTS)
def test_whatever_a_cluster_writes_is_read_or_passed_over(pods, pools, affinities, cilium):
    rows = pod_places.find("x", Found(pods, True, pools, affinities, cilium, cilium), CAL, ["10.244.0.0/16"])
    assert all(set(row) == {"level", "reason", "message"} and row["message"].isprintable() for row in rows)


def ranges_of(found, own, granted):
    objects = pod_range_readers.Objects(found.affinities, [], found.cilium_nodes)
    read = pod_ranges.read_ranges(
        "cal", "auto", {node["metadata"]["name"]: node["spec"] for node in own}, objects, PrefixSet.of_texts(granted)
    )
    return read.source, {name: one.networks for name, one in read.nodes.items()}


def test_what_the_mesh_follows_is_no_finding_and_a_pod_outside_of_it_is():
    pods = [pod("a", "cal-node-1", "192.168.185.65"), pod("b", "cal-node-2", "192.168.194.130")]
    found = Found(pods, affinities=recorded("ipam-0-tunnel-only", "BlockAffinity"))
    source, ranges = ranges_of(found, CAL, ["192.168.0.0/16"])
    assert source == "calico" and pod_places.find("cal", found, CAL, ["192.168.0.0/16"], source, ranges) == []
    strange = found._replace(pods=[*pods, pod("c", "cal-node-1", "192.168.9.9")])
    (row,) = pod_places.find("cal", strange, CAL, ["192.168.0.0/16"], source, ranges)
    assert (row["level"], row["reason"]) == ("error", ASTRAY)
    assert (
        "1 pods ('shop/c' 192.168.9.9 on cal-node-1)" in row["message"]
        and "set pod_ranges: pods for cal" in row["message"]
    )
    (row,) = pod_places.find("cal", found, CAL, ["10.244.0.0/16"], source, ranges)
    assert row["reason"] == OUTSIDE and row["message"].endswith("write that as pod_cidrs of cal")


def test_a_masquerade_by_ebpf_is_named_with_what_to_set():
    def texts(*agents):
        rows = pod_places.find(
            "gcp", Found(agents=agents), nodes(a=["10.4.7.0/24"]), ["10.4.0.0/16"], others=["10.2.0.0/16"]
        )
        assert {row["reason"] for row in rows} <= {"bpf_masquerade"}
        return [row["message"] for row in rows]

    def cilium(**data):
        return {
            "metadata": {"name": "cilium-config"},
            "data": {name.replace("_", "-"): value for name, value in data.items()},
        }

    (text,) = texts(cilium(enable_bpf_masquerade="true", ipv4_native_routing_cidr="10.4.0.0/16"))
    assert "bpf.masquerade: false" in text and "10.2.0.0/16 left out" in text
    assert texts(cilium(enable_bpf_masquerade="true", ipv4_native_routing_cidr="10.0.0.0/8")) == []
    assert texts(cilium(enable_bpf_masquerade="false"), cilium(), {"data": 7}, {"spec": None}) == []
    off = {"enable_ipv4_masquerade": "false", "enable_ipv6_masquerade": "false"}
    assert texts(cilium(enable_bpf_masquerade="true", **off)) == []
    (text,) = texts({"metadata": {"name": "default"}, "spec": {"bpfEnabled": True}})
    assert "FelixConfiguration 'default'" in text and "calico_ippools" in text


def test_a_pool_outside_has_the_line_to_write():
    pool = {"metadata": {"name": "second"}, "spec": {"cidr": "10.9.0.0/16"}}
    (row,) = pod_places.find("gcp", Found(pools=[pool]), nodes(a=["10.4.7.0/24"]), ["10.4.0.0/16"])
    assert row["reason"] == POOL and "write pod_cidrs: [10.4.0.0/16, 10.9.0.0/16] for gcp" in row["message"]
