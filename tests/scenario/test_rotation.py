# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""New keys under traffic, as a user gives them, counted where packets arrive. The tests of this file build on each other, in their order.

MCN_ROTATIONS: how many rotations of all keys. test_rotation_kills.py ends runs and nodes on the way.
"""

from __future__ import annotations

import json
import os

import pytest
import yaml
from rotation_lab import FAST, able, first_mesh, keys, kill_controller, nothing_left, rotated, traffic

ROTATIONS = int(os.environ.get("MCN_ROTATIONS", "1"))


def test_the_mesh_is_there(fabric):
    first_mesh(fabric)


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


def test_without_a_rotation_nothing_is_lost(fabric):
    able(fabric)


@pytest.mark.parametrize("number", range(ROTATIONS))
def test_all_keys_change_and_no_packet_is_lost(fabric, number):
    before = keys(fabric)
    with traffic(fabric) as counted:
        fabric.play("rotate_keys", variables=FAST).ok()
    counted.nothing_lost()
    assert counted.sent >= 100_000, counted
    rotated(before, keys(fabric), fabric.nodes)
    nothing_left(fabric)


def test_nothing_is_left_to_do(fabric):
    assert not fabric.play("site", variables=FAST).ok().changed


def test_the_key_of_one_node_changes_and_no_packet_is_lost(fabric):
    before = keys(fabric)
    with traffic(fabric) as counted:
        fabric.play("rotate_keys", variables=dict(FAST, rotate_nodes=["aws-node-1"])).ok()
    counted.nothing_lost()
    rotated(before, keys(fabric), ["aws-node-1"])
    nothing_left(fabric)


def test_an_abandoned_rotation_leaves_nothing(fabric):
    with traffic(fabric) as counted:
        kill_controller(fabric, 60)
        fabric.play("rotate_keys", variables=dict(FAST, rotate_keys_state="abandoned")).ok()
    counted.nothing_lost()
    nothing_left(fabric)


def test_a_key_that_changes_in_place_loses_packets(fabric):
    """The control: the witness sees the loss that a rotation avoids."""
    with traffic(fabric) as counted:
        fabric.sh("aws-node-1", "rm", "/var/lib/semaphore-wireguard/wireguard.gcp.key")
        fabric.play("mesh", variables=FAST).ok()
    assert counted.lost > 0 and any("aws-node-1" in pair for pair, row in counted.flows.items() if row[1]), counted
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
