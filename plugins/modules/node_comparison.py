#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: node_comparison
short_description: Gather information about what a run of the mesh would change on a node
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Reads a node and plans as M(multicluster.network.node_dataplane) does in check mode, whatever the mode of the run, and never reports a change.
options:
  fabric:
    description: Name of the fabric.
    type: str
    required: true
  node:
    description: Name of the node in messages.
    type: str
  mesh:
    description: The return value C(mesh) of M(multicluster.network.mesh_plan). The default is that of the run.
    type: dict
    default: {}
  device_settings:
    description: Settings of each device of the node in place of those of the plan.
    type: dict
    default: {}
  kubespan:
    description: The node's settings in a KubeSpan mesh.
    type: dict
    default: {}
  tables:
    description: Further tables of nftables of the node.
    type: list
    elements: dict
    default: []
  persist:
    description: Whether the node restores its mesh at boot.
    type: bool
    default: true
  adopt:
    description: Take over devices and routes of the program that the mesh replaces.
    type: bool
    default: false
  max_deletes:
    description: How many peers of one source may go in one run.
    type: int
  confirm_empty:
    description: Remote clusters of which it is right that no peer is left.
    type: list
    elements: str
    default: []
  accepted:
    description: Drop-ins, folders and settings that others made and that are right as they are.
    type: list
    elements: str
    default: []
  check_seconds:
    description: After how many seconds the comparison is given up.
    type: int
    default: 0
extends_documentation_fragment:
  - multicluster.network._attributes.internal
  - multicluster.network._attributes.reads
seealso:
  - module: multicluster.network.node_dataplane
"""

EXAMPLES = r"""
- name: Compare the node with the plan of the run
  multicluster.network.node_comparison:
    fabric: demo
"""

RETURN = r"""
differs:
  description: Whether a run would change the node.
  type: bool
  returned: always
  sample: true
paths:
  description: Devices, peers and routes that would change, as M(multicluster.network.node_dataplane) returns them.
  type: dict
  returned: when one of them would change
  sample: {links: {}, peers: [], routes: [{action: delete, device: wireguard.gcp, dst: 10.4.0.0/16}]}
"""
