# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What scenarios of traces have in common: pods that answer, a trace's document, what a node is before and after."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time

from service_lab import LABEL, client, until

#: It answers as many at once as a batch of traces sends; a server with the usual short queue would drop some, and the trace would rightly say so.
SERVER = """
import socket
listener = socket.create_server(("", 8888), backlog=4096)
while True:
    listener.accept()[0].close()
"""
#: cluster/namespace/name of a Pod -> the pod of the lab in its place.
ENDS = {
    "aws/default/web": "aws-node-1-pod-1",
    "aws/default/web-2": "aws-node-2-pod-1",
    "gcp/sys-log/fluentd-a": "gcp-node-1-pod-1",
    "gcp/sys-log/other": "gcp-node-2-pod-1",
}


def populate(fabric, **spec):
    """The pods, and the Service of one of them."""
    fabric.kubectl("gcp", "create", "namespace", "sys-log")
    for name, pod in ENDS.items():
        make_pod(fabric, name, pod)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "fluentd", "namespace": "sys-log", "labels": {LABEL: "true"}},
        "spec": dict({"selector": {"app": "fluentd"}, "ports": [{"name": "http", "port": 8888}]}, **spec),
    }
    client(fabric, "gcp").create("/api/v1/namespaces/sys-log/services", service, "test")
    until(
        lambda: (
            "10.4.7."
            in fabric.kubectl("gcp", "-n", "sys-log", "get", "endpoints", "fluentd", "--ignore-not-found", "-o", "json")
        )
    )


def make_pod(fabric, name, pod):
    """A Pod object with the address of a pod of the lab, as a kubelet would report it."""
    cluster, namespace, short = name.split("/")
    api, base = client(fabric, cluster), f"/api/v1/namespaces/{namespace}/pods"
    until(lambda: "default" in fabric.kubectl(cluster, "-n", namespace, "get", "serviceaccounts", "-o", "name"))
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": short, "namespace": namespace, "labels": {"app": short.rpartition("-")[0] or short}},
        "spec": {
            "nodeName": pod.rpartition("-pod-")[0],
            "automountServiceAccountToken": False,
            "containers": [{"name": "c", "image": "i"}],
        },
    }
    api.create(base, body, "kubelet")
    links = json.loads(fabric.lab("pod-exec", pod, "--", "ip", "-j", "address", "show", "eth0").stdout)
    found = [row["local"] for row in links[0]["addr_info"] if row["scope"] == "global"]
    status = {
        "phase": "Running",
        "podIP": found[0],
        "podIPs": [{"ip": address} for address in found],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    api.merge_patch(base + "/" + short + "/status", {"status": status}, "kubelet")


@contextlib.contextmanager
def served(fabric, pod):
    """A small server in a pod, with its process on the pod's node, as a container has it: by that a node finds its pods' namespaces."""
    leader = (fabric.state / "nodes" / pod.rpartition("-pod-")[0] / "leader").read_text().split()[0]
    process = subprocess.Popen(
        [
            "nsenter",
            "--net=/run/netns/" + fabric.namespace(pod),
            "nsenter",
            "--target=" + leader,
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "--cgroup",
            "--root",
            "--wd",
            "/usr/bin/python3",
            "-c",
            SERVER,
        ],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=10)


def trace(fabric, *arguments, **variables):
    """(run, document) of a trace."""
    path = fabric.state / "trace.json"
    path.unlink(missing_ok=True)
    run = fabric.play("trace", *arguments, variables=dict(variables, trace_document=str(path)))
    assert run.rc == 0, run.out[-6000:]
    return run, json.loads(path.read_text("utf-8"))


def standing(value):
    """A snapshot without what packets count in other people's rules."""
    if isinstance(value, dict):
        return {key: standing(inner) for key, inner in value.items() if key not in ("packets", "bytes")}
    return [standing(inner) for inner in value] if isinstance(value, list) else value


def nodes_now(fabric):
    """Everything that a trace could leave on a node."""
    return standing(fabric.snapshot(*fabric.nodes))


def reported(document):
    """What was found, for people."""
    rows = [*document["findings"], *document.get("table", ())]
    return json.dumps(rows, indent=1)


def assert_arrives(fabric, within=60.0, **variables):
    """A new peer needs a handshake first."""
    deadline = time.monotonic() + within
    while True:
        run, document = trace(fabric, **variables)
        if document["verdict"] == "arrives" and not document["findings"]:
            return run, document
        assert time.monotonic() < deadline, reported(document)
        time.sleep(1)
