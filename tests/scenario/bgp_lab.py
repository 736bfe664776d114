# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What scenarios of announced addresses share: real FRR as a router in the lab's underlay, and Services of hand-made endpoints."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client

ROUTER, SECOND, CLIENT = "10.66.23.1", "10.66.23.2", "10.66.23.200"
NODES = {"aws-node-1": "10.66.23.31", "aws-node-2": "10.66.23.32"}
ROUTER_CONFIG = """frr defaults traditional
hostname router
router bgp 65530
 bgp router-id {0}
 no bgp ebgp-requires-policy
 bgp bestpath as-path multipath-relax
 neighbor nodes peer-group
 neighbor nodes remote-as 65000
 neighbor nodes timers 3 9
{1} bgp listen range 10.66.23.0/24 peer-group nodes
 address-family ipv4 unicast
  maximum-paths 8
 exit-address-family
exit
"""


class Router:
    """FRR in a namespace of the lab, with a kernel of its own routes. ``more``: lines for its sessions; ``programs``: alongside zebra and bgpd."""

    def __init__(self, fabric, more="", programs=(), namespace=None, address=ROUTER):
        self.namespace, self.address = namespace or fabric.namespace("underlay"), address
        self.folder = pathlib.Path(f"/run/mcn-router-{fabric.name}-{address}")
        self.config = ROUTER_CONFIG.format(address, more)
        self.programs = programs
        self.pids = []

    def start(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        (self.folder / "bgpd.conf").write_text(self.config)
        for path in (self.folder, self.folder / "bgpd.conf"):
            shutil.chown(path, "frr", "frr")
        # flows are spread by their ports, as routers do
        self.sh("sysctl", "-q", "-w", "net.ipv4.fib_multipath_hash_policy=1")
        rows = [
            ("zebra", ["-f", "/dev/null"]),
            *((name, ["-f", "/dev/null"]) for name in self.programs),
            ("bgpd", ["-f", str(self.folder / "bgpd.conf")]),
        ]
        for name, more in rows:
            pid = self.folder / (name + ".pid")
            program = next(
                path for path in ("/usr/lib/frr/" + name, "/usr/libexec/frr/" + name) if pathlib.Path(path).exists()
            )
            self.sh(
                program,
                "-d",
                "-i",
                str(pid),
                "-z",
                str(self.folder / "zserv"),
                "--vty_socket",
                str(self.folder),
                "-P",
                "0",
                *more,
            )
            self.pids.insert(0, int(pid.read_text()))

    def stop(self):
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)

    def sh(self, *words):
        done = subprocess.run(
            ["ip", "netns", "exec", self.namespace, *words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def hops(self, address):
        """The gateways of the route to an address in the router's kernel."""
        rows = json.loads(self.sh("ip", "-j", "route", "show", address) or "[]")
        return [hop["gateway"] for row in rows for hop in row.get("nexthops") or [row] if "gateway" in hop]

    def bgp(self, *words):
        """What the router's daemon prints."""
        return json.loads(
            self.sh("vtysh", "--vty_socket", str(self.folder), "-c", " ".join(["show bgp", *words, "json"]))
        )

    def via(self, address):
        """The nodes to which the router's kernel sends an address."""
        hops = self.hops(address)
        return {name for name, own in NODES.items() if own in hops}

    def wait(self, address, nodes, within=60.0):
        """Seconds until the router sends an address to exactly these nodes."""
        began = time.monotonic()
        while self.via(address) != set(nodes):
            assert time.monotonic() - began < within, f"{address} goes to {self.via(address)}, not to {nodes}"
            time.sleep(0.05)
        return time.monotonic() - began


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, (words, done.stderr)


@contextlib.contextmanager
def on_the_nodes_network(fabric, name, address):
    """A namespace with an address alongside the nodes; gives its name."""
    underlay, own = fabric.namespace("underlay"), fabric.namespace("underlay") + "-" + name
    ip("netns", "add", own)
    try:
        ip("-n", underlay, "link", "add", name, "type", "veth", "peer", "name", "up0", "netns", own)
        ip("-n", underlay, "link", "set", name, "master", "br0", "up")
        ip("-n", own, "address", "add", address + "/24", "dev", "up0")
        for device in ("lo", "up0"):
            ip("-n", own, "link", "set", device, "up")
        yield own
    finally:
        ip("netns", "delete", own)


@contextlib.contextmanager
def two_routers(fabric, more=""):
    """Both speak BFD with whoever asks for it; the second has a namespace of its own on the nodes' network."""
    routers = []
    with on_the_nodes_network(fabric, "second", SECOND) as own:
        try:
            for router in (Router(fabric, more, ("bfdd",)), Router(fabric, more, ("bfdd",), own, SECOND)):
                routers.append(router)
                router.start()
            yield routers
        finally:
            for router in routers:
                router.stop()


@contextlib.contextmanager
def client_behind(fabric, routers, network):
    """A namespace alongside the nodes that reaches a network over all of these routers, each flow over one of them; gives its name.

    It and they take part in no redirects: a client that learns which node has an address asks no router any more.
    """
    with on_the_nodes_network(fabric, "client", CLIENT) as own:
        sysctl(
            own,
            "net.ipv4.fib_multipath_hash_policy=1",
            "net.ipv4.conf.all.accept_redirects=0",
            "net.ipv4.conf.up0.accept_redirects=0",
        )
        for router, device in zip(routers, ("br0", "up0")):
            sysctl(
                router.namespace,
                "net.ipv4.ip_forward=1",
                "net.ipv4.conf.all.send_redirects=0",
                f"net.ipv4.conf.{device}.send_redirects=0",
            )
        ip(
            "-n",
            own,
            "route",
            "add",
            network,
            *(part for router in routers for part in ("nexthop", "via", router.address)),
        )
        yield own


def sysctl(namespace, *settings):
    for setting in settings:
        ip("netns", "exec", namespace, "sysctl", "-q", "-w", setting)


def api(fabric):
    return Client(parse_access({"name": "aws", "kubeconfig": str(fabric.state / "aws" / "kubeconfig")}))


def make_service(fabric, name, **spec):
    """A Service of type LoadBalancer without a selector; its endpoints are written by hand."""
    ports = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
    api(fabric).create(
        "/api/v1/namespaces/default/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": dict({"type": "LoadBalancer", "ports": ports}, **spec),
        },
        "test",
    )


def put_endpoints(fabric, name, rows):
    """The Service's endpoints as its controller would write them: rows of (node, address, state), state ready or ending."""
    client, path = api(fabric), "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    endpoints = [
        {
            "addresses": [address],
            "nodeName": node,
            "conditions": {"ready": state == "ready", "serving": True, "terminating": state == "ending"},
        }
        for node, address, state in rows
    ]
    body = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "addressType": "IPv4",
        "metadata": {"name": name + "-hand", "labels": {"kubernetes.io/service-name": name}},
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": endpoints,
    }
    client.apply(path + "/" + name + "-hand", body, "test")
