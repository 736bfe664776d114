# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Service of another load balancer comes here and goes back, as the guide has it, under the eyes of a real router.

The former announcer is FRR on each node, of an autonomous system of its own, as the speaker of MetalLB would be. The router's table is looked at all
the time. The tests build on each other, in order.
"""

from __future__ import annotations

import json
import threading
import time

import pytest
import yaml
from bgp_lab import NODES, ROUTER, Router, api

ADDRESS, FORMER, OWN = "203.0.113.5", 64999, 65000
SERVICE = "/api/v1/namespaces/default/services/web"
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
FOLDER = "/run/former"
CONFIG = """frr defaults traditional
router bgp {0}
 bgp router-id {1}
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor {2} remote-as 65530
 neighbor {2} timers 3 9
 address-family ipv4 unicast
  network {3}/32
 exit-address-family
exit
"""
STATE = {"neighbors": {}}


class Watch(threading.Thread):
    """Which nodes the router sends the address to, and of which autonomous systems it receives it from each: looked at about five times a second."""

    def __init__(self, router):
        super().__init__(daemon=True)
        self.router, self.rows, self.ended, self.broken = router, [], threading.Event(), None

    def run(self):
        names = {own: node for node, own in NODES.items()}
        try:
            while not self.ended.wait(0.15):
                via = frozenset(self.router.via(ADDRESS))
                found = self.router.bgp("ipv4", "unicast", ADDRESS + "/32").get("paths") or ()
                heard = frozenset((names[path["peer"]["peerId"]], int(path["aspath"]["string"])) for path in found)
                self.rows.append((time.monotonic(), via, heard))
        except Exception as error:
            self.broken = error

    def since(self, began):
        """What was seen from a moment on, the present included."""
        end = time.monotonic()
        while not self.rows or self.rows[-1][0] < end:
            assert self.broken is None and self.is_alive(), self.broken
            time.sleep(0.05)
        return [row for row in self.rows if row[0] >= began]


def inside(fabric, node, script):
    return fabric.sh(node, "sh", "-c", script)


def start_former(fabric, node):
    text = CONFIG.format(FORMER, NODES[node], ROUTER, ADDRESS)
    program = "$(ls /usr/lib/frr/bgpd /usr/libexec/frr/bgpd 2>/dev/null | head -1)"
    inside(fabric, node, f"mkdir -p {FOLDER} && cat > {FOLDER}/bgpd.conf <<'X'\n{text}X\nchown -R frr:frr {FOLDER}")
    inside(
        fabric,
        node,
        f"{program} -d --no_zebra --no_kernel -p 0 -P 0 -i {FOLDER}/pid --vty_socket {FOLDER} -f {FOLDER}/bgpd.conf",
    )


def stop_former(fabric, node):
    """As a controller ends its pod: the router is notified."""
    inside(
        fabric,
        node,
        f"kill $(cat {FOLDER}/pid); while kill -0 $(cat {FOLDER}/pid) 2>/dev/null; do sleep 0.1; done; rm -r {FOLDER}",
    )


def write_inventory(**settings):
    given = dict({"load_balancer": "empty://", "pool": ["203.0.113.0/29"]}, **settings)
    more = {
        "all": {
            "children": {
                "clusters": {"hosts": {"aws": {"load_balancers_settings": given}}},
                "aws_nodes": {
                    "hosts": {node: {"bgp_speaker_neighbors": rows} for node, rows in STATE["neighbors"].items()},
                    "vars": {"bgp_speaker_asn": OWN, "bgp_speaker_install": False, "bgp_speaker_verify_seconds": 30},
                },
            }
        }
    }
    (STATE["inventory"] / "more.yml").write_text(yaml.safe_dump(more))


def play(fabric, *arguments, **variables):
    return fabric.play("load_balancers", *arguments, inventory=STATE["inventory"], variables=variables)


def until(heard, within=60.0):
    """Until the router has exactly this, {node: autonomous system}."""
    deadline = time.monotonic() + within
    while STATE["watch"].since(time.monotonic())[-1][2] != frozenset(heard.items()):
        assert time.monotonic() < deadline, STATE["watch"].rows[-1]


def recorded(fabric):
    name = "metal-ccm-static-pool"
    rows = api(fabric).list("/api/v1/namespaces/kube-system/configmaps", field_selector="metadata.name=" + name).items
    return [entry["service"] for row in rows for entry in map(json.loads, (row.get("data") or {}).values())]


@pytest.fixture(scope="module", autouse=True)
def surroundings(fabric, tmp_path_factory):
    """A router that takes neighbours of any autonomous system, and the Service as MetalLB leaves it."""
    STATE["inventory"] = tmp_path_factory.mktemp("inventory")
    (STATE["inventory"] / "hosts.yml").symlink_to(fabric.inventory)
    client = api(fabric)
    client.create(
        "/api/v1/namespaces/default/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        },
        "kubectl",
    )
    client.merge_patch(
        SERVICE, {"metadata": {"annotations": {"metallb.io/ip-allocated-from-pool": "public"}}}, "controller"
    )
    client.merge_patch(SERVICE + "/status", {"status": {"loadBalancer": {"ingress": [{"ip": ADDRESS}]}}}, "controller")
    labels = {"app": "speaker"}
    client.create(
        DAEMON_SETS,
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "speaker"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "speaker", "image": "quay.io/metallb/speaker:v0.16.1"}]},
                },
            },
        },
        "kubectl",
    )
    router = Router(fabric, " neighbor nodes remote-as external\n")
    watch = STATE["watch"] = Watch(router)
    try:
        router.start()
        for node in NODES:
            start_former(fabric, node)
        router.wait(ADDRESS, NODES)
        watch.start()
        yield
    finally:
        watch.ended.set()
        if watch.is_alive():
            watch.join()
        for node in NODES:
            inside(fabric, node, f"[ ! -e {FOLDER}/pid ] || kill $(cat {FOLDER}/pid); rm -rf {FOLDER}")
        router.stop()


def test_the_address_is_taken_over_and_nothing_of_it_changes(fabric):
    began = time.monotonic()
    write_inventory(announced_by="other")
    before = api(fabric).get(SERVICE)
    shown = play(fabric, "--check", "--diff", load_balancers_adopt=True).ok()
    assert "given_by: MetalLB" in shown.out and recorded(fabric) == [] and api(fabric).get(SERVICE) == before
    taken = play(fabric, load_balancers_adopt=True).ok()
    assert "MetalLB is at work (DaemonSet default/speaker)" in taken.out and recorded(fabric) == ["default/web"]
    assert api(fabric).get(SERVICE)["status"] == before["status"]
    STATE["status"] = before["status"]
    # the former one alone, all the time
    assert {heard for dummy, dummy_via, heard in STATE["watch"].since(began)} == {
        frozenset((node, FORMER) for node in NODES)
    }


def test_a_node_with_a_running_former_speaker_is_left_alone(fabric):
    began = time.monotonic()
    STATE["neighbors"] = {"aws-node-1": [{"address": ROUTER, "asn": 65530}]}
    write_inventory(announced_by="other")
    for arguments in (("--check",), ()):
        refused = play(fabric, *arguments)
        assert refused.rc and "has a session with " + ROUTER in refused.out and "bgpd" in refused.out
    assert "no" in inside(
        fabric, "aws-node-1", "systemctl is-active --quiet multicluster-bgp.service && echo yes || echo no"
    )
    assert {heard for dummy, dummy_via, heard in STATE["watch"].since(began)} == {
        frozenset((node, FORMER) for node in NODES)
    }


def test_node_by_node(fabric):
    began = time.monotonic()
    now = dict.fromkeys(NODES, FORMER)
    for node in NODES:
        stop_former(fabric, node)
        STATE["neighbors"][node] = [{"address": ROUTER, "asn": 65530}]
        write_inventory(announced_by="other")
        play(fabric).ok()
        now[node] = OWN
        until(now)
    seen = STATE["watch"].since(began)
    assert all(via for dummy, via, dummy_heard in seen), "the address was away"
    assert all(len(dict(heard)) == len(heard) for dummy, dummy_via, heard in seen), "a node announced it in two ways"
    both = [at for at, dummy, heard in seen if {asn for dummy_node, asn in heard} == {FORMER, OWN}]
    fabric.ran(
        f"{len(seen)} looks: never away; paths of both kinds for {both[-1] - both[0]:.0f} s, from the first node to the last"
    )


def test_what_the_former_one_left_goes_with_it(fabric):
    began = time.monotonic()
    api(fabric).delete(DAEMON_SETS + "/speaker")
    write_inventory()
    play(fabric, load_balancers_adopt=True).ok()
    now = api(fabric).get(SERVICE)
    assert (
        "metallb.io/ip-allocated-from-pool" not in now["metadata"].get("annotations", {})
        and now["status"] == STATE["status"]
    )
    again = play(fabric).ok()
    assert not again.changed and "has a session with" not in again.out
    assert {heard for dummy, dummy_via, heard in STATE["watch"].since(began)} == {
        frozenset((node, OWN) for node in NODES)
    }


def test_and_back_node_by_node(fabric):
    began = time.monotonic()
    now = dict.fromkeys(NODES, OWN)
    for node in NODES:
        STATE["neighbors"][node] = []
        write_inventory(announced_by="other")
        play(fabric).ok()
        start_former(fabric, node)
        now[node] = FORMER
        until(now)
    seen = STATE["watch"].since(began)
    assert all(via for dummy, via, dummy_heard in seen), "the address was away"
    assert all(len(dict(heard)) == len(heard) for dummy, dummy_via, heard in seen), "a node announced it in two ways"
    began = time.monotonic()
    play(fabric, load_balancers_state="absent", load_balancers_keep_addresses="metallb").ok()
    left = api(fabric).get(SERVICE)
    assert (
        left["status"] == STATE["status"]
        and left["metadata"]["annotations"] == {"metallb.io/loadBalancerIPs": ADDRESS}
        and recorded(fabric) == []
    )
    assert not any(row["manager"].startswith("multicluster") for row in left["metadata"]["managedFields"])
    assert {heard for dummy, dummy_via, heard in STATE["watch"].since(began)} == {
        frozenset((node, FORMER) for node in NODES)
    }
    for node in NODES:
        assert (
            inside(fabric, node, "ls -d /etc/systemd/system/multicluster-bgp* /run/multicluster-bgp 2>/dev/null; true")
            == ""
        )
