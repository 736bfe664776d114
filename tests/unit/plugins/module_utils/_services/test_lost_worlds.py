# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets of pods that a plan empties, and imports that it leaves without endpoints, alongside an evaluation of clusters before and after."""

from __future__ import annotations

import os
import random
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.services import network_sets
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs import touched
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.lost_imports import lost_imports
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.lost_sets import (
    emptied_sets,
    lost_sets,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.members import NAME_LABEL
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.set_plan import Objects
from ansible_collections.multicluster.network.plugins.module_utils._services.network_sets.targets import TARGETS, Target
from mcs_world import GRANTS, MANAGER, OPTIONS, World, ends, export, planned, read, service

#: Random fabrics and changes; ``tests/run what_if`` takes 1,000.
FABRICS = int(os.environ.get("MCN_FABRICS", "50"))
NETS = {"aws": "10.2", "gcp": "10.4", "merit": "10.6"}
LOCAL = "gcp"
SETS = ("app", "db")
SPACE = "shop"


class Pod(t.NamedTuple):
    """One pod. label: the set that it asks for, None for none. host: on its node's network. made: when. runs: neither ended nor being deleted."""

    label: str | None
    address: str
    made: int = 9
    host: bool = False
    ended: str = ""

    def object(self, name: str) -> dict[str, t.Any]:
        """As its cluster lists it."""
        meta: dict[str, t.Any] = {
            "name": name,
            "namespace": SPACE,
            "labels": {NAME_LABEL: self.label} if self.label else {},
        }
        meta["creationTimestamp"] = f"2026-01-01T{self.made:02}:00:00Z"
        if self.ended == "deleted":
            meta["deletionTimestamp"] = "2026-01-01T11:00:00Z"
        phase = "Succeeded" if self.ended == "succeeded" else "Running"
        return {"metadata": meta, "spec": {"hostNetwork": self.host}, "status": {"phase": phase, "podIP": self.address}}


Pods = dict[tuple[str, str], Pod]
Grants = dict[str, bool]


def pods_before(chance: random.Random) -> Pods:
    """Up to three pods in each of the other clusters."""
    made: Pods = {}
    for cluster, net in NETS.items():
        for number in range(chance.randint(0, 3) if cluster != LOCAL else 0):
            label = chance.choice((*SETS, None))
            made[cluster, f"pod{number}"] = Pod(label, f"{net}.1.{number + 1}")
    return made


def pods_after(before: Pods, chance: random.Random) -> Pods:
    """What owners, users and clusters do to them."""
    made: Pods = {}
    for (cluster, name), pod in before.items():
        fate = chance.random()
        if fate < 0.15:
            pod = pod._replace(label=None)
        elif fate < 0.25:
            pod = pod._replace(label=chance.choice(SETS))
        elif fate < 0.32:
            pod = pod._replace(ended=chance.choice(("deleted", "succeeded")))
        elif fate < 0.39:
            continue
        elif fate < 0.46:  # another pod that got the address of this one
            pod = pod._replace(label=None, made=12)
        elif fate < 0.53:
            pod = pod._replace(address=f"{NETS[cluster]}.2.9", made=12)
        elif fate < 0.6:
            pod = pod._replace(host=True)
        made[cluster, name] = pod
    return made


def listed(pods: Pods) -> dict[str, list[t.Any]]:
    """The pods of each cluster as the flow lists them: those with a label."""
    return {
        source: [pod.object(name) for (cluster, name), pod in pods.items() if cluster == source and pod.label]
        for source in NETS
    }


def grants_of(wide: Grants) -> network_sets.Grants:
    """What the inventory grants; a narrow one has none of the pods."""
    return network_sets.read_grants(
        {source: {"pod_cidrs": [f"{net}.0.0/16" if wide[source] else f"{net}.64.0/24"]} for source, net in NETS.items()}
    )


def sets_of(pods: Pods, wide: Grants) -> dict[tuple[str, str], set[str]]:
    """{(cluster, set): addresses that it has}: the plainest evaluation."""
    found: dict[tuple[str, str], set[str]] = {}
    for (cluster, dummy), pod in pods.items():
        if pod.label and not pod.host and wide[cluster] and pod.ended != "succeeded":
            found.setdefault((cluster, pod.label), set()).add(pod.address)
    return found


def lost_of(old: Pods, new: Pods, before: Grants, after: Grants) -> set[tuple[str, str]]:
    """Sets that had an address and have none, of which a pod with such an address, which is no younger than the set, still runs."""
    now = sets_of(new, after)
    return {
        (cluster, name)
        for (cluster, name), addresses in sets_of(old, before).items()
        if not now.get((cluster, name))
        and any(
            place == cluster and pod.address in addresses and not pod.ended and pod.made < 10
            for (place, dummy), pod in new.items()
        )
    }


def plan(
    pods: Pods, wide: Grants, existing: Objects, target: Target
) -> tuple[dict[str, t.Any], list[t.Any], list[t.Any]]:
    """(members, refusals, writes) of the module's own steps."""
    found = network_sets.Read(listed(pods), {LOCAL: (target, existing)}, [])
    # those that are being deleted are there until their time has passed
    members, refused = network_sets.claim(found.pods, grants_of(wide), False, None)
    request = {"clusters": [{"name": name} for name in NETS], "max_deletes": -1, "confirm_empty": list(NETS)}
    writes = network_sets.plan(request, found, members, list(NETS), MANAGER, {}, refused)[1]
    return members, refused, writes[LOCAL]


def written(writes: t.Iterable[t.Any]) -> dict[str, t.Any]:
    """Sets as the API server keeps them."""
    fields = {"f:spec": {"f:nets": {}}, "f:metadata": {"f:labels": {}}}
    managed = {"manager": MANAGER, "operation": "Apply", "fieldsV1": fields, "time": "2026-01-01T10:00:00Z"}
    made = {}
    for write in writes:
        meta = dict(write.manifest["metadata"], uid="u", managedFields=[managed])
        made[write.key.name] = dict(write.manifest, metadata=meta)
    return made


@pytest.mark.parametrize("target", TARGETS["auto"][:2], ids=lambda target: target.kind)
def test_a_set_that_is_lost_had_an_address_and_has_none_while_its_pod_runs(target):
    for number in range(FABRICS):
        chance = random.Random(number)
        wide = dict.fromkeys(NETS, True)
        after = {name: chance.random() > 0.15 for name in NETS}
        old = pods_before(chance)
        new = pods_after(old, chance)
        existing = written(plan(old, wide, {}, target)[2])
        members, refused, writes = plan(new, after, existing, target)
        emptied = emptied_sets(LOCAL, target, existing, writes, members, MANAGER)
        # every pod of the namespace, as the module asks where a set would be empty
        running = {
            source: [pod.object(name) for (cluster, name), pod in new.items() if cluster == source] for source in NETS
        }
        exported = {source: grant.exported for source, grant in grants_of(after).items()}
        found = lost_sets(emptied, running, exported, refused)
        sets = {(one.member.cluster, one.member.value) for one in emptied if any(row.keys == one.keys for row in found)}
        assert sets == lost_of(old, new, wide, after), (number, old, new, after)


class Exported(t.NamedTuple):
    """One Service of one cluster: whether it is exported, how many pods it has, and whether these are inside of its grant."""

    exported: bool
    pods: int
    inside: bool


Worlds = dict[tuple[str, str], Exported]
SERVICES = ("web", "cart")


def exports_after(worlds: Worlds, chance: random.Random) -> Worlds:
    """What owners and the inventory do to them."""
    made: Worlds = {}
    for place, one in worlds.items():
        fate = chance.random()
        if fate < 0.12:
            one = one._replace(exported=False)
        elif fate < 0.3:
            one = one._replace(inside=False)
        elif fate < 0.4:
            one = one._replace(pods=0)
        elif fate < 0.48:
            continue
        made[place] = one
    return made


def put(world: World, worlds: Worlds) -> None:
    """Give the clusters these Services, and no others."""
    for cluster, net in NETS.items():
        for name in SERVICES:
            one, place = worlds.get((cluster, name)), (SPACE, name)
            ips = [f"{net if one.inside else '10.99'}.0.{number + 1}" for number in range(one.pods)] if one else []
            world.put(cluster, touched.SERVICES, place, service(place) if one else None)
            world.put(cluster, touched.EXPORTS, place, export(place) if one and one.exported else None)
            world.put(cluster, touched.SLICES, (SPACE, name + "-x"), ends(place, *ips) if one else None)


def imports_lost(old: Worlds, new: Worlds, granted: Grants) -> set[tuple[str, str]]:
    """{(cluster that imports, Service)} that had endpoints, has none, and is still exported with endpoints by somebody."""

    def parts(worlds: Worlds, name: str, allowed: Grants) -> set[str]:
        return {
            place
            for (place, other), one in worlds.items()
            if other == name and one.exported and one.pods and one.inside and allowed[place]
        }

    return {
        (local, name)
        for name in SERVICES
        for local in NETS
        if parts(old, name, dict.fromkeys(NETS, True))
        and not parts(new, name, granted)
        and any(one.exported and one.pods for (dummy, other), one in new.items() if other == name)
    }


def test_an_import_that_is_lost_had_endpoints_and_has_none_while_somebody_exports_some():
    for number in range(FABRICS):
        chance = random.Random(number)
        old = {
            (cluster, name): Exported(chance.random() < 0.7, chance.choice((0, 1, 1, 2)), True)
            for cluster in GRANTS
            for name in SERVICES
            if chance.random() < 0.8
        }
        world = World(OPTIONS._replace(max_deletes=-1))
        put(world, old)
        world.apply(*world.whole())
        new, granted = exports_after(old, chance), {name: chance.random() > 0.2 for name in NETS}
        put(world, new)
        narrow = {name: None if granted[name] else ["bank"] for name in NETS}
        options = world.options._replace(namespaces=narrow)
        lists = world.lists()
        exported = read(lists, options)
        plans, dummy, heres = planned(lists, options, exported)
        found = {
            (name, loss.label.rpartition("/")[2])
            for name, one in plans.items()
            for loss in lost_imports(heres[name], exported, lists, one.writes)
        }
        assert found == imports_lost(old, new, granted), (number, old, new, granted)
