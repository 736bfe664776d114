# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""KubeSpan nodes that find each other through a discovery service, by the flow that the play runs and the watcher of its unit.

The service is a process of its own in a third namespace, since a node of the mesh sends what it has for others through the tunnel.
The watcher runs by the distribution's Python, with its packages.
"""

from __future__ import annotations

import binascii
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from conftest import SLOW, flow_environment, wait_for
from test_kubespan import MESH, PODS, ULA, UNDERLAY, Site

pytestmark = pytest.mark.this_machine("the packages of gRPC")
DOUBLE = pathlib.Path(__file__).parents[1] / "doubles" / "discovery_service" / "server.py"
#: A service of others, which is called with the address to listen on.
PROGRAM = os.environ.get("DISCOVERY_SERVICE")
#: A client of others: it joins as the affiliate that it reads and prints a line of JSON for each of the others that it sees.
CLIENT = os.environ.get("DISCOVERY_CLIENT")
FOLDER = "/var/lib/multicluster-network/mesh"


#: A program with a clock that moves while it runs.
MOVED = """
import pathlib, runpy, sys, time
ahead, real = pathlib.Path(sys.argv[1]), time.time
time.time = lambda: real() + float(ahead.read_text())
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


CAPTURE = """
import socket, sys
frames, out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)), open(sys.argv[1], "ab", buffering=0)
print("ready", flush=True)
while True:
    out.write(frames.recv(65536))
"""


class Joined(Site):
    """Two nodes with nothing but the service between them."""

    def __init__(self, two_nodes, new_node, implementation, folder):
        super().__init__(two_nodes(UNDERLAY), implementation)
        self.control, self.log, self.started = folder / "control.json", folder / "log", []
        self.captured = folder / "frames"
        self.nodes["s"] = new_node()
        for number, name in enumerate("ab"):
            self.nodes[name].run(
                *f"ip link add toward type veth peer name to{name} netns {self.nodes['s'].pid}".split()
            )
            self.nodes[name].run("ip", "address", "add", f"198.51.100.{4 * number + 2}/30", "dev", "toward")
            self.nodes[name].run("ip", "link", "set", "toward", "up")
            self.nodes["s"].run("ip", "address", "add", f"198.51.100.{4 * number + 1}/30", "dev", "to" + name)
            self.nodes["s"].run("ip", "link", "set", "to" + name, "up")
        self.settings = {
            "cluster": "c",
            "pod_cidrs": ["10.244.0.0/16", "fd00:1::/64", "fd00:2::/64"],
            "node_cidrs": ["192.0.2.0/24"],
            "overlay": ["10.244.0.0/16", "10.96.0.0/12"],
        }
        for number, name in enumerate("ab"):
            settings = dict(self.settings, url=f"http://198.51.100.{4 * number + 1}:3000")
            self.wants[name]["kubespan"].update(
                watcher=True, discovery=settings, complete=True, exclude_addresses=["198.51.100.0/24"]
            )

    def start(self, name, *words):
        """A process in a node, ended with the test."""
        process = subprocess.Popen(
            self.nodes[name].command(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=flow_environment(),
        )
        self.started.append(process)
        return process

    def serve(self, port=3000):
        address = f"0.0.0.0:{port}"
        if PROGRAM:
            process = self.start("s", PROGRAM, address)
            assert wait_for(lambda: f":{port}" in self.nodes["s"].run("ss", "-ltnH"), 30 * SLOW)
            return process
        words = [sys.executable, str(DOUBLE), "--address", address]
        process = self.start("s", *words, "--control", str(self.control), "--log", str(self.log))
        assert process.stdout.readline().startswith("listening")
        return process

    def capture(self):
        """Every frame that comes to the service's place, or leaves it, from now on."""
        process = self.start("s", sys.executable, "-c", CAPTURE, str(self.captured))
        assert process.stdout.readline().startswith("ready")

    def order(self, **orders):
        spare = self.control.with_suffix(".new")
        spare.write_text(json.dumps(orders), "utf-8")
        spare.rename(self.control)

    def watch(self, name, clock=None, fabric="mesh"):
        """The watcher of a node. clock: a file with the seconds by which its clock is ahead."""
        (code,) = self.nodes[name].run("sh", "-c", f"ls /usr/local/lib/multicluster-network/{fabric}/*.pyz").split()
        moved = ["-c", MOVED, str(clock)] if clock else []
        return self.start(name, "/usr/bin/python3", "-B", *moved, code, "watch", fabric)

    def stop(self, process):
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        said = process.stdout.read()
        process.stdout.close()
        self.started.remove(process)
        return said

    def shown(self, name, fabric="mesh"):
        text = self.nodes[name].run("cat", f"/run/multicluster-network/{fabric}-kubespan.json", check=False)
        return json.loads(text) if text.strip() else {}

    def peers(self, name):
        return self.nodes[name].run("wg", "show", "kubespan", "peers", check=False).split()

    def close(self):
        for process in self.started[:]:
            self.stop(process)


@pytest.fixture(name="joined")
def joined_fixture(two_nodes, new_node, implementation, wait_for, tmp_path):
    site = Joined(two_nodes, new_node, implementation, tmp_path)
    assert all(
        wait_for(lambda node=node: "state UP" in node.run("ip", "link", "show", "under"), 60 * SLOW)
        for node in (site.nodes["a"], site.nodes["b"])
    )
    site.order()
    yield site
    with contextlib.suppress(ProcessLookupError):
        site.close()


def service_state(shown):
    """What a watcher shows of the service; nothing before its first pass."""
    return (shown.get("discovery") or {}).get("state")


def connected_since(shown, begun):
    return service_state(shown) == "connected" and shown["discovery"]["since"] >= begun


def nothing_of_a_node_in(joined):
    """No address, name or key of a node can be read in what was sent to the service, metadata included, or in what the service sent."""
    sent = joined.captured.read_bytes()
    if not PROGRAM:  # which shows what the headers of HTTP hide from a look at the wire
        sent += b"".join(map(binascii.unhexlify, joined.log.read_bytes().splitlines()))
    keys = [joined.peers(name)[0] for name in "ab"]
    # sealed bytes have every short name in them by chance
    own = [name for name in [os.uname().nodename.encode()] if len(name) > 5]
    names = [*own, b"worker", *(key.encode() for key in keys), *map(binascii.a2b_base64, keys)]
    addresses = [text.encode() for text in (*UNDERLAY.values(), *ULA.values(), *PODS.values())]
    raw = [bytes(map(int, text.split("."))) for text in UNDERLAY.values()]
    raw += [bytes((10, 244, 1, 0)), bytes((10, 244, 2, 0))]
    assert MESH["mesh_id"].encode() in sent and len(sent) > 500
    for text in (*names, *addresses, *raw, MESH["mesh_secret"].encode()):
        assert text not in sent, text


def test_two_hosts_meet_only_through_the_service_and_part(joined, wait_for):
    service = joined.serve()
    joined.capture()
    planned = joined.run("a", check=True)
    url = "http://198.51.100.1:3000"
    assert planned["discovery"] == {"url": url, "reached": True, "members": 0, "reason": "", "message": ""}
    assert [row["kind"] for row in planned["plan"]["changes"] if row["kind"] == "affiliate"] == ["affiliate"]
    assert not joined.log.exists() or b"AffiliateUpdate" not in joined.log.read_bytes()
    first = joined.run("a")
    assert not first["refused"] and first["kubespan"]["peers"] == 0, first
    again = joined.run("a")
    assert not again["changed"] and not again["warnings"], again["diff"]
    watchers = [joined.watch("a")]
    second = joined.run("b")
    assert second["kubespan"]["peers"] == 1 and not second["refused"], second
    watchers.append(joined.watch("b"))
    # the watcher of the one that was there learns of the newcomer without a play
    assert wait_for(lambda: joined.peers("a"), 20 * SLOW), joined.stop(watchers[0])
    assert wait_for(lambda: joined.ping(ULA["b"], ULA["a"]), 30 * SLOW)
    assert joined.ping(PODS["b"] + ".9", PODS["a"] + ".9")
    assert wait_for(lambda: service_state(joined.shown("a")) == "connected", 10 * SLOW)
    for name in "ab":
        again = joined.run(name)
        assert not again["changed"] and not again["warnings"], again["diff"]
    nothing_of_a_node_in(joined)
    keys = [joined.peers(name)[0] for name in "ab"]
    # the service goes away: peers stay
    joined.stop(service)
    assert wait_for(lambda: service_state(joined.shown("a")) == "away", 60 * SLOW)
    assert joined.peers("a") and joined.ping(PODS["b"] + ".9", PODS["a"] + ".9")
    away = joined.run("a")
    assert not away["changed"] and "[service_away]" in away["warnings"][0], away
    assert away["discovery"]["reason"] == "service_away" and not away["discovery"]["reached"], away
    begun = int(time.time())
    service = joined.serve()  # with nothing in its memory: who leaves before it announced itself again is not missed by others until it expires
    for name in "ab":
        assert wait_for(lambda name=name: connected_since(joined.shown(name), begun), 90 * SLOW)
    assert joined.peers("a") == [key for key in keys if key in joined.peers("a")] and joined.peers("b")
    # b leaves: its record goes, and with it the peer, and its watcher does not bring it back
    gone = joined.run("b", kubespan=None)
    assert [row["action"] for row in gone["plan"]["changes"] if row["kind"] == "affiliate"] == ["delete"]
    assert wait_for(lambda: not joined.peers("a"), 30 * SLOW)
    joined.stop(watchers[1])  # as the unit of it would be
    time.sleep(1)
    assert not joined.peers("a")
    left = joined.nodes["b"].run("ls", FOLDER).split()
    assert left == ["kubespan-identity.json", "kubespan.key"]


def test_a_first_join_that_is_taken_back_takes_its_record_along(joined, wait_for):
    """Without it others would try to reach a node that never joined, until the record expires."""
    joined.serve()
    joined.run("b")
    joined.watch("b")
    over = ["sh", "-c", f"test -e {FOLDER}/transaction.json || echo over"]
    joined.run("a", rollback_seconds=5 * SLOW)
    assert wait_for(lambda: joined.peers("b"), 20 * SLOW), "it was announced"
    assert wait_for(lambda: joined.nodes["a"].run(*over), 60 * SLOW)
    assert wait_for(lambda: not joined.peers("b"), 20 * SLOW)
    # a change that is taken back keeps the record that was there before
    joined.run("a")
    assert wait_for(lambda: joined.peers("b"), 20 * SLOW)
    changed = dict(joined.wants["a"]["kubespan"], config={"mtu": 1300})
    joined.run("a", rollback_seconds=5 * SLOW, kubespan=changed)
    assert wait_for(lambda: joined.nodes["a"].run(*over), 60 * SLOW)
    time.sleep(2)
    assert joined.peers("b")
    # one that leaves, and forgets its id in the same run, takes its record along too
    joined.run("a", kubespan=None, remove_keys=True)
    assert wait_for(lambda: not joined.peers("b"), 20 * SLOW)


def test_a_wrong_secret_reads_nothing_and_is_reported(joined, wait_for):
    joined.serve()
    joined.run("b")
    joined.wants["a"]["kubespan"]["mesh_secret"] = "AgIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
    found = joined.run("a")
    assert found["kubespan"]["peers"] == 0 and any("[wrong_secret]" in text for text in found["warnings"]), found
    assert {row["reason"] for row in found["refused"]} == {"wrong_secret"}
    joined.watch("a")
    assert wait_for(lambda: service_state(joined.shown("a")) == "wrong_secret", 20 * SLOW)


def test_two_fabrics_of_one_service_do_not_meet(joined):
    joined.serve()
    joined.run("b")
    joined.wants["a"]["kubespan"]["mesh_id"] = "another mesh"
    found = joined.run("a")
    assert found["kubespan"]["peers"] == 0 and not found["refused"] and not found["warnings"], found


def test_an_hour_without_the_service_by_every_clock(joined, wait_for, tmp_path):
    """Peers stay for as long as it is away, and when it is back, with a clock that moved as well and records that expired, nothing flaps."""
    clock = tmp_path / "ahead"
    clock.write_text("0", "utf-8")
    service = joined.serve()
    for name in "ab":
        joined.run(name)
        joined.watch(name, clock)
    assert wait_for(lambda: joined.peers("a") and joined.peers("b"), 60 * SLOW)
    mine = {name: joined.peers(name) for name in "ab"}
    if PROGRAM:  # what it has is in its memory alone, so that after a restart it is as if all had expired
        joined.stop(service)
    joined.order(refuse=True, drop=True)
    for name in "ab":
        assert wait_for(lambda name=name: service_state(joined.shown(name)) == "away", 60 * SLOW)
    clock.write_text("3700", "utf-8")
    later = time.time() + 3600
    for name in "ab":  # it has looked at its members since
        assert wait_for(lambda name=name: joined.shown(name)["at"] >= later, 60 * SLOW), joined.shown(name)
    assert {name: joined.peers(name) for name in "ab"} == mine
    assert joined.ping(PODS["b"] + ".9", PODS["a"] + ".9")
    joined.order(skew=3700)
    if PROGRAM:
        joined.serve()
    flapped, deadline = [], time.monotonic() + 150 * SLOW
    while not all(service_state(joined.shown(name)) == "connected" for name in "ab"):
        flapped += [name for name in "ab" if joined.peers(name) != mine[name]]
        assert time.monotonic() < deadline and not flapped, flapped
        time.sleep(0.2)
    time.sleep(3)
    assert {name: joined.peers(name) for name in "ab"} == mine and joined.ping(PODS["b"] + ".9", PODS["a"] + ".9")


@pytest.mark.skipif(not CLIENT, reason="DISCOVERY_CLIENT names no program (tests/doubles/README.md)")
def test_another_client_and_the_node_see_each_other(joined, wait_for):
    """Records both ways, endpoints, and those that the other one shares for a third."""
    joined.serve()
    joined.wants["b"]["kubespan"]["config"] = {"filters": {"endpoints": []}}
    for name in "ab":
        joined.run(name)
    joined.watch("a")
    ident = json.loads(joined.nodes["b"].run("cat", FOLDER + "/kubespan-identity.json"))["node_id"]
    mine = {
        "node_id": "0therNode",
        "nodename": "talos-worker-9",
        "hostname": "talos-worker-9",
        "machine_type": "worker",
        "operating_system": "Talos (v1.14.0)",
        "public_key": "PLPNBddmTgHJhtw0vxltq1ZBdPP9RNOEUd5JjJZzBRY=",
        "kubespan_address": "fd7a:6197:edb7:2302:5054:ff:feaa:9",
        "addresses": ["192.0.2.99"],
        "additional_addresses": ["10.244.9.0/24"],
        "endpoints": ["192.0.2.99:51820"],
    }
    question = {
        "url": "http://127.0.0.1:3000",
        "mesh_id": MESH["mesh_id"],
        "mesh_secret": MESH["mesh_secret"],
        "affiliate": mine,
        "others": {ident: ["192.0.2.98:51820"]},
    }
    process = subprocess.Popen(
        joined.nodes["s"].command(CLIENT),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    joined.started.append(process)
    process.stdin.write(json.dumps(question))
    process.stdin.close()
    own = joined.nodes["a"].run("wg", "show", "kubespan", "public-key").strip()
    found = next(row for row in map(json.loads, process.stdout) if row["public_key"] == own)
    assert found["kubespan_address"] == ULA["a"] and UNDERLAY["a"] in found["addresses"], found
    assert UNDERLAY["a"] + ":51820" in found["endpoints"] and found["machine_type"], found
    assert wait_for(lambda: mine["public_key"] in joined.peers("a"), 20 * SLOW)
    rows = dict(
        line.split("\t") for line in joined.nodes["a"].run("wg", "show", "kubespan", "allowed-ips").splitlines()
    )
    assert {mine["kubespan_address"] + "/128", "10.244.9.0/24"} <= set(rows[mine["public_key"]].split()), rows

    def shared():
        members = json.loads(joined.nodes["a"].run("cat", FOLDER + "/kubespan-members.json"))["members"]
        return "192.0.2.98:51820" in members.get(ident, {}).get("affiliate", {}).get("endpoints", ())

    assert wait_for(shared, 20 * SLOW)


def test_where_peers_are_seen_is_shared(joined, wait_for):
    """With harvestExtraEndpoints; what is behind a NAT has endpoints that only others know."""
    joined.serve()
    joined.wants["a"]["kubespan"]["config"] = {"harvestExtraEndpoints": True}
    # what b announces by itself is nothing
    joined.wants["b"]["kubespan"]["config"] = {"filters": {"endpoints": []}}
    joined.run("a")
    joined.run("b")
    for name in "ab":
        joined.watch(name)
    assert wait_for(lambda: joined.ping(ULA["b"], ULA["a"]) if joined.peers("a") else False, 60 * SLOW)

    def known():
        found = json.loads(joined.nodes["a"].run("cat", FOLDER + "/kubespan-members.json"))["members"]
        return [text for row in found.values() for text in row["affiliate"]["endpoints"]]

    assert wait_for(lambda: UNDERLAY["b"] + ":51820" in known(), 90 * SLOW), known()


MEMBER = """
import json, os, sys, time
from {base}._linux.host.discovery_service import Service
from {base}._mesh.kubespan import sealing
from {base}._mesh.kubespan.endpoints import parse_addr_port
ask = json.load(sys.stdin)
secret = bytes(range(1, 33))
service = Service(ask["url"], ask["mesh_id"])
mine = ask["affiliate"]
ends = [sealing.seal_endpoint(secret, parse_addr_port(text)) for text in mine["endpoints"]]
service.announce(mine["node_id"], sealing.seal_affiliate(secret, mine, os.urandom(12)), ends, 1800)
for rows, deleted in service.watch(60):
    for name, data, sealed in rows:
        if name != mine["node_id"] and data and not deleted:
            found = sealing.open_affiliate(secret, data)
            print(json.dumps(dict(found, endpoints=[str(sealing.open_endpoint(secret, one)) for one in sealed])))
            sys.exit(0)
""".format(base="ansible_collections.multicluster.network.plugins.module_utils")


def test_a_machine_behind_a_nat_and_a_host_shake_hands_within_ten_seconds(joined, new_node, implementation, wait_for):
    """A machine as Talos has them, made by plain tools; what translates its address is the router on which the service runs."""
    joined.serve()
    machine = joined.nodes["t"] = new_node()
    router = joined.nodes["s"]
    machine.run(*f"ip link add outward type veth peer name inside netns {router.pid}".split())
    for node, device, address in ((machine, "outward", "172.31.9.2/24"), (router, "inside", "172.31.9.1/24")):
        node.run("ip", "address", "add", address, "dev", device)
        node.run("ip", "link", "set", device, "up")
    machine.run("ip", "route", "add", "default", "via", "172.31.9.1")
    router.run(
        "nft",
        "add table ip nat; add chain ip nat out { type nat hook postrouting priority 100; }; add rule ip nat out oifname toa masquerade",
    )
    if implementation == "kernel":
        machine.run("ip", "link", "add", "kubespan", "type", "wireguard")
    else:
        machine.run("sh", "-c", "wireguard-go kubespan </dev/null >/dev/null 2>&1")
    ula = "fd7a:6197:edb7:2302:5054:ff:feaa:7"
    machine.run(
        "sh",
        "-c",
        f"wg genkey >/run/key && echo {MESH['mesh_secret']} >/run/psk && wg set kubespan private-key /run/key listen-port 51820",
    )
    machine.run("ip", "address", "add", ula + "/64", "dev", "kubespan")
    machine.run("ip", "link", "set", "kubespan", "up", "mtu", "1420")
    affiliate = {
        "node_id": "T4losNode",
        "nodename": "talos-worker-1",
        "hostname": "talos-worker-1",
        "machine_type": "worker",
        "operating_system": "Talos (v1.14.0)",
        "public_key": machine.run("wg", "show", "kubespan", "public-key").strip(),
        "kubespan_address": ula,
        "addresses": ["172.31.9.2"],
        "endpoints": ["172.31.9.2:51820"],
    }
    joined.run("a")
    joined.watch("a")
    assert wait_for(lambda: service_state(joined.shown("a")) == "connected", 30 * SLOW)
    # from here on ten seconds
    question = {"url": "http://172.31.9.1:3000", "mesh_id": MESH["mesh_id"], "affiliate": affiliate}
    done = subprocess.run(
        machine.command(sys.executable, "-c", MEMBER),
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=True,
        env=flow_environment(),
    )
    host = json.loads(done.stdout)
    assert host["public_key"] and host["kubespan_address"] == ULA["a"] and "198.51.100.2:51820" in host["endpoints"]
    words = f"peer {host['public_key']} preshared-key /run/psk endpoint 198.51.100.2:51820 persistent-keepalive 25 allowed-ips {ULA['a']}/128"
    machine.run("wg", "set", "kubespan", *words.split())
    ping = ["ping", "-q", "-c", "1", "-W", "1", "-I", ula, ULA["a"]]
    assert wait_for(lambda: " 0% packet loss" in machine.run(*ping, check=False), 10 * SLOW)
    back = ["ping", "-q", "-c", "1", "-W", "1", "-I", ULA["a"], ula]
    assert " 0% packet loss" in joined.nodes["a"].run(*back, check=False)
    shown = {row["label"]: row for row in joined.shown("a")["peers"]}
    assert list(shown) == ["talos-worker-1"]
    assert "198.51.100.1:" in joined.nodes["a"].run(
        "wg", "show", "kubespan", "endpoints"
    )  # the router's, as WireGuard sees it
    again = joined.run("a")
    # its own address is outside of what the inventory grants, which takes nothing else from it
    assert not again["changed"] and {row["reason"] for row in again["refused"]} == {"outside_grant"}, again
