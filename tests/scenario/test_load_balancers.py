# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of Services announced by BGP to a real router, reached from beyond it. The tests build on each other, in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import bgp_lab
import pytest
import yaml
from bgp_lab import NODES, ROUTER, Router, api
from harness import LAB

WEB, OTHER = "203.0.113.0", "203.0.113.1"
HOLD = 9
SERVER = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(sys.argv[1].encode())
    def log_message(self, *unused): pass
http.server.HTTPServer(("", 8080), Answer).serve_forever()
"""
RELEASING = [
    "TASK [multicluster.network.bgp_speaker : Manage the BGP speaker]",
    "TASK [multicluster.network.load_balancers : Release addresses that no node announces]",
]
STATE = {}


def make_service(fabric, name):
    """A Service of the two pods, as hand-made Endpoints."""
    bgp_lab.make_service(fabric, name)
    subsets = [{"addresses": [{"ip": ip} for ip in STATE["pods"]], "ports": [{"name": "http", "port": 8080}]}]
    api(fabric).create(
        "/api/v1/namespaces/default/endpoints",
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}, "subsets": subsets},
        "test",
    )


def address_of(fabric, name):
    return api(fabric).get("/api/v1/namespaces/default/services/" + name)["spec"].get("loadBalancerIP")


def ledger(fabric):
    name = "metal-ccm-static-pool"
    rows = api(fabric).list("/api/v1/namespaces/kube-system/configmaps", field_selector="metadata.name=" + name).items
    return sorted(key for row in rows for key in row.get("data") or {})


def answers(fabric, address, tries=20, within=60.0):
    """Who answers behind an address, asked from the other cluster's node, which is beyond the router."""
    seen, began = [], time.monotonic()
    while len(seen) < tries:
        done = fabric.lab("exec", "gcp-node-1", "--", "curl", "-s", "-m", "5", f"http://{address}/", check=False)
        if done.stdout:
            seen.append(done.stdout)
        assert time.monotonic() - began < within, f"{address} answered {len(seen)} times"
    return set(seen)


COUNTER = "table ip mcn_test { chain seen { type filter hook prerouting priority -310; ip daddr %s tcp flags & (syn | ack) == syn counter; }; }"


def carried(fabric, address, within=120.0):
    """New connections to an address that came in at each node, of flows with ports of their own, until both nodes had some."""
    for node in NODES:
        fabric.sh(node, "nft", COUNTER % address)
    try:
        deadline = time.monotonic() + within
        while True:
            answers(fabric, address, 16)
            seen = {}
            for node in NODES:
                rows = json.loads(fabric.sh(node, "nft", "-j", "list", "chain", "ip", "mcn_test", "seen"))["nftables"]
                seen[node] = next(
                    part["counter"]["packets"]
                    for row in rows
                    for part in row.get("rule", {}).get("expr", ())
                    if "counter" in part
                )
            if all(seen.values()):
                return seen
            assert time.monotonic() < deadline, seen
    finally:
        for node in NODES:
            fabric.sh(node, "nft", "delete", "table", "ip", "mcn_test")


def play(fabric, *arguments, **variables):
    return fabric.play("load_balancers", *arguments, inventory=STATE["inventory"], variables=variables)


@pytest.fixture(scope="module", autouse=True)
def surroundings(fabric, tmp_path_factory):
    """The router, kube-proxy on both nodes, a small HTTP server in each pod, and the inventory of all that."""
    folder = tmp_path_factory.mktemp("inventory")
    (folder / "hosts.yml").symlink_to(fabric.inventory)
    more = {
        "all": {
            "children": {
                "clusters": {
                    "hosts": {
                        "aws": {"load_balancers_settings": {"load_balancer": "empty://", "pool": ["203.0.113.0/29"]}}
                    }
                },
                "aws_nodes": {
                    "vars": {
                        "bgp_speaker_asn": 65000,
                        "bgp_speaker_install": False,
                        "bgp_speaker_verify_seconds": 20,
                        "bgp_speaker_hold_time": HOLD,
                        "bgp_speaker_neighbors": [{"address": ROUTER, "asn": 65530}],
                    }
                },
            }
        }
    }
    (folder / "more.yml").write_text(yaml.safe_dump(more))
    STATE["inventory"] = folder
    router, started = Router(fabric), []
    STATE["router"] = router
    router.start()
    try:
        for node in NODES:
            fabric.lab("kube-proxy-start", node)
        for node in NODES:
            pod = node + "-pod-1"
            words = [
                "/usr/bin/python3",
                str(LAB),
                "pod-exec",
                "--name",
                fabric.name,
                pod,
                "--",
                "/usr/bin/python3",
                "-c",
                SERVER,
                pod,
            ]
            started.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True))
        shown = [
            fabric.lab("pod-exec", node + "-pod-1", "--", "ip", "-j", "-4", "address", "show", "eth0").stdout
            for node in NODES
        ]
        STATE["pods"] = [json.loads(text)[0]["addr_info"][0]["local"] for text in shown]
        STATE["before"] = fabric.snapshot("aws-node-1")
        yield
    finally:
        router.stop()
        for process in started:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=10)


def test_a_service_is_reached_over_both_nodes(fabric):
    make_service(fabric, "web")
    with fabric.witness() as writes:
        run = play(fabric, "--check", "--diff").ok()
    assert not writes and WEB in run.out and not STATE["router"].via(WEB)
    play(fabric).ok()
    assert address_of(fabric, "web") == WEB and ledger(fabric) == [WEB]
    STATE["router"].wait(WEB, NODES)
    assert answers(fabric, WEB) <= {node + "-pod-1" for node in NODES}
    assert len(STATE["router"].hops(WEB)) == 2  # one route with two next hops, in the router's kernel
    seen = carried(fabric, WEB)
    fabric.ran(f"new connections at each node: {seen}")
    assert set(seen) == set(NODES) and all(seen.values())


def test_the_second_run_writes_nothing(fabric):
    with fabric.witness() as writes:
        run = play(fabric).ok()
    assert not run.changed and not writes


def test_another_service_leaves_the_sessions_standing(fabric):
    def made():
        text = fabric.sh("aws-node-1", "vtysh", "--vty_socket", "/run/multicluster-bgp", "-c", "show bgp summary json")
        return json.loads(text)["ipv4Unicast"]["peers"][ROUTER]["connectionsEstablished"]

    before = made()
    make_service(fabric, "other")
    play(fabric).ok()
    STATE["router"].wait(OTHER, NODES)
    assert made() == before and answers(fabric, OTHER, 4)


def test_a_bad_change_heals_by_itself(fabric):
    run = play(fabric, bgp_speaker_asn=64999)
    assert run.rc != 0 and "session_lost" in run.out and "has its former BGP speaker again" in run.out
    STATE["router"].wait(WEB, NODES)
    assert answers(fabric, WEB, 4)
    assert not play(fabric).ok().changed


CUT = """table ip mcn_cut {
  chain in { type filter hook input priority 0; ip saddr %s drop; }
  chain out { type filter hook output priority 0; ip daddr %s drop; }
}"""


def test_the_route_of_an_unreachable_node_goes_within_the_hold_time(fabric):
    """Nothing but the missing keepalives notifies the router: the node lives and closes nothing."""
    router, own = STATE["router"], NODES["aws-node-2"]
    assert {router.bgp("neighbors", one)[one]["bgpTimerHoldTimeMsecs"] for one in NODES.values()} == {HOLD * 1000}
    began = time.monotonic()
    router.sh("nft", CUT % (own, own))
    try:
        router.wait(WEB, ["aws-node-1"])
        seconds = time.monotonic() - began
        fabric.ran(f"withdrawn after {seconds:.1f} s, the hold time is {HOLD} s")
        assert seconds < HOLD * 3  # a slow machine's timers are late, but a default of minutes would show
        assert answers(fabric, WEB, 4)
    finally:
        router.sh("nft", "delete", "table", "ip", "mcn_cut")
    router.wait(WEB, NODES, 120.0)


def test_the_route_of_a_dead_node_goes_and_comes_back(fabric):
    fabric.lab("node-stop", "aws-node-2")
    STATE["router"].wait(WEB, ["aws-node-1"])
    assert answers(fabric, WEB, 4)
    fabric.lab("node-rebuild", "aws-node-2")
    own, router = NODES["aws-node-2"], STATE["router"]
    end = time.monotonic() + 60
    while router.bgp("neighbors", own).get(own, {}).get("bgpState") != "Established":
        assert time.monotonic() < end
        time.sleep(0.5)
    time.sleep(3)
    assert router.via(WEB) == {"aws-node-1"}  # the node has a session, and could not deliver
    fabric.lab("kube-proxy-start", "aws-node-2")
    router.wait(WEB, NODES)  # the units are enabled; nobody ran a playbook


def test_deletion_withdraws_and_releases(fabric):
    api(fabric).delete("/api/v1/namespaces/default/services/web")
    api(fabric).delete("/api/v1/namespaces/default/endpoints/web")
    run = play(fabric).ok()
    STATE["router"].wait(WEB, [])
    assert ledger(fabric) == [OTHER] and STATE["router"].via(OTHER) == set(NODES)
    # the address was free for others only when nobody announced it any more
    assert [task for task in RELEASING if task in run.out] == RELEASING and run.out.index(RELEASING[0]) < run.out.index(
        RELEASING[1]
    )


def test_a_dead_api_server_changes_nothing(fabric):
    fabric.lab("api-stop", "aws")
    assert play(fabric).rc != 0
    assert STATE["router"].via(OTHER) == set(NODES)
    fabric.lab("api-start", "aws")


def test_absent_leaves_nothing(fabric):
    assert play(fabric, load_balancers_state="absent").ok().changed
    STATE["router"].wait(OTHER, [])
    assert not address_of(fabric, "other") and ledger(fabric) == []
    assert not play(fabric, load_balancers_state="absent").ok().changed
    for node in NODES:
        assert (
            fabric.sh(
                node,
                "sh",
                "-c",
                "ls /etc/multicluster-network/bgp /etc/systemd/system/multicluster-bgp* 2>/dev/null; true",
            )
            == ""
        )
