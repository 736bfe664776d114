# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tenant's whole life over two real API servers: from the first network to nothing left on either side."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants import info as tenants_info
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import APINET, SOURCE
from tenant_servers import FULL, NAMESPACE, TEAM, attachments, nodes, routing, seed, source


def test_the_seeds_flow(lab):
    for obj in nodes():
        lab.create(APINET, obj)
    lab.create(SOURCE, source("Network", "net-1", {}))
    lab.settle()
    network = lab.get(SOURCE, "Network", TEAM, "net-1")
    ident = network["metadata"]["uid"]
    twin = lab.get(APINET, "Network", NAMESPACE, ident)
    assert (
        twin["spec"]["id"] == "200"
        and lab.get(APINET, "NetworkID", "", "200")["spec"]["claimRef"]["uid"] == twin["metadata"]["uid"]
    )
    assert network["spec"]["providerID"] == f"onmetal-api-net://{NAMESPACE}/{ident}/200/{twin['metadata']['uid']}"
    assert network["status"]["state"] == "Available"

    for obj in seed()[1:]:
        lab.create(SOURCE, obj)
    lab.settle()
    public, internal = (lab.get(SOURCE, "LoadBalancer", TEAM, name)["status"]["ips"] for name in ("lb-1", "lb-2"))
    assert internal == ["10.1.0.9"] and [":" in address for address in public] == [False, True]
    # one running instance for each zone and load balancer
    placed = [obj["spec"].get("nodeRef", {}).get("name") for obj in lab.list(APINET, "Instance")]
    assert len(placed) == 6 and len([node for node in placed if node]) == 4
    reasons = {row["name"]: row["reasons"][0]["reason"] for row in lab.sync()["pending"]}
    assert reasons == {"nic-1": "no_provider_id", "nic-2": "no_provider_id"}

    done = lab.attach(interfaces=attachments("nic-1", "nic-2"), require_ready=False)
    assert (done["failures"], done["plan"]["create"], done["plan"]["update"]) == ([], 2, 2)
    assert not lab.attach(interfaces=attachments("nic-1", "nic-2"), require_ready=False)["changed"]
    lab.settle()
    routing(lab)
    lab.settle()

    with_ip, behind_nat = (lab.get(SOURCE, "NetworkInterface", TEAM, name) for name in ("nic-1", "nic-2"))
    address = lab.get(SOURCE, "VirtualIP", TEAM, "vip-1")["status"]["ip"]
    assert with_ip["status"]["state"] == "Available" and with_ip["status"]["virtualIP"] == address
    assert behind_nat["status"]["state"] == "Available" and "virtualIP" not in behind_nat["status"]
    twins = {
        name: lab.get(APINET, "NetworkInterface", NAMESPACE, obj["metadata"]["uid"])
        for name, obj in (("nic-1", with_ip), ("nic-2", behind_nat))
    }
    assert [entry["ip"] for entry in twins["nic-1"]["spec"]["publicIPs"]] == [address] and not twins["nic-1"][
        "spec"
    ].get("natGateways")
    gateway = lab.get(SOURCE, "NATGateway", TEAM, "nat-1")
    assert [entry["claimRef"]["name"] for entry in twins["nic-2"]["spec"]["natGateways"]] == [
        gateway["metadata"]["uid"]
    ]
    table = lab.get(APINET, "NATTable", NAMESPACE, gateway["metadata"]["uid"])["ips"]
    assert [row["ip"] for row in table] == gateway["status"]["ips"]
    assert [section["ip"] for section in table[0]["sections"]] == ["192.168.178.2"]
    balancer = lab.get(SOURCE, "LoadBalancer", TEAM, "lb-1")["metadata"]["uid"]
    target = lab.get(APINET, "LoadBalancerRouting", NAMESPACE, balancer)["destinations"][0]["targetRef"]
    assert target["nodeRef"] == {"name": "node-a"} and target["uid"] == twins["nic-1"]["metadata"]["uid"]

    info = tenants_info.run(lab.request())
    assert info["in_sync"] and info["orphans"] == [] and info["pending"] == []
    rows = {row["source"]: row for row in info["interfaces"]}
    assert [found["load_balancer"] for found in rows["team-a/nic-1"]["load_balancers"]] == [balancer]
    assert rows["team-a/nic-2"]["nat_gateways"] == [gateway["metadata"]["uid"]]
    alone = tenants_info.run({key: value for key, value in lab.request().items() if key != "source"})
    assert alone["interfaces"] == info["interfaces"] and alone["orphans"] == alone["failures"] == []


def test_nothing_is_written_when_nothing_changed(tenant):
    mark = tenant.mark()
    for result in (tenant.sync(), tenant.allocate(), tenant.schedule()):
        assert not result["changed"] and result["failures"] == []
        assert all(set(requests) <= {"list"} for requests in result["stats"]["requests"].values())
    assert tenant.writes(mark) == {SOURCE: [], APINET: []}
    mark = tenant.mark()
    tenant.sync()
    for requests in tenant.audit(mark).values():
        kinds = [path for verb, path, _status in requests]
        assert {verb for verb, _path, _status in requests} == {"list"}
        assert len(kinds) == len(set(kinds)) == 7


KINDS = {
    "Network": ["net-1"],
    "VirtualIP": ["vip-1"],
    "NetworkInterface": ["nic-1", "nic-2"],
    "LoadBalancer": ["lb-1", "lb-2"],
    "NATGateway": ["nat-1"],
}
ORDERS = list(itertools.permutations(KINDS))


def remove(lab, kind):
    for name in KINDS[kind]:
        lab.delete(SOURCE, kind, TEAM, name)
    if kind == "NetworkInterface":
        lab.attach(state="absent", interfaces=[{"namespace": TEAM, "name": name} for name in KINDS[kind]])
    if kind == "LoadBalancer":
        lab.delete(SOURCE, "LoadBalancerRouting", TEAM, "lb-1")


@pytest.mark.parametrize("order", ORDERS if FULL else ORDERS[5::38], ids="-".join)
def test_deletion_in_any_order_leaves_nothing(tenant, order):
    for kind in order:
        remove(tenant, kind)
        result = tenant.sync(switches=["vip_release"])
        assert result["failures"] == [], result["failures"]
    tenant.settle(switches=["vip_release"])
    assert tenant.left() == []
    mark = tenant.mark()
    tenant.settle()
    assert tenant.writes(mark) == {SOURCE: [], APINET: []}


def test_a_tenant_leaves_in_one_call(tenant):
    shown = tenant.sync(check=True, state="absent", watch_namespace=TEAM, switches=["vip_release"])
    assert shown["plan"]["delete"] + shown["plan"]["update"] >= 8
    tenant.attach(state="absent", detach_namespace=TEAM)
    result = tenant.sync(state="absent", watch_namespace=TEAM, switches=["vip_release"])
    assert result["failures"] == [], result["failures"]
    tenant.settle()
    assert tenant.left() == []
