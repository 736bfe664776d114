# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attaching and detaching interfaces, and which twins are written."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._tenants.attachment import (
    MARK,
    Attachment,
    attached_to,
    plan_attachment,
    plan_detachment,
)
from ansible_collections.multicluster.network.plugins.module_utils._tenants.converge import (
    Result,
    one_by_one,
    run_passes,
)
from ansible_collections.multicluster.network.plugins.module_utils._tenants.links import ADOPTABLE, UNOWNED, unowned
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import APINET, ONMETAL, SOURCE
from ansible_collections.multicluster.network.plugins.module_utils._tenants.store import key_of
from ansible_collections.multicluster.network.plugins.module_utils._tenants.view import View

from .tenant_world import NAMESPACE, OPTIONS, World, interface, interface_twin, source

DESIRED = (Attachment("team-a", "nic-1", "node-a"),)
Object = dict[str, t.Any]


def world(*more: Object, apinet: t.Sequence[Object] = ()) -> World:
    made = World([source("Network", "net-1", "net-uid"), interface("nic-1", "nic-1-uid"), *more], apinet)
    made.settle()
    return made


def run(made: World, plan: t.Callable[[View], t.Any]) -> Result:
    stores = {SOURCE: made.source, APINET: made.apinet}
    return run_passes(View(made.source.all(), made.apinet.all(), OPTIONS), plan, one_by_one(stores, OPTIONS))


def attach(made: World, ready: bool = False, desired: t.Sequence[Attachment] = DESIRED) -> Result:
    return run(made, lambda view: plan_attachment(view, desired, ready))


def reason(result: Result) -> str:
    (outcome,) = result.outcomes
    return (outcome.failures or outcome.reasons)[0].reason


def test_a_twin_then_readiness_then_the_provider_id() -> None:
    made = world()
    assert reason(attach(made, ready=True)) == "twin_not_ready"
    twin = made.get(APINET, "NetworkInterface", "nic-1-uid")
    assert twin is not None and twin["spec"] == {
        "nodeRef": {"name": "node-a"},
        "networkRef": {"name": "net-uid"},
        "ips": ["192.168.178.1"],
    }
    made.apinet.patch(key_of(twin), {"status": {"state": "Ready"}}, True)
    assert attach(made, ready=True).settled
    nic = made.get(SOURCE, "NetworkInterface", "nic-1")
    assert (
        nic is not None
        and nic["spec"]["providerID"] == f"onmetal-api-net://{NAMESPACE}/nic-1-uid/node-a/{twin['metadata']['uid']}"
    )
    before = made.writes
    attach(made, ready=True)
    assert made.writes == before
    made.settle()
    assert made.get(SOURCE, "NetworkInterface", "nic-1")["status"]["state"] == "Available"  # type: ignore[index]


def test_detaching_leaves_nothing_also_when_the_interface_is_gone() -> None:
    made = world()
    attach(made)
    made.settle()
    made.source.delete(key_of(made.get(SOURCE, "NetworkInterface", "nic-1")))  # type: ignore[arg-type]
    made.sync()
    assert made.get(SOURCE, "NetworkInterface", "nic-1") is None
    view = View(made.source.all(), made.apinet.all(), OPTIONS)
    assert attached_to(view, "team-a") == [Attachment("team-a", "nic-1")] and attached_to(view, "team") == []
    assert run(made, lambda view: plan_detachment(view, attached_to(view, "team-a"))).settled
    assert made.get(APINET, "NetworkInterface", "nic-1-uid") is None


def test_an_interface_that_got_its_name_anew_takes_no_twin_of_the_former() -> None:
    made = world()
    attach(made)
    made.settle()
    nic = made.get(SOURCE, "NetworkInterface", "nic-1")
    assert nic is not None
    made.source.patch(key_of(nic), {"metadata": {"finalizers": []}})
    made.source.delete(key_of(nic))
    made.source.create(interface("nic-1", "nic-2-uid"))
    attach(made)
    assert made.get(APINET, "NetworkInterface", "nic-1-uid") is None
    assert made.get(APINET, "NetworkInterface", "nic-2-uid")


def test_what_waits_and_what_is_refused() -> None:
    assert reason(attach(world(), desired=[Attachment("team-a", "none", "node-a")])) == "interface_missing"
    bare = World([source("Network", "net-1", "net-uid"), interface("nic-1", "nic-1-uid")], [])
    assert reason(attach(bare)) == "network_not_available"
    made = world()
    attach(made)
    assert reason(attach(made, desired=[Attachment("team-a", "nic-1", "node-b")])) == "attached_elsewhere"
    assert reason(attach(world(apinet=[interface_twin("nic-1-uid", "net-uid")]))) == "not_ours"
    pool = world(apinet=[interface_twin("t1", "net-uid")])
    pool.source.patch(
        key_of(pool.get(SOURCE, "NetworkInterface", "nic-1")), {"spec": {"providerID": "a/b/node-a/t1-uid"}}
    )  # type: ignore[arg-type]
    assert reason(attach(pool)) == "attached_elsewhere"
    assert reason(run(pool, lambda view: plan_detachment(view, DESIRED))) == "not_ours"
    ephemeral = interface("nic-1", "nic-1-uid")
    ephemeral["spec"]["ips"] = [{"ephemeral": {}}]
    waiting = World([source("Network", "net-1", "net-uid"), ephemeral], [])
    waiting.settle()
    assert reason(attach(waiting)) == "prefix_not_allocated"


@pytest.mark.parametrize(
    "given", ["x", "a/b/4711", "{ns}/other-uid/200/{uid}", "{ns}/net-uid/200/another", "elsewhere/net-uid/200/{uid}"]
)
def test_a_network_with_a_false_provider_id(given: str) -> None:
    made = world(source("Network", "net-2", "other-uid"))
    twin = made.get(APINET, "Network", "net-uid")
    assert twin is not None
    text = given.format(ns=NAMESPACE, uid=twin["metadata"]["uid"])
    made.source.patch(key_of(made.get(SOURCE, "Network", "net-1")), {"spec": {"providerID": text}})  # type: ignore[arg-type]
    assert reason(attach(made)) in ("outside_grant", "segment_count")
    assert made.get(APINET, "NetworkInterface", "nic-1-uid") is None


def test_owner_of_a_twin() -> None:
    owned = OPTIONS._replace(profile=ONMETAL._replace(field_manager="multicluster.network/t"))

    def twin(labels: t.Mapping[str, str], *managers: tuple[str, str]) -> Object:
        noted = [{"manager": manager, "operation": operation} for manager, operation in managers]
        return {"metadata": {"name": "u", "labels": dict(labels), "managedFields": noted}}

    link = {f"apinetlet.api.onmetal.de/network-{part}": part for part in ("name", "namespace", "uid")}
    assert unowned("Network", twin({}), owned) == ""
    assert unowned("Network", twin({}, ("multicluster.network/t", "Apply"), ("kubectl", "Update")), owned) == ""
    assert unowned("Network", twin({}, ("multicluster.network/t", "Update")), owned) == UNOWNED
    assert unowned("Network", twin({}, (ONMETAL.field_manager, "Apply")), owned) == ADOPTABLE
    assert unowned("Network", twin(link, ("velero", "Update")), owned) == ADOPTABLE
    assert unowned("Network", twin({}, ("kubectl", "Apply")), owned) == UNOWNED
    assert unowned("Network", twin({}, ("kubectl", "Apply")), owned._replace(adopt=True)) == ""


def test_attachments_are_marked() -> None:
    made = world()
    attach(made)
    assert made.get(APINET, "NetworkInterface", "nic-1-uid")["metadata"]["annotations"] == {MARK: "team-a/nic-1"}  # type: ignore[index]
