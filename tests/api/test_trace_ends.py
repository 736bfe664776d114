# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every kind of end out of real API servers, as flows: who sends, what it dials, by which protocol and family, and what is behind it."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.reports import trace
from mcs_clusters import pair  # pylint: disable=unused-import
from mirror_clusters import BASE, FLUENTD, PODS, endpoints, fluentd, other, piece, service, two  # pylint: disable=unused-import
from test_trace_plan import HOSTS, PLAIN, ask, causes, corefile, nodes  # pylint: disable=unused-import

__all__ = ["fluentd", "nodes", "other", "pair", "two"]
SIX = {"aws": "fd00:10:2::7", "gcp": "fd00:10:4::7"}


def flows(found, back=False):
    """(source's address, target's address, port, protocol, [backends]) of each flow."""
    return [
        (
            row["source"]["address"],
            row["target"]["address"],
            row["target"]["port"],
            row["protocol"],
            sorted(f"{one['address']}@{one['host']}" for one in row["target"]["backends"]),
        )
        for row in found["trace"]["flows"]
        if ("about" in row) == back
    ]


@pytest.fixture
def six(nodes):
    """Pods of IPv6 alone, an IPv6 address of each node, and a headless Service over one of the pods."""
    made = []
    for cluster, address in SIX.items():
        client, path = nodes.clients[cluster], BASE + "shop/pods"
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "six", "namespace": "shop"},
            "spec": {
                "nodeName": cluster + "-n1",
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "i"}],
            },
        }
        client.create(path, body, "test")
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        client.merge_patch(path + "/six/status", {"status": status}, "test")
        made.append((client, path + "/six"))
        now = client.get(f"/api/v1/nodes/{cluster}-n1")["status"]["addresses"]
        more = [*now, {"type": "InternalIP", "address": address[:-1] + "1"}]
        client.merge_patch(f"/api/v1/nodes/{cluster}-n1/status", {"status": {"addresses": more}}, "test")
    nodes.put(
        "gcp",
        service("shop", "six", labels={}, clusterIP="None"),
        piece("shop", "six", "-6", SIX["gcp"], labels={}, family="IPv6"),
    )
    yield nodes
    for client, path in made:
        client.delete(path)


def test_a_pod_of_another_cluster_there_and_back(nodes):
    found = ask(nodes, "aws/shop/pod/web")
    assert flows(found) == [("10.4.7.18", PODS[0], None, "icmp", [PODS[0] + "@aws-host"])]
    assert flows(found, back=True) == [(PODS[0], "10.4.7.18", None, "icmp", ["10.4.7.18@gcp-host"])]


@pytest.mark.parametrize(("protocol", "port"), [("tcp", 8888), ("udp", 53), ("icmp", None)])
@pytest.mark.parametrize(
    ("source", "target"),
    [("gcp/shop/web", "aws/shop/web"), ("aws/shop/web", "gcp/shop/web"), ("aws/aws-n1", "gcp/gcp-n1")],
)
def test_each_protocol_between_pods_and_nodes_in_both_directions(nodes, source, target, protocol, port):
    found = ask(nodes, target, source=source, protocol=protocol, port=port)
    flow = next(row for row in found["trace"]["flows"] if "about" not in row)
    kind = "pod" if source.count("/") == 2 else "node"
    assert (flow["protocol"], flow["target"]["port"], flow["source"]["kind"], flow["target"]["kind"]) == (
        protocol,
        port,
        kind,
        kind,
    )
    assert (flow["source"]["name"], flow["target"]["name"]) == (source, target) and found["trace"]["nodes"] == [
        "aws-host",
        "gcp-host",
    ]


def test_a_service_of_its_own_cluster_is_dialled_by_its_own_address(nodes):
    found = ask(nodes, "aws/sys-log/service/fluentd", source="aws/shop/web", port=8889)
    own = nodes.get("aws", "Service", "fluentd", "sys-log")["spec"]["clusterIP"]
    assert [row[1:4] for row in flows(found)] == [(own, 8889, "tcp")] and sorted(flows(found)[0][4])[0] == PODS[
        0
    ] + "@aws-host"


def test_a_load_balancers_address_leads_to_the_service_behind_it(nodes):
    nodes.put(
        "aws", service("shop", "front", labels={}, type="LoadBalancer"), endpoints("shop", "front", PODS[0], labels={})
    )
    path = BASE + "shop/services/front"
    nodes.clients["aws"].merge_patch(
        path + "/status", {"status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}]}}}, "test"
    )
    for source in ("gcp/shop/web", "aws/shop/web"):
        found = ask(nodes, "198.51.100.7:8888", source=source)
        assert [row[1:] for row in flows(found)] == [("198.51.100.7", 8888, "tcp", [PODS[0] + "@aws-host"])] and causes(
            found
        ) == []
    assert causes(ask(nodes, "198.51.100.7:9999")) == [("port_not_in_service", "aws")]
    external = service("shop", "outer", labels={}, externalIPs=["198.51.100.8"])
    nodes.put("aws", external, endpoints("shop", "outer", PODS[0], labels={}))
    assert flows(ask(nodes, "198.51.100.8", port=8888))[0][4] == [PODS[0] + "@aws-host"]


def test_an_address_with_a_port_is_a_pods_a_nodes_or_nobodys(nodes):
    assert [row[1:] for row in flows(ask(nodes, PODS[0] + ":8888"))] == [
        (PODS[0], 8888, "tcp", [PODS[0] + "@aws-host"])
    ]
    assert [row[1:] for row in flows(ask(nodes, "10.66.23.31:53", protocol="udp"))] == [
        ("10.66.23.31", 53, "udp", ["10.66.23.31@aws-host"])
    ]
    found = ask(nodes, "203.0.113.9:80")
    assert flows(found) == [("10.4.7.18", "203.0.113.9", 80, "tcp", ["203.0.113.9@"])] and found["trace"]["nodes"] == [
        "gcp-host"
    ]
    mirror = nodes.get("gcp", "Service", FLUENTD)["spec"]["clusterIP"]
    assert [row[1:4] for row in flows(ask(nodes, mirror + ":8888"))] == [(mirror, 8888, "tcp")]


def test_the_other_family(six):
    found = ask(six, "aws/shop/six", source="gcp/shop/six", port=80)
    assert flows(found) == [(SIX["gcp"], SIX["aws"], 80, "tcp", [SIX["aws"] + "@aws-host"])]
    assert flows(ask(six, f"[{SIX['aws']}]:80", source="gcp/shop/six")) == flows(found)
    assert flows(ask(six, "gcp/shop/six", source="gcp/shop/six", port=8888, family="6"))[0][1] == SIX["gcp"]
    both = ask(six, "aws/aws-n1", source="gcp/gcp-n1")
    assert sorted(row[1] for row in flows(both)) == ["10.66.23.31", "fd00:10:2::1"]
    for version, address in (("4", "10.66.23.31"), ("6", "fd00:10:2::1")):
        assert [row[1] for row in flows(ask(six, "aws/aws-n1", source="gcp/gcp-n1", family=version))] == [address]
    # who has no address of the family is named
    found = ask(six, "aws/shop/six", source="gcp/shop/web")
    assert (
        causes(found) == [("name_unknown", "aws")]
        and "address of one family" in found["trace"]["findings"][0]["message"]
    )


def test_any_to_one_and_one_to_any(nodes):
    assert [row[0] for row in flows(ask(nodes, "aws/shop/web", source="any", port=8888, protocol="udp"))] == [
        PODS[0],
        "10.4.7.18",
    ]
    assert [(row[0], row[1]) for row in flows(ask(nodes, "any", source="gcp/gcp-n1"))] == [("10.22.22.27", PODS[0])]


def test_a_pod_of_the_hosts_network_is_its_node(nodes):
    client, path = nodes.clients["gcp"], BASE + "shop/pods"
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "host", "namespace": "shop"},
        "spec": {
            "nodeName": "gcp-n1",
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i"}],
        },
    }
    client.create(path, body, "test")
    try:
        client.merge_patch(
            path + "/host/status",
            {"status": {"phase": "Running", "podIP": "10.22.22.27", "podIPs": [{"ip": "10.22.22.27"}]}},
            "test",
        )
        flow = ask(nodes, "aws/shop/web", source="gcp/shop/host")["trace"]["flows"][0]
        assert (flow["source"]["kind"], flow["source"]["address"], flow["source"]["host"]) == (
            "node",
            "10.22.22.27",
            "gcp-host",
        )
    finally:
        client.delete(path + "/host")


def plan(pair, target, **more):
    request = {
        "fabric": "t",
        "clusters": pair.request()["clusters"],
        "timeout": 20,
        "hosts": HOSTS,
        "mesh": {},
        "number": 61000,
    }
    return trace.plan(dict(request, source="gcp/gcp-n1", target=target, **more))


def test_an_import_and_its_name(pair):
    for cluster, address in (("aws", "10.66.23.31"), ("gcp", "10.22.22.27")):
        client = pair.clients[cluster]
        client.create(
            "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": cluster + "-n1"}}, "test"
        )
        client.merge_patch(
            "/api/v1/nodes/" + cluster + "-n1/status",
            {"status": {"addresses": [{"type": "InternalIP", "address": address}]}},
            "test",
        )
    try:
        pair.export("aws", ("shop", "web"), "10.2.3.4", "10.2.3.5")
        pair.run()
        pair.run()
        dialled = pair.derived("gcp", ("shop", "web"))["spec"]["clusterIP"]
        for target in ("gcp/shop/serviceimport/web", "aws/shop/web"):
            found = plan(pair, target, port=80)
            assert causes(found) == [] and [row[1:4] for row in flows(found)] == [(dialled, 80, "tcp")], target
            assert [one["address"] for one in found["trace"]["flows"][0]["target"]["backends"]] == [
                "10.2.3.4",
                "10.2.3.5",
            ]
        name = "web.shop.svc.clusterset.local"
        corefile(pair, PLAIN)
        assert causes(plan(pair, name, port=80)) == [("rewrite_missing", "gcp")]
        corefile(
            pair, "clusterset.local {\n    kubernetes {\n        multicluster clusterset.local\n    }\n}\n" + PLAIN
        )
        assert [row[1:4] for row in flows(plan(pair, name, port=80))] == [(dialled, 80, "tcp")]
        assert causes(plan(pair, "nobody.shop.svc.clusterset.local", port=80)) == [("name_unknown", "gcp")]
        assert causes(plan(pair, name, port=81)) == [("port_not_in_service", "gcp")]
    finally:
        for cluster in pair.clients:
            pair.clients[cluster].delete("/api/v1/nodes/" + cluster + "-n1")
        pair.clients["gcp"].delete(BASE + "kube-system/configmaps/coredns")
