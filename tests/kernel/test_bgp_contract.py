# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contract of a node's BGP speaker, FRR's and BIRD's, with a real router: FRR at the other end of a cable, in a namespace of its own.

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
import socket
import subprocess
import threading
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.speakers.bgp import (
    follow as speaker_follow,
    speaker as bgp_speaker,
)
from ansible_collections.multicluster.network.plugins.module_utils._linux.daemons import bird, frr
from ansible_collections.multicluster.network.plugins.module_utils._linux.files import FileState, write_state
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

NODE, ROUTER = "10.66.23.31", "10.66.23.1"
ONE, TWO, THREE = "203.0.113.1/32", "203.0.113.2/32", "203.0.113.3/32"
SIX = "2001:db8:66::"
#: A router with one session of either family, over which it takes networks of both; and one that takes IPv4 networks without the extension of RFC 8950.
ONE_SESSION = """frr defaults traditional
router bgp {asn}
 bgp router-id 10.66.23.1
 no bgp default ipv4-unicast
 no bgp ebgp-requires-policy
 neighbor {node} remote-as 65000
 neighbor {node} timers connect 1
{more} address-family ipv4 unicast
  neighbor {node} activate
 exit-address-family
 address-family ipv6 unicast
  neighbor {node} activate
 exit-address-family
exit
"""
EXTENDED = " neighbor 2001:db8:66::31 capability extended-nexthop\n"
ROUTER_CONFIG = """frr defaults traditional
router bgp {asn}
 bgp router-id 10.66.23.1
 no bgp ebgp-requires-policy
 neighbor 10.66.23.31 remote-as 65000
 neighbor 10.66.23.31 timers 1 3
 neighbor 10.66.23.31 timers connect 1
{more} neighbor 2001:db8:66::31 remote-as 65000
 neighbor 2001:db8:66::31 timers connect 1
 address-family ipv4 unicast
  neighbor 10.66.23.31 soft-reconfiguration inbound
  no neighbor 2001:db8:66::31 activate
 exit-address-family
 address-family ipv6 unicast
  neighbor 2001:db8:66::31 activate
 exit-address-family
exit
"""


class Ports:
    """Ports of this node with answers that the test chooses."""

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
    return next(path for path in ("/usr/lib/frr/" + name, "/usr/libexec/frr/" + name) if pathlib.Path(path).exists())


class Cable:
    """Two namespaces, a router's FRR in one, and the speaker's daemon in the other."""

    def __init__(self, folder):
        self.folder = folder
        self.names = [f"mcn-bgp-{os.getpid()}-{end}" for end in ("node", "router")]
        self.processes = {}

    def __enter__(self):
        for name in self.names:
            self.run("ip", "netns", "add", name)
        self.run(
            "ip",
            "link",
            "add",
            "up0",
            "netns",
            self.names[0],
            "type",
            "veth",
            "peer",
            "name",
            "up0",
            "netns",
            self.names[1],
        )
        for name, address in zip(self.names, (NODE, ROUTER)):
            last = address.rpartition(".")[2]
            # The kernel's own link-local address is there a second or two later, so what BIRD sends would depend on how busy the machine is.
            for words in (
                ["link", "set", "up0", "addrgenmode", "none"],
                ["link", "set", "up0", "up"],
                ["address", "add", address + "/24", "dev", "up0"],
                ["address", "add", f"fe80::{last}/64", "dev", "up0", "nodad"],
                ["address", "add", f"{SIX}{last}/64", "dev", "up0", "nodad"],
                ["link", "set", "lo", "up"],
            ):
                self.run("ip", "-n", name, *words)
        return self

    def __exit__(self, *unused):
        for name in list(self.processes):
            self.end(name)
        for name in self.names:
            self.run("ip", "netns", "delete", name)

    def run(self, *words):
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, (words, done.stdout + done.stderr)
        return done.stdout

    def start(self, name, end, words):
        # ip becomes the program, so that its number is the program's
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.names[end], *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.processes[name] = process

    def end(self, name, by=signal.SIGTERM):
        process = self.processes.pop(name)
        process.send_signal(by)
        process.wait(timeout=30)

    def router(self, asn=65530, more="", bfd=False, text=ROUTER_CONFIG, node=NODE, zebra=False):
        """Begin, or begin anew, at the router's end; with zebra it knows its interfaces, else it refuses a link-local next hop of BIRD."""
        folder = self.folder / "router"
        for name in [name for name in self.processes if not name.startswith("node")]:
            self.end(name)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        more += " neighbor 10.66.23.31 bfd\n" if bfd else ""
        (folder / "bgpd.conf").write_text(text.format(asn=asn, more=more, node=node))
        for path in (folder, folder / "bgpd.conf"):
            shutil.chown(path, "frr", "frr")
        zebra = zebra or bfd or text is ONE_SESSION
        for name in ("zebra", "bfdd", "bgpd") if zebra else ("bgpd",):
            own = ["-f", str(folder / "bgpd.conf") if name == "bgpd" else "/dev/null", "-z", str(folder / "zserv")]
            own += ["--no_zebra", "--no_kernel"] if not zebra else []
            self.start(
                name,
                1,
                [program(name), "-i", str(folder / (name + ".pid")), "--vty_socket", str(folder), "-P", "0", *own],
            )
            self.until(lambda name=name: (folder / (name + ".vty")).exists())

    @staticmethod
    def until(condition, within=120.0):
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def ask(self, *words):
        return json.loads(
            self.run("vtysh", "--vty_socket", str(self.folder / "router"), "-c", " ".join(["show bgp", *words, "json"]))
        )

    def routes(self):
        """What the router has received, each with its attributes."""
        return {prefix: rows[0] for prefix, rows in self.ask("ipv4 unicast").get("routes", {}).items()}

    def detail(self, prefix):
        return self.ask("ipv4 unicast", prefix)["paths"][0]

    def sessions(self):
        """How many sessions there have been."""
        return self.ask("neighbors", NODE)[NODE]["connectionsEstablished"]

    def settle(self, *prefixes, within=120.0):
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
        self.daemon = speaker_follow.DAEMONS[cable.daemon]
        self.given = {
            "version": speaker_follow.VERSION,
            "daemon": cable.daemon,
            "asn": 65000,
            "source_ip": NODE,
            "neighbors": [{"address": ROUTER, "asn": 65530}],
            "keepalive_time": 1,
            "hold_time": 3,
            "node_port": 0,
            "routes": [],
        }
        self.follower = speaker_follow.Follower()

    def want(self, *routes, **more):
        self.given.update(more)
        if routes:
            self.given["routes"] = [{"network": network, "health_ports": ports} for network, ports in routes]
        write_state(speaker_follow.STATE, FileState("file", 0o600, json.dumps(self.given).encode()))
        self.daemon.check_config(speaker_follow.load_state().render(["203.0.113.9/32"]), ())

    def start(self, bfd=False):
        assert speaker_follow.start() == 0
        words = bird.words() if self.cable.daemon == "bird" else frr.words(bfd)
        if bfd and self.cable.daemon == "frr":
            # as its unit has it: frr's user in a user namespace, with capabilities that hold in there alone
            apart = [
                "setpriv",
                "--reuid=frr",
                "--regid=frr",
                "--clear-groups",
                "unshare",
                "--user",
                "--map-current-user",
                "--keep-caps",
            ]
            self.cable.start("node-zebra", 0, [*apart, *frr.zebra_words()])
            self.cable.until(lambda: pathlib.Path(frr.RUN + "/zserv.api").exists())
            self.cable.start("node-bfdd", 0, frr.bfdd_words())
        self.cable.start("node", 0, words)
        self.cable.until(self.daemon.alive)

    def round(self):
        self.follower.round()
        return speaker_follow.read_status()


@pytest.fixture(params=["frr", "bird"])
def place(monkeypatch, request):
    """Every path of the speaker in a folder of its own, which FRR can enter."""
    folder = pathlib.Path(f"/run/mcn-bgp-{os.getpid()}")
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("", "node", "own"):
        (folder / name).mkdir()
    shutil.chown(folder / "node", request.param, request.param)
    monkeypatch.setattr(frr, "RUN", str(folder / "node"))
    monkeypatch.setattr(frr, "CONFIG", str(folder / "node" / "bgpd.conf"))
    monkeypatch.setattr(bird, "CONFIG", str(folder / "node" / "bird.conf"))
    for name in ("STATE", "STATUS", "KEPT"):
        monkeypatch.setattr(speaker_follow, name, str(folder / "own" / name.lower()))
    ports = Ports()
    with Cable(folder) as cable:
        cable.ports, cable.daemon = ports, request.param
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
    since = node.round()["since"]
    assert set(since) == {ONE, TWO} and abs(since[ONE] - time.time()) < 600
    pod.status = 503
    assert node.round()["announced"] == [TWO]
    assert speaker_follow.read_status()["since"] == {TWO: since[TWO]}
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


def test_kube_proxys_answer_for_the_node(place):
    place.router()
    proxy = place.ports.open(503)
    node = Node(place)
    node.want((TWO, []), node_port=proxy.server_port)
    node.start()
    assert node.round()["announced"] == []
    proxy.status = 200
    node.round()
    place.settle(TWO)
    # another port that nobody has ever answered on is no evidence
    with socket.create_server(("127.0.0.1", 0)) as free:
        unreachable = free.getsockname()[1]
    node.want(node_port=unreachable)
    status = node.round()
    assert status["announced"] == [TWO] and not status["stopped"]


def test_changes_leave_sessions_and_other_routes(place):
    place.router()
    node = Node(place)
    node.want((ONE, []), (TWO, []))
    node.start()
    place.settle(ONE, TWO)
    node.want(
        (ONE, []),
        (THREE, []),
        communities=["65000:7"],
        large_communities=["65000:1:2"],
        med=50,
        local_preference=300,
        pools=[{"network": "203.0.113.3/32", "med": 10}],
    )
    assert not node.round()["error"]
    place.settle(ONE, THREE)
    one = place.detail(ONE)
    assert (
        one["community"]["list"] == ["65000:7"]
        and one["largeCommunity"]["list"] == ["65000:1:2"]
        and one["metric"] == 50
    )
    assert place.detail(THREE)["metric"] == 10
    node.want(
        (ONE, []),
        communities=[],
        large_communities=[],
        med=None,
        local_preference=None,
        pools=[{"network": "203.0.113.0/24", "announce": "aggregate"}],
    )
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


def test_each_family_over_its_own_session(place):
    place.router(zebra=True)
    node = Node(place)
    six = {"address": SIX + "1", "asn": 65530, "source_ip": SIX + "31"}
    node.want((ONE, []), ("2001:db8:1::1/128", []), neighbors=[{"address": ROUTER, "asn": 65530}, six])
    node.start()
    place.settle(ONE)
    place.until(lambda: list(place.ask("ipv6 unicast").get("routes", {})) == ["2001:db8:1::1/128"])
    assert place.ask("ipv6 unicast", "2001:db8:1::1/128")["paths"][0]["nexthops"][0]["ip"] == SIX + "31"


SIX_NETWORK = "2001:db8:1::1/128"
BOTH = sorted([ONE, SIX_NETWORK])


def test_both_families_over_one_session_of_ipv6(place):
    """IPv4 networks with a next hop of IPv6 (RFC 8950), which also comes and goes without ending anything else than that session."""
    place.router(text=ONE_SESSION, more=EXTENDED, node=SIX + "31")
    node = Node(place)
    six = {"address": SIX + "1", "asn": 65530, "source_ip": SIX + "31"}
    node.want((ONE, []), (SIX_NETWORK, []), source_ip=SIX + "31", router_id=NODE, neighbors=[six])
    node.start()
    place.until(lambda: list(place.ask("ipv6 unicast").get("routes", {})) == [SIX_NETWORK])
    assert not place.routes() and node.daemon.carries() == {SIX + "1": [6]}
    assert speaker_follow.announced(node.daemon) == ([SIX_NETWORK], [ONE])
    node.want(neighbors=[dict(six, both_families=True)])
    assert not node.round()["error"]
    place.until(lambda: (place.routes().get(ONE) or {"nexthops": [{}]})["nexthops"][0].get("ip") == SIX + "31")
    place.until(lambda: node.daemon.carries() == {SIX + "1": [4, 6]})
    place.until(lambda: speaker_follow.announced(node.daemon) == (BOTH, []))
    place.until(lambda: list(place.ask("ipv6 unicast").get("routes", {})) == [SIX_NETWORK])
    node.want(neighbors=[six])
    assert not node.round()["error"]
    place.settle()
    place.until(lambda: list(place.ask("ipv6 unicast").get("routes", {})) == [SIX_NETWORK])


def test_both_families_over_one_session_of_ipv4(place):
    place.router(text=ONE_SESSION)
    node = Node(place)
    four = {"address": ROUTER, "asn": 65530, "source_ip": NODE}
    node.want((ONE, []), (SIX_NETWORK, []), neighbors=[four])
    node.start()
    place.settle(ONE)
    assert speaker_follow.announced(node.daemon) == ([ONE], [SIX_NETWORK])
    node.want(neighbors=[dict(four, both_families=True, next_hop=SIX + "31")])
    assert not node.round()["error"]
    place.until(
        lambda: (
            place.ask("ipv6 unicast")
            .get("routes", {})
            .get(SIX_NETWORK, [{"nexthops": [{}]}])[0]["nexthops"][0]
            .get("ip")
            == SIX + "31"
        )
    )
    place.settle(ONE)
    place.until(lambda: speaker_follow.announced(node.daemon) == (BOTH, []))


def test_what_a_router_has_not_agreed_to_take_counts_as_not_announced(place):
    place.router(text=ONE_SESSION, node=SIX + "31")
    node = Node(place)
    six = {"address": SIX + "1", "asn": 65530, "source_ip": SIX + "31", "both_families": True}
    node.want((ONE, []), (SIX_NETWORK, []), source_ip=SIX + "31", router_id=NODE, neighbors=[six])
    node.start()
    # FRR's daemon ends such a session again and again, so that nothing at all is announced; BIRD sends what the router may take or not
    seen = [speaker_follow.announced(node.daemon)[0] for dummy in range(40) if not time.sleep(0.1)]
    assert not any(ONE in networks for networks in seen)


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
    deadline = time.monotonic() + 120
    while place.sessions() < 2:
        assert set(place.routes()) == {ONE, TWO} and time.monotonic() < deadline
        time.sleep(0.05)
    assert set(place.routes()) == {ONE, TWO}


def test_what_the_daemon_refuses_is_said_and_the_next_state_is_taken(place):
    place.router()
    node = Node(place)
    node.want((ONE, []))
    node.start()
    place.settle(ONE)
    with pytest.raises(ValueRefused) as caught:
        node.daemon.tell(["router bgp 65000", " neighbor 10.66.23.1 nonsense"])
    assert caught.value.reason == "speaker_failed"
    with pytest.raises(ValueRefused) as caught:
        node.daemon.check_config("nonsense\n", ())
    assert caught.value.reason == "config_refused"
    write_state(speaker_follow.STATE, FileState("file", 0o600, b"{}"))
    with pytest.raises(ValueError, match="no state"):
        node.round()
    node.want((ONE, []), (TWO, []))
    node.round()
    place.settle(ONE, TWO)
    assert place.sessions() == 1
    assert node.daemon.sessions() == {ROUTER: "Established"} and node.daemon.announces() == [ONE, TWO]


def test_a_password_that_changes_ends_no_other_session(place):
    place.router(more=" neighbor 10.66.23.31 password first\n")
    node = Node(place)
    node.want((ONE, []), neighbors=[{"address": ROUTER, "asn": 65530, "password": "first"}])
    node.start()
    place.settle(ONE)
    assert "first" not in json.dumps(speaker_follow.read_status())
    place.router(more=" neighbor 10.66.23.31 password second\n")
    node.want(
        neighbors=[{"address": ROUTER, "asn": 65530, "password": "second"}, {"address": "10.66.23.2", "asn": 65530}]
    )
    assert not node.round()["error"]
    place.settle(ONE)


@pytest.mark.parametrize("first", ["router", "node"])
def test_a_password_that_changes_at_both_ends_cuts_its_session_alone(place, first):
    """From the first end that has the new one to the second; then the session comes back by itself. Another session of the same node carries on."""
    six = SIX + "31"
    rows = [{"address": ROUTER, "asn": 65530, "password": "first"}]
    rows.append({"address": SIX + "1", "asn": 65530, "source_ip": six})
    place.router(more=" neighbor 10.66.23.31 password first\n")
    node = Node(place)
    node.want((ONE, []), neighbors=rows, keepalive_time=60, hold_time=180)  # a busy machine ends no session by these
    node.start()
    place.settle(ONE)
    place.until(lambda: place.ask("neighbors", six)[six]["bgpState"] == "Established")

    def router():
        lines = ["configure terminal", "router bgp 65530", "neighbor 10.66.23.31 password second"]
        asked = [part for line in lines for part in ("-c", line)]
        place.run("vtysh", "--vty_socket", str(place.folder / "router"), *asked)

    def speaker():
        node.want(neighbors=[dict(rows[0], password="second"), rows[1]])
        assert not node.round()["error"]

    changes = [router, speaker] if first == "router" else [speaker, router]
    changes[0]()
    place.settle()
    changes[1]()
    place.settle(ONE)
    assert place.sessions() == 2 and place.ask("neighbors", six)[six]["connectionsEstablished"] == 1


def test_packets_that_have_a_hop_to_go_and_a_password_in_a_file(place, tmp_path):
    """The router's kernel drops what a router in between would not have passed on."""
    place.router(more=" neighbor 10.66.23.31 ebgp-multihop 2\n neighbor 10.66.23.31 password third\n")
    cut = "table ip hop { chain in { type filter hook input priority 0; ip saddr 10.66.23.31 tcp dport 179 ip ttl < 2 drop; }; }"
    place.run("ip", "netns", "exec", place.names[1], "nft", cut)
    (tmp_path / "secret").write_text("third\n")
    router = {"address": ROUTER, "asn": 65530, "source_ip": NODE, "password_file": str(tmp_path / "secret")}
    node = Node(place)
    node.want((ONE, []), neighbors=[bgp_speaker._neighbour(router, NODE)])
    node.start()
    time.sleep(3)
    assert not place.routes()
    node.want(neighbors=[bgp_speaker._neighbour(dict(router, multihop=2), NODE)])
    assert not node.round()["error"]
    place.settle(ONE)
    assert "third" not in json.dumps(speaker_follow.read_status())


def test_bfd_notices_silence_and_the_nodes_own_routes_stay(place):
    """Also those that FRR's daemons of the node would take for their own leftovers."""
    own = ["198.51.100.0/24 via 10.66.23.1 dev up0 proto bgp", "198.51.101.0/24 via 10.66.23.1 dev up0 proto zebra"]
    for route in own:
        place.run("ip", "-n", place.names[0], "route", "add", *route.split())

    def kept():
        shown = place.run("ip", "-n", place.names[0], "route")
        return all(route in shown for route in own)

    node = Node(place)
    place.router(bfd=True, more=" neighbor 10.66.23.31 timers 60 180\n")
    node.want((ONE, []), neighbors=[{"address": ROUTER, "asn": 65530, "bfd": True}], keepalive_time=60, hold_time=180)
    node.start(bfd=True)
    place.settle(ONE)
    assert place.ask("neighbors", NODE)[NODE]["bgpTimerHoldTimeMsecs"] == 180000  # that long it takes without BFD
    place.until(lambda: (place.ask("neighbors", NODE)[NODE].get("peerBfdInfo") or {}).get("status") == "Up")
    place.run(
        "ip",
        "netns",
        "exec",
        place.names[0],
        "nft",
        "table ip cut { chain out { type filter hook output priority 0; drop; }; }",
    )
    place.settle(within=120.0)
    place.run("ip", "netns", "exec", place.names[0], "nft", "delete", "table", "ip", "cut")
    place.settle(ONE)
    assert kept()
    for name in [name for name in place.processes if name.startswith("node")]:
        place.end(name)
    assert kept()
