# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each decision that needs no packet: policies, and which nodes of a plan reach each other."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._trace import policies
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach import classes
from trace_judged import number
from trace_worlds import key_of


def policy(**spec: t.Any) -> dict[str, t.Any]:
    return {
        "metadata": {"namespace": "shop", "name": "p"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [], **spec},
    }


def block(cidr: str, *but: str) -> list[t.Any]:
    return [{"from": [{"ipBlock": {"cidr": cidr, "except": list(but)}}]}]


@pytest.mark.parametrize(
    ("spec", "lacks"),
    [
        ({}, True),
        ({"policyTypes": ["Egress"]}, False),
        ({"policyTypes": None}, True),
        ({"ingress": [{}]}, False),
        ({"ingress": block("10.8.0.0/16")}, False),
        ({"ingress": block("10.9.0.0/16")}, True),
        ({"ingress": block("10.8.0.0/16", "10.8.0.0/24")}, True),
        ({"ingress": block("10.8.0.0/16", "10.8.1.0/24")}, False),
        ({"ingress": [*block("10.9.0.0/16"), *block("10.8.0.7/32")]}, False),
        ({"ingress": [{"from": [{"podSelector": {}}]}]}, True),
        ({"podSelector": {"matchLabels": {"app": "other"}}}, False),
        ({"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}}, True),
        ({"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}}, False),
        ({"podSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}, False),
        ({"podSelector": None}, False),
    ],
)
def test_a_policy_selects_whom_it_lets_in(spec: t.Any, lacks: bool) -> None:
    source = (4, number("10.8.0.7"))
    assert (policies.lacks_source([policy(**spec)], "shop", {"app": "web"}, source) is not None) == lacks
    assert policies.lacks_source([policy(**spec)], "bank", {"app": "web"}, source) is None
    # one that lets it in is enough
    assert policies.lacks_source([policy(**spec), policy(ingress=[{}])], "shop", {"app": "web"}, source) is None


def kubespan(*left_out: str, **more: t.Any) -> dict[str, t.Any]:
    """A plan of a KubeSpan mesh of two clusters with two nodes each."""
    nodes, records = {}, []
    for index, cluster in enumerate(("aws", "gcp")):
        for count in range(2):
            host, pods = f"{cluster}-{count}", f"10.{10 + index}.{count}.0/24"
            nodes[host] = {"cluster": cluster, "node_name": f"n{count}", "pod_cidrs": [pods]}
            name, address = f"n{count}", f"10.66.{index}.{count}"
            records.append(
                {
                    "cluster": cluster,
                    "node": name,
                    "nodename": name,
                    "node_id": "id-" + host,
                    "public_key": key_of(host),
                    "addresses": [address],
                    "kubespan_address": f"fd00::{index}{count}",
                    "additional_addresses": [pods],
                    "endpoints": [address + ":51820"],
                }
            )
    rows = [row for row in records if row["node_id"][3:] not in left_out]
    return {
        "mode": "kubespan",
        "nodes": nodes,
        "clusters": {"aws": {}, "gcp": {}},
        "kubespan": dict({"affiliates": rows}, **more),
    }


def test_a_kubespan_mesh_joins_nodes_of_one_cluster_too() -> None:
    pairs = classes.Pairs(MeshPlan.from_json(kubespan()))
    assert {pairs.verdict(one, other) for one in pairs.seats for other in pairs.seats if one != other} == {""}
    gone = classes.Pairs(MeshPlan.from_json(kubespan("aws-1")))
    assert (gone.verdict("aws-0", "aws-1"), gone.verdict("aws-1", "gcp-0"), gone.verdict("aws-0", "gcp-1")) == (
        "peer_missing",
        "peer_missing",
        "",
    )
    assert classes.Pairs(MeshPlan.from_json(kubespan("aws-1", unread=["aws"]))).verdict("gcp-0", "aws-1") == "not read"
    # a plan does not have those whom the nodes find through a discovery service
    found = classes.Pairs(MeshPlan.from_json(kubespan("aws-1", members={"aws": {}})))
    assert found.verdict("aws-0", "aws-1") == found.verdict("aws-1", "gcp-0") == ""
    contested = kubespan(contested=[{"cluster": "aws", "node": "n1"}])
    assert classes.Pairs(MeshPlan.from_json(contested)).verdict("gcp-0", "aws-1") == "keys_shared"
    short = kubespan()
    short["nodes"]["gcp-1"]["pod_cidrs"] = ["10.99.0.0/24"]
    assert (
        classes.Pairs(MeshPlan.from_json(short)).verdict("aws-0", "gcp-1"),
        classes.Pairs(MeshPlan.from_json(short)).verdict("gcp-1", "aws-0"),
    ) == (
        "allowed_ips_lack_target",
        "allowed_ips_lack_source",
    )


def test_the_first_of_a_mesh_is_known_by_the_others() -> None:
    """Nobody has itself as a peer: who is first in the order is looked up at the second."""
    pairs = classes.Pairs(MeshPlan.from_json(kubespan()))
    assert all(pairs.verdict(other, "aws-0") == "" for other in pairs.seats if other != "aws-0")


def test_who_is_away_is_away_from_both_ends_and_in_a_class_of_its_own() -> None:
    pairs = classes.Pairs(MeshPlan.from_json(kubespan()), ["aws-0"])
    assert (pairs.verdict("aws-0", "gcp-0"), pairs.verdict("gcp-0", "aws-0")) == ("away", "away")
    found = pairs.summary()
    assert (found["pairs"], found["reachable"], len(found["classes"])) == (12, 6, 3)
