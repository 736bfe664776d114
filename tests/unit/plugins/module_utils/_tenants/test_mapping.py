# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mapping over two servers in memory: order, repetition, failures, deletion."""

from __future__ import annotations

import builtins
import copy
import itertools
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.object_plan import Key
from ansible_collections.multicluster.network.plugins.module_utils._tenants.claims import apply_claims
from ansible_collections.multicluster.network.plugins.module_utils._tenants.converge import predict
from ansible_collections.multicluster.network.plugins.module_utils._tenants.fields import get
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import (
    APINET,
    ONMETAL,
    SOURCE,
    needed,
    parse_options,
)
from ansible_collections.multicluster.network.plugins.module_utils._tenants.store import MemoryStore, StoreError, key_of
from hypothesis import given, settings, strategies as st

from .tenant_world import (
    NAMESPACE,
    NOW,
    OPTIONS,
    World,
    converged,
    interface,
    interface_twin,
    machines,
    read,
    source,
    tenant,
)

SMALL = settings(max_examples=25, deadline=None)


def fill(obj: dict[str, t.Any], _before: t.Any) -> dict[str, t.Any]:
    """A network side that answers at once, the same for the same name."""
    kind, spec = obj["kind"], obj.setdefault("spec", {})
    if not obj["metadata"].get("uid"):
        obj["metadata"]["uid"] = f"{kind.lower()}-{obj['metadata']['name']}"
    if kind == "Network":
        spec.setdefault("id", str(200 + sum(obj["metadata"]["name"].encode())))
    if kind == "IP":
        spec.setdefault("ip", "203.0.113.5")
    for index, entry in enumerate(spec.get("ips") or [] if kind == "LoadBalancer" else []):
        entry.setdefault("ip", "203.0.113.7" if entry["ipFamily"] == "IPv4" else f"2001:db8::{index}")
    return obj


def answering(sources: t.Sequence[t.Any], apinet: t.Sequence[t.Any], **more: t.Any) -> World:
    return World(sources, apinet, fill=fill, **more)


def settle(world: World) -> None:
    for _turn in range(10):
        before = world.writes
        result = world.sync()
        if world.writes == before:
            assert not result.failed
            return
    raise AssertionError("it does not settle")


REFERENCE = answering(tenant(), machines())
settle(REFERENCE)


def test_one_call_settles_a_whole_tenant_and_the_second_writes_nothing() -> None:
    world = answering(tenant(), machines())
    result = world.sync()
    assert result.settled
    assert not result.failed
    assert not result.refused
    before = world.writes
    again = world.sync()
    assert world.writes == before
    assert {outcome.action for outcome in again.outcomes} <= {"unchanged", "pending"}
    assert again.passes == 1


def test_a_prediction_is_the_first_pass_and_writes_nothing() -> None:
    world = answering(tenant(), machines())
    stores = {SOURCE: world.source, APINET: world.apinet}
    found = predict(read(stores, OPTIONS), NOW, apply_claims)
    assert not world.writes
    assert found.done == predict(read(stores, OPTIONS), NOW, apply_claims).done
    first = converged(stores, OPTIONS, limit=1)
    assert [entry.step for entry in found.done] == [entry.step for entry in first.done]
    assert {entry.step.action for entry in found.done} == {"created", "updated"}
    settle(world)
    assert not predict(read(stores, OPTIONS), NOW, apply_claims).done


def test_the_prediction_of_a_take_over_lists_all_that_it_writes() -> None:
    """What hangs on a twin, too: a twin that is only noted as another program's has what it shall already."""
    made = World(tenant(), machines())
    made.settle()
    twins = made.apinet.all()
    for twin in twins:
        if twin["kind"] not in ("Node", "NetworkInterface"):
            twin["metadata"]["managedFields"] = [
                {"manager": ONMETAL.field_manager, "operation": "Apply", "fieldsV1": {"f:spec": {}}}
            ]
    owned = OPTIONS._replace(profile=ONMETAL._replace(field_manager="multicluster.network/t"), adopt=True)
    world = World(made.source.all(), twins, owned)
    stores = {SOURCE: world.source, APINET: world.apinet}
    planned = [entry.step.key for entry in predict(read(stores, owned), NOW, apply_claims).done]
    assert {"LoadBalancer", "LoadBalancerRouting", "NATGateway", "NATGatewayAutoscaler"} <= {
        key.kind for key in planned
    }
    result = world.sync()
    assert sorted({entry.step.key for entry in result.done}) == sorted(planned) and not result.failed


@SMALL
@given(st.permutations(list(range(len(tenant()) + 2))), st.sets(st.integers(0, 10)))
def test_the_order_of_creation_does_not_matter(order: list[int], pauses: set[int]) -> None:
    things = [(SOURCE, obj) for obj in tenant()] + [(APINET, obj) for obj in machines()[:2]]
    world = answering([], machines()[2:])
    for number, index in enumerate(order):
        side, obj = things[index]
        (world.source if side == SOURCE else world.apinet).create(obj)
        if number in pauses:
            world.sync()
    settle(world)
    assert world.state() == REFERENCE.state()


@SMALL
@given(st.integers(0, 25))
def test_a_server_that_dies_half_way_leaves_nothing_wrong(after: int) -> None:
    world = answering(tenant(), machines())
    left = [after]

    def admit(_verb: str, key: Key, _obj: t.Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise StoreError("Unreachable", "gone")

    world.source._admit = world.apinet._admit = admit
    world.sync()
    world.source._admit = world.apinet._admit = None
    settle(world)
    assert world.state() == REFERENCE.state()


def test_each_list_is_read_once() -> None:
    world = answering(tenant(), machines())
    settle(world)
    calls: list[t.Any] = []
    for side, store in ((SOURCE, world.source), (APINET, world.apinet)):
        original = store.list
        store.list = lambda group, kind, within="", side=side, original=original: (  # type: ignore[method-assign]
            calls.append((side, kind)) or original(group, kind, within)
        )
    world.sync()
    assert sorted(calls) == needed(OPTIONS)
    assert len(calls) == len(set(calls))


class Broken(MemoryStore):
    """A server that does not answer for some kinds."""

    kinds: t.Container[str] = ()

    def list(self, api_version: str, kind: str, within: str = "") -> builtins.list[dict[str, t.Any]]:
        if kind in self.kinds:
            raise StoreError("Forbidden", kind)
        return super().list(api_version, kind, within)


@pytest.mark.parametrize("kind", sorted({kind for side, kind in needed(OPTIONS) if side == SOURCE}))
def test_a_list_that_fails_deletes_and_shortens_nothing(kind: str) -> None:
    world = answering(tenant(), machines())
    settle(world)
    broken = Broken(world.source.all())
    broken.kinds = (kind,)
    before = world.apinet.all()
    result = converged({SOURCE: broken, APINET: world.apinet}, OPTIONS)
    assert world.apinet.all() == before
    assert not broken.writes
    assert {reason.reason for outcome in result.failed for reason in outcome.failures} <= {"source_incomplete"}


@pytest.mark.parametrize("kind", sorted({kind for side, kind in needed(OPTIONS) if side == APINET}))
def test_a_list_of_the_network_side_that_fails(kind: str) -> None:
    world = answering(tenant(), machines())
    settle(world)
    broken = Broken(world.apinet.all())
    broken.kinds = (kind,)
    converged({SOURCE: world.source, APINET: broken}, OPTIONS)
    assert not [write for write in broken.writes if write[0] in ("delete", "create")]


def test_one_failing_object_does_not_stop_the_others() -> None:
    hostile = source("LoadBalancer", "lb-x", "lbx-uid", {"type": "Other", "networkRef": {"name": "net-1"}})
    wrong = source("Network", "net-x", "netx-uid", {"peerings": 7})
    wrong["spec"] = "text"
    world = answering(tenant() + [hostile, wrong], machines())
    result = world.sync()
    failed = {outcome.key.name: outcome.failures[0].reason for outcome in result.failed}
    assert failed == {"lb-x": "invalid_type"}
    rest = [obj for obj in world.state() if obj["metadata"]["name"] not in ("lb-x", "net-x", "netx-uid")]
    assert rest == REFERENCE.state()


def unique_addresses(holder: list[World]) -> t.Callable[[str, Key, t.Any], None]:
    def admit(_verb: str, key: Key, obj: t.Any) -> None:
        for entry in get(obj, "spec", "publicIPs") or []:
            for other in holder[0].apinet.all():
                if key_of(other) != key and entry in (get(other, "spec", "publicIPs") or []):
                    raise StoreError("Invalid", "the address is in use")

    return admit


def test_two_interfaces_swap_their_addresses_although_the_server_refuses_a_second_user() -> None:
    holder: list[World] = []
    addresses = {"vip-1": "203.0.113.1", "vip-2": "203.0.113.2"}
    sources = [
        dict(source("VirtualIP", name, name, {"type": "Public", "ipFamily": "IPv4"}), status={"ip": address})
        for name, address in addresses.items()
    ]
    sources += [
        source("Network", "net-1", "net-uid"),
        interface("nic-1", "nic-1", "t1", virtual_ip="vip-1"),
        interface("nic-2", "nic-2", "t2", virtual_ip="vip-2"),
    ]
    options = parse_options({"apinet_namespace": NAMESPACE, "kinds": ["NetworkInterface"]})
    world = World(sources, machines()[:2], options, admit=unique_addresses(holder))
    holder.append(world)
    settle(world)
    for nic, virtual_ip in (("nic-1", "vip-2"), ("nic-2", "vip-1")):
        key = key_of(world.get(SOURCE, "NetworkInterface", nic) or {})
        world.source.patch(key, {"spec": {"virtualIP": {"virtualIPRef": {"name": virtual_ip}}}})
    settle(world)
    found = [get(world.get(APINET, "NetworkInterface", twin), "spec", "publicIPs")[0]["ip"] for twin in ("t1", "t2")]
    assert found == ["203.0.113.2", "203.0.113.1"]


def test_of_two_interfaces_that_want_one_twin_the_first_by_name_gets_it() -> None:
    world = answering(
        [source("Network", "net-1", "net-uid"), interface("b", "b", "t1"), interface("a", "a", "t1")], machines()
    )
    result = world.sync()
    assert get(world.get(SOURCE, "NetworkInterface", "a"), "status", "state") == "Available"
    waiting = {outcome.key.name: [reason.reason for reason in outcome.reasons] for outcome in result.outcomes}
    assert waiting["b"] == ["twin_claimed"]


# -- deletion


def delete_all(world: World, names: t.Sequence[str]) -> None:
    for obj in sorted(world.source.all(), key=lambda obj: names.index(obj["metadata"]["name"] + obj["kind"])):
        world.source.delete(key_of(obj))
        settle(world)


NAMES = ["net-1Network", "vip-1VirtualIP", "nic-1NetworkInterface", "lb-1LoadBalancer", "nat-1NATGateway"]
REST = ["nic-2NetworkInterface", "lb-2LoadBalancer", "lb-1LoadBalancerRouting"]


@pytest.mark.parametrize("collector", [True, False])
@pytest.mark.parametrize("number", range(0, 120, 11))
def test_deletion_in_any_order_leaves_nothing(number: int, collector: bool) -> None:
    order = list(itertools.permutations(NAMES))[number]
    world = answering(tenant(), machines(), garbage_collector=collector)
    settle(world)
    delete_all(world, list(order) + REST)
    assert not world.source.all()
    left = [obj for obj in world.apinet.all() if obj["kind"] not in ("Node", "NetworkInterface")]
    assert not left
    for twin in world.apinet.list("core.apinet.api.onmetal.de/v1alpha1", "NetworkInterface"):
        assert not twin["metadata"].get("labels")
        assert not get(twin, "spec", "publicIPs")


def test_the_virtual_ip_is_free_again_only_with_the_switch() -> None:
    for switches, free in (([], False), (["vip_release"], True)):
        options = parse_options({"apinet_namespace": NAMESPACE, "switches": switches})
        world = answering(tenant(), machines(), options=options)
        settle(world)
        world.source.delete(key_of(interface("nic-1", "nic-1-uid")))
        settle(world)
        assert (get(world.get(SOURCE, "VirtualIP", "vip-1"), "spec", "targetRef") is None) is free


def test_a_recreated_source_gets_its_twin_back_only_with_the_switch() -> None:
    for switches, state in (([], "Pending"), (["stale_uid"], "Available")):
        options = parse_options({"apinet_namespace": NAMESPACE, "switches": switches, "max_deletes": -1})
        world = answering(
            [source("Network", "net-1", "net-uid"), interface("nic-1", "old", "t1")], machines(), options=options
        )
        settle(world)
        sources = [source("Network", "net-1", "net-uid"), interface("nic-1", "new", "t1")]
        world.source = MemoryStore(sources)
        settle(world)
        assert get(world.get(SOURCE, "NetworkInterface", "nic-1"), "status", "state") == state


def test_an_empty_source_deletes_nothing_without_confirmation() -> None:
    options = parse_options({"apinet_namespace": NAMESPACE})
    networks = [source("Network", f"n{number}", f"u{number}") for number in range(3)]
    world = answering(networks, [], options=options)
    settle(world)
    world.source = MemoryStore([])
    result = world.sync()
    assert {reason.reason for outcome in result.outcomes for reason in outcome.reasons} == {"delete_budget"}
    assert len(world.apinet.all()) == 3
    world.options = options._replace(confirm_empty=True, max_deletes=0)
    assert {reason.reason for outcome in world.sync().outcomes for reason in outcome.reasons} == {"delete_budget"}
    assert len(world.apinet.all()) == 3
    world.options = options._replace(confirm_empty=True)
    settle(world)
    assert not world.apinet.all()


def test_no_kinds_are_all_kinds() -> None:
    assert parse_options({"apinet_namespace": NAMESPACE, "kinds": []}) == parse_options({"apinet_namespace": NAMESPACE})


# -- switches


def peered() -> list[dict[str, t.Any]]:
    sources = []
    for name, other in (("a", "b"), ("b", "a")):
        spec = {
            "peerings": [{"name": "to-" + other, "networkRef": {"namespace": "team-" + other, "name": "net"}}],
            "incomingPeerings": [{"namespace": "team-" + other, "name": "net", "uid": "uid-" + other}],
        }
        sources.append(source("Network", "net", "uid-" + name, spec, "team-" + name))
    return sources


PEERING = parse_options({"apinet_namespace": NAMESPACE, "switches": ["peering"], "max_deletes": -1})


def test_peerings_of_both_sides_and_a_peer_that_loses_its_id_stays() -> None:
    world = answering(peered(), [], options=PEERING)
    settle(world)
    twin = world.get(APINET, "Network", "uid-a") or {}
    assert get(twin, "spec", "peerings") == [{"name": "to-b", "id": str(200 + sum(b"uid-b"))}]
    # the peer's twin vanishes and cannot be made again: nothing is taken from the live list
    world.apinet.delete(key_of(dict(twin, metadata=dict(twin["metadata"], name="uid-b"))))

    def admit(_verb: str, key: Key, _obj: t.Any) -> None:
        if key.name == "uid-b":
            raise StoreError("Forbidden", "no")

    world.apinet._admit = admit
    result = world.sync()
    assert get(world.get(APINET, "Network", "uid-a"), "spec", "peerings") == [
        {"name": "to-b", "id": str(200 + sum(b"uid-b"))}
    ]
    assert [outcome.key.namespace for outcome in result.failed] == ["team-b"]


def test_a_peering_loses_what_its_network_does_not_say() -> None:
    world = answering(peered(), [], options=PEERING)
    settle(world)
    twin = world.get(APINET, "Network", "uid-a") or {}
    desired = get(twin, "spec", "peerings")
    edited = [dict(desired[0], prefixes=[{"name": "x", "prefix": "10.0.0.0/8"}])]
    world.apinet.patch(key_of(twin), {"spec": {"peerings": edited}})
    settle(world)
    assert get(world.get(APINET, "Network", "uid-a"), "spec", "peerings") == desired


def test_a_peering_that_is_withdrawn_goes() -> None:
    world = answering(peered(), [], options=PEERING)
    settle(world)
    key = key_of(peered()[0])
    world.source.patch(key, {"spec": {"incomingPeerings": None}})
    settle(world)
    assert not get(world.get(APINET, "Network", "uid-a"), "spec", "peerings")
    assert get(world.get(APINET, "Network", "uid-b"), "spec", "peerings")


def test_node_affinity_follows_the_targets() -> None:
    options = parse_options({"apinet_namespace": NAMESPACE, "switches": ["lb_node_affinity"]})
    world = answering(tenant(), machines(), options=options)
    settle(world)
    path = ("spec", "template", "spec", "affinity", "nodeAffinity")
    assert "node-a" in str(get(world.get(APINET, "LoadBalancer", "lb-uid"), *path))
    routing = world.get(SOURCE, "LoadBalancerRouting", "lb-1") or {}
    world.source.patch(key_of(routing), {"destinations": []})
    settle(world)
    assert get(world.get(APINET, "LoadBalancer", "lb-uid"), *path) is None
    assert not (world.get(APINET, "LoadBalancerRouting", "lb-uid") or {}).get("destinations")


def test_kinds_alone_touch_and_read_only_theirs() -> None:
    for kind in ("Network", "VirtualIP", "LoadBalancer", "NATGateway", "NetworkInterface"):
        options = parse_options({"apinet_namespace": NAMESPACE, "kinds": [kind]})
        world = answering(tenant(), machines(), options=options)
        settle(world)
        touched = {key.kind for _verb, key in world.source.writes}
        assert touched == ({kind, "VirtualIP"} if kind == "NetworkInterface" else {kind})
        assert not read({SOURCE: world.source, APINET: world.apinet}, options).unread


def test_what_the_network_side_added_survives() -> None:
    world = answering(tenant(), machines())
    settle(world)
    twin = world.get(APINET, "NATGateway", "nat-uid") or {}
    world.apinet.patch(
        key_of(twin), {"spec": {"ips": [{"name": "x", "ip": "203.0.113.9"}]}, "metadata": {"labels": {"team": "blue"}}}
    )
    world.source.patch(key_of(tenant()[-1]), {"spec": {"portsPerNetworkInterface": 64}})
    settle(world)
    after = copy.deepcopy(world.get(APINET, "NATGateway", "nat-uid") or {})
    assert after["spec"]["ips"] == [{"name": "x", "ip": "203.0.113.9"}]
    assert after["spec"]["portsPerNetworkInterface"] == 64
    assert after["metadata"]["labels"]["team"] == "blue"
    assert get(world.get(SOURCE, "NATGateway", "nat-1"), "status", "ips") == ["203.0.113.9"]


def test_a_twin_of_another_network_is_made_for_nobody() -> None:
    world = answering([interface("nic-1", "u", "t1")], [interface_twin("t1", "elsewhere")])
    assert [refusal.reason for refusal in world.sync().refused] == ["outside_grant"]
    assert not world.apinet.writes
