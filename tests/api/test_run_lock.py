# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run on a fabric at a time: real ansible-playbook processes, real Leases."""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.runs import run_lock
from ansible_collections.multicluster.network.plugins.module_utils._io import local_lock
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import processes

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
#: Half a minute together; `tests/run continuous` has them.
FULL = pytest.mark.skipif(
    not os.environ.get("MCN_FULL"), reason="NOT RUN here: it takes minutes; `tests/run continuous` runs it"
)
PLAY = """
- name: Hold the lock until somebody ends it
  hosts: clusters
  gather_facts: false
  tasks:
    - name: Take the lock of the fabric
      ansible.builtin.include_role:
        name: multicluster.network.run_lock
      run_once: true
    - name: Again, as the next playbook of a run does
      ansible.builtin.include_role:
        name: multicluster.network.run_lock
      run_once: true
    - name: Say that it is held
      ansible.builtin.copy:
        content: held
        dest: "{{ folder }}/held"
        mode: "0644"
      run_once: true
    - name: Work
      ansible.builtin.wait_for:
        path: "{{ folder }}/enough"
        timeout: 120
      run_once: true
    - name: Fail where it is asked for
      ansible.builtin.fail:
        msg: on purpose
      when: broken | default(false) | bool
"""


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not come about within {seconds} s"
        time.sleep(0.05)


class Runs:
    """Runs of the play over one fabric; ``elsewhere`` are started as if from another machine."""

    def __init__(self, folder, server, fabric):
        self.folder, self.fabric, self.server, self.processes = folder, fabric, server, []
        (folder / "play.yml").write_text(PLAY)
        for name in ("here", "elsewhere"):
            config = {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [
                    {"name": "c", "cluster": {"server": server.url, "certificate-authority-data": _b64(server.ca)}}
                ],
                "users": [{"name": "u", "user": {"token": server.access()["token"]}}],
            }
            (folder / (name + ".kubeconfig")).write_text(yaml.safe_dump(config))
            python = "{{ ansible_playbook_python }}"
            hosts = {
                "aws": {
                    "kubeconfig": str(folder / (name + ".kubeconfig")),
                    "ansible_connection": "local",
                    "ansible_python_interpreter": python,
                }
            }
            tree = {"all": {"children": {"clusters": {"hosts": hosts}}, "vars": {"multicluster_fabric": fabric}}}
            (folder / (name + ".yml")).write_text(yaml.safe_dump(tree))

    def start(self, name, where="here", arguments=(), **variables):
        run = self.folder / name
        run.mkdir()
        extra = json.dumps(dict({"folder": str(run), "multicluster_lock": "fabric"}, **variables))
        with (run / "log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [
                    "ansible-playbook",
                    "-i",
                    str(self.folder / (where + ".yml")),
                    str(self.folder / "play.yml"),
                    "-e",
                    extra,
                    *arguments,
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=dict(os.environ, ANSIBLE_NOCOLOR="1"),
            )
        self.processes.append(process)
        return process

    def log(self, name):
        return (self.folder / name / "log").read_text()

    def held(self, name):
        return (self.folder / name / "held").exists()

    def wait_held(self, name):
        process = self.processes[-1]
        until(lambda: self.held(name) or process.poll() is not None)
        assert self.held(name), self.log(name)

    def enough(self, name):
        (self.folder / name / "enough").write_text("")

    def lease(self):
        return [
            one
            for one in self.server.client().list(LEASES).items
            if one["metadata"]["name"] == "multicluster-run-" + self.fabric
        ]


def _b64(text):
    import base64

    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def runs(tmp_path, server, request):
    made = Runs(tmp_path, server, "lock-" + request.node.name[5:35].replace("_", "-").strip("-"))
    yield made
    for process in made.processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_the_second_run_leaves_with_a_clear_message(runs):
    first = runs.start("first")
    runs.wait_held("first")
    assert (
        "pid" not in runs.lease()[0]["spec"]["holderIdentity"]
        and "play.yml" in runs.lease()[0]["spec"]["holderIdentity"]
    )
    for where in ("here", "elsewhere"):
        second = runs.start("second-" + where, where, multicluster_lock_wait=0)
        assert second.wait(60) != 0
        record = runs.log("second-" + where)
        assert (
            "another run is at work" in record
            and "play.yml" in record
            and " since " in record
            and "[lock_held]" in record
        ), record
        assert not runs.held("second-" + where)
    runs.enough("first")
    assert first.wait(60) == 0, runs.log("first")
    until(lambda: not runs.lease())


@FULL
def test_the_second_run_waits(runs):
    first = runs.start("first", broken=True)
    runs.wait_held("first")
    second = runs.start("second", "elsewhere", multicluster_lock_wait=120)
    until(lambda: "waiting up to 120 s for cluster aws" in runs.log("second"))
    assert not runs.held("second")
    runs.enough("first")
    assert first.wait(60) == 2  # a run that fails frees it as well
    runs.wait_held("second")
    runs.enough("second")
    assert second.wait(60) == 0


@FULL
def test_a_killed_run_frees_it(runs):
    first = runs.start("first")
    runs.wait_held("first")
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    second = runs.start("second", multicluster_lock_wait=0)
    runs.wait_held("second")
    runs.enough("second")
    assert second.wait(60) == 0, runs.log("second")


@pytest.mark.parametrize("scope", ["controller", "fabric"])
def test_a_run_that_is_killed_while_it_takes_its_lock_leaves_none(runs, scope):
    """At several moments, with its workers and alone: a worker that goes on without its ansible-playbook holds nothing for init."""
    generator = random.Random(runs.fabric)
    for number in range(6):
        process = runs.start(f"killed-{number}", multicluster_lock=scope, multicluster_lock_wait=60)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(lambda children=children, process=process: process.poll() is not None or children.read_text().split())
        time.sleep(generator.uniform(0, 1.5))
        if number % 2:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    last = runs.start("last", multicluster_lock=scope, multicluster_lock_wait=60)
    runs.wait_held("last")
    kept = [json.loads(path.read_text()) for path in pathlib.Path(local_lock.folder()).glob("*.lock")]
    mine = [record for record in kept if record.get("pid") == last.pid]
    assert len(mine) == 1 and processes.lives(mine[0]["watchdog"], mine[0]["watchdog_born"])
    assert not [record for record in kept if record.get("pid") == 1]
    runs.enough("last")
    assert last.wait(120) == 0, runs.log("last")


def test_check_mode_and_the_lock_of_the_controller_write_nothing(runs, server):
    mark = server.mark()
    mine = "multicluster-run-" + runs.fabric
    for name, more in (("check", ["--check"]), ("local", ["-e", "multicluster_lock=controller"])):
        process = runs.start(name, arguments=more)
        runs.enough(name)
        assert process.wait(60) == 0, runs.log(name)
    assert not [row for row in server.audit(mark) if mine in row[1] or (row[0] == "create" and "leases" in row[1])]


# --- the process that holds it ------------------------------------------------------------------------------------


class Watchdog:
    """``keep`` in a thread, for a process that can be ended."""

    def __init__(self, clusters, fabric, **more):
        self.rows, self.stop = [], threading.Event()
        self.owner = subprocess.Popen(["sleep", "300"])
        request = dict(
            {
                "fabric": fabric,
                "scope": "fabric",
                "lock_wait": 0,
                "holder": "ops@here site.yml",
                "pid": self.owner.pid,
                "born": processes.birth(self.owner.pid),
                "clusters": clusters,
                "namespace": "kube-system",
            },
            **more,
        )
        self.thread = threading.Thread(target=run_lock.keep, args=(request, self.rows.append, self.stop), daemon=True)
        self.thread.start()

    def answer(self):
        until(lambda: any("held" in row for row in self.rows))
        return next(row for row in self.rows if "held" in row)

    def end(self):
        self.owner.kill()
        self.owner.wait()
        self.thread.join(30)
        assert not self.thread.is_alive()


def test_a_lease_that_nobody_renews_is_taken_over(server, monkeypatch):
    monkeypatch.setattr(run_lock, "LEASE_SECONDS", 2.0)
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "multicluster-run-stale", "namespace": "kube-system"},
        "spec": {"holderIdentity": "gone", "acquireTime": "2026-01-01T00:00:00.000000Z"},
    }
    server.client().create(LEASES, body, "tests")
    early = Watchdog([server.access()], "stale")
    assert early.answer() == {
        "held": False,
        "who": "cluster aws: another run is at work: 'gone' since '2026-01-01T00:00:00.000000Z'",
    }
    early.end()
    late = Watchdog([server.access()], "stale", lock_wait=60)
    assert late.answer()["held"] and late.answer()["leases"] == ["aws"]
    late.end()
    assert not [
        one for one in server.client().list(LEASES).items if one["metadata"]["name"] == "multicluster-run-stale"
    ]


def test_clusters_that_give_no_lease_are_named(server):
    dead = server.access("gcp", api_url="https://127.0.0.1:9")
    poor = server.access("onprem", token="nobody")
    watchdog = Watchdog([server.access(), dead, poor], "some-dead")
    answer = watchdog.answer()
    watchdog.end()
    assert answer["leases"] == ["aws"]
    assert [(row["cluster"], row["reason"]) for row in answer["unlocked"]] == [
        ("gcp", "unreachable"),
        ("onprem", "unauthorized"),
    ]


def test_a_machine_without_a_place_for_the_lock_reports_it_and_goes_on(server, monkeypatch):
    def nowhere():
        raise PermissionError(1, "not here")

    monkeypatch.setattr(run_lock.local_lock, "folder", nowhere)
    watchdog = Watchdog([server.access()], "no-folder", scope="controller")
    assert watchdog.answer()["held"] and [row["reason"] for row in watchdog.answer()["unlocked"]] == [
        "lock_unsupported"
    ]
    watchdog.end()


def test_two_watchdogs_on_one_machine(server):
    first = Watchdog([server.access()], "local", scope="controller")
    assert first.answer()["held"]
    second = Watchdog([server.access()], "local", scope="controller")
    assert not second.answer()["held"] and "'ops@here site.yml' since" in second.answer()["who"]
    third = Watchdog([server.access()], "local", scope="controller", lock_wait=60)
    until(lambda: third.rows)
    assert "waiting" in third.rows[0]
    first.end()
    assert third.answer()["held"]
    for one in (second, third):
        one.end()


def test_one_api_server_under_two_names_is_no_second_run(server):
    watchdog = Watchdog([server.access(), server.access("same")], "two-names")
    assert watchdog.answer()["held"] and watchdog.answer()["leases"] == ["aws"]
    watchdog.end()


def test_who_lost_its_lease_is_reported(server, monkeypatch):
    monkeypatch.setattr(run_lock, "LEASE_SECONDS", 1.0)
    watchdog = Watchdog([server.access()], "lost")
    assert watchdog.answer()["held"]
    api = server.client()
    api.merge_patch(LEASES + "/multicluster-run-lost", {"spec": {"holderIdentity": "thief"}}, "tests")
    key = run_lock.key_of("lost", [server.access()])
    until(lambda: "another run has it now: 'thief' since" in (run_lock.ask(key) or {}).get("lost", ""))
    watchdog.end()
    assert api.get(LEASES + "/multicluster-run-lost")["spec"]["holderIdentity"] == "thief"
    api.delete(LEASES + "/multicluster-run-lost")


def test_a_lease_that_somebody_labels_is_not_lost(server, monkeypatch):
    """A controller of the cluster may write into every object; who holds the Lease is what counts."""
    monkeypatch.setattr(run_lock, "LEASE_SECONDS", 3.0)
    watchdog = Watchdog([server.access()], "labelled")
    assert watchdog.answer()["held"]
    api, path, key = (
        server.client(),
        LEASES + "/multicluster-run-labelled",
        run_lock.key_of("labelled", [server.access()]),
    )
    for number in range(3):
        renewed = api.merge_patch(path, {"metadata": {"labels": {"team": str(number)}}}, "tests")["spec"]["renewTime"]
        until(
            lambda renewed=renewed: (
                api.get(path)["spec"]["renewTime"] != renewed or (run_lock.ask(key) or {}).get("lost")
            )
        )
        assert not (run_lock.ask(key) or {}).get("lost")
    watchdog.end()


# --- a workflow with jobs that hold the Leases together ---------------------------------------------------------------


def lease_of(server, fabric):
    found = [
        one for one in server.client().list(LEASES).items if one["metadata"]["name"] == "multicluster-run-" + fabric
    ]
    return found[0] if found else None


def test_jobs_of_a_workflow_hold_its_lease_together_and_it_stays_between_two(server, monkeypatch):
    """A slice that ends takes nothing from the others; the job that gives back is the last."""
    monkeypatch.setattr(run_lock, "LEASE_SECONDS", 2.0)
    workflow = {"workflow": "https://awx.example.com 12", "between": 600.0}
    slices = [Watchdog([server.access()], "slices", **workflow) for dummy in range(3)]
    assert [one.answer()["leases"] for one in slices] == [["aws"]] * 3
    spec = lease_of(server, "slices")["spec"]
    assert spec["holderIdentity"] == "workflow https://awx.example.com 12" and spec["leaseDurationSeconds"] == 600
    slices[0].end()
    assert not (
        run_lock.ask(run_lock.key_of("slices", [server.access()], workflow["workflow"], slices[1].owner.pid))
        or {"lost": "gone"}
    )["lost"]
    for one in slices[1:]:
        one.end()
    renewed = lease_of(server, "slices")
    assert renewed["spec"]["holderIdentity"] == spec["holderIdentity"] and renewed["metadata"]["resourceVersion"]
    other = Watchdog([server.access()], "slices", lock_wait=5)  # longer than a Lease of its own kind would hold
    assert not other.answer()["held"] and "workflow https://awx.example.com 12" in other.answer()["who"]
    other.end()
    following = Watchdog([server.access()], "slices", **workflow)
    assert following.answer()["held"]
    following.end()
    last = Watchdog([server.access()], "slices", give_back=True, **workflow)
    assert last.answer()["held"]
    last.end()
    assert lease_of(server, "slices") is None
    free = Watchdog([server.access()], "slices")
    assert free.answer()["held"]
    free.end()


def test_the_lease_of_a_workflow_that_never_ended_runs_out(server, monkeypatch):
    monkeypatch.setattr(run_lock, "LEASE_SECONDS", 1.0)
    job = Watchdog([server.access()], "dropped", workflow="w 1", between=3.0)
    assert job.answer()["held"]
    job.end()
    early = Watchdog([server.access()], "dropped", lock_wait=0)
    assert not early.answer()["held"]
    early.end()
    late = Watchdog([server.access()], "dropped", workflow="w 2", between=3.0, lock_wait=60)
    assert late.answer()["held"] and lease_of(server, "dropped")["spec"]["holderIdentity"] == "workflow w 2"
    # one that lost its Lease after the bound does not get it back by its name
    back = Watchdog([server.access()], "dropped", workflow="w 1", between=3.0, lock_wait=0)
    assert not back.answer()["held"] and "workflow w 2" in back.answer()["who"]
    back.end()
    late.end()


def test_a_running_job_renews_the_lease_of_its_workflow(server, monkeypatch):
    monkeypatch.setattr(run_lock, "WORKFLOW_RENEWS", 0.3)
    job = Watchdog([server.access()], "renewed", workflow="w", between=600.0, give_back=True)
    assert job.answer()["held"]
    first = lease_of(server, "renewed")["spec"]["renewTime"]
    until(lambda: lease_of(server, "renewed")["spec"]["renewTime"] != first)
    job.end()
    assert lease_of(server, "renewed") is None


def test_a_job_of_a_workflow_by_ansible_playbook_leaves_the_lease_to_the_next(runs):
    first = runs.start("first", multicluster_workflow="w 12", multicluster_lock="controller")
    runs.wait_held("first")
    alongside = runs.start("alongside", multicluster_workflow="w 12")
    runs.wait_held("alongside")
    for name in ("first", "alongside"):
        runs.enough(name)
    assert first.wait(60) == 0 and alongside.wait(60) == 0, runs.log("alongside")
    assert runs.lease()[0]["spec"]["holderIdentity"] == "workflow w 12"
    other = runs.start("other", "elsewhere", multicluster_lock_wait=0)
    assert other.wait(60) == 2 and "workflow w 12" in runs.log("other") and "[lock_held]" in runs.log("other")
    last = runs.start("last", multicluster_workflow="w 12", run_lock_give_back=True)
    runs.wait_held("last")
    runs.enough("last")
    assert last.wait(60) == 0, runs.log("last")
    until(lambda: not runs.lease())
