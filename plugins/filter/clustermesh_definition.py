# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mesh of Kilo clusters as the inventory says it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: clustermesh_definition
short_description: Make the definition of a Kilo cluster mesh from the inventory
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Makes one entry for each host of the clusters group, from the variables C(pod_cidrs), C(wireguard_cidrs), C(service_cidrs),
    C(wireguard_port), C(clustermesh_additional_cidrs), C(clustermesh_keepalive) and C(clustermesh_endpoint_policy), or from
    C(clustermesh_allowed_networks) alone.
  - Hosts outside C(--limit) take part, because a mesh is the inventory's and not that of the running play.
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  groups:
    description: The variable C(groups).
    type: dict
    required: true
  name:
    description: Name of the mesh.
    type: str
    required: true
  clusters_group:
    description: Name of the group whose hosts are the clusters.
    type: str
    default: clusters
"""

EXAMPLES = r"""
- name: Which ranges does each cluster contribute
  ansible.builtin.debug:
    msg: "{{ (hostvars | multicluster.network.clustermesh_definition(groups, 'prod')).meshes }}"
"""

RETURN = r"""
_value:
  description: C(meshes) and C(node_cidrs), as the options of M(multicluster.network.clustermesh_peers).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

#: Variable of a cluster's host -> field of its entry.
_FIELDS = (
    ("wireguard_port", "wireguardPort"),
    ("clustermesh_keepalive", "persistentKeepalive"),
    ("clustermesh_endpoint_policy", "endpoint_policy"),
)


def _texts(value: t.Any) -> t.List[str]:
    if value is None or value == "":
        return []
    return [str(value)] if isinstance(value, str) else [str(item) for item in value]


def _entry(name: str, given: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    entry: t.Dict[str, t.Any] = {"name": name}
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
        raise AnsibleFilterError(
            "clustermesh_definition: {0} has several wireguard_cidrs; give clustermesh_allowed_networks".format(name)
        )
    entry.update(podCIDRs=pods, wireguardCIDR=wireguard[0] if wireguard else "")
    if service:
        entry["serviceCIDR"] = service[0]
    more = service[1:] + (_texts(given["clustermesh_additional_cidrs"]) if "clustermesh_additional_cidrs" in given else [])
    if more:
        entry["additionalCIDRs"] = more
    return entry


def clustermesh_definition(
    hostvars: t.Any, groups: t.Mapping[str, t.Any], name: str, clusters_group: str = "clusters"
) -> t.Dict[str, t.Any]:
    """See DOCUMENTATION."""
    if not hasattr(hostvars, "__getitem__") or not isinstance(groups, t.Mapping):
        raise AnsibleFilterError("clustermesh_definition: use it as hostvars | clustermesh_definition(groups, name)")
    hosts = sorted(groups.get(clusters_group, ()))
    try:
        entries = [_entry(str(host), hostvars[host]) for host in hosts]
    except (TypeError, ValueError) as err:
        raise AnsibleFilterError("clustermesh_definition: {0}".format(err)) from err
    node_cidrs = {str(host): _texts(hostvars[host]["node_cidrs"]) for host in hosts if "node_cidrs" in hostvars[host]}
    return {"meshes": [{"name": str(name), "clusters": entries}], "node_cidrs": node_cidrs}


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"clustermesh_definition": clustermesh_definition}
