# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running AWX: everything is loaded twice, then a job, the workflow in slices, a sliced job and the workflow with approval are launched.

The fabric that AWX's inventory names is really converged. ``tests/run awx`` lists what to give; see also the guide on AWX.
"""

from __future__ import annotations

import os
import pathlib
import time

import pytest
from client import OVER, Awx

#: credential: (its type, {field: the environment's variable with the file to read}, other fields)
CREDENTIALS = {
    "Multicluster clusters": ("Multicluster kubeconfig", {"kubeconfig": "MCN_AWX_KUBECONFIG"}, {}),
    "Multicluster nodes": (
        "Multicluster node access",
        {"ssh_key_data": "MCN_AWX_KEY", "known_hosts": "MCN_AWX_KNOWN_HOSTS"},
        {"username": "root"},
    ),
}
ORDER = ["plan", "converge", "publish", "news", "capabilities", "proof", "end"]


@pytest.fixture(scope="module")
def awx():
    return Awx(os.environ["MCN_AWX_URL"], os.environ["MCN_AWX_TOKEN"], float(os.environ.get("MCN_AWX_SECONDS") or 1800))


@pytest.fixture(scope="module")
def site(awx):
    """Variables of awx.load. Without SCM the repository of a project that is loaded already."""
    given = {"awx_load_organization": os.environ.get("MCN_AWX_ORGANIZATION") or "Default", "awx_load_slices": 2}
    for name in ("scm_url", "scm_branch", "image", "inventory_path"):
        if os.environ.get("MCN_AWX_" + name.upper()):
            given["awx_load_" + name] = os.environ["MCN_AWX_" + name.upper()]
    if "awx_load_scm_url" not in given:
        found = [row["scm_url"] for row in awx.rows("projects/", name="Multicluster") if row["name"] == "Multicluster"]
        assert found, "AWX has no project Multicluster yet: give its repository as SCM=..."
        given["awx_load_scm_url"] = found[0]
    return given


def make_credentials(awx, site):
    """Those that are missing, of the files that were given; people make them by hand otherwise."""
    there = {row["name"] for row in awx.rows("credentials/")}
    organization = awx.named("organizations/", site["awx_load_organization"])["id"]
    for name, (kind, files, fields) in CREDENTIALS.items():
        if name in there:
            continue
        missing = [variable for variable in files.values() if not os.environ.get(variable)]
        assert not missing, "AWX has no credential {0!r}: make it, see the guide on AWX, or give {1}".format(
            name, " ".join(variable.replace("MCN_AWX_", "") + "=FILE" for variable in missing)
        )
        inputs = dict(
            fields,
            **{field: pathlib.Path(os.environ[variable]).read_text("utf-8") for field, variable in files.items()},
        )
        body = {
            "name": name,
            "organization": organization,
            "credential_type": awx.named("credential_types/", kind)["id"],
            "inputs": inputs,
        }
        awx.call("credentials/", body)


def test_everything_is_loaded_and_a_second_time_nothing_changes(awx, site):
    awx.load(site)  # credential types, which the credentials need; templates without their credentials are named
    make_credentials(awx, site)
    code, shown = awx.load(site)
    assert code == 0, shown
    code, shown = awx.load(site)
    assert code == 0 and "changed=0" in shown and awx.token not in shown, shown
    assert awx.named("projects/", "Multicluster")["status"] == "successful"


def test_a_job(awx):
    kind, number = awx.launch("job_templates", "Multicluster / Validate")
    job = awx.wait(kind, number)
    assert kind == "jobs" and job["status"] == "successful", awx.said(number)[-3000:] or job["job_explanation"]
    events = [event["event"] for event in awx.events(number)]
    assert events[0] == "playbook_on_start" and events[-1] == "playbook_on_stats" and "runner_on_ok" in events


def test_the_workflow_in_slices_is_proven_and_its_slices_share_the_hosts(awx):
    kind, number = awx.launch("workflow_job_templates", "Multicluster / Everything in slices")
    workflow = awx.wait(kind, number)
    nodes = awx.nodes(number)
    ended = {name: (nodes[name]["summary_fields"].get("job") or {}).get("status") for name in ORDER}
    reds = {
        name: awx.said(nodes[name]["job"])[-1500:]
        for name, status in ended.items()
        if status in OVER[1:] and name not in ("converge", "news")
    }
    assert workflow["status"] == "successful" and set(ended.values()) == {"successful"}, (ended, reds)

    names = [row["name"] for row in awx.rows(f"inventories/{awx.named('inventories/', 'Multicluster')['id']}/hosts/")]
    visited = {}
    for name in ("converge", "news"):
        assert nodes[name]["summary_fields"]["job"]["type"] == "workflow_job", (
            "a job with slices is a workflow of its own"
        )
        for node in awx.nodes(nodes[name]["job"]).values():
            job = awx.call(f"jobs/{node['job']}/")
            allowed = sorted(names)[job["job_slice_number"] - 1 :: job["job_slice_count"]]
            hosts = [host for host in awx.hosts_of(node["job"]) if host != "localhost"]
            assert job["job_slice_count"] == 2 and set(hosts) <= set(allowed), (hosts, allowed)
            visited.setdefault(name, []).append(set(hosts))
    assert all(part for part in visited["converge"]) and not visited["converge"][0] & visited["converge"][1]
    plan = awx.call(f"jobs/{nodes['plan']['job']}/")["artifacts"]
    assert "__multicluster_workflow_plan" in plan and plan["multicluster_workflow"].endswith(f" {number}"), sorted(plan)


def test_a_sliced_job_that_nobody_gave_a_plan_changes_nothing(awx):
    kind, number = awx.launch("job_templates", "Multicluster / Slices / converge")
    assert kind == "workflow_jobs" and awx.wait(kind, number)["status"] == "failed"
    parts = [node["job"] for node in awx.nodes(number).values()]
    assert len(parts) == 2
    for part in parts:
        awx.wait("jobs", part)
        assert "slices.plan runs first" in awx.said(part), awx.said(part)[-3000:]
        assert not [
            event
            for event in awx.events(part)
            if (event["event_data"].get("task_action") or "").endswith("node_dataplane")
        ]


def test_a_change_that_is_denied_is_not_made(awx):
    kind, number = awx.launch("workflow_job_templates", "Multicluster / Change with approval")
    waiting, deadline = None, time.monotonic() + awx.patience
    while waiting is None:
        over = awx.call(f"workflow_jobs/{number}/")["status"] in OVER or time.monotonic() > deadline
        nodes = awx.nodes(number)
        found = nodes["approve"]["summary_fields"].get("job")
        waiting = found["id"] if found else None
        assert waiting or not over, {
            name: awx.said(nodes[name]["job"])[-2000:] for name in ("validate", "check") if nodes[name]["job"]
        }
        time.sleep(1)
    awx.call(f"workflow_approvals/{waiting}/deny/", {})
    assert awx.wait(kind, number)["status"] == "failed"
    nodes = awx.nodes(number)
    assert [nodes[name]["job"] for name in ("converge", "verify")] == [None, None]
    assert "changed=" in awx.said(nodes["check"]["job"])
