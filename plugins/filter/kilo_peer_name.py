# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of a Kilo Peer."""

from __future__ import annotations

DOCUMENTATION = r"""
name: kilo_peer_name
short_description: Name of the Peer of a node in a mesh of clusters
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Mesh, cluster and node, joined by two dashes and made a valid name. A name of more than 253 characters is cut and ends in a hash.
options:
  _input:
    description: Name of the node.
    type: str
    required: true
  mesh:
    description: Name of the mesh.
    type: str
    required: true
  cluster:
    description: Name of the node's cluster.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Name of a Peer
  ansible.builtin.debug:
    msg: "{{ 'eu-1' | multicluster.network.kilo_peer_name('prod', 'eu') }}"
"""

RETURN = r"""
_value:
  description: The name.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.peers import peer_name


def kilo_peer_name(node: t.Any, mesh: str, cluster: str) -> t.Any:
    """See DOCUMENTATION."""
    if not isinstance(node, str):
        raise AnsibleFilterError("kilo_peer_name: the node is given by its name")
    return peer_name(str(mesh), str(cluster), node)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"kilo_peer_name": kilo_peer_name}
