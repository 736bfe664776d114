# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every condition of a first run, each alone and all at once."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._status.preflight import ERROR, WARNING, find

GOOD = {
    "inventory": [],
    "refused": [],
    "failures": [],
    "workloads": {},
    "grants": {
        "aws": {"pod_cidrs": ["10.2.0.0/16"], "service_cidrs": ["10.3.0.0/16"], "node_cidrs": ["10.66.23.0/24"]},
        "gcp": {"pod_cidrs": ["10.4.0.0/16"], "service_cidrs": ["10.5.0.0/16"], "node_cidrs": ["10.22.22.0/24"]},
    },
    "nodes": {
        name: {
            "cluster": "aws",
            "node": {
                "errors": [],
                "host": {"kernel": "6.1.0-28-amd64", "addresses": [address + "/24", "172.17.0.1/16"]},
                "skew": 0.4,
                "pending": None,
                "devices": [{"name": "wireguard.gcp", "owned": True, "listen_port": 51821, "public_key": name}],
                "udp_ports": [51821],
                "uplinks": [{"device": "eth0", "mtu": 1500, "version": 4}],
                "ranges": [address + "/24", "172.17.0.1/16"],
                "wireguard": "kernel",
                "routes": [
                    {"table": 254, "dst": "10.4.0.0/16", "dev": "wireguard.gcp", "protocol": 109},
                    {"table": 254, "dst": "10.0.0.0/8", "dev": "eth0", "protocol": 4},
                ],
            },
        }
        for name, address in (("aws-node-1", "10.66.23.31"), ("aws-node-2", "10.66.23.32"))
    },
    "devices": {
        name: [{"name": "wireguard.gcp", "listen_port": 51821, "mtu": 1420}] for name in ("aws-node-1", "aws-node-2")
    },
}


def node(facts):
    return facts["nodes"]["aws-node-1"]["node"]


def kernel(facts):
    node(facts)["host"]["kernel"] = "4.9.0-19-amd64"


def wireguard(facts):
    node(facts)["wireguard"] = "missing"


def tun(facts):
    node(facts)["wireguard"] = "no_tun"


def mtu(facts):
    node(facts)["uplinks"][0]["mtu"] = 1450


def port(facts):
    node(facts)["devices"] = []


def port_of_a_device(facts):
    node(facts)["devices"] = [{"name": "wg-vpn", "owned": False, "listen_port": 51821, "public_key": "v"}]


def clock(facts):
    node(facts)["skew"] = -120.0


def key(facts):
    node(facts)["devices"][0]["public_key"] = "aws-node-2"


def address(facts):
    node(facts)["host"]["addresses"] = ["10.66.23.32/24"]


def bridge(facts):
    node(facts)["ranges"].append("10.4.200.1/24")


def route(facts):
    node(facts)["routes"].append({"table": 254, "dst": "10.4.7.0/24", "dev": "eth0", "protocol": 4})


def overlap(facts):
    facts["inventory"].append(
        {
            "where": "clusters/gcp",
            "variable": "pod_cidrs",
            "reason": "pod_subnet_overlap",
            "message": "10.2.0.0/16 of aws",
        }
    )


def unreachable_node(facts):
    facts["nodes"]["aws-node-2"]["node"] = None


def unreachable_cluster(facts):
    facts["failures"].append({"cluster": "gcp", "reason": "unreachable", "message": "connection refused"})


def mark(facts):
    facts["refused"].append({"where": "aws-node-1", "object": "kubespan", "reason": "mark_taken", "message": "0x40"})


def table(facts):
    facts["refused"].append(
        {"where": "aws-node-1", "object": "kubespan", "reason": "table_taken", "message": "table 180"}
    )


def manager(facts):
    facts["workloads"]["gcp"] = [("DaemonSet kube-system/mesh", "quay.io/utilitywarehouse/semaphore-wireguard:v1")]


def unreadable(facts):
    node(facts)["errors"].append({"section": "tables", "message": "this needs root"})


def pending(facts):
    node(facts)["pending"] = "0123"


def claim(facts):
    facts["refused"].append({"where": "mesh", "object": "gcp/x", "reason": "outside_grant", "message": "m"})


def silence(facts):
    facts["unannounced"] = {"gcp": "no node of the cluster has a router to tell: set bgp_speaker_neighbors"}


def strays(facts):
    node(facts).update(strays=["10.2.99.5"], pod_cidrs=["10.2.3.0/24"])


def blocked(facts):
    peers = [{"endpoint": "10.22.22.27:51821", "handshake": 0}, {"endpoint": "10.22.22.28:51821", "handshake": 950}]
    node(facts).update(now=1000, sources={"10.22.22.27:51821": "10.66.23.31"})
    node(facts)["devices"][0]["peers"] = peers


CONDITIONS = {
    kernel: (ERROR, "kernel_too_old"),
    wireguard: (ERROR, "wireguard_missing"),
    tun: (ERROR, "tun_missing"),
    mtu: (ERROR, "mtu_too_small"),
    port: (ERROR, "port_taken"),
    port_of_a_device: (ERROR, "port_taken"),
    clock: (ERROR, "clock_skew"),
    key: (ERROR, "key_twice"),
    address: (ERROR, "address_twice"),
    bridge: (ERROR, "range_in_use"),
    route: (ERROR, "route_taken"),
    overlap: (ERROR, "pod_subnet_overlap"),
    strays: (ERROR, "pods_outside_node_range"),
    blocked: (WARNING, "udp_unanswered"),
    unreachable_node: (ERROR, "no_answer"),
    unreachable_cluster: (ERROR, "unreachable"),
    mark: (ERROR, "mark_taken"),
    table: (ERROR, "table_taken"),
    manager: (WARNING, "foreign_manager"),
    unreadable: (ERROR, "unreadable"),
    pending: (WARNING, "unconfirmed"),
    claim: (WARNING, "outside_grant"),
    silence: (WARNING, "unannounced"),
}


def test_a_good_fleet_has_no_finding():
    assert find(GOOD) == [] and find({}) == []


@pytest.mark.parametrize("plant", CONDITIONS, ids=lambda plant: plant.__name__)
def test_each_condition_alone(plant):
    facts = copy.deepcopy(GOOD)
    plant(facts)
    assert [(row["level"], row["reason"]) for row in find(facts)] == [CONDITIONS[plant]]


def test_all_at_once():
    facts = copy.deepcopy(GOOD)
    chosen = [plant for plant in CONDITIONS if plant not in (tun, port, unreachable_node, key, address, blocked)]
    for plant in chosen:
        plant(facts)
    rows = find(facts)
    assert {(row["level"], row["reason"]) for row in rows} == {CONDITIONS[plant] for plant in chosen}
    assert [row["level"] for row in rows] == sorted(row["level"] for row in rows)


def test_a_blocked_port_is_reported_with_its_addresses_and_strays_with_what_to_set():
    facts = copy.deepcopy(GOOD)
    blocked(facts)
    strays(facts)
    stray, unreachable = find(facts)
    assert (
        "UDP from 10.66.23.31 port 51821 to 10.22.22.27:51821 got no answer; check firewalls and security groups"
        in unreachable["message"]
    )
    assert (
        "the ranges 10.2.3.0/24 of its Node (10.2.99.5)" in stray["message"]
        and "Set pod_ranges of the cluster" in stray["message"]
    )
    facts["nodes"]["aws-node-1"]["node"]["now"] = 1200  # the second one is too old now
    assert len(find(facts)) == 3


@pytest.mark.parametrize("skew,found", [(29.0, 0), (-29.0, 0), (31.0, 1), (None, 0)])
def test_clocks(skew, found):
    facts = copy.deepcopy(GOOD)
    node(facts)["skew"] = skew
    assert len(find(facts, 30.0)) == found


def test_a_wider_route_and_networks_of_the_own_cluster_are_fine():
    facts = copy.deepcopy(GOOD)
    node(facts)["routes"].append({"table": 254, "dst": "10.2.4.0/24", "dev": "eth0", "protocol": 4})
    node(facts)["ranges"].append("10.2.3.1/32")
    assert find(facts) == []


def test_what_strangers_say_is_cut():
    facts = copy.deepcopy(GOOD)
    facts["refused"].append(
        {"where": "mesh\n" + "x" * 999, "object": "o", "reason": "outside_grant", "message": "\x1b[31m" + "y" * 9999}
    )
    row = find(facts)[0]
    assert (
        len(row["where"]) <= 300
        and len(row["message"]) <= 500
        and "\x1b" not in row["message"]
        and "\n" not in row["where"]
    )


@pytest.mark.parametrize(
    "why, said",
    [
        ("", "the host did not answer"),
        ("unreachable: no route to host", "the host did not answer (unreachable: no route to host)"),
        (
            "failed: The module interpreter '/usr/bin/python3.1' was not found.",
            "no usable Python there (failed: The module interpreter '/usr/bin/python3.1'",
        ),
        (
            "failed: Module result deserialization failed: No start of json char found",
            "no usable Python there (failed: Module result",
        ),
        ("failed: /bin/sh: 1: /usr/bin/python3.1: not found", "set ansible_python_interpreter to where it is"),
    ],
)
def test_a_host_without_a_usable_python_is_distinguished_from_one_that_is_away(why, said):
    facts = copy.deepcopy(GOOD)
    unreachable_node(facts)
    (row,) = [row for row in find(dict(facts, unreached={"aws-node-2": why})) if row["reason"] == "no_answer"]
    assert row["message"].startswith(said) or said in row["message"]


def test_one_cause_is_one_row():
    """A host that is not read, and a cluster without the API of mcs, are found by two checks each."""
    facts = copy.deepcopy(GOOD)
    facts["nodes"]["aws-node-2"]["node"] = None
    why = "failed: Module result deserialization failed"
    facts.update(unreached={"aws-node-2": why}, failed=[{"where": "run", "why": why}])
    served = {
        "where": "aws",
        "object": "mcs",
        "reason": "kind_not_served",
        "message": "no ServiceExport",
        "stops": True,
    }
    facts.update(refused=[served], lacking={"aws": {"rights": [], "capability": "mcs", "undefined": True}})
    assert [(row["where"], row["reason"]) for row in find(facts) if row["level"] == "error"] == [
        ("aws", "kind_not_served"),
        ("aws-node-2", "no_answer"),
    ]


def test_where_pods_are_is_reported_as_the_plan_found_it():
    facts = copy.deepcopy(GOOD)
    facts["pod_places"] = {
        "aws": [
            {"level": "error", "reason": "pods_outside_pod_cidrs", "message": "1 pods: outside"},
            {"level": "warning", "reason": "pod_ranges_unread", "message": "pods (forbidden)"},
        ]
    }
    assert find(facts) == [
        {"level": "error", "where": "aws", "reason": "pods_outside_pod_cidrs", "message": "1 pods: outside"},
        {"level": "warning", "where": "aws", "reason": "pod_ranges_unread", "message": "pods (forbidden)"},
    ]


def test_a_node_without_kube_proxy_is_named_where_addresses_of_services_have_to_work():
    proxy = {"running": False, "how": "no process kube-proxy runs"}
    facts = {"nodes": {"n": {"cluster": "aws", "node": {"errors": [], "service_proxy": proxy}}}}
    (row,) = find(dict(facts, needs_proxy=True))
    assert (row["level"], row["where"], row["reason"]) == ("warning", "n", "kube_proxy_off")
    assert row["message"].startswith("no process kube-proxy runs, so addresses of Services")
    assert find(facts) == []
    for running in (True, None):  # Cilium, k3s and others do it themselves
        proxy["running"] = running
        assert find(dict(facts, needs_proxy=True)) == []
