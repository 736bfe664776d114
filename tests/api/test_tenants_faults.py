# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers that fail and tenants that lie: reported by name, nothing shortened or deleted, and the next run converges."""

from __future__ import annotations

import random
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants import converge as tenants
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.lease import Lease, LeaseHeld, LeaseLost
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import APINET, SOURCE
from faulty_server import Faulty
from tenant_servers import FULL, NAMESPACE, TEAM, interface, make_namespace, nodes, seed, source

OTHER = "team-b"
GROUPS = ("networking.api.onmetal.de", "ipam.api.onmetal.de", "core.apinet.api.onmetal.de")
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
FAULTS = {
    "dies half way": {7: "dead"},
    "conflicts": dict.fromkeys(range(3, 9), 409),
    "errors for ever": dict.fromkeys(range(4, 500), 500),
    "answers lost": dict.fromkeys(range(2, 60, 4), "cut"),
}
CASES = [(name, side) for name in FAULTS for side in (SOURCE, APINET)]
CHOSEN = [("dies half way", APINET), ("answers lost", SOURCE)]
LISTS = [(SOURCE, "Network"), (SOURCE, "VirtualIP"), (SOURCE, "Prefix"), (APINET, "NetworkInterface"), (APINET, "IP")]


def through(lab, side, relay):
    """A request that meets the relay instead of one server."""
    request = lab.request(switches=["vip_release"])
    request["clusters"][0 if side == SOURCE else 1]["api_url"] = relay.url
    return request


@pytest.mark.parametrize("name, side", CASES if FULL else CHOSEN, ids=lambda text: text.replace(" ", "_"))
def test_the_next_run_converges(tenant, side, name):
    """Half of the tenant is new, half is being deleted, while one server fails."""
    for kind, gone in (("LoadBalancer", "lb-1"), ("VirtualIP", "vip-1"), ("NATGateway", "nat-1")):
        tenant.delete(SOURCE, kind, TEAM, gone)
    for number in range(4):
        tenant.create(SOURCE, source("Network", f"more-{number}", {}))
        tenant.create(SOURCE, source("VirtualIP", f"more-{number}", {"type": "Public", "ipFamily": "IPv4"}))
    with Faulty(tenant.servers[side], FAULTS[name]) as relay:
        result = tenants.run(through(tenant, side, relay))
        assert relay.met, "the fault was never met"
    if name in ("dies half way", "errors for ever"):
        assert result["failures"] and all(row["reason"] and row["message"] for row in result["failures"])
    tenant.settle(switches=["vip_release"])
    assert sorted(obj["metadata"]["name"] for obj in tenant.list(SOURCE, "Network")) == [
        "more-0",
        "more-1",
        "more-2",
        "more-3",
        "net-1",
    ]
    ids = [obj["spec"]["id"] for obj in tenant.list(APINET, "Network")]
    addresses = [obj["status"]["ip"] for obj in tenant.list(SOURCE, "VirtualIP")]
    assert len(set(ids)) == 5 and len(set(addresses)) == 4
    assert tenant.get(SOURCE, "NetworkInterface", TEAM, "nic-2")["status"]["state"] == "Available"
    assert [obj["metadata"]["name"] for obj in tenant.list(SOURCE, "LoadBalancer")] == ["lb-2"]
    assert tenant.clients[APINET].list(LEASES).items == []


def limited(lab, side, kind):
    """A user who may do all but list one kind, on one side."""
    user = f"no-{kind.lower()}"
    group = lab.profile.group_version(side, kind).partition("/")[0]
    kinds = [
        obj["name"] for obj in lab.clients[side].get("/apis/" + lab.profile.group_version(side, kind))["resources"]
    ]
    plural = lab.path(side, kind).rpartition("/")[2]
    groups = [
        {"apiGroups": [group], "resources": [name for name in kinds if name != plural], "verbs": ["*"]},
        {
            "apiGroups": ["coordination.k8s.io"] + [name for name in GROUPS if name != group],
            "resources": ["*"],
            "verbs": ["*"],
        },
    ]
    rbac = "/apis/rbac.authorization.k8s.io/v1/"
    client = lab.clients[side]
    client.delete(rbac + "clusterroles/" + user)
    client.delete(rbac + "clusterrolebindings/" + user)
    meta = {"metadata": {"name": user}}
    client.create(
        rbac + "clusterroles",
        dict(meta, apiVersion="rbac.authorization.k8s.io/v1", kind="ClusterRole", rules=groups),
        "test",
    )
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
    client.create(
        rbac + "clusterrolebindings",
        dict(
            meta,
            apiVersion="rbac.authorization.k8s.io/v1",
            kind="ClusterRoleBinding",
            roleRef=reference,
            subjects=subjects,
        ),
        "test",
    )
    request = lab.request()
    request["clusters"][0 if side == SOURCE else 1]["impersonate_user"] = user
    return request


@pytest.mark.parametrize("side, kind", LISTS if FULL else LISTS[1::2])
def test_nothing_is_concluded_from_a_list_that_fails(tenant, side, kind):
    mark = tenant.mark()
    result = tenants.run(limited(tenant, side, kind))
    assert [row["reason"] for row in result["failures"]] == ["source_incomplete"] and result["failures"][0][
        "status"
    ] == 403
    assert result["plan"]["delete"] == 0
    assert [write for write in tenant.writes(mark)[APINET] if write[1].startswith("/apis/core")] == []
    assert [write for write in tenant.writes(mark)[SOURCE] if write[1].startswith("/apis/networking")] == []


def test_a_server_that_is_down(lab):
    lab.create(SOURCE, source("Network", "net-1", {}))
    lab.create(SOURCE, source("VirtualIP", "vip-1", {"type": "Public", "ipFamily": "IPv4"}))
    lab.settle()
    lab.create(SOURCE, source("Network", "net-2", {}))
    mark = lab.mark()
    for index in (0, 1):
        request = lab.request(timeout=3)
        request["clusters"][index]["api_url"] = "https://127.0.0.1:1"
        result = tenants.run(request)
        assert result["failures"] and {row["cause"] for row in result["failures"] if "cause" in row} == {"unreachable"}
        if index == 0:
            assert lab.writes(mark) == {SOURCE: [], APINET: []}
    states = {obj["metadata"]["name"]: obj.get("status", {}).get("state") for obj in lab.list(SOURCE, "Network")}
    assert states["net-1"] == "Available" and states["net-2"] != "Available"
    assert lab.get(SOURCE, "VirtualIP", TEAM, "vip-1")["status"]["ip"]
    lab.settle()


def test_one_object_that_cannot_be_mapped(lab):
    lab.create(SOURCE, source("Network", "net-1", {}))
    lab.create(
        SOURCE,
        source("LoadBalancer", "odd", {"type": "Other", "ipFamilies": ["IPv4"], "networkRef": {"name": "net-1"}}),
    )
    lab.create(SOURCE, source("VirtualIP", "vip-1", {"type": "Public", "ipFamily": "IPv4"}))
    result = lab.sync()
    assert [row["operation"] for row in result["failures"]] == ["map LoadBalancer team-a/odd"]
    assert result["objects"]["failed"] == 1 and len(lab.list(APINET, "IP")) == len(lab.list(APINET, "Network")) == 1


def test_tenants_who_name_what_is_anothers(tenant):
    """A crafted provider ID, a routing into another's network, and a peering that only one side wants."""
    make_namespace(tenant.servers[SOURCE], OTHER)
    mine = tenant.get(SOURCE, "NetworkInterface", TEAM, "nic-1")
    victim = tenant.get(APINET, "NetworkInterface", NAMESPACE, mine["metadata"]["uid"])
    tenant.create(SOURCE, source("Network", "net-1", {}, OTHER))
    thief = interface("thief", "192.168.178.1", namespace=OTHER)
    thief["spec"]["providerID"] = mine["spec"]["providerID"]
    tenant.create(SOURCE, thief)
    tenant.create(SOURCE, interface("honest", "10.0.0.2", namespace=OTHER))
    spec = {"type": "Public", "ipFamilies": ["IPv4"], "networkRef": {"name": "net-1"}}
    tenant.create(SOURCE, source("LoadBalancer", "lb", spec, OTHER))
    network = tenant.get(SOURCE, "Network", OTHER, "net-1")["metadata"]
    target = {"uid": mine["metadata"]["uid"], "name": "nic-1", "providerID": mine["spec"]["providerID"]}
    tenant.create(
        SOURCE,
        source(
            "LoadBalancerRouting",
            "lb",
            namespace=OTHER,
            networkRef={"name": "net-1", "uid": network["uid"]},
            destinations=[{"ip": "192.168.178.1", "targetRef": target}],
        ),
    )
    own = tenant.get(SOURCE, "Network", TEAM, "net-1")["metadata"]
    tenant.patch(
        SOURCE,
        "Network",
        OTHER,
        "net-1",
        {
            "spec": {
                "peerings": [{"name": "p", "networkRef": {"namespace": TEAM, "name": "net-1"}}],
                "incomingPeerings": [{"namespace": TEAM, "name": "net-1", "uid": own["uid"]}],
            }
        },
    )
    result = tenant.settle(switches=["vip_release", "peering"])
    refused = {row["object"]: row["reason"] for row in result["refused"]}
    assert refused["NetworkInterface team-b/thief"] == refused["LoadBalancerRouting team-b/lb"] == "outside_grant"
    after = tenant.get(APINET, "NetworkInterface", NAMESPACE, mine["metadata"]["uid"])
    assert {key: after[key] for key in ("spec", "metadata")} == {key: victim[key] for key in ("spec", "metadata")}
    balancer = tenant.get(SOURCE, "LoadBalancer", OTHER, "lb")["metadata"]["uid"]
    assert tenant.get(APINET, "LoadBalancerRouting", NAMESPACE, balancer)["destinations"] == [{"ip": "192.168.178.1"}]
    assert not tenant.get(APINET, "Network", NAMESPACE, network["uid"]).get("spec", {}).get("peerings")
    # the attachment helper does not fall for it either
    done = tenant.attach(interfaces=[{"namespace": OTHER, "name": "honest", "node": "node-b"}], require_ready=False)
    assert done["failures"] == [] and done["plan"]["create"] == 1


def test_twins_of_the_original_are_adopted_only_on_request(lab):
    lab.create(SOURCE, source("Network", "net-1", {}))
    assert lab.sync(use_original_manager=True)["failures"] == []
    ident = lab.get(SOURCE, "Network", TEAM, "net-1")["metadata"]["uid"]
    lab.patch(APINET, "Network", NAMESPACE, ident, {"spec": {"id": "300"}})
    mark = lab.mark()
    result = lab.sync()
    assert [(row["object"], row["reason"]) for row in result["refused"]] == [("Network team-a/net-1", "adoptable")]
    assert lab.writes(mark) == {SOURCE: [], APINET: []}
    assert (
        lab.sync(adopt=True)["settled"] and lab.get(SOURCE, "Network", TEAM, "net-1")["status"]["state"] == "Available"
    )
    record = {
        entry["manager"]
        for entry in lab.get(APINET, "Network", NAMESPACE, ident)["metadata"]["managedFields"]
        if entry["operation"] == "Apply"
    }
    assert record == {"multicluster.network/t"}
    mark = lab.mark()
    result = lab.sync()
    assert result["refused"] == [] and lab.writes(mark)[APINET] == [], "what was taken over once is not asked for again"
    # a stranger's object under the name of a twin is nobody's to take
    made = lab.create(SOURCE, source("Network", "net-2", {}))
    stranger = {
        "apiVersion": lab.profile.apinet,
        "kind": "Network",
        "metadata": {"namespace": NAMESPACE, "name": made["metadata"]["uid"]},
    }
    lab.create(APINET, dict(stranger, spec={}))
    assert [row["reason"] for row in lab.sync(adopt=False)["refused"] if "net-2" in row["object"]] == ["not_ours"]


def test_a_twin_that_is_as_desired_is_adopted_for_good(lab):
    """Nothing differs, so nothing was written, and the next run without adoption refused it again; its deletion hung."""
    lab.create(SOURCE, source("VirtualIP", "vip-9", {"type": "Public", "ipFamily": "IPv4"}))
    lab.sync(use_original_manager=True)
    lab.allocate()
    lab.sync(use_original_manager=True)
    mark = lab.mark()
    assert [row["reason"] for row in lab.sync()["refused"]] == ["adoptable"] and lab.writes(mark)[APINET] == []
    assert lab.sync(check=True, adopt=True)["plan"]["update"] >= 1
    assert lab.sync(adopt=True)["plan"]["update"] >= 1
    mark = lab.mark()
    result = lab.sync()
    assert result["refused"] == [] and not result["changed"] and lab.writes(mark)[APINET] == []
    lab.delete(SOURCE, "VirtualIP", TEAM, "vip-9")
    lab.sync()
    assert [obj["metadata"]["name"] for obj in lab.list(SOURCE, "VirtualIP")] == []


def test_any_order_on_real_servers(lab):
    """The orders in memory are many; a few here, with runs in between."""
    states = []
    for number in range(3 if FULL else 2):
        lab.clear()
        order = seed()
        random.Random(number).shuffle(order)
        for obj in nodes():
            lab.create(APINET, obj)
        for index, obj in enumerate(order):
            lab.create(SOURCE, obj)
            if index % 3 == number:
                assert lab.sync()["failures"] == []
        lab.settle()
        states.append(
            {
                (obj["kind"], obj["metadata"]["name"]): (
                    sorted(obj["metadata"]["finalizers"]),
                    obj.get("status", {}).get("state"),
                )
                for kind in ("Network", "VirtualIP", "LoadBalancer", "NATGateway", "NetworkInterface")
                for obj in lab.list(SOURCE, kind)
            }
        )
    assert all(state == states[0] for state in states)


def lease_version(lab):
    return lab.clients[APINET].get(LEASES + "/multicluster-network-tenants")["metadata"]["resourceVersion"]


def test_one_runner_at_a_time(lab):
    """Held, released, abandoned and lost Leases."""
    lab.create(SOURCE, source("Network", "net-1", {}))
    first = Lease(lab.clients[APINET], NAMESPACE, "multicluster-network-tenants", "test", seconds=10.0)
    first.acquire()
    first.check()
    mark = lab.mark()
    result = lab.sync(lock_wait=0)
    assert [row["reason"] for row in result["failures"]] == ["lease_held"] and not result["changed"]
    assert [write for write in lab.writes(mark)[SOURCE] if write[1].startswith("/apis/networking")] == []
    assert lab.allocate(lock_wait=0)["failures"] == []  # it has nothing to write, so it does not ask
    second = Lease(lab.clients[APINET], NAMESPACE, "multicluster-network-tenants", "test", seconds=3.0)
    with pytest.raises(LeaseHeld):
        second.acquire()
    seen, deadline = lease_version(lab), time.monotonic() + 60
    while lease_version(lab) == seen:  # it is renewed, so it never counts as abandoned
        assert time.monotonic() < deadline
        time.sleep(0.2)
    # a run that dies without notice: nobody renews, and the next takes over
    first._stop.set()
    first._thread.join()
    second.acquire(120.0)
    second.check()
    first._renewed = float("-inf")
    with pytest.raises(LeaseLost):
        first.check()
    first.release()
    second.check()
    second.release()
    assert lab.clients[APINET].list(LEASES).items == []
    assert lab.sync()["failures"] == []
