#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: run_survey
short_description: Read the answers of a survey of AWX
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Returns values of roles' variables for the variables C(awx_*) of the run. An answer that is empty, or V(inventory), is left to the inventory.
  - Runs on the controller, without a connection.
extends_documentation_fragment:
  - multicluster.network._attributes.internal
  - multicluster.network._attributes.reads
"""

EXAMPLES = r"""
- name: Read the answers of the survey
  multicluster.network.run_survey:
  register: survey
"""

RETURN = r"""
answers:
  description: Values by the variables of roles.
  type: dict
  returned: success
  sample: {"mesh_adopt": true}
"""
