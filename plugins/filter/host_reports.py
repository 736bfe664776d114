# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts said of themselves in this run."""

from __future__ import annotations

DOCUMENTATION = r"""
name: host_reports
short_description: What hosts said of themselves in this run
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Takes public keys and announcements out of the registered results of M(multicluster.network.node_dataplane), for the option
    O(multicluster.network.mesh_plan#module:reported).
options:
  _input:
    description: The variable C(hostvars).
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
- name: Show what hosts said
  ansible.builtin.debug:
    msg: "{{ hostvars | multicluster.network.host_reports(ansible_play_hosts) }}"
"""

RETURN = r"""
_value:
  description: Host to annotations.
  type: dict
"""

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import publishing


def host_reports(hostvars: t.Any, hosts: t.Sequence[str], register: str = "__node_dataplane_r_converge") -> t.Dict[str, t.Any]:
    """See DOCUMENTATION."""
    results = {}
    for host in hosts:
        given = hostvars[host]
        if register in given:
            results[str(host)] = given[register]
    return publishing.host_reports(results)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"host_reports": host_reports}
