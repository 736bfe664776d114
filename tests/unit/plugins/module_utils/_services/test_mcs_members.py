# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a member cluster has of imports, which we once wrote into it, is a claim like any other: it decides nothing in other clusters."""

from __future__ import annotations

import copy

from ansible_collections.multicluster.network.plugins.module_utils._services.mcs import touched
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.definitions import definitions
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.names import FIRST_EXPORT, VERSIONS
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.statuses import (
    import_statuses,
    shows_slice_objects,
    stores_slice_objects,
)
from mcs_world import OPTIONS, World, ends, export, planned, service

WEB = ("shop", "web")


def world_of_three(**options):
    """Each exports the Service and has its import; the export of aws is the oldest, that of merit the youngest."""
    world = World(OPTIONS._replace(**options))
    for number, (cluster, prefix) in enumerate((("aws", "10.2"), ("gcp", "10.4"), ("merit", "10.6"))):
        world.put(cluster, touched.EXPORTS, WEB, export(WEB, f"202{number + 1}-01-01T00:00:00Z"))
        world.put(cluster, touched.SERVICES, WEB, service(WEB))
        world.put(cluster, touched.SLICES, (WEB[0], "web-x"), ends(WEB, prefix + ".0.1"))
    world.apply(*world.whole())
    return world


def edited(world, cluster):
    """A copy of a cluster's import, to be put back."""
    return copy.deepcopy(world.objects[cluster][touched.IMPORTS][WEB])


def test_while_one_is_away_no_other_decides_what_exists_elsewhere():
    world = world_of_three()
    forged = edited(world, "aws")
    forged["spec"].update(type="Headless", ports=[{"name": "http", "port": 1, "protocol": "TCP"}])
    forged["metadata"].update(
        labels={"kubernetes.io/evil": "x"}, annotations={"service.kubernetes.io/topology-mode": "Auto"}
    )
    world.put("aws", touched.IMPORTS, WEB, forged)
    lists = world.lists()
    del lists["merit"]
    plans, joined, heres = planned(lists)
    assert joined.part(heres["gcp"]).merged[WEB].held == {"merit"} and plans["gcp"].writes == []


def test_while_one_is_away_what_exists_in_each_cluster_decides_there():
    world = world_of_three()
    other = edited(world, "gcp")
    other["spec"]["ports"].append({"name": "dns", "port": 53, "protocol": "UDP"})
    world.put("gcp", touched.IMPORTS, WEB, other)
    lists = world.lists()
    del lists["merit"]
    plans, dummy, heres = planned(lists)
    assert plans["aws"].writes == []
    assert not [write for write in plans["gcp"].writes if write.key.kind == "ServiceImport"], (
        "it may be merit's, which cannot be asked"
    )


def test_a_part_that_another_cluster_made_up_keeps_nothing_elsewhere():
    """A slice in aws claims that merit has a part in what it never exported."""
    world = world_of_three()
    world.put("merit", touched.EXPORTS, WEB, None)
    world.apply(*world.whole())
    made_up = copy.deepcopy(
        next(obj for place, obj in world.objects["aws"][touched.SLICES].items() if place[1].endswith("-gcp-4-0"))
    )
    made_up["metadata"]["name"] = made_up["metadata"]["name"].replace("-gcp-", "-merit-")
    world.put("aws", touched.SLICES, (WEB[0], made_up["metadata"]["name"]), made_up)
    world.put(
        "gcp",
        touched.SERVICES,
        WEB,
        service(WEB, [{"name": "other", "port": 81, "protocol": "TCP", "targetPort": 8080}]),
    )
    lists = world.lists()
    del lists["merit"]
    dummy, joined, heres = planned(lists)
    assert (
        joined.part(heres["aws"]).merged[WEB].held == {"merit"}
        and joined.part(heres["gcp"]).merged[WEB].held == frozenset()
    )
    assert joined.part(heres["gcp"]).clusters(heres["gcp"])[WEB] == ("aws", "gcp")


def test_who_decided_first_is_what_most_clusters_remember():
    """One that remembers otherwise would decide by its own memory. Of two that are remembered equally often, the older export decides."""
    world = world_of_three(keep_first=True)
    assert world.whole()[1].merged[WEB].winner == "aws"
    for noted, winner in (
        (("gcp", "merit", "merit"), "merit"),
        (("gcp", "merit", "gcp"), "gcp"),
        (("merit", "gcp", None), "gcp"),
        ((None, None, None), "aws"),
    ):
        for cluster, text in zip(("aws", "gcp", "merit"), noted):
            obj = edited(world, cluster)
            obj["metadata"]["annotations"] = {FIRST_EXPORT: text} if text else {}
            world.put(cluster, touched.IMPORTS, WEB, obj)
        assert world.whole()[1].merged[WEB].winner == winner, noted


def test_a_status_of_another_form_is_none():
    """Whatever a member gives there, the other imports are written."""
    for hostile in (5, "endpointSliceObjects", ["endpointSliceObjects"], None):
        world = world_of_three()
        forged = dict(edited(world, "gcp"), status=hostile)
        world.put("gcp", touched.IMPORTS, WEB, forged)
        unused, joined, heres = planned(world.lists())
        assert not shows_slice_objects(heres["gcp"])
        (write,) = import_statuses(heres["gcp"], joined.part(heres["gcp"]).clusters(heres["gcp"]), set(), True)
        assert write.manifest["status"]["endpointSliceObjects"] == "Present"


def test_whether_a_definition_has_the_field_for_slices():
    one = next(one for one in definitions() if one["spec"]["names"]["kind"] == "ServiceImport")
    assert all(stores_slice_objects(one, version) for version in VERSIONS)
    older = copy.deepcopy(one)
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"][
        "endpointSliceObjects"
    ]
    versions = {f"multicluster.x-k8s.io/{row['name']}": row for row in older["spec"]["versions"]}
    assert [stores_slice_objects(older, name) for name in versions] == [False, True]
    for hostile in ({}, {"spec": None}, {"spec": {"versions": [{"name": "v1beta1"}]}}, {"spec": {"versions": "x"}}):
        assert not stores_slice_objects(hostile, VERSIONS[0])
