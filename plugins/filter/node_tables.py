# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's tables of nftables by the topology."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_tables
short_description: One node's tables of nftables out of the fabric's topology
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Gives tables for the option C(tables) of M(multicluster.network.node_dataplane) for one host. This is the table that keeps addresses of
    pods towards other clusters, unless the variable C(keep_pod_addresses) of the cluster is V(false).
options:
  _input:
    description: The return value C(mesh) of M(multicluster.network.mesh_plan).
    type: dict
    required: true
  host:
    description: Inventory name of the node.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the tables of this node
  ansible.builtin.debug:
    msg: "{{ plan.mesh | multicluster.network.node_tables(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: The tables, as the option C(tables) of M(multicluster.network.node_dataplane) takes them.
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kept_addresses import kept_table
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan


def node_tables(mesh: t.Mapping[str, t.Any], host: str) -> list[dict[str, t.Any]]:
    """See DOCUMENTATION."""
    try:
        table = kept_table(MeshPlan.from_json(mesh), host)
    except (KeyError, TypeError) as err:
        raise AnsibleFilterError(f"node_tables: the topology does not know host {host}") from err
    return [] if table is None else [table]


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"node_tables": node_tables}
