# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""New keys for two nodes of a KubeSpan mesh under traffic between pods, between the nodes themselves, and between their addresses in the mesh.

As test_rotation.py, by the plan that the playbook follows and the flow that it runs on nodes.
"""

from __future__ import annotations

import json
import re
import sys

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.rotation import (
    DONE,
    GO_ASIDE,
    GO_BACK,
    NO_STEP,
    PREPARE,
    RENEW,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kubespan import (
    annotations_to_publish,
    plan_kubespan_mesh,
)
from ansible_collections.multicluster.network.plugins.plugin_utils import node_part
from conftest import SLOW
from test_rotation import FILTERS, PODS, UNDERLAY, Pair, steady_rate

FOLDER = "/var/lib/multicluster-network/pair"
MESH_ID = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
ULA = {"a": "fd7a:6197:edb7:2302:5054:ff:feaa:1", "b": "fd7a:6197:edb7:2302:5054:ff:feaa:2"}
#: Without a change of any kind every packet between the addresses of a kind goes through the tunnel.
KINDS = {"pods": PODS, "nodes": UNDERLAY, "mesh": ULA}
ROTATIONS = 2 if SLOW > 1 else 1


class KubespanPair(Pair):
    """Two nodes of a KubeSpan mesh."""

    def __init__(self, nodes, tmp_path, filters, implementation):
        super().__init__(nodes, tmp_path, filters)
        self.settings = {
            host: {
                "mesh_id": MESH_ID,
                "mesh_secret": "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=",
                "mac": f"52:54:00:aa:00:0{number}",
                "config": {"advertiseKubernetesNetworks": True},
                "implementation": implementation,
                "watcher": False,
            }
            for number, host in enumerate("ab", 1)
        }

    def mesh(self, listings, reports):
        return plan_kubespan_mesh(self.fabric, listings, MESH_ID, reports)

    def wish(self, host, mesh):
        settings = self.settings[host]
        devices = node_part.bypass(mesh, node_part.devices(mesh, host), settings)
        return {
            "devices": [dict(device, node=host) for device in devices],
            "kubespan": node_part.kubespan_part(mesh, host, settings),
        }

    def to_publish(self, mesh):
        announced = {host: result["kubespan"]["annotations"] for host, result in self.results.items()}
        return annotations_to_publish(mesh, announced, None, self.keys)

    def key(self, host):
        return self.nodes[host].run("wg", "show", "kubespan", "public-key").strip()

    def own_addresses(self, host, device):
        (link,) = json.loads(self.nodes[host].run("ip", "-j", "address", "show", device))
        return sorted(row["local"] for row in link["addr_info"] if not row["local"].startswith("fe80"))

    def seen(self, host):
        """What a second run must not change, without counters."""
        node = self.nodes[host]
        peers = [line.split("\t")[:5] for line in node.run("wg", "show", "all", "dump").splitlines()]
        words = (["nft", "list", "ruleset"], ["ip", "route", "show", "table", "all"], ["ip", "address"])
        texts = (re.sub(r"(?m)^\d+: |^.*fe80:.*\n(?: +valid_lft.*\n)?", "", node.run(*row)) for row in words)
        return [sorted(peers), *(sorted(text.splitlines()) for text in texts)]


@pytest.fixture(name="pair", params=["loose", pytest.param("none", marks=pytest.mark.takes_long)])
def pair_fixture(request, two_nodes, implementation, tmp_path, wait_for):
    filters = dict(FILTERS, none={"all": 0, "default": 0})[request.param]
    pair = KubespanPair(two_nodes(UNDERLAY), tmp_path, filters, implementation)
    for node in pair.nodes.values():
        assert wait_for(lambda node=node: "state UP" in node.run("ip", "link", "show", "under"), 60 * SLOW)
        node.run("ip", "route", "add", "default", "dev", "under")
    pair.step(NO_STEP)
    pair.step(NO_STEP)
    return pair


@pytest.mark.parametrize(
    "kind", [kind if kind == "pods" else pytest.param(kind, marks=pytest.mark.takes_long) for kind in KINDS]
)
def test_new_keys_of_a_kubespan_mesh_lose_no_packet_and_break_no_stream(pair, kind):
    pair.places = KINDS[kind]
    rate, before = steady_rate(pair), {host: pair.key(host) for host in "ab"}
    clean = {host: pair.device(host) for host in "ab"}
    with pair.traffic(rate) as counted:
        for step in (PREPARE, GO_ASIDE, RENEW, GO_BACK, DONE) * ROTATIONS:
            pair.step(step)
    print(f"{ROTATIONS} rotations: {counted}")
    assert counted.lost == 0 and counted.broken == [] and counted.sent > 100, counted
    for host, node in pair.nodes.items():
        assert pair.key(host) != before[host] and pair.device(host) == clean[host] == ["kubespan"]
        assert all(".rotation." not in name for name in pair.annotations[host])
        for words in (
            ("find", "/var/lib/multicluster-network"),
            ("cat", "/var/lib/multicluster-network/pair/dataplane.json"),
            ("ip", "route", "show", "table", "all"),
            ("ip", "-6", "route", "show", "table", "all"),
        ):
            assert "wg-rotate" not in node.run(*words), words
        assert ULA["a"] not in node.run("nft", "list", "ruleset") and ULA["b"] not in node.run("nft", "list", "ruleset")


def test_packets_go_by_the_bypass_device_while_the_key_changes(pair):
    """In the state in between the other end's key of the device is wrong, and the marks, the table and its rules are those of before."""
    node = pair.nodes["a"]
    rules = node.run("ip", "rule"), node.run("ip", "-6", "rule")
    announced = {name: value for name, value in pair.annotations["a"].items() if ".rotation." not in name}
    for step in (PREPARE, GO_ASIDE):
        pair.step(step)
    (name,) = [name for name in pair.device("a") if name != "kubespan"]
    # what is masqueraded into the mesh has the same source by both, and nothing of that is announced
    assert {*pair.own_addresses("a", name)} - {"169.254.255.254"} == {*pair.own_addresses("a", "kubespan")}
    assert {name: value for name, value in pair.annotations["a"].items() if ".rotation." not in name} == announced
    for mark, address, way in (
        ("0x40", PODS["b"], name),
        ("0x40", UNDERLAY["b"], name),
        ("0x40", ULA["b"], name),
        ("0x20", UNDERLAY["b"], "under"),
        ("0x40", "203.0.113.9", "kubespan"),
    ):
        assert f"dev {way} " in node.run("ip", "route", "get", address, "mark", mark), (address, way)
    shown = node.run("wg", "show", name)
    assert "fwmark: 0x20" in shown and "preshared key: (hidden)" in shown
    assert (node.run("ip", "rule"), node.run("ip", "-6", "rule")) == rules
    before = {host: pair.seen(host) for host in "ab"}
    pair.step(NO_STEP)  # as site, verify and a reconciler do
    assert {host: pair.seen(host) for host in "ab"} == before


def test_an_abandoned_rotation_of_a_kubespan_mesh_goes_back_without_loss(pair):
    pair.places = UNDERLAY
    rate, before = steady_rate(pair), {host: pair.key(host) for host in "ab"}
    with pair.traffic(rate) as counted:
        for step in (PREPARE, GO_ASIDE, GO_BACK, DONE):
            pair.step(step)
    assert counted.lost == 0 and counted.broken == [], counted
    assert {host: pair.key(host) for host in "ab"} == before
    assert {host: pair.device(host) for host in "ab"} == {"a": ["kubespan"], "b": ["kubespan"]}


def test_a_change_that_nobody_confirms_is_taken_back_with_its_routes(pair, wait_for):
    pair.step(PREPARE)
    before = pair.seen("a")
    mesh = pair.plan(GO_ASIDE)
    wish = {"fabric": "pair", "node": "a", **pair.wish("a", mesh), "rollback_seconds": 2}
    assert "transaction" in pair.nodes["a"].flow("dataplane", wish, False)
    assert wait_for(lambda: pair.seen("a") == before, 60)


def test_no_peer_is_bypassed_while_its_key_changes(pair):
    """With allowDownPeerBypass packets to a peer without a handshake go past the tunnel, and one with a new key has had none yet."""
    for settings in pair.settings.values():
        settings["config"] = dict(settings["config"], allowDownPeerBypass=True)
    marked = ("nft", "list", "set", "inet", "talos_kubespan", "kubespan_targets_ipv4")
    pair.step(NO_STEP)
    assert UNDERLAY["b"] not in pair.nodes["a"].run(*marked)  # no watcher knows that the peer is up
    for step in (PREPARE, GO_ASIDE, RENEW, GO_BACK):
        pair.step(step)
        assert UNDERLAY["b"] in pair.nodes["a"].run(*marked), step
    pair.step(DONE)
    assert UNDERLAY["b"] not in pair.nodes["a"].run(*marked)


def test_a_node_that_boots_on_the_way_has_its_bypass_device_again_and_the_rotation_ends(pair):
    for step in (PREPARE, GO_ASIDE):
        pair.step(step)
    node, before, old = pair.nodes["a"], pair.seen("a"), pair.key("a")
    for name in pair.device("a"):
        node.run("ip", "link", "del", name)
    node.run("sh", "-c", "nft delete table inet talos_kubespan; ip rule del pref 32500; ip -6 rule del pref 32500")
    for family in ("-4", "-6"):
        node.run("ip", family, "route", "flush", "table", "180")
    assert pair.seen("a") != before
    (code,) = node.run("sh", "-c", "ls /usr/local/lib/multicluster-network/pair/*.pyz").split()
    node.run(sys.executable, "-B", code, "/var/lib/multicluster-network/pair/dataplane.json")
    assert pair.seen("a") == before
    result = pair.apply("a", pair.plan(NO_STEP, pair.keys))
    assert not result["changed"], result["diff"]
    for step in (RENEW, GO_BACK, DONE):
        pair.step(step)
    assert pair.key("a") != old and pair.device("a") == ["kubespan"]


def test_a_renewed_key_that_nobody_confirms_is_taken_back_with_the_next_one(pair, wait_for):
    for step in (PREPARE, GO_ASIDE):
        pair.step(step)
    files = ("sh", "-c", f"cd {FOLDER} && sha256sum *.key *.key.next")
    before = pair.seen("a"), pair.nodes["a"].run(*files)
    wish = {"fabric": "pair", "node": "a", **pair.wish("a", pair.plan(RENEW)), "rollback_seconds": 2}
    old = pair.key("a")
    assert "transaction" in pair.nodes["a"].flow("dataplane", wish, False)
    assert wait_for(lambda: pair.key("a") == old and (pair.seen("a"), pair.nodes["a"].run(*files)) == before, 60)
    for step in (RENEW, GO_BACK, DONE):
        pair.step(step)
    assert pair.key("a") != old


def test_a_node_that_leaves_on_the_way_keeps_its_own_key_alone(pair):
    for remove, left in ((False, ["kubespan-identity.json", "kubespan.key"]), (True, [])):
        pair.step(NO_STEP)
        pair.step(PREPARE)
        assert "kubespan.key.next" in pair.nodes["a"].run("ls", FOLDER)
        wish = {"fabric": "pair", "node": "a", "devices": [], "remove_keys": remove, "max_deletes": -1}
        pair.nodes["a"].flow("dataplane", wish, False)
        shown = pair.nodes["a"].run("sh", "-c", f"ls {FOLDER} || true").split()
        assert shown == left and pair.device("a") == []
