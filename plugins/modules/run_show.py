#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: run_show
short_description: Print a result of the run
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Prints the lines of a result, or fails with what is wrong in it.
  - Runs on the controller, without a connection.
options:
  of:
    description: The module that had the result in this run.
    type: str
    choices: [mesh_plan.valid, run_outcome, mesh_report, fabric_status, fabric_preflight, trace_report, support_bundle]
    required: true
  fail:
    description: Print nothing, and fail where the result is not as it should be.
    type: bool
    default: false
  accept:
    description: Verdicts that are no failure.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - multicluster.network._attributes.internal
  - multicluster.network._attributes.reads
"""

EXAMPLES = r"""
- name: Print the state of the fabric
  multicluster.network.run_show:
    of: fabric_status
  run_once: true

- name: Fail unless the fabric is proven
  multicluster.network.run_show:
    of: fabric_status
    fail: true
    accept: [proven]
  run_once: true
"""

RETURN = r"""
msg:
  description: The lines, or what is wrong.
  type: raw
  returned: always
  sample: ["the fabric is proven"]
"""
