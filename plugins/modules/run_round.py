#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: run_round
short_description: Check whether another round of the tenants is needed
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - What one side changed in a round, the other carries on in the next.
  - Runs on the controller, without a connection.
options:
  rounds:
    description: The most rounds.
    type: int
    required: true
extends_documentation_fragment:
  - multicluster.network._attributes.internal
  - multicluster.network._attributes.reads
"""

EXAMPLES = r"""
- name: See whether another round is needed
  multicluster.network.run_round:
    rounds: 6
  register: tenants_round
"""

RETURN = r"""
number:
  description: How many rounds there were.
  type: int
  returned: success
  sample: 1
again:
  description: Whether another one is needed, and allowed.
  type: bool
  returned: success
  sample: false
"""
