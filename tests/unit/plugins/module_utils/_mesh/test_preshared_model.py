# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preshared keys that are turned on, rotated and turned off, in every order of steps, other runs, kills and lost nodes: no packet of a pair is dropped.

The model of a rotation of keys, and its peers have the preshared keys that the real plan and the real derivation give them as well.
"""

from __future__ import annotations

import functools
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.preshared import generation_key
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.rotation import (
    ABANDONED,
    FINISHED,
    STEPS,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.generations import node_devices
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.preshared_keys import with_keys
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._values.generations import is_bypass
from test_rotation_model import SITE, Model, Node, State

SECRET = b"s" * 32


class Preshared(Model):
    """As the model, with a preshared key of each peer: its text follows the public key of the peer, after a blank."""

    def __init__(self, before: int, after: int, hosts: str = "ab") -> None:
        super().__init__(hosts, hosts)
        self.before, self.after_all = before, after
        self.known: dict[t.Any, Node] = {}
        self.judged_nodes: dict[t.Any, list[str]] = {}

    def start(self) -> State:
        self.preshared = self.before
        state = super().start()
        self.preshared = self.after_all
        return state

    def applied(self, host: str, node: Node, mesh: MeshPlan) -> Node:
        place = (host, node, id(mesh))  # the plans are kept, so no other has this id
        if place not in self.known:
            self.known[place] = self.computed(host, node, mesh)
        return self.known[place]

    def computed(self, host: str, node: Node, mesh: MeshPlan) -> Node:
        plain = {name: tuple((peer, key.partition(" ")[0]) for peer, key in rows) for name, rows in node.peers}
        found = super().applied(host, node._replace(peers=tuple(sorted(plain.items()))), mesh)
        devices, keys = with_keys(node_devices(mesh, host), "model", SECRET)
        given = {
            (device["name"], row["node"], row["public_key"]): keys[row["preshared_key"]["file"]]
            for device in devices
            for row in device["peers"]
            if row.get("preshared_key") and isinstance(row["public_key"], str)
        }
        planned = {
            (device["name"], row["node"], row["public_key"])
            for device in devices
            for row in device["peers"]
            if isinstance(row["public_key"], str)
        }
        before = {(name, peer, *key.split(" ")[:1]): key for name, rows in node.peers for peer, key in rows}
        peers = {}
        for name, rows in found.peers:
            texts = []
            for peer, key in rows:
                place = (name, peer, key)
                # a peer that is not in the plan keeps what it has
                text = before.get(place, key) if place not in planned else f"{key} {given.get(place, '')}".strip()
                texts.append((peer, text))
            peers[name] = tuple(texts)
        return found._replace(peers=tuple(sorted(peers.items())))

    def agree(self, nodes: dict[str, Node], x: str, y: str, bypass: bool) -> bool:
        plain = {
            host: node._replace(
                peers=tuple(
                    (name, tuple((peer, text.partition(" ")[0]) for peer, text in rows)) for name, rows in node.peers
                )
            )
            for host, node in nodes.items()
        }
        if not super().agree(plain, x, y, bypass):
            return False
        return self.preshared_key(nodes[x], y, bypass) == self.preshared_key(nodes[y], x, bypass)

    def dropped(self, state: State) -> list[str]:
        if state.nodes not in self.judged_nodes:
            self.judged_nodes[state.nodes] = super().dropped(state)
        return self.judged_nodes[state.nodes]

    def preshared_key(self, node: Node, peer: str, bypass: bool = False) -> str:
        rows = {name: text for key, pairs in node.peers if is_bypass(key) == bypass for name, text in pairs}
        return rows[peer].partition(" ")[2]

    def clean(self, state: State, number: int) -> None:
        """Nothing of a rotation is left, and all nodes have the generation."""
        for host, pairs in state.published:
            name = generation_key(self.remote(host))
            held = {key: value for key, value in pairs if ".rotation." in key}
            assert held == ({name: str(number)} if number else {})
        nodes = dict(state.nodes)
        for x, y in self.pairs:
            assert bool(self.preshared_key(nodes[x], y)) == bool(number)
            assert not any(is_bypass(name) for name, _rows in (*nodes[x].peers, *nodes[x].routes))


CHANGES = [pytest.param(0, 1, id="on"), pytest.param(1, 2, id="rotated"), pytest.param(2, 0, id="off")]
#: Of which every reachable state is met; the others have as many, 45,000, and are met here by one kill each.
WHOLE = CHANGES[:1]


@functools.cache
def states(before: int, after: int) -> tuple[Preshared, tuple[State, ...]]:
    model = Preshared(before, after)
    return model, tuple(model.reachable(60000))


@pytest.mark.parametrize("before, after", WHOLE)
def test_no_reachable_state_drops_a_packet_of_a_pair(before: int, after: int) -> None:
    model, found = states(before, after)
    steps = {(state.run.kind, state.run.order) for state in found if state.run is not None}
    assert {(FINISHED, step) for step in STEPS} <= steps
    # the device cannot carry packets for a time, and none is sent by it
    assert any(not model.agree(dict(state.nodes), "a", "b", bypass=False) for state in found)


@pytest.mark.parametrize("before, after", CHANGES)
def test_other_runs_leave_the_generation_that_they_find(before: int, after: int) -> None:
    model = Preshared(before, after)
    state = model.start()
    for kind in (SITE, ABANDONED, SITE):
        way = list(model.undisturbed(state, kind))
        assert not any(map(model.dropped, way))
        state = way[-1]
    model.clean(state, before)


@pytest.mark.parametrize("hosts", ["ab", "abc"])
@pytest.mark.parametrize("before, after", CHANGES)
def test_each_kill_followed_by_each_other_run_drops_nothing(before: int, after: int, hosts: str) -> None:
    model = Preshared(before, after, hosts)
    whole = list(model.undisturbed(model.start(), FINISHED))
    model.clean(whole[-1], after)
    for state in whole:
        assert model.dropped(state) == []
        for kind in (SITE, FINISHED, ABANDONED):
            for following in model.undisturbed(state._replace(run=None), kind):
                assert model.dropped(following) == [], kind


def test_each_pair_has_a_key_of_its_own() -> None:
    model = Preshared(1, 1, "abc")
    nodes = dict(model.start().nodes)
    keys = {frozenset((x, y)): model.preshared_key(nodes[x], y) for x, y in model.pairs}
    assert len(set(keys.values())) == len(keys) == 2


def test_the_model_sees_what_a_change_in_place_drops() -> None:
    model = Preshared(1, 1)
    state = model.start()
    nodes: dict[str, t.Any] = dict(state.nodes)
    rows = tuple(
        (name, tuple((peer, text.partition(" ")[0]) for peer, text in pairs)) for name, pairs in nodes["a"].peers
    )
    nodes["a"] = nodes["a"]._replace(peers=rows)
    assert len(model.dropped(state._replace(nodes=tuple(nodes.items())))) == 2
