# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent in a node pod: it keeps the watcher while the state asks for one, and gives way to another program."""

from __future__ import annotations

import sys
import threading
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import (
    node_agent,
    persistence,
)
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.kubespan import watch as kubespan_watch


@pytest.fixture
def pod(tmp_path, monkeypatch):
    """The folder of a fabric with a program that notes each start, and the agent in a thread."""
    monkeypatch.setattr(persistence, "STATE_ROOT", str(tmp_path))
    monkeypatch.setattr(node_agent, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(node_agent, "AGAIN_SECONDS", 0.2)
    folder = tmp_path / "f"
    folder.mkdir()
    program = folder / "one.py"
    program.write_text(
        f"import sys, time\nopen({str(folder / 'starts')!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))\ntime.sleep(60)\n"
    )
    (folder / "agent").symlink_to(program)
    (folder / "dataplane.json").write_text("{}")
    desired = {"watcher": False}
    monkeypatch.setattr(kubespan_watch, "desired_state", lambda fabric: dict(desired))
    ended, begun = [], threading.Event()
    thread = threading.Thread(target=lambda: ended.append(node_agent.main(["pod", "f"])), daemon=True)
    monkeypatch.setattr(node_agent, "_leads_to", lambda link, ask=node_agent._leads_to: begun.set() or ask(link))
    thread.start()
    begun.wait(20)
    time.sleep(0.1)  # the first answer is what it compares with
    yield folder, desired, thread, ended
    (folder / "agent").unlink(missing_ok=True)
    thread.join(20)


def starts(folder, count):
    end = time.monotonic() + 20
    while True:
        found = (folder / "starts").read_text().splitlines() if (folder / "starts").exists() else []
        if len(found) >= count:
            return found
        assert time.monotonic() < end, found
        time.sleep(0.02)


def test_a_watcher_as_the_state_asks_for_it(pod):
    folder, desired, thread, _ended = pod
    time.sleep(0.2)
    assert not (folder / "starts").exists() and thread.is_alive()
    desired["watcher"] = True
    (folder / "dataplane.json").write_text('{"a": 1}')
    assert starts(folder, 1) == ["watch f"]


def test_another_program_takes_over(pod):
    folder, _desired, thread, ended = pod
    (folder / "new").symlink_to(sys.executable)
    (folder / "new").replace(folder / "agent")
    thread.join(20)
    assert ended == [0]


def test_without_a_program_it_ends(pod):
    folder, _desired, thread, ended = pod
    (folder / "agent").unlink()
    thread.join(20)
    assert ended == [0]
