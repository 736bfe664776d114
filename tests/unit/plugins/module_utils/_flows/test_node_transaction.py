# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host that waits for a confirmation: what it reads meanwhile."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import transaction
from ansible_collections.multicluster.network.plugins.module_utils._linux import files
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import deadman


class Host:
    """A clock that sleeping moves, and a journal that counts its reads; ``events`` happen at their second."""

    def __init__(self, path):
        self.path, self.now, self.reads, self.events, self.ended = path, 0.0, 0, {}, None
        self.write("one")

    def write(self, ident):
        files.write_state(str(self.path), files.FileState("file", 0o600, ident.encode()))

    def sleep(self, seconds):
        self.now += seconds
        for at in [at for at in self.events if at <= self.now]:
            self.events.pop(at)()

    def pending(self, dummy_fabric):
        self.reads += 1
        found = files.read_state(str(self.path))
        return None if found is None else {"id": found.content.decode(), "writer": [0, None]}

    def settle(self, dummy_fabric, message, expired=False):
        self.ended = (message, expired)
        return {"message": message}


@pytest.fixture(name="host")
def host_fixture(tmp_path, monkeypatch):
    host = Host(tmp_path / "transaction.json")
    monkeypatch.setattr(transaction.persistence, "journal_path", lambda fabric: str(host.path))
    monkeypatch.setattr(transaction.persistence, "sweep", lambda fabric: None)
    monkeypatch.setattr(transaction, "pending", host.pending)
    monkeypatch.setattr(transaction, "settle", host.settle)
    monkeypatch.setattr(transaction, "HostLock", lambda *unused: pathlib.Path(os.devnull).open("rb"))
    monkeypatch.setattr(deadman, "uptime", lambda: host.now)
    monkeypatch.setattr(deadman.time, "sleep", host.sleep)
    return host


def test_a_journal_is_read_again_only_when_it_is_another_file(host):
    transaction.dead_man("mesh", "one", 600)
    assert host.ended == ("nobody confirmed the change within its time", True) and host.now >= 600
    assert host.reads <= 3, "once while it waits, and once before it acts"


def test_a_journal_that_is_gone_or_another_changes_is_seen_at_once(host):
    host.events = {100: host.path.unlink}
    assert transaction.dead_man("mesh", "one", 600) is None and host.ended is None and host.now < 102
    host.write("one")
    host.now, host.events = 0.0, {50: lambda: host.write("one"), 100: lambda: host.write("two")}
    assert transaction.dead_man("mesh", "one", 600) is None and host.ended is None and host.now < 102


def test_a_lock_that_cannot_be_had_for_a_while_takes_nothing_back_before_its_time(host, monkeypatch):
    """The run that armed this writes its journal meanwhile, and has its whole time."""
    host.path.unlink()
    host.events = {50: lambda: host.write("one")}

    def lock(*dummy):
        if host.now < 100:
            raise OSError("the folder cannot be used")
        return pathlib.Path(os.devnull).open("rb")

    monkeypatch.setattr(transaction, "HostLock", lock)
    transaction.dead_man("mesh", "one", 600)
    assert host.ended == ("nobody confirmed the change within its time", True) and host.now >= 600
