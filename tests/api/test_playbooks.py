# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules and the role as a user runs them: through ansible-playbook, against a real API server."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import subprocess
import sys

import pytest
import yaml

KEY = "gcp.wireguard.semaphore.uw.io/pubKey"


def play(tmp_path, tasks, *arguments, roles=()):
    """Run tasks on localhost; returns (return code, everything that was printed)."""
    book = tmp_path / "book.yml"
    book.write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks, "roles": list(roles)}])
    )
    environment = dict(
        os.environ, ANSIBLE_NOCOWS="1", ANSIBLE_LOCALHOST_WARNING="0", ANSIBLE_INVENTORY_UNPARSED_WARNING="0"
    )
    environment["ANSIBLE_HOME"] = str(tmp_path / "ansible")
    environment.setdefault("ANSIBLE_COLLECTIONS_PATH", environment.get("PYTHONPATH", ""))
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    command = [
        "ansible-playbook",
        "-i",
        "localhost,",
        "-c",
        "local",
        "-e",
        "ansible_python_interpreter=" + sys.executable,
    ]
    done = subprocess.run(
        command + [str(book)] + list(arguments),
        env=environment,
        cwd=str(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def kubeconfig(server):
    ca = base64.b64encode(server.ca.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server.url, "certificate-authority-data": ca}}],
        "users": [{"name": "u", "user": {"token": server.access()["token"]}}],
    }


def test_node_annotations_with_check_diff_and_secrets(server, kubeconfig, tmp_path):
    client = server.client()
    client.create(
        "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "play-1", "labels": {"a": "b"}}}, "k"
    )
    options = {
        "fabric": "t",
        "clusters": [{"name": "aws", "kubeconfig": kubeconfig}],
        "annotations": {"aws": {"play-1": {KEY: "value-1"}, "play-9": {KEY: "x"}}},
    }
    tasks = [{"name": "annotate", "multicluster.network.node_annotations": options}]
    token = server.access()["token"]

    code, out = play(tmp_path, tasks, "--check", "--diff", "-vvv")
    assert code == 0 and "changed=1" in out and "value-1" in out and "no_such_node" in out, out
    assert token not in out
    mark = server.mark()
    code, out = play(tmp_path, tasks, "-vvv")
    assert code == 0 and "changed=1" in out and token not in out
    assert server.writes(mark) == [("patch", "/api/v1/nodes/play-1", 200)]
    code, out = play(tmp_path, tasks)
    assert code == 0 and "changed=0" in out

    code, out = play(tmp_path, [{"multicluster.network.node_annotations": dict(options, fail_on_refused=True)}])
    assert code == 2 and "no_such_node" in out
    code, out = play(tmp_path, [{"multicluster.network.node_annotations": dict(options, wrong="x")}], "-vvv")
    assert code == 2 and "Unsupported parameters" in out and token not in out
    dead = {"name": "gcp", "api_url": "https://127.0.0.1:1", "token": token}
    code, out = play(
        tmp_path,
        [{"multicluster.network.node_annotations": dict(options, clusters=options["clusters"] + [dead])}],
        "-vvv",
    )
    assert code == 2 and "cluster gcp: cannot list /api/v1/nodes" in out and token not in out
    tolerant = dict(options, clusters=options["clusters"] + [dead], fail_on_failures=False)
    code, out = play(tmp_path, [{"multicluster.network.node_annotations": tolerant}])
    assert code == 0 and "cluster gcp: cannot list" in out.replace("\n", " ")
    client.delete("/api/v1/nodes/play-1")


def test_role_cluster_access(server, kubeconfig, tmp_path):
    target = str(tmp_path / "keys" / "{cluster}")
    variables = {
        "cluster_access_fabric": "t",
        "cluster_access_clusters": [{"name": "aws", "kubeconfig": kubeconfig}],
        "cluster_access_path": target,
    }

    def role(*arguments, **more):
        roles = [{"role": "multicluster.network.cluster_access", "vars": dict(variables, **more)}]
        code, out = play(tmp_path, [], *arguments, roles=roles)
        assert code == 0, out
        assert server.access()["token"] not in out
        return out

    assert "changed=2" in role("--check", "--diff")
    assert not (tmp_path / "keys").exists()
    assert "changed=2" in role()
    made = json.loads((tmp_path / "keys" / "aws").read_text())
    mark = server.mark()
    assert "changed=0" in role() and server.writes(mark) == []
    assert "changed=0" in role("--check")

    annotate = {
        "fabric": "t",
        "clusters": [{"name": "aws", "kubeconfig": str(tmp_path / "keys" / "aws")}],
        "annotations": {},
    }
    code, out = play(tmp_path, [{"multicluster.network.node_annotations": annotate}], "-vvv")
    assert code == 0 and made["users"][0]["user"]["token"] not in out
    assert "changed=2" in role(cluster_access_state="absent")
    assert "changed=0" in role(cluster_access_state="absent")
    assert not (tmp_path / "keys" / "aws").exists()


def test_rotate_keys_replaces_tokens_and_the_former_ones_stay_valid(server, kubeconfig, tmp_path):
    """The play with which the playbook begins: without rotate_tokens, with it, and again."""
    (tmp_path / "admin").write_text(json.dumps(kubeconfig))
    variables = {
        "cluster_access_kubeconfig": str(tmp_path / "admin"),
        "cluster_access_path": str(tmp_path / "{cluster}-{{ capability }}"),
        "multicluster_fabric": "t",
        "ansible_python_interpreter": sys.executable,
    }
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"clusters": {"hosts": {"aws": variables}}}))
    book = pathlib.Path(__file__).parents[2] / "playbooks" / "plays" / "access_tokens.yml"
    environment = dict(os.environ, ANSIBLE_HOME=str(tmp_path / "ansible"))
    environment.setdefault("ANSIBLE_COLLECTIONS_PATH", environment.get("PYTHONPATH", ""))
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"

    def run(*capabilities):
        asked = json.dumps({"rotate_tokens": capabilities})
        done = subprocess.run(
            ["ansible-playbook", "-i", str(inventory), "-c", "local", "-e", asked, str(book)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def token(capability):
        return json.loads((tmp_path / f"aws-{capability}").read_text())["users"][0]["user"]["token"]

    run()
    assert not list(tmp_path.glob("aws-*"))
    run("mesh", "mesh_read")
    former = {name: token(name) for name in ("mesh", "mesh_read")}
    run("mesh")
    assert token("mesh") != former["mesh"] and token("mesh_read") == former["mesh_read"]
    for text in (former["mesh"], token("mesh")):
        assert server.client(token=text).list("/api/v1/nodes").complete
