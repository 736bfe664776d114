# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two real routers with BFD: nodes with routers of their own, another daemon, attributes that change under standing sessions, a power cut.

The tests build on each other, in order.
"""

from __future__ import annotations

import time

import pytest
import yaml
from bgp_lab import NODES, ROUTER, SECOND, make_service, two_routers

WEB = "203.0.113.0"
#: So long that whatever is noticed was not noticed by it.
HOLD = 180
LINES = f" neighbor nodes bfd\n neighbor nodes timers 60 {HOLD}\n"
STATE = {}


def write_inventory(bfd=False, **variables):
    """aws-node-1 has both routers, aws-node-2 the first."""
    first, second = ({"address": address, "asn": 65530, "bfd": bfd} for address in (ROUTER, SECOND))
    nodes = {"aws-node-1": {"bgp_speaker_neighbors": [first, second]}, "aws-node-2": {"bgp_speaker_neighbors": [first]}}
    more = {
        "all": {
            "children": {
                "clusters": {
                    "hosts": {
                        "aws": {"load_balancers_settings": {"load_balancer": "empty://", "pool": ["203.0.113.0/29"]}}
                    }
                },
                "aws_nodes": {
                    "hosts": nodes,
                    "vars": dict(
                        {
                            "bgp_speaker_asn": 65000,
                            "bgp_speaker_install": False,
                            "bgp_speaker_verify_seconds": 30,
                            "bgp_speaker_keepalive_time": HOLD // 3,
                            "bgp_speaker_hold_time": HOLD,
                        },
                        **variables,
                    ),
                },
            }
        }
    }
    (STATE["inventory"] / "more.yml").write_text(yaml.safe_dump(more))


def play(fabric, *arguments, **variables):
    return fabric.play("load_balancers", *arguments, inventory=STATE["inventory"], variables=variables)


def until(condition, within=60.0):
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def made(router):
    """How many sessions there have been with each node."""
    return {
        address: row["connectionsEstablished"]
        for address, row in router.bgp("neighbors").items()
        if isinstance(row, dict)
    }


@pytest.fixture(scope="module", autouse=True)
def surroundings(fabric, tmp_path_factory):
    """The second router has a namespace of its own on the nodes' network."""
    STATE["inventory"] = tmp_path_factory.mktemp("inventory")
    (STATE["inventory"] / "hosts.yml").symlink_to(fabric.inventory)
    with two_routers(fabric, LINES) as STATE["routers"]:
        yield


def test_each_node_has_its_own_routers(fabric):
    one, two = STATE["routers"]
    make_service(fabric, "web")
    write_inventory()
    play(fabric).ok()
    one.wait(WEB, NODES)
    two.wait(WEB, ["aws-node-1"])
    assert len(one.hops(WEB)) == 2


def watched(router):
    """The nodes that a router watches by BFD."""
    return {
        name
        for name, address in NODES.items()
        if (router.bgp("neighbors", address).get(address, {}).get("peerBfdInfo") or {}).get("status") == "Up"
    }


def test_frr_is_watched_alongside_a_zebra_of_the_node(fabric):
    """Routes that a zebra would take for its own leftovers stay, and the collection's has no power over the node's network."""
    one = STATE["routers"][0]
    unowned = f"198.51.100.0/24 via {ROUTER} dev eth0 proto zebra"
    fabric.sh("aws-node-1", "ip", "route", "add", *unowned.split())
    write_inventory(bfd=True)
    play(fabric, multicluster_serial=1).ok()
    one.wait(WEB, NODES)
    until(lambda: watched(one) == set(NODES))
    assert not play(fabric).ok().changed
    pid = fabric.sh(
        "aws-node-1", "systemctl", "show", "--property=MainPID", "--value", "multicluster-bgp-zebra.service"
    ).strip()
    own, init = (fabric.sh("aws-node-1", "readlink", f"/proc/{number}/ns/user") for number in (pid, 1))
    assert own != init and unowned in fabric.sh("aws-node-1", "ip", "route")


def test_another_daemon_announces_the_same(fabric):
    one, two = STATE["routers"]
    write_inventory(bfd=True, bgp_speaker_daemon="bird")
    play(fabric, multicluster_serial=1).ok()
    one.wait(WEB, NODES)
    two.wait(WEB, ["aws-node-1"])
    until(lambda: watched(one) == set(NODES))
    assert "bird" in fabric.sh("aws-node-1", "systemctl", "show", "--property=ExecStart", "multicluster-bgp.service")
    assert not fabric.sh(
        "aws-node-1", "sh", "-c", "ls /etc/systemd/system/multicluster-bgp-[zb]* 2>/dev/null; pgrep 'zebra|bfdd'; true"
    )
    assert "198.51.100.0/24" in fabric.sh("aws-node-1", "ip", "route")
    assert not play(fabric).ok().changed


def test_attributes_change_under_standing_sessions(fabric):
    one, two = STATE["routers"]
    before = made(one), made(two)
    pools = [{"network": "203.0.113.0/29", "large_communities": ["65000:1:7"], "announce": "both"}]
    write_inventory(
        bfd=True,
        bgp_speaker_daemon="bird",
        bgp_speaker_communities=["65000:100"],
        bgp_speaker_med=50,
        bgp_speaker_pools=pools,
    )
    play(fabric).ok()
    one.wait("203.0.113.0/29", NODES)
    until(lambda: one.bgp("ipv4", "unicast", WEB + "/32")["paths"][0].get("metric") == 50)
    path = one.bgp("ipv4", "unicast", WEB + "/32")["paths"][0]
    assert path["community"]["list"] == ["65000:100"] and path["largeCommunity"]["list"] == ["65000:1:7"]
    assert (made(one), made(two)) == before


def test_a_power_cut_is_noticed_by_bfd(fabric):
    one = STATE["routers"][0]
    one.wait(WEB, NODES)
    fabric.lab("node-stop", "aws-node-2")
    seconds = one.wait(WEB, ["aws-node-1"], HOLD / 3)
    fabric.ran(f"noticed within {seconds:.1f} s; the hold time is {HOLD} s")
    fabric.lab("node-rebuild", "aws-node-2")
    one.wait(WEB, NODES, 120.0)


def test_absent_leaves_nothing(fabric):
    assert play(fabric, load_balancers_state="absent").ok().changed
    STATE["routers"][0].wait(WEB, [])
    for node in NODES:
        assert (
            fabric.sh(
                node,
                "sh",
                "-c",
                "ls -d /etc/systemd/system/multicluster-bgp* /run/multicluster-bgp 2>/dev/null; pgrep 'bird|zebra|bfdd'; true",
            )
            == ""
        )
