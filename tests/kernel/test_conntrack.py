# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection keeps the translation that it began with, until the table that made it changes (translation 3)."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from test_exported_addresses import exported
from test_kept_addresses import NAME, kept_table, way_fixture  # noqa: F401 pylint: disable=unused-import
from test_transaction import Host, wish

pytestmark = pytest.mark.other_kernel

#: One socket that asks again with each line that it reads, from one port; prints the answer, which is the source that the server saw.
ASKING = """
import socket, sys
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(2)
client.bind(("0.0.0.0", int(sys.argv[1])))
for line in sys.stdin:
    client.sendto(b"question", (line.strip(), 4000))
    try:
        print(client.recv(100).decode(), flush=True)
    except TimeoutError:
        print("nothing", flush=True)
"""
TELLING = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("0.0.0.0", 4000))
print("ready", flush=True)
while True:
    data, source = server.recvfrom(100)
    server.sendto(source[0].encode(), source)
"""


class Flow:
    """A client in one namespace and a server in another that answers how it is seen."""

    def __init__(self, client, server, port=5000):
        self.server = subprocess.Popen(server.command("python3", "-c", TELLING), stdout=subprocess.PIPE, text=True)
        assert self.server.stdout.readline() == "ready\n"
        pipe = subprocess.PIPE
        self.client = subprocess.Popen(
            client.command("python3", "-c", ASKING, str(port)), stdin=pipe, stdout=pipe, text=True
        )

    def ask(self, address):
        self.client.stdin.write(address + "\n")
        self.client.stdin.flush()
        return self.client.stdout.readline().strip()

    def end(self):
        for one in (self.client, self.server):
            one.terminate()
            one.communicate()


def given(pairs, former=()):
    found = exported(pairs=pairs, former=former)
    found.update(fabric="mesh", failures=())
    found["clusters"]["aws"]["remotes"]["gcp"]["routes"] = [{"dst": "10.4.0.0/16"}]
    if not pairs:
        del found["clusters"]["aws"]["exported_pod_cidrs"]
    return kept_table(MeshPlan.from_json(found), "a")


SEEN = {"10.201.0.0/16": "10.201.0.5", "10.200.0.0/16": "10.200.0.5", None: "10.2.0.5"}


def mapped(target):
    return {"10.2.0.0/16": target} if target else {}


def test_a_connection_gets_the_new_translation_with_its_next_packet(way, wait_for):
    pod, node, remote = way
    host = Host(node, wait_for)
    # connections are tracked from the first rule on that asks for them, which all CNIs have
    node.run(
        "nft",
        "-f",
        "-",
        stdin="table inet cni { chain in { type filter hook prerouting priority 0; ct state new accept; }; }",
    )
    remember(node)
    flow, inside = Flow(pod, remote), Flow(pod, node, 5001)
    try:
        assert flow.ask("10.4.0.5") == "10.2.0.5", "no table yet"
        assert inside.ask("10.2.0.1") == "10.2.0.5"
        kept = tracked(node, "10.2.0.1")
        assert kept
        for target in ("10.201.0.0/16", "10.200.0.0/16", None, "10.201.0.0/16"):
            assert host.run(wish(tables=[given(mapped(target))]))["changed"]
            assert flow.ask("10.4.0.5") == SEEN[target], target
        assert host.run(dict(wish(), devices=[], remove_keys=True))["changed"]
        assert flow.ask("10.4.0.5") == "10.2.0.5"
        assert tracked(node, "10.2.0.1") == kept, "a connection that is nobody's matter was forgotten"
    finally:
        flow.end()
        inside.end()


def test_a_change_that_is_taken_back_takes_its_connections_along(way, wait_for):
    pod, node, remote = way
    host, flow = Host(node, wait_for), Flow(pod, remote)
    try:
        host.run(wish(tables=[given(mapped("10.201.0.0/16"))]))
        assert flow.ask("10.4.0.5") == "10.201.0.5"
        made = host.run(wish(tables=[given(mapped("10.200.0.0/16"))], rollback_seconds=60))
        assert flow.ask("10.4.0.5") == "10.200.0.5"
        host.decide(made["transaction"]["id"], "revert")
        assert flow.ask("10.4.0.5") == "10.201.0.5"
    finally:
        flow.end()


def test_a_mapping_that_is_applied_again_loses_no_connection(way, wait_for):
    pod, node, remote = way
    host, flow = Host(node, wait_for), Flow(pod, remote)
    try:
        host.run(wish(tables=[given(mapped("10.201.0.0/16"))]))
        assert flow.ask("10.4.0.5") == "10.201.0.5"
        remember(node)
        assert flow.ask("10.4.0.5") == "10.201.0.5"
        before = tracked(node, "10.4.0.5")
        node.run("nft", "add", "rule", "inet", NAME, "postrouting", "counter")
        assert host.run(wish(tables=[given(mapped("10.201.0.0/16"))]))["changed"]
        assert flow.ask("10.4.0.5") == "10.201.0.5" and tracked(node, "10.4.0.5") == before
    finally:
        flow.end()


def remember(node):
    """Of what comes from now on: an idle connection ends after half a minute, in which an emulated machine does not finish one run."""
    node.run("sysctl", "-qw", "net.netfilter.nf_conntrack_udp_timeout=3600")


#: The ids of tracked connections that were opened to an address, by another library.
LISTING = """
import sys
from pyroute2 import NFCTSocket
socket = NFCTSocket()
for entry in socket.dump():
    ends = entry.get_attr("CTA_TUPLE_ORIG").get_attr("CTA_TUPLE_IP")
    if ends.get_attr("CTA_IP_V4_DST") == sys.argv[1]:
        print(entry.get_attr("CTA_ID"))
"""


def tracked(node, address):
    return sorted(node.run(sys.executable, "-c", LISTING, address).split())
