# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster that was in the fabric and is not in the inventory any more is named, by what this fabric itself wrote."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import mesh_plan
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.left_clusters import (
    keyed_clusters,
    left_clusters,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.annotations import key_of
from ansible_collections.multicluster.network.plugins.module_utils._plan.objects import field_manager
from ansible_collections.multicluster.network.plugins.module_utils._status.preflight import find
from hypothesis import given, strategies as st

MANAGER = field_manager("f")
DEFINITION = {
    "clusters": {"aws": {"pod_cidrs": ["10.2.0.0/16"]}, "gcp": {"pod_cidrs": ["10.4.0.0/16"]}},
    "nodes": {"aws-1": {"multicluster_cluster": "aws"}, "gcp-1": {"multicluster_cluster": "gcp"}},
}


def node(name: str, key: str = "", manager: str = MANAGER) -> dict[str, t.Any]:
    """A Node with one annotation, and who is on record for it."""
    metadata: dict[str, t.Any] = {"name": name}
    if key:
        fields = {"f:metadata": {"f:annotations": {"f:" + key: {}}}}
        metadata.update(
            annotations={key: "x"},
            managedFields=[{"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}],
        )
    return {"metadata": metadata, "spec": {}, "status": {}}


def planned(monkeypatch: t.Any, aws: dict[str, t.Any]) -> dict[str, t.Any]:
    listings = {"aws": {"nodes": [aws]}, "gcp": {"nodes": [node("gcp-1")]}}
    monkeypatch.setattr(mesh_plan, "gather", lambda *given: (listings, {}, {"requests": {}}, {}))
    return mesh_plan.run({"fabric": "f", "clusters": [], "timeout": 1, "definition": DEFINITION, "mode": "semaphore"})


def test_who_left_is_named_with_what_to_do(monkeypatch):
    result = planned(monkeypatch, node("aws-1", key_of("ibm", "pubKey")))
    (warning,) = [text for text in result["warnings"] if "cluster_left" in text]
    assert "cluster ibm was in this fabric, as Nodes of aws say" in warning and "leave with -e cluster=ibm" in warning
    assert result["mesh"]["left_clusters"] == {"ibm": ["aws"]}
    (row,) = [row for row in find({"left_clusters": {"ibm": ["aws"]}}) if row["reason"] == "cluster_left"]
    assert (row["level"], row["where"]) == ("warning", "ibm") and "leave with -e cluster=ibm" in row["message"]


@pytest.mark.parametrize(
    "aws",
    [
        node("aws-1"),
        node("aws-1", key_of("gcp", "pubKey")),
        node("aws-1", key_of("ibm", "pubKey"), "semaphore-wireguard"),
        node("aws-1", key_of("ibm", "pubKey"), field_manager("other")),
        node("aws-1", key_of("\x1b[31m", "pubKey")),
        node("aws-1", "example.org/pubKey"),
    ],
)
def test_nobody_else_is(monkeypatch, aws):
    result = planned(monkeypatch, aws)
    assert result["mesh"]["left_clusters"] == {} and not [text for text in result["warnings"] if "cluster_left" in text]


JSON = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["f:metadata", "f:annotations", "f:" + key_of("ibm", "pubKey"), "x"]), inner, max_size=2
        )
    ),
    max_leaves=8,
)


@given(JSON)
def test_a_record_of_any_shape_breaks_nothing(fields):
    one = node("aws-1", key_of("gcp", "pubKey"))
    one["metadata"]["managedFields"][0]["fieldsV1"] = fields
    listings = {"aws": {"nodes": [one]}, "gcp": {"error": {"reason": "x", "message": "y"}}}
    assert set(
        left_clusters({name: keyed_clusters(listing, MANAGER) for name, listing in listings.items()}, {"aws", "gcp"})
    ) <= {"ibm"}
