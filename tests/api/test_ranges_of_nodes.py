# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a mesh over real API servers that hold what Calico's IPAM and Cilium's operator wrote (tests/fixtures/cni)."""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import hashlib
import json
import pathlib
import random
import threading
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects, cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import mesh_plan
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh.watch import Watch
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Conflict
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.watch import Settings
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import access_manifests
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import parse_address
from ansible_collections.multicluster.network.plugins.module_utils._values.prefix_sets import PrefixSet

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "cni"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = "crd.projectcalico.org/v1"
NODES = {"aws": ["aws-node-1"], "cal": ["cal-node-1", "cal-node-2"]}
POD_CIDRS = {"aws": ["10.2.0.0/16"], "cal": ["192.168.0.0/16", "10.244.0.0/16", "10.251.0.0/16", "10.252.0.0/16"]}


def recorded(name, *kinds):
    return [item for item in json.loads((FIXTURES / (name + ".json")).read_text())["items"] if item["kind"] in kinds]


def key_of(name):
    return base64.b64encode(hashlib.sha256(name.encode()).digest()).decode()


def node(name, number, remote, cidrs):
    notes = {"pubKey": key_of(name), "endpoint": f"10.66.{len(name)}.{number}:51820"}
    annotations = {f"{remote}.wireguard.semaphore.uw.io/{key}": value for key, value in notes.items()}
    addresses = [{"type": "InternalIP", "address": notes["endpoint"].partition(":")[0]}]
    spec = {"podCIDR": cidrs[0], "podCIDRs": cidrs} if cidrs else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
        "status": {"addresses": addresses},
    }


def serve(client, api_version, kind, plural):
    """Define a kind that takes whatever its program writes."""
    group, dummy, version = api_version.partition("/")
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": kind + "List"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    with contextlib.suppress(Conflict):
        client.create(DEFINITIONS, body, "tests")
    deadline = time.monotonic() + 60
    while client.resource(api_version, kind, refresh=True) is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)


PLURALS = {"BlockAffinity": "blockaffinities", "IPAMBlock": "ipamblocks", "CiliumNode": "ciliumnodes"}


def withdraw(client):
    """No kind of a network plugin is served any more."""
    for item in client.list(DEFINITIONS).items:
        if item["spec"]["names"]["plural"] in PLURALS.values():
            client.delete(f"{DEFINITIONS}/{item['metadata']['name']}")
    for version in (CRD, "projectcalico.org/v3", "cilium.io/v2"):
        deadline = time.monotonic() + 60
        while any(client.resource(version, kind, refresh=True) for kind in PLURALS):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def put(client, items):
    """These objects of network plugins, and no others of their kinds."""
    kinds = {(item["apiVersion"], item["kind"]) for item in items}
    for version, kind in kinds:
        serve(client, version, kind, PLURALS[kind])
        path = f"/apis/{version}/{PLURALS[kind]}"
        for item in client.list(path).items:
            client.delete(f"{path}/{item['metadata']['name']}")
    for item in items:
        path = f"/apis/{item['apiVersion']}/{PLURALS[item['kind']]}"
        body = dict(item, metadata={"name": item["metadata"]["name"]})
        body.pop("status", None)
        client.create(path, body, "calico")


@pytest.fixture(scope="module")
def servers(server, tmp_path_factory):
    other = type(server)(tmp_path_factory.mktemp("cal"))
    try:
        other.start()
        yield {"aws": server, "cal": other}
    finally:
        other.stop()


@pytest.fixture
def fabric(servers):
    for name, one in servers.items():
        client = one.client()
        remote = "cal" if name == "aws" else "aws"
        for number, host in enumerate(NODES[name], 1):
            cidr = f"10.2.{number}.0/24" if name == "aws" else f"10.244.{number}.0/24"
            client.create("/api/v1/nodes", node(host, number, remote, [cidr]), "kubelet")
    yield servers
    for one in servers.values():
        client = one.client()
        withdraw(client)
        for item in client.list("/api/v1/nodes").items:
            client.delete("/api/v1/nodes/" + item["metadata"]["name"])


def plan(servers, accesses=None, **variables):
    definition = {
        "clusters": {name: {"pod_cidrs": POD_CIDRS[name]} for name in servers},
        "nodes": {host: {"multicluster_cluster": name} for name, hosts in NODES.items() for host in hosts},
    }
    definition["clusters"]["cal"].update(variables)
    given = accesses or {}
    clusters = [given.get(name) or one.access(name) for name, one in servers.items()]
    return mesh_plan.run({"fabric": "t", "definition": definition, "clusters": clusters, "timeout": 60})


def ranges(result):
    remote = result["mesh"]["clusters"]["aws"]["remotes"]["cal"]
    assert [route["dst"] for route in remote["routes"]] == POD_CIDRS["cal"], (
        "routes stay one for each range of the cluster"
    )
    return {peer["node"]: sorted(peer["allowed_ips"]) for peer in remote["peers"]}


def source(result):
    return result["mesh"]["pod_ranges"]["cal"]["source"]


OLD = {"cal-node-1": ["10.244.1.0/24"], "cal-node-2": ["10.244.2.0/24"]}


def test_blocks_are_followed_as_they_come_and_move(fabric):
    client = fabric["cal"].client()
    assert ranges(plan(fabric)) == OLD
    put(client, recorded("ipam-0-tunnel-only", "BlockAffinity", "IPAMBlock"))
    result = plan(fabric)
    assert source(result) == "calico" and not result["refused"] and not result["failures"] and not result["warnings"]
    assert ranges(result) == {"cal-node-1": ["192.168.185.64/26"], "cal-node-2": ["192.168.194.128/26"]}
    put(client, recorded("ipam-2-70-allocations", "BlockAffinity", "IPAMBlock"))
    assert ranges(plan(fabric))["cal-node-1"] == ["192.168.185.128/26", "192.168.185.64/26"]
    put(client, recorded("ipam-9-block-moved", "BlockAffinity", "IPAMBlock"))
    assert ranges(plan(fabric)) == {
        "cal-node-1": ["10.251.0.0/26", "192.168.185.128/26", "192.168.185.64/26"],
        "cal-node-2": ["10.251.0.1/32", "10.251.0.2/31", "10.251.0.64/26", "192.168.194.128/26"],
    }
    assert ranges(plan(fabric, pod_ranges="node")) == OLD


def test_the_newer_group_of_calico_and_cilium(fabric):
    client = fabric["cal"].client()
    names = {"gcp-node-1": "cal-node-1", "gcp-node-2": "cal-node-2"}
    v3 = recorded("ipam-v3-crds", "BlockAffinity", "IPAMBlock")
    for item in v3:
        if "node" in item["spec"]:
            item["spec"]["node"] = names[item["spec"]["node"]]
        else:
            item["spec"]["affinity"] = "host:" + names[item["spec"]["affinity"].partition(":")[2]]
    put(client, v3)
    result = plan(fabric)
    assert {row["reason"] for row in result["refused"]} == {"outside_grant"} and ranges(result) == {}
    result = plan(fabric, pod_cidrs=["10.9.0.0/16", *POD_CIDRS["cal"]])
    assert result["mesh"]["clusters"]["aws"]["remotes"]["cal"]["peers"][0]["allowed_ips"] == ["10.9.0.144/28"]
    cilium = recorded("ciliumnodes-cluster-pool", "CiliumNode")
    for item in cilium:
        item["metadata"]["name"] = names[item["metadata"]["name"]]
    put(client, cilium)
    result = plan(fabric, pod_cidrs=["10.0.0.0/16"])
    peers = result["mesh"]["clusters"]["aws"]["remotes"]["cal"]["peers"]
    assert source(result) == "cilium" and [peer["allowed_ips"] for peer in peers] == [["10.0.0.0/24"], ["10.0.1.0/24"]]


def account(server, tmp_path, name, capability=None, rules=()):
    """An access with the rights of a capability, or with those given."""
    manifests = access_manifests([capability or "mesh"], prefix=name)
    if not capability:
        next(item for item in manifests if item["kind"] == "ClusterRole")["rules"] = list(rules)
    made = cluster_objects.run(
        {"fabric": "t", "clusters": [server.access("cal")], "objects": manifests, "state": "present"}
    )
    assert not made["failures"] and not made["refused"]
    path = tmp_path / name
    request = {
        "fabric": "t",
        "clusters": [server.access("cal")],
        "service_account": f"{name}-{(capability or 'mesh').replace('_', '-')}",
        "namespace": "kube-system",
        "path": str(path),
        "expires": 3600,
        "renew_before": 1800,
        "state": "present",
    }
    assert not cluster_token.run(request)["failures"]
    return {"name": "cal", "kubeconfig": str(path)}


BEFORE = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]}]


def test_rights_of_the_mesh_are_enough_and_those_of_before_keep_working(fabric, tmp_path):
    one = fabric["cal"]
    new = {"cal": account(one, tmp_path, "new", "mesh")}
    old = {"cal": account(one, tmp_path, "old", rules=BEFORE)}
    for accesses in (new, old):
        result = plan(fabric, accesses)
        assert ranges(result) == OLD and not result["warnings"], "without another network plugin nothing is needed"
        assert result["stats"]["requests"]["cal"]["list"] == 1
    put(one.client(), recorded("ipam-3-borrowed", "BlockAffinity", "IPAMBlock"))
    assert source(plan(fabric, new)) == "calico" and ranges(plan(fabric, new))["cal-node-2"][0] == "10.251.0.1/32"
    result = plan(fabric, old)
    assert source(result) == "node" and ranges(result) == OLD and not result["failures"]
    (warning,) = result["warnings"]
    assert (
        "may not list blockaffinities.crd.projectcalico.org" in warning and "cluster_access_capability: mesh" in warning
    )
    result = plan(fabric, old, pod_ranges="calico")
    remote = result["mesh"]["clusters"]["aws"]["remotes"]["cal"]
    assert remote["complete"] is False and remote["peers"] == []
    assert [(row["cluster"], row["reason"]) for row in result["failures"]] == [("cal", "source_incomplete")]
    assert "cluster_access_capability: mesh" in result["failures"][0]["message"]


def pod(client, name, host, address):
    path = "/api/v1/namespaces/default/pods"
    spec = {"nodeName": host, "containers": [{"name": "a", "image": "a"}], "automountServiceAccountToken": False}
    client.create(path, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}, "tests")
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    client.merge_patch(f"{path}/{name}/status", {"status": status}, "kubelet")


def test_pods_are_the_source_where_nothing_else_is(fabric, tmp_path):
    one = fabric["cal"]
    client = one.client()
    for number, host in enumerate(NODES["cal"], 1):
        client.delete("/api/v1/nodes/" + host)
        client.create("/api/v1/nodes", node(host, number, "aws", []), "kubelet")
    try:
        for number in range(6):
            pod(client, f"p{number}", NODES["cal"][number % 2], f"10.251.{number % 2}.{number}")
        result = plan(fabric, {"cal": account(one, tmp_path, "pods", "mesh_pods")})
        assert source(result) == "pods"
        assert ranges(result) == {"cal-node-1": ["10.251.0.0/29"], "cal-node-2": ["10.251.1.0/29"]}
        result = plan(fabric, {"cal": account(one, tmp_path, "less", "mesh")})
        assert {row["reason"] for row in result["refused"]} == {"bad_pod_cidr"} and ranges(result) == {}
        assert "cluster_access_capability: mesh_pods" in result["warnings"][0]
    finally:
        for number in range(6):
            client.delete(f"/api/v1/namespaces/default/pods/p{number}")


def listen(access, seconds, act, enough):
    """(kind, name) of the changes from ``act()`` on until it is enough, and the lines of the log."""
    stop, found, log = threading.Event(), set(), []
    watched = [{"resource": name} for name in ("nodes", "blockaffinities", "ipamblocks", "ciliumnodes")]
    settings = Settings(seconds=60, undefined_pause=0.5)
    request = {"clusters": [access], "watch": watched, "window": 0.05, "longest": 0.5, "settings": settings}
    watch = Watch(request, stop, log.append)
    watch.start()
    try:
        end = time.monotonic() + seconds
        while not watch.complete and time.monotonic() < end:
            watch.next(0.1)
        assert watch.complete, log
        act()
        while time.monotonic() < end and not enough(found):
            found.update((event["kind"], name) for event in watch.next(0.2) for name in event["names"])
        return found, log
    finally:
        stop.set()


def test_blocks_are_news_pods_in_them_are_none_and_an_old_account_is_no_trouble(fabric, tmp_path):
    client = fabric["cal"].client()
    put(client, recorded("ipam-0-tunnel-only", "BlockAffinity", "IPAMBlock"))
    block = f"/apis/{CRD}/ipamblocks/192-168-185-64-26"

    def change():
        spec = client.get(block)["spec"]
        spec["attributes"].append(
            {"handle_id": "k8s-pod-network.x", "secondary": {"node": "cal-node-1", "pod": "x", "namespace": "d"}}
        )
        spec["allocations"][5] = 1
        client.merge_patch(block, {"spec": spec}, "calico")  # a pod: no news
        new = [
            item for item in recorded("ipam-2-70-allocations", "BlockAffinity") if "128-26" in item["metadata"]["name"]
        ]
        for item in new:
            if item["spec"]["node"] == "cal-node-1":
                body = dict(item, metadata={"name": item["metadata"]["name"]})
                client.create(f"/apis/{CRD}/blockaffinities", body, "calico")

    expected = ("BlockAffinity", "cal-node-1-192-168-185-128-26")
    access = account(fabric["cal"], tmp_path, "follow", "follow")
    found, log = listen(access, 60, change, lambda seen: expected in seen)
    assert found == {expected}, log
    old = account(
        fabric["cal"],
        tmp_path,
        "before",
        rules=[{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}],
    )
    note = {"metadata": {"labels": {"seen": "yes"}}}
    expected_node = ("Node", "cal-node-1")

    def label():
        client.merge_patch("/api/v1/nodes/cal-node-1", note, "tests")

    found, log = listen(old, 60, label, lambda seen: expected_node in seen)
    assert found == {expected_node} and any("blockaffinities" in line and "forbidden" in line for line in log)


@pytest.mark.takes_long
def test_a_hundred_and_ten_pods_on_each_of_twenty_nodes(servers):
    """By Pods, with addresses anywhere in the range: each is an allowed IP of its node alone, and a further run finds the same and writes nothing."""
    client, nodes = servers["cal"].client(), [f"n{number}" for number in range(20)]
    servers["aws"].client().create("/api/v1/nodes", node("aws-node-1", 1, "cal", ["10.2.1.0/24"]), "kubelet")
    placed = {}
    try:
        for number, name in enumerate(nodes, 1):
            client.create("/api/v1/nodes", node(name, number, "aws", []), "kubelet")
        places = random.Random(37).sample(range(1, 1 << 16), 110 * len(nodes))
        for at, place in enumerate(places):
            placed.setdefault(nodes[at % len(nodes)], set()).add(f"192.168.{place >> 8}.{place & 255}")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: run_pods(servers["cal"].client(), name, sorted(placed[name])), nodes))
        definition = {
            "clusters": {
                "aws": {"pod_cidrs": POD_CIDRS["aws"]},
                "cal": {"pod_cidrs": POD_CIDRS["cal"], "pod_ranges": "pods"},
            },
            "nodes": {
                "aws-node-1": {"multicluster_cluster": "aws"},
                **{name: {"multicluster_cluster": "cal"} for name in nodes},
            },
        }
        asked = {
            "fabric": "t",
            "definition": definition,
            "clusters": [one.access(name) for name, one in servers.items()],
            "timeout": 60,
        }
        before = versions(servers)
        first, began = mesh_plan.run(asked), time.process_time()
        second = mesh_plan.run(asked)
        spent = time.process_time() - began
        print(f"a plan of {len(nodes)} nodes with {len(places)} pods took {spent:.2f} s of processor time")
        assert source(first) == "pods" and not first["refused"] and not first["failures"] and spent < 10
        for peer in first["mesh"]["clusters"]["aws"]["remotes"]["cal"]["peers"]:
            assert len(peer["allowed_ips"]) <= 110
            found = PrefixSet.of_texts(peer["allowed_ips"])
            for name, addresses in placed.items():
                inside = sum(parse_address(text) in found for text in addresses)
                assert inside == (110 if name == peer["node"] else 0), (peer["node"], name)
        assert second["mesh"] == first["mesh"] and versions(servers) == before
        assert all(sum(one.values()) <= 8 for one in second["stats"]["requests"].values()), second["stats"]
    finally:
        for name in placed:
            delete_pods(client, name)
        for name, names in (("aws", ["aws-node-1"]), ("cal", nodes)):
            for one in names:
                servers[name].client().delete("/api/v1/nodes/" + one)


PODS = "/api/v1/namespaces/default/pods"


def run_pods(client, node_name, addresses):
    for number, address in enumerate(addresses):
        name = f"{node_name}-{number}"
        spec = {"nodeName": node_name, "containers": [{"name": "a", "image": "a"}]}
        client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}, "tests")
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
        client.merge_patch(f"{PODS}/{name}/status", {"status": status}, "kubelet")


def delete_pods(client, node_name):
    for number in range(110):
        client.delete(f"{PODS}/{node_name}-{number}?gracePeriodSeconds=0")


def versions(servers):
    """Of each Node and Pod, so that whatever is written is seen."""
    found = {}
    for name, one in servers.items():
        for path in ("/api/v1/nodes", "/api/v1/pods"):
            for item in one.client().list(path).items:
                found[name, path, item["metadata"]["name"]] = item["metadata"]["resourceVersion"]
    return found
