# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster's DNS as kubeadm sets it up: CoreDNS as a Deployment behind the Service kube-dns, its Corefile in a ConfigMap."""

from __future__ import annotations

import time
import typing as t

from . import images
from .kubernetes import DNS_DOMAIN, ControlPlane

# kubeadm's, without a forwarder: a lab has nobody to ask outside.
COREFILE = """\
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes DOMAIN in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    cache 30 {
       disable success DOMAIN
       disable denial DOMAIN
    }
    loop
    reload 5s 1s
    loadbalance
}
"""
NAME = {"name": "coredns", "namespace": "kube-system"}
LABELS = {"k8s-app": "kube-dns"}


def apply(plane: ControlPlane, version: str) -> None:
    """Write every object, as kubeadm's own field manager would; a Corefile that exists is left as it is."""
    while plane.api.get_or_none("/api/v1/namespaces/kube-system") is None:
        time.sleep(0.1)  # the API server makes it itself, a moment after it is ready
    for path, body in objects(plane.dns_address, len(plane.cluster.service_cidrs) > 1, version):
        if body["kind"] == "ConfigMap" and plane.api.get_or_none(path) is not None:
            continue
        plane.api.request("PATCH", f"{path}?fieldManager=kubeadm&force=true", body, "application/apply-patch+yaml")


def objects(address: str, dual_stack: bool, version: str) -> list[tuple[str, dict[str, t.Any]]]:
    """[(path, object)] in the order in which they are needed."""
    rules = [
        {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    bound = {"kind": "ServiceAccount", **NAME}
    rbac = "rbac.authorization.k8s.io"
    service = {
        "selector": LABELS,
        "clusterIP": address,
        "ipFamilyPolicy": "SingleStack",
        "ports": [
            {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
            {"name": "metrics", "port": 9153, "protocol": "TCP", "targetPort": 9153},
        ],
    }
    if dual_stack:
        service.pop("ipFamilyPolicy")
    made: list[tuple[str, str, dict[str, t.Any], dict[str, t.Any]]] = [
        ("v1", "ServiceAccount", NAME, {}),
        (f"{rbac}/v1", "ClusterRole", {"name": "system:coredns"}, {"rules": rules}),
        (
            f"{rbac}/v1",
            "ClusterRoleBinding",
            {"name": "system:coredns"},
            {"roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "system:coredns"}, "subjects": [bound]},
        ),
        ("v1", "ConfigMap", NAME, {"data": {"Corefile": COREFILE.replace("DOMAIN", DNS_DOMAIN)}}),
        ("v1", "Service", {"name": "kube-dns", "namespace": "kube-system", "labels": LABELS}, {"spec": service}),
        (
            "apps/v1",
            "Deployment",
            {**NAME, "labels": LABELS},
            {"spec": {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": _template(version)}},
        ),
    ]
    return [
        (_path(version_, kind, metadata), {"apiVersion": version_, "kind": kind, "metadata": metadata, **body})
        for version_, kind, metadata, body in made
    ]


def _template(version: str) -> dict[str, t.Any]:
    def probe(path: str, port: int) -> dict[str, t.Any]:
        return {"httpGet": {"path": path, "port": port}, "periodSeconds": 2, "failureThreshold": 30}

    container = {
        "name": "coredns",
        "image": images.COREDNS_NAME.format(version=version),
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"containerPort": 53, "name": "dns", "protocol": "UDP"},
            {"containerPort": 53, "name": "dns-tcp", "protocol": "TCP"},
            {"containerPort": 9153, "name": "metrics", "protocol": "TCP"},
        ],
        "livenessProbe": probe("/health", 8080),
        "readinessProbe": probe("/ready", 8181),
        "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": True}],
    }
    return {
        "metadata": {"labels": LABELS},
        "spec": {
            "serviceAccountName": "coredns",
            "dnsPolicy": "Default",
            "priorityClassName": "system-cluster-critical",
            "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
            "containers": [container],
            "volumes": [
                {
                    "name": "config-volume",
                    "configMap": {"name": "coredns", "items": [{"key": "Corefile", "path": "Corefile"}]},
                }
            ],
        },
    }


def _path(version: str, kind: str, metadata: dict[str, t.Any]) -> str:
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{namespace}/{kind.lower()}s/{metadata['name']}"
