# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One address for three real API servers: each in a network namespace of its own, over one etcd. The tests build on each other."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import control_plane_address
from control_plane_lab import EIP, MOVE, PORT, PREFIX, SERVERS, TOKEN, Plane, certificates


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    one = Plane(tmp_path_factory.mktemp("plane"))
    try:
        one.start()
        one.make_nodes()
        (one.folder / "move.py").write_text(MOVE)
        yield one
    finally:
        one.stop()


def run(plane, check=False, **more):
    request = {
        "fabric": "t",
        "settings": [{"cluster": "cp", "eip_tag": "control-plane"}],
        "address": EIP,
        "timeout": 60,
        "rest_seconds": 0,
        "clusters": [{"name": "cp", "api_url": f"https://{EIP}:{PORT}", "token": TOKEN, "ca_data": plane.ca()}],
        "assign_command": [
            sys.executable,
            str(plane.folder / "move.py"),
            "{address}",
            "{node}",
            PREFIX,
            ",".join(SERVERS),
        ],
        "api_urls": [f"https://{address}:{PORT}" for address in SERVERS.values()],
        "probe_timeout": 2,
        "probe_interval": 0.2,
        "probe_failures": 3,
        "probe_server_name": "kubernetes",
        "lock_wait": 30,
    }
    return control_plane_address.run(dict(request, **more), check=check)


def shown(result):
    assert not result["failures"], result["failures"]
    return result["control_planes"]["cp"]


def settled(plane, **more):
    """Whether the address stays until nothing changes any more: Endpoints of default/kubernetes follow their servers slowly."""
    deadline = time.monotonic() + 120
    while True:
        result = run(plane, **more)
        if shown(result)["moved"] or not result["changed"]:
            return not shown(result)["moved"]
        assert time.monotonic() < deadline, result["diff"]
        time.sleep(1)


def test_the_address_goes_to_the_first_healthy_server(plane):
    result = run(plane, check=True)
    assert shown(result)["holder"] == "cp-1" and plane.holder() == [] and result["plan"]["create"] == 2
    assert shown(run(plane))["moved"] and plane.holder() == ["cp-1"]
    plane.wait_for(EIP)
    assert settled(plane)
    result = run(plane)
    assert shown(result)["probes"] == 1 and shown(result)["holder"] == "cp-1"


def accepted(client, base, name):
    """Where the Service leads: Endpoints, or EndpointSlices on releases that have deprecated those."""
    if client.server_version() < (1, 33):
        return {row["ip"] for row in client.get(base + "endpoints/" + name)["subsets"][0]["addresses"]}
    path = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
    rows = client.list(path, label_selector="kubernetes.io/service-name=" + name).items
    return {address for row in rows for one in row["endpoints"] for address in one["addresses"]}


def test_nodes_accept_the_address(plane):
    client = plane.client()
    base, name = "/api/v1/namespaces/kube-system/", "metal-ccm-kubernetes-external"
    service = client.get(base + "services/" + name)
    assert (
        service["spec"]["loadBalancerIP"] == EIP
        and "selector" not in service["spec"]
        and service["spec"]["ports"][0]["port"] == PORT
    )
    assert [row["ip"] for row in service["status"]["loadBalancer"]["ingress"]] == [EIP]
    deadline = time.monotonic() + 120  # the servers tell of each other in their own time
    while accepted(client, base, name) != set(SERVERS.values()):
        assert time.monotonic() < deadline
        time.sleep(1)
        run(plane)


def test_the_holder_dies_and_clients_go_on(plane):
    seen, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            seen.append((time.monotonic(), plane.healthy(EIP)))
            time.sleep(0.1)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        plane.kill("cp-1")
        result = run(plane)
        assert shown(result)["moved"] and shown(result)["holder"] == "cp-2" and plane.holder() == ["cp-2"]
        plane.wait_for(EIP)
        mark = time.monotonic()
        while len([good for when, good in seen if good and when > mark]) < 3:
            assert time.monotonic() < mark + 60
            time.sleep(0.1)
    finally:
        stop.set()
        asking.join()
    assert settled(plane)
    plane.start_server("cp-1")
    plane.wait_for(SERVERS["cp-1"])
    assert settled(plane) and plane.holder() == ["cp-2"]  # it does not go back


def test_one_failed_probe_moves_nothing(plane):
    plane.kill("cp-2", signal.SIGSTOP)
    waker = threading.Timer(3.0, plane.kill, ["cp-2", signal.SIGCONT])
    waker.start()
    try:
        result = run(plane, probe_failures=40)
    finally:
        waker.join()
    assert not shown(result)["moved"] and plane.holder() == ["cp-2"]


def test_a_half_dead_server_loses_it_once(plane):
    """It takes connections and answers nothing: the address moves, and rests even when the new holder flaps."""
    plane.kill("cp-2", signal.SIGSTOP)
    try:
        assert shown(run(plane))["holder"] == "cp-1" and plane.holder() == ["cp-1"]
        plane.kill("cp-1", signal.SIGSTOP)
        try:
            result = run(plane, rest_seconds=3600)
            assert [one["reason"] for one in result["refused"]] == ["resting"] and plane.holder() == ["cp-1"]
            assert shown(run(plane))["holder"] == "cp-3"
        finally:
            plane.kill("cp-1", signal.SIGCONT)
    finally:
        plane.kill("cp-2", signal.SIGCONT)
    plane.wait_for(EIP)
    assert settled(plane) and plane.holder() == ["cp-3"]


def test_a_cordoned_holder_gives_it_away(plane):
    client = plane.client()
    client.merge_patch("/api/v1/nodes/cp-3", {"spec": {"unschedulable": True}}, "kubectl")
    assert shown(run(plane))["holder"] == "cp-1" and plane.holder() == ["cp-1"]
    plane.wait_for(EIP)
    assert settled(plane)


def test_certificates_are_verified(plane):
    other = plane.folder / "other"
    certificates.ensure(other, "other", ["kubernetes"], [EIP])
    result = run(plane, probe_ca=(other / "ca.crt").read_text())
    assert [one["reason"] for one in result["failures"]] == ["no_candidate"] and plane.holder() == ["cp-1"]
    assert settled(plane, probe_ca=(other / "ca.crt").read_text(), probe_verify_tls=False)


def test_a_command_that_fails_is_reported_and_tried_again(plane):
    plane.kill("cp-1")
    result = run(plane, assign_command=["/bin/false"])
    assert [one["reason"] for one in result["refused"]] == ["assign_failed"] and plane.holder() == ["cp-1"]
    assert shown(run(plane))["moved"] and json.dumps(result)
