# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Node pods that go between runs, after a run that could not remove them itself: killed, failed early, or with a lost node."""

from __future__ import annotations

import pathlib
import subprocess
import threading
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects, node_pods_end
from ansible_collections.multicluster.network.plugins.module_utils._flows.runs import run_lock
from ansible_collections.multicluster.network.plugins.module_utils._io import local_lock
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import processes
from ansible_collections.multicluster.network.plugins.module_utils._linux.host.lock import LockFile, read_record

NAME = "multicluster-node-pods-e"
DAEMON_SET = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{NAME}"


@pytest.fixture
def run(server, tmp_path, monkeypatch):
    """A run that made the pods: its process, and the request of the process that waits for its end."""
    monkeypatch.setattr(local_lock, "folder", lambda: str(tmp_path / "locks"))
    process = subprocess.Popen(["sleep", "1000"])
    pods = {"image": "example.com/node-pod:1", "namespace": "kube-system", "during_runs": True}
    request = {
        "fabric": "pods-e",
        "clusters": [server.access()],
        "lock_clusters": [server.access()],
        "node_pods": pods,
        "pid": process.pid,
        "born": processes.birth(process.pid),
        "settle": 0.5,
        "scope": "fabric",
        "namespace": "kube-system",
    }
    assert cluster_objects.run({**request, "state": "present"})["changed"]
    yield process, request
    process.kill()
    process.wait()
    if not there(server):  # who removed them gives the lock back before the next test asks for it
        until(lambda: not list(pathlib.Path(local_lock.folder()).glob("*.pods")))
    node_pods_end.forget(request)
    server.client().delete(DAEMON_SET)


def there(server):
    return server.client().find(DAEMON_SET) is not None


def until(ask, seconds=120.0):
    end = time.monotonic() + seconds
    while not ask():
        assert time.monotonic() < end
        time.sleep(0.1)


def end(process):
    process.kill()
    process.wait()


def test_they_go_after_a_run_that_was_killed(server, run):
    process, request = run
    assert node_pods_end.watch(request) == ""
    time.sleep(1.5)
    assert there(server), "the run is still at work"
    end(process)
    until(lambda: not there(server))


def test_they_stay_while_a_change_may_be_taken_back(server, run):
    """The process that takes it back is in the pod."""
    process, request = run
    assert node_pods_end.watch({**request, "settle": 4}) == ""
    end(process)
    time.sleep(2)
    assert there(server)
    until(lambda: not there(server))


def test_another_run_keeps_them(server, run, tmp_path):
    process, request = run
    other = LockFile(
        local_lock.folder(), local_lock.file_name(run_lock.key_of(request["fabric"], request["lock_clusters"]))
    )
    sleeper = subprocess.Popen(["sleep", "1000"])
    assert other.take({"pid": sleeper.pid, "born": processes.birth(sleeper.pid), "holder": "another run"})
    try:
        end(process)
        node_pods_end.keep({**request, "settle": 0}, lambda row: None, threading.Event())
        assert there(server)
    finally:
        other.release()
        end(sleeper)


def test_a_run_that_removed_them_itself_leaves_no_process(server, run):
    process, request = run
    assert node_pods_end.watch(request) == ""
    record = read_record(local_lock.folder(), node_pods_end._file_name(request))
    assert processes.lives(record["watchdog"], record["watchdog_born"])
    assert node_pods_end.forget(request)
    assert not list(pathlib.Path(local_lock.folder()).glob("*.pods"))
    until(lambda: not processes.lives(record["watchdog"], record["watchdog_born"]))
    assert not node_pods_end.forget(request)
    end(process)
    time.sleep(1.5)
    assert there(server)


def test_the_next_run_takes_over(server, run):
    """One process for a fabric, that of the last run."""
    process, request = run
    assert node_pods_end.watch(request) == ""
    later = subprocess.Popen(["sleep", "1000"])
    assert node_pods_end.watch({**request, "pid": later.pid, "born": processes.birth(later.pid)}) == ""
    end(process)
    time.sleep(2)
    assert there(server)
    end(later)
    until(lambda: not there(server))
