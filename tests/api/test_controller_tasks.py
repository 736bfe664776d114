# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks that ansible-playbook runs itself give what the module's own process gives, to the letter; and which tasks these are."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
import yaml

SERVICE_MIRROR = "multicluster.network.service_mirror"
SELECTOR = "mirror.semaphore.uw.io/mirror-service"
#: Something only a process of its own can have, which is how a test asks for one.
OWN_PROCESS = {"environment": {"MCN_TEST": "a process of its own"}}
TOKEN = "secret-token-in-a-kubeconfig"


@pytest.fixture
def source(server):
    """A namespace with two Services to share, one of them with an address that nobody may name; and one for mirrors."""
    names = [f"tasks-{kind}-{time.time_ns()}" for kind in ("shop", "mirrors")]
    client = server.client()
    for name in names:
        client.apply(
            "/api/v1/namespaces/" + name, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "test"
        )
    ports = [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}]
    base = f"/api/v1/namespaces/{names[0]}/"
    for name, ip in (("web", "10.2.0.1"), ("bad", "10.9.0.1")):
        meta = {"name": name, "namespace": names[0], "labels": {SELECTOR: names[0]}}
        client.apply(
            base + "services/" + name,
            {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": ports}},
            "test",
        )
        subsets = [{"addresses": [{"ip": ip}], "ports": [{"name": "http", "protocol": "TCP", "port": 8080}]}]
        client.apply(
            base + "endpoints/" + name,
            {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": subsets},
            "test",
        )
    yield names
    for name in names:  # the server is everybody's, and others look at all mirrors
        for plural in ("services", "endpoints"):
            path = f"/api/v1/namespaces/{name}/{plural}"
            for obj in client.list(path).items:
                client.delete(path + "/" + obj["metadata"]["name"])


def options(server, names, **more):
    """Options of the module: one API server plays both clusters."""
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
    }
    clusters = [server.access("aws"), server.access("gcp")]
    if more.pop("broken", False):
        clusters[0] = {"name": "aws", "kubeconfig": kubeconfig}
    ranges = {"aws": {"pod_cidrs": ["10.2.0.0/16"]}, "gcp": {"pod_cidrs": ["10.4.0.0/16"]}}
    given = {
        "fabric": "tasks",
        "clusters": clusters,
        "definition": {"clusters": ranges},
        "sources": ["aws"],
        "destinations": ["gcp"],
        "mirror_as": "endpoints",
        "mirror_namespace": names[1],
        "mirror_selector": SELECTOR + "=" + names[0],
    }
    return dict(given, **more)


def run(folder, tasks, *arguments, defaults=None, **hosts):
    """(output, the results of tasks that are registered) of a play on one host; ``hosts``: Python interpreters of others."""
    answer = folder / "answer.json"
    names = [task["register"] for task in tasks if "register" in task]
    content = "{{ {" + ", ".join(f"'{name}': {name}" for name in names) + "} | to_json }}"
    save = {
        "ansible.builtin.copy": {"content": content, "dest": str(answer), "mode": "0600"},
        "check_mode": False,
        "diff": False,
        "no_log": True,
    }
    save["vars"] = {"ansible_python_interpreter": sys.executable}
    play = {"hosts": "controller", "gather_facts": False, "tasks": [*tasks, save], "module_defaults": defaults or {}}
    (folder / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    hosts.setdefault("controller", sys.executable)
    inventory = {
        name: {"ansible_connection": "local", "ansible_python_interpreter": python} for name, python in hosts.items()
    }
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": inventory}}))
    words = ["ansible-playbook", "-i", str(folder / "hosts.yml"), str(folder / "play.yml"), *arguments]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env=dict(os.environ, ANSIBLE_NOCOLOR="1"), timeout=300
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return done.stdout + done.stderr, json.loads(answer.read_text())


def twice(name, given, **more):
    """The task, once here and once in a process of its own."""
    task = dict({SERVICE_MIRROR: given}, ignore_errors=True, **more)
    return [dict(task, register=name + "_here"), dict(task, register=name + "_own", **OWN_PROCESS)]


def shown(result):
    """{field: its text} of a result, without what differs from run to run."""
    return {
        key: json.dumps(value, sort_keys=True)
        for key, value in result.items()
        if key not in ("exception", "stats", "invocation")
    }


def test_the_same_results(server, source, tmp_path):
    """Plans, diffs, refusals, warnings, failures, wrong options: equal but for the time they took; no secret in either."""
    cases = {
        "plan": options(server, source),
        "strict": options(server, source, fail_on_refused=True),
        "broken": options(server, source, broken=True),
        "shown": options(server, source, broken=True, fail_on_failures=False),
        "unsupported": options(server, source, no_such_option=1),
        "choice": options(server, source, mirror_as="pigeons"),
        "typed": options(server, source, timeout="soon"),
        "missing": {key: value for key, value in options(server, source).items() if key != "definition"},
        "inventory": dict(options(server, source), definition={"clusters": {"aws": {"pod_cidrs": ["nowhere"]}}}),
        "text": options(server, source, timeout="60", create_namespace="yes", sources="aws"),
    }
    tasks = [task for name, given in cases.items() for task in twice(name, given)]
    output, answers = run(tmp_path, tasks, "--check", "--diff", "-vvv")
    for name in cases:
        here, own = answers[name + "_here"], answers[name + "_own"]
        assert shown(here) == shown(own), name
    assert answers["plan_here"]["plan"]["create"] == 4 and answers["plan_here"]["diff"]
    assert "10.9.0.1" in str(answers["plan_here"]["warnings"]) and "outside_grant" in str(
        answers["plan_here"]["refused"]
    )
    assert answers["text_here"]["plan"] == answers["plan_here"]["plan"]
    failed = {name for name in cases if answers[name + "_here"].get("failed")}
    assert failed == {"strict", "broken", "unsupported", "choice", "typed", "missing", "inventory"}
    assert "no_such_option" in answers["unsupported_here"]["msg"] and "pigeons" in answers["choice_here"]["msg"]
    assert output.count("AnsiballZ_service_mirror.py") and TOKEN not in output
    for text in (TOKEN, server.access()["token"]):
        assert text not in json.dumps(answers)


def test_a_real_run_and_the_second(server, source, tmp_path):
    """What the one wrote, the other finds as it should be; the group's defaults hold for both."""
    given = options(server, source)
    defaults = {"group/multicluster.network.kube": {name: given.pop(name) for name in ("fabric", "clusters")}}
    tasks = [
        dict({SERVICE_MIRROR: given}, register="first"),
        dict({SERVICE_MIRROR: given}, register="second", **OWN_PROCESS),
    ]
    output, answers = run(tmp_path, tasks, "-vvv", defaults=defaults)
    assert answers["first"]["changed"] and answers["first"]["plan"]["create"] == 4
    assert not answers["second"]["changed"] and answers["second"]["plan"]["unchanged"] == 4
    assert "diff" not in answers["first"] and server.access()["token"] not in output


def test_which_tasks_get_no_process(server, source, tmp_path):
    """Only where the module's process would be this user's, on this machine, in this very Python."""
    other = tmp_path / "python"  # the same program under a name of elsewhere, which may have other libraries
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    alongside = str(pathlib.Path(sys.executable).with_name("python3"))
    here = {
        "here": {},
        "other name": {"vars": {"ansible_python_interpreter": alongside}},
        "delegated": {"delegate_to": "same"},
        "delegated as in roles": {"delegate_to": "localhost", "run_once": True},
    }
    own = {
        "elsewhere": {"vars": {"ansible_python_interpreter": str(other)}},
        "to be found": {"vars": {"ansible_python_interpreter": "auto_silent"}, "ignore_errors": True},
        "delegated elsewhere": {"delegate_to": "different"},
        "async": {"async": 60, "poll": 1, "check_mode": False},
        "environment": OWN_PROCESS,
        "become": {"become": True},
    }
    given = options(server, source)
    ways = dict(here, **own)
    tasks = [
        dict({"name": way, SERVICE_MIRROR: given, "register": "way_" + way.replace(" ", "_")}, **more)
        for way, more in ways.items()
    ]
    output, answers = run(
        tmp_path, tasks, "--check", "-vvvv", same="{{ ansible_playbook_python }}", different=str(other)
    )
    parts = {part.split("]")[0]: part for part in output.split("TASK [")}
    for way in ways:
        ran = "AnsiballZ_service_mirror.py" in parts[way] or "async_wrapper" in parts[way]
        assert ran == (way in own), parts[way][-3000:]
        plan = answers["way_" + way.replace(" ", "_")].get("plan") or {}
        assert way == "to be found" or plan["create"] + plan["unchanged"] == 4


def test_names_and_environment_of_kubernetes_core(server, tmp_path, monkeypatch):
    """The same in both ways: its names for our options, and its variables for the one cluster of which nothing else is said."""
    (tmp_path / "ca").write_text(server.access()["ca_data"])
    theirs = {"host": server.url, "api_key": server.access()["token"], "ssl_ca_cert": str(tmp_path / "ca")}
    for name, value in theirs.items():
        monkeypatch.setenv("K8S_AUTH_" + name.upper(), value)
    ways = {
        "names": [{"name": "aws", **theirs}],
        "environment": [{"name": "aws"}],
        "partly": [{"name": "aws", "host": "https://127.0.0.1:1"}],
        "none": [{"name": "aws", "kubeconfig": ""}],
        "several": [{"name": "aws"}, {"name": "gcp"}],
    }
    tasks = []
    for way, clusters in ways.items():
        given = {"fabric": "tasks", "clusters": clusters, "state": "absent"}
        for kind, more in (("here", {}), ("own", OWN_PROCESS)):
            task = {"multicluster.network.coredns_rewrite": given, "register": way + "_" + kind, "ignore_errors": True}
            tasks.append(dict(task, **more))
    output, answers = run(tmp_path, tasks, "--check", "-vvv")
    for way in ways:
        here, own = shown(answers[way + "_here"]), shown(answers[way + "_own"])
        assert here == own, way
        reasons = [failure["reason"] for failure in answers[way + "_here"].get("failures", [])]
        assert set(reasons) == (set() if way in ("names", "environment") else {"remote_access_incomplete"}), (
            way,
            reasons,
        )
    assert theirs["api_key"] not in output
