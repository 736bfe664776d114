# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a run on one controller: who keeps it, for whom, who cannot block it; no API server is needed."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import threading
import time

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.multicluster.network.plugins.action import run_lock as action
from ansible_collections.multicluster.network.plugins.module_utils._flows.runs import run_lock
from ansible_collections.multicluster.network.plugins.module_utils._io import local_lock
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import processes


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not come about within {seconds} s"
        time.sleep(0.02)


@pytest.fixture(name="folder", autouse=True)
def folder_fixture(tmp_path, monkeypatch):
    monkeypatch.setattr(local_lock, "folder", lambda: str(tmp_path / "locks"))
    return tmp_path / "locks"


@pytest.fixture(name="start")
def start_fixture():
    made = []

    def start(words, record=None):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        made.append(process)
        assert record is None or process.stdout.readline() == record + "\n"
        return process

    yield start
    for process in made:
        process.kill()
        process.communicate()


class Run:
    """A process in place of ansible-playbook, and the watchdog of its lock."""

    def __init__(self, start, fabric, wait=0.0):
        self.owner = start(["sleep", "600"])
        self.rows = []
        self.request = {
            "fabric": fabric,
            "scope": "controller",
            "lock_wait": wait,
            "holder": "ops@here site.yml",
            "pid": self.owner.pid,
            "born": processes.birth(self.owner.pid),
            "clusters": [],
            "namespace": "kube-system",
        }
        self.thread = threading.Thread(target=run_lock.take, args=(self.request, self.record), daemon=True)
        self.thread.start()

    def record(self, row):
        self.rows.append(row)
        return "waiting" not in row

    def answer(self):
        until(lambda: any("waiting" not in row for row in self.rows) or not self.thread.is_alive())
        return self.rows[-1] if self.rows else {}

    def watchdog(self):
        return run_lock.ask(run_lock.key_of(self.request["fabric"], []))

    def end(self):
        self.owner.kill()
        self.owner.wait()


def test_the_second_run_is_notified_who_holds_the_lock_who_keeps_it_and_how_to_free_it(start, folder):
    first = Run(start, "named")
    assert first.answer()["held"] and not first.answer()["unlocked"]
    kept = first.watchdog()
    assert kept["pid"] == first.owner.pid and processes.lives(kept["watchdog"], kept["watchdog_born"])
    assert folder.stat().st_mode & 0o777 == 0o700 and [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [
        0o600
    ]
    second = Run(start, "named")
    who = second.answer()["who"]
    assert "'ops@here site.yml' since '2" in who and f"process {first.owner.pid};" in who
    assert (
        f"kept by process {kept['watchdog']};" in who
        and f"`kill {first.owner.pid}` ends that run and frees the lock" in who
    )
    assert "hangs" not in who
    first.end()
    until(lambda: not processes.lives(kept["watchdog"], kept["watchdog_born"]))
    assert not folder.exists(), "what is given back leaves nothing"
    third = Run(start, "named")
    assert third.answer()["held"]
    third.end()


def test_a_full_disk_is_no_other_run(start):
    """The run goes on and reports that it does so without a lock, as where there can be none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        run = Run(start, "full")
        answer = run.answer()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert answer["held"] and [row["reason"] for row in answer["unlocked"]] == ["lock_unsupported"], answer
    assert "File too large" in answer["unlocked"][0]["message"]
    run.end()


def test_a_run_that_has_had_the_lock_for_a_day_is_said_to_hang(start, monkeypatch):
    monkeypatch.setattr(run_lock, "LONG_SECONDS", -1.0)
    first = Run(start, "old")
    assert first.answer()["held"]
    assert "so it probably hangs" in Run(start, "old").answer()["who"]
    first.end()


def test_a_killed_watchdog_leaves_the_lock_free(start):
    first = Run(start, "kept")
    assert first.answer()["held"]
    kept = first.watchdog()
    os.kill(kept["watchdog"], signal.SIGKILL)
    until(lambda: not processes.lives(kept["watchdog"], kept["watchdog_born"]))
    assert first.watchdog() is None
    second = Run(start, "kept")
    assert second.answer()["held"]
    second.end()
    first.end()


def test_a_watchdog_that_hangs_after_its_run_is_ended(start, monkeypatch):
    monkeypatch.setattr(run_lock, "ENDING_SECONDS", 0.5)
    first = Run(start, "hanging")
    assert first.answer()["held"]
    kept = first.watchdog()
    os.kill(kept["watchdog"], signal.SIGSTOP)
    first.end()
    second = Run(start, "hanging", wait=60.0)
    assert second.answer()["held"]
    assert not processes.lives(kept["watchdog"], kept["watchdog_born"])
    second.end()


def test_a_run_that_ended_before_its_lock_was_taken_gets_none(start, folder):
    run = Run.__new__(Run)
    ended = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True)
    run.rows = []
    for pid, born in ((int(ended.stdout), ""), (int(ended.stdout), "77"), (1, ""), (1, "0x")):
        request = {
            "fabric": "late",
            "scope": "controller",
            "lock_wait": 0.0,
            "holder": "h",
            "pid": pid,
            "born": born,
            "clusters": [],
            "namespace": "n",
        }
        run_lock.take(request, run.record)
        assert not [row for row in run.rows if row.get("held")]
        assert run_lock.ask(run_lock.key_of("late", [])) is None


def _orphan(answers, go):
    """A worker: its parent ends before it looks."""
    go.wait(30)
    parent = multiprocessing.parent_process().pid
    until(lambda: os.getppid() != parent)
    try:
        action.the_run()
        answers.put("init is watched")
    except AnsibleActionFail as error:
        answers.put(str(error))


def test_a_worker_of_a_killed_playbook_takes_no_lock_for_init():
    context = multiprocessing.get_context("fork")
    answers, go = context.Queue(), context.Event()

    def playbook():
        worker = context.Process(target=_orphan, args=(answers, go))
        worker.start()
        go.set()
        os.kill(os.getpid(), signal.SIGKILL)

    process = context.Process(target=playbook)
    process.start()
    assert "lock_orphan" in answers.get(timeout=60)
    process.join()


def test_a_worker_finds_its_playbook():
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    worker = context.Process(target=lambda: answers.put(action.the_run()))
    worker.start()
    assert answers.get(timeout=60) == (os.getpid(), processes.birth(os.getpid()))
    worker.join()
