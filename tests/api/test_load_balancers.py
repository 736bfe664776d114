# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses of Services from a pool, over a real API server. Its audit log says what was really written (ruling 44)."""

from __future__ import annotations

import json

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows import load_balancers

NAMESPACE = "lb-test"
SERVICES = "/api/v1/namespaces/{0}/services".format(NAMESPACE)
LEDGER = "/api/v1/namespaces/kube-system/configmaps/metal-ccm-static-pool"


def make_service(client, name, address=None, kind="LoadBalancer", **annotations):
    spec = {"type": kind, "ports": [{"port": 80, "protocol": "TCP"}], "selector": {"app": name}}
    if address:
        spec["loadBalancerIP"] = address
    meta = {"name": name, "annotations": {key.replace("__", "/").replace("_", "."): value for key, value in annotations.items()}}
    return client.create(SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}, "kubectl")


def get(client, name):
    return client.get(SERVICES + "/" + name)


def ledger(client):
    found = client.list("/api/v1/namespaces/kube-system/configmaps", field_selector="metadata.name=metal-ccm-static-pool").items
    return {key: json.loads(text) for item in found for key, text in (item.get("data") or {}).items()}


@pytest.fixture
def api(server):
    client = server.client()
    try:
        client.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, "kubectl")
    except Exception:  # it is there from the test before
        pass
    yield client
    for item in client.list(SERVICES).items:
        client.delete(SERVICES + "/" + item["metadata"]["name"])
    client.delete(LEDGER)
    for item in client.list("/api/v1/nodes").items:
        client.delete("/api/v1/nodes/" + item["metadata"]["name"])


def request_for(server, more=None, **settings):
    given = dict({"cluster": "aws", "load_balancer": "empty://", "pool": ["203.0.113.0/29"], "gc_orphans": True}, **settings)
    return dict({"fabric": "t", "clusters": [server.access()], "settings": [given], "timeout": 20}, **(more or {}))


def row(result, name):
    return next(item for item in result["load_balancers"]["aws"]["services"] if item["service"] == NAMESPACE + "/" + name)


def reasons(result):
    return {(entry["object"], entry["reason"]) for entry in result["refused"]}


def test_an_address_of_the_pool_and_back(server, api):
    make_service(api, "web")
    make_service(api, "db")
    make_service(api, "inside", kind="ClusterIP")
    mark = server.mark()
    result = load_balancers.run(request_for(server), check=True)
    assert server.writes(mark) == [] and not result["failures"] and not result["refused"]
    assert result["load_balancers"]["aws"]["services"][0]["address"] == "203.0.113.0"
    assert result["plan"]["create"] == 2 and "203.0.113.1" in result["diff"]["after"]

    result = load_balancers.run(request_for(server))
    assert not result["failures"] and not result["refused"]
    assert {name: get(api, name)["spec"].get("loadBalancerIP") for name in ("web", "db", "inside")} == {
        "db": "203.0.113.0", "web": "203.0.113.1", "inside": None,
    }  # fmt: skip
    assert get(api, "web")["status"]["loadBalancer"]["ingress"] == [{"ip": "203.0.113.1"}]
    assert row(result, "web")["ready"] and row(result, "web")["state"] == "Mapped"
    assert result["load_balancers"]["aws"]["announce"] == ["203.0.113.0/32", "203.0.113.1/32"]
    assert ledger(api)["203.0.113.1"]["service"] == NAMESPACE + "/web"

    mark = server.mark()
    result = load_balancers.run(request_for(server))
    assert not result["changed"] and server.writes(mark) == [] and row(result, "db")["ready"]
    assert result["stats"]["requests"]["aws"] == {"get": 1, "list": 3}

    api.delete(SERVICES + "/db")
    result = load_balancers.run(request_for(server))
    assert [change["kind"] for change in result["plan"]["changes"]] == ["Reservation"] and list(ledger(api)) == ["203.0.113.1"]
    assert result["load_balancers"]["aws"]["announce"] == ["203.0.113.1/32"]

    result = load_balancers.run(request_for(server, {"state": "absent"}))
    assert result["changed"] and ledger(api) == {} and "loadBalancerIP" not in get(api, "web")["spec"]
    assert not get(api, "web")["status"]["loadBalancer"]
    mark = server.mark()
    result = load_balancers.run(request_for(server, {"state": "absent"}))
    assert not result["changed"] and server.writes(mark) == []
