# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contract of a node's BGP speaker with a real router: FRR at the other end of a cable, in a namespace of its own.

The rounds of the follower are called by the test, so that nothing depends on how fast this machine is.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import speaker_follow
from ansible_collections.multicluster.network.plugins.module_utils._io import frr
from ansible_collections.multicluster.network.plugins.module_utils._linux.files import FileState, write_state
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

NODE, ROUTER = "10.66.23.31", "10.66.23.1"
ONE, TWO, THREE = "203.0.113.1/32", "203.0.113.2/32", "203.0.113.3/32"
ROUTER_CONFIG = """frr defaults traditional
router bgp {asn}
 bgp router-id 10.66.23.1
 no bgp ebgp-requires-policy
 neighbor 10.66.23.31 remote-as 65000
 neighbor 10.66.23.31 timers 1 3
 neighbor 10.66.23.31 timers connect 1
{more} address-family ipv4 unicast
  neighbor 10.66.23.31 soft-reconfiguration inbound
 exit-address-family
exit
"""


class Ports:
    """Ports of this node whose answers the test chooses."""

    def __init__(self):
        self.servers = []

    def open(self, status=200):
        """A port, and a function that changes its answer."""

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(self.server.status)
                self.end_headers()

            def log_message(self, *unused):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        server.status = status
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.servers.append(server)
        return server

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()


def program(name):
    return next(path for path in ("/usr/lib/frr/" + name, "/usr/libexec/frr/" + name) if os.path.exists(path))


class Cable:
    """Two namespaces, a router's FRR in one, and the speaker's daemon in the other."""

    def __init__(self, folder):
        self.folder = folder
        self.names = ["mcn-bgp-{0}-{1}".format(os.getpid(), end) for end in ("node", "router")]
        self.pids = {}

    def __enter__(self):
        for name in self.names:
            self.run("ip", "netns", "add", name)
        self.run("ip", "link", "add", "up0", "netns", self.names[0], "type", "veth", "peer", "name", "up0", "netns", self.names[1])
        for name, address in zip(self.names, (NODE, ROUTER)):
            for words in (["address", "add", address + "/24", "dev", "up0"], ["link", "set", "up0", "up"], ["link", "set", "lo", "up"]):
                self.run("ip", "-n", name, *words)
        return self

    def __exit__(self, *unused):
        for name in list(self.pids):
            self.end(name)
        for name in self.names:
            self.run("ip", "netns", "delete", name)

    def run(self, *words):
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, (words, done.stdout + done.stderr)
        return done.stdout

    def start(self, name, end, folder, *more):
        words = [program("bgpd"), "-d", "-i", str(folder / "bgpd.pid"), "--vty_socket", str(folder), "-P", "0", "--no_zebra", "--no_kernel", *more]
        self.run("ip", "netns", "exec", self.names[end], *words)
        self.pids[name] = int((folder / "bgpd.pid").read_text())

    def end(self, name, by=signal.SIGTERM):
        pid = self.pids.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, by)
            while os.path.exists("/proc/{0}".format(pid)):
                time.sleep(0.02)

    def router(self, asn=65530, more=""):
        """Begin, or begin anew, at the router's end."""
        folder = self.folder / "router"
        if "router" in self.pids:
            self.end("router")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "bgpd.conf").write_text(ROUTER_CONFIG.format(asn=asn, more=more))
        for path in (folder, folder / "bgpd.conf"):
            shutil.chown(path, "frr", "frr")
        self.start("router", 1, folder, "-f", str(folder / "bgpd.conf"))

    def ask(self, *words):
        return json.loads(self.run("vtysh", "--vty_socket", str(self.folder / "router"), "-c", " ".join(["show bgp", *words, "json"])))

    def routes(self):
        """What the router has been told, each with its attributes."""
        return {prefix: rows[0] for prefix, rows in self.ask("ipv4 unicast").get("routes", {}).items()}

    def detail(self, prefix):
        return self.ask("ipv4 unicast", prefix)["paths"][0]

    def sessions(self):
        """How many sessions there have been."""
        return self.ask("neighbors", NODE)[NODE]["connectionsEstablished"]

    def settle(self, *prefixes, within=30.0):
        """Until the router has exactly these."""
        deadline = time.monotonic() + within
        while True:
            with contextlib.suppress(AssertionError):
                found = sorted(self.routes())
                if found == sorted(prefixes):
                    return
            assert time.monotonic() < deadline, (self.run("cat", str(self.folder / "router" / "bgpd.conf")), prefixes)
            time.sleep(0.05)


class Node:
    """The speaker's state, follower and daemon."""

    def __init__(self, cable):
        self.cable = cable
        self.given = {"version": speaker_follow.VERSION, "asn": 65000, "source_ip": NODE, "neighbors": [{"address": ROUTER, "asn": 65530}],
                      "keepalive_time": 1, "hold_time": 3, "node_port": 0, "routes": []}  # fmt: skip
        self.follower = speaker_follow.Follower()

    def want(self, *routes, **more):
        self.given.update(more)
        if routes:
            self.given["routes"] = [{"network": network, "health_ports": ports} for network, ports in routes]
        write_state(speaker_follow.STATE, FileState("file", 0o600, json.dumps(self.given).encode()))
        frr.check_config(speaker_follow.render(speaker_follow.load_state().speaker.announcing(["203.0.113.9/32"])))

    def start(self):
        assert speaker_follow.start() == 0
        folder = pathlib.Path(frr.RUN)
        self.cable.start("node", 0, folder, "-p", "0", "-f", frr.CONFIG)
        while not frr.alive():
            time.sleep(0.05)

    def round(self):
        self.follower.round()
        return speaker_follow.read_status()


@pytest.fixture
def place(monkeypatch):
    """Every path of the speaker in a folder of its own, which FRR can enter."""
    folder = pathlib.Path("/run/mcn-bgp-{0}".format(os.getpid()))
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("", "node", "own"):
        (folder / name).mkdir()
    shutil.chown(folder / "node", "frr", "frr")
    monkeypatch.setattr(frr, "RUN", str(folder / "node"))
    monkeypatch.setattr(frr, "CONFIG", str(folder / "node" / "bgpd.conf"))
    for name in ("STATE", "STATUS", "KEPT"):
        monkeypatch.setattr(speaker_follow, name, str(folder / "own" / name.lower()))
    ports = Ports()
    with Cable(folder) as cable:
        cable.ports = ports
        yield cable
    ports.close()
    shutil.rmtree(folder)


def test_a_node_announces_what_it_can_deliver(place):
    place.router()
    pod, shared = place.ports.open(), place.ports.open(503)
    node = Node(place)
    node.want((ONE, [pod.server_port]), (TWO, []), (THREE, [pod.server_port, shared.server_port]))
    node.start()
    place.settle(ONE, TWO)
    assert set(node.round()["withheld"]) == {THREE}
    pod.status = 503
    assert node.round()["announced"] == [TWO]
    place.settle(TWO)
    pod.status = shared.status = 200
    node.round()
    place.settle(ONE, TWO, THREE)
    assert place.sessions() == 1


def test_a_daemon_that_starts_anew_announces_what_is_right_then(place):
    place.router()
    pod = place.ports.open()
    node = Node(place)
    node.want((ONE, [pod.server_port]), (TWO, []))
    node.start()
    place.settle(ONE, TWO)
    pod.status = 503
    place.end("node", signal.SIGKILL)
    node.start()  # nobody has looked since
    place.settle(TWO)


def test_kube_proxys_word_for_the_node(place):
    place.router()
    proxy = place.ports.open(503)
    node = Node(place)
    node.want((TWO, []), node_port=proxy.server_port)
    node.start()
    assert node.round()["announced"] == []
    proxy.status = 200
    node.round()
    place.settle(TWO)


def test_changes_leave_sessions_and_other_routes(place):
    place.router()
    node = Node(place)
    node.want((ONE, []), (TWO, []))
    node.start()
    place.settle(ONE, TWO)
    node.want((ONE, []), (THREE, []), communities=["65000:7"], large_communities=["65000:1:2"], med=50, local_preference=300,
              pools=[{"network": "203.0.113.3/32", "med": 10}])  # fmt: skip
    assert not node.round()["error"]
    place.settle(ONE, THREE)
    one = place.detail(ONE)
    assert one["community"]["list"] == ["65000:7"] and one["largeCommunity"]["list"] == ["65000:1:2"] and one["metric"] == 50
    assert place.detail(THREE)["metric"] == 10
    node.want((ONE, []), communities=[], large_communities=[], med=None, local_preference=None, pools=[{"network": "203.0.113.0/24", "announce": "aggregate"}])
    assert not node.round()["error"]
    place.settle("203.0.113.0/24")
    assert "community" not in place.detail("203.0.113.0/24") and place.sessions() == 1


def test_local_preference_inside_one_autonomous_system(place):
    place.router(asn=65000)
    node = Node(place)
    node.want((ONE, []), neighbors=[{"address": ROUTER, "asn": 65000}], local_preference=300)
    node.start()
    place.settle(ONE)
    assert place.detail(ONE)["locPrf"] == 300


def test_ttl_security_on_both_sides_and_a_router_that_changes(place):
    place.router(more=" neighbor 10.66.23.31 ttl-security hops 1\n")
    node = Node(place)
    node.want((ONE, []))
    node.start()
    time.sleep(3)
    assert not place.routes()  # the node's packets come with a TTL of 1
    node.want(neighbors=[{"address": ROUTER, "asn": 65530, "ttl_security": 1}])
    assert not node.round()["error"]
    place.settle(ONE)
    place.router(asn=65531)
    node.want(neighbors=[{"address": ROUTER, "asn": 65531, "multihop": 2}])
    assert not node.round()["error"]
    place.settle(ONE)
    node.want(asn=65000, router_id="10.66.23.99", hold_time=6, keepalive_time=2)
    assert not node.round()["error"]
    place.settle(ONE)


def test_graceful_restart_keeps_routes_over_a_restart_and_not_over_an_end(place):
    place.router()
    node = Node(place)
    node.want((ONE, []), (TWO, []), graceful_restart=True)
    node.start()
    place.settle(ONE, TWO)
    place.end("node", signal.SIGKILL)
    time.sleep(1.0)
    assert set(place.routes()) == {ONE, TWO}
    node.start()
    deadline = time.monotonic() + 30
    while place.sessions() < 2:
        assert set(place.routes()) == {ONE, TWO} and time.monotonic() < deadline
        time.sleep(0.05)
    assert set(place.routes()) == {ONE, TWO}


def test_what_frr_refuses_is_said_and_the_former_state_is_taken_again(place):
    place.router()
    node = Node(place)
    node.want((ONE, []))
    node.start()
    place.settle(ONE)
    with pytest.raises(ValueRefused) as caught:
        frr.tell(["router bgp 65000", " neighbor 10.66.23.1 nonsense"])
    assert caught.value.reason == "speaker_failed"
    write_state(speaker_follow.STATE, FileState("file", 0o600, b"{}"))
    with pytest.raises(ValueError, match="no state"):
        node.round()
    node.want((ONE, []), (TWO, []))
    node.round()
    place.settle(ONE, TWO)
    assert place.sessions() == 1
