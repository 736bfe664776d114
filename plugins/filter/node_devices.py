# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's part of the topology."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_devices
short_description: One node's WireGuard devices out of the fabric's topology
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Also for conditions of a play, which only a template can say, such as whether a node's part of a new plan differs from the old one.
  - Gives the option C(devices) of M(multicluster.network.node_dataplane) for one host.
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
- name: What this node is to have
  ansible.builtin.debug:
    msg: "{{ plan.mesh | multicluster.network.node_devices(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: The devices with their routes and peers, sorted by remote cluster.
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.generations import (
    node_devices as devices_of,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan


def node_devices(mesh: t.Mapping[str, t.Any], host: str) -> list[dict[str, t.Any]]:
    """See DOCUMENTATION."""
    try:
        return devices_of(MeshPlan.from_json(mesh), host)
    except (KeyError, TypeError) as err:
        raise AnsibleFilterError(f"node_devices: the topology does not know host {host}") from err


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"node_devices": node_devices}
