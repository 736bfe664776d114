# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""New keys of a KubeSpan mesh under traffic between the pods of all nodes, counted where packets arrive. The tests build on each other, in their order."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time

import pytest
import yaml
from rotation_lab import FAST, RATE, able, first_mesh, keys, nothing_left, rotated, start, traffic
from trace_lab import assert_arrives, make_pod, served

TOPOLOGY = "dual"
ROTATIONS = int(os.environ.get("MCN_ROTATIONS", "1"))
MESH = {
    "multicluster_mesh": "kubespan",
    "mesh_id": "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=",
    "mesh_secret": "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=",
}
#: Packets a second of each of the 12 flows, within clusters and between them.
EACH = RATE // 4
#: Pods that a trace goes between.
ENDS = {"aws/default/web": "aws-node-1-pod-1", "gcp/default/log": "gcp-node-1-pod-1"}
BYPASS = "wg-rotate.span"


def rotate(fabric, *arguments, inventory=None, **variables):
    return fabric.play("rotate_keys", *arguments, inventory=inventory, variables=dict(FAST, **MESH, **variables))


def counting(fabric):
    return traffic(fabric, rate=EACH, within=True)


def aside(fabric, node):
    """Whether a node sends something by the bypass device."""
    return BYPASS in fabric.sh(node, "ip", "route", "show", "table", "180")


def phase(fabric, node):
    """By the annotation of a Node; what nodes do follows from it."""
    found = fabric.annotations(node.partition("-")[0], node)
    return found.get("kubespan.rotation.multicluster.network/state", "").partition(" ")[0]


def begun(fabric, **variables):
    """Run rotate_keys and end the controller with its workers as soon as all nodes send by the bypass device, and their records have that."""
    process = start(fabric, **MESH, **variables)
    end = time.monotonic() + 600
    while {phase(fabric, node) for node in fabric.nodes} != {"aside"}:
        assert process.poll() is None and time.monotonic() < end, (fabric.state / "rotate_keys.log").read_text()[-3000:]
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(1)


def test_the_mesh_is_there(fabric):
    first_mesh(fabric, **MESH)


def test_check_mode_shows_what_changes_and_changes_nothing(fabric):
    before = fabric.everything()
    run = rotate(fabric, "--check", "--diff").ok()
    expected = (
        "aws-node-1: new key of its KubeSpan device, meanwhile by wg-rotate.span, with aws/aws-node-2, gcp/gcp-node-1"
    )
    for text in (expected, f"+link {BYPASS}"):
        assert text in run.out, text
    assert MESH["mesh_secret"] not in run.out
    assert fabric.everything() == before


def test_without_a_rotation_nothing_is_lost(fabric):
    able(fabric, rate=EACH, within=True)


@pytest.mark.parametrize("number", range(ROTATIONS))
def test_all_keys_of_a_kubespan_mesh_change_and_no_packet_is_lost(fabric, number):
    before = keys(fabric)
    with counting(fabric) as counted:
        rotate(fabric).ok()
    counted.nothing_lost()
    assert counted.sent >= 100_000, counted
    rotated(before, keys(fabric), fabric.nodes)
    nothing_left(fabric)


def test_nothing_is_left_to_do(fabric):
    assert not fabric.play("site", variables=dict(FAST, **MESH)).ok().changed


def traced(fabric):
    """By which device each way of a trace goes, in the words of the table."""
    question = {"trace_from": "aws/default/web", "trace_to": "gcp/default/log"}
    dummy, document = assert_arrives(fabric, **question, **MESH)
    return [hop["expected"].rpartition("; ")[2] for hop in document["hops"] if hop["what"] == "tunnel"]


def test_a_controller_that_is_killed_loses_nothing_and_the_next_run_ends_the_rotation(fabric):
    before = keys(fabric)
    with counting(fabric) as counted:
        begun(fabric, rotate_nodes=["aws-node-1"])
        # other runs leave it as it is, and status shows how far it is
        assert "all green" in fabric.play("site", variables=dict(FAST, **MESH)).ok().out
        assert all(aside(fabric, node) for node in fabric.nodes)
        assert "keys are being rotated" in fabric.play("status", variables=dict(FAST, **MESH)).out
        fabric.all_reach()
        with contextlib.ExitStack() as stack:
            for name, pod in ENDS.items():
                make_pod(fabric, name, pod)
                stack.enter_context(served(fabric, pod))
            # there and back, in each family that the API server keeps of the pods: 1.20 has one, later ones both
            found = traced(fabric)
            assert len(found) in (2, 4) and set(found) == {"keys are being rotated, packets go by the bypass device"}
            rotate(fabric, rotate_nodes=["aws-node-1"]).ok()
            assert not any("rotated" in text for text in traced(fabric))
    counted.nothing_lost()
    after = {node: {"kubespan": rows["kubespan"]} for node, rows in keys(fabric).items()}
    rotated(before, after, ["aws-node-1"])
    nothing_left(fabric)


def test_an_abandoned_rotation_leaves_nothing_and_no_new_key(fabric):
    before = keys(fabric)
    with counting(fabric) as counted:
        begun(fabric)
        rotate(fabric, rotate_keys_state="abandoned").ok()
    counted.nothing_lost()
    nothing_left(fabric)
    assert set(keys(fabric)) == set(before)
    assert not fabric.play("site", variables=dict(FAST, **MESH)).ok().changed


def test_a_node_that_loses_power_on_the_way_comes_back_into_the_rotation(fabric):
    """Its bypass device and the routes into that are there again when it has booted; runs in between fail and name it."""
    before = keys(fabric)
    with counting(fabric) as counted:
        begun(fabric)
        counted.dead.add("gcp-node-1")
        fabric.lab("node-stop", "gcp-node-1")
        run = rotate(fabric)
        assert run.rc and "gcp-node-1" in run.out
        fabric.lab("node-rebuild", "gcp-node-1")
        assert aside(fabric, "gcp-node-1")
        fabric.all_reach()
        rotate(fabric).ok()
    counted.nothing_lost()
    nothing_left(fabric)
    after = keys(fabric)
    assert all(after[node]["kubespan"] != rows["kubespan"] for node, rows in before.items())


def test_a_key_that_changes_in_place_loses_packets(fabric):
    """The control: the witness sees the loss that a rotation avoids."""
    with counting(fabric) as counted:
        fabric.sh("aws-node-1", "rm", "/var/lib/multicluster-network/default/kubespan.key")
        fabric.play("mesh", variables=dict(FAST, **MESH)).ok()
    assert counted.lost > 0 and any("aws-node-1" in pair for pair, row in counted.flows.items() if row[1]), counted
    fabric.all_reach()


def test_a_member_that_is_no_host_of_the_inventory_is_named_before_anything_changes(fabric):
    """Such as a Talos machine: it knows one device and one key of a node."""
    inventory = fabric.state / "without-one.yml"
    tree = yaml.safe_load(fabric.inventory.read_text())
    for group in tree["all"]["children"].values():
        group.get("hosts", {}).pop("gcp-node-2", None)
    inventory.write_text(json.dumps(tree))
    before = keys(fabric)
    run = rotate(fabric, inventory=inventory)
    assert run.rc and "gcp/gcp-node-2" in run.out and "[in_place]" in run.out and "rotate_in_place" in run.out
    assert keys(fabric) == before
