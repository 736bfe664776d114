# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that cannot run the fabric gets a report of what is missing, and by which variable, before a service fails there for ever."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "roles" / "reconciler" / "files" / "can_run.py"


def said(inventory, command, *kubeconfigs, way="follow", **environment):
    """As the role runs it."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.read_text("utf-8"), str(inventory), str(command), way],
        input="\n".join(kubeconfigs),
        env=dict(os.environ, **environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_host_that_has_everything(tmp_path):
    (tmp_path / "hosts.yml").write_text("", "utf-8")
    assert (
        said(
            tmp_path / "hosts.yml",
            pathlib.Path(sys.executable).parent / "ansible-playbook",
            "~/hosts.yml",
            HOME=str(tmp_path),
        )
        == ""
    )


def test_each_thing_that_is_missing_is_named(tmp_path):
    shown = said(
        tmp_path / "hosts.yml",
        tmp_path / "ansible-playbook",
        "/nowhere/oslo",
        "/nowhere/oslo",
        PYTHONPATH=str(tmp_path),
    )
    assert shown.count("the kubeconfig /nowhere/oslo (of reconciler_clusters)") == 1
    timer = said(tmp_path / "hosts.yml", tmp_path / "ansible-playbook", "/nowhere/oslo", way="timer")
    assert "kubeconfig" not in timer and "reconciler_command" in timer
    for variable in ("reconciler_collections_path", "reconciler_inventory", "reconciler_command"):
        assert variable in shown


def test_a_python_without_ansible(tmp_path):
    shown = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), "/nowhere", "/nowhere", "timer"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert shown.count("(reconciler_python)") == 3
