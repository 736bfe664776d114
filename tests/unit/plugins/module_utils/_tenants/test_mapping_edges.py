# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mapping at its edges: writes that are refused, entries that are null, addresses in other spellings."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._plan.object_plan import Key
from ansible_collections.multicluster.network.plugins.module_utils._tenants.fields import get
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import APINET, SOURCE
from ansible_collections.multicluster.network.plugins.module_utils._tenants.store import StoreError, key_of

from .tenant_world import NOW, interface, interface_twin, machines, source, tenant
from .test_mapping import answering, settle


def refusing(verb: str, *names: str) -> t.Callable[[str, Key, t.Any], None]:
    def admit(given: str, key: Key, _obj: t.Any) -> None:
        if given == verb and key.name in names:
            raise StoreError("Forbidden", "refused")

    return admit


def test_of_two_twins_of_a_deleted_interface_the_second_is_released_although_the_first_cannot_be() -> None:
    going = interface("nic-1", "nic-1-uid")
    going["metadata"].update(deletionTimestamp=NOW, finalizers=["apinet.api.onmetal.de/networkinterface"])
    twins = [interface_twin("t1", "net-uid"), interface_twin("t2", "net-uid")]
    for twin in twins:
        marks = {"name": "nic-1", "namespace": "team-a", "uid": "nic-1-uid"}
        twin["metadata"]["labels"] = {
            "apinetlet.api.onmetal.de/networkinterface-" + part: value for part, value in marks.items()
        }
    world = answering([going], twins, admit=refusing("patch", "t1"))
    assert [outcome.key.name for outcome in world.sync().failed] == ["nic-1"]
    assert get(world.get(APINET, "NetworkInterface", "t1"), "metadata", "labels")
    assert not get(world.get(APINET, "NetworkInterface", "t2"), "metadata", "labels")
    assert get(world.get(SOURCE, "NetworkInterface", "nic-1"), "metadata", "finalizers")


def test_a_twin_that_cannot_be_collected_fails_under_the_name_of_its_source() -> None:
    world = answering(tenant(), machines())
    settle(world)
    left = [obj for obj in world.source.all() if obj["kind"] != "VirtualIP"]
    world = answering(left, world.apinet.all(), admit=refusing("delete", "vip-uid"))
    failed = world.sync().failed
    assert [(outcome.key.kind, outcome.key.name) for outcome in failed] == [("IP", "vip-uid")]
    assert failed[0].source == Key("networking.api.onmetal.de/v1alpha1", "VirtualIP", "team-a", "vip-1")


def test_addresses_of_a_routing_are_written_in_canonical_form_and_entries_keep_their_numbers() -> None:
    objects = tenant()
    for obj in objects:
        if obj["kind"] == "LoadBalancerRouting":
            obj["destinations"] = [{"ip": "FD00:0::1"}, {"ip": "192.0.2.1"}]
        elif obj["metadata"]["name"] == "lb-2":
            obj["spec"]["ips"] = [None, {"value": "10.1.0.9"}]
        elif obj["metadata"]["name"] == "nic-2":
            obj["spec"]["prefixes"] = [None, {"ephemeral": {}}, {"value": "FD00::/64"}]
    allocated = source("Prefix", "nic-2-pf-1", "pf-uid", {"prefix": "10.9.0.7/24"}, status={"phase": "Allocated"})
    world = answering(objects + [allocated], machines())
    settle(world)
    assert get(world.get(APINET, "LoadBalancerRouting", "lb-uid"), "destinations") == [
        {"ip": "fd00::1"},
        {"ip": "192.0.2.1"},
    ]
    assert [entry["name"] for entry in get(world.get(APINET, "LoadBalancer", "lb2-uid"), "spec", "ips")] == ["ip-1"]
    for side, called, part in ((APINET, "t2", "spec"), (SOURCE, "nic-2", "status")):
        assert get(world.get(side, "NetworkInterface", called), part, "prefixes") == ["10.9.0.7/24", "FD00::/64"]


def test_an_object_that_is_sent_although_nothing_differs_keeps_its_spelling() -> None:
    world = answering(tenant(), machines())
    settle(world)
    routing = world.get(APINET, "LoadBalancerRouting", "lb-uid") or {}
    assert get(routing, "destinations")
    for side, obj in ((SOURCE, world.get(SOURCE, "LoadBalancerRouting", "lb-1") or {}), (APINET, routing)):
        text = "fd00::1" if side == SOURCE else "FD00:0::1"
        store = world.source if side == SOURCE else world.apinet
        store.patch(key_of(obj), {"destinations": [dict(obj["destinations"][0], ip=text)]})
    world.options = world.options._replace(always_apply=True)
    before = world.writes
    settle(world)
    assert world.writes == before
