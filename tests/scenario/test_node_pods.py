# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes without SSH: an inventory of two clusters and nothing else, real pods as the only way to the nodes, and that nothing of it stays.

The tests of this file build on each other, in their order.
"""

from __future__ import annotations

import concurrent.futures
import io
import json
import os
import re
import shutil
import subprocess
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access.node_pods import NodePods, Place
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes import exec_stream
from harness import REPO
from real_pods import apply, eventually, ready, service, shell, workload

PODS = "real"
IMAGE = "example.com/node-pod:1"
MOST = 200 * 1024 * 1024
NAMESPACE = "multicluster-node-default"
#: Tables of iptables' own, which kube-proxy and CNI plugins fill.
COMPATIBLE = ("filter", "nat", "mangle", "raw")


@pytest.fixture(autouse=True)
def newest(monkeypatch):
    monkeypatch.setenv("KUBERNETES", "newest")


@pytest.fixture(scope="module")
def inventory(fabric):
    """The two files of the guide, with the lab's kubeconfigs and image, and no host but these."""
    folder = fabric.state / "inventory-pods"
    folder.mkdir(exist_ok=True)
    text = (REPO / "docs" / "docsite" / "rst" / "guide_node_pods.rst").read_text(encoding="utf-8")
    blocks = re.findall(r"^\.\. code-block:: yaml\n\n((?: {4}.*\n|\n)+)", text, flags=re.MULTILINE)
    found = {}
    for block in blocks:
        lines = [line[4:] for line in block.splitlines()]
        found[lines[0].removeprefix("# inventory/")] = "\n".join(lines) + "\n"
    assert set(found) == {"10-clusters.yml", "20-cluster_nodes.yml"}
    for name, content in found.items():
        for cluster in fabric.clusters:
            content = content.replace(f"~/.kube/{cluster}", str(fabric.state / cluster / "kubeconfig"))
        (folder / name).write_text(re.sub(r"registry\.example\.com/node-pod@sha256:\.\.\.", IMAGE, content))
    # a machine that does other things as well
    (folder / "group_vars").mkdir(exist_ok=True)
    (folder / "group_vars" / "all.yml").write_text("node_dataplane_rollback_seconds: 150\n", encoding="utf-8")
    return folder


def ansible(inventory, *words, check=True):
    """One ad-hoc task."""
    done = subprocess.run(
        ["ansible", "-i", str(inventory), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=str(REPO),
        stdin=subprocess.DEVNULL,
        env=dict(os.environ, ANSIBLE_NOCOLOR="1", ANSIBLE_FORCE_COLOR="0"),
    )
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def daemon_sets(fabric, cluster):
    text = fabric.kubectl(cluster, "get", "daemonsets", "-A", "-l", "multicluster.network/node-pods", "-o", "json")
    return json.loads(text)["items"]


def cluster_of(node):
    return node.partition("-")[0]


def address(fabric, node):
    return fabric.kubectl(cluster_of(node), "get", "pod", "shell-" + node, "-o", "jsonpath={.status.podIP}")


def reaches(fabric, source="aws-node-1", target="gcp-node-2"):
    """Whether the shell on one node reaches that on another."""
    words = ["exec", "shell-" + source, "--", "ping", "-n", "-c", "1", "-W", "2", address(fabric, target)]
    return " 0% packet loss" in fabric.kubectl(cluster_of(source), *words, check=False)


def compared(fabric, *names):
    """Snapshots without what kubelet, kube-proxy and CNI plugins make anew for pods that start again."""
    found = fabric.snapshot(*names)
    for snapshot in found.values():
        for node in snapshot.get("nodes", ()) if "cluster" in snapshot else ():
            node.pop("status", None)  # of the kubelet: times, and the images that it has
        for part, key in (("links", "ifname"), ("addresses", "dev"), ("routes", "dev")):
            if part in snapshot:
                snapshot[part] = [row for row in snapshot[part] if not str(row.get(key, "")).startswith("veth")]
        if "nft" in snapshot:
            snapshot["nft"] = [
                row
                for row in snapshot["nft"]
                if not any(
                    isinstance(value, dict) and {value.get("table"), value.get("name")} & set(COMPATIBLE)
                    for value in row.values()
                )
            ]
    return found


def kept(fabric, node):
    """Every file in the folders of a node that its pod sees."""
    root = fabric.state / "nodes" / node / "pods"
    return sorted(
        str(path.relative_to(root))
        for folder in ("multicluster-network", "semaphore-wireguard")
        for path in (root / folder).rglob("*")
    )


def test_what_there_is_before(fabric):
    for node in fabric.nodes:
        apply(fabric, cluster_of(node), shell("shell-" + node, nodeName=node))
    for node in fabric.nodes:
        fabric.kubectl(cluster_of(node), "wait", "--for=condition=Ready", "pod/shell-" + node, "--timeout=300s")
    fabric.before = compared(fabric, *fabric.nodes, *fabric.clusters)
    assert not reaches(fabric)


def test_one_command_joins_two_clusters(fabric, inventory):
    begun = time.monotonic()
    run = fabric.play("site", inventory=inventory).ok()
    fabric.ran(f"two kubeconfigs joined in {time.monotonic() - begun:.1f} s")
    assert {host for host in run.recap if host.endswith(("-1", "-2"))} == set(fabric.nodes)
    assert reaches(fabric) and reaches(fabric, "gcp-node-1", "aws-node-2")
    for node in fabric.nodes:
        assert not [unit for unit in fabric.snapshot(node)[node]["units"] if "multicluster" in unit]


def test_nothing_secret_is_in_the_pods(fabric):
    """Threat T50: neither in what the API server stores, nor in the environment, nor in logs."""
    for node in fabric.nodes:
        keys = [
            path.read_text().strip()
            for path in (fabric.state / "nodes" / node / "pods").rglob("*.key")
            if path.stat().st_mode & 0o777 == 0o600
        ]
        assert keys, kept(fabric, node)
        cluster = cluster_of(node)
        texts = [
            fabric.kubectl(cluster, "get", "pods,daemonsets", "-n", NAMESPACE, "-o", "yaml"),
            fabric.kubectl(cluster, "logs", "-n", NAMESPACE, "daemonset/" + NAMESPACE),
            (fabric.state / cluster / "log" / "audit.log").read_text(),
        ]
        assert not [key for key in keys for text in texts if key in text]


def test_a_second_run_changes_nothing(fabric, inventory):
    run = fabric.play("site", inventory=inventory).ok()
    assert run.changed == {}, run.out[-3000:]


def test_ping_check_mode_and_become(fabric, inventory):
    text = ansible(inventory, "all:!clusters", "-m", "ansible.builtin.ping", "-b")
    assert text.count('"ping": "pong"') == len(fabric.nodes)
    text = ansible(
        inventory,
        "aws-node-1",
        "-m",
        "ansible.builtin.copy",
        "-C",
        "-a",
        "content=x dest=/var/lib/multicluster-network/x",
    )
    assert "CHANGED" in text and not any("network/x" in path for path in kept(fabric, "aws-node-1"))
    text = ansible(
        inventory, "aws-node-1", "-m", "ansible.builtin.command", "-a", "sh -c 'echo out; exit 7'", check=False
    )
    assert "rc=7" in text and "out" in text


def test_a_machine_id_is_compared_with_that_of_the_machine(fabric, inventory):
    """Threat T50: whatever the API server reports of its pods."""
    done = ansible(inventory, "aws-node-1", "-m", "ansible.builtin.raw", "-a", "cat /proc/1/root/etc/machine-id")
    found = re.search(r"^[0-9a-f]{32}$", done, flags=re.MULTILINE).group()
    ping = ("aws-node-1", "-m", "ansible.builtin.ping", "-e")
    assert '"ping": "pong"' in ansible(inventory, *ping, f"node_machine_id={found}")
    text = ansible(inventory, *ping, "node_machine_id=" + "0" * 32, check=False)
    assert "UNREACHABLE" in text and "not_the_node" in text


def test_verify_status_and_trace(fabric, inventory):
    fabric.play("verify", inventory=inventory).ok()
    fabric.play("status", inventory=inventory, variables={"status_folder": str(fabric.state)}).ok()
    run = fabric.play(
        "trace",
        inventory=inventory,
        variables={"trace_from": "aws/default/shell-aws-node-1", "trace_to": "gcp/default/shell-gcp-node-2"},
    )
    assert run.rc == 0, run.out[-4000:]


SERVICES = {
    "multicluster_capabilities": ["service_mirror", "coredns_rewrite"],
    "service_mirror_create_namespace": True,
    # the lab's kubelets have process namespaces of their own, in which no pod sees the node's kube-proxy
    "verify_allow_unproven": True,
}


def test_services_over_node_pods(fabric, inventory):
    """``site`` with services: a pod asks for one of the other cluster by its name."""
    labelled = service("shop")
    labelled["metadata"]["labels"] = {"mirror.semaphore.uw.io/mirror-service": "true"}
    apply(fabric, "aws", labelled, workload("Deployment", "shop", "one", replicas=1))
    ready(fabric, "aws", "deployment/shop")
    fabric.play("site", inventory=inventory, variables=SERVICES).ok()
    words = ["exec", "shell-gcp-node-1", "--", "curl", "-s", "-m", "2", "http://shop.default.svc.cluster.aws"]
    eventually(lambda: fabric.kubectl("gcp", *words, check=False), lambda text: " one\n" in text)
    run = fabric.play("site", inventory=inventory, variables=SERVICES).ok()
    assert run.changed == {}, run.out[-3000:]
    fabric.kubectl("aws", "delete", "deployment,service", "shop")


def test_another_release_of_the_code_comes_by_the_play(fabric, inventory, tmp_path):
    """The pods stay as they are; only what their containers start is another program."""
    before, uids = programs(fabric, "aws-node-1"), pod_uids(fabric, "aws")
    place = tmp_path / "ansible_collections" / "multicluster" / "network"
    shutil.copytree(REPO, place, ignore=shutil.ignore_patterns(".git", "tests", "docs"))
    with (place / "plugins" / "module_utils" / "_flows" / "node" / "node_agent.py").open("a") as file:
        file.write("\n# another release\n")
    words = ["ansible-playbook", "-i", str(inventory), "multicluster.network.mesh"]
    environment = dict(os.environ, ANSIBLE_COLLECTIONS_PATH=str(tmp_path), PYTHONPATH=str(tmp_path))
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=str(place), env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    after = programs(fabric, "aws-node-1")
    assert len(after) == 1 and after != before and pod_uids(fabric, "aws") == uids
    eventually(lambda: reaches(fabric), bool)
    fabric.play("mesh", inventory=inventory).ok()
    assert programs(fabric, "aws-node-1") == before


def programs(fabric, node):
    return [path for path in kept(fabric, node) if path.endswith(".pyz")]


def pod_uids(fabric, cluster):
    words = ("get", "pods", "-n", NAMESPACE, "-o", "jsonpath={.items[*].metadata.uid}")
    return sorted(fabric.kubectl(cluster, *words).split())


def test_another_image_comes_by_the_daemon_set(fabric, inventory):
    """A run waits for the pods of the image that it names, and changes nothing but them."""
    before, uids = compared(fabric, *fabric.nodes), pod_uids(fabric, "gcp")
    variables = {"node_access_image": IMAGE.replace(":1", ":2"), "ansible_node_pod_wait": 300}
    run = fabric.play("mesh", inventory=inventory, variables=variables).ok()
    assert set(run.changed) <= set(fabric.clusters), run.out[-3000:]
    assert not set(uids) & set(pod_uids(fabric, "gcp"))
    eventually(lambda: reaches(fabric), bool)
    assert compared(fabric, *fabric.nodes) == before
    fabric.play("mesh", inventory=inventory, variables={"ansible_node_pod_wait": 300}).ok()
    eventually(lambda: reaches(fabric), bool)


def test_a_node_that_is_drained_keeps_its_pod_and_its_mesh(fabric, inventory):
    before = compared(fabric, "aws-node-1")
    words = ("--ignore-daemonsets", "--pod-selector", "app=none")
    fabric.kubectl("aws", "drain", "aws-node-1", *words)
    try:
        ansible(inventory, "aws-node-1", "-m", "ansible.builtin.ping")
        assert fabric.play("mesh", inventory=inventory).ok().changed == {}
    finally:
        fabric.kubectl("aws", "uncordon", "aws-node-1")
    assert compared(fabric, "aws-node-1") == before


def test_a_pod_that_is_evicted_is_replaced(fabric, inventory):
    [name] = fabric.kubectl(
        "aws", "get", "pods", "-n", NAMESPACE, "--field-selector", "spec.nodeName=aws-node-1", "-o", "name"
    ).split()
    name = name.rpartition("/")[2]
    file = fabric.state / "eviction.json"
    file.write_text(
        json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}})
    )
    fabric.kubectl("aws", "create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction", "-f", str(file))
    ansible(inventory, "aws-node-1", "-m", "ansible.builtin.ping")
    eventually(lambda: reaches(fabric), bool)


def test_an_edited_daemon_set_is_refused_before_anything_is_sent(fabric, inventory):
    """Threat T50: neither ``site``, which compares it, nor another playbook, which finds pods that it made."""
    spy = {"name": "spy", "image": IMAGE, "command": ["sleep", "1000000"]}
    patch = json.dumps({"spec": {"template": {"spec": {"containers": [spy]}}}})
    fabric.kubectl("aws", "patch", "daemonset", "-n", NAMESPACE, NAMESPACE, "-p", patch)
    fabric.kubectl("aws", "rollout", "status", "-n", NAMESPACE, "daemonset/" + NAMESPACE, "--timeout=300s")
    audit = fabric.state / "aws" / "log" / "audit.log"
    sent = audit.read_text().count("/exec?")
    run = fabric.play("site", inventory=inventory)
    assert run.rc != 0 and "node_pod_edited" in run.out and "kubectl-patch" in run.out and "'spy'" in run.out
    text = ansible(inventory, "aws-node-1", "-m", "ansible.builtin.ping", check=False)
    assert "UNREACHABLE" in text and "'spy'" in text
    assert audit.read_text().count("/exec?") == sent
    variables = {"node_access_adopt": True, "ansible_node_pod_wait": 300}
    # pods with the container are still there for a while
    eventually(lambda: fabric.play("mesh", inventory=inventory, variables=variables).rc, lambda code: code == 0, 300)
    eventually(lambda: reaches(fabric), bool)
    assert fabric.play("mesh", inventory=inventory).ok().changed == {}


def test_the_mesh_is_back_after_a_reboot_without_a_run(fabric, inventory):
    """The kubelet starts the pod, the pod applies the confirmed state."""
    fabric.lab("node-rebuild", "aws-node-1")
    eventually(lambda: reaches(fabric), bool, within=240)
    fabric.play("verify", inventory=inventory).ok()
    assert fabric.play("mesh", inventory=inventory).ok().changed == {}


def test_a_pod_that_is_replaced_leaves_the_mesh_as_it_was(fabric, inventory):
    """wireguard-go ends with its container, and the next one begins with the confirmed state; a kernel's own device just stays."""
    before = compared(fabric, *fabric.nodes)
    fabric.kubectl("aws", "delete", "pods", "-n", NAMESPACE, "--all")
    fabric.kubectl("aws", "rollout", "status", "-n", NAMESPACE, "daemonset/" + NAMESPACE, "--timeout=300s")
    eventually(lambda: reaches(fabric), bool)
    assert compared(fabric, *fabric.nodes) == before
    ansible(inventory, "aws_nodes", "-m", "ansible.builtin.ping")


def test_a_change_that_cuts_the_way_is_taken_back(fabric, inventory):
    """Nothing reaches the kubelet any more, by which exec comes: so nobody can confirm the change."""
    before = compared(fabric, *fabric.nodes)
    variables = {
        "node_dataplane_tables": [CUTTING],
        "node_dataplane_rollback_seconds": 60,
        "ansible_node_pod_timeout": 5,
    }
    run = fabric.play("mesh", "--limit", "aws-node-1", inventory=inventory, variables=variables)
    assert run.rc != 0, run.out[-3000:]
    eventually(lambda: compared(fabric, "aws-node-1")["aws-node-1"], lambda found: found == before["aws-node-1"])
    eventually(lambda: reaches(fabric), bool)
    assert fabric.play("mesh", inventory=inventory).ok().changed == {}


CUTTING = {
    "family": "inet",
    "name": "cut",
    "chains": [
        {"name": "cut", "type": "filter", "hook": "input", "priority": 0, "rules": ["tcp dport 10250 drop"]},
    ],
}


def test_200_mib_both_ways_and_many_at_once(fabric, inventory, tmp_path):
    source, back = tmp_path / "source", tmp_path / "back"
    with source.open("wb") as file:
        for _part in range(MOST // (1024 * 1024)):
            file.write(os.urandom(1024 * 1024))
    there = "/var/lib/multicluster-network/big"
    begun = time.monotonic()
    ansible(inventory, "aws-node-1", "-m", "ansible.builtin.copy", "-a", f"src={source} dest={there}")
    middle = time.monotonic()
    ansible(inventory, "aws-node-1", "-m", "ansible.builtin.fetch", "-a", f"src={there} dest={back} flat=true")
    fabric.ran(f"200 MiB there in {middle - begun:.1f} s, back in {time.monotonic() - middle:.1f} s")
    assert subprocess.run(["cmp", source, back], check=False).returncode == 0
    ansible(inventory, "aws-node-1", "-m", "ansible.builtin.file", "-a", f"path={there} state=absent")


def node_pods(fabric, node):
    """The node as the connection reaches it."""
    access = {"name": cluster_of(node), "kubeconfig": str(fabric.state / cluster_of(node) / "kubeconfig")}
    return NodePods(Place(access, "default", "", node), 30.0, 0.0)


def echoed(node, size):
    """Whether random bytes come back from a node as they were sent."""
    data, out = os.urandom(size), []
    code = node.run("cat; exit 3", io.BytesIO(data), size, out.append, lambda _data: None)
    return code == 3 and b"".join(out) == data


@pytest.mark.parametrize("protocols", [("v5.channel.k8s.io",), ("v4.channel.k8s.io",)], ids=["v5", "v4"])
def test_both_versions_of_the_protocol(fabric, protocols, monkeypatch):
    """Version 5 ends in the API server, version 4 goes on to the kubelet and cannot close an input."""
    monkeypatch.setattr(exec_stream, "PROTOCOLS", protocols)
    node = node_pods(fabric, "aws-node-1")
    assert all(echoed(node, size) for size in (0, 1, 125, 65536, 3_000_000))
    begun = time.monotonic()
    assert echoed(node, MOST)
    fabric.ran(f"{protocols[0]}: 200 MiB there and back at the same time in {time.monotonic() - begun:.1f} s")


def test_100_at_once(fabric):
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        found = list(pool.map(lambda number: echoed(node_pods(fabric, fabric.nodes[number % 4]), 100_000), range(100)))
    assert found == [True] * 100
    fabric.ran(f"100 commands at once in {time.monotonic() - begun:.1f} s")


def gone(fabric, within=120):
    """Wait until no cluster has anything of the pods."""
    for cluster in fabric.clusters:
        words = ("get", "namespaces", "-o", "name")
        eventually(
            lambda cluster=cluster, words=words: fabric.kubectl(cluster, *words),
            lambda text: "multicluster-node" not in text,
            within,
        )
        assert daemon_sets(fabric, cluster) == []


DURING = {"node_pods": "during_runs"}


def test_pods_go_between_runs(fabric, inventory):
    """The kernel's part stays; only the tunnels of wireguard-go end with their pods, and are back with the next ones.

    After a run that failed or was killed: tests/api/test_node_pods_end.py.
    """
    before = compared(fabric, "aws-node-1")["aws-node-1"]
    assert set(fabric.play("mesh", inventory=inventory, variables=DURING).ok().changed) <= set(fabric.clusters)
    gone(fabric)
    assert kept(fabric, "aws-node-1")
    assert compared(fabric, "aws-node-1")["aws-node-1"]["nft"] == before["nft"]
    # the next one at once, while a namespace is being removed
    fabric.play("mesh", inventory=inventory, variables=DURING).ok()
    fabric.play("verify", inventory=inventory, variables=DURING).ok()
    gone(fabric)
    run = fabric.play("status", inventory=inventory, variables={**DURING, "status_folder": str(fabric.state)}).ok()
    assert "after a reboot, a node is outside of the mesh until the next run" in " ".join(run.out.split())
    gone(fabric)
    fabric.play("node_pods.make", inventory=inventory).ok()
    eventually(lambda: reaches(fabric), bool)
    assert fabric.play("mesh", inventory=inventory).ok().changed == {}


def test_teardown_leaves_nothing(fabric, inventory):
    fabric.play("teardown", inventory=inventory, variables={**SERVICES, "node_dataplane_remove_keys": True}).ok()
    gone(fabric)
    for node in fabric.nodes:
        assert kept(fabric, node) == []
    after = compared(fabric, *fabric.nodes, *fabric.clusters)
    for name, was in fabric.before.items():
        assert after[name] == was, name
