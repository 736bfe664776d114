# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans of large fabrics: every capability over generated API objects of ten clusters, one node's part, and memory.

Run by `tests/run bench plans [--nodes 1000 5000]`. Every figure is the CPU time of a fresh process with cold caches, which a busy machine does
not change much; the least of all rounds is shown. The API servers' answers are bytes in memory, so decoding and checking them is counted and
the network is not. There is nobody to compare with, so the limits are absolute, and what grows faster than the fabric fails.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

#: Seconds of a plan at 1,000 and at 5,000 nodes, MiB, and how much more than linear growth there may be.
LIMITS, MEMORY, GROWTH = {1000: 5.0, 5000: 60.0}, 2048, 1.2
#: Parts that a node or a slice computes, at 1,000 nodes.
#: A plan with the comparison of all nodes before and after, compared with the plan.
COMPARED = 1.3
SMALL = {"node": 0.1, "kubespan node": 0.1}
#: Parts of one size: 20 nodes in each of the ten clusters, with 110 pods each at addresses anywhere in their cluster's range. Nodes and seconds.
FIXED = {"ranges of pods": (200, 5.0)}
UTILS = "ansible_collections.multicluster.network.plugins.module_utils."
COMMON = f"""
import base64, hashlib, importlib, json, resource, sys, time
load = lambda name: importlib.import_module({UTILS!r} + name)
count, clusters, mesh_id = int(sys.argv[1]), 10, "a mesh"
each = count // clusters
names = ["c%d" % number for number in range(clusters)]
errors, session = load("_kubernetes.errors"), load("_kubernetes.session")
subnet = load("_mesh.kubespan.identity").mesh_subnet(mesh_id)
encode = load("_mesh.kubespan.annotations").encode


def key(*words):
    return base64.b64encode(hashlib.sha256(repr(words).encode()).digest()).decode()


def address(cluster, node):
    return "172.%d.%d.%d" % (16 + cluster, 1 + node // 200, 1 + node % 200)


def pods(cluster, node):
    return "10.%d.%d.0/24" % (16 + 4 * cluster + node // 256, node % 256)


def node(cluster, number):
    name, seat = "n%d" % number, cluster * each + number
    notes = {{}}
    for other in names:
        if other != names[cluster]:
            notes[other + ".wireguard.semaphore.uw.io/pubKey"] = key(cluster, number, other)
            notes[other + ".wireguard.semaphore.uw.io/endpoint"] = "%s:%d" % (address(cluster, number), 51820 + names.index(other))
    record = dict(node_id="id%05d" % seat, nodename=name, kubespan_address=str(subnet[seat + 1]), addresses=[address(cluster, number)],
                  additional_addresses=[pods(cluster, number)], endpoints=[address(cluster, number) + ":51820"], public_key=key(seat))
    notes.update((name, value) for name, value in encode(record).items() if value)
    notes.update({{"kilo.squat.ai/key": key("kilo", seat), "kilo.squat.ai/internal-ip": address(cluster, number) + "/16",
                   "kilo.squat.ai/force-endpoint": "%s:51820" % address(cluster, number), "kilo.squat.ai/location": "l%d" % number,
                   "kilo.squat.ai/wireguard-ip": "100.%d.%d.%d/16" % (70 + cluster, number // 200, 1 + number % 200), "kilo.squat.ai/last-seen": "1"}})
    return {{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": name, "uid": "u%d" % seat, "annotations": notes, "labels": {{"a": "b"}}}},
             "spec": {{"podCIDRs": [pods(cluster, number)], "podCIDR": pods(cluster, number)}},
             "status": {{"addresses": [{{"type": "InternalIP", "address": address(cluster, number)}}, {{"type": "Hostname", "address": name}}],
                         "conditions": [{{"type": "Ready", "status": "True"}}], "nodeInfo": {{"kubeletVersion": "v1.32.0"}}}}}}


def world(cluster):
    host = lambda number, at: pods(cluster, number % each).replace(".0/24", ".%d" % (1 + at % 250))
    found = {{"/api/v1/nodes": [node(cluster, number) for number in range(each)], "/apis/kilo.squat.ai/v1alpha1/peers": []}}
    services, slices, exports = [], [], []
    mirrored, ports = {{"mirror.semaphore.uw.io/mirror-service": "true"}}, [{{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}}]
    for number in range(each // 2):
        name = "s%d" % number
        meta = {{"name": name, "namespace": "shop", "labels": mirrored, "uid": "s%d-%d" % (cluster, number), "resourceVersion": "1",
                 "creationTimestamp": "2026-01-01T00:00:00Z"}}
        services.append({{"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {{"ports": ports, "type": "ClusterIP", "clusterIP": "None",
                          "clusterIPs": ["None"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}}}})
        ends = [{{"addresses": [host(number + at, number)], "conditions": {{"ready": True}}}} for at in range(4)]
        slices.append({{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": ends,
                        "ports": [{{"name": "http", "protocol": "TCP", "port": 8080}}],
                        "metadata": dict(meta, name=name + "-x", labels=dict(mirrored, **{{"kubernetes.io/service-name": name}}))}})
        exports.append({{"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport", "metadata": dict(meta, labels={{}})}})
    for number in range(each // 5):
        meta = {{"name": "lb%d" % number, "namespace": "edge", "uid": "l%d-%d" % (cluster, number), "resourceVersion": "1",
                 "creationTimestamp": "2026-01-01T00:00:00Z"}}
        services.append({{"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {{"type": "LoadBalancer", "ports": ports,
                          "clusterIP": "10.%d.1.1" % (100 + cluster), "ipFamilies": ["IPv4"]}}, "status": {{"loadBalancer": {{}}}}}})
    found["/api/v1/services"] = services
    found["/apis/discovery.k8s.io/v1/endpointslices"] = slices
    found["/apis/multicluster.x-k8s.io/v1alpha1/serviceexports"] = exports
    found["/apis/multicluster.x-k8s.io/v1alpha1/serviceimports"] = []
    found["/apis/crd.projectcalico.org/v1/globalnetworksets"] = []
    found["/apis/crd.projectcalico.org/v1/ippools"] = []
    found["/api/v1/endpoints"] = found["/api/v1/configmaps"] = []
    found["/api/v1/namespaces"] = [{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": name, "uid": name + str(cluster)}}}}
                                   for name in ("shop", "edge", "kube-system", "sys-semaphore")]
    found["/api/v1/pods"] = [{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "p%d" % number, "namespace": "shop", "uid": "p%d" % number,
        "labels": {{"policy.semaphore.uw.io/name": "set%d" % (number % 20)}}}}, "spec": {{}}, "status": {{"phase": "Running",
        "podIP": host(number, number // each), "podIPs": [{{"ip": host(number, number // each)}}]}}}} for number in range(each * 4)]
    return {{path: json.dumps(items).encode() for path, items in found.items()}}


KINDS = {{"nodes": "Node", "endpoints": "Endpoints", "configmaps": "ConfigMap", "services": "Service", "pods": "Pod", "namespaces": "Namespace",
          "endpointslices": "EndpointSlice", "peers": "Peer",
          "serviceexports": "ServiceExport", "serviceimports": "ServiceImport", "globalnetworksets": "GlobalNetworkSet", "ippools": "IPPool"}}


def meets(item, selector):
    labels = item["metadata"].get("labels") or {{}}
    return all(labels.get(part.partition("=")[0]) == part.partition("=")[2] if "=" in part else part in labels for part in selector.split(",") if part)


def send(self, request, deadline, allowance=None):
    data, path = WORLD[self.cluster], request.path
    front, inside, rest = path.partition("/namespaces/")
    space, plural = (rest + "/").split("/")[:2] if inside else ("", "")
    listed = front + "/" + plural if plural and rest.count("/") == 1 else path
    if listed in data:
        items, query = json.loads(data[listed]), request.query or {{}}
        items = [item for item in items if not space or item["metadata"].get("namespace") == space]
        items = [item for item in items if meets(item, query["labelSelector"])] if query.get("labelSelector") else items
        return {{"kind": "List", "metadata": {{"resourceVersion": "1"}}, "items": items}}
    found = [name.rpartition("/")[2] for name in data if name.rpartition("/")[0] == path]
    if found:
        return {{"resources": [{{"name": name, "kind": KINDS[name], "namespaced": name not in ("nodes", "namespaces", "globalnetworksets", "ippools", "peers"),
                                 "verbs": ["get", "list", "create", "patch", "delete"]}} for name in found]}}
    if path == "/version":
        return {{"major": "1", "minor": "32"}}
    if path.startswith("/api/v1/namespaces/") and path.count("/") == 4:
        return {{"metadata": {{"name": path.rpartition("/")[2], "uid": path + self.cluster}}}}
    if path.endswith("/configmaps/coredns"):
        return {{"metadata": {{"name": "coredns", "namespace": "kube-system", "uid": "u"}}, "data": {{"Corefile": COREFILE}}}}
    raise self.error(errors.NotFound, request.operation, "there is none", status=404)


COREFILE = ".:53 {{\\n    errors\\n    kubernetes cluster.local in-addr.arpa {{\\n       pods insecure\\n    }}\\n    forward . /etc/resolv.conf\\n}}\\n"
WORLD = {{name: world(number) for number, name in enumerate(names)}}
session.Session.send = send
given = {{name: {{"pod_cidrs": ["10.%d.0.0/14" % (16 + 4 * number)], "service_cidrs": ["10.%d.0.0/16" % (100 + number)], "wireguard_port": 51820 + number,
                  "node_cidrs": ["172.%d.0.0/16" % (16 + number)], "wireguard_cidrs": ["100.%d.0.0/16" % (70 + number)]}}
         for number, name in enumerate(names)}}
hosts = {{"%s-%d" % (name, number): {{"multicluster_cluster": name, "node_name": "n%d" % number}} for name in names for number in range(each)}}
access = [{{"name": name, "api_url": "https://192.0.2.%d" % (1 + number), "token": "t", "ca_data": None, "validate_certs": True}}
          for number, name in enumerate(names)]
asks = {{"fabric": "f", "clusters": access, "definition": {{"clusters": given, "nodes": hosts}}, "timeout": 600.0}}
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
spent, ratio = [], 0


def timed(function, *arguments, **more):
    started = time.process_time()
    result = function(*arguments, **more)
    spent.append(time.process_time() - started)
    return result


def good(result, least):
    assert not result["failures"], result["failures"][:2]
    changes = sum(result["plan"][verb] for verb in ("create", "update", "delete"))
    assert changes >= least, (changes, least, result["refused"][:3])
"""
#: Each ends with what was measured last in ``spent``.
PARTS = {
    "mesh": """
found = timed(load("_flows.mesh.mesh_plan").run, asks)
assert len(found["mesh"]["nodes"]) == count and not found["refused"] and not found["failures"], (found["refused"][:3], found["failures"][:2])
assert len(found["mesh"]["clusters"]["c0"]["remotes"]["c1"]["peers"]) == each
""",
    "comparison": """
MeshPlan, risks, changes = load("_plan.mesh_plan").MeshPlan, load("_trace.reach.risks"), load("_trace.reach.changes")
first = timed(load("_flows.mesh.mesh_plan").run, asks)
rows = {name: first["mesh"]["clusters"][name]["remotes"]["c%d" % ((number + 1) % clusters)]["peers"][0] for number, name in enumerate(names)}
paths = {}
for host, row in first["mesh"]["nodes"].items():  # every node of a cluster would give one peer another endpoint
    peer = rows[row["cluster"]]
    after = {"endpoint": peer["endpoint"], "allowed_ips": peer["allowed_ips"]}
    device = "wireguard.c%d" % ((int(row["cluster"][1:]) + 1) % clusters)
    change = {"action": "update", "device": device, "key": peer["public_key"], "before": dict(after, endpoint="192.0.2.1:1"), "after": after}
    paths[host] = {"links": {}, "peers": [change], "routes": []}


def both():
    found = load("_flows.mesh.mesh_plan").run(asks)
    mesh = MeshPlan.from_json(found["mesh"])
    judge = risks.asked_hosts(mesh), risks.Risks.of(mesh)
    return changes.judged(changes.Changes(mesh, paths, (), judge[1]).classes(), (), 0, ())


found = timed(both)
assert found["moved"] == clusters * each and not found["lost"], {name: found[name] for name in ("lost", "moved", "gained", "still_broken")}
ratio = spent[-1] / spent[-2]
""",
    "ranges of pods": """
import random
for number, name in enumerate(names):
    places = random.Random(number).sample(range(1, 1 << 16), 110 * each)
    WORLD[name]["/api/v1/pods"] = json.dumps([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p%d" % at, "namespace": "shop", "uid": "p%d" % at},
        "spec": {"nodeName": "n%d" % (at % each)}, "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
        for at, place in enumerate(places) for address in ["10.%d.%d.%d" % (16 + 4 * number, place >> 8, place & 255)]]).encode()
    given[name]["pod_ranges"] = "pods"
found = timed(load("_flows.mesh.mesh_plan").run, asks)
assert not found["refused"] and not found["failures"], (found["refused"][:3], found["failures"][:2])
held = [len(peer["allowed_ips"]) for peer in found["mesh"]["clusters"]["c0"]["remotes"]["c1"]["peers"]]
assert len(held) == each and max(held) <= 110 and {row["source"] for row in found["mesh"]["pod_ranges"].values()} == {"pods"}, held
""",
    "node": """
found = load("_flows.mesh.mesh_plan").run(asks)
part = timed(lambda: json.dumps(load("_mesh.topology.semaphore").node_part(load("_plan.mesh_plan").MeshPlan.from_json(found["mesh"]), "c0-0")))
assert len(json.loads(part)["devices"]) == clusters - 1
""",
    "slices": """
found = load("_flows.mesh.mesh_plan").run(asks)
slices, packed = load("_mesh.topology.slices"), load("_values.packed")
text = timed(lambda: packed.pack(slices.agreement(load("_plan.mesh_plan").MeshPlan.from_json(found["mesh"]), asks["definition"])))
assert len(packed.unpack(text)["nodes"]) == count
""",
    "kubespan": """
found = timed(load("_flows.mesh.mesh_plan").run, dict(asks, mode="kubespan", mesh_id=mesh_id))
assert len(found["mesh"]["kubespan"]["affiliates"]) == count and not found["refused"], found["refused"][:3]
""",
    "kubespan node": """
Mesh, received, targets = load("_mesh.kubespan.peers").Mesh, load("_mesh.kubespan.endpoints").received_endpoints, load("_mesh.kubespan.states").targets
found = load("_flows.mesh.mesh_plan").run(dict(asks, mode="kubespan", mesh_id=mesh_id))
records = found["mesh"]["kubespan"]["affiliates"]


def part():
    peers = [(peer.allowed_ips, received(peer.endpoints, None)) for peer in Mesh(records).specs(records[0]["node_id"]).peers.values()]
    return peers, targets([(allowed, "unknown") for allowed, endpoints in peers], subnet=subnet)


peers, aims = timed(part)
assert len(peers) == count - 1 and aims.v4
""",
    "service_mirror": """
result = timed(load("_flows.services.mirror").run, dict(asks, mirror_namespace="sys-semaphore",
               mirror_selector="mirror.semaphore.uw.io/mirror-service=true"), check=True, diff=False)
good(result, each // 2 * clusters * (clusters - 1))
""",
    "mcs": """
result = timed(load("_flows.services.service_imports").run, dict(asks, max_endpoints_per_slice=100), check=True, diff=False)
good(result, each // 2 * clusters)
""",
    "coredns_rewrite": """
result = timed(load("_flows.services.coredns").run, dict(asks, namespace="kube-system", name="coredns", key="Corefile", deployment="coredns",
               members=names, version="1.11.3", mirror_namespace="sys-semaphore", cluster_domain="cluster.local", own_zone=True), check=True)
good(result, clusters)
""",
    "network_sets": """
grants = {name: {"pod_cidrs": row["pod_cidrs"]} for name, row in given.items()}
result = timed(load("_flows.services.network_sets").run, dict(asks, grants=grants, record_namespace="kube-system"), check=True)
good(result, 20 * clusters)
""",
    "load_balancers": """
rows = [{"cluster": name, "load_balancer": "empty://", "provider": "static", "pool": ["198.%d.0.0/16" % (18 + number)]} for number, name in enumerate(names)]
result = timed(load("_flows.load_balancers.converge").run, dict(asks, settings=rows), check=True)
good(result, each // 5 * clusters)
""",
    "clustermesh": """
rows = [{"name": name, "podCIDRs": given[name]["pod_cidrs"], "wireguardCIDR": given[name]["wireguard_cidrs"][0], "serviceCIDR": given[name]["service_cidrs"][0]}
        for name in names]
result = timed(load("_flows.clustermesh.converge").run, dict(asks, meshes=[{"name": "m", "clusters": rows}], strict_endpoints=False,
               node_cidrs={name: row["node_cidrs"] for name, row in given.items()}), check=True)
good(result, count)
""",
}
END = """
print(json.dumps({"seconds": spent[-1], "ratio": ratio, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "world": base / 1024}))
"""


def measure(part, count):
    done = subprocess.run(
        [sys.executable, "-B", "-c", COMMON + PARTS[part] + END, str(count)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{part}, {count} nodes: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", nargs="+", choices=sorted(PARTS), default=list(PARTS))
    options = parser.parse_args()
    wrong = []
    for part in options.parts:
        seen = {}
        for count in [FIXED[part][0]] if part in FIXED else options.nodes:
            rounds = [measure(part, count) for dummy in range(options.rounds)]
            seconds, memory = min(row["seconds"] for row in rounds), max(row["mib"] for row in rounds)
            limit = SMALL.get(part, LIMITS.get(count)) if part not in SMALL or count <= 1000 else None
            limit = FIXED[part][1] if part in FIXED else limit
            seen[count] = seconds
            print(
                "plan of {0} nodes in 10 clusters, {1}: {2:.3f} s of CPU{3}, {4:.0f} MiB with the answers".format(
                    count, part, seconds, f" (limit {limit:g} s)" if limit else "", memory
                ),
                flush=True,
            )
            ratio = min(row["ratio"] for row in rounds)
            if ratio:
                print(f"  {ratio:.2f} x the plan alone (limit {COMPARED:g} x)", flush=True)
            if ratio > COMPARED:
                wrong.append(f"{part} compared with the plan at {count} nodes")
            if limit is not None and seconds > limit:
                wrong.append(f"{part} at {count} nodes")
            if memory > MEMORY:
                wrong.append(f"memory of {part} at {count} nodes")
        few, many = min(seen), max(seen)
        if few < many and seen[few] > 0.05:  # less is noise
            growth = seen[many] / seen[few] / (many / few)
            print(f"growth of {part} from {few} to {many} nodes: {growth:.2f} x linear (limit {GROWTH} x)", flush=True)
            if growth > GROWTH:
                wrong.append("growth of " + part)
    if wrong:
        raise SystemExit("beyond the limit: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
