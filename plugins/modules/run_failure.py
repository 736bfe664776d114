#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_failure
short_description: Record a failure that does not stop the run
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - M(multicluster.network.run_outcome) reports what was recorded at the end of the run, and fails it.
  - Runs on the controller, without a connection.
options:
  capability:
    description: Name of the capability that failed.
    type: str
    required: true
  message:
    description: Reason of the failure.
    type: str
    default: ""
  of_node:
    description: Whether the capability failed on the node of the task alone.
    type: bool
    default: false
extends_documentation_fragment:
  - multicluster.network._attributes.internal
  - multicluster.network._attributes.reads
"""

EXAMPLES = r"""
- name: Record that the capability failed
  multicluster.network.run_failure:
    capability: service_mirror
    message: "gcp: connection refused"
"""

RETURN = r"""
# Nothing but what every module returns.
"""
