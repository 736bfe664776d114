# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rotation of keys in every order in which its steps, other runs, kills and lost nodes may come: in no reachable state is a packet of a pair dropped.

The nodes of the model do what the real plan gives them (plan_semaphore_mesh, with_rotation, node_devices, annotations_to_publish); what is modelled is
WireGuard's rule for a packet, and who does what when. Every state that can be reached is met once.
"""

from __future__ import annotations

import functools
import hashlib
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import Fabric, load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.annotations import key_of
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.rotation import (
    ABANDONED,
    DONE,
    FINISHED,
    GO_ASIDE,
    GO_BACK,
    NO_STEP,
    STEPS,
    allowed_step,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.generations import (
    Order,
    node_devices,
    records_of,
    with_rotation,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.publishing import (
    annotations_to_publish,
    host_reports,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.semaphore import plan_semaphore_mesh
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import contains, parse_network
from ansible_collections.multicluster.network.plugins.module_utils._values.generations import is_bypass
from ansible_collections.multicluster.network.plugins.module_utils._values.keys import encode_key

#: host -> cluster, pod range, address
HOSTS = {
    "a": ("aws", "10.2.1.0/24", "10.66.23.31"),
    "b": ("gcp", "10.4.1.0/24", "10.22.22.27"),
    "c": ("gcp", "10.4.2.0/24", "10.22.22.28"),
}
#: How many keys a node makes one after the other; then the first comes again.
KEYS = 3
SITE = "site"


class Node(t.NamedTuple):
    """What a node has: the number of its key, of the one that is to replace it, and of that of its bypass device, which is one that the device had.

    ``peers`` and ``routes``: {device: ...} as sorted pairs; a bypass device is there while it has an entry in ``peers``.
    """

    key: int = 0
    next_key: int | None = None
    bypass_key: int | None = None
    peers: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    routes: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Run(t.NamedTuple):
    """One run of a playbook. ``step``: place in STEPS; ``order``: the step that its plan has. ``todo``: hosts of the ``stage`` that are still to come;
    ``there``: those that answered so far. ``devices``: {host: devices of the plan} as a key of plans."""

    kind: str
    step: int
    order: str
    stage: str
    plan: t.Any
    todo: frozenset[str]
    there: frozenset[str]


class State(t.NamedTuple):
    """Everything: annotations by host as sorted pairs, nodes by host, and the run that there is."""

    published: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    nodes: tuple[tuple[str, Node], ...]
    run: Run | None = None


def key_text(host: str, number: int) -> str:
    return encode_key(hashlib.sha256(f"{host} {number}".encode()).digest())


def after_step(host: str, node: Node, given: t.Mapping[str, t.Any]) -> tuple[int, int | None]:
    """(key, next key) of a node's device. given: what the plan has of it."""
    own, following = key_text(host, node.key), (node.key + 1) % KEYS if node.next_key is None else node.next_key
    if given.get("retired_key") == own:
        return following, None
    return node.key, following if given.get("next_key_for") == own else None


def copied(host: str, node: Node, device: t.Mapping[str, t.Any]) -> int:
    """The key of a bypass device. A device that could not have the key of its plan would be refused, which no order of steps may come to."""
    for number in (node.bypass_key, node.key):
        if number is not None and device["copied_key"] in (None, key_text(host, number)):
            return number
    raise AssertionError(f"{host} has no key {device['copied_key']}")


@functools.cache
def fabric(hosts: tuple[str, ...]) -> Fabric:
    clusters = {
        "aws": {"pod_cidrs": ["10.2.0.0/16"], "service_cidrs": ["10.3.0.0/16"], "wireguard_port": 51821},
        "gcp": {"pod_cidrs": ["10.4.0.0/16"], "service_cidrs": ["10.5.0.0/16"], "wireguard_port": 51821},
    }
    nodes = {host: {"multicluster_cluster": HOSTS[host][0]} for host in hosts}
    found, findings = load_fabric({"name": "model", "clusters": clusters, "nodes": nodes})
    assert findings == []
    return found


@functools.cache
def plan(published: t.Any, reported: t.Any, order: str, changing: tuple[str, ...], preshared: int = 0) -> MeshPlan:
    """The real plan. reported: {host: ((remote, key), ...)} as pairs. preshared: the generation that the inventory asks for."""
    listings: dict[str, t.Any] = {"aws": {"nodes": []}, "gcp": {"nodes": []}}
    for host, pairs in published:
        cluster, cidr, address = HOSTS[host]
        listings[cluster]["nodes"].append(
            {
                "metadata": {"name": host, "annotations": dict(pairs)},
                "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
                "status": {"addresses": [{"type": "InternalIP", "address": address}]},
            }
        )
    reports = host_reports({host: {"public_keys": dict(keys)} for host, keys in reported})
    mesh = plan_semaphore_mesh(fabric(tuple(host for host, _pairs in published)), listings, reports)
    found = with_rotation(mesh, listings, reports, Order(order, changing), preshared)
    assert list(found.refused) == []
    return found


class Model:
    """The transitions over some hosts, of which some get a new key."""

    def __init__(self, hosts: str, changing: str) -> None:
        self.hosts, self.changing = tuple(hosts), tuple(changing)
        self.pairs = [(x, y) for x in hosts for y in hosts if HOSTS[x][0] != HOSTS[y][0]]

    def start(self) -> State:
        """A converged mesh."""
        state = State(tuple((host, ()) for host in self.hosts), tuple((host, Node()) for host in self.hosts))
        for ended in self.undisturbed(state, SITE):
            state = ended
        assert self.dropped(state) == []
        return state

    # --- what the controller does, which differs between the meshes --------------------------------------------------

    #: Of annotations that are all replaced by what is published.
    domains: tuple[str, ...] = ("wireguard.semaphore.uw.io", "rotation.multicluster.network")

    def plan(
        self, published: t.Any, reported: t.Any, order: str, changing: tuple[str, ...], preshared: int = 0
    ) -> MeshPlan:
        return plan(published, reported, order, changing, preshared)

    def part(self, mesh: MeshPlan, host: str) -> t.Any:
        """What a node is given."""
        return node_devices(mesh, host)

    def to_publish(self, mesh: MeshPlan, keys: dict[str, dict[str, str]]) -> t.Any:
        return annotations_to_publish(mesh, keys)

    # --- what a node does ----------------------------------------------------------------------------------------

    def remote(self, host: str) -> str:
        return "gcp" if HOSTS[host][0] == "aws" else "aws"

    def keys(self, host: str, node: Node) -> tuple[tuple[str, str], ...]:
        """What node_dataplane reports as public_keys."""
        found = [(self.remote(host), key_text(host, node.key))]
        if node.next_key is not None:
            found.append((self.remote(host) + "/next", key_text(host, node.next_key)))
        return tuple(found)

    def applied(self, host: str, node: Node, mesh: MeshPlan) -> Node:
        """The node after node_dataplane. A peer with a key to come is left for the next call, and nothing is purged meanwhile."""
        key, next_key, bypass_key, before = node.key, node.next_key, None, dict(node.peers)
        peers: dict[str, tuple[tuple[str, str], ...]] = {}
        routes: dict[str, tuple[str, ...]] = {}
        for device in node_devices(mesh, host):
            name = device["name"]
            if device.get("kept_only") and name not in before:
                continue
            if is_bypass(name):
                bypass_key = copied(host, node, device)
            else:
                key, next_key = after_step(host, node, device)
            known = {row["node"]: row["public_key"] for row in device["peers"] if isinstance(row["public_key"], str)}
            if len(known) < len(device["peers"]):
                known = {**dict(before.get(name, ())), **known}
            peers[name] = tuple(sorted(known.items()))
            routes[name] = tuple(device["routes"])
        return Node(key, next_key, bypass_key, tuple(sorted(peers.items())), tuple(sorted(routes.items())))

    #: The generation of preshared keys that the inventory asks for.
    preshared = 0

    # --- the rule of WireGuard -----------------------------------------------------------------------------------

    def agree(self, nodes: dict[str, Node], x: str, y: str, bypass: bool) -> bool:
        """Whether two nodes can shake hands by their devices, or by their bypass devices: each has the other's key."""
        return self.knows(nodes, x, y, bypass) and self.knows(nodes, y, x, bypass)

    def knows(self, nodes: dict[str, Node], own: str, other: str, bypass: bool) -> bool:
        """Whether one node has the other's key."""
        number = nodes[other].bypass_key if bypass else nodes[other].key
        rows = [row for name, peers in nodes[own].peers if is_bypass(name) == bypass for row in peers]
        return number is not None and dict(rows).get(other) == key_text(other, number)

    def sends_by_bypass(self, node: Node, target: str) -> bool:
        """By the longest route."""
        found = [
            (parse_network(cidr).prefixlen, is_bypass(name))
            for name, cidrs in node.routes
            for cidr in cidrs
            if contains(parse_network(cidr), parse_network(HOSTS[target][1]))
        ]
        assert found, "no route"
        return max(found)[1]

    def dropped(self, state: State) -> list[str]:
        """Pairs of which a packet would be dropped now."""
        nodes = dict(state.nodes)
        lost = []
        for x, y in self.pairs:
            bypass = self.sends_by_bypass(nodes[x], y)
            if not self.agree(nodes, x, y, bypass):
                lost.append(f"{x} -> {y} by the {'bypass ' if bypass else ''}device")
        return lost

    # --- runs ----------------------------------------------------------------------------------------------------

    def begun(self, state: State, kind: str, step: int = 0) -> State:
        """A run with the plan of its next step."""
        wish = ABANDONED if kind == ABANDONED else FINISHED
        records = records_of(self.plan(state.published, (), NO_STEP, ()))
        order = NO_STEP if kind == SITE else allowed_step(STEPS[step], records, wish)
        arguments = (state.published, (), order, self.changing, self.preshared)
        return state._replace(run=Run(kind, step, order, "apply", arguments, frozenset(self.hosts), frozenset()))

    def after(self, state: State) -> t.Iterator[State]:
        """The states that can follow."""
        run = state.run
        if run is None:
            yield self.begun(state, SITE)
            records = records_of(self.plan(state.published, (), NO_STEP, ()))
            if records or any(dict(state.nodes)[host].key == 0 for host in self.changing):
                yield self.begun(state, FINISHED)
            yield self.begun(state, ABANDONED)
            return
        yield state._replace(run=None)  # the controller is killed
        for host in run.todo:
            if self.met(state, run, host):
                ended = self.done(state, run, host)
                yield ended
                if run.stage != "publish":  # it did its part and gives no answer
                    yield self.without(ended, host)
            if run.stage != "publish":  # it gives no answer, has waited in vain, or takes its change back
                yield self.next_stage(state, run._replace(todo=run.todo - {host}, there=run.there - {host}))

    def without(self, state: State, host: str) -> State:
        """The same with a run that has lost a host, where the run still counts it."""
        run = state.run
        return (
            state if run is None else state._replace(run=run._replace(there=run.there - {host}, todo=run.todo - {host}))
        )

    def met(self, state: State, run: Run, host: str) -> bool:
        """Whether a host has what it waits for before it does a step: a handshake with each of its peers by the tunnel that is to send.

        It cannot tell one from before its own key changed, so all that it is sure of is that it has the other's key.
        """
        if run.stage == "publish" or run.order not in (GO_ASIDE, GO_BACK):
            return True
        nodes, records = dict(state.nodes), {host for host, _remote in records_of(self.plan(*run.plan))}
        bypass = run.order == GO_ASIDE
        pairs = [pair for pair in self.pairs if pair[0] == host and (run.order == GO_BACK or records.issuperset(pair))]
        if bypass:
            return all(self.agree(nodes, x, y, bypass) for x, y in pairs)
        return all(self.knows(nodes, x, y, bypass) for x, y in pairs)

    def done(self, state: State, run: Run, host: str) -> State:
        """One host's part of the stage."""
        mesh, nodes, published = self.plan(*run.plan), dict(state.nodes), dict(state.published)
        if run.stage == "publish":
            keys = {host: dict(self.keys(host, nodes[host]))}
            values = self.to_publish(mesh, keys).get(HOSTS[host][0], {}).get(host)
            if values is not None:
                left = {
                    name: value for name, value in published[host] if not any(text in name for text in self.domains)
                }
                assert all(isinstance(value, str) for value in values.values())
                published[host] = tuple(sorted({**left, **values}.items()))
        else:
            nodes[host] = self.applied(host, nodes[host], mesh)
            if run.stage == "apply":
                run = run._replace(there=run.there | {host})
        state = State(
            tuple((host, published[host]) for host in self.hosts), tuple((host, nodes[host]) for host in self.hosts)
        )
        return self.next_stage(state, run._replace(todo=run.todo - {host}))

    def next_stage(self, state: State, run: Run) -> State:
        if run.todo:
            return state._replace(run=run)
        if run.stage == "apply" and run.there:
            return state._replace(run=run._replace(stage="publish", todo=run.there))
        if run.stage == "publish":
            nodes = dict(state.nodes)
            reported = tuple((host, self.keys(host, nodes[host])) for host in sorted(run.there))
            again = (state.published, reported, run.order, self.changing, self.preshared)
            after, before = self.plan(*again), self.plan(*run.plan)
            news = {host for host in run.there if self.part(after, host) != self.part(before, host)}
            run = run._replace(stage="again", plan=again, todo=frozenset(news))
            if news:
                return state._replace(run=run)
        return self.judged(state._replace(run=None), run)

    def judged(self, state: State, run: Run) -> State:
        """The next step, if every node did this one; else the run fails."""
        if run.kind == SITE or run.step + 1 == len(STEPS) or run.there != set(self.hosts):
            return state
        return self.begun(state, run.kind, run.step + 1)

    def undisturbed(self, state: State, kind: str) -> t.Iterator[State]:
        """A run of which nothing goes wrong, state by state."""
        state = self.begun(state._replace(run=None), kind)
        while state.run is not None:
            run = state.run
            state = self.done(state, run, min(run.todo))
            yield state

    def reachable(self, most: int) -> dict[State, State | None]:
        """Every state, each with one that it came from. Fails at the first in which a packet is dropped, with the way to it."""
        first = self.start()
        seen: dict[State, State | None] = {first: None}
        todo = [first]
        while todo:
            state = todo.pop()
            for following in self.after(state):
                if following in seen:
                    continue
                seen[following] = state
                lost = self.dropped(following)
                assert not lost, f"{lost}:\n{way_to(seen, following)}"
                assert len(seen) < most, "more states than expected"
                todo.append(following)
        return seen


def way_to(seen: dict[State, State | None], state: State | None) -> str:
    rows: list[str] = []
    while state is not None:
        run = state.run
        rows.append(
            f"run {run.kind} {run.order or '-'} {run.stage} todo {sorted(run.todo)}" if run else "no run is there"
        )
        rows += [f"   {host}: {dict(pairs)} {dict(state.nodes)[host]}" for host, pairs in state.published]
        state = seen[state]
    return "\n".join(reversed(rows[:80]))


PAIR = Model("ab", "ab")


@functools.cache
def states() -> tuple[State, ...]:
    return tuple(PAIR.reachable(60000))


def test_no_reachable_state_drops_a_packet_of_a_pair() -> None:
    found = states()
    assert len(found) > 500
    steps = {(state.run.kind, state.run.order) for state in found if state.run is not None}
    assert {(FINISHED, step) for step in STEPS} <= steps
    assert {(ABANDONED, step) for step in (GO_BACK, DONE)} <= steps
    assert any(PAIR.sends_by_bypass(dict(state.nodes)["a"], "b") for state in found)
    assert any(dict(state.nodes)["a"].key != dict(state.nodes)["b"].key for state in found)


def test_the_next_run_ends_a_rotation_from_wherever_one_stopped() -> None:
    for state in states():
        if state.run is not None:
            continue
        for ended in PAIR.undisturbed(state, FINISHED):
            assert PAIR.dropped(ended) == []
        clean(ended)
        if any(".rotation." in name for _host, pairs in state.published for name, _value in pairs):
            continue
        assert all(now.key != before.key for (_h, now), (_i, before) in zip(ended.nodes, state.nodes))


def test_a_rotation_calls_each_node_once_a_step() -> None:
    """What a rotation costs is what its calls cost."""
    run = [state.run for state in PAIR.undisturbed(PAIR.start(), FINISHED) if state.run is not None]
    assert {found.stage for found in run} == {"apply", "publish"}
    assert {found.order for found in run} == set(STEPS)


def test_an_abandoned_rotation_leaves_nothing_and_makes_no_key() -> None:
    for state in states():
        if state.run is not None:
            continue
        for ended in PAIR.undisturbed(state, ABANDONED):
            assert PAIR.dropped(ended) == []
        clean(ended)
        assert [node.key for _host, node in ended.nodes] == [node.key for _host, node in state.nodes]


def clean(state: State) -> None:
    for host, pairs in state.published:
        assert [name for name, _value in pairs] == sorted(
            key_of(PAIR.remote(host), what) for what in ("pubKey", "endpoint")
        )
    for _host, node in state.nodes:
        assert node.bypass_key is None and node.next_key is None
        assert not any(is_bypass(name) for name, _rows in (*node.peers, *node.routes))


@pytest.mark.parametrize("hosts, changing", [("abc", "a"), ("abc", "b")])
def test_three_nodes_of_which_one_gets_a_key_drop_nothing(hosts: str, changing: str) -> None:
    """What nothing goes wrong with, and each kill of it followed by each other run: all interleavings would be millions."""
    model = Model(hosts, changing)
    whole = list(model.undisturbed(model.start(), FINISHED))
    for state in whole:
        assert model.dropped(state) == []
        killed = state._replace(run=None)
        for kind in (SITE, FINISHED, ABANDONED):
            for following in model.undisturbed(killed, kind):
                assert model.dropped(following) == [], kind
    for host in hosts:
        before, after = dict(model.start().nodes)[host].key, dict(whole[-1].nodes)[host].key
        assert (before != after) == (host in changing)


def test_the_model_sees_what_a_change_in_place_drops() -> None:
    """The control: the same model, with a new key at once."""
    state = PAIR.start()
    nodes = dict(state.nodes)
    nodes["a"] = nodes["a"]._replace(key=1)
    assert PAIR.dropped(state._replace(nodes=tuple(nodes.items()))) == ["a -> b by the device", "b -> a by the device"]
