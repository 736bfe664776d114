# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kilo's cluster mesh over three real API servers. The audit logs say what was really written (decision 44)."""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.clustermesh import converge as clustermesh
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh.watch import Watch
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import errors
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client

PEERS = "/apis/kilo.squat.ai/v1alpha1/peers"
MESHES = "/apis/kilo.squat.ai/v1alpha1/namespaces/default/clustermeshes"
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FILES = REPOSITORY / "roles" / "clustermesh_crds" / "files"
NUMBERS = {"eu": 20, "us": 30, "ap": 40}


def key_of(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def entry(name, **more):
    number = NUMBERS[name]
    return dict(
        {
            "name": name,
            "podCIDRs": ["10.%d.0.0/16" % number],
            "wireguardCIDR": "100.%d.0.0/24" % (number + 50),
            "serviceCIDR": "10.%d.0.0/16" % (number + 100),
        },
        **more,
    )


def node(cluster, number, **annotations):
    name = "%s-%d" % (cluster, number)
    given = {"wireguard-ip": "100.%d.0.%d/24" % (NUMBERS[cluster] + 50, number), "key": key_of(name)}
    given.update({text.replace("_", "-"): value for text, value in annotations.items()})
    addresses = [
        {"type": "InternalIP", "address": "192.168.%d.%d" % (NUMBERS[cluster], number)},
        {"type": "ExternalIP", "address": "198.51.%d.%d" % (NUMBERS[cluster], number)},
    ]
    cidr = "10.%d.%d.0/24" % (NUMBERS[cluster], number)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"kilo.squat.ai/" + k: v for k, v in given.items() if v is not None}},
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        "status": {"addresses": addresses},
    }


def parallel(tasks):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda task: task(), tasks))


def clear(client):
    for path in (PEERS, "/api/v1/nodes"):
        parallel(
            [lambda at=path + "/" + item["metadata"]["name"]: client.delete(at) for item in client.list(path).items]
        )


def put_nodes(client, nodes):
    parallel([lambda body=body: client.create("/api/v1/nodes", body, "kubelet") for body in nodes])


def annotate(server, name, **annotations):
    given = {"kilo.squat.ai/" + text.replace("_", "-"): value for text, value in annotations.items()}
    server.client().strategic_patch("/api/v1/nodes/" + name, {"metadata": {"annotations": given}}, "kilo")


def peers_of(server):
    return {peer["metadata"]["name"]: peer for peer in server.client().list(PEERS).items}


def wait_for_kinds(client):
    deadline = time.monotonic() + 120
    for kind in ("Peer", "ClusterMesh"):
        while client.resource("kilo.squat.ai/v1alpha1", kind, refresh=True) is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.fixture(scope="module")
def servers(server, tmp_path_factory):
    """The session's API server and two more of the same kind, with both custom resource definitions."""
    more = {name: type(server)(tmp_path_factory.mktemp(name)) for name in ("us", "ap")}
    try:
        for one in more.values():
            one.start()
        found = {"eu": server, **more}
        for one in found.values():
            client = one.client()
            for name in ("peers", "clustermeshes"):
                body = yaml.safe_load((FILES / (name + ".yml")).read_text())
                with contextlib.suppress(errors.Conflict):  # another module of this session has them there
                    client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body, "test")
            wait_for_kinds(client)
        yield found
    finally:
        for one in more.values():
            one.stop()


@pytest.fixture
def mesh(servers):
    """Two nodes in each cluster, and nothing left afterwards."""
    for name, one in servers.items():
        clear(one.client())
        put_nodes(one.client(), [node(name, number) for number in (1, 2)])
    yield servers
    for one in servers.values():
        clear(one.client())


def request_for(servers, **more):
    names = more.pop("names", list(servers))
    meshes = [{"name": "prod", "clusters": [entry(name) for name in names]}]
    clusters = [one.access(name) for name, one in servers.items()]
    return dict({"fabric": "t", "clusters": clusters, "meshes": meshes, "timeout": 20}, **more)


def marks(servers):
    return {name: one.mark() for name, one in servers.items()}


def writes(servers, before):
    return {name: found for name, one in servers.items() for found in [one.writes(before[name])] if found}


def reasons(result):
    return {(entry["object"], entry["reason"]) for entry in result["refused"]}


def test_cold_unchanged_changed_absent(mesh):
    before = marks(mesh)
    result = clustermesh.run(request_for(mesh), check=True)
    assert result["plan"]["create"] == 12 and writes(mesh, before) == {} and not result["refused"]
    assert result["targets"]["us"]["create"][0] == {"name": "prod--ap--ap-1", "reason": "node ap-1 has no Peer yet"}

    result = clustermesh.run(request_for(mesh))
    assert not result["failures"] and not result["refused"] and result["plan"]["create"] == 12
    assert result["stats"]["requests"] == {name: {"apply": 4, "list": 2} for name in mesh}
    assert result["next_delay"] == 300 and result["anchors"] == {"prod": {"ap": "ap-1", "eu": "eu-1", "us": "us-1"}}
    peer = peers_of(mesh["us"])["prod--eu--eu-1"]
    assert peer["metadata"]["labels"] == {
        "kilo-clustermesh.io/mesh": "prod",
        "kilo-clustermesh.io/source-cluster": "eu",
    }
    assert peer["spec"] == {
        "publicKey": key_of("eu-1"),
        "allowedIPs": ["10.20.1.0/24", "100.70.0.1/32", "192.168.20.1/32", "10.120.0.0/16"],
        "endpoint": {"dnsOrIP": {"ip": "198.51.20.1"}, "port": 51820},
    }

    before = marks(mesh)
    result = clustermesh.run(request_for(mesh))
    assert not result["changed"] and result["plan"]["unchanged"] == 12 and writes(mesh, before) == {}
    assert result["stats"]["requests"] == {name: {"list": 2} for name in mesh}

    annotate(mesh["eu"], "eu-2", clustermesh_endpoint="eu-2.example.net:4500")
    before = marks(mesh)
    result = clustermesh.run(request_for(mesh))
    assert [(row["object"], row["reason"]) for row in result["refused"]] == [("eu/eu-2", "endpoint_unresolved")]
    assert not result["changed"] and writes(mesh, before) == {}
    assert result["targets"]["us"]["keep"] == [{"name": "prod--eu--eu-2", "reason": "endpoint_unresolved"}]
    result = clustermesh.run(request_for(mesh, strict_endpoints=False))
    assert result["plan"]["update"] == 2 and set(writes(mesh, before)) == {"us", "ap"}
    assert result["stats"]["requests"] == {
        "eu": {"list": 2},
        "us": {"apply": 1, "list": 2},
        "ap": {"apply": 1, "list": 2},
    }
    assert result["targets"]["us"]["update"] == [{"name": "prod--eu--eu-2", "reason": "differs in endpoint"}]
    endpoint = peers_of(mesh["ap"])["prod--eu--eu-2"]["spec"]["endpoint"]
    assert endpoint == {"dnsOrIP": {"dns": "eu-2.example.net"}, "port": 4500}

    result = clustermesh.run(request_for(mesh, state="absent"))
    assert result["plan"]["delete"] == 12 and all(peers_of(one) == {} for one in mesh.values())
    before = marks(mesh)
    assert not clustermesh.run(request_for(mesh, state="absent"))["changed"] and writes(mesh, before) == {}


def test_agent_restart_keeps_peers_and_gone_nodes_lose_them(mesh):
    clustermesh.run(request_for(mesh))
    annotate(mesh["eu"], "eu-1", key=None, wireguard_ip=None)
    before = marks(mesh)
    result = clustermesh.run(request_for(mesh))
    assert writes(mesh, before) == {} and ("eu/eu-1", "NodeNoWireguardIP") in reasons(result)
    assert result["targets"]["us"]["keep"] == [{"name": "prod--eu--eu-1", "reason": "NodeNoWireguardIP"}]
    # another node cannot take the address meanwhile
    annotate(mesh["eu"], "eu-2", wireguard_ip="100.70.0.1/24")
    assert ("eu/eu-2", "WGIPDuplicate") in reasons(clustermesh.run(request_for(mesh), check=True))
    annotate(mesh["eu"], "eu-2", wireguard_ip="100.70.0.2/24")

    mesh["eu"].client().delete("/api/v1/nodes/eu-1")
    result = clustermesh.run(request_for(mesh))
    assert result["plan"]["delete"] == 2 and result["targets"]["us"]["delete"] == [
        {"name": "prod--eu--eu-1", "reason": "its node is gone"}
    ]
    assert "10.120.0.0/16" in peers_of(mesh["us"])["prod--eu--eu-2"]["spec"]["allowedIPs"]

    mesh["eu"].client().delete("/api/v1/nodes/eu-2")
    before = marks(mesh)
    result = clustermesh.run(request_for(mesh))
    assert reasons(result) == {("us/eu", "delete_budget"), ("ap/eu", "delete_budget")} and writes(mesh, before) == {}
    assert result["next_delay"] == 30
    assert clustermesh.run(request_for(mesh, confirm_empty=["eu"]))["plan"]["delete"] == 2


def test_a_dead_cluster_is_isolated(mesh):
    clustermesh.run(request_for(mesh))
    annotate(mesh["us"], "us-1", clustermesh_endpoint="203.0.113.9:1")
    given = request_for(mesh)
    given["clusters"] = [
        dict(one, api_url="https://127.0.0.1:1") if one["name"] == "eu" else one for one in given["clusters"]
    ]
    before = marks(mesh)
    result = clustermesh.run(given)
    assert [(failure["cluster"], failure["reason"]) for failure in result["failures"]] == [("eu", "source_incomplete")]
    assert result["plan"]["update"] == 1 and list(writes(mesh, before)) == ["ap"] and result["plan"]["delete"] == 0
    assert "prod--eu--eu-1" in peers_of(mesh["us"])


def test_a_node_list_that_ends_half_way(mesh, monkeypatch):
    clustermesh.run(request_for(mesh))
    whole, send = Client._list, Client.send

    def small_pages(self, path, labels, fields, page):
        return whole(self, path, labels, fields, 1)

    def broken(self, request, *more):
        if self.cluster == "eu" and request.path == clustermesh.NODES and "continue" in (request.query or {}):
            raise errors.Unreachable("eu", request.operation, "the connection broke", retryable=False)
        return send(self, request, *more)

    monkeypatch.setattr(Client, "_list", small_pages)
    monkeypatch.setattr(Client, "send", broken)
    annotate(mesh["us"], "us-1", clustermesh_endpoint="203.0.113.9:1")
    before = marks(mesh)
    result = clustermesh.run(request_for(mesh))
    assert [(failure["cluster"], failure["reason"]) for failure in result["failures"]] == [("eu", "source_incomplete")]
    assert result["plan"]["delete"] == 0 and result["plan"]["update"] == 1 and set(writes(mesh, before)) == {"ap"}


def test_claims_of_a_hostile_node(mesh):
    clustermesh.run(request_for(mesh))
    for name, claims in (
        ("us-1", {"key": key_of("eu-1")}),
        ("us-2", {"wireguard_ip": "100.70.0.2/24"}),
        ("ap-1", {"key": base64.b64encode(bytes(32)).decode()}),
        ("ap-2", {"clustermesh_endpoint": "10.20.1.1:51820"}),
    ):
        annotate(mesh[name[:2]], name, **claims)
    before = marks(mesh)
    result = clustermesh.run(request_for(mesh, confirm_empty=["us", "ap"]))
    assert reasons(result) == {
        ("us/us-1", "claimed_twice"),
        ("us/us-2", "WGIPOutOfRange"),
        ("ap/ap-1", "weak_key"),
        ("ap/ap-2", "endpoint_in_overlay"),
    }
    assert peers_of(mesh["us"])["prod--eu--eu-1"]["spec"]["publicKey"] == key_of("eu-1")
    assert {verb for found in writes(mesh, before).values() for verb, path, status in found} == {"delete"}


def operator_peer(name, mesh_name, source, spec):
    labels = {"kilo-clustermesh.io/mesh": mesh_name, "kilo-clustermesh.io/source-cluster": source}
    return {
        "apiVersion": "kilo.squat.ai/v1alpha1",
        "kind": "Peer",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def test_adoption_and_release(mesh):
    client = mesh["us"].client()
    spec = {"publicKey": key_of("eu-1"), "allowedIPs": ["10.20.1.0/24"], "persistentKeepalive": 25}
    client.create(PEERS, operator_peer("prod--eu--eu-1", "prod", "eu", spec), "manager")
    client.create(PEERS, operator_peer("prod--eu--gone", "prod", "eu", dict(spec, publicKey=key_of("gone"))), "manager")
    client.create(
        PEERS,
        {
            "apiVersion": "kilo.squat.ai/v1alpha1",
            "kind": "Peer",
            "metadata": {"name": "laptop"},
            "spec": {"publicKey": key_of("ap-1"), "allowedIPs": ["10.9.9.9/32"]},
        },
        "kubectl",
    )
    result = clustermesh.run(request_for(mesh))
    assert reasons(result) == {
        ("Peer us/prod--eu--eu-1", "adoptable"),
        ("Peer us/prod--eu--gone", "adoptable"),
        ("Peer us/prod--ap--ap-1", "claimed_twice"),
    }
    assert result["adoptable"] == {"us": 2} and result["plan"]["create"] == 10
    assert peers_of(mesh["us"])["prod--eu--eu-1"]["spec"] == spec

    result = clustermesh.run(request_for(mesh, adopt=True))
    assert result["plan"]["update"] == 1 and result["plan"]["delete"] == 1
    assert "persistentKeepalive" not in peers_of(mesh["us"])["prod--eu--eu-1"]["spec"]
    before = marks(mesh)
    assert not clustermesh.run(request_for(mesh))["changed"] and writes(mesh, before) == {}
    assert "laptop" in peers_of(mesh["us"])

    kept = {name: {key: peer[key] for key in ("spec",)} for name, peer in peers_of(mesh["us"]).items()}
    result = clustermesh.run(request_for(mesh, state="released"))
    assert result["plan"]["update"] == 11
    assert {name: {key: peer[key] for key in ("spec",)} for name, peer in peers_of(mesh["us"]).items()} == kept
    before = marks(mesh)
    assert not clustermesh.run(request_for(mesh, state="released"))["changed"]
    assert not clustermesh.run(request_for(mesh, state="absent"))["changed"] and writes(mesh, before) == {}


def records(peer):
    return {entry["manager"] for entry in peer["metadata"]["managedFields"] if "f:spec" in entry["fieldsV1"]}


def test_an_adopted_peer_is_solely_owned_and_can_change(mesh):
    """Its first writer with the same values stayed on record, and the next change was a conflict in a green run."""
    client = mesh["us"].client()
    clustermesh.run(request_for(mesh))
    peer = peers_of(mesh["us"])["prod--eu--eu-1"]
    client.delete(PEERS + "/prod--eu--eu-1")
    client.create(PEERS, operator_peer("prod--eu--eu-1", "prod", "eu", peer["spec"]), "manager")
    before = marks(mesh)
    assert not clustermesh.run(request_for(mesh))["changed"] and writes(mesh, before) == {}, (
        "as desired, and of another owner"
    )
    assert clustermesh.run(request_for(mesh, adopt=True))["plan"]["update"] == 1
    assert records(peers_of(mesh["us"])["prod--eu--eu-1"]) == {"multicluster.network/t"}
    before = marks(mesh)
    assert not clustermesh.run(request_for(mesh))["changed"] and writes(mesh, before) == {}
    annotate(mesh["eu"], "eu-1", key=key_of("another"))
    result = clustermesh.run(request_for(mesh))
    assert result["plan"]["update"] == 2 and not result["refused"] and not result["failures"]
    assert peers_of(mesh["us"])["prod--eu--eu-1"]["spec"]["publicKey"] == key_of("another")


def test_a_peer_that_was_adopted_half_is_healed(mesh):
    client = mesh["us"].client()
    clustermesh.run(request_for(mesh))
    peer = peers_of(mesh["us"])["prod--eu--eu-1"]
    manifest = operator_peer("prod--eu--eu-1", "prod", "eu", peer["spec"])
    client.apply(PEERS + "/prod--eu--eu-1", manifest, "manager")
    assert records(peers_of(mesh["us"])["prod--eu--eu-1"]) == {"multicluster.network/t", "manager"}
    assert clustermesh.run(request_for(mesh), check=True)["plan"]["update"] == 1
    assert clustermesh.run(request_for(mesh))["plan"]["update"] == 1
    assert records(peers_of(mesh["us"])["prod--eu--eu-1"]) == {"multicluster.network/t"}
    before = marks(mesh)
    assert not clustermesh.run(request_for(mesh))["changed"] and writes(mesh, before) == {}


@pytest.mark.parametrize(
    "edit",
    [
        {"persistentKeepalive": 7},
        {"allowedIPs": ["10.99.0.0/16"]},
        {"publicKey": key_of("theirs")},
        {"endpoint": None},
        {"endpoint": {"dnsOrIP": {"ip": "203.0.113.9"}, "port": 1}},
        {"endpoint": {"dnsOrIP": {"dns": "a.example", "ip": None}}},
    ],
    ids=str,
)
def test_what_a_hand_changed_in_a_peer_is_repaired(mesh, edit):
    clustermesh.run(request_for(mesh))
    before = peers_of(mesh["us"])["prod--eu--eu-1"]["spec"]
    mesh["us"].client().merge_patch(PEERS + "/prod--eu--eu-1", {"spec": edit}, "kubectl-patch")
    assert peers_of(mesh["us"])["prod--eu--eu-1"]["spec"] != before
    result = clustermesh.run(request_for(mesh))
    assert result["plan"]["update"] == 1 and not result["refused"] and not result["failures"]
    peer = peers_of(mesh["us"])["prod--eu--eu-1"]
    assert peer["spec"] == before and records(peer) == {"multicluster.network/t"}
    mark = marks(mesh)
    assert not clustermesh.run(request_for(mesh))["changed"] and writes(mesh, mark) == {}


def test_a_second_key_of_a_tunnel_stays_with_its_owner(mesh):
    clustermesh.run(request_for(mesh))
    secret = base64.b64encode(b"s" * 32).decode()
    mesh["us"].client().merge_patch(PEERS + "/prod--eu--eu-1", {"spec": {"presharedKey": secret}}, "kubectl-patch")
    before = marks(mesh)
    assert not clustermesh.run(request_for(mesh))["changed"] and writes(mesh, before) == {}
    annotate(mesh["eu"], "eu-1", key=key_of("another"))
    assert not clustermesh.run(request_for(mesh))["failures"]
    assert peers_of(mesh["us"])["prod--eu--eu-1"]["spec"]["presharedKey"] == secret


def test_clustermesh_objects(mesh):
    client = mesh["eu"].client()
    body = {
        "apiVersion": "kilo.squat.ai/v1alpha1",
        "kind": "ClusterMesh",
        "metadata": {"name": "prod", "namespace": "default"},
        "spec": {"clusters": [entry("eu", local=True), entry("us"), entry("ap")]},
    }
    client.create(MESHES, body, "kubectl")
    annotate(mesh["us"], "us-2", key=None)
    given = request_for(mesh, meshes=[], management={"cluster": "eu", "namespace": "default"})
    result = clustermesh.run(given)
    assert result["plan"]["create"] == 10 and result["plan"]["update"] == 2 and not result["failures"]
    obj = client.get(MESHES + "/prod")
    assert obj["metadata"]["finalizers"] == ["kilo-clustermesh.io/cleanup"]
    assert obj["status"]["clusters"] == [
        {"name": "eu", "registeredPeers": 2, "skippedNodes": 0},
        {"name": "us", "registeredPeers": 1, "skippedNodes": 1},
        {"name": "ap", "registeredPeers": 2, "skippedNodes": 0},
    ]
    conditions = {item["type"]: item for item in obj["status"]["conditions"]}
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ("True", "Reconciled")
    assert conditions["NetworksOverlap"]["reason"] == "NoOverlap"
    assert conditions["NodesSkipped"]["message"] == "us/us-2: NodeNoPublicKey"
    before = marks(mesh)
    assert not clustermesh.run(given)["changed"] and writes(mesh, before) == {}

    dead = dict(
        given,
        clusters=[
            dict(one, api_url="https://127.0.0.1:1") if one["name"] == "us" else one for one in given["clusters"]
        ],
    )
    clustermesh.run(dead)
    conditions = {item["type"]: item for item in client.get(MESHES + "/prod")["status"]["conditions"]}
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ("False", "Degraded")
    assert "us (unreachable)" in conditions["Reachable"]["message"]

    client.delete(MESHES + "/prod")
    result = clustermesh.run(dead)
    assert ("ClusterMesh default/prod", "source_incomplete") in reasons(result)
    assert client.get(MESHES + "/prod")["metadata"]["deletionTimestamp"]
    result = clustermesh.run(given)
    assert all(peers_of(one) == {} for one in mesh.values())
    assert client.list(MESHES).items == []


def test_overlap_blocks_only_the_meshes_in_it(mesh):
    clustermesh.run(request_for(mesh, names=["eu", "us"]))
    given = request_for(mesh, names=["eu", "us"])
    given["meshes"].append(
        {
            "name": "bad",
            "clusters": [
                {"name": "ap", "allowedNetworks": ["10.50.0.0/16"]},
                {"name": "xx", "allowedNetworks": ["10.50.1.0/24"]},
            ],
        }
    )
    result = clustermesh.run(dict(given, fail_on_failures=False))
    assert ("bad", "overlap") in reasons(result) and not result["changed"] and result["plan"]["unchanged"] == 4


def test_a_hundred_nodes_each(servers):
    for name, one in servers.items():
        clear(one.client())
        put_nodes(one.client(), [node(name, number) for number in range(1, 101)])
    result = clustermesh.run(request_for(servers))
    assert result["plan"]["create"] == 600 and not result["refused"] and not result["failures"]
    cold = result["stats"]
    assert cold["requests"] == {name: {"apply": 200, "list": 2} for name in servers}
    before = marks(servers)
    result = clustermesh.run(request_for(servers))
    assert not result["changed"] and writes(servers, before) == {} and result["plan"]["unchanged"] == 600
    same = result["stats"]
    assert same["requests"] == {name: {"list": 2} for name in servers}
    annotate(servers["eu"], "eu-77", force_endpoint="203.0.113.77:51821")
    result = clustermesh.run(request_for(servers))
    assert result["plan"]["update"] == 2
    assert result["stats"]["requests"] == {
        "eu": {"list": 2},
        "us": {"apply": 1, "list": 2},
        "ap": {"apply": 1, "list": 2},
    }
    print(f"3x100: cold {cold['seconds']} s, unchanged {same['seconds']} s, one changed {result['stats']['seconds']} s")
    for one in servers.values():
        clear(one.client())


def kubeconfig_of(server, token=None):
    ca = base64.b64encode(server.ca.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server.url, "certificate-authority-data": ca}}],
        "users": [{"name": "u", "user": {"token": token or server.access()["token"]}}],
    }


class Books:
    """The collection's playbooks over the three servers."""

    def __init__(self, servers, folder):
        self.folder = folder
        hosts = {}
        for name, one in servers.items():
            (folder / name).write_text(yaml.safe_dump(kubeconfig_of(one)))
            given = entry(name)
            hosts[name] = {
                "kubeconfig": str(folder / name),
                "pod_cidrs": given["podCIDRs"],
                "wireguard_cidrs": given["wireguardCIDR"],
                "service_cidrs": [given["serviceCIDR"]],
                "node_cidrs": ["192.168.0.0/16"],
            }
        variables = {
            "ansible_connection": "local",
            "multicluster_fabric": "t",
            "clustermesh_name": "prod",
            "ansible_python_interpreter": sys.executable,
        }
        (folder / "hosts.yml").write_text(yaml.safe_dump({"clusters": {"hosts": hosts, "vars": variables}}))

    def run(self, book, *arguments, ends=0):
        environment = dict(
            os.environ, ANSIBLE_NOCOWS="1", ANSIBLE_LOCALHOST_WARNING="0", ANSIBLE_HOME=str(self.folder / "ansible")
        )
        environment["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
        path = str(REPOSITORY / "playbooks" / book) if book.endswith(".yml") else book
        command = ["ansible-playbook", "-i", str(self.folder / "hosts.yml"), path]
        options = {"env": environment, "cwd": str(self.folder), "capture_output": True, "text": True, "timeout": 180}
        done = subprocess.run(command + list(arguments), check=False, **options)
        assert done.returncode == ends, done.stdout + done.stderr
        return done.stdout + done.stderr


def test_playbooks(mesh, tmp_path):
    books = Books(mesh, tmp_path)
    before = marks(mesh)
    out = books.run("clustermesh.yml", "--check", "--diff")
    assert (
        "changed=1" in out
        and "Peer us/prod--eu--eu-1" in out
        and "node eu-1 has no Peer yet" in out
        and writes(mesh, before) == {}
    )
    assert "changed=1" in books.run("clustermesh.yml", "-e", "clustermesh_plan_file=" + str(tmp_path / "plan.json"))
    assert len(json.loads((tmp_path / "plan.json").read_text())["us"]["create"]) == 4
    before = marks(mesh)
    assert "changed=0" in books.run("clustermesh.yml") and writes(mesh, before) == {}

    annotate(mesh["eu"], "eu-1", force_endpoint="203.0.113.1:51820")
    before = marks(mesh)
    out = books.run("kilo/migrate.yml", "--check", "--diff")
    assert "kilo.squat.ai/clustermesh-endpoint: 203.0.113.1:51820" in out and writes(mesh, before) == {}
    books.run("kilo/migrate.yml", "-e", "clustermesh_migrate_remove=true")
    annotations = mesh["eu"].client().get("/api/v1/nodes/eu-1")["metadata"]["annotations"]
    assert annotations["kilo.squat.ai/clustermesh-endpoint"] == "203.0.113.1:51820"
    assert "kilo.squat.ai/force-endpoint" not in annotations
    assert peers_of(mesh["us"])["prod--eu--eu-1"]["spec"]["endpoint"] == {
        "dnsOrIP": {"ip": "203.0.113.1"},
        "port": 51820,
    }

    assert "changed=1" in books.run("kilo/teardown.yml") and all(peers_of(one) == {} for one in mesh.values())


LEAVES = ("leave.yml", "-e", '{"multicluster_capabilities": ["clustermesh"], "cluster": "eu"}')


def of_others(peers):
    """Names of Peers, without those of eu."""
    return {name for name in peers if not name.startswith("prod--eu--")}


@pytest.mark.skipif(
    "MCN_FULL" not in os.environ, reason="NOT RUN here: `tests/run pairs_full` has it; one of two leaves below"
)
def test_a_cluster_leaves_and_comes_back(mesh, tmp_path):
    """Its Peers elsewhere go, and those that it holds itself."""
    books = Books(mesh, tmp_path)
    site = ("site.yml", "-e", '{"multicluster_capabilities": ["clustermesh"]}')
    books.run(*site)
    come = {name: peers_of(one) for name, one in mesh.items()}
    assert all(len(peers) == 4 for peers in come.values())

    before = marks(mesh)
    out = books.run(*LEAVES, "--check", "--diff")
    assert writes(mesh, before) == {}
    for name in (
        "Peer us/prod--eu--eu-1",
        "Peer ap/prod--eu--eu-2",
        "Peer eu/prod--us--us-1",
        "Peer eu/prod--ap--ap-2",
    ):
        assert name in out, (name, out[-6000:])

    books.run(*LEAVES)
    assert {name: set(peers_of(one)) for name, one in mesh.items()} == {
        "eu": set(),
        "us": of_others(come["us"]),
        "ap": of_others(come["ap"]),
    }
    before = marks(mesh)
    books.run(*LEAVES)
    assert writes(mesh, before) == {}
    books.run(*site)
    assert {name: set(peers_of(one)) for name, one in mesh.items()} == {name: set(come[name]) for name in come}

    # half alive: its server is away, so nothing of it is taken, and nothing of the others
    hosts = yaml.safe_load((tmp_path / "eu").read_text())
    hosts["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    alive = (tmp_path / "eu").read_text()
    (tmp_path / "eu").write_text(yaml.safe_dump(hosts))
    out = books.run(*LEAVES, "-e", "leave_gone=true")
    assert "gone, so nothing was written in eu" in " ".join(out.split())
    assert {name: set(peers_of(one)) for name, one in mesh.items()} == {
        "eu": set(come["eu"]),
        "us": of_others(come["us"]),
        "ap": of_others(come["ap"]),
    }
    (tmp_path / "eu").write_text(alive)
    books.run(*LEAVES)
    assert peers_of(mesh["eu"]) == {}


def test_of_two_clusters_one_leaves(mesh, tmp_path):
    """What the other one held of it goes, too: a mesh of one has no Peers."""
    books = Books({name: mesh[name] for name in ("eu", "us")}, tmp_path)
    books.run("site.yml", "-e", '{"multicluster_capabilities": ["clustermesh"]}')
    assert len(peers_of(mesh["eu"])) == len(peers_of(mesh["us"])) == 2
    books.run(*LEAVES)
    assert peers_of(mesh["eu"]) == peers_of(mesh["us"]) == {}


def test_secrets_and_objects(mesh, tmp_path):
    """Accounts, tokens and Secrets by the role; then objects alone define everything."""
    books = Books(mesh, tmp_path)
    remotes = [{"name": name, "kubeconfig": str(tmp_path / name)} for name in ("us", "ap")]
    role = {
        "role": "multicluster.network.clustermesh_secrets",
        "clustermesh_secrets_fabric": "t",
        "clustermesh_secrets_remotes": remotes,
        "clustermesh_secrets_management": [{"name": "eu", "kubeconfig": str(tmp_path / "eu")}],
        "clustermesh_secrets_namespace": "default",
        "clustermesh_secrets_path": str(tmp_path / "tokens" / "{cluster}"),
    }
    variables = {"ansible_python_interpreter": sys.executable}
    for state in ("present", "absent"):
        body = [
            {
                "hosts": "localhost",
                "connection": "local",
                "gather_facts": False,
                "vars": variables,
                "roles": [dict(role, clustermesh_secrets_state=state)],
            }
        ]
        (tmp_path / (state + ".yaml")).write_text(yaml.safe_dump(body))
    book = str(tmp_path / "present.yaml")
    out = books.run(book, "-vvv")
    token = json.loads((tmp_path / "tokens" / "us").read_text())["users"][0]["user"]["token"]
    assert token not in out and base64.b64encode((tmp_path / "tokens" / "us").read_bytes()).decode() not in out
    assert "changed=0" in books.run(book)

    client = mesh["eu"].client()
    entries = [entry("eu", local=True)]
    entries += [
        entry(name, kubeconfigSecretRef={"name": name + "-kubeconfig", "key": "kubeconfig"}) for name in ("us", "ap")
    ]
    client.create(
        MESHES,
        {
            "apiVersion": "kilo.squat.ai/v1alpha1",
            "kind": "ClusterMesh",
            "metadata": {"name": "prod", "namespace": "default"},
            "spec": {"clusters": entries},
        },
        "kubectl",
    )
    given = {
        "fabric": "t",
        "clusters": [mesh["eu"].access("mgmt")],
        "management": {"cluster": "mgmt", "use_secrets": True},
        "timeout": 20,
    }
    result = clustermesh.run(given)
    assert result["plan"]["create"] == 12 and not result["failures"] and not result["refused"], result["failures"]
    assert token not in json.dumps(result)
    information = clustermesh.info(given)
    assert (
        information["in_sync"] and information["plan"]["unchanged"] == 12 and not any(information["unowned"].values())
    )
    client.delete(MESHES + "/prod")
    assert clustermesh.run(given)["plan"]["delete"] == 12 and client.list(MESHES).items == []
    books.run(str(tmp_path / "absent.yaml"))
    assert not (tmp_path / "tokens" / "us").exists()


def test_info_reports_what_is_wrong(mesh):
    clustermesh.run(request_for(mesh))
    seen = json.dumps({key_of("us-1"): {"IP": "203.0.113.2", "Port": 5}})
    annotate(mesh["eu"], "eu-1", force_endpoint="203.0.113.1:51820", discovered_endpoints=seen)
    annotate(mesh["us"], "us-2", wireguard_ip="oops")
    body = operator_peer("laptop", "old", "xx", {"publicKey": key_of("laptop"), "allowedIPs": ["10.9.9.9/32"]})
    mesh["ap"].client().create(PEERS, body, "kubectl")
    before = marks(mesh)
    result = clustermesh.info(request_for(mesh))
    assert not result["in_sync"] and not result["changed"] and writes(mesh, before) == {}
    assert [(row["object"], row["reason"]) for row in result["skipped_nodes"]] == [("us/us-2", "WGIPInvalid")]
    assert result["unowned"]["ap"] == result["stale"]["ap"] == ["laptop"]
    assert result["handshakes"] == {
        "eu": {"heard_of": 1, "unreachable": ["prod--ap--ap-1", "prod--ap--ap-2", "prod--us--us-2"]}
    }
    assert result["force_endpoints"] == {"eu": {"eu-1": "203.0.113.1:51820"}}
    assert result["drift"]["us"]["update"] == [{"name": "prod--eu--eu-1", "reason": "differs in endpoint"}]
    assert result["drift"]["eu"]["delete"] == [{"name": "prod--us--us-2", "reason": "node us-2: WGIPInvalid"}]
    assert result["meshes"]["prod"]["clusters"][1] == {"name": "us", "registeredPeers": 1, "skippedNodes": 1}


# --- what Kilo takes from its own Nodes -----------------------------------------------------------------------------


def notes_of(server, name):
    return {
        key.partition("/")[2]: value
        for key, value in server.client().get("/api/v1/nodes/" + name)["metadata"]["annotations"].items()
    }


def test_nodes_get_keepalive_and_internal_address_on_request_and_lose_them_again(mesh):
    meshes = [{"name": "prod", "clusters": [entry("eu"), entry("us", persistentKeepalive=20), entry("ap")]}]
    annotate(mesh["eu"], "eu-1", internal_ip="198.51.20.1/24")
    annotate(mesh["us"], "us-2", persistent_keepalive="7")
    result = clustermesh.run(request_for(mesh, meshes=meshes))
    assert len(result["warnings"]) == 2 and "persistent-keepalive" not in notes_of(mesh["us"], "us-1")

    asked = dict(meshes=meshes, node_keepalive=True, force_internal_ip=True)
    before = marks(mesh)
    result = clustermesh.run(request_for(mesh, **asked), check=True)
    assert result["changed"] and writes(mesh, before) == {}
    result = clustermesh.run(request_for(mesh, **asked))
    assert (
        notes_of(mesh["us"], "us-1")["persistent-keepalive"] == "20"
        and notes_of(mesh["eu"], "eu-1")["force-internal-ip"] == "-"
    )
    assert notes_of(mesh["us"], "us-2")["persistent-keepalive"] == "7" and ("us/us-2", "adoptable") in reasons(result)
    assert not result["warnings"] and {change["kind"] for change in result["plan"]["changes"]} == {"node"}
    assert "keepalive" not in str(notes_of(mesh["eu"], "eu-1"))
    annotate(mesh["eu"], "eu-1", internal_ip="")  # as Kilo does then
    before = marks(mesh)
    assert clustermesh.info(request_for(mesh, **asked))["in_sync"]
    assert not clustermesh.run(request_for(mesh, **asked))["changed"] and writes(mesh, before) == {}

    result = clustermesh.run(request_for(mesh, meshes=meshes))
    assert "force-internal-ip" not in notes_of(mesh["eu"], "eu-1") and "persistent-keepalive" not in notes_of(
        mesh["us"], "us-1"
    )
    clustermesh.run(request_for(mesh, **asked))
    clustermesh.run(request_for(mesh, state="absent", **asked))
    assert (
        "force-internal-ip" not in notes_of(mesh["eu"], "eu-1")
        and notes_of(mesh["us"], "us-2")["persistent-keepalive"] == "7"
    )


def test_a_cluster_that_nobody_can_reach_fails_the_run_and_the_others_are_joined(mesh):
    for number in (1, 2):
        mesh["us"].client().merge_patch(
            "/api/v1/nodes/us-%d/status" % number,
            {"status": {"addresses": [{"type": "InternalIP", "address": "192.168.30.%d" % number}]}},
            "kubelet",
        )
        annotate(mesh["us"], "us-%d" % number, endpoint="192.168.30.%d:51820" % number)
    result = clustermesh.run(request_for(mesh))
    assert [(row["cluster"], row["reason"]) for row in result["failures"]] == [("us", "NodeNoEndpoint")]
    assert "clustermesh_kilo_endpoints" in result["failures"][0]["message"] and result["plan"]["create"] == 8
    report = clustermesh.info(request_for(mesh))
    ready = next(row for row in report["meshes"]["prod"]["conditions"] if row["type"] == "Ready")
    assert ready["status"] == "False" and "us (NodeNoEndpoint)" in ready["message"]
    result = clustermesh.run(request_for(mesh, kilo_endpoints="any"))
    assert not result["failures"] and result["plan"]["create"] == 4
    assert peers_of(mesh["eu"])["prod--us--us-1"]["spec"]["endpoint"] == {
        "dnsOrIP": {"ip": "192.168.30.1"},
        "port": 51820,
    }
    assert "192.168.30.1/32" not in peers_of(mesh["eu"])["prod--us--us-1"]["spec"]["allowedIPs"]


def test_a_peer_that_kilo_refuses_is_made_anew(mesh):
    clustermesh.run(request_for(mesh))
    before = peers_of(mesh["us"])["prod--eu--eu-1"]["metadata"]["uid"]
    client = mesh["us"].client()
    client.merge_patch(PEERS + "/prod--eu--eu-1", {"spec": {"allowedIPs": ["10.20.1.0/24", "junk"]}}, "kubectl")
    result = clustermesh.run(request_for(mesh))
    peer = peers_of(mesh["us"])["prod--eu--eu-1"]
    assert not result["failures"] and peer["metadata"]["uid"] != before and "junk" not in peer["spec"]["allowedIPs"]
    assert clustermesh.info(request_for(mesh))["in_sync"]


def test_an_annotation_on_a_clustermesh_is_news_and_a_cluster_without_such_objects_is_followed(mesh, tmp_path):
    client, stop, lines = mesh["eu"].client(), threading.Event(), []
    clustermeshes = [
        {"name": "eu", "local": True, "allowedNetworks": ["10.20.0.0/16"]},
        {"name": "us", "allowedNetworks": ["10.30.0.0/16"]},
    ]
    body = {
        "apiVersion": "kilo.squat.ai/v1alpha1",
        "kind": "ClusterMesh",
        "metadata": {"name": "noted"},
        "spec": {"clusters": clustermeshes},
    }
    client.create(MESHES, body, "test")
    other = type(mesh["eu"])(tmp_path / "bare")
    (tmp_path / "bare").mkdir()
    other.start()
    try:
        watch = Watch(
            {
                "clusters": [mesh["eu"].access("eu"), other.access("bare")],
                "watch": [{"resource": "clustermeshes"}],
                "window": 0.1,
            },
            stop,
            lines.append,
        )
        watch.start()
        deadline = time.monotonic() + 120
        while not watch.complete:
            assert watch.next(0.2) == [] and time.monotonic() < deadline
        client.merge_patch(
            MESHES + "/noted", {"metadata": {"annotations": {"reconcile-trigger": "2026-01-01T00:00:00Z"}}}, "kubectl"
        )
        events = watch.next(60)
        assert [(event["cluster"], event["kind"], event["names"]) for event in events] == [
            ("eu", "ClusterMesh", ["default/noted"])
        ]
        client.merge_patch(MESHES + "/noted/status", {"status": {"clusters": []}}, "operator")
        assert watch.next(3) == [] and not lines  # a status is an answer, not a question
    finally:
        stop.set()
        client.delete(MESHES + "/noted")
        other.stop()


def test_adoption_ends_for_a_peer_that_somebody_annotated(mesh):
    clustermesh.run(request_for(mesh))
    clustermesh.run(request_for(mesh, state="released"))
    mesh["us"].client().merge_patch(
        PEERS + "/prod--eu--eu-1", {"metadata": {"annotations": {"somebody": "else"}}}, "kubectl"
    )
    assert clustermesh.run(request_for(mesh, adopt=True))["plan"]["update"] == 12
    assert not clustermesh.run(request_for(mesh))["changed"]
    assert peers_of(mesh["us"])["prod--eu--eu-1"]["metadata"]["annotations"] == {"somebody": "else"}
