# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""node_annotations against a real API server. The audit log shows what was really written (decision 44)."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import node_annotations

KEY, ENDPOINT = "gcp.wireguard.semaphore.uw.io/pubKey", "gcp.wireguard.semaphore.uw.io/endpoint"
PREFIXES = ["*.wireguard.semaphore.uw.io/pubKey", "*.wireguard.semaphore.uw.io/endpoint"]


def make_nodes(server, names, annotations=None):
    client = server.client()
    for name in names:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations or {}}}
        client.create("/api/v1/nodes", body, "kubelet")


def annotations_of(server, name):
    return server.client().get("/api/v1/nodes/" + name)["metadata"].get("annotations") or {}


def request_for(server, annotations, **more):
    return dict({"fabric": "t", "clusters": [server.access()], "annotations": annotations, "timeout": 20}, **more)


@pytest.fixture
def nodes(server):
    names = ["node-1", "node-2", "node-3"]
    make_nodes(server, names, {"unowned/key": "stays"})
    yield names
    client = server.client()
    for node in client.list("/api/v1/nodes").items:
        client.delete("/api/v1/nodes/" + node["metadata"]["name"])


def test_create_again_change_absent(server, nodes):
    desired = {"aws": {name: {KEY: "k-" + name, ENDPOINT: "10.0.0.1:51821"} for name in nodes}}

    mark = server.mark()
    result = node_annotations.run(request_for(server, desired), check=True)
    assert result["changed"] and result["plan"]["update"] == 3 and server.writes(mark) == []
    assert "k-node-2" in result["diff"]["after"] and "k-node-2" not in result["diff"]["before"]

    mark = server.mark()
    result = node_annotations.run(request_for(server, desired))
    assert result["changed"] and not result["refused"] and not result["failures"]
    assert result["stats"]["requests"] == {"aws": {"list": 1, "patch": 3}}
    assert [verb for verb, path, status in server.audit(mark)] == ["list", "patch", "patch", "patch"]
    assert annotations_of(server, "node-1") == {"unowned/key": "stays", KEY: "k-node-1", ENDPOINT: "10.0.0.1:51821"}

    mark = server.mark()
    result = node_annotations.run(request_for(server, desired))
    assert not result["changed"] and result["plan"]["unchanged"] == 3
    assert [verb for verb, path, status in server.audit(mark)] == ["list"]
    assert not node_annotations.run(request_for(server, desired), check=True)["changed"]

    desired["aws"]["node-2"][KEY] = "rotated"
    mark = server.mark()
    result = node_annotations.run(request_for(server, desired))
    assert server.writes(mark) == [("patch", "/api/v1/nodes/node-2", 200)]
    assert result["plan"]["changes"] == [
        {"action": "update", "kind": "node", "id": "aws/node-2", "fields": ["annotations"]}
    ]
    assert result["diff"] == {
        "before": f"node aws/node-2\n  annotations:\n    {KEY}: k-node-2\n",
        "after": f"node aws/node-2\n  annotations:\n    {KEY}: rotated\n",
    }

    result = node_annotations.run(request_for(server, {"aws": nodes}, state="absent", prefixes=PREFIXES))
    assert result["changed"] and annotations_of(server, "node-1") == {"unowned/key": "stays"}
    mark = server.mark()
    assert not node_annotations.run(request_for(server, {"aws": nodes}, state="absent", prefixes=PREFIXES))["changed"]
    assert server.writes(mark) == []


def test_a_partial_call_never_touches_other_nodes(server, nodes):
    desired = {"aws": {name: {KEY: "k"} for name in nodes}}
    node_annotations.run(request_for(server, desired))
    result = node_annotations.run(request_for(server, {"aws": {"node-1": {KEY: "new"}}}, prefixes=PREFIXES))
    assert result["plan"]["update"] == 1
    assert annotations_of(server, "node-2")[KEY] == "k"


def test_purge_takes_only_what_is_owned_and_stays_in_budget(server, nodes):
    stale = "old.wireguard.semaphore.uw.io/pubKey"
    node_annotations.run(request_for(server, {"aws": {name: {KEY: "k", stale: "s"} for name in nodes}}))
    client = server.client()
    client.strategic_patch("/api/v1/nodes/node-3", {"metadata": {"annotations": {stale: "theirs"}}}, "kubectl")
    desired = {"aws": {name: {KEY: "k"} for name in nodes}}
    result = node_annotations.run(request_for(server, desired, prefixes=PREFIXES, max_deletes=1))
    assert not result["changed"] and [entry["reason"] for entry in result["refused"]] == ["delete_budget"]
    result = node_annotations.run(request_for(server, desired, prefixes=PREFIXES, purge="all"))
    assert result["plan"]["update"] == 2
    assert annotations_of(server, "node-3")[stale] == "theirs" and stale not in annotations_of(server, "node-1")
    nothing = request_for(server, {}, prefixes=PREFIXES, purge="all")
    assert [entry["reason"] for entry in node_annotations.run(nothing)["refused"]] == ["delete_budget"]
    assert node_annotations.run(dict(nothing, confirm_empty=["aws"]))["plan"]["update"] == 3


def test_unowned_value_is_adoptable_only(server, nodes):
    server.client().strategic_patch("/api/v1/nodes/node-1", {"metadata": {"annotations": {KEY: "old"}}}, "semaphore")
    desired = {"aws": {"node-1": {KEY: "new"}, "node-2": {KEY: "fine"}, "node-9": {KEY: "x"}}}
    result = node_annotations.run(request_for(server, desired))
    assert [(entry["object"], entry["reason"]) for entry in result["refused"]] == [
        ("aws/node-1", "adoptable"),
        ("aws/node-9", "no_such_node"),
    ]
    assert annotations_of(server, "node-1")[KEY] == "old" and annotations_of(server, "node-2")[KEY] == "fine"
    assert node_annotations.run(request_for(server, desired, adopt=True))["plan"]["update"] == 1
    assert annotations_of(server, "node-1")[KEY] == "new"


def test_pending_values_are_for_check_mode(server, nodes):
    desired = {"aws": {"node-1": {KEY: {"__pending__": "public key of node-1"}}}}
    result = node_annotations.run(request_for(server, desired), check=True)
    assert result["changed"] and "(public key of node-1, known after apply)" in result["diff"]["after"]
    result = node_annotations.run(request_for(server, desired))
    assert not result["changed"] and result["refused"][0]["reason"] == "value_pending"


def test_a_dead_cluster_fails_alone(server, nodes):
    dead = dict(server.access("gcp"), api_url="https://127.0.0.1:1")
    bad = {"name": "nocred", "api_url": server.url}
    desired = {"aws": {"node-1": {KEY: "k"}}, "gcp": {"n": {KEY: "k"}}, "xyz": {"n": {KEY: "k"}}}
    result = node_annotations.run(dict(request_for(server, desired), clusters=[dead, bad, server.access()]))
    assert result["changed"] and annotations_of(server, "node-1")[KEY] == "k"
    assert {(f["cluster"], f["reason"]) for f in result["failures"]} == {
        ("gcp", "source_incomplete"),
        ("nocred", "remote_access_incomplete"),
    }
    assert [entry["reason"] for entry in result["refused"]] == ["unknown_cluster"]


def test_twelve_hundred_nodes_are_paged_and_one_patch_is_sent(server, nodes):
    import concurrent.futures

    client = server.client()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        body = {"apiVersion": "v1", "kind": "Node"}
        list(
            pool.map(
                lambda n: client.create("/api/v1/nodes", dict(body, metadata={"name": "many-%04d" % n}), "kubelet"),
                range(1200),
            )
        )
    desired = {"aws": {"many-%04d" % n: {KEY: "k%d" % n} for n in range(1200)}}
    result = node_annotations.run(request_for(server, desired))
    assert result["plan"]["update"] == 1200 and not result["failures"] and len(result["plan"]["changes"]) == 200
    desired["aws"]["many-0777"][KEY] = "other"
    mark = server.mark()
    result = node_annotations.run(request_for(server, desired))
    assert result["refused"] == [] and result["failures"] == []
    assert result["stats"]["requests"] == {"aws": {"list": 3, "patch": 1}}  # 1,203 nodes, 500 a page
    assert server.writes(mark) == [("patch", "/api/v1/nodes/many-0777", 200)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: client.delete("/api/v1/nodes/many-%04d" % n), range(1200)))


def test_what_another_program_wrote_is_taken_over_and_left_to_it(server, nodes):
    """Decision 54: solely owned when taken, nobody's when given up; the values, and the rest of the Node, stay all the while."""
    client = server.client()
    for name in nodes:
        client.strategic_patch(
            "/api/v1/nodes/" + name,
            {"metadata": {"annotations": {KEY: "k-" + name, ENDPOINT: "10.0.0.1:51821"}}},
            "semaphore-wireguard",
        )
    desired = {"aws": {name: {KEY: "k-" + name, ENDPOINT: "10.0.0.1:51821"} for name in nodes}}
    before = {name: annotations_of(server, name) for name in nodes}

    def on_record(name):
        entries = client.get("/api/v1/nodes/" + name)["metadata"].get("managedFields") or []
        return {
            entry["manager"]
            for entry in entries
            if "f:" + KEY in entry["fieldsV1"].get("f:metadata", {}).get("f:annotations", {})
        }

    node_annotations.run(request_for(server, desired, adopt=True))
    assert all(on_record(name) == {"multicluster.network/t"} for name in nodes)
    request = request_for(server, {"aws": nodes[:2]}, state="released", prefixes=PREFIXES)
    mark = server.mark()
    planned = node_annotations.run(request, check=True)
    assert planned["plan"]["update"] == 2 and server.writes(mark) == []
    assert node_annotations.run(request)["plan"]["update"] == 2
    assert [on_record(name) for name in nodes] == [set(), set(), {"multicluster.network/t"}], (
        "only those that were named"
    )
    assert {name: annotations_of(server, name) for name in nodes} == before
    assert "kubelet" in {entry["manager"] for entry in client.get("/api/v1/nodes/node-1")["metadata"]["managedFields"]}
    mark = server.mark()
    assert not node_annotations.run(request)["changed"] and server.writes(mark) == []
    # and the other program may change what is its own again
    desired["aws"]["node-1"][KEY] = "new"
    assert [row["reason"] for row in node_annotations.run(request_for(server, desired))["refused"]] == ["adoptable"]
