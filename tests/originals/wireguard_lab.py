# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab with nodes that run semaphore-wireguard, unchanged, over devices that wireguard-go made before where the kernel has no WireGuard."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import signal
import subprocess
import sys
import time

from harness import LAB, Fabric

KEYS = "/var/lib/semaphore-wireguard"
NAME = "semaphore-wireguard"
PORT = 51821


class WireguardFabric(Fabric):
    """Clusters aws and gcp. ``program``: upstream's path, in a place where nodes see it."""

    def __init__(self, name, program, topology="two"):
        super().__init__(name, topology)
        self.program = program

    def cluster_of(self, node):
        return node.partition("-")[0]

    def nodes_of(self, cluster):
        return [node for node in self.nodes if self.cluster_of(node) == cluster]

    def remote_of(self, cluster):
        return "gcp" if cluster == "aws" else "aws"

    def device_of(self, node):
        return "wireguard." + self.remote_of(self.cluster_of(node))

    def write(self, node, path, text):
        subprocess.run(
            [
                "/usr/bin/python3",
                str(LAB),
                "exec",
                "--name",
                self.name,
                node,
                "--",
                "sh",
                "-c",
                "umask 077; cat > " + path,
            ],
            input=text,
            text=True,
            check=True,
            capture_output=True,
        )

    def kubeconfig_for_nodes(self, cluster):
        """A cluster's kubeconfig as every node may use it: the gateway passes API requests on."""
        gateway = str(ipaddress.ip_network(self.tree["clusters"]["hosts"][cluster]["node_cidrs"][0])[1])
        return (self.state / cluster / "kubeconfig").read_text().replace("127.0.0.1", gateway)

    # --- upstream ----------------------------------------------------------------------------------------------

    def start_original(self, node):
        """As its DaemonSet does: one agent, which knows the clusters by a file."""
        cluster = self.cluster_of(node)
        remote = self.remote_of(cluster)
        for name in (cluster, remote):
            self.write(node, f"/run/swg-{name}.kubeconfig", self.kubeconfig_for_nodes(name))
        self.write(node, "/run/swg-token", "unused")  # it wants the file although the kubeconfig is what counts
        entry = {
            "name": remote,
            "kubeConfigPath": f"/run/swg-{remote}.kubeconfig",
            "remoteSATokenPath": "/run/swg-token",
            "podSubnet": self.tree["clusters"]["hosts"][remote]["pod_cidrs"][0],
            "wgListenPort": PORT,
        }
        local = {"name": cluster, "kubeConfigPath": f"/run/swg-{cluster}.kubeconfig"}
        self.write(node, "/run/swg.json", json.dumps({"local": local, "remotes": [entry]}))
        device = self.device_of(node)
        make = f"ip link show {device} >/dev/null 2>&1 || ip link add {device} type wireguard 2>/dev/null || wireguard-go {device} >/dev/null 2>&1"
        self.sh(node, "sh", "-c", make)
        self.sh(
            node,
            "systemd-run",
            "--quiet",
            "--unit=swg",
            "--collect",
            "--setenv=HOME=/root",
            str(self.program),
            "-node-name=" + node,
            "-clusters-config=/run/swg.json",
            "-wg-key-path=" + KEYS,
            "-log-level=debug",
        )

    def stop_original(self, node):
        self.sh(node, "systemctl", "stop", "swg", check=False)

    def log_of(self, node):
        return self.lab("exec", node, "--", "journalctl", "-u", "swg", "--no-pager", "-o", "cat", check=False).stdout

    def healthy(self, node):
        """Whether the agent reports that device, annotations and route are set up."""
        script = (
            "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:7773/healthz', timeout=5).status)"
        )
        return self.sh(node, "/usr/bin/python3", "-c", script, check=False).strip() == "200"

    def until(self, what, holds, patience=300.0):
        """Wait for what programs do by themselves."""
        end = time.monotonic() + patience
        while not holds():
            assert time.monotonic() < end, (
                f"not in {patience:.0f} s: {what}\n{ ({node: self.log_of(node)[-600:] for node in self.nodes}) }"
            )
            time.sleep(0.5)
        self.ran(what)

    # --- what is there ------------------------------------------------------------------------------------------

    def node_objects(self):
        """{cluster: Nodes}, with who is on record."""
        found = {}
        for cluster in self.clusters:
            words = ["get", "nodes", "-o", "json", "--show-managed-fields"]
            text = self.kubectl(cluster, *words, check=False) or self.kubectl(
                cluster, *words[:-1]
            )  # kubectl before 1.21 always shows them
            found[cluster] = json.loads(text)["items"]
        return found

    def announced(self):
        """{node: its annotations of the mesh}."""
        found = {}
        for items in self.node_objects().values():
            for obj in items:
                notes = obj["metadata"].get("annotations") or {}
                found[obj["metadata"]["name"]] = {
                    key: value for key, value in notes.items() if ".wireguard.semaphore.uw.io/" in key
                }
        return found

    def on_record(self):
        """{node: managers of its annotations of the mesh}."""
        found = {}
        for items in self.node_objects().values():
            for obj in items:
                entries = obj["metadata"].get("managedFields") or []
                found[obj["metadata"]["name"]] = {
                    entry["manager"]
                    for entry in entries
                    if "wireguard.semaphore" in json.dumps(entry.get("fieldsV1", {}))
                }
        return found

    def wire(self, *nodes):
        """What of the nodes' tunnels is configuration: all that a peer can notice, and the routes as ip shows them."""
        found = {}
        for node in nodes or self.nodes:
            devices = self.wireguard(node)
            for device in devices.values():
                for peer in device["peers"].values():
                    for name in ("handshake", "rx", "tx"):
                        peer.pop(name)
            link = json.loads(self.sh(node, "ip", "-j", "link", "show", "dev", self.device_of(node)))[0]
            routes = self.sh(node, "ip", "route", "show", "dev", self.device_of(node)).replace(" linkdown", "")
            found[node] = (devices, link["mtu"], link["txqlen"], link.get("ifalias"), "UP" in link["flags"], routes)
        return found

    def keys(self, node):
        """{device: public key} of a node."""
        return {name: device["public_key"] for name, device in self.wireguard(node).items()}

    def peers(self, node):
        """{public key: allowed IPs} of a node's device."""
        return {key: peer["allowed_ips"] for key, peer in self.wireguard(node)[self.device_of(node)]["peers"].items()}

    def pods_of(self, *clusters):
        return [row for row in self.reaches() if self.cluster_of(row["source"]) in clusters]

    # --- no lost packet -----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def echoes(self, pairs=None):
        """A hundred echoes a second between all pods of different clusters while something happens; yields rows (pair, sent, lost)."""
        rows, results, running = [row for row in self.reaches() if row["cross"]], [], []
        for row in rows:
            if pairs is not None and (row["source"], row["target"]) not in pairs:
                continue
            command = [
                "ip",
                "netns",
                "exec",
                self.namespace(row["source"]),
                "ping",
                "-n",
                "-q",
                "-i",
                "0.01",
                "-W",
                "5",
                row["address"],
            ]
            running.append(
                (
                    row,
                    subprocess.Popen(
                        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
                    ),
                )
            )
        time.sleep(1)
        try:
            yield results
            time.sleep(1)
        finally:
            for dummy, process in running:
                process.send_signal(signal.SIGINT)
            for row, process in running:
                out = process.communicate(timeout=60)[0]
                sent, received = map(int, re.search(r"(\d+) packets transmitted, (\d+) received", out).groups())
                # the last one may still be under way when the program ends
                results.append(("{source} -> {target}".format(**row), sent, max(0, sent - received - 1)))
            self.ran(f"echoes: {sum(one[1] for one in results)} sent, {sum(one[2] for one in results)} lost")

    def end(self):
        for node in self.nodes:
            log = self.log_of(node)
            if "panic" in log:
                sys.stderr.write(f"\n{node}: {log[-3000:]}")


def without_leases(writes):
    """Writes but those of the run's own lock."""
    return [line for line in writes if "/leases" not in line]
