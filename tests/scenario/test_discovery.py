# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A KubeSpan mesh of nodes that know each other from a discovery service alone, by what users run: site, status, verify, teardown.

One host is no Node of the cluster. The tests of this file build on each other, in their order.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
TOPOLOGY = str(HERE / "discovery.json")
DOUBLE = HERE.parent / "doubles" / "discovery_service" / "server.py"
ROUTER = "10.67.1.1"
MESH = {
    "multicluster_mesh": "kubespan",
    "mesh_id": "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=",
    "mesh_secret": "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=",
    "kubespan_registries": ["inventory", "discovery"],
    "kubespan_discovery_url": f"http://{ROUTER}:3000",
}


@pytest.fixture(scope="module", name="service")
def service_fixture(fabric, tmp_path_factory):
    """The double, between the nodes."""
    control = tmp_path_factory.mktemp("service") / "control.json"
    words = ["ip", "netns", "exec", fabric.namespace("underlay"), sys.executable, str(DOUBLE)]
    process = subprocess.Popen(
        [*words, "--address", "0.0.0.0:3000", "--control", str(control)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline().startswith("listening")
    yield control
    process.terminate()
    process.wait(30)
    process.stdout.close()


def play(fabric, book, *arguments, **variables):
    return fabric.play(book, *arguments, variables=dict(MESH, **variables))


def shown(fabric, node):
    return json.loads(fabric.sh(node, "cat", "/run/multicluster-network/default-kubespan.json"))


def test_preflight_reaches_the_service_and_names_it(fabric, service):
    run = play(fabric, "preflight")
    assert f"discovery service {MESH['kubespan_discovery_url']}: reached by 3 of 3 nodes, 0 other members" in run.out, (
        run.out[-4000:]
    )
    run = play(fabric, "preflight", kubespan_discovery_url=f"http://{ROUTER}:3999")
    assert "discovery service: the discovery service" in run.out and "[service_away]" in run.out, run.out[-4000:]
    assert f"discovery service http://{ROUTER}:3999: reached by 0 of 3 nodes" in run.out, run.out[-4000:]


def test_site_joins_hosts_that_know_only_the_service(fabric, service):
    fabric.kubectl("talos", "delete", "node", "edge-1")
    run = play(fabric, "site").ok()
    assert MESH["mesh_secret"] not in run.out
    for node in fabric.nodes:
        assert len(fabric.wireguard(node)["kubespan"]["peers"]) == 2, run.out[-3000:]
    assert "discovery/talos-1" in run.out and "all green" in run.out
    assert all(ping["ok"] for ping in fabric.reaches())


def test_the_second_run_changes_nothing(fabric, service):
    run = play(fabric, "site").ok()
    assert not run.changed, run.out[-4000:]


def test_a_cluster_without_access_is_enough(fabric, service):
    run = play(fabric, "mesh", "--limit", "edge-1", kubeconfig=None).ok()
    assert not run.changed, run.out[-4000:]


def test_status_reports_a_service_that_is_away_and_peers_stay(fabric, service):
    service.write_text(json.dumps({"refuse": True, "drop": True}), "utf-8")
    assert wait_until(lambda: shown(fabric, "edge-1")["discovery"]["state"] == "away")
    run = play(fabric, "status")
    said = [line for line in run.out.splitlines() if "[service_refuses]; its peers stay" in line]
    assert len(said) == 1, run.out[-4000:]
    assert all(len(fabric.wireguard(node)["kubespan"]["peers"]) == 2 for node in fabric.nodes)
    service.write_text("{}", "utf-8")
    # a node that is not back yet would not hear who leaves, and keep it for a lifetime
    assert wait_until(
        lambda: all(shown(fabric, node)["discovery"]["state"] == "connected" for node in fabric.nodes), 150
    )


def test_a_host_that_leaves_takes_its_record_away(fabric, service):
    play(fabric, "teardown", "--limit", "edge-1").ok()
    assert wait_until(
        lambda: all(len(fabric.wireguard(node)["kubespan"]["peers"]) == 1 for node in ("talos-1", "talos-2"))
    )
    assert not fabric.sh("edge-1", "find", "/var/lib/multicluster-network", "-name", "kubespan-members*", check=False)


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True
