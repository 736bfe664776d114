# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Options of the modules that look at a whole fabric."""

from __future__ import annotations


class ModuleDocFragment:
    """What was read and planned before, joined by the module."""

    DOCUMENTATION = r"""
options:
  fabric:
    description: Name of the fabric.
    type: str
    required: true
  nodes:
    description: Host to C(node) of M(multicluster.network.node_info), or to nothing for a host that did not answer.
    type: dict
    default: {}
  node_plans:
    description: Host to the result of M(multicluster.network.node_dataplane) in check mode.
    type: dict
    default: {}
  plans:
    description: Name of a capability to the result of its module in check mode.
    type: dict
    default: {}
  hosts:
    description: >-
      Hosts of the inventory that are nodes. What plays registered about them and about the clusters is taken in place of O(nodes),
      O(node_plans), O(plans) and, where the module has it, the mesh. A host without a result is kept, as one that did not answer.
    type: list
    elements: str
    default: []
  facts:
    description: >-
      The same as one text, made of O(hosts) on the way to the module. It wins over them.
      Ansible looks at every value of a module's arguments, which takes minutes for hundreds of nodes.
    type: str
"""
