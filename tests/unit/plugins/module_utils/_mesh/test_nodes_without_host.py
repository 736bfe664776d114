# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes of a cluster without a host of the inventory: the plan that has read them names them."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import mesh_plan
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.annotations import key_of
from ansible_collections.multicluster.network.plugins.module_utils._status.preflight import find

DEFINITION = {
    "clusters": {"aws": {"pod_cidrs": ["10.2.0.0/16"]}, "gcp": {"pod_cidrs": ["10.4.0.0/16"]}},
    "nodes": {"aws-1": {"multicluster_cluster": "aws"}},
}


def node(name: str, **annotations: str) -> dict[str, t.Any]:
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {}, "status": {}}


def planned(monkeypatch: t.Any, aws: list[t.Any], mode: str = "semaphore") -> dict[str, t.Any]:
    listings = {"aws": {"nodes": aws}, "gcp": {"nodes": [node("gcp-1")]}}
    monkeypatch.setattr(mesh_plan, "gather", lambda *given: (listings, {}, {"requests": {}}, {}))
    return mesh_plan.run(
        {"fabric": "f", "clusters": [], "timeout": 1, "definition": DEFINITION, "mode": mode, "mesh_id": "m"}
    )


@pytest.mark.parametrize("mode", ["semaphore", "kubespan"])
def test_a_node_without_host_is_named(monkeypatch, mode):
    result = planned(monkeypatch, [node("aws-1"), node("aws-2")], mode)
    assert result["mesh"]["without_host"] == {"aws": ["aws-2"]}
    (warning,) = [text for text in result["warnings"] if "aws-2" in text]
    assert "multicluster_cluster: aws" in warning and "node_name" in warning
    assert (
        "peers are kept as long as it announces itself" in warning
        and "teardown --limit HOST before a host is removed" in warning
    )


def test_a_cluster_that_is_only_read_and_complete_ones_say_nothing(monkeypatch):
    result = planned(monkeypatch, [node("aws-1")])
    assert (result["mesh"]["without_host"], result["warnings"]) == ({}, [])


def test_a_node_that_left_the_inventory_and_still_announces_is_named_too(monkeypatch):
    published = {key_of("gcp", "pubKey"): "k", key_of("gcp", "endpoint"): "e"}
    assert planned(monkeypatch, [node("aws-1"), node("aws-2", **published)])["mesh"]["without_host"] == {
        "aws": ["aws-2"]
    }


def test_many_are_counted(monkeypatch):
    result = planned(monkeypatch, [node("aws-1")] + [node(f"n{number:03}") for number in range(500)])
    assert len(result["mesh"]["without_host"]["aws"]) == 500
    (warning,) = result["warnings"]
    assert "n009 and 490 more" in warning and len(warning) < 600


def test_a_name_that_is_none_is_refused_and_not_shown(monkeypatch):
    result = planned(monkeypatch, [node("aws-1"), node("\x1b[31m")])
    assert result["mesh"]["without_host"] == {} and not any("\x1b" in text for text in result["warnings"])


def test_preflight_finds_it_too():
    (row,) = find({"without_host": {"aws": ["aws-2"]}})
    assert (row["level"], row["where"], row["reason"]) == ("warning", "aws", "node_without_host") and "aws-2" in row[
        "message"
    ]
