# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""New keys for two nodes under traffic, by the plan that the playbook follows and the flow that it runs on nodes, without Ansible and API servers.

Packets have numbers and are counted where they arrive. tests/scenario/test_rotation.py is the whole way.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import typing as t

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import load_fabric
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.rotation import (
    DONE,
    GO_ASIDE,
    GO_BACK,
    NO_STEP,
    PREPARE,
    RENEW,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import rotation_checks
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.generations import (
    Order,
    node_devices,
    unread_devices,
    with_rotation,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.publishing import (
    annotations_to_publish,
    host_reports,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.semaphore import plan_semaphore_mesh
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import to_wire
from conftest import SLOW

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scenario"))

from counted_traffic import REACHED, counted_traffic, packets_first, processes_alongside, wireguard_go

FOLDER = "/var/lib/semaphore-wireguard"
UNDERLAY = {"a": "10.66.23.31", "b": "10.66.23.32"}
PODS = {"a": "10.2.1.1", "b": "10.4.1.1"}
CLUSTER = {"a": "aws", "b": "gcp"}
#: Packets a second. Where other tests take the processors for a second, a device of wireguard-go has no room for more than 500 packets; `tests/run rotation`
#: runs alone, and sends 1,000.
RATES = (int(os.environ.get("MCN_ROTATION_RATE", "250")), 60)
#: On the kernel's WireGuard, in the virtual machine, two.
ROTATIONS = 2 if SLOW > 1 else 1


class Pair:
    """Two nodes of two clusters; what their Node objects have is plain data."""

    #: The generation of preshared keys that the inventory asks for.
    preshared = 0
    #: Between which addresses there is traffic.
    places: t.ClassVar[dict[str, str]] = PODS
    #: For how long a change waits for its confirmation.
    rollback_seconds = 0

    def __init__(self, nodes, tmp_path, filters):
        self.folder = tmp_path
        self.nodes = nodes
        clusters = {
            "aws": {"pod_cidrs": ["10.2.0.0/16"], "service_cidrs": ["10.3.0.0/16"], "wireguard_port": 51821},
            "gcp": {"pod_cidrs": ["10.4.0.0/16"], "service_cidrs": ["10.5.0.0/16"], "wireguard_port": 51821},
        }
        for host, cluster in CLUSTER.items():
            clusters[cluster]["node_cidrs"] = [UNDERLAY[host] + "/32"]
        nodes = {host: {"multicluster_cluster": cluster} for host, cluster in CLUSTER.items()}
        self.fabric, findings = load_fabric({"name": "pair", "clusters": clusters, "nodes": nodes})
        assert not findings
        self.annotations = {"a": {}, "b": {}}
        self.keys, self.results = {}, {}
        self.opened = []
        for name, node in self.nodes.items():
            node.run("ip", "address", "add", PODS[name] + "/32", "dev", "lo")
            for key, value in filters.items():
                node.run("sh", "-c", f"echo {value} >/proc/sys/net/ipv4/conf/{key}/rp_filter")

    def plan(self, step, reported=None):
        listings = {
            cluster: {
                "nodes": [
                    {
                        "metadata": {"name": host, "annotations": self.annotations[host]},
                        "spec": {"podCIDR": PODS[host] + "/32", "podCIDRs": [PODS[host] + "/32"]},
                        "status": {"addresses": [{"type": "InternalIP", "address": UNDERLAY[host]}]},
                    }
                ]
            }
            for host, cluster in CLUSTER.items()
        }
        results = {host: dict(self.results.get(host, {}), public_keys=keys) for host, keys in (reported or {}).items()}
        reports = host_reports(results)
        mesh = with_rotation(self.mesh(listings, reports), listings, reports, Order(step, ("a", "b")), self.preshared)
        assert not mesh.refused, mesh.refused
        return MeshPlan.from_json(json.loads(json.dumps(to_wire(mesh.to_json()))))

    def mesh(self, listings, reports):
        return plan_semaphore_mesh(self.fabric, listings, reports)

    def wish(self, host, mesh):
        """What a node is given of a plan."""
        return {"devices": [dict(device, node=host) for device in node_devices(mesh, host)]}

    def to_publish(self, mesh):
        return annotations_to_publish(mesh, self.keys)

    def apply(self, host, mesh):
        wish = {"fabric": "pair", "node": host, "unread_devices": unread_devices(mesh, host), **self.wish(host, mesh)}
        result = self.nodes[host].flow("dataplane", dict(wish, rollback_seconds=self.rollback_seconds), False)
        self.opened += [host] if "transaction" in result else []
        assert not result["refused"], result["refused"]
        self.keys[host], self.results[host] = result["public_keys"], result
        return result

    def step(self, step):
        """One pass over the mesh, in which each node waits for what the step needs."""
        mesh = self.plan(step)
        for host, node in self.nodes.items():
            tunnels, quiet = rotation_checks.awaited(mesh, host)
            if tunnels:
                asked = {"tunnels": tunnels, "quiet": quiet, "quiet_seconds": 1.0, "timeout": 30.0 * SLOW}
                found = node.flow("handshakes", asked)
                assert not found["missing"] and not found["busy"], found
            self.apply(host, mesh)
        for row in self.to_publish(mesh).values():
            for host, values in row.items():
                self.annotations[host] = values
        again = self.plan(step, self.keys)
        for host in self.nodes:
            if self.wish(host, again) != self.wish(host, mesh):
                self.apply(host, again)

    @contextlib.contextmanager
    def traffic(self, rate):
        """Packets, three streams and a download between both nodes meanwhile, as counted_traffic has them."""
        members = {host: (f"/proc/{node.pid}/ns/net", self.places[host]) for host, node in self.nodes.items()}
        flows = [("a", "b", self.places["b"]), ("b", "a", self.places["a"])]
        leaders = [node.pid for node in self.nodes.values()]
        first = packets_first(lambda: processes_alongside(leaders, wireguard_go))
        with first, counted_traffic(self.folder / "traffic", members, flows, rate, streams=3) as counted:
            yield counted

    def device(self, host):
        return self.nodes[host].run("wg", "show", "interfaces").split()

    def seen(self, host):
        """What a boot must bring back, without counters."""
        node = self.nodes[host]
        peers = [line.split("\t")[:5] for line in node.run("wg", "show", "all", "dump").splitlines()]
        texts = (node.run("ip", "-o", *words) for words in (("-4", "address"), ("-4", "route", "show", "table", "all")))
        shown = (sorted(re.sub(r"(?m)^\d+: ", "", text).splitlines()) for text in texts)
        return [sorted(peers), *shown]

    def boot(self, host):
        """The devices go, files stay, and the boot unit's program runs."""
        node = self.nodes[host]
        for name in self.device(host):
            node.run("ip", "link", "del", name)
        (code,) = node.run("sh", "-c", "ls /usr/local/lib/multicluster-network/pair/*.pyz").split()
        node.run(sys.executable, "-B", code, "/var/lib/multicluster-network/pair/dataplane.json")


SERVER = """
import socket, sys
server = socket.create_server(("{0}", 5000))
print("ready", flush=True)
held = server.accept()
sys.stdin.read()
"""
CLIENT = """
import socket, sys
held = socket.create_connection(("{1}", 5000), 20, ("{0}", 0))
print("ready", flush=True)
sys.stdin.read()
"""
#: Reverse-path filters that hosts have: none, loose by systemd's default, strict for all devices.
FILTERS = {"loose": {"all": 2, "default": 2}, "strict": {"all": 1, "default": 0}}


@pytest.fixture(name="pair", params=[pytest.param("loose", marks=pytest.mark.takes_long), "strict"])
def pair_fixture(request, two_nodes, implementation, tmp_path):
    del implementation  # auto takes the kernel where that has WireGuard
    pair = Pair(two_nodes(UNDERLAY), tmp_path, FILTERS[request.param])
    pair.step(NO_STEP)
    return pair


def steady_rate(pair):
    """The rate at which this machine, which may be busy with other tests, loses nothing by itself."""
    for rate in RATES:
        with pair.traffic(rate) as counted:
            time.sleep(2)
        if not counted.lost and counted.reached >= REACHED * rate:
            return rate
    pytest.skip(f"NOT RUN: this machine loses packets without a rotation, so none could be counted: {counted}")


def test_new_keys_lose_no_packet_and_break_no_stream(pair):
    rate, before = steady_rate(pair), dict(pair.keys)
    with pair.traffic(rate) as counted:
        for step in (PREPARE, GO_ASIDE, RENEW, GO_BACK, DONE) * ROTATIONS:
            pair.step(step)
    print(f"{ROTATIONS} rotations: {counted}")
    assert counted.lost == 0 and counted.broken == [] and counted.sent > 100, counted
    for host in "ab":
        (remote,) = pair.keys[host]
        assert pair.keys[host][remote] != before[host][remote]
        assert pair.device(host) == ["wireguard." + remote]
        assert pair.nodes[host].run("ls", FOLDER).split() == [f"wireguard.{remote}.key"]
        assert all(".rotation." not in name for name in pair.annotations[host])
        state = pair.nodes[host].run("cat", "/var/lib/multicluster-network/pair/dataplane.json")
        assert "wg-rotate" not in state


@pytest.mark.parametrize("pair", ["strict"], indirect=True)
def test_a_change_waits_for_its_confirmation_only_where_it_could_cut_the_node_off(pair):
    """A connection to where a route is moved may be that of the controller."""
    pair.rollback_seconds = 600
    for step in (PREPARE, GO_ASIDE, RENEW, GO_BACK, DONE):
        pair.step(step)
    assert not pair.opened
    pair.step(PREPARE)
    with connection(pair):
        pair.step(GO_ASIDE)
    assert pair.opened == ["a", "b"]


@pytest.mark.parametrize("pair", ["strict"], indirect=True)
def test_a_boot_brings_back_what_the_node_had_after_each_step(pair):
    """Also after the last one: whether a node has booted since its keys changed makes no difference."""
    for step in (NO_STEP, PREPARE, GO_ASIDE, RENEW, GO_BACK, DONE, NO_STEP):
        pair.step(step)
        before = pair.seen("a")
        pair.boot("a")
        assert pair.seen("a") == before, step
        result = pair.apply("a", pair.plan(NO_STEP, pair.keys))
        assert not result["changed"], (step, result["diff"])


@pytest.mark.parametrize("pair", ["strict"], indirect=True)
def test_a_node_that_leaves_on_the_way_keeps_its_own_key_alone(pair):
    for remove, left in ((False, ["wireguard.gcp.key"]), (True, [])):
        pair.step(NO_STEP)
        pair.step(PREPARE)
        files = pair.nodes["a"].run("ls", FOLDER).split()
        assert files == ["wg-rotate.gcp.key", "wireguard.gcp.key", "wireguard.gcp.key.next"]
        wish = {"fabric": "pair", "node": "a", "devices": [], "remove_keys": remove, "max_deletes": -1}
        pair.nodes["a"].flow("dataplane", wish, False)
        shown = pair.nodes["a"].run("sh", "-c", f"ls {FOLDER} || true").split()
        assert shown == left and pair.device("a") == []


@contextlib.contextmanager
def connection(pair):
    """A connection of TCP from one node to the other."""
    words = [
        pair.nodes[host].command(sys.executable, "-c", text.format(PODS[host], PODS["b"]))
        for host, text in (("b", SERVER), ("a", CLIENT))
    ]
    with contextlib.ExitStack() as stack:
        for command in words:
            process = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            assert process.stdout.readline() == "ready\n"
        yield


@pytest.mark.takes_long
@pytest.mark.parametrize("pair", ["loose"], indirect=True)
def test_the_control_loses_packets_by_a_key_that_changes_in_place(pair):
    """The witness sees what a rotation without a bypass device costs."""
    rate = steady_rate(pair)
    with pair.traffic(rate) as counted:
        pair.nodes["a"].run("rm", "/var/lib/semaphore-wireguard/wireguard.gcp.key")
        pair.step(NO_STEP)
        time.sleep(1)
    assert counted.lost > 0, counted
