# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans of one large KubeSpan mesh: what the controller computes once, and what each node computes of it.

Run by `tests/run bench plans`. Every figure is the CPU time of a fresh process with cold caches, which a busy machine does not
change much; the least of all rounds is shown. There is nobody to compare with, so the limits are absolute.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

LIMITS = {"fabric": 5.0, "node": 0.1}
PREFIX = "ansible_collections.multicluster.network.plugins.module_utils._mesh."
COMMON = """
import base64, hashlib, importlib, ipaddress, json, sys, time
load = lambda name: importlib.import_module({0!r} + name)
count, mesh_id = int(sys.argv[1]), "a mesh"
subnet = load("kubespan.identity").mesh_subnet(mesh_id)


def record(number):
    high, low = divmod(number, 256)
    address = "10.{{0}}.{{1}}.7".format(100 + high, low)
    return dict(
        node_id="id{{0:05d}}".format(number), nodename="n{{0}}".format(number), kubespan_address=str(subnet[number + 1]), addresses=[address],
        additional_addresses=["10.{{0}}.{{1}}.0/24".format(150 + high, low), "fd00:{{0:x}}::/64".format(number + 1)], endpoints=[address + ":51820"],
        public_key=base64.b64encode(hashlib.sha256(b"%d" % number).digest()).decode(),
    )
""".format(PREFIX)
PARTS = {
    "fabric": """
encode, load_fabric = load("kubespan.annotations").encode, load("fabric.inventory").load_fabric
plan_kubespan_mesh = load("topology.kubespan").plan_kubespan_mesh
names = ["n%d" % number for number in range(count)]
clusters = {"c": {"pod_cidrs": ["10.144.0.0/12", "fd00::/16"], "service_cidrs": ["10.3.0.0/16"], "node_cidrs": ["10.96.0.0/11"], "wireguard_port": 1}}
clusters["d"] = {"pod_cidrs": ["10.4.0.0/16"], "service_cidrs": ["10.5.0.0/16"], "node_cidrs": ["10.6.0.0/16"], "wireguard_port": 2}
fabric, wrong = load_fabric({"name": "f", "clusters": clusters, "nodes": {name: {"multicluster_cluster": "c", "node_name": name} for name in names}})
assert not wrong, wrong
notes = [{key: value for key, value in encode(record(number)).items() if value} for number in range(count)]
nodes = []
for number, note in enumerate(notes):
    nodes.append({"metadata": {"name": names[number], "annotations": note}, "spec": {"podCIDRs": ["10.4.%d.%d/32" % divmod(number, 256)]}})
started = time.process_time()
planned = plan_kubespan_mesh(fabric, {"c": {"nodes": nodes}, "d": {"nodes": []}}, mesh_id)
spent = time.process_time() - started
assert len(planned["kubespan"]["affiliates"]) == count and not planned["refused"], planned["refused"][:3]
""",
    "node": """
Mesh, received, targets = load("kubespan.peers").Mesh, load("kubespan.endpoints").received_endpoints, load("kubespan.states").targets
records = [record(number) for number in range(count)]
started = time.process_time()
peers = [(peer.allowed_ips, received(peer.endpoints, None)) for peer in Mesh(records).specs(records[0]["node_id"]).peers.values()]
found = targets([(allowed, "unknown") for allowed, endpoints in peers], subnet=subnet)
spent = time.process_time() - started
assert len(peers) == count - 1 and found.v4
""",
}


def measure(part, count):
    done = subprocess.run(
        [sys.executable, "-B", "-c", COMMON + PARTS[part] + "\nprint(json.dumps(spent))", str(count)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    slow = []
    for part, limit in LIMITS.items():
        spent = min(measure(part, options.nodes) for dummy in range(options.rounds))
        print("plan of {0} nodes, {1}: {2:.3f} s of CPU (limit {3} s at 1000 nodes)".format(options.nodes, part, spent, limit))
        if options.nodes <= 1000 and spent > limit:
            slow.append(part)
    if slow:
        raise SystemExit("slower than the limit: " + ", ".join(slow))


if __name__ == "__main__":
    main()
