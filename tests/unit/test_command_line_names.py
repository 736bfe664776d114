# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A misspelt variable on the command line ends a run that may write, before it does: nobody else looks at it in a single playbook."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

PLAY = """
- name: Any playbook that writes
  hosts: localhost
  gather_facts: false
  tasks:
    - {name: lock, multicluster.network.run_lock: {fabric: typos, scope: none}}
"""


def run(folder, *arguments):
    """(code, what was printed) of a play that asks for the lock first."""
    (folder / "play.yml").write_text(PLAY, "utf-8")
    environment = dict(
        os.environ, ANSIBLE_LOCALHOST_WARNING="0", ANSIBLE_HOME=str(folder / "ansible"), ANSIBLE_NOCOLOR="1"
    )
    command = ["ansible-playbook", "-i", "localhost,", "-c", "local", str(folder / "play.yml"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments, near",
    [
        (["-e", "coredns_rewrite_stat=absent"], "coredns_rewrite_state"),
        (["-e", "service_mirror_max_delets=0", "--check"], "service_mirror_max_deletes"),
        (["-e", json.dumps({"multicluster_capabilites": ["coredns_rewrite"]})], "multicluster_capabilities"),
    ],
)
def test_it_ends_the_run_and_names_what_was_meant(tmp_path, arguments, near):
    code, shown = run(tmp_path, *arguments)
    assert code == 2 and "command line: " in shown and f"did you mean {near}?" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-e", "coredns_rewrite_state=absent", "-e", "reason=upgrade", "-e", "ansible_user=root"],
        ["-e", json.dumps({"mesh_of_others": 1, "multicluster_foreign_variables": ["mesh_of_*"]})],
    ],
)
def test_right_names_and_those_of_others_do_not(tmp_path, arguments):
    code, shown = run(tmp_path, *arguments)
    assert code == 0, shown
