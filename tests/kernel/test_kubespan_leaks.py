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
from test_kubespan import PODS, PODS6, UNDERLAY, Site, targets_of, watch

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
rules = importlib.import_module(sys.argv[1] + "_linux.netlink.rules")
routing = importlib.import_module(sys.argv[1] + "_mesh.kubespan.routing")
for number in range(int(sys.argv[2])):
    for version in (4, 6):
        rule = routing.desired_rule(version)
        rules.apply_rules(routing.without_gap([{"op": "delete", "rule": rule}, {"op": "add", "rule": rule}]))
"""


class Traffic:
    """Packets to the other node's pod, four hundred a second and family, and the kernel's count of those that leaked.

    An emulated processor has no time for more than a tenth of that alongside the updates themselves.
    """

    def __init__(self, node):
        self.node = node
        node.run("nft", "-f", "-", stdin=COUNTERS)
        self.pings = [
            subprocess.Popen(
                node.command("ping", "-q", "-i", str(0.0025 * SLOW), "-W", "1", "-I", source, target),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
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
def busy_fixture(two_nodes, implementation, wait_for):
    site = Site(two_nodes(UNDERLAY), implementation)
    assert all(
        wait_for(lambda node=node: "state UP" in node.run("ip", "link", "show", "under"), 60 * SLOW)
        for node in site.nodes.values()
    )
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
        input=json.dumps({"flow": MODULE_UTILS + "_flows.node.dataplane", "wishes": wishes, "repeats": repeats}),
        capture_output=True,
        text=True,
        check=False,
        env=flow_environment(),
        timeout=(60 + 5 * repeats) * SLOW,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == repeats
    return site.traffic.count("sent") - before


def other(site, **change):
    """A third node that is only announced."""
    key = "83/SBv4fNR1O0TsSG4Wzo3dXmLAQbYOc13H8cHlSnxs="
    record = dict(site.wants["a"]["kubespan"]["affiliates"][1], node_id="zzz", node="c", nodename="c", public_key=key)
    record.update(
        kubespan_address="fd7a:6197:edb7:2302:5054:ff:feaa:3", addresses=["192.0.2.13"], endpoints=["192.0.2.13:51820"]
    )
    return dict(record, additional_addresses=["10.244.3.0/24"], **change)


def test_a_node_comes_and_goes(busy):
    both = busy.wants["a"]["kubespan"]["affiliates"]
    assert repeat(busy, [wish(busy, affiliates=[*both, other(busy)]), wish(busy)]) > 0
    assert busy.traffic.count("leaked") == 0


def sessions(node):
    """Peer to the time of its last handshake and what was received: a session that was set up anew shows."""
    peers = [line.split("\t") for line in node.run("wg", "show", "kubespan", "dump").splitlines()[1:]]
    return {cells[0]: int(cells[4]) for cells in peers}, {cells[0]: int(cells[5]) for cells in peers}


def test_sessions_stay_when_nodes_come_and_go(busy):
    """Kubespan 24.3. WireGuard makes a new session by itself every two minutes; a second look never meets that again."""
    both = busy.wants["a"]["kubespan"]["affiliates"]
    for affiliates in ([*both, other(busy)], both):
        for unused in range(2):
            handshakes, received = sessions(busy.nodes["a"])
            busy.run("a", kubespan=dict(busy.wants["a"]["kubespan"], affiliates=affiliates))
            now, after = sessions(busy.nodes["a"])
            if all(now[key] == handshakes[key] for key in handshakes if key in now):
                break
            busy.run(
                "a",
                kubespan=dict(
                    busy.wants["a"]["kubespan"], affiliates=both if affiliates is not both else [*both, other(busy)]
                ),
            )
        else:
            raise AssertionError(f"sessions were made anew: {handshakes} became {now}")
        assert all(after[key] >= received[key] for key in received if key in after)
    assert busy.traffic.count("sent") > 0 and busy.traffic.count("leaked") == 0


def test_a_stopped_peer_is_still_steered_to_and_nothing_leaves(busy, wait_for):
    """Kubespan 24.5 with forced routing: down after 275 s (the watcher's clock is the test's), still a target, and nothing in clear text."""
    busy.wants["a"]["kubespan"]["watcher"] = True
    busy.run("a")
    node = busy.nodes["a"]
    rows, unused = watch(busy, "a", float(node.run("date", "+%s.%N")))
    assert rows["b"]["state"] == "up"
    busy.nodes["b"].run("ip", "link", "del", "kubespan")
    handshake = max(sessions(node)[0].values())
    rows, unused = watch(busy, "a", handshake + 274)
    assert rows["b"]["state"] == "up"
    rows, unused = watch(busy, "a", handshake + 275 + 30)
    assert rows["b"]["state"] == "down"
    sent = busy.traffic.count("sent")
    assert wait_for(lambda: busy.traffic.count("sent") > sent + 100, 60 * SLOW), (
        "packets still go into the tunnel, which keeps them"
    )
    assert "10.244.2.0/24" in targets_of(node) and not busy.ping(PODS["b"] + ".9", PODS["a"] + ".9")
    assert not busy.run("a")["changed"]
    assert busy.traffic.count("leaked") == 0
    # and with the bypass allowed it leaves the sets
    busy.wants["a"]["kubespan"]["config"]["allowDownPeerBypass"] = True
    busy.run("a")
    watch(busy, "a", handshake + 275 + 60)
    assert "10.244.2.0/24" not in targets_of(node)


def test_a_prefix_moves_between_peers(busy):
    own, peer = busy.wants["a"]["kubespan"]["affiliates"]
    less = dict(peer, additional_addresses=[text for text in peer["additional_addresses"] if ":" in text])
    wishes = [
        wish(busy, affiliates=[own, less, dict(other(busy), additional_addresses=[PODS["b"] + ".0/24"])]),
        wish(busy),
    ]
    repeat(busy, wishes)
    assert busy.traffic.count("leaked") == 0


def test_the_mtu_goes_up_and_down(busy):
    assert (
        repeat(busy, [wish(busy, config={"advertiseKubernetesNetworks": True, "mtu": mtu}) for mtu in (1380, 1420)]) > 0
    )
    assert busy.traffic.count("leaked") == 0


def test_the_secret_changes(busy):
    repeat(
        busy,
        [
            wish(busy, mesh_secret=text)
            for text in ("AgIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=", busy.wants["a"]["kubespan"]["mesh_secret"])
        ],
    )
    assert busy.traffic.count("leaked") == 0


def test_the_key_changes(busy):
    """In place: the device stays. Peers that do not know the new key yet get nothing, and nothing leaves either."""
    before = busy.nodes["a"].run("ip", "-o", "link", "show", "kubespan").split(":")[0]
    repeat(busy, [wish(busy, private_key_file="/var/lib/other/kubespan.key"), wish(busy)])
    assert busy.nodes["a"].run("ip", "-o", "link", "show", "kubespan").split(":")[0] == before
    assert busy.traffic.count("leaked") == 0


def test_the_rules_are_those_of_another_generation(busy):
    assert repeat(busy, [wish(busy, generation=name) for name in ("v1.3", "current")]) > 0
    assert busy.traffic.count("leaked") == 0


def test_a_rule_is_replaced(busy):
    done = subprocess.run(
        busy.nodes["a"].command(sys.executable, "-B", "-c", RULES, MODULE_UTILS, str(REPEATS)),
        capture_output=True,
        text=True,
        check=False,
        env=flow_environment(),
        timeout=60 * SLOW,
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
