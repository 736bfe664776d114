# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""cluster_objects against a real API server. The audit log shows what was really written (decision 44)."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects

CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "one", "namespace": "default"},
    "data": {"a": "1", "n": 5},
}
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "mcn:test"},
    "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}],
}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "svc", "namespace": "default"},
    "spec": {
        "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81, "targetPort": 8081}],
        "selector": {"app": "x"},
    },
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "pools.test.example.org"},
    "spec": {
        "group": "test.example.org",
        "scope": "Cluster",
        "names": {"plural": "pools", "singular": "pool", "kind": "Pool", "listKind": "PoolList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
POOL = {"apiVersion": "test.example.org/v1", "kind": "Pool", "metadata": {"name": "p"}, "spec": {"cidr": "10.4.0.0/16"}}
EVERYTHING = [POOL, SERVICE, ROLE, CONFIG, CRD]


def request_for(server, objects, **more):
    return dict(
        {"fabric": "t", "clusters": [server.access()], "objects": copy.deepcopy(objects), "timeout": 20}, **more
    )


def run(server, objects, check=False, **more):
    return cluster_objects.run(request_for(server, objects, **more), check=check)


def reasons(result):
    return [(entry["object"], entry["reason"]) for entry in result["refused"]]


@pytest.fixture(autouse=True)
def tidy(server):
    yield
    run(server, EVERYTHING, state="absent", adopt=True)


def test_create_again_change_absent(server):
    mark = server.mark()
    result = run(server, EVERYTHING, check=True)
    assert result["plan"]["create"] == 5 and result["changed"] and server.writes(mark) == []

    result = run(server, EVERYTHING)
    assert (result["plan"]["create"], result["refused"], result["failures"]) == (5, [], [])
    kinds = [change["kind"] for change in result["plan"]["changes"]]
    assert kinds == ["CustomResourceDefinition", "ClusterRole", "ConfigMap", "Pool", "Service"]

    mark = server.mark()
    result = run(server, EVERYTHING)
    assert (result["changed"], result["plan"]["unchanged"], server.writes(mark)) == (False, 5, [])
    assert result["stats"]["requests"] == {"aws": {"get": 4, "list": 5}} and result["diff"] == {
        "before": "",
        "after": "",
    }
    assert not run(server, EVERYTHING, check=True)["changed"]

    changed = copy.deepcopy(EVERYTHING)
    changed[1]["spec"]["ports"][1]["port"] = 8080
    del changed[3]["data"]["a"]
    mark = server.mark()
    result = run(server, changed)
    assert result["plan"]["update"] == 2 and not result["refused"]
    assert [entry[0] for entry in server.writes(mark)] == ["patch", "patch"]
    assert "a: 1" in result["diff"]["before"] and "a: 1" not in result["diff"]["after"]
    assert "managedFields" not in result["diff"]["before"] and "uid" not in result["diff"]["before"]
    assert server.client().get("/api/v1/namespaces/default/configmaps/one")["data"] == {"n": "5"}
    assert not run(server, changed)["changed"]

    mark = server.mark()
    assert run(server, EVERYTHING, state="absent", check=True)["plan"]["delete"] == 5
    assert server.writes(mark) == []
    result = run(server, EVERYTHING, state="absent")
    assert result["plan"]["delete"] == 5 and not result["failures"]
    mark = server.mark()
    result = run(server, EVERYTHING, state="absent")
    assert not result["changed"] and not result["refused"] and not result["failures"] and server.writes(mark) == []


def test_drift_is_repaired_where_nobody_else_took_the_field(server):
    run(server, [ROLE])
    client = server.client()
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/mcn:test"
    client.merge_patch(path, {"metadata": {"labels": {"theirs": "x"}}}, "kubectl")
    assert not run(server, [ROLE])["changed"]
    client.merge_patch(path, {"rules": []}, "kubectl")
    # nothing of it is owned any more
    assert reasons(run(server, [ROLE])) == [("ClusterRole aws/mcn:test", "not_ours")]
    assert run(server, [ROLE], adopt=True)["plan"]["update"] == 1
    role = client.get(path)
    assert role["rules"] == ROLE["rules"] and role["metadata"]["labels"] == {"theirs": "x"}
    mark = server.mark()
    assert not run(server, [ROLE])["changed"] and server.writes(mark) == []


def test_an_owned_field_that_somebody_else_changed_fails_the_run(server):
    """Unless the inventory leaves it: a green run over something stale is worse than a red one."""
    run(server, [CONFIG])
    client, path = server.client(), "/api/v1/namespaces/default/configmaps/one"
    client.merge_patch(path, {"data": {"a": "theirs"}}, "kubectl-patch")
    mark = server.mark()
    result = run(server, [CONFIG, ROLE])
    assert [(row["reason"], "kubectl-patch" in row["message"]) for row in result["failures"]] == [
        ("conflict", True)
    ] and not result["refused"]
    assert result["plan"]["create"] == 1, "the rest goes on"
    result = run(server, [CONFIG], leave_conflicts=True)
    assert reasons(result) == [("ConfigMap aws/default/one", "conflict")] and not result["failures"]
    assert client.get(path)["data"]["a"] == "theirs" and len(server.writes(mark)) == 1
    assert run(server, [CONFIG], adopt=True)["plan"]["update"] == 1
    assert client.get(path)["data"]["a"] == "1" and not run(server, [CONFIG])["changed"]


def test_what_is_as_desired_becomes_owned_when_it_is_adopted(server):
    client = server.client()
    path = "/api/v1/namespaces/default/configmaps/one"
    client.create("/api/v1/namespaces/default/configmaps", dict(CONFIG, data={"a": "1", "n": "5"}), "kubectl")
    mark = server.mark()
    assert not run(server, [CONFIG])["changed"] and server.writes(mark) == []
    assert run(server, [CONFIG], adopt=True)["plan"]["update"] == 1
    assert {
        entry["manager"] for entry in client.get(path)["metadata"]["managedFields"] if "f:data" in entry["fieldsV1"]
    } == {"multicluster.network/t"}
    mark = server.mark()
    for adopt in (True, False):
        assert not run(server, [CONFIG], adopt=adopt)["changed"] and server.writes(mark) == []
    # and what we no longer say goes, since nobody else is on record for it
    assert run(server, [dict(CONFIG, data={"b": "2"})])["plan"]["update"] == 1
    assert client.get(path)["data"] == {"b": "2"}


def test_unowned_object_is_refused_and_the_rest_goes_on(server):
    client = server.client()
    unowned = dict(CONFIG, data={"a": "theirs"})
    client.create("/api/v1/namespaces/default/configmaps", unowned, "kubectl")
    result = run(server, [CONFIG, ROLE])
    assert reasons(result) == [("ConfigMap aws/default/one", "not_ours")] and result["plan"]["create"] == 1
    assert client.get("/api/v1/namespaces/default/configmaps/one")["data"] == {"a": "theirs"}
    assert reasons(run(server, [CONFIG, ROLE], state="absent")) == [("ConfigMap aws/default/one", "not_ours")]
    assert client.get("/api/v1/namespaces/default/configmaps/one")["data"] == {"a": "theirs"}
    assert run(server, [CONFIG], adopt=True)["plan"]["update"] == 1
    assert not run(server, [CONFIG])["changed"]


def test_purge_and_budget(server):
    scope = [{"api_version": "v1", "kind": "ConfigMap", "namespace": "default", "label_selector": None}]
    many = [dict(CONFIG, metadata={"name": "m%02d" % n, "namespace": "default"}, data={"a": "x"}) for n in range(20)]
    client = server.client()
    client.create("/api/v1/namespaces/default/configmaps", dict(CONFIG, data={"a": "theirs"}), "kubectl")
    run(server, many, purge=scope)
    result = run(server, many[:8], purge=scope)
    assert reasons(result) == [("aws", "delete_budget")] and not result["changed"]
    result = run(server, many[:15], purge=scope)
    assert result["plan"]["delete"] == 5 and result["stats"]["requests"]["aws"] == {"delete": 5, "get": 1, "list": 1}
    assert reasons(run(server, [], purge=scope)) == [("aws", "delete_budget")]
    assert run(server, [], purge=scope, confirm_empty=["aws"])["plan"]["delete"] == 15
    assert client.get("/api/v1/namespaces/default/configmaps/one")["data"] == {"a": "theirs"}


def test_patching_a_label_onto_something_never_makes_it_owned(server):
    client = server.client()
    client.create("/api/v1/namespaces/default/configmaps", dict(CONFIG, data={"a": "theirs"}), "kubectl")
    client.strategic_patch(
        "/api/v1/namespaces/default/configmaps/one", {"metadata": {"annotations": {"x": "y"}}}, "multicluster.network/t"
    )
    scope = [{"api_version": "v1", "kind": "ConfigMap", "namespace": "default", "label_selector": None}]
    assert run(server, [], purge=scope, state="absent")["plan"]["delete"] == 0


def test_unserved_kind(server):
    unknown = dict(POOL, apiVersion="nowhere.example.org/v1")
    result = run(server, [unknown, ROLE], skip_unserved=True)
    assert reasons(result) == [("Pool aws/p", "kind_not_served")] and result["plan"]["create"] == 1
    result = run(server, [unknown])
    assert [entry["reason"] for entry in result["failures"]] == ["kind_not_served"] and not result["refused"]
    assert not run(server, [unknown], state="absent")["failures"]


def test_server_refusal_is_this_objects_failure_only(server):
    bad = copy.deepcopy(SERVICE)
    bad["spec"]["ports"][0]["port"] = 99999
    result = run(server, [bad, ROLE])
    assert [entry["reason"] for entry in result["failures"]] == ["invalid"], result["failures"]
    assert result["plan"]["create"] == 1
    assert result["changed"] and result["diff"]["after"].startswith("ClusterRole aws/mcn:test")


def test_manifests_that_cannot_be_owned_or_read_are_refused(server):
    bare = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bare", "namespace": "default"}}
    result = run(server, [bare, {"kind": "X"}, dict(ROLE, metadata={"name": "../x"}), ROLE, ROLE])
    assert [entry["reason"] for entry in result["refused"]] == ["manifest_invalid"] * 3 + ["claimed_twice"]
    assert result["plan"]["create"] == 1
    bare["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "multicluster.network"}
    assert run(server, [bare])["plan"]["create"] == 1
    assert not run(server, [bare])["changed"]
    assert run(server, [bare], state="absent")["plan"]["delete"] == 1


def test_a_secret_shows_fingerprints_only(server):
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default"},
        "data": {"key": "aHVudGVyMg=="},
    }
    result = run(server, [secret])
    assert "sha256:" in result["diff"]["after"] and "aHVudGVyMg" not in str(result)
    assert not run(server, [secret])["changed"]
    run(server, [secret], state="absent")
