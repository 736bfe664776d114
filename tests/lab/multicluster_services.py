#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `make demo MODE=mcs` shows: a Service of two clusters with real pods, exported from both, and a pod that asks for it by its one name.

Usage: multicluster_services.py FOLDER-OF-THE-LAB deploy|export|ask
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time

LAB = str(pathlib.Path(__file__).with_name("lab.py"))
CLUSTERS = ("aws", "gcp")
SPACE, NAME = "sys-log", "fluentd"
HOST = f"{NAME}.{SPACE}.svc.clusterset.local"
#: So often the pod asks; that one of two clusters never answers would be a chance of one in a million.
TIMES = 20
#: Until CoreDNS has the changed Corefile and the client its answer, on a slow machine.
PATIENCE = 300.0


def kubectl(folder, cluster, *arguments, given=None, check=True):
    """What kubectl prints."""
    command = ["/usr/bin/python3", LAB, "kubectl", cluster, "--", *arguments]
    environment = dict(os.environ, MCN_LAB_STATE=str(folder.parent), MCN_LAB=folder.name)
    done = subprocess.run(command, env=environment, input=given, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise SystemExit(f"kubectl {' '.join(arguments)} in {cluster}:\n{done.stdout + done.stderr}")
    return done.stdout


def apply(folder, cluster, *items):
    kubectl(
        folder,
        cluster,
        "apply",
        "-f",
        "-",
        given=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}),
    )


def pods(cluster):
    """A pod on each node that prints who it is; one more to ask from."""
    answer = f'echo "$POD, a pod of cluster {cluster}" > /tmp/index.html; exec httpd -f -p 8888 -h /tmp'
    who = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    container = {
        "name": NAME,
        "image": "busybox:1.36",
        "command": ["sh", "-c", answer],
        "env": [who],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8888}, "periodSeconds": 1},
    }
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    template = {"metadata": {"labels": {"app": NAME}}, "spec": spec}
    client = {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "client", "image": "nicolaka/netshoot:v0.15", "command": ["sleep", "1000000"]}],
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": NAME, "namespace": SPACE},
            "spec": {"selector": {"matchLabels": {"app": NAME}}, "template": template},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME, "namespace": SPACE},
            "spec": {
                "selector": {"app": NAME},
                "ports": [{"name": "http", "port": 80, "targetPort": 8888, "protocol": "TCP"}],
            },
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client", "namespace": SPACE}, "spec": client},
    ]


def deploy(folder):
    for cluster in CLUSTERS:
        apply(folder, cluster, *pods(cluster))
    for cluster in CLUSTERS:
        kubectl(folder, cluster, "-n", SPACE, "rollout", "status", "daemonset/" + NAME, "--timeout=300s")
        kubectl(folder, cluster, "-n", SPACE, "wait", "--for=condition=Ready", "pod/client", "--timeout=300s")


def export(folder):
    made = {
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceExport",
        "metadata": {"name": NAME, "namespace": SPACE},
    }
    for cluster in CLUSTERS:
        apply(folder, cluster, made)


def answers(folder, cluster):
    """{who answered, or why nobody did: how often} of TIMES questions from a pod, one after the other."""
    script = f"for i in $(seq {TIMES}); do curl -s -S -m 5 http://{HOST}/ 2>&1 || true; done"
    found: dict[str, int] = {}
    shown = kubectl(folder, cluster, "-n", SPACE, "exec", "client", "--", "sh", "-c", script, check=False)
    for line in shown.splitlines():
        found[line] = found.get(line, 0) + 1
    return found


def ask(folder):
    """From each cluster, until every question is answered and pods of both did; what was not answered before is counted and shown."""
    for cluster in CLUSTERS:
        address = ",".join(
            json.loads(kubectl(folder, cluster, "-n", SPACE, "get", "serviceimport", NAME, "-o", "json"))["spec"]["ips"]
        )
        begun, lost = time.monotonic(), {}
        while True:
            round_began = time.monotonic()
            found = answers(folder, cluster)
            good = {line: times for line, times in found.items() if line.split(" ")[-1] in CLUSTERS}
            if sum(good.values()) == TIMES and {line.split(" ")[-1] for line in good} == set(CLUSTERS):
                break
            for line in set(found) - set(good):
                lost[line] = lost.get(line, 0) + found[line]
            if round_began - begun > PATIENCE:
                raise SystemExit(f"{HOST} was not answered by pods of both clusters: {found}")
        if lost:
            waited = round_began - begun
            print(f"   a pod of {cluster} had no answer {sum(lost.values())} times in the first {waited:.0f} s:")
            for line, times in sorted(lost.items()):
                print(f"   {times:>6} x {line[:120]}")
        print(f"   a pod of {cluster} asks {HOST} = {address} {TIMES} times; answered by")
        for line, times in sorted(good.items()):
            print(f"   {times:>6} x {line}")


if __name__ == "__main__":
    {"deploy": deploy, "export": export, "ask": ask}[sys.argv[2]](pathlib.Path(sys.argv[1]))
