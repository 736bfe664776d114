# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes in an inventory that would take paths away: the run stops before its first write, with the class of pairs by name."""

from __future__ import annotations

import copy
import json
import re

import pytest
import yaml

TOPOLOGY = "three"
KEY = "/var/lib/semaphore-wireguard/wireguard.gcp.key"


def narrowed_grant(tree):
    """One of the two nodes of gcp is outside."""
    tree["clusters"]["hosts"]["gcp"]["pod_cidrs"] = ["10.4.7.0/24"]


def endpoint_with_a_typo(tree):
    tree["gcp_nodes"]["hosts"]["gcp-node-1"]["wireguard_endpoint"] = "10.22.22.211"


def moved_port(tree):
    tree["clusters"]["hosts"]["gcp"]["wireguard_port"] = 51899


def exchanged_ranges(tree):
    hosts = tree["clusters"]["hosts"]
    hosts["aws"]["pod_cidrs"], hosts["gcp"]["pod_cidrs"] = hosts["gcp"]["pod_cidrs"], hosts["aws"]["pod_cidrs"]


def removed_group(tree):
    del tree["azr_nodes"], tree["clusters"]["hosts"]["azr"]


def wrong_mtu(tree):
    tree["clusters"]["hosts"]["gcp"]["wireguard_mtu"] = 8921


def node_in_two_groups(tree):
    """The variables of the group that comes last count."""
    tree["gcp_nodes"]["hosts"]["aws-node-1"] = {}


MISTAKES = {
    narrowed_grant: "outside_grant/aws/gcp",
    endpoint_with_a_typo: "endpoint_changed/aws/gcp",
    moved_port: "port_changed/gcp/aws",
    exchanged_ranges: "outside_grant/aws/gcp",
    removed_group: "cluster_left/aws/azr",
    wrong_mtu: "mtu_raised/aws/gcp",
    node_in_two_groups: "two_clusters/aws/gcp",
}


def slowest(echoes):
    """Milliseconds of the echo that took longest."""
    return float(re.search(r"= [\d.]+/[\d.]+/([\d.]+)/", echoes.text).group(1))


def shown(run):
    """The lines that check mode prints of pairs."""
    return re.findall(r'^ +"((?:lost|risked|still broken|moved|gained|not proven)[ :].*?)",?$', run.out, re.MULTILINE)


@pytest.fixture(scope="module", autouse=True)
def built(fabric):
    first = fabric.play("mesh", "--check").ok()
    assert {row.split()[0] for row in shown(first)} == {"gained"}, first.out[-4000:]
    fabric.play("mesh").ok()
    fabric.all_reach()


def changed(fabric, change):
    """An inventory with a mistake."""
    tree = copy.deepcopy(fabric.tree)
    change(tree)
    path = fabric.state / (change.__name__ + ".yml")
    path.write_text(yaml.safe_dump({"all": {"children": tree}}))
    return path


def states(fabric):
    return {node: fabric.wireguard(node) for node in fabric.nodes}


@pytest.mark.parametrize("change", MISTAKES, ids=lambda change: change.__name__)
def test_a_mistake_stops_the_run_before_its_first_write(fabric, change):
    inventory = changed(fabric, change)
    with fabric.witness() as writes:
        run = fabric.play("mesh", inventory=inventory)
    assert run.rc != 0, run.out[-4000:]
    text = " ".join(run.out.split())
    assert "[pairs_lost]" in text and MISTAKES[change] in text, run.out[-4000:]
    assert "stops before its first write" in text
    assert not [line for line in writes if "/leases/" not in line], writes
    assert not run.changed, "a comparison is no change"
    fabric.ran(f"{change.__name__}: {MISTAKES[change]}")


def test_check_mode_shows_what_would_be_lost_and_the_plan_file_has_it(fabric, tmp_path):
    plan, page = tmp_path / "plan.json", tmp_path / "lost.html"
    run = fabric.play(
        "mesh",
        "--check",
        inventory=changed(fabric, narrowed_grant),
        variables={"mesh_plan_file": str(plan), "mesh_changes_page": str(page)},
    ).ok()
    assert "gcp-node-2: 4 of 4 pairs would be lost" in page.read_text("utf-8")
    assert shown(run)[0].startswith("lost 2 pairs [outside_grant/"), run.out[-5000:]
    found = json.loads(plan.read_text())["reachability"]
    assert found["lost"] == 4 and found["stops"], found
    row = next(row for row in found["classes"] if row["class"] == "outside_grant/aws/gcp")
    assert row["example"]["to"] == "gcp-node-2" and row["first_hop"] == "wireguard.gcp", row


def test_an_unchanged_fabric_shows_nothing(fabric):
    run = fabric.play("mesh", "--check").ok()
    assert not run.changed
    assert shown(run) == []


def test_limit_with_a_changed_key_stops(fabric):
    before = fabric.wireguard("aws-node-1")["wireguard.gcp"]["public_key"]
    fabric.sh("aws-node-1", "mv", KEY, KEY + ".away")
    try:
        run = fabric.play("mesh", "--limit", "aws-node-1")
        assert run.rc != 0 and "key_changed/aws/gcp" in run.out, run.out[-4000:]
        assert fabric.wireguard("aws-node-1")["wireguard.gcp"]["public_key"] == before
    finally:
        fabric.sh("aws-node-1", "mv", KEY + ".away", KEY)
    assert not fabric.play("mesh", "--limit", "aws-node-1").ok().changed


def test_a_gap_on_the_way_is_announced_seen_and_ends_and_no_other_pair_loses_a_packet(fabric):
    """The key of one node is new: the pairs with it pause until others know that. Real packets between pods, ten a second."""
    fabric.sh("aws-node-1", "mv", KEY, KEY + ".away")
    checked = " ".join(fabric.play("mesh", "--check").ok().out.split())
    announced = r"without a path for at most \d+ s 2 pairs \[key_new/aws/gcp\], as aws-node-1 to gcp-node-1"
    assert re.search(announced, checked), checked[-4000:]
    assert "from the first call of aws-node-1 to the second call of gcp-node-1" in checked
    target, how = "10.4.7.10", {"inside": "pod-exec", "every": 0.1}
    with (
        fabric.pinging("aws-node-1-pod-1", target, **how) as paused,
        fabric.pinging("aws-node-2-pod-1", target, **how) as untouched,
    ):
        fabric.play("mesh").ok()
    assert untouched.sent and untouched.lost == 0, untouched
    # WireGuard keeps what waits for a handshake, so a gap is seen as packets that arrive late
    assert paused.lost or slowest(paused) > 300, paused
    fabric.all_reach()
    assert "without a path" not in fabric.play("mesh", "--check").ok().out
    fabric.ran(f"announced gap: {paused.lost} lost, {slowest(paused)} ms; elsewhere none lost, {slowest(untouched)} ms")


def test_a_node_that_does_not_answer_stops_nothing_and_is_named(fabric):
    inventory = changed(fabric, narrowed_grant)
    tree = yaml.safe_load(inventory.read_text())
    for group in ("aws_nodes", "azr_nodes"):
        for host in tree["all"]["children"][group]["hosts"].values():
            host["ansible_netns_leader"] = "/nonexistent"
    inventory.write_text(yaml.safe_dump(tree))
    run = fabric.play("mesh", "--check", inventory=inventory)
    assert "not proven: aws-node-1, aws-node-2, azr-node-1" in " ".join(run.out.split()), run.out[-4000:]


def test_a_confirmed_class_is_lost_and_the_limit_lets_as_many_go(fabric):
    inventory = changed(fabric, narrowed_grant)
    run = fabric.play("mesh", inventory=inventory, variables={"mesh_max_lost_pairs": 3})
    assert run.rc != 0 and "[pairs_lost]" in run.out
    names = ["outside_grant/aws/gcp", "outside_grant/azr/gcp"]
    fabric.play("mesh", inventory=inventory, variables={"mesh_confirm_lost": names}).ok()
    again = fabric.play("mesh", inventory=inventory).ok()
    assert "[pairs_lost]" not in again.out, "what is broken already is not lost again"
    fabric.play("mesh").ok()
    fabric.all_reach()
