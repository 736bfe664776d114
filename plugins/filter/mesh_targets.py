# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom a node's pods shall reach."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mesh_targets
short_description: The pods of other clusters that a node shall reach
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Gives the option C(targets) of M(multicluster.network.node_probe) from the pods that all nodes of the play found, which
    M(multicluster.network.run_pods) collects once.
options:
  _input:
    description: The return value C(mesh) of M(multicluster.network.mesh_plan).
    type: dict
    required: true
  pods:
    description: Host to addresses of the pods that were found there.
    type: dict
    required: true
  host:
    description: The host that asks.
    type: str
    required: true
positional: pods, host
"""

EXAMPLES = r"""
- name: Whom to reach from here
  ansible.builtin.debug:
    msg: "{{ plan.mesh | multicluster.network.mesh_targets({'gcp-node-1': ['10.4.7.10']}, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: Nodes and addresses.
  type: list
  elements: dict
"""

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import report


def mesh_targets(mesh: t.Mapping[str, t.Any], pods: t.Mapping[str, t.Sequence[str]], host: str) -> list[dict[str, str]]:
    """See DOCUMENTATION."""
    return report.targets(MeshPlan.from_json(mesh), pods, host)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"mesh_targets": mesh_targets}
