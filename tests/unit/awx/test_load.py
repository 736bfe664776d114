# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook that loads AWX, over a double of AWX's API in a process of its own."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.request

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.runs import awx_data

REPO = pathlib.Path(__file__).resolve().parents[3]
TOKEN = "token-of-the-tests"
CREDENTIALS = [{"name": "Multicluster clusters"}, {"name": "Multicluster nodes"}]


class Awx:
    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(REPO / "tests" / "doubles" / "awx" / "server.py"), str(folder / "port"), TOKEN]
        )
        deadline = time.monotonic() + 60
        while not (folder / "port").exists():
            assert time.monotonic() < deadline and self.process.poll() is None
            time.sleep(0.05)
        self.url = "http://127.0.0.1:" + (folder / "port").read_text()

    def ask(self, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(self.url + "/_double", data, timeout=30) as answer:
            return json.load(answer)

    def rows(self, kind):
        return {row["name"]: row for row in self.ask()["rows"].get(kind, {}).values()}

    def writes(self):
        return [row for row in self.ask()["log"] if row[0] != "GET"]

    def load(self, *arguments, without=()):
        extra = {
            "awx_load_url": self.url,
            "awx_load_token": TOKEN,
            "awx_load_allow_plain_http": True,
            "awx_load_scm_url": "https://git.example.com/x.git",
        }
        extra = {name: value for name, value in extra.items() if name not in without}
        done = subprocess.run(
            [
                "ansible-playbook",
                "-i",
                "localhost,",
                "multicluster.network.awx.load",
                "-e",
                json.dumps(extra),
                *arguments,
            ],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env=dict(os.environ, ANSIBLE_NOCOLOR="1"),
        )
        assert TOKEN not in done.stdout + done.stderr
        return done


@pytest.fixture
def awx(tmp_path):
    made = Awx(tmp_path)
    made.ask({"add": {"credentials": CREDENTIALS}})
    yield made
    made.process.terminate()
    made.process.wait(10)


def data(name):
    return yaml.safe_load((REPO / "playbooks" / "files" / "awx" / (name + ".yml")).read_text())


SITE = {
    "execution_environments": {"image": "registry.example.com/ee:1"},
    "projects": {"scm_url": "https://git.example.com/x.git", "scm_branch": "main"},
    "inventory_sources": {"source_path": "inventory"},
}
KINDS = (
    "credential_types",
    "execution_environments",
    "projects",
    "inventories",
    "inventory_sources",
    "job_templates",
    "workflow_job_templates",
    "schedules",
)


def run(awx, check=False, **more):
    """What the module does."""
    request = {
        "url": awx.url,
        "token": TOKEN,
        "organization": "Default",
        "allow_plain_http": True,
        "data": {kind: data(kind) for kind in KINDS},
        "site": SITE,
        "surveys": {
            path.stem: yaml.safe_load(path.read_text())
            for path in (REPO / "playbooks" / "files" / "awx" / "surveys").glob("*.yml")
        },
    }
    return awx_data.run(dict(request, **more), check)


def count(kinds):
    return sum(len(data(kind)) for kind in kinds)


def test_the_server_reports_where_its_api_is(awx):
    """AWX has it at /api/v2, the gateway of AAP 2.5 at /api/controller/v2, and what else it reports leads nowhere."""
    awx.ask({"gateway": True})
    first = run(awx)
    assert first["plan"]["create"] == count(KINDS) and not first["failures"]
    assert {path.split("/v2/")[0] for _method, path in awx.ask()["log"] if "/v2/" in path} == {"/api/controller"}
    assert not run(awx)["changed"]


@pytest.mark.parametrize(
    "answer, root",
    [
        (None, "/api/v2"),
        ([], "/api/v2"),
        ({"available_versions": {"v2": "/api/v2/"}}, "/api/v2"),
        ({"apis": {"controller": "https://evil.example/"}}, "/api/v2"),
        ({"available_versions": {"v2": "//evil.example/v2/"}}, "/api/v2"),
        ({"available_versions": {"v2": "/api/../v2/"}}, "/api/v2"),
        ({"available_versions": ["v2"]}, "/api/v2"),
        ({"available_versions": {"v2": "/api/controller/v2/"}}, "/api/controller/v2"),
    ],
)
def test_a_path_is_one_of_this_server(answer, root):
    class Api:
        def call(self, method, path, missing_ok):
            assert (method, path, missing_ok) == ("GET", "/api/", True)
            return answer

    assert awx_data._root(Api()) == root


def test_the_environment_of_awx_and_of_aap(awx, monkeypatch):
    monkeypatch.setenv("AAP_HOSTNAME", awx.url)
    monkeypatch.setenv("AAP_TOKEN", TOKEN)
    for empty in ("CONTROLLER_HOST", "CONTROLLER_OAUTH_TOKEN"):
        monkeypatch.delenv(empty, raising=False)
    done = awx.load("--check", without=("awx_load_url", "awx_load_token"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert awx.ask()["log"] and awx.writes() == []


def test_load_again_change_remove(awx):
    preview = run(awx, check=True)
    assert (
        preview["plan"]["create"] == count(KINDS)
        and "Multicluster / Everything" in preview["diff"]["after"]
        and awx.writes() == []
    )
    first = run(awx)
    assert first["plan"]["create"] == count(KINDS) and not first["failures"] and not first["refused"]
    loaded(awx)

    before = awx.writes()
    again = run(awx)
    assert not again["changed"] and again["plan"]["unchanged"] == count(KINDS) and awx.writes() == before
    lists = 0
    for kind in KINDS:
        lists += 1 + (len(awx.rows(kind)) - 1) // 3  # the double's pages have three rows
    assert again["stats"]["requests"] <= lists + 1 + 1 + 14 + 2 + 4 + 1, (
        "where the API is, one list a kind, and a GET for each survey"
    )

    awx.ask({"add": {"credentials": [{"name": "Multicluster provider"}]}})
    site = dict(SITE, projects=dict(SITE["projects"], scm_branch="stable"))
    moved = run(awx, site=site)
    assert sorted({row["kind"] for row in moved["plan"]["changes"]}) == ["credentials", "project"], moved["plan"]
    assert (
        awx.rows("projects")["Multicluster"]["scm_branch"] == "stable"
        and len(awx.rows("job_templates")["Multicluster / Everything"]["credentials"]) == 3
    )
    assert not run(awx, site=site)["changed"]

    gone = run(awx, state="absent")
    assert gone["plan"]["delete"] == count(KINDS) and not gone["failures"]
    assert not any(awx.rows(kind) for kind in KINDS) and len(awx.rows("credentials")) == 3
    assert not run(awx, state="absent")["changed"]


@pytest.mark.parametrize(
    "updates, wait, shown",
    [
        (["pending", "failed"], 60, "ended as 'failed'"),
        (["pending", "running"], 0.01, "has not ended ('running')"),
    ],
)
def test_templates_wait_for_their_project_and_say_so_where_it_has_no_playbooks(awx, monkeypatch, updates, wait, shown):
    """The double refuses such templates as AWX does, with a text that names no cause."""
    monkeypatch.setattr(awx_data, "_ASK_EVERY", 0.01)
    awx.ask({"updates": updates})
    found = run(awx, project_wait=wait)
    left_out = [row for row in found["refused"] if row["reason"] == "project_not_updated"]
    assert len(left_out) == len(data("job_templates")) and all(shown in row["message"] for row in left_out)
    assert wait < 1 or "awx_load_scm_url" in left_out[0]["message"]
    assert not awx.rows("job_templates") and "Playbook not found" not in json.dumps(found["failures"])
    awx.ask({"updates": [*updates, "successful"]})
    assert not run(awx)["failures"] and len(awx.rows("job_templates")) == len(data("job_templates"))


def loaded(awx):
    for kind in KINDS:
        assert sorted(awx.rows(kind)) == sorted(row["name"] for row in data(kind)), kind
    jobs = awx.rows("job_templates")
    state = awx.ask()
    assert (
        state["surveys"][str(jobs["Multicluster / Services"]["id"])]["spec"][0]["variable"]
        == "awx_service_mirror_namespace"
    )
    assert len(jobs["Multicluster / Mesh"]["credentials"]) == 2
    first, second = (awx.rows("workflow_job_templates")[row["name"]]["id"] for row in data("workflow_job_templates"))
    nodes = {
        row["identifier"]: row
        for row in state["rows"]["workflow_nodes"].values()
        if row["workflow_job_template"] == first
    }
    sliced = {
        row["identifier"]: row
        for row in state["rows"]["workflow_nodes"].values()
        if row["workflow_job_template"] == second
    }
    assert sliced["converge"]["unified_job_template"] == sliced["news"]["unified_job_template"] and sliced["proof"][
        "always_nodes"
    ] == [sliced["end"]["id"]]
    assert (
        jobs["Multicluster / Slices / converge"]["job_slice_count"] == 2
        and jobs["Multicluster / Mesh"]["job_slice_count"] == 1
    )
    assert nodes["check"]["success_nodes"] == [nodes["approve"]["id"]] and nodes["converge"]["always_nodes"] == [
        nodes["verify"]["id"]
    ]
    approval = state["rows"]["workflow_approval_templates"][str(nodes["approve"]["unified_job_template"])]
    assert approval["name"] == "Multicluster / Approve the change"
    injectors = awx.rows("credential_types")["Multicluster kubeconfig"]["injectors"]
    assert injectors == data("credential_types")[0]["injectors"], (
        "injectors are templates of AWX's, not of the collection"
    )


def test_a_workflow_that_somebody_rearranged_is_put_right(awx):
    run(awx)
    first = awx.rows("workflow_job_templates")["Multicluster / Change with approval"]["id"]
    nodes = {
        row["identifier"]: row["id"]
        for row in awx.ask()["rows"]["workflow_nodes"].values()
        if row["workflow_job_template"] == first
    }
    awx.ask({"edges": [[nodes["check"], "always_nodes", [nodes["converge"]]], [nodes["check"], "success_nodes", []]]})
    assert run(awx)["plan"]["changes"] and not run(awx)["changed"]
    loaded(awx)


def test_what_is_unowned_stays_and_what_is_missing_is_named(awx):
    awx.ask({"add": {"projects": [{"name": "Multicluster", "organization": 1, "scm_url": "theirs"}]}})
    assert [row["reason"] for row in run(awx)["refused"]] == ["not_ours"]
    assert [row["reason"] for row in run(awx, state="absent")["refused"]] == ["not_ours"]
    assert awx.rows("projects")["Multicluster"]["scm_url"] == "theirs"
    assert not run(awx, adopt=True)["refused"] and awx.rows("projects")["Multicluster"]["scm_url"].startswith(
        "https://"
    )
    awx.ask({"remove": {"credentials": ["Multicluster nodes"]}})
    refused = run(awx)["refused"]
    assert {row["reason"] for row in refused} == {"reference_missing"} and "Multicluster nodes" in refused[0]["message"]


@pytest.mark.parametrize(
    "more, words",
    [
        ({"organization": "Nobody"}, "no organization"),
        ({"allow_plain_http": False}, "clear text"),
        ({"token": "wrong"}, "credentials were not provided"),
        ({"data": {"teams": []}}, "teams"),
        ({"data": {"projects": [{}]}}, "has no name"),
        ({"surveys": {}}, "there is no survey"),
    ],
)
def test_what_cannot_be_loaded_is_reported(awx, more, words):
    with pytest.raises(ValueError, match=words):
        run(awx, **more)
    assert awx.writes() == []


def test_what_awx_refuses_is_a_failure_and_the_rest_goes_on(awx):
    broken = [dict(data("job_templates")[0], playbook=None, extra_vars="x", nonsense=1)]
    result = run(
        awx, data=dict({kind: data(kind) for kind in KINDS[:5]}, job_templates=broken + data("job_templates")[1:2])
    )
    assert [row["object"] for row in result["failures"]] == ["Multicluster / Validate"] and "nonsense" in result[
        "failures"
    ][0]["message"]
    assert list(awx.rows("job_templates")) == ["Multicluster / Verify"]


def test_the_playbook(awx):
    done = awx.load()
    assert done.returncode == 0 and "changed=1" in done.stdout, done.stdout + done.stderr
    loaded(awx)
