# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict: a table of wrong facts, each of which was green once or could have been, and what must be said of it."""

from __future__ import annotations

import copy
import itertools
import pathlib
import sys

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import (
    collected,
    ends,
    evidence,
    mesh_verdict,
    report,
    results,
)
from ansible_collections.multicluster.network.plugins.module_utils._status.verdict import (
    BROKEN,
    PROVEN,
    UNPROVEN,
    Verdict,
    combine,
    report_lines,
)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import verified  # pylint: disable=wrong-import-position
import wrong_facts  # pylint: disable=wrong-import-position


def judged(*plants, allow=False):
    facts = copy.deepcopy(verified.facts())
    for plant in plants:
        plant(facts)
    return report.build(facts, allow)


def test_what_was_looked_at_and_is_right_is_proven():
    built = judged()
    assert (built["verdict"], built["ok"], built["problems"], built["warnings"]) == (PROVEN, True, [], [])
    assert built["text"].splitlines()[-1] == "all green" and built["text"].count("ok 0.4 ms") == 8


@pytest.mark.parametrize("lie", wrong_facts.CASES, ids=lambda lie: lie.__name__)
def test_no_lie_is_green(lie):
    value, words = wrong_facts.CASES[lie]
    built = judged(lie)
    assert built["verdict"] == value and not built["ok"]
    assert any(words in problem for problem in built["problems"]), built["problems"]
    assert "all green" not in built["text"] and words in built["text"]
    if value == UNPROVEN:
        # what to do about it is where it is read, and the exit code follows the variable
        assert "verify_allow_unproven: true" in built["text"] and "verify_allow_unproven" in built["problems"][-1]
        allowed = judged(lie, allow=True)
        assert (
            allowed["ok"]
            and allowed["verdict"] == UNPROVEN
            and not allowed["problems"]
            and "all green" not in allowed["text"]
        )
        assert any(words in warning for warning in allowed["warnings"])
    else:
        assert not judged(lie, allow=True)["ok"]


def test_a_replacement_is_shown_as_none_of_the_pods():
    """Neither the matrix nor a lost ping calls a node's own address a pod."""
    built = judged(wrong_facts.a_node_represents_its_pods)
    assert built["text"].count("ok 0.4 ms") == 4 and built["text"].count("node 0.4 ms") == 4
    assert any("start a pod on it" in problem for problem in built["problems"])

    def lost(facts):
        wrong_facts.a_node_represents_its_pods(facts)
        next(ping for ping in wrong_facts.probe(facts)["pings"] if ping["node"] == "gcp-2").update(
            ok=False, milliseconds=None
        )
        next(ping for ping in wrong_facts.probe(facts)["pings"] if ping["node"] == "gcp-1").update(
            ok=False, milliseconds=None
        )
        next(ping for ping in wrong_facts.probe(facts, "aws-2")["pings"] if ping["node"] == "gcp-2").update(
            size=1296, full=1420
        )

    problems = judged(lost)["problems"]
    assert any("aws-1: pod 10.2.3.10 does not reach node address 10.4.8.1 of gcp-2" in problem for problem in problems)
    assert any("1,296 bytes do not reach node address 10.4.8.1 of gcp-2" in problem for problem in problems)
    facts = copy.deepcopy(verified.facts())
    lost(facts)
    assert {
        text for rows in ends.faults(MeshPlan.from_json(facts["mesh"]), facts["found"]).values() for text in rows
    } == {
        "aws-1: pod 10.2.3.10 does not reach pod 10.4.7.10 of gcp-1",
        "aws-1: pod 10.2.3.10 does not reach node address 10.4.8.1 of gcp-2",
        "aws-2: packets of more than 1,296 bytes do not reach node address 10.4.8.1 of gcp-2",
    }


def host_ping(ok=True, target="10.4.7.10", node="gcp-1"):
    return {"source": "10.66.23.31", "target": target, "node": node, "ok": ok, "milliseconds": 0.4 if ok else None}


def test_hosts_that_reach_other_clusters_are_counted_and_those_that_cannot_are_named():
    """A host with no address that other clusters accept is no fault of the mesh; one that has it, and gets no answer, is."""

    def asked(sources, *pings):
        def change(facts):
            wrong_facts.probe(facts).update(host_pings=list(pings), host_sources=sources)

        return judged(change)

    def single(facts):
        for about in facts["mesh"]["nodes"].values():
            about["cluster"] = "aws"

    none = "hosts themselves: aws-1, aws-2, gcp-1, ... asked nobody in other clusters"
    assert none in judged()["text"] and "hosts themselves" not in judged(single)["text"]
    built = asked([4], host_ping())
    assert "hosts themselves: 1 of 1 node reach other clusters" in built["text"] and built["verdict"] == PROVEN
    built = asked([], host_ping(ok=False))
    assert "not carried: packets of aws-1 to other clusters" in built["text"] and built["verdict"] == PROVEN
    assert "exported_node_cidrs" in built["text"] and "reach other" not in built["text"]
    assert "hosts themselves: aws-2, gcp-1, gcp-2 asked nobody" in built["text"]
    built = asked([4], host_ping(ok=False))
    assert built["verdict"] == BROKEN and "hosts themselves: 0 of 1 node" in built["text"]
    (line,) = [text for text in built["problems"] if "host itself" in text]
    assert line == "aws-1: the host itself (10.66.23.31) does not reach pod 10.4.7.10 of gcp-1"
    # of the other family it has none
    built = asked([4], host_ping(), host_ping(ok=False, target="fd04::10"))
    assert "not carried: packets of aws-1" in built["text"] and built["verdict"] == PROVEN


def test_a_host_with_an_address_in_the_plan_is_carried_though_its_table_has_none():
    """What the node's table lacks is no reason to call a lost ping not carried."""

    def change(facts):
        facts["mesh"]["nodes"]["aws-1"]["exported_addresses"] = {"10.66.23.31": "10.203.23.31"}
        wrong_facts.probe(facts).update(host_pings=[host_ping(ok=False)], host_sources=[])

    built = judged(change)
    assert built["verdict"] == BROKEN and "not carried" not in built["text"]


def test_a_host_that_does_not_reach_a_nodes_exported_address_is_named():
    def change(facts):
        facts["mesh"]["nodes"]["gcp-1"]["exported_addresses"] = {"10.22.22.27": "10.203.22.27"}
        wrong_facts.probe(facts).update(host_pings=[host_ping(ok=False, target="10.203.22.27")], host_sources=[4])

    (line,) = [text for text in judged(change)["problems"] if "host itself" in text]
    assert line == "aws-1: the host itself (10.66.23.31) does not reach its exported address 10.203.22.27 of gcp-1"


def test_hosts_are_asked_to_reach_a_pod_of_each_cluster_and_all_exported_nodes():
    nodes = {
        "a1": {"cluster": "a"},
        "a2": {"cluster": "a"},
        "b1": {"cluster": "b", "exported_addresses": {"10.1.0.1": "10.9.0.1"}},
        "b2": {"cluster": "b"},
        "c1": {"cluster": "c"},
    }
    mesh = {
        "nodes": nodes,
        "clusters": {"b": {"exported_pod_cidrs": {"pairs": {"10.4.0.0/16": "10.204.0.0/16"}, "former": []}}},
    }
    pods = {"a1": ["10.2.1.5"], "b1": ["10.4.1.5", "fd04::5"], "b2": ["10.4.2.5"], "c1": ["10.6.1.5"]}
    found = {
        host: [row["address"] for row in report.host_targets(MeshPlan.from_json(mesh), pods, host)] for host in nodes
    }
    assert found["a1"] == ["10.204.1.5", "fd04::5", "10.6.1.5", "10.9.0.1"]
    assert found["a2"] == ["10.204.2.5", "fd04::5", "10.6.1.5", "10.9.0.1"], "another host asks another pod"
    assert found["b1"] == ["10.2.1.5", "10.6.1.5"]


def test_a_lost_ping_of_a_translated_pod_is_not_taken_for_one_of_a_pod_that_went():
    """Nodes look for their pods at the addresses that these have, and other clusters ping what they see."""
    mesh = {
        "nodes": {"a": {"cluster": "a"}, "b": {"cluster": "b", "exported_addresses": {"10.1.0.1": "10.9.0.1"}}},
        "clusters": {"b": {"exported_pod_cidrs": {"pairs": {"10.4.0.0/16": "10.204.0.0/16"}, "former": []}}},
    }

    def kept(target, name="pings"):
        ping = {"source": "10.2.1.5", "target": target, "node": "b", "ok": False}
        probes = {
            "a": {"pods": [], "pings": [], name: [ping]},
            "b": {"pods": [{"addresses": ["10.4.1.5"], "in_namespace": True}], "pings": []},
        }
        hostvars = {host: {results.NODE: {"probe": one, "plan": {}}} for host, one in probes.items()}
        return collected.verifications(hostvars, ["a", "b"], MeshPlan.from_json(mesh))["a"]["probe"][name]

    assert kept("10.204.1.5") and kept("10.4.1.5") and not kept("10.204.1.6")
    assert kept("10.204.1.5", "host_pings") and kept("10.9.0.1", "host_pings") and not kept("10.204.1.6", "host_pings")


def test_large_packets_that_are_lost_are_shown_where_pings_are():
    built = judged(wrong_facts.large_packets_are_lost)
    assert built["text"].count("ok 0.4 ms") == 7 and "FAIL > 1296 B" in built["text"]

    def kubespan(facts):
        facts["mesh"].update(mode="kubespan", kubespan={"affiliates": [], "device": "kubespan"})
        wrong_facts.large_packets_are_lost(facts)

    assert any(
        "set kubespan_config: {mtu: 1296} on the nodes and run site" in problem
        for problem in judged(kubespan)["problems"]
    )


INDEPENDENT = (
    wrong_facts.one_node_refused,
    wrong_facts.unreadable_cluster,
    wrong_facts.unowned_table,
    wrong_facts.stale,
    wrong_facts.unit_failed,
    wrong_facts.pods_of_another_range,
    wrong_facts.service_refused,
    wrong_facts.sets_unreadable,
    wrong_facts.names_failed,
    wrong_facts.tenants_not_compared,
    wrong_facts.nobody_announces,
)


@pytest.mark.parametrize(
    "pair", list(itertools.combinations(INDEPENDENT, 2)), ids=lambda pair: "{0.__name__}-{1.__name__}".format(*pair)
)
def test_the_worse_of_two_counts_and_both_are_reported(pair):
    built = judged(*pair)
    values = {wrong_facts.CASES[lie][0] for lie in pair}
    assert built["verdict"] == (BROKEN if BROKEN in values else UNPROVEN)
    assert all(wrong_facts.CASES[lie][1] in built["text"] for lie in pair)


def test_one_cluster_with_other_work_is_not_blamed_for_having_nobody_to_join():
    facts = verified.facts()
    facts["mesh"]["clusters"] = {"aws": {"remotes": {}}}
    for host in ("gcp-1", "gcp-2"):
        del facts["mesh"]["nodes"][host], facts["found"][host]
    facts["declared"] = ["aws-1", "aws-2"]
    for host in facts["declared"]:
        wrong_facts.probe(facts, host).update(peers=[], pings=[])
    assert report.build(facts)["verdict"] == PROVEN
    assert report.build(dict(facts, capabilities=[]))["verdict"] == UNPROVEN


def test_what_was_applied_just_now_is_no_difference_and_its_refusals_count():
    facts = verified.facts()
    wrong_facts.service_differs(facts)
    facts["applied"] = {"service_mirror": []}
    assert (
        report.build(facts)["verdict"] == PROVEN
    )  # the source has changed since; this run had read it and found it as desired
    wrong_facts.service_refused(facts)
    assert report.build(facts)["verdict"] == UNPROVEN


@pytest.mark.parametrize("written", [["Service gcp/s/x"], ["Service gcp/s/y", "Service gcp/s/x"], None])
def test_what_was_written_and_is_not_there_when_read_again_is_broken(written):
    facts = verified.facts()
    facts["plans"]["service_mirror"]["plan"]["changes"] = [
        {"action": "create", "kind": "Service", "id": "gcp/s/x", "fields": []}
    ]
    facts["applied"] = {"service_mirror": written}
    built = report.build(facts)
    assert built["verdict"] == BROKEN and built["problems"] == [
        "service_mirror: Service gcp/s/x is not as desired (create)"
    ]


def test_a_limit_is_the_scope_of_the_verdict():
    facts = verified.facts()
    wrong_facts.limit(facts)
    built = report.build(facts)
    assert built["verdict"] == PROVEN and built["ok"] and sorted(built["parts"]) == ["mesh"]
    first = (
        "scope: --limit aws_nodes: 2 of 4 nodes judged; not asked (outside --limit): nodes gcp-1, gcp-2; "
        "capabilities coredns_rewrite, load_balancers, network_sets, service_mirror, tenants"
    )
    for text in (built["text"], built["full"]):
        assert text.splitlines()[0] == first and text.splitlines()[-1] == "all green inside --limit aws_nodes"
    assert built["scope"] == {
        "limit": "aws_nodes",
        "nodes": 4,
        "judged": 2,
        "not_asked": {"nodes": ["gcp-1", "gcp-2"], "capabilities": sorted(verified.CAPABILITIES)},
    }
    assert "scope" not in report.build(verified.facts())["text"]


def test_who_nobody_asked_is_not_missed_by_those_who_were():
    """One cluster alone cannot ping the others' pods, and nobody knows what the others' speakers announce."""
    facts = verified.facts()
    wrong_facts.limit(facts, unasked=())
    facts["capabilities"] = list(verified.CAPABILITIES)
    facts["plans"]["load_balancers"]["load_balancers"]["gcp"] = {"announce": ["203.0.113.9/32"], "nodes": ["gcp-1"]}
    for host in ("aws-1", "aws-2"):
        wrong_facts.probe(facts, host)["pings"] = []
    assert report.build(facts)["verdict"] == PROVEN
    facts["limit"] = ""  # nobody said that only a part was to be judged
    built = report.build(facts)
    assert built["verdict"] == UNPROVEN and any("gcp-1, gcp-2" in reason for reason in built["problems"])


def test_a_limit_of_many_names_takes_one_line():
    facts = verified.facts()
    wrong_facts.limit(facts)
    facts["limit"] = ",".join(f"node-{number}\n" for number in range(500))
    facts["outside"] = facts["outside"] + [f"far-{number:03}" for number in range(500)]
    first = report.build(facts)["text"].splitlines()[0]
    assert len(first) < 400 and "2 of 504 nodes judged" in first and "and 492 more" in first


def test_a_cluster_that_was_not_read_is_not_reported_for_pods_out_of_place():
    facts = verified.facts()
    facts["mesh"]["failures"] = [dict(wrong_facts.FAILURE, reason="unauthorized", message="its token is not accepted")]
    for host in ("gcp-1", "gcp-2"):
        facts["mesh"]["nodes"][host]["pod_cidrs"] = []
        wrong_facts.probe(facts, host).update(pods=[], pings=[], strays=["10.4.7.10"], others=[])
    built = report.build(facts)
    assert (
        "podCIDR" not in built["text"]
        and "The CNI must take" not in built["text"]
        and "pods_outside_node_range" not in built["text"]
    )
    assert "gcp-1: cluster gcp was not read, so the pod range of this node is not known" in built["text"]
    verdict = mesh_verdict.of_host(MeshPlan.from_json(facts["mesh"]), "gcp-1", facts["found"])
    assert verdict.value == UNPROVEN and not verdict.broken
    # in a cluster that was read, it is said as before
    wrong_facts.probe(facts, "aws-1")["strays"] = ["10.2.99.5"]
    assert "aws-1: 1 pod with an address outside" in report.build(facts)["text"]


def test_whoever_has_pods_elsewhere_is_not_asked_to_start_one():
    built = judged(wrong_facts.one_node_without_pods)
    (line,) = [line for line in built["text"].splitlines() if "gcp-2: has no pod" in line]
    assert (
        "other addresses (192.168.7.5): if they are pods, the CNI uses ranges that pod_cidrs of cluster gcp or spec.podCIDR does not have"
        in line
    )


def test_refusals_that_leave_a_source_empty_are_reported_before_the_budget():
    facts = verified.facts()
    wrong_facts.every_node_refused(facts)
    facts["mesh"]["refused"] = [
        dict(wrong_facts.REFUSAL, object="gcp/" + host, reason="outside_grant") for host in ("gcp-1", "gcp-2")
    ]
    facts["mesh"]["refused"].append(dict(wrong_facts.REFUSAL, object="aws/aws-2"))
    for host in ("aws-1", "aws-2"):
        facts["found"][host]["drift"]["refused"] = [
            {"object": "gcp", "reason": "delete_budget", "message": "2 nodes were refused"}
        ]
    built = report.build(facts)
    first = built["problems"][:3]
    assert "refused gcp/gcp-1" in first[0] and "refused gcp/gcp-2" in first[1] and "[delete_budget]" in first[2]
    assert built["text"].count("refused gcp/gcp-1") == 1
    assert not any("aws/aws-2" in line for line in first) and "refused aws/aws-2" in built["text"]


@pytest.mark.parametrize("capability", ["service_mirror", "mcs", "load_balancers"])
def test_addresses_of_services_need_a_kube_proxy_on_every_node(capability):
    facts = verified.facts()
    facts["capabilities"] = [capability]
    facts["plans"] = {capability: {"plan": {"changes": []}, "refused": []}}
    for host, running in (("aws-1", False), ("gcp-1", False), ("aws-2", True), ("gcp-2", None)):
        facts["found"][host]["probe"]["service_proxy"] = {"running": running, "how": "no process kube-proxy runs"}
    built = report.build(facts)
    assert (built["verdict"], built["parts"][capability]["value"]) == ("not proven", "not proven")
    (line,) = [line for line in built["text"].splitlines() if "kube_proxy_off" in line]
    assert line.strip().startswith("aws-1: no process kube-proxy runs, so addresses of Services")
    assert line.endswith("[kube_proxy_off] (also gcp-1)")
    facts["capabilities"], facts["plans"] = ["network_sets"], {"network_sets": {"plan": {"changes": []}}}
    assert report.build(facts)["verdict"] == "proven"


def test_a_node_that_can_track_no_further_connection_is_broken():
    facts = verified.facts()
    facts["found"]["aws-1"]["probe"]["tracking"] = {"count": 262144, "most": 262144, "dropped": 12}
    facts["found"]["gcp-1"]["probe"]["tracking"] = {"count": 262143, "most": 262144, "dropped": 12}
    built = report.build(facts)
    (line,) = [line for line in built["text"].splitlines() if "conntrack_full" in line]
    assert built["verdict"] == BROKEN and line.strip().startswith(
        "aws-1: its table of tracked connections is full (262,144 of 262,144)"
    )


def test_each_part_has_its_own_verdict():
    built = judged(wrong_facts.service_differs, wrong_facts.no_pods)
    assert {name: part["value"] for name, part in built["parts"].items()} == {
        "mesh": UNPROVEN,
        "service_mirror": BROKEN,
        "coredns_rewrite": PROVEN,
        "network_sets": PROVEN,
        "load_balancers": PROVEN,
        "tenants": PROVEN,
    }


def test_combining():
    good, doubt, bad = Verdict(), Verdict(unproven=("a",)), Verdict(broken=("b",))
    for parts in itertools.permutations((good, doubt, bad)):
        assert combine(dict(enumerate(parts))).value == BROKEN
    assert (
        combine({"x": good, "y": doubt}).value == UNPROVEN
        and combine({"x": good}).value == PROVEN
        and combine({}).value == UNPROVEN
    )


def test_many_reasons_are_bounded_on_the_screen():
    lines = report_lines(Verdict(broken=tuple(f"problem {number}" for number in range(500))), {"limit": ""})
    assert lines[0] == "broken: 500 problems" and lines[-1] == "  ... and 460 more" and len(lines) == 42


def large(nodes):
    """Two clusters with so many nodes each: one peer is stale, one pair does not answer."""
    facts = verified.facts()
    hosts = {f"{cluster}-{number:03d}": cluster for cluster in ("aws", "gcp") for number in range(nodes)}
    mesh = facts["mesh"]
    mesh["nodes"] = {
        host: {"cluster": cluster, "node_name": host, "pod_cidrs": ["10.0.0.0/24"]} for host, cluster in hosts.items()
    }
    facts.update(declared=list(hosts), found={})
    for local in ("aws", "gcp"):
        remote = "gcp" if local == "aws" else "aws"
        there = [host for host, cluster in hosts.items() if cluster == remote]
        mesh["clusters"][local]["remotes"][remote]["peers"] = [
            {"node": host, "public_key": verified.key(host)} for host in there
        ]
        for host in (host for host, cluster in hosts.items() if cluster == local):
            row = copy.deepcopy(verified.probe("aws-1" if local == "aws" else "gcp-1"))
            row["peers"] = [dict(row["peers"][0], public_key=verified.key(other), handshake_age=5) for other in there]
            row["pings"] = [dict(row["pings"][0], node=other) for other in there]
            facts["found"][host] = {"drift": verified.result(), "probe": row}
    facts["found"]["aws-001"]["probe"]["bgp"] = {
        "announces": ["203.0.113.1/32"],
        "sessions": [{"state": "Established"}],
    }
    return facts


def test_the_tables_of_a_large_fabric_fit_a_screen_and_name_the_worst():
    facts = large(25)
    assert report.build(facts)["verdict"] == PROVEN
    facts["found"]["gcp-007"]["probe"]["peers"][3]["handshake_age"] = 4000
    facts["found"]["aws-009"]["probe"]["pings"][5].update(ok=False, milliseconds=None)
    built = report.build(facts)
    lines = built["text"].splitlines()
    assert len(lines) < 80 and len(built["full"].splitlines()) > 2500
    assert report.build(facts, full=False)["full"] == built["text"]
    assert "4000 s ago" in lines[1] and "12 of 1,250 peers, the worst first; 1,249 answered lately" in built["text"]
    assert "ping pod to pod: 1,249 of 1,250 pairs answer; 50 nodes take part, the worst first:" in built["text"]
    after = lines[next(number for number, line in enumerate(lines) if line.startswith("FROM")) + 1]
    assert after.split() == ["aws-009", "gcp-005", "10.4.7.10", "FAIL"]
    assert max(map(len, lines)) < 250


def test_a_mesh_of_nodes_misses_its_peers_too():
    """KubeSpan: one mesh of all nodes, also inside a cluster."""
    facts = verified.facts()
    rows = [
        {"cluster": cluster, "node": name, "public_key": verified.key(name)}
        for name, (cluster, dummy, dummy_cidr) in verified.HOSTS.items()
    ]
    facts["mesh"].update(
        mode="kubespan", kubespan={"affiliates": rows}, clusters={"aws": {"remotes": {}}, "gcp": {"remotes": {}}}
    )
    for host in facts["found"]:
        every = [name for name in verified.HOSTS if name != host]
        row = wrong_facts.probe(facts, host)
        row["peers"] = [dict(row["peers"][0], device="kubespan", public_key=verified.key(name)) for name in every]
        row["pings"] = [dict(row["pings"][0], node=name) for name in every]
    assert report.build(facts)["verdict"] == PROVEN
    facts["mesh"]["kubespan"]["affiliates"] = []
    built = report.build(facts)
    assert built["verdict"] == UNPROVEN and "aws-1: no peer is planned, so it is no part of a mesh" in built["problems"]


def test_networks_count_as_announced_where_a_neighbour_listens():
    facts = verified.facts()
    assert evidence.announcing(MeshPlan.from_json(facts["mesh"]), facts["found"]) == {
        "aws": {"203.0.113.1/32"},
        "gcp": set(),
    }


@pytest.mark.parametrize(
    "said", [{"holds": ["10.66.23.200/32"], "withheld": []}, {"holds": [], "withheld": ["10.66.23.200/32"]}]
)
def test_an_address_that_one_node_holds(said):
    facts = verified.facts()
    wrong_facts.nobody_holds(facts)
    facts["found"]["aws-1"]["probe"]["layer2"] = said
    assert report.build(facts)["verdict"] == PROVEN


def test_an_address_without_a_pod_is_withheld_and_not_unresponsive():
    facts = verified.facts()
    wrong_facts.probe(facts)["bgp"].update(announces=[], withheld=["203.0.113.1/32"])
    assert report.build(facts)["verdict"] == PROVEN
    wrong_facts.probe(facts)["bgp"]["withheld"] = []
    assert report.build(facts)["verdict"] != PROVEN


def test_a_reason_of_several_nodes_is_one_line_and_a_cause_is_said_once():
    """Of 4 nodes with one unreadable cluster every line had the whole cause."""
    facts = verified.facts()
    facts["mesh"]["failures"] = [wrong_facts.FAILURE]
    facts["mesh"]["clusters"]["aws"]["remotes"]["gcp"].update(
        peers=[], reason="cluster gcp: " + wrong_facts.FAILURE["message"]
    )
    built = report.build(facts)
    assert len([line for line in built["text"].splitlines() if wrong_facts.FAILURE["message"] in line]) == 1, built[
        "text"
    ]
    (line,) = [line for line in built["text"].splitlines() if "no peer of cluster gcp is planned" in line]
    assert line == "  aws-1: no peer of cluster gcp is planned, see above (also aws-2)"
    assert sum("no peer of cluster gcp is planned" in reason for reason in built["unproven"]) == 2, (
        "machines get all of them"
    )
