# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clusters of the inventory that have a variable."""

from __future__ import annotations

DOCUMENTATION = r"""
name: clusters_with
short_description: List the clusters that have a variable
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Reads the hosts of the clusters group, or C(multicluster_fabric_clusters) where the clusters are no hosts.
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  variable:
    description: Name of the variable.
    type: str
    required: true
  groups:
    description: The variable C(groups).
    type: dict
    required: true
  clusters_group:
    description: Name of the group of the clusters.
    type: str
    default: clusters
"""

EXAMPLES = r"""
- name: Show the clusters that ClusterMesh objects define
  ansible.builtin.debug:
    msg: "{{ hostvars | multicluster.network.clusters_with('clustermesh_management', groups) }}"
"""

RETURN = r"""
_value:
  description: Names of clusters, sorted.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.plugin_utils import inventory


def clusters_with(
    hostvars: t.Any, variable: str, groups: t.Mapping[str, t.Any], clusters_group: str = "clusters"
) -> list[str]:
    """See DOCUMENTATION."""
    if not hasattr(hostvars, "__getitem__") or not isinstance(groups, t.Mapping):
        raise AnsibleFilterError("clusters_with: use it as hostvars | clusters_with(variable, groups)")
    hostvars, groups = inventory.with_clusters(hostvars, groups, clusters_group)
    return sorted(str(name) for name in groups.get(clusters_group, ()) if variable in hostvars[name])


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"clusters_with": clusters_with}
