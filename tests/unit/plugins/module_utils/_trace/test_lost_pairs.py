# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a plan changes for pairs of nodes, alongside two evaluations of whole states, one pair at a time in the plainest way."""

from __future__ import annotations

import collections
import copy
import ipaddress
import itertools
import os
import random
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.path_changes import path_changes
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Plan, reconcile
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach import changes, risks

Data = dict[str, t.Any]
DOMAIN = "wireguard.semaphore.uw.io"


def fabric(counts: t.Mapping[str, int]) -> Data:
    """A plan in which everybody reaches everybody and has published it."""
    nodes: Data = {}
    for index, cluster in enumerate(sorted(counts)):
        for number in range(counts[cluster]):
            others = [name for name in counts if name != cluster]
            said = {f"{other}.{DOMAIN}/endpoint": f"192.0.2.{number}:51820" for other in others}
            said.update((f"{other}.{DOMAIN}/pubKey", f"{cluster}-{number}") for other in others)
            nodes[f"{cluster}-{number}"] = {
                "cluster": cluster,
                "node_name": f"n{number}",
                "pod_cidrs": [f"10.{10 + index}.{number}.0/24", f"fd00:{10 + index}:0:{number}::/64"],
                "annotations": said,
                "published": dict(said),
            }
    clusters: Data = {}
    for local in counts:
        remotes = {
            remote: {
                "device": f"wireguard.{remote}",
                "mtu": 1420,
                "listen_port": 51820,
                "complete": True,
                "routes": [{"dst": f"10.{10 + place}.0.0/16"}, {"dst": f"fd00:{10 + place}::/32"}],
                "peers": [
                    {
                        "node": row["node_name"],
                        "public_key": host,
                        "endpoint": "192.0.2.9:51820",
                        "allowed_ips": list(row["pod_cidrs"]),
                    }
                    for host, row in nodes.items()
                    if row["cluster"] == remote
                ],
            }
            for place, remote in enumerate(sorted(counts))
            if remote != local
        }
        clusters[local] = {"remotes": remotes}
    return {"clusters": clusters, "nodes": nodes, "refused": []}


def spoiled(whole: Data, chance: random.Random) -> Data:
    """The same with a few things missing or different."""
    mesh = copy.deepcopy(whole)
    for cluster in mesh["clusters"].values():
        for settings in cluster["remotes"].values():
            if chance.random() < 0.2:
                settings["routes"].pop(chance.randrange(len(settings["routes"])))
            if chance.random() < 0.2:
                settings["mtu"] = chance.choice((1280, 1400))
            for peer in list(settings["peers"]):
                fate = chance.random()
                if fate < 0.1:
                    settings["peers"].remove(peer)
                elif fate < 0.2:
                    peer["allowed_ips"].pop()
                elif fate < 0.3:
                    peer["endpoint"] = "198.51.100.7:51820"
                elif fate < 0.4:
                    peer["public_key"] += "-new"
    return mesh


def devices(mesh: Data, host: str) -> Data:
    return {row["device"]: row for row in mesh["clusters"][mesh["nodes"][host]["cluster"]]["remotes"].values()}


def reported(before: Data, after: Data, host: str, absent: t.Collection[str] = ()) -> Data:
    """What the node reports in check mode: the difference of two states. absent: devices that it does not have yet."""
    old = {name: row for name, row in devices(before, host).items() if name not in absent}
    new, todo = devices(after, host), Plan()

    def links(rows: Data) -> Data:
        return {name: {key: row[key] for key in ("mtu", "listen_port")} for name, row in rows.items()}

    def peers(rows: Data) -> Data:
        return {f"{name} {peer['public_key']}": peer for name, row in rows.items() for peer in row["peers"]}

    def routes(rows: Data) -> Data:
        return {f"{name} {one['dst']}": dict(one, dev=name) for name, row in rows.items() for one in row["routes"]}

    for kind, of in (("link", links), ("peer", peers), ("route", routes)):
        todo.extend(reconcile(kind, of(new), of(old)))
    return path_changes(todo.changes)


def way(mesh: Data, source: str, target: str, absent: t.Collection[str] = ()) -> t.Any:
    """What carries packets from one host's pods to another's, None where nothing does: the plainest evaluation."""
    here, there = mesh["nodes"][source], mesh["nodes"][target]
    if here["cluster"] == there["cluster"]:
        return "same cluster"
    settings = mesh["clusters"][here["cluster"]]["remotes"][there["cluster"]]
    if settings["device"] in absent:
        return None
    found = []
    for pod in map(ipaddress.ip_network, there["pod_cidrs"]):
        routes = [ipaddress.ip_network(row["dst"]) for row in settings["routes"]]
        peers = [peer for peer in settings["peers"] if pod in map(ipaddress.ip_network, peer["allowed_ips"])]
        if not peers or not any(pod.version == net.version and pod.subnet_of(net) for net in routes):
            return None
        found.append((peers[0]["public_key"], peers[0]["endpoint"]))
    return settings["mtu"], settings["listen_port"], found


def expected(before: Data, after: Data, absent: t.Mapping[str, t.Collection[str]]) -> t.Counter[str]:
    found: t.Counter[str] = collections.Counter()
    for one, two in itertools.combinations(sorted(after["nodes"]), 2):
        old = [way(before, one, two, absent[one]), way(before, two, one, absent[two])]
        new = [way(after, one, two), way(after, two, one)]
        if None in old:
            found["broken" if None in new else "gained"] += 1
        elif None in new:
            found["lost"] += 1
        elif old != new:
            found["moved"] += 1
    return found


def counted(rows: t.Sequence[Data]) -> t.Counter[str]:
    found: t.Counter[str] = collections.Counter()
    for row in rows:
        kind = "moved" if row["kind"] == changes.RISKED else str(row["kind"])
        found[kind.replace("still ", "")] += row["pairs"]
    return found


#: Random fabrics and changes; ``tests/run what_if`` takes 1,000.
FABRICS = int(os.environ.get("MCN_FABRICS", "50"))


@pytest.mark.parametrize("block", range(5))
def test_gained_lost_and_moved_are_the_difference_of_two_independent_evaluations(block):
    for number in range(block, FABRICS, 5):
        chance = random.Random(number)
        counts = {name: chance.randint(1, 4) for name in ("a", "b", "c")[: chance.randint(2, 3)]}
        whole = fabric(counts)
        before = spoiled(whole, chance)
        after = before if chance.random() < 0.1 else spoiled(whole, chance)
        absent = {
            host: [name for name in devices(before, host) if chance.random() < 0.1 and after is not before]
            for host in after["nodes"]
        }
        paths = {host: reported(before, after, host, absent[host]) for host in after["nodes"]}
        found = changes.Changes(MeshPlan.from_json(after), paths).classes()
        if after is before:
            assert found == []
        elif any(paths.values()):
            assert counted(found) == expected(before, after, absent), (number, found)


def announced(whole: Data) -> list[Data]:
    """Affiliates of a KubeSpan mesh of the same nodes."""
    return [
        {
            "node_id": host,
            "cluster": node["cluster"],
            "node": node["node_name"],
            "public_key": host,
            "kubespan_address": f"fd00:77::{number}",
            "additional_addresses": list(node["pod_cidrs"]),
            "endpoints": ["192.0.2.9:51820"],
        }
        for number, (host, node) in enumerate(sorted(whole["nodes"].items()), 1)
    ]


def affiliates(whole: Data, chance: random.Random) -> list[Data]:
    """The same, a few of them missing or different."""
    rows = []
    for row in announced(whole):
        host, fate = row["node_id"], chance.random()
        if fate < 0.12:
            continue
        if fate < 0.24:
            row["additional_addresses"].pop()
        elif fate < 0.36:
            row["endpoints"] = ["198.51.100.7:51820"]
        elif fate < 0.48:
            row["public_key"] = host + "-new"
        rows.append(row)
    return rows


def spanning(rows: t.Sequence[Data], host: str) -> Data:
    """The peers of one node, as it takes them from all affiliates."""
    return {
        "kubespan " + row["public_key"]: {"endpoint": row["endpoints"][0], "allowed_ips": row["additional_addresses"]}
        for row in rows
        if row["node_id"] != host
    }


def spanned(rows: t.Sequence[Data], mesh: Data, source: str, target: str) -> t.Any:
    """By which peer packets of one host's pods come to another's, None where by none."""
    row = next((row for row in rows if row["node_id"] == target and row["node_id"] != source), None)
    if row is None or set(row["additional_addresses"]) != set(mesh["nodes"][target]["pod_cidrs"]):
        return None
    return row["public_key"], row["endpoints"]


@pytest.mark.parametrize("block", range(5))
def test_in_a_mesh_of_all_nodes_they_are_the_difference_of_two_independent_evaluations(block):
    for number in range(block, FABRICS, 5):
        chance = random.Random(number)
        counts = {name: chance.randint(1, 4) for name in ("a", "b", "c")[: chance.randint(1, 3)]}
        mesh = fabric(counts)
        old, new = affiliates(mesh, chance), affiliates(mesh, chance)
        part = {"subnet": "fd00:77::/64", "affiliates": new}
        plan = MeshPlan.from_json(dict(mesh, mode="kubespan", kubespan=part, clusters={name: {} for name in counts}))
        paths = {}
        for host in mesh["nodes"]:
            todo = Plan()
            todo.extend(reconcile("peer", spanning(new, host), spanning(old, host)))
            paths[host] = path_changes(todo.changes)
        kinds: t.Counter[str] = collections.Counter()
        for one, two in itertools.combinations(sorted(mesh["nodes"]), 2):
            before = [spanned(old, mesh, *ends) for ends in ((one, two), (two, one))]
            after = [spanned(new, mesh, *ends) for ends in ((one, two), (two, one))]
            if None in before:
                kinds["broken" if None in after else "gained"] += 1
            elif None in after:
                kinds["lost"] += 1
            elif before != after:
                kinds["moved"] += 1
        if any(paths.values()):
            found = changes.Changes(plan, paths).classes()
            assert counted(found) == kinds, (number, found)


def test_a_first_installation_loses_nothing():
    mesh = fabric({"a": 2, "b": 2})
    for node in mesh["nodes"].values():
        node["published"] = {}
    mesh["clusters"]["a"]["remotes"]["b"]["peers"].pop()
    paths = {host: reported(mesh, mesh, host, list(devices(mesh, host))) for host in mesh["nodes"]}
    rows = changes.Changes(MeshPlan.from_json(mesh), paths).classes()
    assert counted(rows) == {"gained": 2, "broken": 2}
    assert risks.asked_hosts(MeshPlan.from_json(mesh)) == []
    assert changes.judged(rows, [], 0, [])["stops"] == []


def test_what_is_published_and_refused_is_asked_of_the_nodes_that_look():
    mesh = fabric({"a": 2, "b": 2})
    assert risks.asked_hosts(MeshPlan.from_json(mesh)) == []
    mesh["clusters"]["a"]["remotes"]["b"]["peers"].pop()
    assert risks.asked_hosts(MeshPlan.from_json(mesh)) == ["a-0", "a-1"]
    inside = frozenset(["a-1", "b-0"])
    assert risks.asked_hosts(MeshPlan.from_json(mesh), inside) == ["a-1", "b-0"], (
        "their keys may be new, which nobody outside knows"
    )


def test_a_node_that_could_not_be_compared_is_named_and_stops_nothing():
    mesh = fabric({"a": 2, "b": 2})
    mesh["clusters"]["a"]["remotes"]["b"]["peers"].pop()
    rows = changes.Changes(MeshPlan.from_json(mesh), {}, ["a-0", "a-1"]).classes()
    found = changes.judged(rows, ["a-0", "a-1"], 0, [])
    assert (found["lost"], found["stops"]) == (0, [])
    assert found["lines"] == ["not proven: a-0, a-1 could not be compared"]


def test_the_screen_has_ten_lines_and_the_worst_first():
    rows = [
        risks._class(kind, f"cause{number}", ("a", "b"), number, ("a-0", "b-0"), "")
        for kind in (changes.LOST, changes.GAINED)
        for number in range(1, 9)
    ]
    found = changes.judged(rows, ["x"], 0, ["cause1/a/b"])
    assert len(found["lines"]) == changes.MOST_LINES
    assert found["lines"][0].startswith("lost 1 pair [cause1/a/b], a-0 to b-0")
    assert found["stops"] == [f"cause{number}/a/b" for number in range(2, 9)]
    less = changes.judged(rows, ["x"], 0, [], room=6)["lines"]
    assert len(less) == 6 and less[-3:-2] == ["13 more classes are in the plan file and in the result"]
    assert changes.judged(rows, [], 35, ["cause1/a/b"])["stops"] == []
    assert changes.judged(rows, [], -1, [])["stops"] == []


def test_in_a_full_mesh_only_peers_that_nodes_have_are_lost():
    """The plan has none of three nodes that were in the mesh."""
    nodes = {
        f"a-{number}": {
            "cluster": "a",
            "node_name": f"n{number}",
            "pod_cidrs": [f"10.1.{number}.0/24"],
            "published": {"networking.talos.dev/kubespan-ip": f"fd00::{number}"},
        }
        for number in range(3)
    }
    mesh = {"mode": "kubespan", "nodes": nodes, "clusters": {"a": {"remotes": {}}}, "kubespan": {"affiliates": []}}
    assert risks.asked_hosts(MeshPlan.from_json(mesh)) == ["a-0", "a-1", "a-2"]

    def rows(numbers: t.Iterable[int], after: Data | None) -> Data:
        return {
            "peers": [
                {
                    "action": "update" if after else "delete",
                    "device": "kubespan",
                    "key": f"key{number}",
                    "before": {"endpoint": "192.0.2.1:5", "allowed_ips": [f"10.1.{number}.0/24"]},
                    "after": after,
                }
                for number in numbers
            ]
        }

    every = {f"a-{number}": rows({0, 1, 2} - {number}, None) for number in range(3)}
    assert counted(changes.Changes(MeshPlan.from_json(mesh), every).classes()) == {"lost": 3}
    one = {"a-0": rows([1], {"endpoint": "192.0.2.2:5", "allowed_ips": ["10.1.1.0/24"]})}
    assert counted(changes.Changes(MeshPlan.from_json(mesh), one).classes()) == {"broken": 3}


def secrets_changed(rows: t.Sequence[Data], host: str) -> Data:
    """What a node of a KubeSpan mesh reports in check mode where all its peers get another preshared key."""
    todo = Plan()
    for row in rows:
        if row["node_id"] != host:
            view = {"endpoint": "192.0.2.9:51820", "allowed_ips": row["additional_addresses"], "preshared_key": "one"}
            todo.update("peer", "kubespan " + row["public_key"], view, dict(view, preshared_key="two"))
    return path_changes(todo.changes)


def spanning_plan(mesh: Data, rows: t.Sequence[Data]) -> MeshPlan:
    part = {"subnet": "fd00:77::/64", "affiliates": rows}
    clusters: Data = {name: {} for name in mesh["clusters"]}
    return MeshPlan.from_json(dict(mesh, mode="kubespan", kubespan=part, clusters=clusters))


def test_another_secret_of_a_limited_run_is_a_risk_of_the_pairs_with_those_outside():
    """Sessions go on for some minutes, and the next handshake fails: no packet shows that during the run."""
    mesh = fabric({"a": 2, "b": 2})
    rows = announced(mesh)
    plan, paths = spanning_plan(mesh, rows), {"a-0": secrets_changed(rows, "a-0")}
    assert paths["a-0"] == {"links": {}, "peers": [], "routes": [], "secrets": ["kubespan"]}
    found = changes.Changes(plan, paths, (), risks.Risks.of(plan, None, frozenset(["a-0"]))).classes()
    assert {row["class"]: (row["kind"], row["pairs"]) for row in found} == {
        "secret_changed/a/a": ("risked", 1),
        "secret_changed/a/b": ("risked", 2),
    }
    assert "outside --limit" in found[0]["message"]


def test_another_secret_of_all_nodes_moves_all_pairs():
    mesh = fabric({"a": 2, "b": 2})
    rows = announced(mesh)
    paths = {host: secrets_changed(rows, host) for host in mesh["nodes"]}
    found = changes.Changes(spanning_plan(mesh, rows), paths).classes()
    assert {row["cause"] for row in found} == {"secret_changed"} and counted(found) == {"moved": 6}
