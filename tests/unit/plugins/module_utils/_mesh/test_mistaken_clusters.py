# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kubeconfig that leads to another cluster is named, its peers stay, and no member can do that to another one."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import mesh_plan
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.left_clusters import keyed_clusters
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.mistaken_clusters import (
    mistaken_clusters,
    same_clusters,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.annotations import key_of
from ansible_collections.multicluster.network.plugins.module_utils._plan.objects import field_manager
from ansible_collections.multicluster.network.plugins.module_utils._status.preflight import find
from hypothesis import given, strategies as st

MANAGER = field_manager("f")
DEFINITION = {
    "clusters": {
        name: {"pod_cidrs": [cidr]}
        for name, cidr in (("aws", "10.2.0.0/16"), ("gcp", "10.4.0.0/16"), ("ibm", "10.6.0.0/16"))
    },
    "nodes": {f"{name}-{number}": {"multicluster_cluster": name} for name in ("aws", "gcp") for number in (1, 2)},
}


def node(name: str, key: str = "", manager: str = MANAGER) -> dict[str, t.Any]:
    metadata: dict[str, t.Any] = {"name": name, "uid": "uid-of-" + name}
    if key:
        fields = {"f:metadata": {"f:annotations": {"f:" + key: {}}}}
        metadata.update(
            annotations={key: "x"},
            managedFields=[{"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}],
        )
    return {"metadata": metadata, "spec": {}, "status": {}}


def mistaken(listings: t.Any, hosts: t.Any) -> dict[str, dict[str, str]]:
    return mistaken_clusters(
        listings, hosts, {name: keyed_clusters(listing, MANAGER) for name, listing in listings.items()}
    )


def planned(monkeypatch: t.Any, **nodes: list[dict[str, t.Any]]) -> dict[str, t.Any]:
    listings = {name: {"nodes": list(found)} for name, found in nodes.items()}
    monkeypatch.setattr(mesh_plan, "gather", lambda *given: (listings, {}, {"requests": {}}, {}))
    return mesh_plan.run({"fabric": "f", "clusters": [], "timeout": 1, "definition": DEFINITION, "mode": "semaphore"})


AWS, GCP, IBM = [node("aws-1"), node("aws-2")], [node("gcp-1"), node("gcp-2")], [node("ibm-1")]


def test_swapped_kubeconfigs_are_named_once_a_cluster_and_their_peers_stay(monkeypatch):
    result = planned(monkeypatch, aws=GCP, gcp=AWS, ibm=IBM)
    assert [(row["cluster"], row["reason"]) for row in result["failures"]] == [
        ("aws", "wrong_cluster"),
        ("gcp", "wrong_cluster"),
    ]
    assert "lists Nodes of cluster gcp (gcp-1, gcp-2)" in result["failures"][0]["message"]
    assert not [row for row in result["refused"] if row["reason"] == "node_missing"]
    assert result["mesh"]["clusters"]["ibm"]["remotes"]["aws"]["complete"] is False
    assert result["mesh"]["clusters"]["aws"]["remotes"]["ibm"]["complete"] is True
    rows = find({"failures": result["failures"]})
    assert {(row["level"], row["where"], row["reason"]) for row in rows} == {
        ("error", "aws", "wrong_cluster"),
        ("error", "gcp", "wrong_cluster"),
    }


def test_the_same_kubeconfig_twice(monkeypatch):
    result = planned(monkeypatch, aws=AWS, gcp=AWS, ibm=IBM)
    assert [(row["cluster"], row["reason"]) for row in result["failures"]] == [("gcp", "wrong_cluster")]
    assert result["mesh"]["same_clusters"] == [["aws", "gcp"]]
    assert [
        text
        for text in result["warnings"]
        if "clusters aws and gcp list the same Nodes" in text and text.endswith("[same_cluster]")
    ]
    assert ("error", "gcp", "same_cluster") in [
        (row["level"], row["where"], row["reason"]) for row in find({"same_clusters": [["aws", "gcp"]]})
    ]


def test_names_that_both_have_are_distinguished_by_the_keys_that_this_fabric_wrote():
    hosts = {"aws": {"n1"}, "gcp": {"n1"}}
    right = {
        "aws": {"nodes": [node("n1", key_of("gcp", "pubKey"))]},
        "gcp": {"nodes": [node("n1", key_of("aws", "endpoint"))]},
    }
    swapped = {"aws": right["gcp"], "gcp": right["aws"]}
    assert mistaken(right, hosts) == {}
    found = mistaken(swapped, hosts)
    assert sorted(found) == ["aws", "gcp"] and "which this fabric gave a key for cluster aws" in found["aws"]["message"]


@pytest.mark.parametrize(
    "aws",
    [
        AWS,
        [node("aws-1")],
        [],
        [node("new-1")],
        [node("new-1"), node("new-2"), node("gcp-1")],
        [node("aws-1"), *GCP],
        [node("aws-1", key_of("aws", "pubKey"), "semaphore-wireguard")],
        [node("aws-1", key_of("aws", "pubKey"), field_manager("other"))],
    ],
)
def test_whoever_is_in_its_own_place_is_not_refused(monkeypatch, aws):
    """Not nodes that were renamed, nor a cluster that another one's Nodes were forged in, nor what another program wrote."""
    result = planned(monkeypatch, aws=aws, gcp=GCP, ibm=IBM)
    assert result["failures"] == []


def test_a_member_that_lists_the_nodes_of_another_discredits_itself_alone(monkeypatch):
    result = planned(monkeypatch, aws=AWS, gcp=[*AWS, node("x", key_of("aws", "pubKey"))], ibm=AWS)
    assert [row["cluster"] for row in result["failures"]] == [
        "gcp"
    ]  # ibm is only read, and no node of its is known by name
    assert result["mesh"]["clusters"]["gcp"]["remotes"]["aws"]["complete"] is True


LISTINGS = st.one_of(
    st.none(),
    st.dictionaries(
        st.sampled_from(["nodes", "error"]),
        st.one_of(
            st.none(),
            st.lists(
                st.one_of(
                    st.none(),
                    st.just({"metadata": []}),
                    st.just({"metadata": {"name": [], "uid": {}}}),
                    st.sampled_from([*AWS, *GCP]),
                )
            ),
        ),
    ),
)


@given(st.fixed_dictionaries({"aws": LISTINGS, "gcp": LISTINGS}))
def test_any_listing_is_judged(listings):
    hosts = {"aws": {"aws-1", "aws-2"}, "gcp": {"gcp-1"}}
    assert set(mistaken(listings, hosts)) <= {"aws", "gcp"}
    assert all(pair == ["aws", "gcp"] for pair in same_clusters(listings))
