# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What scenarios of announced addresses share: real FRR as a router in the lab's underlay, and Services of hand-made endpoints."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.access import parse_access
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.client import Client

ROUTER, NODES = "10.66.23.1", {"aws-node-1": "10.66.23.31", "aws-node-2": "10.66.23.32"}
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
    """FRR in a namespace of the lab, with a kernel of its own routes. ``more``: lines for its sessions; ``programs``: beside zebra and bgpd."""

    def __init__(self, fabric, more="", programs=(), namespace=None, address=ROUTER):
        self.namespace = namespace or fabric.namespace("underlay")
        self.folder = pathlib.Path("/run/mcn-router-{0}-{1}".format(fabric.name, address))
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
        rows = [("zebra", ["-f", "/dev/null"]), *((name, ["-f", "/dev/null"]) for name in self.programs), ("bgpd", ["-f", str(self.folder / "bgpd.conf")])]
        for name, more in rows:
            pid = self.folder / (name + ".pid")
            program = next(path for path in ("/usr/lib/frr/" + name, "/usr/libexec/frr/" + name) if os.path.exists(path))
            self.sh(program, "-d", "-i", str(pid), "-z", str(self.folder / "zserv"), "--vty_socket", str(self.folder), "-P", "0", *more)
            self.pids.insert(0, int(pid.read_text()))

    def stop(self):
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)

    def sh(self, *words):
        done = subprocess.run(["ip", "netns", "exec", self.namespace, *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def hops(self, address):
        """The gateways of the route to an address in the router's kernel."""
        rows = json.loads(self.sh("ip", "-j", "route", "show", address) or "[]")
        return [hop["gateway"] for row in rows for hop in row.get("nexthops") or [row] if "gateway" in hop]

    def bgp(self, *words):
        """What the router's daemon says."""
        return json.loads(self.sh("vtysh", "--vty_socket", str(self.folder), "-c", " ".join(["show bgp", *words, "json"])))

    def via(self, address):
        """The nodes to which the router's kernel sends an address."""
        hops = self.hops(address)
        return {name for name, own in NODES.items() if own in hops}

    def wait(self, address, nodes, within=60.0):
        """Seconds until the router sends an address to exactly these nodes."""
        began = time.monotonic()
        while self.via(address) != set(nodes):
            assert time.monotonic() - began < within, "{0} goes to {1}, not to {2}".format(address, self.via(address), nodes)
            time.sleep(0.05)
        return time.monotonic() - began


def api(fabric):
    return Client(parse_access({"name": "aws", "kubeconfig": str(fabric.state / "aws" / "kubeconfig")}))


def make_service(fabric, name, **spec):
    """A Service of type LoadBalancer without a selector; its endpoints are written by hand."""
    ports = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
    api(fabric).create("/api/v1/namespaces/default/services", {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": dict({"type": "LoadBalancer", "ports": ports}, **spec),
    }, "test")  # fmt: skip


def put_endpoints(fabric, name, rows):
    """The Service's endpoints as its controller would write them: rows of (node, address, state), state ready or ending."""
    client, path = api(fabric), "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    endpoints = [{"addresses": [address], "nodeName": node,
                  "conditions": {"ready": state == "ready", "serving": True, "terminating": state == "ending"}} for node, address, state in rows]  # fmt: skip
    body = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name + "-hand", "labels": {"kubernetes.io/service-name": name}},
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}], "endpoints": endpoints}  # fmt: skip
    client.apply(path + "/" + name + "-hand", body, "test")
