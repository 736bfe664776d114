# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of each of two clusters, of namespaces alone: semaphore-wireguard runs on them, and our flows do what a playbook would."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import time

from ansible_collections.multicluster.network.plugins.filter.node_devices import node_devices
from ansible_collections.multicluster.network.plugins.module_utils._flows.mesh import mesh_plan, node_annotations
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import publishing
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from program import RELAY

TESTS = pathlib.Path(__file__).resolve().parents[1]
SPEC = importlib.util.spec_from_file_location("kernel_nodes", TESTS / "kernel" / "conftest.py")
KERNEL = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(KERNEL)

NAME, PORT, KEYS = "semaphore-wireguard", 51821, "/var/lib/semaphore-wireguard"
UNDERLAY = {"aws": "10.66.23.31", "gcp": "10.22.22.27"}
PODS = {"aws": "10.2.3", "gcp": "10.4.7"}
OTHER = {"aws": "gcp", "gcp": "aws"}
CLUSTERS = {
    "aws": {
        "pod_cidrs": ["10.2.0.0/16"],
        "service_cidrs": ["10.3.0.0/16"],
        "node_cidrs": ["10.66.23.0/24"],
        "wireguard_port": PORT,
    },
    "gcp": {
        "pod_cidrs": ["10.4.0.0/16"],
        "service_cidrs": ["10.5.0.0/16"],
        "node_cidrs": ["10.22.22.0/24"],
        "wireguard_port": PORT,
    },
}
US = "multicluster.network/t"


class Pair:
    """``servers``: {cluster: ApiServer}; ``program``: upstream's path; ``managed``: the clusters with nodes in our inventory."""

    def __init__(self, servers, program, folder, managed=("aws", "gcp")):
        self.servers, self.program, self.folder, self.managed = servers, program, folder, managed
        self.nodes = {name: KERNEL.Node() for name in servers}
        self.clients = {name: server.client() for name, server in servers.items()}
        self.running, self.relays = {}, []
        self.nodes["aws"].run(
            "ip", "link", "add", "under", "type", "veth", "peer", "name", "under", "netns", str(self.nodes["gcp"].pid)
        )
        for name, node in self.nodes.items():
            for place in ("/var/lib", "/usr/local/lib", "/etc/systemd/system"):
                node.run("mount", "-t", "tmpfs", "tmpfs", place)
            node.run("ip", "address", "add", UNDERLAY[name] + "/32", "dev", "under")
            node.run("ip", "link", "set", "under", "up")
            node.run("ip", "route", "add", UNDERLAY[OTHER[name]], "dev", "under")
            node.run("ip", "address", "add", PODS[name] + ".1/32", "dev", "lo")
            for server in servers.values():
                words = [
                    "/usr/bin/python3",
                    "-B",
                    str(RELAY),
                    f"/proc/{node.pid}/ns/net",
                    "127.0.0.1",
                    str(server.port),
                ]
                self.relays.append(subprocess.Popen(words, stdin=subprocess.DEVNULL))
            self.register(name)

    def close(self):
        for name in list(self.running):
            self.stop(name)
        for relay in self.relays:
            relay.terminate()
            relay.wait()
        for name, node in self.nodes.items():
            self.clients[name].delete(self.path(name))
            node.close()

    # --- the clusters -------------------------------------------------------------------------------------------

    @staticmethod
    def path(name):
        return f"/api/v1/nodes/{name}-node-1"

    def register(self, name, cidr=None):
        """The Node, as its kubelet would write it."""
        cidr = cidr or PODS[name] + ".0/24"
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name + "-node-1"},
            "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        }
        self.clients[name].create("/api/v1/nodes", body, "kubelet")
        status = {"addresses": [{"type": "InternalIP", "address": UNDERLAY[name]}]}
        self.clients[name].merge_patch(self.path(name) + "/status", {"status": status}, "kubelet")

    def unregister(self, name):
        self.clients[name].delete(self.path(name))

    def node_object(self, name):
        return self.clients[name].get(self.path(name))

    def notes(self, name):
        annotations = self.node_object(name)["metadata"].get("annotations") or {}
        return {key: value for key, value in annotations.items() if ".wireguard.semaphore.uw.io/" in key}

    def on_record(self, name):
        entries = self.node_object(name)["metadata"].get("managedFields") or []
        return {entry["manager"] for entry in entries if "wireguard.semaphore" in json.dumps(entry["fieldsV1"])}

    # --- upstream ----------------------------------------------------------------------------------------------

    def start(self, name):
        """The agent of one node; where the kernel has no WireGuard its device is made before."""
        place = self.folder / name
        place.mkdir(exist_ok=True)
        paths = {}
        for cluster, server in self.servers.items():
            paths[cluster] = str(place / (cluster + ".kubeconfig"))
            pathlib.Path(paths[cluster]).write_text(json.dumps(server.kubeconfig("original")))
        (place / "token").write_text("unused")  # it wants the file although the kubeconfig is what counts
        remote = {
            "name": OTHER[name],
            "kubeConfigPath": paths[OTHER[name]],
            "remoteSATokenPath": str(place / "token"),
            "podSubnet": CLUSTERS[OTHER[name]]["pod_cidrs"][0],
            "wgListenPort": PORT,
        }
        (place / "config.json").write_text(
            json.dumps({"local": {"name": name, "kubeConfigPath": paths[name]}, "remotes": [remote]})
        )
        make = (
            "ip link show {0} >/dev/null 2>&1 || ip link add {0} type wireguard 2>/dev/null || wireguard-go {0}".format(
                "wireguard." + OTHER[name]
            )
        )
        self.nodes[name].run("sh", "-c", make)
        words = [
            str(self.program),
            f"-node-name={name}-node-1",
            "-clusters-config=" + str(place / "config.json"),
            "-wg-key-path=" + KEYS,
        ]
        with (place / "log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                self.nodes[name].command(*words), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ)
            )

    def stop(self, name):
        process = self.running.pop(name)
        process.terminate()
        process.wait(10)

    def restart(self, name):
        self.stop(name)
        self.start(name)

    def until(self, what, holds, patience=120.0):
        end = time.monotonic() + patience
        while not holds():
            logs = {
                name: (self.folder / name / "log").read_text()[-800:]
                for name in self.nodes
                if (self.folder / name / "log").exists()
            }
            assert time.monotonic() < end, f"not in {patience:.0f} s: {what}\n{logs}"
            time.sleep(0.2)

    # --- collection ---------------------------------------------------------------------------------------------

    def plan(self):
        access = [server.access(name) for name, server in self.servers.items()]
        nodes = {name + "-node-1": {"multicluster_cluster": name} for name in self.managed}
        return mesh_plan.run(
            {"fabric": "t", "clusters": access, "definition": {"clusters": CLUSTERS, "nodes": nodes}, "timeout": 20}
        )

    def flow(self, name, **options):
        asked = {
            "fabric": "t",
            "node": name + "-node-1",
            "persist": True,
            "max_deletes": None,
            "hosts": [one + "-node-1" for one in self.managed],
        }
        return self.nodes[name].flow("dataplane", dict(asked, **options), False)

    def converge(self, adopt=False, **more):
        """As the playbook mesh: plan, converge, publish, and converge again what has news. Returns {what: result}. ``more``: of node_dataplane."""
        found = {}
        for dummy in range(2):
            result = self.plan()
            mesh = result["mesh"]
            for name in self.managed:
                found[name] = self.flow(name, devices=node_devices(mesh, name + "-node-1"), adopt=adopt, **more)
            keys = {name + "-node-1": found[name]["public_keys"] for name in self.managed}
            desired = publishing.annotations_to_publish(MeshPlan.from_json(mesh), keys, adopt)
            if not desired:
                break
            access = [server.access(name) for name, server in self.servers.items() if name in desired]
            found["published"] = node_annotations.run(
                {
                    "fabric": "t",
                    "clusters": access,
                    "annotations": desired,
                    "prefixes": mesh["annotation_patterns"],
                    "adopt": adopt,
                    "timeout": 20,
                }
            )
            if not found["published"]["changed"]:
                break
        return found

    def release(self):
        mesh = self.plan()["mesh"]
        for name in self.managed:
            assert self.flow(name, devices=[], released=True)["changed"]
        access = [server.access(name) for name, server in self.servers.items() if name in self.managed]
        nodes = {name: [name + "-node-1"] for name in self.managed}
        request = {
            "fabric": "t",
            "clusters": access,
            "annotations": nodes,
            "state": "released",
            "prefixes": mesh["annotation_patterns"],
            "timeout": 20,
        }
        assert node_annotations.run(request)["changed"]

    def leave(self, name):
        mesh = self.plan()["mesh"]
        self.flow(name, devices=[])
        request = {
            "fabric": "t",
            "clusters": [self.servers[name].access(name)],
            "annotations": {name: [name + "-node-1"]},
            "state": "absent",
            "prefixes": mesh["annotation_patterns"],
            "timeout": 20,
        }
        assert node_annotations.run(request)["changed"]

    # --- what is there ------------------------------------------------------------------------------------------

    def wire(self, name, marks=True):
        """What of a node's tunnel is configuration, and its routes; ``marks``: with that by which they are owned or not."""
        node, device = self.nodes[name], "wireguard." + OTHER[name]
        dump = sorted(line.split("\t") for line in node.run("wg", "show", "all", "dump").splitlines())
        settings = [line[:5] + line[8:] if len(line) > 5 else line for line in dump]
        link = json.loads(node.run("ip", "-j", "link", "show", "dev", device))[0]
        routes = node.run("ip", "route", "show", "dev", device)
        mark = [link.get("ifalias"), routes] if marks else [routes.replace(" proto 109", "")]
        return [settings, link["mtu"], link["txqlen"], "UP" in link["flags"], *mark]

    def key(self, name):
        return self.nodes[name].run("wg", "show", "wireguard." + OTHER[name], "public-key").strip()

    def peers(self, name):
        """{public key: allowed IPs}"""
        rows = [
            line.split("\t")
            for line in self.nodes[name].run("wg", "show", "wireguard." + OTHER[name], "allowed-ips").splitlines()
        ]
        return {row[0]: row[1].split() for row in rows}

    def files(self, name):
        return self.nodes[name].run(
            "sh", "-c", "find /var/lib /usr/local/lib /etc/systemd/system -mindepth 1 -not -type d | sort"
        )

    def answers(self):
        words = ["ping", "-q", "-c", "2", "-i", "0.2", "-W", "2", "-I", PODS["aws"] + ".1", PODS["gcp"] + ".1"]
        return " 0% packet loss" in self.nodes["aws"].run(*words, check=False)

    def joined(self):
        """Each knows the other's key, and pods answer."""
        return (
            self.peers("aws").keys() == {self.key("gcp")}
            and self.peers("gcp").keys() == {self.key("aws")}
            and self.answers()
        )

    def echoes(self):
        return Echoes(self)


class Echoes:
    """A hundred echoes a second in both directions while something happens; then ``sent`` and ``lost``."""

    def __init__(self, pair):
        self.pair, self.sent, self.lost, self.processes = pair, 0, 0, []

    def __enter__(self):
        for name, node in self.pair.nodes.items():
            words = node.command(
                "ping", "-n", "-q", "-i", "0.01", "-W", "5", "-I", PODS[name] + ".1", PODS[OTHER[name]] + ".1"
            )
            self.processes.append(
                subprocess.Popen(
                    words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
                )
            )
        time.sleep(1)
        return self

    def __exit__(self, *unused):
        time.sleep(1)
        for process in self.processes:
            process.send_signal(signal.SIGINT)
            out = process.communicate(timeout=30)[0]
            sent, received = map(int, re.search(r"(\d+) packets transmitted, (\d+) received", out).groups())
            # the last one may still be under way when the program ends
            self.sent, self.lost = self.sent + sent, self.lost + max(0, sent - received - 1)
