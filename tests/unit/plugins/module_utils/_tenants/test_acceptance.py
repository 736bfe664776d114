# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the mapping is accepted by: one test for each item of the list."""

from __future__ import annotations

import builtins
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._tenants.converge import Result
from ansible_collections.multicluster.network.plugins.module_utils._tenants.links import (
    parse_interface_id,
    parse_network_id,
)
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import (
    APINET,
    ONMETAL,
    SOURCE,
    Options,
    parse_options,
)
from ansible_collections.multicluster.network.plugins.module_utils._tenants.store import MemoryStore, StoreError, key_of
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

from .tenant_world import NAMESPACE, NOW, World, converged, interface, interface_twin, machines, source, tenant

Object = dict[str, t.Any]
LATER = "2026-01-02T04:00:00Z"
LINK = ONMETAL.link_prefix


def settled(extra: t.Sequence[Object] = (), apinet: t.Sequence[Object] = ()) -> World:
    world = World(tenant() + list(extra), machines() + list(apinet))
    world.settle()
    return world


def options(**more: t.Any) -> Options:
    return parse_options(dict({"apinet_namespace": NAMESPACE, "max_deletes": -1}, **more))


def run(world: World, now: str = NOW, **more: t.Any) -> Result:
    return converged({SOURCE: world.source, APINET: world.apinet}, options(**more), now)


def found(world: World, side: str, kind: str, name: str) -> Object:
    obj = world.get(side, kind, name)
    assert obj is not None, (side, kind, name)
    return obj


def request_deletion(world: World, kind: str, name: str) -> None:
    world.source.delete(key_of(found(world, SOURCE, kind, name)))


def test_provider_ids_four_parts_optional_prefix_node_checked_nothing_else() -> None:
    assert parse_interface_id("onmetal-api-net://a/b/c/d") == parse_interface_id("a/b/c/d") == ("a", "b", "c", "d")
    assert parse_network_id("//// "[:3]) == ("", "", "", "") and parse_network_id("A b/c/!/ ") == ("A b", "c", "!", " ")
    for text, reason in (
        ("a/b/c", "segment_count"),
        ("a/b/c/d/", "segment_count"),
        ("a/b/c\n/d", "invalid_node"),
        ("a/b/C/d", "invalid_node"),
        ("a/b//d", "invalid_node"),
        ("Onmetal-api-net://a/b/c/d", "segment_count"),
    ):
        with pytest.raises(ValueRefused) as error:
            parse_interface_id(text)
        assert error.value.reason == reason, text
    assert parse_interface_id(f"a/b/{'n' * 253}/d").node


def test_the_second_run_writes_nothing_on_both_servers() -> None:
    world = settled()
    before = world.writes
    assert not world.sync().done
    assert not [entry for result in world.network_side() for entry in result.done]
    assert world.writes == before


def test_the_finalizer_comes_first_and_without_it_there_is_no_deletion_work() -> None:
    world = World([source("Network", "net-1", "net-uid")], [])
    result = run(world)
    assert [(entry.step.side, entry.step.key.kind) for entry in result.done][:2] == [
        (SOURCE, "Network"),
        (APINET, "Network"),
    ]
    gone = source("Network", "net-1", "net-uid")
    gone["metadata"].update(deletionTimestamp=NOW, finalizers=["other"])
    world = World(
        [gone],
        [{"apiVersion": ONMETAL.apinet, "kind": "Network", "metadata": {"namespace": NAMESPACE, "name": "net-uid"}}],
    )
    run(world)
    assert world.writes == 0 and world.get(APINET, "Network", "net-uid")


def test_a_provider_id_is_never_overwritten_and_available_never_downgraded() -> None:
    preset = source("Network", "net-1", "net-uid", {"providerID": "whatever"}, status={"state": "Available"})

    def refuse(_verb: str, key: t.Any, _obj: t.Any) -> None:
        if key.kind == "Network":
            raise StoreError("Invalid", "no")

    world = World([preset, source("Network", "net-2", "net-2-uid", status={"state": "Error"})], [], admit=refuse)
    result = run(world)
    assert len(result.failed) == 2
    assert found(world, SOURCE, "Network", "net-1")["status"]["state"] == "Available"
    assert found(world, SOURCE, "Network", "net-2")["status"]["state"] == "Pending"
    world.apinet._admit = None
    world.settle()
    assert found(world, SOURCE, "Network", "net-1")["spec"]["providerID"] == "whatever"


def test_load_balancers_public_and_internal_names_gaps_and_controlled_prefixes() -> None:
    def prefix(name: str, owner: str) -> Object:
        made = source("Prefix", name, name + "-uid", {"ipFamily": "IPv4", "prefix": f"10.1.0.{name[-1]}/32"})
        made["metadata"]["ownerReferences"] = [{"uid": owner, "controller": True}]
        return dict(made, status={"phase": "Allocated"})

    spec = {
        "type": "Internal",
        "networkRef": {"name": "net-1"},
        "ipFamilies": ["IPv4"],
        "ips": [{"ephemeral": {}}, {"ephemeral": {}}, {"value": "10.1.0.9"}],
    }
    world = settled(
        [source("LoadBalancer", "own", "own-uid", spec), prefix("own-0", "somebody"), prefix("own-1", "own-uid")]
    )
    ips = found(world, APINET, "LoadBalancer", "own-uid")["spec"]["ips"]
    assert [(entry["name"], entry["ip"]) for entry in ips] == [("ip-1", "10.1.0.1"), ("ip-2", "10.1.0.9")]
    public = found(world, APINET, "LoadBalancer", "lb-uid")["spec"]["ips"]
    assert [entry["name"] for entry in public] == ["ipv4", "ipv6"]


def test_what_the_network_side_allocated_survives_every_apply() -> None:
    world = settled()
    before = {
        kind: found(world, APINET, kind, name)["spec"]
        for kind, name in (
            ("Network", "net-uid"),
            ("IP", "vip-uid"),
            ("LoadBalancer", "lb-uid"),
            ("NATGateway", "nat-uid"),
        )
    }
    assert before["Network"]["id"] and before["IP"]["claimRef"] and before["NATGateway"]["ips"][0]["ip"]
    run(world, always_apply=True)
    for kind, name in (
        ("Network", "net-uid"),
        ("IP", "vip-uid"),
        ("LoadBalancer", "lb-uid"),
        ("NATGateway", "nat-uid"),
    ):
        assert found(world, APINET, kind, name)["spec"] == before[kind]


def test_the_routing_twin_always_exists_and_an_unparsable_target_keeps_its_destination() -> None:
    routing = dict(
        source("LoadBalancerRouting", "lb-2", "lbr2-uid"),
        networkRef={"name": "net-1", "uid": "net-uid"},
        destinations=[
            {"ip": "10.0.0.1", "targetRef": {"uid": "x", "name": "x", "providerID": "ironcore-net://a/b/c/d"}}
        ],
    )
    world = settled(
        [
            source(
                "LoadBalancer",
                "bare",
                "bare-uid",
                {"type": "Public", "ipFamilies": ["IPv4"], "networkRef": {"name": "net-1"}},
            ),
            routing,
        ]
    )
    assert "destinations" not in found(world, APINET, "LoadBalancerRouting", "bare-uid")
    assert found(world, APINET, "LoadBalancerRouting", "lb2-uid")["destinations"] == [{"ip": "10.0.0.1"}]


def test_the_autoscaler_has_its_limits_and_owner_and_a_missing_port_count_is_2048() -> None:
    world = settled()
    scaler = found(world, APINET, "NATGatewayAutoscaler", "nat-uid")
    gateway = found(world, APINET, "NATGateway", "nat-uid")
    assert (scaler["spec"]["minPublicIPs"], scaler["spec"]["maxPublicIPs"]) == (1, 10)
    assert scaler["metadata"]["ownerReferences"][0]["uid"] == gateway["metadata"]["uid"]
    assert gateway["spec"]["portsPerNetworkInterface"] == 2048


def test_interfaces_match_by_uid_and_release_what_they_held_and_nothing_else() -> None:
    world = settled()
    twin = found(world, APINET, "NetworkInterface", "t1")
    world.apinet.patch(
        key_of(twin),
        {
            "metadata": {"labels": {"pool": "x"}},
            "spec": {"natGateways": [{"ipFamily": "IPv6", "claimRef": {"name": "g", "uid": "g"}}]},
        },
    )
    source_one = key_of(found(world, SOURCE, "NetworkInterface", "nic-1"))
    # other names and another node, the same uid: still owned
    world.source.patch(source_one, {"spec": {"providerID": "other/other/other/t1-uid"}})
    run(world)
    assert (
        found(world, APINET, "NetworkInterface", "t1")["metadata"]["labels"][LINK + "networkinterface-uid"]
        == "nic-1-uid"
    )
    # nic-2 cannot have it
    world.source.patch(
        key_of(found(world, SOURCE, "NetworkInterface", "nic-2")), {"spec": {"providerID": "a/b/c/t1-uid"}}
    )
    run(world)
    assert (
        found(world, APINET, "NetworkInterface", "t1")["metadata"]["labels"][LINK + "networkinterface-uid"]
        == "nic-1-uid"
    )
    assert found(world, SOURCE, "NetworkInterface", "nic-2")["status"]["state"] == "Pending"
    world.source.patch(source_one, {"spec": {"providerID": None}})
    world.source.patch(key_of(found(world, SOURCE, "NetworkInterface", "nic-2")), {"spec": {"providerID": None}})
    run(world)
    twin = found(world, APINET, "NetworkInterface", "t1")
    assert (
        twin["metadata"]["labels"] == {"pool": "x"}
        and not twin["spec"].get("publicIPs")
        and not twin["spec"].get("prefixes")
    )
    assert [entry["claimRef"]["uid"] for entry in twin["spec"]["natGateways"]] == ["g"]


def test_a_virtual_ip_is_claimed_even_while_the_interface_is_pending() -> None:
    world = World(
        [
            source("VirtualIP", "vip", "vip-uid", {"type": "Public", "ipFamily": "IPv4"}),
            interface("nic", "nic-uid", virtual_ip="vip"),
        ],
        [],
    )
    run(world)
    assert found(world, SOURCE, "VirtualIP", "vip")["spec"]["targetRef"] == {"name": "nic", "uid": "nic-uid"}
    assert found(world, SOURCE, "NetworkInterface", "nic")["status"]["state"] == "Pending"


def test_a_public_address_is_named_by_itself_and_takes_the_nat_claim_of_its_family_away_in_one_patch() -> None:
    twin = interface_twin(
        "t9",
        "net-uid",
        natGateways=[{"ipFamily": family, "claimRef": {"name": "g", "uid": "g"}} for family in ("IPv4", "IPv6")],
    )
    patches: list[t.Any] = []

    def watch(verb: str, key: t.Any, obj: t.Any) -> None:
        if key.name == "t9" and verb == "patch":
            families = [
                [entry["ipFamily"] for entry in obj["spec"].get(field) or ()] for field in ("publicIPs", "natGateways")
            ]
            patches.append(families)
            assert not set(families[0]) & set(families[1])

    virtual_ip = source(
        "VirtualIP", "v9", "v9-uid", {"type": "Public", "ipFamily": "IPv4"}, status={"ip": "203.0.113.9"}
    )
    world = World(
        [source("Network", "net-1", "net-uid"), virtual_ip, interface("nic-9", "nic-9-uid", "t9", virtual_ip="v9")],
        [twin],
        admit=watch,
    )
    run(world)
    assert patches[-1] == [["IPv4"], ["IPv6"]]
    assert found(world, APINET, "NetworkInterface", "t9")["spec"]["publicIPs"] == [
        {"name": "203.0.113.9", "ipFamily": "IPv4", "ip": "203.0.113.9"}
    ]


def test_the_status_shows_only_ipv4_and_its_time_changes_only_with_the_state() -> None:
    world = settled()
    twin = key_of(found(world, APINET, "NetworkInterface", "t1"))
    before = found(world, SOURCE, "NetworkInterface", "nic-1")["status"]["lastStateTransitionTime"]
    world.apinet.patch(twin, {"status": {"publicIPs": ["2001:db8::1", "203.0.113.3"]}}, True)
    run(world, LATER)
    status = found(world, SOURCE, "NetworkInterface", "nic-1")["status"]
    assert (status["virtualIP"], status["lastStateTransitionTime"]) == ("203.0.113.3", before)
    world.apinet.patch(twin, {"status": {"publicIPs": ["2001:db8::1"], "state": "Error"}}, True)
    run(world, LATER)
    status = found(world, SOURCE, "NetworkInterface", "nic-1")["status"]
    assert "virtualIP" not in status and (status["state"], status["lastStateTransitionTime"]) == ("Error", LATER)


class Unreachable(MemoryStore):
    """A server with a list of networks that fails."""

    def list(self, api_version: str, kind: str, within: str = "") -> builtins.list[Object]:
        if kind == "Network":
            raise StoreError("Forbidden", kind)
        return super().list(api_version, kind, within)


def test_collection_goes_by_labels_and_never_beyond_its_namespaces_nor_after_a_failed_list() -> None:
    def twin(name: str, within: str, of: str, **more: str) -> Object:
        marks = {LINK + "network-name": "gone", LINK + "network-namespace": of}
        return {
            "apiVersion": ONMETAL.apinet,
            "kind": "Network",
            "metadata": {"namespace": within, "name": name, "labels": dict(marks, **more)},
        }

    twins = [
        twin("here", NAMESPACE, "team-a"),
        twin("elsewhere", "other", "team-a"),
        twin("unwatched", NAMESPACE, "team-b"),
    ]
    bare = twin("bare", NAMESPACE, "team-a")
    del bare["metadata"]["labels"][LINK + "network-name"]
    world = World([source("Network", "net-1", "net-uid")], twins + [bare])
    unreachable = Unreachable(world.source.all())
    converged({SOURCE: unreachable, APINET: world.apinet}, options(watch_namespace="team-a"))
    assert world.writes == 0
    run(world, watch_namespace="team-a", collect=False)
    assert world.get(APINET, "Network", "here")
    run(world, watch_namespace="team-a")
    assert not world.get(APINET, "Network", "here")
    assert all(world.get(APINET, "Network", name) for name in ("elsewhere", "unwatched", "bare"))


@pytest.mark.parametrize("kind", ["Network", "VirtualIP", "LoadBalancer", "NATGateway", "NetworkInterface"])
def test_managed_by_and_the_watch_filter_are_respected_everywhere(kind: str) -> None:
    for unselected in (
        {"annotations": {ONMETAL.managed_by_annotation: ""}},
        {"labels": {ONMETAL.watch_filter_label: "other"}},
        {},
    ):
        objects = tenant()
        for obj in objects:
            obj["metadata"].setdefault("labels", {})[ONMETAL.watch_filter_label] = "mine"
            if obj["kind"] == kind:
                obj["metadata"].update(deletionTimestamp=NOW, finalizers=[ONMETAL.finalizer(kind)])
                obj["metadata"].pop("labels")
                obj["metadata"].update(unselected)
        world = World(objects, machines())
        before = [obj for obj in world.source.all() if obj["kind"] == kind]
        run(world, watch_filter="mine")
        after = [obj for obj in world.source.all() if obj["kind"] == kind]
        # an interface that is mapped still claims the virtual IP that it names
        assert [obj["metadata"]["finalizers"] for obj in after] == [obj["metadata"]["finalizers"] for obj in before]
        assert [obj.get("status") for obj in after] == [obj.get("status") for obj in before]


def test_one_failing_object_does_not_stop_the_rest_and_is_listed() -> None:
    def refuse(_verb: str, key: t.Any, _obj: t.Any) -> None:
        if key.name == "lb-uid":
            raise StoreError("Invalid", "not this one")

    world = World(tenant(), machines(), admit=refuse)
    result = run(world)
    assert [(outcome.kind, outcome.key.name) for outcome in result.failed] == [("LoadBalancer", "lb-1")]
    assert all(
        world.get(APINET, kind, name)
        for kind, name in (
            ("Network", "net-uid"),
            ("IP", "vip-uid"),
            ("LoadBalancer", "lb2-uid"),
            ("NATGateway", "nat-uid"),
        )
    )
