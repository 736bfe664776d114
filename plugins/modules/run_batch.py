#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_batch
short_description: Check whether every node of a batch is reached after its change
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Part of the role node_dataplane of this collection, which keeps the changes of a batch, or takes all of them back.
  - It is about changes that M(multicluster.network.node_dataplane) made in the same run and that wait for their confirmation.
options:
  step:
    description:
      - V(reach) opens a new connection to the node and keeps whether it answered within a third of the time that it waits. It never fails.
      - V(judge) fails on every node of the batch when one of them was not reached, or failed.
    type: str
    choices: [reach, judge]
    required: true
extends_documentation_fragment:
  - multicluster.network._attributes.internal
  - multicluster.network._attributes.reads
"""

EXAMPLES = r"""
- name: Reach the node over a new connection
  multicluster.network.run_batch:
    step: reach

- name: Fail where a node of the batch is lost
  multicluster.network.run_batch:
    step: judge
"""

RETURN = r"""
reached:
  description: Whether the node answered.
  type: bool
  returned: for O(step=reach)
  sample: true
lost:
  description: Hosts of the batch that are lost.
  type: list
  elements: str
  returned: for O(step=judge)
  sample: []
missed:
  description: What the node missed.
  type: str
  returned: when the node is lost
  sample: it did not answer over a fresh connection within 20 s
patience:
  description: Seconds until the node has put back what it had.
  type: int
  returned: when the node is lost
  sample: 120
"""
