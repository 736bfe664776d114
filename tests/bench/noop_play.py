# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A mesh play that has nothing to do compared with a play of one `ping` task, over the same lab nodes.

Run by `tests/run bench noop_play`. Boots a lab of two clusters, joins it once, then runs both plays in turn. A round
counts only when the mesh play reported no change on every host.
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
        raise SystemExit(f"{' '.join(map(str, words[:6]))}: {(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def play(book, forks, *arguments):
    """(seconds, hosts, changed tasks)"""
    started = time.perf_counter()
    output = run(
        ["ansible-playbook", "-f", str(forks), "-i", str(STATE / NAME / "inventory" / "hosts.yml"), *arguments, book],
        cwd=str(REPO),
        env=dict(os.environ, ANSIBLE_FORCE_COLOR="0", ANSIBLE_NOCOLOR="1"),
    )
    took = time.perf_counter() - started
    recap = [int(number) for number in re.findall(r"^\S+\s+: ok=\d+\s+changed=(\d+)", output, re.MULTILINE)]
    return took, len(recap), sum(recap)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--forks", type=int, default=10)
    parser.add_argument("--keep", action="store_true", help="leave the lab running")
    asked = parser.parse_args()
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
    print("ours: `ansible-playbook multicluster.network.mesh`; theirs: a play of one `ping` task\n")
    print("| nodes | ours | theirs | ratio ours/theirs |")
    print("|---|---|---|---|")
    print(f"| {asked.nodes} | {mesh:.2f} | {other:.2f} | {mesh / other:.2f} |")


if __name__ == "__main__":
    main()
