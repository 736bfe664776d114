# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's part of the topology."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_kubespan
short_description: A host's part of a KubeSpan mesh
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - What M(multicluster.network.node_dataplane) takes as O(multicluster.network.node_dataplane#module:kubespan), without the
    settings of the host itself. Nothing in another mode of the mesh.
  - Also for conditions of a play, which only a template can say, such as whether a node's part of a new plan differs from the old one.
options:
  _input:
    description: The return value C(mesh) of M(multicluster.network.mesh_plan).
    type: dict
    required: true
  host:
    description: The host.
    type: str
    required: true
  settings:
    description: Further keys, those of the host itself.
    type: dict
    default: {}
positional: host, settings
"""

EXAMPLES = r"""
- name: Show how many nodes the mesh has
  ansible.builtin.debug:
    msg: "{{ (plan.mesh | multicluster.network.node_kubespan(inventory_hostname)).affiliates | default([]) | length }}"
"""

RETURN = r"""
_value:
  description: The host's part; an empty map in another mode.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kubespan import (
    node_kubespan as part_of,
)
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan


def node_kubespan(
    mesh: t.Mapping[str, t.Any], host: str, settings: t.Mapping[str, t.Any] | None = None
) -> dict[str, t.Any]:
    """See DOCUMENTATION."""
    try:
        part = part_of(MeshPlan.from_json(mesh), host)
    except (KeyError, TypeError) as err:
        raise AnsibleFilterError(f"node_kubespan: the topology does not know host {host}") from err
    if part is None:
        return {}
    return dict(part, **{key: value for key, value in (settings or {}).items() if value not in (None, "")})


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"node_kubespan": node_kubespan}
