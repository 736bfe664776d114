# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run that changes a layer 2 speaker leaves to the next one; what it changes is a scenario's work."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.speakers import unfinished
from ansible_collections.multicluster.network.plugins.module_utils._flows.speakers.layer2 import follow, speaker
from ansible_collections.multicluster.network.plugins.module_utils._linux.daemons import keepalived
from ansible_collections.multicluster.network.plugins.module_utils._linux.files import FileState


class Killed(BaseException):
    """As SIGKILL: no code of the collection catches it."""


@pytest.fixture
def begun(monkeypatch, tmp_path):
    """Every path of the collection in a folder of the test, and an init that starts what it is asked to; gives the commands."""
    words = []
    for module, names in (
        (speaker, ("CODE", "UNIT", "FOLLOWER_UNIT", "STATE", "UNFINISHED")),
        (keepalived, ("CONFIG", "LOADED")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, str(tmp_path / name.lower()))
    monkeypatch.setattr(speaker.systemd, "running", lambda: True)
    monkeypatch.setattr(speaker.systemd, "reload_units", lambda: True)
    monkeypatch.setattr(keepalived, "active", lambda unit=keepalived.UNIT: True)
    monkeypatch.setattr(speaker, "_begin", lambda unit, verb: words.append((unit, verb)))
    monkeypatch.setattr(speaker, "_wait_until_followed", lambda state, seconds: None)
    monkeypatch.setattr(follow.Follower, "round", lambda self, starting=False: None)
    return words


def desired(code):
    paths = (speaker.UNIT, speaker.FOLLOWER_UNIT, speaker.STATE, keepalived.CONFIG)
    return {speaker.CODE: FileState("file", 0o755, code), **{path: FileState("file", 0o600, b"same") for path in paths}}


def put(code):
    files = desired(code)
    speaker._put({path: speaker.files.read_state(path) for path in files}, files, 0)


def test_what_a_killed_run_wrote_is_started_by_the_next_one(begun, monkeypatch):
    put(b"old")
    follow.note_loaded()  # as the unit does just before the daemon
    real = speaker._begin

    def killed(unit, verb):
        raise Killed()

    monkeypatch.setattr(speaker, "_begin", killed)
    with pytest.raises(Killed):
        put(b"new")
    assert speaker.CODE in unfinished.left(speaker.UNFINISHED)
    monkeypatch.setattr(speaker, "_begin", real)
    begun.clear()
    put(b"new")
    assert begun == [(speaker.FOLLOWER, "restart")] and not unfinished.left(speaker.UNFINISHED)
    begun.clear()
    put(b"new")
    assert begun == []
