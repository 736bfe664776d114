# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts are members of the fabric: what a node sends to other clusters, and what they send to it, goes through the tunnels (translation 7)."""

from __future__ import annotations

import contextlib
import json
import subprocess

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._dataplane.constants import NODE_SOURCE
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.tables import request as table_request
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.exported_nodes import parted
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kept_addresses import kept_table
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._values.exported_ranges import ExportedRanges
from test_exported_addresses import MAPPING, SOURCES, asked, sources
from test_kept_addresses import NAME, PLUGIN, seen, topology, way_fixture  # noqa: F401 pylint: disable=unused-import
from test_transaction import Host, wish

OWN, SEEN = ("10.22.22.5", "fd22::5"), ("10.203.22.5", "fd00:203::5")
NODES = {"10.22.22.0/24": "10.203.22.0/24", "fd22::/64": "fd00:203::/64"}


@pytest.fixture(name="host")
def host_fixture(way):
    """As ``way``; the node sends to the other cluster from an address of its own network, as where a device has no address."""
    pod, node, remote = way
    node.run("ip", "link", "set", "lo", "up")
    for own, target, tunnel in zip(OWN, ("10.4.0.0/24", "fd04::/64"), ("10.4.0.1/24", "fd04::1/64")):
        node.run("ip", "address", "add", own, "dev", "lo", *(["nodad"] if ":" in own else []))
        node.run("ip", "address", "del", tunnel, "dev", "wireguard.gcp")
        node.run("ip", "route", "replace", target, "dev", "wireguard.gcp", "src", own)
    mac = json.loads(node.run("ip", "-j", "link", "show", "wireguard.gcp"))[0]["address"]
    for gateway in ("10.4.0.254", "fd04::fe"):  # what has no address of its own, as a tunnel's other end
        remote.run("ip", "neighbour", "add", gateway, "lladdr", mac, "dev", "eth0", "nud", "permanent")
        remote.run("ip", "route", "replace", "default", "via", gateway)
    remote.run("nft", "-f", "-", stdin=SOURCES.replace("10.4.0.1", "10.99.0.1"))
    return pod, node, remote


def fabric(nodes=None, pairs=None, own=("10.2.0.0/16", "fd02::/64"), former=()):
    """The topology of a cluster of which other clusters reach nodes, or do not where ``nodes`` is empty. former: mappings of before."""
    found = topology("10.2.0.0/16", "fd02::/64", own=list(own))
    ranges = NODES if nodes is None else nodes
    mapping = ExportedRanges(pairs, nodes=ranges, former_nodes=former)
    if mapping:
        found["clusters"]["aws"]["exported_pod_cidrs"] = mapping.to_json()
        addresses = {text: mapping.node_addresses(text) for text in OWN}
        present, earlier = parted({own: seen for own, seen in addresses.items() if seen}, mapping)
        found["nodes"]["a"].update(exported_addresses=present, former_addresses=earlier)
    return found


def applied(node, given, **chosen):
    """The table in the kernel; ``ipv4`` and ``ipv6``: what the node holds in its pod ranges, as the node itself finds it."""
    table = kept_table(MeshPlan.from_json(given), "a")
    for chain in table["chains"]:
        for version in (4, 6):
            chain["rules"] = [
                rule.replace(NODE_SOURCE[version], chosen.get(f"ipv{version}", "")) for rule in chain["rules"]
            ]
    return node.flow("nft_table", table_request(table, "demo"), False)


@pytest.mark.parametrize("pairs", [{}, MAPPING], ids=["pods as they are", "pods translated"])
def test_a_host_is_seen_and_reached_at_its_exported_address(host, pairs):
    pod, node, remote = host
    node.run("nft", "-f", "-", stdin=PLUGIN.format("srcnat"))
    assert asked(node, remote, SEEN[0], 4090) == "", "without the table nobody has this address"
    remote.run("nft", "flush", "set", "inet", "seen", "sources")
    assert applied(node, fabric(pairs=pairs))["changed"] and not applied(node, fabric(pairs=pairs))["changed"]
    for number, (own, other) in enumerate(zip(SEEN, ("10.4.0.5", "fd04::5"))):
        assert seen(node, remote, other, 4000 + number) == own
        assert asked(node, remote, own, 4100 + number) == other
    pods = ("10.201.0.5", "fd00:201::5") if pairs else ("10.2.0.5", "fd02::5")
    assert seen(pod, remote, "10.4.0.5", 4002) == pods[0] and seen(pod, remote, "fd04::5", 4003) == pods[1]
    assert asked(pod, remote, pods[0], 4102) == "10.4.0.5"
    assert sources(remote) == {SEEN[0], pods[0]}


#: Answers each line of a connection with the source that it sees.
LINES = """
import socket, threading
def serve(one, source):
    while one.recv(1):
        one.sendall(source[0].encode())
listener = socket.create_server(("0.0.0.0", 4300))
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=listener.accept(), daemon=True).start()
"""
#: One connection for as long as its standard input has lines: whether each was answered within a second.
CONNECTED = """
import socket, sys
one = socket.create_connection((sys.argv[1], 4300), 5)
one.settimeout(1)
for line in sys.stdin:
    try:
        one.sendall(b".")
        print("answered" if one.recv(20) else "ended", flush=True)
    except OSError:
        print("ended", flush=True)
"""


def test_another_mapping_of_nodes_takes_over_without_a_lost_connection(host, wait_for):
    """guide_host_network: while a former mapping is listed its addresses are accepted; connections to them end when it goes, no others."""
    dummy, node, remote = host
    later = {"10.22.22.0/24": "10.204.22.0/24", "fd22::/64": "fd00:204::/64"}
    whole = Host(node, wait_for)

    def converge(**mapping):
        given = fabric(**mapping)
        given.update(fabric="mesh", failures=())
        assert whole.run(wish(tables=[kept_table(MeshPlan.from_json(given), "a")]))["changed"]

    converge()
    with running(node, "python3", "-c", LINES) as server:
        assert server.stdout.readline() == "ready\n"
        with running(remote, "python3", "-c", CONNECTED, SEEN[0]) as before:
            assert answered(before)
            converge(former=[later])
            assert answered(before) and seen(node, remote, "10.4.0.5", 4203) == SEEN[0]
            assert asked(node, remote, "10.204.22.5", 4201) == asked(node, remote, SEEN[0], 4202) == "10.4.0.5"
            converge(nodes=later, former=[NODES])
            assert answered(before), "it was opened to the address of before"
            assert asked(node, remote, SEEN[0], 4204) == "10.4.0.5" and asked(node, remote, SEEN[1], 4205) == "fd04::5"
            assert seen(node, remote, "10.4.0.5", 4206) == "10.204.22.5"
            assert seen(node, remote, "fd04::5", 4207) == "fd00:204::5"
            with running(remote, "python3", "-c", CONNECTED, "10.204.22.5") as present:
                assert answered(present)
                converge(nodes=later)
                assert not answered(before) and asked(node, remote, SEEN[0], 4208) == ""
                assert answered(present), "a connection to the present address goes on"


@contextlib.contextmanager
def running(one, *words):
    """A program in a node for as long as the block lasts."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(one.command(*words), stdin=pipe, stdout=pipe, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def answered(process):
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline() == "answered\n"


def test_a_host_without_an_exported_address_comes_from_one_of_its_pod_range(host):
    dummy, node, remote = host
    assert applied(node, fabric(nodes={}), ipv4="10.2.0.1", ipv6="fd02::1")["changed"]
    assert seen(node, remote, "10.4.0.5") == "10.2.0.1" and seen(node, remote, "fd04::5", 4001) == "fd02::1"


def test_what_kube_proxy_marked_comes_from_the_exported_address_too(host):
    pod, node, remote = host
    node.run("nft", "-f", "-", stdin=PLUGIN.format("srcnat"))
    assert applied(node, fabric())["changed"]
    assert seen(pod, remote, "10.4.0.5", 3000) == SEEN[0]


def test_the_own_address_of_a_node_and_those_of_others_are_not_reached(host):
    """An address of the node's network is no way in, and a node passes nothing on to another one, where it would be in the clear."""
    pod, node, remote = host
    assert applied(node, fabric())["changed"]
    assert asked(node, remote, OWN[0]) == "" and asked(node, remote, OWN[1], 4101) == ""
    # where the node would send it on: the way of everything that has no other
    node.run("ip", "route", "add", "default", "via", "10.2.0.5")
    pod.run(
        "nft",
        "-f",
        "-",
        stdin=SOURCES.replace("ip saddr != 10.4.0.1 add @sources { ip saddr }", "add @sources { ip daddr }"),
    )
    for target in ("10.203.22.9", "10.22.22.9"):
        assert asked(node, remote, target, 4102) == ""
    assert not sources(pod)


def test_a_node_is_no_router_into_other_clusters(host):
    """Whoever reaches a node, and is neither its pod nor the host, does not get its address."""
    pod, node, remote = host
    assert applied(node, fabric())["changed"]
    pod.run("ip", "address", "add", "192.168.7.7/24", "dev", "eth0")
    pod.run("ip", "route", "replace", "default", "via", "10.2.0.1", "src", "192.168.7.7")
    pod.run(
        "python3",
        "-c",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('10.4.0.5', 4000))",
    )
    remote.run("python3", "-c", "import time; time.sleep(0.3)")
    assert sources(remote) <= {"192.168.7.7"}


def test_a_confirmed_table_without_the_rule_is_no_reason_to_call_a_host_not_carried(node, wait_for):
    """The node reports for which families its own packets should be carried: by its table, and by an address that it holds."""
    host = Host(node, wait_for)
    given = fabric(nodes={}, own=["10.2.0.0/16"])
    given.update(fabric="mesh", failures=())
    host.run(wish(tables=[kept_table(MeshPlan.from_json(given), "a")]))
    ask = {"pod_cidrs": ["10.2.0.0/16"], "max_pods": 1, "targets": [], "devices": ["wireguard.b"], "fabric": "mesh"}
    ask.update(host_targets=[{"node": "b", "address": "10.5.0.9"}], tries=1, wait_seconds=0.2)
    host.node.run("ip", "address", "add", "192.168.5.1/32", "dev", "lo")
    lacking = host.node.flow("probe", dict(ask, tries=9, wait_seconds=3600))
    assert lacking["host_sources"] == [], "it holds no address there"
    assert [ping["ok"] for ping in lacking["host_pings"]] == [False], (
        "no answer is awaited for an hour that cannot come"
    )
    host.node.run("ip", "address", "add", "10.2.1.1/24", "dev", "lo")
    assert "fib saddr" not in host.node.run("nft", "list", "table", "inet", NAME)
    found = host.node.flow("probe", ask)
    assert found["host_sources"] == [4] and [ping["ok"] for ping in found["host_pings"]] == [False]


def test_the_address_of_a_node_stays_while_the_node_holds_it(node, wait_for):
    """guide_host_network: a lower one that comes changes nothing; when the node no longer holds it, the next one counts."""
    host = Host(node, wait_for)
    given = fabric(nodes={}, own=["10.2.0.0/16"])
    given.update(fabric="mesh", failures=())
    desired = wish(tables=[kept_table(MeshPlan.from_json(given), "a")])
    for address, source in (("10.2.1.1", "10.2.1.1"), ("10.2.0.1", "10.2.1.1"), (None, "10.2.0.1")):
        if address:
            host.node.run("ip", "address", "add", address + "/32", "dev", "lo")
        else:
            host.node.run("ip", "address", "del", "10.2.1.1/32", "dev", "lo")
        assert host.run(desired)["changed"] == (address != "10.2.0.1")
        assert f"snat ip to {source}" in host.node.run("nft", "list", "table", "inet", NAME)


def test_the_table_of_a_node_comes_and_goes_with_its_state(node, wait_for):
    host = Host(node, wait_for)
    clean = host.seen()
    given = fabric(nodes={})
    given.update(fabric="mesh", failures=())
    host.node.run("ip", "address", "add", "10.2.1.1/24", "dev", "lo")
    held = host.seen()
    assert host.run(wish(tables=[kept_table(MeshPlan.from_json(given), "a")]))["changed"]
    listed = host.node.run("nft", "list", "table", "inet", NAME)
    assert "fib saddr type local snat ip to 10.2.1.1" in listed and "ip6 to" not in listed, "it holds none of IPv6"
    given = fabric()
    given.update(fabric="mesh", failures=())
    assert host.run(wish(tables=[kept_table(MeshPlan.from_json(given), "a")]))["changed"]
    assert not host.run(wish(tables=[kept_table(MeshPlan.from_json(given), "a")]))["changed"]
    assert "fib saddr type local snat ip to 10.203.22.5" in host.node.run("nft", "list", "table", "inet", NAME)
    good = host.seen()
    host.reboot()
    assert host.seen()[3] == good[3]
    assert host.run(dict(wish(), devices=[], remove_keys=True))["changed"]
    host.node.run("ip", "address", "del", "10.2.1.1/24", "dev", "lo") if held != clean else None
    assert host.seen()[3] == clean[3]
