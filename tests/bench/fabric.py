# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run over a fabric of so many nodes costs, compared with empty plays of Ansible over the same nodes.

Run by `tests/run bench fabric [--nodes 8 20]`; larger ones, such as `--nodes 20 50 100 200`, take long on two cores. Boots a lab of light
nodes for each size. The processor seconds are those of control groups: of the controller (ansible-playbook and whatever it starts on its own
side) and of all nodes. They are what is compared: seconds by the clock depend on what else the machine does. Those of wireguard-go are shown
by themselves: it has a handshake for each pair of nodes every two minutes, so they grow with the square of the nodes and with time, whatever
else is done. There is nobody to compare with but Ansible itself: an empty play has that many `ping` tasks.

`--pods 110` puts that many Pods on each node, at addresses anywhere in the cluster's range, and lets their addresses be the source of the nodes' ranges
(`pod_ranges: pods`); the bars are the same, and an unchanged site may change nothing.

`--clusters 2 --others 10` has one large cluster and a small one: all pairs of nodes of different clusters are tunnels, and 200 nodes in two halves have more
than the userspace WireGuard of one machine can keep.

`--runs site --uncompared --rounds 5` runs this collection and a copy of it that does not compare the paths between nodes in turn, and judges the sums.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import ipaddress
import json
import os
import pathlib
import random
import re
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lab"))

from mcnlab import cgroups, generate
from mcnlab.lab import Lab

RUNS = ("mesh", "mesh_floor", "site_first", "site", "floor", "added", "rotated", "keys", "away")
#: Ratios that a run must not exceed, see the issue of large fabrics: slope and whole of an unchanged site, first mesh, one node added, all keys rotated.
SLOPE, WHOLE, FIRST, ADDED, GROWTH, KEYS = 2.5, 2.5, 3.0, 2.0, 1.2, 3.0
#: An unchanged site compared with one that does not compare the paths between nodes.
COMPARED = 1.03
FIXED_SECONDS, LINES, MEMORY_MIB = 8.0, 60, 1024
COREFILE = ".:53 {\n    errors\n    forward . /etc/resolv.conf\n    reload\n}\n"
VARIABLES = {
    "multicluster_capabilities": ["service_mirror", "coredns_rewrite", "network_sets", "load_balancers"],
    "service_mirror_create_namespace": True,
    "service_mirror_as": "endpoints",
    "coredns_rewrite_version": "1.12.2",
    "network_sets_target": "calico",
    # A range for each of up to 16 clusters, by its number.
    "load_balancers_settings": """{{ {'load_balancer': 'empty://', 'provider': 'static', 'pool': ['198.18.' ~ inventory_hostname[1:] ~ '.0/24']}
      | combine({'announced_by': 'other'} if bgp_speaker_neighbors is not defined else {}) }}""",
    "verify_allow_unproven": True,  # no daemon of a speaker runs on a light node
    "mesh_verify_wait_seconds": 60,  # WireGuard notices after 15 s that the other side has lost a session, and handshakes of 600 share two processors
    "node_dataplane_rollback_seconds": 1800,  # the machine may be another's as well: what is measured is work, and a change made twice is twice the work
    "rotate_drain_seconds": 5,  # waiting is no work
    "rotate_wait_seconds": 600,
    "bgp_speaker_asn": 65000,
    "bgp_speaker_install": False,
    "bgp_speaker_neighbors": [{"address": "172.31.255.1", "asn": 65001, "source_ip": "172.16.0.1"}],
}
SET_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "globalnetworksets.crd.projectcalico.org"},
    "spec": {
        "group": "crd.projectcalico.org",
        "scope": "Cluster",
        "names": {
            "plural": "globalnetworksets",
            "singular": "globalnetworkset",
            "kind": "GlobalNetworkSet",
            "listKind": "GlobalNetworkSetList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def spent(group):
    """Processor seconds of a control group."""
    return int((group / "cpu.stat").read_text().split()[1]) / 1e6


def userspace(group):
    """Processor seconds of the wireguard-go of a node: handshakes and packets, which the kernel does elsewhere, and which go on between runs."""
    ticks = 0
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            name, fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)
            ticks += sum(map(int, fields.split()[11:13])) if name.endswith("(wireguard-go") else 0
    return ticks / os.sysconf("SC_CLK_TCK")


class Controller:
    """A control group of the controller's processes, and the most memory that they had at a time."""

    def __init__(self):
        self.group = (
            cgroups.unified() / f"mcn.bench-{secrets.token_hex(4)}"
        )  # every benchmark is number 1 in its own namespace
        self.most = 0.0

    def enter(self):
        (self.group / "cgroup.procs").write_text("0")

    def _sample(self):
        total = 0
        for pid in (self.group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError, StopIteration, ValueError):
                lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        self.most = max(self.most, total / 1024)

    @contextlib.contextmanager
    def watched(self):
        self.most, over = 0.0, threading.Event()

        def watch():
            while not over.wait(1.0):
                self._sample()

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def __enter__(self):
        self.group.mkdir()
        return self

    def __exit__(self, *unused):
        cgroups.remove_folder(self.group)


class Fabric:
    """A lab of light nodes, and runs over it."""

    def __init__(self, nodes, asked, controller, folder):
        self.nodes, self.asked, self.controller = nodes, asked, controller
        self.lab = Lab(f"fabric{nodes}")
        self.folder = pathlib.Path(folder)
        self.variables = self.folder / "variables.json"
        self.variables.write_text(
            json.dumps(VARIABLES if asked.speaker else {k: v for k, v in VARIABLES.items() if not k.startswith("bgp_")})
        )
        self.rows, self.rounds = {}, {}

    def up(self):
        topology = generate.topology(self.nodes, self.asked.clusters, light=True, others=self.asked.others)
        if self.asked.pods:
            for cluster in topology["clusters"].values():
                cluster["variables"]["pod_ranges"] = "pods"
        self.lab.up(generated=topology)
        if self.asked.pods:
            with concurrent.futures.ThreadPoolExecutor(len(self.lab.control_planes)) as pool:
                list(pool.map(self._run_pods, self.lab.control_planes))

    def _run_pods(self, plane):
        """So many Pods on each node of a cluster: the lab's own, and others at random in the upper half of the cluster's range: no node has a prefix."""
        cluster, where = plane.cluster, "/api/v1/namespaces/default/pods"
        spec = {"automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]}
        upper = list(ipaddress.ip_network(cluster.pod_cidrs[0]).subnets())[1]
        others = iter(random.Random(self.nodes).sample(range(1, 1 << 15), (self.asked.pods - 1) * len(cluster.nodes)))
        for node in cluster.nodes:
            addresses = [node.pods[0].addresses[0], *(str(upper[next(others)]) for _pod in range(self.asked.pods - 1))]
            for number, address in enumerate(addresses):
                name = f"{node.name}-{number}"
                plane.api.post(where, {"metadata": {"name": name}, "spec": {"nodeName": node.name, **spec}})
                status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
                plane.api.merge(f"{where}/{name}/status", {"status": status})

    def furnish(self):
        """What capabilities have to do: in each cluster Services that are mirrored, load balancers, a pod of a set."""
        for plane in self.lab.control_planes:
            api, cluster = plane.api, plane.cluster
            api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", SET_CRD)
            api.post("/api/v1/namespaces", {"metadata": {"name": "shop"}})
            api.post(
                "/api/v1/namespaces/kube-system/configmaps",
                {"metadata": {"name": "coredns"}, "data": {"Corefile": COREFILE}},
            )
            for number, node in enumerate(cluster.nodes[:10]):
                pod = node.pods[0]
                ports = [{"name": "http", "port": 80}]
                labels = {"mirror.semaphore.uw.io/mirror-service": "true"}
                api.post(
                    "/api/v1/namespaces/shop/services",
                    {"metadata": {"name": f"s{number}", "labels": labels}, "spec": {"ports": ports}},
                )
                api.post(
                    "/api/v1/namespaces/shop/endpoints",
                    {
                        "metadata": {"name": f"s{number}", "labels": labels},
                        "subsets": [{"addresses": [{"ip": pod.addresses[0]}], "ports": ports}],
                    },
                )
                api.post(
                    "/api/v1/namespaces/shop/services",
                    {"metadata": {"name": f"l{number}"}, "spec": {"type": "LoadBalancer", "ports": ports}},
                )
                api.post(
                    "/api/v1/namespaces/shop/pods",
                    {
                        "metadata": {"name": pod.name, "labels": {"policy.semaphore.uw.io/name": "web"}},
                        "spec": {
                            "nodeName": node.name,
                            "automountServiceAccountToken": False,
                            "containers": [{"name": "c", "image": "i"}],
                        },
                    },
                )
                api.merge(
                    f"/api/v1/namespaces/shop/pods/{pod.name}/status",
                    {
                        "status": {"phase": "Running", "podIP": pod.addresses[0], "podIPs": [{"ip": pod.addresses[0]}]},
                    },
                )

    def _by_pods(self):
        """Ends the bench where the Pods are not the source: a peer would have its node's range as a whole."""
        machine = self.lab.machines[0]
        shown = self.lab.run_in_node(machine.node.name, ["wg", "show", "all", "allowed-ips"])
        fewest = min(len(line.split()) - 2 for line in shown.stdout.splitlines())
        print(f"allowed IPs of a peer, the fewest on {machine.node.name}: {fewest}", flush=True)
        if fewest < self.asked.pods / 4:
            raise SystemExit(f"{fewest} allowed IPs of a peer are not those of {self.asked.pods} Pods")

    def inventory(self, without=()):
        """The lab's inventory as a file, without some of its hosts."""
        lines = self.lab.inventory.read_text().splitlines()
        file = self.folder / f"inventory-{len(without)}.yml"
        file.write_text(
            "".join(
                line + "\n"
                for line in lines
                if not line.strip().startswith(tuple(name + ":" for name in without) or ("\0",))
            )
        )
        return file

    def empty(self, tasks):
        """A play of so many tasks that do nothing, on the nodes."""
        file = self.folder / "empty.json"
        file.write_text(
            json.dumps(
                [{"hosts": "all:!clusters", "gather_facts": False, "tasks": [{"ansible.builtin.ping": {}}] * tasks}]
            )
        )
        return str(file)

    def _requests(self):
        return sum(plane.audit_log.read_bytes().count(b"\n") for plane in self.lab.control_planes)

    def run(self, name, book, inventory, fails=False, collections=None):
        """Run a playbook and keep what it cost. collections: the folder of another copy of the collection."""
        groups = [machine.cgroup for machine in self.lab.machines]
        counts = self.folder / "counts.json"
        words = [
            "ansible-playbook",
            "-f",
            str(self.asked.forks),
            "-i",
            str(inventory),
            "-e",
            "@" + str(self.variables),
            book,
        ]
        environment = dict(
            os.environ,
            ANSIBLE_STDOUT_CALLBACK="multicluster.network.digest",
            ANSIBLE_NOCOLOR="1",
            FABRIC_COUNT=str(counts),
            ANSIBLE_CALLBACK_PLUGINS=str(HERE / "callback_plugins"),
            ANSIBLE_CALLBACKS_ENABLED="fabric_count",
        )
        if collections:
            environment["ANSIBLE_COLLECTIONS_PATH"] = str(collections)
            environment.pop("PYTHONPATH", None)
        packets, nodes, owned = sum(map(userspace, groups)), sum(map(spent, groups)), spent(self.controller.group)
        requests, started = self._requests(), time.monotonic()
        with self.controller.watched():
            done = subprocess.run(
                words,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                stdin=subprocess.DEVNULL,
                env=environment,
                preexec_fn=self.controller.enter,
            )
        if bool(done.returncode) != fails:
            raise SystemExit(f"{name} of {self.nodes} nodes ended with {done.returncode}:\n{done.stdout[-6000:]}")
        packets = sum(map(userspace, groups)) - packets
        counted, hosts = json.loads(counts.read_text()), [machine.node.name for machine in self.lab.machines]
        self.rows[name] = row = {
            "wall": time.monotonic() - started,
            "controller": spent(self.controller.group) - owned,
            "nodes": sum(map(spent, groups)) - nodes - packets,
            "wireguard": packets,
            "mib": self.controller.most,
            "requests": self._requests() - requests,
            "lines": len(done.stdout.splitlines()),
            "modules": sum(counted["modules"].get(host, 0) for host in hosts) / len(hosts),
            "results": sum(counted["results"].get(host, 0) for host in hosts) / len(hosts),
            "changed": counted["changed"],
        }
        self.rounds.setdefault(name, []).append(row)
        cells = [
            name,
            self.nodes,
            *(f"{row[key]:.1f}" for key in ("wall", "controller", "nodes", "wireguard")),
            f"{row['mib']:.0f}",
        ]
        cells += [row["requests"], row["lines"], f"{row['modules']:.1f}", f"{row['results']:.1f}"]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        if self.asked.tasks:
            for play, task, seconds, own, others, count in sorted(
                counted["tasks"], key=lambda entry: -entry[3] - entry[4]
            )[: self.asked.tasks]:
                sys.stderr.write(
                    f"    {seconds:7.2f} s, processor {own:6.2f} + {others:6.2f} s {count:5d} results  {play}: {task}\n"
                )
        return row

    def measure(self):
        """All that was asked for, in an order in which each finds what it needs."""
        asked, last = self.asked.runs, self.lab.machines[-1].node
        everyone, fewer = self.inventory(), self.inventory([last.name])
        now = everyone
        if "added" in asked:
            self.lab.control_plane(last.cluster).api.request("DELETE", "/api/v1/nodes/" + last.name)
            now = fewer
        if "mesh" in asked or "mesh_floor" in asked or self.asked.pods or len(self.asked.nodes) > 1:
            first = self.run("mesh", "multicluster.network.mesh", now)
            if self.asked.pods:
                self._by_pods()
            if "mesh_floor" in asked:
                self.run("mesh_floor", self.empty(round(first["modules"])), now)
        self.furnish()
        self.run("site_first", "multicluster.network.site", now)
        copied = uncompared(self.folder) if self.asked.uncompared else None
        for number in range(self.asked.rounds):
            if "site" in asked and copied and number % 2:
                self.run("site_uncompared", "multicluster.network.site", now, collections=copied)
            if "site" in asked:
                self.run("site", "multicluster.network.site", now)
            if "site" in asked and copied and not number % 2:
                self.run("site_uncompared", "multicluster.network.site", now, collections=copied)
            if "floor" in asked:
                self.run("floor", self.empty(2), now)
        if "added" in asked:
            self.lab.control_plane(last.cluster).register_nodes()
            self.run("added", "multicluster.network.site", everyone)
        if "rotated" in asked:
            self.lab.run_in_node(self.lab.machines[0].node.name, ["sh", "-c", "rm /var/lib/semaphore-wireguard/*.key"])
            self.run("rotated", "multicluster.network.site", everyone)
        if "keys" in asked:
            self.run("keys", "multicluster.network.rotate_keys", everyone)
        if "away" in asked:
            self.lab.api_stop(last.cluster)
            self.run("away", "multicluster.network.site", everyone, fails=True)


def uncompared(folder):
    """A folder of collections with a copy of this one that does not compare the paths between nodes."""
    root = folder / "uncompared"
    copied = root / "ansible_collections" / "multicluster" / "network"
    shutil.copytree(HERE.parents[1], copied, ignore=shutil.ignore_patterns(".git", "tests", "docs"))
    book = copied / "playbooks" / "plays" / "mesh.yml"
    first, *plays = book.read_text("utf-8").split("\n- name: ")
    left = [
        play
        for play in plays
        if not play.startswith(("Compare the nodes that", "Keep the limit of", "Print the pairs"))
    ]
    if len(plays) - len(left) != 3:
        raise SystemExit(f"{book} has not the three plays that compare paths")
    book.write_text("\n- name: ".join([first, *left]) + "\n", "utf-8")
    action = copied / "plugins" / "action" / "mesh_plan.py"
    text, count = re.subn(
        r'result\["reachability"\] = self\._reachability\(.*\)\n', "pass\n", action.read_text("utf-8")
    )
    if count != 1:
        raise SystemExit(f"{action} does not compare paths")
    action.write_text(text, "utf-8")
    return root


def both(row):
    """Processor seconds of the controller and of all nodes, which share this machine."""
    return row["controller"] + row["nodes"]


def compared(nodes, with_it, without):
    """(ratio, what it is) of unchanged runs with and without the comparison.

    Nodes do the same in both, which is checked: what theirs differ in is the machine's other work, so the mean of both counts.
    """
    same = {(row["modules"], row["results"], row["requests"]) for row in (*with_it, *without)}
    if len(same) != 1:
        raise SystemExit(
            f"the runs with and without the comparison of {nodes} nodes do not do the same on them: {sorted(same)}"
        )
    work = statistics.fmean(row["nodes"] for row in (*with_it, *without))
    ratio, raw = (
        statistics.fmean(map(of, with_it)) / statistics.fmean(map(of, without))
        for of in (lambda row: row["controller"] + work, both)
    )
    text = f"unchanged site of {nodes} compared with one without the comparison, {len(with_it)} rounds ({raw:.3f} with the nodes' own seconds)"
    return ratio, text


def judge(sizes, rounds):
    """Rows of what was asked for and what came out; returns those that are missed."""
    least, most = min(sizes), max(sizes)
    small, large = sizes[least], sizes[most]
    bars = []
    for nodes, found in sorted(rounds.items()):
        if "site_uncompared" in found:
            ratio, text = compared(nodes, found["site"], found["site_uncompared"])
            bars.append((text, ratio, COMPARED))
    if "site" in large and "floor" in large:
        if most > least:
            slopes = [(both(large[name]) - both(small[name])) / (most - least) for name in ("site", "floor")]
            bars.append(("unchanged site, slope per node compared with two empty tasks", slopes[0] / slopes[1], SLOPE))
            fixed = small["site"]["controller"] - least * slope_of(small, large, least, most)
            bars.append(("unchanged site, fixed part of the controller, s", fixed, FIXED_SECONDS))
        bars.append(
            (
                f"unchanged site of {most} compared with two empty tasks",
                both(large["site"]) / both(large["floor"]),
                WHOLE,
            )
        )
        bars.append((f"lines of an unchanged site of {most}", large["site"]["lines"], LINES))
    if "site" in large:
        bars.append((f"results of an unchanged site of {most} that changed something", large["site"]["changed"], 0))
    if "mesh_floor" in large:
        bars.append(
            (
                f"first mesh of {most} compared with as many empty tasks",
                both(large["mesh"]) / both(large["mesh_floor"]),
                FIRST,
            )
        )
    bars.append(("memory of the controller, MiB", max(row["mib"] for row in large.values()), MEMORY_MIB))
    if most > least:
        below = min(
            (nodes for nodes in sizes if nodes >= 50), default=least
        )  # what a small fabric pays once hides how many nodes grow
        if below == most:
            below = least
        growth = both(large["mesh"]) / both(sizes[below]["mesh"]) * below / most
        bars.append((f"first mesh, growth from {below} to {most} nodes compared with linear", growth, GROWTH))
    if "added" in large and "site" in large:
        bars.append(
            (
                f"one node added to {most - 1} compared with an unchanged site",
                both(large["added"]) / both(large["site"]),
                ADDED,
            )
        )
    if "keys" in large and "site" in large:
        text = f"all keys of {most} nodes rotated, compared with an unchanged site"
        bars.append((text, both(large["keys"]) / both(large["site"]), KEYS))
    print("\n| what | found | bar |\n|---|---|---|")
    for text, found, bound in bars:
        print(f"| {text} | {found:.3f} | {bound} |")
    return [text for text, found, bound in bars if found > bound]


def slope_of(small, large, least, most):
    """Processor seconds of the controller for each further node."""
    return (large["site"]["controller"] - small["site"]["controller"]) / (most - least)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, nargs="+", default=[8, 20])
    parser.add_argument("--clusters", type=int, default=4)
    parser.add_argument(
        "--others", type=int, default=0, help="so many nodes in each cluster but the first, which has the rest"
    )
    parser.add_argument("--forks", type=int, default=10)
    parser.add_argument(
        "--rounds", type=int, default=1, help="of the unchanged site and its floor; the last one counts"
    )
    parser.add_argument(
        "--runs",
        nargs="+",
        choices=RUNS,
        default=list(RUNS),
        help="alongside the first site, and the first mesh where sizes are compared",
    )
    parser.add_argument(
        "--uncompared", action="store_true", help="each unchanged site once more by a copy that compares no paths"
    )
    parser.add_argument(
        "--speaker",
        action="store_true",
        help="with a BGP speaker on each node (FRR installed; no daemon runs on a light node)",
    )
    parser.add_argument("--pods", type=int, default=0, help="so many Pods on each node are the source of its ranges")
    parser.add_argument("--tasks", type=int, default=0, help="show so many of the longest tasks of each run")
    parser.add_argument("--keep", action="store_true", help="leave the labs running")
    asked = parser.parse_args()
    print(
        "| run | nodes | wall s | controller s | nodes s | wireguard-go s | controller MiB | requests | lines | modules a node | results a node |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    sizes, rounds = {}, {}
    with Controller() as controller, tempfile.TemporaryDirectory() as folder:
        for nodes in asked.nodes:
            fabric = Fabric(nodes, asked, controller, folder)
            try:
                fabric.up()
                fabric.measure()
            finally:
                if not asked.keep:
                    fabric.lab.down()
            sizes[nodes], rounds[nodes] = fabric.rows, fabric.rounds
    missed = judge(sizes, rounds)
    if missed:
        raise SystemExit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
