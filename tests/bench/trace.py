#!/usr/bin/env python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The expected path of all pairs of a large fabric: from Node objects to classes of equal decisions, and then every single pair answered from them.

Run by `tests/run bench trace`. Each mesh is a fresh process with cold caches; its peak of memory is the kernel's own figure. There is nobody to compare
with, so the limits are absolute.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

LIMITS = {"seconds": 30.0, "mebibytes": 1024.0}
PREFIX = "ansible_collections.multicluster.network.plugins.module_utils."
COMMON = f"""
import base64, hashlib, importlib, json, resource, sys, time
load = lambda name: importlib.import_module({PREFIX!r} + name)
count, mode, names = int(sys.argv[1]), sys.argv[2], ["aws", "gcp", "merit", "azure"]
clusters = {{
    name: {{"pod_cidrs": ["10.%d.0.0/16" % (10 + index)], "service_cidrs": ["10.%d.0.0/16" % (40 + index)], "node_cidrs": ["10.%d.0.0/16" % (70 + index)],
           "wireguard_port": 51820 + index}}
    for index, name in enumerate(names)
}}
seats = [(names[number % len(names)], number // len(names)) for number in range(count)]
key = lambda *words: base64.b64encode(hashlib.sha256(repr(words).encode()).digest()).decode()
definition = {{"name": "f", "clusters": clusters, "nodes": {{
    "%s-%d" % seat: {{"multicluster_cluster": seat[0], "node_name": "n%d" % seat[1]}} for seat in seats
}}}}
fabric, wrong = load("_mesh.fabric.inventory").load_fabric(definition)
assert not wrong, wrong
listings = {{name: {{"nodes": []}} for name in names}}
for cluster, number in seats:
    index = names.index(cluster)
    address = "10.%d.%d.%d" % (70 + index, number // 250, 1 + number % 250)
    cidr = "10.%d.%d.0/24" % (10 + index, number)
    if mode == "kubespan":
        subnet = load("_mesh.kubespan.identity").mesh_subnet("a mesh")
        record = dict(
            node_id="id-%s-%04d" % (cluster, number), nodename="n%d" % number, kubespan_address=str(subnet[index * 1000 + number + 1]),
            addresses=[address], additional_addresses=[cidr], endpoints=[address + ":51820"], public_key=key(cluster, number),
        )
        notes = {{k: v for k, v in load("_mesh.kubespan.annotations").encode(record).items() if v}}
    else:
        notes = {{}}
        for other in names:
            if other != cluster:
                notes[load("_mesh.semaphore.annotations").key_of(other, "pubKey")] = key(cluster, number, other)
                notes[load("_mesh.semaphore.annotations").key_of(other, "endpoint")] = "%s:%d" % (address, 51820 + names.index(other))
    listings[cluster]["nodes"].append({{
        "metadata": {{"name": "n%d" % number, "annotations": notes}}, "spec": {{"podCIDR": cidr, "podCIDRs": [cidr]}},
        "status": {{"addresses": [{{"type": "InternalIP", "address": address}}]}},
    }})
Pairs, plain = load("_trace.reach.classes").Pairs, load("_plan.plan").to_wire
started = time.process_time()
if mode == "kubespan":
    mesh = load("_mesh.topology.kubespan").plan_kubespan_mesh(fabric, listings, "a mesh")
else:
    mesh = load("_mesh.topology.semaphore").plan_semaphore_mesh(fabric, listings)
pairs = Pairs(load("_plan.mesh_plan").MeshPlan.from_json(plain(mesh.to_json())))
found = pairs.summary()
hosts = sorted(pairs.seats)
reached = sum(1 for one in hosts for other in hosts if one != other and not pairs.verdict(one, other))
spent = time.process_time() - started
assert not mesh.refused, mesh.refused[:3]
assert found["pairs"] == found["reachable"] == reached == count * (count - 1), (found["pairs"], found["reachable"], reached, found["cut"][:2])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
print(json.dumps({{"seconds": spent, "mebibytes": peak, "classes": len(pairs.classes()), "pairs": reached}}))
"""


def measure(mode, count):
    done = subprocess.run(
        [sys.executable, "-B", "-c", COMMON, str(count), mode], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    slow = []
    for mode in ("semaphore", "kubespan"):
        rows = [measure(mode, options.nodes) for dummy in range(options.rounds)]
        best = min(rows, key=lambda row: row["seconds"])
        print(
            "{0}: {1:,} pairs of {2:,} nodes in {3:.2f} s with {4:.0f} MiB, {5} classes (limits {6:.0f} s, {7:.0f} MiB)".format(
                mode,
                best["pairs"],
                options.nodes,
                best["seconds"],
                best["mebibytes"],
                best["classes"],
                LIMITS["seconds"],
                LIMITS["mebibytes"],
            )
        )
        slow += [mode for name, limit in LIMITS.items() if best[name] > limit]
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
