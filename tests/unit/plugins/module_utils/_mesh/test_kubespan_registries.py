# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From where the nodes of a KubeSpan mesh know each other: what the plan has with and without annotations and a discovery service."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import mesh_plan
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import InventoryRefused
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kubespan import (
    annotations_to_publish,
    node_kubespan,
    plan_kubespan_mesh,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from ansible_collections.multicluster.network.plugins.plugin_utils.node_part import kubespan_part
from test_kubespan_plan import MESH, fabric, holding, listings, words

ALONE = ["inventory", "discovery"]
TALOS = {"pod_cidrs": ["10.8.0.0/16"], "service_cidrs": ["10.9.0.0/16"], "node_cidrs": ["10.67.1.0/24"]}
URL = "https://discovery.example.org"


def request(registries, clusters=("talos",), **more):
    definition = {
        "clusters": {name: dict(TALOS, wireguard_port=1) for name in clusters},
        "nodes": {"edge-1": {"multicluster_cluster": "talos"}},
    }
    asked = [{"name": name} for name in clusters]
    made = {
        "fabric": "f",
        "clusters": asked,
        "timeout": 5,
        "definition": definition,
        "mode": "kubespan",
        "mesh_id": MESH,
    }
    return dict(made, registries=registries, **more)


def test_without_annotations_none_is_read_and_none_is_written():
    topology = plan_kubespan_mesh(fabric(), listings(), MESH, registries=ALONE).to_json()
    assert not holding(topology) and topology["kubespan"]["complete"] and not topology["refused"]
    assert not annotations_to_publish(MeshPlan.from_json(topology), {"a1": {"cluster.talos.dev/node-id": "x"}})
    with_both = plan_kubespan_mesh(fabric(), listings(), MESH, registries=["annotations", "discovery"]).to_json()
    assert sorted(holding(with_both)) == ["a1", "a2", "g1"]


def test_a_host_needs_no_node_where_it_announces_itself():
    read = listings()
    read["aws"]["nodes"] = read["aws"]["nodes"][1:]
    assert ("aws/a1", "node_missing") in words(plan_kubespan_mesh(fabric(), read, MESH).to_json())
    for registries in (ALONE, ["annotations", "inventory", "discovery"]):
        topology = plan_kubespan_mesh(fabric(), read, MESH, registries=registries).to_json()
        assert not words(topology) and "refused" not in topology["nodes"]["a1"]


def test_members_may_have_what_their_cluster_is_granted():
    topology = plan_kubespan_mesh(fabric(), listings(), MESH, registries=ALONE)
    found = kubespan_part(topology, "a1", {"mac": "x", "discovery": {"url": URL, "ca": "", "cluster": ""}})
    assert found["discovery"]["cluster"] == "aws" and found["discovery"]["node_cidrs"] == ["10.66.23.0/24"]
    assert "10.4.0.0/16" in found["discovery"]["overlay"] and found["mac"] == "x"
    other = kubespan_part(topology, "a1", {"discovery": {"url": URL, "cluster": "gcp"}})
    assert other["discovery"]["pod_cidrs"] == ["10.4.0.0/16"]
    for settings in ({}, {"discovery": {"url": ""}}, {"discovery": {"url": URL, "cluster": "nowhere"}}):
        with pytest.raises(ValueError, match="kubespan_discovery_"):
            kubespan_part(topology, "a1", settings)
    plain = plan_kubespan_mesh(fabric(), listings(), MESH)
    assert "discovery" not in node_kubespan(plain, "a1") and "members" not in plain.to_json()["kubespan"]
    assert "discovery" not in kubespan_part(plain, "a1", {"discovery": {"url": URL}})


def test_one_cluster_without_access_is_a_fabric():
    """As for a host that joins the mesh of machines that no inventory has."""
    found = mesh_plan.run(request(ALONE))
    assert not found["failures"] and not found["refused"] and list(found["mesh"]["nodes"]) == ["edge-1"]
    assert found["mesh"]["kubespan"]["members"]["talos"]["node_cidrs"] == TALOS["node_cidrs"]
    with pytest.raises(InventoryRefused, match="no_remotes"):
        mesh_plan.run(request(["annotations", "inventory"]))
    with pytest.raises(InventoryRefused, match="no_remotes"):
        mesh_plan.run(dict(request(ALONE), mode="semaphore"))


def test_a_cluster_without_access_cannot_be_read_where_annotations_are_a_source():
    two = dict(request(["annotations", "discovery"], ("talos",)))
    assert [row["cluster"] for row in mesh_plan.run(two)["failures"]] == ["talos"]


def test_neither_annotations_nor_a_service_is_no_mesh():
    asked = request(["inventory"])
    asked["definition"]["clusters"]["other"] = {"pod_cidrs": ["10.18.0.0/16"], "service_cidrs": ["10.19.0.0/16"]}
    asked["definition"]["clusters"]["other"].update(node_cidrs=["10.67.2.0/24"], wireguard_port=2)
    with pytest.raises(ValueRefused) as caught:
        mesh_plan.run(asked)
    assert caught.value.reason == "registries_missing"
