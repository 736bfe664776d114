# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A plan of what a change touches against a plan of everything, over random sequences of events: the same writes, byte for byte."""

from __future__ import annotations

import copy
import json

from ansible_collections.multicluster.network.plugins.module_utils._plan.object_plan import Key
from ansible_collections.multicluster.network.plugins.module_utils._plan.objects import field_manager
from ansible_collections.multicluster.network.plugins.module_utils._services import touched
from ansible_collections.multicluster.network.plugins.module_utils._services.claims import Guard
from ansible_collections.multicluster.network.plugins.module_utils._services.exports import (
    Listed,
    Options,
    read_exports,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.mirror_plan import plan_cluster
from ansible_collections.multicluster.network.plugins.module_utils._values.selectors import parse_selector
from hypothesis import event, given, settings, strategies as st

MANAGER, NS, V1 = field_manager("t"), "sys-semaphore", "discovery.k8s.io/v1"
GRANTS = {
    "aws": {"pod_cidrs": ["10.2.0.0/16"]},
    "gcp": {"pod_cidrs": ["10.4.0.0/16"]},
    "merit": {"pod_cidrs": ["10.6.0.0/16"]},
}
KINDS = {"Service": touched.SERVICES, "Endpoints": touched.ENDPOINTS, "EndpointSlice": touched.SLICES}
#: gcp's prefix makes mirrors that collide with those of aws
PREFIXES = {"aws": "aws", "gcp": "aws", "merit": "merit"}
NAMES = ("web", "db", "api")
LABELS = (
    {},
    {"mirror": "yes"},
    {"global": "yes"},
    {"mirror": "yes", "global": "yes"},
    {"mirror": "yes", "global": "yes", "first": "local"},
)
RENAMED = "multicluster.network/exported-name"


def options(**more):
    chosen = Options(
        NS,
        parse_selector("mirror=yes"),
        parse_selector("global=yes"),
        parse_selector("first=local"),
        PREFIXES,
        {"gcp": ["z1"]},
    )
    return chosen._replace(honoured=("exported-name", "clusters", "ports"), **more)


class World:
    """Three clusters, each a source and written; an index of each is kept by events as the reconciler keeps it."""

    def __init__(self, form, chosen):
        self.form, self.options = form, chosen
        self.objects = {name: {kind: {} for kind in KINDS.values()} for name in GRANTS}
        self.index = {name: touched.Index(name, chosen) for name in GRANTS}
        self.dirty = set()

    def put(self, cluster, kind, place, obj):
        if obj is None:
            self.objects[cluster][kind].pop(place, None)
        else:
            self.objects[cluster][kind][place] = obj
        self.dirty |= self.index[cluster].put(kind, place, obj)

    def listed(self, name):
        here = self.objects[name]
        return Listed(*([here[kind][place] for place in sorted(here[kind])] for kind in KINDS.values()), self.form, V1)

    def plan(self, lists):
        exports = {name: read_exports(name, lists[name], self.options, Guard(GRANTS)) for name in GRANTS}
        return {name: plan_cluster(name, lists[name], exports, set(), self.options, MANAGER) for name in GRANTS}

    def whole(self):
        return self.plan({name: self.listed(name) for name in GRANTS})

    def some(self):
        targets = touched.closed(self.index.values(), self.dirty)
        return self.plan({name: self.index[name].cut(self.listed(name), targets) for name in GRANTS})

    def apply(self, plans):
        for name, (unused, writes) in plans.items():
            for write in writes:
                place = (write.key.namespace, write.key.name)
                made = None
                if write.manifest is not None:
                    made = copy.deepcopy(write.manifest)
                    fields = {"f:" + field: {} for field in made if field not in ("apiVersion", "kind", "metadata")}
                    managed = [{"manager": MANAGER, "operation": "Apply", "fieldsV1": fields}]
                    made["metadata"].update(uid="u", resourceVersion="1", managedFields=managed)
                self.objects[name][KINDS[write.key.kind]].pop(place, None)
                # the write comes back by the watch, and nothing is planned for it
                dirty, self.dirty = self.dirty, set()
                self.put(name, KINDS[write.key.kind], place, made)
                self.dirty = dirty
        self.dirty = set()


def text(plans):
    return {
        name: [json.dumps([*write.key, write.manifest], sort_keys=True) for write in writes]
        for name, (unused, writes) in plans.items()
    }


def refusals(plans):
    return {(name, refusal) for name, (plan, unused) in plans.items() for refusal in plan.refused}


cluster_names, places = (
    st.sampled_from(sorted(GRANTS)),
    st.tuples(st.sampled_from(["shop", "bank", NS]), st.sampled_from(NAMES)),
)
addresses = st.lists(st.sampled_from(["10.2.0.1", "10.4.0.2", "10.6.0.3", "10.9.0.4"]), max_size=2, unique=True)
steps = st.lists(
    st.tuples(
        cluster_names,
        st.sampled_from(["service", "rename", "headless", "endpoints", "slice", "stray", "spoil", "drop", "unlabel"]),
        places,
        st.sampled_from(LABELS),
        addresses,
        st.sampled_from(["", "-a", "-b"]),
        st.sampled_from(NAMES),
    ),
    min_size=1,
    max_size=14,
)


def service(place, labels, **more):
    return {
        "metadata": {"namespace": place[0], "name": place[1], "labels": dict(labels), **more},
        "spec": {"ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
    }


def do(world, cluster, what, place, labels, ips, suffix, other):
    """One event of the world outside."""
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    if what == "service":
        world.put(cluster, "services", place, service(place, labels))
    elif what == "rename":
        world.put(cluster, "services", place, service(place, labels, annotations={RENAMED: other}))
    elif what == "headless":
        made = service(place, labels)
        world.put(cluster, "services", place, dict(made, spec=dict(made["spec"], clusterIP="None")))
    elif what == "endpoints":
        subset = {"addresses": [{"ip": ip} for ip in ips], "ports": ports}
        world.put(
            cluster,
            "endpoints",
            place,
            {"metadata": {"namespace": place[0], "name": place[1], "labels": dict(labels)}, "subsets": [subset]},
        )
    elif what in ("slice", "stray"):
        # a slice may have the name of one of another Service, and change its owner
        name = place[1] + suffix
        marks = dict(
            labels,
            **(
                {"kubernetes.io/service-name": place[1] if what == "slice" else other}
                if suffix != "-b" or what == "slice"
                else {}
            ),
        )
        made = {
            "metadata": {"namespace": place[0], "name": name, "labels": marks},
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": [{"addresses": [ip], "conditions": {"ready": True}} for ip in ips],
        }
        world.put(cluster, "endpointslices", (place[0], name), made)
    elif what in ("drop", "unlabel", "spoil"):
        kind = sorted(world.objects[cluster])[len(other) % 3]
        held = sorted(key for key in world.objects[cluster][kind] if what != "spoil" or key[0] == NS)
        if held:
            key = held[len(ips) % len(held)]
            obj = copy.deepcopy(world.objects[cluster][kind][key])
            if what == "unlabel":
                obj["metadata"]["labels"] = {
                    name: value for name, value in obj["metadata"]["labels"].items() if name not in ("mirror", "global")
                }
            elif what == "spoil":
                obj = (
                    dict(obj, spec={"ports": []})
                    if kind == "services"
                    else dict(obj, ports=[], endpoints=[], subsets=[])
                )
            world.put(cluster, kind, key, None if what == "drop" else obj)


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(["endpoints", "slices"]), st.booleans(), steps)
def test_what_is_touched_gives_what_everything_gives(form, shared, sequence):
    world, waiting = World(form, options() if shared else options(global_selector=None)), False
    for step in sequence:
        do(world, *step)
        whole, some = world.whole(), world.some()
        if not waiting and all(touched.decided(*plan) for plan in some.values()):
            event("planned by what is touched")
            assert text(some) == text(whole)
            assert refusals(some) <= refusals(whole)
        else:
            event("planned whole")
        # deletions that a budget holds back wait for a plan of everything
        waiting = not all(touched.decided(plan, ()) for plan, unused in whole.values())
        world.apply(whole)


def test_a_change_of_one_service_reads_nothing_of_the_others():
    world = World("slices", options())
    for number in range(50):
        world.put("aws", "services", ("shop", f"s{number}"), service(("shop", f"s{number}"), {"mirror": "yes"}))
    world.apply(world.whole())
    world.put("aws", "services", ("shop", "s7"), service(("shop", "s7"), {"mirror": "yes", "more": "yes"}))
    targets = touched.closed(world.index.values(), world.dirty)
    assert [len(world.index[name].cut(world.listed(name), targets).services) for name in sorted(GRANTS)] == [1, 1, 1]
    assert Key("v1", "Service", NS, "aws-shop-73736d-s7").name in targets
