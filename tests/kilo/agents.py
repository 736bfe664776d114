# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab with nodes that run Kilo's own agent over a WireGuard device that is made before."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from harness import LAB, REPO, Fabric

TOPOLOGY = REPO / "tests" / "lab" / "topologies" / "kilo.json"
SUBNETS = {"eu": "100.70.0.0/24", "us": "100.80.0.0/24"}
G = "kilo.squat.ai/"
LATE = "eu-0"
#: The places where a node does not see the machine's files.
HIDDEN = ("/tmp/", "/run/", "/var/lib/")


class KiloFabric(Fabric):
    """``granularity`` full or location, in both clusters."""

    def __init__(self, name, granularity, programs):
        super().__init__(name, str(TOPOLOGY))
        self.granularity = granularity
        self.kg, self.kgctl = programs
        self.copied = None

    # --- the agents ---------------------------------------------------------------------------------------------

    def begin(self):
        """Peers can be defined, and every node but the late one has an agent that has announced itself."""
        self.kg = self._visible(self.kg)
        for cluster in self.clusters:
            self.kubectl(cluster, "apply", "-f", str(REPO / "roles" / "clustermesh_crds" / "files" / "peers.yml"))
        for node in self.nodes:
            if node != LATE:
                self.start_agent(node)
        self.settled(LATE)

    def _visible(self, program):
        if not str(program).startswith(HIDDEN):
            return program
        self.copied = pathlib.Path("/usr/local/bin/mcn-lab-kg-" + self.name)
        shutil.copy2(program, self.copied)
        return self.copied

    def cluster_of(self, node):
        return node.partition("-")[0]

    def start_agent(self, node):
        cluster = self.cluster_of(node)
        gateway = str(ipaddress.ip_network(self.tree["clusters"]["hosts"][cluster]["node_cidrs"][0])[1])
        text = (self.state / cluster / "kubeconfig").read_text().replace("127.0.0.1", gateway)
        self.write(node, "/run/kilo.kubeconfig", text)
        # what a kubelet always writes; Kilo counts on there being some annotation
        self.kubectl(
            cluster,
            "annotate",
            "--overwrite",
            "node",
            node,
            "volumes.kubernetes.io/controller-managed-attach-detach=true",
        )
        self.sh(node, "sh", "-c", "ip link show kilo0 >/dev/null 2>&1 || wireguard-go kilo0 >/dev/null 2>&1")
        self.sh(
            node,
            "systemd-run",
            "--quiet",
            "--unit=kilo",
            "--collect",
            "--setenv=HOME=/root",
            str(self.kg),
            "--kubeconfig=/run/kilo.kubeconfig",
            "--hostname=" + node,
            "--cni=false",
            "--create-interface=false",
            "--interface=kilo0",
            "--mesh-granularity=" + self.granularity,
            "--encapsulate=never",
            "--subnet=" + SUBNETS[cluster],
            "--resync-period=2s",
            "--mtu=1420",
        )
        self.ran("agent of " + node)

    def stop_agent(self, node):
        """As an upgrade does: it takes its annotations along."""
        self.sh(node, "systemctl", "stop", "kilo")
        self.ran("no agent of " + node)

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

    def keep_logs(self):
        for node in self.nodes:
            log = self.lab(
                "exec", node, "--", "journalctl", "-u", "kilo", "--no-pager", "-o", "cat", check=False
            ).stdout
            if "panic" in log:
                sys.stderr.write(f"\n{node}: {log[-3000:]}")
        if self.copied is not None:
            self.copied.unlink()

    def notes(self, node):
        found = self.annotations(self.cluster_of(node), node)
        return {key[len(G) :]: value for key, value in found.items() if key.startswith(G)}

    def until(self, what, function, *arguments):
        """Wait for something that agents do by themselves; ten minutes mean that they do not."""
        end = time.monotonic() + 600
        while True:
            found = function(*arguments)
            if found:
                self.ran(what)
                return found
            assert time.monotonic() < end, "not in ten minutes: " + what
            time.sleep(0.5)

    def settled(self, without=""):
        """Every agent has announced itself, and WireGuard addresses are those of Kilo's rule: by the order of names."""

        def as_expected():
            for cluster, subnet in SUBNETS.items():
                notes = {
                    node: self.notes(node)
                    for node in self.nodes
                    if self.cluster_of(node) == cluster and node != without
                }
                if not all(one.get("key") and one.get("endpoint") for one in notes.values()):
                    return False
                leaders = sorted(notes) if self.granularity == "full" else sorted(notes)[:1]
                for number, node in enumerate(sorted(notes), 1):
                    desired = f"{ipaddress.ip_network(subnet)[number]}/24" if node in leaders else ""
                    if notes[node].get("wireguard-ip", "") != desired:
                        return False
            return True

        self.until("the agents are settled", as_expected)

    # --- what they do -------------------------------------------------------------------------------------------

    def peers(self, cluster):
        return {
            item["metadata"]["name"]: item
            for item in json.loads(self.kubectl(cluster, "get", "peers", "-o", "json"))["items"]
        }

    def keys_in(self, node):
        return set(self.wireguard(node).get("kilo0", {"peers": {}})["peers"])

    def rows(self, cross, without=LATE):
        """(all answers, none answers) among pods of different or equal clusters; those of the late node only when it runs."""
        rows = [
            row
            for row in self.reaches()
            if row["cross"] == cross and (not without or without + "-" not in row["source"] + row["target"])
        ]
        assert rows
        return all(row["ok"] for row in rows), not any(row["ok"] for row in rows)

    def joined(self, without=LATE):
        self.until("all pods answer across clusters", lambda: self.rows(True, without)[0])
        self.until("all pods answer inside clusters", lambda: self.rows(False, without)[0])

    def apart(self):
        self.until("no pod answers across clusters", lambda: self.rows(True)[1])
        self.until("all pods answer inside clusters", lambda: self.rows(False)[0])

    def deleted_peers(self, since):
        found = []
        for cluster, offset in since.items():
            with self._audit(cluster).open(encoding="utf-8") as log:
                log.seek(offset)
                found += [
                    entry["requestURI"]
                    for entry in map(json.loads, log)
                    if entry["verb"] == "delete" and "/peers/" in entry["requestURI"]
                ]
        return found

    def now(self):
        return {cluster: self._audit(cluster).stat().st_size for cluster in self.clusters}

    @contextlib.contextmanager
    def pings(self, *pairs):
        """Echoes from pod to pod while something happens; yields a list that then has (sent, answered, runs of lost ones)."""
        running, results = [], []
        for source, target in pairs:
            address = next(
                (row["address"] for row in self.reaches() if row["source"] == source and row["target"] == target), ""
            )
            command = ["ip", "netns", "exec", self.namespace(source), "ping", "-n", "-i", "0.2", address]
            running.append(
                subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
                )
            )
        try:
            yield results
            time.sleep(1)
        finally:
            for process in running:
                process.send_signal(signal.SIGINT)
                out = process.communicate()[0]
                seen = sorted(map(int, re.findall(r"icmp_seq=(\d+) ttl", out)))
                sent = int(re.search(r"(\d+) packets transmitted", out).group(1))
                # the last one may still be on its way when the program ends
                results.append((sent, len(set(seen)), max([0] + [b - a - 1 for a, b in zip(seen, seen[1:] + [sent])])))
            self.ran(f"pings: {results}")
