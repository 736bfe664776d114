# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kilo's own agents carry packets over our Peers: before, while and after clusters join, leave, are renumbered and taken over.

The tests of a granularity are in the order of a fabric's life and share its lab.
"""

from __future__ import annotations

import ipaddress
import json
import re
import subprocess

import pytest
from agents import LATE, G

ACROSS = [("eu-1-pod-1", "us-2-pod-1"), ("us-1-pod-1", "eu-2-pod-1")]
#: The lab's nodes have private addresses only, which every cluster reaches.
REACHED = {"clustermesh_kilo_endpoints": "any", "clustermesh_fabric": "t"}


def join(fabric, **more):
    return fabric.play("clustermesh", variables=dict(REACHED, **more))


def test_before_the_clusters_are_joined_and_without_an_endpoint_that_others_reach(fabric):
    fabric.apart()
    run = fabric.play("clustermesh", variables={"clustermesh_fabric": "t"})
    assert run.rc != 0 and "clustermesh_kilo_endpoints" in run.out and "clustermesh-endpoint=ADDRESS:51820" in run.out
    assert fabric.peers("eu") == fabric.peers("us") == {}


def test_joining_while_pods_ping(fabric):
    with fabric.pings(*ACROSS) as results:
        join(fabric).ok()
        fabric.joined()
    assert all(answered for dummy, answered, gap in results), results
    leaders = ["eu-1", "eu-2", "us-1", "us-2"] if fabric.granularity == "full" else ["eu-1", "us-1"]
    assert {name for cluster in ("eu", "us") for name in fabric.peers(cluster)} == {
        f"t--{n.partition('-')[0]}--{n}" for n in leaders
    }


def test_no_endpoint_is_in_what_the_agents_route_into_the_tunnel(fabric):
    for node in ("eu-1", "us-1"):
        own = fabric.wireguard(node)["kilo0"]["peers"]
        assert own
        routes = [ipaddress.ip_network(text) for peer in own.values() for text in peer["allowed_ips"]]
        for peer in own.values():
            address = ipaddress.ip_address(peer["endpoint"].rpartition(":")[0])
            unowned = [r for r in routes if address in r]
            assert not unowned or address in ipaddress.ip_network(
                "10.66.23.0/24" if node.startswith("eu") else "10.22.22.0/24"
            ), (node, address)


def test_a_second_run_changes_nothing_and_loses_no_packet(fabric):
    before = {
        name: peer["metadata"]["resourceVersion"]
        for cluster in ("eu", "us")
        for name, peer in fabric.peers(cluster).items()
    }
    with fabric.pings(*ACROSS) as results:
        assert not join(fabric).ok().changed
    assert before == {
        name: peer["metadata"]["resourceVersion"]
        for cluster in ("eu", "us")
        for name, peer in fabric.peers(cluster).items()
    }
    assert all(sent - answered <= 1 and not gap for sent, answered, gap in results), results


def test_the_configuration_that_kgctl_shows_is_what_the_node_has(fabric):
    if fabric.kgctl is None:
        pytest.skip("NOT RUN: KGCTL names no program, so what kgctl shows is not compared")
    kubeconfig = str(fabric.state / "us" / "kubeconfig")
    shown = subprocess.run(
        [str(fabric.kgctl), "showconf", "node", "us-1", "--kubeconfig", kubeconfig],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    peers = {}
    for part in shown.stdout.split("[Peer]")[1:]:
        fields = dict(line.split(" = ", 1) for line in part.strip().splitlines() if " = " in line)
        peers[fields["PublicKey"]] = sorted(text.strip() for text in fields["AllowedIPs"].split(","))
    assert peers == {key: peer["allowed_ips"] for key, peer in fabric.wireguard("us-1")["kilo0"]["peers"].items()}


def test_keepalive_comes_from_the_nodes_own_annotation(fabric):
    entry = {"clustermesh_roaming_keepalive": 25}
    run = fabric.play("clustermesh", "-e", "clustermesh_keepalive=20", variables=dict(REACHED, **entry)).ok()
    assert "persistent-keepalive=20" in re.sub(r"\s+", " ", run.out)
    assert {peer["keepalive"] for peer in fabric.wireguard("us-1")["kilo0"]["peers"].values()} == {"off"}
    fabric.play(
        "clustermesh",
        "-e",
        "clustermesh_keepalive=20",
        variables=dict(REACHED, clustermesh_node_keepalive=True, **entry),
    ).ok()
    fabric.until(
        "the agents send keepalives",
        lambda: {peer["keepalive"] for peer in fabric.wireguard("us-1")["kilo0"]["peers"].values()} == {"20"},
    )
    join(fabric).ok()
    fabric.until(
        "and none any more",
        lambda: {peer["keepalive"] for peer in fabric.wireguard("us-1")["kilo0"]["peers"].values()} == {"off"},
    )
    fabric.joined()


def test_what_kilo_would_refuse_or_stop_at_is_not_written_and_the_tunnels_stay(fabric):
    for value in ("gone.invalid:51820", "256.1.1.1:51820", "Upper.Example:51820", "10.4.7.9:51820"):
        fabric.annotate("eu", "eu-1", **{G + "clustermesh-endpoint": value})
        before = fabric.now()
        with fabric.pings(*ACROSS) as results:
            join(fabric).ok()
        if value != "10.4.7.9:51820":
            assert not fabric.deleted_peers(before) and all(
                sent - answered <= 1 and not gap for sent, answered, gap in results
            ), (value, results)
    fabric.kubectl("eu", "annotate", "node", "eu-1", G + "clustermesh-endpoint-")
    join(fabric).ok()
    fabric.joined()


def test_a_node_joins_and_every_wireguard_address_is_renumbered(fabric):
    before = fabric.now()
    with fabric.pings(*ACROSS):
        fabric.start_agent(LATE)
        for dummy in range(4):
            join(fabric).ok()
        fabric.settled()
        join(fabric).ok()
        fabric.joined(without="")
    if fabric.granularity == "full":
        assert fabric.deleted_peers(before) == []
        assert set(fabric.peers("us")) == {"t--eu--eu-0", "t--eu--eu-1", "t--eu--eu-2"}
    else:
        assert set(fabric.peers("us")) == {"t--eu--eu-0"}  # it leads its location now
    assert not join(fabric).ok().changed


def test_an_agent_that_restarts_takes_no_peer_along(fabric):
    node = "us-2" if fabric.granularity == "full" else "us-1"
    before = fabric.now()
    fabric.stop_agent(node)
    fabric.until("its annotations are gone", lambda: not fabric.notes(node).get("key"))
    join(fabric).ok()
    assert fabric.deleted_peers(before) == []
    fabric.start_agent(node)
    fabric.settled()
    join(fabric).ok()
    fabric.joined(without="")


def test_a_nodes_own_traffic_reaches_remote_pods_with_force_internal_ip(fabric):
    if fabric.granularity == "location":
        # the annotation would make a location of its own of the node: it is reported, and left to its user
        assert "force-internal-ip=-" in re.sub(r"\s+", " ", join(fabric).ok().out)
        assert not [node for node in fabric.nodes if "force-internal-ip" in fabric.notes(node)]
        return
    address = next(row["address"] for row in fabric.reaches() if row["target"] == "us-1-pod-1")
    ping = ["ping", "-n", "-c", "1", "-W", "2", address]
    run = join(fabric).ok()
    assert "force-internal-ip=-" in re.sub(r"\s+", " ", run.out)
    assert fabric.lab("exec", "eu-1", "--", *ping, check=False).returncode != 0
    join(fabric, clustermesh_force_internal_ip=True).ok()
    fabric.until(
        "the node's own echo is answered", lambda: fabric.lab("exec", "eu-1", "--", *ping, check=False).returncode == 0
    )
    assert not join(fabric, clustermesh_force_internal_ip=True).ok().changed
    fabric.joined(without="")


def test_peers_of_somebody_else_are_taken_over_while_pods_ping(fabric):
    extra = {"clustermesh_force_internal_ip": any("force-internal-ip" in fabric.notes(node) for node in fabric.nodes)}
    with fabric.pings(*ACROSS) as results:
        fabric.play("kilo.teardown", variables=dict(REACHED, clustermesh_release=True)).ok()
        fabric.kubectl("us", "annotate", "peer", min(fabric.peers("us")), "somebody=else")
        assert not [o for o in owners(fabric, "us") if o.startswith("multicluster.network/")]
        join(fabric, clustermesh_adopt=True, **extra).ok()
        assert "multicluster.network/t" in owners(fabric, "us")
        assert not join(fabric, **extra).ok().changed
    assert all(sent - answered <= 1 and not gap for sent, answered, gap in results), results


def owners(fabric, cluster):
    items = json.loads(
        fabric.kubectl(cluster, "get", "peers", "-o", "json", "--show-managed-fields", check=False) or "{}"
    ).get("items")
    if items is None:
        items = fabric.peers(cluster).values()
    return {entry["manager"] for item in items for entry in item["metadata"].get("managedFields", ())}


def test_leaving(fabric):
    fabric.play("kilo.teardown", variables=REACHED).ok()
    assert fabric.peers("eu") == fabric.peers("us") == {}
    fabric.apart()
    assert not [
        key
        for node in fabric.nodes
        for key in fabric.notes(node)
        if key in ("persistent-keepalive", "force-internal-ip")
    ]
