# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clusters of the Multi-Cluster Services API: what tests put there, ask and look up, and the fixtures for it."""

from __future__ import annotations

import copy
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import service_imports
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import NotFound
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.definitions import definitions
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.names import (
    SERVICE_LABEL,
    SOURCE_LABEL,
    VERSIONS,
    derived_name,
)
from api_server import slices_version
from mirror_clusters import DEFINITION, Two, namespace, other, reasons, service

__all__ = [
    "DEFINITION",
    "SERVICE_LABEL",
    "SOURCE_LABEL",
    "VERSIONS",
    "definitions",
    "derived_name",
    "namespace",
    "other",
    "reasons",
    "service",
]
SPACES = ("sys-log", "shop", "bank")
PORTS = [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}]
ENDS = [{"name": "http", "protocol": "TCP", "port": 8080}]


class Set(Two):
    """Both clusters of a clusterset."""

    def request(self, **more):
        clusters = [server.access(name) for name, server in sorted(self.servers.items())]
        return dict(
            {
                "fabric": "t",
                "clusters": clusters,
                "definition": copy.deepcopy(DEFINITION),
                "timeout": 20,
                "install_crds": True,
            },
            **more,
        )

    def run(self, check=False, **more):
        return service_imports.run(self.request(**more), check=check)

    def export(self, cluster, place, *ips, ports=None, ends=None, labels=None, annotations=None, **spec):
        """A Service with endpoints, exported."""
        where, name = place
        self.put(
            cluster, service(where, name, [dict({"protocol": "TCP"}, **port) for port in ports or PORTS], {}, **spec)
        )
        if ips:
            self.put(cluster, ends_of(where, name, *ips, ports=ends))
        self.claim(cluster, place, labels, annotations)

    def claim(self, cluster, place, labels=None, annotations=None):
        """A ServiceExport alone."""
        spec = {
            key: value for key, value in (("exportedLabels", labels), ("exportedAnnotations", annotations)) if value
        }
        self.put(
            cluster,
            {
                "apiVersion": VERSIONS[0],
                "kind": "ServiceExport",
                "metadata": {"name": place[1], "namespace": place[0]},
                "spec": spec,
            },
        )

    def unexport(self, cluster, place):
        self.drop(cluster, "ServiceExport", *place, api_version=VERSIONS[0])

    def imported(self, cluster, place):
        """The import, None for none."""
        try:
            return self.get(cluster, "ServiceImport", place[1], place[0], VERSIONS[0])
        except NotFound:
            return None

    def derived(self, cluster, place):
        """The Service that has the address of an import, None for none."""
        try:
            return self.get(cluster, "Service", derived_name(*place), place[0])
        except NotFound:
            return None

    def slices(self, cluster, place):
        """{source cluster: endpoints of all its slices, by address}."""
        found = {}
        path = self.clients[cluster].resource(slices_version(), "EndpointSlice").path(place[0])
        for obj in self.clients[cluster].list(path, label_selector=f"{SERVICE_LABEL}={place[1]}").items:
            rows = found.setdefault(obj["metadata"]["labels"][SOURCE_LABEL], {})
            rows.update({end["addresses"][0]: end for end in obj["endpoints"] or ()})
        return found

    def conditions(self, cluster, place):
        """{type: condition} of an export."""
        obj = self.get(cluster, "ServiceExport", place[1], place[0], VERSIONS[0])
        return {row["type"]: row for row in (obj.get("status") or {}).get("conditions") or ()}

    def said(self, cluster, place):
        """{type: (status, reason)} of an export."""
        return {kind: (row["status"], row["reason"]) for kind, row in self.conditions(cluster, place).items()}


def ends_of(where, name, *ips, ports=None, family="IPv4", suffix="-x", **more):
    """A slice as the cluster's own controller writes it."""
    meta = {
        "name": name + suffix,
        "namespace": where,
        "labels": {"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "test"},
    }
    rows = [dict({"addresses": [ip], "conditions": {"ready": True}}, **more) for ip in ips]
    return {
        "apiVersion": slices_version(),
        "kind": "EndpointSlice",
        "metadata": meta,
        "addressType": family,
        "endpoints": rows,
        "ports": ENDS if ports is None else ports,
    }


def wait_for(client, api_version, kind):
    deadline = time.monotonic() + 120
    while client.resource(api_version, kind, refresh=True) is None:
        assert time.monotonic() < deadline, f"{kind} is not served"
        time.sleep(0.1)


def gone(client):
    """Take the API away, with all that is in it."""
    for one in definitions():
        client.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + one["metadata"]["name"])
    deadline = time.monotonic() + 60
    while any(client.resource(version, "ServiceImport", refresh=True) for version in VERSIONS) or any(
        client.find("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + one["metadata"]["name"])
        for one in definitions()
    ):
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.fixture
def pair(server, other):
    """Both clusters with the API installed and nothing exported."""
    made = Set(server, other)
    made.run()
    for name in made.servers:
        made.put(name, *(namespace(space) for space in SPACES))
    yield made
    for client in made.clients.values():
        for api_version, kind in (
            (VERSIONS[0], "ServiceExport"),
            (VERSIONS[0], "ServiceImport"),
            ("v1", "Service"),
            (slices_version(), "EndpointSlice"),
        ):
            resource = client.resource(api_version, kind)
            for obj in client.list(resource.path()).items if resource else ():
                if obj["metadata"]["namespace"] in SPACES:
                    client.delete(resource.path(obj["metadata"]["namespace"], obj["metadata"]["name"]))
