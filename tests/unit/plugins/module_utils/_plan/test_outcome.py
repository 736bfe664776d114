# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table at the end of a run, and whether the run failed."""

from __future__ import annotations

import pytest
from ansible_collections.multicluster.network.plugins.action.run_outcome import run_outcome
from ansible_collections.multicluster.network.plugins.module_utils._plan.outcome import (
    SHOWN_CLUSTERS,
    SHOWN_ERRORS,
    RunReports,
    judge,
    refused_lines,
)
from hypothesis import given, settings, strategies as st

DOWN = {
    "cluster": "gcp",
    "operation": "list services",
    "reason": "source_incomplete",
    "cause": "unreachable",
    "message": "connection refused",
    "status": None,
}


def reported(**changed):
    base = {
        "asked": ["mesh", "service_mirror"],
        "clusters": ["aws", "gcp"],
        "results": {"mesh": [{}], "service_mirror": [{}]},
        "broken": {},
        "nodes": {"n1": "aws", "n2": "gcp"},
        "lost": {},
        "verdict": {},
    }
    return judge(RunReports(**dict(base, **changed)))


def test_all_is_well():
    assert reported() == {
        "ok": True,
        "errors": [],
        "at_fault": [],
        "cells": {"aws": {"mesh": "ok", "service_mirror": "ok"}, "gcp": {"mesh": "ok", "service_mirror": "ok"}},
        "text": ["CLUSTER  MESH  SERVICE_MIRROR", "aws      ok    ok", "gcp      ok    ok"],
    }


def test_the_cluster_that_failed_is_named_first_and_the_other_is_ok():
    found = reported(
        results={"mesh": [{}], "service_mirror": [{"failed": True, "msg": "cluster gcp: ...", "failures": [DOWN]}]}
    )
    assert not found["ok"]
    assert found["text"] == [
        "CLUSTER  MESH  SERVICE_MIRROR",
        "gcp      ok    failed: unreachable",
        "aws      ok    ok",
        "failed:",
        "  service_mirror, cluster gcp: cannot list services: connection refused [source_incomplete]",
    ]


def test_failures_count_where_the_module_itself_did_not_fail():
    found = reported(results={"mesh": [{"failures": [DOWN]}, {"failures": [DOWN]}], "service_mirror": [{}]})
    assert found["cells"]["gcp"]["mesh"] == "failed: unreachable" and len(found["errors"]) == 1


def test_a_capability_that_broke_is_broken_everywhere():
    found = reported(results={"mesh": [{}]}, broken={"service_mirror": "no library\nat all\x1b[2J"})
    assert {row["service_mirror"] for row in found["cells"].values()} == {"failed"}
    assert found["errors"] == ["service_mirror: no library at all [2J"]


def test_a_module_that_failed_without_naming_a_cluster_is_reported():
    found = reported(results={"mesh": [{}], "service_mirror": [{"failed": True, "msg": "wrong option"}]})
    assert found["errors"] == ["service_mirror: wrong option"] and not found["ok"]


def test_a_failure_and_what_ended_the_capability_are_one_error():
    found = reported(
        results={"mesh": [{}], "service_mirror": [{"failed": True, "msg": "cluster gcp", "failures": [DOWN]}]},
        broken={"service_mirror": "cluster gcp: connection refused"},
    )
    assert len(found["errors"]) == 1 and found["cells"]["aws"]["service_mirror"] == "ok"


def test_refusals_are_counted_and_are_no_failure():
    rows = [
        {"object": "gcp/default/web", "reason": "x", "message": "y"},
        {"object": "n2/peer wireguard.aws k", "reason": "x", "message": "y"},
        {"object": "Service gcp/x", "reason": "x", "message": "y"},
    ]
    found = reported(
        results={"mesh": [{"refused": rows[1:2]}, {"refused": rows[1:2]}], "service_mirror": [{"refused": rows[:1]}]}
    )
    assert found["ok"] and found["cells"]["gcp"] == {"mesh": "ok, refused 1", "service_mirror": "ok, refused 1"}


def test_a_capability_that_did_nothing_but_refuse_is_not_ok():
    row = {"object": "gcp/shop/web", "reason": "outside_grant", "message": "no"}
    for objects, cell in ((0, "refused 1"), (3, "ok, refused 1")):
        found = reported(results={"mesh": [{}], "service_mirror": [{"refused": [row], "objects": objects}]})
        assert found["ok"] and found["cells"]["gcp"]["service_mirror"] == cell
        assert found["cells"]["aws"]["service_mirror"] == "ok"


def test_what_nobody_asked_for_has_no_column_and_what_did_not_run_is_shown():
    found = reported(asked=["mesh", "service_mirror", "tenants"], results={"mesh": [{}], "service_mirror": [{}]})
    assert found["cells"]["aws"]["tenants"] == "not asked" and "TENANTS" not in found["text"][0] and found["ok"]


def test_lost_nodes_are_failures_of_their_cluster():
    found = reported(lost={"n2": ("mesh", "no route to host"), "aws": ("", "failed, see above")})
    assert found["cells"]["gcp"]["mesh"] == "failed: node n2" and found["cells"]["aws"]["mesh"] == "ok"
    assert found["errors"] == ["mesh, node n2 of cluster gcp: no route to host", "aws: failed, see above"]
    assert found["at_fault"] == ["aws", "gcp"]


def test_a_capability_that_broke_blames_no_cluster():
    assert reported(results={"mesh": [{}]}, broken={"service_mirror": "no library"})["at_fault"] == []
    assert reported(results={"mesh": [{"failures": [DOWN]}], "service_mirror": [{}]})["at_fault"] == ["gcp"]


@pytest.mark.parametrize(
    "verdict, cells, errors",
    [
        ({"ok": True, "problems": []}, ["ok", "ok"], []),
        (
            {"ok": False, "problems": ["n2: no handshake with aws/n1"]},
            ["ok", "failed"],
            ["verify: n2: no handshake with aws/n1"],
        ),
        (
            {"ok": False, "problems": ["cluster gcp: down", "n2: x"]},
            ["ok", "failed"],
            ["verify: 2 problems, first: cluster gcp: down"],
        ),
        (
            {"ok": False, "problems": ["service_mirror: cluster gcp: down"]},
            ["ok", "failed"],
            ["verify: service_mirror: cluster gcp: down"],
        ),
        ({"ok": False, "problems": ["nothing was pinged"]}, ["failed", "failed"], ["verify: nothing was pinged"]),
        ({"ok": False}, ["failed", "failed"], ["verify: not proven"]),
        ({}, ["not asked", "not asked"], []),
        # one rule for a row, however the whole ends: broken before not proven, and that before ok
        (
            {"ok": True, "problems": [], "broken": [], "unproven": ["n2: pinged no pod of another cluster"]},
            ["ok", "not proven"],
            [],
        ),
        (
            {
                "ok": False,
                "problems": ["n2: pinged no pod", "not proven is no success: fix it"],
                "broken": [],
                "unproven": ["n2: pinged no pod"],
            },
            ["ok", "not proven"],
            ["verify: 2 problems, first: n2: pinged no pod"],
        ),
        (
            {
                "ok": False,
                "problems": ["n1: no handshake"],
                "broken": ["n1: no handshake"],
                "unproven": ["n2: pinged no pod"],
            },
            ["failed", "not proven"],
            ["verify: n1: no handshake"],
        ),
        (
            {"ok": False, "problems": ["n2: x"], "broken": ["n2: x"], "unproven": ["n2: pinged no pod"]},
            ["ok", "failed"],
            ["verify: n2: x"],
        ),
        (
            {"ok": True, "problems": [], "broken": [], "unproven": ["mesh: refused gcp/gcp-2: is [claimed_twice]"]},
            ["ok", "not proven"],
            [],
        ),
        (
            {"ok": True, "problems": [], "broken": [], "unproven": ["nothing was looked at"]},
            ["not proven", "not proven"],
            [],
        ),
    ],
)
def test_a_verification_is_as_good_as_its_verdict(verdict, cells, errors):
    found = reported(asked=["verify"], results={}, verdict=verdict)
    assert [found["cells"][name]["verify"] for name in ("aws", "gcp")] == cells and found["errors"] == errors


def test_the_text_fits_a_screen_and_counts_what_it_leaves_out():
    names = [f"c{number:03}" for number in range(200)]
    failures = [dict(DOWN, cluster=name, message="x" * 5000) for name in names[100:150]]
    found = reported(clusters=names, results={"mesh": [{}], "service_mirror": [{"failures": failures}]})
    text = found["text"]
    assert len(text) == 1 + SHOWN_CLUSTERS + 1 + 1 + SHOWN_ERRORS + 1 and max(map(len, text)) < 420
    assert text[SHOWN_CLUSTERS + 1] == "180 more clusters, 30 of them failed" and text[-1] == "  30 more, see above"
    assert len(found["errors"]) == 50


FAILURES = st.fixed_dictionaries(
    {
        "cluster": st.sampled_from(["aws", "gcp", "elsewhere"]),
        "reason": st.text(max_size=5),
        "message": st.text(max_size=9),
    }
)
BROKEN = st.dictionaries(st.sampled_from(["mesh", "service_mirror", "lock"]), st.text(max_size=9))


@settings(max_examples=200, deadline=None)
@given(st.lists(FAILURES), BROKEN, st.lists(st.sampled_from(["n1", "n2"]), unique=True))
def test_nothing_that_failed_is_hidden(failures, broken, lost):
    found = reported(
        results={"mesh": [{"failures": failures}], "service_mirror": [{}]},
        broken=broken,
        lost=dict.fromkeys(lost, ("mesh", "gone")),
    )
    assert found["ok"] == (not (failures or broken or lost)) == (not found["errors"])
    for name in broken:
        assert any(line.startswith(name + ":") for line in found["errors"]) or any(
            row["message"] in broken[name] for row in failures
        )
    for row in failures:
        if row["cluster"] in found["cells"]:
            assert found["cells"][row["cluster"]]["mesh"].startswith("failed")
    assert all("\n" not in line for line in found["text"])


def test_the_action_joins_what_the_roles_registered():
    hosts = {
        "aws": {
            "run.service_mirror": {"failed": True, "msg": "m", "failures": [DOWN]},
            "run.broken": {"service_mirror": "gcp: connection refused", "coredns_rewrite": "no such role"},
        },
        "gcp": {},
        "n1": {
            "multicluster_cluster": "aws",
            "run.mesh_plan": {"failures": []},
            "run.node_dataplane": {"refused": [{"object": "peer x"}]},
            "run.mesh_report": {"report": {"ok": True}},
            "run.broken_here": {"load_balancers": "no frr"},
        },
        "n2": {"multicluster_cluster": "gcp", "run.node_dataplane": {"unreachable": True, "msg": "timed out"}},
    }
    asked = ["mesh", "service_mirror", "coredns_rewrite", "load_balancers", "network_sets", "verify"]
    found = run_outcome(hosts, {"clusters": ["aws", "gcp"]}, asked, list(hosts), ["aws", "gcp", "n1"])
    assert found["cells"] == {
        "aws": {
            "mesh": "ok, refused 1",
            "service_mirror": "ok",
            "coredns_rewrite": "failed",
            "load_balancers": "failed: node n1",
            "network_sets": "not asked",
            "verify": "ok",
        },
        "gcp": {
            "mesh": "failed: node n2",
            "service_mirror": "failed: unreachable",
            "coredns_rewrite": "failed",
            "load_balancers": "ok",
            "network_sets": "not asked",
            "verify": "ok",
        },
    }
    subjects = [line.split(":")[0] for line in found["errors"]]
    assert subjects == [
        "mesh, node n2 of cluster gcp",
        "service_mirror, cluster gcp",
        "coredns_rewrite",
        "load_balancers, node n1 of cluster aws",
    ]


def test_what_is_refused_alike_in_several_clusters_is_one_line():
    rows = [{"object": f"zone {name}/x", "reason": "r", "message": "m"} for name in ("a", "b", "c")]
    rows += [{"object": "a", "reason": "k", "message": "n"}, {"object": "other/x", "reason": "r", "message": "m"}]
    assert refused_lines(rows, {}, ["a", "b", "c"]) == [
        "refused: a: n [k]",
        "refused: other/x: m [r]",
        "refused: zone a/x: m [r] (also in b, c)",
    ]
    assert len(refused_lines(rows, {})) == 5


@pytest.mark.parametrize(
    ("inside", "cells", "said"),
    [
        (
            ["n1"],
            {"aws": ["ok", "not asked"], "gcp": ["not asked", "not asked"]},
            [
                "outside --limit, so nothing was written there: nodes n2, n3; a run without --limit does the rest",
                "outside --limit, so not run: mcs, which need a cluster's host in the limit, or localhost; a run without --limit does the rest",
            ],
        ),
        (
            ["n1", "gcp"],
            {"aws": ["ok", "not asked"], "gcp": ["not asked", "ok"]},
            [
                "outside --limit, so nothing was written there: clusters aws; nodes n2, n3; a run without --limit does the rest"
            ],
        ),
        (["n1", "n2", "n3", "aws", "gcp"], {"aws": ["ok", "ok"], "gcp": ["ok", "ok"]}, []),
    ],
)
def test_what_a_limit_left_undone_is_named(inside, cells, said):
    """Nothing of it is ok, since nobody looked."""
    plan = {"plan": {"create": 1, "update": 0, "delete": 0, "unchanged": 0}}
    hosts = {name: {"multicluster_cluster": "aws" if name < "n3" else "gcp"} for name in ("n1", "n2", "n3")}
    hosts |= {"aws": {}, "gcp": {}}
    hosts["n1"]["run.mesh_plan"] = plan
    if "gcp" in inside:
        hosts["gcp"]["run.service_imports"] = dict(plan, **({} if "aws" in inside else {"outside_limit": ["aws"]}))
    groups = {"clusters": ["aws", "gcp"], "nodes": ["n1", "n2", "n3"]}
    found = run_outcome(hosts, groups, ["mesh", "mcs"], inside, inside, "clusters", frozenset(inside))
    assert {name: [row["mesh"], row["mcs"]] for name, row in found["cells"].items()} == cells
    assert [line for line in found["text"] if "outside --limit" in line] == said


def test_many_nodes_outside_are_counted():
    hosts = {f"n{number:02}": {"multicluster_cluster": "aws"} for number in range(20)}
    found = run_outcome(hosts, {"nodes": list(hosts)}, ["mesh"], ["n00"], ["n00"], "clusters", frozenset({"n00"}))
    assert found["text"][-1].startswith(
        "outside --limit, so nothing was written there: nodes n01, n02, n03, n04, n05, n06, n07, n08 and 11 more; "
    )
