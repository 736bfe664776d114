# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to hold over pods of any network plugin."""

from __future__ import annotations

import json
import os
import time

import pictures
from harness import REPO

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
    if fabric.dual:
        assert fabric.all_kept(version=6) == pairs
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


def imports(fabric, here, there):
    """Pods of ``here`` reach pods of ``there`` at the address of an import, with their own addresses."""
    variables = {"multicluster_capabilities": ["mcs"], "mcs_install_crds": True, "mcs_namespaces": ["default"]}
    fabric.play("mcs", variables=variables).ok()
    fabric.apply(
        there, {"apiVersion": EXPORTS, "kind": "ServiceExport", "metadata": {"name": "mirror", "namespace": "default"}}
    )
    run = fabric.play("mcs", variables=variables).ok()

    def address():
        items = fabric.objects(here, "serviceimports.multicluster.x-k8s.io")
        return next(
            (ip for item in items if item["metadata"]["name"] == "mirror" for ip in item["spec"].get("ips") or ()), None
        )

    target = address()
    assert target, run.out[-4000:]
    expected = dict(fabric.pods(here).values())
    fabric.until(
        "answers at the address of the import",
        lambda: {pod: fabric.ask(here, pod, [target]).get(target) for pod in expected} == expected,
    )
    fabric.ran(f"the import of {there} answers pods of {here}")


EXPORTS, PORT = "multicluster.x-k8s.io/v1beta1", 30880


def node_ports(fabric, here, there):
    """Pods of each node of ``here`` ask a NodePort of each node, behind which is a pod of ``there``: all have an answer, which came to that node."""
    (far, *dummy) = [address for unused, address in fabric.pods(there).values()]
    meta, port = {"name": "far", "namespace": "default"}, {"name": "http", "port": 8080, "protocol": "TCP"}
    fabric.apply(
        here,
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {"type": "NodePort", "ports": [dict(port, nodePort=PORT)]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": dict(meta, labels={"kubernetes.io/service-name": "far"}),
            "addressType": "IPv6" if ":" in far else "IPv4",
            "endpoints": [{"addresses": [far], "conditions": {"ready": True}}],
            "ports": [port],
        },
    )
    nodes = {node: fabric.machinery.machine(node).node.address for node in fabric.nodes_of(here)}
    ranges = {address: node for node, address in nodes.items()}
    for node, (pod, own) in fabric.pods(here).items():
        for target, other in ranges.items():
            words = ["exec", pod, "--", "sh", "-c", f"nc -w 4 {target} {PORT} </dev/null"]
            seen = fabric.until(
                f"an answer for the pod of {node} at port {PORT} of {other}",
                lambda words=words: fabric.kubectl(here, *words, check=False).strip(),
                60,
            )
            assert seen != target and (seen == own or fabric.cluster_of_address(seen) == here), (node, target, seen)
    fabric.kubectl(here, "delete", "service/far")
    fabric.ran(f"port {PORT} of each node of {here} leads pods of both to {there}")


def hosts(fabric, here, there):
    """A client on the host's network has answers from pods of all clusters; those of another one see an address that its node holds inside its pods' ranges."""
    clients = fabric.pods(here, "host")
    for node, (pod, unused) in clients.items():
        near = [address for unused_name, address in fabric.pods(here).values()]
        far = [address for unused_name, address in fabric.pods(there).values()]
        seen, held = fabric.ask(here, pod, near + far), fabric.sh(node, "ip", "-o", "address")
        assert all(seen[address] for address in near), (node, seen)
        sources = {seen[address] for address in far}
        assert "" not in sources and {fabric.cluster_of_address(source) for source in sources} == {here}, (node, seen)
        assert all(f"inet {source}/" in held for source in sources), (node, seen, held)


def traced(fabric, source, target, most=None):
    """A trace from each pod of a cluster to each of another, observed: it arrives, by what guide_packets has in its pictures. Returns the documents,
    ``most`` of them."""
    pairs = [
        (pod, other) for pod, unused in fabric.pods(source).values() for other, dummy in fabric.pods(target).values()
    ]
    found = []
    for pod, other in pairs[:most]:
        path = fabric.state / "trace.json"
        ends = {"trace_from": f"{source}/default/{pod}", "trace_to": f"{target}/default/{other}"}
        fabric.play("trace", variables=dict(ends, trace_document=str(path))).ok()
        document = json.loads(path.read_text(encoding="utf-8"))
        assert document["verdict"] == "arrives", document["table"]
        absent = pictures.missing(document["hops"])
        assert not absent, (absent, document["table"])
        found.append(document)
    if {source, target} & set(pictures.PICTURES):
        record(f"{source} to {target}", found[0])
    return found


RECORDED = REPO / "tests" / "fixtures" / "cni" / "traces.json"
FIELDS = ("direction", "where", "what", "expected", "observed", "verdict")


def record(name, document):
    """With RECORD: keep the hops of a trace, which are compared with the picture of its network plugins without them."""
    if os.environ.get("RECORD"):
        known = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
        flow = document["hops"][0]["flow"]
        known[name] = [{field: hop[field] for field in FIELDS} for hop in document["hops"] if hop["flow"] == flow]
        RECORDED.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
