# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packets of pods keep their addresses on the way to other clusters although a network plugin masquerades (translation 3)."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kept_addresses import kept_table

#: As flannel and Calico have it, at their priorities (pod_ranges 6.10).
PLUGIN = """
table inet cni {{
  chain post {{
    type nat hook postrouting priority {0}; policy accept;
    ip saddr 10.2.0.0/16 ip daddr != 10.2.0.0/16 masquerade
    ip6 saddr fd02::/64 ip6 daddr != fd02::/64 masquerade
  }}
  chain proxy {{ type filter hook prerouting priority mangle; udp dport 3000 meta mark set meta mark or 0x4000; }}
}}
"""
SERVER = """
import socket, sys
server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
server.bind(("::", int(sys.argv[1])))
print("ready", flush=True)
data, source = server.recvfrom(100)
server.sendto(b"answer", source)
print(source[0].replace("::ffff:", ""), flush=True)
"""
CLIENT = """
import socket, sys
client = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(20)
client.sendto(b"question", (sys.argv[1], int(sys.argv[2])))
print(client.recv(100).decode())
"""


def topology(*ranges):
    return {
        "fabric": "demo",
        "nodes": {"a": {"cluster": "aws"}},
        "clusters": {"aws": {"remotes": {"gcp": {"device": "wireguard.gcp"}}, "keep_pod_addresses": list(ranges)}},
    }


@pytest.fixture(name="way")
def way_fixture(new_node):
    """A pod, its node, and the pod of another cluster behind a veth in place of the tunnel."""
    pod, node, remote = new_node(), new_node(), new_node()
    for other, here, there, subnet in ((pod, "veth", "eth0", 2), (remote, "wireguard.gcp", "eth0", 4)):
        node.run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", str(other.pid))
        for one, device, last in ((node, here, 1), (other, there, 5)):
            one.run("ip", "link", "set", device, "up")
            one.run("ip", "address", "add", f"10.{subnet}.0.{last}/24", "dev", device)
            one.run("ip", "address", "add", f"fd0{subnet}::{last}/64", "dev", device, "nodad")
        other.run("ip", "route", "add", "default", "via", f"10.{subnet}.0.1")
        other.run("ip", "-6", "route", "add", "default", "via", f"fd0{subnet}::1")
    return pod, node, remote


def seen(pod, remote, address, port=4000):
    """The source that the server sees of a question that gets its answer."""
    server = subprocess.Popen(remote.command("python3", "-c", SERVER, str(port)), stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "ready\n"
    assert pod.run("python3", "-c", CLIENT, address, str(port)) == "answer\n"
    source = server.stdout.readline().strip()
    server.wait(20)
    return source


@pytest.mark.parametrize("priority", ["srcnat", "srcnat + 10"])
def test_a_plugin_that_masquerades_does_not_reach_packets_to_other_clusters(way, priority):
    pod, node, remote = way
    node.run("nft", "-f", "-", stdin=PLUGIN.format(priority))
    assert seen(pod, remote, "10.4.0.5") == "10.4.0.1", "the plugin masquerades"
    assert seen(pod, remote, "fd04::5") == "fd04::1"
    request = dict(kept_table(topology("10.2.0.0/16", "fd02::/64"), "a"), owner="demo", state="present")
    result = node.flow("nft_table", request, False)
    assert result["changed"] and not result["refused"]
    assert seen(pod, remote, "10.4.0.5") == "10.2.0.5" and seen(pod, remote, "fd04::5") == "fd02::5"
    assert seen(pod, remote, "10.4.0.5", 3000) == "10.4.0.1", "what kube-proxy marked has to come back to this node"
    assert not node.flow("nft_table", request, False)["changed"]
    assert node.flow("nft_table", dict(request, state="absent"), False)["changed"]
    assert seen(pod, remote, "10.4.0.5") == "10.4.0.1"


def test_no_table_without_the_variable():
    without = topology()
    del without["clusters"]["aws"]["keep_pod_addresses"]
    assert kept_table(without, "a") is None
