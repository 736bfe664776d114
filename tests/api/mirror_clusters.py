# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two clusters between which Services are mirrored: what tests put there, ask and look up, and the fixtures for it."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import mirror as service_mirror
from api_server import ApiServer, slices_version

LABEL = {"mirror.semaphore.uw.io/mirror-service": "true"}
SHARED = {"mirror.semaphore.uw.io/global-service": "true"}
NAMESPACE = "sys-semaphore"
BASE = "/api/v1/namespaces/"
DEFINITION = {
    "clusters": {
        "aws": {"pod_cidrs": ["10.2.0.0/16"], "service_cidrs": ["10.3.0.0/16"], "node_cidrs": ["10.66.23.0/24"]},
        "gcp": {"pod_cidrs": ["10.4.0.0/16"], "service_cidrs": ["10.5.0.0/16"], "node_cidrs": ["10.22.22.0/24"]},
    }
}
PORTS = [
    {"name": "http", "protocol": "TCP", "port": 8888, "targetPort": 8888},
    {"name": "forward", "protocol": "TCP", "port": 8889, "targetPort": 8889},
]
PODS = ("10.2.3.19", "10.2.4.19", "10.2.7.18")
FLUENTD = "aws-sys-log-73736d-fluentd"


class Two:
    """Both clusters, with what tests put there."""

    def __init__(self, aws, gcp):
        self.servers = {"aws": aws, "gcp": gcp}
        self.clients = {name: server.client() for name, server in self.servers.items()}

    def request(self, **more):
        clusters = [server.access(name) for name, server in sorted(self.servers.items())]
        return dict(
            {
                "fabric": "t",
                "clusters": clusters,
                "definition": copy.deepcopy(DEFINITION),
                "timeout": 20,
                "mirror_namespace": NAMESPACE,
                "create_namespace": True,
                "mirror_selector": "mirror.semaphore.uw.io/mirror-service=true",
            },
            **more,
        )

    def run(self, check=False, **more):
        return service_mirror.run(self.request(**more), check=check)

    def mark(self):
        return {name: server.mark() for name, server in self.servers.items()}

    def writes(self, mark):
        return {name: server.writes(mark[name]) for name, server in self.servers.items()}

    def asked(self, mark):
        return {name: server.audit(mark[name]) for name, server in self.servers.items()}

    def put(self, cluster, *objects):
        for obj in objects:
            client = self.clients[cluster]
            resource = client.resource(obj["apiVersion"], obj["kind"])
            path = resource.path(obj["metadata"].get("namespace"), obj["metadata"]["name"])
            client.apply(path, obj, "the-user", force=True)

    def drop(self, cluster, kind, namespace, name, api_version="v1"):
        self.clients[cluster].delete(self.clients[cluster].resource(api_version, kind).path(namespace, name))

    def get(self, cluster, kind, name, namespace=NAMESPACE, api_version="v1"):
        return self.clients[cluster].get(self.clients[cluster].resource(api_version, kind).path(namespace, name))

    def names(self, cluster, kind, namespace=NAMESPACE, api_version="v1"):
        found = self.clients[cluster].list(self.clients[cluster].resource(api_version, kind).path(namespace)).items
        return sorted(obj["metadata"]["name"] for obj in found)


def service(namespace, name, ports=None, labels=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(LABEL if labels is None else labels)},
        "spec": dict({"ports": ports or PORTS}, **spec),
    }


def endpoints(namespace, name, *ips, labels=None, not_ready=(), ports=None):
    ports = ports or [{key: port[key] for key in ("name", "protocol", "port")} for port in PORTS]
    addresses = [
        {
            "ip": ip,
            "nodeName": "n",
            "targetRef": {"kind": "Pod", "namespace": namespace, "name": "p-" + ip, "uid": "u" + ip},
        }
        for ip in ips
    ]
    subset = {"ports": ports, "addresses": addresses}
    if not_ready:
        subset["notReadyAddresses"] = [{"ip": ip} for ip in not_ready]
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(LABEL if labels is None else labels)},
        "subsets": [subset] if ips or not_ready else [],
    }


def in_zone(zone):
    """How an endpoint of a slice gives its zone."""
    return {"zone": zone} if slices_version().endswith("/v1") else {"topology": {"topology.kubernetes.io/zone": zone}}


def piece(namespace, service_name, suffix, *ips, labels=None, family="IPv4", zone="eu-1"):
    meta = {
        "name": service_name + suffix,
        "namespace": namespace,
        "labels": dict(SHARED if labels is None else labels, **{"kubernetes.io/service-name": service_name}),
    }
    return {
        "apiVersion": slices_version(),
        "kind": "EndpointSlice",
        "metadata": meta,
        "addressType": family,
        "endpoints": [dict(in_zone(zone), addresses=[ip], conditions={"ready": True}) for ip in ips],
        "ports": [{"name": "http", "port": 8888, "protocol": "TCP"}],
    }


def namespace(name):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"x": "y"}}}


def reasons(result):
    return [(row["object"], row["reason"]) for row in result["refused"]]


def dead(request):
    """The same with an API server of aws that does not answer."""
    request["clusters"][0] = {
        "name": "aws",
        "api_url": "https://127.0.0.1:1",
        "token": "x" * 20,
        "ca_data": request["clusters"][0]["ca_data"],
    }
    return request


KINDS = (("v1", "Endpoints"), ("v1", "Service"), ("v1", "ConfigMap"), (None, "EndpointSlice"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A second API server: aws is the session's, gcp is this one."""
    one = ApiServer(tmp_path_factory.mktemp("apiserver-gcp"))
    try:
        one.start()
        yield one
    finally:
        one.stop()


@pytest.fixture
def two(server, other):
    made = Two(server, other)
    for name in made.servers:
        made.put(name, namespace("sys-log"), namespace("shop"))
    yield made
    clear(made)


def clear(made):
    """Take away everything that tests put into the namespaces of both clusters."""
    for client in made.clients.values():
        for api_version, kind in KINDS:
            api_version = api_version or slices_version()
            for obj in client.list(client.resource(api_version, kind).path()).items:
                meta = obj["metadata"]
                if meta["namespace"] in (NAMESPACE, "sys-log", "shop") and meta["name"] != "kube-root-ca.crt":
                    client.delete(client.resource(api_version, kind).path(meta["namespace"], meta["name"]))


@pytest.fixture
def fluentd(two):
    """The seed's example: sys-log/fluentd of aws."""
    two.put("aws", service("sys-log", "fluentd"), endpoints("sys-log", "fluentd", *PODS))
    return two
