# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory plugin cluster_nodes, through ansible-inventory, against a real API server."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest
import yaml

HOSTILE = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "hostile"
SOURCE = {"plugin": "multicluster.network.cluster_nodes"}


def make(server, name, address="10.66.23.31", labels=None):
    client = server.client()
    client.create(
        "/api/v1/nodes",
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}},
        "kubelet",
    )
    addresses = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]
    client.merge_patch(f"/api/v1/nodes/{name}/status", {"status": {"addresses": addresses}}, "kubelet")


@pytest.fixture
def nodes(server):
    make(server, "node-1", labels={"node-role.kubernetes.io/control-plane": "", "zone": "a"})
    make(server, "node-2", "10.66.23.32")
    make(server, "thief", "10.22.22.27")
    yield server
    client = server.client()
    for node in client.list("/api/v1/nodes").items:
        client.delete("/api/v1/nodes/" + node["metadata"]["name"])


def plain(value):
    """Text that Ansible marks as no template, without its mark."""
    if isinstance(value, dict):
        return (
            value["__ansible_unsafe"]
            if "__ansible_unsafe" in value
            else {key: plain(inner) for key, inner in value.items()}
        )
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def listed(folder, clusters, fails=False, **source):
    """What ansible-inventory shows for a directory with a source of clusters and one of this plugin, and its warnings."""
    (folder / "10-clusters.yml").write_text(yaml.safe_dump({"all": {"children": {"clusters": {"hosts": clusters}}}}))
    (folder / "20-cluster_nodes.yml").write_text(yaml.safe_dump(dict(SOURCE, **source)))
    done = subprocess.run(
        ["ansible-inventory", "-i", str(folder), "--list"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=dict(os.environ, ANSIBLE_NOCOLOR="1", ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED="true", COLUMNS="2000"),
    )
    assert bool(done.returncode) == fails, done.stderr
    return (None if fails else plain(json.loads(done.stdout))), " ".join(done.stderr.split())


def cluster(server, **more):
    return dict(server.access("aws"), **dict({"node_cidrs": ["10.66.23.0/24"], "ansible_connection": "local"}, **more))


def test_nodes_of_the_clusters_that_the_inventory_has(nodes, tmp_path):
    found, warnings = listed(
        tmp_path,
        {"aws": cluster(nodes)},
        keyed_groups=[{"key": "node_roles", "prefix": "kube"}],
        compose={"zone": "node_labels.zone"},
    )
    assert found["aws_nodes"]["hosts"] == ["node-1", "node-2"]
    assert found["kube_control_plane"]["hosts"] == ["node-1"]
    first = found["_meta"]["hostvars"]["node-1"]
    assert (first["ansible_host"], first["node_name"], first["multicluster_cluster"], first["zone"]) == (
        "10.66.23.31",
        "node-1",
        "aws",
        "a",
    )
    assert "node aws/thief is no host: 10.22.22.27 is outside the node_cidrs of its cluster [outside_grant]" in warnings
    assert nodes.access()["token"] not in json.dumps(
        {name: found["_meta"]["hostvars"][name] for name in ("node-1", "node-2")}
    )


def test_clusters_of_the_variable_are_asked_as_those_of_the_group(nodes, tmp_path):
    entry = {
        name: value
        for name, value in cluster(nodes, token="{{ token_of_nodes }}").items()
        if not name.startswith("ansible_") and name != "name"
    }
    (tmp_path / "group_vars").mkdir()
    variables = {"multicluster_fabric_clusters": {"aws": entry}, "token_of_nodes": nodes.access()["token"]}
    (tmp_path / "group_vars" / "all.yml").write_text(yaml.safe_dump(variables))
    assert listed(tmp_path, {})[0]["aws_nodes"]["hosts"] == ["node-1", "node-2"]
    (tmp_path / "group_vars" / "all.yml").write_text(yaml.safe_dump({"multicluster_fabric_clusters": ["aws"]}))
    assert "[bad_type]" in listed(tmp_path, {}, fails=True)[1]


def test_what_the_inventory_sets_by_hand_wins_and_names_are_not_taken_over(nodes, tmp_path):
    (tmp_path / "05-hosts.yml").write_text(
        yaml.safe_dump(
            {
                "aws_nodes": {
                    "vars": {"multicluster_cluster": "aws"},
                    "hosts": {"node-1": {"ansible_host": "192.0.2.7"}},
                },
                "others": {"hosts": {"node-2": {"ansible_host": "192.0.2.8"}}},
            }
        )
    )
    found, warnings = listed(tmp_path, {"aws": cluster(nodes)})
    assert found["_meta"]["hostvars"]["node-1"]["ansible_host"] == "192.0.2.7"
    assert found["aws_nodes"]["hosts"] == ["node-1"] and "node_name" not in found["_meta"]["hostvars"]["node-2"]
    assert (
        "node aws/node-2 is no host: the inventory has a host node-2 that is no node of aws [claimed_twice]" in warnings
    )
    found, warnings = listed(tmp_path, {"aws": cluster(nodes)}, node_names="prefixed")
    assert found["aws_nodes"]["hosts"] == ["node-1", "aws-node-1", "aws-node-2"]


def test_a_cluster_that_does_not_answer(nodes, tmp_path):
    gone = {"api_url": "https://127.0.0.1:1", "token": "t", "node_cidrs": ["10.0.0.0/8"]}
    _none, text = listed(tmp_path, {"aws": cluster(nodes), "gcp": gone}, fails=True, timeout=5)
    assert "cluster gcp:" in text and "[unreachable]" in text
    found, text = listed(tmp_path, {"aws": cluster(nodes), "gcp": gone}, skip_failed=True, timeout=5)
    assert found["aws_nodes"]["hosts"] == ["node-1", "node-2"] and "cluster gcp:" in text


def test_what_is_wrong_is_named(nodes, tmp_path):
    access = {key: value for key, value in cluster(nodes).items() if key != "node_cidrs"}
    assert "cluster aws: node_cidrs must list" in listed(tmp_path, {"aws": access}, fails=True)[1]
    assert "there are no clusters" in listed(tmp_path, {"aws": access}, fails=True, clusters_group="kubernetes")[1]
    found, _warnings = listed(tmp_path, {"aws": access}, address="none")
    assert (
        found["aws_nodes"]["hosts"] == ["node-1", "node-2", "thief"]
        and "ansible_host" not in found["_meta"]["hostvars"]["thief"]
    )


def test_the_cache_spares_the_servers_and_holds_no_secret(nodes, tmp_path):
    kept = tmp_path / "cache"
    options = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(kept)}
    (tmp_path / "inventory").mkdir()
    listed(tmp_path / "inventory", {"aws": cluster(nodes)}, **options)
    mark = nodes.mark()
    again, _warnings = listed(tmp_path / "inventory", {"aws": cluster(nodes)}, **options)
    assert again["aws_nodes"]["hosts"] == ["node-1", "node-2"] and nodes.audit(mark) == []
    text = "".join(path.read_text() for path in kept.rglob("*") if path.is_file())
    assert "node-1" in text and nodes.access()["token"] not in text


PLAY = """
- hosts: clusters
  gather_facts: false
  tasks:
    - name: Write where this runs
      ansible.builtin.copy:
        content: "{{ inventory_hostname }} {{ kubeconfig_of_the_cluster }}"
        dest: "{{ out }}/{{ inventory_hostname }}"
        mode: "0600"
      delegate_to: localhost
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        content: "{{ ansible_host | default('none') }} {{ groups['all'] | sort | join(' ') }}"
        dest: "{{ out }}/local"
        mode: "0600"
"""


def test_tasks_of_the_controller_stay_there_whatever_nodes_are_called(server, tmp_path):
    """Threat T46 from end to end: a Node ``localhost`` would take these tasks, with a kubeconfig, to the address that it claims."""
    names = [row["node"] for row in json.loads((HOSTILE / "inventory_names.json").read_text())["rows"]]
    for name in names:
        make(server, name)
    folder, out = tmp_path / "inventory", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    try:
        (tmp_path / "play.yml").write_text(PLAY)
        (folder / "05-hosts.yml").write_text(
            yaml.safe_dump(
                {
                    "all": {
                        "children": {"bastions": {"hosts": {"jump": {}}}},
                        "vars": {"kubeconfig_of_the_cluster": "secret", "out": str(out)},
                    }
                }
            )
        )
        for naming in ("plain", "prefixed"):
            found, warnings = listed(folder, {"aws": cluster(server)}, node_names=naming)
            assert set(found["_meta"]["hostvars"]["jump"]) & {"ansible_host", "node_name"} == set()
            assert ("node aws/localhost is no host" in warnings) == (naming == "plain")
            done = subprocess.run(
                [
                    "ansible-playbook",
                    "-i",
                    str(folder / "05-hosts.yml"),
                    "-i",
                    str(folder / "10-clusters.yml"),
                    "-i",
                    str(folder / "20-cluster_nodes.yml"),
                    str(tmp_path / "play.yml"),
                ],
                capture_output=True,
                text=True,
                check=False,
                stdin=subprocess.DEVNULL,
                env=dict(os.environ, ANSIBLE_NOCOLOR="1", ANSIBLE_TIMEOUT="5"),
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert (out / "aws").read_text() == "aws secret"
            address, *hosts = (out / "local").read_text().split()
            assert (
                address == "127.0.0.1"
                and "localhost" not in hosts
                and ("aws-localhost" in hosts) == (naming == "prefixed")
            )
            for path in out.iterdir():
                path.unlink()
    finally:
        client = server.client()
        for name in names:
            client.delete("/api/v1/nodes/" + name)
