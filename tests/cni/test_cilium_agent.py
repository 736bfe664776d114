# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cilium as its chart installs it, with its agent and its eBPF programs on the devices of nodes and pods, in one cluster; host-local addresses in the other.

The tests build on each other.
"""

from __future__ import annotations

import gzip
import ipaddress
import json
import pathlib

import checks
import pytest
from cni_fabric import mirror
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
    assert checks.joined(fabric) == 12
    run = fabric.play("preflight").ok()
    assert "pod ranges of agent: CiliumNodes (pod_ranges: cilium)" in run.out, run.out[-3000:]


def test_the_agents_take_no_device_of_the_mesh_for_an_uplink(fabric):
    """They would lower the MTU of all pods to that of the device, since they take the smallest of their uplinks."""
    for node, (pod, unused) in fabric.pods("agent").items():
        dump = json.loads(fabric.in_runtime(node, "/mnt/cni-bin/cilium-dbg", "statedb"))
        selected = {row["Name"] for row in dump["devices"] if row["Selected"]}
        assert selected == {"eth0"}, dump["devices"]
        assert fabric.kubectl("agent", "exec", pod, "--", "cat", "/sys/class/net/eth0/mtu").strip() == "1500"


def test_mirrors_and_names(fabric):
    checks.mirrors(fabric, "agent", "plain")
    checks.mirrors(fabric, "plain", "agent")


def test_imports_and_ports_of_other_nodes(fabric):
    checks.imports(fabric, "agent", "plain")
    checks.node_ports(fabric, "agent", "plain")
    checks.node_ports(fabric, "plain", "agent")


def test_a_trace_finds_the_pods(fabric):
    checks.traced(fabric, "agent", "plain")
    checks.traced(fabric, "plain", "agent", 1)


def test_a_policy_of_cilium_admits_the_pods_of_our_set_alone(fabric):
    """The policy as the guide has it, enforced by the agent on the pod's node."""
    guarded = mirror("guarded")
    guarded["kind"], guarded["spec"]["template"]["spec"]["nodeName"] = "Deployment", "agent-1"
    fabric.apply("agent", guarded, guard("guarded", "plain-default-asker"))
    fabric.kubectl("agent", "rollout", "status", "deployment/guarded", "--timeout=300s")
    asker, other = (fabric.pods("plain")[node] for node in fabric.nodes_of("plain"))
    fabric.kubectl("plain", "label", "pod", asker[0], "policy.semaphore.uw.io/name=asker")
    fabric.play("network_sets").ok()
    ((unused, address),) = fabric.pods("agent", "guarded").values()
    own = fabric.pods("agent")["agent-2"]

    def answers():
        return [
            fabric.ask(*one, [address])[address]
            for one in (("plain", asker[0]), ("plain", other[0]), ("agent", own[0]))
        ]

    fabric.until("answers to the pod of the set alone", lambda: answers() == [asker[1], "", ""], 60)
    fabric.play("network_sets", variables={"network_sets_state": "absent"}).ok()
    fabric.until("no answers", lambda: answers() == ["", "", ""], 60)
    fabric.kubectl("agent", "delete", "deployment/guarded", "ciliumnetworkpolicies/guarded")


def guard(app, group):
    """Cilium's policy: pods of an app take connections from a CiliumCIDRGroup alone."""
    rule = {"fromCIDRSet": [{"cidrGroupRef": group}], "toPorts": [{"ports": [{"port": "8080", "protocol": "TCP"}]}]}
    return {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"endpointSelector": {"matchLabels": {"app": app}}, "ingress": [rule]},
    }
