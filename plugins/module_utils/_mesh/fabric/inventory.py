# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric: clusters and nodes as the inventory declares them, validated at once (semaphore 2.1, 3.1; decision 37).

A cluster's variables (all optional but pod_cidrs):

pod_cidrs, service_cidrs, node_cidrs, wireguard_cidrs
    What the cluster is granted: lists of networks, or one as text.
floating_cidrs
    What load balancing hands out there, as networks: no node has such an address (threat T48). The pools of load_balancers_settings and
    control_plane_address_ip are added where the inventory is read.
wireguard_port, wireguard_mtu
    UDP port (0: found by listen_ports) and MTU of the device that nodes of the *other* clusters use towards this one.
wireguard_ports, wireguard_mtus
    {remote: value}: exceptions on this cluster's own nodes.
device_alias
    Replaces the cluster's name in device names, when its name has more than five characters.
multicluster_cluster_id, mcs_namespaces
    Of the Multi-Cluster Services API: the cluster's id (default: its name), and from which namespaces it may export.
exported_pod_cidrs, translation_pool
    {pod range: what other clusters see instead}, and from where validate proposes such ranges (translation 2).
exported_node_cidrs
    {node range: where other clusters reach the nodes, by the tunnels}, and former mappings (translation 7).
endpoint_address_type, allowed_ips_source, pod_ranges, pod_ranges_limit, keep_pod_addresses, calico_ippools, key_dir, allow
    Choices of the capabilities.
"""

from __future__ import annotations

import typing as t

from ..._plan.mesh_plan import RemotePlan
from ..._values.addresses import parse_network
from ..._values.exported_ranges import ExportedRanges
from ..semaphore.device import TXQUEUELEN, device_of, listen_ports, routes_of
from .checks import Finding, check_definition

GRANTS = ("pod_cidrs", "service_cidrs", "node_cidrs", "wireguard_cidrs")


class InventoryRefused(Exception):
    """The inventory has errors; ``findings`` lists them all as {where, variable, reason, message}."""

    def __init__(self, findings: t.Sequence[t.Mapping[str, t.Any]]) -> None:
        self.findings = list(findings)
        lines = ["{where}: {variable}: {message} [{reason}]".format(**finding) for finding in self.findings]
        super().__init__("the inventory needs {0} correction(s):\n{1}".format(len(lines), "\n".join(lines)))


class Fabric(t.NamedTuple):
    """A validated definition in normal form. ``clusters``: {name: variables with defaults}, ``nodes``: {host: {cluster, node_name, and
    endpoint where the host has wireguard_endpoint}}.
    """

    name: str
    clusters: dict[str, dict[str, t.Any]]
    nodes: dict[str, dict[str, str]]

    def grants(self) -> dict[str, dict[str, list[str]]]:
        """{cluster: {pod_cidrs, service_cidrs, node_cidrs, wireguard_cidrs}} for check_claims."""
        return {name: {key: cluster[key] for key in GRANTS} for name, cluster in self.clusters.items()}

    def exported(self) -> dict[str, ExportedRanges]:
        """How other clusters see the pods and nodes of those that have a mapping."""
        found = {name: self._exported(name) for name in self.clusters}
        return {name: one for name, one in found.items() if one is not None}

    def _exported(self, cluster: str) -> ExportedRanges | None:
        given = self.clusters[cluster]
        nodes = given["exported_node_cidrs"], given["former_node_cidrs"]
        found = ExportedRanges(given["exported_pod_cidrs"], given["former_pod_cidrs"], *nodes)
        return found or None

    def seen_ranges(self, cluster: str) -> list[str]:
        """The ranges in which other clusters see a cluster's pods, those of before too while they are listed, and its nodes."""
        own, exported = self.clusters[cluster]["pod_cidrs"], self._exported(cluster)
        if exported is None:
            return list(own)
        return [*map(str, exported.accepted_networks(map(parse_network, own))), *exported.exported_nodes]

    def seen_grants(self) -> dict[str, dict[str, list[str]]]:
        """As ``grants``, with the ranges in which other clusters see pods and nodes."""
        return {name: dict(row, pod_cidrs=self.seen_ranges(name)) for name, row in self.grants().items()}

    def balanced(self) -> list[str]:
        """The networks that load balancing hands out, of all clusters: nodes of two may be on one segment."""
        return sorted({text for cluster in self.clusters.values() for text in cluster["floating_cidrs"]})

    def remotes(self, local: str, announced: t.Mapping[str, int] | None = None) -> dict[str, RemotePlan]:
        """What every node of a cluster has per remote, by name, without peers. announced: ports that work now, see listen_ports."""
        mine, ports = self.clusters[local], listen_ports(self.clusters, local, announced)
        found = {}
        for name in sorted(self.clusters):
            if name == local:
                continue
            remote = self.clusters[name]
            device = device_of(name, remote["device_alias"])
            subnets = self.seen_ranges(name)
            found[name] = RemotePlan(
                device=device,
                listen_port=ports[name],
                mtu=mine["wireguard_mtus"].get(name, remote["wireguard_mtu"]),
                txqueuelen=TXQUEUELEN,
                pod_subnets=subnets,
                routes=routes_of(device, subnets),
                private_key_file=f"{mine['key_dir'].rstrip('/')}/{device}.key",
            )
        return found

    def hosts_of(self, cluster: str) -> dict[str, str]:
        """{inventory host: node name} of one cluster."""
        return {host: node["node_name"] for host, node in self.nodes.items() if node["cluster"] == cluster}


def load_fabric(definition: t.Mapping[str, t.Any]) -> tuple[Fabric, list[Finding]]:
    """The fabric of an inventory and everything that is wrong with it, sorted.

    definition: {"name": str, "clusters": {name: {variables}}, "nodes": {host: {"multicluster_cluster": cluster,
    "node_name": name, "wireguard_endpoint": address or name}},
    "findings": [{where, variable, reason, message, level}], those of the inventory as a whole}. The Fabric
    holds what could be read and is fit for use only when no finding is an error (``errors``).
    """
    name, clusters, nodes, findings = check_definition(definition)
    return Fabric(name, clusters, nodes), findings


def errors(findings: t.Iterable[Finding]) -> list[Finding]:
    """The findings that forbid a run; the rest are warnings."""
    return [finding for finding in findings if finding.level == "error"]
