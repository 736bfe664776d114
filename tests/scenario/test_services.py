# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services across clusters, with real packets through kube-proxy and the tunnel. The tests build on each other, in order."""

from __future__ import annotations

import json
import re

import pytest
from service_lab import LABEL, client, make_fluentd, make_pod, only, pods_serve, remove_pod, source_has, until
from status_checks import check_metrics, check_services, check_sums, check_tunnels, kernels

MIRROR, NAMESPACE = "aws-sys-log-73736d-fluentd", "sys-semaphore"
PROXIES = True
VARIABLES = {"service_mirror_create_namespace": True, "service_mirror_as": "endpoints"}
STATE = {}


def mirror(fabric, *arguments, **variables):
    return fabric.play("service_mirror", *arguments, variables=dict(VARIABLES, **variables))


def answers(fabric, desired):
    """Wait until exactly these pods answer behind the mirror's address: kube-proxy follows when it comes to it."""
    found = only(fabric, f"http://{STATE['address']}:8888/", desired)
    assert found == desired, f"{found} answer instead of {desired}"


@pytest.fixture(scope="module", autouse=True)
def servers(fabric):
    fabric.play("mesh").ok()
    with pods_serve(fabric):
        yield


def test_the_seed_example(fabric):
    STATE["pods"] = make_fluentd(fabric)
    other = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "other", "namespace": "sys-log", "labels": {LABEL: "true"}},
        "spec": {"selector": {"app": "other"}, "ports": [{"port": 80}]},
    }
    client(fabric, "aws").create("/api/v1/namespaces/sys-log/services", other, "test")
    STATE["before"] = fabric.snapshot("gcp")

    with fabric.witness() as writes:
        run = mirror(fabric, "--check", "--diff").ok()
    assert not writes and "+Service gcp/sys-semaphore/" + MIRROR in run.out and STATE["pods"][0] in run.out
    assert fabric.snapshot("gcp") == STATE["before"]

    mirror(fabric).ok()
    made = json.loads(fabric.kubectl("gcp", "-n", NAMESPACE, "get", "service", MIRROR, "-o", "json"))
    assert made["metadata"]["labels"] == {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
    assert [port["port"] for port in made["spec"]["ports"]] == [8888, 8889]
    assert (
        made["spec"]["clusterIP"].startswith("10.5.")
        and made["spec"]["type"] == "ClusterIP"
        and "selector" not in made["spec"]
    )
    ends = json.loads(fabric.kubectl("gcp", "-n", NAMESPACE, "get", "endpoints", MIRROR, "-o", "json"))
    assert sorted(a["ip"] for a in ends["subsets"][0]["addresses"]) == sorted(STATE["pods"])
    assert sorted(port["port"] for port in ends["subsets"][0]["ports"]) == [8888, 8889]
    STATE["address"] = made["spec"]["clusterIP"]


def test_packets_reach_the_pods_of_the_other_cluster(fabric):
    answers(fabric, {"fluentd-a", "fluentd-b"})


def test_a_node_port_of_another_node_leads_to_them_too(fabric):
    """Asked by pods of both nodes: kube-proxy translates and marks, and the mesh's table gives what it marked an address of this node's pods."""
    services, ends = "/api/v1/namespaces/default/services", "/api/v1/namespaces/default/endpoints"
    meta, ports = {"name": "far", "namespace": "default"}, [{"name": "http", "port": 8888}]
    spec = {"type": "NodePort", "ports": [dict(ports[0], nodePort=30080)]}
    api = client(fabric, "gcp")
    api.create(services, {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}, "test")
    addresses = [{"ip": STATE["pods"][0]}]
    subsets = [{"addresses": addresses, "ports": ports}]
    api.create(ends, {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": subsets}, "test")
    url = "http://10.22.22.27:30080/"
    for pod in ("gcp-node-1-pod-1", "gcp-node-2-pod-1"):
        words = ["pod-exec", pod, "--", "curl", "-s", "-m", "2", url]
        until(lambda words=words: fabric.lab(*words, check=False).stdout == "fluentd-a", 30)
    kept = fabric.sh("gcp-node-1", "nft", "list", "table", "inet", "multicluster-network-default-nat")
    assert "snat ip to 10.4." in kept
    fabric.kubectl("gcp", "delete", "service", "far")


def test_the_second_run_writes_nothing(fabric):
    with fabric.witness() as writes:
        run = mirror(fabric).ok()
    assert not run.changed and not writes


def test_the_page_has_what_kernels_and_api_servers_have(fabric):
    folder = fabric.state / "status"
    before = kernels(fabric, "wireguard.")
    fabric.play(
        "status", variables=dict(VARIABLES, multicluster_capabilities=["service_mirror"], status_folder=str(folder))
    ).ok()
    after = kernels(fabric, "wireguard.")
    document = json.loads((folder / "fabric-status.json").read_text())
    check_tunnels(document, before, after)
    assert {
        name: count for (dummy, dummy_too, name), (dummy_ip, count) in check_services(fabric, document).items()
    } == {
        MIRROR: 2,
        "aws-sys-log-73736d-other": 0,
    }
    check_sums(document)
    check_metrics(document, (folder / "fabric-status.prom").read_text())
    numbers = dict(re.findall(r'data-k="([^"]+)" data-v="([^"]*)"', (folder / "fabric-status.html").read_text()))
    desired = {"summary.nodes": "4", "summary.tunnels": "8", "summary.endpoints": "2", "summary.drift": "0"}
    assert {name: numbers.get(name) for name in desired} == desired


def test_scaling_follows(fabric):
    remove_pod(fabric, "fluentd-a")
    source_has(fabric, STATE["pods"][1])
    with fabric.witness() as writes:
        assert mirror(fabric).ok().changed
    owned = [line for line in writes if "multicluster.network%2F" in line]
    assert len(owned) == 1 and f"gcp api: patch /api/v1/namespaces/{NAMESPACE}/endpoints/{MIRROR}?" in owned[0]
    answers(fabric, {"fluentd-b"})
    make_pod(fabric, "fluentd-a")
    source_has(fabric, *STATE["pods"])
    mirror(fabric).ok()
    answers(fabric, {"fluentd-a", "fluentd-b"})


def test_a_source_that_is_down_keeps_its_mirrors(fabric):
    fabric.lab("api-stop", "aws")
    run = mirror(fabric)
    assert run.rc != 0 and "cluster aws" in run.out and not run.changed
    answers(fabric, {"fluentd-a", "fluentd-b"})
    mirror(fabric, service_mirror_on_unreachable="empty")
    answers(fabric, {""})
    fabric.lab("api-start", "aws")
    mirror(fabric).ok()
    answers(fabric, {"fluentd-a", "fluentd-b"})


def test_relabelling_and_deleting_follow(fabric):
    fabric.kubectl("aws", "-n", "sys-log", "label", "service", "fluentd", LABEL + "-")
    stopped = mirror(fabric)
    assert stopped.rc != 0 and "service_unlabelled/gcp/aws" in stopped.out, stopped.out[-4000:]
    mirror(fabric, multicluster_confirm_lost=["service_unlabelled/gcp/aws"]).ok()
    assert MIRROR not in fabric.kubectl("gcp", "-n", NAMESPACE, "get", "services,endpoints", "-o", "name")
    fabric.kubectl("aws", "-n", "sys-log", "label", "service", "fluentd", LABEL + "=true")
    until(
        lambda: (
            "fluentd" in fabric.kubectl("aws", "-n", "sys-log", "get", "endpoints", "-l", LABEL + "=true", "-o", "name")
        )
    )
    mirror(fabric).ok()
    assert MIRROR in fabric.kubectl("gcp", "-n", NAMESPACE, "get", "services", "-o", "name")
    fabric.kubectl("aws", "-n", "sys-log", "delete", "service", "fluentd")
    until(lambda: "fluentd" not in fabric.kubectl("aws", "-n", "sys-log", "get", "endpoints", "-o", "name"))
    mirror(fabric).ok()
    assert MIRROR not in fabric.kubectl("gcp", "-n", NAMESPACE, "get", "services,endpoints", "-o", "name")


def test_absent_leaves_nothing(fabric):
    assert mirror(fabric, service_mirror_state="absent").ok().changed
    assert not mirror(fabric, service_mirror_state="absent").ok().changed
    assert (
        fabric.kubectl("gcp", "-n", NAMESPACE, "get", "services,endpoints,endpointslices", "-o", "name").strip() == ""
    )
