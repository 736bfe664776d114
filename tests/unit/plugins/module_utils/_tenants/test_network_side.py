# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network side's own work, alone and together with the mapping."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._tenants import allocation, nat_blocks, placement
from ansible_collections.multicluster.network.plugins.module_utils._tenants.allocation import Pools
from ansible_collections.multicluster.network.plugins.module_utils._tenants.fields import get
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import APINET, ONMETAL, SOURCE
from ansible_collections.multicluster.network.plugins.module_utils._tenants.store import StoreError, key_of
from ansible_collections.multicluster.network.plugins.module_utils._tenants.view import View
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from hypothesis import given, settings, strategies as st

from .tenant_world import NAMESPACE, World, interface_twin, machines, node, source, tenant


def invariants(world: World) -> None:
    """What must hold at any time: nothing is assigned twice, and every claim is mutual."""
    held: dict[str, str] = {}
    for obj in world.apinet.list(ONMETAL.apinet, "IPAddress"):
        assert held.setdefault(obj["spec"]["ip"], obj["metadata"]["name"]) == obj["metadata"]["name"]
    users: dict[str, str] = {}
    for kind, field in (("NetworkInterface", "publicIPs"), ("LoadBalancer", "ips"), ("NATGateway", "ips")):
        for obj in world.apinet.list(ONMETAL.apinet, kind):
            for entry in get(obj, "spec", field) or []:
                if entry.get("ip") and get(obj, "spec", "type") != "Internal":
                    assert users.setdefault(entry["ip"], obj["metadata"]["uid"]) == obj["metadata"]["uid"]
    ids = [get(obj, "spec", "id") for obj in world.apinet.list(ONMETAL.apinet, "Network") if get(obj, "spec", "id")]
    assert len(ids) == len(set(ids))


def test_a_tenant_from_nothing_to_traffic_and_back() -> None:
    world = World(tenant(), machines())
    result = world.settle()
    assert {outcome.action for outcome in result.outcomes} == {"unchanged"}
    network = world.get(SOURCE, "Network", "net-1") or {}
    assert network["spec"]["providerID"] == "onmetal-api-net://{0}/net-uid/200/{1}".format(
        NAMESPACE, (world.get(APINET, "Network", "net-uid") or {})["metadata"]["uid"]
    )
    addresses = [
        get(world.get(SOURCE, kind, name), "status", "ips")
        for kind, name in (("LoadBalancer", "lb-1"), ("LoadBalancer", "lb-2"), ("NATGateway", "nat-1"))
    ]
    assert [len(found) for found in addresses] == [2, 1, 1]
    assert [get(world.get(SOURCE, "NetworkInterface", name), "status", "state") for name in ("nic-1", "nic-2")] == [
        "Available"
    ] * 2
    table = world.get(APINET, "NATTable", "nat-uid") or {}
    assert [section["targetRef"]["name"] for section in table["ips"][0]["sections"]] == ["t2"]
    placed = [
        text
        for text in (get(obj, "spec", "nodeRef", "name") for obj in world.apinet.list(ONMETAL.apinet, "Instance"))
        if text
    ]
    assert sorted(placed) == ["node-a", "node-a", "node-c", "node-c"]
    invariants(world)
    for obj in world.source.all():
        world.source.delete(key_of(obj))
    world.settle()
    for twin in world.apinet.list(ONMETAL.apinet, "NetworkInterface"):
        world.apinet.delete(key_of(twin))
    world.settle()
    assert not world.source.all()
    assert {obj["kind"] for obj in world.apinet.all()} == {"Node"}


@settings(max_examples=15, deadline=None)
@given(st.permutations(list(range(10))), st.integers(0, 60), st.booleans())
def test_any_order_with_a_crash_settles_without_handing_out_twice(
    order: list[int], after: int, collector: bool
) -> None:
    things = [(SOURCE, obj) for obj in tenant()] + [(APINET, obj) for obj in machines()[:2]]
    world = World([], machines()[2:], garbage_collector=collector)
    left = [after]

    def admit(_verb: str, _key: t.Any, _obj: t.Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise StoreError("Unreachable", "gone")

    world.apinet._admit = admit
    for index in order:
        side, obj = things[index]
        try:
            (world.source if side == SOURCE else world.apinet).create(obj)
        except StoreError:
            world.apinet.create(obj)
        if index % 3 == 0:
            world.sync()
            world.network_side()
            invariants(world)
    world.settle()  # the write that failed may have been the only one of its turn, which then looks like the last
    result = world.settle()
    assert {outcome.action for outcome in result.outcomes} == {"unchanged"}
    invariants(world)


def test_it_works_without_a_tenant_facing_server() -> None:
    desired = {
        "apiVersion": ONMETAL.apinet,
        "kind": "Network",
        "metadata": {"namespace": NAMESPACE, "name": "n"},
        "spec": {"id": "300"},
    }
    same = {
        "apiVersion": ONMETAL.apinet,
        "kind": "Network",
        "metadata": {"namespace": NAMESPACE, "name": "o"},
        "spec": {"id": "300"},
    }
    world = World([], [desired, same])
    allocated = world.network_side()[0]
    assert [(outcome.key.name, outcome.failures[0].reason) for outcome in allocated.failed] == [("o", "allocated")]
    assert world.get(APINET, "NetworkID", "300")
    assert not world.get(APINET, "NetworkID", "200")


def test_a_claim_object_made_before_a_crash_is_used() -> None:
    network = {
        "apiVersion": ONMETAL.apinet,
        "kind": "Network",
        "metadata": {"namespace": NAMESPACE, "name": "n", "uid": "u"},
    }
    claim = {
        "group": "core.apinet.api.onmetal.de",
        "resource": "networks",
        "namespace": NAMESPACE,
        "name": "n",
        "uid": "u",
    }
    held = {"apiVersion": ONMETAL.apinet, "kind": "NetworkID", "metadata": {"name": "777"}, "spec": {"claimRef": claim}}
    world = World([], [network, held])
    world.network_side()
    assert get(world.get(APINET, "Network", "n"), "spec", "id") == "777"
    world.apinet.delete(key_of(network))
    world.network_side()
    assert not world.apinet.all()


def test_pools_run_dry_and_recover() -> None:
    sources = [source("VirtualIP", name, name, {"type": "Public", "ipFamily": "IPv4"}) for name in ("a", "b", "c")]
    world = World(sources, [])
    world.pools = Pools(("203.0.113.8/31",))
    world.sync()
    failed = world.network_side()[0].failed
    assert [outcome.failures[0].reason for outcome in failed] == ["full"]
    world.source.delete(key_of(sources[0]))
    world.settle()
    assert sorted(get(obj, "status", "ip") for obj in world.source.all()) == ["203.0.113.8", "203.0.113.9"]


def test_an_address_of_others_is_refused_by_name() -> None:
    twins = [interface_twin("t1", "n", publicIPs=[{"name": "x", "ip": "203.0.113.99"}])]
    failed = World([], twins).network_side()[0].failed
    assert [outcome.failures[0].reason for outcome in failed] == ["address_unknown"]


@pytest.mark.parametrize(
    "desired", ["", "1_000", " 300", "300 ", "0x1f4", "1e3", "٣٠٠", "9" * 400, "-1", "2147483648", "+300", 300]
)
def test_network_ids_are_read_strictly(desired: object) -> None:
    try:
        found = allocation.next_id((), desired)
    except ValueRefused as error:
        assert error.reason in ("invalid_vni", "not_in_range")
    else:
        assert found == ("300" if desired == "+300" else "200")


@given(st.sets(st.integers(200, 209)), st.integers(0, 20))
def test_free_ids_are_found_with_wrap_around(taken: set[int], start: int) -> None:
    held = {str(number) for number in taken}
    try:
        found = allocation.next_id(held, None, 200, 209, start)
    except ValueRefused as error:
        assert (error.reason, len(taken)) == ("full", 10)
    else:
        assert found not in held
        assert 200 <= int(found) <= 209


@given(st.integers(-2, 70000))
def test_blocks_lie_in_the_port_space(ports: int) -> None:
    if not 1 <= ports <= 64512:
        with pytest.raises(ValueRefused):
            nat_blocks.blocks_per_address(ports)
    else:
        last = 1024 + nat_blocks.blocks_per_address(ports) * ports - 1
        assert 65535 - ports < last <= 65535


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=12),
    st.integers(0, 3),
    st.sampled_from([64512, 20000, 1]),
)
def test_nat_tables_are_stable_and_serve_each_once(given_nics: list[t.Any], count: int, ports: int) -> None:
    gateway = {
        "metadata": {"name": "gw", "uid": "gw"},
        "spec": {
            "ipFamily": "IPv4",
            "networkRef": {"name": "n"},
            "portsPerNetworkInterface": ports,
            "ips": [{"name": str(n), "ip": f"203.0.113.{n}"} for n in range(count)],
        },
    }
    nics = {name: interface_twin(f"t{name}", "n" if owned else "m") for name, owned in given_nics}
    plan = nat_blocks.plan_nat(gateway, list(nics.values()), [])
    served = [section["targetRef"]["name"] for row in plan.table for section in row["sections"]]
    blocks = [(row["ip"], section["port"]) for row in plan.table for section in row["sections"]]
    assert len(served) == len(set(served)) == len(set(blocks)) == plan.used <= plan.requested
    for nic in nics.values():
        if plan.claims[nic["metadata"]["name"]]:
            nic["spec"]["natGateways"] = [{"ipFamily": "IPv4", "claimRef": {"name": "gw", "uid": "gw"}}]
    assert nat_blocks.plan_nat(gateway, list(nics.values())[::-1], plan.table) == plan


def test_of_two_blocks_of_one_interface_the_last_is_kept() -> None:
    gateway = {
        "metadata": {"name": "gw", "uid": "gw"},
        "spec": {
            "ipFamily": "IPv4",
            "networkRef": {"name": "n"},
            "portsPerNetworkInterface": 64,
            "ips": [{"name": "a", "ip": "203.0.113.1"}],
        },
    }
    nic = interface_twin("t1", "n", natGateways=[{"ipFamily": "IPv4", "claimRef": {"name": "gw", "uid": "gw"}}])
    sections = [{"port": port, "endPort": port + 63, "targetRef": {"uid": "t1-uid"}} for port in (1024, 1152)]
    plan = nat_blocks.plan_nat(gateway, [nic], [{"ip": "203.0.113.1", "sections": sections}])
    assert [section["port"] for section in plan.table[0]["sections"]] == [1152]


def test_spread_counts_the_newcomer() -> None:
    nodes = [node("a1", "a"), node("b1", "b"), {"metadata": {"name": "none"}}]
    constraint = {"maxSkew": 1, "topologyKey": ONMETAL.zone, "labelSelector": {"matchLabels": {"lb": "x"}}}
    newcomer = {"metadata": {"labels": {"lb": "x"}}, "spec": {"topologySpreadConstraints": [constraint]}}
    placed = [{"metadata": {"labels": {"lb": "x"}}, "spec": {"nodeRef": {"name": "a1"}}}]
    assert placement.acceptable_nodes(newcomer, nodes, placed) == ["b1"]
    assert placement.acceptable_nodes(newcomer, nodes[:1], placed) == ["a1"]


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ({"key": "rack", "operator": "In", "values": ["1", "2"]}, True),
        ({"key": "rack", "operator": "NotIn", "values": ["1"]}, False),
        ({"key": "rack", "operator": "Exists"}, True),
        ({"key": "other", "operator": "DoesNotExist"}, True),
        ({"key": "rack", "operator": "Gt", "values": ["0"]}, True),
        ({"key": "rack", "operator": "Lt", "values": ["1"]}, False),
        ({"key": "rack", "operator": "Gt", "values": ["x"]}, False),
        ({"key": "rack", "operator": "Like", "values": ["1"]}, False),
        ({"key": "rack", "operator": "In"}, False),
    ],
)
def test_node_affinity(expression: dict[str, t.Any], fits: bool) -> None:
    required = {"nodeSelectorTerms": [{}, {"matchExpressions": [expression]}]}
    spec = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
    assert placement.node_fits(spec, {"metadata": {"name": "n", "labels": {"rack": "1"}}}) is fits


def test_a_load_balancer_without_listeners_or_nodes() -> None:
    world = World([obj for obj in tenant() if obj["kind"] in ("Network", "LoadBalancer")], [])
    world.settle()
    assert not world.apinet.list(ONMETAL.apinet, "Instance")
    world.apinet.create(node("node-z", "z"))
    world.settle()
    assert [get(obj, "spec", "nodeRef", "name") for obj in world.apinet.list(ONMETAL.apinet, "Instance")] == [
        "node-z"
    ] * 2
    # the node goes: what was placed there is left behind, as upstream does
    world.apinet.delete(key_of(node("node-z", "z")))
    world.settle()
    assert len(world.apinet.list(ONMETAL.apinet, "Instance")) == 2


def test_what_a_load_balancer_does_not_say_its_instances_do_not_say_either() -> None:
    """Where its type was missing a null was written, which is no text; what it said no more was kept, and sent again in each run."""
    balancer = {
        "apiVersion": ONMETAL.apinet,
        "kind": "LoadBalancer",
        "metadata": {"namespace": NAMESPACE, "name": "plain", "uid": "plain"},
    }
    world = World([], [dict(balancer, spec={"template": {}}), node("node-a", "a")])

    def template() -> t.Any:
        world.settle()
        return get(world.apinet.list(ONMETAL.apinet, "DaemonSet")[0], "spec", "template", "spec")

    plain = template()
    assert plain == {"type": "LoadBalancer", "ips": [], "loadBalancerPorts": []}
    made = world.apinet.list(ONMETAL.apinet, "DaemonSet") + world.apinet.list(ONMETAL.apinet, "Instance")
    assert len(made) == 2 and "null" not in json.dumps(made)
    term = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}, "instanceAntiAffinity": {}}
    more = {"type": "Public", "networkRef": {"name": "net"}, "template": {"spec": {"affinity": affinity}}}
    world.apinet.patch(key_of(balancer), {"spec": more})
    assert template() == dict(plain, loadBalancerType="Public", networkRef={"name": "net"}, affinity=affinity)
    world.apinet.patch(
        key_of(balancer),
        {"spec": {"type": None, "networkRef": None, "template": {"spec": {"affinity": {"nodeAffinity": None}}}}},
    )
    assert template() == dict(plain, affinity={"instanceAntiAffinity": {}})
    view = View([], world.apinet.all(), world.options)
    assert [step for turn in placement.plan_placement(view) for step in turn.steps] == []
