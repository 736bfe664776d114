# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A check of preflight that fails itself is a finding: every task that the playbook goes on after is made to fail, one after the other."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, preflight

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLLECTION = "multicluster.network."
HOSTS = ("aws-1", "aws-2", "gcp-1")


def tasks_of(found: t.Any) -> t.Iterator[dict[str, t.Any]]:
    for task in found or ():
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_of(task.get(part))


def role_tasks(role: str, file: str, seen: set[tuple[str, str]]) -> t.Iterator[dict[str, t.Any]]:
    """The tasks of a role's file, with those that it includes."""
    if (role, file) in seen:
        return
    seen.add((role, file))
    for task in tasks_of(yaml.safe_load((ROOT / "roles" / role / "tasks" / (file + ".yml")).read_text("utf-8"))):
        inner = next(
            (task[key] for key in ("ansible.builtin.include_tasks", "ansible.builtin.import_tasks") if key in task),
            None,
        )
        name = inner.get("file") if isinstance(inner, dict) else inner
        if name and "{" not in name:
            yield from role_tasks(role, name[: -len(".yml")], seen)
        included = next(
            (task[key] for key in ("ansible.builtin.include_role", "ansible.builtin.import_role") if key in task), None
        )
        if included:
            yield from role_tasks(included["name"][len(COLLECTION) :], included.get("tasks_from", "main"), seen)
        yield task


def checks() -> list[tuple[str, str]]:
    """(module, variable) of every task of ours that preflight runs before it judges."""
    found, seen = [], set()
    for play in yaml.safe_load((ROOT / "playbooks" / "preflight.yml").read_text("utf-8"))[:-1]:
        for task in tasks_of(play["tasks"]):
            included = task.get("ansible.builtin.include_role")
            rows = (
                role_tasks(included["name"][len(COLLECTION) :], included.get("tasks_from", "main"), seen)
                if included
                else [task]
            )
            for row in rows:
                module = next((key for key in row if key.startswith(COLLECTION)), None)
                if module and row[module].get("state") not in (
                    "confirmed",
                    "reverted",
                ):  # of a change, and check mode makes none
                    found.append((module[len(COLLECTION) :], row.get("register", "")))
    return sorted(set(found))


def test_preflight_runs_the_checks_that_this_test_makes_fail():
    assert {"mesh_plan", "node_info", "node_dataplane", "node_annotations"} <= {module for module, dummy in checks()}


@pytest.mark.parametrize("module, variable", checks())
@pytest.mark.parametrize("hosts", [HOSTS[:1], HOSTS], ids=["one", "all"])
def test_a_check_that_fails_is_an_error(module, variable, hosts):
    """What is registered is all that is left of a task after which a play goes on."""
    assert variable.startswith("__"), f"{module} registers nothing that is looked at"
    result = {"failed": True, "msg": "the option mesh_secret\n is no secret", "changed": False}
    hostvars = {
        host: {"multicluster_cluster": "aws", **({variable: result} if host in hosts else {})} for host in HOSTS
    }
    rows = preflight.find({"failed": collected.failed_checks(hostvars, HOSTS)})
    where = ["run"] if hosts == HOSTS else list(hosts)
    assert [(row["level"], row["where"], row["reason"]) for row in rows] == [
        ("error", place, "check_failed") for place in where
    ]
    assert rows[0]["message"] == "the option mesh_secret is no secret"


def test_what_did_not_fail_and_what_is_said_already_is_no_finding():
    hostvars = {
        "aws-1": {
            "__mesh_r_plan": {"failed": True, "msg": "x", "findings": [{"reason": "bad_type"}]},
            "__a": {"failed": False},
            "__b": "text",
            "other": result(),
        }
    }
    assert collected.failed_checks(hostvars, ["aws-1"]) == []


def result() -> dict[str, t.Any]:
    return {"failed": True, "msg": "a variable of the user"}
