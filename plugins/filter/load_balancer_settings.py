# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory says of load balancing."""

from __future__ import annotations

DOCUMENTATION = r"""
name: load_balancer_settings
short_description: Collect the settings of every cluster's load balancing from the inventory
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Gives the option C(settings) of M(multicluster.network.load_balancers).
  - A host of the clusters group takes part when it has the variable C(load_balancers_settings), whose keys are those of the option.
  - Its nodes' BGP facts come from their variables C(bgp_speaker_source_ip), C(bgp_speaker_asn) and C(bgp_speaker_neighbors), unless the
    settings have C(bgp_nodes). C(bgp_speakers) names those that have neighbours.
  - A cluster with a variable that cannot be used has C(wrong) in place of its settings, a sentence about what to mend. The module leaves it out,
    handles the others, and fails at its end.
  - C(reserved_ranges) has what no Service may name. These are the ranges of all clusters, the pools of the others, and the addresses of nodes
    (C(ansible_host), C(bgp_speaker_source_ip)), routers (C(bgp_speaker_neighbors)) and control planes (C(control_plane_address_ip)).
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
    description: Name of the group whose hosts are the clusters.
    type: str
    default: clusters
"""

EXAMPLES = r"""
- name: Which clusters have load balancing
  ansible.builtin.debug:
    msg: "{{ hostvars | multicluster.network.load_balancer_settings(groups) | map(attribute='cluster') }}"
"""

RETURN = r"""
_value:
  description: One dictionary for each cluster that has settings.
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.plugin_utils import load_balancer_settings as inventory


def load_balancer_settings(hostvars: t.Any, groups: t.Mapping[str, t.Any], clusters_group: str = "clusters") -> t.List[t.Dict[str, t.Any]]:
    """See DOCUMENTATION."""
    if not hasattr(hostvars, "__getitem__") or not isinstance(groups, t.Mapping):
        raise AnsibleFilterError("load_balancer_settings: use it as hostvars | load_balancer_settings(groups)")
    return inventory.load_balancer_settings(hostvars, groups, clusters_group)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"load_balancer_settings": load_balancer_settings}
