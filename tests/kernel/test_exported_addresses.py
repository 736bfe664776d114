# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Other clusters see pods at their exported addresses, next to a network plugin that masquerades, and at no others (translation 3)."""

from __future__ import annotations

import json
import subprocess

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.tables import request as table_request
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kept_addresses import kept_table
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from test_kept_addresses import CLIENT, NAME, PLUGIN, SERVER, events, seen, topology, way_fixture  # noqa: F401 pylint: disable=unused-import
from test_transaction import Host, wish

pytestmark = pytest.mark.other_kernel
MAPPING = {"10.2.0.0/16": "10.201.0.0/16", "fd02::/64": "fd00:201::/64"}


def exported(pairs=None, former=(), own=(), **options):
    """The topology of a cluster that has its pods seen at other addresses."""
    found = topology("10.2.0.0/16", "fd02::/64", own=own)
    found["clusters"]["aws"]["exported_pod_cidrs"] = {
        "pairs": MAPPING if pairs is None else pairs,
        "former": list(former),
    }
    found["clusters"]["aws"].update(options)
    return found


def applied(node, given, state="present"):
    return node.flow(
        "nft_table", dict(table_request(kept_table(MeshPlan.from_json(given), "a"), "demo"), state=state), False
    )


def asked(pod, remote, address, port=4100):
    """The source that a pod sees of a question from the other cluster; empty where it gets no answer."""
    server = subprocess.Popen(pod.command("python3", "-c", SERVER, str(port)), stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "ready\n"
    answered = remote.run("python3", "-c", CLIENT.replace("20", "2"), address, str(port), check=False) == "answer\n"
    server.terminate()
    source = server.communicate()[0].strip()
    assert bool(source) == answered
    return source


@pytest.fixture(name="tunnel")
def tunnel_fixture(way):
    """As ``way``; the other cluster notes every source that comes out of the tunnel."""
    pod, node, remote = way
    remote.run("nft", "-f", "-", stdin=SOURCES)
    return pod, node, remote


SOURCES = """
table inet seen {
  set sources { type ipv4_addr; flags dynamic; }
  chain in { type filter hook prerouting priority raw; policy accept; iifname eth0 ip saddr != 10.4.0.1 add @sources { ip saddr }; }
}
"""


def sources(remote):
    listed = json.loads(remote.run("nft", "-j", "list", "set", "inet", "seen", "sources"))["nftables"][1]["set"]
    return set(listed.get("elem", ()))


@pytest.mark.parametrize("priority", ["srcnat", "srcnat + 10"])
def test_a_pod_is_seen_and_reached_at_its_exported_address(tunnel, priority):
    pod, node, remote = tunnel
    node.run("nft", "-f", "-", stdin=PLUGIN.format(priority))
    assert applied(node, exported())["changed"]
    assert not applied(node, exported())["changed"]
    assert seen(pod, remote, "10.4.0.5") == "10.201.0.5" and seen(pod, remote, "fd04::5") == "fd00:201::5"
    assert asked(pod, remote, "10.201.0.5") == "10.4.0.5" and asked(pod, remote, "fd00:201::5") == "fd04::5"
    assert sources(remote) == {"10.201.0.5"}


def test_what_is_not_translated_does_not_pass_the_device(tunnel):
    """A packet to a pod's own address from the other cluster, and in both directions one that belongs to no connection."""
    pod, node, remote = tunnel
    assert applied(node, exported())["changed"]
    assert asked(pod, remote, "10.2.0.5") == "", "its own address is nobody else's matter"
    # where the node would send it on: the way of everything that has no other
    node.run("ip", "route", "add", "default", "via", "10.2.0.5")
    pod.run(
        "nft", "-f", "-", stdin=SOURCES.replace("saddr != 10.4.0.1", "daddr 10.201.0.0/16").replace("saddr", "daddr")
    )
    for sender, target in ((pod, "10.4.0.5"), (remote, "10.201.0.5")):
        for flags in ("ack", "invalid"):
            sender.run("python3", "-c", STRAY, target, flags)
    assert sources(remote) <= {"10.201.0.5"} and not sources(pod)


#: A TCP segment that opens no connection: with ACK alone, or with flags that never come together.
STRAY = """
import socket, struct, sys
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
flags = {"ack": 0x10, "invalid": 0x03}[sys.argv[2]]
raw.sendto(struct.pack("!HHIIBBHHH", 4000, 4000, 1, 1, 5 << 4, flags, 100, 0, 0), (sys.argv[1], 0))
"""


def test_an_address_of_before_is_accepted_while_it_is_listed(tunnel):
    pod, node, remote = tunnel
    before = {"10.2.0.0/16": "10.200.0.0/16"}
    assert applied(node, exported(pairs=before))["changed"] and asked(pod, remote, "10.200.0.5") == "10.4.0.5"
    assert applied(node, exported(former=[before]))["changed"]
    assert asked(pod, remote, "10.200.0.5", 4101) == asked(pod, remote, "10.201.0.5", 4102) == "10.4.0.5"
    assert seen(pod, remote, "10.4.0.5") == "10.201.0.5", "new connections have the new address"
    assert applied(node, exported())["changed"] and asked(pod, remote, "10.200.0.5", 4103) == ""


def test_a_range_that_was_not_translated_before_is_accepted_as_it_is(tunnel):
    pod, node, remote = tunnel
    assert applied(node, exported(former=[{"10.2.0.0/16": "10.2.0.0/16"}]))["changed"]
    assert asked(pod, remote, "10.2.0.5") == "10.4.0.5" and asked(pod, remote, "10.201.0.5", 4101) == "10.4.0.5"
    assert seen(pod, remote, "10.4.0.5") == "10.201.0.5"


def test_a_part_of_a_range_is_translated_and_the_rest_is_kept(tunnel):
    pod, node, remote = tunnel
    node.run("nft", "-f", "-", stdin=PLUGIN.format("srcnat"))
    assert applied(node, exported(pairs={"10.2.128.0/17": "10.201.128.0/17"}))["changed"]
    assert seen(pod, remote, "10.4.0.5") == "10.2.0.5"
    pod.run("ip", "address", "add", "10.2.128.5/16", "dev", "eth0")
    node.run("ip", "route", "add", "10.2.128.5", "dev", "veth")
    pod.run("ip", "route", "replace", "default", "via", "10.2.0.1", "src", "10.2.128.5")
    assert seen(pod, remote, "10.4.0.5", 4001) == "10.201.128.5"


def test_the_table_comes_and_goes_with_the_routes_and_survives_a_restart(node, wait_for):
    host = Host(node, wait_for)
    clean = host.seen()
    given = exported()
    given.update(fabric="mesh", failures=())
    given["clusters"]["aws"]["remotes"]["gcp"]["device"] = "wireguard.b"
    desired = wish(tables=[kept_table(MeshPlan.from_json(given), "a")])
    assert host.run(desired, check=True)["plan"]["changes"] and host.seen() == clean
    assert events(host, lambda: host.run(desired)) == ["+table", "+route"]
    good = host.seen()
    assert not host.run(desired)["changed"] and host.seen() == good
    host.node.run("nft", "delete", "table", "inet", NAME)
    assert host.run(desired)["changed"] and host.seen() == good
    host.reboot()
    assert host.seen()[3] == good[3]
    assert events(host, lambda: host.run(dict(wish(), devices=[], remove_keys=True))) == ["-route", "-table"]
    assert host.seen()[:4] == clean[:4]


def test_the_address_of_the_node_is_exported_too(node, wait_for):
    host = Host(node, wait_for)
    given = exported(own=["10.2.1.0/24"])
    given.update(fabric="mesh", failures=())
    host.node.run("ip", "address", "add", "10.2.1.1/24", "dev", "lo")
    assert host.run(wish(tables=[kept_table(MeshPlan.from_json(given), "a")]))["changed"]
    assert "to 10.201.1.1" in host.node.run("nft", "list", "table", "inet", NAME)
