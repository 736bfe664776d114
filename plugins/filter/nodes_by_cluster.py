# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts as the nodes of their clusters."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nodes_by_cluster
short_description: Group hosts by cluster, under the names of their Node objects
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Gives cluster to node to an empty mapping, the form in which M(multicluster.network.node_annotations) takes the nodes
    from which everything of the fabric is to go.
options:
  _input:
    description: The return value C(mesh) of M(multicluster.network.mesh_plan).
    type: dict
    required: true
  hosts:
    description: The hosts of the play.
    type: list
    elements: str
    required: true
  whole:
    description: Only clusters all of whose nodes are among O(hosts).
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Who leaves
  ansible.builtin.debug:
    msg: "{{ plan.mesh | multicluster.network.nodes_by_cluster(ansible_play_hosts) }}"
"""

RETURN = r"""
_value:
  description: Cluster to node to an empty mapping.
  type: dict
"""

import typing as t


def nodes_by_cluster(
    mesh: t.Mapping[str, t.Any], hosts: t.Sequence[str], whole: bool = False
) -> t.Dict[str, t.Dict[str, t.Dict[str, t.Any]]]:
    """See DOCUMENTATION."""
    grouped: t.Dict[str, t.Dict[str, t.Dict[str, t.Any]]] = {}
    for host, node in mesh["nodes"].items():
        if host in hosts:
            grouped.setdefault(node["cluster"], {})[node["node_name"]] = {}
    if whole:
        stay = {node["cluster"] for host, node in mesh["nodes"].items() if host not in hosts}
        grouped = {cluster: nodes for cluster, nodes in grouped.items() if cluster not in stay}
    return grouped


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"nodes_by_cluster": nodes_by_cluster}
