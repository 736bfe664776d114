# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One full mesh of two clusters, both families, by what users run. The tests of this file build on each other, in their order."""

from __future__ import annotations

import json
import pathlib
import re

from test_rollback import CONTROLLER, TIMER, assert_taken_back, play as ssh_play, state

#: What a node of the worked example prints.
PRINTED = pathlib.Path(__file__).resolve().parents[1] / "kernel" / "talos_kubespan.nft"
ELEMENTS = re.compile(r"\s*elements = \{[^}]*\}")
TOPOLOGY = "dual"
STATE = {}
MESH = {
    "multicluster_mesh": "kubespan",
    "mesh_id": "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=",
    "mesh_secret": "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=",
}
KEY, PREFIXES, SELF, ADDRESS = (
    "networking.talos.dev/" + name for name in ("kubespan-public-key", "assigned-prefixes", "self-ips", "kubespan-ip")
)
NODE_ID = "cluster.talos.dev/node-id"


def play(fabric, book, *arguments, **variables):
    return fabric.play(book, *arguments, variables=dict(MESH, **variables))


def statuses(fabric, node):
    return json.loads(fabric.sh(node, "cat", "/run/multicluster-network/default-kubespan.json"))["peers"]


def shown_as_the_example(fabric, node):
    """Kubespan 20 on a node of a real mesh: what is the node's own (elements) is left out, the rest is to the letter."""
    printed = fabric.sh(node, "nft", "list", "table", "inet", "talos_kubespan")
    assert ELEMENTS.sub("", printed) == ELEMENTS.sub("", PRINTED.read_text("utf-8"))
    for option, ending in (("-4", ""), ("-6", " pref medium")):
        assert [line for line in fabric.sh(node, "ip", option, "rule").splitlines() if "180" in line] == [
            "32500:\tfrom all fwmark 0x40/0x60 lookup 180 proto static"
        ]
        routes = [line.rstrip() for line in fabric.sh(node, "ip", option, "route", "show", "table", "180").splitlines()]
        lo = " dev lo" if ending else ""
        assert routes == [
            "default dev kubespan proto static metric 1 mtu 1420" + ending,
            f"unreachable default{lo} proto static metric 4278198272{ending}",
        ]


def test_check_mode_shows_the_whole_change_and_makes_none(fabric):
    STATE["before"] = fabric.everything()
    with fabric.witness() as writes:
        run = play(fabric, "site", "--check", "--diff").ok()
    assert fabric.everything() == STATE["before"] and not writes
    for text in ("+link kubespan", "+nftables table inet talos_kubespan", "node id of aws-node-1, known after apply"):
        assert text in run.out, text
    assert MESH["mesh_secret"] not in run.out


def test_site_joins_all_nodes(fabric):
    run = play(fabric, "site").ok()
    assert "all green" in run.out and MESH["mesh_secret"] not in run.out
    assert all(ping["ok"] for ping in fabric.reaches())
    for node in fabric.nodes:
        assert len(fabric.wireguard(node)["kubespan"]["peers"]) == len(fabric.nodes) - 1
        shown_as_the_example(fabric, node)
    notes = fabric.annotations("aws", "aws-node-1")
    assert notes[KEY] == fabric.wireguard("aws-node-1")["kubespan"]["public_key"] and "10.66.23.31" in notes[SELF]


def test_the_second_run_changes_and_writes_nothing(fabric):
    with fabric.witness() as writes:
        assert not play(fabric, "site").ok().changed
    assert not writes


def test_a_lying_node_is_refused_by_name_and_the_others_go_on(fabric):
    """An annotation outside the grant, and another node's key: the rest of the mesh stays as it is."""
    before = fabric.wireguard("gcp-node-1")["kubespan"]["peers"]
    fabric.kubectl("aws", "annotate", "--overwrite", "node", "aws-node-2", PREFIXES + "=0.0.0.0/0,10.4.7.0/24")
    run = play(fabric, "mesh", "--limit", "gcp-node-1", node_dataplane_max_deletes=-1).ok()
    assert "aws/aws-node-2" in run.out and "outside_grant" in run.out
    peers = fabric.wireguard("gcp-node-1")["kubespan"]["peers"]
    assert len(peers) == len(before) - 1 and all("0.0.0.0/0" not in peer["allowed_ips"] for peer in peers.values())
    # what aws-node-2 itself reports puts it right
    play(fabric, "site").ok()
    assert {key: peer["allowed_ips"] for key, peer in fabric.wireguard("gcp-node-1")["kubespan"]["peers"].items()} == {
        key: peer["allowed_ips"] for key, peer in before.items()
    }


def test_what_another_cluster_takes_of_a_nodes_identity_costs_that_node_nothing(fabric):
    """The other cluster's API server claims that node id, key and address of one of our nodes are its own node's.

    First in a run in which neither of the two hosts takes part, so that only what nodes have confirmed can decide; then in one of all.
    """
    robbed, thief, other = "aws-node-1", "gcp-node-1", "aws-node-2"
    notes, own = fabric.annotations("aws", robbed), fabric.annotations("gcp", thief)
    before = {node: fabric.wireguard(node)["kubespan"]["peers"] for node in (robbed, other)}
    stolen = [f"{name}={notes[name]}" for name in (NODE_ID, KEY, ADDRESS)]
    fabric.kubectl("gcp", "annotate", "--overwrite", "node", thief, *stolen)
    with fabric.pinging(other, notes[ADDRESS]) as answers:
        run = play(fabric, "mesh", "--limit", other, node_dataplane_max_deletes=-1).ok()
        said = run.out[run.out.rindex("table of clusters and capabilities") :]
        assert f"refused: gcp/{thief}: key" in said and f"is held by aws/{robbed}, which keeps it" in said, said
        peers = fabric.wireguard(other)["kubespan"]["peers"]
        assert set(peers) == set(before[other]) - {own[KEY]}
        assert peers[notes[KEY]]["allowed_ips"] == before[other][notes[KEY]]["allowed_ips"]
        # and again: what was refused once is not forgotten
        assert not play(fabric, "mesh", "--limit", other, node_dataplane_max_deletes=-1).ok().changed
        # all of them: the hosts' own report puts the false node right, and the run reports it
        run = play(fabric, "site").ok()
        said = run.out[run.out.rindex("table of clusters and capabilities") :]
        assert f"fixed in this run: refused: gcp/{thief}: key" in said and "all green" in run.out
    assert answers.sent > 20 and answers.lost == 0, answers
    for node in (robbed, other):
        assert {key: peer["allowed_ips"] for key, peer in fabric.wireguard(node)["kubespan"]["peers"].items()} == {
            key: peer["allowed_ips"] for key, peer in before[node].items()
        }
    assert fabric.annotations("gcp", thief) == own
    assert not play(fabric, "site").ok().changed


def test_a_mesh_that_takes_the_controllers_address_is_taken_back(fabric):
    """Another node of the cluster announces the gateway, as a floating address would be: the way to the controller is then the tunnel.

    The other node forwards nothing that comes out of it: a node that did would carry the answers on to the controller, and the change would stay.
    """
    node, other = "aws-node-1", "aws-node-2"
    forwarding = "net.ipv4.conf.kubespan.forwarding={0}".format
    fabric.sh(other, "sysctl", "-w", forwarding(0))
    before = state(fabric, node)[node]
    own = fabric.annotations("aws", other)[SELF]
    fabric.kubectl("aws", "annotate", "--overwrite", "node", other, f"{SELF}={own},{CONTROLLER}")
    assert_taken_back(
        fabric,
        "the controller is steered into the tunnel",
        node,
        lambda: ssh_play(fabric, "mesh", "--limit", node, node_dataplane_rollback_seconds=TIMER, **MESH),
    )
    assert state(fabric, node)[node] == before
    fabric.sh(other, "sysctl", "-w", forwarding(1))
    fabric.kubectl("aws", "annotate", "--overwrite", "node", other, f"{SELF}={own}")
    assert not play(fabric, "site").ok().changed


def test_a_reboot_brings_it_back(fabric):
    fabric.lab("node-rebuild", "aws-node-1")
    fabric.all_reach()
    assert not play(fabric, "site").ok().changed


def test_teardown_leaves_nothing(fabric):
    play(fabric, "teardown", node_dataplane_remove_keys=True).ok()
    after = fabric.everything()
    for name in fabric.nodes:
        for part in ("links", "routes", "rules", "nft"):
            assert after[name].get(part) == STATE["before"][name].get(part), (name, part)
        left = fabric.sh(
            name,
            "find",
            "/etc/systemd/system",
            "/usr/local/lib",
            "/var/lib/multicluster-network",
            "-name",
            "*multicluster*",
            check=False,
        )
        left += fabric.sh(name, "find", "/run/multicluster-network", "/var/lib/multicluster-network", check=False)
        assert not left.strip(), left
    for cluster in fabric.clusters:
        for node in (name for name in fabric.nodes if name.startswith(cluster)):
            assert not [key for key in fabric.annotations(cluster, node) if "talos.dev" in key]
