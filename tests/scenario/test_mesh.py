# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first mesh, from an empty lab to an empty lab. The tests of this file build on each other, in their order."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

STATE = {}
PUBKEY, ENDPOINT = "{0}.wireguard.semaphore.uw.io/pubKey", "{0}.wireguard.semaphore.uw.io/endpoint"


def cross(pings):
    return [ping for ping in pings if ping["cross"]]


def test_check_mode_shows_the_whole_change_and_makes_none(fabric):
    STATE["before"] = fabric.everything()
    with fabric.witness() as writes:
        run = fabric.play("site", "--check", "--diff").ok()
    assert fabric.everything() == STATE["before"]
    assert not writes
    # decision 31: every phase appears, with deferred values where a key is still to be made
    for text in (
        "+link wireguard.gcp",
        "+link wireguard.aws",
        "+route 10.4.0.0/16 dev wireguard.gcp",
        "+key /var/lib/semaphore-wireguard/",
        "+peer wireguard.gcp (public key of gcp-node-1 towards aws, known after apply)",
        "gcp.wireguard.semaphore.uw.io/pubKey: (public key of aws-node-1 towards gcp, known after apply)",
        "aws.wireguard.semaphore.uw.io/endpoint: 10.22.22.27:51821",
    ):
        assert text in run.out, text
    assert not any(ping["ok"] for ping in cross(fabric.reaches())), (
        "the lab's clusters reach each other without the mesh"
    )


def test_site_joins_the_clusters(fabric):
    run = fabric.play("site").ok()
    assert "all green" in run.out
    fabric.all_reach()


def test_the_result_is_what_the_specification_prints(fabric):
    """Semaphore 3.7 and 10.1, on the seed's addresses."""
    for local, node, remote, subnet in (
        ("aws", "aws-node-1", "gcp", "10.4.0.0/16"),
        ("gcp", "gcp-node-1", "aws", "10.2.0.0/16"),
    ):
        name = "wireguard." + remote
        device = fabric.wireguard(node)[name]
        assert device["port"] == "51821"
        assert f"{subnet} dev {name} " in fabric.sh(node, "ip", "route")
        link = fabric.sh(node, "ip", "-d", "link", "show", name)
        assert "mtu 1420" in link and "qlen 1000" in link
        assert not fabric.sh(node, "ip", "-4", "address", "show", name)
        assert fabric.sh(node, "stat", "-c", "%a", f"/var/lib/semaphore-wireguard/{name}.key").strip() == "600"
        notes = fabric.annotations(local, node)
        assert notes[PUBKEY.format(remote)] == device["public_key"]
        for peer in device["peers"].values():
            assert peer["keepalive"] == "25" and len(peer["allowed_ips"]) == 1
    peers = fabric.wireguard("aws-node-1")["wireguard.gcp"]["peers"]
    assert sorted((peer["endpoint"], peer["allowed_ips"][0]) for peer in peers.values()) == [
        ("10.22.22.27:51821", "10.4.7.0/24"),
        ("10.22.22.28:51821", "10.4.8.0/24"),
    ]
    assert fabric.annotations("aws", "aws-node-1")[ENDPOINT.format("gcp")] == "10.66.23.31:51821"


def test_the_second_run_changes_and_writes_nothing(fabric):
    with fabric.witness() as writes:
        run = fabric.play("site").ok()
    assert not run.changed
    assert not writes
    with fabric.witness() as writes:
        run = fabric.play("site", "--check", "--diff").ok()
    assert not run.changed and not writes


def test_the_witness_sees_writes(fabric):
    """The proof of no writes is worth what its witnesses are."""
    peer = sorted(fabric.wireguard("gcp-node-1")["wireguard.aws"]["peers"])[0]
    with fabric.witness() as writes:
        fabric.sh("aws-node-1", "ip", "route", "add", "192.0.2.0/24", "dev", "lo")
        fabric.sh("aws-node-1", "ip", "route", "del", "192.0.2.0/24", "dev", "lo")
        fabric.sh("aws-node-2", "nft", "add", "table", "inet", "seen")
        fabric.sh("aws-node-2", "nft", "delete", "table", "inet", "seen")
        # a setting that moves no packet: with another port for a moment the others would answer there
        fabric.sh("gcp-node-1", "wg", "set", "wireguard.aws", "peer", peer, "persistent-keepalive", "24")
        fabric.annotate("gcp", "gcp-node-2", seen="yes")
    fabric.sh("gcp-node-1", "wg", "set", "wireguard.aws", "peer", peer, "persistent-keepalive", "25")
    fabric.kubectl("gcp", "annotate", "node", "gcp-node-2", "seen-")
    text = "\n".join(writes)
    for part in ("aws-node-1 ip:", "aws-node-2 nft:", "gcp-node-1 wg:", "gcp api: patch"):
        assert part in text, part


def test_no_pod_address_crosses_the_underlay_in_the_clear(fabric):
    capture = fabric.state / "capture.pcap"
    fabric.lab("capture-start", "--out", capture)
    fabric.all_reach()
    fabric.lab("capture-stop")

    def count(expression):
        done = subprocess.run(
            ["tcpdump", "-n", "-r", str(capture), expression], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return len(done.stdout.splitlines())

    aws, gcp = "net 10.2.0.0/16", "net 10.4.0.0/16"
    assert count("udp port 51821") > 20
    assert count(f"({aws} and {gcp})") == 0
    # inside one cluster the lab routes pods in the clear: the capture would show a leak
    assert count(f"(src {aws} and dst {aws})") > 0


def test_drift_is_named_and_repaired(fabric):
    peer = sorted(fabric.wireguard("aws-node-1")["wireguard.gcp"]["peers"])[0]
    fabric.sh("aws-node-1", "wg", "set", "wireguard.gcp", "peer", peer, "remove")
    fabric.sh("gcp-node-1", "ip", "route", "del", "10.2.0.0/16")
    run = fabric.play("verify")
    assert run.rc != 0
    assert f"aws-node-1: peer wireguard.gcp {peer} is not as desired" in run.out
    assert "gcp-node-1: route 10.2.0.0/16 dev wireguard.aws table main is not as desired" in run.out
    run = fabric.play("site").ok()
    assert set(run.changed) == {"aws-node-1", "gcp-node-1"}


def test_limit_removes_nothing(fabric):
    before = {node: fabric.wireguard(node) for node in fabric.nodes}
    run = fabric.play("mesh", "--limit", "aws-node-1").ok()
    assert not run.changed and set(run.recap) == {"aws-node-1"}
    for node in fabric.nodes:
        assert set(before[node]) == set(fabric.wireguard(node))
        for name, device in fabric.wireguard(node).items():
            assert set(device["peers"]) == set(before[node][name]["peers"])


def test_removed_annotations_come_back_and_no_peer_is_lost_meanwhile(fabric):
    key = fabric.annotations("gcp", "gcp-node-1")[PUBKEY.format("aws")]
    fabric.kubectl("gcp", "annotate", "node", "gcp-node-1", PUBKEY.format("aws") + "-", ENDPOINT.format("aws") + "-")
    with fabric.witness() as writes:
        fabric.play("mesh", "--limit", "aws_nodes").ok()
    assert key in fabric.wireguard("aws-node-1")["wireguard.gcp"]["peers"], (
        "a key to come is no reason to drop the peer"
    )
    assert not writes  # the nodes were compared first, in check mode, since others are outside the limit
    fabric.play("site").ok()
    assert fabric.annotations("gcp", "gcp-node-1")[PUBKEY.format("aws")] == key


def converged(run, play):
    """The hosts that a play of the mesh converged."""
    (part,) = re.findall(rf"^PLAY \[{re.escape(play)}\] \**\n(.*?)(?=^PLAY )", run.out, re.MULTILINE | re.DOTALL)
    (task,) = re.findall(
        r"^TASK \[[^\n]*Converge keys, devices[^\n]*\n(.*?)(?=^TASK |\Z)", part, re.MULTILINE | re.DOTALL
    )
    return set(re.findall(r"^(?:ok|changed): \[([^\]]+)\]", task, re.MULTILINE))


def test_a_rotated_key_reaches_every_peer_in_one_run(fabric):
    old = fabric.wireguard("aws-node-2")["wireguard.gcp"]["public_key"]
    fabric.sh("aws-node-2", "rm", "/var/lib/semaphore-wireguard/wireguard.gcp.key")
    run = fabric.play("site").ok()
    assert converged(run, "Converge the nodes") == set(fabric.nodes), "every node is looked at once"
    assert converged(run, "Converge the nodes that have new peers") == {"gcp-node-1", "gcp-node-2"}, (
        "only the nodes with a changed part are converged again"
    )
    new = fabric.wireguard("aws-node-2")["wireguard.gcp"]["public_key"]
    assert new != old
    for node in ("gcp-node-1", "gcp-node-2"):
        peers = fabric.wireguard(node)["wireguard.aws"]["peers"]
        assert new in peers and old not in peers
    fabric.all_reach()


@pytest.mark.parametrize(
    "what, value, reason",
    [
        (PUBKEY, "not-a-key", "bad_public_key"),
        (PUBKEY, "A" * 43 + "=", "weak_key"),
        (ENDPOINT, "127.0.0.1:51821", "endpoint_special"),
        (ENDPOINT, "10.2.3.4:51821", "endpoint_in_overlay"),
        (ENDPOINT, "10.22.22.77", "bad_endpoint"),
    ],
)
def test_one_bad_node_is_refused_by_name_and_the_others_stay(fabric, what, value, reason):
    """A node that is run by somebody else (no inventory host) publishes what it likes."""
    _extra_node(fabric, **{what.format("aws"): value})
    run = fabric.play("mesh").ok()
    assert "refused gcp/extra-1" in run.out and f"[{reason}]" in run.out
    assert len(fabric.wireguard("aws-node-1")["wireguard.gcp"]["peers"]) == 2
    assert not run.changed


@pytest.mark.parametrize(
    "cidr, reason",
    [
        ("192.168.77.0/24", "outside_grant"),  # nobody's
        ("10.2.3.0/24", "outside_grant"),  # another cluster's
        ("10.4.7.0/24", "claimed_twice"),  # another node's
    ],
)
def test_a_node_that_claims_what_it_was_not_granted_is_refused(fabric, cidr, reason):
    _extra_node(fabric, cidr=cidr)
    run = fabric.play("mesh").ok()
    # the API server itself does not mind two nodes with one range
    assert f"[{reason}]" in run.out
    for node in ("aws-node-1", "aws-node-2"):
        for peer in fabric.wireguard(node)["wireguard.gcp"]["peers"].values():
            assert peer["endpoint"] != "10.22.22.77:51821"


def test_a_node_run_by_the_original_program_is_a_peer(fabric):
    _extra_node(fabric, cidr="10.4.99.0/24")
    fabric.play("mesh").ok()
    peers = fabric.wireguard("aws-node-1")["wireguard.gcp"]["peers"]
    assert peers[OTHER_KEY]["endpoint"] == "10.22.22.77:51821" and peers[OTHER_KEY]["allowed_ips"] == ["10.4.99.0/24"]
    fabric.kubectl("gcp", "delete", "node", "extra-1")
    fabric.play("site").ok()
    assert OTHER_KEY not in fabric.wireguard("aws-node-1")["wireguard.gcp"]["peers"]


def test_a_cluster_with_its_api_down_keeps_its_peers_elsewhere(fabric):
    fabric.lab("api-stop", "gcp")
    try:
        run = fabric.play("site")
        assert run.rc != 0
        assert "cluster gcp:" in run.out
        assert len(fabric.wireguard("aws-node-1")["wireguard.gcp"]["peers"]) == 2
        fabric.all_reach()
        assert run.recap["aws-node-2"]["failed"] == 0 and run.recap["gcp-node-1"]["ok"] > 0
    finally:
        fabric.lab("api-start", "gcp")
    assert not fabric.play("site").ok().changed


def test_a_source_that_shrinks_to_nothing_is_not_believed(fabric):
    """Decision 38: no annotations for us any more, and no inventory hosts that would publish them."""
    inventory = fabric.state / "aws-only.yml"
    text = fabric.inventory.read_text()
    inventory.write_text(text[: text.index("    gcp_nodes:")])
    for node in ("gcp-node-1", "gcp-node-2"):
        fabric.kubectl("gcp", "annotate", "node", node, PUBKEY.format("aws") + "-", ENDPOINT.format("aws") + "-")
    run = fabric.play("mesh", inventory=inventory)
    assert "[delete_budget]" in run.out and "confirm_empty" in run.out
    assert len(fabric.wireguard("aws-node-1")["wireguard.gcp"]["peers"]) == 2
    fabric.play("mesh", inventory=inventory, variables={"node_dataplane_confirm_empty": ["gcp"]}).ok()
    assert not fabric.wireguard("aws-node-1")["wireguard.gcp"]["peers"]
    fabric.play("site").ok()


def test_a_rebuilt_node_has_its_mesh_back_without_a_play(fabric):
    before = fabric.wireguard("aws-node-1")["wireguard.gcp"]
    fabric.lab("node-rebuild", "aws-node-1")
    fabric.sh("aws-node-1", "systemctl", "is-active", "multicluster-network-default.service")
    after = fabric.wireguard("aws-node-1")["wireguard.gcp"]
    assert after["public_key"] == before["public_key"] and set(after["peers"]) == set(before["peers"])
    fabric.all_reach()
    assert not fabric.play("site").ok().changed


def test_a_third_cluster_joins_by_inventory_alone_and_leaves_again(fabric):
    fabric.lab("up", "--topology", "three")
    # the lab writes the new cluster's range into its CNI's exceptions, as its operator would; what the product does to them is still seen
    STATE["before"]["aws-node-2"]["nft"] = [
        row for row in fabric.snapshot("aws-node-2")["aws-node-2"]["nft"] if "lab-cni" in json.dumps(row)
    ]
    run = fabric.play("site").ok()
    assert "all green" in run.out
    pings = fabric.all_reach()
    assert len({ping["source"].split("-", maxsplit=1)[0] for ping in pings}) == 3
    assert set(fabric.wireguard("aws-node-1")) == {"wireguard.gcp", "wireguard.azr"}
    assert not fabric.play("site").ok().changed
    # it leaves: its nodes first, then the inventory forgets it
    fabric.play("teardown", "--limit", "azr_nodes").ok()
    assert not fabric.wireguard("azr-node-1")
    inventory = fabric.state / "without-azr.yml"
    lines, skip = [], False
    for line in fabric.inventory.read_text().splitlines():
        indent = len(line) - len(line.lstrip())
        if skip and indent <= skip:
            skip = False
        if not skip and line.strip() in ("azr:", "azr_nodes:"):
            skip = indent
        if not skip:
            lines.append(line)
    inventory.write_text("\n".join(lines) + "\n")
    names = ["cluster_left/aws/azr", "cluster_left/gcp/azr"]
    fabric.play("site", inventory=inventory, variables={"mesh_confirm_lost": names}).ok()
    for node in ("aws-node-1", "gcp-node-2"):
        assert "wireguard.azr" not in fabric.wireguard(node)
        assert "10.6.0.0/16" not in fabric.sh(node, "ip", "route")
        assert not [key for key in fabric.annotations(node.split("-", maxsplit=1)[0], node) if key.startswith("azr.")]
    assert not fabric.play("site", inventory=inventory).ok().changed
    STATE["inventory"] = inventory


def test_teardown_returns_everything_to_what_it_was(fabric):
    inventory = STATE.get("inventory")
    run = fabric.play("teardown", "--check", inventory=inventory).ok()
    assert run.changed and fabric.wireguard("aws-node-1")
    fabric.play("teardown", inventory=inventory, variables={"node_dataplane_remove_keys": True}).ok()
    after = fabric.snapshot(*STATE["before"])
    for name, state in STATE["before"].items():
        assert after[name] == state, name
    again = fabric.play("teardown", inventory=inventory).ok()
    assert not again.changed


OTHER_KEY = "ZIaHH+/lKD6Qd4cGGQnQcBWBKkasTnRUJ7m30oCgcAA="


def _extra_node(fabric, cidr="10.4.99.0/24", **annotations):
    """A Node of gcp without an inventory host, anew at each call."""
    fabric.kubectl("gcp", "delete", "node", "extra-1", "--ignore-not-found")
    notes = {PUBKEY.format("aws"): OTHER_KEY, ENDPOINT.format("aws"): "10.22.22.77:51821", **annotations}

    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "extra-1", "annotations": notes},
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
    }
    file = fabric.state / "extra.json"
    file.write_text(json.dumps(node))
    fabric.kubectl("gcp", "create", "-f", str(file))
