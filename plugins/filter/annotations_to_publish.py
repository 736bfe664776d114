# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the mesh is not yet published in the clusters."""

from __future__ import annotations

DOCUMENTATION = r"""
name: annotations_to_publish
short_description: Node annotations that differ from what the clusters hold
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Joins the public keys that nodes reported with the topology. The result is empty on a converged fabric, so that
    nothing has to be asked of any cluster.
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
- name: Is anything unpublished
  ansible.builtin.debug:
    msg: "{{ plan.mesh | multicluster.network.annotations_to_publish(hostvars, ansible_play_hosts) }}"
"""

RETURN = r"""
_value:
  description: Cluster to node to annotations; the option C(annotations) of M(multicluster.network.node_annotations).
  type: dict
"""

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import kubespan as kubespan_plan, publishing


def annotations_to_publish(
    mesh: t.Mapping[str, t.Any],
    hostvars: t.Any,
    hosts: t.Sequence[str],
    register: str = "__node_dataplane_r_converge",
) -> t.Dict[str, t.Any]:
    """See DOCUMENTATION."""
    keys, announced, harvested = {}, {}, {}
    for host in hosts:
        given = hostvars[host]
        result = given[register] if register in given else {}
        if result.get("public_keys"):
            keys[str(host)] = result["public_keys"]
        if result.get("kubespan"):
            announced[str(host)] = result["kubespan"]["annotations"]
            harvested[str(host)] = result["kubespan"].get("harvested")
    if mesh.get("mode") == kubespan_plan.MODE:
        return kubespan_plan.annotations_to_publish(mesh, announced, harvested)
    return publishing.annotations_to_publish(mesh, keys)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"annotations_to_publish": annotations_to_publish}
