# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services with externalTrafficPolicy: Local, and nodes that must not announce: what two real routers do, and what clients lose meanwhile.

Clients reach the addresses over both routers, which spread connections over the nodes; speakers and routers speak BFD where the daemon can.

The tests build on each other, in order. No playbook runs while pods move: nodes find out by themselves.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import statistics
import subprocess
import time
import typing

import pytest
import yaml
from bgp_lab import CLIENT, NODES, ROUTER, SECOND, api, client_behind, make_service, put_endpoints, two_routers
from harness import LAB

LOCAL, ANY = "203.0.113.0", "203.0.113.1"
#: Between the moment when a node's last pod of a Service is asked to end and the one when no router sends anything there any more.
BOUND = 2.0
#: For how long a pod that ends goes on serving: longer than the bound, as every grace period of Kubernetes is (30 s by default).
GRACE = 3.0
#: Requests under way at the moment when a router's routes change may go to the other node, which knows nothing of them.
CLIENTS, REQUESTS, CONTROL = 4, 10000, 3000
#: How often it is measured how long a withdrawal takes.
TIMES = 10
SERVER = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write((sys.argv[1] + " " + self.client_address[0]).encode())
    def log_message(self, *unused): pass
http.server.ThreadingHTTPServer(("", 8080), Answer).serve_forever()
"""
ASKING = """
import collections, json, socket, sys, threading, time
address, most, clients = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
seen, lost, lock, end = collections.Counter(), [], threading.Lock(), threading.Event()
left = [most]
def one():
    with socket.create_connection((address, 80), timeout=0.5) as link:
        link.settimeout(1.0)
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
                lost.append([began, time.time(), why])
        time.sleep(float(sys.argv[4]))
threads = [threading.Thread(target=work) for unused in range(clients)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps({"seen": seen, "lost": lost}))
"""
#: How far clocks and the kernel's own time of a route may be apart, in seconds.
APART = 0.05
#: Prints when the answer of a port of this node changes, by a clock that all namespaces share.
WATCHER = """
import sys, time, urllib.error, urllib.request
before = None
while True:
    try:
        now = urllib.request.urlopen("http://127.0.0.1:%s/healthz" % sys.argv[1], timeout=2).status
    except urllib.error.HTTPError as error:
        now = error.code
    except OSError:
        now = 0
    if now != before:
        print(time.monotonic(), now, flush=True)
        before = now
    time.sleep(0.02)
"""
STATE = {}


def play(fabric, *arguments, **variables):
    return fabric.play("load_balancers", *arguments, inventory=STATE["inventory"], variables=variables)


def write_inventory(folder, daemon="bird", **settings):
    routers = [{"address": address, "asn": 65530, "bfd": daemon == "bird"} for address in (ROUTER, SECOND)]
    more = {
        "all": {
            "children": {
                "clusters": {
                    "hosts": {
                        "aws": {
                            "load_balancers_settings": dict(
                                {"load_balancer": "empty://", "pool": ["203.0.113.0/29"]}, **settings
                            )
                        }
                    }
                },
                "aws_nodes": {
                    "vars": {
                        "bgp_speaker_asn": 65000,
                        "bgp_speaker_install": False,
                        "bgp_speaker_verify_seconds": 20,
                        "bgp_speaker_daemon": daemon,
                        "bgp_speaker_neighbors": routers,
                    }
                },
            }
        }
    }
    (folder / "more.yml").write_text(yaml.safe_dump(more))


@pytest.fixture(scope="module", autouse=True)
def surroundings(fabric, tmp_path_factory):
    """Both routers and a client, kube-proxy on both nodes, a small HTTP server in each pod."""
    folder = tmp_path_factory.mktemp("inventory")
    (folder / "hosts.yml").symlink_to(fabric.inventory)
    write_inventory(folder, "frr")
    STATE["inventory"], started = folder, []
    try:
        for node in NODES:
            fabric.lab("kube-proxy-start", node)
        for node in NODES:
            words = [
                "/usr/bin/python3",
                str(LAB),
                "pod-exec",
                "--name",
                fabric.name,
                node + "-pod-1",
                "--",
                "/usr/bin/python3",
                "-c",
                SERVER,
                node,
            ]
            started.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True))
        shown = {
            node: fabric.lab("pod-exec", node + "-pod-1", "--", "ip", "-j", "-4", "address", "show", "eth0").stdout
            for node in NODES
        }
        STATE["pods"] = {node: json.loads(text)[0]["addr_info"][0]["local"] for node, text in shown.items()}
        with (
            two_routers(fabric, " neighbor nodes bfd\n") as STATE["routers"],
            client_behind(fabric, STATE["routers"], "203.0.113.0/29") as STATE["from"],
        ):
            yield
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=10)


def wait(address, nodes):
    """Until both routers send an address to exactly these nodes."""
    for router in STATE["routers"]:
        router.wait(address, nodes)


def via(address):
    """The nodes to which any of the routers sends an address."""
    return set().union(*(router.via(address) for router in STATE["routers"]))


def pods(fabric, name="app", **states):
    """Where pods of a Service are: aws_node_1="ready"."""
    rows = [
        (node, STATE["pods"][node], states[node.replace("-", "_")])
        for node in NODES
        if node.replace("-", "_") in states
    ]
    put_endpoints(fabric, name, rows)


def patch_node(fabric, node, body):
    api(fabric).merge_patch("/api/v1/nodes/" + node, body, "test")


def requests(fabric, count, pause=0.0):
    words = [
        "ip",
        "netns",
        "exec",
        STATE["from"],
        "/usr/bin/python3",
        "-c",
        ASKING,
        LOCAL,
        str(count),
        str(CLIENTS),
        str(pause),
    ]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)


def moves(fabric):
    """A pod that moves to the other node and back until the clients are done, each time as a rolling update does it, and every third time because
    its node is drained. Gives the number of moves."""
    one, two = NODES
    count = 0
    while STATE["client"].poll() is None:
        drained = count % 3 == 2
        pods(fabric, **states(one, "ready", two, "ready"))
        time.sleep(GRACE)
        if drained:
            patch_node(fabric, one, {"spec": {"unschedulable": True}})
        pods(fabric, **states(one, "ending", two, "ready"))
        time.sleep(GRACE)
        pods(fabric, **states(two, "ready"))
        time.sleep(GRACE)
        if drained:
            patch_node(fabric, one, {"spec": {"unschedulable": None}})
        one, two, count = two, one, count + 1
    return count


def states(*words):
    """Of nodes and states in turn."""
    return {node.replace("-", "_"): state for node, state in zip(words[::2], words[1::2])}


def open_connections(number):
    """The bound. A move changes routes twice: a node comes, a node goes. Of the requests that are under way then, of each client one at most, routers hand
    those to the other node by the share of the flows that it takes, which is half of them: so many as there are clients for each move, and nothing else."""
    return CLIENTS * (number + 1)


@contextlib.contextmanager
def route_changes():
    """Gives a list that is filled at the end: when any router's kernel changed its route to the address, in seconds since 1970."""
    words = ["stdbuf", "-oL", "ip", "-ts", "-4", "monitor", "route"]
    watchers = [
        subprocess.Popen(
            ["ip", "netns", "exec", router.namespace, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for router in STATE["routers"]
    ]
    found = []
    try:
        yield found
    finally:
        for watcher in watchers:
            os.killpg(watcher.pid, signal.SIGTERM)
            lines = watcher.communicate(timeout=10)[0].splitlines()
            found += [
                datetime.datetime.fromisoformat(line[1:].partition("]")[0]).timestamp()
                for line in lines
                if line.startswith("[") and LOCAL in line
            ]


def unexplained(lost, changes):
    """The lost requests that were not under way when a router changed its route."""
    return [row for row in lost if not any(row[0] - APART <= when <= row[1] + APART for when in changes)]


def under_moves(fabric, count, pause):
    pods(fabric, aws_node_1="ready")
    time.sleep(BOUND)
    with route_changes() as changes:
        STATE["client"] = requests(fabric, count, pause)
        number = moves(fabric)
        found = json.loads(STATE["client"].communicate(timeout=60)[0])
    explain(fabric, found["lost"][:40], changes)
    return Moved(number, sum(found["seen"].values()), found["lost"], found["seen"], changes)


def explain(fabric, lost, changes):
    """Print of each lost request how long before its end the last change of a route was."""
    for began, ended, why in lost:
        before = [ended - when for when in changes if when <= ended + APART]
        fabric.ran(
            "lost: {0} after {1:.3f} s; the last change of a route was {2} s before its end".format(
                why, ended - began, f"{min(before):.3f}" if before else "-"
            )
        )


class Moved(typing.NamedTuple):
    """What became of requests while pods moved."""

    moves: int
    good: int
    lost: list
    seen: dict
    changes: list


def test_only_the_node_with_a_pod_announces(fabric):
    make_service(fabric, "app", externalTrafficPolicy="Local")
    make_service(fabric, "web")
    pods(fabric, aws_node_1="ready")
    pods(fabric, "web", aws_node_1="ready")
    with fabric.witness() as writes:
        run = play(fabric, "--check", "--diff").ok()
    assert not writes and "while port" in run.out
    play(fabric).ok()
    wait(LOCAL, ["aws-node-1"])
    wait(ANY, NODES)
    with fabric.witness() as writes:
        assert not play(fabric).ok().changed
    assert not writes


def health_port(fabric):
    return api(fabric).get("/api/v1/namespaces/default/services/app")["spec"]["healthCheckNodePort"]


def watch_port(fabric, node):
    """A process that prints when the answer of the Service's health port changes on a node."""
    words = [
        "/usr/bin/python3",
        str(LAB),
        "exec",
        "--name",
        fabric.name,
        node,
        "--",
        "/usr/bin/python3",
        "-c",
        WATCHER,
        str(health_port(fabric)),
    ]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)


def turned(watcher, status):
    """When the port began to answer with this."""
    for line in watcher.stdout:
        when, now = line.split()
        if int(now) == status:
            return float(when)
    raise AssertionError("the watcher ended")


@pytest.mark.parametrize("daemon", ["frr", "bird"])
def test_a_node_without_a_pod_withdraws_by_itself(fabric, daemon):
    """No playbook and no reconciler runs: what follows is between kube-proxy, the node and its routers."""
    write_inventory(STATE["inventory"], daemon)
    play(fabric).ok()
    pods(fabric, aws_node_1="ready", aws_node_2="ready")
    wait(LOCAL, NODES)
    watchers = {node: watch_port(fabric, node) for node in NODES}
    from_pod, from_port = [], []
    try:
        for watcher in watchers.values():
            turned(watcher, 200)
        for number in range(TIMES):
            leaving, staying = list(NODES)[:: 1 if number % 2 else -1]
            begun = time.monotonic()
            pods(fabric, **states(leaving, "ending", staying, "ready"))
            wait(LOCAL, [staying])
            gone = time.monotonic()
            said = turned(watchers[leaving], 503)
            from_pod.append(gone - begun)
            from_port.append(gone - said)
            pods(fabric, aws_node_1="ready", aws_node_2="ready")
            wait(LOCAL, NODES)
            turned(watchers[leaving], 200)
    finally:
        for watcher in watchers.values():
            os.killpg(watcher.pid, signal.SIGTERM)
            watcher.wait(timeout=10)
    for what, took in (("the port's answer", from_port), ("the pod's end in the API", from_pod)):
        fabric.ran(
            f"{daemon}: from {what} until no router has the route: "
            f"median {statistics.median(took):.2f} s, most {max(took):.2f} s of {len(took)}; the bound is {BOUND} s"
        )
    # a machine with other work is late now and then, but a play or a hold time would show
    assert statistics.median(from_port) <= BOUND and max(from_pod) <= 3 * BOUND
    assert via(ANY) == set(NODES)


def test_what_the_follower_costs(fabric):
    """Its processor time while nothing changes: two ports, twice a second."""
    pid = fabric.sh(
        "aws-node-1", "systemctl", "show", "--property=MainPID", "--value", "multicluster-bgp-follow.service"
    ).strip()

    def ticks():
        fields = fabric.sh("aws-node-1", "cat", f"/proc/{pid}/stat").rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:15])

    before, begun = ticks(), time.monotonic()
    time.sleep(20)
    share = (ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begun)
    kib = fabric.sh("aws-node-1", "sh", "-c", f"grep VmRSS /proc/{pid}/status").split()[1]
    fabric.ran(f"the follower takes {share:.1%} of a processor and {int(kib) / 1024:.0f} MiB")
    assert share < 0.1


def test_without_any_pod_nobody_announces(fabric):
    pods(fabric)
    wait(LOCAL, [])
    assert via(ANY) == set(NODES)
    pods(fabric, aws_node_1="ready")
    wait(LOCAL, ["aws-node-1"])


def test_clients_lose_nothing_while_pods_move(fabric):
    moved = under_moves(fabric, REQUESTS, 0.012)
    allowed = open_connections(moved.moves)
    text = "{0} moves, {1} of them drains, {2} changes of routes, {3} requests answered, {4} lost; {5} may be"
    fabric.ran(text.format(moved.moves, moved.moves // 3, len(moved.changes), moved.good, len(moved.lost), allowed))
    assert moved.good + len(moved.lost) == REQUESTS and moved.moves >= 3, moved.moves
    assert len(moved.changes) >= 2 * moved.moves  # the watchers saw them
    assert len(moved.lost) <= allowed, moved.lost[:20]
    assert not unexplained(moved.lost, moved.changes)
    assert {text.split()[1] for text in moved.seen} == {CLIENT}  # pods see who asks
    assert {text.split()[0] for text in moved.seen} == set(NODES)


def test_nodes_that_are_excluded_cordoned_or_not_ready(fabric):
    one = ["aws-node-1"]
    label = "node.kubernetes.io/exclude-from-external-load-balancers"
    pods(fabric, aws_node_1="ready", aws_node_2="ready")
    wait(LOCAL, NODES)
    patch_node(fabric, "aws-node-2", {"metadata": {"labels": {label: ""}}})
    play(fabric).ok()
    wait(LOCAL, one)
    wait(ANY, one)
    patch_node(fabric, "aws-node-2", {"metadata": {"labels": {label: None}}, "spec": {"unschedulable": True}})
    play(fabric).ok()
    wait(ANY, NODES)  # nobody asked that cordoned nodes are left out
    write_inventory(STATE["inventory"], exclude_cordoned=True)
    play(fabric).ok()
    wait(ANY, one)
    patch_node(fabric, "aws-node-2", {"spec": {"unschedulable": None}})
    for node, ready in (("aws-node-1", "True"), ("aws-node-2", "Unknown")):
        condition = {
            "type": "Ready",
            "status": ready,
            "reason": "Test",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        }
        api(fabric).merge_patch(f"/api/v1/nodes/{node}/status", {"status": {"conditions": [condition]}}, "test")
    play(fabric).ok()
    wait(ANY, one)
    write_inventory(STATE["inventory"], exclude_cordoned=True, not_ready_seconds=0)
    play(fabric).ok()
    wait(ANY, NODES)
    wait(LOCAL, NODES)


def test_clients_lose_nothing_while_a_node_is_drained(fabric):
    pods(fabric, aws_node_1="ready", aws_node_2="ready")
    wait(LOCAL, NODES)
    with route_changes() as changes:
        client = requests(fabric, 2000, 0.02)
        patch_node(fabric, "aws-node-1", {"spec": {"unschedulable": True}})
        pods(fabric, aws_node_1="ending", aws_node_2="ready")
        time.sleep(GRACE)
        pods(fabric, aws_node_2="ready")
        found = json.loads(client.communicate(timeout=120)[0])
    explain(fabric, found["lost"], changes)
    fabric.ran(f"drained: {sum(found['seen'].values())} answered, {len(found['lost'])} lost; {CLIENTS} may be")
    assert len(found["lost"]) <= CLIENTS and not unexplained(found["lost"], changes)
    assert via(LOCAL) == {"aws-node-2"}
    play(fabric).ok()
    wait(ANY, ["aws-node-2"])
    patch_node(fabric, "aws-node-1", {"spec": {"unschedulable": None}})
    play(fabric).ok()
    wait(ANY, NODES)


BLIND = """
- hosts: aws_nodes
  gather_facts: false
  roles:
    - role: multicluster.network.bgp_speaker
      vars: {bgp_speaker_prefixes: [%s]}
"""


def test_what_clients_lose_where_every_node_announces(fabric, tmp_path):
    """The same moves without the nodes' own answer, as it is where addresses are announced from every node."""
    (tmp_path / "blind.yml").write_text(BLIND % LOCAL)
    done = subprocess.run(
        ["ansible-playbook", "-i", str(STATE["inventory"]), str(tmp_path / "blind.yml")],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=dict(os.environ, ANSIBLE_NOCOLOR="1"),
    )
    assert done.returncode == 0, done.stdout[-3000:]
    wait(LOCAL, NODES)
    moved = under_moves(fabric, CONTROL, 0.012)
    text = "announced from every node: {0} moves, {1} answered, {2} lost ({3:.0%}); {4} may be"
    fabric.ran(
        text.format(moved.moves, moved.good, len(moved.lost), len(moved.lost) / CONTROL, open_connections(moved.moves))
    )
    assert moved.moves >= 1 and len(moved.lost) > open_connections(moved.moves)


def test_absent_leaves_nothing(fabric):
    assert play(fabric, load_balancers_state="absent").ok().changed
    wait(LOCAL, [])
    assert not play(fabric, load_balancers_state="absent").ok().changed
    for node in NODES:
        left = (
            "ls -d /etc/multicluster-network/bgp /etc/systemd/system/multicluster-bgp* /usr/local/lib/multicluster-network-bgp /run/multicluster-bgp "
            "/var/lib/multicluster-network-bgp /run/multicluster-network/bgp-speaker.json 2>/dev/null; true"
        )
        assert fabric.sh(node, "sh", "-c", left) == ""
