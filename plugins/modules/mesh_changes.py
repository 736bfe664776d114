#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_changes
short_description: Compare the paths between nodes before and after a change of the mesh
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Compares the paths of the mesh as nodes were read with those of the plan of the run, by classes of pairs of nodes for which the same is decided.
  - Fails before the first write of a run that would lose more pairs than O(max_lost_pairs).
  - Runs on the controller, without a connection.
options:
  step:
    description:
      - V(judge) fails where too many pairs would be lost. It has read the nodes that the plan could take paths from.
      - V(show) prints what a run in check mode found on all of its nodes.
    type: str
    choices: [judge, show]
    required: true
  max_lost_pairs:
    description: How many pairs of nodes a run may lose without confirmation. A negative number is any.
    type: int
    default: 0
  confirm_lost:
    description: Names of classes that may be lost, as C(classes) of RV(reachability) has them.
    type: list
    elements: str
    default: []
  plan_file:
    description: File on the controller with the plan as JSON, which receives all classes as C(reachability).
    type: path
  page:
    description: File on the controller that receives the drawing of the fabric as a page of HTML, with what would be lost in red.
    type: path
extends_documentation_fragment:
  - multicluster.network._attributes.internal
  - multicluster.network._attributes.reads
"""

EXAMPLES = r"""
- name: Stop before paths are lost
  multicluster.network.mesh_changes:
    step: judge
  run_once: true
"""

RETURN = r"""
reachability:
  description:
    - Pairs of nodes by what changes for them, C(lost), C(risked), C(still_broken), C(moved) and C(gained), each counted once.
    - C(classes) has all of them with an example and its first hop, C(stops) the names of those for which the run stops, C(unproven) hosts that could
      not be compared, and C(lines) what the screen shows.
    - C(stages) are pairs that have a path before and after and may have none on the way, with the steps of the run that begin and end that, and
      C(seconds), for how long that is at most.
  type: dict
  returned: always
  sample:
    lost: 1
    risked: 0
    still_broken: 0
    moved: 0
    gained: 0
    unproven: []
    stops: [outside_grant/aws/gcp]
    message: ""
    lines: []
    stages: []
    classes:
      - class: outside_grant/aws/gcp
        kind: lost
        cause: outside_grant
        from: aws
        to: gcp
        pairs: 1
        example: {from: aws-node-1, to: gcp-node-1}
        first_hop: wireguard.gcp
        message: ""
"""
