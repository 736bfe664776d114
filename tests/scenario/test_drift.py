# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift: whatever is tampered with is shown with its owner and healed by the next run. The tests build on each other, in order.

One KubeSpan mesh over both clusters, and mirrors, network sets and names on top of it.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys

import pytest
from harness import REPO
from service_lab import client, make_fluentd
from status_checks import check_metrics, check_services, check_sums, check_tunnels, kernels
from test_kubespan import MESH

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "unit"))

import status_schema  # pylint: disable=wrong-import-position

PROXIES = True
TOPOLOGY = "dual"
STATE = {}
KINDS = ("service_mirror", "network_sets", "coredns_rewrite")
VARIABLES = dict(
    MESH,
    multicluster_capabilities=list(KINDS),
    service_mirror_create_namespace=True,
    service_mirror_as="slices",
    network_sets_target="calico",
)
COREFILE = ".:53 {\n    errors\n    forward . /etc/resolv.conf\n    reload\n}\n"
WATCHER = "multicluster-network-default-watch.service"
STRANGER = "intruder"
NOBODYS_KEY = "ZIaHH+/lKD6Qd4cGGQnQcBWBKkasTnRUJ7m30oCgcAA="
SET_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "globalnetworksets.crd.projectcalico.org"},
    "spec": {
        "group": "crd.projectcalico.org",
        "scope": "Cluster",
        "names": {
            "plural": "globalnetworksets",
            "singular": "globalnetworkset",
            "kind": "GlobalNetworkSet",
            "listKind": "GlobalNetworkSetList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def site(fabric):
    return fabric.play("site", variables=VARIABLES).ok()


def status(fabric):
    """(document, text of the page, text of the metrics) of a run of the playbook."""
    folder = fabric.state / "status"
    fabric.play("status", variables=dict(VARIABLES, status_folder=str(folder))).ok()
    found = tuple((folder / ("fabric-status." + kind)).read_text() for kind in ("json", "html", "prom"))
    assert status_schema.problems(json.loads(found[0])) == []
    return found


@pytest.fixture(scope="module", autouse=True)
def ready(fabric):
    for cluster in fabric.clusters:
        api = client(fabric, cluster)
        api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", SET_CRD, "test")
        api.create(
            "/api/v1/namespaces/kube-system/configmaps",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "coredns"}, "data": {"Corefile": COREFILE}},
            "kubeadm",
        )
        fabric.kubectl(cluster, "wait", "--for=condition=Established", "crd/globalnetworksets.crd.projectcalico.org")
    make_fluentd(fabric)
    for pod in ("fluentd-a", "fluentd-b"):
        fabric.kubectl("aws", "-n", "sys-log", "label", "pod", pod, "policy.semaphore.uw.io/name=fluentd")
    site(fabric)


def test_a_fabric_at_rest_has_no_drift_and_every_number_is_right(fabric):
    fabric.all_reach()
    before = kernels(fabric, "kubespan")
    with fabric.witness() as writes:
        text, page, metrics = status(fabric)
    after = kernels(fabric, "kubespan")
    assert not writes
    document = json.loads(text)
    assert document["drift"] == [] and document["failures"] == []
    check_tunnels(document, before, after)
    assert check_services(fabric, document)
    check_sums(document)
    check_metrics(document, metrics)
    sets = json.loads(fabric.kubectl("gcp", "get", "globalnetworksets", "-o", "json"))["items"]
    assert [(row["name"], row["networks"]) for row in document["sets"] if row["cluster"] == "gcp"] == [
        (i["metadata"]["name"], len(i["spec"]["nets"])) for i in sets
    ]
    numbers = dict(re.findall(r'data-k="([^"]+)" data-v="([^"]*)"', page))
    assert numbers["summary.tunnels"] == str(len(after)) and numbers["summary.services"] == str(
        len(document["services"])
    )


def the_set(fabric):
    return json.loads(fabric.kubectl("gcp", "get", "globalnetworksets", "-o", "json"))["items"][0]["metadata"]["name"]


def tampering(fabric):
    """(what is shown: where, kind, part of the name, action, owner) and the deed, for each kind."""
    api = client(fabric, "gcp")
    mirror = "/api/v1/namespaces/sys-semaphore/services/aws-sys-log-73736d-fluentd"
    owned = "endpointslice.kubernetes.io/managed-by=multicluster.network"
    slices = json.loads(
        fabric.kubectl("gcp", "-n", "sys-semaphore", "get", "endpointslices", "-l", owned, "-o", "json")
    )
    name = slices["items"][0]["metadata"]["name"]
    device = fabric.wireguard("gcp-node-1")["kubespan"]["peers"]
    stolen = sorted(device)[0]
    address = re.search(
        r"inet6 (fd\S+) ", fabric.sh("gcp-node-2", "ip", "-6", "address", "show", "dev", "kubespan")
    ).group(1)

    # Kubernetes 1.20 keeps no record of who wrote to a Node
    recorded = (
        "managedFields" in json.loads(fabric.kubectl("gcp", "get", "--raw", "/api/v1/nodes/gcp-node-2"))["metadata"]
    )

    def run(node, *command):
        return lambda: fabric.sh(node, *command)

    def patch(path, body):
        return lambda: api.merge_patch(path, body, STRANGER)

    return {
        "a deleted rule": (
            ("aws-node-1", "rule", "32500", "create", "nobody"),
            run("aws-node-1", "ip", "rule", "del", "pref", "32500"),
        ),
        "an added peer": (
            ("aws-node-2", "peer", NOBODYS_KEY, "delete", "a key that nobody in the fabric has"),
            run("aws-node-2", "wg", "set", "kubespan", "peer", NOBODYS_KEY, "allowed-ips", "10.250.0.0/24"),
        ),
        "changed allowed IPs": (
            ("gcp-node-1", "peer", stolen, "update", "the key of "),
            run("gcp-node-1", "wg", "set", "kubespan", "peer", stolen, "allowed-ips", "10.251.0.0/24"),
        ),
        "a changed route": (
            ("aws-node-2", "route", "0.0.0.0/0", "create", "protocol 4"),
            run(
                "aws-node-2",
                *[
                    "ip",
                    "route",
                    "replace",
                    "default",
                    "dev",
                    "kubespan",
                    "table",
                    "180",
                    "metric",
                    "1",
                    "proto",
                    "static",
                    "mtu",
                    "1300",
                ],
            ),
        ),
        "a flushed chain": (
            ("aws-node-1", "nftables chain", "talos_kubespan", "update", "multicluster.network/default"),
            run("aws-node-1", "nft", "flush", "chain", "inet", "talos_kubespan", "kubespan_prerouting"),
        ),
        "a deleted table": (
            ("gcp-node-1", "nftables table", "talos_kubespan", "create", "nobody"),
            run("gcp-node-1", "nft", "delete", "table", "inet", "talos_kubespan"),
        ),
        "a removed address": (
            ("gcp-node-2", "link", "kubespan", "update", "multicluster.network/default"),
            run("gcp-node-2", "ip", "-6", "address", "del", address, "dev", "kubespan"),
        ),
        "another owner's edit of a mirror": (
            ("gcp", "Service", "aws-sys-log-73736d-fluentd", "update", STRANGER),
            patch(mirror, {"spec": {"ports": [{"name": "http", "port": 9999, "protocol": "TCP"}]}}),
        ),
        "a deleted EndpointSlice": (
            ("gcp", "EndpointSlice", name, "create", "nobody"),
            lambda: fabric.kubectl("gcp", "-n", "sys-semaphore", "delete", "endpointslice", name),
        ),
        "a changed network set": (
            ("gcp", "GlobalNetworkSet", the_set(fabric), "update", STRANGER),
            patch(
                "/apis/crd.projectcalico.org/v1/globalnetworksets/" + the_set(fabric), {"spec": {"nets": ["0.0.0.0/0"]}}
            ),
        ),
        "a changed annotation": (
            ("gcp", "node", "gcp-node-2", "update", STRANGER if recorded else "nobody"),
            patch(
                "/api/v1/nodes/gcp-node-2",
                {"metadata": {"annotations": {"networking.talos.dev/self-ips": "203.0.113.9"}}},
            ),
        ),
        "a deleted section of CoreDNS": (
            ("gcp", "ConfigMap", "kube-system/coredns", "update", STRANGER),
            patch("/api/v1/namespaces/kube-system/configmaps/coredns", {"data": {"Corefile": COREFILE}}),
        ),
    }


def test_each_kind_of_tampering_is_shown_with_its_owner(fabric):
    deeds = tampering(fabric)
    for node in fabric.nodes:  # it would put back within a second what the kernel is asked for here
        fabric.sh(node, "systemctl", "stop", WATCHER)
    for dummy, deed in deeds.values():
        deed()
    document = json.loads(status(fabric)[0])
    pathlib.Path(fabric.state / "drift.json").write_text(json.dumps(document["drift"], indent=1))
    missing = []
    for what, ((where, kind, name, action, owner), dummy) in deeds.items():
        rows = [
            row for row in document["drift"] if row["where"] == where and row["kind"] == kind and name in row["name"]
        ]
        if not [row for row in rows if row["action"] == action and row["owner"].startswith(owner)]:
            missing.append((what, rows))
        if owner == STRANGER:
            assert all(re.match(r"20\d\d-\d\d-\d\dT", row["since"]) for row in rows), what
    assert not missing, "\n".join(map(str, missing + document["drift"]))
    assert all(
        row["first_seen"] == document["generated"] and row["last_good"] == document["since_last_run"]["previous"]
        for row in document["drift"]
    )
    STATE["drift"] = document["drift"]
    assert [row["where"] for row in document["drift"] if row["kind"] == "unit"] == fabric.nodes, (
        "the watchers that were stopped above"
    )


def test_it_stays_shown_with_the_time_of_the_first_run_that_saw_it(fabric):
    document = json.loads(status(fabric)[0])
    first = {(row["where"], row["kind"], row["name"]): row["first_seen"] for row in STATE["drift"]}
    seen = {(row["where"], row["kind"], row["name"]): row["first_seen"] for row in document["drift"]}
    assert {key: seen.get(key) for key in first} == first
    assert document["since_last_run"]["new"] == []


def test_the_next_run_heals_it(fabric):
    site(fabric)
    for node in fabric.nodes:
        assert fabric.sh(node, "systemctl", "is-active", WATCHER).strip() in ("active", "activating")
    document = json.loads(status(fabric)[0])
    assert document["drift"] == [], document["drift"]
    assert len(document["since_last_run"]["gone"]) >= 12
    fabric.all_reach()


def test_an_unreachable_cluster_and_an_unreachable_node_are_named(fabric):
    fabric.lab("api-stop", "aws")
    fabric.lab("node-stop", "gcp-node-2")
    try:
        run = fabric.play(
            "status",
            variables=dict(VARIABLES, status_folder=str(fabric.state / "status"), status_timeout=5, mesh_timeout=5),
        )
        document = json.loads((fabric.state / "status" / "fabric-status.json").read_text())
    finally:
        fabric.lab("api-start", "aws")
        fabric.lab("node-rebuild", "gcp-node-2")
    run.ok()
    assert {row["host"]: row["answered"] for row in document["nodes"]} == {
        node: node != "gcp-node-2" for node in fabric.nodes
    }
    assert {row["name"]: row["reachable"] for row in document["clusters"]} == {"aws": False, "gcp": True}
    assert "aws" in {row["cluster"] for row in document["failures"]}
    reported = [row for row in document["tunnels"] if row["state"] in ("up", "stale", "never")]
    assert len(reported) == 9 and document["summary"]["tunnels_unknown"] >= 1, (
        "what the unreachable node would report is unknown, and not left out"
    )
    assert (
        document["verdict"]["value"] == "broken"
        and next(row for row in document["nodes"] if row["host"] == "gcp-node-2")["why"]
    )


def test_nothing_of_the_mesh_is_secret_in_what_was_written(fabric):
    text = "".join(path.read_text() for path in (fabric.state / "status").iterdir())
    assert VARIABLES["mesh_secret"] not in text
    assert REPO.name and "BEGIN" not in text
