# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""New keys under traffic, as a user gives them, counted where packets arrive. The tests of this file build on each other, in their order.

MCN_ROTATIONS: how many rotations of all keys; MCN_ROTATION_KILLS: how many runs are killed at a random point.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time

import pytest
import yaml
from harness import REPO
from rotation_lab import steady_rate, traffic

STATE = {}
ROTATIONS = int(os.environ.get("MCN_ROTATIONS", "1"))
KILLS = int(os.environ.get("MCN_ROTATION_KILLS", "5"))
#: A busy machine needs longer than the default for a change of four nodes at once.
FAST = {"rotate_drain_seconds": 2, "node_dataplane_rollback_seconds": 240}


@pytest.fixture(name="rate")
def rate_fixture(fabric):
    if "rate" not in STATE:
        STATE["rate"] = steady_rate(fabric)
    return STATE["rate"]


def keys(fabric):
    return {node: {name: row["public_key"] for name, row in fabric.wireguard(node).items()} for node in fabric.nodes}


def nothing_left(fabric):
    """Nothing of a rotation is on any node or Node."""
    for node in fabric.nodes:
        assert not [name for name in fabric.wireguard(node) if name.startswith("wg-rotate")]
        assert "wg-rotate" not in fabric.sh(node, "ls", "/var/lib/semaphore-wireguard")
        state = json.loads(fabric.sh(node, "cat", "/var/lib/multicluster-network/default/dataplane.json"))
        assert "wg-rotate" not in json.dumps([state["devices"], state["key_files"]])
        assert "wg-rotate" not in fabric.sh(node, "ip", "route", "show", "table", "all")
    for cluster in fabric.clusters:
        for node in (name for name in fabric.nodes if name.startswith(cluster)):
            assert not [key for key in fabric.annotations(cluster, node) if "rotation" in key]


def rotated(before, after, hosts):
    for node, rows in before.items():
        for name, key in rows.items():
            assert (after[node][name] != key) == (node in hosts), (node, name)


def test_the_mesh_is_there(fabric):
    assert "all green" in fabric.play("site", variables={"node_dataplane_rollback_seconds": 240}).ok().out
    fabric.all_reach()


def test_check_mode_shows_what_changes_and_changes_nothing(fabric):
    before = fabric.everything()
    run = fabric.play("rotate_keys", "--check", "--diff", variables=FAST).ok()
    for text in (
        "aws-node-1: new key of wireguard.gcp, meanwhile by wg-rotate.gcp, with gcp-node-1, gcp-node-2",
        "+link wg-rotate.gcp",
    ):
        assert text in run.out, text
    assert fabric.everything() == before


def test_a_limit_that_leaves_out_the_other_end_is_refused(fabric):
    run = fabric.play("rotate_keys", "--limit", "aws-node-1", variables=FAST)
    assert run.rc and "[outside_limit]" in run.out and "rotate_nodes" in run.out


def test_all_keys_change_and_no_packet_is_lost(fabric, rate):
    for _number in range(ROTATIONS):
        before = keys(fabric)
        with traffic(fabric, rate=rate) as counted:
            fabric.play("rotate_keys", variables=FAST).ok()
        fabric.ran(str(counted))
        assert counted.lost == 0 and counted.broken == [] and counted.sent > 1000, counted
        rotated(before, keys(fabric), fabric.nodes)
        nothing_left(fabric)
    assert not fabric.play("site", variables={"node_dataplane_rollback_seconds": 240}).ok().changed


def test_the_key_of_one_node_changes_and_no_packet_is_lost(fabric, rate):
    before = keys(fabric)
    with traffic(fabric, rate=rate) as counted:
        fabric.play("rotate_keys", variables=dict(FAST, rotate_nodes=["aws-node-1"])).ok()
    assert counted.lost == 0 and counted.broken == [], counted
    rotated(before, keys(fabric), ["aws-node-1"])
    nothing_left(fabric)


def killed(fabric, seconds, **variables):
    """Run rotate_keys and kill the controller after so many seconds, with all of its workers."""
    process = subprocess.Popen(
        [
            "ansible-playbook",
            "-i",
            str(fabric.inventory),
            "multicluster.network.rotate_keys",
            "-e",
            json.dumps(dict(FAST, **variables)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        cwd=str(REPO),
    )
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    time.sleep(1)


def test_a_killed_run_loses_nothing_and_the_next_one_ends_it(fabric, rate):
    """Other runs in between (site, verify) leave the rotation as it is."""
    started = time.monotonic()
    fabric.play("rotate_keys", variables=FAST).ok()
    whole = time.monotonic() - started
    chance = random.Random(40)
    for number in range(KILLS):
        before = keys(fabric)
        with traffic(fabric, rate=rate) as counted:
            killed(fabric, chance.uniform(0.1, 0.95) * whole)
            if number % 2:
                fabric.play("site", variables={"node_dataplane_rollback_seconds": 240}).ok()
            fabric.play("rotate_keys", variables=FAST).ok()
        fabric.ran(str(counted))
        assert counted.lost == 0 and counted.broken == [], counted
        assert all(row != keys(fabric)[node] for node, row in before.items())
        nothing_left(fabric)


def test_an_abandoned_rotation_leaves_nothing(fabric, rate):
    with traffic(fabric, rate=rate) as counted:
        killed(fabric, 60)
        fabric.play("rotate_keys", variables=dict(FAST, rotate_keys_state="abandoned")).ok()
    assert counted.lost == 0 and counted.broken == [], counted
    nothing_left(fabric)


def test_a_key_that_changes_in_place_loses_packets(fabric, rate):
    """The control: the witness sees the loss that a rotation avoids."""
    with traffic(fabric, rate=rate) as counted:
        fabric.sh("aws-node-1", "rm", "/var/lib/semaphore-wireguard/wireguard.gcp.key")
        fabric.play("mesh", variables={"node_dataplane_rollback_seconds": 240}).ok()
    fabric.ran(str(counted))
    assert counted.lost > 0, counted
    fabric.all_reach()


def test_a_neighbour_of_an_upstream_program_is_named_before_anything_changes(fabric):
    """Towards a node that this inventory does not have the key changes in place, if that is accepted."""
    inventory = fabric.state / "without-one.yml"
    text = fabric.inventory.read_text()
    tree = yaml.safe_load(text)
    for group in tree["all"]["children"].values():
        group.get("hosts", {}).pop("gcp-node-2", None)
    inventory.write_text(json.dumps(tree))
    before = keys(fabric)
    run = fabric.play("rotate_keys", inventory=inventory, variables=FAST)
    assert run.rc and "gcp/gcp-node-2" in run.out and "[in_place]" in run.out and "rotate_in_place" in run.out
    assert keys(fabric) == before
