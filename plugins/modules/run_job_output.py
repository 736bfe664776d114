#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_job_output
short_description: Export the results of a workflow's job to the next jobs
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Gives what C(ansible.builtin.set_stats) would, so that AWX passes it on to the jobs that follow, as extra variables. No file is shared.
  - The collection's playbooks C(slices.plan), C(slices.converge), C(slices.publish) and C(slices.verify) end with it.
  - Runs on the controller, without a connection. It never reports a change.
options:
  stage:
    description:
      - Of which job. V(plan) hands on the plan on which all agree, V(converge) what the hosts of this job reported of themselves and nobody has
        published, V(publish) the new plan and the clusters with nodes that get something new by it, V(verify) that all of it was proven.
    type: str
    choices: [plan, converge, publish, verify]
    required: true
  path:
    description: A file on the controller that receives the same as JSON, for C(-e @FILE) where nothing passes it on.
    type: path
extends_documentation_fragment:
  - multicluster.network._attributes.internal
  - multicluster.network._attributes.reads
"""

EXAMPLES = r"""
- name: Hand the plan on
  multicluster.network.run_job_output:
    stage: plan
  run_once: true
"""

RETURN = r"""
names:
  description: The variables that were exported.
  type: list
  elements: str
  returned: success
  sample: [multicluster_workflow]
"""
