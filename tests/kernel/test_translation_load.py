# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Translation of pod addresses under load: many peers, many flows, a change in between, and a table of connections that is full (translation 6)."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kept_addresses import kept_table
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from test_conntrack import given, mapped
from test_exported_addresses import applied, asked, exported, sources, tunnel_fixture  # noqa: F401 pylint: disable=unused-import
from test_kept_addresses import NAME, seen, way_fixture  # noqa: F401 pylint: disable=unused-import
from test_node_dataplane import DEVICE, OTHER, UNDERLAY, site_fixture  # noqa: F401 pylint: disable=unused-import
from test_transaction import Host, wish

#: See conftest.
SLOW = float(os.environ.get("MCN_SLOW", "1"))
FLOWS = 10_000
CONNECTIONS = int(10_000 / SLOW)
FILLING = (pathlib.Path(__file__).parent / "tracked_connections.py").read_text(encoding="utf-8")

#: Answers each connection with a byte, and ends it.
SERVER = """
import socket
server = socket.create_server(("0.0.0.0", 4000), backlog=4096)
print("ready", flush=True)
while True:
    one, source = server.accept()
    one.sendall(source[0].encode())
    one.close()
"""
#: Opens so many connections in several threads, and more until its input ends; prints {answers by the source that was seen, failures}.
CLIENT = """
import collections, json, socket, struct, sys, threading, time
address, count, threads = sys.argv[1], int(sys.argv[2]), 4
seen, failed, lock = collections.Counter(), [], threading.Lock()
ended = threading.Event()
def work(number):
    while number > 0 or not ended.is_set():
        number -= 1
        try:
            with socket.create_connection((address, 4000), 30) as one:
                one.settimeout(30)
                source = b""
                while True:
                    data = one.recv(100)
                    if not data:
                        break
                    source += data
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError as error:
            with lock:
                failed.append(str(error))
            continue
        with lock:
            seen[source.decode()] += 1
        time.sleep(0.0005)
workers = [threading.Thread(target=work, args=(count // threads,)) for dummy in range(threads)]
[one.start() for one in workers]
sys.stdin.read()
ended.set()
[one.join() for one in workers]
print(json.dumps({"seen": seen, "failed": failed[:5] + [len(failed)]}))
"""
#: Counts what leaves an end of these connections and what arrives there, so that a lost packet is one that did not arrive. A connection that took long proves
#: nothing: a busy machine lets it wait, and a packet that was sent again looks the same whether it was lost or late.
COUNTED = """
table inet witness {{
  counter sent {{ }}
  counter arrived {{ }}
  chain out {{ type filter hook output priority 300; tcp {0} 4000 counter name sent; }}
  chain in {{ type filter hook prerouting priority -300; tcp {1} 4000 counter name arrived; }}
}}
"""


@pytest.mark.other_kernel
@pytest.mark.parametrize("again", ["unchanged", "as a new table", "with another former range"])
def test_connections_that_open_while_the_mapping_is_applied_again(way, wait_for, again):
    """No connection and no packet is lost, and each has the exported address."""
    pod, node, remote = way
    pod.run("nft", "-f", "-", stdin=COUNTED.format("dport", "sport"))
    remote.run("nft", "-f", "-", stdin=COUNTED.format("sport", "dport"))
    node.run(
        "nft",
        "-f",
        "-",
        stdin="table inet cni { chain in { type filter hook prerouting priority 0; ct state new accept; }; }",
    )
    host, target = Host(node, wait_for), mapped("10.201.0.0/16")
    host.run(wish(tables=[given(target)]))
    server = subprocess.Popen(remote.command(sys.executable, "-c", SERVER), stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "ready\n"
    words, pipe = [sys.executable, "-c", CLIENT, "10.4.0.5", str(CONNECTIONS)], subprocess.PIPE
    client = subprocess.Popen(pod.command(*words), stdin=pipe, stdout=pipe, text=True)
    runs = 0
    try:
        while client.poll() is None:
            if runs == 4:
                client.stdin.close()
            former = [mapped("10.200.0.0/16")] if again.startswith("with") and runs % 2 == 0 else []
            if again.startswith("as"):
                node.run("nft", "add", "rule", "inet", NAME, "postrouting", "counter")
            result = host.run(wish(tables=[given(target, former)]))
            assert result["changed"] == (again != "unchanged")
            runs += 1
    finally:
        server.terminate()
        server.communicate()
    found = json.loads(client.stdout.read())
    print(f"over {runs} runs: {found}")
    assert found["failed"] == [0], "a connection was lost"
    wait_for(lambda: lost_packets(pod, remote) == [0, 0])
    assert lost_packets(pod, remote) == [0, 0], "packets that were sent and did not arrive"
    assert list(found["seen"]) == ["10.201.0.5"] and found["seen"]["10.201.0.5"] >= CONNECTIONS and runs > 3


def counted(end):
    """Packets that this end sent, and that arrived there."""
    found = {
        one["counter"]["name"]: one["counter"]["packets"]
        for one in json.loads(end.run("nft", "-j", "list", "counters", "table", "inet", "witness"))["nftables"]
        if "counter" in one
    }
    return found["sent"], found["arrived"]


def lost_packets(pod, remote):
    """How many packets of the pod did not arrive at the other end, and how many of the other end not at the pod."""
    (sent, arrived), (answered, seen_there) = counted(pod), counted(remote)
    return [sent - seen_there, answered - arrived]


@pytest.mark.other_kernel
def test_a_full_table_of_connections_lets_nothing_out_untranslated(tunnel):
    pod, node, remote = tunnel
    assert applied(node, exported())["changed"]
    assert seen(pod, remote, "10.4.0.5") == asked_of(pod, remote) == "10.201.0.5"
    node.run(sys.executable, "-c", FILLING, "flush")
    full = node.run(sys.executable, "-c", FILLING, "fill").split(" of ")
    assert int(full[0]) == int(full[1])
    before = read_tracking(node)
    for port in (4101, 4102, 4103):
        assert asked(remote, pod, "10.4.0.5", port) == "" == asked(pod, remote, "10.201.0.5", port), (
            "no connection can begin"
        )
    pod.run("ping", "-q", "-c", "3", "-i", "0.2", "-W", "1", "10.4.0.5", check=False)
    after = read_tracking(node)
    assert after["count"] == after["most"] and after["dropped"] >= before["dropped"] + 6
    assert sources(remote) == {"10.201.0.5"}, "nothing else came by the tunnel"
    node.run(sys.executable, "-c", FILLING, "flush")
    assert seen(pod, remote, "10.4.0.5") == "10.201.0.5" and asked(pod, remote, "10.201.0.5", 4104) == "10.4.0.5"
    assert sources(remote) == {"10.201.0.5"}


def asked_of(pod, remote):
    """The source that the other cluster sees."""
    return asked(remote, pod, "10.4.0.5", 4100)


def read_tracking(node):
    asked_for = {"fabric": "demo", "checks": True, "pod_cidrs": [], "cluster_cidrs": []}
    found = node.flow("status", asked_for)["node"]
    assert found["conntrack_list"] is True
    return found["tracking"]


#: One question of each port from FIRST on, so many; prints the sources that the server saw, and how many answers came.
ASKING = """
import collections, json, select, socket, sys
source, target, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
seen = collections.Counter()
for start in range(first, first + count, 100):
    opened = []
    for port in range(start, min(start + 100, first + count)):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.bind((source, port))
        one.sendto(b"question", (target, 4000))
        opened.append(one)
    waiting = set(opened)
    while waiting:
        ready = select.select(waiting, [], [], 20)[0]
        if not ready:
            break
        for one in ready:
            seen[one.recv(100).decode()] += 1
            waiting.remove(one)
    for one in opened:
        one.close()
print(json.dumps(seen))
"""
TELLING = """
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
server.bind((sys.argv[1], 4000))
print("ready", flush=True)
while True:
    data, source = server.recvfrom(100)
    server.sendto(source[0].encode(), source)
"""
PODS, EXPORTED = {"a": "10.244.0.5", "b": "10.244.0.5"}, {"a": "10.201.0.0/16", "b": "10.202.0.0/16"}


def of_side(name, count):
    """The topology of a node in a cluster with so many nodes on the other side."""
    cluster = {
        "remotes": {OTHER[name]: {"device": DEVICE[name], "routes": [{"dst": EXPORTED[OTHER[name]]}]}},
        "keep_pod_addresses": {"ranges": ["10.244.0.0/16"], "required": True},
        "exported_pod_cidrs": {"pairs": {"10.244.0.0/16": EXPORTED[name]}, "former": []},
    }
    others = {
        f"n{number}": {"cluster": "other", "pod_cidrs": [f"10.244.{number >> 2}.{(number & 3) << 6}/26"]}
        for number in range(count)
    }
    nodes = {"a": {"cluster": "own", "pod_cidrs": []}, **others}
    return {"fabric": "mesh", "failures": (), "nodes": nodes, "clusters": {"own": cluster}}


def test_a_thousand_peers_and_ten_thousand_flows(site):
    """Two clusters with equal pod ranges; each flow has an answer and the exported address, and the table is as long as with one peer."""
    keys = {name: site.run(name)["public_keys"][OTHER[name]] for name in "ab"}
    tables = {name: kept_table(MeshPlan.from_json(of_side(name, 1000)), "a") for name in "ab"}
    assert tables["a"] == kept_table(MeshPlan.from_json(of_side("a", 1)), "a"), (
        "rules do not depend on the number of nodes"
    )
    for name in "ab":
        other = OTHER[name]
        prefix = EXPORTED[other].replace("0.0/16", "")
        peers = [
            {
                "public_key": keys[other]
                if not number
                else base64.b64encode(b"bench" * 6 + number.to_bytes(2, "little")).decode(),
                "endpoint": UNDERLAY[other] + ":51821" if not number else f"198.51.100.{number % 250 + 1}:51821",
                "persistent_keepalive": 0,
                "allowed_ips": [f"{prefix}{number >> 2}.{(number & 3) << 6}/26"],
                "preshared_key": None,
            }
            for number in range(1000)
        ]
        site.wants[name]["devices"][0].update(peers=peers, routes=[EXPORTED[other]])
        site.wants[name]["tables"] = [tables[name]]
        assert not site.run(name)["refused"]
        site.nodes[name].run("ip", "address", "add", PODS[name] + "/32", "dev", "lo")
    assert site.ping("10.202.0.5", PODS["a"])
    server = subprocess.Popen(
        site.nodes["b"].command(sys.executable, "-c", TELLING, PODS["b"]), stdout=subprocess.PIPE, text=True
    )
    assert server.stdout.readline() == "ready\n"
    started = time.monotonic()
    try:
        found = json.loads(
            site.nodes["a"].run(sys.executable, "-c", ASKING, PODS["a"], "10.202.0.5", "20000", str(FLOWS))
        )
    finally:
        server.kill()
        server.communicate()
    print(f"{FLOWS} flows in {time.monotonic() - started:.1f} s")
    assert found == {"10.201.0.5": FLOWS}
    assert not site.run("a")["changed"]
