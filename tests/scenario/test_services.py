# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services across clusters, with real packets through kube-proxy and the tunnel. The tests build on each other, in order."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client

from harness import LAB

MIRROR, NAMESPACE = "aws-sys-log-73736d-fluentd", "sys-semaphore"
LABEL = "mirror.semaphore.uw.io/mirror-service"
PODS = {"fluentd-a": ("aws-node-1", "aws-node-1-pod-1"), "fluentd-b": ("aws-node-2", "aws-node-2-pod-1")}
SERVER = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(sys.argv[1].encode())
    def log_message(self, *unused): pass
http.server.HTTPServer(("", 8888), Answer).serve_forever()
"""
VARIABLES = {"service_mirror_create_namespace": True, "service_mirror_as": "endpoints"}
STATE = {}


def client(fabric, cluster):
    return Client(parse_access({"name": cluster, "kubeconfig": str(fabric.state / cluster / "kubeconfig")}))


def mirror(fabric, *arguments, **variables):
    return fabric.play("services", *arguments, variables=dict(VARIABLES, **variables))


def pod_address(fabric, pod):
    return re.search(r"inet ([0-9.]+)", fabric.lab("pod-exec", pod, "--", "ip", "-4", "-o", "address", "show", "eth0").stdout).group(1)


def make_pod(fabric, name, labels=None):
    """A Pod object for a pod of the lab, as a kubelet would report it."""
    node, pod = PODS[name]
    api, base = client(fabric, "aws"), "/api/v1/namespaces/sys-log/pods"
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "sys-log", "labels": labels or {"app": "fluentd"}},
            "spec": {"nodeName": node, "automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]}}  # fmt: skip
    api.create(base, body, "test")
    address = pod_address(fabric, pod)
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [{"type": "Ready", "status": "True"}]}
    api.merge_patch(base + "/" + name + "/status", {"status": status}, "test")
    return address


def remove_pod(fabric, name):
    fabric.kubectl("aws", "-n", "sys-log", "delete", "pod", name, "--grace-period=0", "--force")


def source_has(fabric, *addresses):
    """Wait for the endpoints controller of aws."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = json.loads(fabric.kubectl("aws", "-n", "sys-log", "get", "endpoints", "fluentd", "-o", "json"))
        if sorted(a["ip"] for s in found.get("subsets") or () for a in s.get("addresses") or ()) == sorted(addresses):
            return
        time.sleep(0.2)
    raise AssertionError("aws does not have {0}".format(addresses))


def answers(fabric, wanted, tries=40):
    """Which pods answer behind the mirror's address, asked from a pod of gcp; waits for kube-proxy."""
    seen = set()
    for dummy in range(tries):
        done = fabric.lab("pod-exec", "gcp-node-1-pod-1", "--", "curl", "-s", "-m", "2", "http://{0}:8888/".format(STATE["address"]), check=False)
        seen.add(done.stdout)
        if seen >= wanted:
            break
    return seen


@pytest.fixture(scope="module", autouse=True)
def servers(fabric):
    """A small HTTP server in each pod of aws, and kube-proxy where the client is."""
    started = []
    fabric.play("mesh").ok()
    fabric.lab("kube-proxy-start", "gcp-node-1")
    for name, (unused, pod) in PODS.items():
        command = ["/usr/bin/python3", str(LAB), "pod-exec", "--name", fabric.name, pod, "--", "/usr/bin/python3", "-c", SERVER, name]
        started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True))
    yield
    for process in started:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=10)


def test_the_seed_example(fabric):
    fabric.kubectl("aws", "create", "namespace", "sys-log")
    api = client(fabric, "aws")
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "fluentd", "namespace": "sys-log", "labels": {LABEL: "true"}},
               "spec": {"clusterIP": "10.3.88.18", "selector": {"app": "fluentd"},
                        "ports": [{"name": "http", "port": 8888}, {"name": "forward", "port": 8889}]}}  # fmt: skip
    api.create("/api/v1/namespaces/sys-log/services", service, "test")
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other", "namespace": "sys-log", "labels": {LABEL: "true"}},
             "spec": {"selector": {"app": "other"}, "ports": [{"port": 80}]}}  # fmt: skip
    api.create("/api/v1/namespaces/sys-log/services", other, "test")
    STATE["pods"] = [make_pod(fabric, name) for name in PODS]
    source_has(fabric, *STATE["pods"])
    STATE["before"] = fabric.snapshot("gcp")

    with fabric.witness() as writes:
        run = mirror(fabric, "--check", "--diff").ok()
    assert not writes and "+Service gcp/sys-semaphore/" + MIRROR in run.out and STATE["pods"][0] in run.out
    assert fabric.snapshot("gcp") == STATE["before"]

    mirror(fabric).ok()
    made = json.loads(fabric.kubectl("gcp", "-n", NAMESPACE, "get", "service", MIRROR, "-o", "json"))
    assert made["metadata"]["labels"] == {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
    assert [port["port"] for port in made["spec"]["ports"]] == [8888, 8889]
    assert made["spec"]["clusterIP"].startswith("10.5.") and made["spec"]["type"] == "ClusterIP" and "selector" not in made["spec"]
    ends = json.loads(fabric.kubectl("gcp", "-n", NAMESPACE, "get", "endpoints", MIRROR, "-o", "json"))
    assert sorted(a["ip"] for a in ends["subsets"][0]["addresses"]) == sorted(STATE["pods"])
    assert sorted(port["port"] for port in ends["subsets"][0]["ports"]) == [8888, 8889]
    STATE["address"] = made["spec"]["clusterIP"]


def test_packets_reach_the_pods_of_the_other_cluster(fabric):
    assert answers(fabric, {"fluentd-a", "fluentd-b"}) >= {"fluentd-a", "fluentd-b"}


def test_the_second_run_writes_nothing(fabric):
    with fabric.witness() as writes:
        run = mirror(fabric).ok()
    assert not run.changed and not writes


def test_scaling_follows(fabric):
    remove_pod(fabric, "fluentd-a")
    source_has(fabric, STATE["pods"][1])
    with fabric.witness() as writes:
        assert mirror(fabric).ok().changed
    ours = [line for line in writes if "multicluster.network%2F" in line]
    assert len(ours) == 1 and "gcp api: patch /api/v1/namespaces/{0}/endpoints/{1}?".format(NAMESPACE, MIRROR) in ours[0]
    time.sleep(1)
    assert answers(fabric, {"never"}, 12) == {"fluentd-b"}
    make_pod(fabric, "fluentd-a")
    source_has(fabric, *STATE["pods"])
    mirror(fabric).ok()
    assert answers(fabric, {"fluentd-a", "fluentd-b"}) == {"fluentd-a", "fluentd-b"}


def test_a_source_that_is_down_keeps_its_mirrors(fabric):
    fabric.lab("api-stop", "aws")
    run = mirror(fabric)
    assert run.rc != 0 and "cluster aws" in run.out and not run.changed
    assert answers(fabric, {"fluentd-a", "fluentd-b"}) == {"fluentd-a", "fluentd-b"}
    mirror(fabric, service_mirror_on_unreachable="empty")
    time.sleep(1)
    assert answers(fabric, {"never"}, 3) == {""}
    fabric.lab("api-start", "aws")
    mirror(fabric).ok()
    assert answers(fabric, {"fluentd-a", "fluentd-b"}) >= {"fluentd-a", "fluentd-b"}


def test_relabelling_and_deleting_follow(fabric):
    fabric.kubectl("aws", "-n", "sys-log", "label", "service", "fluentd", LABEL + "-")
    mirror(fabric).ok()
    assert MIRROR not in fabric.kubectl("gcp", "-n", NAMESPACE, "get", "services,endpoints", "-o", "name")
    fabric.kubectl("aws", "-n", "sys-log", "label", "service", "fluentd", LABEL + "=true")
    time.sleep(1)
    mirror(fabric).ok()
    assert MIRROR in fabric.kubectl("gcp", "-n", NAMESPACE, "get", "services", "-o", "name")
    fabric.kubectl("aws", "-n", "sys-log", "delete", "service", "fluentd")
    time.sleep(1)
    mirror(fabric).ok()
    assert MIRROR not in fabric.kubectl("gcp", "-n", NAMESPACE, "get", "services,endpoints", "-o", "name")


def test_absent_leaves_nothing(fabric):
    assert mirror(fabric, service_mirror_state="absent").ok().changed
    assert not mirror(fabric, service_mirror_state="absent").ok().changed
    assert fabric.kubectl("gcp", "-n", NAMESPACE, "get", "services,endpoints,endpointslices", "-o", "name").strip() == ""
