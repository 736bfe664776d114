# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster of three leaves and comes back: its nodes have nothing owned then, and the others' packets notice nothing. Its API: tests/api/test_leave.py."""

from __future__ import annotations

import json
import pathlib

import yaml

TOPOLOGY = str(pathlib.Path(__file__).parent / "three_without_ports.json")
LEAVES, STAY = "abc-node-1", ("aws-node-1", "gcp-node-1")
POD = "aws-node-1-pod-1"


def held(fabric, node):
    """Devices, routes and files of a node that are owned."""
    routes = fabric.sh(node, "sh", "-c", "ip -4 route show table all; ip -6 route show table all")
    places = "/etc/systemd/system /etc/systemd/network /etc/multicluster-network /var/lib/multicluster-network"
    files = fabric.sh(node, "sh", "-c", f"find {places} -type f ! -name 'lab-*' ! -name '*.key' 2>/dev/null; true")
    return (
        sorted(fabric.wireguard(node)),
        [line for line in routes.splitlines() if "wireguard" in line],
        sorted(files.split()),
    )


def notes(fabric, node):
    """Owned annotations on a Node."""
    one = json.loads(fabric.kubectl(node.partition("-")[0], "get", "node", node, "-o", "json"))
    return sorted(
        name for name in one["metadata"].get("annotations") or {} if "semaphore" in name or "multicluster" in name
    )


def test_three_are_joined(fabric):
    assert "all green" in fabric.play("site").ok().out
    assert held(fabric, LEAVES)[0] == ["wireguard.aws", "wireguard.gcp"] and notes(fabric, LEAVES)
    fabric.all_reach()


def test_check_mode_shows_both_sides_and_writes_nothing(fabric):
    before = {node: held(fabric, node) for node in (LEAVES, *STAY)}
    shown = fabric.play("leave", "--check", "--diff", "-e", "cluster=abc").ok()
    assert "[cluster_left]" not in str(shown.out), "it is leaving, and no later run has to say so"
    assert {node: held(fabric, node) for node in before} == before
    for node in before:
        assert shown.changed.get(node), (node, shown.out[-4000:])


def test_one_leaves_and_the_others_notice_nothing(fabric):
    fabric.all_reach()
    with fabric.pinging(POD, "10.4.7.10", inside="pod-exec") as echoes:
        shown = fabric.play("leave", "-e", "cluster=abc").ok()
    assert echoes.lost == 0 and echoes.sent, echoes
    assert held(fabric, LEAVES) == ([], [], []) and notes(fabric, LEAVES) == []
    for node in STAY:
        assert held(fabric, node)[0] == ["wireguard." + ("gcp" if "aws" in node else "aws")] and not [
            line for line in held(fabric, node)[1] if "abc" in line
        ]
    assert "take abc and its nodes out of the inventory" in " ".join(shown.out.split())
    assert fabric.play("leave", "-e", "cluster=abc").ok().changed == {}


def test_it_comes_back(fabric):
    assert "all green" in fabric.play("site").ok().out
    fabric.all_reach()


def test_gone_for_ever_only_the_others_are_written(fabric):
    before = held(fabric, LEAVES)
    shown = fabric.play("leave", "-e", "cluster=abc", "-e", "leave_gone=true").ok()
    assert held(fabric, LEAVES) == before and LEAVES not in shown.changed
    assert all("wireguard.abc" not in held(fabric, node)[0] for node in STAY)
    assert "gone, so nothing was written in abc" in " ".join(shown.out.split()) and LEAVES in shown.out


def test_a_node_leaves_by_limit(fabric):
    fabric.play("site").ok()
    shown = fabric.play("leave", "--limit", LEAVES).ok()
    assert held(fabric, LEAVES) == ([], [], []) and notes(fabric, LEAVES) == []
    assert set(shown.changed) == {LEAVES} and "wireguard.abc" in held(fabric, "aws-node-1")[0]


def test_one_that_was_taken_out_of_the_inventory_is_named(fabric):
    fabric.play("site").ok()
    inventory = yaml.safe_load(fabric.inventory.read_text())
    groups = inventory["all"]["children"]
    groups["clusters"]["hosts"].pop("abc")
    for body in groups.values():
        (body.get("hosts") or {}).pop(LEAVES, None)
    without = fabric.inventory.parent.parent / "without.yml"
    without.write_text(yaml.safe_dump(inventory))
    shown = " ".join(fabric.play("site", "--check", inventory=without).out.split())
    assert (
        "cluster abc was in this fabric, as Nodes of aws, gcp say" in shown and "leave with -e cluster=abc" in shown
    ), shown[-4000:]
    stopped = fabric.play("site", inventory=without)
    assert stopped.rc != 0 and "cluster_left/aws/abc" in stopped.out, stopped.out[-4000:]
    classes = {"mesh_confirm_lost": ["cluster_left/aws/abc", "cluster_left/gcp/abc"]}
    fabric.play("site", inventory=without, variables=classes).ok()
    assert held(fabric, "aws-node-1")[0] == ["wireguard.gcp"] and held(fabric, LEAVES)[0], (
        "what is in it stays, as it was said"
    )
    assert "cluster_left" not in fabric.play("site", inventory=without).ok().out
