# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tenant who reaches for what is another's: refused by reason, and the other tenant sees nothing of it (T23)."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._tenants.options import ONMETAL, parse_options
from ansible_collections.multicluster.network.plugins.module_utils._tenants.store import key_of

from .tenant_world import NAMESPACE, NOW, World, interface_twin, machines, tenant

FIXTURE = pathlib.Path(__file__).resolve().parents[4] / "fixtures" / "hostile" / "tenants.json"
HOSTILE = json.loads(FIXTURE.read_text("utf-8"))["cases"]
OPTIONS = parse_options(
    {"apinet_namespace": NAMESPACE, "switches": ["peering", "vip_release", "stale_uid"], "max_deletes": -1}
)


def fill(obj: dict[str, t.Any], _before: t.Any) -> dict[str, t.Any]:
    if obj["kind"] == "Network" and obj["metadata"]["name"] == "net-uid":
        obj.setdefault("spec", {}).setdefault("id", "4711")
    if obj["kind"] == "IP":
        obj["spec"].setdefault("ip", "203.0.113.5")
    return obj


def evil(given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    meta = {"namespace": "evil", "name": given["name"], "uid": given["uid"]}
    if given.get("deleting"):
        meta.update(deletionTimestamp=NOW, finalizers=[ONMETAL.finalizer(given["kind"])])
    parts = {key: value for key, value in given.items() if key in ("spec", "destinations")}
    return dict(parts, apiVersion=ONMETAL.source, kind=given["kind"], metadata=meta)


def honest() -> World:
    world = World(tenant(), machines() + [interface_twin("free", "net-uid")], OPTIONS, fill=fill)
    for _turn in range(3):
        world.sync()
    return world


def seen(world: World) -> list[dict[str, t.Any]]:
    """What is the honest tenant's: all but what names the hostile one."""
    return [obj for obj in world.state() if "evil" not in json.dumps(obj)]


REFERENCE = seen(honest())


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case["why"])
def test_hostile_tenants(case: t.Mapping[str, t.Any]) -> None:
    world = honest()
    for given in case["objects"]:
        obj = evil(given)
        world.source._put(key_of(obj), obj)
    for _turn in range(3):
        result = world.sync()
    words = {refusal.reason for refusal in result.refused}
    assert words == ({case["word"]} if case["word"] else set())
    assert all("evil" in refusal.object for refusal in result.refused)
    assert seen(world) == REFERENCE
    for obj in world.apinet.all():
        if "evil" in json.dumps(obj):
            assert "t1-uid" not in json.dumps(obj)
            assert not (obj.get("spec") or {}).get("peerings")
            assert obj["metadata"]["name"] != "free"


def test_honest_peers_are_not_refused() -> None:
    sources = []
    for own, other in (("a", "b"), ("b", "a")):
        spec = {
            "peerings": [{"name": "p", "networkRef": {"namespace": other, "name": "n"}}],
            "incomingPeerings": [{"namespace": other, "name": "n", "uid": "uid-" + other}],
        }
        sources.append(dict(evil({"kind": "Network", "name": "n", "uid": "uid-" + own, "spec": spec})))
        sources[-1]["metadata"]["namespace"] = own
    assert not World(sources, [], OPTIONS).sync().refused
