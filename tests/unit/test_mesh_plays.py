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


def second_pass(folder, inventory, news, *arguments):
    """On how many hosts the play that gives nodes their new peers goes on to its work, as its own hosts and first tasks decide."""
    play = next(
        play
        for play in yaml.safe_load(PLAYS.read_text("utf-8"))
        if play["name"] == "Converge the nodes that have new peers"
    )
    seen = {
        "name": "news",
        "ansible.builtin.set_fact": {"__mesh_news": {"news": news} if news else {"skipped": True}},
        "run_once": True,
    }
    work = {"name": "work", "ansible.builtin.debug": {"msg": "at work"}, "when": play["tasks"][2]["when"]}
    book = [
        {"hosts": "all:!clusters", "gather_facts": False, "tasks": [seen]},
        {"hosts": play["hosts"], "gather_facts": False, "serial": play["serial"], "tasks": [*play["tasks"][:2], work]},
    ]
    (folder / "hosts.yml").write_text(json.dumps(inventory), "utf-8")
    (folder / "book.yml").write_text(json.dumps(book), "utf-8")
    done = subprocess.run(
        ["ansible-playbook", "-i", str(folder / "hosts.yml"), "-c", "local", str(folder / "book.yml"), *arguments],
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
    assert second_pass(tmp_path, inventory, ["n1", "n2"]) == 2
    assert second_pass(tmp_path, inventory, ["n2"]) == 1
    assert second_pass(tmp_path, inventory, []) == 0
    assert second_pass(tmp_path, inventory, ["n2"], "-e", "multicluster_serial=1") == 1
    assert second_pass(tmp_path, inventory, [], "-e", "multicluster_serial=1") == 0
