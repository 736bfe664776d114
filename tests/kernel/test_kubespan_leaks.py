# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Under constant traffic no packet to a pod leaves the uplink in clear text, whatever is being updated (kubespan 17.2, 24).

MCN_REPEATS sets how often each update is made: 4 by itself, 200 in make test-all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from conftest import MODULE_UTILS, SLOW, flow_environment
from test_kubespan import PODS, PODS6, Site

REPEATS = int(os.environ.get("MCN_REPEATS", "4"))
COUNTERS = """
add table inet witness
add counter inet witness leaked
add counter inet witness sent
add chain inet witness out { type filter hook postrouting priority 300; }
add rule inet witness out oifname "under" ip daddr 10.244.0.0/16 counter name leaked
add rule inet witness out oifname "under" ip6 daddr { fd00:1::/64, fd00:2::/64 } counter name leaked
add rule inet witness out oifname "kubespan" ip daddr 10.244.0.0/16 counter name sent
"""
#: Goes through a list of wishes again and again, in one process.
LOOP = """
import json, sys, importlib
ask = json.load(sys.stdin)
flow = importlib.import_module(ask["flow"])
changed = 0
for number in range(ask["repeats"]):
    changed += flow.run(ask["wishes"][number % len(ask["wishes"])], False)["changed"]
print(changed)
"""
#: A rule that is replaced, as a repair does it.
RULES = """
import sys, importlib
rules = importlib.import_module(sys.argv[1] + "_linux.rules")
routing = importlib.import_module(sys.argv[1] + "_mesh.kubespan_routing")
for number in range(int(sys.argv[2])):
    for version in (4, 6):
        rule = routing.wanted_rule(version)
        rules.apply_rules(routing.without_gap([{"op": "delete", "rule": rule}, {"op": "add", "rule": rule}]))
"""


class Traffic:
    """Packets to the other node's pod, four hundred a second and family, and the kernel's count of those that leaked."""

    def __init__(self, node):
        self.node = node
        node.run("nft", "-f", "-", stdin=COUNTERS)
        self.pings = [
            subprocess.Popen(
                node.command("ping", "-q", "-i", "0.0025", "-W", "1", "-I", source, target), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            for source, target in ((PODS["a"] + ".9", PODS["b"] + ".9"), (PODS6["a"] + "9", PODS6["b"] + "9"))
        ]

    def count(self, name):
        shown = json.loads(self.node.run("nft", "-j", "list", "counter", "inet", "witness", name))
        return next(item["counter"]["packets"] for item in shown["nftables"] if "counter" in item)

    def stop(self):
        for ping in self.pings:
            ping.kill()
            ping.wait()


@pytest.fixture(name="busy")
def busy_fixture(new_node, implementation, wait_for):
    site = Site(new_node, implementation)
    assert all(wait_for(lambda: "state UP" in node.run("ip", "link", "show", "under"), 10 * SLOW) for node in site.nodes.values())
    site.join()
    assert wait_for(lambda: site.ping(PODS["b"] + ".9", PODS["a"] + ".9"), 60 * SLOW)
    site.traffic = Traffic(site.nodes["a"])
    yield site
    site.traffic.stop()


def wish(site, **change):
    return dict(site.wants["a"], kubespan=dict(site.wants["a"]["kubespan"], **change))


def repeat(site, wishes, repeats=REPEATS):
    """Make updates in turn; every one of them is a change. Returns packets through the tunnel meanwhile."""
    before = site.traffic.count("sent")
    done = subprocess.run(
        site.nodes["a"].command(sys.executable, "-B", "-c", LOOP),
        input=json.dumps({"flow": MODULE_UTILS + "_flows.node_dataplane", "wishes": wishes, "repeats": repeats}),
        capture_output=True, text=True, check=False, env=flow_environment(), timeout=(60 + 5 * repeats) * SLOW,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == repeats
    return site.traffic.count("sent") - before


def other(site, **change):
    """A third node that is only announced."""
    key = "83/SBv4fNR1O0TsSG4Wzo3dXmLAQbYOc13H8cHlSnxs="
    record = dict(site.wants["a"]["kubespan"]["affiliates"][1], node_id="zzz", node="c", nodename="c", public_key=key)
    record.update(kubespan_address="fd7a:6197:edb7:2302:5054:ff:feaa:3", addresses=["192.0.2.13"], endpoints=["192.0.2.13:51820"])
    return dict(record, additional_addresses=["10.244.3.0/24"], **change)


def test_a_node_comes_and_goes(busy):
    both = busy.wants["a"]["kubespan"]["affiliates"]
    assert repeat(busy, [wish(busy, affiliates=[*both, other(busy)]), wish(busy)]) > 0
    assert busy.traffic.count("leaked") == 0


def test_a_prefix_moves_between_peers(busy):
    own, peer = busy.wants["a"]["kubespan"]["affiliates"]
    less = dict(peer, additional_addresses=[text for text in peer["additional_addresses"] if ":" in text])
    wishes = [wish(busy, affiliates=[own, less, dict(other(busy), additional_addresses=[PODS["b"] + ".0/24"])]), wish(busy)]
    repeat(busy, wishes)
    assert busy.traffic.count("leaked") == 0


def test_the_mtu_goes_up_and_down(busy):
    assert repeat(busy, [wish(busy, config={"advertiseKubernetesNetworks": True, "mtu": mtu}) for mtu in (1380, 1420)]) > 0
    assert busy.traffic.count("leaked") == 0


def test_the_secret_changes(busy):
    repeat(busy, [wish(busy, mesh_secret=text) for text in ("AgIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=", busy.wants["a"]["kubespan"]["mesh_secret"])])
    assert busy.traffic.count("leaked") == 0


def test_a_rule_is_replaced(busy):
    done = subprocess.run(
        busy.nodes["a"].command(sys.executable, "-B", "-c", RULES, MODULE_UTILS, str(REPEATS)),
        capture_output=True, text=True, check=False, env=flow_environment(), timeout=60 * SLOW,
    )
    assert done.returncode == 0, done.stderr
    assert busy.traffic.count("leaked") == 0


def test_the_device_goes_away_and_comes_back(busy):
    """Fail closed: while it is away packets are refused."""
    for number in range(max(2, REPEATS // 10)):
        busy.nodes["a"].run("ip", "link", *(("del", "kubespan") if number % 2 else ("set", "kubespan", "down")))
        repeat(busy, [busy.wants["a"]], 1)
    assert busy.traffic.count("leaked") == 0


def test_the_witness_sees_a_leak(busy, wait_for):
    """The control: with failing open and the table away packets do leave, and are counted."""
    busy.nodes["a"].run("nft", "delete", "table", "inet", "talos_kubespan")
    assert wait_for(lambda: busy.traffic.count("leaked") > 0, 30 * SLOW)
