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
from talos_machine import ADDRESS, NAME, ULA, Machine
from trace_lab import reported, trace

HERE = pathlib.Path(__file__).resolve().parent
TOPOLOGY = str(HERE / "discovery.json")
DOUBLE = HERE.parent / "doubles" / "discovery_service" / "server.py"
ROUTER, EDGE = "10.67.1.1", "10.67.1.40"
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


@pytest.fixture(scope="module", name="machine")
def machine_fixture(fabric, service, tmp_path_factory):
    """One with Talos Linux, which no inventory has."""
    made = Machine(fabric, MESH, tmp_path_factory.mktemp("machine"))
    try:
        made.up()
        yield made
    finally:
        made.down()


def test_a_machine_of_no_inventory_joins_behind_a_nat_within_ten_seconds(fabric, machine):
    begun = time.monotonic()
    found = machine.join(3)
    assert wait_until(lambda: machine.reaches(EDGE, ADDRESS), 20)
    took = time.monotonic() - begun
    fabric.ran(f"handshake and traffic {took:.1f} s after it joined")
    assert took < 10 and len(found) == 3
    own = next(host["kubespan_address"] for host in found if EDGE in host["addresses"])
    assert machine.reaches(own, ULA)
    for node in fabric.nodes:
        assert machine.key in fabric.wireguard(node)["kubespan"]["peers"], node
    # the address that the NAT gave it
    assert fabric.wireguard("edge-1")["kubespan"]["peers"][machine.key]["endpoint"].startswith(ROUTER + ":")


def test_verify_takes_handshakes_and_packets_as_the_proof_of_a_member(fabric, machine):
    assert wait_until(lambda: all(shaken(fabric, node, machine) for node in fabric.nodes))
    run = play(fabric, "verify").ok()
    assert "all green" in run.out and set(run.recap) <= {*fabric.nodes, *fabric.clusters}, run.out[-4000:]


MEMBER_TRACE = {"trace_from": "talos/edge-1", "trace_to": "talos/" + NAME}


def followed(fabric, cause="", **asks):
    """(observed of the member, document) of a trace from the host that is no Node."""
    _run, document = trace(fabric, **dict(MESH, **dict(MEMBER_TRACE, **asks)))
    assert [row["cause"] for row in document["findings"]][:1] == ([cause] if cause else []), reported(document)
    return [row["observed"] for row in document["hops"] if row["what"] == "member"], document


def test_a_trace_to_a_member_is_proven_by_its_answer_and_its_handshake(fabric, machine):
    """By its name, of both families, and without the cluster's API; then its address."""
    said, document = followed(fabric, kubeconfig=None)
    assert document["verdict"] == "arrives" and len(said) == 2, reported(document)
    assert all(text.startswith("proven: answered through its tunnel (handshake ") for text in said)
    assert {row["verdict"] for row in document["hops"]} == {"ok"}, reported(document)
    assert {row["where"] for row in document["hops"]} == {"edge-1"}
    said, document = followed(fabric, trace_to=ADDRESS)
    assert document["verdict"] == "arrives" and len(said) == 1 and said[0].startswith("proven: "), reported(document)
    said, document = followed(fabric, "port_closed", trace_to=f"{ADDRESS}:50000")
    assert document["verdict"] == "does not arrive" and "refuses the connection, through its tunnel" in said[0]


def test_a_trace_to_a_member_that_answers_nothing_is_not_proven(fabric, machine):
    machine.deaf(True)
    try:
        said, document = followed(fabric, "not_explained", trace_to=ADDRESS)
    finally:
        machine.deaf(False)
    assert document["verdict"] == "not explained" and said[0].startswith(
        "not proven: edge-1 sent it into the tunnel of"
    )
    assert "handshake " in said[0] and "no answer came" in said[0]


def test_without_a_handshake_the_member_is_broken_in_trace_and_verify(fabric, machine):
    machine.cut(True)
    try:
        fabric.sh("edge-1", "wg", "set", "kubespan", "peer", machine.key, "remove")  # and the session with it
        assert wait_until(lambda: machine.key in fabric.wireguard("edge-1")["kubespan"]["peers"])
        said, document = followed(fabric, "no_handshake", trace_to=ULA)
        assert document["verdict"] == "does not arrive" and said[0].startswith(
            f"broken: discovery/{NAME} is called at "
        )
        run = play(fabric, "verify", "--limit", "edge-1")
        assert run.rc != 0 and f"no handshake with discovery/{NAME}: UDP from " in run.out, run.out[-4000:]
    finally:
        machine.cut(False)
    assert wait_until(lambda: shaken(fabric, "edge-1", machine), 90)


def shaken(fabric, node, machine):
    found = fabric.wireguard(node)["kubespan"]["peers"].get(machine.key) or {}
    return bool(int(found.get("handshake") or 0))


def test_hosts_of_one_mesh_with_two_services_are_refused_before_anything_is_written(fabric, service):
    """By `validate`, which `site` runs first; a host's own service comes from its variables."""
    before = fabric.snapshot("edge-1")
    url = "{{ 'http://10.67.1.1:3000' if inventory_hostname != 'edge-1' else 'http://10.67.1.1:3001' }}"
    run = play(fabric, "site", kubespan_discovery_url=url)
    assert run.rc != 0 and "[services_differ]" in run.out and "http://10.67.1.1:3001: edge-1" in run.out, run.out[
        -4000:
    ]
    assert set(run.recap) <= {"localhost", *fabric.clusters, *fabric.nodes} and not run.changed
    assert fabric.snapshot("edge-1") == before


def test_status_reports_a_service_that_is_away_and_peers_stay(fabric, service):
    before = peers(fabric)
    service.write_text(json.dumps({"refuse": True, "drop": True}), "utf-8")
    assert wait_until(lambda: shown(fabric, "edge-1")["discovery"]["state"] == "away")
    run = play(fabric, "status")
    said = [line for line in run.out.splitlines() if "[service_refuses]; its peers stay" in line]
    assert len(said) == 1, run.out[-4000:]
    assert peers(fabric) == before
    service.write_text("{}", "utf-8")
    # a node that is not back yet would not hear who leaves, and keep it for a lifetime
    assert wait_until(
        lambda: all(shown(fabric, node)["discovery"]["state"] == "connected" for node in fabric.nodes), 150
    )


def test_a_host_that_leaves_takes_its_record_away(fabric, service):
    key = fabric.wireguard("edge-1")["kubespan"]["public_key"]
    before = peers(fabric)
    play(fabric, "teardown", "--limit", "edge-1").ok()
    left = {node: before[node] - {key} for node in ("talos-1", "talos-2")}
    assert wait_until(lambda: {node: found for node, found in peers(fabric).items() if node in left} == left)
    assert not fabric.sh("edge-1", "find", "/var/lib/multicluster-network", "-name", "kubespan-members*", check=False)


def peers(fabric):
    """Node -> keys of its peers."""
    return {node: set((fabric.wireguard(node).get("kubespan") or {"peers": ()})["peers"]) for node in fabric.nodes}


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True
