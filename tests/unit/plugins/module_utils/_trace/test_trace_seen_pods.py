# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ends of a trace where a pod has no Pod object: those that kernels have, and never a node in place of one."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.reports.trace import resolved
from ansible_collections.multicluster.network.plugins.module_utils._trace import report
from ansible_collections.multicluster.network.plugins.module_utils._trace.diagnosis import Finding, Flow
from ansible_collections.multicluster.network.plugins.module_utils._trace.ends import parse_question
from ansible_collections.multicluster.network.plugins.module_utils._trace.mesh import Mesh
from ansible_collections.multicluster.network.plugins.module_utils._trace.objects import parse_cluster
from ansible_collections.multicluster.network.plugins.module_utils._trace.routing import Packet

ADDRESSES = {"aws": "10.66.23.31", "gcp": "10.22.22.27"}
SEEN = {"aws-1": ["10.2.3.10", "fd02::10"], "gcp-1": ["10.4.7.10", "10.4.7.11", "fd04::10"]}
SEMAPHORE = {"mode": "semaphore", "clusters": {"aws": {"remotes": {}}, "gcp": {"remotes": {}}}, "nodes": {}}


def trace(
    source: str = "any", target: str = "any", pods: t.Any = None, mesh: t.Any = None, objects: t.Any = ()
) -> dict[str, t.Any]:
    hosts = {name + "-1": {"cluster": name, "node": "n"} for name in ADDRESSES}
    clusters = {}
    for name, address in ADDRESSES.items():
        node = {"metadata": {"name": "n"}, "status": {"addresses": [{"type": "InternalIP", "address": address}]}}
        pods_of = [row for row in objects if row["metadata"]["cluster"] == name]
        clusters[name] = parse_cluster(name, {"nodes": [node], "pods": pods_of}, {(name, "n"): name + "-1"})
    request = {"mesh": SEMAPHORE if mesh is None else mesh, "pods": pods or {}}
    return resolved([parse_question(source, target, None)], clusters, hosts, 61000, request)


def ways(found: dict[str, t.Any]) -> list[tuple[str, str]]:
    return [(flow["source"]["address"], flow["target"]["address"]) for flow in found["flows"] if not flow.get("about")]


def verdict(found: dict[str, t.Any]) -> str:
    return str(report.build(found, {}, {})["verdict"])


def test_pods_that_kernels_have_are_the_ends_where_no_object_is() -> None:
    found = trace(pods=SEEN)
    assert ways(found) == [
        ("10.2.3.10", "10.4.7.10"),
        ("fd02::10", "fd04::10"),
        ("10.4.7.10", "10.2.3.10"),
        ("fd04::10", "fd02::10"),
    ]
    assert all(
        flow[end]["kind"] == "pod" and flow[end]["host"] for flow in found["flows"] for end in ("source", "target")
    )
    assert found["flows"][0]["source"]["name"] == "pod 10.2.3.10 of aws-1"


def test_an_object_comes_before_what_a_kernel_has() -> None:
    pod = {
        "metadata": {"namespace": "shop", "name": "web", "cluster": "aws"},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "podIP": "10.2.3.99", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    assert ways(trace(pods=SEEN, objects=[pod]))[0] == ("10.2.3.99", "10.4.7.10")


def test_a_node_never_replaces_a_pod() -> None:
    found = trace()
    assert not found["flows"] and not found["nodes"] and verdict(found) == "nothing to follow"
    assert [row["text"].split(" has ")[0] for row in found["names"]] == ["aws-1", "gcp-1"]
    some = trace(pods={"aws-1": SEEN["aws-1"]})
    assert (
        not some["flows"]
        and verdict(some) == "nothing to follow"
        and [row["what"] for row in some["names"]] == ["no pod"]
    )
    assert any("gcp-1 has no pod that could be found" in line for line in report.build(some, {}, {})["table"])


@pytest.mark.parametrize("target", ["gcp/n", "gcp/gcp-1"])
def test_packets_between_nodes_are_not_the_semaphore_meshs_matter(target: str) -> None:
    found = trace("aws/n", target, SEEN)
    assert not found["flows"] and not found["findings"] and verdict(found) == "nothing to follow"
    assert "plain ones between nodes" in found["names"][0]["text"]


@pytest.mark.parametrize(
    "mesh",
    [{"mode": "kubespan", "clusters": {"aws": {}, "gcp": {}}, "kubespan": {"affiliates": []}}, {}],
    ids=["kubespan", "none"],
)
def test_in_other_meshes_nodes_are_ends(mesh: t.Any) -> None:
    assert ways(trace("aws/n", "gcp/n", SEEN, mesh)) == [("10.66.23.31", "10.22.22.27")]


def test_a_node_may_still_ask_for_a_pod() -> None:
    assert ways(trace("aws/n", "any", SEEN)) == [("10.66.23.31", "10.4.7.10")]


def test_an_address_that_a_kernel_calls_a_pods_is_known() -> None:
    found = trace("aws/n", "10.4.7.11", SEEN)
    assert found["flows"][0]["target"]["backends"] == [
        {"address": "10.4.7.11", "port": None, "cluster": "gcp", "host": "gcp-1"}
    ]
    assert found["nodes"] == ["aws-1", "gcp-1"]


@pytest.mark.parametrize(
    ("cause", "pods", "mesh", "clusters", "of_a_host"),
    [
        ("allowed_ips_lack_source", (False, True), Mesh({"aws": {"gcp": "wireguard.gcp"}}), {"aws", "gcp"}, True),
        ("route_missing", (True, False), Mesh({"aws": {"gcp": "wireguard.gcp"}}), {"aws", "gcp"}, True),
        ("allowed_ips_lack_source", (True, True), Mesh({"aws": {"gcp": "wireguard.gcp"}}), {"aws", "gcp"}, False),
        ("forward_dropped", (False, True), Mesh({"aws": {"gcp": "wireguard.gcp"}}), {"aws", "gcp"}, False),
        ("route_missing", (False, True), Mesh({"aws": {"gcp": "wireguard.gcp"}}), {"aws"}, False),
        ("route_missing", (False, True), Mesh({}, "kubespan"), {"aws", "gcp"}, False),
    ],
)
def test_no_run_of_the_mesh_is_advised_for_a_hosts_own_packets(
    cause: str, pods: t.Any, mesh: Mesh, clusters: t.Any, of_a_host: bool
) -> None:
    """A client on the host's network was advised to run the mesh again, which changes nothing for it."""
    finding = Finding("0", cause, "forward", "gcp-1", "lacks it", "run the mesh again on gcp-1", "", "proven")
    flow = Flow("0", Packet(4, 1, 2, "icmp", None), "aws-1", "gcp-1", *pods, "", frozenset())
    given = report.of_a_host(finding, flow, mesh, clusters)
    assert (
        (
            given.fix != finding.fix
            and "only at an address that other clusters accept" in given.text
            and given.cause == cause
        )
        if of_a_host
        else given == finding
    )
