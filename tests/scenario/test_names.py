# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirrors, names, kube-proxy and a real CoreDNS together: a pod asks for a Service of the other cluster by its name.

CoreDNS runs on a node of gcp as a pod on the host's network would: with the Corefile of its ConfigMap as it is, an account
of its own, and a Service in front of it which the pod's resolv.conf names. Needs tests/coredns/build.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import pathlib

import pytest
import yaml
from harness import REPO
from service_lab import client, in_pod, make_fluentd, only, pods_serve, running, until

SERVER = "gcp-node-2"
MAPS = "/api/v1/namespaces/kube-system/configmaps"
DNS = "10.5.0.10"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
#: As kubeadm writes it.
COREFILE = """.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
"""
RIGHTS = [
    {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
]
VARIABLES = {
    "service_mirror_create_namespace": True,
    "multicluster_capabilities": ["service_mirror", "coredns_rewrite"],
}


def program():
    """The CoreDNS that tests/coredns/build made."""
    sources = [REPO / "tests" / "coredns" / name for name in ("go.mod", "main.go")]
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    path = pathlib.Path(os.environ.get("MCN_CACHE", "/var/cache/multicluster-network")) / ("coredns-" + key) / "coredns"
    if not path.exists():
        pytest.skip("there is no CoreDNS here; tests/coredns/build makes one")
    return path


def apply(fabric, path, **body):
    client(fabric, "gcp").apply(path, body, "kubeadm", force=True)


def install(fabric):
    """What kubeadm does for CoreDNS: its ConfigMap, account, rights and Service."""
    system = "/api/v1/namespaces/kube-system"
    apply(
        fabric,
        MAPS + "/coredns",
        apiVersion="v1",
        kind="ConfigMap",
        metadata={"name": "coredns"},
        data={"Corefile": COREFILE},
    )
    apply(
        fabric,
        system + "/serviceaccounts/coredns",
        apiVersion="v1",
        kind="ServiceAccount",
        metadata={"name": "coredns"},
        automountServiceAccountToken=True,
    )
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "system:coredns"}}
    base = "/apis/rbac.authorization.k8s.io/v1/"
    apply(fabric, base + "clusterroles/system:coredns", kind="ClusterRole", rules=RIGHTS, **rbac)
    apply(
        fabric,
        base + "clusterrolebindings/system:coredns",
        kind="ClusterRoleBinding",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
        subjects=[{"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}],
        **rbac,
    )
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]
    meta = {"name": "kube-dns", "labels": {"k8s-app": "kube-dns"}}
    apply(
        fabric,
        system + "/services/kube-dns",
        apiVersion="v1",
        kind="Service",
        metadata=meta,
        spec={"clusterIP": DNS, "ports": ports},
    )
    address = fabric.sh(SERVER, "sh", "-c", "ip -4 -o address show eth0 | sed 's/.*inet //; s#/.*##'").strip()
    apply(
        fabric,
        system + "/endpoints/kube-dns",
        apiVersion="v1",
        kind="Endpoints",
        metadata=meta,
        subsets=[{"addresses": [{"ip": address}], "ports": ports}],
    )


def resolver(fabric):
    """The pod's resolv.conf."""
    return fabric.state / "pod-resolv.conf"


def write(fabric, node, path, text):
    """A file on a node, whatever is in it."""
    data = base64.b64encode(text.encode()).decode()
    fabric.sh(
        node, "sh", "-c", f"mkdir -p $(dirname {path}) && echo {data} | base64 -d > {path}.new && mv {path}.new {path}"
    )


def deliver(fabric):
    """What a kubelet does with a mounted ConfigMap."""
    write(fabric, SERVER, "/etc/coredns/Corefile", client(fabric, "gcp").get(MAPS + "/coredns")["data"]["Corefile"])


@contextlib.contextmanager
def coredns(fabric):
    """CoreDNS with the access of a pod."""
    kubeconfig = yaml.safe_load((fabric.state / "gcp" / "kubeconfig").read_text())["clusters"][0]["cluster"]
    token = client(fabric, "gcp").create(
        "/api/v1/namespaces/kube-system/serviceaccounts/coredns/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": {}},
        "kubelet",
    )["status"]["token"]
    write(fabric, SERVER, ACCOUNT + "/token", token)
    write(fabric, SERVER, ACCOUNT + "/ca.crt", base64.b64decode(kubeconfig["certificate-authority-data"]).decode())
    # the lab relays the API server's port to the gateway of the nodes
    gateway = fabric.sh(SERVER, "sh", "-c", "ip -4 route show default | sed 's/.*via //; s/ .*//'").strip()
    where = ["KUBERNETES_SERVICE_HOST=" + gateway, "KUBERNETES_SERVICE_PORT=" + kubeconfig["server"].rpartition(":")[2]]
    with running(
        fabric, "exec", SERVER, "--", "env", *where, "GOMAXPROCS=1", str(program()), "-conf", "/etc/coredns/Corefile"
    ) as process:
        yield process


@pytest.fixture(scope="module", autouse=True)
def names(fabric):
    """The mesh, the seed's Service, and CoreDNS with whatever the playbooks made of its Corefile."""
    program()
    fabric.play("mesh").ok()
    install(fabric)
    resolver(fabric).write_text(
        f"nameserver {DNS}\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
    )
    make_fluentd(fabric)
    with pods_serve(fabric):
        yield


def test_a_name_of_the_other_cluster_leads_there(fabric):
    for book in ("service_mirror", "coredns_rewrite"):
        fabric.play(book, variables=dict(VARIABLES, coredns_rewrite_version="1.9.4")).ok()
    deliver(fabric)
    with coredns(fabric) as process:
        until(lambda: resolves(fabric, "kubernetes.default.svc.cluster.local") or process.poll() is not None, 120)
        assert process.poll() is None, "CoreDNS ended: it does not take the Corefile"
        made = json.loads(
            fabric.kubectl("gcp", "-n", "sys-semaphore", "get", "service", "aws-sys-log-73736d-fluentd", "-o", "json")
        )
        assert resolves(fabric, "fluentd.sys-log.svc.cluster.aws") == made["spec"]["clusterIP"]
        # the pods of aws answer, under a name that is the same in every cluster
        everybody = {"fluentd-a", "fluentd-b"}
        assert only(fabric, "http://fluentd.sys-log.svc.cluster.aws:8888/", everybody, resolver(fabric)) == everybody
        # the cluster's own name, and what is not mirrored
        assert resolves(fabric, "kube-dns.kube-system.svc.cluster.gcp") == DNS
        assert resolves(fabric, "nothing.sys-log.svc.cluster.aws") == ""


def resolves(fabric, name):
    """The address that a pod gets for a name."""
    return in_pod(fabric, "getent ahostsv4 " + name, resolver(fabric)).split(" ")[0]


def test_both_again_change_nothing_and_teardown_leaves_the_corefile_as_it_was(fabric):
    with fabric.witness() as writes:
        for book in ("service_mirror", "coredns_rewrite"):
            assert not fabric.play(book, variables=dict(VARIABLES, coredns_rewrite_version="1.9.4")).ok().changed
    assert not [line for line in writes if "multicluster.network" in line]
    fabric.play("coredns_rewrite", variables={"coredns_rewrite_state": "absent"}).ok()
    assert client(fabric, "gcp").get(MAPS + "/coredns")["data"] == {"Corefile": COREFILE}
    fabric.play("service_mirror", variables={"service_mirror_state": "absent"}).ok()
    assert fabric.kubectl("gcp", "-n", "sys-semaphore", "get", "services,endpoints", "-o", "name").strip() == ""
