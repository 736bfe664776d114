# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes learn their new peers in the run that published them, wherever the inventory has its clusters."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest
import yaml

PLAYS = pathlib.Path(__file__).resolve().parents[2] / "playbooks" / "plays" / "mesh.yml"
CLUSTERS = {"clusters": {"hosts": {"oslo": {}, "rome": {}}}}
NODES = {"oslo_nodes": {"vars": {"multicluster_cluster": "oslo"}, "hosts": {"n1": {}, "n2": {}}}}


def second_pass(folder, inventory, published):
    """Whether the play that gives nodes their new peers goes on to its work, as its own hosts and its first task decide."""
    play = next(
        play
        for play in yaml.safe_load(PLAYS.read_text("utf-8"))
        if play["name"] == "Converge the nodes that have new peers"
    )
    seen = {
        "name": "seen",
        "ansible.builtin.set_fact": {"__mesh_seen": {"nodes": {}}},
        "run_once": True,
        "when": published,
    }
    work = {"name": "work", "ansible.builtin.debug": {"msg": "at work"}, "when": "multicluster_cluster is defined"}
    book = [
        {"hosts": "all:!clusters", "gather_facts": False, "tasks": [seen]},
        {"hosts": play["hosts"], "gather_facts": False, "tasks": [play["tasks"][0], work]},
    ]
    (folder / "hosts.yml").write_text(json.dumps(inventory), "utf-8")
    (folder / "book.yml").write_text(json.dumps(book), "utf-8")
    done = subprocess.run(
        ["ansible-playbook", "-i", str(folder / "hosts.yml"), "-c", "local", str(folder / "book.yml")],
        env=dict(os.environ, ANSIBLE_HOME=str(folder / "ansible")),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.count("at work")


@pytest.mark.parametrize(
    "inventory", [{**CLUSTERS, **NODES}, {**NODES, **CLUSTERS}], ids=["clusters first", "nodes first"]
)
def test_the_second_pass_waits_for_no_order_of_groups(inventory, tmp_path):
    assert second_pass(tmp_path, inventory, True) == 2
    assert second_pass(tmp_path, inventory, False) == 0
