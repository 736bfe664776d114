# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All pairs of a plan by classes, alongside one pair at a time in the plainest way."""

from __future__ import annotations

import ipaddress
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach import classes
from hypothesis import given, settings, strategies as st


def plan(counts: t.Mapping[str, int]) -> dict[str, t.Any]:
    """A mesh_plan of a Semaphore mesh in which everybody reaches everybody."""
    nodes: dict[str, t.Any] = {}
    names = sorted(counts)
    for index, cluster in enumerate(names):
        for number in range(counts[cluster]):
            cidrs = [f"10.{10 + index}.{number}.0/24", f"fd00:{10 + index}:0:0:{number}::/80"]
            nodes[f"{cluster}-{number}"] = {"cluster": cluster, "node_name": f"n{number}", "pod_cidrs": cidrs}
    clusters: dict[str, t.Any] = {}
    for local in names:
        clusters[local] = {"remotes": {}}
        for index, remote in enumerate(names):
            if remote != local:
                peers = [
                    {
                        "node": row["node_name"],
                        "public_key": host,
                        "endpoint": "1.2.3.4:5",
                        "allowed_ips": list(row["pod_cidrs"]),
                    }
                    for host, row in nodes.items()
                    if row["cluster"] == remote
                ]
                routes = [{"dst": f"10.{10 + index}.0.0/16"}, {"dst": f"fd00:{10 + index}::/64"}]
                clusters[local]["remotes"][remote] = {
                    "device": "wireguard." + remote,
                    "routes": routes,
                    "peers": peers,
                    "complete": True,
                }
    return {"nodes": nodes, "clusters": clusters}


def reaches(mesh: t.Mapping[str, t.Any], source: str, target: str) -> bool:
    """Whether packets of a node's pods come to another's, by the longest range of its peers and by who sends what to whom."""

    def leads(one: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any], asks: t.Mapping[str, t.Any], want: str) -> bool:
        settings_of = mesh["clusters"][one["cluster"]]["remotes"].get(other["cluster"])
        if settings_of is None or any(row["node"] == other["node_name"] for row in settings_of.get("contested", ())):
            return False
        for cidr in asks["pod_cidrs"]:
            address = ipaddress.ip_network(cidr)[0]
            if not any(address in ipaddress.ip_network(row["dst"]) for row in settings_of["routes"]):
                return False
            best = [
                (-ipaddress.ip_network(text).prefixlen, row["node"])
                for row in settings_of["peers"]
                for text in row["allowed_ips"]
                if address in ipaddress.ip_network(text)
            ]
            if not best or min(best)[1] != want:
                return False
        return True

    one, other = mesh["nodes"][source], mesh["nodes"][target]
    if one["cluster"] == other["cluster"]:
        return True
    return leads(one, other, other, other["node_name"]) and leads(other, one, one, one["node_name"])


COUNTS = st.dictionaries(st.sampled_from(["aws", "gcp", "merit"]), st.integers(1, 4), min_size=2)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_pair_is_answered_as_one_by_one(data: t.Any) -> None:
    counts = data.draw(COUNTS)
    mesh = plan(counts)
    for dummy in range(data.draw(st.integers(0, 3))):
        local = data.draw(st.sampled_from(sorted(counts)))
        remote = data.draw(st.sampled_from(sorted(set(counts) - {local})))
        part = mesh["clusters"][local]["remotes"].get(remote)
        if part is None or not part["peers"]:
            continue
        peer = data.draw(st.sampled_from(part["peers"]))
        what = data.draw(st.sampled_from(["peer", "allowed", "six", "wider", "routes", "device", "contested"]))
        if what == "peer":
            part["peers"].remove(peer)
        elif what == "allowed":
            peer["allowed_ips"] = ["10.99.0.0/24"]
        elif what == "six":  # of one family alone
            peer["allowed_ips"] = peer["allowed_ips"][:1]
        elif what == "wider":  # loses against the others' own
            wide = [row["dst"] for row in part["routes"]]
            # a plan gives no range to two peers, so none of them could be said to have it
            if not any(set(wide) & set(one["allowed_ips"]) for one in part["peers"]):
                peer["allowed_ips"] = [*peer["allowed_ips"], *wide] if wide else []
        elif what == "routes":
            part["routes"] = []
        elif what == "device":
            del mesh["clusters"][local]["remotes"][remote]
        else:
            part["contested"] = [peer]
            part["peers"].remove(peer)
    pairs = classes.Pairs(MeshPlan.from_json(mesh))
    hosts = sorted(mesh["nodes"])
    expected = {(one, other): reaches(mesh, one, other) for one in hosts for other in hosts if one != other}
    assert {pair: pairs.verdict(*pair) == "" for pair in expected} == expected
    found = pairs.summary()
    assert (found["pairs"], found["reachable"]) == (len(expected), sum(expected.values()))
    assert sum(row["pairs"] for row in found["cut"]) == found["pairs"] - found["reachable"] and found["unread"] == 0
    assert sum(row["nodes"] for row in found["classes"]) == len(hosts)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda part: part["peers"].pop(), "peer_missing"),
        (lambda part: part["peers"][0].update(allowed_ips=[]), "allowed_ips_lack_target"),
        (
            lambda part: part["peers"].append({"node": "another", "allowed_ips": ["10.11.0.0/25"]}),
            "allowed_ips_lack_target",
        ),
        (lambda part: part.update(routes=[]), "route_missing"),
        (lambda part: part.update(contested=[part["peers"].pop()]), "keys_shared"),
        (lambda part: part.update(peers=[], complete=False), "not read"),
    ],
)
def test_a_pair_has_its_cause(change: t.Any, cause: str) -> None:
    mesh = plan({"aws": 2, "gcp": 1})
    change(mesh["clusters"]["aws"]["remotes"]["gcp"])
    pairs = classes.Pairs(MeshPlan.from_json(mesh))
    assert pairs.verdict("aws-0", "gcp-0") == cause
    assert bool(pairs.summary()["cut"]) == (cause != "not read")


def test_what_if_a_node_or_a_cluster_is_away() -> None:
    mesh = plan({"aws": 2, "gcp": 2})
    assert classes.Pairs(MeshPlan.from_json(mesh), ["aws-0"]).verdict("gcp-0", "aws-0") == "away"
    assert classes.Pairs(MeshPlan.from_json(mesh), ["aws"]).summary()["away"] == ["aws-0", "aws-1"]
    assert (
        classes.Pairs(MeshPlan.from_json(mesh), ["aws"]).summary()["cut"] == []
        and classes.Pairs(MeshPlan.from_json(mesh), ["aws"]).summary()["reachable"] == 2
    )
