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
import signal
import subprocess
import time

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

WITNESS = pathlib.Path(__file__).resolve().parents[1] / "scenario" / "sequence_witness.py"
UNDERLAY = {"a": "10.66.23.31", "b": "10.66.23.32"}
PODS = {"a": "10.2.1.1", "b": "10.4.1.1"}
CLUSTER = {"a": "aws", "b": "gcp"}
RATES = (1000, 250, 60)


class Pair:
    """Two nodes of two clusters; what their Node objects have is plain data."""

    def __init__(self, new_node, tmp_path, filters):
        self.folder = tmp_path
        self.nodes = {"a": new_node(), "b": new_node()}
        clusters = {
            "aws": {"pod_cidrs": ["10.2.0.0/16"], "service_cidrs": ["10.3.0.0/16"], "wireguard_port": 51821},
            "gcp": {"pod_cidrs": ["10.4.0.0/16"], "service_cidrs": ["10.5.0.0/16"], "wireguard_port": 51821},
        }
        nodes = {host: {"multicluster_cluster": cluster} for host, cluster in CLUSTER.items()}
        self.fabric, findings = load_fabric({"name": "pair", "clusters": clusters, "nodes": nodes})
        assert not findings
        self.annotations = {"a": {}, "b": {}}
        self.keys = {}
        self.nodes["a"].run(
            "ip", "link", "add", "under", "type", "veth", "peer", "name", "under", "netns", str(self.nodes["b"].pid)
        )
        for name, node in self.nodes.items():
            for folder in ("/var/lib", "/usr/local/lib", "/etc/systemd/system"):
                node.run("mount", "-t", "tmpfs", "tmpfs", folder)
            node.run("ip", "address", "add", UNDERLAY[name] + "/24", "dev", "under")
            node.run("ip", "link", "set", "under", "addrgenmode", "none", "up")
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
        reports = host_reports({host: {"public_keys": keys} for host, keys in (reported or {}).items()})
        mesh = with_rotation(
            plan_semaphore_mesh(self.fabric, listings, reports), listings, reports, Order(step, ("a", "b"))
        )
        assert not mesh.refused, mesh.refused
        return MeshPlan.from_json(json.loads(json.dumps(to_wire(mesh.to_json()))))

    def apply(self, host, mesh):
        devices = [dict(device, node=host) for device in node_devices(mesh, host)]
        wish = {"fabric": "pair", "node": host, "devices": devices, "unread_devices": unread_devices(mesh, host)}
        result = self.nodes[host].flow("dataplane", wish, False)
        assert not result["refused"], result["refused"]
        self.keys[host] = result["public_keys"]
        return result

    def step(self, step):
        """One pass over the mesh, and what the next step waits for."""
        mesh = self.plan(step)
        for host in self.nodes:
            self.apply(host, mesh)
        for row in annotations_to_publish(mesh, self.keys).values():
            for host, values in row.items():
                self.annotations[host] = values
        again = self.plan(step, self.keys)
        for host in self.nodes:
            if node_devices(again, host) != node_devices(mesh, host):
                self.apply(host, again)
        for host, node in self.nodes.items():
            tunnels, quiet = rotation_checks.awaited(step, again, host, "finished")
            if tunnels:
                asked = {"tunnels": tunnels, "quiet": quiet, "quiet_seconds": 1.0, "timeout": 30.0}
                found = node.flow("handshakes", asked)
                assert not found["missing"] and not found["busy"], found

    @contextlib.contextmanager
    def traffic(self, rate):
        """Packets in both directions meanwhile; yields a dictionary that has ``sent``, ``lost`` and ``broken`` at the end."""
        counted, running = {}, []
        folder = self.folder / f"traffic-{time.monotonic()}"
        folder.mkdir()
        for host, other in (("a", "b"), ("b", "a")):
            words = ["/usr/bin/python3", str(WITNESS), str(folder / host), host, str(rate), "3", PODS[other]]
            environment = dict(os.environ, MCN_WITNESS_SOURCE=PODS[host])
            running.append(subprocess.Popen(self.nodes[host].command(*words), env=environment, start_new_session=True))
        end = time.monotonic() + 30
        while not all((folder / f"{host}.ready").exists() for host in "ab"):
            assert time.monotonic() < end
            time.sleep(0.05)
        (folder / "go").touch()
        time.sleep(1)
        try:
            yield counted
        finally:
            for process in running:
                os.killpg(process.pid, signal.SIGTERM)
            for process in running:
                process.wait(timeout=30)
        found = {host: json.loads((folder / host).read_text()) for host in "ab"}
        sent = {host: found[host]["sent"][PODS[other]] for host, other in (("a", "b"), ("b", "a"))}
        counted["sent"] = sum(sent.values())
        counted["lost"] = sum(
            sent[host] - found[other]["received"].get(host, 0) for host, other in (("a", "b"), ("b", "a"))
        )
        counted["missing"] = {host: (row["missing"], row["last"]) for host, row in found.items()}
        counted["broken"] = [text for row in found.values() for text in row["streams"]["broken"]]

    def device(self, host):
        return self.nodes[host].run("wg", "show", "interfaces").split()


#: Reverse-path filters that hosts have: none, loose by systemd's default, strict for all devices.
FILTERS = {"loose": {"all": 2, "default": 2}, "strict": {"all": 1, "default": 0}}


@pytest.fixture(name="pair", params=[pytest.param("loose", marks=pytest.mark.takes_long), "strict"])
def pair_fixture(request, new_node, implementation, tmp_path):
    del implementation  # auto takes the kernel where that has WireGuard
    pair = Pair(new_node, tmp_path, FILTERS[request.param])
    pair.step(NO_STEP)
    return pair


def steady_rate(pair):
    """The rate at which this machine, which may be busy with other tests, loses nothing by itself."""
    for rate in RATES:
        with pair.traffic(rate) as counted:
            time.sleep(2)
        if not counted["lost"]:
            return rate
    pytest.skip(f"NOT RUN: this machine loses packets without a rotation, so none could be counted: {counted}")


def test_new_keys_lose_no_packet_and_break_no_stream(pair):
    rate, before = steady_rate(pair), dict(pair.keys)
    with pair.traffic(rate) as counted:
        for step in (PREPARE, GO_ASIDE, RENEW, GO_BACK, DONE):
            pair.step(step)
    assert counted["lost"] == 0 and counted["broken"] == [] and counted["sent"] > 100, counted
    for host in "ab":
        (remote,) = pair.keys[host]
        assert pair.keys[host][remote] != before[host][remote]
        assert pair.device(host) == ["wireguard." + remote]
        assert "wg-rotate" not in pair.nodes[host].run("ls", "/var/lib/semaphore-wireguard")
        assert all(".rotation." not in name for name in pair.annotations[host])
        state = pair.nodes[host].run("cat", "/var/lib/multicluster-network/pair/dataplane.json")
        assert "wg-rotate" not in state


@pytest.mark.takes_long
@pytest.mark.parametrize("pair", ["loose"], indirect=True)
def test_the_control_loses_packets_by_a_key_that_changes_in_place(pair):
    """The witness sees what a rotation without a bypass device costs."""
    rate = steady_rate(pair)
    with pair.traffic(rate) as counted:
        pair.nodes["a"].run("rm", "/var/lib/semaphore-wireguard/wireguard.gcp.key")
        pair.step(NO_STEP)
        time.sleep(1)
    assert counted["lost"] > 0, counted
