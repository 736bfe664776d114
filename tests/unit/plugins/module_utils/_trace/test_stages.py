# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gaps on the way of a run, alongside an evaluation of every pair after every step of runs in random orders."""

from __future__ import annotations

import copy
import itertools
import os
import random
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.path_changes import path_changes
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Plan, reconcile
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach import changes, risks, stages
from test_lost_pairs import announced, fabric, secrets_changed, spanning_plan

Data = dict[str, t.Any]
DOMAIN = "wireguard.semaphore.uw.io"
PORT, OTHER_PORT = 51820, 51900
#: Random fabrics and changes; ``tests/run what_if`` takes 1,000.
FABRICS = int(os.environ.get("MCN_FABRICS", "50"))
#: Random orders of each of them.
ORDERS = 12


class Run:
    """A fabric in which nodes have keys and ports for each remote cluster, some of them new, and what each node knows of the others."""

    def __init__(self, chance: random.Random) -> None:
        names = ("a", "b", "c")[: chance.randint(2, 3)]
        self.cluster = {f"{name}-{number}": name for name in names for number in range(chance.randint(1, 3))}
        self.names = names
        ports = {(one, two) for one in names for two in names if one != two and chance.random() < 0.2}
        self.new: Data = {}
        for host, name in self.cluster.items():
            for remote in names:
                if remote != name:
                    key = f"{host}-{remote}" + ("-new" if chance.random() < 0.2 else "")
                    self.new[host, remote] = key, OTHER_PORT if (name, remote) in ports else PORT
        self.old = {end: (f"{end[0]}-{end[1]}", PORT) for end in self.new}

    def pairs(self) -> t.Iterator[tuple[str, str]]:
        for one, two in itertools.combinations(sorted(self.cluster), 2):
            if self.cluster[one] != self.cluster[two]:
                yield one, two

    def plan(self) -> MeshPlan:
        """What the run plans before anything is published: the former keys of others, and their new ports."""
        nodes: Data = {}
        for index, (host, name) in enumerate(self.cluster.items()):
            published = {f"{remote}.{DOMAIN}/pubKey": f"{host}-{remote}" for remote in self.names if remote != name}
            nodes[host] = {
                "cluster": name,
                "node_name": host,
                "pod_cidrs": [f"10.{index}.0.0/24"],
                "published": published,
            }
        clusters: Data = {}
        for name in self.names:
            remotes = {}
            for remote in self.names:
                if remote != name:
                    members = [host for host in nodes if nodes[host]["cluster"] == remote]
                    remotes[remote] = {
                        "device": f"wireguard.{remote}",
                        "mtu": 1420,
                        "complete": True,
                        "routes": [{"dst": nodes[host]["pod_cidrs"][0]} for host in members],
                        "peers": [
                            {
                                "node": host,
                                "public_key": self.old[host, name][0],
                                "endpoint": f"192.0.2.1:{self.new[host, name][1]}",
                                "allowed_ips": nodes[host]["pod_cidrs"],
                            }
                            for host in members
                        ],
                    }
            clusters[name] = {"remotes": remotes}
        return MeshPlan.from_json({"clusters": clusters, "nodes": nodes, "refused": []})

    def paths(self, host: str) -> Data:
        """What the node reports in check mode."""
        old, new = Plan(), {}
        before: Data = {}
        for (one, remote), (key, port) in self.old.items():
            if one == host:
                before[f"wireguard.{remote}"] = {"mtu": 1420, "listen_port": port, "public_key": key}
                changed = self.new[one, remote]
                new[f"wireguard.{remote}"] = {"mtu": 1420, "listen_port": changed[1], "public_key": changed[0]}
        old.extend(reconcile("link", new, before))
        return path_changes(old.changes)

    def downs(self, chance: random.Random) -> t.Iterator[tuple[set[tuple[str, str]], set[tuple[str, str]]]]:
        """(calls made so far, pairs without a path) after every step of a run in a random order."""
        own = copy.deepcopy(self.old)
        known = {
            (one, two): self.old[two, self.cluster[one]] for pair in self.pairs() for one, two in (pair, pair[::-1])
        }
        hosts, made = list(self.cluster), set()
        for call in (stages.FIRST_CALL, stages.SECOND_CALL):
            chance.shuffle(hosts)
            for host in hosts:
                for end in own:
                    if end[0] == host:
                        own[end] = self.new[end]
                for one, two in known:
                    if one == host:
                        end = two, self.cluster[one]
                        key = self.old[end][0] if call == stages.FIRST_CALL else self.new[end][0]
                        known[one, two] = key, self.new[end][1]
                made.add((call, host))
                yield (
                    set(made),
                    {
                        (one, two)
                        for one, two in self.pairs()
                        if known[one, two] != own[two, self.cluster[one]]
                        or known[two, one] != own[one, self.cluster[two]]
                    },
                )


@pytest.mark.parametrize("block", range(5))
def test_a_pair_is_without_a_path_only_between_the_steps_that_are_named(block):
    for number in range(block, FABRICS, 5):
        chance = random.Random(number)
        run = Run(chance)
        found = changes.Changes(run.plan(), {host: run.paths(host) for host in run.cluster})
        expected = {pair: stages.gap_of(found, *pair) for pair in run.pairs()}
        seen: t.Counter[tuple[str, str]] = t.Counter()
        for _order in range(ORDERS):
            for made, down in run.downs(chance):
                for pair, gap in expected.items():
                    begun = gap is not None and any((stages.FIRST_CALL, host) in made for host in gap.begin)
                    ended = gap is not None and all((gap.until, host) in made for host in gap.end)
                    if pair in down:
                        seen[pair] += 1
                        assert begun and not ended, (number, pair, gap, sorted(made))
                    elif gap is not None and gap.cause == stages.KEY_NEW and (stages.FIRST_CALL, gap.host) in made:
                        assert (gap.until, gap.peer) in made, (number, pair, gap, sorted(made))
        assert {pair for pair, gap in expected.items() if gap is not None} == set(seen), number
        rows = stages.gaps(found)
        assert sum(row["pairs"] for row in rows) == sum(gap is not None for gap in expected.values()), (number, rows)


def test_the_screen_names_a_node_and_the_steps():
    run = Run(random.Random(1))
    run.new.update(run.old)
    assert stages.lines(stages.gaps(changes.Changes(run.plan(), {host: run.paths(host) for host in run.cluster}))) == []
    run.new["a-0", "b"] = "new", PORT
    shown = stages.lines(stages.gaps(changes.Changes(run.plan(), {host: run.paths(host) for host in run.cluster})))
    assert (
        len(shown) == 1
        and "[key_new/a/b], as a-0 to b-0 from the first call of a-0 to the second call of b-0" in shown[0]
    )


@pytest.mark.parametrize(
    ("end", "expected"), [(("new", PORT), 2 * 10 + 6), (("a-0-b", OTHER_PORT), 2 * 4 + 6)], ids=["key", "port"]
)
def test_a_gap_is_at_most_as_long_as_its_steps_of_the_run(end, expected):
    run = Run(random.Random(1))
    run.new.update(run.old)
    run.new["a-0", "b"] = end
    found = changes.Changes(run.plan(), {host: run.paths(host) for host in run.cluster})
    rows = stages.gaps(found, stages.Measured(first=4.0, second=10.0))
    assert {row["seconds"] for row in rows} == {expected}
    assert stages.lines(rows)[0].startswith(f"without a path for at most {expected} s 1 pair [")
    assert stages.lines(stages.gaps(found))[0].startswith("without a path for a while 1 pair [")


@pytest.mark.parametrize(
    ("mode", "goes", "comes"), [("kubespan", "wireguard.{0}", "kubespan"), (None, "kubespan", "wireguard.{0}")]
)
@pytest.mark.parametrize("published", [True, False])
def test_another_mode_of_the_mesh_moves_pairs_with_a_gap(mode, goes, comes, published):
    whole = fabric({"a": 1, "b": 2})
    side = {"mtu": 1420, "listen_port": PORT, "public_key": "k"}
    if mode:
        rows = [
            {
                "node_id": host,
                "cluster": node["cluster"],
                "node": node["node_name"],
                "public_key": host,
                "kubespan_address": f"fd00:77::{number}",
                "additional_addresses": node["pod_cidrs"],
            }
            for number, (host, node) in enumerate(whole["nodes"].items(), 1)
        ]
        part = {"subnet": "fd00:77::/64", "affiliates": rows if published else []}
        whole.update(mode=mode, kubespan=part, clusters={"a": {}, "b": {}})
    paths = {}
    for host, node in whole["nodes"].items():
        other = "b" if node["cluster"] == "a" else "a"
        links = {
            goes.format(other): {"action": "delete", "before": side, "after": None},
            comes.format(other): {"action": "create", "before": None, "after": side},
        }
        paths[host] = {"links": links, "peers": [], "routes": []}
    found = changes.Changes(MeshPlan.from_json(whole), paths)
    moved = [row for row in found.classes() if row["kind"] == changes.MOVED]
    assert [(row["class"], row["pairs"]) for row in moved] == [("mode_changed/a/b", 2)]
    assert [(row["cause"], row["pairs"], row["ends"].split()[1]) for row in stages.gaps(found)] == [
        (stages.MODE_NEW, 2, "second")
    ]


def test_one_call_before_the_first_write_shows_how_long_the_whole_takes():
    # two of a hundred hosts took 3 s, ten are called at once: two calls and publishing, ten times
    assert stages.Measured.of_calls(3.0, 2, 100, 10) == (60.0, 90.0)
    assert stages.Measured.of_calls(3.0, 4, 4, 5) == (6.0, 9.0)


def test_a_key_that_others_know_already_makes_no_gap():
    """The device had another one than the one that is published, so there was no path that could be lost."""
    run = Run(random.Random(1))
    run.new.update(run.old)
    plan = run.plan()
    run.old["a-0", "b"] = "another", PORT
    assert stages.gaps(changes.Changes(plan, {host: run.paths(host) for host in run.cluster})) == []


@pytest.mark.parametrize(("first", "gaps"), [(5.0, 0), (20.0, 6), (None, 6)], ids=["short", "long", "unmeasured"])
def test_another_secret_makes_a_gap_where_calls_take_longer_than_sessions(first, gaps):
    """A handshake between one that has it and one that has not fails, and the former session goes on for a while."""
    mesh = fabric({"a": 2, "b": 2})
    rows = announced(mesh)
    found = changes.Changes(spanning_plan(mesh, rows), {host: secrets_changed(rows, host) for host in mesh["nodes"]})
    shown = stages.gaps(found, stages.Measured(first, 2 * first) if first else None)
    assert sum(row["pairs"] for row in shown) == gaps
    assert {row["cause"] for row in shown} <= {stages.SECRET_NEW}
    assert all(row["ends"].startswith(stages.FIRST_CALL) for row in shown)


@pytest.mark.parametrize("step", ["renew", ""])
@pytest.mark.parametrize("spans", [False, True], ids=["pairs", "whole mesh"])
def test_a_rotation_announces_gaps_by_the_secret_of_a_whole_mesh_alone(spans, step):
    """Preshared keys of pairs change while packets go by the bypass devices, which check mode has not made."""
    mesh = fabric({"a": 2, "b": 2})
    rows = announced(mesh)
    if spans:
        plan, paths = spanning_plan(mesh, rows), {host: secrets_changed(rows, host) for host in mesh["nodes"]}
    else:
        plan = MeshPlan.from_json(mesh)
        paths = {host: {"secrets": [f"wireguard.{'b' if host.startswith('a') else 'a'}"]} for host in mesh["nodes"]}
    found = stages.gaps(changes.Changes(plan._replace(rotation_step=step), paths))
    assert bool(found) == (spans or not step)


@pytest.mark.parametrize("mode", ["kubespan", None])
def test_another_mode_of_a_limited_run_loses_the_pairs_with_those_outside(mode):
    """Those inside leave the former mode, and those outside publish nothing for the new one."""
    whole = fabric({"a": 1, "b": 2})
    side = {"mtu": 1420, "listen_port": PORT, "public_key": "k"}
    if mode:
        part = {"subnet": "fd00:77::/64", "affiliates": []}
        whole.update(mode=mode, kubespan=part, clusters={"a": {}, "b": {}})
    else:
        whole["clusters"]["a"]["remotes"]["b"]["peers"] = []
        whole["clusters"]["b"]["remotes"]["a"]["peers"] = []
        for node in whole["nodes"].values():
            node["published"] = {}
    goes, comes = ("wireguard.b", "kubespan") if mode else ("kubespan", "wireguard.b")
    links = {
        goes: {"action": "delete", "before": side, "after": None},
        comes: {"action": "create", "before": None, "after": side},
    }
    plan, inside = MeshPlan.from_json(whole), frozenset(["a-0"])
    assert risks.asked_hosts(plan, inside) == ["a-0"]
    found = changes.Changes(plan, {"a-0": {"links": links}}, (), risks.Risks.of(plan, None, inside))
    rows = [row for row in found.classes() if row["kind"] == changes.LOST]
    assert [(row["class"], row["pairs"]) for row in rows] == [("peer_missing/a/b", 2)]
    assert not stages.gaps(found), "what is lost has no gap"


def test_a_mesh_that_was_never_of_pairs_of_clusters_moves_to_that():
    """Its key is not published before the run."""
    whole = fabric({"a": 1, "b": 2})
    for name, other in (("a", "b"), ("b", "a")):
        whole["clusters"][name]["remotes"][other]["peers"] = []
    side = {"mtu": 1420, "listen_port": PORT, "public_key": "k"}
    paths = {}
    for host, node in whole["nodes"].items():
        node["published"] = {}
        device = "wireguard." + ("b" if node["cluster"] == "a" else "a")
        links = {
            "kubespan": {"action": "delete", "before": side, "after": None},
            device: {"action": "create", "before": None, "after": side},
        }
        paths[host] = {"links": links, "peers": [], "routes": []}
    found = changes.Changes(MeshPlan.from_json(whole), paths)
    assert [(row["kind"], row["class"], row["pairs"]) for row in found.classes()] == [
        (changes.MOVED, "mode_changed/a/b", 2)
    ]
    assert [(row["cause"], row["pairs"]) for row in stages.gaps(found)] == [(stages.MODE_NEW, 2)]
