#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `make demo MODE=continuous` shows: the reconciler keeps a lab, a Service changes in one cluster, and when that is in the other.

Usage: continuous.py FOLDER-OF-THE-LAB
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import time

import yaml
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client

MODULE = "ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.program"
LABEL = "mirror.semaphore.uw.io/mirror-service"
NAMESPACE, MIRROR = "sys-semaphore", "aws-shop-73736d-web"
SERVICES, ENDPOINTS = "/api/v1/namespaces/{0}/services", "/api/v1/namespaces/{0}/endpoints"
#: Pods of the lab's topology.
PODS = ("10.2.1.10", "10.2.2.10")
SETTINGS = {
    "multicluster_capabilities": ["service_mirror"],
    "service_mirror_as": "endpoints",
    "service_mirror_create_namespace": True,
}


def clients(inventory):
    hosts = yaml.safe_load(inventory.read_text("utf-8"))["all"]["children"]["clusters"]["hosts"]
    return {
        name: Client(parse_access({"name": name, "kubeconfig": host["kubeconfig"]})) for name, host in hosts.items()
    }


def service(shared, name="web"):
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "shop", "labels": {LABEL: "true"} if shared else {}},
        "spec": {"ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]},
    }


def endpoints(*ips):
    subset = {"addresses": [{"ip": ip} for ip in ips], "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "web", "namespace": "shop", "labels": {LABEL: "true"}},
        "subsets": [subset],
    }


def arrived(gcp, desired):
    """Whether the mirror has these addresses; None: there is none."""
    found = [obj for obj in gcp.list(ENDPOINTS.format(NAMESPACE)).items if obj["metadata"]["name"] == MIRROR]
    ips = sorted(
        row["ip"] for obj in found for subset in obj.get("subsets") or () for row in subset.get("addresses") or ()
    )
    return not found if desired is None else bool(found) and ips == sorted(desired)


def show(what, change, gcp, desired):
    begun = time.monotonic()
    change()
    while not arrived(gcp, desired):
        if time.monotonic() - begun > 60:
            raise SystemExit("it did not arrive within a minute: " + what)
        time.sleep(0.02)
    print(f"   {what:<58} {time.monotonic() - begun:6.2f} s", flush=True)


def main(folder):
    inventory = pathlib.Path(folder, "inventory", "hosts.yml")
    both = clients(inventory)
    aws, gcp = both["aws"], both["gcp"]
    log = pathlib.Path(folder, "reconciler.log")
    with tempfile.TemporaryDirectory() as place, log.open("wb") as output:
        config = pathlib.Path(place, "config.json")
        command = [
            str(pathlib.Path(sys.executable).with_name("ansible-playbook")),
            "-i",
            str(inventory),
            "-e",
            json.dumps(SETTINGS),
        ]
        config.write_text(
            json.dumps(
                {
                    "fabric": "default",
                    "inventory": str(inventory),
                    "capabilities": ["service_mirror"],
                    "clusters": [],
                    "watch": [{"resource": "nodes", "playbooks": ["mesh"]}],
                    "command": command,
                }
            ),
            "utf-8",
        )
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE, str(config)], stdout=output, stderr=output, stdin=subprocess.DEVNULL
        )
        try:
            while b"part=service_mirror" not in log.read_bytes() and b"event=leads" not in log.read_bytes():
                if process.poll() is not None:
                    raise SystemExit("the reconciler ended:\n" + log.read_text("utf-8", "replace"))
                time.sleep(0.1)
            aws.apply(
                "/api/v1/namespaces/shop",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
                "demo",
            )
            # a source that has nothing any more is not believed at once, so there is another Service
            aws.apply(SERVICES.format("shop") + "/other", service(True, "other"), "demo", force=True)
            one = SERVICES.format("shop") + "/web", ENDPOINTS.format("shop") + "/web"

            def make():
                aws.apply(one[0], service(True), "demo", force=True)
                aws.apply(one[1], endpoints(PODS[0]), "demo", force=True)

            print(f"   in aws, until it is in gcp as {NAMESPACE}/{MIRROR}:")
            show("a new Service with the label, one pod behind it", make, gcp, PODS[:1])
            show("scaled to two pods", lambda: aws.apply(one[1], endpoints(*PODS), "demo", force=True), gcp, PODS)
            show("scaled to one pod", lambda: aws.apply(one[1], endpoints(PODS[1]), "demo", force=True), gcp, PODS[1:])
            show("the label taken away", lambda: aws.apply(one[0], service(False), "demo", force=True), gcp, None)
            show("the label again", lambda: aws.apply(one[0], service(True), "demo", force=True), gcp, PODS[1:])
            show(
                "the mirror deleted by somebody in gcp",
                lambda: gcp.delete(ENDPOINTS.format(NAMESPACE) + "/" + MIRROR),
                gcp,
                PODS[1:],
            )
            show("the Service deleted", lambda: aws.delete(one[0]), gcp, None)
            aws.delete(SERVICES.format("shop") + "/other")
            aws.delete(one[1])
        finally:
            process.terminate()
            process.wait(60)
    print("   its log: " + str(log))


if __name__ == "__main__":
    main(sys.argv[1])
