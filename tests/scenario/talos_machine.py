# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine as Talos Linux has them, behind a NAT of the lab's underlay: WireGuard, an affiliate at the discovery service, and nothing to log into.

It is made by plain tools. No inventory has it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

NAME, ADDRESS, ULA = "talos-worker-9", "10.67.1.77", "fd7a:6197:edb7:2302:5054:ff:feaa:77"
#: Behind the NAT.
INSIDE, ROUTER = "172.31.9.2", "172.31.9.1"
#: Joins as the affiliate that it reads, prints the others that it finds until all are there, and goes on announcing itself for so long.
MEMBER = """
import json, os, sys
from {base}._linux.host.discovery_service import Service
from {base}._mesh.kubespan import sealing
from {base}._mesh.kubespan.endpoints import parse_addr_port
ask = json.load(sys.stdin)
secret = bytes(range(1, 33))
service = Service(ask["url"], ask["mesh_id"])
mine = ask["affiliate"]
ends = [sealing.seal_endpoint(secret, parse_addr_port(text)) for text in mine["endpoints"]]
service.announce(mine["node_id"], sealing.seal_affiliate(secret, mine, os.urandom(12)), ends, 1800)
found = {{}}
for rows, deleted in service.watch(60):
    for name, data, sealed in rows:
        if name != mine["node_id"] and data and not deleted:
            endpoints = [str(sealing.open_endpoint(secret, one)) for one in sealed]
            found[name] = dict(sealing.open_affiliate(secret, data), endpoints=endpoints)
    if len(found) >= ask["others"]:
        break
print(json.dumps(list(found.values())))
""".format(base="ansible_collections.multicluster.network.plugins.module_utils")


class Machine:
    """``key``: its public key once it is up. mesh: {mesh_id, mesh_secret} of the fabric's variables."""

    def __init__(self, fabric, mesh, folder):
        self.fabric, self.mesh, self.folder = fabric, mesh, folder
        self.router = fabric.namespace("underlay")
        self.name = fabric.namespace("machine")
        #: Its socket is in a folder that all of this computer's namespaces share.
        self.device = f"tm{os.getpid() % 100000}"
        self.key = ""
        self.process = None

    def run(self, *words, check=True):
        return self._in(self.name, *words, check=check)

    def _in(self, namespace, *words, check=True):
        done = subprocess.run(
            ["ip", "netns", "exec", namespace, *words],
            check=check,
            text=True,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout

    def up(self):
        subprocess.run(["ip", "netns", "add", self.name], check=True)
        run, device = self.run, self.device
        run("ip", "link", "set", "lo", "up")
        subprocess.run(
            [
                "ip",
                "-n",
                self.name,
                "link",
                "add",
                "outward",
                "type",
                "veth",
                "peer",
                "name",
                "inside",
                "netns",
                self.router,
            ],
            check=True,
        )
        for namespace, link, address in ((self.name, "outward", INSIDE), (self.router, "inside", ROUTER)):
            self._in(namespace, "ip", "address", "add", address + "/24", "dev", link)
            self._in(namespace, "ip", "link", "set", link, "up")
        run("ip", "route", "add", "default", "via", ROUTER)
        hidden = f"chain out {{ type nat hook postrouting priority 100; ip saddr {INSIDE} masquerade; }}"
        shut = f"chain shut {{ type filter hook forward priority 1; ip daddr {INSIDE} ct state new drop; }}"
        rules = f"table ip machine {{\n {hidden}\n {shut}\n chain way {{ type filter hook forward priority 0; }}\n}}"
        self._in(self.router, "nft", rules)
        self._in(self.router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        words = ["ip", "netns", "exec", self.name, "wireguard-go", "-f", device]
        self.process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 20
        while device not in run("ip", "-br", "link") or "interface" not in run("wg", "show", device, check=False):
            assert time.monotonic() < deadline and self.process.poll() is None, "wireguard-go does not run"
            time.sleep(0.1)
        for name, text in (("key", run("wg", "genkey")), ("psk", self.mesh["mesh_secret"])):
            path = self.folder / name
            path.write_text(text, "utf-8")
            path.chmod(0o600)
        run("wg", "set", device, "private-key", str(self.folder / "key"), "listen-port", "51820", "fwmark", "0x20")
        # what WireGuard sends itself goes past the tunnel, as on Talos
        run("ip", "rule", "add", "priority", "100", "fwmark", "0x20", "lookup", "main")
        run("ip", "rule", "add", "priority", "101", "lookup", "180")
        run("ip", "address", "add", ULA + "/64", "dev", device)
        run("ip", "address", "add", ADDRESS + "/32", "dev", "lo")
        run("ip", "link", "set", device, "up", "mtu", "1420")
        self.key = run("wg", "show", device, "public-key").strip()

    def join(self, others):
        """Announce, find so many others, be their peer. The seconds that it took until the first handshake are not in it."""
        affiliate = {
            "node_id": "T4losNode",
            "nodename": NAME,
            "hostname": NAME,
            "machine_type": "worker",
            "operating_system": "Talos (v1.14.0)",
            "public_key": self.key,
            "kubespan_address": ULA,
            "addresses": [ADDRESS],
            "endpoints": [INSIDE + ":51820"],
        }
        asked = {
            "url": f"http://{ROUTER}:3000",
            "mesh_id": self.mesh["mesh_id"],
            "affiliate": affiliate,
            "others": others,
        }
        words = ["ip", "netns", "exec", self.name, sys.executable, "-c", MEMBER]
        done = subprocess.run(words, input=json.dumps(asked), text=True, check=True, stdout=subprocess.PIPE)
        found = json.loads(done.stdout)
        for host in found:
            address = next(text for text in host["addresses"] if "." in text)
            endpoint = next(text for text in host["endpoints"] if text.startswith(address))
            ranges = ",".join([host["kubespan_address"] + "/128", address + "/32", *host["additional_addresses"]])
            peer = f"peer {host['public_key']} preshared-key {self.folder}/psk endpoint {endpoint} persistent-keepalive 25 allowed-ips {ranges}"
            self.run("wg", "set", self.device, *peer.split())
            self.run("ip", "route", "replace", address + "/32", "dev", self.device, "src", ADDRESS, "table", "180")
        return found

    def reaches(self, address, source):
        words = ["ping", "-q", "-n", "-c", "1", "-W", "1", "-I", source, address]
        return " 0% packet loss" in self.run(*words, check=False)

    def deaf(self, on):
        """Whether it answers no echo; a machine's own firewall does so."""
        if on:
            rules = "icmp type echo-request drop; icmpv6 type echo-request drop;"
            self.run("nft", f"table inet deaf {{\n chain in {{ type filter hook input priority 0; {rules} }}\n}}")
        else:
            self.run("nft", "delete", "table", "inet", "deaf")

    def cut(self, on):
        """Whether the NAT lets no UDP through."""
        if on:
            self._in(self.router, "nft", "add rule ip machine way meta l4proto udp drop")
        else:
            self._in(self.router, "nft", "flush chain ip machine way")

    def down(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)
        subprocess.run(["ip", "netns", "exec", self.router, "nft", "delete", "table", "ip", "machine"], check=False)
        subprocess.run(["ip", "netns", "delete", self.name], check=False)
