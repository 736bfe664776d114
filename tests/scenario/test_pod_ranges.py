# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a block of Calico to packets from the pods of the other cluster, with the reconciler's own process and nodes that are reached over SSH. In order.

What it took is printed, with the load of the machine, which decides: a play over two nodes is some seconds of a processor.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.errors import Conflict

MODULE = "ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.program"
CRD = "crd.projectcalico.org"
AFFINITIES = f"/apis/{CRD}/v1/blockaffinities"
TIMES = int(os.environ.get("MCN_TIMES", "10"))
#: A topology by MCN_TOPOLOGY has more nodes: the first of its clusters sends, the second has the blocks.
TOPOLOGY = os.environ.get("MCN_TOPOLOGY", "two")
OVER = os.environ.get("MCN_INVENTORY", "inventory-ssh")
STATE = {}


def client(fabric, cluster):
    return Client(parse_access({"name": cluster, "kubeconfig": str(fabric.state / cluster / "kubeconfig")}))


def affinity(node, cidr):
    name = f"{node}-{cidr.replace('.', '-').replace('/', '-')}"
    spec = {"node": node, "cidr": cidr, "state": "confirmed", "deleted": "false"}
    return {"apiVersion": CRD + "/v1", "kind": "BlockAffinity", "metadata": {"name": name}, "spec": spec}


def give(fabric, node, cidr):
    STATE["client"].create(AFFINITIES, affinity(node, cidr), "calico")


def take(fabric, node, cidr):
    STATE["client"].delete(f"{AFFINITIES}/{affinity(node, cidr)['metadata']['name']}")


def serve_calico(fabric):
    """Both kinds, and a block for each node of the second cluster: the range that it has already."""
    one = STATE["client"]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for plural, kind in (("blockaffinities", "BlockAffinity"), ("ipamblocks", "IPAMBlock")):
        names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": kind + "List"}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{CRD}"},
            "spec": {"group": CRD, "scope": "Cluster", "names": names, "versions": [version]},
        }
        with contextlib.suppress(Conflict):
            one.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body, "tests")
    until(lambda: all(one.resource(CRD + "/v1", kind, refresh=True) for kind in ("BlockAffinity", "IPAMBlock")))
    for item in one.list("/api/v1/nodes").items:
        give(fabric, item["metadata"]["name"], item["spec"]["podCIDR"])


@pytest.fixture(scope="module", autouse=True)
def surroundings(fabric, tmp_path_factory):
    folder = STATE["inventory"] = tmp_path_factory.mktemp("inventory")
    (folder / "hosts.yml").symlink_to(fabric.state / OVER / "hosts.yml")
    (folder / "more.yml").write_text(yaml.safe_dump({"all": {"vars": {"multicluster_capabilities": []}}}))
    names = fabric.clusters
    STATE["here"], STATE["there"] = names[0], names[1]
    STATE["client"] = client(fabric, names[1])
    tree = fabric.tree
    hosts = {cluster: sorted(tree[f"{cluster}_nodes"]["hosts"]) for cluster in names}
    STATE["near"], STATE["far"] = hosts[names[0]], hosts[names[1]]
    grants = tree["clusters"]["hosts"][names[1]]["pod_cidrs"]
    grant = ipaddress.ip_network(grants[0] if isinstance(grants, list) else grants)
    # the last of the grant: no node has them
    STATE["blocks"] = iter([str(net) for net in list(grant.subnets(new_prefix=26))[-(TIMES + 8) :]])
    serve_calico(fabric)
    try:
        yield
    finally:
        end()


def play(fabric, book, *arguments, **variables):
    return fabric.play(book, *arguments, inventory=STATE["inventory"], variables=variables)


def begin():
    """The service's main program, as its unit runs it."""
    folder, STATE["port"] = STATE["inventory"].parent, free_port()
    watched = ["nodes", "blockaffinities", "ipamblocks", "ciliumnodes"]
    command = [str(pathlib.Path(sys.executable).with_name("ansible-playbook")), "-i", str(STATE["inventory"])]
    config = {
        "fabric": "default",
        "inventory": str(STATE["inventory"]),
        "capabilities": ["pod_ranges"],
        "clusters": [],
        "listen": f"127.0.0.1:{STATE['port']}",
        "watch": [{"resource": name, "playbooks": ["mesh"]} for name in watched],
        "command": [*command, "-e", "multicluster_lock=fabric"],
    }
    (folder / "reconciler.json").write_text(json.dumps(config))
    STATE["log"] = folder / "reconciler.log"
    with STATE["log"].open("a") as log:
        STATE["process"] = subprocess.Popen(
            [sys.executable, "-m", MODULE, str(folder / "reconciler.json")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=dict(os.environ, ANSIBLE_NOCOLOR="1", ANSIBLE_FORKS=os.environ.get("ANSIBLE_FORKS", "20")),
        )


def metric(name):
    """What the service counted under a name, all labels together."""
    with urllib.request.urlopen(f"http://127.0.0.1:{STATE['port']}/metrics", timeout=10) as answer:
        rows = [
            line.split()
            for line in answer.read().decode().splitlines()
            if line.startswith("multicluster_reconciler_" + name)
        ]
    return sum(float(row[-1]) for row in rows)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def end():
    process = STATE.pop("process", None)
    if process is not None and process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=120)


def lines(text):
    """The lines of the service that have this in them."""
    return [line for line in STATE["log"].read_text().splitlines() if line.startswith("part=") and text in line]


def until(what, within=180.0):
    deadline = time.monotonic() + within
    while not what():
        assert time.monotonic() < deadline, STATE["log"].read_text()[-6000:] if "log" in STATE else ""
        time.sleep(0.05)


def first(cidr):
    return str(ipaddress.ip_network(cidr)[1])


def asking(fabric, cidr, within=90):
    """A process in the network of each pod of the first cluster that ends with the first answer from a block."""
    words = ["ping", "-n", "-q", "-c", "1", "-w", str(within), "-i", "0.1", first(cidr)]
    pods = [name for name in STATE["pods"] if name.startswith(STATE["here"])]
    return {
        pod: subprocess.Popen(
            ["ip", "netns", "exec", fabric.namespace(pod), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for pod in pods
    }


def answered(processes, begun, within=90.0):
    """Seconds until the last one had its answer."""
    left = dict(processes)
    while left:
        left = {pod: process for pod, process in left.items() if process.poll() is None}
        assert time.monotonic() < begun + within, f"no answer to {sorted(left)}\n{STATE['log'].read_text()[-6000:]}"
        time.sleep(0.02)
    assert all(process.returncode == 0 for process in processes.values())
    return time.monotonic() - begun


def ranges(fabric, node):
    """The allowed IPs of the peers of a node of the first cluster, by WireGuard itself."""
    devices = [device for name, device in fabric.wireguard(node).items() if name.endswith(STATE["there"])]
    return sorted(cidr for device in devices for peer in device["peers"].values() for cidr in peer["allowed_ips"])


def shown(seconds):
    each = " ".join(f"{one:.1f}" for one in seconds)
    last = sorted(seconds)[-(-len(seconds) * 99 // 100) - 1]
    return f"median {statistics.median(seconds):.1f} s, 99th percentile {last:.1f} s, most {max(seconds):.1f} s of {len(seconds)}: {each}"


def test_the_service_begins_and_changes_nothing(fabric):
    play(fabric, "mesh").ok()
    fabric.all_reach(within=90)
    STATE["pods"] = sorted({row["source"] for row in fabric.reaches()})
    begin()
    until(lambda: lines("part=program event=started"))
    time.sleep(20)  # Ansible is in memory by then
    assert not lines("part=playbooks") and not lines("part=pod_ranges event=set")


def test_a_pod_in_a_further_block_is_reached_within_the_bound(fabric):
    node, took = STATE["far"][0], []
    for _number in range(TIMES):
        cidr = next(STATE["blocks"])
        fabric.sh(node, "ip", "address", "add", first(cidr) + "/32", "dev", "lo")
        processes = asking(fabric, cidr)
        time.sleep(1)
        begun = time.monotonic()
        give(fabric, node, cidr)
        took.append(answered(processes, begun))
        STATE["last"] = cidr
    fabric.ran(f"from a block to answers in all {len(STATE['near'])} nodes of the other cluster: {shown(took)}")
    fabric.ran("plays: " + "; ".join(lines("part=pod_ranges event=set")[-3:]))
    assert not lines("part=playbooks"), lines("part=playbooks")
    fabric.ran(f"load of the machine: {os.getloadavg()[0]:.1f}")
    until(lambda: len(lines("part=pod_ranges event=set")) >= TIMES)
    assert len(lines("part=pod_ranges event=set")) == TIMES and metric("ansible_starts_total") == 0


def test_a_block_that_goes_to_another_node_is_one_change(fabric):
    cidr, old, new = STATE["last"], STATE["far"][0], STATE["far"][1]
    calls = len(lines("part=pod_ranges event=set"))
    fabric.sh(old, "ip", "address", "del", first(cidr) + "/32", "dev", "lo")
    fabric.sh(new, "ip", "address", "add", first(cidr) + "/32", "dev", "lo")
    processes = asking(fabric, cidr)
    begun = time.monotonic()
    take(fabric, old, cidr)
    give(fabric, new, cidr)
    fabric.ran(f"moved after {answered(processes, begun):.1f} s")
    until(lambda: len(lines("part=pod_ranges event=set")) > calls)
    time.sleep(1)
    assert len(lines("part=pod_ranges event=set")) == calls + 1 and not lines("part=playbooks")


def test_nodes_have_it_in_their_state_and_a_run_changes_nothing(fabric):
    for node in STATE["near"][:2]:
        assert STATE["last"] in ranges(fabric, node)
    run = play(fabric, "mesh", "--check").ok()
    assert not run.changed, run.out[-6000:]
    take(fabric, STATE["far"][1], STATE["last"])
    until(lambda: all(STATE["last"] not in ranges(fabric, node) for node in STATE["near"][:2]))
    assert not lines("part=playbooks")


def test_a_node_that_is_away_asks_for_the_playbook(fabric):
    cidr, node = next(STATE["blocks"]), STATE["near"][0]
    fabric.lab("node-stop", node)
    give(fabric, STATE["far"][0], cidr)
    until(lambda: lines('part=pod_ranges event="not set"'))
    until(lambda: cidr in ranges(fabric, STATE["near"][1]))
    fabric.lab("node-rebuild", node)
    until(lambda: cidr in ranges(fabric, node), 240.0)
    until(lambda: lines("part=playbooks event=ended playbook=mesh result=0"), 240.0)
    end()
