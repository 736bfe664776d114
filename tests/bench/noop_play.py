# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A mesh play that has nothing to do compared with a play of one `ping` task, over the same lab nodes.

Run by `tests/run bench noop_play`. Boots a lab of two clusters, joins it once, then runs both plays in turn. A round
counts only when the mesh play reported no change on every host.

`tests/run bench noop_play --node-pods`: the same mesh play over the same nodes, reached by pods compared with SSH, one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

REPO = pathlib.Path(__file__).resolve().parents[2]
LAB = ["/usr/bin/python3", str(REPO / "tests" / "lab" / "lab.py")]
STATE = pathlib.Path(os.environ.get("MCN_LAB_STATE", "/var/lib/multicluster-network-lab"))
NAME = "noopbench"
IMAGE = "example.com/node-pod:1"
PING = """
- name: Ping
  hosts: all:!clusters
  gather_facts: false
  tasks:
    - name: Ping
      ansible.builtin.ping:
"""


def topology(nodes):
    """Two clusters with half of the nodes each."""
    clusters = {}
    for number, name in enumerate(("aws", "gcp")):
        clusters[name] = {
            "pod_cidrs": [f"10.{2 + 2 * number}.0.0/16"],
            "service_cidrs": [f"10.{3 + 2 * number}.0.0/16"],
            "node_cidrs": [f"10.{66 + number}.0.0/24"],
            "variables": {"wireguard_port": 51821},
            "nodes": {
                f"{name}-node-{index + 1}": {
                    "address": f"10.{66 + number}.0.{31 + index}",
                    "pod_cidrs": [f"10.{2 + 2 * number}.{index + 1}.0/24"],
                }
                for index in range(nodes // 2)
            },
        }
    return {"clusters": clusters}


def run(words, **options):
    done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, **options)
    if done.returncode:
        # at once: what is cleaned up afterwards may fail as well
        sys.stderr.write(f"{' '.join(map(str, words[:6]))}: {(done.stdout + done.stderr)[-4000:]}\n")
        raise SystemExit(1)
    return done.stdout


def play(book, forks, inventory=None):
    """(seconds, hosts, changed tasks)"""
    inventory = inventory or STATE / NAME / "inventory" / "hosts.yml"
    started = time.perf_counter()
    output = run(
        ["ansible-playbook", "-f", str(forks), "-i", str(inventory), book],
        cwd=str(REPO),
        env=dict(os.environ, ANSIBLE_FORCE_COLOR="0", ANSIBLE_NOCOLOR="1", ANSIBLE_PIPELINING="1"),
    )
    took = time.perf_counter() - started
    recap = [int(number) for number in re.findall(r"^\S+\s+: ok=\d+\s+changed=(\d+)", output, re.MULTILINE)]
    return took, len(recap), sum(recap)


def inventory_of_pods():
    """The lab's clusters and nothing else: nodes are reached by pods."""
    folder = STATE / NAME / "inventory-pods"
    folder.mkdir(exist_ok=True)
    tree = json.loads(
        run(["ansible-inventory", "-i", str(STATE / NAME / "inventory" / "hosts.yml"), "--list"], cwd=str(REPO))
    )
    hosts = {name: tree["_meta"]["hostvars"][name] for name in tree["clusters"]["hosts"]}
    clusters = {"all": {"vars": {"node_access_image": IMAGE}, "children": {"clusters": {"hosts": hosts}}}}
    (folder / "10-clusters.yml").write_text(json.dumps(clusters), encoding="utf-8")
    (folder / "20-cluster_nodes.yml").write_text(
        "plugin: multicluster.network.cluster_nodes\nconnection: node_pod\n", encoding="utf-8"
    )
    return folder


def node_pods(asked):
    """SSH first, then pods, over the same four nodes with a kubelet each."""
    times = {}
    try:
        run([*LAB, "up", "--name", NAME, "--pods", "real"])
        for side, inventory in (
            ("SSH", STATE / NAME / "inventory-ssh" / "hosts.yml"),
            ("node pods", inventory_of_pods()),
        ):
            sys.stderr.write(f"joining the nodes, reached by {side}\n")
            play("multicluster.network.mesh", asked.forks, inventory)
            rows = [play("multicluster.network.mesh", asked.forks, inventory) for _number in range(asked.rounds + 1)]
            if any(changed for _took, _hosts, changed in rows):
                raise SystemExit(f"{side}: {rows}: no time counts")
            times[side] = statistics.median(took for took, _hosts, _changed in rows[1:])
            play("multicluster.network.teardown", asked.forks, inventory)
    finally:
        if not asked.keep:
            run([*LAB, "down", "--name", NAME])
    ratio = times["node pods"] / times["SSH"]
    print(
        f"`ansible-playbook multicluster.network.mesh` with nothing to do over 4 nodes; medians of {asked.rounds} runs, s\n"
    )
    print("| node pods | SSH | ratio |")
    print("|---|---|---|")
    print(f"| {times['node pods']:.2f} | {times['SSH']:.2f} | {ratio:.2f} |")
    if ratio > 1.5:
        raise SystemExit("more than 1.5 times what it takes over SSH")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--forks", type=int, default=10)
    parser.add_argument("--keep", action="store_true", help="leave the lab running")
    parser.add_argument("--node-pods", action="store_true", help="nodes reached by pods compared with SSH")
    asked = parser.parse_args()
    if asked.node_pods:
        node_pods(asked)
        return
    times = {"ping": [], "mesh": []}
    with tempfile.TemporaryDirectory() as folder:
        ping = pathlib.Path(folder) / "ping.yml"
        shape = pathlib.Path(folder) / "topology.json"
        ping.write_text(PING, encoding="utf-8")
        shape.write_text(json.dumps(topology(asked.nodes)), encoding="utf-8")
        books = {"ping": str(ping), "mesh": "multicluster.network.mesh"}
        try:
            run([*LAB, "up", "--name", NAME, "--topology", str(shape)])
            sys.stderr.write(f"the lab runs; joining {asked.nodes} nodes\n")
            play("multicluster.network.site", asked.forks)
            for number in range(asked.rounds):
                for side in ("ping", "mesh") if number % 2 else ("mesh", "ping"):
                    took, hosts, changed = play(books[side], asked.forks)
                    if changed or hosts < asked.nodes:
                        raise SystemExit(f"{side}: {hosts} hosts, {changed} changes: no time counts")
                    times[side].append(took)
        finally:
            if not asked.keep:
                run([*LAB, "down", "--name", NAME])
    mesh, other = statistics.median(times["mesh"]), statistics.median(times["ping"])
    print(
        f"A play with nothing to do over {asked.nodes} nodes, {asked.forks} forks; medians of {asked.rounds} interleaved runs, s"
    )
    print("collection: `ansible-playbook multicluster.network.mesh`; theirs: a play of one `ping` task\n")
    print("| nodes | collection | theirs | ratio to theirs |")
    print("|---|---|---|---|")
    print(f"| {asked.nodes} | {mesh:.2f} | {other:.2f} | {mesh / other:.2f} |")


if __name__ == "__main__":
    main()
