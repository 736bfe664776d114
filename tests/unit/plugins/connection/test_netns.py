# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
from ansible_collections.multicluster.network.plugins.connection import netns

STAT = "42 (a) b (c) S " + " ".join(str(n) for n in range(4, 53))


@pytest.mark.parametrize("text,expected", [("1234 987\n", (1234, 987)), ("1234", (1234, None)), (" 5\t6 ", (5, 6))])
def test_leader_is_read(text, expected):
    assert netns.parse_leader(text) == expected


@pytest.mark.parametrize("text", ["", "abc", "1 2 3", "0 5", "1 5", "-4 5", "4.0 5", "\u0664 5", "9" * 25])
def test_leader_is_refused(text):
    with pytest.raises(netns.LeaderGone):
        netns.parse_leader(text)


def test_leader_from_file(tmp_path):
    (tmp_path / "leader").write_text("77 88\n")
    assert netns.read_leader(str(tmp_path / "leader")) == (77, 88)
    assert netns.read_leader("77 88") == (77, 88)
    with pytest.raises(netns.LeaderGone, match="No such file"):
        netns.read_leader(str(tmp_path / "missing"))


def test_start_time_survives_strange_commands():
    assert netns.start_time(STAT) == 22
    assert netns.start_time(STAT.replace(" S ", " Z ")) is None


def test_a_process_that_is_gone():
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(netns.LeaderGone, match="no process"):
        netns.open_leader(process.pid, None)


def test_a_later_process_of_that_number():
    with pytest.raises(netns.LeaderGone, match="later process"):
        netns.open_leader(os.getpid(), 1)


def test_our_own_namespace_is_never_entered():
    with pathlib.Path("/proc/self/stat").open(encoding="utf-8") as stream:
        started = netns.start_time(stream.read())
    with pytest.raises(netns.LeaderGone, match="own network namespace"):
        netns.open_leader(os.getpid(), started)


def test_everything_is_entered_through_the_opened_process():
    command = netns.enter_command(9, ["/bin/sh", "-c", "true"])
    assert command[0] == "nsenter" and command[-4:] == ["--", "/bin/sh", "-c", "true"]
    assert "--net=/proc/self/fd/9/ns/net" in command and "--root=/proc/self/fd/9/root" in command
