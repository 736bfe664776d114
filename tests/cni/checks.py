# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to hold over pods of any network plugin."""

from __future__ import annotations

import json
import time

MIRRORED = {"mirror.semaphore.uw.io/mirror-service": "true"}
SERVICES = {"service_mirror_create_namespace": True}


def service(app, port=8080):
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": app, "namespace": "default", "labels": MIRRORED},
        "spec": {"selector": {"app": app}, "ports": [{"port": 8080, "targetPort": port}]},
    }


def joined(fabric, **variables):
    """site and verify, and pods of all clusters with their own addresses; a further run changes nothing."""
    fabric.play("site", variables=variables).ok()
    pairs = fabric.all_kept()
    run = fabric.play("verify", variables=variables).ok()
    assert "all green" in run.out, run.out[-3000:]
    assert not fabric.play("site", variables=variables).ok().changed
    return pairs


def mirrors(fabric, here, there):
    """Pods of ``here`` reach pods of ``there`` by a mirrored Service and its name, with their own addresses; host-network pods are refused by name."""
    fabric.apply(there, service("mirror"), service("host", 18080))
    run = fabric.play("service_mirror", variables=SERVICES)
    assert "host_network_in_clear" in run.out, run.out[-4000:]
    fabric.play("coredns_rewrite").ok()
    name, end = f"mirror.default.svc.cluster.{there}", time.monotonic() + 60
    while True:
        seen = {pod: fabric.ask(here, pod, [name]).get(name) for pod, unused in fabric.pods(here).values()}
        expected = dict(fabric.pods(here).values())
        if seen == expected:
            break
        assert time.monotonic() < end, (seen, expected)
        time.sleep(1)
    fabric.ran(f"{name} answers pods of {here}")


def hosts(fabric, here, there):
    """A client on the host's network has answers from pods of its own cluster, and none from another cluster."""
    clients = fabric.pods(here, "host")
    for node, (pod, unused) in clients.items():
        near = [address for unused_name, address in fabric.pods(here).values()]
        far = [address for unused_name, address in fabric.pods(there).values()]
        seen = fabric.ask(here, pod, near + far)
        assert all(seen[address] for address in near), (node, seen)
        assert not any(seen[address] for address in far), (node, seen)


def traced(fabric, source, target):
    """A trace from each pod of a cluster to each of another, observed: it arrives. Returns the documents."""
    found = []
    for pod, unused in fabric.pods(source).values():
        for other, unused_address in fabric.pods(target).values():
            path = fabric.state / "trace.json"
            ends = {"trace_from": f"{source}/default/{pod}", "trace_to": f"{target}/default/{other}"}
            fabric.play("trace", variables=dict(ends, trace_document=str(path))).ok()
            document = json.loads(path.read_text(encoding="utf-8"))
            assert document["verdict"] == "arrives", document["table"]
            found.append(document)
    return found
