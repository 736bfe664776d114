# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both versions of IP: Calico with its own IPAM and a pool of each in one cluster, flannel in the other. The tests build on each other."""

from __future__ import annotations

import ipaddress

import checks
from installs import CALICO, FLANNEL, install_calico, install_flannel

TOPOLOGY = "dual"
NEEDS = CALICO + FLANNEL


def test_pods_get_addresses_of_both_versions(fabric):
    install_calico(fabric, "calico")
    install_flannel(fabric, "flannel")
    fabric.deploy()
    for cluster in fabric.clusters:
        network = ipaddress.ip_network(fabric.machinery.topology.cluster(cluster).pod_cidrs[1])
        addresses = [address for unused, address in fabric.pods(cluster, version=6).values()]
        assert len(addresses) == 2 and all(ipaddress.ip_address(address) in network for address in addresses)
    for node in fabric.nodes:
        assert "MASQUERADE" in fabric.sh(node, "ip6tables-save", "-t", "nat"), node


def test_our_table_alone_keeps_addresses_of_both_versions_from_their_masquerade(fabric):
    """Without the pools that the mesh writes for other clusters where it may."""
    never = {"calico_ippools": "never"}
    fabric.play("site", variables=never).ok()
    assert fabric.all_kept() == fabric.all_kept(version=6) == 12
    fabric.play("site", variables=dict(never, keep_pod_addresses=False))
    for version in (4, 6):
        lost = [row for row in fabric.pairs(version=version) if row[0] != fabric.cluster_of_address(row[3])]
        assert len(lost) == 8 and not any(row[4] for row in lost), lost


def test_pods_of_both_clusters_reach_each_other_with_their_own_addresses(fabric):
    assert checks.joined(fabric) == 12


def test_allowed_ips_are_blocks_of_both_versions(fabric):
    """Those of Calico are not in any Node."""
    for node in fabric.nodes_of("flannel"):
        shown = fabric.sh(node, "wg", "show", "wireguard.cali", "allowed-ips")
        networks = [ipaddress.ip_network(text) for line in shown.splitlines() for text in line.split()[1:]]
        for unused, address in fabric.pods("calico", version=6).values():
            (own,) = [one for one in networks if one.version == 6 and ipaddress.ip_address(address) in one]
            assert own.prefixlen > 64, networks


def test_a_trace_finds_the_pods(fabric):
    fabric.play("site").ok()  # where this is run without what is before it
    checks.traced(fabric, "calico", "flannel", 1)
    checks.traced(fabric, "flannel", "calico", 1)
