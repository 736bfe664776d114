# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two clusters with real pods, joined by site.yml, and the reconciler that keeps their exports and imports."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time

from harness import Fabric

MODULE = "ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.program"
#: What a user puts into the inventory for the Multi-Cluster Services API with its names.
SETTINGS = {"multicluster_capabilities": ["mcs", "coredns_rewrite"], "mcs_install_crds": True}
#: A shell with nslookup, nc and curl; an image of the lab.
SHELL = "nicolaka/netshoot:v0.15"


class Plane(Fabric):
    """The lab, the mesh, the reconciler."""

    def __init__(self, name):
        super().__init__(name, topology=os.environ.get("MCN_TOPOLOGY", "two"))
        self.process, self.log = None, self.state / "reconciler.log"

    def begin(self):
        """Everything a user would do once, then the reconciler."""
        self.lab("up", "--topology", self.topology, "--pods", "real")
        for cluster in self.clusters:  # verify asks for a pod on each node
            self.apply(cluster, workload(cluster, "echo", "default", "DaemonSet"))
        for cluster in self.clusters:
            self.kubectl(cluster, "rollout", "status", "daemonset/echo", "--timeout=300s")
        self.ran("lab up")
        self.play("site", variables=SETTINGS).ok()
        self.follow()

    def follow(self):
        """Start the reconciler and wait until it leads."""
        command = [
            str(pathlib.Path(sys.executable).with_name("ansible-playbook")),
            "-i",
            str(self.inventory),
            "-e",
            json.dumps(SETTINGS),
        ]
        config = {
            "fabric": "default",
            "inventory": str(self.inventory),
            "capabilities": ["mcs"],
            "clusters": [],
            "watch": [{"resource": "nodes", "playbooks": ["mesh"]}],
            "command": command,
        }
        (self.state / "reconciler.json").write_text(json.dumps(config), "utf-8")
        with self.log.open("wb") as output:
            words = [sys.executable, "-m", MODULE, str(self.state / "reconciler.json")]
            self.process = subprocess.Popen(words, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        self.eventually(lambda: b"event=leads" in self.log.read_bytes(), "the reconciler does not lead")
        self.ran("the reconciler leads")

    def rest(self):
        """End the reconciler; nothing is followed then."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None

    def eventually(self, ask, what, within=120.0):
        """What ``ask`` answers once that is true; it may fail until then."""
        end = time.monotonic() + within
        while True:
            try:
                found = ask()
            except (AssertionError, KeyError, IndexError, ValueError):
                found = None
            if found:
                return found
            if self.process is not None:
                assert self.process.poll() is None, (
                    "the reconciler ended:\n" + self.log.read_text("utf-8", "replace")[-4000:]
                )
            assert time.monotonic() < end, f"{what} within {within} s\n{self.log.read_text('utf-8', 'replace')[-4000:]}"
            time.sleep(0.2)

    # --- objects

    def apply(self, cluster, *items):
        file = self.state / "apply.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}), "utf-8")
        self.kubectl(cluster, "apply", "-f", str(file))

    def found(self, cluster, kind, name="", namespace="shop", **labels):
        """One object, or a list of those with the labels; None where there is no such object."""
        chosen = ["-l", ",".join("{0}={1}".format(*pair) for pair in labels.items())] if labels else []
        text = self.kubectl(
            cluster, "get", kind, *([name] if name else []), *chosen, "-n", namespace, "-o", "json", check=False
        )
        tree = json.loads(text) if text.strip() else None
        return tree if name or tree is None else tree["items"]

    def run(self, cluster, command, pod="shell", namespace="shop"):
        """What a shell in a pod prints."""
        return self.kubectl(cluster, "exec", "-n", namespace, pod, "--", "sh", "-c", command, check=False)


def namespace(name="shop"):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def shell(name="shell", space="shop"):
    container = {"name": "shell", "image": SHELL, "command": ["sleep", "1000000"]}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": space}, "spec": spec}


def service(name="web", space="shop", port=80, **spec):
    body = dict(
        {"selector": {"app": name}, "ports": [{"name": "http", "port": port, "targetPort": 8080, "protocol": "TCP"}]},
        **spec,
    )
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": space}, "spec": body}


def export(name="web", space="shop", **spec):
    metadata = {"name": name, "namespace": space}
    return dict(
        {"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "metadata": metadata},
        **({"spec": spec} if spec else {}),
    )


def workload(words, name="web", space="shop", kind="Deployment", replicas=1):
    """Pods that answer HTTP with their name and some words."""
    field = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    container = {
        "name": "web",
        "image": "busybox:1.36",
        "env": [{"name": "POD", **field}],
        "command": ["sh", "-c", f'echo "$POD of {words}" > /tmp/index.html; exec httpd -f -p 8080 -h /tmp'],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
    }
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    if kind != "DaemonSet":
        spec["replicas"] = replicas
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": space}, "spec": spec}
