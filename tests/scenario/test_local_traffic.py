# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services with externalTrafficPolicy: Local, and nodes that must not announce: what a real router does, and what clients lose meanwhile.

The tests build on each other, in order. No playbook runs while pods move: nodes find out by themselves.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest
import yaml
from bgp_lab import NODES, ROUTER, Router, api, make_service, put_endpoints
from harness import LAB

LOCAL, ANY = "203.0.113.0", "203.0.113.1"
#: Between the moment when a node's last pod of a Service is told to end and the one when no router sends anything there any more.
BOUND = 2.0
#: For how long a pod that ends goes on serving: longer than the bound, as every grace period of Kubernetes is (30 s by default).
GRACE = 3.0
#: Requests under way at the moment when a router's routes change may be handed to the other node, which knows nothing of them.
CLIENTS, REQUESTS = 4, 10000
SERVER = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write((sys.argv[1] + " " + self.client_address[0]).encode())
    def log_message(self, *unused): pass
http.server.ThreadingHTTPServer(("", 8080), Answer).serve_forever()
"""
CLIENT = """
import collections, json, socket, sys, threading, time
address, most, clients = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
seen, lost, lock, end = collections.Counter(), [], threading.Lock(), threading.Event()
left = [most]
def one():
    with socket.create_connection((address, 80), timeout=1) as link:
        link.settimeout(1)
        link.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        text = b""
        while True:
            part = link.recv(4096)
            if not part:
                return text.rpartition(b"\\r\\n")[2].decode()
            text += part
def work():
    while True:
        with lock:
            if left[0] <= 0:
                return
            left[0] -= 1
        began = time.time()
        try:
            answer = one()
        except OSError as error:
            answer = ""
            why = str(error)
        with lock:
            if answer:
                seen[answer] += 1
            else:
                lost.append([began, why])
        time.sleep(float(sys.argv[4]))
threads = [threading.Thread(target=work) for unused in range(clients)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps({"seen": seen, "lost": lost}))
"""
STATE = {}


def play(fabric, *arguments, **variables):
    return fabric.play("load_balancers", *arguments, inventory=STATE["inventory"], variables=variables)


def write_inventory(folder, **settings):
    more = {"all": {"children": {
        "clusters": {"hosts": {"aws": {"load_balancers_settings": dict({"load_balancer": "empty://", "pool": ["203.0.113.0/29"]}, **settings)}}},
        "aws_nodes": {"vars": {"bgp_speaker_asn": 65000, "bgp_speaker_install": False, "bgp_speaker_verify_seconds": 20,
                               "bgp_speaker_neighbors": [{"address": ROUTER, "asn": 65530}]}},
    }}}  # fmt: skip
    (folder / "more.yml").write_text(yaml.safe_dump(more))


@pytest.fixture(scope="module", autouse=True)
def surroundings(fabric, tmp_path_factory):
    """The router, kube-proxy on both nodes, a small HTTP server in each pod."""
    folder = tmp_path_factory.mktemp("inventory")
    (folder / "hosts.yml").symlink_to(fabric.inventory)
    write_inventory(folder)
    STATE["inventory"] = folder
    router, started = Router(fabric), []
    STATE["router"] = router
    router.start()
    try:
        for node in NODES:
            fabric.lab("kube-proxy-start", node)
        for node in NODES:
            words = ["/usr/bin/python3", str(LAB), "pod-exec", "--name", fabric.name, node + "-pod-1", "--", "/usr/bin/python3", "-c", SERVER, node]
            started.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True))
        shown = {node: fabric.lab("pod-exec", node + "-pod-1", "--", "ip", "-j", "-4", "address", "show", "eth0").stdout for node in NODES}
        STATE["pods"] = {node: json.loads(text)[0]["addr_info"][0]["local"] for node, text in shown.items()}
        yield
    finally:
        router.stop()
        for process in started:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=10)


def pods(fabric, name="local", **states):
    """Where pods of a Service are: aws_node_1="ready"."""
    rows = [(node, STATE["pods"][node], states[node.replace("-", "_")]) for node in NODES if node.replace("-", "_") in states]
    put_endpoints(fabric, name, rows)


def patch_node(fabric, node, body):
    api(fabric).merge_patch("/api/v1/nodes/" + node, body, "test")


def requests(fabric, count, pause=0.0):
    words = ["/usr/bin/python3", str(LAB), "exec", "--name", fabric.name, "gcp-node-1", "--",
             "/usr/bin/python3", "-c", CLIENT, LOCAL, str(count), str(CLIENTS), str(pause)]  # fmt: skip
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)


def moves(fabric):
    """A pod that moves to the other node and back until the clients are done, each time as a rolling update does it. Gives the number of moves."""
    one, two = "aws_node_1", "aws_node_2"
    count = 0
    while STATE["client"].poll() is None:
        pods(fabric, **{one: "ready", two: "ready"})
        time.sleep(GRACE)
        pods(fabric, **{one: "ending", two: "ready"})
        time.sleep(GRACE)
        pods(fabric, **{two: "ready"})
        one, two, count = two, one, count + 1
        time.sleep(1.0)
    return count


def under_moves(fabric, count):
    pods(fabric, aws_node_1="ready")
    time.sleep(BOUND)
    STATE["client"] = requests(fabric, count, 0.002)
    number = moves(fabric)
    found = json.loads(STATE["client"].communicate(timeout=60)[0])
    return number, sum(found["seen"].values()), found["lost"], found["seen"]


def test_only_the_node_with_a_pod_announces(fabric):
    make_service(fabric, "local", externalTrafficPolicy="Local")
    make_service(fabric, "any")
    pods(fabric, aws_node_1="ready")
    pods(fabric, "any", aws_node_1="ready")
    with fabric.witness() as writes:
        run = play(fabric, "--check", "--diff").ok()
    assert not writes and "while port" in run.out
    play(fabric).ok()
    router = STATE["router"]
    router.wait(LOCAL, ["aws-node-1"])
    router.wait(ANY, NODES)
    with fabric.witness() as writes:
        assert not play(fabric).ok().changed
    assert not writes


def test_a_node_without_a_pod_withdraws_by_itself(fabric):
    router = STATE["router"]
    fabric.lab("api-stop", "aws")  # what follows is between kube-proxy, the node and its router
    fabric.lab("api-start", "aws")
    for leaving, coming in (("aws-node-1", "aws-node-2"), ("aws-node-2", "aws-node-1")):
        pods(fabric, **{coming.replace("-", "_"): "ready"})
        seconds = router.wait(LOCAL, [coming])
        fabric.ran("from {0} to {1} within {2:.2f} s".format(leaving, coming, seconds))
        assert seconds < 3 * BOUND  # a slow machine is late, but a hold time or a play would show
    assert router.via(ANY) == set(NODES)


def test_without_any_pod_nobody_announces(fabric):
    pods(fabric)
    STATE["router"].wait(LOCAL, [])
    assert STATE["router"].via(ANY) == set(NODES)
    pods(fabric, aws_node_1="ready")
    STATE["router"].wait(LOCAL, ["aws-node-1"])


def test_clients_lose_nothing_while_pods_move(fabric):
    number, good, lost, seen = under_moves(fabric, REQUESTS)
    # a request that is under way while the router's routes change, which each move does twice
    allowed = CLIENTS * 2 * number
    fabric.ran("{0} moves, {1} requests answered, {2} lost; {3} may be".format(number, good, len(lost), allowed))
    assert good + len(lost) == REQUESTS and number >= 3
    assert len(lost) <= allowed, lost[:20]
    # the pod sees who asks, from wherever
    assert {text.split()[1] for text in seen} == {STATE["source"]} if "source" in STATE else len({text.split()[1] for text in seen}) == 1
    assert {text.split()[0] for text in seen} == set(NODES)
    STATE["lost"] = len(lost)
