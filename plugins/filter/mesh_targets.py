# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom a node's pods shall reach."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mesh_targets
short_description: The pods of other clusters that a node shall reach
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Gives the option C(targets) of M(multicluster.network.node_probe) from the pods that all nodes of the play found.
options:
  _input:
    description: The return value C(mesh) of M(multicluster.network.mesh_plan).
    type: dict
    required: true
  hostvars:
    description: The variable C(hostvars), in which hosts have the registered pods.
    type: dict
    required: true
  hosts:
    description: The hosts of the play.
    type: list
    elements: str
    required: true
  host:
    description: The host that asks.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Whom to reach from here
  ansible.builtin.debug:
    msg: "{{ plan.mesh | multicluster.network.mesh_targets(hostvars, ansible_play_hosts, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: Nodes and addresses.
  type: list
  elements: dict
"""

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._status import report


def mesh_targets(mesh: t.Mapping[str, t.Any], hostvars: t.Any, hosts: t.Sequence[str], host: str) -> t.List[t.Dict[str, str]]:
    """See DOCUMENTATION."""
    pods = {}
    for name in hosts:
        given = hostvars[name]
        if "__mesh_r_pods" in given:
            pods[str(name)] = given["__mesh_r_pods"].get("pods") or []
    return report.targets(mesh, pods, host)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"mesh_targets": mesh_targets}
