# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real pods in the lab: what a kubelet does with them, what they reach, within a cluster and over the mesh, and that nothing stays.

The tests of this file build on each other, in their order; the last one ends the lab.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest
from real_pods import apply, eventually, ready, service, shell, workload

PODS = "real"


def pods(fabric, cluster, app):
    """The pods of an app that are not being deleted."""
    items = json.loads(fabric.kubectl(cluster, "get", "pods", "-l", "app=" + app, "-o", "json"))["items"]
    return [item for item in items if "deletionTimestamp" not in item["metadata"]]


def run(fabric, *command, cluster="aws", pod="shell", check=True):
    """What a command prints inside a pod, by kubectl exec."""
    return fabric.kubectl(cluster, "exec", pod, "--", *command, check=check)


def machine():
    """What a lab could leave behind on the machine: namespaces, cgroups, mounts, links, processes of a runtime."""
    groups = set()
    for line in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if fields[2] in ("cgroup", "cgroup2"):
            groups |= {folder for folder, _names, _files in os.walk(fields[1])}
    mounts = {line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()}
    names = subprocess.run(["ip", "-o", "link", "show"], capture_output=True, text=True, check=True).stdout.splitlines()
    links = {line.split(": ")[1].split("@")[0] for line in names}
    namespaces = (
        {str(path) for path in pathlib.Path("/run/netns").glob("*")} if pathlib.Path("/run/netns").is_dir() else set()
    )
    return {"groups": groups, "mounts": mounts, "links": links, "namespaces": namespaces}


def processes(state):
    """Every process of a lab: those that carry its mark, and those inside the process namespaces of its runtimes."""
    mark = f"MCN_LAB_OWNER={state}".encode()
    found, spaces = {}, set()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            marked = mark in (entry / "environ").read_bytes().split(b"\0")
            space = (entry / "ns" / "pid").readlink()
        except OSError:
            continue
        found[entry.name] = (marked, space)
    spaces = {space for marked, space in found.values() if marked} - {pathlib.Path("/proc/self/ns/pid").readlink()}
    return [int(pid) for pid, (marked, space) in found.items() if marked or space in spaces]


def test_nodes_are_ready_and_their_kubelets_are_the_newest(fabric):
    for cluster in ("aws", "gcp"):
        items = json.loads(fabric.kubectl(cluster, "get", "nodes", "-o", "json"))["items"]
        assert len(items) == 2
        for item in items:
            info = item["status"]["nodeInfo"]
            assert info["kubeletVersion"].startswith("v1.") and info["containerRuntimeVersion"].startswith(
                "containerd://"
            )
            assert [one["status"] for one in item["status"]["conditions"] if one["type"] == "Ready"] == ["True"]
        assert (
            int(
                fabric.kubectl(
                    cluster,
                    "get",
                    "deployment",
                    "-n",
                    "kube-system",
                    "coredns",
                    "-o",
                    "jsonpath={.status.readyReplicas}",
                )
            )
            >= 1
        )
    contexts = fabric.kubectl(
        "aws", "--kubeconfig", str(fabric.state / "kubeconfig"), "config", "get-contexts", "-o", "name"
    ).split()
    assert contexts == ["aws", "gcp"], "one kubeconfig has both"


def test_exec_and_logs(fabric):
    for cluster in ("aws", "gcp"):
        apply(fabric, cluster, shell(), workload("Deployment", "web", "one", replicas=1), service("web"))
    for cluster in ("aws", "gcp"):
        fabric.kubectl(cluster, "wait", "--for=condition=Ready", "pod/shell", "--timeout=300s")
        ready(fabric, cluster, "deployment/web")
    assert run(fabric, "sh", "-c", "echo $((6 * 7)); cat /proc/1/comm") == "42\nsleep\n"
    assert fabric.kubectl("aws", "logs", "deployment/web").splitlines() == ["serving"]
    for program in ("nslookup", "dig", "curl", "nc", "ncat", "ip", "ping", "socat"):
        assert run(fabric, "which", program).strip(), program


def test_names_and_service_addresses_within_the_cluster(fabric):
    answer = run(fabric, "nslookup", "-type=A", "web.default.svc.cluster.local.")
    address = fabric.kubectl("aws", "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
    assert f"Address: {address}\n" in answer
    assert "Address:\t10.3.0.10#53" in answer, "the pod asks kube-dns"
    eventually(
        lambda: run(fabric, "curl", "-s", "-m", "5", "http://web", check=False),
        lambda text: text.endswith("has one\n"),
    )
    # the C library's resolver, and a time limit: neither is a matter of course for a busybox
    assert run(
        fabric, "wget", "-q", "-T", "5", "-O", "-", "http://web.default.svc.cluster.local", pod="deployment/web"
    ).endswith("has one\n")
    assert "NXDOMAIN" in run(fabric, "sh", "-c", "nslookup nothing.default.svc.cluster.local. || true")


def test_pods_reach_the_api_server(fabric):
    script = 'curl -s -m 5 --cacert $D/ca.crt -H "Authorization: Bearer $(cat $D/token)" https://kubernetes.default.svc/version'
    answer = run(fabric, "sh", "-c", "D=/var/run/secrets/kubernetes.io/serviceaccount; " + script)
    assert json.loads(answer)["major"] == "1"


def test_a_deployment_is_scaled_and_rolled(fabric):
    apply(fabric, "aws", workload("Deployment", "web", "one", replicas=4))
    ready(fabric, "aws", "deployment/web")
    first = pods(fabric, "aws", "web")
    assert len(first) == 4 and len({pod["spec"]["nodeName"] for pod in first}) == 2, "the scheduler uses both nodes"
    ranges = {"aws-node-1": "10.2.3.", "aws-node-2": "10.2.4."}
    assert all(pod["status"]["podIP"].startswith(ranges[pod["spec"]["nodeName"]]) for pod in first)
    apply(fabric, "aws", workload("Deployment", "web", "two", replicas=2))
    ready(fabric, "aws", "deployment/web")
    second = eventually(lambda: pods(fabric, "aws", "web"), lambda found: len(found) == 2)
    assert not {pod["metadata"]["name"] for pod in first} & {pod["metadata"]["name"] for pod in second}

    def answers():
        return {run(fabric, "curl", "-s", "-m", "5", "http://web", check=False) for unused in range(8)}

    eventually(answers, lambda texts: all(text.endswith("has two\n") for text in texts))


def test_a_stateful_set_has_names_of_its_own(fabric):
    apply(
        fabric,
        "aws",
        workload("StatefulSet", "db", "data", replicas=2, serviceName="db"),
        service("db", clusterIP="None"),
    )
    ready(fabric, "aws", "statefulset/db")
    for name in ("db-0", "db-1"):
        text = eventually(
            lambda name=name: run(fabric, "curl", "-s", "-m", "5", f"http://{name}.db:8080", check=False),
            lambda text: text,
        )
        assert text.startswith(name + " on aws-node-") and text.endswith("has data\n"), (
            "the downward API gives pod and node"
        )


def test_a_daemon_set_is_on_every_node(fabric):
    apply(fabric, "aws", workload("DaemonSet", "agent", "here"))
    ready(fabric, "aws", "daemonset/agent")
    assert sorted(pod["spec"]["nodeName"] for pod in pods(fabric, "aws", "agent")) == ["aws-node-1", "aws-node-2"]


def test_probes_restart_what_is_ill(fabric):
    run(fabric, "touch", "/tmp/ill", pod="db-0")
    eventually(
        lambda: json.loads(fabric.kubectl("aws", "get", "pod", "db-0", "-o", "json"))["status"]["containerStatuses"][0],
        lambda status: status["restartCount"] >= 1 and status["ready"],
    )


def test_a_node_comes_back_with_its_pods(fabric):
    fabric.lab("node-rebuild", "aws-node-2")

    def there():
        """The answer of the node's agent at the address that it has by now: its old one went with the node."""
        [address] = [
            pod["status"].get("podIP")
            for pod in pods(fabric, "aws", "agent")
            if pod["spec"]["nodeName"] == "aws-node-2"
        ]
        return run(fabric, "curl", "-s", "-m", "2", f"http://{address}:8080", check=False)

    eventually(there, lambda text: "on aws-node-2 has here" in text)
    fabric.kubectl("aws", "wait", "--for=condition=Ready", "pod/shell", "--timeout=300s")


def test_pods_of_two_clusters_meet_over_the_mesh(fabric):
    theirs = pods(fabric, "gcp", "web")[0]
    url = f"http://{theirs['status']['podIP']}:8080"
    assert run(fabric, "curl", "-s", "-m", "2", url, check=False) == "", (
        "the clusters reach each other without the mesh"
    )
    fabric.play("site").ok()
    text = eventually(lambda: run(fabric, "curl", "-s", "-m", "5", url, check=False), lambda text: text)
    assert text == f"{theirs['metadata']['name']} on {theirs['spec']['nodeName']} has one\n"
    assert " 0% packet loss" in run(fabric, "ping", "-n", "-c", "3", "-i", "0.2", theirs["status"]["podIP"])
    owned = pods(fabric, "aws", "agent")[0]["status"]["podIP"]
    assert "has here" in run(fabric, "curl", "-s", "-m", "5", f"http://{owned}:8080", cluster="gcp")


def test_a_mirror_follows_a_deployment_that_is_scaled_and_rolled(fabric):
    """Asked by its name in the other cluster, from a pod there; its DNS learns the name from the Corefile that the playbook writes."""
    labelled = service("shop")
    labelled["metadata"]["labels"] = {"mirror.semaphore.uw.io/mirror-service": "true"}
    apply(fabric, "aws", labelled, workload("Deployment", "shop", "one", replicas=1))
    ready(fabric, "aws", "deployment/shop")
    play(fabric, "service_mirror", "coredns_rewrite")
    seen(fabric, "one")
    for words, replicas in (("one", 3), ("two", 2)):
        apply(fabric, "aws", workload("Deployment", "shop", words, replicas=replicas))
        ready(fabric, "aws", "deployment/shop")
        eventually(
            lambda replicas=replicas: pods(fabric, "aws", "shop"),
            lambda found, replicas=replicas: len(found) == replicas,
        )
        play(fabric, "service_mirror")
        seen(fabric, words)
    assert not play(fabric, "service_mirror", "coredns_rewrite"), "a second run changes nothing"


def play(fabric, *books):
    """Run playbooks over the fabric; returns what they changed."""
    changed = {}
    for book in books:
        changed.update(fabric.play(book, variables={"service_mirror_create_namespace": True}).ok().changed)
    return changed


def seen(fabric, words):
    """Wait until every pod of the shop, and nobody else, answers in the other cluster."""
    names = {pod["metadata"]["name"] for pod in pods(fabric, "aws", "shop")}

    def answers():
        texts = [
            run(fabric, "curl", "-s", "-m", "2", "http://shop.default.svc.cluster.aws", cluster="gcp", check=False)
            for unused in range(12)
        ]
        return {text.split(" ")[0] for text in texts}, {text.rpartition(" ")[2] for text in texts}

    eventually(answers, lambda found: found == (names, {words + "\n"}))


def test_two_clusters_need_less_than_six_gibibytes(fabric):
    pss = 0
    for pid in processes(fabric.state):
        try:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue
        pss += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    fabric.ran(f"memory of all processes: {pss // 1024} MiB")
    assert 500 < pss // 1024 < 6 * 1024


def test_down_leaves_nothing(fabric):
    prefix = json.loads(fabric.lab("status").stdout)["namespaces"]
    running = machine()
    owned = {
        key: {name for name in names if prefix in name or str(fabric.state) in name} for key, names in running.items()
    }
    assert owned["groups"] and owned["namespaces"], "there is something to end"
    everybody = processes(fabric.state)
    assert len(everybody) > 30
    fabric.lab("down")
    assert processes(fabric.state) == []
    assert [
        pid
        for pid in everybody
        if _name(pid) in ("kubelet", "containerd", "containerd-shim", "runc", "httpd", "coredns")
    ] == []
    left = machine()
    for key, names in left.items():
        assert not [name for name in names if prefix in name or str(fabric.state) in name], key
    # What containerd, kubelet and CNI plugins make outside of a lab's own namespaces, if they are let: groups alongside the lab's, volumes, veths.
    assert not [name for name in left["groups"] - running["groups"] if "/mcn." not in name]
    assert not [name for name in left["mounts"] if "/kubelet/" in name or "containerd" in name or "/cni-" in name]
    assert not [name for name in left["links"] - running["links"] if name.startswith("veth")]
    assert not fabric.state.exists()


def _name(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return None


@pytest.fixture(autouse=True)
def newest(monkeypatch):
    monkeypatch.setenv("KUBERNETES", "newest")
