# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""News of many clusters are few runs, and none is asked for twice while it waits or works."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.watch import RESOURCES
from ansible_collections.multicluster.network.plugins.module_utils._plan.runs import NAMES, Runs, merge
from hypothesis import given, strategies as st

ROOT = pathlib.Path(__file__).resolve().parents[5]
KINDS = {"nodes": ["Node"], "services": ["Service"], "endpointslices": ["EndpointSlice", "Endpoints"]}
WATCH = [
    {"resource": "nodes", "playbooks": ["mesh"]},
    {"resource": "services", "playbooks": ["service_mirror"]},
    {"resource": "endpointslices", "playbooks": ["service_mirror"]},
]


def event(cluster, kind, *names):
    return {"cluster": cluster, "kind": kind, "names": list(names), "count": len(names), "types": ["changed"]}


def test_many_clusters_and_kinds_are_one_run_each():
    runs = Runs(WATCH, KINDS)
    runs.add([event(f"c{number:02}", "Node", "n1") for number in range(20)])
    runs.add([event("aws", "Service", "a/web"), event("gcp", "EndpointSlice", "a/web-1")])
    mesh, services = runs.take(0)
    assert (
        mesh["run"] == "mesh" and len(mesh["clusters"]) == 20 and mesh["count"] == 20 and mesh["names"][0] == "c00/n1"
    )
    assert (
        services["run"] == "service_mirror"
        and services["kinds"] == ["EndpointSlice", "Service"]
        and services["clusters"] == ["aws", "gcp"]
    )


def test_what_comes_while_a_run_works_waits_for_its_end_and_is_one_run():
    runs = Runs(WATCH, KINDS)
    runs.add([event("aws", "Node", "n1")])
    assert len(runs.take(0)) == 1
    runs.add([event("aws", "Node", "n2")])
    assert runs.take(1) == []  # it starts
    runs.see({7}, 2)
    for second in range(3, 180):
        runs.add([event("gcp", "Node", f"n{second}")])
        runs.see({7}, second)
        assert runs.take(second) == []
    runs.see(set(), 180)
    assert [one["run"] for one in runs.take(180)] == ["mesh"]


def test_a_second_run_that_waits_in_the_engine_is_not_asked_for_again():
    runs = Runs(WATCH, KINDS)
    runs.add([event("aws", "Node", "n1"), event("aws", "Service", "a/b")])
    assert [one["run"] for one in runs.take(0)] == ["mesh", "service_mirror"]
    runs.see({1}, 1)
    runs.see(set(), 5)  # mesh is over, services starts
    runs.add([event("aws", "Service", "a/c")])
    assert runs.take(6) == []
    runs.see({2}, 7)
    assert runs.take(7) == []
    runs.see(set(), 9)
    assert [one["run"] for one in runs.take(9)] == ["service_mirror"]


def test_runs_that_nobody_sees_do_not_hold_news_back_for_ever():
    """Another machine runs them, or nobody does."""
    runs = Runs(WATCH, KINDS, settle=30)
    runs.asked(1, 0)
    runs.add([event("aws", "Node", "n1")])
    assert runs.take(29) == [] and len(runs.take(30)) == 1


def test_what_no_row_names_is_no_run():
    runs = Runs(WATCH, KINDS)
    runs.add([event("aws", "Pod", "a/b")])
    assert runs.take(0) == []


@given(
    st.lists(
        st.tuples(st.sampled_from(["aws", "gcp"]), st.sampled_from(["Node", "Service", "Endpoints"]), st.booleans()),
        max_size=40,
    )
)
def test_no_news_is_lost(steps):
    runs, reported, given_ = Runs(WATCH, KINDS, settle=5), [], set()
    for number, (cluster, kind, works) in enumerate(steps):
        runs.add([event(cluster, kind, str(number))])
        given_.add(f"{cluster}/{number}")
        runs.see({number // 3} if works else set(), number)
        reported += runs.take(number)
    runs.see(set(), 1000)
    reported += runs.take(1001) + runs.take(2000)
    assert {name for one in reported for name in one["names"]} == given_
    assert sum(one["count"] for one in reported) == len(steps)


def test_an_event_has_a_bounded_number_of_names():
    found = merge([event("aws", "Node", *(str(number) for number in range(500)))])
    assert len(found["names"]) == NAMES and found["count"] == 500


def test_rows_of_the_rulebooks_name_playbooks_that_exist():
    for path in sorted((ROOT / "extensions" / "eda" / "rulebooks").glob("*.yml")):
        for ruleset in yaml.safe_load(path.read_text()):
            rows = [row for source in ruleset["sources"] for row in source["multicluster.network.clusters"]["watch"]]
            assert rows
            for row in rows:
                assert row["resource"] in RESOURCES and row["playbooks"], row
                assert all(
                    (ROOT / "playbooks" / (book.replace(".", "/") + ".yml")).is_file() for book in row["playbooks"]
                ), row


def source_plugin():
    """The event source, as ansible-rulebook loads it: by its path."""
    path = ROOT / "extensions" / "eda" / "plugins" / "event_source" / "clusters.py"
    spec = importlib.util.spec_from_file_location("event_source_clusters", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_rulebook_follows_what_the_role_follows():
    """Whatever runs the playbooks, the same news ask for the same runs. Kilo's mesh has a rulebook of its own."""
    role = yaml.safe_load((ROOT / "roles" / "reconciler" / "defaults" / "main.yml").read_text())["reconciler_watch"]
    source = yaml.safe_load((ROOT / "extensions" / "eda" / "rulebooks" / "continuous.yml").read_text())[0]["sources"][
        0
    ]["multicluster.network.clusters"]
    desired = {(row["resource"], book) for row in role for book in row["playbooks"] if book != "clustermesh"}
    assert {(row["resource"], book) for row in source["watch"] for book in row["playbooks"]} == desired
    assert ("services", "load_balancers") in desired and ("nodes", "load_balancers") in desired


@pytest.mark.parametrize(
    "capabilities, books",
    [
        (None, {"mesh", "service_mirror", "network_sets"}),
        ([], {"mesh", "service_mirror", "network_sets"}),
        (["coredns_rewrite"], {"mesh", "service_mirror", "network_sets"}),
        (["load_balancers", "coredns_rewrite"], {"mesh", "service_mirror", "network_sets", "load_balancers"}),
    ],
)
def test_rows_of_a_capability_count_where_the_fabric_has_it(capabilities, books):
    source = yaml.safe_load((ROOT / "extensions" / "eda" / "rulebooks" / "continuous.yml").read_text())[0]["sources"][
        0
    ]["multicluster.network.clusters"]
    rows = source_plugin().watched(dict(source, capabilities=capabilities))
    assert {book for row in rows for book in row["playbooks"]} == books
    kinds = {name: [kind for kind, unused in places] for name, places in RESOURCES.items()}
    runs = Runs(rows, kinds)
    runs.add([event("aws", "Service", "a/b"), event("gcp", "Node", "n9")])
    assert [one["run"] for one in runs.take(0)] == [
        book for book in ("mesh", "service_mirror", "load_balancers") if book in books
    ]


def test_capabilities_as_text_are_an_error_and_no_match_by_letters():
    with pytest.raises(ValueError, match="capabilities is a list"):
        source_plugin().watched({"capabilities": "load_balancers"})
