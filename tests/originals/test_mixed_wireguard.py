# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mixed fleet: the nodes of aws by us, those of gcp by the real semaphore-wireguard, with an API server that we may only read.

Join, a key rotated on either side, a node that goes and comes on either side, an API server that is away, leave. Both sides follow, and nothing
of theirs is written.
"""

from __future__ import annotations

import json
import os
import subprocess

import pytest
import yaml
from wireguard_lab import KEYS, NAME, WireguardFabric, without_leases

ACCOUNT = "system:serviceaccount:kube-system:multicluster-mesh-read"
#: As the guide has it.
ACCESS = {
    "name": "An account that only reads",
    "hosts": "gcp",
    "gather_facts": False,
    "roles": [{"role": "multicluster.network.cluster_access", "vars": {"cluster_access_capability": "mesh_read"}}],
}


class MixedFabric(WireguardFabric):
    """With an inventory that has the nodes of aws alone, and of gcp its ranges and a read-only account."""

    mark = 0

    @property
    def mixed(self):
        return self.state / "mixed.yml"

    def write_inventory(self):
        whole = yaml.safe_load(super().inventory.read_text())
        book, account = self.state / "access.yml", self.state / "{cluster}-mesh_read.kubeconfig"
        book.write_text(yaml.safe_dump([ACCESS]))
        words = [
            "ansible-playbook",
            "-i",
            str(super().inventory),
            str(book),
            "-e",
            json.dumps({"cluster_access_path": str(account)}),
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        del whole["all"]["children"]["gcp_nodes"]
        whole["all"]["children"]["clusters"]["hosts"]["gcp"]["kubeconfig"] = str(account).replace("{cluster}", "gcp")
        self.mixed.write_text(yaml.safe_dump(whole))
        self.mark = self._audit("gcp").stat().st_size

    def owned(self, book="mesh", **more):
        return self.play(book, inventory=self.mixed, **more)

    def asked_of_the_neighbour(self):
        """(verb, path, status) of everything that our account asked of gcp."""
        found = []
        with self._audit("gcp").open(encoding="utf-8") as log:
            log.seek(self.mark)
            for entry in map(json.loads, log):
                if entry["user"]["username"] == ACCOUNT:
                    found.append(
                        (entry["verb"], entry["requestURI"].partition("?")[0], entry["responseStatus"]["code"])
                    )
        return found

    def both_follow(self):
        """Every node has the key of every node of the other cluster, and pods answer."""
        for node in self.nodes:
            remote = self.remote_of(self.cluster_of(node))
            desired = {self.keys(other)[self.device_of(other)] for other in self.nodes_of(remote)}
            self.until("peers of " + node, lambda node=node, desired=desired: set(self.peers(node)) == desired)
        self.all_reach()

    def restart_original(self, node):
        self.stop_original(node)
        self.start_original(node)
        self.until("healthy " + node, lambda: self.healthy(node))


@pytest.fixture(scope="module")
def fabric(original):
    made = MixedFabric(os.environ.get("MCN_LAB_PREFIX", "") + "mixed", original(NAME))
    made.lab("down")
    made.lab("up", "--topology", made.topology)
    made.ran("lab up")
    try:
        made.write_inventory()
        yield made
    finally:
        made.end()
        made.lab("down")


def test_join(fabric):
    for node in fabric.nodes_of("gcp"):
        fabric.start_original(node)
    for node in fabric.nodes_of("gcp"):
        fabric.until("healthy " + node, lambda node=node: fabric.healthy(node))
    fabric.owned().ok()
    fabric.both_follow()
    with fabric.witness() as writes:
        run = fabric.owned().ok()
    assert not run.changed and without_leases(writes) == []


def test_a_key_rotated_on_our_side(fabric):
    old = fabric.keys("aws-node-1")["wireguard.gcp"]
    fabric.sh("aws-node-1", "rm", KEYS + "/wireguard.gcp.key")
    fabric.owned().ok()
    assert fabric.keys("aws-node-1")["wireguard.gcp"] != old
    fabric.both_follow()


def test_a_key_rotated_on_their_side(fabric):
    old = fabric.keys("gcp-node-1")["wireguard.aws"]
    fabric.stop_original("gcp-node-1")
    fabric.sh("gcp-node-1", "rm", KEYS + "/wireguard.aws.key")
    fabric.restart_original("gcp-node-1")
    assert fabric.keys("gcp-node-1")["wireguard.aws"] != old
    fabric.owned().ok()
    fabric.both_follow()


@pytest.mark.parametrize("node", ["gcp-node-2", "aws-node-2"])
def test_a_node_goes_and_comes_on_either_side(fabric, node):
    cluster = fabric.cluster_of(node)
    remote, key = fabric.remote_of(cluster), fabric.keys(node)[fabric.device_of(node)]
    fabric.kubectl(cluster, "delete", "node", node)
    if cluster == "gcp":
        fabric.owned().ok()
    for other in fabric.nodes_of(remote):
        fabric.until(f"{node} has left {other}", lambda other=other: key not in fabric.peers(other))
    fabric.lab("up", "--topology", fabric.topology)  # the Node again, as its kubelet would say
    if cluster == "gcp":
        fabric.restart_original(node)
    fabric.owned().ok()
    fabric.both_follow()


def test_their_api_server_is_away(fabric):
    before = fabric.wire()
    fabric.lab("api-stop", "gcp")
    try:
        run = fabric.owned()
        assert run.rc != 0 and "gcp" in run.out and fabric.wire() == before
        fabric.all_reach()
    finally:
        fabric.lab("api-start", "gcp")
    fabric.owned().ok()
    assert fabric.wire() == before


def test_nothing_of_theirs_was_written(fabric):
    asked = fabric.asked_of_the_neighbour()
    assert asked and {verb for verb, dummy, dummy in asked} <= {"get", "list"}, asked
    assert not [row for row in asked if row[2] in (401, 403)], asked


def test_leave(fabric):
    theirs = {node: notes for node, notes in fabric.announced().items() if fabric.cluster_of(node) == "gcp"}
    fabric.owned("teardown").ok()
    assert all(fabric.announced()[node] == {} for node in fabric.nodes_of("aws"))
    assert {node: fabric.announced()[node] for node in theirs} == theirs
    # upstream takes annotations that go for no change; its next start forgets these peers
    for node in fabric.nodes_of("gcp"):
        fabric.restart_original(node)
        fabric.until("no peer on " + node, lambda node=node: not fabric.peers(node))
    test_nothing_of_theirs_was_written(fabric)
