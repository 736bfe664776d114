# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""KubeSpan on two nodes by the flow that the play runs: marked packets, and only they, go through the tunnel."""

from __future__ import annotations

import json
import re
import sys

import pytest
from conftest import SLOW

OTHER = {"a": "b", "b": "a"}
UNDERLAY = {"a": "192.0.2.11", "b": "192.0.2.12"}
PODS = {"a": "10.244.1", "b": "10.244.2"}
PODS6 = {"a": "fd00:1::", "b": "fd00:2::"}
MESH = {
    "mesh_id": "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=",
    "mesh_secret": "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=",
}
MAC = {"a": "52:54:00:aa:00:01", "b": "52:54:00:aa:00:02"}
ULA = {"a": "fd7a:6197:edb7:2302:5054:ff:feaa:1", "b": "fd7a:6197:edb7:2302:5054:ff:feaa:2"}


class Site:
    """Two nodes, each with an address on the underlay and pods that are addresses on lo."""

    def __init__(self, nodes, implementation):
        self.nodes = nodes
        self.wants = {}
        for name, node in self.nodes.items():
            for pods, length in ((PODS[name] + ".9", 32), (PODS6[name] + "9", 128)):
                node.run("ip", "address", "add", f"{pods}/{length}", "dev", "lo")
            # what is not marked goes out on the underlay
            node.run("ip", "route", "add", "default", "via", UNDERLAY[OTHER[name]])
            node.run("ip", "-6", "route", "add", "default", "dev", "under")
            kubespan = dict(
                MESH,
                cluster="c",
                node_name=name,
                mac=MAC[name],
                affiliates=[],
                complete=True,
                cluster_networks=["10.244.0.0/16", "fd00:1::/64", "fd00:2::/64"],
                pod_cidrs=[PODS[name] + ".0/24", PODS6[name] + "/64"],
                config={"advertiseKubernetesNetworks": True},
                implementation=implementation,
                watcher=False,
            )
            self.wants[name] = {
                "fabric": "mesh",
                "persist": True,
                "max_deletes": None,
                "devices": [],
                "kubespan": kubespan,
            }

    def run(self, name, check=False, **change):
        return self.nodes[name].flow("dataplane", dict(self.wants[name], **change), check)

    def join(self):
        """Both announce, then both know each other."""
        records = [self.run(name)["kubespan"]["record"] for name in "ab"]
        for name in "ab":
            self.wants[name]["kubespan"]["affiliates"] = records
        return [self.run(name) for name in "ab"]

    def ping(self, address, source):
        words = ["ping", "-q", "-c", "3", "-i", "0.2", "-W", str(int(2 * SLOW)), "-I", source, address]
        return " 0% packet loss" in self.nodes["a"].run(*words, check=False)

    def seen(self, name):
        node = self.nodes[name]
        wg = sorted(line.split("\t")[:5] for line in node.run("wg", "show", "all", "dump").splitlines())
        parts = (
            ["nft", "list", "ruleset"],
            ["ip", "rule"],
            ["ip", "-6", "rule"],
            ["ip", "-d", "link"],
            ["ip", "address"],
        )
        tables = (["ip", option, "route", "show", "table", "all"] for option in ("-4", "-6"))
        # a link that was made anew has another number and another link-local address
        texts = (
            re.sub(r"(?m)^\d+: |^.*fe80:.*\n(?: +valid_lft.*\n)?", "", node.run(*words)) for words in (*parts, *tables)
        )
        return [wg, *texts]


@pytest.fixture(name="site")
def site_fixture(two_nodes, implementation, wait_for):
    site = Site(two_nodes(UNDERLAY), implementation)
    assert all(
        wait_for(lambda node=node: "state UP" in node.run("ip", "link", "show", "under"), 60 * SLOW)
        for node in site.nodes.values()
    )
    return site


def test_from_nothing_to_nothing(site, implementation):
    clean = {name: site.seen(name) for name in "ab"}
    planned = site.run("a", check=True)
    assert planned["changed"] and site.seen("a") == clean["a"] and planned["kubespan"]["address"] == ULA["a"]
    for made in site.join():
        assert not made["refused"] and made["kubespan"]["peers"] == 1, made
    assert site.ping(UNDERLAY["b"], UNDERLAY["a"]) and site.ping(PODS["b"] + ".9", PODS["a"] + ".9")
    assert site.ping(PODS6["b"] + "9", PODS6["a"] + "9") and site.ping(ULA["b"], ULA["a"])
    node = site.nodes["a"]
    # kubespan 11.5, 12, 13, 20
    assert "192.0.2.12" in node.run("nft", "list", "set", "inet", "talos_kubespan", "kubespan_targets_ipv4")
    ruleset = node.run("nft", "list", "ruleset")
    assert "tcp option maxseg size > 1368 tcp option maxseg size set 1368" in ruleset
    assert "ip daddr @kubespan_targets_ipv4 meta mark set meta mark & 0xffffffdf | 0x00000040 accept" in ruleset
    for option in ("-4", "-6"):
        assert "32500:\tfrom all fwmark 0x40/0x60 lookup 180 proto static" in node.run("ip", option, "rule")
    assert [line.rstrip() for line in node.run("ip", "route", "show", "table", "180").splitlines()] == [
        "default dev kubespan proto static metric 1 mtu 1420",
        "unreachable default proto static metric 4278198272",
    ]
    assert [line.rstrip() for line in node.run("ip", "-6", "route", "show", "table", "180").splitlines()] == [
        "default dev kubespan proto static metric 1 mtu 1420 pref medium",
        "unreachable default dev lo proto static metric 4278198272 pref medium",
    ]
    link = json.loads(node.run("ip", "-j", "address", "show", "kubespan"))[0]
    own = [(item["local"], item["prefixlen"]) for item in link["addr_info"] if not item["local"].startswith("fe80")]
    assert own == [(ULA["a"], 64)] and link["mtu"] == 1420
    wg = node.run("wg", "show", "kubespan")
    assert "fwmark: 0x20" in wg and "preshared key: (hidden)" in wg and "every 25 seconds" in wg
    keys = node.run("sh", "-c", "sha256sum /var/lib/multicluster-network/mesh/*.key")
    # every packet went through the tunnel: by the uplink's own address the other side saw none
    for mark, way in (
        ("0x40", "kubespan"),
        ("0xf40", "kubespan"),
        ("0x10040", "kubespan"),
        ("0x20", "under"),
        ("0x60", "under"),
        ("0", "under"),
    ):
        assert "dev " + way in node.run("ip", "route", "get", PODS["b"] + ".9", "mark", mark), mark
    for name in "ab":
        before = site.seen(name)
        again = site.run(name)
        assert not again["changed"] and not again["warnings"], again["diff"]
        assert (
            again["stats"]["wireguard_writes"] == again["stats"]["netlink_writes"] == again["stats"]["file_writes"] == 0
        )
        assert site.seen(name) == before
    assert node.run("sh", "-c", "sha256sum /var/lib/multicluster-network/mesh/*.key") == keys
    # a reboot
    node.run(
        "sh",
        "-c",
        "ip link del kubespan; nft delete table inet talos_kubespan; ip rule del pref 32500; ip -6 rule del pref 32500",
    )
    node.run("ip", "route", "flush", "table", "180")
    (code,) = node.run("sh", "-c", "ls /usr/local/lib/multicluster-network/mesh/*.pyz").split()
    node.run(sys.executable, "-B", code, "/var/lib/multicluster-network/mesh/dataplane.json")
    assert site.ping(PODS["b"] + ".9", PODS["a"] + ".9") and not site.run("a")["changed"]
    # unowned things stay
    node.run("ip", "route", "add", "198.51.100.0/24", "via", UNDERLAY["b"], "table", "180")
    node.run("ip", "rule", "add", "pref", "32400", "fwmark", "0x1/0x1", "lookup", "180")
    for name in "ab":
        gone = site.run(name, kubespan=None)
        assert gone["changed"] and not gone["refused"], gone
        assert not site.run(name, kubespan=None)["changed"]
    assert "198.51.100.0/24" in node.run("ip", "route", "show", "table", "180") and "32400" in node.run("ip", "rule")
    node.run("ip", "route", "flush", "table", "180")
    node.run("ip", "rule", "del", "pref", "32400")
    assert node.run("ls", "/var/lib/multicluster-network/mesh").split() == ["kubespan-identity.json", "kubespan.key"]
    assert site.run("a", kubespan=None, remove_keys=True)["changed"]
    assert node.run("sh", "-c", "find /var/lib /usr/local/lib /etc/systemd/system -mindepth 1 -not -type d") == ""
    assert {name: site.seen(name) for name in "ab"} == clean


def test_rolled_back_it_is_as_before(site, wait_for):
    clean = site.seen("a")
    site.run("a", rollback_seconds=1)
    node = site.nodes["a"]
    journal = "/var/lib/multicluster-network/mesh/transaction.json"
    over = ["sh", "-c", f"test -e {journal} || echo over"]
    assert wait_for(lambda: node.run(*over), 60 * SLOW)
    assert site.seen("a") == clean
    site.join()
    before = site.seen("a")
    other = dict(site.wants["a"]["kubespan"], config={"mtu": 1300}, affiliates=[])
    site.run("a", rollback_seconds=1, kubespan=other)
    assert site.seen("a") != before
    assert wait_for(lambda: node.run(*over), 60 * SLOW)
    assert site.seen("a") == before
    site.run("a", rollback_seconds=1, kubespan=None)
    assert "kubespan" not in node.run("ip", "link")
    assert wait_for(lambda: node.run(*over), 60 * SLOW)
    assert not site.run("a")["changed"] and site.ping(PODS["b"] + ".9", PODS["a"] + ".9")


def watch(site, name, now=None):
    """One pass of the watcher; its clock is the test's."""
    shown = dict(site.nodes[name].flow("node.kubespan.watch", "mesh", now))
    return {row["label"]: row for row in shown["peers"]}, shown["written"]


def targets_of(node):
    return node.run("nft", "list", "set", "inet", "talos_kubespan", "kubespan_targets_ipv4")


def endpoints(site, name, *texts):
    for record in site.wants["a"]["kubespan"]["affiliates"]:
        if record["node"] == name:
            record["endpoints"] = list(texts)


def test_the_second_endpoint_is_tried_and_stays(site, wait_for):
    site.join()
    node = site.nodes["a"]
    node.run("wg", "set", "kubespan", "peer", node.run("wg", "show", "kubespan", "peers").strip(), "remove")
    endpoints(site, "b", "192.0.2.99:51820", UNDERLAY["b"] + ":51820")
    site.wants["a"]["kubespan"]["config"]["allowDownPeerBypass"] = True
    site.wants["a"]["kubespan"]["watcher"] = True
    site.nodes["b"].run("ip", "link", "set", "kubespan", "down")  # or it would find us by itself
    site.run("a")
    assert "192.0.2.99:51820" in node.run("wg", "show", "kubespan", "endpoints")
    start = float(node.run("date", "+%s.%N")) - 100  # handshakes to come are later than our clock until then
    rows, dummy = watch(site, "a", start)
    assert rows["b"]["state"] == "unknown" and rows["b"]["last_used_endpoint"] == "192.0.2.99:51820"
    rows, dummy = watch(site, "a", start + 14)
    assert rows["b"]["last_used_endpoint"] == "192.0.2.99:51820"
    rows, written = watch(site, "a", start + 30)
    assert rows["b"]["last_used_endpoint"] == UNDERLAY["b"] + ":51820" and written
    assert UNDERLAY["b"] + ":51820" in node.run("wg", "show", "kubespan", "endpoints")
    # bypass allowed: nothing is steered to a peer that is not up
    assert "10.244.2.0/24" not in targets_of(node)
    site.nodes["b"].run("ip", "link", "set", "kubespan", "up")
    site.run("b")
    assert wait_for(lambda: site.ping(ULA["b"], ULA["a"]), 60 * SLOW)
    handshake = float(node.run("wg", "show", "kubespan", "latest-handshakes").split()[1])
    rows, dummy = watch(site, "a", handshake + 16)
    assert rows["b"]["state"] == "up" and "10.244.2.0/24" in targets_of(node)
    # the play does not take away what the watcher knows
    again = site.run("a")
    assert not again["changed"], again["diff"]
    # a stopped peer: down when nothing was heard for 275 s, and out of the sets
    handshake = float(node.run("wg", "show", "kubespan", "latest-handshakes").split()[1])
    rows, dummy = watch(site, "a", handshake + 274)
    assert rows["b"]["state"] == "up"
    site.nodes["b"].run("ip", "link", "del", "kubespan")
    handshake = float(node.run("wg", "show", "kubespan", "latest-handshakes").split()[1])
    rows, dummy = watch(site, "a", handshake + 276)  # wg shows whole seconds
    assert rows["b"]["state"] != "up" and "10.244.2.0/24" not in targets_of(node)
    assert not site.run("a")["changed"]
    shown = node.run("cat", "/run/multicluster-network/mesh-kubespan.prom")
    assert 'multicluster_kubespan_peer_state{peer="b"' in shown


def test_a_roaming_peer_is_left_alone_and_lost_memory_does_no_harm(site, wait_for):
    site.wants["a"]["kubespan"].update(
        watcher=True, config={"advertiseKubernetesNetworks": True, "harvestExtraEndpoints": True}
    )
    site.join()
    node = site.nodes["a"]
    assert wait_for(lambda: site.ping(ULA["b"], ULA["a"]), 60 * SLOW)
    now = float(node.run("date", "+%s.%N"))
    rows, dummy = watch(site, "a", now)
    assert (
        rows["b"]["last_used_endpoint"] == UNDERLAY["b"] + ":51820" and rows["b"]["state"] == "up"
    )  # adopted, not tried anew
    site.nodes["b"].run("wg", "set", "kubespan", "listen-port", "51999")
    assert wait_for(
        lambda: (
            ":51999" in site.nodes["a"].run("wg", "show", "kubespan", "endpoints")
            or not site.nodes["b"].run("ping", "-c", "1", "-W", "1", "-I", ULA["b"], ULA["a"], check=False)
        ),
        60 * SLOW,
    )
    assert ":51999" in node.run("wg", "show", "kubespan", "endpoints")
    for seconds in (1, 31):
        watch(site, "a", now + seconds)
        assert ":51999" in node.run("wg", "show", "kubespan", "endpoints")
    ident = site.wants["a"]["kubespan"]["affiliates"][1]["node_id"]
    assert site.run("a")["kubespan"]["harvested"] == [{"affiliate_id": ident, "endpoint": UNDERLAY["b"] + ":51999"}]
    node.run("rm", "/var/lib/multicluster-network/mesh/kubespan-watch.json")
    rows, dummy = watch(site, "a", now + 32)
    assert ":51999" in node.run("wg", "show", "kubespan", "endpoints") and rows["b"]["state"] == "up"
    rows, dummy = watch(site, "a", now - 86400)  # somebody set the clock
    assert ":51999" in node.run("wg", "show", "kubespan", "endpoints")


HARMS = (
    "ip link set kubespan down",
    "ip link set kubespan down && ip link set kubespan up",
    "ip link del kubespan",
    "nft flush ruleset",
    "nft delete element inet talos_kubespan kubespan_targets_ipv4 '{ 10.244.2.0/24 }'",
    "ip rule del pref 32500",
    "ip -6 rule del pref 32500",
    "ip route del default dev kubespan table 180",
    "ip -6 route flush table 180",
    "ip address flush dev kubespan",
    "wg set kubespan peer $(wg show kubespan peers) remove",
    "wg set kubespan fwmark 0",
    "ip link set kubespan mtu 1300",
)


def watched(site, wait_for):
    """The first node of a mesh, after a pass of its watcher."""
    site.wants["a"]["kubespan"]["watcher"] = True
    site.join()
    assert wait_for(lambda: site.ping(ULA["b"], ULA["a"]), 60 * SLOW)
    watch(site, "a")
    return site.nodes["a"]


def test_whatever_others_break_is_repaired_by_the_next_pass(site, wait_for):
    """Kubespan 24.8; and without the device or its routes nothing leaves in clear text."""
    node = watched(site, wait_for)
    before = site.seen("a")
    for harm in HARMS:
        node.run("sh", "-c", harm)
        assert site.seen("a") != before, harm
        route = node.run("ip", "route", "get", PODS["b"] + ".9", "mark", "0x40", check=False)
        assert "dev under" not in route or "rule" in harm, harm
        dummy, written = watch(site, "a")
        assert written, harm
        assert site.seen("a") == before, harm
        assert site.ping(PODS["b"] + ".9", PODS["a"] + ".9"), harm
    assert not watch(site, "a")[1]


def test_without_its_key_file_the_device_keeps_the_key_that_others_know(site, wait_for):
    """A key that the watcher made would cut the node off from all others until a play has published it."""
    node = watched(site, wait_for)
    key, file = node.run("wg", "show", "kubespan", "public-key"), "/var/lib/multicluster-network/mesh/kubespan.key"
    node.run("rm", file)
    node.run("ip", "link", "set", "kubespan", "mtu", "1300")
    dummy, written = watch(site, "a")
    assert written, "it repairs the rest"
    assert node.run("wg", "show", "kubespan", "public-key") == key and not watch(site, "a")[1]
    assert node.run("ls", file, check=False) == ""
    assert site.run("a")["changed"], "a play makes a new one, and shows which pairs wait for it"
    assert node.run("wg", "show", "kubespan", "public-key") != key


def test_others_in_our_place_are_named_before_anything_is_written(site):
    node = site.nodes["a"]
    for harm, reason, undo in (
        ("ip rule add pref 32500 fwmark 0x1 lookup 99", "priority_taken", "ip rule del pref 32500"),
        ("ip route add default via 192.0.2.12 table 180", "table_taken", "ip route flush table 180"),
        ("sysctl -q net.ipv4.conf.all.rp_filter=1", "rp_filter_strict", "sysctl -q net.ipv4.conf.all.rp_filter=0"),
        ("nft add table inet talos_kubespan", "adoptable", "nft delete table inet talos_kubespan"),
        ("ip link add kubespan type veth peer name other", "not_ours", "ip link del kubespan"),
    ):
        node.run("sh", "-c", harm)
        before = site.seen("a")
        made = site.run("a")
        assert reason in [refusal["reason"] for refusal in made["refused"]], (harm, made["refused"])
        assert site.seen("a") == before, harm
        node.run("sh", "-c", undo)
    assert not site.run("a")["refused"] and site.run("a")["changed"] is False


def test_a_device_of_the_mesh_of_another_mode_gives_its_port_up(site):
    """A changed ``multicluster_mesh``: the port is that of a device that the same run removes."""
    device = {
        "name": "wireguard.b",
        "remote": "b",
        "node": "a",
        "mtu": 1420,
        "txqueuelen": 1000,
        "listen_port": 51820,
        "private_key_file": "/var/lib/wg/key",
        "implementation": "auto",
        "routes": [PODS["b"] + ".0/24"],
        "peers": [],
    }
    assert not site.run("a", kubespan=None, devices=[device])["refused"]
    assert "51820" in site.nodes["a"].run("wg", "show", "wireguard.b", "listen-port")
    made = site.run("a")
    assert not made["refused"], made["refused"]
    assert site.nodes["a"].run("wg", "show", "interfaces").split() == ["kubespan"]
    assert not site.run("a")["changed"]
    # and back
    assert not site.run("a", kubespan=None, devices=[device])["refused"]
    assert site.nodes["a"].run("wg", "show", "interfaces").split() == ["wireguard.b"]


@pytest.mark.parametrize(
    "value, reason",
    [
        ({"mtu": 1279}, "bad_mtu"),
        ({"mtu": 0}, "bad_mtu"),
        ({"filters": {"endpoints": [" 10.0.0.0/8"]}}, "invalid_filter"),
    ],
)
def test_bad_settings_are_refused(site, flow_failed, value, reason):
    before = site.seen("a")
    with pytest.raises(flow_failed):
        site.run("a", kubespan=dict(site.wants["a"]["kubespan"], config=value))
    assert site.seen("a") == before and reason
