# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services of a lab: Pods as a kubelet would report them, a small server in each, and questions from the other cluster."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time

from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from harness import LAB

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


def client(fabric, cluster):
    return Client(parse_access({"name": cluster, "kubeconfig": str(fabric.state / cluster / "kubeconfig")}))


def pod_address(fabric, pod):
    return re.search(
        r"inet ([0-9.]+)", fabric.lab("pod-exec", pod, "--", "ip", "-4", "-o", "address", "show", "eth0").stdout
    ).group(1)


def make_pod(fabric, name, labels=None):
    """A Pod object for a pod of the lab, as a kubelet would report it."""
    node, pod = PODS[name]
    api, base = client(fabric, "aws"), "/api/v1/namespaces/sys-log/pods"
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "sys-log", "labels": labels or {"app": "fluentd"}},
        "spec": {"nodeName": node, "automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]},
    }
    api.create(base, body, "test")
    address = pod_address(fabric, pod)
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    api.merge_patch(base + "/" + name + "/status", {"status": status}, "test")
    return address


def remove_pod(fabric, name):
    fabric.kubectl("aws", "-n", "sys-log", "delete", "pod", name, "--grace-period=0", "--force")


def until(condition, seconds=60.0):
    """Wait for something that another program does in its own time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not come about within {seconds} s"
        time.sleep(0.2)


def source_has(fabric, *addresses):
    """Wait for the endpoints controller of aws."""

    def there():
        found = json.loads(
            fabric.kubectl("aws", "-n", "sys-log", "get", "endpoints", "fluentd", "--ignore-not-found", "-o", "json")
            or "{}"
        )
        return sorted(a["ip"] for s in found.get("subsets") or () for a in s.get("addresses") or ()) == sorted(
            addresses
        )

    until(there)


def make_fluentd(fabric):
    """The seed's Service in aws, with its pods; returns their addresses once the endpoints controller knows them."""
    fabric.kubectl("aws", "create", "namespace", "sys-log")
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "fluentd", "namespace": "sys-log", "labels": {LABEL: "true"}},
        "spec": {
            "clusterIP": "10.3.88.18",
            "selector": {"app": "fluentd"},
            "ports": [{"name": "http", "port": 8888}, {"name": "forward", "port": 8889}],
        },
    }
    client(fabric, "aws").create("/api/v1/namespaces/sys-log/services", service, "test")
    pods = [make_pod(fabric, name) for name in PODS]
    source_has(fabric, *pods)
    return pods


@contextlib.contextmanager
def running(fabric, *command):
    """A program inside a node or pod; ``command`` as the lab's command line takes it."""
    words = ["/usr/bin/python3", str(LAB), command[0], "--name", fabric.name, *command[1:]]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=10)


@contextlib.contextmanager
def pods_serve(fabric):
    """A small HTTP server in each pod of aws, and kube-proxy where the client is."""
    fabric.lab("kube-proxy-start", "gcp-node-1")
    with contextlib.ExitStack() as stack:
        for name, (unused, pod) in PODS.items():
            stack.enter_context(running(fabric, "pod-exec", pod, "--", "/usr/bin/python3", "-c", SERVER, name))
        yield


def in_pod(fabric, script, resolver=None):
    """What a shell script prints in a pod of gcp. ``resolver``: a resolv.conf such as a kubelet would give to the pod."""
    words = ["sh", "-c", script]
    if resolver:
        words = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            'mount --bind "$0" /etc/resolv.conf && exec "$@"',
            str(resolver),
            *words,
        ]
    return fabric.lab("pod-exec", "gcp-node-1-pod-1", "--", *words, check=False).stdout


def only(fabric, url, desired, resolver=None, rounds=20, requests=8):
    """Who answers under a URL, asked from a pod of gcp, in the first round in which exactly ``desired`` do; else in the last one.

    Requests of one round reach everybody behind an address, by chance: with two, one is missing in one round of a hundred.
    """
    seen = set()
    for dummy in range(rounds):
        script = f"for i in $(seq {requests}); do curl -s -m 5 {url}; echo; done"
        seen = set(in_pod(fabric, script, resolver).split("\n")[:requests])
        if seen == desired:
            break
        time.sleep(0.5)
    return seen
