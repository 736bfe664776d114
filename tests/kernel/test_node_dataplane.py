# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two nodes and the tunnel between them from nothing to nothing, by the one flow that the play runs on each node.

``auto`` chooses who implements the devices: the kernel where it can, and this is where that is seen.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

#: See conftest.
SLOW = float(os.environ.get("MCN_SLOW", "1"))
DEVICE = {"a": "wireguard.b", "b": "wireguard.a"}
UNDERLAY = {"a": "192.0.2.1", "b": "192.0.2.2"}
PODS = {"a": "10.4.0", "b": "10.5.0"}
OTHER = {"a": "b", "b": "a"}


class Site:
    """Two nodes; ``wants`` is what each is asked to be."""

    def __init__(self, nodes, tmp_path):
        self.nodes = nodes
        self.wants = {}
        for name, node in self.nodes.items():
            node.run("ip", "address", "add", PODS[name] + ".1/32", "dev", "lo")
            self.wants[name] = {
                "fabric": "mesh",
                "persist": True,
                "max_deletes": None,
                "devices": [
                    {
                        "name": DEVICE[name],
                        "remote": OTHER[name],
                        "node": name,
                        "mtu": 1420,
                        "txqueuelen": 1000,
                        "listen_port": 51821,
                        "private_key_file": str(tmp_path / name / "key"),
                        "implementation": "auto",
                        "routes": [PODS[OTHER[name]] + ".0/24"],
                        "peers": [],
                    }
                ],
            }

    def run(self, name, check=False, **change):
        return self.nodes[name].flow("dataplane", dict(self.wants[name], **change), check)

    def ping(self, address, source=PODS["a"] + ".1"):
        """True when every packet came back."""
        words = ["ping", "-q", "-c", "3", "-i", "0.2", "-W", str(int(2 * SLOW)), "-I", source, address]
        return " 0% packet loss" in self.nodes["a"].run(*words, check=False)

    def seen(self, name):
        """What the node's own tools say of its dataplane, without counters."""
        node = self.nodes[name]
        wg = sorted(line.split("\t")[:5] for line in node.run("wg", "show", "all", "dump").splitlines())
        return (
            wg,
            node.run("ip", "-d", "link"),
            node.run("ip", "address"),
            node.run("ip", "route", "show", "table", "all"),
        )


@pytest.fixture(name="site")
def site_fixture(two_nodes, implementation, node, tmp_path, wait_for):
    if implementation == "userspace":
        made = node.run("sh", "-c", "ip link add probe type wireguard 2>/dev/null && echo yes || true")
        if made:
            pytest.skip("auto takes the kernel here, that is the other run of this test")
    site = Site(two_nodes(UNDERLAY), tmp_path)
    assert all(
        wait_for(lambda node=node: "state UP" in node.run("ip", "link", "show", "under"), 60 * SLOW)
        for node in site.nodes.values()
    )
    return site


def assert_nothing_is_written(site, name):
    """A run that reports no write, with netlink's own evidence for it."""
    before = site.seen(name)
    monitor = subprocess.Popen(
        site.nodes[name].command("ip", "monitor", "link", "address", "route"), stdout=subprocess.PIPE, text=True
    )
    time.sleep(0.2 * SLOW)
    again = site.run(name)
    time.sleep(0.1 * SLOW)
    monitor.terminate()
    assert monitor.communicate()[0] == ""
    assert not again["changed"] and not again["warnings"], again["diff"]
    assert again["stats"]["wireguard_writes"] == again["stats"]["netlink_writes"] == again["stats"]["file_writes"] == 0
    assert site.seen(name) == before


def test_from_nothing_to_nothing(site, implementation):
    clean = {name: site.seen(name) for name in "ab"}
    planned = site.run("a", check=True)
    assert planned["changed"] and site.seen("a") == clean["a"]

    keys = {name: site.run(name)["public_keys"][OTHER[name]] for name in "ab"}
    for name in "ab":
        site.wants[name]["devices"][0]["peers"] = [
            {
                "public_key": keys[OTHER[name]],
                "endpoint": UNDERLAY[OTHER[name]] + ":51821",
                "persistent_keepalive": 0,
                "allowed_ips": [PODS[OTHER[name]] + ".0/24"],
                "preshared_key": None,
            }
        ]
        made = site.run(name)
        assert made["plan"]["create"] == 1 and made["stats"]["wireguard_writes"] == 1 and not made["refused"], made
        shown = json.loads(site.nodes[name].run("ip", "-j", "-d", "link", "show", "dev", DEVICE[name]))[0]
        assert shown["linkinfo"]["info_kind"] == ("wireguard" if implementation == "kernel" else "tun")
        assert shown["ifalias"] == "multicluster.network/mesh"
    assert site.ping("10.5.0.1")
    for name in "ab":
        assert_nothing_is_written(site, name)

    # One changed peer: one message, and the new range is reachable.
    site.nodes["b"].run("ip", "address", "add", "10.6.0.1/32", "dev", "lo")
    site.wants["a"]["devices"][0]["peers"][0]["allowed_ips"].append("10.6.0.0/24")
    site.wants["a"]["devices"][0]["routes"].append("10.6.0.0/24")
    changed = site.run("a")
    assert (changed["plan"]["update"], changed["plan"]["create"], changed["stats"]["wireguard_writes"]) == (2, 1, 1), (
        changed["diff"]
    )
    assert site.ping("10.6.0.1") and site.ping("10.5.0.1")
    good = site.seen("a")

    # Drift: the peer, a route, the link's settings.
    node = site.nodes["a"]
    node.run("wg", "set", DEVICE["a"], "listen-port", "9", "peer", keys["b"], "remove")
    node.run("ip", "route", "del", "10.5.0.0/24")
    node.run("ip", "link", "set", DEVICE["a"], "mtu", "1300", "down")
    assert not site.ping("10.5.0.1")
    assert site.run("a")["changed"] and site.seen("a") == good
    assert site.ping("10.5.0.1") and site.ping("10.6.0.1")

    # A reboot takes the device along; what was persisted brings it back without Ansible.
    node.run("ip", "link", "del", DEVICE["a"])
    (code,) = node.run("sh", "-c", "ls /usr/local/lib/multicluster-network/mesh/*.pyz").split()
    node.run(sys.executable, "-B", code, "/var/lib/multicluster-network/mesh/dataplane.json")
    assert site.ping("10.5.0.1")
    assert_nothing_is_written(site, "a")

    for name in "ab":
        gone = site.run(name, devices=[], remove_keys=True)
        assert gone["changed"] and not gone["refused"]
        assert not site.run(name, devices=[], remove_keys=True)["changed"]
        assert not pathlib.Path(site.wants[name]["devices"][0]["private_key_file"]).exists()
        assert (
            site.nodes[name].run(
                "sh", "-c", "find /var/lib /usr/local/lib /etc/systemd/system -mindepth 1 -not -type d"
            )
            == ""
        )
    site.nodes["b"].run("ip", "address", "del", "10.6.0.1/32", "dev", "lo")
    assert {name: site.seen(name) for name in "ab"} == clean


def test_who_announces_the_key_of_a_node_of_another_cluster_does_not_get_its_place(site):
    """Three clusters: the third one's API server claims that the key of b's node is its own node's, with a name that comes first."""
    keys = {name: site.run(name)["public_keys"][OTHER[name]] for name in "ab"}
    peers = {}
    for name in "ab":
        peers[name] = {
            "public_key": keys[OTHER[name]],
            "endpoint": UNDERLAY[OTHER[name]] + ":51821",
            "persistent_keepalive": 0,
            "allowed_ips": [PODS[OTHER[name]] + ".0/24"],
            "preshared_key": None,
            "node": "zzz",
        }
        site.wants[name]["devices"][0]["peers"] = [peers[name]]
    third = dict(
        site.wants["a"]["devices"][0],
        name="wireguard.m",
        remote="m",
        listen_port=51822,
        routes=["10.6.0.0/24"],
        peers=[],
        private_key_file=site.wants["a"]["devices"][0]["private_key_file"] + ".m",
    )
    site.wants["a"]["devices"].append(third)
    for name in "ab":
        assert not site.run(name)["refused"]
    assert site.ping("10.5.0.1")

    said = {"declared": True, "reported": False, "greedy": False}
    robbed = dict(peers["a"], host="zzz", key_file="/z.key", **said)
    thief = dict(
        peers["a"],
        node="aaa",
        endpoint="192.0.2.66:51822",
        allowed_ips=["10.6.0.0/24"],
        host="host-of-aaa",
        key_file="/m.key",
        **said,
    )
    site.wants["a"]["devices"] = [
        dict(site.wants["a"]["devices"][0], peers=[], contested=[robbed]),
        dict(third, contested=[thief]),
    ]
    before = site.seen("a")
    found = site.run("a")
    (refusal,) = found["refused"]
    assert (refusal["object"], refusal["reason"]) == (
        "m/aaa",
        "claimed_twice",
    ) and "is held by b/zzz, which keeps it" in refusal["message"]
    assert refusal["message"].endswith("delete /m.key on host-of-aaa and run again")
    assert not found["changed"] and site.seen("a") == before and site.ping("10.5.0.1")
    # a node that has lost its state goes by the peers in its kernel
    site.nodes["a"].run("sh", "-c", "rm -r /var/lib/multicluster-network/*")
    found = site.run("a")
    assert (
        [refusal["object"] for refusal in found["refused"]] == ["m/aaa"]
        and site.seen("a") == before
        and site.ping("10.5.0.1")
    )
    assert_nothing_is_written(site, "a")
