# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The results of a run are kept on the controller, for a host or for all, and read as if they were variables of hosts."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest
from ansible_collections.multicluster.network.plugins.action import run_guard
from ansible_collections.multicluster.network.plugins.module_utils._status import results
from ansible_collections.multicluster.network.plugins.plugin_utils.run_context import RunContext, RunVars, folder_of


@pytest.fixture
def context(tmp_path):
    return RunContext(tmp_path / "run")


def test_a_host_has_its_own_result_and_else_that_of_the_run(context):
    assert context.get("run.a", "h1") is None and context.names() == []
    context.keep("run.a", {"of": "run"})
    context.keep("run.a", {"of": "host"}, "h1")
    assert context.get("run.a", "h1") == {"of": "host"} and context.get("run.a", "h2") == {"of": "run"}
    context.keep("run.a", {"of": "later"})
    assert context.get("run.a") == {"of": "later"} and context.names() == ["run.a"]


@pytest.mark.parametrize("host", ["=once", "../../etc/passwd", "a/b", "[fe80::1]", "%3Donce"])
def test_no_name_of_a_host_leads_elsewhere(context, tmp_path, host):
    context.keep("run.a", {"of": "run"})
    context.keep("run.a", {"of": "host"}, host)
    assert context.get("run.a") == {"of": "run"} and context.get("run.a", host) == {"of": "host"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_a_run_sees_nothing_of_one_before_it_and_removes_it(tmp_path):
    """The reconciler's process lives for months, and numbers of its runs come again."""
    own = folder_of(tmp_path, os.getpid())
    RunContext(own / "f").keep("run.a", {"of": "this"})
    former = own.with_name(own.name.rpartition("-")[0] + "-1")  # the same number, begun at another time
    RunContext(former / "f").keep("run.a", {"of": "former"})
    done = subprocess.Popen(["true"])
    done.wait()
    RunContext(tmp_path / f"multicluster-{done.pid}-77" / "f").keep("run.a", {"of": "former"})
    assert folder_of(tmp_path, os.getppid()) != own and [path.name for path in tmp_path.iterdir()] == [own.name]
    assert RunContext(folder_of(tmp_path, os.getpid()) / "f").get("run.a") == {"of": "this"}


def test_a_cluster_leaves_only_where_it_is_known_how_the_others_were_written(context, monkeypatch):
    monkeypatch.setattr(run_guard, "context_of", lambda _action, _variables: context)
    guard = object.__new__(run_guard.ActionModule)
    assert "is not known" in guard._leave_others({}, {})
    context.keep(results.OUTCOME, {"failed": True, "msg": "a fault of its own"})
    assert "is not known" in guard._leave_others({}, {})
    context.keep(results.OUTCOME, {"ok": True})
    assert guard._leave_others({}, {}) == ""


def test_entries_are_added_for_each_host(context):
    context.add("run.broken", {"mcs": "a"}, "h1")
    context.add("run.broken", {"dns": "b"}, "h1")
    context.add("run.broken", {"dns": "c"}, "h2")
    assert context.get("run.broken", "h1") == {"mcs": "a", "dns": "b"} and context.get("run.broken") is None


def test_results_look_like_variables_and_ansible_is_asked_only_for_others(context):
    class Hosts(dict):
        asked = 0

        def __getitem__(self, host):
            Hosts.asked += 1
            return super().__getitem__(host)

    context.keep("run.a", {"of": "run"})
    seen = RunVars(Hosts({"h1": {"region": "east"}}), context)
    assert seen["h1"]["run.a"] == {"of": "run"} and "run.b" not in seen["h1"] and Hosts.asked == 0
    assert sorted(seen["h1"]) == ["region", "run.a"] and seen["h1"]["region"] == "east" and Hosts.asked == 1
    with pytest.raises(KeyError):
        seen["h1"]["run.b"]


def test_a_folder_is_only_for_its_user(context, tmp_path):
    context.keep("run.a", {}, "h1")
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "run", tmp_path / "run" / "run.a"))


PLAYS = [
    {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [
            {
                "name": "nothing yet",
                "run_results": {"show": "run.a", "path": "{{ folder }}/before-{{ inventory_hostname }}"},
            },
            {"name": "keep", "run_results": {"keep": {"run.a": {"of": "{{ inventory_hostname }}"}}, "of_host": True}},
            {
                "name": "lost",
                "multicluster.network.node_info": {"fabric": "x"},
                "when": "inventory_hostname == 'h2'",
                "ignore_unreachable": True,
            },
        ],
    },
    {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [
            {"name": "show", "run_results": {"show": "run.a", "path": "{{ folder }}/after-{{ inventory_hostname }}"}},
            {
                "name": "info",
                "run_results": {"show": "run.node_info", "path": "{{ folder }}/info-{{ inventory_hostname }}"},
            },
        ],
    },
]


def test_later_plays_have_what_earlier_ones_kept_and_the_next_run_has_nothing(tmp_path):
    lost = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    hosts = {"h1": {"ansible_connection": "local"}, "h2": lost}
    (tmp_path / "hosts.yml").write_text(
        json.dumps({"all": {"hosts": hosts, "vars": {"folder": str(tmp_path)}}}), "utf-8"
    )
    (tmp_path / "book.yml").write_text(json.dumps(PLAYS), "utf-8")
    plugins = str(pathlib.Path(__file__).resolve().parents[1] / "action_plugins")
    environment = dict(os.environ, ANSIBLE_HOME=str(tmp_path / "home"), ANSIBLE_ACTION_PLUGINS=plugins)
    for _run in range(2):
        command = ["ansible-playbook", "-i", str(tmp_path / "hosts.yml"), str(tmp_path / "book.yml")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        found = {
            name: json.loads((tmp_path / name).read_text("utf-8")) for name in ("before-h1", "after-h1", "after-h2")
        }
        assert found == {"before-h1": None, "after-h1": {"of": "h1"}, "after-h2": {"of": "h2"}}
        assert json.loads((tmp_path / "info-h2").read_text("utf-8"))["unreachable"] is True
        assert json.loads((tmp_path / "info-h1").read_text("utf-8")) is None
    assert list((tmp_path / "home" / "tmp").iterdir()) == []
