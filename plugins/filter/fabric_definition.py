# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric as the inventory defines it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_definition
short_description: Collect the fabric's clusters and nodes from the inventory
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Reads every host of the clusters group and every host with multicluster_cluster, and gives the options
    C(clusters) and C(definition) of M(multicluster.network.mesh_plan).
  - Modules with O(multicluster.network.mesh_plan#module:clusters_group) ask the inventory themselves. The filter is for tasks of other modules and
    for variables, such as C(reconciler_clusters), which a template on another host needs.
  - Hosts outside C(--limit) take part, because the topology is the inventory's and not that of the running play.
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  groups:
    description: The variable C(groups).
    type: dict
    required: true
  clusters_group:
    description: Name of the group of the clusters' hosts.
    type: str
    default: clusters
"""

EXAMPLES = r"""
- name: Which nodes does the fabric have
  ansible.builtin.debug:
    msg: "{{ (hostvars | multicluster.network.fabric_definition(groups)).definition.nodes | list }}"
"""

RETURN = r"""
_value:
  description: C(clusters) with the access to each, and C(definition), as the options of M(multicluster.network.mesh_plan).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.plugin_utils import inventory


def fabric_definition(
    hostvars: t.Any, groups: t.Mapping[str, t.Any], clusters_group: str = "clusters"
) -> dict[str, t.Any]:
    """See DOCUMENTATION."""
    if not hasattr(hostvars, "__getitem__") or not isinstance(groups, t.Mapping):
        raise AnsibleFilterError("fabric_definition: use it as hostvars | fabric_definition(groups)")
    definition = inventory.fabric_definition(hostvars, groups, clusters_group)
    return {"clusters": inventory.cluster_access(hostvars, groups, clusters_group), "definition": definition}


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"fabric_definition": fabric_definition}
