# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""flannel with its default manifest (vxlan, masquerade) in one cluster, host-local addresses in the other. The tests build on each other."""

from __future__ import annotations

import checks
from installs import FLANNEL, flannel_settings, install_flannel, start_flannel

TOPOLOGY = "flannel"
NEEDS = FLANNEL


def test_flannel_masquerades_what_leaves_its_network(fabric):
    install_flannel(fabric, "flannel")
    fabric.deploy()
    for node in fabric.nodes_of("flannel"):
        rules = fabric.sh(node, "iptables-save", "-t", "nat")
        assert "FLANNEL-POSTRTG" in rules and "MASQUERADE" in rules
    run = fabric.play("preflight", variables={"keep_pod_addresses": False})
    assert run.rc and "[masqueraded]" in run.out, run.out[-3000:]
    fabric.play("preflight").ok()


def test_without_our_table_its_masquerade_takes_the_pods_addresses(fabric):
    fabric.play("site", variables={"keep_pod_addresses": False})
    rows = [row for row in fabric.pairs() if row[0] == "flannel" and fabric.cluster_of_address(row[3]) == "plain"]
    assert len(rows) == 4 and not any(row[4] for row in rows), rows


def test_pods_of_both_clusters_reach_each_other_with_their_own_addresses(fabric):
    assert checks.joined(fabric) == 12


def test_mirrors_names_and_pods_on_the_hosts_network(fabric):
    checks.mirrors(fabric, "flannel", "plain")
    checks.mirrors(fabric, "plain", "flannel")
    checks.hosts(fabric, "flannel", "plain")


def test_imports_and_ports_of_other_nodes(fabric):
    checks.imports(fabric, "flannel", "plain")
    checks.node_ports(fabric, "flannel", "plain")
    checks.node_ports(fabric, "plain", "flannel")


def test_a_trace_finds_the_pods(fabric):
    for document in checks.traced(fabric, "flannel", "plain"):
        ways = " ".join(str(hop) for hop in document["table"])
        assert "cni0" in ways, document["table"]


def test_pods_are_reached_after_the_plugin_has_started_again(fabric):
    for node in fabric.nodes_of("flannel"):
        fabric.stop(node, "flanneld")
        fabric.restart(node, "flanneld")
    assert fabric.all_kept(within=60) == 12


def test_its_rules_in_nftables(fabric):
    """Its other way to masquerade (EnableNFTables), which our table comes before as well."""
    files, arguments = flannel_settings(fabric)
    name, before, after = "net-conf.json", '"EnableNFTables": false', '"EnableNFTables": true'
    assert before in files[name]
    for node in fabric.nodes_of("flannel"):
        fabric.stop(node, "flanneld")
        for table in ("nat", "filter"):
            fabric.sh(node, "sh", "-c", f"iptables-save -t {table} | grep -v -i flannel | iptables-restore -T {table}")
        start_flannel(fabric, node, dict(files, **{name: files[name].replace(before, after)}), arguments)
        fabric.until(
            "its masquerade in nftables",
            lambda node=node: "masquerade" in fabric.sh(node, "sh", "-c", "nft list table ip flannel-ipv4 || true"),
        )
        assert "FLANNEL" not in fabric.sh(node, "iptables-save", "-t", "nat")
    assert fabric.all_kept(within=60) == 12
    fabric.play("site", variables={"keep_pod_addresses": False})
    rows = [row for row in fabric.pairs() if row[0] == "flannel" and fabric.cluster_of_address(row[3]) == "plain"]
    assert len(rows) == 4 and not any(row[4] for row in rows), rows
    assert checks.joined(fabric) == 12
