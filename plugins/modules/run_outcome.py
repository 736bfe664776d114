#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_outcome
short_description: Report the outcome of a run, by cluster and capability
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Joins the results that the run has kept. A broken capability or cluster does not stop the others, so a run that
    collected failures has to fail at its end. The playbooks of the collection do that with this module, which itself does not fail without O(failures_only).
  - Runs on the controller, without a connection.
options:
  capabilities:
    description: What the run was asked for, in the order of the table's columns.
    type: list
    elements: str
    required: true
  failures_only:
    description: Only return RV(errors) of clusters that could not be read or written for the capabilities, and fail when there is one.
    type: bool
    default: false
  left:
    description: Whether RV(text) begins with what the playbook leave has left behind.
    type: bool
    default: false
  clusters_group:
    description: Group of the clusters' hosts in the inventory.
    type: str
    default: clusters
extends_documentation_fragment:
  - multicluster.network._attributes.internal
  - multicluster.network._attributes.reads
"""

EXAMPLES = r"""
- name: Join the results of the run
  multicluster.network.run_outcome:
    capabilities: [mesh, service_mirror]
  register: outcome
  run_once: true

- name: Report the outcome
  ansible.builtin.debug:
    msg: "{{ outcome.text }}"
  failed_when: not outcome.ok
  run_once: true
"""

RETURN = r"""
ok:
  description: Whether nothing failed.
  type: bool
  returned: success
  sample: false
cells:
  description: Cluster to capability to how it went.
  type: dict
  returned: success
  sample: {aws: {mesh: ok}, gcp: {mesh: "failed: unreachable"}}
errors:
  description: A line for each error.
  type: list
  elements: str
  returned: success
  sample: ["mesh, cluster gcp: cannot list nodes: connection refused [source_incomplete]"]
at_fault:
  description: Clusters that errors name.
  type: list
  elements: str
  returned: success
  sample: [gcp]
text:
  description: The table, the errors, and what was refused, as lines that fit a screen.
  type: list
  elements: str
  returned: success
  sample: ["CLUSTER  MESH", "gcp      failed: unreachable", "aws      ok"]
"""
