# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab of real pods on a real network plugin, and what its pods reach."""

from __future__ import annotations

import ipaddress
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import yaml
from harness import Fabric
from mcnlab import process
from mcnlab.kubernetes import kubeconfig
from mcnlab.lab import Lab
from mcnlab.pod_runtime import INSIDE, OWN_CNI

HERE = pathlib.Path(__file__).resolve().parent
SHELL = "nicolaka/netshoot:v0.15"
#: Answers each connection with the address that it comes from.
MIRROR = "exec socat TCP4-LISTEN:8080,fork,reuseaddr SYSTEM:'echo $SOCAT_PEERADDR'"
#: The same for both versions of IP.
MIRROR_DUAL = MIRROR.removeprefix("exec ") + " & " + MIRROR.replace("TCP4-LISTEN:8080", "TCP6-LISTEN:8080,ipv6only=1")
#: Of each address given: the address, and what answers there.
ASK = 'for a in "$@"; do (echo "$a" $(nc -w 4 "$a" 8080 </dev/null 2>/dev/null)) & done; wait'
WORKLOADS = ("DaemonSet", "Deployment", "PodDisruptionBudget")


class CniFabric(Fabric):
    """Clusters of a topology in this folder. ``programs``: the folder with the network plugins' programs and manifests."""

    def __init__(self, name, programs, topology):
        super().__init__(name, str(HERE / "topologies" / (topology + ".json")))
        self.programs = programs
        self.machinery = Lab(name)
        self.daemons = {}

    @property
    def dual(self):
        """Whether nodes have addresses of both versions of IP."""
        return any(node.address6 for node in self.machinery.topology.nodes)

    def begin(self):
        self.lab("up", "--topology", self.topology)
        self.ran("lab up")

    def end(self):
        """Whatever the plugins' programs are: the lab ends them; these would start them again meanwhile."""
        for file in self.state.glob("nodes/*/pods/own/*.pid"):
            self._end(file)

    # --- nodes --------------------------------------------------------------------------------------------------

    def cluster_of(self, node):
        return node.partition("-")[0]

    def nodes_of(self, cluster):
        return [node for node in self.nodes if self.cluster_of(node) == cluster]

    def folder(self, node):
        """Where the node's runtime and plugins have their files; they see it as INSIDE."""
        return self.state / "nodes" / node / "pods"

    def runtime(self, node, *command):
        """The command line of a program in the node's network and with the runtime's files, as a plugin's container has them."""
        return self.machinery.pod_runtime(self.machinery.machine(node)).enter(list(command))

    def write(self, node, name, text):
        """Write a file of a plugin; returns its path as programs of the node see it."""
        file = self.folder(node) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return f"{INSIDE}/{name}"

    def program(self, node, name, installed=None):
        """Put a program of the folder where the node's runtime looks for plugins; returns its path there."""
        target = self.folder(node) / OWN_CNI / (installed or name)
        target.unlink(missing_ok=True)
        try:
            os.link(self.programs / name, target)
        except OSError:
            shutil.copy2(self.programs / name, target)
        return f"{INSIDE}/{OWN_CNI}/{installed or name}"

    def access(self, node):
        """The path, on the node, of a kubeconfig for its API server."""
        plane = self.machinery.control_plane(self.cluster_of(node))
        text = kubeconfig(plane.cluster.name, plane.server_for_nodes, plane.pki / "ca.crt", plane.token)
        return self.write(node, "plugin.kubeconfig", text)

    def configure(self, node, name, text):
        """Give the runtime its network."""
        self.write(node, "net.d/" + name, text)

    def daemon(self, node, name, *command, **environment):
        """Run a program of the plugin, and again whenever it ends, as a kubelet does."""
        self.daemons[node, name] = (command, environment)
        words = ["sh", "-c", 'while :; do "$@"; sleep 1; done', "sh", *command]
        folder = self.folder(node) / "own"
        process.spawn(
            self.state,
            folder / (name + ".pid"),
            folder / (name + ".log"),
            self.runtime(node, *words),
            dict(environment, PATH="/usr/sbin:/usr/bin:/sbin:/bin"),
        )

    def restart(self, node, name):
        """Start a program that was stopped, as it was started before."""
        command, environment = self.daemons[node, name]
        self.daemon(node, name, *command, **environment)

    def stop(self, node, name):
        self._end(self.folder(node) / "own" / (name + ".pid"))

    def _end(self, file):
        pid = process.read_pid(file)
        if pid:
            os.killpg(pid, signal.SIGTERM)
            time.sleep(0.3)
            if process.read_pid(file):
                os.killpg(pid, signal.SIGKILL)

    def log(self, node, name):
        return (self.folder(node) / "own" / (name + ".log")).read_text(encoding="utf-8", errors="replace")

    def in_runtime(self, node, *command, check=True, **environment):
        """What a program prints, run once."""
        done = subprocess.run(
            self.runtime(node, *command),
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environment},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    # --- objects ------------------------------------------------------------------------------------------------

    def manifest(self, name):
        """The objects of a manifest of the folder."""
        text = (self.programs / name).read_text(encoding="utf-8")
        return [item for item in yaml.safe_load_all(text) if item]

    def apply(self, cluster, *items):
        """As a user's ``kubectl apply --server-side``; definitions of kinds before the rest."""
        file = self.state / f"apply-{cluster}.json"
        for kinds in (True, False):
            some = [item for item in items if (item["kind"] == "CustomResourceDefinition") == kinds]
            if not some:
                continue
            file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": some}), "utf-8")
            self.kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", str(file))
            if kinds:
                self.kubectl(cluster, "wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")

    def objects(self, cluster, *words):
        return json.loads(self.kubectl(cluster, "get", *words, "-o", "json"))["items"]

    def ready(self, cluster):
        """Wait for the cluster's nodes and its DNS."""
        self.machinery.control_plane(cluster).wait_pods(300)

    def until(self, what, ask, within=120.0):
        """What ``ask`` answers once that is true."""
        end = time.monotonic() + within
        while True:
            found = ask()
            if found:
                return found
            assert time.monotonic() < end, f"not within {within:.0f} s: {what}"
            time.sleep(0.3)

    # --- pods ---------------------------------------------------------------------------------------------------

    def deploy(self):
        """On each node one pod that answers a connection with the address it comes from, on the host's network another."""
        for cluster in self.clusters:
            self.apply(cluster, mirror("mirror", dual=self.dual), mirror("host", host=True))
        for cluster in self.clusters:
            for name in ("mirror", "host"):
                self.kubectl(cluster, "rollout", "status", "daemonset/" + name, "--timeout=300s")
        self.ran("pods are ready")

    def pods(self, cluster, app="mirror", version=4):
        """{node: (name, address of that version of IP)} of an app's pods that run."""
        items = self.objects(cluster, "pods", "-l", "app=" + app)
        return {
            item["spec"]["nodeName"]: (item["metadata"]["name"], row["ip"])
            for item in items
            for row in item["status"].get("podIPs", ())
            if "deletionTimestamp" not in item["metadata"] and ipaddress.ip_address(row["ip"]).version == version
        }

    def cluster_of_address(self, address):
        """The cluster with an address in its pod ranges."""
        for cluster in self.machinery.topology.clusters:
            if any(ipaddress.ip_address(address) in ipaddress.ip_network(text) for text in cluster.pod_cidrs):
                return cluster.name
        return None

    def ask(self, cluster, pod, addresses):
        """{address: the address that its pod saw us with, or nothing} from a pod."""
        text = self.kubectl(cluster, "exec", pod, "--", "sh", "-c", ASK, "sh", *addresses, check=False)
        rows = [line.split() for line in text.splitlines()]
        return {row[0]: shortened(row[1]) if len(row) > 1 else "" for row in rows}

    def pairs(self, app="mirror", version=4):
        """[(source cluster, source node, source address, target address, seen)] of each pair of pods."""
        pods = {cluster: self.pods(cluster, app, version) for cluster in self.clusters}
        targets = {address: cluster for cluster, found in pods.items() for unused, address in found.values()}
        rows = []
        for cluster, found in pods.items():
            for node, (name, address) in found.items():
                others = [target for target in targets if target != address]
                seen = self.ask(cluster, name, others)
                rows += [(cluster, node, address, target, seen.get(target, "")) for target in others]
        return rows

    def all_kept(self, app="mirror", within=30.0, version=4):
        """Each pod reaches each other one, of all clusters, and is seen there with its own address. Returns how many pairs there are."""
        end = time.monotonic() + within
        while True:
            rows = self.pairs(app, version)
            bad = [row for row in rows if row[4] != row[2]]
            if rows and not bad:
                self.ran(f"{len(rows)} pairs of IPv{version}, source addresses kept")
                return len(rows)
            assert time.monotonic() < end, f"{len(bad)} of {len(rows)} pairs: {bad[:8]}"
            time.sleep(1)


def shortened(text):
    """An address as socat prints it, in its usual form."""
    return str(ipaddress.ip_address(text.strip("[]")))


def mirror(name, host=False, dual=False):
    """A DaemonSet of MIRROR; ``dual``: of MIRROR_DUAL."""
    script = MIRROR_DUAL if dual else MIRROR
    container = {
        "name": "mirror",
        "image": SHELL,
        "command": ["sh", "-c", script if not host else script.replace("8080", "18080")],
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "hostNetwork": host,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    }
