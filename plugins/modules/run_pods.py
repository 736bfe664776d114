#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_pods
short_description: Collect the pods that nodes have found in this run
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Nodes that are to reach these pods are notified of them by M(multicluster.network.node_dataplane).
  - Runs on the controller, without a connection.
extends_documentation_fragment:
  - multicluster.network._attributes.internal
  - multicluster.network._attributes.reads
"""

EXAMPLES = r"""
- name: Collect the pods
  multicluster.network.run_pods:
  run_once: true
"""

RETURN = r"""
pods:
  description: Host to addresses; a host that was not searched is not in it.
  type: dict
  returned: success
  sample: {aws-node-1: [10.2.3.10]}
count:
  description: How many hosts were searched.
  type: int
  returned: success
  sample: 1
"""
