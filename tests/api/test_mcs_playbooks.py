# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The capability mcs as a user runs it: its playbook, with names of imports, verify, status, preflight and teardown, over two real API servers."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import subprocess
import sys

import pytest
import yaml
from mcs_clusters import DEFINITION, other, pair  # pylint: disable=unused-import

__all__ = ["other", "pair"]
WEB = ("shop", "web")
MAPS, DEPLOYMENTS = "/api/v1/namespaces/kube-system/configmaps", "/apis/apps/v1/namespaces/kube-system/deployments"
PLAYBOOKS = pathlib.Path(__file__).resolve().parents[2] / "playbooks"
COREFILE = ".:53 {\n    forward . /etc/resolv.conf\n    reload\n}\n"


@pytest.fixture
def fabric(pair, tmp_path_factory):
    """The folder of an inventory of both clusters, each with a CoreDNS that is new enough."""
    folder, hosts = tmp_path_factory.mktemp("fabric"), {}
    for name, one in pair.servers.items():
        client = one.client()
        client.create(
            MAPS,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "coredns"}, "data": {"Corefile": COREFILE}},
            "k",
        )
        pod = {
            "serviceAccountName": "coredns",
            "containers": [{"name": "coredns", "image": "registry.k8s.io/coredns/coredns:v1.12.2"}],
        }
        spec = {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
        }
        client.create(
            DEPLOYMENTS,
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "coredns"}, "spec": spec},
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
        hosts[name] = dict(DEFINITION["clusters"][name], kubeconfig=str(folder / name))
    hosts["gcp"].update(multicluster_cluster_id="gcp-eu", mcs_namespaces=["shop"])
    run = {
        "multicluster_fabric": "t",
        "multicluster_capabilities": ["mcs", "coredns_rewrite"],
        "mcs_install_crds": True,
    }
    (folder / "hosts.yml").write_text(
        yaml.safe_dump({"all": {"vars": run, "children": {"clusters": {"hosts": hosts}}}})
    )
    yield folder
    for one in pair.servers.values():
        one.client().delete(MAPS + "/coredns")
        one.client().delete(DEPLOYMENTS + "/coredns")


def play(folder, book, *arguments, ends=0):
    """Run a playbook; returns what was printed."""
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
        timeout=180,
        check=False,
    )
    assert done.returncode == ends, done.stdout + done.stderr
    return done.stdout


def corefile(pair, name):
    return pair.clients[name].get(MAPS + "/coredns")["data"]["Corefile"]


def test_from_the_first_look_to_the_last(pair, fabric):
    shown = play(fabric, "preflight.yml")
    assert "error: " not in shown and "kind_not_served" not in shown and "forbidden" not in shown, shown
    pair.export("aws", WEB, "10.2.3.1")
    pair.export("gcp", WEB, "10.4.3.1", ports=[{"name": "http", "protocol": "TCP", "port": 8080}])
    pair.claim("gcp", ("bank", "safe"))
    mark = pair.mark()
    assert "changed=1" in play(fabric, "mcs.yml", "--check", "--diff") and pair.writes(mark) == {"aws": [], "gcp": []}
    shown = play(fabric, "mcs.yml")
    assert "changed=1" in shown and "gcp/bank/safe: mcs_namespaces of cluster gcp does not let it export" in shown
    assert pair.imported("aws", WEB)["status"]["clusters"] == [{"cluster": "aws"}, {"cluster": "gcp-eu"}]
    assert pair.said("gcp", WEB)["Conflict"] == pair.said("aws", WEB)["Conflict"] == ("True", "PortConflict")
    mark = pair.mark()
    assert "changed=0" in play(fabric, "mcs.yml") and pair.writes(mark) == {"aws": [], "gcp": []}

    assert "changed=1" in play(fabric, "coredns_rewrite.yml")
    assert all("    kubernetes clusterset.local {" in corefile(pair, name) for name in ("aws", "gcp"))
    mark = pair.mark()
    assert "changed=0" in play(fabric, "coredns_rewrite.yml", "-e", "mcs_dns_domain=clusterset.local") and pair.writes(
        mark
    ) == {"aws": [], "gcp": []}
    play(fabric, "coredns_rewrite.yml", "-e", "mcs_dns_domain=set.example")
    assert "multicluster set.example" in corefile(pair, "gcp") and "clusterset.local" not in corefile(pair, "gcp")
    play(fabric, "coredns_rewrite.yml")

    # what was refused is no proof; what somebody took away is broken
    shown = play(fabric, "verify.yml", ends=2)
    assert "not proven" in shown and "mcs: refused gcp/bank/safe" in shown
    pair.drop("gcp", "ServiceExport", "bank", "safe", api_version="multicluster.x-k8s.io/v1beta1")
    assert "all green" in play(fabric, "verify.yml")
    page = fabric / "page"
    play(fabric, "status.yml", "-e", "status_folder=" + str(page))
    document = json.loads((page / "fabric-status.json").read_text())
    rows = {row["cluster"]: row for row in document["imports"]}
    assert (
        rows["aws"] == {"cluster": "aws", "listed": True, "exports": 1, "valid": 1, "conflicts": 1, "imports": 1}
        and rows["gcp"]["imports"] == 1
    )
    assert document["verdict"]["value"] == "proven" and document["summary"]["export_conflicts"] == 2
    assert "Exports and imports" in (page / "fabric-status.html").read_text()
    assert 'multicluster_exports_in_conflict{cluster="gcp"} 1' in (page / "fabric-status.prom").read_text()
    pair.drop("aws", "ServiceImport", *WEB, api_version="multicluster.x-k8s.io/v1beta1")
    play(fabric, "status.yml", "-e", "status_folder=" + str(page))
    document = json.loads((page / "fabric-status.json").read_text())
    drift = [(row["where"], row["kind"], row["name"], row["difference"]) for row in document["drift"]]
    assert ("aws", "ServiceImport", "shop/web", "missing") in drift
    shown = play(fabric, "verify.yml", ends=2)
    assert "mcs: ServiceImport aws/shop/web is not as desired (create)" in shown

    assert "changed=1" in play(fabric, "mcs.yml")
    play(fabric, "teardown.yml")
    for name in ("aws", "gcp"):
        assert (
            pair.imported(name, WEB) is pair.derived(name, WEB) is None
            and pair.slices(name, WEB) == {}
            and pair.said(name, WEB) == {}
        )
        assert corefile(pair, name) == COREFILE
        assert (
            pair.clients[name].find(
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/multicluster-coredns-serviceimports"
            )
            is None
        )
    mark = pair.mark()
    assert "changed=0" in play(fabric, "teardown.yml") and pair.writes(mark) == {"aws": [], "gcp": []}


@pytest.mark.parametrize("own", ["aws", "gcp"])
def test_a_cluster_shows_where_its_corefile_is(pair, fabric, own):
    """Variables on the host of one cluster count for that one, the one at which the role runs (aws) included."""
    found = yaml.safe_load((fabric / "hosts.yml").read_text())
    found["all"]["vars"]["multicluster_capabilities"] = ["coredns_rewrite"]
    variables = {
        "config_map": "coredns-custom",
        "key": "mine.server",
        "cluster_domain": "c.example",
        "deployment": "mine",
    }
    found["all"]["children"]["clusters"]["hosts"][own].update(
        {"coredns_rewrite_" + name: value for name, value in variables.items()}
    )
    (fabric / "hosts.yml").write_text(yaml.safe_dump(found))
    assert "differs_by_host" not in play(fabric, "validate.yml")
    play(fabric, "coredns_rewrite.yml")
    other_one = "gcp" if own == "aws" else "aws"
    try:
        made = pair.clients[own].get(MAPS + "/coredns-custom")["data"]["mine.server"]
        assert "kubernetes c.example " in made and corefile(pair, own) == COREFILE
        assert "kubernetes cluster.local " in corefile(pair, other_one)
        play(fabric, "coredns_rewrite.yml", "-e", "coredns_rewrite_state=absent")
        assert corefile(pair, other_one) == COREFILE and not pair.clients[own].get(MAPS + "/coredns-custom").get("data")
        play(
            fabric,
            "coredns_rewrite.yml",
            "-e",
            "coredns_rewrite_config_map=coredns",
            "-e",
            "coredns_rewrite_key=Corefile",
        )
        assert corefile(pair, own) != COREFILE != corefile(pair, other_one)  # the command line counts for all
    finally:
        pair.clients[own].delete(MAPS + "/coredns-custom")
