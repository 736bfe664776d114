# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cilium's operator hands out ranges of its default pool in one cluster; host-local addresses are in the other.

Its agent does not run here: the test writes the objects that agents write, and gives pods addresses of the ranges that the operator chose. The
tests build on each other.
"""

from __future__ import annotations

import ipaddress

import checks
from installs import CILIUM, cilium_node, cilium_ranges, install_cilium_operator

TOPOLOGY = "cilium"
NEEDS = CILIUM


def test_the_operator_gives_other_ranges_than_the_nodes_have(fabric):
    install_cilium_operator(fabric, "cilium")
    fabric.deploy()
    given = {node: ipaddress.ip_network(text) for node, text in cilium_ranges(fabric, "cilium", 2).items()}
    specs = {item["metadata"]["name"]: item["spec"]["podCIDR"] for item in fabric.objects("cilium", "nodes")}
    for node, (unused, address) in fabric.pods("cilium").items():
        assert ipaddress.ip_address(address) in given[node] and str(given[node]) != specs[node]


def test_pods_of_both_clusters_reach_each_other_with_their_own_addresses(fabric):
    assert checks.joined(fabric) == 12
    run = fabric.play("preflight").ok()
    assert "pod ranges of cilium: CiliumNodes (pod_ranges: cilium)" in run.out


def test_mirrors_names_and_pods_on_the_hosts_network(fabric):
    checks.mirrors(fabric, "cilium", "plain")
    checks.mirrors(fabric, "plain", "cilium")
    checks.hosts(fabric, "cilium", "plain")


def test_imports_and_ports_of_other_nodes(fabric):
    checks.imports(fabric, "cilium", "plain")
    checks.node_ports(fabric, "cilium", "plain")
    checks.node_ports(fabric, "plain", "cilium")


def test_a_trace_finds_the_pods(fabric):
    checks.traced(fabric, "cilium", "plain")


def test_a_range_that_is_taken_is_given_to_nobody_else(fabric):
    """A node that claims the range of another: the operator takes the claim back, and the mesh has the owner alone."""
    ranges = cilium_ranges(fabric, "cilium", 2)
    thief = cilium_node(fabric, "cilium-1")
    thief["metadata"]["name"] = "cilium-3"
    thief["spec"]["ipam"]["podCIDRs"] = [ranges["cilium-1"]]
    fabric.apply("cilium", thief)
    run = fabric.play("mesh").ok()
    assert not run.changed, run.out[-3000:]
    assert fabric.all_kept() == 12
    fabric.kubectl("cilium", "delete", "ciliumnode", "cilium-3")
