# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mesh of the real semaphore-wireguard: taken over in place, changed in every way, released, and it starts again. No echo is lost."""

from __future__ import annotations

import json
import os

import pytest
from wireguard_lab import KEYS, NAME, WireguardFabric, without_leases

ADOPT = {"node_dataplane_adopt": True, "mesh_adopt": True}
US = "multicluster.network/default"


@pytest.fixture(scope="module")
def fabric(original):
    made = WireguardFabric(os.environ.get("MCN_LAB_PREFIX", "") + "swg", original(NAME))
    made.lab("down")
    made.lab("up", "--topology", made.topology)
    made.ran("lab up")
    try:
        yield made
    finally:
        made.end()
        made.lab("down")


def test_the_original_joins_the_clusters(fabric):
    for node in fabric.nodes:
        fabric.start_original(node)
    for node in fabric.nodes:
        fabric.until("healthy " + node, lambda node=node: fabric.healthy(node))
    fabric.until("two peers on every node", lambda: all(len(fabric.peers(node)) == 2 for node in fabric.nodes))
    fabric.all_reach()
    assert all(NAME in names for names in fabric.on_record().values())


def test_without_being_asked_nothing_is_written(fabric):
    for node in fabric.nodes:
        fabric.stop_original(node)
    before = fabric.wire()
    files = {
        node: fabric.sh(node, "sh", "-c", "find /var/lib/multicluster-network -type f 2>/dev/null | sort")
        for node in fabric.nodes
    }
    with fabric.witness() as writes:
        fabric.play("mesh")
    assert without_leases(writes) == [] and fabric.wire() == before
    after = {
        node: fabric.sh(node, "sh", "-c", "find /var/lib/multicluster-network -type f 2>/dev/null | sort")
        for node in fabric.nodes
    }
    assert after == files, "a node of another program got an owned state"


def test_taken_over_and_no_echo_is_lost(fabric):
    before, announced = fabric.wire(), fabric.announced()
    with fabric.echoes() as results, fabric.witness() as writes:
        fabric.play("mesh", variables=ADOPT).ok()
    assert results and all(sent > 100 for dummy, sent, lost in results) and [row for row in results if row[2]] == []
    assert fabric.announced() == announced and not [line for line in writes if " wg: " in line]
    for node, (devices, mtu, queue, dummy, up, dummy) in before.items():
        now = fabric.wire(node)[node]
        assert (now[0], now[1], now[2], now[4]) == (devices, mtu, queue, up) and now[3] == US
    assert all(names == {US} for names in fabric.on_record().values()), fabric.on_record()


def test_a_second_run_writes_nothing(fabric):
    with fabric.witness() as writes:
        run = fabric.play("mesh").ok()
    assert not run.changed and without_leases(writes) == []


def test_a_key_that_is_rotated_arrives(fabric):
    old = fabric.keys("gcp-node-1")["wireguard.aws"]
    fabric.sh("gcp-node-1", "rm", KEYS + "/wireguard.aws.key")
    fabric.play("mesh").ok()
    new = fabric.keys("gcp-node-1")["wireguard.aws"]
    assert new != old
    for node in fabric.nodes_of("aws"):
        assert new in fabric.peers(node) and old not in fabric.peers(node)
    fabric.all_reach()


def test_a_node_that_goes_and_comes_with_another_range_arrives(fabric):
    """Removed, then made anew with other pod addresses: its peer goes, and comes back with other allowed IPs."""
    key = fabric.keys("gcp-node-2")["wireguard.aws"]
    body = next(obj for obj in fabric.node_objects()["gcp"] if obj["metadata"]["name"] == "gcp-node-2")
    fabric.kubectl("gcp", "delete", "node", "gcp-node-2")
    fabric.play("mesh")  # that its host has no Node is reported as a failure
    for node in fabric.nodes_of("aws"):
        assert key not in fabric.peers(node) and len(fabric.peers(node)) == 1
    anew = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "gcp-node-2", "labels": body["metadata"].get("labels", {})},
        "spec": {"podCIDR": "10.4.9.0/24", "podCIDRs": ["10.4.9.0/24"]},
    }
    manifest = fabric.state / "node.json"
    manifest.write_text(json.dumps(anew))
    fabric.kubectl("gcp", "create", "-f", str(manifest))
    lab_shows(fabric, body)
    fabric.play("mesh").ok()
    for node in fabric.nodes_of("aws"):
        assert fabric.peers(node)[key] == ["10.4.9.0/24"]
    fabric.kubectl("gcp", "delete", "node", "gcp-node-2")
    anew["spec"] = {"podCIDR": "10.4.8.0/24", "podCIDRs": ["10.4.8.0/24"]}
    manifest.write_text(json.dumps(anew))
    fabric.kubectl("gcp", "create", "-f", str(manifest))
    lab_shows(fabric, body)
    fabric.play("mesh").ok()
    for node in fabric.nodes_of("aws"):
        assert fabric.peers(node)[key] == ["10.4.8.0/24"]
    fabric.all_reach()


def lab_shows(fabric, body):
    """The status of a Node, as its kubelet would write it; the lab does."""
    del body
    fabric.lab("up", "--topology", fabric.topology)


def test_released_and_no_echo_is_lost(fabric):
    before, announced = fabric.wire(), fabric.announced()
    with fabric.echoes() as results:
        fabric.play("semaphore.release").ok()
    assert results and [row for row in results if row[2]] == []
    now = fabric.wire()
    for node, (devices, mtu, queue, dummy, up, routes) in before.items():
        assert (now[node][0], now[node][1], now[node][2], now[node][4]) == (devices, mtu, queue, up)
        assert now[node][3] is None and now[node][5] == routes.replace(" proto 109", "")
        owned = "find /var/lib/multicluster-network /usr/local/lib/multicluster-network /etc/systemd/system/multicluster-network* -type f 2>/dev/null"
        assert fabric.sh(node, "sh", "-c", owned, check=False) == ""
    assert fabric.announced() == announced and not any(US in names for names in fabric.on_record().values())


def test_the_original_finds_its_own(fabric):
    before, announced = fabric.wire(), fabric.announced()
    with fabric.echoes() as results:
        for node in fabric.nodes:
            fabric.start_original(node)
        for node in fabric.nodes:
            fabric.until("healthy " + node, lambda node=node: fabric.healthy(node))
    assert fabric.wire() == before and fabric.announced() == announced
    assert [row for row in results if row[2]] == []
    for node in fabric.nodes:
        fabric.stop_original(node)
    run = fabric.play("mesh")
    assert "adoptable" in run.out and fabric.wire() == before
