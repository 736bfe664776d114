# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The store in memory keeps the contract; merge patches are exact; audits see what is there."""

from __future__ import annotations

import builtins
import json
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.tenants import info
from ansible_collections.multicluster.network.plugins.module_utils._tenants.fields import merge_patched
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import APINET, SOURCE
from ansible_collections.multicluster.network.plugins.module_utils._tenants.store import MemoryStore, StoreError, key_of
from ansible_collections.multicluster.network.plugins.module_utils._tenants.view import View
from hypothesis import given, strategies as st

from .store_contract import CONTRACT
from .tenant_world import OPTIONS, World, machines, read, source, tenant

SCALARS = st.one_of(st.booleans(), st.integers(0, 9), st.text(max_size=3), st.lists(st.integers(0, 3), max_size=3))
TREES = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(SCALARS, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_size=3,
)


@pytest.mark.parametrize("rule", CONTRACT, ids=lambda rule: rule.__name__)
def test_contract(rule: t.Callable[[MemoryStore, str], None]) -> None:
    rule(MemoryStore(), "apinet-system")


@given(TREES, TREES)
def test_a_merge_patch_takes_and_gives(before: dict[str, t.Any], after: dict[str, t.Any]) -> None:
    assert merge_patched(before, dict.fromkeys(before)) == {}
    patched = merge_patched(before, after)
    assert merge_patched(patched, after) == patched and set(patched) == set(before) | set(after)


def test_dependents_go_with_their_owner() -> None:
    world = World(tenant(), machines())
    world.settle()
    balancer = world.get(APINET, "LoadBalancer", "lb-uid") or {}
    world.apinet.delete(key_of(balancer))
    assert not [obj for obj in world.apinet.all() if "lb-uid" in obj["metadata"]["name"]]


def test_audit() -> None:
    world = World(tenant(), machines())
    world.settle()
    view = read({SOURCE: world.source, APINET: world.apinet}, OPTIONS)
    found = info.targets_of_interfaces(view)
    assert [target.load_balancer for target in found["t1"]] == ["lb-uid"]
    assert "t2" not in found
    assert info.served_by(view) == {"t2": ["nat-uid"]}
    assert not info.orphans(view)
    gone = [obj for obj in world.source.all() if obj["kind"] != "VirtualIP"]
    assert info.orphans(View(gone, world.apinet.all(), OPTIONS)) == [info.Orphan("IP", "vip-uid", "source_gone")]


class Dead(MemoryStore):
    def list(self, api_version: str, kind: str, within: str = "") -> builtins.list[dict[str, t.Any]]:
        raise StoreError("Unreachable", "down")


def test_without_the_network_side_only_networks_that_were_not_ready_change() -> None:
    ready = dict(source("Network", "ready", "r"), status={"state": "Available"})
    world = World([ready] + tenant(), [])
    world.apinet = Dead()
    result = world.sync()
    assert len(result.failed) == 8
    assert {key.name for _verb, key in world.source.writes} == {"net-1"}
    assert (world.get(SOURCE, "Network", "net-1") or {})["status"] == {"state": "Pending"}


def test_without_the_source_nothing_is_concluded() -> None:
    world = World(tenant(), machines())
    world.settle()
    before = world.apinet.all()
    world.source = Dead()
    result = world.sync()
    assert world.apinet.all() == before
    assert {side for side, _kind in result.unread} == {SOURCE}


def test_the_renamed_project_is_the_same_with_other_names() -> None:
    def renamed(objects: t.Sequence[t.Any]) -> list[dict[str, t.Any]]:
        text = json.dumps(objects).replace("networking.api.onmetal.de", "networking.ironcore.dev")
        text = text.replace("ipam.api.onmetal.de", "ipam.ironcore.dev").replace(
            "apinet.api.onmetal.de", "apinet.ironcore.dev"
        )
        text = text.replace("apinetlet.api.onmetal.de", "apinetlet.ironcore.dev").replace(
            "onmetal-api-net://", "ironcore-net://"
        )
        return t.cast(list[dict[str, t.Any]], json.loads(text))

    from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import IRONCORE

    worlds = [
        World(tenant(), machines()),
        World(renamed(tenant()), renamed(machines()), OPTIONS._replace(profile=IRONCORE)),
    ]
    for world in worlds:
        assert not world.settle().failed
    assert renamed(worlds[0].state()) == worlds[1].state()
