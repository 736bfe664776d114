# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rotations of the keys of three clusters that end on the way, at random points: no packet of a pair that lives is lost, and the next run ends the rotation.

Victims are the controller with its workers, the modules that run on nodes, and the power of a node. Then everything is as after a rotation of which nothing
went wrong, but for the keys. MCN_ROTATION_KILLS sets how many (3, one of each victim; 20 in `tests/run rotation`), MCN_ROTATION_FROM goes on with one, MCN_SEED
sets the points. The tests build on each other.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
from counted_traffic import roomy_sockets
from rotation_lab import (
    FAST,
    RATE,
    able,
    but_for_keys,
    differences,
    end_modules,
    first_mesh,
    keys,
    nothing_left,
    rotated,
    start,
    traffic,
)

TOPOLOGY = "three"
KILLS = int(os.environ.get("MCN_ROTATION_KILLS", "3"))
FROM = int(os.environ.get("MCN_ROTATION_FROM", "0"))
SEED = int(os.environ.get("MCN_SEED", "40"))
#: Packets a second of each of the 24 flows between six nodes: 3,000 of all. Two processors carry that alongside three clusters, twelve downloads and Ansible;
#: of 4,800 the slowest flow had 130 to 167 a second in place of 200.
EACH = RATE // 8
VICTIMS = ("controller", "module", "power")
STATE = {}


def test_the_mesh_is_there(fabric):
    """Every node has booted since, so that what only a boot starts, such as our unit, is up on all of them and a node that loses power is no different."""
    first_mesh(fabric)
    with roomy_sockets():
        for node in fabric.nodes:
            fabric.lab("node-rebuild", node)
    fabric.all_reach()


def test_without_a_rotation_nothing_is_lost(fabric):
    able(fabric, rate=EACH)


def test_all_keys_of_three_clusters_change_and_no_packet_is_lost(fabric):
    before, started = keys(fabric), time.monotonic()
    with traffic(fabric, rate=EACH) as counted:
        fabric.play("rotate_keys", variables=FAST).ok()
        STATE["seconds"] = time.monotonic() - started
    counted.nothing_lost()
    rotated(before, keys(fabric), fabric.nodes)
    nothing_left(fabric)
    STATE["clean"] = but_for_keys(fabric)


@pytest.mark.parametrize("number", range(FROM, KILLS))
def test_a_rotation_that_is_killed_is_ended_by_the_next_run(fabric, number):
    chance = random.Random(SEED * 1000 + number)
    victim, node = VICTIMS[number % len(VICTIMS)], chance.choice(fabric.nodes)
    delay = chance.uniform(0.05, 0.95) * STATE["seconds"]
    before, killed = keys(fabric), 1
    with traffic(fabric, rate=EACH) as counted:
        process = start(fabric)
        time.sleep(delay)
        if victim == "controller":
            os.killpg(process.pid, signal.SIGKILL)
        elif victim == "module":
            killed = end_modules(fabric, node, process)
        else:
            counted.dead.add(node)
            fabric.lab("node-stop", node)
        ended = process.wait(timeout=600)
        fabric.ran(f"{victim} ({killed}) of {node} ended after {delay:.1f} s of the rotation, which ended with {ended}")
        if victim == "power":
            fabric.lab("node-rebuild", node)
        fabric.play("rotate_keys", variables=FAST).ok()
    counted.nothing_lost()
    nothing_left(fabric)
    after = keys(fabric)
    assert all(after[name] != row for name, row in before.items())
    assert differences(but_for_keys(fabric), STATE["clean"]) == {}


def test_a_node_that_stays_without_power_stops_the_rotation_and_no_living_pair_loses_a_packet(fabric):
    """Runs fail and name it, ``site`` in between leaves the rotation as it is, and the first run after it came back ends the rotation."""
    before = keys(fabric)
    with traffic(fabric, rate=EACH) as counted:
        process = start(fabric)
        time.sleep(STATE["seconds"] / 2)
        counted.dead.add("gcp-node-1")
        fabric.lab("node-stop", "gcp-node-1")
        assert process.wait(timeout=600)
        run = fabric.play("rotate_keys", variables=FAST)
        assert run.rc and "gcp-node-1" in run.out
        assert fabric.play("site", variables=FAST).rc
        fabric.lab("node-rebuild", "gcp-node-1")
        fabric.play("rotate_keys", variables=FAST).ok()
    counted.nothing_lost()
    nothing_left(fabric)
    after = keys(fabric)
    assert all(after[name] != row for name, row in before.items())
    assert differences(but_for_keys(fabric), STATE["clean"]) == {}
