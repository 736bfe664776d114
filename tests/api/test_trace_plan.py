# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Both ends of a trace from real API servers: what a source dials, what is behind it, and what is wrong before any packet is sent."""

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.reports import trace
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import NotFound
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from mirror_clusters import (  # pylint: disable=unused-import
    BASE,
    FLUENTD,
    NAMESPACE,
    PODS,
    dead,
    endpoints,
    fluentd,
    other,
    service,
    two,
)

__all__ = ["fluentd", "other", "two"]
HOSTS = {"gcp-host": {"cluster": "gcp", "node": "gcp-n1"}, "aws-host": {"cluster": "aws", "node": "aws-n1"}}
PLAIN = ".:53 {\n    kubernetes cluster.local\n    forward . /etc/resolv.conf\n}\n"
REWRITTEN = (
    "cluster.aws {\n    errors\n    rewrite stop {\n        name regex x y\n    }\n    kubernetes cluster.local\n}\n"
    + PLAIN
)


@pytest.fixture
def nodes(fluentd):
    """A node in each cluster, a pod on each, and a mirror of fluentd of aws in gcp."""
    two = fluentd
    two.run(mirror_as="endpoints")
    made = []
    for cluster, address, pod in (("aws", "10.66.23.31", PODS[0]), ("gcp", "10.22.22.27", "10.4.7.18")):
        client, node = two.clients[cluster], cluster + "-n1"
        client.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}, "test")
        client.merge_patch(
            "/api/v1/nodes/" + node + "/status",
            {"status": {"addresses": [{"type": "InternalIP", "address": address}]}},
            "test",
        )
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]},
        }
        client.create(BASE + "shop/pods", body, "test")
        status = {
            "phase": "Running",
            "podIP": pod,
            "podIPs": [{"ip": pod}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        client.merge_patch(BASE + "shop/pods/web/status", {"status": status}, "test")
        made += [(client, BASE + "shop/pods/web"), (client, "/api/v1/nodes/" + node)]
    yield two
    for client, path in made:
        with contextlib.suppress(NotFound):
            client.delete(path)
    for client in two.clients.values():
        with contextlib.suppress(NotFound):
            client.delete(BASE + "kube-system/configmaps/coredns")


def ask(two, target, source="gcp/shop/web", change=None, **more):
    request = {
        "fabric": "t",
        "clusters": two.request()["clusters"],
        "timeout": 20,
        "hosts": HOSTS,
        "mesh": {},
        "number": 61000,
    }
    request.update(source=source, target=target, **more)
    return trace.plan(change(request) if change else request)


def causes(result):
    return [(row["cause"], row["where"]) for row in result["trace"]["findings"]]


def corefile(two, text):
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "coredns", "namespace": "kube-system"},
        "data": {"Corefile": text},
    }
    two.clients["gcp"].apply(BASE + "kube-system/configmaps/coredns", body, "test", force=True)


def test_a_service_of_another_cluster_is_dialled_by_its_mirror(nodes):
    mark = nodes.mark()
    found = ask(nodes, "aws/sys-log/fluentd", port=8888)
    assert causes(found) == [] and found["failures"] == [] and nodes.writes(mark) == {"aws": [], "gcp": []}
    flow = found["trace"]["flows"][0]
    assert flow["target"]["address"] == nodes.get("gcp", "Service", FLUENTD)["spec"]["clusterIP"]
    assert flow["source"] == {
        "kind": "pod",
        "name": "gcp/shop/web",
        "cluster": "gcp",
        "host": "gcp-host",
        "address": "10.4.7.18",
    }
    assert (flow["protocol"], flow["target"]["port"], flow["number"]) == ("tcp", 8888, 61000)
    assert sorted(row["address"] for row in flow["target"]["backends"]) == sorted(PODS)
    assert [row["host"] for row in flow["target"]["backends"] if row["address"] == PODS[0]] == ["aws-host"]
    # each kind of each cluster by one list
    paths = [path for verb, path, status in nodes.asked(mark)["aws"] if verb == "list"]
    assert len(paths) == len(set(paths)) and {"/api/v1/nodes", "/api/v1/pods", "/api/v1/services"} <= set(paths)
    # without a port the first one of the Service is asked
    assert ask(nodes, "aws/sys-log/fluentd")["trace"]["flows"][0]["target"]["port"] == 8888


def test_pods_nodes_and_all_of_them(nodes):
    found = ask(nodes, "aws/shop/web", source="gcp/gcp-n1")["trace"]
    assert [
        (row["protocol"], row["source"]["address"], row["target"]["address"])
        for row in found["flows"]
        if "about" not in row
    ] == [("icmp", "10.22.22.27", PODS[0])]
    assert found["nodes"] == ["aws-host", "gcp-host"]
    back = [row for row in found["flows"] if row.get("about") == "0"]
    assert [(row["source"]["host"], row["target"]["address"], row["protocol"]) for row in back] == [
        ("aws-host", "10.22.22.27", "icmp")
    ]
    found = ask(nodes, "any", source="any")["trace"]
    assert sorted((row["source"]["name"], row["target"]["name"]) for row in found["flows"]) == [
        ("aws/shop/web", "gcp/shop/web"),
        ("gcp/shop/web", "aws/shop/web"),
    ]
    assert len({row["number"] for row in found["flows"]}) == 2


@pytest.mark.parametrize(
    ("target", "port", "expected"),
    [
        ("aws/sys-log/nobody", 1, [("name_unknown", "aws")]),
        ("merit/sys-log/fluentd", 1, [("name_unknown", "merit")]),
        ("aws/nobody", None, [("name_unknown", "aws")]),
        ("aws/sys-log/fluentd", 9999, [("port_not_in_service", "gcp")]),
        ("nobody.sys-log.svc.cluster.local.", 1, [("name_unknown", "gcp")]),
    ],
)
def test_what_does_not_exist_is_named(nodes, target, port, expected):
    found = ask(nodes, target, port=port)
    assert causes(found) == expected and found["trace"]["flows"] == [] and found["trace"]["nodes"] == []


def test_no_endpoints_no_mirror_and_a_stale_one(nodes):
    nodes.put("gcp", service("shop", "empty", labels={}))
    assert causes(ask(nodes, "gcp/shop/empty", port=8888)) == [("no_endpoints", "gcp")]
    nodes.put("aws", service("shop", "alone", labels={}), endpoints("shop", "alone", "10.2.3.40", labels={}))
    assert causes(ask(nodes, "aws/shop/alone", port=8888)) == [("mirror_missing", "gcp")]
    base = BASE + NAMESPACE + "/endpoints/" + FLUENTD
    subsets = nodes.clients["gcp"].get(base)["subsets"]
    subsets[0]["addresses"] = [{"ip": "10.2.9.9"}]
    nodes.clients["gcp"].merge_patch(base, {"subsets": subsets}, "intruder")
    assert causes(ask(nodes, "aws/sys-log/fluentd", port=8888)) == [("mirror_stale", "gcp")]
    nodes.run(mirror_as="endpoints")
    assert causes(ask(nodes, "aws/sys-log/fluentd", port=8888)) == []


def test_a_name_needs_its_rewrite(nodes):
    name = "fluentd.sys-log.svc.cluster.aws"
    corefile(nodes, PLAIN)
    assert causes(ask(nodes, name, port=8888)) == [("rewrite_missing", "gcp")]
    corefile(nodes, REWRITTEN)
    found = ask(nodes, name, port=8888)
    assert (
        causes(found) == []
        and found["trace"]["flows"][0]["target"]["address"] == nodes.get("gcp", "Service", FLUENTD)["spec"]["clusterIP"]
    )
    assert FLUENTD + "." + NAMESPACE + ".svc.cluster.local" in " ".join(row["text"] for row in found["trace"]["names"])
    assert causes(ask(nodes, "nobody.sys-log.svc.cluster.aws", port=8888)) == [("name_unknown", "gcp")]
    # a Corefile that cannot be read has no evidence of an owned part
    corefile(nodes, "{ {\n")
    assert causes(ask(nodes, name, port=8888)) == [("rewrite_missing", "gcp")]


def test_many_questions_have_numbers_of_their_own(nodes):
    rows = [
        {"source": "gcp/shop/web", "target": "aws/shop/web"},
        {"source": "gcp/shop/web", "target": "aws/sys-log/nobody", "port": 1},
        {"source": "aws/shop/web", "target": "gcp/gcp-n1", "protocol": "udp", "port": 53},
    ]
    found = ask(nodes, None, source=None, questions=rows)["trace"]
    assert [(row["id"], row["number"], row["protocol"]) for row in found["flows"]] == [
        ("0", 61000, "icmp"),
        ("1", 61001, "udp"),
    ]
    assert [(row["cause"], row["question"]) for row in found["findings"]] == [("name_unknown", 1)]


def test_a_policy_that_does_not_name_the_source_is_reported(nodes):
    spec = {
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"ipBlock": {"cidr": "10.9.0.0/16"}}]}],
    }
    path = "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies"
    body = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "known"}, "spec": spec}
    nodes.clients["aws"].create(path, body, "test")
    try:
        assert "shop/known" in ask(nodes, "aws/shop/web")["trace"]["policies"]["0"]
    finally:
        nodes.clients["aws"].delete(path + "/known")
    assert ask(nodes, "aws/shop/web")["trace"]["policies"] == {}


def test_a_dead_cluster_is_named_and_ends_are_checked_first(nodes):
    found = ask(nodes, "aws/sys-log/fluentd", change=dead, port=8888)
    assert [row["cluster"] for row in found["failures"]] == ["aws"] and causes(found) == [("name_unknown", "aws")]
    mark = nodes.mark()
    with pytest.raises(ValueRefused, match="trace_to"):
        ask(nodes, "aws/../x/y/z", port=8888)
    assert nodes.asked(mark) == {"aws": [], "gcp": []}
