# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preshared keys that go on, change and go off by the playbook under traffic, with real API servers. The tests build on each other, in their order."""

from __future__ import annotations

import base64
import json

import pytest
from rotation_lab import FAST, able, first_mesh, keys, nothing_left, rotated, traffic

SECRET = base64.b64encode(bytes(range(32))).decode()
STATE = {"live": set()}


def given(generation):
    """Variables of a run."""
    on = {"preshared": True, "preshared_generation": generation}
    return dict(FAST, preshared_secret=SECRET, **(on if generation else {"preshared": False}))


def live(fabric, node):
    """{public key of the peer: preshared key, None without one} of all devices of a node."""
    rows = [line.split() for line in fabric.sh(node, "wg", "show", "all", "preshared-keys").splitlines()]
    return {peer: None if key == "(none)" else key for _device, peer, key in rows}


def pairs(fabric):
    """{two nodes: the preshared keys that both have for each other}."""
    owners = {key: node for node, rows in keys(fabric).items() for key in rows.values()}
    found = {}
    for node in fabric.nodes:
        for peer, key in live(fabric, node).items():
            found.setdefault(frozenset((node, owners[peer])), []).append(key)
    return found


def test_the_mesh_is_there(fabric):
    first_mesh(fabric)
    assert {key for row in pairs(fabric).values() for key in row} == {None}


def test_without_a_rotation_nothing_is_lost(fabric):
    able(fabric)


def test_site_does_not_turn_them_on(fabric):
    fabric.play("site", variables=given(1)).ok()
    assert {key for row in pairs(fabric).values() for key in row} == {None}


@pytest.mark.parametrize("generation", [1, 2])
def test_they_go_on_and_change_and_no_packet_is_lost(fabric, generation):
    before = keys(fabric)
    with traffic(fabric) as counted:
        fabric.play("rotate_keys", variables=given(generation)).ok()
    counted.nothing_lost()
    rotated(before, keys(fabric), fabric.nodes)
    found = pairs(fabric)
    assert len(found) == 4 and all(len(row) == 2 and row[0] == row[1] and row[0] for row in found.values())
    now = {row[0] for row in found.values()}
    assert len(now) == 4 and not now & STATE["live"]
    STATE["live"] |= now
    for node in fabric.nodes:
        cluster, remote = ("aws", "gcp") if node.startswith("aws") else ("gcp", "aws")
        held = {key: value for key, value in fabric.annotations(cluster, node).items() if "rotation" in key}
        assert held == {f"{remote}.rotation.multicluster.network/preshared": str(generation)}
        state = fabric.sh(node, "cat", "/var/lib/multicluster-network/default/dataplane.json")
        assert SECRET not in state and not [key for key in now if key in state]
        assert SECRET not in json.dumps(fabric.annotations(cluster, node))
        files = [name for name in fabric.sh(node, "ls", "/var/lib/semaphore-wireguard").split() if ".psk" in name]
        assert len(files) == 2
    assert not fabric.play("site", variables=given(generation)).ok().changed


def test_they_go_off_and_no_packet_is_lost(fabric):
    with traffic(fabric) as counted:
        fabric.play("rotate_keys", variables=given(0)).ok()
    counted.nothing_lost()
    assert {key for row in pairs(fabric).values() for key in row} == {None}
    nothing_left(fabric)
    for node in fabric.nodes:
        assert ".psk" not in fabric.sh(node, "ls", "/var/lib/semaphore-wireguard")
    assert not fabric.play("site", variables=FAST).ok().changed
