# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packets of pods keep their addresses on the way to other clusters although a network plugin masquerades (translation 3)."""

from __future__ import annotations

import json
import subprocess

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.tables import request as table_request
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.generations import Layout
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kept_addresses import (
    PROXY_MARK,
    kept_table,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from conftest import FlowFailed
from test_transaction import Host, wish

pytestmark = pytest.mark.other_kernel

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
print(source[0].replace("::ffff:", ""), flush=True)  # first, since whoever has the answer may end this
server.sendto(b"answer", source)
"""
CLIENT = """
import socket, sys
client = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(20)
client.sendto(b"question", (sys.argv[1], int(sys.argv[2])))
print(client.recv(100).decode())
"""


def topology(*ranges, required=True, own=()):
    return {
        "fabric": "demo",
        "nodes": {"a": {"cluster": "aws", "pod_cidrs": list(own)}},
        "clusters": {
            "aws": {
                "remotes": {"gcp": {"device": "wireguard.gcp"}},
                "keep_pod_addresses": {"ranges": list(ranges), "required": required},
            }
        },
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
    request = table_request(kept_table(MeshPlan.from_json(topology("10.2.0.0/16", "fd02::/64")), "a"), "demo")
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
    assert kept_table(MeshPlan.from_json(without), "a") is None


NAME = "multicluster-network-mesh-nat"
#: Prints each route, and each table of nftables, that comes or goes, as the kernel announces them.
EVENTS = """
import select, socket, struct
sockets = []
for family, groups in ((0, 0x40), (12, 0x40)):  # routes of IPv4; nftables
    one = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family)
    one.bind((0, groups))
    sockets.append(one)
print("ready", flush=True)
NAMES = {(0, 24): "+route", (0, 25): "-route", (12, 0xA00): "+table", (12, 0xA02): "-table"}
while True:
    for one in select.select(sockets, [], [])[0]:
        data, family = one.recv(1 << 16), 0 if one is sockets[0] else 12
        while len(data) >= 16:
            length, kind = struct.unpack_from("=IH", data)
            protocol = data[16 + 5] if family == 0 else 109
            if (family, kind) in NAMES and protocol == 109:
                print(NAMES[family, kind], flush=True)
            data = data[(length + 3) & ~3 :]
"""


@pytest.fixture(name="host")
def host_fixture(node, wait_for):
    return Host(node, wait_for)


def kept(required=True, own=(), failures=(), **change):
    given = dict(topology("10.2.0.0/16", required=required, own=own), fabric="mesh", failures=failures)
    given["clusters"]["aws"]["remotes"]["gcp"]["device"] = "wireguard.b"
    return wish(tables=[kept_table(MeshPlan.from_json(given), "a")], **change)


def events(host, action):
    """What came and went meanwhile, in order."""
    listener = subprocess.Popen(host.node.command("python3", "-c", EVENTS), stdout=subprocess.PIPE, text=True)
    assert listener.stdout.readline() == "ready\n"
    action()
    listener.terminate()
    return listener.communicate()[0].split()


def test_the_table_is_there_before_the_routes_and_after_them(host):
    clean = host.seen()
    assert host.run(kept(), check=True)["plan"]["changes"] and host.seen() == clean
    assert events(host, lambda: host.run(kept())) == ["+table", "+route"]
    good = host.seen()
    assert not host.run(kept())["changed"] and host.seen() == good
    host.node.run("nft", "delete", "table", "inet", NAME)
    assert [change["action"] for change in host.run(kept(), check=True)["plan"]["changes"]] == ["create"] * 2
    assert host.run(kept())["changed"] and host.seen() == good
    host.node.run("nft", "flush", "chain", "inet", NAME, "postrouting")
    assert host.run(kept())["changed"] and host.seen() == good
    host.reboot()
    assert host.seen()[3] == good[3]
    assert events(host, lambda: host.run(dict(wish(), devices=[], remove_keys=True))) == ["-route", "-table"]
    assert host.seen()[:4] == clean[:4]


def test_the_address_of_a_node_stays_while_its_cluster_is_not_read(host):
    """Then nobody knows the ranges of its pods; the table is not written again for that, in one run or in the next."""
    host.node.run("ip", "address", "add", "10.2.1.1/24", "dev", "lo")
    host.run(kept(own=["10.2.1.0/24"]))
    assert "10.2.1.1" in host.node.run("nft", "list", "table", "inet", NAME)
    good = host.seen()
    for known in ({"failures": [{"cluster": "aws"}]}, {"own": ["10.2.1.0/24"]}):
        assert not host.run(kept(**known), check=True)["plan"]["changes"] and not host.run(kept(**known))["changed"]
        assert host.seen() == good


def test_a_change_that_is_taken_back_takes_the_table_after_the_routes(host):
    clean = host.seen()
    made = host.run(kept(rollback_seconds=60))
    assert NAME in host.node.run("nft", "list", "tables")
    assert events(host, lambda: host.decide(made["transaction"]["id"], "revert")) == ["-route", "-table"]
    assert host.seen()[:4] == clean[:4]
    host.run(kept())
    good = host.seen()
    gone = host.run(dict(wish(rollback_seconds=60), devices=[]))
    assert NAME not in host.node.run("nft", "list", "tables")
    assert events(host, lambda: host.decide(gone["transaction"]["id"], "revert")) == ["+table", "+route"]
    assert host.seen()[3] == good[3]


def test_a_node_without_nft_goes_without_a_table_that_nobody_requires(host):
    program = host.node.run("sh", "-c", "command -v nft").strip()
    host.node.run("mount", "--bind", "/dev/null", program)
    made = host.run(kept(required=False))
    assert [text for text in made["warnings"] if "keep_pod_addresses" in text and "nft" in text], made["warnings"]
    assert "10.5.0.0/24" in host.node.run("ip", "route")
    again = host.run(kept(required=False))
    assert not again["changed"]
    with pytest.raises(FlowFailed, match="nft is missing") as failed:
        host.run(kept())
    assert failed.value.package == "nftables"
    host.node.run("umount", program)
    assert [change["kind"] for change in host.run(kept(required=False))["plan"]["changes"]] == [
        "nftables table",
        "nftables chain",
    ]
    host.node.run("mount", "--bind", "/dev/null", program)
    assert not host.run(kept(required=False))["changed"], "what is there stays"
    assert host.run(dict(wish(), devices=[], remove_keys=True))["changed"]
    host.node.run("umount", program)
    assert host.node.run("nft", "list", "tables") == ""


#: As kube-proxy has it for a NodePort with externalTrafficPolicy Cluster: mark, translate, masquerade what is marked.
PROXY = """
table ip proxy {
  chain in {
    type nat hook prerouting priority dstnat; policy accept;
    ip daddr 192.0.2.1 udp dport 30000 meta mark set meta mark or 0x4000 dnat to 10.4.0.5:4000
  }
  chain out {
    type nat hook postrouting priority srcnat; policy accept;
    meta mark & 0x4000 == 0x4000 meta mark set meta mark xor 0x4000 masquerade fully-random
  }
}
"""
#: What WireGuard does by allowed IPs: by this tunnel come only packets with addresses of the pods of this node. What else came is remembered.
ALLOWED = """
table inet wg {
  set refused { type ipv4_addr; flags dynamic; }
  chain in {
    type filter hook prerouting priority raw; policy accept;
    iifname eth0 ip saddr != 10.2.1.0/24 add @refused { ip saddr } drop
  }
}
"""
WHOLE = 'oifname "wireguard.gcp" snat ip prefix to ip saddr map { 10.2.0.0/16 : 10.2.0.0/16 }'
OWN = WHOLE.replace("10.2.0.0/16", "10.2.1.0/24")


@pytest.fixture(name="two_nodes")
def two_nodes_fixture(new_node):
    """A pod on node 2, node 2, node 1, and a pod of another cluster that is reached by node 1."""
    pod, second, first, remote = (new_node() for dummy in range(4))
    for near, here, there, far, address, other in (
        (second, "veth", "eth0", pod, "10.2.2.1/24", "10.2.2.5/24"),
        (first, "eth0", "eth0", second, "192.0.2.1/24", "192.0.2.2/24"),
        (first, "wireguard.gcp", "eth0", remote, None, "10.4.0.5/24"),
    ):
        near.run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", str(far.pid))
        for one, device, text in ((near, here, address), (far, there, other)):
            one.run("ip", "link", "set", device, "up")
            if text:
                one.run("ip", "address", "add", text, "dev", device)
    first.run("ip", "link", "add", "cni0", "type", "bridge")
    first.run("ip", "link", "set", "cni0", "up")
    first.run("ip", "address", "add", "10.2.1.1/24", "dev", "cni0")
    pod.run("ip", "route", "add", "default", "via", "10.2.2.1")
    second.run("ip", "route", "add", "10.2.1.0/24", "via", "192.0.2.1")
    first.run("ip", "route", "add", "10.2.2.0/24", "via", "192.0.2.2")
    first.run("ip", "route", "add", "10.4.0.0/16", "dev", "wireguard.gcp")
    first.run("sysctl", "-qw", "net.ipv4.conf.wireguard/gcp.proxy_arp=1", "net.ipv4.conf.all.rp_filter=0")
    remote.run("ip", "route", "add", "default", "dev", "eth0")
    first.run(
        "ip",
        "neigh",
        "add",
        "10.4.0.5",
        "lladdr",
        json.loads(remote.run("ip", "-j", "link", "show", "eth0"))[0]["address"],
        "dev",
        "wireguard.gcp",
    )
    first.run("nft", "-f", "-", stdin=PROXY)
    remote.run("nft", "-f", "-", stdin=ALLOWED)
    return pod, first, remote


def node_port(two_nodes, rules, **more):
    """The source that the server sees of a pod of node 2 which asks a NodePort of node 1; "refused ADDRESS" where the tunnel takes no such source."""
    pod, first, remote = two_nodes
    chain = {"name": "postrouting", "type": "nat", "hook": "postrouting", "priority": "srcnat - 1", "rules": rules}
    table = {"name": "kept", "family": "inet", "chains": [chain], **more}
    first.flow("nft_table", table_request(table, "demo"), False)
    server = subprocess.Popen(remote.command("python3", "-c", SERVER, "4000"), stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "ready\n"
    client = CLIENT.replace("20", "3")
    answered = pod.run("python3", "-c", client, "192.0.2.1", "30000", check=False) == "answer\n"
    server.terminate()
    source = server.communicate()[0].strip()
    assert bool(source) == answered
    if source:
        return source
    listed = json.loads(remote.run("nft", "-j", "list", "set", "inet", "wg", "refused"))["nftables"][1]["set"]
    remote.run("nft", "flush", "set", "inet", "wg", "refused")
    return "refused " + " ".join(listed["elem"])


def test_a_node_port_of_another_node_leads_to_a_pod_of_another_cluster(two_nodes, wait_for):
    assert node_port(two_nodes, [WHOLE]) == "refused 10.2.2.5"
    assert node_port(two_nodes, ["meta mark & 0x4000 == 0x4000 return", WHOLE]) == "refused 192.0.2.1"
    assert node_port(two_nodes, [OWN]) == "refused 192.0.2.1", "what is not mapped is masqueraded"
    given = kept_table(MeshPlan.from_json(topology("10.2.0.0/16", own=["10.2.1.0/24"])), "a")
    host = Host(two_nodes[1], wait_for)
    assert two_nodes[1].flow("nft_table", dict(table_request({"name": "kept"}, "demo"), state="absent"), False)[
        "changed"
    ]
    assert host.run(wish(tables=[given]))["changed"]
    assert node_port(two_nodes, []) == "10.2.1.1", "an address of this node, which its peers accept"
    assert not host.run(wish(tables=[given]))["changed"]
    host.node.run("ip", "link", "del", "cni0")
    assert not host.run(wish(tables=[given]))["changed"], "what was confirmed stays while the node holds no other"
    host.node.run("ip", "address", "add", "10.2.1.0/32", "dev", "lo")
    assert host.run(wish(tables=[given]))["changed"] and node_port(two_nodes, []) == "10.2.1.0"
    host.node.run("ip", "address", "del", "10.2.1.0/32", "dev", "lo")
    assert host.run(wish(tables=[dict(given, sources=["10.2.9.0/24"])]))["changed"]
    assert node_port(two_nodes, []) == "refused 192.0.2.1", (
        "the node holds no address in its ranges: left to kube-proxy"
    )


#: Bits of marks that Calico and Cilium have by default (pod_ranges 4).
PLUGIN_MARKS = 0xFFFF0F00
MARKED = f"""
table inet marks {{
  chain in {{ type filter hook prerouting priority mangle; policy accept; meta mark set meta mark or {PLUGIN_MARKS:#x}; }}
  chain out {{ type filter hook postrouting priority srcnat + 20; policy accept;
    oifname "wireguard.gcp" meta mark and {PLUGIN_MARKS:#x} == {PLUGIN_MARKS:#x} counter accept
    oifname "wireguard.gcp" counter drop; }}
}}
"""


def test_marks_of_plugins_stay_as_they_are(way):
    pod, node, remote = way
    node.run("nft", "-f", "-", stdin=PLUGIN.format("srcnat"))
    node.flow("nft_table", table_request(kept_table(MeshPlan.from_json(topology("10.2.0.0/16")), "a"), "demo"), False)
    node.run("nft", "-f", "-", stdin=MARKED)
    assert seen(pod, remote, "10.4.0.5") == "10.2.0.5"
    # of all tables of the mesh, that of KubeSpan alone writes marks
    assert Layout().mark_mask & (PLUGIN_MARKS | PROXY_MARK) == 0 == PROXY_MARK & PLUGIN_MARKS
