# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every example of the documentation runs as it is written: first in check mode, then for real."""

from __future__ import annotations

import os
import threading

import examples
import pytest
from place import Place

#: MCN_EXAMPLES names some of the modules, for whoever works on them.
MODULES = {
    name: tasks
    for name, tasks in examples.examples_of("modules").items()
    if name in (os.environ.get("MCN_EXAMPLES") or name).split(",")
}
FILTERS = examples.examples_of("filter")


@pytest.fixture(scope="module", name="place")
def place_fixture(tmp_path_factory):
    """The lab and the controller, with everything that contexts want on the API servers."""
    one, ended = Place(tmp_path_factory.mktemp("examples")), threading.Event()
    agent = threading.Thread(target=one.report_ready, args=(ended,), daemon=True)
    try:
        one.up()
        agent.start()
        for name in sorted(MODULES) + [examples.FILTERS]:
            for cluster, objects in ((examples.context_of(name) or {}).get("objects") or {}).items():
                one.put(cluster, objects)
        yield one
    finally:
        ended.set()
        one.close()


def run_all(place, check):
    """(play, task) to its results, and what ansible-playbook printed. Clusters and nodes side by side."""
    printed, results = [], {}

    def play(side, plays):
        rows, text = place.run(
            ("check-" if check else "real-") + side, plays, "--diff", *(["--check"] if check else [])
        )
        printed.append(text)
        for row in rows:
            results.setdefault((row["play"], row["task"]), []).append(row)

    threads = [
        threading.Thread(target=play, args=pair)
        for pair in zip(("controller", "nodes"), examples.playbooks(MODULES, check))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results, "\n".join(printed)


@pytest.fixture(scope="module")
def runs(place):
    """Both runs, in this order."""
    return {"check": run_all(place, True), "real": run_all(place, False)}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_there_is_something_to_run(name):
    assert MODULES[name], f"the module {name} has no examples"
    assert examples.context_of(name) is not None, (
        f"tests/examples/contexts/{name}.yml has to say what the examples of {name} take for granted"
    )
    given, names = examples.context_of(name), [task["name"] for task in MODULES[name]]
    assert set(given.get("prove", {})) | set(given.get("changes", [])) | set(given.get("refused", {})) <= set(names), (
        names
    )


@pytest.mark.parametrize("run", ("check", "real"))
@pytest.mark.parametrize("name", sorted(MODULES))
def test_module(runs, name, run):
    results, printed = runs[run]
    context = examples.context_of(name) or {}
    wrong = [
        "{task}: {status} {result}".format(**row)
        for (play, unused), rows in results.items()
        if play == name
        for row in rows
        if row["status"] in ("failed", "unreachable")
    ]
    assert not wrong, "\n".join(wrong) + printed[-2000:]
    for task in MODULES[name]:
        if "ansible.builtin.meta" in task:
            continue
        rows = results.get((name, task["name"]))
        assert rows, f"{task['name']}: did not run\n{printed[-4000:]}"
        for row in rows:
            if row["status"] == "skipped":
                assert run == "check" or "when" not in task, task["name"]
                continue
            result = row["result"]
            allowed = set(context.get("refused", {}).get(task["name"], []))
            assert {entry["reason"] for entry in result.get("refused") or []} <= allowed, result["refused"]
            assert not result.get("failures"), result["failures"]
            assert run == "check" or task["name"] not in context.get("changes", []) or result["changed"], (
                f"{task['name']}: changed nothing"
            )


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_filter(runs, name):
    assert FILTERS[name], f"the filter {name} has no examples"
    for run, (results, printed) in runs.items():
        for task in FILTERS[name]:
            rows = results.get((examples.FILTERS, f"{name}: {task['name']}"))
            assert rows and all(row["status"] == "ok" for row in rows), (run, rows or printed[-3000:])


def test_inventory(place):
    """The files of the example, side by side as it has them."""
    files = examples.files_of(
        examples.documented(examples.REPOSITORY / "plugins" / "inventory" / "cluster_nodes.py")["EXAMPLES"]
    )
    assert len(files) == 2
    hosts = place.inventory_of(files)
    # the other cluster's node has addresses of a provider by now
    assert hosts["gcp_nodes"]["hosts"] == ["gcp-node-1"], hosts
    # what a cluster returns is marked as no template
    assert hosts["_meta"]["hostvars"]["gcp-node-1"]["multicluster_cluster"] in ("gcp", {"__ansible_unsafe": "gcp"})
