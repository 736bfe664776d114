# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The timer of the role reconciler that changes old keys, as --check --diff shows its units. test_continuous.py runs it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import typing as t

import yaml

UNIT = "file /etc/systemd/system/multicluster-rotate_keys.service"


def shown(folder: pathlib.Path, **variables: t.Any) -> str:
    """What the role would do."""
    given = {
        "reconciler_inventory": str(folder / "role.yml"),
        "reconciler_follow": False,
        "reconciler_clusters": [],
        "reconciler_python": sys.executable,
        **variables,
    }
    roles = [{"role": "multicluster.network.reconciler", "vars": given}]
    (folder / "role.yml").write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "roles": roles}]))
    done = subprocess.run(
        ["ansible-playbook", "--check", "--diff", str(folder / "role.yml")],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=dict(os.environ, ANSIBLE_NOCOLOR="1"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_age_gives_rotate_keys_a_timer_under_the_lock_of_the_fabric(tmp_path: pathlib.Path) -> None:
    text = shown(tmp_path, reconciler_rotate_older_than="90d")
    unit = text[text.index(UNIT) :]
    assert 'multicluster.network.rotate_keys "-e" "multicluster_lock=fabric" "-e" "rotate_older_than=90d"' in unit
    assert "OnUnitInactiveSec=1d" in unit and "TimeoutStartSec=7200" in unit


def test_without_an_age_no_key_changes_by_it(tmp_path: pathlib.Path) -> None:
    assert "file /etc/systemd/system/multicluster-site.service" in (text := shown(tmp_path)) and UNIT not in text
