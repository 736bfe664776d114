# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Imports planned by what a change touches against a plan of everything, over random sequences of events: the same writes, byte for byte."""

from __future__ import annotations

import copy
import json

from ansible_collections.multicluster.network.plugins.module_utils._services.mcs import touched
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.names import (
    SERVICE_LABEL,
    SOURCE_LABEL,
    derived_name,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.touched import decided
from hypothesis import event, given, settings, strategies as st
from mcs_world import GRANTS, OPTIONS, World, ends, export, service

STAMPS = [f"2025-01-0{day}T00:00:00Z" for day in (1, 2, 3)]
NAMES = ("web", "db", derived_name("shop", "web"))
WHAT = [
    "all",
    "all",
    "export",
    "service",
    "headless",
    "slice",
    "stray",
    "drop",
    "spoil",
    "unlabel",
    "terminate",
    "space",
    "labels",
    "unexport",
]
steps = st.lists(
    st.tuples(
        st.sampled_from(sorted(GRANTS)),
        st.sampled_from(WHAT),
        st.tuples(st.sampled_from(["shop", "bank"]), st.sampled_from(NAMES)),
        st.sampled_from(STAMPS),
        st.lists(st.sampled_from(["10.2.0.1", "10.4.0.2", "10.6.0.3", "10.9.0.4"]), max_size=3, unique=True),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=14,
)


def do(world, cluster, what, place, stamp, ips, number):
    """One event of the world outside."""
    if what in ("export", "all", "labels") and place[1] != NAMES[2]:
        more = {"exportedLabels": {"n": str(number)}} if what == "labels" else {}
        world.put(cluster, touched.EXPORTS, place, export(place, stamp, **more))
    if what == "unexport":
        world.put(cluster, touched.EXPORTS, place, None)
    if what in ("service", "all"):
        world.put(
            cluster, touched.SERVICES, place, service(place, [{"name": "http", "port": 80 + number, "protocol": "TCP"}])
        )
    if what == "headless":
        world.put(cluster, touched.SERVICES, place, service(place, clusterIP="None"))
    if what in ("slice", "all"):
        world.put(cluster, touched.SLICES, (place[0], place[1] + "-x"), ends(place, *ips))
    if what == "stray":
        # a slice of the same name that names another Service, or looks like an owned one
        world.put(
            cluster,
            touched.SLICES,
            (place[0], place[1] + "-x"),
            ends((place[0], NAMES[number]), *ips, name=place[1] + "-x"),
        )
    if what in ("drop", "spoil", "unlabel"):
        kind = touched.KINDS[(number + len(ips)) % 3] if number else touched.SLICES
        held = sorted(world.objects[cluster].get(kind, ()))
        if held:
            key = held[len(ips) % len(held)]
            obj = copy.deepcopy(world.objects[cluster][kind][key])
            if what == "spoil":
                obj = dict(obj, spec=dict(obj.get("spec") or {}, ports=[]), endpoints=[])
            obj["metadata"]["labels"] = {} if what == "unlabel" else obj["metadata"].get("labels") or {}
            world.put(cluster, kind, key, None if what == "drop" else obj)
    if what in ("terminate", "space"):
        world.space(cluster, place[0], what == "terminate")


def text(plans):
    return {
        name: [json.dumps([*write.key, write.manifest], sort_keys=True, default=str) for write in one.writes]
        for name, one in plans.items()
    }


def said(world, outcome):
    return {
        name: sorted(json.dumps([*write.key, write.manifest], sort_keys=True) for rows in both for write in rows)
        for name, both in world.statuses(*outcome).items()
    }


@settings(deadline=None, max_examples=200)
@given(st.booleans(), steps)
def test_what_is_touched_gives_what_everything_gives(keep_first, sequence):
    world = World(OPTIONS._replace(keep_first=keep_first))
    for step in sequence:
        do(world, *step)
        whole, some = world.whole(), world.some()
        if all(decided(one.plan, one.writes) for one in some[0].values()):
            event("planned by what is touched")
            assert text(some[0]) == text(whole[0])
            assert said(world, some) == said(world, whole)
        world.apply(*whole)
        again = world.whole()
        assert not any(text(again[0]).values()) and not any(said(world, again).values()), (
            "the second run writes nothing"
        )


@settings(deadline=None, max_examples=100)
@given(steps, st.randoms(use_true_random=False))
def test_the_order_of_lists_and_of_events_means_nothing(sequence, chance):
    # what drops whatever there is would drop something else in another history, and who comes first to an owned name has it
    sequence = [step for step in sequence if step[1] not in ("drop", "spoil", "unlabel") and step[2][1] != NAMES[2]]
    world = World()
    for step in sequence:
        do(world, *step)
    assert text(world.whole()[0]) == text(world.whole(backwards=True)[0])
    # what exists in the end does not depend on what was planned on the way
    late = World()
    for step in sequence:
        do(late, *step)
        if chance.random() < 0.5:
            late.apply(*late.whole())
    world.apply(*world.whole())
    late.apply(*late.whole())

    assert contents(world) == contents(late)


def contents(world):
    """What is owned in namespaces that stay, but for what servers gave."""
    found = {}
    for name, kinds in world.objects.items():
        for place, obj in kinds[touched.IMPORTS].items():
            if world.spaces[name].get(place[0]) is False:
                found[name, place] = (
                    {key: value for key, value in obj["spec"].items() if key != "ips"},
                    obj["metadata"].get("labels"),
                    obj["status"],
                )
        for place, obj in kinds[touched.SLICES].items():
            source = obj["metadata"]["labels"].get(SOURCE_LABEL)
            if world.spaces[name].get(place[0]) is False and source:
                rows = found.setdefault((name, obj["metadata"]["labels"][SERVICE_LABEL], place[0], source), [])
                rows += [(end["addresses"], obj["ports"]) for end in obj["endpoints"]]
    return {key: sorted(value, key=str) if isinstance(value, list) else value for key, value in found.items()}
