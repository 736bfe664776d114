# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and pods on the host's network are members of three clusters with the same pod ranges, in both families (translation 7).

The tests build on each other, in their order.
"""

from __future__ import annotations

import contextlib
import json
import subprocess

import pytest
from service_lab import LABEL, client, running, until
from trace_lab import assert_arrives

TOPOLOGY = "hosts"
PROXIES = True
#: Of each node, what its own cluster calls it and where other clusters reach it.
NODES = {
    "eu-node-1": ("10.66.23.31", "10.211.0.31", "fd00:211::31"),
    "eu-node-2": ("10.66.23.32", "10.211.0.32", "fd00:211::32"),
    "us-node-1": ("10.22.22.31", "10.212.0.31", "fd00:212::31"),
    "ap-node-1": ("10.33.33.31", "10.213.0.31", "fd00:213::31"),
}
SEEN_PODS = {"us": ("10.202.1.10", "fd00:202:0:1::a"), "ap": ("10.203.1.10", "fd00:203:0:1::a")}
#: Answers with the address from which it was asked.
SERVER = """
import http.server, socket, sys
class Server(http.server.ThreadingHTTPServer):
    address_family, request_queue_size = socket.AF_INET6, 512
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.client_address[0].replace("::ffff:", "").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass
Server(("::", int(sys.argv[1])), Handler).serve_forever()
"""
#: Many requests, each by a connection of its own; prints how many were answered.
MANY = """
import concurrent.futures, http.client, sys
def ask(number):
    target = sys.argv[2 + number % (len(sys.argv) - 2)]
    one = http.client.HTTPConnection(target, 8080, timeout=20)
    try:
        one.request("GET", "/")
        return one.getresponse().status == 200
    except OSError:
        return False
    finally:
        one.close()
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(ask, range(int(sys.argv[1])))))
"""
MIRRORS = {"service_mirror_create_namespace": True, "service_mirror_as": "endpoints"}


@pytest.fixture(scope="module", autouse=True)
def servers(fabric):
    """A server on each node's own network, and one in each pod of us and ap."""
    with contextlib.ExitStack() as stack:
        for node in NODES:
            stack.enter_context(running(fabric, "exec", node, "--", "/usr/bin/python3", "-c", SERVER, "9100"))
        for pod in ("us-node-1-pod-1", "ap-node-1-pod-1"):
            stack.enter_context(running(fabric, "pod-exec", pod, "--", "/usr/bin/python3", "-c", SERVER, "8080"))
        yield


def asked(fabric, kind, source, address, port):
    """What a server answers to a node (``exec``) or a pod (``pod-exec``): the address that it saw."""
    target = f"[{address}]" if ":" in address else address
    script = (
        f"import urllib.request; print(urllib.request.urlopen('http://{target}:{port}/', timeout=10).read().decode())"
    )
    return fabric.lab(kind, source, "--", "/usr/bin/python3", "-c", script).stdout.strip()


def test_a_run_proves_hosts_too(fabric):
    run = fabric.play("site").ok()
    assert "hosts themselves: 4 of 4 nodes reach other clusters" in run.out and "not carried" not in run.out, run.out[
        -3000:
    ]
    assert not fabric.play("mesh").ok().changed


#: What hosts and pods send each other here. pcap finds TCP and UDP of IPv6 by ``port``, and ICMPv6 by its number in the header.
UNDERLAY = "port 9100 or port 8080 or port 9101 or icmp[0] == 8 or icmp[0] == 0 or (ip6[6] == 58 and (ip6[40] == 128 or ip6[40] == 129))"
#: Packets that are in the clear as they must be, of TCP, UDP and ICMP (of a size that no other has): from a node to a node's own address.
CLEAR = """
import socket, subprocess, sys
for target in sys.argv[1:]:
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(5)
        assert one.connect_ex((target, 9101)) != 0
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.sendto(b"clear", (target, 9101))
    subprocess.run(["ping", "-c", "1", "-W", "5", "-s", "77", target], stdout=subprocess.DEVNULL, check=True)
"""
CLEAR_TARGETS = ("10.22.22.31", "fd00:66:2::31")
#: Of these packets, how a capture shows each kind, and all of them.
CONTROLS = {
    "tcp": "ip and tcp port 9101",
    "udp": "ip and udp port 9101",
    "icmp": "icmp[0] == 8 and ip[2:2] == 105",
    "tcp of IPv6": "ip6 and tcp port 9101",
    "udp of IPv6": "ip6 and udp port 9101",
    "icmp of IPv6": "ip6[6] == 58 and ip6[40] == 128 and ip6[4:2] == 85",
}
CONTROL = "port 9101 or (icmp and ip[2:2] == 105) or (ip6[6] == 58 and ip6[4:2] == 85)"


@contextlib.contextmanager
def nothing_in_the_clear(fabric, out):
    """A capture of the underlay for as long as the block lasts, in which nothing but the control packets of both families may be found.

    These are sent in the clear before and after the block, so that an empty rest proves something.
    """
    fabric.lab("capture-start", "--out", out, "--filter", UNDERLAY)
    try:
        fabric.lab("exec", "eu-node-2", "--", "/usr/bin/python3", "-c", CLEAR, *CLEAR_TARGETS)
        yield
        fabric.lab("exec", "eu-node-2", "--", "/usr/bin/python3", "-c", CLEAR, *CLEAR_TARGETS)
    finally:
        fabric.lab("capture-stop")
    for kind, expression in CONTROLS.items():
        assert len(listed(out, expression)) >= 2, f"the capture does not see {kind} in the clear"
    assert listed(out, f"not ({CONTROL})") == []


def listed(capture, expression):
    """The packets of a capture that match."""
    command = ["tcpdump", "-nn", "-r", str(capture), expression]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_hosts_and_pods_reach_hosts_and_pods_in_the_tunnel(fabric, tmp_path):
    """Both families, and on the underlay no packet of them is in the clear."""
    with nothing_in_the_clear(fabric, tmp_path / "underlay.pcap"):
        for family in (0, 1):
            # of IPv6 a kernel takes the address that is most like the target, such as that of the bridge of pods
            own = {NODES["eu-node-2"][1 + family], *(["fd00:201:0:2::1"] if family else [])}
            for cluster, addresses in SEEN_PODS.items():
                assert asked(fabric, "exec", "eu-node-2", addresses[family], 8080) in own, cluster
                assert fabric.lab("exec", "eu-node-2", "--", "ping", "-c", "1", "-W", "5", addresses[family])
            for node in ("us-node-1", "ap-node-1"):
                target = NODES[node][1 + family]
                assert asked(fabric, "exec", "eu-node-2", target, 9100) in own
                seen = ("10.201.2.10", "fd00:201:0:2::a")[family]
                assert asked(fabric, "pod-exec", "eu-node-2-pod-1", target, 9100) == seen


def test_a_node_of_another_cluster_is_not_reached_at_its_own_address_through_the_tunnel(fabric):
    """What a hostile node sends there is dropped: as its own packets to a node's own address, and to another node's exported one."""
    table = next(
        line.split()[-1]
        for line in fabric.sh("eu-node-1", "nft", "list", "tables").splitlines()
        if line.endswith("-nat")
    )
    rules = fabric.sh("eu-node-1", "nft", "list", "table", "inet", table)
    assert "10.211.0.31 : 10.66.23.31" in rules and "10.211.0.32" not in rules, "its own address alone"
    # us-node-1 sends it to eu-node-1 although it is eu-node-2's
    for target in ("10.66.23.31", "10.211.0.32"):
        fabric.sh("us-node-1", "ip", "route", "add", target + "/32", "dev", "wireguard.eu")
        peers = json.dumps(fabric.wireguard("us-node-1")["wireguard.eu"]["peers"])
        assert (target + "/32" in peers) == (target == "10.211.0.32"), "no allowed IP is a node's own address"
        done = fabric.lab("exec", "us-node-1", "--", "ping", "-c", "1", "-W", "2", target, check=False)
        assert done.returncode == (0 if target == "10.211.0.32" else 1), done.stdout
        fabric.sh("us-node-1", "ip", "route", "del", target + "/32", "dev", "wireguard.eu")


def test_trace_follows_a_host_through_both_translations(fabric):
    """guide_trace: a node as source, to a pod and to a node of another cluster."""
    for target in ("us/us-node-1", "10.202.1.10"):
        document = assert_arrives(fabric, trace_from="eu/eu-node-1", trace_to=target, trace_family=4)[1]
        rows = [(hop["where"], hop["expected"]) for hop in document["hops"] if hop["what"] == "translation"]
        assert ("eu-node-1", "source 10.66.23.31 becomes 10.211.0.31") in rows
        own = "10.22.22.31" if target == "us/us-node-1" else "10.244.1.10"
        assert ("us-node-1", f"target {'10.212.0.31' if target == 'us/us-node-1' else target} becomes {own}") in rows
        assert {hop["verdict"] for hop in document["hops"]} == {"ok"}, document["hops"]


def service(fabric, cluster, name, addresses, port):
    """A Service without selector, with these addresses as its endpoints."""
    api, base = client(fabric, cluster), "/api/v1/namespaces/default"
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "labels": {LABEL: "true"}},
        "spec": {"ports": [{"name": "http", "port": 8080, "targetPort": port}]},
    }
    api.create(base + "/services", body, "test")
    endpoints = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name, "namespace": "default", "labels": {LABEL: "true"}},
        "subsets": [{"addresses": [{"ip": one} for one in addresses], "ports": [{"name": "http", "port": port}]}],
    }
    api.create(base + "/endpoints", endpoints, "test")


def mirrored(fabric, cluster, source, name):
    """(address of a mirror, addresses behind it)."""
    mirror = f"{source}-default-73736d-{name}"
    found = json.loads(fabric.kubectl(cluster, "-n", "sys-semaphore", "get", "service", mirror, "-o", "json"))
    behind = json.loads(fabric.kubectl(cluster, "-n", "sys-semaphore", "get", "endpoints", mirror, "-o", "json"))
    return found["spec"]["clusterIP"], [one["ip"] for part in behind["subsets"] for one in part["addresses"]]


def test_a_service_on_the_hosts_network_is_reached_through_the_tunnel(fabric, tmp_path):
    """guide_service_mirror: with exported_node_cidrs, from pods and from nodes, and never in the clear."""
    service(fabric, "us", "agent", ["10.22.22.31"], 9100)
    fabric.play("service_mirror", variables=MIRRORS).ok()
    address, behind = mirrored(fabric, "eu", "us", "agent")
    assert behind == ["10.212.0.31"]
    with nothing_in_the_clear(fabric, tmp_path / "underlay.pcap"):
        until(
            lambda: fabric.lab("exec", "eu-node-1", "--", "curl", "-s", f"http://{address}:8080/", check=False).stdout
        )
        assert asked(fabric, "exec", "eu-node-1", address, 8080) == "10.211.0.31"
        assert asked(fabric, "pod-exec", "eu-node-2-pod-1", address, 8080) == "10.201.2.10"


def test_without_exported_node_ranges_such_a_service_is_refused_by_name(fabric):
    run = fabric.play("service_mirror", "--check", variables=dict(MIRRORS, exported_node_cidrs={}))
    assert "host_network_in_clear" in run.out and "exported_node_cidrs" in run.out, run.out[-2000:]


def test_an_ingress_on_the_hosts_network_reaches_two_other_clusters(fabric):
    """10,000 requests of a host to the mirrored Services of two clusters, each by its own connection: none is lost."""
    for cluster in ("us", "ap"):
        service(fabric, cluster, "web", ["10.244.1.10"], 8080)
    fabric.play("service_mirror", variables=MIRRORS).ok()
    addresses = [mirrored(fabric, "eu", cluster, "web")[0] for cluster in ("us", "ap")]
    assert [mirrored(fabric, "eu", cluster, "web")[1] for cluster in ("us", "ap")] == [["10.202.1.10"], ["10.203.1.10"]]
    for address in addresses:
        until(
            lambda address=address: (
                fabric.lab("exec", "eu-node-1", "--", "curl", "-s", f"http://{address}:8080/", check=False).stdout
            )
        )
    done = fabric.lab("exec", "eu-node-1", "--", "/usr/bin/python3", "-c", MANY, "10000", *addresses)
    assert done.stdout.strip() == "10000", done.stdout


def test_teardown_leaves_nothing(fabric):
    fabric.play("teardown", variables={"teardown_confirm": True}).ok()
    for node in fabric.nodes:
        assert "multicluster-network" not in fabric.sh(node, "nft", "list", "ruleset")
        assert "10.21" not in fabric.sh(node, "ip", "route")
