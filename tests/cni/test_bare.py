# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster without ranges anywhere: its Nodes have no spec.podCIDR, and its network plugin has no objects. Its Pods are the source of ranges.

No program of the folder is needed. The tests build on each other.
"""

from __future__ import annotations

import json

import checks
from cni_fabric import mirror
from installs import install_plain

TOPOLOGY = "bare"
NEEDS = ()


def test_nodes_have_no_ranges(fabric):
    install_plain(fabric, "bare")
    fabric.deploy()
    assert not any(item["spec"].get("podCIDR") for item in fabric.objects("bare", "nodes"))


def test_auto_takes_the_pods_and_all_reach_each_other_with_their_own_addresses(fabric):
    assert checks.joined(fabric) == 12
    run = fabric.play("preflight").ok()
    assert "pod ranges of bare: Pods (pod_ranges: pods)" in run.out, run.out[-3000:]


def test_a_further_pod_is_reached_after_a_run(fabric):
    fabric.apply("bare", mirror("late"))
    fabric.kubectl("bare", "rollout", "status", "daemonset/late", "--timeout=300s")
    fabric.play("mesh").ok()
    for unused, address in fabric.pods("bare", "late").values():
        for pod, own in fabric.pods("plain").values():
            assert fabric.ask("plain", pod, [address]) == {address: own}


def test_mirrors_names_and_imports(fabric):
    checks.mirrors(fabric, "bare", "plain")
    checks.mirrors(fabric, "plain", "bare")
    checks.imports(fabric, "bare", "plain")


def test_a_trace_finds_the_pods(fabric):
    checks.traced(fabric, "bare", "plain")


def test_a_range_of_a_node_that_does_not_hold_its_pods_is_named(fabric):
    """Nodes get a spec.podCIDR that their network does not use: ``preflight`` has it with the variable to set, which leads to the pods again."""
    for number, node in enumerate(fabric.nodes_of("bare")):
        cidr = f"10.32.{200 + number}.0/24"
        patch = json.dumps({"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}})
        fabric.kubectl("bare", "patch", "node", node, "--patch", patch)
    run = fabric.play("preflight")
    assert run.rc and "[pods_outside_node_range]" in run.out and "pod_ranges" in run.out, run.out[-4000:]
    pods = {"pod_ranges": "pods"}
    fabric.play("mesh", variables=pods).ok()
    assert fabric.all_kept() == 12
    fabric.play("preflight", variables=pods).ok()
