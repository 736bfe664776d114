# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services that come from MetalLB, kube-vip, Cilium and a cloud controller, and go back to them, over a real API server.

The Services have the shapes that these controllers write, each field by the manager that writes it.
"""

from __future__ import annotations

import json
import time

import api_server
import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_objects, cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import (
    converge as load_balancers,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import NotFound
from ansible_collections.multicluster.network.plugins.module_utils._plan.access_manifests import access_manifests

SPACE, SYSTEM = "moving", "former-system"
SERVICES = f"/api/v1/namespaces/{SPACE}/services"
CONFIGMAPS = "/api/v1/namespaces/kube-system/configmaps"
APPS = f"/apis/apps/v1/namespaces/{SYSTEM}/"
CILIUM_POOLS = "/apis/cilium.io/v2/ciliumloadbalancerippools"
POOL = ["203.0.113.0/28", "2001:db8:5::/124"]
FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
CONDITION = {
    "type": "cilium.io/IPAMRequestSatisfied",
    "status": "True",
    "reason": "satisfied",
    "message": "",
    "lastTransitionTime": "2026-11-01T10:00:00Z",
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ciliumloadbalancerippools.cilium.io"},
    "spec": {
        "group": "cilium.io",
        "scope": "Cluster",
        "names": {
            "kind": "CiliumLoadBalancerIPPool",
            "plural": "ciliumloadbalancerippools",
            "singular": "ciliumloadbalancerippool",
        },
        "versions": [
            {
                "name": "v2",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


class Shape:
    """How one controller leaves a Service: ``manager`` of the status, what it writes on the object and who writes that, the rows of its status."""

    def __init__(
        self, name, title, manager, ingress, meta=None, writer="", field="", conditions=(), spec=None, work=None
    ):
        self.name, self.title, self.manager, self.ingress = name, title, manager, ingress
        self.meta, self.writer, self.field, self.conditions, self.spec, self.work = (
            meta or {},
            writer,
            field,
            list(conditions),
            spec or {},
            work,
        )

    def make(self, client, name="web"):
        ports = [{"port": 80, "protocol": "TCP"}]
        dual = {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]} if len(self.ingress) > 1 else {}
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "labels": {"app": "web"}, "annotations": {"example.com/own": "stays"}},
            "spec": dict({"type": "LoadBalancer", "ports": ports, "selector": {"app": "web"}}, **dual, **self.spec),
        }
        client.create(SERVICES, body, "kubectl-create")
        patch = dict(
            {"metadata": self.meta} if self.meta else {},
            **({"spec": {"loadBalancerIP": self.field}} if self.field else {}),
        )
        if patch:
            client.merge_patch(SERVICES + "/" + name, patch, self.writer or self.manager)
        status = dict(
            {"loadBalancer": {"ingress": self.ingress}}, **({"conditions": self.conditions} if self.conditions else {})
        )
        client.merge_patch(SERVICES + "/" + name + "/status", {"status": status}, self.manager)

    def start(self, client):
        """The controller itself: the evidence that it is there."""
        path, body = self.work
        client.create(path, body, "kubectl-create")

    def stop(self, client):
        path, body = self.work
        client.delete(path + "/" + body["metadata"]["name"])


def workload(kind, name, image):
    spec = {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": name, "image": image}]}},
    }
    return APPS + kind.lower() + "s", {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": SYSTEM},
        "spec": spec,
    }


def rows(*addresses, **more):
    return [dict({"ip": address}, **more) for address in addresses]


SHAPES = [
    Shape(
        "metallb",
        "MetalLB",
        "controller",
        rows("203.0.113.5", "2001:db8:5::5"),
        {"annotations": {"metallb.io/ip-allocated-from-pool": "public"}},
        work=workload("DaemonSet", "speaker", "quay.io/metallb/speaker:v0.16.1"),
    ),
    # kube-vip takes one address of its field, and both of its annotation, which its cloud provider writes
    Shape(
        "kube-vip",
        "kube-vip",
        "kube-vip",
        rows("203.0.113.6", "2001:db8:5::6", ports=[{"port": 80, "protocol": "TCP"}]),
        {
            "labels": {"implementation": "kube-vip"},
            "finalizers": [FINALIZER],
            "annotations": {
                "kube-vip.io/loadbalancerIPs": "203.0.113.6,2001:db8:5::6",
                "kube-vip.io/vipHost": "node-2",
            },
        },
        "kube-vip-cloud-provider",
        "203.0.113.6",
        work=workload("DaemonSet", "kube-vip-ds", "ghcr.io/kube-vip/kube-vip:v1.2.3"),
    ),
    Shape(
        "cilium",
        "Cilium",
        "cilium-operator-generic",
        rows("203.0.113.7", "2001:db8:5::7"),
        conditions=[CONDITION],
        spec={"loadBalancerClass": "io.cilium/bgp-control-plane"},
        work=(
            CILIUM_POOLS,
            {
                "apiVersion": "cilium.io/v2",
                "kind": "CiliumLoadBalancerIPPool",
                "metadata": {"name": "blue"},
                "spec": {"blocks": []},
            },
        ),
    ),
    Shape(
        "cloud",
        "a cloud controller",
        "acme-cloud-controller-manager",
        rows("203.0.113.8"),
        {"finalizers": [FINALIZER]},
        work=workload("Deployment", "acme-ccm", "registry.example.com/acme-cloud-controller-manager:v1.33.0"),
    ),
]
each = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    gates = ["--feature-gates", "IPv6DualStack=true"] if api_server.slices_version().endswith("v1beta1") else []
    one = api_server.ApiServer(tmp_path_factory.mktemp("apiserver-moving"), "10.7.0.0/16,fd03:4::/112", gates)
    try:
        one.start()
        client = one.client()
        for name in (SPACE, SYSTEM):
            client.create(
                "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "kubectl"
            )
        client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD, "kubectl")
        deadline = time.monotonic() + 60
        while client.resource("cilium.io/v2", "CiliumLoadBalancerIPPool", refresh=True) is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield one
    finally:
        one.stop()


@pytest.fixture
def api(server):
    client = server.client()
    yield client
    for item in client.list(SERVICES).items:
        path = SERVICES + "/" + item["metadata"]["name"]
        client.merge_patch(path, {"metadata": {"finalizers": None}}, "kubectl")
        client.delete(path)
    for shape in SHAPES:
        shape.stop(client)
    for item in client.list(f"/api/v1/namespaces/{SPACE}/events").items:
        client.delete(f"/api/v1/namespaces/{SPACE}/events/{item['metadata']['name']}")
    client.delete(CONFIGMAPS + "/metal-ccm-static-pool")


def run(server, check=False, more=None, **settings):
    given = dict(
        {
            "cluster": "aws",
            "load_balancer": "empty://",
            "pool": POOL,
            "gc_orphans": True,
            "load_balancer_classes": ["io.cilium/bgp-control-plane"],
        },
        **settings,
    )
    return load_balancers.run(
        dict({"fabric": "t", "clusters": [server.access()], "settings": [given], "timeout": 60}, **(more or {})),
        check=check,
    )


def adopting(server, check=False, **settings):
    return run(server, check, {"adopt": True, "events": True}, **settings)


def get(client, name="web"):
    return client.get(SERVICES + "/" + name)


def ledger(client):
    found = client.list(CONFIGMAPS, field_selector="metadata.name=metal-ccm-static-pool").items
    return {
        row["address"]: row["service"] for item in found for row in map(json.loads, (item.get("data") or {}).values())
    }


def events(client):
    return [
        item
        for item in client.list(f"/api/v1/namespaces/{SPACE}/events").items
        if item["source"].get("component") == "multicluster.network"
    ]


def managers(obj):
    return {row["manager"] for row in obj["metadata"]["managedFields"]}


def marked(obj):
    """What of a former controller is on a Service, but for the finalizer."""
    meta, found = obj["metadata"], set()
    found |= {key for key in meta.get("annotations") or {} if key.startswith(("metallb.", "kube-vip."))}
    found |= {key for key in meta.get("labels") or {} if key in ("implementation", "ipam-address")}
    return found | {row["type"] for row in obj["status"].get("conditions") or () if "cilium" in row["type"]}


@each
def test_moving_here(server, api, shape):
    """Nothing is taken unasked; a run in check mode shows what would be; addresses stay; what the former one left goes when it is gone."""
    shape.make(api)
    shape.start(api)
    before, mark = get(api), server.mark()
    addresses = [row["ip"] for row in shape.ingress]
    if not shape.field:
        result = run(server)
        ((reason, message),) = {(row["reason"], row["message"]) for row in result["refused"]}
        assert (
            reason == "adoptable"
            and message.startswith(shape.title + " gave it " + addresses[0])
            and "load_balancers_adopt: true" in message
        )
    result = adopting(server, check=True)
    assert get(api) == before and server.writes(mark) == [] and not result["failures"] and not result["refused"]
    assert [row["id"] for row in result["plan"]["changes"] if row["kind"] == "Reservation"] == ["aws/moving/web"] * len(
        addresses
    )
    assert all(address in result["diff"]["after"] for address in addresses) and shape.title in result["diff"]["after"]
    assert not [row for row in result["plan"]["changes"] if row["kind"] == "Service status"]

    result = adopting(server)
    (row,) = result["load_balancers"]["aws"]["former"]
    assert (row["service"], row["from"], row["removed"]) == ("moving/web", shape.name, False) and len(
        row["at_work"]
    ) == 1
    assert any(shape.title + " is at work (" + row["at_work"][0] in text for text in result["warnings"])
    assert ledger(api) == dict.fromkeys(addresses, "moving/web")
    now = get(api)
    assert now["status"] == before["status"] and marked(now) == marked(before) and set(marked(now)) == set(row["left"])
    assert result["load_balancers"]["aws"]["announce"] == sorted(
        address + ("/128" if ":" in address else "/32") for address in addresses
    )
    mark = server.mark()
    assert not adopting(server)["changed"] and server.writes(mark) == []

    shape.stop(api)
    shown = adopting(server, check=True)["load_balancers"]["aws"]["former"]
    assert [(row["at_work"], row["removed"]) for row in shown] == [([], bool(marked(before)))] and marked(
        get(api)
    ) == marked(before)
    result = adopting(server)
    now = get(api)
    assert (
        not result["failures"]
        and marked(now) == set()
        and now["status"]["loadBalancer"] == before["status"]["loadBalancer"]
    )
    assert now["metadata"]["annotations"] == {"example.com/own": "stays"} and now["metadata"]["labels"] == {
        "app": "web"
    }
    assert ledger(api) == dict.fromkeys(addresses, "moving/web")
    for more in ({}, {"adopt": True}):
        mark = server.mark()
        assert not run(server, more=more)["changed"] and server.writes(mark) == []
    # a finalizer of it keeps nobody: the Service can be deleted
    api.delete(SERVICES + "/web")
    run(server, more={"confirm_empty": ["aws"]})
    with pytest.raises(NotFound):
        get(api)
    assert ledger(api) == {}


@each
def test_and_back(server, api, shape):
    """What was taken over is left for the next one: the same status, and nothing that we own."""
    shape.make(api)
    adopting(server)
    before = get(api)
    assert ledger(api)
    keep = {"cloud": "field"}.get(shape.name, shape.name)
    request = {"state": "absent", "keep_addresses": keep}
    mark = server.mark()
    assert run(server, True, request)["changed"] and server.writes(mark) == [] and get(api) == before
    assert (
        run(server, more=dict(request, release=False))["load_balancers"]["aws"]["announce"] == []
        and server.writes(mark) == []
    )
    result = run(server, more=request)
    now = get(api)
    assert not result["failures"] and now["status"]["loadBalancer"] == before["status"]["loadBalancer"]
    assert (
        ledger(api) == {} and not any(name.startswith("multicluster") for name in managers(now)) and events(api) == []
    )
    assert FINALIZER not in now["metadata"].get("finalizers", ())
    both = ",".join(row["ip"] for row in shape.ingress)
    asking = {"metallb": "metallb.io/loadBalancerIPs", "cilium": "lbipam.cilium.io/ips"}.get(shape.name)
    if asking:
        assert (
            now["metadata"]["annotations"] == {"example.com/own": "stays", asking: both}
            and "loadBalancerIP" not in now["spec"]
        )
    else:  # the field asks; kube-vip's own is still there
        assert now["spec"]["loadBalancerIP"] == shape.ingress[0]["ip"]
    mark = server.mark()
    assert not run(server, more=request)["changed"] and server.writes(mark) == []
    # it is another one's now: without a setting of the user's we do not take it again
    if not now["spec"].get("loadBalancerIP"):
        assert {row["reason"] for row in run(server)["refused"]} == {"adoptable"} and get(api) == now


@pytest.mark.parametrize("keep", ["status", "field", "metallb", "kube-vip", "cilium"])
def test_owned_addresses_are_left_for_whoever_comes(server, api, keep):
    """Services that never had another controller, with owned Events, also one with an address that its owner wrote himself."""
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "ipFamilyPolicy": "RequireDualStack"}
    for name, field in (("web", ""), ("own", "203.0.113.9")):
        given = dict(spec, **({"loadBalancerIP": field, "ipFamilyPolicy": "SingleStack"} if field else {}))
        api.create(
            SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": given}, "kubectl"
        )
    adopting(server)
    before = {name: get(api, name)["status"] for name in ("web", "own")}
    assert len(events(api)) == 2 and [row["ip"] for row in before["web"]["loadBalancer"]["ingress"]] == [
        "203.0.113.0",
        "2001:db8:5::",
    ]
    run(server, more={"state": "absent", "keep_addresses": keep})
    web, own = get(api, "web"), get(api, "own")
    assert {"web": web["status"], "own": own["status"]} == before and ledger(api) == {} and events(api) == []
    assert not any(name.startswith("multicluster") for name in managers(web) | managers(own))
    assert (
        web["spec"].get("loadBalancerIP") == ("203.0.113.0" if keep == "field" else None)
        and own["spec"]["loadBalancerIP"] == "203.0.113.9"
    )
    asking = {
        "metallb": "metallb.io/loadBalancerIPs",
        "kube-vip": "kube-vip.io/loadbalancerIPs",
        "cilium": "lbipam.cilium.io/ips",
    }.get(keep)
    assert web["metadata"].get("annotations", {}) == ({asking: "203.0.113.0,2001:db8:5::"} if asking else {})
    # MetalLB serves no Service that has both
    assert not own["metadata"].get("annotations")
    # and to us again, who asks
    result = adopting(server)
    assert (
        not result["refused"]
        and set(ledger(api)) == {"203.0.113.0", "2001:db8:5::", "203.0.113.9"}
        and get(api, "web")["status"] == before["web"]
    )


def test_without_a_setting_addresses_go(server, api):
    SHAPES[0].make(api)
    adopting(server)
    run(server, more={"state": "absent"})
    assert not get(api)["status"]["loadBalancer"] and ledger(api) == {} and events(api) == []


def test_what_cannot_be_kept_is_refused_before_anything_is_written(server, api):
    SHAPES[0].make(api)
    adopting(server)
    mark = server.mark()
    for balancer, keep in ((f"metallb:///{SYSTEM}/config", "status"), ("kube-vip://", "metallb")):
        (failure,) = run(server, more={"state": "absent", "keep_addresses": keep}, load_balancer=balancer)["failures"]
        assert failure["reason"] == "bad_setting" and "load_balancers_keep_addresses" in failure["message"]
    assert server.writes(mark) == []


def test_a_controller_scaled_to_nothing_is_not_at_work(server, api):
    shape = SHAPES[0]
    shape.make(api)
    path, body = workload("Deployment", "speaker", "quay.io/metallb/controller:v0.16.1")
    api.create(path, dict(body, spec=dict(body["spec"], replicas=0)), "kubectl")
    try:
        assert adopting(server)["load_balancers"]["aws"]["former"][0]["removed"] and marked(get(api)) == set()
    finally:
        api.delete(path + "/speaker")


def test_the_back_end_is_no_former_controller(server, api):
    """What announces for us writes its marks as ever, and they stay."""
    SHAPES[1].make(api)
    SHAPES[1].start(api)
    before = marked(get(api))
    for dummy in range(2):
        result = adopting(server, load_balancer="kube-vip://")
        assert result["load_balancers"]["aws"]["former"] == [] and not any(
            "is at work" in text for text in result["warnings"]
        )
        assert marked(get(api)) == before
        SHAPES[1].stop(api)


def test_the_pod_of_a_control_plane_is_seen(server, api):
    """kube-vip often is a static pod, which no workload shows."""
    SHAPES[1].make(api)
    pods = "/api/v1/namespaces/kube-system/pods"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kube-vip-node-1", "annotations": {"kubernetes.io/config.mirror": "1"}},
        "spec": {
            "nodeName": "node-1",
            "automountServiceAccountToken": False,
            "containers": [{"name": "kube-vip", "image": "ghcr.io/kube-vip/kube-vip:v1.2.3"}],
        },
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    api.create("/api/v1/nodes", node, "kubelet")
    api.create(pods, pod, "kubelet")
    try:
        (row,) = adopting(server)["load_balancers"]["aws"]["former"]
        assert row["at_work"] == ["Pod kube-system/kube-vip-node-1"] and not row["removed"]
        api.merge_patch(pods + "/kube-vip-node-1/status", {"status": {"phase": "Failed"}}, "kubelet")
        assert adopting(server)["load_balancers"]["aws"]["former"][0]["removed"]
    finally:
        api.delete(pods + "/kube-vip-node-1")
        api.delete("/api/v1/nodes/node-1")


def test_hostile_marks(server, api):
    """Marks are anybody's words: they give no address of another's, and take nothing but themselves."""
    web = SHAPES[0]
    web.make(api)
    adopting(server)
    Shape(
        "metallb",
        "MetalLB",
        "controller",
        rows("203.0.113.5"),
        {"annotations": {"metallb.io/ip-allocated-from-pool": "x"}},
    ).make(api, "thief")
    Shape(
        "metallb",
        "MetalLB",
        "controller",
        rows("198.51.100.9"),
        {"annotations": {"metallb.io/ip-allocated-from-pool": "x"}},
    ).make(api, "outside")
    Shape("kube-vip", "kube-vip", "somebody", rows("203.0.113.14"), {"labels": {"ipam-address": "mine"}}).make(
        api, "label"
    )
    before = {name: get(api, name) for name in ("thief", "outside")}
    result = adopting(server)
    assert {(row["object"], row["reason"]) for row in result["refused"]} == {
        ("service aws/moving/thief", "claimed_twice"),
        ("service aws/moving/outside", "outside_grant"),
    }
    assert {name: get(api, name) for name in before} == before
    assert get(api, "label")["metadata"]["labels"]["ipam-address"] == "mine"  # by itself it has no effect
    assert set(ledger(api).values()) == {"moving/web", "moving/label"}


def test_the_account_of_moving_suffices_and_without_it_marks_stay(server, api, tmp_path):
    SHAPES[0].make(api)
    SHAPES[2].make(api, "two")
    for capability, removed in (("load_balancers", False), ("load_balancers_moving", True)):
        made = {
            "fabric": "t",
            "clusters": [server.access()],
            "objects": access_manifests([capability], target_namespace="kube-system"),
        }
        assert not cluster_objects.run(made)["failures"]
        try:
            request = {
                "fabric": "t",
                "clusters": [server.access()],
                "service_account": "multicluster-" + capability.replace("_", "-"),
                "namespace": "kube-system",
                "path": str(tmp_path / capability),
                "expires": 3600,
                "renew_before": 60,
                "state": "present",
            }
            assert not cluster_token.run(request)["failures"]
            access = {"clusters": [{"name": "aws", "kubeconfig": str(tmp_path / capability)}], "adopt": True}
            result = run(server, more=access)
            assert (
                not result["failures"]
                and [row["removed"] for row in result["load_balancers"]["aws"]["former"]] == [removed] * 2
            )
            assert any("could not be seen" in text for text in result["warnings"]) != removed
            if removed:
                assert (
                    not run(server, more=dict(access, state="absent", keep_addresses="status"))["failures"]
                    and events(api) == []
                )
        finally:
            cluster_objects.run(dict(made, state="absent"))


def test_a_service_that_asks_for_another_address_keeps_the_one_in_use(server, api):
    """Also a hostile one, which asks for that of somebody else: nothing moves, the run reports it, and one that is made anew gets what it asks for."""
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    for name in ("web", "other"):
        api.create(
            SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}, "kubectl"
        )
    run(server)
    assert ledger(api) == {"203.0.113.0": "moving/other", "203.0.113.1": "moving/web"}
    for asked in ("203.0.113.9", "203.0.113.0", "198.51.100.1"):
        api.merge_patch(
            SERVICES + "/web", {"metadata": {"annotations": {"metallb.io/loadBalancerIPs": asked}}}, "kubectl"
        )
        mark = server.mark()
        result = run(server)
        assert not result["changed"] and server.writes(mark) == [] and not result["refused"]
        assert any(f"moving/web: it asks for {asked} and has 203.0.113.1" in text for text in result["warnings"])
    api.delete(SERVICES + "/web")
    run(server)
    again = {"name": "web", "annotations": {"metallb.io/loadBalancerIPs": "203.0.113.9"}}
    api.create(SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": again, "spec": spec}, "kubectl")
    run(server)
    assert ledger(api) == {"203.0.113.0": "moving/other", "203.0.113.9": "moving/web"}
