#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_rotation
short_description: Choose the next step of a run of rotate_keys
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - With V(begin) refuses what cannot be rotated without loss, and returns what the run does. With any other step it makes sure that all nodes have done the
    one before it, and sets the order for the plans of the mesh that follow. V(end) sets none.
  - Runs on the controller, without a connection.
options:
  step:
    description: The step.
    type: str
    choices: [begin, prepare, aside, renew, back, done, end]
    required: true
  state:
    description: V(finished) goes on to the end, V(abandoned) makes no further key and takes away what an earlier run has begun.
    type: str
    choices: [finished, abandoned]
    default: finished
  nodes:
    description: Hosts, groups and clusters that get new keys. Without it, all nodes.
    type: list
    elements: str
    default: []
  older_than:
    description:
      - An age such as V(90d) or V(12h). Only nodes with a key that is older get new keys, and only those of one cluster, the one with the oldest key. Needs
        the results of M(multicluster.network.node_info) of all nodes in the run.
      - Where an earlier run has begun a rotation, it is ended first, and no further node gets new keys.
    type: str
    default: ""
  in_place:
    description: Whether the key towards nodes that this inventory does not manage may change in place, which loses packets of these pairs.
    type: bool
    default: false
  wait_seconds:
    description: How long a node waits for the handshakes that a step needs, or for the last packet of a device that goes.
    type: float
    default: 120
  drain_seconds:
    description: For how many seconds a bypass device must have received nothing before it goes.
    type: float
    default: 50
extends_documentation_fragment:
  - multicluster.network._attributes.internal
  - multicluster.network._attributes.reads
"""

EXAMPLES = r"""
- name: Give the run its next step
  multicluster.network.run_rotation:
    step: prepare
"""

RETURN = r"""
order:
  description: What the plans that follow are asked for, C(step) and C(hosts). An empty step leaves the rotation as it is.
  type: dict
  returned: success
  sample: {step: prepare, hosts: [aws-node-1]}
waits:
  description: How long nodes wait before the step, C(timeout) and C(quiet_seconds).
  type: dict
  returned: for a step
  sample: {timeout: 120.0, quiet_seconds: 50.0}
msg:
  description: What the run does, as lines.
  type: list
  elements: str
  returned: for V(begin)
  sample: ["new keys for 4 nodes; the bypass devices listen on UDP port 52821"]
"""
