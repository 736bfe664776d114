# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A check of preflight that fails itself is a finding: every task that the playbook goes on after is made to fail, one after the other."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._status import collected, preflight, results
from ansible_collections.multicluster.network.plugins.plugin_utils import inventory

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLLECTION = "multicluster.network."
HOSTS = ("aws-1", "aws-2", "gcp-1")
#: They read what other tasks have kept.
PLUMBING = ("run_batch", "run_pods")
FAILED = {"failed": True, "msg": "the option mesh_secret\n is no secret", "changed": False}


def included(task: dict[str, t.Any], kind: str) -> tuple[str, dict[str, t.Any]]:
    """(name, the rest) of what a task includes or imports of a kind, ``tasks`` or ``role``; an empty name where it does not."""
    for key in ("include_" + kind, "import_" + kind):
        for full in (key, "ansible.builtin." + key):
            if full in task:
                found = task[full] if isinstance(task[full], dict) else {"file": task[full], "name": task[full]}
                return str(found["file" if kind == "tasks" else "name"]), found
    return "", {}


def followed(
    found: t.Any, folder: pathlib.Path, seen: set[pathlib.Path], ignored: bool = False
) -> t.Iterator[tuple[dict[str, t.Any], bool]]:
    """(task, whether the play goes on after it) of a list of tasks, with all those that it includes: files and roles, each once."""
    for task in found or ():
        goes_on = ignored or bool(task.get("ignore_errors"))
        yield task, goes_on
        for part in ("block", "rescue", "always"):
            yield from followed(task.get(part), folder, seen, goes_on or (part == "block" and "rescue" in task))
        file, rest = included(task, "tasks")
        role, more = included(task, "role")
        if role == COLLECTION + "{{ __capability_name }}":  # a plan of each capability
            for name, row in results.CAPABILITIES.items():
                inner = {
                    "include_role": dict(
                        more, name=COLLECTION + name, tasks_from="info" if row.applied != (row.compared,) else "main"
                    )
                }
                yield from followed([inner], folder, seen, goes_on)
            continue
        if role.startswith(COLLECTION):
            rest, file = more, f"{more.get('tasks_from', 'main').removesuffix('.yml')}.yml"
        assert role.startswith(COLLECTION) or not role, f"{role} is not followed"
        if file and "{" not in file:
            inner = (ROOT / "roles" / role[len(COLLECTION) :] / "tasks" if role else folder) / file
            goes_on = goes_on or bool((rest.get("apply") or {}).get("ignore_errors"))
            if inner not in seen:
                seen.add(inner)
                yield from followed(
                    yaml.safe_load(inner.read_text("utf-8")), inner.parent if role else folder, seen, goes_on
                )


def kept_as(module: str) -> str:
    """Name of the result that the run keeps."""
    return results.POOLS if module == "cluster_objects" else results.PREFIX + module


class Check(t.NamedTuple):
    """A task of this collection that preflight runs before it judges."""

    module: str
    variable: str  # the name of its result
    play: str  # the pattern of its hosts
    goes_on: bool


def checks() -> list[Check]:
    """Every task that preflight runs before it judges."""
    found, seen = set(), set()
    plays = yaml.safe_load((ROOT / "playbooks" / "preflight.yml").read_text("utf-8"))
    tasks = [(play["hosts"], task) for play in plays for task in play["tasks"]]
    assert included(tasks[-1][1], "role")[0] == COLLECTION + "preflight", "it judges last"
    for hosts, task in tasks[:-1]:
        for row, goes_on in followed([task], ROOT / "playbooks", seen):
            module = next((key for key in row if key.startswith(COLLECTION)), None)
            # confirmed, reverted: of a change, and check mode makes none
            if (
                module
                and module[len(COLLECTION) :] not in PLUMBING
                and row[module].get("state") not in ("confirmed", "reverted")
            ):
                found.add(Check(module[len(COLLECTION) :], kept_as(module[len(COLLECTION) :]), hosts, goes_on))
    return sorted(found)


CHECKS = checks()
OF_CLUSTERS = [one for one in CHECKS if "clusters:localhost" in one.play]
OF_NODES = [one for one in CHECKS if one not in OF_CLUSTERS]


def test_preflight_runs_the_checks_that_this_test_makes_fail():
    assert {"mesh_plan", "node_info", "node_dataplane", "node_annotations"} <= {one.module for one in OF_NODES}
    assert len(OF_CLUSTERS) == len(results.CAPABILITIES) >= 7, "one plan of each capability"
    assert {one.variable for one in OF_CLUSTERS} == set(collected.PLANS.values())


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.module)
def test_the_play_goes_on_after_a_check_that_fails(check):
    """Else other problems are not found in the same run."""
    assert check.goes_on, f"{check.module} ends preflight where it fails"


@pytest.mark.parametrize("check", OF_NODES, ids=lambda one: f"{one.module}-{one.variable}")
@pytest.mark.parametrize("hosts", [HOSTS[:1], HOSTS], ids=["one", "all"])
def test_a_check_that_fails_is_an_error(check, hosts):
    """What the run keeps is all that is left of a task after which a play goes on."""
    hostvars = {
        host: {"multicluster_cluster": "aws", **({check.variable: FAILED} if host in hosts else {})} for host in HOSTS
    }
    rows = judged(hostvars)
    where = ["run"] if hosts == HOSTS else list(hosts)
    assert [(row["level"], row["where"], row["reason"]) for row in rows] == [
        ("error", place, "check_failed") for place in where
    ]
    assert rows[0]["message"] == "the option mesh_secret is no secret"


@pytest.mark.parametrize("check", OF_CLUSTERS, ids=lambda one: one.module)
@pytest.mark.parametrize("registered_on", ["aws", "localhost"])
def test_a_plan_that_fails_is_an_error(check, registered_on):
    """On whichever host it was registered: the first of their hosts, or localhost where clusters are no hosts."""
    entries = {"aws": {"pod_cidrs": ["10.2.0.0/16"]}, "gcp": {"pod_cidrs": ["10.4.0.0/16"]}}
    hostvars = {host: {"multicluster_cluster": "aws"} for host in HOSTS}
    hostvars |= {"localhost": {inventory.FABRIC_CLUSTERS: entries}, **{name: {} for name in entries}}
    groups = {"clusters": list(entries)}
    if registered_on == "localhost":
        for host in HOSTS:
            hostvars[host][inventory.FABRIC_CLUSTERS] = entries
        hostvars, groups = {name: row for name, row in hostvars.items() if name not in entries}, {"all": list(HOSTS)}
    hostvars[registered_on][check.variable] = FAILED
    rows = judged(hostvars, groups)
    assert [(row["level"], row["reason"], row["message"]) for row in rows] == [
        ("error", "check_failed", "the option mesh_secret is no secret")
    ]


def judged(hostvars, groups=None):
    """What preflight finds, given the failures as its action plugin collects them."""
    hostvars, groups = inventory.with_clusters(hostvars, groups or {"clusters": []})
    failed = [
        *collected.failed_checks(hostvars, HOSTS),
        *collected.failed_plans(hostvars, groups.get("clusters", ())),
    ]
    return preflight.find({"failed": failed})


def test_what_did_not_fail_and_what_is_said_already_is_no_finding():
    hostvars = {
        "aws-1": {
            "run.mesh_plan": {"failed": True, "msg": "x", "findings": [{"reason": "bad_type"}]},
            "run.a": {"failed": False},
            "run.b": "text",
            "other": another(),
        }
    }
    assert collected.failed_checks(hostvars, ["aws-1"]) == []


def another() -> dict[str, t.Any]:
    return {"failed": True, "msg": "a variable of the user"}
