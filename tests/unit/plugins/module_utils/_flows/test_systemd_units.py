# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of units, and what systemd is asked for; the scenario test_timers runs the same under a real systemd."""

from __future__ import annotations

import os
import stat
import sys

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane import unit_plan
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import systemd_units
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import systemd, units

TEXT = "[Service]\nExecStart=/bin/true\n\n[Install]\nRequiredBy=multi-user.target\n"
#: A systemctl with two facts in files: what is enabled, and what runs since when.
SYSTEMCTL = """#!/bin/sh
cd {0}
echo "$*" >>asked
case $1 in
  enable) touch enabled ;;
  disable) rm -f enabled ;;
  is-enabled) [ -e enabled ] ;;
  start|restart) [ ! -e broken ] || {{ echo "Job for $2 failed." >&2; exit 1; }}; {1} -c 'import time; print(int(time.monotonic() * 1e6))' >started ;;
  stop) rm -f started ;;
  show) [ -e started ] && echo ActiveState=active || echo ActiveState=inactive
        echo NeedDaemonReload=no; echo InactiveExitTimestampMonotonic=$(cat started 2>/dev/null) ;;
esac
"""


@pytest.fixture(name="host")
def host_fixture(tmp_path, monkeypatch):
    program = tmp_path / "systemctl"
    program.write_text(SYSTEMCTL.format(tmp_path, sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    monkeypatch.setattr(unit_plan, "UNIT_ROOT", str(tmp_path / "units"))
    for module in (systemd, units.systemd):
        monkeypatch.setattr(module, "running", lambda: True)
    (tmp_path / "asked").touch()
    return tmp_path


def run(check=False, **more):
    return systemd_units.run({"units": [{"name": "x.service", "content": TEXT}], **more}, check)


def asked(host):
    """The commands that change something, since the last call."""
    lines = (host / "asked").read_text().splitlines()
    (host / "asked").write_text("")
    return [line for line in lines if not line.startswith(("show", "is-enabled"))]


def test_the_life_of_a_unit(host):
    path, read = host / "units" / "x.service", host / "config"
    assert run(check=True)["changed"] and not path.exists() and asked(host) == []
    first = run(reads=[str(read)])
    assert first["changed"] and not first["warnings"], first
    assert path.read_text() == TEXT and stat.S_IMODE(path.stat().st_mode) == 0o644
    assert asked(host) == ["daemon-reload", "enable x.service", "start x.service"]
    assert not run(reads=[str(read)])["changed"] and asked(host) == []
    read.write_text("new")
    again = run(reads=[str(read)])
    assert [row["kind"] for row in again["plan"]["changes"]] == ["unit"]
    assert asked(host) == ["daemon-reload", "restart x.service"]
    assert not run(reads=[str(read)])["changed"]
    asked(host)
    path.write_text(TEXT + "#\n")
    assert "restart x.service" in (run() and asked(host))
    gone = run(state="absent")
    assert gone["plan"]["delete"] == 2 and not path.exists() and not gone["warnings"]
    assert asked(host) == ["stop x.service", "disable x.service", "daemon-reload", "reset-failed x.service"]
    assert not run(state="absent")["changed"]


def test_a_file_from_the_future_restarts_nothing_for_ever(host):
    read = host / "config"
    read.write_text("new")
    os.utime(read, (4e9, 4e9))
    run(reads=[str(read)])
    assert not run(reads=[str(read)])["changed"]


def test_a_unit_that_does_not_start_fails_with_the_message_of_systemd_and_is_tried_again(host):
    (host / "broken").touch()
    with pytest.raises(LinuxError, match=r"failed to start x\.service: Job for x\.service failed\."):
        run()
    (host / "broken").unlink()
    assert run()["changed"] and not run()["changed"]


def test_a_masked_unit_stays_masked(host):
    (host / "units").mkdir()
    (host / "units" / "x.service").symlink_to(os.devnull)
    with pytest.raises(LinuxError, match=r"systemctl unmask x\.service"):
        run()
    assert not run(state="absent")["changed"]
