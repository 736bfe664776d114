#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: run_guard
short_description: Refuse a run that its variables do not allow
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Fails with the variable and what to write, before anything is written.
  - Runs on the controller, without a connection.
options:
  guard:
    description:
      - V(former_tags) refuses tags and V(former_names) values of variables that capabilities and playbooks had once.
      - V(leave) refuses a playbook leave that does not name who leaves, V(leave_others) its second half where another cluster could not be written.
      - V(workflow_proven) refuses the end of a workflow that did not prove the fabric.
      - V(tenants_limit) refuses a limit that leaves out one side of the tenants.
    type: str
    choices: [former_tags, former_names, leave, leave_others, tenants_limit, workflow_proven]
    required: true
  names:
    description: Variables and their values, for V(former_names).
    type: dict
    default: {}
  clusters:
    description: The two sides, for V(tenants_limit).
    type: list
    elements: str
    default: []
  clusters_group:
    description: Group of the inventory that has the clusters as hosts.
    type: str
    default: clusters
extends_documentation_fragment:
  - multicluster.network._attributes.internal
  - multicluster.network._attributes.reads
"""

EXAMPLES = r"""
- name: Refuse a playbook by a name that it had once
  multicluster.network.run_guard:
    guard: former_names
    names:
      playbook_timer_playbook: load_balancers
"""

RETURN = r"""
# Nothing but what every module returns.
"""
