# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The account of traces reads what a trace needs and writes nothing, and preflight reports what another access lacks."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects, cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._flows.reports import preflight
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Forbidden, ListIncomplete
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import access_manifests
from mirror_clusters import DEFINITION


@pytest.fixture
def accounts(server, tmp_path):
    """{capability: entry of the cluster}, each with an account of its own."""
    made = {"fabric": "t", "clusters": [server.access()], "objects": access_manifests(["trace", "mesh"])}
    assert not cluster_objects.run(made)["failures"]
    found = {}
    for capability in ("trace", "mesh"):
        request = {
            "fabric": "t",
            "clusters": [server.access()],
            "service_account": "multicluster-" + capability,
            "namespace": "kube-system",
            "path": str(tmp_path / capability),
            "expires": 3600,
            "renew_before": 60,
            "state": "present",
        }
        assert not cluster_token.run(request)["failures"]
        found[capability] = {"name": "aws", "kubeconfig": str(tmp_path / capability)}
    yield found
    cluster_objects.run(dict(made, state="absent"))


def test_it_reads_both_ends_and_writes_nothing(accounts):
    client = Client(parse_access(accounts["trace"]))
    for path in (
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/services",
        "/api/v1/endpoints",
        "/apis/networking.k8s.io/v1/networkpolicies",
    ):
        assert client.list(path) is not None
    with pytest.raises(ListIncomplete) as error:
        client.list("/api/v1/secrets")
    assert error.value.cause == "forbidden"
    with pytest.raises(Forbidden):
        client.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}, "t")


def test_preflight_names_what_an_access_lacks(accounts):
    def look(capability, **more):
        definition = dict(copy.deepcopy(DEFINITION), nodes={})
        request = dict(
            {"fabric": "t", "definition": definition, "clusters": [accounts[capability]], "timeout": 20}, **more
        )
        return [row for row in preflight.run(request)["findings"] if row["reason"] == "forbidden"]

    assert look("trace", trace=True) == [] and look("mesh") == []
    (row,) = look("mesh", trace=True)
    assert (
        row["level"] == "warning"
        and "list pods; list services" in row["message"]
        and "cluster_access_capability: trace" in row["message"]
    )
    assert "nodes" not in row["message"]  # which it may
