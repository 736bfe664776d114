# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hypotheses about a fabric: their words, and what pairs, Services and addresses lose, alongside one pair at a time in the plainest way."""

from __future__ import annotations

import collections
import copy
import itertools
import os
import random
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._trace import page
from ansible_collections.multicluster.network.plugins.module_utils._trace.objects import Cluster, parse_cluster
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach import answers, classes, what_if
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach.consequences import Consequences
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from test_lost_pairs import fabric, spoiled

Data = dict[str, t.Any]
SHARED = {"mirror.semaphore.uw.io/mirror-service": "true"}


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ("plan", ["the plan as it is"]),
        ([{"plan": True}], ["the plan as it is"]),
        ("away=aws-0", ["aws-0 is away"]),
        ([{"away": ["aws-0", "gcp"]}], ["aws-0 is away", "gcp is away"]),
        ([{"key": "aws-0"}], ["aws-0 has another key"]),
        ([{"key": "aws-0", "value": "k"}], ["aws-0 has the key k"]),
        ([{"annotation": "a/b", "node": "aws-0"}], ["annotation a/b of aws-0 is gone"]),
        ([{"label": "a/b", "service": "aws/d/web", "value": "x"}], ["label a/b of aws/d/web is x"]),
        ([{"range": "pod_cidrs", "cluster": "aws", "value": ["10.0.0.0/8"]}], ["range pod_cidrs of aws is 10.0.0.0/8"]),
        ([{"service": "aws/d/web"}, "away=gcp"], ["Service aws/d/web is gone", "gcp is away"]),
    ],
)
def test_hypotheses_are_read_from_texts_and_mappings(given: t.Any, texts: list[str]) -> None:
    assert [row.text() for row in what_if.parse(given)] == texts


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("awya=aws-0", "'awya' is none of plan, away, annotation, label, range, key, service; did you mean away?"),
        ([{"aways": "aws-0"}], "did you mean away?"),
        ([{"lable": "a", "service": "a/b/c"}], "did you mean label?"),
        ([{"annotation": "a/b", "nod": "aws-0"}], "annotation has no field 'nod'; did you mean node?"),
        ([{"annotation": "a/b"}], "annotation needs node"),
        ([{"range": "pod_cidr", "cluster": "aws", "value": "10.0.0.0/8"}], "did you mean pod_cidrs?"),
        ([{"range": "pod_cidrs", "cluster": "aws"}], "range needs value"),
        ([{"away": "aws-0", "key": "aws-0"}], "away and key are hypotheses of their own"),
        ([{"service": "web"}], "a Service is cluster/namespace/name"),
        ([{"key": 7}], "which is no name"),
        ([{"plan": False}], "plan is true, or left out"),
        ([7], "is no hypothesis"),
        ([{}], "is no hypothesis"),
        (["away=x"] * 51, "51 hypotheses"),
    ],
)
def test_a_typo_is_refused_by_name(given: t.Any, said: str) -> None:
    with pytest.raises(ValueRefused) as error:
        what_if.parse(given)
    assert said in error.value.message and error.value.message.startswith(what_if.VARIABLE)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("away=aws-00", "'aws-00', which is no host and no cluster of the mesh; did you mean aws-0?"),
        ("key=gcp", "which is no host of the mesh"),
        ([{"range": "pod_cidrs", "cluster": "asw", "value": "10.0.0.0/8"}], "did you mean aws?"),
        ([{"annotation": "a/b", "node": "gcp-9"}], "did you mean gcp-"),
        ([{"service": "aws/d/wbe"}], "did you mean aws/d/web?"),
    ],
)
def test_what_no_fabric_has_is_refused_by_name(given: t.Any, said: str) -> None:
    mesh = MeshPlan.from_json(fabric({"aws": 2, "gcp": 2}))
    with pytest.raises(ValueRefused) as error:
        what_if.check(what_if.parse(given), mesh, {"aws/d/web"})
    assert said in error.value.message


def test_the_value_of_a_key_is_refused_in_a_kubespan_mesh() -> None:
    mesh = MeshPlan.from_json(dict(fabric({"aws": 1, "gcp": 1}), kubespan={"affiliates": []}, mode="kubespan"))
    what_if.check(what_if.parse("key=aws-0"), mesh)
    with pytest.raises(ValueRefused) as error:
        what_if.check(what_if.parse([{"key": "aws-0", "value": "k"}]), mesh)
    assert "leave out value" in error.value.message


def plainly(before: Data, after: Data, away: t.Collection[str], keys: t.Collection[str]) -> t.Counter[str]:
    """How many unordered pairs of hosts of different clusters are lost and gained, one pair at a time by two evaluations."""
    one, two = classes.Pairs(MeshPlan.from_json(before)), classes.Pairs(MeshPlan.from_json(after), away)
    found: t.Counter[str] = collections.Counter()
    for source, target in itertools.combinations(sorted(one.seats), 2):
        if one.seats[source].cluster == one.seats[target].cluster:
            continue
        there = not one.verdict(source, target)
        then = not two.verdict(source, target) and not {source, target} & set(keys)
        if there != then:
            found["lost" if there else "gained"] += 1
        elif not there:
            found["still broken"] += 1
    return found


@pytest.mark.parametrize("seed", range(int(os.environ.get("MCN_FABRICS", "20"))))
def test_lost_and_gained_pairs_are_the_difference_of_two_evaluations(seed: int) -> None:
    chance = random.Random(seed)
    whole = fabric({"aws": chance.randint(1, 4), "gcp": chance.randint(1, 4), "azr": chance.randint(0, 3)})
    before, after = spoiled(whole, chance), spoiled(whole, chance)
    hosts = sorted(whole["nodes"])
    away = [name for name in (*hosts, "azr") if chance.random() < 0.15]
    keys = [name for name in hosts if chance.random() < 0.1]
    found = Consequences(MeshPlan.from_json(before), MeshPlan.from_json(after), away, keys)
    rows = found.classes()
    counted: t.Counter[str] = collections.Counter()
    for row in rows:
        if row["kind"] != "moved":
            counted[row["kind"]] += row["pairs"]
        ends = row["example"]["from"], row["example"]["to"]
        assert bool(found.cause(*ends)) == (row["kind"] in ("lost", "still broken")), row
    assert counted == plainly(before, after, away, keys)


def objects(local: bool = False) -> dict[str, Cluster]:
    """Two clusters of two nodes: aws exports ``web`` of one pod, gcp mirrors it and has ``own`` of two pods; both have an address of a load balancer."""

    def node(number: int) -> Data:
        return {"metadata": {"name": f"n{number}"}, "status": {"addresses": []}}

    def pod(index: int, number: int) -> Data:
        return {
            "metadata": {"namespace": "d", "name": f"p{number}"},
            "spec": {"nodeName": f"n{number}"},
            "status": {"podIP": f"10.{index}.{number}.7", "phase": "Running"},
        }

    def service(namespace: str, name: str, labels: t.Mapping[str, str], address: str = "") -> Data:
        spec: Data = {"clusterIP": "10.3.0.9"}
        status: Data = {}
        if address:
            spec.update(type="LoadBalancer", externalTrafficPolicy="Local" if local else "Cluster")
            status = {"loadBalancer": {"ingress": [{"ip": address}]}}
        return {
            "metadata": {"namespace": namespace, "name": name, "labels": dict(labels)},
            "spec": spec,
            "status": status,
        }

    def ends(namespace: str, name: str, texts: t.Sequence[str]) -> Data:
        return {
            "metadata": {"namespace": namespace, "name": name},
            "subsets": [{"addresses": [{"ip": text} for text in texts], "ports": [{"port": 1}]}],
        }

    mirror = {"mirrored-svc": "true", "mirror-svc-prefix-sync": "aws"}
    name = "aws-d-73736d-web"
    aws = {
        "nodes": [node(0), node(1)],
        "pods": [pod(10, 0), pod(10, 1)],
        "services": [service("d", "web", SHARED, "203.0.113.7")],
        "endpoints": [ends("d", "web", ["10.10.0.7"])],
    }
    gcp = {
        "nodes": [node(0), node(1)],
        "pods": [pod(11, 0), pod(11, 1)],
        "services": [service("sys-semaphore", name, mirror), service("d", "own", {})],
        "endpoints": [ends("sys-semaphore", name, ["10.10.0.7"]), ends("d", "own", ["10.11.0.7", "10.11.1.7"])],
    }
    return {
        cluster: parse_cluster(cluster, read, {(cluster, f"n{number}"): f"{cluster}-{number}" for number in range(2)})
        for cluster, read in (("aws", aws), ("gcp", gcp))
    }


def asked(given: t.Any, world: dict[str, Cluster], speakers: Data | None = None, assumed: Data | None = None) -> Data:
    request = {
        "mesh": fabric({"aws": 2, "gcp": 2}),
        "assumed": assumed or {},
        "mirror_selector": "mirror.semaphore.uw.io/mirror-service=true",
        "speakers": speakers or {},
    }
    found: Data = answers.answered({"flows": [], "findings": []}, world, what_if.parse(given), request)["reach"]
    return found


def names(reach: Data) -> list[str]:
    return ["{cluster}/{name}".format(**row) for row in reach["alone"]]


MIRROR = "gcp/aws-d-73736d-web"


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("away=aws-0", ["aws/web", MIRROR]),
        ("away=aws-1", []),
        ("away=gcp", []),
        ("away=aws", [MIRROR]),
        (["away=gcp-0", "away=gcp-1"], ["gcp/own", MIRROR]),
        ("key=aws-0", [MIRROR]),
        ([{"service": "aws/d/web"}], ["aws/web", MIRROR]),
        ([{"label": "mirror.semaphore.uw.io/mirror-service", "service": "aws/d/web"}], [MIRROR]),
        ([{"label": "mirror.semaphore.uw.io/mirror-service", "service": "aws/d/web", "value": "true"}], []),
        ([{"label": "other", "service": "aws/d/web"}], []),
        (["away=gcp-0", {"service": "gcp/d/own"}], ["gcp/own"]),
        ("plan", []),
    ],
)
def test_services_that_keep_no_endpoint_are_named(given: t.Any, left: list[str]) -> None:
    assert names(asked(given, objects())) == left


def test_a_plan_without_the_way_takes_the_last_endpoint() -> None:
    after = copy.deepcopy(fabric({"aws": 2, "gcp": 2}))
    after["clusters"]["gcp"]["remotes"]["aws"]["peers"].pop(0)
    given = [{"annotation": "gcp.wireguard.semaphore.uw.io/pubKey", "node": "aws-0"}]
    reach = asked(given, objects(), assumed=after)
    assert names(reach) == [MIRROR] and reach["lost"] == 2


def test_an_address_moves_to_the_next_node_of_its_segment() -> None:
    rack = {f"aws-{number}": {"segment": "rack1"} for number in range(2)}
    both = [asked(f"away=aws-{number}", objects(), rack)["addresses"] for number in range(2)]
    assert sorted(map(len, both)) == [0, 1], "one of the two holds it"
    row = (both[0] or both[1])[0]
    assert row["before"] != row["after"] and {*row["before"], *row["after"]} == {"aws-0", "aws-1"}
    assert row["message"] == f"moves from {row['before'][0]} to {row['after'][0]}"
    gone = asked("away=aws", objects(), rack)["addresses"]
    assert [row["message"] for row in gone] == ["has no node that could have it"]


def test_an_address_of_a_local_service_is_announced_where_its_pods_are() -> None:
    bgp = {f"aws-{number}": {"bgp": True} for number in range(2)}
    assert asked("away=aws-1", objects(local=True), bgp)["addresses"] == []
    (row,) = asked("away=aws-0", objects(local=True), bgp)["addresses"]
    assert (row["before"], row["after"], row["message"]) == (["aws-0"], [], "has no node that could have it")
    (row,) = asked("away=aws-1", objects(), bgp)["addresses"]
    assert (row["before"], row["after"]) == (["aws-0", "aws-1"], ["aws-0"])
    (row,) = asked([{"service": "aws/d/web"}], objects(), bgp)["addresses"]
    assert row["after"] == []


def test_lines_name_what_is_lost_and_are_few() -> None:
    reach = asked("away=aws-0", objects())
    assert (
        answers.lines(reach)
        == [
            "what if: aws-0 is away",
            "lost 2 pairs of nodes with what is away",
            "Service aws/d/web keeps no endpoint",
            f"Service gcp/sys-semaphore/{MIRROR[4:]} keeps no endpoint",
            "address 203.0.113.7 of aws/d/web has no node that could have it",
        ][: len(answers.lines(reach))]
    )
    many = dict(reach, alone=reach["alone"] * 100, alone_count=200, changes=[], addresses=[], addresses_count=0)
    assert len(answers.lines(many)) == 11 and answers.lines(many)[-1] == "191 more are in the result"
    assert answers.lines(asked("away=gcp-0", objects()))[-1].startswith("lost 2 pairs")
    assert (
        answers.lines(asked([{"label": "other", "service": "aws/d/web"}], objects()))[-1]
        == "nothing is lost and nothing moves"
    )


def test_the_page_draws_what_would_be_lost_and_escapes_names() -> None:
    trace = answers.answered(
        {"flows": [], "findings": []},
        objects(),
        what_if.parse(["away=aws-0", {"label": "<b>", "service": "aws/d/web"}]),
        {"mesh": fabric({"aws": 2, "gcp": 2})},
    )
    document = {"fabric": "<i>", "generated": "2026-11-28T12:00:00Z", "trace": trace, "verdict": "", "findings": []}
    text = page.render(dict(document, hops=[]))
    assert "aws-0: 2 of 2 pairs would be lost" in text and "aws-1: keeps 2 pairs" in text
    assert text.count('<svg class="') == 2 and "2 of 4 lost" in text and 'class="dot bad"' in text
    assert "&lt;b&gt;" in text and "<b>&" not in text and "<i>" not in text.partition("<main>")[0]


def test_several_hypotheses_are_taken_together() -> None:
    reach = asked(["away=aws-0", "key=gcp-0"], objects())
    assert {row["class"]: row["pairs"] for row in reach["changes"]} == {"away/aws/gcp": 2, "key_changed/aws/gcp": 1}
    assert reach["hypotheses"] == ["aws-0 is away", "gcp-0 has another key"]


def test_annotations_and_keys_are_written_into_copies_of_nodes() -> None:
    mesh = MeshPlan.from_json(fabric({"aws": 1, "gcp": 1}))
    node = {"metadata": {"name": "n0", "annotations": {"kept": "a", "gone": "b"}}}
    given = {"aws": {"nodes": [node]}, "gcp": {"error": {"reason": "r", "message": "m"}}}
    rows = what_if.parse([{"annotation": "gone", "node": "aws-0"}, {"key": "aws-0", "value": "k"}, "key=gcp-0"])
    found = what_if.listings(rows, mesh, given)
    notes = found["aws"]["nodes"][0]["metadata"]["annotations"]
    assert notes == {"kept": "a", "gcp.wireguard.semaphore.uw.io/pubKey": "k"}
    assert node["metadata"]["annotations"] == {"kept": "a", "gone": "b"} and found["gcp"] == given["gcp"]
    changed = what_if.definition(
        what_if.parse([{"range": "pod_cidrs", "cluster": "aws", "value": "10.1.0.0/16"}]),
        {"clusters": {"aws": {"pod_cidrs": ["10.0.0.0/8"]}}, "nodes": {}},
    )
    assert changed["clusters"]["aws"]["pod_cidrs"] == ["10.1.0.0/16"]
