# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests put into clusters with real pods, and how they wait for it."""

from __future__ import annotations

import json
import time

SHELL = "nicolaka/netshoot:v0.15"
HTTPD = 'echo "$POD on $NODE has $WORDS" > /tmp/index.html; echo serving; exec httpd -f -p 8080 -h /tmp'


def field(path):
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def server(words):
    """A container that answers HTTP with its pod's name, its node's, and some words."""
    return {
        "name": "web",
        "image": "busybox:1.36",
        "command": ["sh", "-c", HTTPD],
        "env": [
            {"name": "POD", **field("metadata.name")},
            {"name": "NODE", **field("spec.nodeName")},
            {"name": "WORDS", "value": words},
        ],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
        "livenessProbe": {
            "exec": {"command": ["test", "!", "-e", "/tmp/ill"]},
            "periodSeconds": 1,
            "failureThreshold": 1,
        },
    }


def workload(kind, name, words, **spec):
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [server(words)]},
    }
    spec.update(selector={"matchLabels": {"app": name}}, template=template)
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def service(name, **spec):
    spec.update(selector={"app": name}, ports=[{"port": 80, "targetPort": 8080}])
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def shell(name="shell", **spec):
    """A pod with tools that waits."""
    container = {"name": "shell", "image": SHELL, "command": ["sleep", "1000000"]}
    spec.update(terminationGracePeriodSeconds=0, containers=[container])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def apply(fabric, cluster, *items):
    file = fabric.state / "apply.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}), encoding="utf-8")
    fabric.kubectl(cluster, "apply", "-f", str(file))


def ready(fabric, cluster, what):
    fabric.kubectl(cluster, "rollout", "status", what, "--timeout=300s")


def eventually(ask, desired, within=120):
    """Ask until the answer is as desired: kubelets, controllers and proxies act on their own."""
    end = time.monotonic() + within
    while True:
        found = ask()
        if desired(found):
            return found
        assert time.monotonic() < end, found
        time.sleep(0.5)
