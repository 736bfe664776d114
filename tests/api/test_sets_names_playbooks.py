# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/network_sets.yml and coredns_rewrite.yml as a user runs them, over two real API servers."""

from __future__ import annotations

import base64
import os
import pathlib
import subprocess
import sys

import pytest
import yaml
from set_kinds import namespace, path_of, pod, remove, serve, withdraw

MAPS = "/api/v1/namespaces/kube-system/configmaps"
PLAYBOOKS = pathlib.Path(__file__).resolve().parents[2] / "playbooks"
COREFILE = ".:53 {\n    forward . /etc/resolv.conf\n    reload\n}\n"


@pytest.fixture
def fabric(server, tmp_path_factory):
    """{cluster: server} and the inventory's path."""
    folder = tmp_path_factory.mktemp("fabric")
    (folder / "server").mkdir()
    other = type(server)(folder / "server")
    servers = {"aws": server, "gcp": other}
    try:
        other.start()
        hosts = {}
        for name, one in servers.items():
            client = one.client()
            serve(client, "calico")
            namespace(client, "sys-log")
            pod(client, "sys-log", "pod-of-" + name, "app", {"aws": "10.2.3.19", "gcp": "10.4.1.3"}[name])
            client.create(
                MAPS,
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "coredns"},
                    "data": {"Corefile": COREFILE},
                },
                "k",
            )
            kubeconfig = {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {
                            "server": one.url,
                            "certificate-authority-data": base64.b64encode(one.ca.encode()).decode(),
                        },
                    }
                ],
                "users": [{"name": "u", "user": {"token": one.access()["token"]}}],
            }
            (folder / name).write_text(yaml.safe_dump(kubeconfig))
            hosts[name] = {
                "kubeconfig": str(folder / name),
                "pod_cidrs": {"aws": "10.2.0.0/16", "gcp": ["10.4.0.0/16"]}[name],
            }
        inventory = {"all": {"vars": {"multicluster_fabric": "t"}, "children": {"clusters": {"hosts": hosts}}}}
        (folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
        yield servers, folder
    finally:
        other.stop()
        client = server.client()
        withdraw(client, "calico")
        client.delete(MAPS + "/coredns")
        remove(client, "sys-log", "pod-of-aws")


def play(folder, book, *arguments, inventory="hosts.yml"):
    """Run a playbook; returns what was printed."""
    environment = dict(
        os.environ, ANSIBLE_NOCOWS="1", ANSIBLE_LOCALHOST_WARNING="0", ANSIBLE_HOME=str(folder / "ansible")
    )
    environment.setdefault("ANSIBLE_COLLECTIONS_PATH", environment.get("PYTHONPATH", ""))
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    command = ["ansible-playbook", "-i", str(folder / inventory), "-e", "ansible_python_interpreter=" + sys.executable]
    done = subprocess.run(
        command + [str(PLAYBOOKS / book)] + list(arguments),
        env=environment,
        cwd=str(folder),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def sets(servers):
    return {
        name: [item["metadata"]["name"] for item in one.client().list(path_of("calico")).items]
        for name, one in servers.items()
    }


def test_policy(fabric):
    servers, folder = fabric
    shown = play(folder, "network_sets.yml", "--check", "--diff")
    assert "changed=1" in shown and "10.4.1.3/32" in shown and sets(servers) == {"aws": [], "gcp": []}
    # the fabric is the inventory's, with pods that are read in all clusters; only what the limit names is written (decision 68)
    assert "changed=1" in play(folder, "network_sets.yml", "--limit", "gcp")
    assert sets(servers) == {"aws": [], "gcp": ["aws-sys-log-app"]}
    assert "changed=1" in play(folder, "network_sets.yml")
    assert sets(servers) == {"aws": ["gcp-sys-log-app"], "gcp": ["aws-sys-log-app"]}
    marks = {name: one.mark() for name, one in servers.items()}
    assert "changed=0" in play(folder, "network_sets.yml")
    assert not [write for name, one in servers.items() for write in one.writes(marks[name])]


def test_dns(fabric):
    servers, folder = fabric

    def corefiles():
        return {name: one.client().get(MAPS + "/coredns")["data"]["Corefile"] for name, one in servers.items()}

    shown = play(folder, "coredns_rewrite.yml", "--diff")
    assert (
        "changed=1" in shown and "+    - cluster.aws {" in shown and "changed=0" in play(folder, "coredns_rewrite.yml")
    )
    found = corefiles()
    assert (
        "cluster.gcp {\n    errors\n    rewrite" in found["aws"]
        and "cluster.aws {\n    errors\n    rewrite" in found["gcp"]
    )
    # with declared nodes in one cluster, the other is another owner's: its Corefile is its own business
    tree = yaml.safe_load((folder / "hosts.yml").read_text())
    tree["all"]["children"]["aws_nodes"] = {"hosts": {"aws-node-1": {"multicluster_cluster": "aws"}}}
    tree["all"]["children"]["clusters"]["hosts"]["gcp"].update(
        kubeconfig=None, api_url="https://127.0.0.1:1", token="none"
    )  # asked, it would fail the run
    (folder / "mixed.yml").write_text(yaml.safe_dump(tree))
    before = corefiles()
    for state in ("present", "absent"):
        play(
            folder,
            "coredns_rewrite.yml",
            "-e",
            "coredns_rewrite_global_zone=true",
            "-e",
            "coredns_rewrite_state=" + state,
            inventory="mixed.yml",
        )
        assert corefiles()["gcp"] == before["gcp"] and corefiles()["aws"] != before["aws"]
    play(folder, "coredns_rewrite.yml")
    assert "changed=1" in play(folder, "coredns_rewrite.yml", "-e", "coredns_rewrite_state=absent") and set(
        corefiles().values()
    ) == {COREFILE}
