# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The workflow by ansible-runner, as far as no ansible-runner is needed: which nodes, what is passed on, what is refused."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._values import packed
from ansible_collections.multicluster.network.plugins.plugin_utils import job_output

REPO = pathlib.Path(__file__).resolve().parents[3]
#: Through the collection's tree, as it is installed: it finds the collection alongside itself.
PROGRAM = (
    next(
        pathlib.Path(path) / "ansible_collections/multicluster/network"
        for path in sys.path
        if (pathlib.Path(path) / "ansible_collections/multicluster/network").is_dir()
    )
    / "extensions/runner/slices.py"
)
SPEC = importlib.util.spec_from_file_location("runner_slices", PROGRAM)
runner_slices = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(runner_slices)


def made(folder, limit="", count=2, hosts=("exec-1", "exec-2")):
    data = folder / "fabric"
    for name in ("inventory", "env", "artifacts/old"):
        (data / name).mkdir(parents=True)
    (data / "env" / "cmdline").write_text("--diff\n")
    arguments = type(
        "Arguments",
        (),
        dict(folder=str(data), hosts=hosts, slices=count, limit=limit, worker="w", rsh="ssh -q", workflow="night 1/2"),
    )
    return runner_slices.Workflow(arguments, folder / "copy")


def test_the_names_of_what_is_passed_on_are_the_playbooks(tmp_path):
    assert (runner_slices.PLAN, runner_slices.NEWS) == (job_output.PLAN, job_output.NEWS)
    names = [
        job_output.PLAN,
        job_output.NEWS,
        job_output.PROVEN,
        job_output.reported_name(["a"]),
        "multicluster_workflow",
    ]
    assert all(runner_slices.JOB_OUTPUT.match(name) for name in names)
    # statistics of a run that are not of the workflow are no variables of the next one
    given = dict(dict.fromkeys(names, "x"), ansible_ssh_common_args="-o x", multicluster_workflow_file="/etc/x")
    event = {"event": "playbook_on_stats", "event_data": {"artifact_data": given}}
    (tmp_path / "2-b.json").write_text(json.dumps(event))
    (tmp_path / "1-a.json").write_text("no JSON")
    assert sorted(runner_slices._read_job_output(tmp_path)) == sorted(names)
    assert runner_slices._read_job_output(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    "limit, desired",
    [
        ("", ["a-1", "a-10", "a-2", "b-1"]),
        ("a-*", ["a-1", "a-10", "a-2"]),
        ("b-1,a-2", ["a-2", "b-1"]),
        ("c-*", []),
        ("A-1", []),
    ],
)
def test_the_nodes_are_those_of_the_plan_by_name(tmp_path, limit, desired):
    workflow = made(tmp_path, limit)
    workflow.job_output[job_output.PLAN] = packed.pack({"nodes": {"b-1": {}, "a-10": {}, "a-2": {}, "a-1": {}}})
    assert workflow._nodes() == desired


def test_a_plan_that_cannot_be_read_ends_it(tmp_path):
    workflow = made(tmp_path)
    workflow.job_output[job_output.PLAN] = "nonsense"
    with pytest.raises(SystemExit, match="cannot be read"):
        workflow._nodes()


def test_what_is_sent_has_the_variables_alongside_the_users_own_and_no_artifacts(tmp_path):
    workflow = made(tmp_path)
    workflow._extra_variables()
    copy = tmp_path / "copy"
    assert (copy / "env" / "cmdline").read_text() == "--diff -e @../job_output.json" and (copy / "project").is_dir()
    assert (
        json.loads((copy / "job_output.json").read_text()) == {"multicluster_workflow": "night 1/2"}
        and not (copy / "artifacts").exists()
    )
    assert workflow.ident == "night-1-2" and (tmp_path / "fabric" / "env" / "cmdline").read_text() == "--diff\n"


def test_its_jobs_are_those_of_the_workflow_of_awx():
    template = yaml.safe_load((REPO / "playbooks" / "files" / "awx" / "workflow_job_templates.yml").read_text())[1]
    books = {
        row["name"]: row["playbook"]
        for row in yaml.safe_load((REPO / "playbooks" / "files" / "awx" / "job_templates.yml").read_text())
    }
    order = [books[node["job_template"]] for node in template["nodes"]]
    asked = []

    class Noting(runner_slices.Workflow):
        def __init__(self):
            self.job_output = {}

        def say(self, text):
            pass

        def _nodes(self):
            return []

        slices = 1

        def once(self, stage, label):
            asked.append(stage)
            return runner_slices.Job(True, {}, "")

        def sliced(self, label):
            asked.append("converge")
            return True

    assert Noting().run() and [f"playbooks/slices/{stage}.yml" for stage in asked] == order


def test_what_a_killed_workflow_left_is_removed_and_what_one_at_work_has_is_not(tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    for pid in (gone.pid, os.getpid(), "x"):
        (tmp_path / f".workflow-{pid}-abc" / "env").mkdir(parents=True)
    runner_slices._forget_killed(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f".workflow-{os.getpid()}-abc"]


@pytest.mark.parametrize(
    "words, shown",
    [
        ([], "required"),
        (["fabric"], "required"),
        (["nowhere", "exec-1"], "no folder inventory"),
        (["fabric", "exec-1", "--slices", "-1"], "number from 1"),
        (["fabric", "exec-1", "--slice", "2x"], "invalid int"),
        (["fabric", "exec-1"], "ansible-runner is not in PATH"),
    ],
)
def test_what_is_wrong_is_said_before_anything_begins(tmp_path, words, shown):
    (tmp_path / "fabric" / "inventory").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PATH": "/nowhere"},
    )
    assert done.returncode == 2 and shown in done.stderr and "Traceback" not in done.stderr
