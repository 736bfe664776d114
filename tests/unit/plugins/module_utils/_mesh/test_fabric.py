# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory's validation: every finding at once, with the variable to fix."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import errors, load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import calico
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import RemotePlan
from ansible_collections.multicluster.network.plugins.module_utils._plan.object_plan import (
    Read,
    parse_manifest,
    plan_objects,
)
from hypothesis import given, strategies as st

SEED: dict[str, t.Any] = {
    "name": "seed",
    "clusters": {
        "aws": {"pod_cidrs": ["10.2.0.0/16"], "service_cidrs": ["10.3.0.0/16"], "node_cidrs": ["10.66.23.0/24"]},
        "gcp": {"pod_cidrs": "10.4.0.0/16", "service_cidrs": "10.5.0.0/16", "node_cidrs": "10.22.22.0/24"},
    },
    "nodes": {
        "aws-node-1": {"multicluster_cluster": "aws"},
        "gcp-node-1": {"multicluster_cluster": "gcp", "node_name": "ip-10-22-22-27.internal"},
    },
}


def seed(**clusters: t.Any) -> dict[str, t.Any]:
    """The seed's fabric with variables of its clusters, or whole clusters, added."""
    definition = copy.deepcopy(SEED)
    for name, variables in clusters.items():
        definition["clusters"].setdefault(name, {}).update(variables)
    return definition


def merit(**variables: t.Any) -> dict[str, t.Any]:
    return dict({"pod_cidrs": ["10.6.0.0/16"], "wireguard_port": 51822, "device_alias": None}, **variables)


def found(definition: dict[str, t.Any]) -> set[tuple[str, str, str]]:
    return {(item.where, item.variable, item.reason) for item in load_fabric(definition)[1]}


def test_the_seed_is_a_fabric() -> None:
    fabric, findings = load_fabric(seed(aws={"wireguard_port": 51821}, gcp={"wireguard_port": 51821}))
    assert findings == []
    assert fabric.remotes("aws") == {
        "gcp": RemotePlan(
            device="wireguard.gcp",
            listen_port=51821,
            mtu=1420,
            txqueuelen=1000,
            pod_subnets=["10.4.0.0/16"],
            routes=[{"dst": "10.4.0.0/16", "dev": "wireguard.gcp", "scope": "link", "table": "main"}],
            private_key_file="/var/lib/semaphore-wireguard/wireguard.gcp.key",
        )
    }
    assert fabric.hosts_of("gcp") == {"gcp-node-1": "ip-10-22-22-27.internal"}
    assert fabric.grants()["gcp"]["pod_cidrs"] == ["10.4.0.0/16"]


def test_exceptions_per_remote_and_aliases() -> None:
    definition = seed(
        gcp={"wireguard_port": 51821},
        aws={"wireguard_ports": {"gcp": 4500, "a-long-name": 0}, "wireguard_mtus": {"gcp": 1300}, "key_dir": "/keys/"},
    )
    definition["clusters"]["a-long-name"] = merit(device_alias="mrt")
    fabric, findings = load_fabric(definition)
    assert findings == []
    remotes = fabric.remotes("aws")
    assert (remotes["gcp"].listen_port, remotes["gcp"].mtu) == (4500, 1300)
    assert remotes["a-long-name"].device == "wireguard.mrt" and remotes["a-long-name"].listen_port == 51820
    assert remotes["gcp"].private_key_file == "/keys/wireguard.gcp.key"


@pytest.mark.parametrize(
    "definition, finding",
    [
        (seed(gcp={"pod_cidrs": None}), ("clusters/gcp", "pod_cidrs", "pod_subnet_missing")),
        (seed(gcp={"pod_cidrs": ["x"]}), ("clusters/gcp", "pod_cidrs", "pod_subnet_invalid")),
        (seed(gcp={"pod_cidrs": {"a": 1}}), ("clusters/gcp", "pod_cidrs", "pod_subnet_invalid")),
        (seed(gcp={"pod_cidrs": ["0.0.0.0/0"]}), ("clusters/gcp", "pod_cidrs", "pod_subnet_invalid")),
        (seed(gcp={"pod_cidrs": ["::/0"]}), ("clusters/gcp", "pod_cidrs", "pod_subnet_invalid")),
        (seed(gcp={"pod_cidrs": ["fe80::/64"]}), ("clusters/gcp", "pod_cidrs", "pod_subnet_invalid")),
        (seed(gcp={"service_cidrs": ["127.0.0.0/8"]}), ("clusters/gcp", "service_cidrs", "bad_cidr")),
        (seed(gcp={"node_cidrs": [7]}), ("clusters/gcp", "node_cidrs", "bad_cidr")),
        (seed(gcp={"pod_cidrs": ["10.2.128.0/17"]}), ("clusters/gcp", "pod_cidrs", "pod_subnet_overlap")),
        (seed(gcp={"service_cidrs": ["10.2.5.0/24"]}), ("clusters/gcp", "service_cidrs", "pod_subnet_overlap")),
        (seed(gcp={"service_cidrs": ["10.22.22.0/25"]}), ("clusters/gcp", "service_cidrs", "range_overlap")),
        (seed(gcp={"wireguard_cidrs": ["10.66.23.0/28"]}), ("clusters/gcp", "wireguard_cidrs", "range_overlap")),
        (seed(gcp={"pod_cidrs": ["10.4.0.0/16", "10.4.1.0/24"]}), ("clusters/gcp", "pod_cidrs", "pod_subnet_overlap")),
        (seed(gcp={"node_cidrs": ["10.4.0.0/24"]}), ("clusters/gcp", "node_cidrs", "pod_subnet_overlap")),
        (seed(gcp={"wireguard_port": 70000}), ("clusters/gcp", "wireguard_port", "port_out_of_range")),
        (seed(gcp={"wireguard_port": -1}), ("clusters/gcp", "wireguard_port", "port_out_of_range")),
        (seed(gcp={"wireguard_port": "x"}), ("clusters/gcp", "wireguard_port", "port_out_of_range")),
        (seed(gcp={"wireguard_port": True}), ("clusters/gcp", "wireguard_port", "port_out_of_range")),
        (seed(gcp={"wireguard_mtu": 100}), ("clusters/gcp", "wireguard_mtu", "mtu_out_of_range")),
        (seed(aws={"wireguard_mtus": {"gcp": 10000}}), ("clusters/aws", "wireguard_mtus", "mtu_out_of_range")),
        (seed(aws={"wireguard_ports": {"gcp": 70000}}), ("clusters/aws", "wireguard_ports", "port_out_of_range")),
        (seed(aws={"wireguard_ports": {"mars": 1}}), ("clusters/aws", "wireguard_ports", "unknown_cluster")),
        (seed(aws={"wireguard_ports": [1]}), ("clusters/aws", "wireguard_ports", "bad_type")),
        (
            seed(merit=merit(), gcp={"wireguard_port": 51822}),
            ("clusters/merit", "wireguard_port", "duplicate_listen_port"),
        ),
        (seed(merit=merit(device_alias="gcp")), ("clusters/merit", "device_alias", "duplicate_device_alias")),
        (seed(merit=merit(device_alias="toolong")), ("clusters/merit", "device_alias", "device_name_too_long")),
        (seed(merit=merit(device_alias="a_b")), ("clusters/merit", "device_alias", "cluster_name_not_dns_label")),
        (seed(merit=merit(device_alias=7)), ("clusters/merit", "device_alias", "bad_type")),
        (seed(cluster1=merit()), ("clusters/cluster1", "device_alias", "device_name_too_long")),
        (seed(a_b=merit()), ("clusters/a_b", "inventory_hostname", "cluster_name_not_dns_label")),
        (
            seed(gcp={"multicluster_cluster_id": "aws"}),
            ("clusters/gcp", "multicluster_cluster_id", "duplicate_cluster_id"),
        ),
        (
            seed(gcp={"multicluster_cluster_id": "a.b"}),
            ("clusters/gcp", "multicluster_cluster_id", "cluster_id_invalid"),
        ),
        (
            seed(gcp={"multicluster_cluster_id": "a" * 64}),
            ("clusters/gcp", "multicluster_cluster_id", "cluster_id_invalid"),
        ),
        (seed(gcp={"multicluster_cluster_id": 7}), ("clusters/gcp", "multicluster_cluster_id", "bad_type")),
        (seed(gcp={"mcs_namespaces": "a b"}), ("clusters/gcp", "mcs_namespaces", "selector_syntax")),
        (seed(gcp={"mcs_namespaces": ["a b"]}), ("clusters/gcp", "mcs_namespaces", "bad_type")),
        (seed(gcp={"mcs_namespaces": {"a": 1}}), ("clusters/gcp", "mcs_namespaces", "bad_type")),
        (seed(gcp={"endpoint_address_type": "x"}), ("clusters/gcp", "endpoint_address_type", "bad_choice")),
        (seed(gcp={"allowed_ips_source": "x"}), ("clusters/gcp", "allowed_ips_source", "bad_choice")),
        (seed(gcp={"calico_ippools": True}), ("clusters/gcp", "calico_ippools", "bad_choice")),
        (seed(gcp={"key_dir": "keys"}), ("clusters/gcp", "key_dir", "bad_path")),
        (seed(gcp={"allow": {"a": 1}}), ("clusters/gcp", "allow", "bad_type")),
        (dict(seed(), name="A b"), ("fabric", "name", "fabric_name_invalid")),
        ({"clusters": {}}, ("fabric", "clusters", "no_remotes")),
        ({"clusters": {"aws": SEED["clusters"]["aws"]}}, ("fabric", "clusters", "no_remotes")),
        ({"clusters": ["aws"]}, ("fabric", "clusters", "bad_type")),
        ({"clusters": {"aws": 7, "gcp": {}}}, ("clusters/aws", "", "bad_type")),
        (dict(seed(), nodes={"x": {}}), ("nodes/x", "multicluster_cluster", "cluster_missing")),
        (dict(seed(), nodes={"x": None}), ("nodes/x", "multicluster_cluster", "cluster_missing")),
        (
            dict(seed(), nodes={"x": {"multicluster_cluster": "mars"}}),
            ("nodes/x", "multicluster_cluster", "unknown_cluster"),
        ),
        (
            dict(seed(), nodes={"x": {"multicluster_cluster": ["aws", "gcp"]}}),
            ("nodes/x", "multicluster_cluster", "node_in_two_clusters"),
        ),
        (
            dict(seed(), nodes=[{"name": "x", "multicluster_cluster": name} for name in ("aws", "gcp")]),
            ("nodes/x", "multicluster_cluster", "node_in_two_clusters"),
        ),
        (
            dict(seed(), nodes={name: {"multicluster_cluster": "aws", "node_name": "n"} for name in ("x", "y")}),
            ("nodes/y", "node_name", "duplicate_node_name"),
        ),
        (
            dict(seed(), nodes={"X_1": {"multicluster_cluster": "aws"}}),
            ("nodes/X_1", "node_name", "name_invalid"),
        ),
    ],
)
def test_findings(definition: dict[str, t.Any], finding: tuple[str, str, str]) -> None:
    assert finding in found(definition)
    assert errors(load_fabric(definition)[1])


def test_all_findings_at_once() -> None:
    definition = seed(aws={"wireguard_port": 0, "wireguard_mtu": 5}, gcp={"wireguard_port": 99999}, merit={})
    definition["nodes"]["x"] = {}
    assert {item[2] for item in found(definition)} >= {
        "mtu_out_of_range",
        "port_out_of_range",
        "pod_subnet_missing",
        "cluster_missing",
    }


def test_what_is_allowed() -> None:
    shared = {"node_cidrs": ["10.22.22.0/24"]}
    assert found(seed(aws=shared, gcp=shared)) == set()
    nodes = {name: {"multicluster_cluster": name, "node_name": "n"} for name in ("aws", "gcp")}
    assert found(dict(seed(), nodes=nodes)) == set()
    assert found(seed(aws={"wireguard_port": "51820", "ansible_host": "x", "kubeconfig": "/k"})) == set()


def test_one_port_named_once_in_a_large_fabric() -> None:
    clusters = {f"c{n}": {"pod_cidrs": [f"10.{n}.0.0/16"], "wireguard_port": 51820} for n in range(20)}
    findings = load_fabric({"clusters": clusters})[1]
    assert {item.reason for item in findings} == {"duplicate_listen_port"}
    assert len(findings) == len({item.where for item in findings}) <= 20
    assert "wireguard_port" in findings[0].message


@pytest.mark.parametrize(
    "name, meant", [("pod_cidr", "pod_cidrs"), ("wiregaurd_port", "wireguard_port"), ("service-cidrs", "service_cidrs")]
)
def test_near_misses_are_warnings(name: str, meant: str) -> None:
    findings = load_fabric(seed(gcp={name: 1}))[1]
    assert [(item.variable, item.reason, item.level) for item in findings] == [(name, "misspelt_variable", "warning")]
    assert meant in findings[0].message and errors(findings) == []


def test_near_misses_of_nodes() -> None:
    definition = seed()
    definition["nodes"]["aws-node-1"]["nodename"] = "x"
    assert found(definition) == {("nodes/aws-node-1", "nodename", "misspelt_variable")}


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["10.2.0.0/16", "fd00::/8", "gcp"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = [
    "pod_cidrs",
    "service_cidrs",
    "node_cidrs",
    "wireguard_port",
    "wireguard_ports",
    "wireguard_mtus",
    "device_alias",
]
NAMES += ["wireguard_mtu", "key_dir", "allow", "calico_ippools", "endpoint_address_type", "pod_cidr"]


@given(
    st.dictionaries(
        st.sampled_from(["aws", "gcp", "x_y"]) | st.text(max_size=6),
        ANYTHING | st.dictionaries(st.sampled_from(NAMES), ANYTHING),
        max_size=4,
    ),
    ANYTHING
    | st.dictionaries(st.text(max_size=4), st.dictionaries(st.just("multicluster_cluster"), ANYTHING), max_size=3),
)
def test_any_inventory_gives_findings_and_a_fabric_that_can_be_used(clusters: t.Any, nodes: t.Any) -> None:
    fabric, findings = load_fabric({"clusters": clusters, "nodes": nodes})
    json.dumps(fabric)
    if not errors(findings):
        for local in fabric.clusters:
            devices = [remote.device for remote in fabric.remotes(local).values()]
            assert len(devices) == len(set(devices)) and all(len(name) <= 15 for name in devices)


def test_calico_pools() -> None:
    fabric, _findings = load_fabric(seed(gcp={"pod_cidrs": ["10.4.0.0/16", "fd00:4::/48"]}))
    pools = calico.ip_pools(fabric, "aws")
    assert [pool["metadata"]["name"] for pool in pools] == ["gcp-pods", "gcp-pods-2"]
    # felix and BIRD read the fields of a disabled pool too: with another value of any of these they change the whole cluster
    inert = {"disabled": True, "disableBGPExport": True, "ipipMode": "Never", "vxlanMode": "Never"}
    assert [pool["spec"] for pool in pools] == [dict(inert, cidr="10.4.0.0/16"), dict(inert, cidr="fd00:4::/48")]
    assert pools[0]["apiVersion"] == "projectcalico.org/v3"
    assert calico.ip_pools(fabric, "aws", calico.CRD)[0]["apiVersion"] == "crd.projectcalico.org/v1"
    assert [
        calico.pools_desired(*args) for args in (("auto", False), ("auto", True), ("always", False), ("never", True))
    ] == [
        False,
        True,
        True,
        False,
    ]


def test_a_pool_of_an_earlier_release_is_changed() -> None:
    """gcp-pods as the release before wrote it (recorded), owned by the same field manager."""
    fabric, _findings = load_fabric(seed(gcp={"pod_cidrs": ["10.4.0.0/16"]}))
    key, manifest = parse_manifest(calico.ip_pools(fabric, "aws", calico.CRD)[0], "pool")
    fields = {"f:spec": {"f:cidr": {}, "f:disabled": {}, "f:ipipMode": {}}}
    owner = {
        "manager": "multicluster.network/f",
        "operation": "Apply",
        "apiVersion": calico.CRD,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    spec = {
        "assignmentMode": "Automatic",
        "cidr": "10.4.0.0/16",
        "disabled": True,
        "ipipMode": "CrossSubnet",
        "nodeSelector": "all()",
    }
    meta = {"name": "gcp-pods", "uid": "564c354c", "resourceVersion": "1161", "managedFields": [owner]}
    standing = {"apiVersion": calico.CRD, "kind": "IPPool", "metadata": meta, "spec": spec}
    plan, writes = plan_objects(
        "aws", {key: manifest}, Read({key: standing}, {key}, set(), {}), "multicluster.network/f"
    )
    assert [change.action for change in plan.changes] == ["update"] and not plan.refused
    assert writes[0].change.before == {"spec": {"ipipMode": "CrossSubnet"}}
    assert writes[0].change.after == {"spec": {"disableBGPExport": True, "ipipMode": "Never", "vxlanMode": "Never"}}
    existing = dict(standing, spec=dict(spec, disableBGPExport=True, ipipMode="Never", vxlanMode="Never"))
    assert (
        plan_objects("aws", {key: manifest}, Read({key: existing}, {key}, set(), {}), "multicluster.network/f")[1] == []
    )


@pytest.mark.parametrize(
    ("given", "found"), [(None, None), ([], []), (["b", "a", "b"], ["a", "b"]), ("team in (a, b)", "team in (a, b)")]
)
def test_who_may_export_from_where(given, found):
    fabric, findings = load_fabric(seed(aws={"mcs_namespaces": given, "multicluster_cluster_id": "eu-1"}))
    assert errors(findings) == [] and fabric.clusters["aws"]["mcs_namespaces"] == found
    assert [fabric.clusters[name]["cluster_id"] for name in ("aws", "gcp")] == ["eu-1", "gcp"]
