# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real runs over clusters and nodes that do not answer: everything has its turn, and the end names what failed. Needs no cluster."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

import pytest
import yaml

IMPORT = "ansible.builtin.import_playbook"
OUTCOME = {
    "ansible.builtin.include_role": {"name": "multicluster.network.capability", "tasks_from": "outcome"},
    "run_once": True,
}


def play(tmp_path, plays, nodes=None, limit="", fails=True, **variables):
    hosts = {
        "clusters": {
            "hosts": {
                name: {
                    "api_url": "https://127.0.0.1:1",
                    "token": "x",
                    "pod_cidrs": [f"10.{number}.0.0/16"],
                    "service_cidrs": [f"10.{number + 1}.0.0/16"],
                    "node_cidrs": [f"10.{number + 60}.0.0/24"],
                }
                for name, number in (("c1", 2), ("c2", 4))
            }
        },
        "nodes": {
            "hosts": {
                "n1": dict(nodes or {}, multicluster_cluster="c1"),
                "n2": {
                    "multicluster_cluster": "c2",
                    "ansible_connection": "ssh",
                    "ansible_host": "127.0.0.1",
                    "ansible_port": 1,
                },
            }
        },
    }
    own = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "multicluster_lock": "none",
    }
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": hosts, "vars": dict(own, **variables)}}))
    (tmp_path / "book.yml").write_text(
        yaml.safe_dump([dict({} if IMPORT in one else {"gather_facts": False}, **one) for one in plays])
    )
    environment = dict(
        os.environ,
        ANSIBLE_STDOUT_CALLBACK="multicluster.network.digest",
        ANSIBLE_NOCOLOR="1",
        ANSIBLE_ACTION_PLUGINS=str(pathlib.Path(__file__).parent / "action_plugins"),
        ANSIBLE_HOME=str(tmp_path / "home"),
    )
    done = subprocess.run(
        [
            "ansible-playbook",
            "-i",
            str(tmp_path / "hosts.yml"),
            str(tmp_path / "book.yml"),
            *(["--limit", limit] if limit else []),
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode != 0) is fails, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_a_node_that_is_not_reached_is_named_at_the_end(tmp_path):
    lines = play(
        tmp_path,
        [
            {
                "hosts": "nodes",
                "tasks": [
                    {"ansible.builtin.ping": {}},
                    {"run_results": {"keep": {"run.mesh_plan": {"failures": []}}}},
                ],
            },
            {"hosts": "all", "tasks": [dict(OUTCOME, vars={"capability_asked": ["mesh"]})]},
        ],
    )
    assert "  c2       failed: node n2" in lines and "  c1       ok" in lines


BOOKS = pathlib.Path(__file__).parents[2] / "playbooks"
#: The plays that do something on every node, where all nodes may be lost.
ON_NODES = {
    "plays/mesh.yml": ["Converge the nodes", "Converge the nodes that have new peers"],
    "plays/verify.yml": ["Verify the mesh on every node"],
    "plays/announce.yml": ["Announce addresses of Services"],
    "plays/mesh_away.yml": ["Remove peers, routes, devices, files and the boot unit"],
    "semaphore/release.yml": ["Release the nodes, with devices, keys and routes in place"],
}


def test_a_run_that_lost_all_its_nodes_goes_on_and_reports_it(tmp_path):
    """Ansible ends a run, without a message of the collection, when a play has no host left."""
    plays = {(book, play["name"]): play for book in ON_NODES for play in yaml.safe_load((BOOKS / book).read_text())}
    (pattern,) = {plays[book, name]["hosts"] for book, names in ON_NODES.items() for name in names}
    reached = {"ansible.builtin.ping": {}, "when": "multicluster_cluster is defined"}
    lines = play(
        tmp_path,
        [
            {"hosts": pattern, "tasks": [reached, {"run_results": {"keep": {"run.mesh_plan": {"failures": []}}}}]},
            {"hosts": "clusters:all", "tasks": [dict(OUTCOME, vars={"capability_asked": ["mesh"]})]},
        ],
        ansible_ssh_common_args="-o ConnectTimeout=5",
        nodes={"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1},
    )
    assert "  c1       failed: node n1" in lines and "  c2       failed: node n2" in lines, lines


def test_what_a_node_said_when_it_was_to_keep_its_change_is_reported_at_the_end(tmp_path):
    here = {"when": "inventory_hostname == 'n1'"}
    keep = {
        "ansible.builtin.fail": {"msg": "the change is kept, but /etc is read-only"},
        "ignore_errors": True,
    }
    result = {"run.node_dataplane.confirmed": {"failed": True, "msg": "the change is kept, but /etc is read-only"}}
    kept = {"run_results": {"keep": result, "of_host": True}}
    lines = play(
        tmp_path,
        [
            {
                "hosts": "n1:c1",
                "tasks": [
                    dict(keep, **here),
                    dict(kept, **here),
                    dict({"ansible.builtin.fail": {"msg": "see above"}}, **here),
                ],
            },
            {"hosts": "clusters:n1", "tasks": [dict(OUTCOME, vars={"capability_asked": ["mesh"]})]},
        ],
    )
    assert (
        "failed, goes on: n1: ansible.builtin.fail: the change is kept, but /etc is read-only" in lines
        and "  c1       failed: node n1" in lines
    ), lines


@pytest.mark.parametrize(
    "interpreter, reported",
    [
        (
            "/nowhere/python3",
            "Python does not start there (.*/nowhere/python3.*); install Python 3.9 or newer, or set ansible_python_interpreter",
        ),
        ("python-killed", "the module was ended before its answer (.*), as happens when memory runs out"),
        ("python-memory", "the module was ended before its answer (MemoryError), as happens when memory runs out"),
        ("python-ends", "the module ended without an answer, exit status 3: no such library"),
    ],
)
def test_a_node_with_a_python_that_gives_no_answer_is_reported_with_the_fix(tmp_path, interpreter, reported):
    """Ansible's own message is about JSON."""
    for name, text in (
        ("killed", "kill -9 $$"),
        ("memory", "echo MemoryError >&2; exit 1"),
        ("ends", "echo no such library >&2; exit 3"),
    ):
        (tmp_path / ("python-" + name)).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / ("python-" + name)).chmod(0o755)
    converge = {
        "multicluster.network.node_dataplane": {"fabric": "demo"},
        "when": "inventory_hostname == 'n1'",
    }
    lines = play(
        tmp_path,
        [
            {"hosts": "n1:c1", "tasks": [converge]},
            {"hosts": "clusters:n1", "tasks": [dict(OUTCOME, vars={"capability_asked": ["mesh"]})]},
        ],
        nodes={"ansible_python_interpreter": str(tmp_path / interpreter)},
    )
    line = next(line for line in lines if line.startswith("FAILED n1: "))
    assert re.search(": " + re.escape(reported).replace(r"\.\*", ".*"), line), line


def test_every_capability_has_its_turn_though_the_first_failed(tmp_path):
    names = ["service_mirror", "coredns_rewrite", "network_sets"]
    converge = {
        "name": "Converge",
        "ansible.builtin.include_role": {"name": "multicluster.network.capability"},
        "vars": {"capability_names": names},
    }
    lines = play(
        tmp_path,
        [
            {"hosts": "clusters", "serial": 1, "tasks": [converge]},
            {"hosts": "all", "tasks": [dict(OUTCOME, vars={"capability_asked": names})]},
        ],
        service_mirror_timeout=5,
        coredns_rewrite_timeout=5,
        network_sets_timeout=5,
    )
    header = next(line for line in lines if line.startswith("  CLUSTER"))
    assert header.split() == ["CLUSTER", "SERVICE_MIRROR", "COREDNS_REWRITE", "NETWORK_SETS"], lines
    for name in ("c1", "c2"):
        row = next(line for line in lines if line.startswith(f"  {name} "))
        assert row.count("failed") == 3, row
    reported = [line for line in lines if line.startswith("FAILED")]
    assert len(reported) == 7 and all(line.startswith("FAILED c1, c2: ") for line in reported), lines
    assert reported[-1].endswith(": 6 failed in c1, c2, see above") and lines[-2].endswith(
        "; clusters at fault: c1, c2"
    )


def applied(changed):
    """As site leaves it: the result of a capability that has just been carried out."""
    change = {"action": "create", "kind": "Service", "id": "c1/a/b"}
    result = {
        "changed": changed,
        "failures": [],
        "refused": [],
        "plan": {"create": int(changed), "changes": [change] if changed else []},
    }
    other = dict(result, changed=False, plan={"changes": []})
    done = {"run_results": {"keep": {"run.service_mirror": result, "run.coredns_rewrite": other}}}
    return [{"hosts": "clusters", "tasks": [done]}, {IMPORT: "multicluster.network.verify"}]


def test_what_was_written_is_read_again_and_what_wrote_nothing_is_not(tmp_path):
    """The clusters do not answer, so whoever reads reports it. An accepted write used to be its own proof."""
    more = {
        "multicluster_capabilities": ["service_mirror", "coredns_rewrite"],
        "service_mirror_timeout": 5,
        "coredns_rewrite_timeout": 5,
    }
    lines = play(tmp_path, applied(True), limit="clusters", **more)
    assert any("broken inside --limit clusters" in line for line in lines), lines
    read = [line for line in lines if "service_mirror: cluster c1" in line or "coredns_rewrite: cluster c1" in line]
    assert read and not any("coredns_rewrite: cluster" in line for line in read), lines
    lines = play(tmp_path, applied(False), limit="clusters", fails=False, **more)
    assert "  all green inside --limit clusters" in lines and not any("cluster c1" in line for line in lines), lines
    assert "  scope: --limit clusters: 0 of 2 nodes judged; not asked (outside --limit): nodes n1, n2" in lines
