# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node that another program made is taken over and left to it again: what that program sees is what it left, byte for byte."""

from __future__ import annotations

import pytest
from test_node_dataplane import DEVICE, OTHER, PODS, SLOW, UNDERLAY, assert_nothing_is_written, site_fixture  # pylint: disable=unused-import

__all__ = ["site_fixture"]


def made_by_hand(site, name):
    """What semaphore-wireguard makes on a node: device, key, port, route of no protocol that anybody chose. Returns the public key."""
    node, desired = site.nodes[name], site.wants[name]["devices"][0]
    key = node.run("wg", "genkey").strip()
    node.run("mkdir", "-p", desired["private_key_file"].rpartition("/")[0])
    node.run("sh", "-c", "umask 077; cat > " + desired["private_key_file"], stdin=key)
    node.run("sh", "-c", "ip link add {0} type wireguard 2>/dev/null || wireguard-go {0}".format(DEVICE[name]))
    node.run("ip", "link", "set", DEVICE[name], "mtu", "1420", "txqueuelen", "1000")
    node.run("wg", "set", DEVICE[name], "private-key", desired["private_key_file"], "listen-port", "51821")
    node.run("ip", "link", "set", DEVICE[name], "up")
    node.run("ip", "route", "replace", desired["routes"][0], "dev", DEVICE[name], "scope", "link")
    return node.run("wg", "pubkey", stdin=key).strip()


@pytest.fixture(name="taken")
def both_nodes_of_another_program(site, wait_for):
    keys = {name: made_by_hand(site, name) for name in "ab"}
    for name in "ab":
        other = OTHER[name]
        site.nodes[name].run(
            "wg",
            "set",
            DEVICE[name],
            "peer",
            keys[other],
            "endpoint",
            UNDERLAY[other] + ":51821",
            "persistent-keepalive",
            "25",
            "allowed-ips",
            PODS[other] + ".0/24",
        )
        site.wants[name]["devices"][0]["peers"] = [
            {
                "public_key": keys[other],
                "endpoint": UNDERLAY[other] + ":51821",
                "persistent_keepalive": 25,
                "allowed_ips": [PODS[other] + ".0/24"],
                "preshared_key": None,
            }
        ]
    # the first handshake may be the one that its receiver does not know yet: WireGuard tries again after five seconds
    assert wait_for(lambda: site.ping("10.5.0.1"), 60 * SLOW)
    return site


def files_of(node):
    return node.run("sh", "-c", "find /var/lib /usr/local/lib /etc/systemd/system -mindepth 1 -not -type d | sort")


def test_taken_over_and_left_as_it_was(taken):
    site = taken
    before = {name: site.seen(name) for name in "ab"}
    files = {name: files_of(site.nodes[name]) for name in "ab"}
    refused = site.run("a")
    assert {row["reason"] for row in refused["refused"]} == {"adoptable"} and site.seen("a") == before["a"]
    assert not refused["changed"] and files_of(site.nodes["a"]) == files["a"], (
        "an owned state on a node of another program"
    )
    for name in "ab":
        adopted = site.run(name, devices=[dict(site.wants[name]["devices"][0])], adopt=True)
        assert adopted["changed"] and not adopted["refused"], adopted["refused"]
        assert adopted["plan"]["delete"] == 0 and not [
            one for one in adopted["plan"]["changes"] if one["kind"] == "peer"
        ]
        assert_nothing_is_written(site, name)
    assert "multicluster.network/mesh" in site.nodes["a"].run("ip", "-d", "link") and site.ping("10.5.0.1")

    planned = site.run("a", check=True, devices=[], released=True)
    assert {(one["action"], one["kind"]) for one in planned["plan"]["changes"] if one["kind"] != "file"} == {
        ("update", "route"),
        ("update", "link"),
    }
    for name in "ab":
        left = site.run(name, devices=[], released=True)
        assert left["changed"] and not left["refused"]
        assert site.seen(name) == before[name] and files_of(site.nodes[name]) == files[name]
        assert not site.run(name, devices=[], released=True)["changed"]
    assert site.ping("10.5.0.1")
    assert {row["reason"] for row in site.run("a")["refused"]} == {"adoptable"}, "it is another program's again"


def test_a_change_while_it_was_owned_stays_when_it_is_left(taken):
    site = taken
    site.run("a", adopt=True)
    peer = site.wants["a"]["devices"][0]["peers"][0]
    peer["allowed_ips"] = [PODS["b"] + ".0/25"]
    assert site.run("a")["changed"]
    assert site.run("a", devices=[], released=True)["changed"]
    assert PODS["b"] + ".0/25" in site.nodes["a"].run("wg", "show", DEVICE["a"], "allowed-ips")
    assert "proto" not in site.nodes["a"].run("ip", "route", "show", "dev", DEVICE["a"])


def test_what_nobody_confirms_stays_owned(taken):
    """Left under a timer: who comes before the confirmation finds it taken back, like any other change."""
    site = taken
    site.run("a", adopt=True)
    owned, files = site.seen("a"), files_of(site.nodes["a"])
    opened = site.run("a", devices=[], released=True, rollback_seconds=300)
    assert opened["transaction"]["seconds"] == 300 and site.seen("a") != owned
    again = site.run("a")
    assert not again["changed"] and "was never confirmed" in again["warnings"][0], again
    assert site.seen("a") == owned and files_of(site.nodes["a"]) == files
