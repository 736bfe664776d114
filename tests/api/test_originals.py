# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of programs, read from a real API server: nothing is written, no Secret is asked for, and what cannot be read is reported."""

from __future__ import annotations

import contextlib
import copy
import pathlib

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.upstream import inspection
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import NotFound

CONFIGURED = yaml.safe_load(
    (pathlib.Path(__file__).resolve().parents[1] / "originals" / "settings.yml").read_text("utf-8")
)


def complete(obj):
    """As an API server takes it: with the labels and names that the recorded form leaves out."""
    obj = copy.deepcopy(obj)
    if obj["kind"] != "ConfigMap":
        labels = {"app": obj["metadata"]["name"]}
        obj["spec"]["selector"] = {"matchLabels": labels}
        obj["spec"]["template"]["metadata"] = {"labels": labels}
        obj.pop("status", None)
    return obj


@pytest.fixture(name="semaphore")
def semaphore_of_one_cluster(server):
    client = server.client()
    client.apply(
        "/api/v1/namespaces/sys-semaphore",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sys-semaphore"}},
        "user",
        force=True,
    )
    paths = []
    for obj in [complete(obj) for obj in CONFIGURED["aws"]]:
        path = client.resource(obj["apiVersion"], obj["kind"]).path(
            obj["metadata"]["namespace"], obj["metadata"]["name"]
        )
        client.apply(path, obj, "user", force=True)
        paths.append(path)
    labels = {"mirrored-svc": "true", "mirror-svc-prefix-sync": "gcp"}
    meta = {"name": "gcp-x-73736d-y", "namespace": "sys-semaphore", "labels": labels}
    mirror = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 1}]}, "metadata": meta}
    client.create("/api/v1/namespaces/sys-semaphore/services", mirror, "semaphore-service-mirror")
    yield server
    for path in [*paths, "/api/v1/namespaces/sys-semaphore/services/gcp-x-73736d-y"]:
        with contextlib.suppress(NotFound):
            client.delete(path)


def test_what_runs_becomes_an_inventory_and_nothing_is_written(semaphore):
    mark = semaphore.mark()
    result = inspection.run({"clusters": [semaphore.access("aws")], "timeout": 20})
    assert not result["failures"] and not result["changed"]
    asked = semaphore.audit(mark)
    assert {verb for verb, path, status in asked} <= {"list", "get"} and not [
        path for verb, path, status in asked if "/secrets" in path
    ]
    assert [path for verb, path, status in asked if "/configmaps/" in path] == [
        "/api/v1/namespaces/kube-system/configmaps/semaphore-wireguard-config",
        "/api/v1/namespaces/sys-semaphore/configmaps/semaphore-service-mirror-config",
        "/api/v1/namespaces/metallb-system/configmaps/config",
    ]
    found = yaml.safe_load(result["proposal"])
    assert found["clusters"]["hosts"]["gcp"]["pod_cidrs"] == ["10.4.0.0/16"]
    assert found["all"]["vars"]["service_mirror_selector"] == "mirror.semaphore.uw.io/mirror-service=true"
    assert {row["program"] for row in result["programs"]} == {
        "semaphore-wireguard",
        "semaphore-service-mirror",
        "semaphore-policy",
    }
    left = {row["kind"] + " " + row["name"]: row["command"] for row in result["leftovers"]}
    assert (
        left["ConfigMap semaphore-wireguard-config"]
        == "kubectl --namespace kube-system delete configmap semaphore-wireguard-config"
    )
    assert {
        "DaemonSet semaphore-wireguard",
        "Deployment semaphore-service-mirror",
        "Secret semaphore-wireguard-token-gcp",
    } <= set(left)
    assert result["leftovers_count"] == len(left) and sum(
        "not needed once taken over: " in line for line in result["lines"]
    ) == len(left)
    row = {
        "cluster": "aws",
        "program": "semaphore-service-mirror",
        "kind": "Service",
        "manager": "semaphore-service-mirror",
        "objects": 1,
        "owned": False,
    }
    assert row in result["owners"]


def test_a_cluster_that_cannot_be_read_keeps_no_other_out(semaphore):
    result = inspection.run(
        {"clusters": [semaphore.access("aws"), semaphore.access("dead", api_url="https://127.0.0.1:1")], "timeout": 10}
    )
    assert {row["cluster"] for row in result["failures"]} == {"dead"}
    assert result["programs"] and "gcp" in yaml.safe_load(result["proposal"])["clusters"]["hosts"]


def test_a_server_without_upstream_programs_reports_it(server):
    result = inspection.run({"clusters": [server.access("aws")], "timeout": 20})
    assert result["programs"] == [] and result["lines"][0].startswith("none of the programs") or result["owners"]
