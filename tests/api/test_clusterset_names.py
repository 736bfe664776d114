# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A current CoreDNS (tests/coredns/build newest), as its own account and with what coredns_rewrite writes, answers below clusterset.local."""

from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import coredns
from ansible_collections.multicluster.network.plugins.module_utils._services.coredns_multicluster import RIGHTS
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.definitions import definitions
from api_server import free_port, slices_version
from dns_client import ask
from set_kinds import namespace

NEWEST = pathlib.Path(__file__).resolve().parents[1] / "coredns" / "newest"
IMPORTS, MAPS = (
    "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceimports",
    "/api/v1/namespaces/kube-system/configmaps",
)
SLICES = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
RBAC, ACCOUNTS = "/apis/rbac.authorization.k8s.io/v1/", "/api/v1/namespaces/kube-system/serviceaccounts"
DEPLOYMENTS = "/apis/apps/v1/namespaces/kube-system/deployments"
#: What kubeadm lets CoreDNS do.
KUBEADM = [
    {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
]


def program():
    key = hashlib.sha256((NEWEST / "go.mod").read_bytes() + (NEWEST / "main.go").read_bytes()).hexdigest()[:12]
    path = pathlib.Path(os.environ.get("MCN_CACHE", "/var/cache/multicluster-network")) / ("coredns-" + key) / "coredns"
    if not path.exists():
        pytest.skip("NOT RUN here: there is no current CoreDNS; `tests/run coredns` builds one and runs it")
    if slices_version() != "discovery.k8s.io/v1":
        pytest.skip(
            "NOT RUN here: a current CoreDNS needs discovery.k8s.io/v1; `tests/run coredns` runs it over the newest Kubernetes"
        )
    return str(path)


def imported(name, kind, ips=None):
    spec = {"type": kind, "ports": [{"name": "http", "protocol": "TCP", "port": 80}]}
    spec.update({"ips": ips} if ips else {})
    return {
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceImport",
        "metadata": {"name": name},
        "spec": spec,
    }


def piece(name, cluster, *ends):
    """Slices as they are imported: (address, hostname, ready)."""
    labels = {"multicluster.kubernetes.io/service-name": name, "multicluster.kubernetes.io/source-cluster": cluster}
    rows = [
        {"addresses": [ip], "conditions": {"ready": ready}, **({"hostname": host} if host else {})}
        for ip, host, ready in ends
    ]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name + "-" + cluster, "labels": labels},
        "addressType": "IPv4",
        "endpoints": rows,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }


def run(server, **more):
    request = {
        "fabric": "t",
        "clusters": [server.access("gcp")],
        "members": ["aws", "gcp"],
        "mirror_namespace": "sys-semaphore",
        "timeout": 20,
        "namespace": "kube-system",
        "name": "coredns",
        "key": "Corefile",
        "clusterset_domain": "clusterset.local",
    }
    return coredns.run(dict(request, **more))


@pytest.fixture(scope="module")
def cluster(server):
    """What a cluster with CoreDNS has, and imports; removed again."""
    program()
    client = server.client()
    namespace(client, "shop")
    for one in definitions():
        client.apply(CRDS + one["metadata"]["name"], one, "tests")
    while not server.client().serves("multicluster.x-k8s.io/v1alpha1", "ServiceImport"):
        time.sleep(0.1)
    client.create(IMPORTS, imported("web", "ClusterSetIP", ["10.5.0.77"]), "tests")
    client.create(IMPORTS, imported("db", "Headless"), "tests")
    client.create(SLICES, piece("web", "aws", ("10.2.3.1", "", True)), "tests")
    client.create(SLICES, piece("db", "aws", ("10.2.3.10", "db-0", True), ("10.2.3.11", "db-1", False)), "tests")
    client.create(SLICES, piece("db", "gcp-eu", ("10.4.3.10", "db-0", True)), "tests")
    account = {"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}
    client.apply(
        ACCOUNTS + "/coredns", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "coredns"}}, "tests"
    )
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "system:coredns"}}
    client.apply(RBAC + "clusterroles/system:coredns", dict(head, kind="ClusterRole", rules=KUBEADM), "tests")
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"}
    client.apply(
        RBAC + "clusterrolebindings/system:coredns",
        dict(head, kind="ClusterRoleBinding", roleRef=reference, subjects=[account]),
        "tests",
    )
    pod = {
        "serviceAccountName": "coredns",
        "containers": [{"name": "coredns", "image": "registry.k8s.io/coredns/coredns:v1.14.7"}],
    }
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
    }
    client.create(
        DEPLOYMENTS,
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "coredns"}, "spec": spec},
        "tests",
    )
    yield client
    for path in (
        DEPLOYMENTS + "/coredns",
        MAPS + "/coredns",
        RBAC + "clusterrolebindings/system:coredns",
        RBAC + "clusterroles/system:coredns",
        SLICES + "/web-aws",
        SLICES + "/db-aws",
        SLICES + "/db-gcp-eu",
        ACCOUNTS + "/coredns",
    ):
        client.delete(path)
    for one in definitions():
        client.delete(CRDS + one["metadata"]["name"])


@pytest.fixture(scope="module")
def dns(server, cluster, tmp_path_factory):
    """The port of a CoreDNS with the Corefile that the run made of a cluster's own."""
    folder, port, ready = tmp_path_factory.mktemp("coredns"), free_port(), free_port()
    theirs = ".:{0} {{\n    errors\n    ready 127.0.0.1:{1}\n    kubernetes cluster.local in-addr.arpa {{\n        pods insecure\n    }}\n    reload\n}}\n"
    cluster.create(
        MAPS,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "coredns"},
            "data": {"Corefile": theirs.format(port, ready)},
        },
        "tests",
    )
    result = run(server)
    assert (
        result["changed"]
        and (result["refused"], result["failures"]) == ([], [])
        and cluster.find(RBAC + "clusterroles/" + RIGHTS)
    )
    token = {
        "fabric": "t",
        "clusters": [server.access("gcp")],
        "service_account": "coredns",
        "namespace": "kube-system",
        "expires": 3600,
        "renew_before": 60,
        "path": str(folder / "kubeconfig"),
        "state": "present",
    }
    assert not cluster_token.run(token)["failures"]
    text = cluster.get(MAPS + "/coredns")["data"]["Corefile"]
    for line in ("        pods insecure\n", "        noendpoints\n"):  # what a pod finds by itself
        text = text.replace(line, line + f"        kubeconfig {folder / 'kubeconfig'}\n")
    (folder / "Corefile").write_text(text.replace("    forward . /etc/resolv.conf\n", "").replace("    loop\n", ""))
    log = (folder / "coredns.log").open("wb")  # closed with the process
    command = [program(), "-conf", str(folder / "Corefile")]
    process = subprocess.Popen(command, stdout=log, stderr=log, cwd=str(folder), env=dict(os.environ, GOMAXPROCS="1"))
    try:
        deadline = time.monotonic() + 60
        while not (answers(f"http://127.0.0.1:{ready}/ready") and listens(port)):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "coredns.log").read_text()
            time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait(15)
        run(server, state="absent")


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as found:
            return found.status == 200
    except (OSError, urllib.error.URLError):
        return False


def listens(port):
    """It reports that it is ready before it listens."""
    try:
        return ask(port, "kubernetes.default.svc.cluster.local").code == "NOERROR"
    except OSError:
        return False


def values(found):
    return sorted(record.value for record in found.answer)


def test_one_address_for_a_service_of_many_clusters(dns):
    assert values(ask(dns, "web.shop.svc.clusterset.local")) == ["10.5.0.77"]
    assert values(ask(dns, "_http._tcp.web.shop.svc.clusterset.local", "SRV")) == ["80 web.shop.svc.clusterset.local."]


def test_headless_imports_have_their_ready_pods_of_all_clusters(dns):
    assert values(ask(dns, "db.shop.svc.clusterset.local")) == ["10.2.3.10", "10.4.3.10"]
    assert values(ask(dns, "db-0.aws.db.shop.svc.clusterset.local")) == ["10.2.3.10"]
    assert values(ask(dns, "db-0.gcp-eu.db.shop.svc.clusterset.local")) == ["10.4.3.10"]
    assert values(ask(dns, "_http._tcp.db.shop.svc.clusterset.local", "SRV")) == [
        "8080 db-0.aws.db.shop.svc.clusterset.local.",
        "8080 db-0.gcp-eu.db.shop.svc.clusterset.local.",
    ]
    assert ask(dns, "db-1.aws.db.shop.svc.clusterset.local").code == "NXDOMAIN"  # not ready


def test_what_is_not_imported_is_forgotten_soon(dns, cluster):
    found = ask(dns, "late.shop.svc.clusterset.local")
    assert found.code == "NXDOMAIN" and found.denied_for is not None and found.denied_for <= 5
    cluster.create(IMPORTS, imported("late", "ClusterSetIP", ["10.5.0.78"]), "tests")
    deadline = time.monotonic() + 60
    while values(ask(dns, "late.shop.svc.clusterset.local")) != ["10.5.0.78"]:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert (
        ask(dns, "web.shop.svc.cluster.local").code == "NXDOMAIN"
    )  # an import is no Service of the cluster's own domain
