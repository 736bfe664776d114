# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status document: no greener for what nobody reported, in one mind with verify, and with a memory that is bounded."""

from __future__ import annotations

import copy
import pathlib
import re
import sys

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan import outcome
from ansible_collections.multicluster.network.plugins.module_utils._status import (
    drawing,
    earlier_runs,
    model,
    page,
    prometheus,
    report,
)
from ansible_collections.multicluster.network.plugins.module_utils._status.cluster import describe

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parent), str(HERE.parents[4] / "browser")]

import fabrics  # pylint: disable=wrong-import-position
import verified  # pylint: disable=wrong-import-position
import wrong_facts  # pylint: disable=wrong-import-position


def built(unreachable=(), sizes=None, change=None):
    facts = fabrics.facts(sizes or {"aws": 4, "gcp": 4}, unreachable=unreachable)
    if change:
        change(facts)
    return model.build(facts)


def link(document, one="aws", other="gcp"):
    return next(row for row in document["links"] if (row["a"], row["b"]) == (one, other))


def test_a_fabric_at_rest_is_green():
    document = built()
    assert document["verdict"]["value"] == "proven" and page.verdict(document) == ("good", "all green")
    assert (document["summary"]["tunnels_up"], document["summary"]["tunnels"]) == (32, 32)
    assert drawing.link_grade(link(document)) == "good" and all(
        drawing.node_grade(node) == "good" for node in document["nodes"]
    )


def test_ends_that_an_unreachable_node_would_report_are_counted_as_unknown():
    document = built(unreachable=("gcp-node-4",))
    summary = document["summary"]
    assert (summary["tunnels_up"], summary["tunnels"], summary["tunnels_unknown"]) == (28, 32, 4)
    assert (link(document)["up"], link(document)["tunnels"], link(document)["unknown"]) == (28, 32, 4)
    node = next(node for node in document["nodes"] if node["host"] == "gcp-node-4")
    assert node["why"] == "unreachable: no route to host" and drawing.node_grade(node) == "bad" and node["unknown"] == 4
    assert drawing.link_grade(link(document)) == "fair"
    text = page.render(document)
    assert "28 of 32 up, 4 unknown" in text and "gcp-node-4: did not answer: unreachable: no route to host" in text
    assert document["verdict"]["value"] == "broken" and any(
        "no route to host" in reason for reason in document["verdict"]["broken"]
    )
    metrics = prometheus.text(document)
    assert 'multicluster_node_peers_unknown{cluster="gcp",node="gcp-node-4"} 4' in metrics
    assert (
        'multicluster_verdict{fabric="default",verdict="broken"} 1' in metrics
        and metrics.count("\nsemaphore_wg_peer_info{") == 28
    )


def test_a_peer_that_the_kernel_does_not_have_is_missing():
    document = built(change=lambda facts: facts["nodes"]["aws-node-1"]["devices"][0]["peers"].pop())
    row = next(row for row in document["tunnels"] if row["state"] == "missing")
    assert (row["host"], row["peer_cluster"], row["peer"]) == ("aws-node-1", "gcp", "gcp-node-4")
    assert drawing.link_grade(link(document)) == "bad"


def route_gone(facts):
    change = {"action": "create", "kind": "route", "id": "10.3.0.0/16 dev wireguard.gcp table main", "fields": []}
    facts["node_plans"]["aws-node-1"]["plan"]["changes"] = [change]


def led_elsewhere(facts):
    facts["probes"]["aws-node-1"]["paths"]["elsewhere"] = [
        {
            "range": "10.3.1.0/24",
            "device": "wireguard.gcp",
            "address": "10.3.1.1",
            "source": None,
            "text": "the kernel sends it by eth0",
        }
    ]


def lost_ping(facts):
    next(ping for ping in facts["probes"]["aws-node-1"]["pings"] if ping["node"].startswith("gcp")).update(
        ok=False, milliseconds=None
    )


@pytest.mark.parametrize(
    "plant, words", [(route_gone, "route 10.3.0.0/16"), (led_elsewhere, "10.3.1.0/24"), (lost_ping, "does not reach")]
)
def test_with_every_handshake_fresh_a_line_is_as_good_as_its_worst_part(plant, words):
    document = built(change=plant, sizes={"aws": 2, "gcp": 2, "metal": 2})
    assert document["summary"]["tunnels_up"] == document["summary"]["tunnels"]
    bad = link(document)
    assert drawing.link_grade(bad) == "bad" and bad["faults"] == 1 and words in bad["causes"][0]
    assert drawing.link_grade(link(document, "aws", "metal")) == "good", "the others are as they were"
    grades = {node["host"]: drawing.node_grade(node) for node in document["nodes"]}
    assert grades.pop("aws-node-1") == "bad" and set(grades.values()) == {"good"}
    assert document["verdict"]["value"] == "broken" and words in page.render(document)


def status_facts(facts):
    """What the status playbook would have collected of the same fabric."""
    nodes = {}
    for host in facts["declared"]:
        row = facts["found"].get(host) or {}
        nodes[host] = (
            None
            if not row.get("probe")
            else {"now": 1000, "errors": [], "devices": [], "units": row["probe"]["units"], "bgp": row["probe"]["bgp"]}
        )
    rows = facts["found"].items()
    return {
        "fabric": "default",
        "now": 1000,
        "mesh": facts["mesh"],
        "nodes": nodes,
        "probes": {host: row["probe"] for host, row in rows if row},
        "node_plans": {host: row["drift"] for host, row in rows if row},
        "plans": facts["plans"],
        "capabilities": facts["capabilities"],
        "clusters": {name: {} for name in facts["mesh"].get("clusters") or ()},
        "drift": [],
        "refused": [],
        "failures": facts["mesh"].get("failures") or [],
        "tenants": None,
        "previous": None,
        "unreachable": {},
        **{name: facts[name] for name in ("limit", "outside", "unasked") if name in facts},
    }


#: Of a node that no play had, status reports that it did not answer.
LIMITED = (wrong_facts.host_that_no_play_had, wrong_facts.run_limited_to_clusters)


@pytest.mark.parametrize(
    "lie",
    [None, *(lie for lie in wrong_facts.CASES if lie not in LIMITED)],
    ids=lambda lie: lie.__name__ if lie else "none",
)
def test_verify_and_status_are_of_one_mind(lie):
    facts = verified.facts()
    if lie:
        lie(facts)
    document = model.build(status_facts(facts))
    verify = report.build(facts)
    assert document["verdict"]["value"] == verify["verdict"]
    if lie is not wrong_facts.unreachable_host:
        assert sorted(document["verdict"]["broken"] + document["verdict"]["unproven"]) == sorted(
            set(verify["problems"] + verify["warnings"])
            - {text for text in verify["problems"] if text.startswith("not proven is no success")}
        )
    assert (page.verdict(document)[1] == "all green") == (verify["text"].splitlines()[-1] == "all green")


@pytest.mark.parametrize(
    "name, row, value",
    [
        (
            "drift",
            {
                "where": "aws-node-1",
                "kind": "route",
                "name": "x",
                "action": "create",
                "difference": "missing",
                "owner": "nobody",
                "since": None,
                "note": "",
            },
            "broken",
        ),
        (
            "refused",
            {"where": "service_mirror", "object": "o", "reason": "outside_grant", "message": "m"},
            "not proven",
        ),
        ("failures", {"cluster": "aws", "operation": "list", "reason": "unreachable", "message": "m"}, "broken"),
    ],
)
def test_the_page_shows_nothing_bad_under_a_green_verdict(name, row, value):
    document = built(change=lambda facts: facts.update({name: [row]}))
    assert document["verdict"]["value"] == value and document["verdict"]["parts"]["reading"]["reasons"] == 1


def test_a_cluster_that_was_not_read_is_no_green_one():
    document = built(change=lambda facts: facts["clusters"].update(aws=None))
    assert (
        document["verdict"]["value"] == "broken"
        and "cluster aws: its API server was not read" in document["verdict"]["broken"]
    )


def test_without_pings_a_mesh_is_not_proven():
    facts = fabrics.facts({"aws": 1, "gcp": 1})
    facts["probes"] = {}
    document = model.build(facts)
    assert document["verdict"]["value"] == "not proven"
    assert any("nothing was pinged from there" in reason for reason in document["verdict"]["unproven"])


def test_an_address_that_nobody_announces_is_shown_as_that():
    facts = fabrics.facts({"aws": 2, "gcp": 1})
    facts["plans"] = {
        "load_balancers": {
            "plan": {"changes": []},
            "load_balancers": {
                "aws": {
                    "announce": [],
                    "nodes": [],
                    "unannounced": [
                        {"service": "shop/front", "address": "203.0.113.10", "reason": "no router to tell"}
                    ],
                },
                "gcp": {"announce": ["203.0.113.11/32"], "nodes": ["gcp-node-1"], "unannounced": []},
            },
        }
    }
    document = model.build(facts)
    assert {row["cluster"]: row["announced"] for row in document["addresses"]} == {"aws": "no", "gcp": "no"}
    assert page.render(document).count(">not announced<") == 2 and document["verdict"]["value"] == "not proven"
    bgp = {"announces": ["203.0.113.11/32"], "sessions": [{"neighbor": "192.0.2.1", "state": "Established"}]}
    facts["nodes"]["gcp-node-1"]["bgp"] = facts["probes"]["gcp-node-1"]["bgp"] = bgp
    document = model.build(facts)
    assert {row["cluster"]: row["announced"] for row in document["addresses"]} == {"aws": "no", "gcp": "yes"}
    assert [row["announced_since"] for row in document["addresses"] if row["announced"] == "yes"] == [{}], (
        "a node of a former release does not say"
    )
    bgp["since"] = {"203.0.113.11/32": 1700000000}
    document = model.build(facts)
    assert [row["announced_since"] for row in document["addresses"]] == [{}, {"gcp-node-1": "2023-11-14T22:13:20Z"}]
    assert "gcp-node-1 since 2023-11-14 22:13:20Z" in page.render(document)
    for hostile in (
        {"203.0.113.11/32": "<script>"},
        {"203.0.113.11/32": 10**30},
        {"203.0.113.11/32": True},
        ["x"],
        "x",
        None,
        {"203.0.113.11/32": -1},
    ):
        bgp["since"] = hostile
        assert all(row["announced_since"] == {} for row in model.build(facts)["addresses"]), hostile
    bgp["sessions"][0]["state"] = "Active"
    assert {row["announced"] for row in model.build(facts)["addresses"]} == {"no"}, "announced to nobody that listens"


def test_pools_are_reported_on_the_page_and_as_metrics():
    facts = fabrics.facts({"aws": 1, "gcp": 1})
    pools = [
        {"pool": "public", "family": 4, "total": 30, "used": 30, "free": 0},
        {"pool": "public", "family": 6, "total": 2**64, "used": 1, "free": 2**64 - 1},
    ]
    facts["plans"] = {
        "load_balancers": {"plan": {"changes": []}, "load_balancers": {"aws": {"pools": pools}, "gcp": {}}}
    }
    document = model.build(facts)
    assert [(row["cluster"], row["pool"], row["family"], row["free"]) for row in document["pools"]] == [
        ("aws", "public", 4, 0),
        ("aws", "public", 6, 2**64 - 1),
    ]
    shown = page.render(document)
    assert ">used up<" in shown and ">some left<" in shown and "Pools of addresses" in shown
    reported = prometheus.text(document)
    assert 'multicluster_pool_addresses_free{cluster="aws",pool="public",family="ipv4"} 0' in reported
    assert 'multicluster_pool_addresses{cluster="aws",pool="public",family="ipv4"} 30' in reported
    assert 'multicluster_pool_addresses_used{cluster="aws",pool="public",family="ipv6"} 1' in reported


def test_latency_comes_from_the_pings():
    document = built()
    assert link(document)[
        "latency"
    ] == 0.7 and '<span data-k="link.aws.gcp.latency" data-v="0.7">0.7 ms</span>' in page.render(document)
    row = next(row for row in document["tunnels"] if row["host"] == "aws-node-1" and row["peer"] == "gcp-node-2")
    assert row["latency"] == 0.5
    assert (
        next(row for row in document["tunnels"] if row["host"] == "gcp-node-1" and row["peer"] == "aws-node-4")[
            "latency"
        ]
        == 0.7
    )


def test_runs_are_remembered_for_as_long_as_nothing_changes():
    document, facts = None, fabrics.facts({"aws": 2, "gcp": 2})
    for hour in range(3):
        facts.update(now=fabrics.NOW + 3600 * hour, previous=document)
        for node in facts["nodes"].values():
            node["now"] = fabrics.NOW
        document = model.build(facts)
    assert [(row["verdict"], row["runs"], row["first"] < row["last"]) for row in document["history"]] == [
        ("proven", 3, True)
    ]
    facts.update(previous=document, refused=[])
    lost_ping(facts)
    document = model.build(facts)
    assert [(row["verdict"], row["runs"]) for row in document["history"]] == [("proven", 3), ("broken", 1)]
    assert "does not reach" in document["history"][-1]["cause"] and 'aria-label="Earlier runs"' in page.render(document)


@pytest.mark.parametrize(
    "previous",
    [None, 7, {"history": 7}, {"history": [7, {"first": "x"}, {"runs": "<script>"}]}, {"history": [{"runs": 10**9}]}],
)
def test_a_memory_that_is_not_of_our_form_is_left_out(previous):
    document = built(change=lambda facts: facts.update(previous=previous))
    assert len(document["history"]) == 1 and "<script>" not in str(document["history"])


def test_the_memory_is_bounded():
    document = built()
    row = document["history"][0]
    many = {"history": [dict(row, tunnels=number) for number in range(5000)]}
    assert len(earlier_runs.remember(many, document)) == earlier_runs.ROWS
    assert page.render(dict(document, history=many["history"])).count("<tr>") < 300


def test_rows_that_differ_in_their_cluster_only_are_one():
    def plant(facts):
        facts["failures"] = [
            {"cluster": name, "operation": "read", "reason": "unreachable", "message": "refused"}
            for name in ("aws", "gcp")
        ]
        facts["refused"] = [
            {"where": name, "object": "list pods", "reason": "forbidden", "message": "no"}
            for name in ("aws", "gcp", "metal")
        ]

    text = page.render(built(change=plant))
    assert '<td class="name" data-l="Cluster">aws, gcp</td>' in text and ">aws, gcp, metal</td>" in text
    assert len(re.findall(r">list pods</td>", text)) == 1
    facts = copy.deepcopy(fabrics.facts({"aws": 1, "gcp": 1, "metal": 1}))
    for name in ("gcp", "metal"):
        facts["clusters"][name]["sets"] = [
            {"name": "aws-web", "source": "aws", "label": "web", "networks": 1, "shown": ["10.2.0.1/32"]}
        ]
    assert "gcp, metal</td>" in page.render(model.build(facts))


def test_a_line_leads_to_its_pairs():
    document = built(sizes={"aws": 2, "gcp": 2, "metal": 1})
    text = page.render(document)
    for row in document["links"]:
        where = re.search(rf"<a href=\"#([a-z0-9-]+)\" data-f=\"{row['a']} {row['b']}\">", text).group(1)
        place = text.index(f'<span id="{where}">')
        first = next(
            r for r in page._ranked_tunnels(document) if {r["cluster"], r["peer_cluster"]} == {row["a"], row["b"]}
        )
        assert text[place:].startswith(f'<span id="{where}">{first["host"]}</span>')
    assert text.count('<a href="#links"><g class="link') == 2 * len(document["links"])


def test_nodes_outside_of_the_limit_are_not_asked_and_not_missed():
    before = built(change=lambda facts: facts.update(drift=[drift_of("gcp-node-1"), drift_of("aws-node-1")]))

    def limited(facts):
        gone = [host for host in facts["nodes"] if host.startswith("gcp")]
        facts.update(
            limit="aws_nodes",
            outside=gone,
            unasked=["coredns_rewrite"],
            capabilities=["coredns_rewrite"],
            previous=before,
            clusters={},
        )
        for host in gone:
            facts["nodes"][host] = None
            facts["probes"].pop(host, None)
            facts["node_plans"].pop(host, None)

    document = built(change=limited)
    assert document["verdict"]["value"] == "proven", document["verdict"]
    assert document["scope"] == {
        "limit": "aws_nodes",
        "nodes": 8,
        "judged": 4,
        "not_asked": {
            "nodes": sorted(f"gcp-node-{number}" for number in range(1, 5)),
            "capabilities": ["coredns_rewrite"],
        },
    }
    assert [row["where"] for row in document["since_last_run"]["gone"]] == ["aws-node-1"]
    assert (
        page.verdict(document) == ("good", "all green inside --limit aws_nodes")
        and document["summary"]["nodes_not_asked"] == 4
    )
    text, metrics = page.render(document), prometheus.text(document)
    assert (
        '<p class="scope">scope: --limit aws_nodes: 4 of 8 nodes judged; not asked (outside --limit): nodes gcp-node-1, '
        in text
    )
    assert "gcp-node-1: not asked (outside --limit)" in text and "did not answer" not in text
    assert (
        'multicluster_nodes_not_asked{fabric="default"} 4' in metrics and metrics.count("\nmulticluster_node_up{") == 4
    )
    assert 'class="scope"' not in page.render(built()) and built()["scope"]["limit"] == ""


@pytest.mark.parametrize(
    "sizes",
    [{"aws": 4, "gcp": 3}, {"aws": 6, "gcp": 6}, {f"c{number:02}": 5 for number in range(20)}],
    ids=["7", "12", "100"],
)
def test_our_own_text_is_at_most_sixty_lines_where_all_is_well(sizes):
    """With a callback that shows a list as JSON, a line for each item and two around them, also the table at the end of site."""
    given = fabrics.facts(sizes)
    names = list(verified.CAPABILITIES)
    found = model.gathered(given, given["now"])
    for host, row in found.items():
        others = [name for name in found if name.split("-")[0] != host.split("-")[0]]
        row["probe"]["pings"] = [
            {"source": "10.0.0.1", "target": "10.0.0.2", "node": name, "ok": True, "milliseconds": 1.0}
            for name in others
        ]
    facts = {
        "mesh": given["mesh"],
        "found": found,
        "declared": list(found),
        "capabilities": names,
        "plans": {name: verified.result() for name in names},
    }
    reported = report.build(facts)
    assert reported["verdict"] == "proven", reported["problems"][:3]
    results = {name: [{}] for name in ("mesh", *names)}
    end = outcome.judge(
        outcome.RunReports(["mesh", *names, "verify"], sorted(sizes), results, {}, {}, {}, {"ok": True})
    )
    assert end["ok"] and len(reported["text"].splitlines()) + len(end["text"]) + 2 * 4 <= 60


def test_exports_and_imports_are_counted_as_their_module_reports_them():
    def plant(facts):
        source = {"listed": True, "exports": 3, "valid": 2, "conflicts": 0}
        sources = {"gcp": dict(source, conflicts=1), "aws": source, "metal": {"listed": False}}
        facts.setdefault("plans", {})["mcs"] = {
            "plan": {"changes": []},
            "sources": sources,
            "imports": {"aws": 4, "gcp": 4},
        }

    document = built(change=plant)
    assert [(row["cluster"], row["listed"], row["exports"], row["imports"]) for row in document["imports"]] == [
        ("aws", True, 3, 4),
        ("gcp", True, 3, 4),
        ("metal", False, 0, 0),
    ]
    assert [document["summary"][name] for name in ("exports", "imports", "export_conflicts")] == [6, 8, 1]
    text, metrics = page.render(document), prometheus.text(document)
    places = [text.index(f'data-k="imports.{name}.exports"') for name in ("metal", "gcp", "aws")]
    assert (
        places == sorted(places)
        and ">not read</span>" in text
        and ">conflicts</span>" in text
        and ">not all valid</span>" in text
    )
    assert (
        'multicluster_exports_in_conflict{cluster="gcp"} 1' in metrics
        and 'multicluster_imports{cluster="aws"} 4' in metrics
    )
    plain = page.render(built())
    assert "Exports and imports" not in plain and "summary.imports" not in plain


def drift_of(host):
    return {
        "where": host,
        "kind": "route",
        "name": "10.9.0.0/16",
        "action": "create",
        "difference": "missing",
        "owner": "nobody",
        "since": None,
        "note": "",
    }


def pod(name, address, since="2026-11-28T10:00:00Z", **spec):
    status = {"podIPs": [{"ip": address}], "startTime": since, "phase": "Running"}
    return {"metadata": {"namespace": "web", "name": name}, "spec": spec, "status": status}


def with_pods(*pods, whole=True, previous=None):
    """The first node of aws has 10.2.0.0/24, and so on."""

    def change(facts):
        facts["clusters"]["aws"] = dict(facts["clusters"]["aws"], **describe({"pods": pods, "all_pods": whole}))
        facts["mesh"]["nodes"]["aws-node-1"]["pod_cidrs"] = ["10.2.0.0/24"]
        facts["previous"] = previous

    return built(change=change)


def row_of(document, name="aws"):
    return next(row for row in document["clusters"] if row["name"] == name)["pods_outside"]


def test_pods_that_peers_do_not_have_are_counted_with_the_time_of_the_oldest():
    inside, late = pod("a", "10.2.0.5"), pod("b", "10.2.77.5", "2026-11-28T10:05:00Z")
    first = with_pods(
        inside, late, pod("c", "10.2.78.5"), pod("host", "10.66.23.9", hostNetwork=True), pod("six", "fd00::5")
    )
    assert row_of(first) == {
        "count": 2,
        "of": 4,
        "since": "2026-11-28T10:00:00Z",
        "examples": ["web/b", "web/c"],
        "whole": True,
        "first_seen": first["generated"],
    }
    (reason,) = [text for text in first["verdict"]["broken"] if "pods_outside_peers" in text]
    assert (
        reason.startswith("cluster aws: 2 of 4 pods (web/b, web/c) have addresses that peers")
        and "the oldest since 2026-11-28T10:00:00Z" in reason
    )
    assert 'multicluster_pods_outside_peers{cluster="aws"} 2' in prometheus.text(first)
    later = with_pods(late, whole=False, previous=dict(first, generated="2026-11-28T10:30:00Z"))
    assert row_of(later)["first_seen"] == first["generated"] and "1 of the first 1 pods" in str(
        later["verdict"]["broken"]
    )
    good = with_pods(inside, previous=first)
    assert (row_of(good)["count"], row_of(good)["since"], row_of(good)["first_seen"]) == (0, None, None)
    assert good["verdict"]["value"] == "proven"


def test_pods_are_not_counted_where_they_or_peers_are_not_known():
    assert row_of(built()) is None and "multicluster_pods_outside_peers{" not in prometheus.text(built())

    def unread(facts):
        facts["clusters"]["aws"] = dict(facts["clusters"]["aws"], **describe({"pods": [pod("a", "10.9.0.5")]}))
        for host in facts["nodes"]:
            facts["nodes"][host] = None if host.startswith("gcp") else facts["nodes"][host]

    assert row_of(built(change=unread)) is None


@pytest.mark.parametrize(
    "given", [{"spec": None}, {"status": {"podIPs": [None, {"ip": 5}], "startTime": 7}}, {"metadata": "x"}]
)
def test_a_pod_in_a_strange_form_is_not_counted_as_outside(given):
    document = with_pods(dict(pod("a", "10.2.0.5"), **given))
    assert row_of(document)["count"] == 0
