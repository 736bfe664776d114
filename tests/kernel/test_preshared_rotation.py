# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Preshared keys of two nodes that are turned on, rotated and turned off under traffic, by the plan and the flows that the playbook follows.

Both back ends have them: the kernel's WireGuard where there is one, and wireguard-go.
"""

from __future__ import annotations

import json

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.rotation import (
    DONE,
    GO_ASIDE,
    GO_BACK,
    NO_STEP,
    PREPARE,
    RENEW,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.generations import (
    node_devices,
    unread_devices,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.preshared_keys import with_keys
from ansible_collections.multicluster.network.plugins.module_utils._values.keys import encode_key
from test_rotation import CLUSTER, FILTERS, UNDERLAY, Pair, steady_rate

SECRET = bytes(range(32))
FOLDER = "/var/lib/semaphore-wireguard"


class PresharedPair(Pair):
    """Two nodes with one peer each."""

    secret = SECRET

    def wish(self, host, mesh):
        devices, keys = with_keys(node_devices(mesh, host), "pair", self.secret)
        rows = [dict(device, node=host) for device in devices]
        return {
            "fabric": "pair",
            "node": host,
            "devices": rows,
            "unread_devices": unread_devices(mesh, host),
            "preshared_keys": keys,
        }

    def apply(self, host, mesh):
        result = self.nodes[host].flow("dataplane", self.wish(host, mesh), False)
        assert not result["refused"], result["refused"]
        assert not [key for key in self.wish(host, mesh)["preshared_keys"].values() if key in json.dumps(result)]
        self.keys[host] = result["public_keys"]
        return result

    def live(self, host):
        """The preshared keys of the peers of a node's devices, as WireGuard has them."""
        rows = self.nodes[host].run("wg", "show", "all", "preshared-keys").split("\n")
        return [row.split()[2] for row in rows if row]

    def files(self, host):
        return [name for name in self.nodes[host].run("ls", FOLDER).split() if name.endswith(".psk")]

    def rotate(self):
        for step in (PREPARE, GO_ASIDE, RENEW, GO_BACK, DONE):
            self.step(step)


@pytest.fixture(name="pair")
def pair_fixture(two_nodes, implementation, tmp_path):
    del implementation  # auto takes the kernel where that has WireGuard
    pair = PresharedPair(two_nodes(UNDERLAY), tmp_path, FILTERS["strict"])
    pair.step(NO_STEP)
    return pair


def judged(pair, present):
    """Both ends have the same preshared key, in one file each that root alone reads, or none at all."""
    for host in "ab":
        assert pair.device(host) == ["wireguard." + CLUSTER["ba"["ab".index(host)]]]
        assert len(pair.files(host)) == int(present)
        for name in pair.files(host):
            path = f"{FOLDER}/{name}"
            assert pair.nodes[host].run("stat", "-c", "%a %u", path).strip() == "600 0"
            assert pair.nodes[host].run("cat", path) in pair.live(host)
        state = pair.nodes[host].run("cat", "/var/lib/multicluster-network/pair/dataplane.json")
        assert not [key for key in pair.live(host) if key != "(none)" and key in state]
        assert encode_key(SECRET) not in state
        held = {name: value for name, value in pair.annotations[host].items() if ".rotation." in name}
        assert list(held.values()) == ([str(pair.preshared)] if present else [])
    assert pair.live("a") == pair.live("b") and (pair.live("a") == ["(none)"]) != present


@pytest.mark.takes_long
def test_preshared_keys_go_on_change_and_go_off_without_a_lost_packet(pair):
    rate, seen = steady_rate(pair), set()
    with pair.traffic(rate) as counted:
        for generation in (1, 2, 0):
            pair.preshared = generation
            pair.step(NO_STEP)  # site in between leaves what there is
            pair.rotate()
            judged(pair, bool(generation))
            seen.update(pair.live("a"))
    assert counted.lost == 0 and counted.broken == [] and counted.sent > 100, counted
    assert len(seen) == 3


def test_a_change_that_nobody_confirms_is_taken_back_with_its_preshared_keys(pair, wait_for):
    pair.preshared = 1
    pair.rotate()
    before = pair.live("a"), pair.files("a")
    mesh = pair.plan(NO_STEP)
    wish = dict(pair.wish("a", mesh), rollback_seconds=2)
    for device in wish["devices"]:
        for peer in device["peers"]:
            peer["preshared_key"] = None
    assert "transaction" in pair.nodes["a"].flow("dataplane", dict(wish, preshared_keys={}), False)
    assert wait_for(lambda: (pair.live("a"), pair.files("a")) == before, 60)


def test_a_second_run_writes_nothing_and_a_file_that_was_changed_is_put_back(pair):
    pair.preshared = 1
    pair.rotate()
    mesh = pair.plan(NO_STEP)
    assert not pair.apply("a", mesh)["changed"]
    (name,) = pair.files("a")
    before = pair.nodes["a"].run("cat", f"{FOLDER}/{name}")
    pair.nodes["a"].run("sh", "-c", f"echo wrong > {FOLDER}/{name}")
    assert pair.apply("a", mesh)["changed"] and pair.nodes["a"].run("cat", f"{FOLDER}/{name}") == before


def test_a_node_with_another_secret_gets_no_session(pair):
    """The control: a preshared key is checked. What a forged annotation gets is a key that its writer does not have."""
    pair.preshared = 1
    pair.rotate()
    mesh = pair.plan(NO_STEP)
    peers = {"device": "wireguard.gcp", "peers": [pair.keys["b"]["aws"]]}
    for secret, missing in ((bytes(32 * [7]), 1), (SECRET, 0)):
        pair.nodes["a"].run("ip", "link", "delete", "wireguard.gcp")
        pair.secret = secret
        pair.apply("a", mesh)
        asked = {"tunnels": [peers], "quiet": False, "quiet_seconds": 1.0, "timeout": 8.0 if missing else 60.0}
        assert len(pair.nodes["a"].flow("handshakes", asked)["missing"]) == missing
