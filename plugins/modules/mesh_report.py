#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_report
short_description: Compute the verdict of a verification and its tables
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Joins what every node found, and what every capability's comparison found, with the topology. A verdict is V(proven),
    V(not proven) or V(broken); reasons name the nodes, peers and clusters concerned.
  - All of it is what the plays of a verification registered on hosts. Nodes and capabilities outside of C(--limit) are named as not
    asked and are no part of the verdict.
  - Runs on the controller, without a connection.
options:
  hosts:
    description: Hosts of the inventory that may be nodes. Those without C(multicluster_cluster) are left out.
    type: list
    elements: str
    required: true
  capabilities:
    description: The capabilities that the inventory asks for, each of which must have been compared.
    type: list
    elements: str
    default: []
  clusters_group:
    description: Group of the clusters' hosts in the inventory.
    type: str
    default: clusters
  allow_unproven:
    description: Count what is V(not proven) as good enough for C(ok).
    type: bool
    default: false
  full:
    description: Whether C(full) has every row. Of a large fabric that is a long text; without it C(full) is C(text).
    type: bool
    default: true
  path:
    description: File on the controller that receives C(full), outside of check mode.
    type: path
extends_documentation_fragment:
  - multicluster.network._attributes.internal
  - multicluster.network._attributes.reads
"""

EXAMPLES = r"""
- name: Judge what the plays of a verification found
  multicluster.network.mesh_report:
    hosts: "{{ groups['all'] | difference(groups['clusters']) }}"
  register: judged
  run_once: true

- name: Show the verdict
  ansible.builtin.debug:
    msg: "{{ judged.report.text.splitlines() }}"
  run_once: true
"""

RETURN = r"""
report:
  description:
    - C(verdict), C(ok), C(problems), C(warnings), C(parts) with the verdict of each capability, C(scope) with what was asked and what was not,
      C(text) with bounded tables, and C(full) with every row.
  type: dict
  returned: success
  sample: {verdict: proven, ok: true, problems: []}
"""
