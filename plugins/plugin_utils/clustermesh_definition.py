# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""A Kilo mesh of the inventory's clusters."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.plugin_utils.inventory import Groups, with_clusters
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory_task import InventoryAction

#: Variable of a cluster's host -> field of its entry.
_FIELDS = (
    ("wireguard_port", "wireguardPort"),
    ("clustermesh_keepalive", "persistentKeepalive"),
    ("clustermesh_endpoint_policy", "endpoint_policy"),
)


def _texts(value: t.Any) -> list[str]:
    if value is None or value == "":
        return []
    return [str(value)] if isinstance(value, str) else [str(item) for item in value]


def _entry(name: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    entry: dict[str, t.Any] = {"name": name}
    for variable in ("exported_pod_cidrs", "exported_node_cidrs"):
        if variable not in given or not given[variable]:
            continue
        raise ValueError(
            f"{name} has {variable}, and a Kilo mesh translates no addresses: Kilo programs its devices for itself; take the "
            "Semaphore mesh, or remove the mapping and give the clusters ranges that do not overlap [mode_unsupported]"
        )
    for variable, field in _FIELDS:
        if variable in given and given[variable] not in (None, ""):
            value = given[variable]
            entry[field] = int(value) if field != "endpoint_policy" else str(value)
    flat = _texts(given["clustermesh_allowed_networks"]) if "clustermesh_allowed_networks" in given else []
    if flat:
        return dict(entry, allowedNetworks=flat)
    wireguard, service, pods = (
        _texts(given[key]) if key in given else [] for key in ("wireguard_cidrs", "service_cidrs", "pod_cidrs")
    )
    if len(wireguard) > 1:
        raise ValueError(f"{name} has several wireguard_cidrs; give clustermesh_allowed_networks")
    entry.update(podCIDRs=pods, wireguardCIDR=wireguard[0] if wireguard else "")
    if service:
        entry["serviceCIDR"] = service[0]
    more = service[1:] + (
        _texts(given["clustermesh_additional_cidrs"]) if "clustermesh_additional_cidrs" in given else []
    )
    if more:
        entry["additionalCIDRs"] = more
    return entry


def clustermesh_definition(
    hostvars: t.Any, groups: Groups, name: str, clusters_group: str = "clusters"
) -> dict[str, t.Any]:
    """The options ``meshes`` and ``node_cidrs`` of clustermesh_peers: one entry for each host of the clusters group.

    An entry is made of the variables ``pod_cidrs``, ``wireguard_cidrs``, ``service_cidrs``, ``wireguard_port`` and ``clustermesh_*``, or of
    ``clustermesh_allowed_networks`` alone. Raises ValueError for what makes no entry.
    """
    hostvars, groups = with_clusters(hostvars, groups, clusters_group)
    hosts = sorted(groups.get(clusters_group, ()))
    node_cidrs = {str(host): _texts(hostvars[host]["node_cidrs"]) for host in hosts if "node_cidrs" in hostvars[host]}
    return {
        "meshes": [{"name": str(name), "clusters": [_entry(str(host), hostvars[host]) for host in hosts]}],
        "node_cidrs": node_cidrs,
    }


class ClustermeshAction(InventoryAction):
    """What clustermesh_peers and clustermesh_info take from the inventory."""

    def fill(self, options: dict[str, t.Any], variables: t.Mapping[str, t.Any]) -> None:
        """The mesh of the inventory, unless the task or objects of a cluster define it."""
        name = options.get("name")
        if name:
            made = clustermesh_definition(self.hostvars, self.groups, name, self.clusters_group)
            options.setdefault("node_cidrs", made["node_cidrs"])
            if not options.get("meshes") and not options.get("management"):
                options["meshes"] = made["meshes"]
