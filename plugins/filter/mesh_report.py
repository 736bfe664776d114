# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of a verification."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mesh_report
short_description: Judge a verification of the mesh and draw its tables
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Joins what every node found with the topology. Problems name the nodes and peers concerned.
options:
  _input:
    description: The return value C(mesh) of M(multicluster.network.mesh_plan).
    type: dict
    required: true
  hostvars:
    description: The variable C(hostvars), in which hosts have the registered results of the verification.
    type: dict
    required: true
  hosts:
    description: The hosts that should have been verified.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show the verdict
  ansible.builtin.debug:
    msg: "{{ (plan.mesh | multicluster.network.mesh_report(hostvars, ansible_play_hosts_all)).text.splitlines() }}"
"""

RETURN = r"""
_value:
  description: C(ok), C(problems), C(warnings) and C(text).
  type: dict
"""

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._mesh import report


def mesh_report(mesh: t.Mapping[str, t.Any], hostvars: t.Any, hosts: t.Sequence[str]) -> t.Dict[str, t.Any]:
    """See DOCUMENTATION."""
    found: t.Dict[str, t.Dict[str, t.Any]] = {}
    for host in hosts:
        if host not in mesh["nodes"]:
            continue
        given = hostvars[host]
        probe = given["__mesh_r_probe"] if "__mesh_r_probe" in given else {}
        drift = given["__node_dataplane_r_converge"] if "__node_dataplane_r_converge" in given else {}
        found[str(host)] = {"drift": drift, "probe": probe} if "pings" in probe else {}
    return report.build(mesh, found)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"mesh_report": mesh_report}
