# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/tenants.yml and tenant/teardown.yml as a user runs them, with accounts that may do just that."""

from __future__ import annotations

import base64
import os
import pathlib
import re
import subprocess
import sys

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects, cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants import info as tenants_info
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Forbidden, ListIncomplete
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import access_manifests
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import APINET, SOURCE
from tenant_servers import NAMESPACE, PREFIXES, TEAM, attachments, nodes, seed

PLAYBOOKS = pathlib.Path(__file__).resolve().parents[2] / "playbooks"
NAMES = {SOURCE: "east", APINET: "fabric"}
CAPABILITIES = {SOURCE: "tenants_source_leave", APINET: "tenants_network"}


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


@pytest.fixture
def inventory(lab, tmp_path):
    """The folder of an inventory with accounts that have the capabilities' rights only."""
    hosts = {}
    for side, name in NAMES.items():
        admin = dict(lab.servers[side].access(name))
        manifests = access_manifests([CAPABILITIES[side]], target_namespace=NAMESPACE)
        assert not cluster_objects.run({"fabric": "t", "clusters": [admin], "objects": manifests, "adopt": True})[
            "failures"
        ]
        request = {
            "fabric": "t",
            "clusters": [admin],
            "namespace": "kube-system",
            "path": str(tmp_path / name),
            "state": "present",
            "service_account": "multicluster-" + CAPABILITIES[side].replace("_", "-"),
            "expires": 3600,
            "renew_before": 60,
        }
        assert not cluster_token.run(request)["failures"]
        hosts[name] = {"kubeconfig": str(tmp_path / name)}
    variables = {
        "multicluster_fabric": "t",
        "tenants_source": "east",
        "tenants_apinet": "fabric",
        "tenants_network_side": True,
        "tenants_public_prefixes": PREFIXES,
        "tenants_attachments": attachments("nic-1", "nic-2"),
        "tenants_attach_require_ready": False,
        "tenants_rounds": 2,
    }
    (tmp_path / "hosts.yml").write_text(
        yaml.safe_dump({"all": {"vars": variables, "children": {"clusters": {"hosts": hosts}}}})
    )
    return tmp_path


def play(folder, book, *arguments, code=0):
    """Run a playbook, which has to end with this code; returns what was printed."""
    environment = dict(
        os.environ, ANSIBLE_NOCOWS="1", ANSIBLE_LOCALHOST_WARNING="0", ANSIBLE_HOME=str(folder / "ansible")
    )
    environment.setdefault("ANSIBLE_COLLECTIONS_PATH", environment.get("PYTHONPATH", ""))
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    command = [
        "ansible-playbook",
        "-i",
        str(folder / "hosts.yml"),
        "-e",
        "ansible_python_interpreter=" + sys.executable,
    ]
    done = subprocess.run(
        command + [str(PLAYBOOKS / book)] + list(arguments),
        env=environment,
        cwd=str(folder),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + (done.stderr if code else "")


def changes(shown):
    """How many tasks changed something; the other hosts only look on."""
    return sum(int(number) for number in re.findall(r"changed=([0-9]+)", shown))


def test_a_tenant_comes_and_leaves(lab, inventory):
    for obj in nodes():
        lab.create(APINET, obj)
    for obj in seed():
        lab.create(SOURCE, obj)
    mark = lab.mark()
    shown = play(inventory, "tenants.yml", "--check", "--diff")
    assert "apinet.api.onmetal.de/natgateway" in shown and changes(shown)
    assert lab.writes(mark) == {SOURCE: [], APINET: []}
    assert changes(play(inventory, "tenants.yml")) >= 4
    lab.settle()  # what further rounds would do
    lab.attach(interfaces=attachments("nic-1", "nic-2"), require_ready=False)
    lab.settle()
    states = {obj["metadata"]["name"]: obj["status"]["state"] for obj in lab.list(SOURCE, "NetworkInterface")}
    assert states == {"nic-1": "Available", "nic-2": "Available"}
    mark = lab.mark()
    assert not changes(play(inventory, "tenants.yml"))
    assert lab.writes(mark) == {SOURCE: [], APINET: []}
    assert tenants_info.run(lab.request())["pending"] == []
    play(inventory, "tenant/teardown.yml", "-e", "tenants_watch_namespace=" + TEAM)
    assert lab.left() == []


def test_what_is_missing_is_named(lab, inventory):
    """With the role's variable. Nothing was said where no side was named."""
    mark = lab.mark()
    assert "Set tenants_source and tenants_apinet to the clusters that are the two sides" in play(
        inventory, "tenants.yml", "-e", "tenants_apinet=", code=2
    )
    assert lab.writes(mark) == {SOURCE: [], APINET: []}


def test_a_misspelt_variable_on_the_command_line_ends_the_run(lab, inventory):
    """Before anything is read: what it should have said was left out, whatever that was."""
    mark = lab.mark()
    for more in ([], ["--check"]):
        shown = play(inventory, "tenants.yml", "-e", "tenants_max_delets=0", *more, code=2)
        assert "tenants_max_deletes" in shown and "tenants_max_delets" in shown
    assert lab.writes(mark) == {SOURCE: [], APINET: []}


def test_the_accounts_reach_no_further(lab, inventory):
    for name in NAMES.values():
        client = Client(parse_access({"name": name, "kubeconfig": str(inventory / name)}))
        with pytest.raises(ListIncomplete) as error:
            client.list("/api/v1/secrets")
        assert error.value.cause == "forbidden"
        with pytest.raises(Forbidden):
            client.delete("/api/v1/namespaces/default")
    with pytest.raises(ListIncomplete):
        client.list(lab.path(APINET, "Network"))


def test_the_network_side_alone_under_its_present_name(lab, tmp_path):
    """No tenant-facing server, and the definitions come by the role."""
    (tmp_path / "fabric").write_text(yaml.safe_dump(kubeconfig(lab.servers[APINET])))
    variables = {
        "multicluster_fabric": "t",
        "tenants_apinet": "fabric",
        "tenants_install_crds": True,
        "tenants_create_namespace": True,
        "tenants_profile": "ironcore",
        "tenants_network_side": True,
        "tenants_apinet_namespace": "ironcore-twins",
    }
    hosts = {"fabric": {"kubeconfig": str(tmp_path / "fabric")}}
    (tmp_path / "hosts.yml").write_text(
        yaml.safe_dump({"all": {"vars": variables, "children": {"clusters": {"hosts": hosts}}}})
    )
    assert changes(play(tmp_path, "tenants.yml")) == 2
    client, group = lab.clients[APINET], "core.apinet.ironcore.dev/v1alpha1"
    path = f"/apis/{group}/namespaces/ironcore-twins/networks"
    client.create(path, {"apiVersion": group, "kind": "Network", "metadata": {"name": "net-1"}, "spec": {}}, "test")
    shown = play(tmp_path, "tenants.yml")
    assert changes(shown) == 1, shown
    assert client.get(path + "/net-1")["spec"]["id"] == "200"
