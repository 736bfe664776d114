# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The accounts ``network_sets`` and ``coredns_rewrite`` can do what their modules do, and no more (decision 7)."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects, cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import coredns, network_sets
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Forbidden, ListIncomplete
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import access_manifests
from set_kinds import namespace, path_of, pod, remove, serve, withdraw

MAPS = "/api/v1/namespaces/kube-system/configmaps"
CAPABILITIES = ["coredns_rewrite", "network_sets", "network_sets_read"]


@pytest.fixture
def account(server, tmp_path):
    """account(capability, cluster): an entry of ``clusters`` with a token of that capability's account."""
    objects = {"fabric": "t", "clusters": [server.access()], "objects": access_manifests(CAPABILITIES)}
    assert not cluster_objects.run(objects)["failures"]

    def one(capability, name):
        path = tmp_path / (capability + "-" + name)
        request = {
            "fabric": "t",
            "clusters": [server.access(name)],
            "service_account": "multicluster-" + capability.replace("_", "-"),
            "namespace": "kube-system",
            "path": str(path),
            "expires": 3600,
            "renew_before": 60,
            "state": "present",
        }
        assert not cluster_token.run(request)["failures"]
        return {"name": name, "kubeconfig": str(path)}

    yield one
    cluster_objects.run(dict(objects, state="absent"))


def test_policy(server, account):
    client = server.client()
    serve(client, "calico")
    namespace(client, "sys-log")
    pod(client, "sys-log", "one", "app", "10.4.1.3")
    try:
        mine, theirs = account("network_sets", "aws"), account("network_sets_read", "gcp")
        request = {
            "fabric": "t",
            "clusters": [mine, theirs],
            "targets": ["aws"],
            "timeout": 20,
            "grants": {"aws": {"pod_cidrs": "10.2.0.0/16"}, "gcp": {"pod_cidrs": "10.4.0.0/16"}},
        }
        result = network_sets.run(request)
        assert result["plan"]["create"] == 1 and not result["failures"]
        assert not network_sets.run(request)["changed"]
        assert [failure["reason"] for failure in network_sets.run(dict(request, targets=["gcp"]))["failures"]] == [
            "source_incomplete"
        ]
        assert (
            network_sets.run(dict(request, state="absent"))["plan"]["delete"] == 1
            and not client.list(path_of("calico")).items
        )
        for entry in (mine, theirs):
            with pytest.raises(ListIncomplete) as error:
                Client(parse_access(entry)).list("/api/v1/secrets")
            assert error.value.cause == "forbidden"
    finally:
        remove(client, "sys-log", "one")
        withdraw(client, "calico")


def test_dns(server, account):
    client = server.client()
    for name in ("coredns", "other"):
        client.create(
            MAPS,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name},
                "data": {"Corefile": ". {\n    reload\n}\n"},
            },
            "k",
        )
    try:
        request = {
            "fabric": "t",
            "clusters": [account("coredns_rewrite", "gcp")],
            "members": ["aws", "gcp"],
            "mirror_namespace": "sys-semaphore",
            "namespace": "kube-system",
            "name": "coredns",
            "key": "Corefile",
            "timeout": 20,
        }
        assert coredns.run(request)["changed"] and not coredns.run(request)["changed"]
        assert coredns.run(dict(request, name="other"))["failures"][0]["reason"] == "forbidden"
        with pytest.raises(Forbidden):
            Client(parse_access(request["clusters"][0])).delete(MAPS + "/coredns")
        # a neighbour that keeps its own Corefile is asked for nothing; its account could not answer
        both = dict(request, clusters=[request["clusters"][0], account("network_sets_read", "aws")])
        assert [row["cluster"] for row in coredns.run(both)["failures"]] == ["aws"]
        for more in ({}, {"state": "absent"}):
            assert coredns.run(dict(both, destinations=["gcp"], **more))["failures"] == []
        with pytest.raises(ValueError, match="coredns_rewrite_destinations"):
            coredns.run(dict(both, destinations=["gpc"]))
    finally:
        for name in ("coredns", "other"):
            client.delete(MAPS + "/" + name)
