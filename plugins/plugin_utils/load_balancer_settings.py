# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""The settings of every cluster's load balancing, as the inventory has them."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.pools import parse_bounds
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.setup import (
    EQUINIX,
    PROVIDERS,
    pool_texts,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.inventory import GRANTS
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.range_checks import (
    FORMER,
    MAPPING,
    NODE_MAPPING,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.addresses import (
    parse_address,
    readable_address,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory import with_clusters
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction
from ansible_collections.multicluster.network.plugins.plugin_utils.load_balancer_keys import (
    VARIABLE,
    wrong_settings,
    wrong_types,
)


class LoadBalancerAction(InventoryAction):
    """What the modules of load balancing take from the inventory."""

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> str | None:
        """The settings of all clusters, or of the one that is meant."""
        cluster = options.get("cluster")
        if "settings" not in options:
            rows = load_balancer_settings(self.hostvars, self.groups, self.clusters_group)
            options["settings"] = [row for row in rows if cluster in (None, row["cluster"]) and self.concerns(row)]
            if cluster is not None:
                self.only = [cluster]
                if not options["settings"]:
                    return f"nothing in {VARIABLE} of {cluster} concerns it"
        return None

    def concerns(self, row: t.Mapping[str, t.Any]) -> bool:
        """Whether a cluster with these settings is the module's business."""
        return True


def load_balancer_settings(
    hostvars: t.Any, groups: t.Mapping[str, t.Any], clusters_group: str = "clusters"
) -> list[dict[str, t.Any]]:
    """The option ``settings`` of the module load_balancers: one row for each cluster that has ``load_balancers_settings``.

    Nodes' BGP facts come from their variables ``bgp_speaker_*``, unless the settings have ``bgp_nodes``; ``bgp_speakers`` names those
    that have neighbours, ``bgp_families`` the families that those carry. ``reserved_ranges`` has what no Service
    may name: the ranges of all clusters, the pools of the others, and addresses of nodes, routers and control planes. A cluster with a variable
    that cannot be used has ``wrong`` in place of its settings.
    """
    hostvars, groups = with_clusters(hostvars, groups, clusters_group)
    found = _Inventory()
    for host in sorted({host for members in groups.values() for host in members}):
        if "multicluster_cluster" in hostvars[host]:
            found.add_node(str(host), hostvars[host])
    clusters = [str(host) for host in sorted(groups.get(clusters_group, ()))]
    for host in clusters:
        found.add_cluster(host, hostvars[host])
    rows = [found.settings(host, hostvars[host].get(VARIABLE)) for host in clusters]
    return [row for row in rows if row]


def _exported(mapping: t.Any) -> list[t.Any]:
    """The ranges in which other clusters see a cluster's pods or nodes; of what is no mapping nothing, since validate refuses it."""
    if not isinstance(mapping, t.Mapping):
        return []
    former = mapping.get(FORMER)
    rows = [mapping, *([former] if isinstance(former, t.Mapping) else former if isinstance(former, list) else ())]
    return [
        target
        for row in rows
        if isinstance(row, t.Mapping)
        for source, target in row.items()
        if isinstance(target, str)
    ]


class _Inventory:
    """What the hosts of the inventory say, by cluster: BGP facts, speakers, reserved ranges, pools, and what is wrong with their variables."""

    def __init__(self) -> None:
        self.facts: dict[str, list[dict[str, t.Any]]] = {}
        self.speakers: dict[str, list[str]] = {}
        self.families: dict[str, set[int]] = {}
        self.layer2: dict[str, list[dict[str, t.Any]]] = {}
        self.reserved: dict[str, list[str]] = {}
        self.pools: dict[str, list[str]] = {}
        self.wrong: dict[str, list[str]] = {}

    def add_node(self, host: str, given: t.Any) -> None:
        """A node's routers, addresses, and what it announces over BGP."""
        cluster, neighbors = str(given["multicluster_cluster"]), given.get("bgp_speaker_neighbors") or ()
        if not isinstance(neighbors, (list, tuple)) or not all(
            isinstance(one, t.Mapping) and one.get("address") for one in neighbors
        ):
            text = "bgp_speaker_neighbors of {0}: write a list of routers, such as [{{address: 10.0.0.1, asn: 65530}}]"
            self.wrong.setdefault(cluster, []).append(text.format(host))
            neighbors = ()
        self._reserve(f"routers of cluster {cluster} (bgp_speaker_neighbors)", *[one["address"] for one in neighbors])
        self._reserve(
            f"nodes of cluster {cluster} (ansible_host, bgp_speaker_source_ip)",
            given.get("ansible_host"),
            given.get("bgp_speaker_source_ip"),
        )
        name = given.get("node_name") or host
        layer2 = self._on_segment(host, str(name), cluster, given)
        for one in neighbors:
            own = {6 if ":" in str(one["address"]) else 4}
            self.families.setdefault(cluster, set()).update({4, 6} if one.get("both_families") else own)
        if neighbors or layer2:
            self.speakers.setdefault(cluster, []).append(name)
        if not neighbors:
            return
        if "bgp_speaker_source_ip" not in given:
            return
        first = neighbors[0]
        row = {
            "name": name,
            "source_ip": given["bgp_speaker_source_ip"],
            "peers": [one["address"] for one in neighbors],
            "peer_asn": first.get("asn"),
            "password": first.get("password"),
            "multihop": bool(first.get("multihop")),
            "local_asn": given.get("bgp_speaker_asn") or None,
        }
        self.facts.setdefault(cluster, []).append({key: value for key, value in row.items() if value is not None})

    def _on_segment(self, host: str, name: str, cluster: str, given: t.Any) -> bool:
        """A node that takes over for others on its network segment: by the addresses that it is given there, else by the one Ansible reaches it at."""
        segment = given.get("layer2_speaker_segment") or ""
        if not segment:
            return False
        texts = given.get("layer2_speaker_address") or given.get("ansible_host") or ()
        texts = [texts] if isinstance(texts, str) else texts
        addresses = [readable_address(text) for text in texts] if isinstance(texts, (list, tuple)) else []
        if not isinstance(segment, str) or not addresses or None in addresses:
            text = "layer2_speaker_segment and layer2_speaker_address of {0}: write a name such as rack1, and the node's address there such as 10.0.0.11"
            self.wrong.setdefault(cluster, []).append(text.format(host))
            return False
        self._reserve(f"nodes of cluster {cluster} (layer2_speaker_address)", *addresses)
        self.families.setdefault(cluster, set()).update((4, 6))  # groups of a segment hold addresses of both
        self.layer2.setdefault(cluster, []).append(
            {"name": name, "segment": segment, "addresses": [str(address) for address in addresses]}
        )
        return True

    def add_cluster(self, host: str, given: t.Any) -> None:
        """A cluster's ranges, its pool, its control plane's address. What cannot be read of them reserves nothing, and fails this cluster."""
        settings = given.get(VARIABLE)
        if settings:
            self.wrong.setdefault(host, []).extend(f"{VARIABLE} of {host}: {text}" for text in wrong_settings(settings))
        for name in GRANTS:
            self.reserved.update(self._ranges(f"{name} of cluster {host}", host, given.get(name), f"{name} of {host}"))
        for name in (MAPPING, NODE_MAPPING):
            seen = _exported(given.get(name))
            self.reserved.update(self._ranges(f"{name} of cluster {host}", host, seen, f"{name} of {host}"))
        self._reserve(f"control_plane_address_ip of cluster {host}", given.get("control_plane_address_ip"))
        self.pools.update(self._ranges(host, host, pool_texts(settings) if isinstance(settings, t.Mapping) else None))

    def settings(self, host: str, given: t.Any) -> dict[str, t.Any]:
        """The entry of one cluster; nothing for one that has neither settings nor anything wrong."""
        theirs = {"pool of cluster " + name: texts for name, texts in self.pools.items() if name != host}
        if given and not self.wrong.get(host):
            layer2 = {"layer2_nodes": self.layer2[host]} if host in self.layer2 else {}
            row = dict(
                {
                    "bgp_nodes": self.facts.get(host, []),
                    "bgp_speakers": self.speakers.get(host, []),
                    **({"bgp_families": sorted(self.families[host])} if host in self.families else {}),
                    "reserved_ranges": {**self.reserved, **theirs},
                },
                **layer2,
                **dict(given, cluster=host),
            )
            wrong = [
                f"bgp_speaker_neighbors and bgp_speaker_asn of the nodes of {host}: {text}" for text in wrong_types(row)
            ]
            if not wrong:
                return row
            self.wrong[host] = wrong
        if not self.wrong.get(host):
            return {}
        row = {"cluster": host, "wrong": "; ".join(self.wrong[host]), "pool": self.pools.get(host, [])}
        provider = given.get("provider") if isinstance(given, t.Mapping) else None
        if provider:  # one that is misspelt is not that of one's own pool
            row["provider"] = provider if provider in PROVIDERS else EQUINIX
        return row

    def _reserve(self, label: str, *texts: t.Any) -> None:
        """Those that are addresses: a host may be reached by a name as well, or not at all."""
        for text in texts:
            try:
                address = str(parse_address(str(text)))
            except ValueRefused:
                continue
            if address not in self.reserved.setdefault(label, []):
                self.reserved[label].append(address)

    def _ranges(self, key: str, host: str, given: t.Any, variable: str = "") -> dict[str, list[str]]:
        """The readable ones of some ranges under a key, or nothing; with ``variable`` the others are what is wrong with it."""
        readable = []
        for text in given if isinstance(given, (list, tuple)) else [given] if given else []:
            try:
                parse_bounds(str(text))
                readable.append(str(text))
            except ValueRefused as error:
                if variable:
                    self.wrong.setdefault(host, []).append(f"{variable}: {error.message}")
        return {key: readable} if readable else {}
