# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict from what plays registered on hosts."""

from __future__ import annotations

import pathlib
import sys

from ansible_collections.multicluster.network.plugins.action import mesh_report
from ansible_collections.multicluster.network.plugins.module_utils._status import collected

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "module_utils" / "_status"))

import verified  # pylint: disable=wrong-import-position

VARIABLES = {
    "service_mirror": "run.service_mirror",
    "coredns_rewrite": "run.coredns_rewrite",
    "network_sets": "run.network_sets",
    "load_balancers": "run.load_balancers",
    "tenants": "run.apinet_info",
}
CLUSTERS = ["aws", "gcp"]


def hostvars():
    facts = verified.facts()
    found = {name: {} for name in (*CLUSTERS, "bastion")}
    found["aws"] = {VARIABLES[name]: facts["plans"][name] for name in verified.CAPABILITIES}
    found["aws"]["run.run_changes"] = {"capabilities": list(verified.CAPABILITIES), "applied": {}}
    for host in verified.HOSTS:
        found[host] = {
            "multicluster_cluster": verified.HOSTS[host][0],
            "run.mesh_plan": {"mesh": facts["mesh"]},
            "run.node_dataplane": dict(facts["found"][host]["drift"], probe=facts["found"][host]["probe"]),
        }
    return found


def judge(given, hosts=None, **more):
    declared = [host for host in given if host not in CLUSTERS]
    return mesh_report.mesh_report(given, hosts or list(given), declared, CLUSTERS, **more)


def test_it_finds_the_plan_the_results_and_what_was_noted():
    built = judge(hostvars())
    assert (built["verdict"], sorted(built["parts"])) == ("proven", sorted(("mesh", *verified.CAPABILITIES)))


def test_a_host_that_did_not_answer_is_reported_with_what_its_connection_said():
    given = hostvars()
    given["gcp-2"]["run.node_dataplane"] = {
        "unreachable": True,
        "msg": "Connection timed out",
        "changed": False,
    }
    built = judge(given)
    assert (
        built["verdict"] == "broken"
        and "gcp-2: could not be verified (unreachable: Connection timed out)" in built["problems"]
    )
    del given["gcp-2"]["run.node_dataplane"]
    assert "gcp-2: could not be verified (unreachable or failed)" in judge(given)["problems"]


def test_a_limited_run_is_not_proven():
    built = judge(hostvars(), ["aws-1", "aws-2", "aws"])
    assert built["verdict"] == "not proven" and any(
        "2 nodes not looked at (gcp-1, gcp-2)" in reason for reason in built["problems"]
    )
    built = judge(hostvars(), ["aws-1", "aws-2", "aws"], limit="aws*", on=["service_mirror"])
    assert built["verdict"] == "proven" and built["scope"]["not_asked"] == {
        "nodes": ["gcp-1", "gcp-2"],
        "capabilities": [],
    }
    given = hostvars()
    given["aws"] = {}
    built = judge(given, ["aws-1", "aws-2"], limit="aws_nodes", on=["service_mirror", "coredns_rewrite"])
    assert built["verdict"] == "proven" and built["scope"]["not_asked"]["capabilities"] == [
        "coredns_rewrite",
        "service_mirror",
    ]


def test_a_capability_that_no_play_compared_is_missed_unless_a_limit_left_it_out():
    given = hostvars()
    given["aws"] = {}
    built = judge(given, on=["service_mirror"])
    assert built["verdict"] == "not proven" and "service_mirror: it is on, and was not compared" in built["problems"]


def test_what_a_run_wrote_counts_when_it_was_read_again():
    given = hostvars()
    change = {"action": "create", "kind": "Service", "id": "gcp/s/x", "fields": []}
    applied = verified.result(plan={"changes": [change], "create": 1, "update": 0, "delete": 0}, changed=True)
    given["aws"]["run.service_mirror"] = applied
    noted = collected.applied(given["aws"])
    assert noted["service_mirror"] == {"again": True, "written": ["Service gcp/s/x"]} and noted["coredns_rewrite"] == {
        "again": False,
        "written": [],
    }
    given["aws"]["run.run_changes"]["applied"] = noted
    assert judge(given)["verdict"] == "broken"  # nobody has read it since
    given["aws"]["run.service_mirror"] = verified.result(plan={"changes": []})
    assert judge(given)["verdict"] == "proven"
    given["aws"]["run.service_mirror"] = verified.result(plan={"changes": [dict(change, id="gcp/s/new")]})
    assert judge(given)["verdict"] == "proven"
    given["aws"]["run.service_mirror"] = verified.result(plan={"changes": [change]})
    assert judge(given)["verdict"] == "broken"
    del given["aws"]["run.service_mirror"]
    assert any("service_mirror: it is on, and was not compared" in reason for reason in judge(given)["problems"])
    given["aws"]["run.run_changes"]["capabilities"] = ["coredns_rewrite"]
    assert judge(given)["verdict"] == "proven"


def test_without_a_plan_nothing_is_proven():
    given = hostvars()
    for host in verified.HOSTS:
        given[host] = {"multicluster_cluster": verified.HOSTS[host][0]}
    assert judge(given)["problems"][0] == "the mesh was not planned, so nothing was held against it"


def test_status_collects_the_same_evidence():
    given = hostvars()
    given["aws-1"]["run.node_info"] = {"node": {"devices": []}}
    given["gcp-2"]["run.node_info"] = {"unreachable": True, "msg": "Connection timed out"}
    del given["gcp-2"]["run.node_dataplane"]["probe"]
    given["gcp-1"].pop("run.node_info", None)
    limited = collected.status(
        given,
        list(verified.HOSTS),
        CLUSTERS,
        on=["service_mirror"],
        limit="aws-1,gcp-2",
        asked=["aws-1", "gcp-2"],
    )
    assert (limited["outside"], limited["unasked"]) == (["aws-2", "gcp-1"], [])  # what was compared all the same counts
    found = collected.status(given, list(verified.HOSTS), CLUSTERS)
    assert found["unreachable"]["gcp-2"] == "unreachable: Connection timed out" and found["nodes"]["aws-1"] == {
        "devices": []
    }
    assert sorted(found["probes"]) == ["aws-1", "aws-2", "gcp-1"] and sorted(found["plans"]) == sorted(
        verified.CAPABILITIES
    )
    assert found["plans"]["load_balancers"]["load_balancers"]["aws"]["announce"] == ["203.0.113.1/32"]


def test_what_failed_and_what_is_too_much_to_tell():
    given = {
        "run.service_mirror": {"changed": True, "failures": [{}], "plan": {"changes": []}},
        "run.network_sets": {"changed": True, "failed": True},
        "run.node_annotations": {"skipped": True, "changed": False},
        "run.coredns_rewrite": {
            "changed": True,
            "failures": [],
            "plan": {"changes": [{"kind": "ConfigMap", "id": "a"}], "create": 1, "update": 1},
        },
    }
    noted = collected.applied(given)
    again = {name: row["again"] for name, row in noted.items()}
    assert again == {"service_mirror": False, "network_sets": False, "annotations": False, "coredns_rewrite": True}
    assert noted["coredns_rewrite"]["written"] is None and noted["service_mirror"]["written"] == []


def test_pods_are_collected_from_whoever_looked_for_them():
    given = {
        "a": {
            "run.node_dataplane": {
                "probe": {"pods": [{"addresses": ["10.1.0.9", "fd00::9"]}, {"addresses": ["10.1.0.10"]}]}
            }
        },
        "b": {"run.node_dataplane": {"plan": {}}, "run.node_probe": {"pods": [{"addresses": ["10.2.0.9"]}]}},
        "c": {"run.node_dataplane": {"probe": {"failed": True, "msg": "cannot probe: x"}}},
        "d": {"run.node_dataplane": {"probe": {"pods": []}}},
        "e": {},
    }
    assert collected.pods(given, given) == {"a": ["10.1.0.9", "fd00::9", "10.1.0.10"], "b": ["10.2.0.9"], "d": []}


def test_pods_alone_are_no_verification_and_a_probe_that_failed_reports_why():
    given = hostvars()
    given["gcp-2"]["run.node_dataplane"]["probe"] = {
        "pods": [{"addresses": ["10.4.2.10"]}],
        "strays": [],
        "others": [],
    }
    assert "gcp-2: could not be verified (unreachable or failed)" in judge(given)["problems"]
    given["gcp-2"]["run.node_dataplane"]["probe"] = {"failed": True, "msg": "cannot probe: no ping"}
    assert "gcp-2: could not be verified (failed: cannot probe: no ping)" in judge(given)["problems"]


def test_a_pod_that_has_gone_since_others_learned_of_it_is_held_against_nobody():
    given = hostvars()
    probe = given["aws-1"]["run.node_dataplane"]["probe"]
    missed = next(ping for ping in probe["pings"] if ping["node"] == "gcp-2")
    missed.update(ok=False, milliseconds=None)
    assert any(
        "does not reach pod" in problem for problem in judge(given)["problems"]
    )  # it is there and does not answer
    theirs = given["gcp-2"]["run.node_dataplane"]["probe"]
    theirs["pods"] = [{"addresses": ["10.99.0.1"], "in_namespace": True}]
    built = judge(given)
    assert built["verdict"] == "proven" and missed["target"] not in built["full"], built["problems"]
    del given["gcp-2"]["run.node_dataplane"]["probe"]  # its node did not say so
    assert any("does not reach pod" in problem for problem in judge(given)["problems"])
