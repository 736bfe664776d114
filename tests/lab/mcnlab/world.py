# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes in the world have and a bare network namespace has not: tables of a CNI, a forward policy of drop, strict filters, a family switched off.

A node of a topology file lists in ``like`` which of them it has. This is the one place where the lab excludes what the guides tell users to exclude.
"""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from .topology import Cluster, Node, Topology

#: What a node's ``like`` may name.
MASQUERADE, FORWARD_DROP, STRICT_FILTER, NO_IPV6, HOST_NETWORK = (
    "masquerade",
    "forward-drop",
    "strict-filter",
    "no-ipv6",
    "host-network",
)
KINDS = (MASQUERADE, FORWARD_DROP, STRICT_FILTER, NO_IPV6, HOST_NETWORK)
#: As the tables of a CNI, which are none of the collection.
TABLE = "lab-cni"


def settings(node: Node) -> dict[str, int]:
    """Settings below /proc/sys/net that differ from those of other nodes, set before there is a link."""
    found: dict[str, int] = {}
    if STRICT_FILTER in node.like:
        # The larger of all's and a device's own counts; links that come later have the default.
        found.update({"ipv4/conf/all/rp_filter": 0, "ipv4/conf/default/rp_filter": 1})
    if NO_IPV6 in node.like:
        found.update({"ipv6/conf/all/disable_ipv6": 1, "ipv6/conf/default/disable_ipv6": 1})
    return found


def tables(topology: Topology, cluster: Cluster, node: Node) -> str:
    """The node's tables as nft takes them, each made anew; nothing for a node that has none."""
    return "".join(_table(topology, cluster, node, family) for family in ("ip", "ip6"))


def _table(topology: Topology, cluster: Cluster, node: Node, family: str) -> str:
    own, inside, others = (
        [cidr for cidr in cidrs if (":" in cidr) == (family == "ip6")]
        for cidrs in (
            node.pod_cidrs,
            cluster.pod_cidrs,
            [cidr for other in topology.clusters if other.name != cluster.name for cidr in other.pod_cidrs],
        )
    )
    chains = []
    if FORWARD_DROP in node.like and inside:
        pods = ", ".join(inside)
        chains.append(
            " chain forward {\n  type filter hook forward priority filter; policy drop;\n"
            f"  {family} saddr {{ {pods} }} accept\n  {family} daddr {{ {pods} }} accept\n }}\n"
        )
    if MASQUERADE in node.like and own:
        # What leaves the cluster becomes the node's. The other clusters' ranges are left out, as in the guide on limits.
        chains.append(
            " chain postrouting {\n  type nat hook postrouting priority srcnat; policy accept;\n"
            f"  {family} saddr {{ {', '.join(own)} }} {family} daddr != {{ {', '.join([*inside, *others])} }} masquerade\n }}\n"
        )
    return (
        f"table {family} {TABLE}\ndelete table {family} {TABLE}\ntable {family} {TABLE} {{\n{''.join(chains)}}}\n"
        if chains
        else ""
    )


def host_pod(node: Node) -> dict[str, t.Any]:
    """A Pod on the node's own network, as agents of CNIs, monitoring and ingress controllers are: its addresses are the node's."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "agent-" + node.name, "namespace": "kube-system", "labels": {"app": "agent"}},
        "spec": {
            "hostNetwork": True,
            "nodeName": node.name,
            "automountServiceAccountToken": False,
            "containers": [{"name": "agent", "image": "agent", "ports": [{"containerPort": 9100, "hostPort": 9100}]}],
        },
        "status": {
            "phase": "Running",
            "hostIP": node.address,
            "podIP": node.address,
            "podIPs": [{"ip": address} for address in node.addresses],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
