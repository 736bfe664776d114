# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pod ranges of peers alone, on real devices: what carries packets, what a boot restores, and what is left as it was."""

from __future__ import annotations

import json
import sys

import pytest
from test_node_dataplane import DEVICE, OTHER, UNDERLAY, site_fixture  # pylint: disable=unused-import

__all__ = ["site_fixture"]
STATE = "/var/lib/multicluster-network/mesh/dataplane.json"


def converged(site):
    """Both nodes with their tunnel, where a has a route to more than the one range of b; the public keys."""
    site.wants["a"]["devices"][0]["routes"] = ["10.5.0.0/16"]
    keys = {name: site.run(name)["public_keys"][OTHER[name]] for name in "ab"}
    for name, cidr in (("a", "10.5.0.0/24"), ("b", "10.4.0.0/24")):
        peer = {
            "public_key": keys[OTHER[name]],
            "endpoint": UNDERLAY[OTHER[name]] + ":51821",
            "persistent_keepalive": 0,
            "allowed_ips": [cidr],
            "preshared_key": None,
            "node": OTHER[name],
        }
        site.wants[name]["devices"][0]["peers"] = [peer]
        assert not site.run(name)["refused"]
    site.nodes["b"].run("ip", "address", "add", "10.5.9.1/32", "dev", "lo")
    return keys


def change(site, peers, check=False, borrowed=(), **more):
    order = {DEVICE["a"]: {"peers": peers, "borrowed": list(borrowed)}}
    return site.nodes["a"].flow("peer_ranges", {"fabric": "mesh", "node": "a", "orders": order, **more}, check)


def test_a_further_range_is_one_message_and_survives_a_boot(site):
    keys = converged(site)
    assert site.ping("10.5.0.1") and not site.ping("10.5.9.1")
    node, before = site.nodes["a"], site.seen("a")

    planned = change(site, {keys["b"]: ["10.5.0.0/24", "10.5.9.0/26"]}, check=True)
    assert planned["changed"] and site.seen("a") == before

    changed = change(site, {keys["b"]: ["10.5.0.0/24", "10.5.9.0/26"]})
    assert changed["changed"] and not changed["refused"]
    assert (changed["stats"]["wireguard_writes"], changed["stats"]["netlink_writes"]) == (1, 0)
    assert site.ping("10.5.9.1") and site.ping("10.5.0.1")
    assert site.seen("a")[1:] == before[1:], "links, addresses and routes are as they were"
    assert not change(site, {keys["b"]: ["10.5.0.0/24", "10.5.9.0/26"]})["changed"]

    # a boot has the same, and a run finds nothing to do
    node.run("ip", "link", "del", DEVICE["a"])
    (code,) = node.run("sh", "-c", "ls /usr/local/lib/multicluster-network/mesh/*.pyz").split()
    node.run(sys.executable, "-B", code, STATE)
    assert site.ping("10.5.9.1")
    site.wants["a"]["devices"][0]["peers"][0]["allowed_ips"].append("10.5.9.0/26")
    assert not site.run("a")["changed"]

    gone = change(site, {keys["b"]: ["10.5.0.0/24"]})
    assert gone["changed"] and site.ping("10.5.0.1") and not site.ping("10.5.9.1")


def test_what_else_the_node_has_stays_as_somebody_set_it(site):
    keys = converged(site)
    node = site.nodes["a"]
    node.run("wg", "set", DEVICE["a"], "peer", keys["b"], "persistent-keepalive", "25")
    node.run("ip", "link", "set", DEVICE["a"], "mtu", "1300")
    change(site, {keys["b"]: ["10.5.9.0/26"]})
    shown = node.run("wg", "show", DEVICE["a"], "dump")
    assert "\t25\n" in shown and "10.5.9.0/26" in shown and "10.5.0.0/24" not in shown
    assert json.loads(node.run("ip", "-j", "link", "show", "dev", DEVICE["a"]))[0]["mtu"] == 1300


def test_what_is_not_a_change_of_ranges_alone_changes_nothing(site, flow_failed):
    keys = converged(site)
    node = site.nodes["a"]
    state, before = node.run("cat", STATE), site.seen("a")
    for peers, text in (
        ({keys["a"]: ["10.5.9.0/26"]}, "has no peer"),
        ({keys["b"]: ["10.6.0.0/24"]}, "outside of the routes"),
    ):
        with pytest.raises(flow_failed, match=text):
            change(site, peers)
    with pytest.raises(flow_failed, match="another host|is host"):
        change(site, {keys["b"]: []}, node="c")
    assert (node.run("cat", STATE), site.seen("a")) == (state, before)

    node.run("ip", "link", "set", DEVICE["a"], "alias", "another program")
    with pytest.raises(flow_failed, match="left alone"):
        change(site, {keys["b"]: ["10.5.9.0/26"]})
    assert node.run("cat", STATE) == state and "10.5.9.0/26" not in node.run("wg", "show", DEVICE["a"], "dump")

    node.run("ip", "link", "del", DEVICE["a"])
    with pytest.raises(flow_failed, match="is not there"):
        change(site, {keys["b"]: ["10.5.9.0/26"]})
    node.run("rm", STATE)
    with pytest.raises(flow_failed, match="no confirmed state"):
        change(site, {keys["b"]: ["10.5.9.0/26"]})


def test_a_change_that_waits_for_its_confirmation_is_not_touched(site, flow_failed):
    """Its confirmation puts its own state in place of the confirmed one, which would take the ranges away again."""
    keys = converged(site)
    site.wants["a"]["devices"][0]["mtu"] = 1380
    opened = site.run("a", rollback_seconds=600)["transaction"]
    with pytest.raises(flow_failed, match="waits for its confirmation"):
        change(site, {keys["b"]: ["10.5.9.0/26"]}, wait_seconds=0)
    assert "10.5.9.0/26" not in site.nodes["a"].run("wg", "show", DEVICE["a"], "dump")
    (code,) = site.nodes["a"].run("sh", "-c", "ls /usr/local/lib/multicluster-network/mesh/*.pyz").split()
    site.nodes["a"].run(sys.executable, "-B", code, "rollback", "mesh", opened["id"])
    change(site, {keys["b"]: ["10.5.9.0/26"]}, wait_seconds=0)
    assert site.ping("10.5.9.1")
