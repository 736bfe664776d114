# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cilium as its chart installs it, with its agent and its eBPF programs on the devices of nodes and pods, in one cluster; host-local addresses in the other.

The tests build on each other.
"""

from __future__ import annotations

import gzip
import ipaddress
import pathlib

import checks
import pytest
from conftest import not_run
from installs import CILIUM_AGENT, cilium_ranges, install_cilium

TOPOLOGY = "agent"
NEEDS = CILIUM_AGENT
#: What Cilium's documents require of a kernel for its default settings (system requirements): of its configuration, and of its file systems.
OPTIONS = ("BPF", "BPF_SYSCALL", "BPF_JIT", "NET_CLS_ACT", "NET_CLS_BPF", "NET_SCH_INGRESS", "CGROUP_BPF", "VXLAN")
FILE_SYSTEMS = ("bpf", "cgroup2")


def lacks():
    """What the agent needs and this kernel does not have; empty where it has all, or does not show its configuration."""
    shown = {line.split()[-1] for line in pathlib.Path("/proc/filesystems").read_text(encoding="utf-8").splitlines()}
    found = [f"the file system {name}" for name in FILE_SYSTEMS if name not in shown]
    config = pathlib.Path("/proc/config.gz")
    if config.exists():
        lines = set(gzip.decompress(config.read_bytes()).decode().splitlines())
        found += [f"CONFIG_{name}" for name in OPTIONS if not lines & {f"CONFIG_{name}=y", f"CONFIG_{name}=m"}]
    return found


@pytest.fixture(autouse=True)
def kernel():
    absent = lacks()
    if absent:
        not_run("cilium-agent", __name__, f"this kernel lacks {', '.join(absent)}")


def test_pods_get_addresses_of_their_nodes_ranges(fabric):
    install_cilium(fabric, "agent")
    fabric.deploy()
    given = {node: ipaddress.ip_network(text) for node, text in cilium_ranges(fabric, "agent", 2).items()}
    for node, (unused, address) in fabric.pods("agent").items():
        assert ipaddress.ip_address(address) in given[node]
        assert "MASQUERADE" in fabric.sh(node, "iptables-save", "-t", "nat")
        shown = fabric.in_runtime(node, "/mnt/cni-bin/cilium-dbg", "status", "--brief")
        assert shown.strip() == "OK", shown


def test_our_table_alone_keeps_addresses_from_its_masquerade(fabric):
    fabric.play("site", variables={"keep_pod_addresses": False})
    lost = [row for row in fabric.pairs() if row[0] == "agent" and fabric.cluster_of_address(row[3]) == "plain"]
    assert len(lost) == 4 and not any(row[4] == row[2] for row in lost), lost


def test_pods_of_both_clusters_reach_each_other_with_their_own_addresses(fabric):
    """Of two runs ``verify`` was green in one, and had mtu_black_hole for pods of agents in the other."""
    fabric.play("site").ok()
    assert fabric.all_kept() == 12


def test_mirrors_and_names(fabric):
    checks.mirrors(fabric, "agent", "plain")
    checks.mirrors(fabric, "plain", "agent")
