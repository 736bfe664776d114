# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters for which nobody writes a port: a third one joins, and those that work keep what they have."""

from __future__ import annotations

import pathlib

import yaml

FOLDER = pathlib.Path(__file__).parent
TOPOLOGY = str(FOLDER / "two_without_ports.json")


def ports(fabric, node):
    """{device: port} as the node's WireGuard has it."""
    return {name: int(fabric.sh(node, "wg", "show", name, "listen-port")) for name in fabric.wireguard(node)}


def test_two_clusters_without_ports(fabric):
    assert "all green" in fabric.play("site").ok().out
    assert ports(fabric, "aws-node-1") == {"wireguard.gcp": 51820}
    assert ports(fabric, "gcp-node-1") == {"wireguard.aws": 51820}


def test_a_third_one_joins_and_moves_no_port(fabric):
    """Its name comes first, so that an order by names would move everybody."""
    fabric.lab("up", "--topology", FOLDER / "three_without_ports.json")
    assert "all green" in fabric.play("site").ok().out
    assert ports(fabric, "aws-node-1") == {"wireguard.gcp": 51820, "wireguard.abc": 51821}
    assert ports(fabric, "gcp-node-1") == {"wireguard.aws": 51820, "wireguard.abc": 51821}
    assert ports(fabric, "abc-node-1") == {"wireguard.aws": 51820, "wireguard.gcp": 51821}
    fabric.all_reach()


def test_nothing_is_left_to_do(fabric):
    assert fabric.play("mesh").ok().changed == {}


def test_a_cluster_that_cannot_be_read_keeps_its_ports(fabric):
    """Without the annotations of its own nodes the plan would number the ports anew."""
    inventory = yaml.safe_load(fabric.inventory.read_text())
    access = inventory["all"]["children"]["clusters"]["hosts"]["aws"]
    access.pop("kubeconfig", None)
    access.update(api_url="https://127.0.0.1:1", token="none")
    broken = fabric.inventory.parent.parent / "broken.yml"
    broken.write_text(yaml.safe_dump(inventory))
    run = fabric.play("mesh", inventory=broken)
    assert run.rc != 0 and "cluster aws: https://127.0.0.1:1 ('Connection refused') [unreachable]" in run.out
    assert ports(fabric, "aws-node-1") == {"wireguard.gcp": 51820, "wireguard.abc": 51821}
    assert run.recap["aws-node-1"]["changed"] == 0


def test_a_node_without_host_is_named(fabric):
    inventory = yaml.safe_load(fabric.inventory.read_text())
    groups = inventory["all"]["children"]
    group = next(body for name, body in groups.items() if name != "clusters" and "gcp-node-1" in body["hosts"])
    group["hosts"]["other-name"] = dict(group["hosts"].pop("gcp-node-1"), node_name="gcp-node-9")
    renamed = fabric.inventory.parent.parent / "renamed.yml"
    renamed.write_text(yaml.safe_dump(inventory))
    run = fabric.play("mesh", "--check", inventory=renamed)
    assert "cluster gcp: no host of the inventory represents gcp-node-1" in " ".join(run.out.split())


def test_site_stops_at_a_name_that_nothing_knows(fabric):
    run = fabric.play("site", "-e", "mesh_adpot=true")
    assert run.rc != 0 and "did you mean mesh_adopt?" in run.out
    assert run.changed == {}
