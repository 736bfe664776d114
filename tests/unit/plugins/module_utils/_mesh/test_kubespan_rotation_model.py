# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rotation of the keys of a KubeSpan mesh in every order of steps, other runs, kills and lost nodes: no packet of a pair is dropped.

The model of a rotation of keys with the real plan of a KubeSpan mesh. A node marks packets to its peers, and the private table has them: by a route to
the peer's addresses into the bypass device, else by the default route. Addresses of the mesh itself are marked only where the part of the plan has them.
"""

from __future__ import annotations

import functools
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import Fabric, load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.annotations import (
    KEYS,
    PUBLIC_KEY,
    encode,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.identity import mesh_address
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.peers import Mesh
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.rotation import (
    ABANDONED,
    DONE,
    FINISHED,
    GO_BACK,
    STEPS,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.generations import (
    Order,
    node_devices,
    with_rotation,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kubespan import (
    annotations_to_publish,
    node_kubespan,
    plan_kubespan_mesh,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.publishing import host_reports
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import contains, parse_network
from ansible_collections.multicluster.network.plugins.module_utils._values.generations import WHOLE_MESH, is_bypass
from test_rotation_model import HOSTS, KEYS as NUMBERS, SITE, Model, Node, State, after_step, copied, key_text

MESH_ID, MARKED = "model", "marked"


def affiliate(host: str, key: str) -> dict[str, t.Any]:
    """What a node announces."""
    cluster, pods, address = HOSTS[host]
    return {
        "node_id": "id-" + host,
        "public_key": key,
        "kubespan_address": ula(host),
        "addresses": [address],
        "additional_addresses": [pods],
        "endpoints": [f"{address}:51820"],
    }


def ula(host: str) -> str:
    return str(mesh_address(MESH_ID, f"02:00:00:00:00:{ord(host):02x}"))


@functools.cache
def fabric(hosts: tuple[str, ...]) -> Fabric:
    clusters = {
        "aws": {"pod_cidrs": ["10.2.0.0/16"], "service_cidrs": ["10.3.0.0/16"], "node_cidrs": ["10.66.23.0/24"]},
        "gcp": {"pod_cidrs": ["10.4.0.0/16"], "service_cidrs": ["10.5.0.0/16"], "node_cidrs": ["10.22.22.0/24"]},
    }
    nodes = {host: {"multicluster_cluster": HOSTS[host][0]} for host in hosts}
    found, findings = load_fabric({"name": "model", "clusters": clusters, "nodes": nodes})
    assert findings == []
    return found


@functools.cache
def plan(published: t.Any, reported: t.Any, order: str, changing: tuple[str, ...]) -> MeshPlan:
    """The real plan. reported: as of the model; the device's own key is announced as an annotation."""
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
    results = {host: result_of(host, dict(keys)) for host, keys in reported}
    reports = host_reports(results)
    mesh = plan_kubespan_mesh(fabric(tuple(host for host, _pairs in published)), listings, MESH_ID, reports)
    found = with_rotation(mesh, listings, reports, Order(order, changing))
    assert list(found.refused) == []
    return found


def result_of(host: str, keys: dict[str, str]) -> dict[str, t.Any]:
    """Of node_dataplane."""
    announced = encode(affiliate(host, keys[WHOLE_MESH]))
    others = {remote: key for remote, key in keys.items() if remote != WHOLE_MESH}
    return {"public_keys": others, "kubespan": {"annotations": announced}}


class Kubespan(Model):
    """The transitions of a mesh of all nodes."""

    domains = (*KEYS, "rotation.multicluster.network")

    def __init__(self, hosts: str, changing: str) -> None:
        super().__init__(hosts, changing)
        self.pairs = [(x, y) for x in hosts for y in hosts if x != y]
        self.known: dict[t.Any, Node] = {}

    def plan(
        self, published: t.Any, reported: t.Any, order: str, changing: tuple[str, ...], preshared: int = 0
    ) -> MeshPlan:
        return plan(published, reported, order, changing)

    def part(self, mesh: MeshPlan, host: str) -> t.Any:
        return node_devices(mesh, host), node_kubespan(mesh, host)

    def to_publish(self, mesh: MeshPlan, keys: dict[str, dict[str, str]]) -> t.Any:
        results = {host: result_of(host, found) for host, found in keys.items()}
        announced = {host: result["kubespan"]["annotations"] for host, result in results.items()}
        return annotations_to_publish(
            mesh, announced, None, {host: result["public_keys"] for host, result in results.items()}
        )

    def remote(self, host: str) -> str:
        return WHOLE_MESH

    def applied(self, host: str, node: Node, mesh: MeshPlan) -> Node:
        place = (host, node, id(mesh))  # the plans are kept, so no other has this id
        if place not in self.known:
            self.known[place] = self.computed(host, node, mesh)
        return self.known[place]

    def computed(self, host: str, node: Node, mesh: MeshPlan) -> Node:
        given = node_kubespan(mesh, host)
        assert given is not None
        (key, next_key), bypass_key, before = after_step(host, node, given), None, dict(node.peers)
        names = {str(row["node_id"]): str(row["node"]) for row in given["affiliates"]}
        specs = Mesh(given["affiliates"]).specs("id-" + host).peers
        peers = {WHOLE_MESH: tuple(sorted((names[peer.node_id], peer.public_key) for peer in specs.values()))}
        for device in node_devices(mesh, host):
            if device.get("kept_only") and device["name"] not in before:
                continue
            bypass_key = copied(host, node, device)
            rows = {
                row["node"].partition("/")[2]: row["public_key"]
                for row in device["peers"]
                if isinstance(row["public_key"], str)
            }
            if len(rows) < len(device["peers"]):
                rows = {**dict(before.get(device["name"], ())), **rows}
            peers[device["name"]] = tuple(sorted(rows.items()))
        rotation = given.get("rotation") or {}
        routes = {MARKED: tuple(rotation.get("addresses") or ())}
        if rotation:
            assert rotation["device"] in peers or not rotation["routes"]
            routes[rotation["device"]] = tuple(rotation["routes"])
        return Node(key, next_key, bypass_key, tuple(sorted(peers.items())), tuple(sorted(routes.items())))

    def sends_by_bypass(self, node: Node, target: str) -> bool:
        """Whether all addresses of a peer go by the bypass device; some of them alone never do."""
        routes = dict(node.routes)
        into = [parse_network(cidr) for name, cidrs in routes.items() if is_bypass(name) for cidr in cidrs]
        ways = {
            any(contains(cidr, parse_network(text)) for cidr in into)
            for text in (HOSTS[target][1], HOSTS[target][2] + "/32", ula(target) + "/128")
        }
        assert len(ways) == 1
        aside = ways.pop()
        assert not aside or ula(target) + "/128" in routes[MARKED]  # without a mark it would go by the device
        return aside


PAIR = Kubespan("ab", "ab")


@functools.cache
def states() -> tuple[State, ...]:
    return tuple(PAIR.reachable(60000))


def test_no_reachable_state_of_a_kubespan_mesh_drops_a_packet_of_a_pair() -> None:
    found = states()
    assert len(found) > 500
    steps = {(state.run.kind, state.run.order) for state in found if state.run is not None}
    assert {(FINISHED, step) for step in STEPS} <= steps
    assert {(ABANDONED, step) for step in (GO_BACK, DONE)} <= steps
    assert any(PAIR.sends_by_bypass(dict(state.nodes)["a"], "b") for state in found)
    # the device cannot carry packets for a time, and none is sent by it
    assert any(not PAIR.agree(dict(state.nodes), "a", "b", bypass=False) for state in found)


def test_the_next_run_ends_a_rotation_of_a_kubespan_mesh_from_wherever_one_stopped() -> None:
    for state in states():
        if state.run is not None:
            continue
        for ended in PAIR.undisturbed(state, FINISHED):
            assert PAIR.dropped(ended) == []
        clean(ended)
        if any(".rotation." in name for _host, pairs in state.published for name, _value in pairs):
            continue
        assert all(now.key != before.key for (_h, now), (_i, before) in zip(ended.nodes, state.nodes))


def test_an_abandoned_rotation_of_a_kubespan_mesh_leaves_nothing_and_makes_no_key() -> None:
    for state in states():
        if state.run is not None:
            continue
        for ended in PAIR.undisturbed(state, ABANDONED):
            assert PAIR.dropped(ended) == []
        clean(ended)
        assert [node.key for _host, node in ended.nodes] == [node.key for _host, node in state.nodes]


def test_what_a_node_announces_is_valid_for_a_talos_machine_at_all_times() -> None:
    """Under its own annotations a Node has one key, which is the device's, or was until the run that changes it publishes the new one."""
    for state in states():
        for host, pairs in state.published:
            known, nodes = dict(pairs), dict(state.nodes)
            renewing = state.run is not None and state.run.order == "renew"
            if known and not renewing:
                numbers = {key_text(host, number) for number in range(NUMBERS)}
                assert known[PUBLIC_KEY] in numbers
            assert {name for name in known if ".rotation." not in name} == {
                name for name, value in encode(affiliate(host, "key")).items() if value
            }
            assert nodes[host].peers


def clean(state: State) -> None:
    for host, pairs in state.published:
        assert not [name for name, _value in pairs if ".rotation." in name], host
    for _host, node in state.nodes:
        assert node.bypass_key is None and node.next_key is None
        assert not any(is_bypass(name) for name, _rows in (*node.peers, *node.routes))


@pytest.mark.parametrize("changing", ["a", "c"])
def test_three_nodes_of_a_kubespan_mesh_of_which_one_gets_a_key_drop_nothing(changing: str) -> None:
    """What nothing goes wrong with, and each kill of it followed by each other run."""
    model = Kubespan("abc", changing)
    whole = list(model.undisturbed(model.start(), FINISHED))
    for state in whole:
        assert model.dropped(state) == []
        killed = state._replace(run=None)
        for kind in (SITE, FINISHED, ABANDONED):
            for following in model.undisturbed(killed, kind):
                assert model.dropped(following) == [], kind
    for host in "abc":
        before, after = dict(model.start().nodes)[host].key, dict(whole[-1].nodes)[host].key
        assert (before != after) == (host in changing)


def test_the_model_of_a_kubespan_mesh_sees_what_a_change_in_place_drops() -> None:
    """The control: the same model, with a new key at once."""
    state = PAIR.start()
    nodes = dict(state.nodes)
    nodes["a"] = nodes["a"]._replace(key=1)
    assert PAIR.dropped(state._replace(nodes=tuple(nodes.items()))) == ["a -> b by the device", "b -> a by the device"]
