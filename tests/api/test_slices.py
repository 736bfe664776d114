# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A workflow over slices as AWX cuts them: real ansible-playbook processes and API servers; a double replaces what runs on nodes."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
from api_server import ApiServer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "doubles" / "awx"))

from slices import effective_artifacts, sliced  # pylint: disable=wrong-import-position

NODES, LEASES = "/api/v1/nodes", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
DOMAIN = ".wireguard.semaphore.uw.io/"
#: In place of a node's Python: prints the keys that the node has, and notes the call and its number of peers.
NODE = """#!{python} -I
import json, pathlib, re, sys
sent = sys.stdin.read()
here = pathlib.Path(sys.argv[0])
with open(here.with_suffix(".calls"), "a") as log:
    log.write("x")
print(json.dumps(json.loads(here.with_suffix(".json").read_text())))
"""


def key(host, remote):
    return base64.b64encode(hashlib.sha256(f"{host} {remote}".encode()).digest()).decode()


class Fabric:
    """Two clusters with their nodes, and the jobs of a workflow over them."""

    def __init__(self, folder, servers, hosts):
        self.folder, self.servers, self.hosts = folder, servers, hosts
        clusters = {
            name: {
                "api_url": one.url,
                "token": one.access()["token"],
                "ca_data": one.ca,
                "pod_cidrs": [f"10.{2 + 2 * number}.0.0/16"],
                "node_cidrs": [f"10.66.{number}.0/24"],
                "wireguard_port": 51820 + number,
                "calico_ippools": "never",
            }
            for number, (name, one) in enumerate(sorted(servers.items()))
        }
        self.tree = {
            "all": {
                "vars": {
                    "multicluster_fabric": "slices",
                    "multicluster_fabric_clusters": clusters,
                    "ansible_connection": "local",
                    "ansible_python_interpreter": sys.executable,
                }
            },
            "clusters": {"hosts": {"aws": {}, "gcp": {}}},
        }
        for name in servers:
            self.tree[name + "_nodes"] = {"hosts": {}, "vars": {"multicluster_cluster": name}}
        for number, host in enumerate(hosts):
            self.add(host, number)

    def add(self, host, number):
        cluster, remote = host.split("-")[0], "gcp" if host.startswith("aws") else "aws"
        at = sorted(self.servers).index(cluster)
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": host},
            "spec": {"podCIDRs": [f"10.{2 + 2 * at}.{number}.0/24"], "podCIDR": f"10.{2 + 2 * at}.{number}.0/24"},
        }
        client = self.servers[cluster].client()
        client.create(NODES, node, "tests")
        status = {"status": {"addresses": [{"type": "InternalIP", "address": f"10.66.{at}.{10 + number}"}]}}
        client.merge_patch(f"{NODES}/{host}/status", status, "tests")
        program = self.folder / host
        program.write_text(NODE.format(python=sys.executable))
        program.chmod(0o755)
        said = {
            "changed": True,
            "public_keys": {remote: key(host, remote)},
            "plan": {},
            "refused": [],
            "warnings": [],
            "stats": {},
        }
        program.with_suffix(".json").write_text(json.dumps(said))
        self.tree[cluster + "_nodes"]["hosts"][host] = {"ansible_python_interpreter": str(program)}

    def remove(self):
        for cluster, server in self.servers.items():
            for host in self.tree[cluster + "_nodes"]["hosts"]:
                server.client().delete(f"{NODES}/{host}")

    def node_calls(self):
        """Hosts that were visited since the last question."""
        found = sorted(path.stem for path in self.folder.glob("*.calls"))
        for path in self.folder.glob("*.calls"):
            path.unlink()
        return found

    def published(self):
        found = {}
        for server in self.servers.values():
            for node in server.client().list(NODES).items:
                given = node["metadata"].get("annotations") or {}
                found.update(
                    {
                        node["metadata"]["name"]: {
                            name.split(".")[0]: value
                            for name, value in given.items()
                            if name.endswith(DOMAIN + "pubKey")
                        }
                    }
                )
        return {host: keys for host, keys in found.items() if keys}

    def leases(self):
        return [
            one["spec"]
            for server in self.servers.values()
            for one in server.client().list(LEASES).items
            if one["metadata"]["name"] == "multicluster-run-slices"
        ]

    def wait_free(self):
        """The process that keeps the lock gives it back when it has seen its run end."""
        deadline = time.monotonic() + 60
        while self.leases():
            assert time.monotonic() < deadline, self.leases()
            time.sleep(0.1)

    def start(self, book, tree, name, variables):
        folder = self.folder / name
        folder.mkdir()
        (folder / "hosts.json").write_text(json.dumps(tree))
        (folder / "vars.json").write_text(
            json.dumps(dict(variables, multicluster_lock="fabric", multicluster_workflow_file=str(folder / "output")))
        )
        environment = dict(
            os.environ,
            ANSIBLE_HOME=str(self.folder / "ansible"),
            ANSIBLE_NOCOLOR="1",
            AWX_HOST="https://awx.example.com",
        )
        command = [
            "ansible-playbook",
            "-i",
            str(folder / "hosts.json"),
            "multicluster.network." + book,
            "-e",
            f"@{folder / 'vars.json'}",
        ]
        with (folder / "log").open("w", encoding="utf-8") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def end(self, process, name, good=True):
        """The job's output."""
        code = process.wait(300)
        shown = (self.folder / name / "log").read_text()
        assert (code == 0) == good, shown
        output = self.folder / name / "output"
        return json.loads(output.read_text()) if output.exists() else {}

    def job(self, book, name, variables, good=True):
        return self.end(self.start(book, self.tree, name, variables), name, good)

    def in_slices(self, name, variables, count=2):
        """The sliced job, its slices side by side."""
        trees = [sliced(self.tree, number, count) for number in range(1, count + 1)]
        running = [
            self.start("slices.converge", tree, f"{name}{number}", variables) for number, tree in enumerate(trees)
        ]
        return effective_artifacts(variables, *[self.end(one, f"{name}{number}") for number, one in enumerate(running)])


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    one = ApiServer(tmp_path_factory.mktemp("apiserver-gcp"))
    try:
        one.start()
        yield one
    finally:
        one.stop()


@pytest.fixture
def fabric(tmp_path, server, other):
    made = Fabric(tmp_path, {"aws": server, "gcp": other}, ["aws-1", "aws-2", "aws-3", "gcp-4", "gcp-5"])
    yield made
    made.remove()
    for one in (server, other):
        if any(lease["metadata"]["name"] == "multicluster-run-slices" for lease in one.client().list(LEASES).items):
            one.client().delete(
                LEASES + "/multicluster-run-slices"
            )  # of a test that failed: the next one would wait for it


@pytest.mark.takes_long
def test_slices_together_build_what_one_run_does_and_hold_one_lock(fabric):
    hosts = fabric.hosts
    first = fabric.job("slices.plan", "plan", {"awx_workflow_job_id": 12})
    assert {spec["holderIdentity"] for spec in fabric.leases()} == {"workflow https://awx.example.com 12"} and len(
        fabric.leases()
    ) == 2
    assert fabric.node_calls() == [] and fabric.published() == {}
    reported = fabric.in_slices("converge", first)
    assert (
        fabric.node_calls() == hosts and fabric.published() == {}
    )  # what one slice announced is no change of another one's plan
    marks = {name: server.mark() for name, server in fabric.servers.items()}
    news = effective_artifacts(reported, fabric.job("slices.publish", "publish", reported))
    assert fabric.published() == {
        host: {"gcp" if host[0] == "a" else "aws": key(host, "gcp" if host[0] == "a" else "aws")} for host in hosts
    }
    assert fabric.node_calls() == [] and news["__multicluster_workflow_news"] == ["aws", "gcp"]
    for name, server in fabric.servers.items():
        patched = [path for verb, path, status in server.writes(marks[name]) if path.startswith(NODES)]
        assert sorted(patched) == [f"{NODES}/{host}" for host in hosts if host.startswith(name)]  # each once
    after = fabric.in_slices("news", news)
    assert fabric.node_calls() == hosts and len(fabric.leases()) == 2
    fabric.job("slices.end", "end", dict(after, __multicluster_workflow_proven=True))
    fabric.wait_free()

    # unchanged: every node is called once, nothing is published, the second round calls nobody
    first = fabric.job("slices.plan", "plan-2", {"awx_workflow_job_id": 13})
    reported = fabric.in_slices("converge-2", first)
    assert fabric.node_calls() == hosts
    marks = {name: server.mark() for name, server in fabric.servers.items()}
    news = effective_artifacts(reported, fabric.job("slices.publish", "publish-2", reported))
    assert news["__multicluster_workflow_news"] == []
    assert not [
        row for name, server in fabric.servers.items() for row in server.writes(marks[name]) if row[1].startswith(NODES)
    ]
    fabric.in_slices("news-2", news)
    assert fabric.node_calls() == []
    # a new node: those of the other cluster have news, the others of its own have none
    fabric.add("gcp-6", 6)
    first = fabric.job("slices.plan", "plan-3", {"awx_workflow_job_id": 13})
    reported = fabric.in_slices("converge-3", first)
    assert fabric.node_calls() == [*hosts, "gcp-6"]
    news = effective_artifacts(reported, fabric.job("slices.publish", "publish-3", reported))
    assert news["__multicluster_workflow_news"] == ["aws"] and fabric.published()["gcp-6"] == {
        "aws": key("gcp-6", "aws")
    }
    after = fabric.in_slices("news-3", news, 3)
    assert fabric.node_calls() == ["aws-1", "aws-2", "aws-3"]
    fabric.job(
        "slices.end", "end-3", after, good=False
    )  # nothing was proven: red, and the lock is given back all the same
    fabric.wait_free()


def test_a_slice_that_plans_something_else_calls_nobody_and_keeps_nobody(fabric):
    first = fabric.job("slices.plan", "plan", {"awx_workflow_job_id": 14})
    api = fabric.servers["gcp"].client()
    moved = {"status": {"addresses": [{"type": "InternalIP", "address": "10.66.1.99"}]}}
    api.merge_patch(NODES + "/gcp-5/status", moved, "tests")
    fabric.end(fabric.start("slices.converge", sliced(fabric.tree, 1, 2), "late", first), "late", good=False)
    shown = " ".join((fabric.folder / "late" / "log").read_text().split())
    assert fabric.node_calls() == [] and "plan_differs" in shown and "what differs: node gcp/gcp-5 " in shown, shown
    fabric.job("slices.end", "end", first, good=False)
    fabric.wait_free()
