# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A systemd that hangs, or has no programs, is an error by name: the dead-man tries again after one, and died of anything else."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import deadman, systemd

ASKED = {
    "reload": systemd.reload_units,
    "restart": lambda: systemd.restart("x.service"),
    "show": lambda: systemd.stopped("x.service"),
    "retire": lambda: systemd.retire("x.service"),
    "arm": lambda: deadman.arm("x", 60, ["true"]),
    "disarm": lambda: deadman.disarm("x"),
}


@pytest.fixture(name="programs")
def programs_fixture(tmp_path, monkeypatch):
    """A folder that is the whole PATH, on a machine that runs systemd."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(systemd, "_SECONDS", 0.2)
    monkeypatch.setattr(deadman, "_TIMEOUT", 0.2)
    for module in (systemd, deadman):
        monkeypatch.setattr(module, "running", lambda: True)
    return tmp_path


@pytest.mark.parametrize("name", sorted(ASKED))
def test_one_that_hangs(programs, name):
    for program in ("systemctl", "systemd-run"):
        (programs / program).write_text("#!/bin/sh\nexec /bin/sleep 600\n")
        (programs / program).chmod(0o755)
    with pytest.raises(LinuxError, match="system(ctl|d-run) did not answer within 0.2 s"):
        ASKED[name]()


@pytest.mark.parametrize("name", sorted(ASKED))
def test_one_without_its_programs(programs, name):
    assert not list(programs.iterdir())
    with pytest.raises(LinuxError, match="system(ctl|d-run): No such file"):
        ASKED[name]()
