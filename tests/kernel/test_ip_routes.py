# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets of routes on a real kernel, `ip` as the witness."""

from __future__ import annotations

import subprocess
import time

import pytest


@pytest.fixture(name="routed")
def routed_fixture(node):
    """A node with two devices that are up."""
    for name in ("wg0", "wg1"):
        node.run("ip", "link", "add", name, "type", "veth", "peer", "name", name + "p")
        node.run("ip", "link", "set", name, "up")
        node.run("ip", "link", "set", name + "p", "up")
    node.run("ip", "address", "add", "10.0.0.1/24", "dev", "wg0")
    return node


def routes(node, *words):
    """Routes as ip shows them, without what the kernel made."""
    lines = node.run("ip", "-N", *words).splitlines()
    return [" ".join(line.split()) for line in lines if "proto 2" not in line and "anycast" not in line]


def run(node, check=False, **desired):
    return node.flow("ip_routes", dict({"devices": ["wg0"]}, **desired), check)


SET = [
    {"dst": "10.4.3.2/16", "dev": "wg0"},
    {"dst": "fd44::/48", "dev": "wg0"},
    {"dst": "10.6.0.0/16", "dev": "wg0", "via": "10.0.0.9", "src": "10.0.0.1", "metric": 50},
]


def test_whole_life(routed):
    assert run(routed, routes=SET, check=True)["plan"]["create"] == 3
    assert routes(routed, "route") == []
    made = run(routed, routes=SET)
    assert made["plan"]["create"] == 3 and not made["warnings"] and len(made["routes"]) == 3
    assert made["stats"]["netlink_writes"] == 3
    assert routes(routed, "route") == [
        "10.4.0.0/16 dev wg0 proto 109 scope 253",
        "10.6.0.0/16 via 10.0.0.9 dev wg0 proto 109 src 10.0.0.1 metric 50",
    ]
    assert "fd44::/48 dev wg0 proto 109 metric 1024 pref medium" in routes(routed, "-6", "route")

    monitor = subprocess.Popen(routed.command("ip", "-N", "monitor", "route"), stdout=subprocess.PIPE, text=True)
    time.sleep(0.2)
    again = run(routed, routes=SET)
    assert not again["changed"] and again["stats"]["netlink_writes"] == 0
    assert again["routes"] == made["routes"]
    time.sleep(0.1)
    monitor.terminate()
    # The kernel's own routes (protocol 2) may still come while the devices settle.
    assert [line for line in monitor.communicate()[0].splitlines() if " proto 2 " not in line] == []

    changed = run(routed, devices=["wg0", "wg1"], routes=[dict(SET[0], dev="wg1"), SET[1]])
    assert (changed["plan"]["update"], changed["plan"]["delete"]) == (1, 1) and not changed["warnings"]
    assert routes(routed, "route") == ["10.4.0.0/16 dev wg1 proto 109 scope 253"]
    assert run(routed, devices=["wg0", "wg1"], state="absent")["plan"]["delete"] == 2
    assert not run(routed, devices=["wg0", "wg1"], state="absent")["changed"]
    assert routes(routed, "route") == []


def test_unowned_routes_are_refused_adopted_on_request_and_never_purged(routed):
    routed.run("ip", "route", "add", "10.4.0.0/16", "dev", "wg1")
    routed.run("ip", "route", "add", "10.5.0.0/16", "dev", "wg0")
    routed.run("ip", "route", "add", "10.7.0.0/16", "dev", "wg1", "proto", "109")
    routed.run("ip", "-6", "route", "add", "fd55::/48", "dev", "wg1")
    before = routes(routed, "route") + routes(routed, "-6", "route")
    desired = [{"dst": cidr, "dev": "wg0"} for cidr in ("10.4.0.0/16", "10.5.0.0/16", "fd55::/48")]
    refused = run(routed, routes=desired)
    assert not refused["changed"]
    assert [entry["reason"] for entry in refused["refused"]] == ["not_ours", "adoptable", "not_ours"]
    assert routes(routed, "route") + routes(routed, "-6", "route") == before
    assert not run(routed, state="absent")["changed"]
    adopted = run(routed, routes=desired, adopt=True)
    assert adopted["plan"]["update"] == 3 and not adopted["warnings"]
    assert routes(routed, "route") == [
        "10.4.0.0/16 dev wg0 proto 109 scope 253",
        "10.5.0.0/16 dev wg0 proto 109 scope 253",
        "10.7.0.0/16 dev wg1 proto 109 scope 253",
    ]
    assert not run(routed, routes=desired)["changed"]


def test_a_table_of_ones_own_fails_closed(routed):
    desired = [
        {"dst": "0.0.0.0/0", "dev": "wg0"},
        {"dst": "::/0", "dev": "wg0"},
        {"dst": "0.0.0.0/0", "type": "unreachable", "metric": 4278198272},
        {"dst": "::/0", "type": "unreachable", "metric": 4278198272},
        {"dst": "10.66.0.0/16", "type": "blackhole"},
        {"dst": "10.67.0.0/16", "type": "throw"},
        {"dst": "10.68.0.0/16", "type": "prohibit"},
    ]
    made = run(routed, table="180", devices=None, routes=desired)
    assert made["plan"]["create"] == 7 and not made["warnings"]
    assert not run(routed, table=180, devices=None, routes=desired)["changed"]
    assert len(routes(routed, "route", "show", "table", "180")) == 5
    assert run(routed, table=180, devices=None, state="absent")["plan"]["delete"] == 7
    assert not run(routed, table=180, devices=None, state="absent")["changed"]


def test_routes_have_mtus_and_several_forms_are_read(routed):
    desired = [
        {"dst": "0.0.0.0/0", "dev": "wg0", "mtu": 1420, "scope": "global", "metric": 1},
        {"dst": "::/0", "dev": "wg0", "mtu": 1420},
        {"dst": "10.9.0.0/16", "dev": "wg0", "mtu": 1300, "mtu_locked": True},
    ]
    assert run(routed, table="180", devices=None, routes=desired)["plan"]["create"] == 3
    assert not run(routed, table="180", devices=None, routes=desired)["changed"]
    shown = routes(routed, "route", "show", "table", "180")
    assert shown == [
        "default dev wg0 proto 109 metric 1 mtu 1420",
        "10.9.0.0/16 dev wg0 proto 109 scope 253 mtu lock 1300",
    ]
    desired[2].pop("mtu_locked")
    desired[1]["mtu"] = 1400
    changed = run(routed, table="180", devices=None, routes=desired)
    assert changed["plan"]["update"] == 2 and not changed["warnings"]
    routed.run(
        "ip",
        "route",
        "change",
        "table",
        "180",
        "10.9.0.0/16",
        "dev",
        "wg0",
        "proto",
        "109",
        "scope",
        "link",
        "mtu",
        "1200",
    )
    assert run(routed, table="180", devices=None, routes=desired)["plan"]["update"] == 1
    bad = [
        {"dst": "::/0", "dev": "wg0", "mtu": 1279},
        {"dst": "10.0.0.0/8", "dev": "wg0", "mtu_locked": True},
        {"dst": "10.0.0.0/8", "type": "throw", "mtu": 1400},
    ]
    refused = run(routed, table="181", devices=None, routes=bad)
    assert [entry["reason"] for entry in refused["refused"]] == ["bad_route"] * 3
    # what others make in an owned table is read, whatever its form
    routed.run(
        "ip", "route", "add", "10.10.0.0/16", "table", "180", "nexthop", "via", "10.0.0.8", "nexthop", "via", "10.0.0.9"
    )
    routed.run("ip", "route", "add", "10.11.0.0/16", "table", "180", "via", "inet6", "fe80::9", "dev", "wg0")
    routed.run("ip", "route", "add", "10.9.0.0/16", "table", "180", "dev", "wg0", "tos", "4")
    assert not run(routed, table="180", devices=None, routes=desired)["changed"]


def test_one_route_that_the_kernel_refuses_does_not_stop_the_others(routed, flow_failed):
    desired = [
        {"dst": "10.6.0.0/16", "dev": "wg0", "via": "203.0.113.1"},
        SET[0],
        {"dst": "10.9.0.0/16", "dev": "gone0"},
    ]
    with pytest.raises(flow_failed, match="failed to set route 10.6.0.0/16: Network is unreachable"):
        run(routed, devices=["wg0", "gone0"], routes=desired)
    assert routes(routed, "route") == ["10.4.0.0/16 dev wg0 proto 109 scope 253"]
    assert run(routed, devices=["wg0", "gone0"], routes=desired[1:])["refused"][0]["reason"] == "device_missing"


def test_a_device_that_is_down(routed, flow_failed):
    routed.run("ip", "link", "set", "wg0", "down")
    with pytest.raises(flow_failed, match="the device is down"):
        run(routed, routes=[SET[0]])


def test_thousands_of_routes(routed):
    desired = [{"dst": f"10.{100 + i // 256}.{i % 256}.0/24", "dev": "wg0"} for i in range(2000)]
    assert not run(routed, routes=desired)["warnings"]
    again = run(routed, routes=desired)
    assert not again["changed"] and again["stats"]["reads"] == 2
    assert run(routed, state="absent")["plan"]["delete"] == 2000


def test_many_routes_go_in_batches_and_a_refused_one_stops_no_other(routed, flow_failed):
    many = [{"dst": f"10.{100 + number // 256}.{number % 256}.0/24", "dev": "wg0"} for number in range(350)]
    bad = {"dst": "10.99.0.0/16", "dev": "wg0", "via": "192.0.2.1"}
    with pytest.raises(flow_failed, match="set route 10.99.0.0/16: Network is unreachable"):
        run(routed, routes=many[:170] + [bad] + many[170:])
    assert len(routes(routed, "route")) == 350
    done = run(routed, routes=many)
    assert not done["changed"]
    assert run(routed, routes=many[100:])["plan"]["delete"] == 100
    assert run(routed, state="absent")["plan"]["delete"] == 250 and routes(routed, "route") == []
