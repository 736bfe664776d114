# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab of two clusters in which the fabric changes at random under counted packets, and what check mode shows is held against what arrived.

MCN_WHAT_IF_CASES: how many changes; MCN_WHAT_IF_FROM: the number of the first one, which is its seed. MCN_ROTATION_RATE: packets a second of each pair and
direction.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import os
import random
import time

import yaml
from ansible_collections.multicluster.network.plugins.module_utils._trace.reach.stages import WRITING
from counted_traffic import counted_traffic, packets_first, processes_alongside, roomy_sockets, wireguard_go
from rotation_lab import FAST, RATE, leaders, pods_of

CASES = int(os.environ.get("MCN_WHAT_IF_CASES", "100"))
FIRST = int(os.environ.get("MCN_WHAT_IF_FROM", "0"))
#: So many seconds after a run packets go, and for so long that is watched. Where one end alone has packets and a new key, it repeats its handshake until
#: the other knows it: that one has no reason to begin.
SETTLED, REPEATED, AFTER = 1.0, 6.0, 1.5
CLUSTERS = ("aws", "gcp")
PORTS = {"aws": (51821, 51831), "gcp": (51820, 51830)}
SPAN_PORTS = (51840, 51841)
MTUS = (1420, 1380)
#: Of all pods, and of those of the first node alone.
RANGES = {"aws": ("10.2.0.0/16", "10.2.3.0/24"), "gcp": ("10.4.0.0/16", "10.4.7.0/24")}
KEY = "/var/lib/semaphore-wireguard/wireguard.{0}.key"
FIRST_CALL, SECOND_CALL = "port_new", "key_new"
RUNNING = dict(FAST, mesh_max_lost_pairs=-1)


class State:
    """What of the fabric changes: by cluster whether its port, its MTU and its range are the other ones, by node whether its endpoint is."""

    def __init__(self):
        self.port = dict.fromkeys(CLUSTERS, 0)
        self.mtu = dict.fromkeys(CLUSTERS, 0)
        self.narrow = dict.fromkeys(CLUSTERS, 0)
        self.endpoint = {}

    def outside(self, node):
        """Whether the inventory grants nothing of a node's pods."""
        return bool(self.narrow[node[:3]]) and node.endswith("-2")

    def broken(self, pair):
        return any(map(self.outside, pair))

    def tree(self, given):
        """The inventory."""
        tree = copy.deepcopy(given)
        for cluster in CLUSTERS:
            row = tree["clusters"]["hosts"][cluster]
            row["wireguard_port"] = PORTS[cluster][self.port[cluster]]
            row["wireguard_mtu"] = MTUS[self.mtu[cluster]]
            others = [text for text in row["pod_cidrs"] if ":" in text]
            row["pod_cidrs"] = [RANGES[cluster][self.narrow[cluster]], *others]
            span = {
                "kubespan_layout": {"port": SPAN_PORTS[self.port[cluster]]},
                "kubespan_config": {"mtu": row["wireguard_mtu"]},
            }
            tree[cluster + "_nodes"].setdefault("vars", {}).update(span)
        for node, address in self.endpoint.items():
            tree[f"{node[:3]}_nodes"]["hosts"][node]["wireguard_endpoint"] = address
        return tree


class Case:
    """One random change. keys: nodes that lose theirs."""

    kinds = ("key", "key", "port", "mtu", "narrow", "narrow", "endpoint", "nothing")
    #: Variables of the runs, and which pairs of nodes the mesh carries.
    mode, within = {}, False

    def __init__(self, number, before, nodes, addresses):
        chance = random.Random(number)
        self.before, self.after, self.keys, self.what = before, copy.deepcopy(before), [], []
        for kind in sorted(chance.sample(self.kinds, chance.choice((1, 1, 2)))):
            cluster = chance.choice(CLUSTERS)
            if kind in ("port", "mtu", "narrow"):
                place = getattr(self.after, kind)
                place[cluster] = 1 - place[cluster]
                self.what.append(f"{kind} of {cluster}: {place[cluster]}")
            elif kind == "endpoint":
                node = chance.choice(nodes)
                self.after.endpoint[node] = next(
                    one for one in addresses[node] if one != self.before.endpoint.get(node, addresses[node][0])
                )
                self.what.append(f"endpoint of {node}: {self.after.endpoint[node]}")
            elif kind == "key":
                self.keys.append(chance.choice(nodes))
        # the plan refuses a node with pods outside, and leaves it as it is
        self.keys = sorted(
            {node for node in self.keys if not self.before.outside(node) and not self.after.outside(node)}
        )
        self.what += [f"new key of {node}" for node in self.keys]
        #: the cluster to which packets go alone; None for both. A node that receives nothing learns no new port of the other end.
        self.to = chance.choice((None, *CLUSTERS))
        self.pairs = [
            pair for pair in itertools.combinations(sorted(nodes), 2) if self.within or pair[0][:3] != pair[1][:3]
        ]

    def key_of(self, node):
        """The file of the key that changes."""
        return KEY.format(next(name for name in CLUSTERS if name != node[:3]))

    @property
    def settled(self):
        return REPEATED if self.to and self.keys else SETTLED

    def gap(self, pair):
        """The cause of a gap of a pair that has a path before and after, by what is changed."""
        if self.before.broken(pair) or self.after.broken(pair):
            return None
        if set(pair) & set(self.keys):
            return SECOND_CALL
        if any(self.before.port[node[:3]] != self.after.port[node[:3]] for node in pair):
            return FIRST_CALL
        return None

    def lost(self):
        return [pair for pair in self.pairs if self.after.broken(pair) and not self.before.broken(pair)]

    def gained(self):
        return [pair for pair in self.pairs if self.before.broken(pair) and not self.after.broken(pair)]


class Cases:
    """The lab and what it is like."""

    def __init__(self, fabric):
        self.fabric, self.state = fabric, State()
        self.given, self.nodes = fabric.tree, fabric.nodes
        self.addresses = {node: self._two(node) for node in self.nodes}

    def _two(self, node):
        """(its address, another one in the same network), both at the same device."""
        rows = json.loads(self.fabric.sh(node, "ip", "-j", "-4", "route", "get", "203.0.113.1"))
        own, device = rows[0]["prefsrc"], rows[0]["dev"]
        front, last = own.rsplit(".", 1)
        other = f"{front}.{int(last) + 100}"
        self.fabric.sh(node, "ip", "address", "add", other + "/24", "dev", device)
        return own, other

    def inventory(self, state):
        path = self.fabric.state / "what-if.yml"
        path.write_text(yaml.safe_dump({"all": {"children": state.tree(self.given)}}))
        return path

    @contextlib.contextmanager
    def traffic(self, to=None):
        """Packets of every pair of clusters, in both directions or to one cluster."""
        pods = pods_of(self.fabric)
        members = {node: "/run/netns/" + namespace for node, (_cluster, namespace, _address) in pods.items()}
        flows = [
            (one, two, pods[two][2])
            for one in sorted(pods)
            for two in sorted(pods)
            if pods[one][0] != pods[two][0] and to in (None, pods[two][0])
        ]
        with contextlib.ExitStack() as stack:
            stack.enter_context(packets_first(lambda: processes_alongside(leaders(self.fabric).values(), wireguard_go)))
            yield stack.enter_context(counted_traffic(self.fabric.state / "traffic", members, flows, RATE, 0, 0))


@contextlib.contextmanager
def changing(fabric):
    """The lab with its first mesh, once it has shown that it loses no packet without a change."""
    made = Cases(fabric)
    with roomy_sockets():
        fabric.play("mesh", inventory=made.inventory(made.state), variables=FAST).ok()
        fabric.all_reach()
        with made.traffic() as counted:
            time.sleep(5)
        assert counted.lost == 0, f"without a change this machine loses packets, so it cannot judge one: {counted}"
        fabric.ran(str(counted))
        yield made


def agrees(cases, case, tmp_path):
    """Makes the change of a case under packets."""
    fabric, variables = cases.fabric, dict(RUNNING, **case.mode)
    cases.state = case.after
    inventory, plan = cases.inventory(case.after), tmp_path / "plan.json"
    for node in case.keys:
        fabric.sh(node, "rm", case.key_of(node))
    checking = time.monotonic()
    fabric.play("mesh", "--check", inventory=inventory, variables=dict(variables, mesh_plan_file=str(plan))).ok()
    checked = time.monotonic() - checking
    said = json.loads(plan.read_text())["reachability"]
    expected = [case.gap(pair) for pair in case.pairs]
    for cause in (SECOND_CALL, FIRST_CALL):
        rows = [row for row in said["stages"] if row["cause"] == cause]
        assert sum(row["pairs"] for row in rows) == expected.count(cause), (case.what, said["stages"])
    assert (said["lost"], said["gained"]) == (len(case.lost()), len(case.gained())), (case.what, said["classes"])
    with cases.traffic(case.to) as counted:
        begin = time.monotonic()
        fabric.play("mesh", inventory=inventory, variables=variables).ok()
        end = time.monotonic()
        time.sleep(case.settled + AFTER)
        over = time.monotonic()
    notes = []
    for pair in case.pairs:
        if pair[0][:3] == pair[1][:3]:
            continue  # packets go between clusters
        seen = [counted.gaps[ends] for ends in (pair, pair[::-1]) if ends in counted.gaps]
        assert len(seen) == (1 if case.to else 2)
        for rows in seen:
            check_flow(
                case, pair, rows, (begin, end, over), longest(said, case.gap(pair), checked, end - begin), counted.gaps
            )
        rows = [row for rows in seen for row in rows]
        cause = case.gap(pair)
        # who gets a new key goes on receiving in its former session, and sends nothing in it
        if cause == SECOND_CALL and any(node[:3] != case.to for node in case.keys if node in pair):
            assert rows, (pair, "a gap that was said was not seen", case.what)
        if cause:
            seconds = max((two for _one, two, _count in rows), default=0) - min(
                (one for one, _two, _count in rows), default=0
            )
            notes.append(
                f"{pair[0]}+{pair[1]} {cause} {seconds:.1f} s of {longest(said, cause, checked, end - begin):.1f} s"
            )
    what, way = "; ".join(case.what) or "nothing", case.to or "both"
    fabric.ran(
        f"{type(case).__name__}: {what}: packets to {way}, {end - begin:.1f} s, {counted.sent} sent; {', '.join(notes) or 'no gap'}"
    )


def longest(said, cause, checked, taken):
    """Seconds of a gap that were announced. checked, taken: how long check mode took, and the run; that one is slower by WRITING at most.

    Where other work of the machine slowed the run down further, its gaps are so much longer.
    """
    seconds = [row["seconds"] for row in said["stages"] if row["cause"] == cause]
    return max(seconds, default=0) * max(1.0, taken / (WRITING * checked))


def check_flow(case, pair, rows, times, bound, everything):
    """Fails where packets of one direction of a pair were lost when they should not have been, or arrived when they should not."""
    begin, end, over = times
    lost = {
        "+".join(ends): [(round(one - begin, 2), round(two - begin, 2), count) for one, two, count in found]
        for ends, found in everything.items()
        if found
    }
    about = f"{case.what}, packets to {case.to or 'both'}, {pair} of a run of {end - begin:.1f} s: {lost}"
    before, after = case.before.broken(pair), case.after.broken(pair)
    if before and after:
        assert rows, about
    elif after:  # lost: it ends in the run, and stays
        assert rows and all(one >= begin for one, _two, _count in rows), about
        assert rows[-1][1] >= over - 0.5, about
    elif before:  # gained: it begins in the run, and stays
        assert rows and rows[0][0] <= begin and all(two <= end + case.settled for _one, two, _count in rows), about
    elif case.gap(pair) is None:
        assert not rows, about
    elif rows:
        assert rows[0][0] >= begin and rows[-1][1] <= end + case.settled, about
        assert rows[-1][1] - rows[0][0] <= bound, (about, bound)
