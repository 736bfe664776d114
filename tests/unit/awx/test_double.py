# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The double of AWX launches as AWX does: which jobs of a workflow run, on which hosts, and which variables go to which job."""

from __future__ import annotations

import json
import pathlib
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "doubles" / "awx"))

from jobs import JobFailed, tree_of  # pylint: disable=wrong-import-position
from server import Refused, State  # pylint: disable=wrong-import-position

TREE = {"clusters": {"hosts": {"aws": {}, "gcp": {}}}, "nodes": {"hosts": {"aws-1": {}, "aws-2": {}, "gcp-1": {}}}}


class Jobs:
    """In place of what runs a job: ends as was set, by name and slice, and notes with which variables it was started."""

    def __init__(self):
        self.ends, self.ran, self.broken, self.held = {}, [], "", threading.Event()
        self.held.set()

    def update_project(self, project):
        if self.broken:
            raise JobFailed(self.broken)
        return "0123"

    def update_inventory(self, source, credentials):
        return TREE

    def prepare(self, job):
        """There is no project to copy."""

    def run(self, job, tree, credentials, extra, started):
        self.held.wait(20)
        self.ran.append(
            (
                job["name"],
                job["job_slice_number"],
                {name: value for name, value in extra.items() if not name.startswith("awx_job")},
            )
        )
        good, artifacts, seconds = self.ends.get((job["name"], job["job_slice_number"]), (True, {}, 0))
        time.sleep(seconds)
        return {"status": "successful" if good else "failed", "artifacts": artifacts, "events": []}


@pytest.fixture
def awx():
    jobs = Jobs()
    state = State("t", jobs)
    state.launcher.pause = 0.01
    state.post(["projects"], {"name": "p", "organization": 1, "scm_url": "https://x", "scm_update_on_launch": True})
    state.add("inventories", {"name": "i", "organization": 1})
    project, inventory = (next(iter(state.rows[kind])) for kind in ("projects", "inventories"))
    state.add(
        "inventory_sources",
        {"name": "s", "inventory": inventory, "source": "scm", "source_project": project, "update_on_launch": True},
    )
    state.rows["projects"][project]["status"] = "successful"
    for name in "abcde":
        state.add(
            "job_templates",
            {
                "name": name,
                "project": project,
                "inventory": inventory,
                "playbook": "x.yml",
                "job_slice_count": 3 if name == "b" else 1,
            },
        )
    return state


def workflow(state, edges):
    """A workflow of {node: {edge: [nodes]}}; the node "ok?" is an approval."""
    made, numbers = state.add("workflow_job_templates", {"name": "w"})["id"], {}
    for name in edges:
        numbers[name] = state.post(["workflow_job_templates", made, "workflow_nodes"], {"identifier": name})["id"]
        if name == "ok?":
            state.post(["workflow_job_template_nodes", numbers[name], "create_approval_template"], {"name": name})
        else:
            template = next(row["id"] for row in state.rows["job_templates"].values() if row["name"] == name[0])
            state.patch(["workflow_job_template_nodes", numbers[name]], {"unified_job_template": template})
    for name, given in edges.items():
        for edge, others in given.items():
            for other in others:
                state.post(["workflow_job_template_nodes", numbers[name], edge + "_nodes"], {"id": numbers[other]})
    return made


def ended(state, kind, number, seconds=120):
    deadline = time.monotonic() + seconds
    while state.get([kind, number], {})["status"] not in ("successful", "failed", "error"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return state.get([kind, number], {})


def walked(state, edges, seconds=120):
    """The workflow's end, and {node: status of its job, None where it never ran}."""
    state.trees[next(iter(state.rows["inventory_sources"]))] = TREE
    with state.lock:
        number = state.post(["workflow_job_templates", workflow(state, edges), "launch"], {})["id"]
    row = ended(state, "workflow_jobs", number, seconds)
    nodes = state.get(["workflow_jobs", number, "workflow_nodes"], {"page_size": 100})["results"]
    nodes += state.get(["workflow_jobs", number, "workflow_nodes"], {"page_size": 100, "page": 2})["results"]
    return row["status"], {
        node["identifier"]: (node["summary_fields"].get("job") or {}).get("status") for node in nodes
    }


def test_a_node_runs_by_how_the_one_before_it_ended_and_a_failure_that_nobody_takes_is_the_workflows(awx):
    edges = {"a": {"success": ["c"], "failure": ["d"]}, "c": {}, "d": {"always": ["e"]}, "e": {}}
    assert walked(awx, edges) == ("successful", {"a": "successful", "c": "successful", "d": None, "e": None})
    awx.runner.ends["a", 0] = (False, {}, 0)
    assert walked(awx, edges) == ("successful", {"a": "failed", "c": None, "d": "successful", "e": "successful"})
    awx.runner.ends["e", 0] = (False, {}, 0)
    assert walked(awx, edges)[0] == "failed"


def test_slices_are_jobs_of_their_own_and_hand_on_in_the_order_in_which_they_ended(awx):
    awx.runner.ends.update(
        {
            ("a", 0): (True, {"plan": 1}, 0),
            ("b", 1): (True, {"last": "first", "one": 1}, 0.4),
            ("b", 2): (False, {"last": "second"}, 0.2),
            ("b", 3): (True, {"last": "third", "three": 3}, 0),
        }
    )
    status, nodes = walked(awx, {"a": {"success": ["b"]}, "b": {"always": ["c"]}, "c": {}})
    assert (status, nodes) == ("successful", {"a": "successful", "b": "failed", "c": "successful"})
    given = {(name, number): extra for name, number, extra in awx.runner.ran}
    assert given["c", 0].pop("awx_workflow_job_id") and given["c", 0] == {
        "plan": 1,
        "last": "first",
        "one": 1,
        "three": 3,
    }
    assert {given["b", number]["plan"] for number in (1, 2, 3)} == {1}
    assert (
        given["b", 1]["awx_workflow_job_id"] != given["a", 0]["awx_workflow_job_id"]
    )  # the sliced job's own, not the workflow's


def test_job_output_passes_an_approval_and_nothing_follows_one_that_was_denied(awx):
    awx.runner.ends["a", 0] = (True, {"plan": 1}, 0)
    edges = {"a": {"success": ["ok?"]}, "ok?": {"success": ["c"]}, "c": {}}
    for answer, desired in (("approve", "successful"), ("deny", "failed")):
        awx.runner.ran.clear()
        answered = threading.Thread(target=answer_it, args=(awx, answer))
        answered.start()
        assert walked(awx, edges) == (
            desired,
            {"a": "successful", "ok?": desired, "c": "successful" if desired == "successful" else None},
        )
        answered.join()
        assert [extra.get("plan") for name, unused, extra in awx.runner.ran if name == "c"] == (
            [1] if answer == "approve" else []
        )
    with pytest.raises(Refused):
        awx.post(["workflow_approvals", next(iter(awx.rows["workflow_approvals"])), "approve"], {})


def answer_it(state, action):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with state.lock:
            waiting = [
                number for number, row in state.rows.get("workflow_approvals", {}).items() if row["status"] == "pending"
            ]
            for number in waiting:
                state.post(["workflow_approvals", number, action], {})
        if waiting:
            return
        time.sleep(0.01)


def test_a_launch_returns_before_the_job_ran_and_a_project_that_cannot_be_updated_lets_none_begin(awx):
    template = next(row["id"] for row in awx.rows["job_templates"].values() if row["name"] == "a")
    awx.runner.held.clear()
    job = awx.post(["job_templates", template, "launch"], {})
    assert job["job"] == job["id"] and awx.get(["jobs", job["id"]], {})["status"] in ("pending", "waiting", "running")
    awx.runner.held.set()
    assert ended(awx, "jobs", job["id"])["status"] == "successful"
    awx.runner.broken = "no such branch"
    job = ended(awx, "jobs", awx.post(["job_templates", template, "launch"], {})["id"])
    assert (
        job["failed"]
        and "Previous Task Failed" in job["job_explanation"]
        and "no such branch" in job["job_explanation"]
    )
    assert len(awx.runner.ran) == 1


def test_a_job_has_no_more_slices_than_its_inventory_has_hosts(awx):
    template = next(row["id"] for row in awx.rows["job_templates"].values() if row["name"] == "b")
    assert "job" in awx.post(["job_templates", template, "launch"], {})  # an inventory that was never updated has none
    deadline = time.monotonic() + 120
    while not awx.trees:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    made = awx.post(["job_templates", template, "launch"], {})
    assert ended(awx, "workflow_jobs", made["workflow_job"])["status"] == "successful"
    nodes = awx.get(["workflow_jobs", made["id"], "workflow_nodes"], {"page_size": 100})["results"]
    assert sorted(awx.get(["jobs", node["job"]], {})["job_slice_number"] for node in nodes) == [1, 2, 3]


def test_the_inventory_of_a_project_keeps_variables_of_hosts_and_groups():
    listed = {
        "_meta": {"hostvars": {"a": {"x": 1}}},
        "all": {"children": ["g"], "vars": {"v": "{{ w }}"}},
        "g": {"hosts": ["a", "b"]},
    }
    assert json.loads(json.dumps(tree_of(listed))) == {
        "all": {"hosts": {}, "vars": {"v": "{{ w }}"}, "children": {"g": {}}},
        "g": {"hosts": {"a": {"x": 1}, "b": {}}, "vars": {}, "children": {}},
    }
