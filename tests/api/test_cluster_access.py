# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Least-privilege access: TokenRequest, what the account may do, and what it may not (decision 7)."""

from __future__ import annotations

import json
import stat

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects, cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import node_annotations
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import (
    Forbidden,
    ListIncomplete,
    Unauthorized,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import access_manifests

KEY = "gcp.wireguard.semaphore.uw.io/pubKey"


def objects(server, capabilities, state="present"):
    result = cluster_objects.run(
        {"fabric": "t", "clusters": [server.access()], "objects": access_manifests(capabilities), "state": state}
    )
    assert not result["failures"] and not result["refused"]
    return result


def token_request(server, path, account="multicluster-mesh", **more):
    return dict(
        {
            "fabric": "t",
            "clusters": [server.access()],
            "service_account": account,
            "namespace": "kube-system",
            "path": str(path),
            "expires": 3600,
            "renew_before": 1800,
            "state": "present",
        },
        **more,
    )


@pytest.fixture
def accounts(server):
    objects(server, ["mesh", "mesh_read"])
    client = server.client()
    client.create(
        "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "tok-1", "labels": {"a": "b"}}}, "k"
    )
    yield
    client.delete("/api/v1/nodes/tok-1")
    objects(server, ["mesh", "mesh_read"], "absent")
    assert objects(server, ["mesh", "mesh_read"], "absent")["changed"] is False


def client_of(path):
    return Client(parse_access({"name": "aws", "kubeconfig": str(path)}))


def test_token_works_for_what_it_is_for_and_for_nothing_else(server, accounts, tmp_path):
    path = tmp_path / "keys" / "{cluster}.kubeconfig"
    mark = server.mark()
    assert cluster_token.run(token_request(server, path), check=True)["plan"]["create"] == 1
    assert server.audit(mark) == [] and not (tmp_path / "keys").exists()

    result = cluster_token.run(token_request(server, path))
    real = tmp_path / "keys" / "aws.kubeconfig"
    token = json.loads(real.read_text())["users"][0]["user"]["token"]
    assert result["changed"] and result["kubeconfigs"] == {"aws": str(real)} and not result["failures"]
    assert token not in str(result) and stat.S_IMODE(real.stat().st_mode) == 0o600
    assert stat.S_IMODE(real.parent.stat().st_mode) == 0o700
    mark = server.mark()
    assert not cluster_token.run(token_request(server, path))["changed"] and server.audit(mark) == []

    annotate = {
        "fabric": "t",
        "clusters": [{"name": "aws", "kubeconfig": str(real)}],
        "annotations": {"aws": {"tok-1": {KEY: "k"}}},
    }
    done = node_annotations.run(annotate)
    assert done["changed"] and not done["failures"] and not node_annotations.run(annotate)["changed"]

    client = client_of(real)
    with pytest.raises(ListIncomplete) as error:
        client.list("/api/v1/secrets")
    assert (error.value.cause, error.value.status) == ("forbidden", 403)
    with pytest.raises(Forbidden):
        client.delete("/api/v1/nodes/tok-1")
    with pytest.raises(Forbidden):
        client.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}}, "t")


def test_reader_cannot_patch(server, accounts, tmp_path):
    path = tmp_path / "r"
    cluster_token.run(token_request(server, path, "multicluster-mesh-read"))
    annotate = {
        "fabric": "t",
        "clusters": [{"name": "aws", "kubeconfig": str(path)}],
        "annotations": {"aws": {"tok-1": {KEY: "z"}}},
    }
    result = node_annotations.run(annotate)
    assert [entry["reason"] for entry in result["failures"]] == ["forbidden"] and not result["changed"]


def test_rotation_overlaps_and_absent_ends_tokens(server, accounts, tmp_path):
    path = tmp_path / "m"
    cluster_token.run(token_request(server, path))
    old = client_of(path)
    result = cluster_token.run(token_request(server, path, renew_before=4000))
    assert result["plan"]["update"] == 1 and "renewed_because: it expires within 4000 s" in result["diff"]["after"]
    assert old.list("/api/v1/nodes").complete and client_of(path).list("/api/v1/nodes").complete
    objects(server, ["mesh"], "absent")
    with pytest.raises(ListIncomplete) as error:
        old.list("/api/v1/nodes")
    assert error.value.cause in (Unauthorized.reason, Forbidden.reason)
    assert cluster_token.run(token_request(server, path, state="absent"))["changed"] and not path.exists()
    assert not cluster_token.run(token_request(server, path, state="absent"))["changed"]


def test_an_unowned_file_stays(server, accounts, tmp_path):
    path = tmp_path / "config"
    path.write_text("apiVersion: v1\nkind: Config\n")
    result = cluster_token.run(token_request(server, path))
    assert [entry["reason"] for entry in result["refused"]] == ["not_ours"] and path.read_text().startswith(
        "apiVersion"
    )
