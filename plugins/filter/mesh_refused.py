# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run of the mesh refused."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mesh_refused
short_description: What a run of the mesh refused, as lines
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Joins what the plan of the fabric refused with what each node refused. What many nodes refused is one line.
options:
  _input:
    description: The return value C(mesh) of M(multicluster.network.mesh_plan).
    type: dict
    required: true
  hostvars:
    description: The variable C(hostvars), in which hosts have the registered result of the node's role.
    type: dict
    required: true
  hosts:
    description: The hosts of the running play.
    type: list
    elements: str
    required: true
  register:
    description: Name of the registered variable.
    type: str
    default: __node_dataplane_r_converge
"""

EXAMPLES = r"""
- name: Show what was refused
  ansible.builtin.debug:
    msg: "{{ plan.mesh | multicluster.network.mesh_refused(hostvars, ansible_play_hosts_all) }}"
"""

RETURN = r"""
_value:
  description: The lines, none where nothing was refused.
  type: list
  elements: str
"""

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.refusals import lines


def mesh_refused(
    mesh: t.Mapping[str, t.Any], hostvars: t.Any, hosts: t.Sequence[str], register: str = "__node_dataplane_r_converge"
) -> t.List[str]:
    """See DOCUMENTATION."""
    by_host = {}
    for host in hosts:
        given = hostvars[host]
        if register in given and given[register].get("refused"):
            by_host[str(host)] = given[register]["refused"]
    return lines(mesh.get("refused") or (), by_host)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"mesh_refused": mesh_refused}
