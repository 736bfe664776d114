# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the next single failure would cost, alongside one pair at a time in the plainest way; on screen, page and as metrics."""

from __future__ import annotations

import itertools
import os
import random
import time
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import cluster, page, prometheus, screen
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach import classes
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach.next_failure import next_failure
from test_lost_pairs import fabric, spoiled

Data = dict[str, t.Any]


@pytest.mark.parametrize("seed", range(int(os.environ.get("MCN_FABRICS", "20"))))
def test_the_worst_failure_takes_as_many_pairs_as_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    whole = fabric({"aws": chance.randint(1, 4), "gcp": chance.randint(1, 4), "azr": chance.randint(0, 3)})
    mesh = MeshPlan.from_json(spoiled(whole, chance))
    unreachable = [host for host in mesh.nodes if chance.random() < 0.1]
    pairs = classes.Pairs(mesh, unreachable)
    up = [
        (one, two)
        for one, two in itertools.combinations(sorted(pairs.seats), 2)
        if pairs.seats[one].cluster != pairs.seats[two].cluster and not pairs.verdict(one, two)
    ]
    found = next_failure(mesh, {}, unreachable)
    assert found["pairs"] == len(up)
    counts = [sum(host in pair for pair in up) for host in pairs.seats]
    assert found["node"]["pairs"] == max(counts)
    of = {
        name: sum(name in (pairs.seats[one].cluster, pairs.seats[two].cluster) for one, two in up)
        for name in pairs.clusters
    }
    assert found["cluster"]["pairs"] == max(of.values())


SERVICES: dict[str, list[tuple[str, str, list[str]]]] = {
    "gcp": [
        ("s", "one", ["10.10.1.7"]),
        ("s", "spread", ["10.10.0.7", "10.10.1.7"]),
        ("s", "own", ["10.11.0.7"]),
        ("s", "elsewhere", ["192.0.2.1", "10.10.1.8"]),
        ("s", "none", []),
        ("s", "no-address", ["x"]),
    ]
}


def test_the_node_with_the_last_endpoint_comes_first() -> None:
    mesh = MeshPlan.from_json(fabric({"aws": 3, "gcp": 2}))
    found = next_failure(mesh, {"gcp": SERVICES["gcp"][:2]})
    assert (found["node"]["name"], found["node"]["services"]) == ("aws-1", ["gcp/s/one"])
    assert (found["cluster"]["name"], found["cluster"]["service_count"]) == ("aws", 2)
    assert next_failure(mesh, SERVICES)["node"]["services"] in (["gcp/s/one"], ["gcp/s/own"])
    assert next_failure(mesh, {})["node"]["service_count"] == 0
    # where the node that has the other endpoint is unreachable already, the next failure takes the last one
    assert next_failure(mesh, SERVICES, ["aws-0"])["node"]["services"] == ["gcp/s/one", "gcp/s/spread"]
    assert next_failure(MeshPlan.from_json({}), SERVICES) == {}


def test_endpoints_that_take_traffic_are_read_from_slices_and_endpoints() -> None:
    labels = {"mirrored-svc": "true"}
    ends = {
        "metadata": {"namespace": "s", "name": "a", "labels": labels},
        "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "notReadyAddresses": [{"ip": "10.0.0.2"}]}],
    }
    piece = {
        "metadata": {"namespace": "s", "name": "b-1", "labels": {"kubernetes.io/service-name": "b"}},
        "endpoints": [
            {"addresses": ["10.0.0.3"], "conditions": {"ready": True}},
            {"addresses": ["10.0.0.4"], "conditions": {"ready": False}},
        ],
    }
    assert cluster.backends([ends, {"metadata": {"namespace": "s", "name": "c"}}], [piece]) == [
        ("s", "a", ["10.0.0.1"]),
        ("s", "b", ["10.0.0.3"]),
    ]


def test_a_thousand_nodes_are_answered_within_a_second() -> None:
    mesh = MeshPlan.from_json(fabric({f"c{number}": 100 for number in range(10)}))
    services: t.Any = {"c0": [("s", f"n{number}", [f"10.11.{number % 100}.7"]) for number in range(2000)]}
    before = time.process_time()
    found = next_failure(mesh, services)
    assert time.process_time() - before < 2
    assert found["node"]["service_count"] == 20 and len(found["node"]["services"]) == 20
    assert found["pairs"] == 450_000 and found["cluster"]["service_count"] == 2000


FAILURE: Data = {
    "pairs": 36,
    "node": {"name": "aws-1", "cluster": "aws", "pairs": 12, "services": ["gcp/s/<b>"], "service_count": 1},
    "cluster": {"name": "aws", "cluster": "aws", "pairs": 30, "services": ["gcp/s/a"] * 20, "service_count": 25},
}


def test_it_is_a_row_of_the_screen_a_table_of_the_page_and_a_metric() -> None:
    lines = screen._next_failure(FAILURE)
    assert [line.split()[:5] for line in lines[1:]] == [
        ["node", "aws-1", "12", "of", "36"],
        ["cluster", "aws", "30", "of", "36"],
    ]
    assert lines[2].endswith("gcp/s/a, gcp/s/a, ...") and max(map(len, lines)) <= 80
    assert screen._next_failure({}) == [] and page._next_failure({"next_failure": {}}) == ""
    text = page._next_failure({"next_failure": FAILURE})
    assert "gcp/s/&lt;b&gt;" in text and "<b>" not in text
    metrics = prometheus._next_failure({"fabric": "f", "next_failure": FAILURE})
    assert [
        (name, [(row["kind"], row["name"], value) for row, value in rows]) for name, _kind, _about, rows in metrics
    ] == [
        ("multicluster_next_failure_pairs", [("node", "aws-1", 12), ("cluster", "aws", 30)]),
        ("multicluster_next_failure_services", [("node", "aws-1", 1), ("cluster", "aws", 25)]),
    ]
